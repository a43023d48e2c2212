# SPDX-License-Identifier: Apache-2.0
"""The operators inside some CPU operators, one after the other, so that a dry run sees the same work as a
real run: torch's two fused attention kernels, and writing by index."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .layouts import in_columns
from .running import running, since

if TYPE_CHECKING:
    from collections.abc import Callable


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
    del rows
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

    def forward(x: Any) -> Any:
        b, t, _ = x.shape
        hidden = aten._addmm_activation(bias_1, x.view(-1, embed), weight_1.t(), use_gelu=by_gelu)
        return aten.addmm(bias_2, hidden, weight_2.t()).view(b, t, -1)

    # Each name releases its previous value, as in torch's own function, because memory may be followed.
    y = norm(x, norm_weight_1, norm_bias_1) if norm_first else x
    y = aten._native_multi_head_attention(
        *(y, y, y, embed, heads, qkv_weight, qkv_bias, weight, bias, mask, False, True, mask_type)
    )[0]
    y = y.add_(x)
    if not norm_first:
        y = norm(y, norm_weight_1, norm_bias_1)
    z = norm(y, norm_weight_2, norm_bias_2) if norm_first else y
    z = forward(z)
    z = z.add_(y)
    return z if norm_first else norm(z, norm_weight_2, norm_bias_2)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """aten::index_put. Under a mode, torch's gradient of an index uses it and so copies new zeros first;
    without a mode another operator writes to them directly."""
    torch, aten = sys.modules["torch"], _aten()
    node = torch._C._current_autograd_node()
    if node is not None and node.name().startswith("IndexBackward"):
        return aten._index_put_impl_(x, indices, values, accumulate, True)  # noqa: FBT003
    return aten.index_put_(aten.clone(x), indices, values, accumulate)


def soft_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """aten::soft_margin_loss, which on the CPU overwrites one tensor."""
    aten = _aten()
    each = aten.neg(x).mul_(target).exp_().log1p_()
    if reduction == 0:
        return each
    return aten.empty((), dtype=x.dtype).copy_(each.mean() if reduction == 1 else each.sum())


def soft_margin_loss_backward(grad: Any, x: Any, target: Any, reduction: int) -> Any:
    """aten::soft_margin_loss_backward, which uses the memory of its result for intermediate values."""
    aten = _aten()
    share = 1 / x.numel() if reduction == 1 and x.numel() else 1.0  # not a count: of the mean
    out = aten.empty_like(x)
    less = aten.neg(target)
    product = aten.mul(less, x)
    z = aten.exp(product)
    del less, product  # alive until here, as in C++
    aten.mul_.Scalar(aten.mul.out(target, z, out=out), -share)
    aten.add_.Scalar(z, 1)
    return aten.mul_.Tensor(aten.div_.Tensor(out, z), grad)


def _exchanges(pivots: Any) -> Any:
    """The sign of the row exchanges."""
    torch, aten = sys.modules["torch"], _aten()
    there = aten.arange.start(1, pivots.shape[-1] + 1, dtype=torch.int32)  # not a count: rows
    moved = aten.sum.dim_IntList(aten.ne.Tensor(there, pivots), [-1], dtype=torch.int64)
    return aten.add_.Scalar(aten.mul_.Scalar(aten.fmod_.Scalar(moved, 2), -2), 1)


def _lu(a: Any) -> tuple[Any, Any]:
    in_order = a.mH if a.is_contiguous() and not a.is_complex() else a
    lu, pivots, _ = _aten().linalg_lu_factor_ex(in_order)
    return lu, pivots


def determinant(a: Any) -> tuple[Any, Any, Any]:
    """aten::_linalg_det."""
    aten = _aten()
    lu, pivots = _lu(a)
    product = aten.prod.dim_int(aten.diagonal(lu, 0, -2, -1), -1)
    return aten.mul(product, _exchanges(pivots)), lu, pivots


def sign_and_log(a: Any) -> tuple[Any, Any, Any, Any]:
    """aten::_linalg_slogdet."""
    aten = _aten()
    lu, pivots = _lu(a)
    diagonal = aten.diagonal(lu, 0, -2, -1)
    exchanged = _exchanges(pivots)
    sign = aten.mul(aten.prod.dim_int(aten.sgn(diagonal), -1), exchanged)
    return sign, aten.sum.dim_IntList(aten.log_(aten.abs(diagonal)), [-1]), lu, pivots


def solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any, Any]:
    """aten::_linalg_solve_ex."""
    aten = _aten()
    vector = b.dim() == 1 or (b.dim() + 1 == a.dim() and b.shape == a.shape[:-1])  # not a count: axes
    columns = aten.unsqueeze(b, -1) if vector else b
    lu, pivots, info = aten.linalg_lu_factor_ex(a, check_errors=check_errors)
    out = aten.linalg_lu_solve(lu, pivots, columns, left=left)
    return (_column(out) if vector else out), lu, pivots, info


def _column(x: Any) -> Any:
    """Solutions for vectors, stored like the columns of a matrix."""
    run = running()
    if x.dim() == 2:  # not a count: axes
        return _aten().squeeze(x, -1)
    run.watch.pause(True)  # noqa: FBT003
    try:
        return in_columns(run, x.shape[:-1], x.dtype)
    finally:
        run.watch.pause(False)  # noqa: FBT003


def inverse(a: Any, *, check_errors: bool = False) -> Any:
    """aten::linalg_inv_ex."""
    aten = _aten()
    one = aten.zero_(aten.empty_like(a))
    aten.fill_.Scalar(aten.diagonal(one, 0, -2, -1), 1)
    return tuple(aten.linalg_solve_ex(a, one, check_errors=check_errors))


def triangles(a: Any, *, pivot: bool = True) -> Any:
    """aten::linalg_lu."""
    aten = _aten()
    lu, pivots, _ = aten.linalg_lu_factor_ex(a, pivot=pivot)
    return aten.lu_unpack(lu, pivots, True, pivot)  # noqa: FBT003


def check_errors(info: Any, *_: Any, **__: Any) -> None:
    """aten::_linalg_check_errors, which finds no errors."""
    _aten().any(info)
    looks_at_one(sys.modules["torch"].bool)


def repeats(times: Any, *, output_size: int | None = None) -> Any:
    """aten::repeat_interleave.Tensor."""
    torch, aten, run = sys.modules["torch"], _aten(), running()
    if times.shape[0] == 0:
        return aten.empty_like(times)
    ends = aten.cumsum(times, 0)
    total = output_size
    if total is None:
        total = int(aten.select(ends, 0, -1))
        if since(2, 15):
            aten.min(times)
            looks_at_one(times.dtype)
        else:
            aten.all(aten.ge.Scalar(times, 0))
            looks_at_one(torch.bool)
    if not run.knows(times):
        return aten.empty([total], dtype=times.dtype)
    return _known(lambda: aten.repeat_interleave.Tensor(run.real(times), output_size=output_size))


def looks_at_one(dtype: Any) -> None:
    """Passes one number to a kernel that only checks it."""
    a_known_number(dtype).item()


def a_known_number(dtype: Any) -> Any:
    return _known(lambda: sys.modules["torch"].ones((), dtype=dtype))


def _known(values: Callable[[], Any]) -> Any:
    """Values that the dry run knows; no operator of a real run creates them."""
    torch, run = sys.modules["torch"], running()
    run.watch.pause(True)  # noqa: FBT003
    try:
        with torch._C._DisableTorchDispatch():
            return run.core.known(values())
    finally:
        run.watch.pause(False)  # noqa: FBT003


FUSED = {
    "aten::_linalg_check_errors": check_errors,
    "aten::repeat_interleave.Tensor": repeats,
    "aten::_linalg_det": determinant,
    "aten::_linalg_slogdet": sign_and_log,
    "aten::_linalg_solve_ex": solve,
    "aten::linalg_inv_ex": inverse,
    "aten::linalg_lu": triangles,
    "aten::soft_margin_loss": soft_margin_loss,
    "aten::soft_margin_loss_backward": soft_margin_loss_backward,
    "aten::index_put": index_put,
    "aten::_native_multi_head_attention": attention,
    "aten::_transformer_encoder_layer_fwd": encoder_layer,
}
