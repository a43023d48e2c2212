# SPDX-License-Identifier: Apache-2.0
"""Where Python stands between an operator and its kernel, what ran is counted, and not what was asked for."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils import checkpoint as checkpoints
from torch.utils._python_dispatch import TorchDispatchMode
from where_kit import Calls, by_path, exact, no_operators, tells_backends, work

import lamina

if no_operators():
    pytest.skip(f"no operators: {no_operators()}", allow_module_level=True)
aten = torch.ops.aten
MACS = 2 * 4 * 8  # of the layer below
pytestmark = pytest.mark.usefixtures("way")
OLD = not hasattr(torch.compiler, "set_stance")  # before torch 2.6


def captured(net, *given):
    """The report of a forward, and of a backward pass where there is something to derive."""
    with lamina.capture(net, ops=True) as watch:
        out = net(*given)
        if out.requires_grad:
            out.sum().backward()
    return watch.report("exact")


def forwards(net, *given):
    """What forward MACs inspect and capture tell: one number, of one state."""
    reports = exact(net, *given), captured(net, *given)
    told = {(int(report.macs), report.macs.state) for report in reports}
    assert len(told) == 1, told
    return told.pop()


def layer():
    return nn.Linear(4, 8)


def x():
    return torch.rand(2, 4)


class Answers(TorchDispatchMode):
    """Answers ``addmm``, and leaves all else as it is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten.addmm.default:
            return self.answer(*args)
        return func(*args, **(kwargs or {}))


class Twice(Answers):
    def answer(self, b, x, w):
        return x @ w * 0.5 + x @ w * 0.5 + b


class Never(Answers):
    def answer(self, b, x, w):
        return b.new_zeros(len(x), w.shape[1])


class AsItIs(Answers):
    def answer(self, b, x, w):
        return torch.addmm(b, x, w)


MODES = [(Twice, 2), (Never, 0), (AsItIs, 1)]


def under(mode, net):
    """A model that runs ``net`` under the mode."""

    def forward(self, *args):
        with mode():
            return self.net(*args)

    return Calls(forward, net=net)


@pytest.mark.parametrize(("mode", "times"), MODES)
def test_a_mode_inside_the_model(mode, times):
    net = under(mode, layer())
    assert forwards(net, x()) == (times * MACS, "exact")
    report = captured(net, x())
    assert by_path(report) == ({"net": times * MACS} if times else {})
    assert work(report) == (times * MACS, MACS, 0)  # the mode was off during the backward pass


@pytest.mark.parametrize(("mode", "times"), MODES)
def test_a_mode_around_the_capture(mode, times):
    with mode():
        assert forwards(layer(), x()) == (times * MACS, "exact")
    with mode():
        report = exact(layer(), x(), backward=True)
    assert work(report) == (times * MACS, MACS, 0)  # no addmm runs backward


@pytest.mark.parametrize(("mode", "times"), MODES)
def test_a_mode_that_is_put_on_while_the_capture_is_open(mode, times):
    net = layer()
    with lamina.capture(net, ops=True) as watch, mode():
        net(x()).sum().backward()
    assert work(watch.report("exact")) == (times * MACS, MACS, 0)


class TwiceBackward(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten.mm.default:
            func(*args)
        return func(*args, **(kwargs or {}))


def test_a_mode_in_a_backward_pass():
    net = layer()
    with lamina.capture(net, ops=True) as watch:
        out = net(x()).sum()
        with TwiceBackward():
            out.backward()
    assert work(watch.report("exact")) == (MACS, 2 * MACS, 0)


def test_a_mode_in_a_mode():
    net = under(AsItIs, under(Twice, under(AsItIs, layer())))
    assert forwards(net, x()) == (2 * MACS, "exact")


def test_a_mode_that_is_on_and_not_asked(way):
    def forward(self, x):
        with Twice(), torch._C._DisableTorchDispatch():
            return self.fc(x)

    if way == "dispatch":
        pytest.skip("the dispatch mode is not asked either")
    assert forwards(Calls(forward, fc=layer()), x()) == (MACS, "exact")


def test_a_dry_run_under_modes():
    for mode, times in MODES:
        report = exact(under(mode, layer()), x(), dry=True)
        assert (report.macs, report.macs.state) == (times * MACS, "exact")
    with AsItIs():
        assert exact(layer(), x(), dry=True).macs == MACS


def rich():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(2),
        nn.Linear(16, 8),
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        nn.Linear(8, 5),
    )


@pytest.mark.parametrize("where", ["around", "inside"])
def test_a_mode_that_only_looks_changes_nothing(where):
    from torch.utils.flop_counter import FlopCounterMode

    net, given = rich(), torch.rand(2, 3, 8, 8)
    alone = exact(net, given, backward=True, receptive_field=True)
    looks = partial(FlopCounterMode, display=False)
    if where == "inside":
        told = exact(under(looks, net), given, backward=True)
    else:
        with looks() as counter:
            told = exact(net, given, backward=True)
        assert counter.get_total_flops() > 2 * alone.macs
    assert work(told) == work(alone)
    for metric in ("flops", "bytes_read", "bytes_written"):
        assert getattr(told, metric) == getattr(alone, metric)
        assert getattr(told.backward, metric) == getattr(alone.backward, metric)
    assert (told.unused, told.no_gradient) == ({}, {})


def test_shapes_that_a_fake_mode_follows_count_as_before():
    from torch._subclasses.fake_tensor import FakeTensorMode

    net = layer()
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        given = fake.from_tensor(x())
        for _ in range(2):  # the second is answered by what the first told
            assert forwards(net, given) == (MACS, "exact")
        with AsItIs():
            assert forwards(net, given) == (MACS, "exact")
        with Twice():
            assert forwards(net, given) == (2 * MACS, "exact")
        net = layer()
    for _ in range(2):  # and where the mode is on only while they are worked on
        assert forwards(net, given) == (MACS, "exact")


class Pair(torch.Tensor):
    """Two tensors as one: each operator runs on both."""

    @staticmethod
    def __new__(cls, a, b):
        made = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)
        made.pair = (a, b)
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        one, two = (
            func(*(arg.pair[i] if isinstance(arg, Pair) else arg for arg in args), **(kwargs or {}))
            for i in range(2)
        )
        return Pair(one, two)


class Doubled(torch.Tensor):
    """A tensor with memory of its own whose class runs each product twice."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            if func is aten.mm.default:
                func(*args)
            return func(*args, **(kwargs or {}))


def test_a_class_of_tensors_that_stands_for_two():
    product = Calls(lambda self, a, b: a @ b)
    assert forwards(product, Pair(x(), x()), Pair(torch.rand(4, 8), torch.rand(4, 8))) == (2 * MACS, "exact")
    net = Calls(lambda self, a: (Pair(a, a) @ torch.rand(4, 8)).pair[0] @ torch.rand(8, 3))
    assert forwards(net, x()) == (2 * MACS + 2 * 8 * 3, "exact")


def test_a_class_of_torchs_that_stands_for_two():
    two = pytest.importorskip("torch.testing._internal.two_tensor")
    net = layer()
    net.weight = nn.Parameter(two.TwoTensor(torch.rand(8, 4), torch.rand(8, 4)))
    assert forwards(net, x()) == (2 * MACS, "exact")
    assert work(captured(net, x()))[:2] == (2 * MACS, 2 * MACS)
    with AsItIs():
        assert forwards(net, x()) == (2 * MACS, "exact")


def test_what_is_taken_out_of_a_wrapper_is_used():
    parts = nn.Sequential(nn.Conv1d(1, 1, 3, bias=False), nn.Conv1d(1, 1, 3, bias=False))
    for i in range(2):
        net = Calls(lambda self, a: self.parts(Pair(a, a)).pair[i], parts=parts)  # noqa: B023
        assert "parts" not in exact(net, torch.rand(1, 1, 9)).unused


def test_a_class_of_tensors_with_memory_of_its_own(way):
    def forward(self, a):
        return torch.mm(torch.Tensor._make_subclass(Doubled, a), torch.rand(4, 8))

    if way == "dispatch":
        pytest.skip("the class keeps what it runs from every mode")
    assert forwards(Calls(forward), x()) == (2 * MACS, "exact")


def test_what_a_class_keeps_from_every_mode_counts_once():
    class Alone(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    net = Calls(lambda self, a: torch.mm(torch.Tensor._make_subclass(Alone, a), torch.rand(4, 8)))
    assert forwards(net, x()) == (MACS, "exact")


def test_a_class_without_an_answer_of_its_own_counts_once(way):
    if OLD and way == "dispatch":
        pytest.skip("this torch refuses such a tensor under a mode")
    named = type("Named", (torch.Tensor,), {})
    assert forwards(layer(), x().as_subclass(named)) == (MACS, "exact")


def test_a_tensor_that_is_spread_over_processes(way):
    dist = pytest.importorskip("torch.distributed")
    spread = pytest.importorskip("torch.distributed.tensor")
    fakes = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    if not hasattr(spread, "distribute_tensor"):
        pytest.skip("this torch has no tensors that are spread over processes")
    if dist.is_initialized():
        pytest.skip("there is a group of processes already")
    dist.init_process_group("fake", store=fakes.FakeStore(), rank=0, world_size=2)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

        def forward(self, a):
            whole = spread.distribute_tensor(a, mesh, [spread.Shard(0)])
            kernel = spread.distribute_tensor(torch.rand(4, wide), mesh, [spread.Replicate()])
            return (whole @ kernel).to_local()

        wide = 8 if way == "observer" else 16  # torch remembers what it tried out for these shapes
        for _ in range(2):  # the first tries out on tensors without values what will come out
            assert forwards(Calls(forward), x()) == (4 * wide, "exact")
    finally:
        dist.destroy_process_group()


def test_a_nested_tensor():
    def forward(self, a, b):
        return self.fc(torch.nested.nested_tensor([a, b], layout=torch.jagged)).values()

    given = torch.rand(2, 4), torch.rand(3, 4)
    net = Calls(forward, fc=layer())
    assert forwards(net, *given) == (5 * 4 * 8, "exact")
    forward, backward, again = work(captured(net, *given))
    assert (forward, backward, again) == (5 * 4 * 8, (2 if OLD else 1) * 5 * 4 * 8, 0)


def test_a_selective_checkpoint():
    if not hasattr(checkpoints, "create_selective_checkpoint_contexts"):  # before torch 2.5
        pytest.skip("this torch has no selective checkpoints")
    kept = partial(checkpoints.create_selective_checkpoint_contexts, [aten.addmm.default])

    def forward(self, x):
        return checkpoints.checkpoint(self.part, x, use_reentrant=False, context_fn=kept)

    net = Calls(forward, part=nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 5)))
    assert work(captured(net, x())) == (MACS + 2 * 8 * 5, MACS + 2 * 2 * 8 * 5, 0)
    with AsItIs():
        assert work(captured(net, x()))[:2] == (MACS + 2 * 8 * 5, MACS + 2 * 2 * 8 * 5)


@pytest.mark.skipif(not tells_backends(), reason="this torch does not tell which backend compiled which code")
def test_a_compiled_region():
    net = layer()
    try:
        compiled = torch.compile(net, backend="eager")
        compiled(x())
    except (RuntimeError, AttributeError) as error:
        pytest.skip(f"torch.compile: {error}")
    assert forwards(Calls(lambda self, x: self.fc(x), fc=compiled), x()) == (MACS, "exact")
    assert forwards(under(Twice, compiled), x()) == (2 * MACS, "exact")


def test_autocast():
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.fc(x)

    net = Calls(forward, fc=layer())
    assert forwards(net, x()) == (MACS, "exact")
    assert forwards(under(AsItIs, net), x()) == (MACS, "exact")
    assert forwards(under(Twice, net), x()) == (2 * MACS, "exact")


def test_a_transform_under_a_mode():
    net = Calls(lambda self, x: torch.func.vmap(self.fc)(x), fc=layer())
    assert forwards(net, torch.rand(3, 2, 4)) == (3 * MACS, "exact")
    assert forwards(under(AsItIs, net), torch.rand(3, 2, 4)) == (3 * MACS, "exact")


KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def test_an_operator_that_is_sent_to_its_kernel_by_hand():
    def forward(self, x):
        return aten.mm.default.redispatch(KEYS, self.fc(x), torch.rand(8, 3))

    before = torch._ops.OpOverload.redispatch.__code__
    net = Calls(forward, fc=layer())
    assert forwards(net, x()) == (MACS, "at least")
    report = exact(net, x())
    assert any("aten::mm ran by redispatch()" in gap for gap in report.gaps)
    assert {row.path: row.macs.state for row in report.rows if row.event >= 0} == {
        "": "unknown",
        "fc": "exact",
    }
    assert torch._ops.OpOverload.redispatch.__code__ is before


@pytest.mark.skipif(OLD, reason="this torch refuses it")
def test_an_operator_that_is_sent_to_a_mode_by_hand_is_seen():
    keys = KEYS.add(torch._C.DispatchKey.Python)

    def forward(self, x):
        with Twice():
            return aten.addmm.default.redispatch(keys, torch.rand(8), x, torch.rand(4, 8))

    try:
        forward(None, x())
    except RuntimeError as error:
        if "tls_on_entry" not in str(error):
            raise
        pytest.skip("this torch fails an assertion of its own where nobody looks on, too")
    assert forwards(Calls(forward), x()) == (2 * MACS, "exact")


def test_an_operator_of_ones_own_is_not_sent_by_hand():
    def product(x):
        return x.mm(torch.ones(4, 4)) * 2

    product.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    twice = torch.library.custom_op("lamina_test_between::twice", product, mutates_args=())
    twice.register_autograd(lambda ctx, grad: grad * 2)
    for given in (x(), x().requires_grad_()):
        net = Calls(lambda self, x: twice(x))
        assert forwards(net, given) == (2 * 4 * 4, "exact")
    assert work(captured(net, x().requires_grad_())) == (2 * 4 * 4, 0, 0)


def test_an_operator_of_ones_own_is_named_where_its_kernel_calls_none():
    def doubled(x):
        return torch.from_numpy(x.numpy() * 2)

    doubled.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    twice = torch.library.custom_op("lamina_test_between::doubled", doubled, mutates_args=())
    report = exact(Calls(lambda self, x: twice(x)), x())
    assert report.flops.state != "exact"
    assert any("lamina_test_between::doubled" in gap for gap in report.gaps)


def test_a_product_larger_than_64_bits():
    def forward(self, a):
        return a.expand(2**21, 2**21) @ a.expand(2**21, 2**21)

    report = exact(Calls(forward), torch.zeros(1, 1, device="meta"))
    assert (report.macs, report.macs.state) == (2**63, "exact")
    assert report.flops == 2**64
