# SPDX-License-Identifier: Apache-2.0
"""Operators through torch's dispatch mode: the same records as the observer's, and nothing left behind."""

from __future__ import annotations

import gc
import json
import sys
import threading
import weakref
from collections import Counter
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from conftest import DATA
from corpus_nets import build
from torch import nn
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint
from where_kit import Calls, by_path, exact, seen

import lamina
from lamina._observe import support
from lamina._run.once import run_once

pytestmark = pytest.mark.skipif(
    support._proved("dispatch").name == "calls", reason=f"no modes: {support._proved('dispatch').why}"
)
needs_observer = pytest.mark.skipif(
    support._proved("observer").name != "observer", reason=f"{support._proved('observer').why}"
)
TRUTH = {model["name"]: model for model in json.loads((DATA / "truth.json").read_text())}
PHASES = ("forward", "backward", "recompute")


@pytest.fixture(autouse=True)
def by_dispatch(monkeypatch):
    monkeypatch.setenv("LAMINA_CAPTURE", "dispatch")
    before = stack()
    yield
    assert stack() == before


def stack():
    """What is on torch's stack of modes, and whether torch believes that there is anything."""
    modes = sys.modules["torch.utils._python_dispatch"]
    return torch._C._len_torch_dispatch_stack(), getattr(modes, "_is_in_torch_dispatch_mode", False)


# -- the observer sees the same ------------------------------------------------------------------------------
#
# Agreement is: the same MACs in every row and phase, and the same counted operators with some cost, as
# (name, call, phase, shapes in, shapes out, costs), however often, but for those that one side alone sees by
# construction. A mode is shown what autograd hands on, so what autograd itself runs around an operator stands
# beside it, where the observer has it inside; and some operators choose otherwise where a mode is on:


def by_construction(event):
    name, _, phase, *_ = event
    return (
        # The engine adds gradients up in place where no mode looks on, and between two nodes, of which a mode
        # is told nothing. Some composites look for a mode too before they work in place.
        name in ("aten::add", "aten::add_")
        # A copy that autograd saves of what an operator is about to overwrite.
        or name == "aten::clone"
        # A product with a vector that is a broadcast (ger), taken apart.
        or name in ("aten::ger", "aten::mul")
        # Recomputation stops where the last tensor was saved, by an exception: inside relu, or after it.
        or (phase == "recompute" and name in ("aten::relu", "aten::clamp_min"))
    )


def shapes(values):
    return tuple(value["shape"] for _, value in values if isinstance(value, dict))


def recorded(monkeypatch, way, model, args, kwargs, backward):
    monkeypatch.setenv("LAMINA_CAPTURE", way)
    torch.manual_seed(0)
    run = run_once(model, args, kwargs, ops=True, backward=backward)
    if run.error is not None:
        run.reraise()
    costs = run.model.costs("exact")
    events = Counter()
    for i, op in enumerate(run.model.operators()):
        told = costs.operator(i)
        numbers = tuple(told[name] for name in ("macs", "flops", "dmas"))
        if told["counted"] and not op["failed"] and any(n != (0, "exact") for n in numbers):
            key = (op["name"], op["call"], op["phase"], shapes(op["inputs"]), shapes(op["outputs"]), *numbers)
            events[key] += 1
    return costs, events


def macs_of(costs):
    """Of every phase and, in every phase, of every row."""
    rows = [{name: told for name, told in row.items() if "macs" in name} for row in costs.rows()]
    return [costs.totals(phase)["macs"] for phase in PHASES], rows


def agree(monkeypatch, model, args, kwargs=None, *, backward, but=()):
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        for _ in range(3):  # the interpreter of scripts watches a few runs before it settles
            recorded(monkeypatch, "observer", model, args, kwargs or {}, backward)
    one, theirs = recorded(monkeypatch, "observer", model, args, kwargs or {}, backward)
    two, ours = recorded(monkeypatch, "dispatch", model, args, kwargs or {}, backward)
    assert [one.totals(phase)["macs"] for phase in PHASES] == [two.totals(phase)["macs"] for phase in PHASES]
    fields = [key for key in one.rows()[0] if "macs" in key]
    assert [[row[f] for f in fields] for row in one.rows()] == [
        [row[f] for f in fields] for row in two.rows()
    ]
    apart = [*(theirs - ours), *(ours - theirs)]
    assert [event for event in apart if not by_construction(event) and event[0] not in but] == []
    assert sum((theirs & ours).values()) > 0


# Made of the same operators as others here, and as dear as all of those together.
LARGE = {"alexnet", "convnext_tiny", "densenet121", "googlenet", "mnasnet0_75", "resnext50_32x4d", "vit_b_16"}


@needs_observer
@pytest.mark.parametrize("name", [name for name in TRUTH if name not in LARGE])
def test_a_corpus_model_is_seen_alike(monkeypatch, name):
    truth = TRUTH[name]
    agree(monkeypatch, *build(truth), backward=truth["backward_macs"] is not None)


def attention():
    return nn.MultiheadAttention(16, 4, batch_first=True).eval()


class Packed(nn.Module):
    """A recurrence over sequences of three lengths."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8, batch_first=True)

    def forward(self, x):
        pack, pad = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
        packed = pack(x, torch.tensor([5, 2, 4]), batch_first=True, enforce_sorted=False)
        return pad(self.rnn(packed)[0], batch_first=True)[0]


FUSED = {
    "attention": (attention, ((2, 5, 16),) * 3),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), ((2, 5, 16),)),
    "bilinear": (lambda: nn.Bilinear(4, 5, 6), ((3, 4), (3, 5))),
    "lstm": (lambda: nn.LSTM(4, 8, 2, bidirectional=True), ((7, 2, 4),)),
    "gru": (lambda: nn.GRU(4, 8), ((7, 2, 4),)),
    "rnn": (lambda: nn.RNN(4, 8), ((7, 2, 4),)),
    "packed": (Packed, ((3, 5, 4),)),
    "conv": (lambda: nn.Conv1d(4, 6, 3, groups=2), ((2, 4, 9),)),
    "norm": (lambda: nn.BatchNorm2d(3), ((2, 3, 4, 4),)),
    "pool": (lambda: nn.AdaptiveAvgPool2d(2), ((2, 3, 5, 5),)),
    "softmax": (
        lambda: Calls(lambda self, q: F.scaled_dot_product_attention(q, q, q, is_causal=True)),
        ((2, 4, 5, 8),),
    ),
    "einsum": (lambda: Calls(lambda self, a, b: torch.einsum("bij,bjk->bik", a, b)), ((2, 3, 4), (2, 4, 5))),
}


CHOICES = {
    "number second": lambda x: torch.where(x > 0.5, x, 0.0),
    "number first": lambda x: torch.where(x > 0.5, 1, x),
    "two numbers": lambda x: torch.where(x > 0.5, 1.0, 0.0) * x,
    "no number": lambda x: torch.where(x > 0.5, x, x[0]),
}


@needs_observer
@pytest.mark.parametrize("name", CHOICES)
def test_a_number_that_becomes_a_tensor_is_counted_alike(monkeypatch, name):
    def told(way):
        monkeypatch.setenv("LAMINA_CAPTURE", way)
        x = torch.ones(4, 4, requires_grad=True)
        report = exact(Calls(lambda _, x: CHOICES[name](x)), x, backward=True)
        whole = (report, report.backward)
        return [(n.dmas, n.bytes_read, n.bytes_written, n.flops) for n in whole]

    assert told("observer") == told("dispatch")
    if name == "number second":
        # the comparison; the number, and then three tensors and the result
        assert told("observer")[0][0] == 2 * 16 + 1 + 3 * 16 + 1


@needs_observer
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_what_is_made_of_others_is_seen_inside(monkeypatch, name, inference):
    make, given = FUSED[name]
    model = make()
    # matmul does not fold batches together where a mode is on.
    but = ("aten::mm", "aten::bmm") if inference and name == "attention" else ()
    with torch.inference_mode(inference):
        agree(monkeypatch, model, tuple(torch.rand(*shape) for shape in given), backward=False, but=but)


# -- whose work it is ----------------------------------------------------------------------------------------


def layers():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


def test_a_backward_is_its_forward_once_a_gradient():
    report = exact(layers(), torch.ones(3, 4), backward=True)
    assert by_path(report) == {"0": 96, "2": 48}
    assert by_path(report, "backward_macs") == {"0": 96, "2": 96}


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_work_is_told_apart(reentrant):
    model = Calls(
        lambda self, x: self.head(checkpoint(self.body, x, use_reentrant=reentrant)),
        body=nn.Sequential(nn.Linear(8, 8), nn.Tanh()),
        head=nn.Linear(8, 2),
    )
    report = exact(model, torch.ones(4, 8, requires_grad=True), backward=True)
    assert (report.macs, report.recompute.macs, report.backward.macs) == (320, 256, 640)
    assert by_path(report, "recompute_macs") == {"body.0": 256}
    assert by_path(report, "backward_macs")["body.0"] == 512


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_functions_are_told_apart(reentrant):
    def forward(self, x):
        return checkpoint(lambda x: torch.tanh(x @ self.w), x, use_reentrant=reentrant).sum()

    model = Calls(forward, w=nn.Parameter(torch.rand(8, 8)))
    report = exact(model, torch.ones(2, 8, requires_grad=True), backward=True)
    assert (report.macs, report.backward.macs, report.recompute.macs) == (128, 256, 128)


def test_a_graph_of_the_backward_is_no_recomputation():
    layer = nn.Linear(4, 4)
    x = torch.rand(3, 4, requires_grad=True)
    with lamina.capture(layer, ops=True) as watch:
        (grad,) = torch.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
        grad.sum().backward()
    report = watch.report("exact")
    assert (report.recompute.macs, by_path(report, "backward_macs")[""]) == (0, 240)


@needs_observer
def test_second_derivatives_are_whose_the_first_are(monkeypatch):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.b(torch.tanh(self.a(x))).sum()
            return torch.autograd.grad(energy, x, create_graph=True)[0]

    told = {}
    for way in ("observer", "dispatch"):
        model = Calls(forward, a=nn.Linear(8, 6), b=nn.Linear(6, 1))
        monkeypatch.setenv("LAMINA_CAPTURE", way)
        told[way] = by_path(exact(model, torch.rand(5, 8), backward=True), "backward_macs")
    assert told["dispatch"] == told["observer"]
    assert (told["observer"]["a"], told["observer"]["b"]) == (5 * 240, 60)


def test_what_a_selective_checkpoint_kept_is_not_run_again(monkeypatch):
    if not hasattr(checkpoints, "create_selective_checkpoint_contexts"):  # before torch 2.5
        pytest.skip("this torch has no selective checkpoints")
    kept = partial(checkpoints.create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    model = Calls(
        lambda self, x: self.head(checkpoint(self.body, x, use_reentrant=False, context_fn=kept)),
        body=nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)),
        head=nn.Linear(8, 2),
    )
    for way in ("dispatch", "observer") if support.way().name == "observer" else ("dispatch",):
        monkeypatch.setenv("LAMINA_CAPTURE", way)
        report = exact(model, torch.ones(3, 8), backward=True)
        gelu = lamina.inspect(nn.GELU(), torch.ones(3, 8), convention="exact").flops
        assert (report.recompute.macs, report.recompute.flops, report.recompute.flops.state) == (
            0,
            gelu,
            "exact",
        )
        assert report.backward.macs == 2 * 48 + 2 * 192 + 192


def test_a_gradient_inside_the_forward_is_no_recomputation():
    def forward(self, x):
        return torch.func.vmap(torch.func.grad(lambda x: (x @ self.w).pow(2).sum()))(x)

    model = Calls(forward, w=nn.Parameter(torch.rand(8, 8)))
    report = exact(model, torch.rand(3, 2, 8), backward=True)
    assert (report.recompute.macs, report.backward.macs > 0) == (0, True)


def test_what_runs_functions_is_named():
    """With plain Python for the kernel where there is one (test_plain.py), and by its name where not."""
    strict = getattr(torch.ops.higher_order, "strict_mode", None)
    if strict is None:  # before torch 2.5
        pytest.skip("this torch has no such operator")
    report = exact(Calls(lambda self, x: strict(lambda x: x @ x, (x,))), torch.ones(4, 4))
    assert (report.macs.state, dict(report.unruled_ops)) == ("unknown", {"higher_order::strict_mode": 1})


def test_vmap_runs_on_whole_tensors():
    layer = nn.Linear(4, 3)
    model = Calls(lambda self, x: torch.vmap(self.layer)(x), layer=layer)
    assert exact(model, torch.ones(5, 2, 4)).macs == 5 * 2 * 12


def test_scripted_work_is_seen():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    assert exact(nn.Sequential(scripted), torch.ones(2, 4)).macs == 24


def test_a_tensor_that_wraps_others_runs_them_inside():
    two = pytest.importorskip("torch.testing._internal.two_tensor")
    x = two.TwoTensor(torch.ones(2, 3), torch.ones(2, 3))
    ops = seen(nn.Identity(), lambda: torch.mm(x, torch.ones(3, 4)))
    products = [op for op in ops if op["name"] == "aten::mm"]
    assert [op["parent"] for op in products] == [-1, ops.index(products[0]), ops.index(products[0])]


def test_every_thread_has_modes_of_its_own():
    told = {}

    def work(n):
        for _ in range(10):
            told[n] = exact(nn.Linear(n, n), torch.ones(2, n), backward=True)

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: int(report.backward.macs) for n, report in told.items()} == {n: 2 * n * n for n in (2, 3, 4)}


def test_defaults_and_numbers_are_told_as_the_observer_tells_them():
    def work():
        F.elu(torch.ones(3), alpha=0.5)
        torch.ones(3) + 1
        torch.ones(2, 3).mean(1)

    ops = {op["name"]: op for op in seen(nn.Identity(), work)}
    assert [v for _, v in ops["aten::elu"]["inputs"][1:]] == [0.5, 1, 1]
    added = ops["aten::add"]["inputs"]
    assert (added[1][1]["shape"], added[1][1]["dtype"], added[2][1]) == ((), "int64", 1)
    assert [v for _, v in ops["aten::mean"]["inputs"][1:]] == [(1,), False, None]


# -- nothing is left behind ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ArithmeticError])
def test_an_exception_takes_the_mode_off(error):
    def forward(self, x):
        self.fc(x)
        raise error

    with pytest.raises(error) as caught:
        exact(Calls(forward, fc=nn.Linear(4, 2)), torch.ones(3, 4))
    assert (stack()[0], caught.value.lamina_report.macs) == (0, 24)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ArithmeticError])
def test_an_exception_inside_an_operator_takes_the_mode_off(error):
    name, schema = f"lamina_tests::raises_{error.__name__}", "(Tensor x) -> Tensor"

    @torch.library.custom_op(name, mutates_args=(), schema=schema)
    def raises(x):
        torch.mm(x, x)
        raise error

    with pytest.raises(error) as caught:
        exact(Calls(lambda self, x: raises(x)), torch.ones(3, 3))
    assert (stack()[0], caught.value.lamina_report.macs) == (0, 27)


def test_an_operator_that_raises_does_not_count():
    def forward(self, x):
        try:
            torch.mm(x, x)
        except RuntimeError:
            return self.fc(x)

    report = exact(Calls(forward, fc=nn.Linear(3, 2)), torch.ones(4, 3))
    assert (report.macs, report.macs.state) == (24, "exact")


def test_captures_may_close_in_any_order():
    first, second = (lamina._lamina.Capture(nn.Identity(), ops=True, dispatch="") for _ in range(2))
    for capture in (first, second):
        capture.start()
    torch.ones(2)
    first.stop()
    torch.ones(2)
    second.stop()
    assert [capture.n_ops for capture in (first, second)] == [1, 2]


def test_a_capture_closed_by_another_thread_notes_nothing_more():
    capture = lamina._lamina.Capture(nn.Identity(), ops=True, dispatch="")
    capture.start()
    thread = threading.Thread(target=capture.stop)
    thread.start()
    thread.join()
    assert torch.ones(2).tolist() == [1, 1]
    assert capture.n_ops == 0
    exact(nn.Identity(), torch.ones(2))
    assert stack()[0] == 0


def test_no_reference_is_kept():
    layer, x = nn.Linear(4, 4), torch.ones(2, 4)
    add = torch.ops.aten.add.Tensor

    def work(n):
        kept = []
        for _ in range(n):
            y = torch.relu_(layer(x) + 1)
            kept.append(weakref.ref(y))
            with pytest.raises(RuntimeError):
                torch.mm(y, y)
        del y
        return kept

    def counts():
        gc.collect()
        return sys.getrefcount(x), sys.getrefcount(add), sys.getrefcount(add._op), len(gc.get_objects())

    seen(layer, lambda: work(10))
    before = counts()
    kept = []
    with lamina.capture(layer, ops=True) as watch:
        kept += work(2500)
    assert len(watch._model.operators()) >= 10_000
    del watch
    alive = sum(ref() is not None for ref in kept)
    del kept
    after = counts()
    assert (alive, after[:3]) == (0, before[:3])
    assert after[3] - before[3] < 100


# -- asking for it -------------------------------------------------------------------------------------------


def test_the_report_says_so():
    report = exact(nn.Linear(2, 2), torch.ones(1, 2))
    (note,) = report.notes
    said = "operators were watched through torch's dispatch mode, because LAMINA_CAPTURE=dispatch asks for it"
    assert note.split(";")[0] == said


def test_it_steps_in_where_the_observer_fails(monkeypatch):
    monkeypatch.delenv("LAMINA_CAPTURE")
    monkeypatch.setitem(support._found, "observer", support.Way("calls", "its proof failed"))
    report = exact(nn.Linear(2, 2), torch.ones(1, 2), backward=True)
    assert (report.macs, report.backward.macs) == (4, 4)
    assert "dispatch mode, because its proof failed" in report.notes[0]
    monkeypatch.setenv("LAMINA_CAPTURE", "observer")
    with pytest.raises(ValueError, match="can't be watched here: its proof failed"):
        exact(nn.Linear(2, 2), torch.ones(1, 2))


def test_both_may_fail(monkeypatch):
    for way in ("observer", "dispatch"):
        monkeypatch.setitem(support._found, way, support.Way("calls", f"no {way}"))
    monkeypatch.delenv("LAMINA_CAPTURE")
    with pytest.raises(ValueError, match="here: no observer; no dispatch"):
        exact(nn.Linear(2, 2), torch.ones(1, 2))
    assert lamina.inspect(nn.Linear(2, 2), torch.ones(1, 2)).macs == 4


def test_doctor_says_which():
    from lamina._command.doctor import describe

    assert "\noperators: seen through torch's dispatch mode, with the same counts but some " in describe()
    assert "slower: LAMINA_CAPTURE=dispatch asks for it\n" in describe()


@pytest.mark.parametrize("dry, state", [(False, "exact"), (True, "unknown")])
def test_a_mask_is_read_where_there_are_values(dry, state):
    mask = torch.zeros(6, 8)
    mask[:, 4:] = float("-inf")
    q, k = (torch.rand(2, 3, n, 4, requires_grad=True) for n in (6, 8))
    attend = Calls(lambda self, q, k: F.scaled_dot_product_attention(q, k, k, attn_mask=mask))
    report = lamina.inspect(attend, (q, k), convention="exact", dry=dry)
    assert (report.macs, report.macs.state) == (2 * 3 * 6 * 8 * 8, "exact")
    assert report.effective_macs.state == state
    assert report.effective_macs == (0 if dry else 2 * 3 * 6 * 4 * 8)
