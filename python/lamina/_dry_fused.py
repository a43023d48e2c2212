# SPDX-License-Identifier: Apache-2.0
"""What some operators run on the CPU, one operator after the other, so that a dry run sees the work inside as
a real run does: torch's two fused attention kernels, and writing by index."""

from __future__ import annotations

import sys
from typing import Any


def _aten() -> Any:
    return sys.modules["torch"].ops.aten


def attention(
    query: Any,
    key: Any,
    value: Any,
    embed: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """aten::_native_multi_head_attention."""
    aten = _aten()
    qkv = _projected(query, key, value, embed, qkv_weight)
    q, k, v = aten._transform_bias_rescale_qkv(qkv, qkv_bias, heads)
    del qkv
    b, h, t, d = q.shape
    s = k.shape[2]
    flat, keys = q.view(-1, t, d), k.view(-1, s, d)
    scores = aten.bmm(flat, keys.transpose(2, 1)).view(b, h, t, s)
    if mask is None:
        aten._softmax.out(scores, 3, False, out=scores)  # noqa: FBT003
    else:
        torch = sys.modules["torch"]
        scores = aten._masked_softmax(scores, mask.to(torch.bool), 3, mask_type)
    weights, values = scores.view(-1, t, s), v.reshape(-1, s, d)
    context = aten.bmm.out(weights, values, out=flat) if t == s else aten.bmm(weights, values)
    del weights
    if not need_weights:
        del scores
    rows = context.view(b, h, t, d).permute(0, 2, 1, 3).contiguous().view(b, t, -1).view(-1, embed)
    out = aten.addmm(bias, rows, weight.t()).view(b, t, weight.shape[0])
    if not need_weights:
        return out, None
    return out, aten.div_.Scalar(scores.sum(1), heads) if average else scores


def _projected(query: Any, key: Any, value: Any, embed: int, weight: Any) -> Any:
    aten = _aten()
    if key is value and query is key:
        return aten.matmul(query, weight.t())
    if key is value:
        own, others = weight.split_with_sizes([embed, len(weight) - embed], 0)  # not a count: rows
        parts = [aten.matmul(query, own.t()), aten.matmul(key, others.t())]
    else:
        parts = [aten.matmul(x, w.t()) for x, w in zip((query, key, value), weight.chunk(3, 0), strict=True)]
    return aten.cat(parts, 2)


def encoder_layer(
    x: Any,
    embed: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    weight: Any,
    bias: Any,
    by_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    weight_1: Any,
    bias_1: Any,
    weight_2: Any,
    bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """aten::_transformer_encoder_layer_fwd."""
    aten = _aten()

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return aten.layer_norm(x, [embed], weight, bias, eps, True)  # noqa: FBT003

    first = norm(x, norm_weight_1, norm_bias_1) if norm_first else x
    y = aten._native_multi_head_attention(
        *(first, first, first, embed, heads, qkv_weight, qkv_bias, weight, bias, mask, False, True, mask_type)
    )[0]
    y = y.add_(x)
    if not norm_first:
        y = norm(y, norm_weight_1, norm_bias_1)
    b, t, _ = y.shape
    rows = (norm(y, norm_weight_2, norm_bias_2) if norm_first else y).view(-1, embed)
    hidden = aten._addmm_activation(bias_1, rows, weight_1.t(), use_gelu=by_gelu).view(b, t, -1)
    z = aten.addmm(bias_2, hidden.view(-1, hidden.shape[2]), weight_2.t()).view(b, t, -1)
    z = z.add_(y)
    return z if norm_first else norm(z, norm_weight_2, norm_bias_2)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """aten::index_put. Under a mode torch's gradient of an index takes it in the place of what writes to new
    zeros directly, and so copies them first; without one it does not."""
    torch, aten = sys.modules["torch"], _aten()
    node = getattr(torch._C, "_current_autograd_node", lambda: None)()
    if node is not None and node.name().startswith("IndexBackward"):
        return aten._index_put_impl_(x, indices, values, accumulate, True)  # noqa: FBT003
    return aten.index_put_(aten.clone(x), indices, values, accumulate)


def soft_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """aten::soft_margin_loss, which on the CPU writes over one tensor."""
    aten = _aten()
    each = aten.neg(x).mul_(target).exp_().log1p_()
    if reduction == 0:
        return each
    return aten.empty((), dtype=x.dtype).copy_(each.mean() if reduction == 1 else each.sum())


FUSED = {
    "aten::soft_margin_loss": soft_margin_loss,
    "aten::index_put": index_put,
    "aten::_native_multi_head_attention": attention,
    "aten::_transformer_encoder_layer_fwd": encoder_layer,
}
