# SPDX-License-Identifier: Apache-2.0
"""Bytes, intensity, and effective counts of operators, held against numbers by hand."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import exact, tells_layouts

import lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")

WORDS = ("macs", "flops", "dmas", "bytes_read", "bytes_written", "bytes", "effective_macs", "effective_flops")
SAFE = hasattr(torch.ops.aten, "_safe_softmax")  # in an attention, since torch 2.5


class Calls(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, forward):
        super().__init__()
        self.does = forward

    def forward(self, *args):
        return self.does(*args)


# -- bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_bytes_follow_the_type(dtype):
    size = dtype.itemsize
    net = nn.Linear(8, 16, dtype=dtype)
    report = exact(net, torch.ones(2, 8, dtype=dtype), backward=True)
    assert report.bytes_read == size * (2 * 8 + 8 * 16 + 16) and report.bytes_read.state == "exact"
    assert report.bytes_written == size * 2 * 16
    assert report.bytes == report.bytes_read + report.bytes_written
    assert report.intensity == report.flops / report.bytes
    row = report.rows[0]
    assert all(row[word] == getattr(report, word) for word in WORDS) and row.intensity == report.intensity
    # the sum's gradient is spread; the weight's gradient reads it and the input, the bias's sums it
    assert report.backward.bytes_written >= size * (16 * 8 + 16)
    assert row.backward_bytes_read == report.backward.bytes_read
    assert report.recompute.bytes == 0 and report.recompute.intensity is None


def test_each_tensor_has_its_own_type():
    ids, table = torch.tensor([[1, 2, 1, 0]]), nn.Embedding(50, 16, dtype=torch.bfloat16)
    report = exact(table, ids)  # four rows of the table, and eight bytes an index
    assert (report.bytes_read, report.bytes_written) == (4 * 8 + 4 * 16 * 2, 4 * 16 * 2)
    report = exact(Calls(lambda x: x.to(torch.int8)), torch.ones(10))
    assert (report.bytes_read, report.bytes_written) == (40, 10)
    report = exact(Calls(lambda x, y: x < y), torch.ones(10), torch.ones(10, dtype=torch.float64))
    assert (report.bytes_read, report.bytes_written) == (120, 10)
    report = exact(Calls(torch._int_mm), *(torch.ones(32, 32, dtype=torch.int8) for _ in range(2)))
    assert (report.macs, report.bytes_read, report.bytes_written) == (32**3, 2 * 32**2, 4 * 32**2)


def test_views_move_nothing_and_in_place_reads_and_writes():
    report = exact(Calls(lambda x: x.view(20).t().unsqueeze(0)), torch.ones(4, 5))
    assert report.bytes == 0 and report.bytes.state == "exact" and report.intensity is None
    report = exact(Calls(lambda x: x.clone().relu_()), torch.ones(10))
    assert (report.bytes_read, report.bytes_written) == (80, 80)


def test_recomputed_bytes_are_apart():
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    model = Calls(lambda x: checkpoint(net, x, use_reentrant=False))
    model.net = net
    report = exact(model, torch.ones(2, 4), backward=True)
    assert report.recompute.macs == 32  # up to what the second layer keeps
    assert report.recompute.bytes_read == 4 * (8 + 16) + 4 * 8
    assert report.recompute.bytes_written == 2 * 4 * 8


def test_no_opinion_is_unknown():
    report = lamina.inspect(nn.Sequential(nn.ReLU()), (torch.ones(2),), ops=False)
    for word in ("bytes_read", "bytes_written", "bytes", "effective_macs", "effective_flops"):
        assert getattr(report, word).state == report.rows[0][word].state == "unknown"
        assert getattr(report.backward, word).state == "unknown"
    assert report.intensity is None and "bytes" not in json.loads(report.to_json())["totals"]
    with pytest.raises(ValueError, match="thoplw does not count bytes"):
        report.under("thoplw").show(bytes=True)


def test_reports_have_them(capsys):
    report = exact(nn.Linear(8, 16).bfloat16(), torch.ones(2, 8, dtype=torch.bfloat16))
    told = json.loads(report.to_json())
    for place in (told["totals"], told["rows"][0], told["rows"][0]["subtotal"]):
        assert place["bytes_read"] == {"value": 320, "state": "exact"}
        assert place["bytes"] == {"value": 384, "state": "exact"}
        assert place["effective_macs"] == {"value": 256, "state": "exact"}
        assert place["intensity"] == pytest.approx(512 / 384, abs=1e-5)
        assert "backward" not in place  # none ran
    header, line, _ = report.to_csv().splitlines()
    cells = dict(zip(header.split(","), line.split(","), strict=True))
    assert (cells["bytes_read"], cells["bytes_written"], cells["effective_macs"]) == ("320", "64", "256")
    assert (cells["bytes_read_state"], cells["backward_bytes_read_state"]) == ("exact", "unknown")
    assert "FLOPs/byte" not in str(report)
    report.show(bytes=True)
    assert "FLOPs/byte" in capsys.readouterr().out and "FLOPs/byte" in report.to_markdown(bytes=True)


# -- effective counts ----------------------------------------------------------------------------------------


def attention(**options):
    return Calls(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options))


def random_qkv(lq, lk, heads=2, kv=2, d=4, grad=False):
    shapes = ((1, heads, lq, d), (1, kv, lk, d), (1, kv, lk, d))
    return [torch.randn(shape, requires_grad=grad) for shape in shapes]


def triangle(lq, lk):
    """Query i looks at keys 0 to i."""
    return sum(min(i + 1, lk) for i in range(lq))


@pytest.mark.parametrize(("lq", "lk"), [(5, 5), (3, 7), (7, 3), (1, 6), (6, 1)])
@pytest.mark.parametrize("dropout", [0.0, 0.5], ids=["fused", "products"])
def test_causal_attention_counts_its_triangle(lq, lk, dropout):
    q, k, v = random_qkv(lq, lk)
    report = exact(attention(is_causal=True, dropout_p=dropout), q, k, v)
    assert report.macs == 2 * lq * lk * 8
    if dropout and support.way().name == "dispatch":
        assert says_unknown(report, backward=False)  # who is handed products sees no flag
        return
    assert report.effective_macs == 2 * triangle(lq, lk) * 8 and report.effective_macs.state == "exact"
    if report.effective_macs < report.macs:
        assert report.effective_flops == 2 * (triangle(lq, lk) * (2 * 8 + 4) - lq)
    assert report.rows[0].effective_macs == report.effective_macs
    whole = exact(attention(dropout_p=dropout), q, k, v)
    assert whole.effective_macs == whole.macs == report.macs and whole.effective_flops == whole.flops


@pytest.mark.parametrize(("lq", "lk"), [(5, 5), (3, 7), (7, 3)])
def test_the_flag_means_that_triangle(lq, lk):
    """The result of torch's causal attention is that of a mask of query i and keys 0 to i."""
    q, k, v = random_qkv(lq, lk)
    mask = torch.ones(lq, lk, dtype=torch.bool).tril()
    assert int(mask.sum()) == triangle(lq, lk)
    got = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(got, F.scaled_dot_product_attention(q, k, v, attn_mask=mask), atol=1e-6)


def test_backward_of_causal_attention():
    q, k, v = random_qkv(6, 6, grad=True)
    report = exact(attention(is_causal=True), q, k, v, backward=True)
    if report.backward.macs == 0:
        with lamina.capture(model := attention(is_causal=True), ops=True) as watch:
            model(q, k, v).sum().backward()
        report = watch.report("exact")
    assert report.backward.macs == 2 * 36 * 5 * 4
    assert report.backward.effective_macs == 2 * 21 * 5 * 4


MASKS = {
    "bool": lambda lets: lets,
    "float32": lambda lets: torch.zeros(lets.shape).masked_fill(~lets, float("-inf")),
    "lowest": lambda lets: torch.ones(lets.shape).masked_fill(~lets, torch.finfo(torch.float32).min),
    "transposed": lambda lets: lets.transpose(-1, -2).contiguous().transpose(-1, -2),
    "every other": lambda lets: lets.repeat_interleave(2, -1)[..., ::2],
    "an offset": lambda lets: F.pad(lets, (3, 1), value=True)[..., 3:-1],
    "expanded": lambda lets: lets.expand(2, 3, 6, 8),
}


def random_lets(*shape):
    torch.manual_seed(len(shape))
    return torch.rand(shape) < 0.4


def by_hand(mask, scores=(2, 3, 6, 8)):
    """How many scores, and how many rows of them, softmax does not make 0."""
    mask = mask.expand(scores)
    lets = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min
    return int(lets.sum()), int(lets.any(-1).sum())


def attended(mask, way=None, monkeypatch=None, dtype=torch.float32, **options):
    if way:
        monkeypatch.setenv("LAMINA_CAPTURE", way)
    q, k = (torch.rand(2, 3, n, 4, dtype=dtype, requires_grad=True) for n in (6, 8))
    return exact(attention(attn_mask=mask, **options), q, k, k, backward=True)


@pytest.mark.parametrize("shape", [(6, 8), (1, 8), (6, 1), (2, 1, 6, 8), (2, 3, 6, 8), (1, 3, 1, 8)], ids=str)
@pytest.mark.parametrize("kind", MASKS)
def test_a_mask_is_read(kind, shape):
    mask = MASKS[kind](random_lets(*shape))
    report, (left, rows) = attended(mask), by_hand(mask)
    assert report.macs == 2 * 3 * 6 * 8 * 8
    assert report.effective_macs == left * 8 and report.effective_macs.state == "exact"
    assert report.rows[0].effective_macs == left * 8 and not report.gaps
    if (
        not SAFE and report.backward.macs == 2304 * 2
    ):  # an older torch multiplies matrices if a mask has gaps in memory
        assert report.backward.effective_macs.state == "unknown"
        return
    assert report.effective_flops == left * (2 * 8 + 5) - rows
    assert report.backward.effective_macs == left * 5 * 4 and report.backward.macs == 2304 * 5 // 2
    assert "MACs if masked attention scores are left out" in str(report)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("value", [float("-inf"), "lowest", -1e4, float("nan")])
def test_only_what_softmax_makes_nothing_of_is_masked(dtype, value):
    number = torch.finfo(dtype).min if value == "lowest" else value
    mask = torch.zeros(6, 8, dtype=dtype)
    mask[1, 2:5] = mask[4, :] = number
    left = 48 - 11 if value in (float("-inf"), "lowest") else 48
    report = attended(mask, dtype=dtype)
    assert report.effective_macs == 6 * left * 8 and report.effective_macs.state == "exact"


def test_a_mask_that_leaves_nothing_and_one_that_leaves_all():
    report = attended(torch.zeros(6, 8, dtype=torch.bool))
    assert (report.effective_macs, report.effective_flops, report.macs) == (0, 0, 2304)
    assert report.effective_macs.state == "exact"
    whole = attended(torch.zeros(6, 8))
    assert whole.effective_macs == whole.macs and "effective" not in str(whole)


def test_a_mask_of_products():
    """Dropout makes torch multiply matrices: the operator around them tells of its mask, where it is seen."""
    seen = support.way().name == "observer"
    for mask in (random_lets(6, 8), MASKS["float32"](random_lets(2, 1, 6, 8))):
        report = attended(mask, dropout_p=0.5)
        assert report.macs == 2304 and report.backward.macs == 2 * 2304
        assert report.macs.state == report.backward.macs.state == "exact"
        assert report.effective_macs == (by_hand(mask)[0] * 8 if seen else 0)
        assert report.effective_macs.state == ("exact" if seen else "unknown")
        assert report.backward.effective_macs.state == report.backward.effective_flops.state == "unknown"
        with lamina.capture(model := attention(attn_mask=mask, dropout_p=0.5), ops=True) as watch:
            model(*(torch.rand(2, 3, n, 4) for n in (6, 8, 8)))
        row = watch.report("exact").rows[0]
        assert row.effective_macs == report.effective_macs and row.backward_effective_macs.state == "unknown"
    if seen:
        whole = attended(torch.ones(6, 8, dtype=torch.bool), dropout_p=0.5)
        assert whole.effective_macs == whole.macs and whole.effective_macs.state == "exact"
        assert whole.backward.effective_macs == whole.backward.macs == 2 * 2304
        assert whole.backward.effective_macs.state == "exact" and "effective" not in str(whole)


def says_unknown(report, backward=True):
    """The dense counts are told, and of effective ones that they are not known."""
    for of in (report, report.backward) if backward else (report,):
        assert of.macs > 0 and of.macs.state == "exact"
        assert of.effective_macs == 0 and of.effective_macs.state == "unknown"
        assert of.effective_flops < of.flops and of.effective_flops.state != "exact"
    assert report.rows[0].effective_macs.state == "unknown"
    assert not report.gaps and "MACs not known if masked attention scores are left out" in str(report)
    return True


@pytest.fixture
def seen_in_products(way):
    if way == "dispatch" and not SAFE:
        pytest.skip("under a mode of this torch, attention looks like products")
    return way


@pytest.mark.parametrize("dropout", [0.0, 0.5], ids=["fused", "products"])
def test_products_say_as_kernels_do_that_a_mask_was_not_read(seen_in_products, dropout):
    mask = MASKS["float32"](random_lets(6, 8))
    q, k = (torch.rand(2, 3, n, 4, requires_grad=True) for n in (6, 8))
    net = attention(attn_mask=mask, dropout_p=dropout)
    report = exact(net, q, k, k, backward=True, dry=True)
    if seen_in_products == "observer":  # the values of a mask that is no input are known in a dry run
        assert report.effective_macs == by_hand(mask)[0] * 8 and report.effective_macs.state == "exact"
    else:
        assert says_unknown(report)
    q, k = (x.detach().to("meta").requires_grad_() for x in (q, k))
    net = attention(attn_mask=mask.to("meta"), dropout_p=dropout)
    assert says_unknown(exact(net, q, k, k, backward=True))


def test_what_is_not_attention_stays_in_a_lower_bound(seen_in_products):
    linear, mask = nn.Linear(4, 4), random_lets(6, 6)
    net = Calls(lambda x: F.scaled_dot_product_attention(y := linear(x), y, y, attn_mask=mask, dropout_p=0.5))
    net.linear = linear
    report = exact(net, torch.rand(2, 6, 4), dry=True)
    assert report.macs == 2 * 6 * 4 * 4 + 2 * 36 * 8 and report.macs.state == "exact"
    if seen_in_products == "observer":
        dense = 2 * 6 * 4 * 4 + by_hand(mask, (2, 6, 6))[0] * 8
        assert report.effective_macs == dense and report.effective_macs.state == "exact"
    else:
        assert report.effective_macs == 2 * 6 * 4 * 4 and report.effective_macs.state == "at least"


def test_a_mask_with_the_other_sign_in_memory(seen_in_products):
    """Memory has +Inf where the mask has -Inf. The dispatch mode is shown what torch made of it."""
    lets = random_lets(6, 8)
    memory = torch.zeros(6, 8).masked_fill(~lets, float("inf"))
    mask = torch.complex(torch.zeros(6, 8), memory).conj().imag
    assert mask.is_neg() and torch.equal(mask, MASKS["float32"](lets))
    assert says_unknown(attended(mask, dropout_p=0.5))
    report = attended(mask)
    if seen_in_products == "observer":
        assert says_unknown(report)
    else:
        assert report.effective_macs == by_hand(mask)[0] * 8 and report.effective_macs.state == "exact"
    plain = attended(mask.resolve_neg())
    assert plain.effective_macs == by_hand(mask)[0] * 8 and plain.effective_macs.state == "exact"


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry"])
@pytest.mark.parametrize("argument", ["attn_mask", "key_padding_mask"])
def test_multihead_attention_that_hands_out_its_weights(way, argument, dry):
    net, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.rand(2, 6, 8)
    masks = {argument: ~random_lets(*((6, 6) if argument == "attn_mask" else (2, 6)))}
    dense = 4 * 2 * 6 * 8 * 8 + 2 * 2 * 36 * 8
    for training in (True, False):
        net.train(training)
        kwargs = {"need_weights": True, **masks}
        report = lamina.inspect(net, (x, x, x), kwargs, convention="exact", backward=True, dry=dry)
        assert report.macs == dense and says_unknown(report)
        whole = lamina.inspect(net, (x, x, x), convention="exact", backward=True, dry=dry)
        assert whole.effective_macs == whole.macs == dense and whole.effective_macs.state == "exact"
        assert whole.backward.effective_macs == whole.backward.macs > 0
        assert whole.backward.effective_macs.state == "exact" and "effective" not in str(whole)


def test_fast_paths_with_a_mask(way):
    x, mask = torch.rand(2, 6, 8), ~(random_lets(6, 6) | torch.eye(6, dtype=torch.bool))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    for net, args in ((layer.self_attn, (x, x, x)), (layer, (x,))):
        kwargs = {"attn_mask" if len(args) > 1 else "src_mask": mask}
        with lamina.capture(net, ops=True) as watch, torch.no_grad():
            net(*args, **kwargs)
        assert says_unknown(watch.report("exact"), backward=False)
        with lamina.capture(net, ops=True) as watch, torch.no_grad():
            net(*args)
        whole = watch.report("exact")
        assert whole.effective_macs == whole.macs > 0 and whole.effective_macs.state == "exact"


def test_baddbmm_that_adds_nothing_hides_no_mask():
    q, k, bias = torch.rand(2, 3, 4), torch.rand(2, 4, 5), torch.rand(2, 3, 5)
    for beta, state in ((0, "exact"), (0.0, "exact"), (1, "unknown"), (0.5, "unknown")):
        report = exact(Calls(lambda q, k, beta=beta: torch.baddbmm(bias, q, k, beta=beta).softmax(-1)), q, k)
        assert report.macs == 2 * 3 * 4 * 5 and report.macs.state == "exact"
        assert report.effective_macs.state == state and report.effective_macs == (state == "exact") * 120


@pytest.mark.parametrize("kind", MASKS)
def test_both_ways_read_masks_alike(monkeypatch, kind):
    if support.way().name != "observer":
        pytest.skip("one way only")
    mask = MASKS[kind](random_lets(2, 1, 6, 8))
    if mask.dtype == torch.bool and not SAFE:
        pytest.skip("this torch makes numbers of the mask by operators that a dispatch mode is shown")
    numbers = [
        [getattr(of, word) for of in (report, report.backward) for word in WORDS]
        for report in (attended(mask, way, monkeypatch) for way in ("observer", "dispatch"))
    ]
    assert numbers[0] == numbers[1] and by_hand(mask)[0] * 8 in numbers[0]


def test_a_mask_is_read_when_the_operator_begins():
    mask = torch.ones(6, 8, dtype=torch.bool)

    def twice(q, k):
        y = F.scaled_dot_product_attention(q, k, k, attn_mask=mask)
        mask[:, 4:] = False
        return y + F.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    report = exact(Calls(twice), torch.rand(1, 1, 6, 4), torch.rand(1, 1, 8, 4))
    assert report.effective_macs == (48 + 24) * 8 and report.macs == 2 * 48 * 8


def test_a_mask_that_can_not_be_read_does_not_tell():
    q, k, v = random_qkv(5, 5)
    report = exact(
        Calls(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)),
        *(q, k, v, torch.zeros(5, 5)),
        dry=True,
    )
    assert report.macs.state == "exact" and report.macs == 2 * 25 * 8
    assert report.effective_macs.state == "unknown"
    assert not report.gaps and "MACs not known if masked attention scores are left out" in str(report)
    causal = exact(attention(is_causal=True), q, k, v)
    assert "240 MACs if masked attention scores are left out" in str(causal)
    assert "masked" not in str(exact(attention(), q, k, v))


# -- grouped queries and mixtures ----------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.5], ids=["fused", "products"])
def test_grouped_queries_count_query_heads(dropout):
    q, k, v = random_qkv(5, 6, heads=8, kv=2)
    try:
        report = exact(attention(enable_gqa=True, dropout_p=dropout), q, k, v)
    except TypeError:
        pytest.skip("this torch shares no heads")
    assert report.macs == 8 * 5 * 6 * (4 + 4) and report.macs.state == "exact"


class Mixture(nn.Module):
    """Two of four experts a token, each called with its own tokens alone."""

    def __init__(self, width=8, hidden=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, width, bias=False)
            )
            for _ in range(experts)
        )

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            if len(token):
                out.index_add_(0, token, expert(x[token]) * weights[token, slot].unsqueeze(1))
        return out


def test_a_mixture_counts_what_the_routing_ran():
    torch.manual_seed(0)
    net, x = Mixture(), torch.randn(10, 8)
    report = exact(net, x)
    assert report.macs == 10 * 8 * 4 + 10 * 2 * (8 * 16 + 16 * 8)
    with torch.no_grad():
        chosen = torch.topk(net.gate(x).softmax(-1), 2).indices
    for i in range(4):
        ran = sum(row.total_macs for row in report.rows if row.path == f"experts.{i}")
        assert ran == int((chosen == i).sum()) * 2 * 8 * 16
    table = 4 * 2 * 8 * 16 * 4  # bytes of all experts: each is read once, however many tokens it has
    assert sum(row.bytes_read for row in report.rows if row.type == "Linear") >= table


# -- products of groups --------------------------------------------------------------------------------------

grouped = pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no products of groups")


def products(x, weight, *ends, **how):
    """A module that multiplies groups, on this CPU; the ends are its buffer."""
    net = Calls(lambda x: torch._grouped_mm(x, net.weight, offs=net.ends))
    net.weight = nn.Parameter(weight)
    net.ends = nn.Buffer(torch.tensor(ends, dtype=torch.int32)) if ends else None
    try:
        with torch.no_grad():
            net(x)
    except RuntimeError as error:
        pytest.skip(f"not on this CPU: {error}")
    real, dry = (exact(net, x, dry=dry, **how) for dry in (False, True))
    for name in ("macs", "flops", "effective_macs", "bytes_read", "bytes_written"):
        assert getattr(real, name) == getattr(dry, name)
        assert getattr(real, name).state == getattr(dry, name).state == "exact"
    assert real.macs == real.effective_macs
    return real


@grouped
@pytest.mark.parametrize(
    ("x", "weight", "ends", "macs", "read", "written"),
    {
        "all rows": ((32, 16), (2, 16, 8), (16, 32), 32 * 16 * 8, 32 * 16 + 2 * 16 * 8, 32 * 8),
        "padding": ((32, 16), (2, 16, 8), (8, 16), 16 * 16 * 8, 16 * 16 + 2 * 16 * 8, 16 * 8),
        "an empty group": ((32, 16), (3, 16, 8), (8, 8, 24), 24 * 16 * 8, 24 * 16 + 2 * 16 * 8, 24 * 8),
        "no row": ((32, 16), (2, 16, 8), (0, 0), 0, 0, 0),
        "one of many": (
            (4, 16),
            (8, 16, 32),
            (0, 0, 4, 4, 4, 4, 4, 4),
            4 * 16 * 32,
            4 * 16 + 16 * 32,
            4 * 32,
        ),
        "columns": ((2, 4, 16), (16, 32), (8, 24), 4 * 16 * 24, 2 * 4 * 16 + 16 * 24, 4 * 24),
        "columns of one": ((2, 4, 16), (16, 32), (8, 8), 4 * 16 * 8, 4 * 16 + 16 * 8, 4 * 8),
        "the inner axis": ((4, 32), (32, 8), (8, 24), 4 * 24 * 8, 4 * 24 + 24 * 8, 2 * 4 * 8),
        "two stacks": ((2, 4, 16), (2, 16, 8), (), 2 * 4 * 16 * 8, 2 * 4 * 16 + 2 * 16 * 8, 2 * 4 * 8),
    }.values(),
)
def test_groups_count_the_rows_and_matrices_that_they_have(x, weight, ends, macs, read, written):
    report = products(torch.rand(x), torch.rand(weight), *ends)
    assert report.macs == macs and report.flops == 2 * macs
    assert report.bytes_read == 4 * (read + len(ends)) and report.bytes_written == 4 * written


@grouped
@pytest.mark.parametrize(("ends", "rows"), [((16, 32), 32), ((8, 16), 16)])
def test_the_backward_of_groups_has_their_rows_too(ends, rows):
    net = Calls(lambda x: torch._grouped_mm(x * 2, net.weight, offs=net.ends).relu())
    net.weight, net.ends = (
        nn.Parameter(torch.rand(2, 16, 8)),
        nn.Buffer(torch.tensor(ends, dtype=torch.int32)),
    )
    for dry in (False, True):
        report = exact(net, torch.rand(32, 16, requires_grad=True), backward=True, dry=dry)
        assert (report.macs, report.backward.macs) == (rows * 16 * 8, 2 * rows * 16 * 8)
        assert report.backward.macs.state == "exact"


class Routed(nn.Module):
    """Multiplies the two best of four experts for each token, as transformers' models do."""

    def __init__(self, most=3):
        super().__init__()
        self.route, self.weight = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 16, 8))
        self.most = most

    def forward(self, x):
        chosen = self.route(x).topk(2).indices.reshape(-1)
        if self.most < 3:
            chosen = torch.where(chosen <= self.most, chosen, 4)  # the others are another machine's
        experts, order = chosen.sort()
        sizes = torch.histc(experts.float(), bins=4, min=0, max=3)
        ends = sizes.cumsum(0, dtype=torch.int32)
        return torch._grouped_mm(x[order // 2], self.weight, offs=ends).relu()


@grouped
def test_ends_that_a_dry_run_does_not_know_may_follow_from_the_routing():
    x, net = torch.rand(8, 16), Routed()
    real, dry = exact(net, x), exact(net, x, dry=True)
    assert (real.macs, real.macs.state) == (dry.macs, dry.macs.state) == (8 * 16 * 4 + 16 * 16 * 8, "exact")
    assert dry.bytes_read.state == "at least" and dry.bytes_read <= real.bytes_read
    assert "which of its groups are empty" in dry.gaps[0]


@grouped
def test_otherwise_a_dry_run_says_how_many_they_can_be():
    torch.manual_seed(1)
    x, net = torch.rand(8, 16), Routed(most=1)
    real, dry = exact(net, x), exact(net, x, dry=True)
    assert real.macs.state == "exact" and 8 * 16 * 4 < real.macs < 8 * 16 * 4 + 16 * 16 * 8
    assert (dry.macs, dry.macs.state) == (8 * 16 * 4, "at least")
    unread = "the operator aten::_grouped_mm: where its groups end are values that were not read"
    assert dry.gaps == [f"{unread} (1 run, at most {16 * 16 * 8} MACs)"]


@grouped
def test_ends_that_a_dry_run_has_overwritten_are_not_read():
    def forward(x):
        net.ends.copy_(x.sum(0)[:2].int() * 0 + 8)
        return torch._grouped_mm(x, net.weight, offs=net.ends)

    net = Calls(forward)
    net.weight = nn.Parameter(torch.rand(2, 16, 8))
    net.ends = nn.Buffer(torch.tensor([8, 16], dtype=torch.int32))
    assert exact(net, torch.rand(32, 16)).macs == 8 * 16 * 8
    assert exact(net, torch.rand(32, 16), dry=True).macs.state == "unknown"
    assert net.ends.tolist() == [8, 16]


def llama(**more):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=32, attn_implementation="sdpa", **more,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def test_llama_by_hand():
    n, d, heads, kv, ff, words = 6, 32, 8, 2, 48, 40
    with lamina.capture(model := llama(), ops=True) as watch, torch.no_grad():
        model(torch.arange(n).unsqueeze(0), use_cache=False)
    report, head = watch.report("exact"), d // heads
    projections = 2 * n * d * d + 2 * n * d * kv * head
    scores, mlp = 2 * heads * n * n * head, 3 * n * d * ff
    angles = n * head // 2  # of the rotary embedding: a product of matrices in some releases
    assert report.macs - 2 * (projections + scores + mlp) - n * d * words in (0, angles)
    left = 2 * 2 * heads * n * (n + 1) // 2 * head
    if report.effective_macs.state == "exact":
        assert report.effective_macs == report.macs - 2 * scores + left


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("padded", [0, 2])
def test_padding_and_sliding_windows_by_hand(window, padded):
    """Key j counts for query i up to i, less than `window` before it, where it is no padding."""
    transformers = pytest.importorskip("transformers")
    n, batch, heads, head, layers = 7, 2, 4, 8, 2
    config = transformers.MistralConfig(
        vocab_size=40, hidden_size=heads * head, intermediate_size=48, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=2, sliding_window=window, attn_implementation="sdpa",
    )  # fmt: skip
    model, asked = transformers.MistralForCausalLM(config), torch.ones(batch, n, dtype=torch.long)
    asked[1, :padded] = 0  # of the second sequence, on the left
    with lamina.capture(model, ops=True) as watch:
        model(
            torch.ones(batch, n, dtype=torch.long), attention_mask=asked, use_cache=False
        ).logits.sum().backward()
    left = sum(
        bool(asked[b, j]) and j <= i and (window is None or i - j < window)
        for b in range(batch) for i in range(n) for j in range(n)
    )  # fmt: skip
    report, masked = watch.report("exact"), layers * heads * (batch * n * n - left)
    assert report.effective_macs.state == report.macs.state == "exact"
    assert report.macs - report.effective_macs == masked * 2 * head
    assert report.backward.macs - report.backward.effective_macs == masked * 5 * head


def test_mixtral_by_hand():
    transformers = pytest.importorskip("transformers")
    n, d, heads, kv, ff, words, experts = 5, 32, 4, 2, 24, 40, 4
    config = transformers.MixtralConfig(
        vocab_size=words, hidden_size=d, intermediate_size=ff, num_hidden_layers=1, num_attention_heads=heads,
        num_key_value_heads=kv, num_local_experts=experts, num_experts_per_tok=2, attn_implementation="sdpa",
    )  # fmt: skip
    model = transformers.MixtralForCausalLM(config).eval()
    with lamina.capture(model, ops=True) as watch, torch.no_grad():
        model(torch.arange(n).unsqueeze(0), use_cache=False)
    head = d // heads
    attended = 2 * n * d * d + 2 * n * d * kv * head + 2 * heads * n * n * head
    routed = n * d * experts + n * 2 * 3 * d * ff  # two experts a token, whichever they are
    assert watch.report("exact").macs - attended - routed - n * d * words in (0, n * head // 2)


# -- sparse and packed weights -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "stored"), [("to_sparse", 4 * (2 * 8 + 4)), ("to_sparse_csr", 9 * 8 + 4 * (8 + 4))]
)
def test_sparse_weights_store_indices_and_values(layout, stored):
    dense = torch.zeros(8, 5)
    dense[torch.arange(4), torch.arange(4)] = 1
    net = Calls(lambda x: torch.sparse.mm(net.weight, x))
    net.weight = nn.Parameter(getattr(dense, layout)())
    report = exact(net, torch.ones(5, 3))
    assert report.params == 40 and report.parameters["param_bytes"] == stored
    assert report.macs == 8 * 5 * 3 and report.macs.state == "exact"
    read = stored + 4 * 5 * 3 + 4 * 8 * 3  # what is stored, the other factor, and the zeros it is added to
    if layout == "to_sparse_csr" and support.way().name == "observer" and not tells_layouts():
        assert report.bytes_read.state == "unknown"
        return
    assert report.bytes_read == read and report.bytes_read.state == "exact"


def quantised(net, dtype=torch.qint8, kinds=(nn.Linear, nn.LSTM)):
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    if torch.backends.quantized.engine == "none":
        pytest.skip("this torch has no engine for quantised layers")
    return quantize(net, set(kinds), dtype=dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "size"), [(torch.qint8, 1), (torch.float16, 2)])
def test_packed_weights_are_parameters_that_torch_does_not_list(dtype, size):
    net = quantised(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4, bias=False)), dtype)
    report = exact(net, torch.ones(2, 8))
    elements, stored = 8 * 16 + 16 + 16 * 4, size * (8 * 16 + 16 * 4) + 4 * 16
    assert sum(p.numel() for p in net.parameters()) == 0
    biases = report.parameters["packed"] - elements  # torch may make up a bias where there was none
    assert biases in (0, 4)
    assert report.parameters["packed_bytes"] == stored + 4 * biases
    assert report.params == report.parameters["packed"] == report.parameters["nograd_params"]
    assert report.parameters["param_bytes"] == report.parameters["packed_bytes"]
    unpacked = 4 if dtype == torch.float16 else 1
    logical = unpacked * (8 * 16 + 16 * 4) + 4 * (16 + biases)
    assert report.parameters["logical_bytes"] == logical
    assert sum(row.params for row in report.rows) == report.params
    assert report.macs == 2 * (8 * 16 + 16 * 4) and report.flops.state == "exact"
    assert report.bytes.state == "exact"
    first = next(row for row in report.rows if row.path == "0")
    assert first.bytes_read == 4 * 2 * 8 + size * 8 * 16 + 4 * 16 and first.bytes_written == 4 * 2 * 16
    assert json.loads(report.to_json())["totals"]["packed"]["value"] == elements + biases
    assert f"packed weights {elements + biases}" in str(report)
    assert "packed" not in exact(nn.Linear(2, 2), torch.ones(1, 2)).to_json()


@pytest.mark.filterwarnings("ignore")
def test_packed_recurrence_counts_its_matrices():
    net = quantised(nn.Sequential(nn.LSTM(8, 16, 2)))
    report = exact(net, torch.ones(3, 2, 8))
    matrices = 64 * 8 + 3 * 64 * 16
    assert report.macs == 3 * 2 * matrices and report.macs.state == "exact"
    assert report.flops.state == "unknown"
    assert report.parameters["packed"] == matrices + 4 * 64  # each bias once


@pytest.mark.filterwarnings("ignore")
def test_packed_cell_has_its_weights():
    net = quantised(nn.Sequential(nn.LSTMCell(8, 16)), kinds={nn.LSTMCell})
    report = exact(net, torch.ones(2, 8))
    assert report.params == report.parameters["packed"] == 64 * 8 + 64 * 16 + 2 * 64
    assert report.parameters["param_bytes"] == 64 * 8 + 64 * 16 + 2 * 64 * 4


@pytest.mark.filterwarnings("ignore")
def test_packed_convolution_counts_its_weight():
    if torch.backends.quantized.engine == "none":
        pytest.skip("this torch has no engine for quantised layers")
    net = torch.ao.nn.quantized.Conv2d(3, 8, 3)
    x = torch.quantize_per_tensor(torch.ones(1, 3, 6, 6), 0.1, 0, torch.quint8)
    report = exact(net, x)
    assert report.macs == 4 * 4 * 8 * 27 and report.macs.state == "exact"
    assert report.parameters["packed"] == 8 * 27 + 8
    assert report.bytes_read == 3 * 36 + 8 * 27 + 4 * 8 and report.bytes_written == 8 * 16


# -- operators that only stand for others, most of the time -------------------------------------------------


def test_a_pool_that_does_its_work_itself():
    """torch has a kernel of its own for max_pool1d without gradients, and another operator with them."""
    pool, x = nn.MaxPool1d(4), torch.rand(1, 2, 12)
    alone = exact(pool, x)
    assert (alone.flops, alone.flops.state) == (6 * 3, "exact")
    assert exact(pool, x.requires_grad_(), backward=True).flops == 6 * 3


def test_a_convolution_of_time_batch_channels():
    w, b, x = torch.rand(3, 6, 5), torch.rand(5), torch.rand(9, 2, 6)
    report = exact(Calls(lambda x: torch.conv_tbc(x, w, b, 1)), x)
    taps = 9 * 3 - 2  # the two outside are not multiplied
    assert (report.macs, report.macs.state, report.unruled_ops) == (taps * 2 * 6 * 5, "exact", {})


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_backwards_of_layers_on_nested_tensors(layout):
    model = nn.Linear(8, 4)
    rows = [torch.rand(5, 8), torch.rand(3, 8)]
    net = Calls(lambda: model(torch.nested.as_nested_tensor(rows, layout=getattr(torch, layout))).values())
    net.fc = model
    report = exact(net, backward=True)
    assert (report.macs, report.macs.state) == (8 * 8 * 4, "exact")
    # An older torch computes the gradient of the rows, which nobody wants, too.
    both = layout == "jagged" and not hasattr(torch.compiler, "set_stance")
    assert (report.backward.macs, report.backward.macs.state) == ((2 if both else 1) * 8 * 8 * 4, "exact")


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_a_backward_pass_from_a_nested_tensor(layout):
    x = torch.nested.as_nested_tensor([torch.rand(5, 8), torch.rand(3, 8)], layout=getattr(torch, layout))
    report = exact(nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)), x, backward=True)
    assert (report.macs, report.backward.macs) == (8 * 8 * 4 + 8 * 4 * 2, 8 * 8 * 4 + 2 * 8 * 4 * 2)
    assert report.backward.macs.state == "exact"


def test_a_sum_of_windows_is_what_the_layer_says():
    fold, x = nn.Fold((8, 8), 3, padding=1, stride=2), torch.rand(2, 27, 16)
    report = exact(fold, x)
    assert (report.flops, report.flops.state) == (lamina.inspect(fold, x).flops, "exact")
    report = exact(Calls(lambda x: F.unfold(x, 3)), torch.rand(1, 1, 4, 4, requires_grad=True), backward=True)
    assert (report.backward.flops, report.backward.flops.state) == (4 * 9 - 16, "exact")
