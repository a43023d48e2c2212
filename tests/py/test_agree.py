# SPDX-License-Identifier: Apache-2.0
"""Small functions, counted by the observer and through torch's dispatch mode: each number and state alike."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: F401 - of the functions below
from torch import nn

import lamina
from lamina._observe import support

both = [support._proved(way) for way in ("observer", "dispatch")]
pytestmark = pytest.mark.skipif(
    [way.name for way in both] != ["observer", "dispatch"],
    reason=f"not both ways: {both[0].why} {both[1].why}",
)
MASK = torch.ones(8, 8).tril().bool()
TARGETS = torch.tensor([1, 2, 0, 3])
ROWS = torch.tensor([0, 2, 1])


def written(x):
    y = x * 2
    y[:, 0] = 1
    y[:, 1:3].mul_(2)
    return y.add_(1)


def overwritten(x):
    """Autograd keeps a copy of what is about to be overwritten."""
    y = (x * 2).sigmoid() + 1
    return y.mul_(x).mul_(x)


# Of x, y: 4x6; m: 6x5; s: 4x4, positive definite; q: 2x3x8x4; i: 2x4x8x8. All want gradients.
FUNCTIONS = """
torch.lerp(x, y, 0.3); torch.addcmul(x, y, y); torch.addcdiv(x, y, y.exp()); torch.hypot(x, y)
x ** 2 + 2 ** x - x.square() / 3; torch.copysign(x, y); torch.logaddexp(x, y); x.clamp(-0.5, 0.5); 3 - x
torch.where(x > 0, x, y); torch.where(x > 0, x, 0.0); x.masked_fill(x > 0, -1.0)
torch.where(x > 0)[0] + x.sum(); F.selu(x); F.celu(x); F.elu(x); F.elu(x, 0.5); F.logsigmoid(x); F.gelu(x)
F.gelu(x, approximate="tanh"); F.softplus(x); F.mish(x); F.hardswish(x); F.glu(x); F.prelu(x, y[0])
F.rrelu(x); F.tanhshrink(x); F.softsign(x); F.softmin(x, 1); F.log_softmax(x, 1); F.normalize(x)
F.dropout(x); F.alpha_dropout(x, training=True); x.std(1); x.var(); torch.std_mean(x, 1); torch.var_mean(x)
x.logsumexp(1); x.norm(); x.norm(3, dim=1); x.amax(1); x.cumsum(1); x.logcumsumexp(1); x.cummax(1)[0]
x.diff(); torch.trapezoid(x); x.cov(); x.corrcoef(); x.nanmean(); x.sort(1)[0]; x.topk(2, 1)[0]
x.median(1)[0]; x.kthvalue(2, 1)[0]; x.msort(); torch.renorm(x, 2, 0, 0.5)
x.take_along_dim(x.argsort(1), 1); x.gather(1, TARGETS[:, None]); x.index_select(0, ROWS); x.take(ROWS)
x.index_add(0, ROWS, y[:3]); x.index_copy(0, ROWS, y[:3]); x.index_put((ROWS,), y[:3])
x.put(ROWS, y[0, :3]); x.scatter(1, TARGETS[:, None], y[:, :1])
x.scatter_reduce(1, TARGETS[:, None], y[:, :1], "mean"); x.select_scatter(y[0], 0, 1)
x.diagonal_scatter(y[:, 0]); x.flip(1); x.roll(2, 1); x.repeat(2, 3); x.tile(2, 3)
x.repeat_interleave(2, 1); x.t().reshape(-1); x.diag_embed(); x.tril(); x.unfold(1, 3, 2)
torch.block_diag(x, y); torch.cat([x, y], 1); torch.stack([x, y]); torch.dstack([x, y]); x.chunk(2, 1)[0]
x.unbind(1)[0]; x.rot90(); x @ m; m.T @ x.T; torch.addmm(y[:, :5], x, m); torch.einsum("ij,kj->ik", x, y)
torch.kron(x, y); torch.cdist(x, y); torch.outer(x[0], y[0]); torch.inner(x, y); torch.tensordot(x, m, 1)
torch.linalg.multi_dot([x, m, m.T]); torch.linalg.cross(x[:, :3], y[:, :3]); F.cosine_similarity(x, y)
F.pairwise_distance(x, y); F.pdist(x); torch.linalg.inv(s); torch.linalg.det(s); torch.logdet(s)
torch.linalg.cholesky(s); torch.linalg.qr(s)[1]; torch.linalg.solve(s, x); torch.linalg.solve(s, x[:, 0])
torch.linalg.solve_triangular(s, x, upper=True); torch.linalg.lu(s)[2]
torch.linalg.lu_solve(*torch.linalg.lu_factor(s), x); torch.linalg.svdvals(s)
torch.linalg.matrix_norm(x, 2); torch.linalg.matrix_power(s, 3); torch.linalg.pinv(s); torch.trace(s)
torch.fft.fft(x).abs(); torch.fft.rfft2(x).abs(); torch.fft.irfft(x); torch.fft.fftshift(x)
torch.complex(x, y).abs(); F.conv2d(i, i[:, :, :3, :3])
F.conv_transpose2d(i, i[:1, :, :3, :3].expand(4, 4, 3, 3), stride=2); F.unfold(i, 3)
F.conv2d(i, i[:1, :, :2, :2], padding="same"); F.conv1d(i[0], i[0, :, :, :3])
F.fold(F.unfold(i, 2), (8, 8), 2); F.max_pool2d(i, 2); F.avg_pool2d(i, 3, 2, 1); F.adaptive_avg_pool2d(i, 3)
F.lp_pool2d(i, 2, 2); F.max_pool1d(i[0], 2); F.interpolate(i, scale_factor=2, mode="bilinear")
F.interpolate(i, (5, 5), mode="area"); F.pad(i, (1, 2, 1, 0), "reflect"); F.pixel_shuffle(i, 2)
F.grid_sample(i, i[:, :2, :, :2], align_corners=False); F.pad(x, (-1, 2)); x.bfloat16() + y
F.batch_norm(i, None, None, training=True); F.layer_norm(x, (6,), y[0], y[1]); F.group_norm(i, 2)
F.instance_norm(i); F.rms_norm(x, (6,), y[0]); F.rms_norm(x, (6,)); F.local_response_norm(i, 2)
F.embedding(TARGETS, x); F.embedding_bag(TARGETS[None], x); F.one_hot(TARGETS, 6) * x; F.mse_loss(x, y)
F.huber_loss(x, y); F.smooth_l1_loss(x, y, reduction="none"); F.cross_entropy(x, TARGETS)
F.cross_entropy(x, TARGETS, label_smoothing=0.1); F.cross_entropy(x, y.softmax(1)); F.kl_div(x, y.exp())
F.binary_cross_entropy_with_logits(x, y.sigmoid()); F.multilabel_soft_margin_loss(x, torch.ones(4, 6))
F.hinge_embedding_loss(x, torch.ones(4, 6)); F.margin_ranking_loss(x[0], y[0], torch.ones(6))
F.nll_loss(x, TARGETS); F.cosine_embedding_loss(x, y, torch.ones(4)); F.triplet_margin_loss(x, y, y + 1)
F.soft_margin_loss(x, torch.ones(4, 6)); F.poisson_nll_loss(x, torch.ones(4, 6))
F.gaussian_nll_loss(x, torch.ones(4, 6), y.exp()); F.multi_margin_loss(x, TARGETS)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, q, q, attn_mask=MASK)
F.scaled_dot_product_attention(q.repeat(1, 2, 1, 1), q, q, enable_gqa=True); written(x); overwritten(x)
torch.gru_cell(x, y[:, :5], m.t().repeat(3, 1), m.t().repeat(3, 1)[:, :5]); torch.special.entr(x.sigmoid())
"""
QUANTILE = "x.quantile(0.3, 1)"
# Where torch itself runs other operators when a mode looks on: gradients that look at values, and checks.
OTHERWISE = {
    "x.prod()",
    "x.cumprod(1)",
    "x.max()",
    QUANTILE,
    "x[ROWS]",
    "x.masked_fill(x > 0, y[0, 0])",
    "torch.matrix_exp(s)",
}
OLD = not hasattr(torch.ops.aten, "_safe_softmax")  # before torch 2.5
ELSE_IN_OLD = {
    "F.embedding_bag(TARGETS[None], x)": "its gradient is another operator under a mode",
    "F.scaled_dot_product_attention(q, q, q, attn_mask=MASK)": "a mode is shown how the mask is made numbers",
    "F.scaled_dot_product_attention(q.repeat(1, 2, 1, 1), q, q, enable_gqa=True)": "queries have no groups",
}


class Small(nn.Module):
    def __init__(self, source):
        super().__init__()
        torch.manual_seed(0)
        self.x, self.y = nn.Parameter(torch.rand(4, 6)), nn.Parameter(torch.rand(4, 6))
        self.m, root = nn.Parameter(torch.rand(6, 5)), torch.rand(4, 4)
        self.s = nn.Parameter(root @ root.T + 4 * torch.eye(4))
        self.q, self.i = nn.Parameter(torch.rand(2, 3, 8, 4)), nn.Parameter(torch.rand(2, 4, 8, 8))
        self.code = compile(source, "a function", "eval")

    def forward(self):
        return eval(self.code, globals(), dict(self.named_parameters()))


NUMBERS = ("macs", "flops", "dmas", "bytes_read", "bytes_written", "effective_macs", "effective_flops")


def told(source, way, monkeypatch):
    monkeypatch.setenv("LAMINA_CAPTURE", way)
    torch.manual_seed(1)
    report = lamina.inspect(Small(source), convention="exact", backward=True)
    work = {"forward": report, "backward": report.backward}
    return {
        (phase, name): (int(getattr(of, name)), getattr(of, name).state)
        for phase, of in work.items()
        for name in NUMBERS
        if hasattr(of, name)
    } | {"unruled": report.unruled_ops}


def functions():
    sources = [part.strip() for line in FUNCTIONS.strip().splitlines() for part in line.split(";")]
    assert len(sources) == len(set(sources)) > 160
    return sources


@pytest.mark.parametrize("source", functions())
def test_a_function_is_counted_alike(source, monkeypatch):
    if OLD and source in ELSE_IN_OLD:
        pytest.skip(f"in this torch {ELSE_IN_OLD[source]}")
    if "fft" in source:
        try:
            Small(source)().sum().backward()
        except RuntimeError as error:
            pytest.skip(f"this torch can't run it, watched or not: {error}")
    observed = told(source, "observer", monkeypatch)
    assert observed["forward", "dmas"][1] != "unknown"
    assert told(source, "dispatch", monkeypatch) == observed


@pytest.mark.parametrize("source", sorted(OTHERWISE))
def test_torch_runs_something_else_where_a_mode_looks_on(source, monkeypatch):
    """Should this fail, torch has changed for the better: the function belongs above."""
    alike = source == QUANTILE and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
    assert (told(source, "dispatch", monkeypatch) == told(source, "observer", monkeypatch)) is alike


def test_a_copy_of_ones_own_is_no_copy_of_autograds(monkeypatch):
    """Where the program copies what it overwrites next, both count the copy."""

    class Copies(nn.Module):
        def forward(self, x):
            y = x * 2
            kept = y.clone()
            y.add_(1)
            return y + kept

    counts = []
    for way in ("observer", "dispatch"):
        monkeypatch.setenv("LAMINA_CAPTURE", way)
        counts.append(lamina.inspect(Copies(), torch.rand(3, requires_grad=True), convention="exact"))
    assert counts[0].dmas == counts[1].dmas == 7 + 6 + 7 + 9  # a number is an operand of one element
    assert [dict(count.unused) for count in counts] == [{}, {}]
