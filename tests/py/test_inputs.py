# SPDX-License-Identifier: Apache-2.0
"""Whatever goes into a model and comes out of it, and whatever kind of model it is."""

from __future__ import annotations

import contextlib
import gc
import warnings

import nets
import pytest
import torch
from torch import nn
from where_kit import not_observed

import lamina


def x(*shape):
    return torch.rand(*(shape or (1, 4)))


class Takes(nn.Module):
    """Hands its arguments to a child, which finds a tensor in them, and on to a layer."""

    def __init__(self, find):
        super().__init__()
        self.inner = Finds(find)
        self.fc = nn.Linear(4, 4)

    def forward(self, *args, **kwargs):
        return self.fc(self.inner(*args, **kwargs))


class Finds(nn.Module):
    def __init__(self, find):
        super().__init__()
        self.find = find

    def forward(self, *args, **kwargs):
        return self.find(*args, **kwargs)


NESTED = {
    "tuple": ((x(3, 4), 1), lambda v: v[0]),
    "list": ([1, x(3, 4)], lambda v: v[1]),
    "dict": ({"a": x(3, 4), "b": None}, lambda v: v["a"]),
    "deep": ([{"a": (1, [x(3, 4)])}], lambda v: v[0]["a"][1][0]),
    "namedtuple": (nets.Pair(x(3, 4), 2), lambda v: v.left),
    "dataclass": (nets.Box(x(3, 4)), lambda v: v.tensor),
    "object": (nets.Plain(x(3, 4)), lambda v: v.tensor),
}


@pytest.mark.parametrize("kind", NESTED)
def test_tensors_inside_arguments(kind):
    value, find = NESTED[kind]
    for args, kwargs in (((value,), None), ((), {"value": value})):
        net = Takes(find if args else lambda value: find(value))
        report = lamina.inspect(net, args, kwargs)
        rows = {row.path: row for row in report.rows}
        assert rows["inner"].in_shapes[:1] == rows["fc"].in_shapes == ((3, 4),)
        assert report.under("torchscan").macs == 48


@pytest.mark.parametrize("kind", NESTED)
def test_tensors_inside_results(kind):
    wraps = {
        "tuple": lambda t: (t, 1),
        "list": lambda t: [1, t],
        "dict": lambda t: {"a": t},
        "deep": lambda t: [{"a": (1, [t])}],
        "namedtuple": lambda t: nets.Pair(t, 2),
        "dataclass": nets.Box,
        "object": nets.Plain,
    }
    net = nets.Wraps(wraps[kind], NESTED[kind][1] if kind != "list" else lambda v: v[1])
    rows = {row.path: row for row in lamina.inspect(net, x()).rows}
    assert rows["inner"].out_shapes == ((1, 4),)
    assert rows["head"].macs == 8


def test_a_value_that_holds_itself():
    loop = [x()]
    loop.append(loop)
    assert lamina.inspect(Takes(lambda v: v[0]), (loop,)).under("torchscan").macs == 16


def test_args_as_torch_export_takes_them():
    net = nets.TwoInputs()
    assert lamina.inspect(net, (x(), x())).macs == lamina.inspect(net, (x(),), {"y": x()}).macs == 8
    assert lamina.inspect(nn.Linear(4, 4), x()).macs == 16
    with pytest.raises(TypeError, match="tuple"):
        lamina.inspect(net, [x(), x()])
    with pytest.raises(TypeError, match="third"):
        lamina.inspect(net, {"x": x(), "y": x()})


def test_no_arguments_at_all():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self):
            return self.fc(torch.ones(1, 4))

    assert lamina.inspect(Constant()).macs == 8


def test_keyword_arguments_only():
    assert lamina.inspect(nets.Keywords(), kwargs={"x": x()}).macs == 12


def test_no_parameters():
    report = lamina.inspect(nn.Sequential(nn.ReLU(), nn.Flatten()), x(1, 3, 4))
    assert (report.params, report.params.state, report.macs) == (0, "exact", 0)


@pytest.mark.parametrize(
    ("make", "shape", "macs"),
    [
        (lambda: nn.LazyLinear(3), (1, 4), 12),
        (lambda: nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d()), (1, 3, 5, 5), 2 * 9 * 27),
    ],
    ids=["LazyLinear", "LazyConv2d"],
)
def test_lazy_modules(make, shape, macs):
    net = make()
    assert lamina.inspect(net, x(*shape), mode="eval").macs == macs
    assert lamina.inspect(net, x(*shape), mode="eval").macs == macs
    net.eval()(x(*shape))  # and it still runs


def parametrized(name):
    layer = nn.Linear(4, 4)
    if name == "old weight_norm":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.nn.utils.weight_norm(layer)
    if name == "pruned":
        import torch.nn.utils.prune as prune

        return prune.l1_unstructured(layer, "weight", amount=0.3)
    return getattr(torch.nn.utils.parametrizations, name)(layer)


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm", "orthogonal", "old weight_norm", "pruned"])
def test_parametrized_layers(name):
    net = nn.Sequential(parametrized(name), nn.ReLU())
    row = next(row for row in lamina.inspect(net, x()).rows if row.path == "0")
    assert row.macs == 16
    assert row.type.endswith("Linear")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(dtype):
    net = nn.Linear(4, 4).to(dtype)
    row = lamina.inspect(net, x().to(dtype)).rows[0]
    assert (row.macs, row.param_bytes) == (16, 20 * dtype.itemsize)
    assert row.in_dtypes == (str(dtype).removeprefix("torch."),)


def test_integers():
    net = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2))
    assert lamina.inspect(net, torch.zeros(1, 5, dtype=torch.int64)).macs == 40


def test_meta_device():
    with torch.device("meta"):
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).eval(), nn.ReLU())
        given = torch.empty(1, 3, 64, 64)
    assert lamina.inspect(net, given).macs == 8 * 62 * 62 * 27


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net, given = nn.Linear(4, 4), torch.empty(2, 4)
        assert lamina.inspect(net, given).macs == 32


def test_non_contiguous():
    assert lamina.inspect(nn.Linear(4, 4), x(4, 3).t()).macs == 48
    assert lamina.inspect(nn.Linear(4, 4), x(1, 4).expand(5, 4)).macs == 80


def test_sparse_and_strange_inputs_are_rows_all_the_same():
    class Sums(nn.Module):
        def forward(self, x):
            return torch.sparse.sum(x)

    assert lamina.inspect(nn.Sequential(Sums()), torch.eye(3).to_sparse()).rows[0].in_shapes == ((3, 3),)


def test_nested_tensors():
    layer = nn.Linear(4, 2)
    nested = torch.nested.nested_tensor([x(3, 4), x(5, 4)])
    try:
        layer(nested)
    except RuntimeError as error:
        pytest.skip(f"this torch has no layer for them: {error}")
    report = lamina.inspect(layer, nested)
    assert report.rows[0].type == "Linear" and report.params == 10
    del nested
    with pytest.raises(ValueError, match="is gone"):
        report.fit()


def test_a_packed_sequence_is_one_argument():
    """It is a tuple, and not the arguments."""
    packed = nn.utils.rnn.pack_sequence([x(3, 4), x(2, 4)])
    lone = lamina.inspect(nn.LSTM(4, 2), packed)
    assert lone.macs == lamina.inspect(nn.LSTM(4, 2), (packed,)).macs


def test_empty_batch():
    assert lamina.inspect(nn.Linear(4, 4), x(0, 4)).macs == 0


# -- scripted and compiled -----------------------------------------------------------------------------------


def scripted(kind, layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(layer) if kind == "script" else torch.jit.trace(layer, x())


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_scripted_child(kind):
    net = nn.Sequential(scripted(kind, nn.Linear(4, 4)), nn.Linear(4, 2))
    report = lamina.inspect(net, x(), ops=False)
    assert report.params == 30
    assert report.macs >= 8
    assert report.macs.state == "at least"
    assert next(row for row in report.rows if row.path == "0").macs.state == "unknown"
    if not not_observed():
        whole = lamina.inspect(net, x())
        assert (whole.macs, whole.macs.state) == (24, "exact")


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_scripted_root(kind):
    report = lamina.inspect(scripted(kind, nn.Sequential(nn.Linear(4, 4), nn.ReLU())), x(), ops=False)
    assert report.params == 20
    assert report.macs.state == "unknown"
    assert report.gaps


@pytest.fixture
def dynamo():
    dynamo = pytest.importorskip("torch._dynamo")
    dynamo.reset()
    yield dynamo
    dynamo.reset()


@pytest.mark.parametrize("where", ["root", "child", "in place"])
def test_compiled_models_are_seen_layer_by_layer_and_stay_compiled(where, dynamo):
    compiles = []

    def backend(graph, inputs):
        compiles.append(graph)
        return graph.forward

    # A Sequential that is compiled in place is never compiled by torch itself.
    net = (
        nets.Repeats(2)
        if where == "in place"
        else nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
    )
    if where == "root":
        run = torch.compile(net, backend=backend)
    elif where == "child":
        net[1] = torch.compile(net[1], backend=backend)
        run = net
    else:
        net.compile(backend=backend)
        run = net
    with torch.no_grad():
        run(x())
    before = len(compiles)
    assert before > 0
    report = lamina.inspect(run, x(), ops=False)
    assert report.macs == 32
    assert report.macs.state == ("at least" if where == "in place" else "exact")  # a forward of its own
    assert len(compiles) == before
    with torch.no_grad():
        run(x())
    assert len(compiles) == before


def test_compiling_first_after_a_capture_still_compiles(dynamo):
    compiles = []

    def backend(graph, inputs):
        compiles.append(graph)
        return graph.forward

    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(net, backend=backend)
    lamina.inspect(compiled, x())
    assert compiles == []
    compiled(x())
    assert len(compiles) == 1


def test_a_call_to_a_compiled_root_inside_capture(dynamo):
    net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
    with lamina.capture(net) as cap:
        net(x())
    assert cap.report().macs == 16


def test_a_capture_that_is_dropped_leaves_the_compiler_on(dynamo):
    net, given = nn.Sequential(nn.Linear(3, 3)), torch.ones(1, 3)
    torch.compile(nn.ReLU(), backend="eager")(given)  # the compiler is there
    watch = lamina.capture(net)
    watch.__enter__()
    net(given)
    del watch
    gc.collect()
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    torch.compile(nn.Sequential(nn.Tanh()), backend=backend)(given)
    assert len(compiled) == 1


class Looks(nn.Module):
    """Opens a capture in its forward."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        with lamina.capture(self.fc):
            return self.fc(x)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_capture_that_compiled_code_refuses_leaves_later_ones_whole(dynamo):
    compiles = []

    def backend(graph, inputs):
        compiles.append(graph)
        return graph.forward

    looks = torch.compile(Looks(), backend="eager")
    with contextlib.suppress(RuntimeError):  # torch turns nothing off inside compiled code
        looks(x())
    gc.collect()
    net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend=backend)
    for _ in range(2):
        with lamina.capture(net) as cap:
            net(x())
        assert cap.report().macs == 16
        assert compiles == []
    net(x())
    assert len(compiles) == 1


def test_overlapping_captures_leave_the_compiler_on(dynamo):
    compiles = []

    def backend(graph, inputs):
        compiles.append(graph)
        return graph.forward

    first, second = lamina.capture(nn.ReLU()), lamina.capture(nn.ReLU())
    first.__enter__()  # as two threads may interleave
    second.__enter__()
    first.__exit__(None, None, None)
    net = torch.compile(nets.Repeats(1), backend=backend)
    net(x())
    assert compiles == []
    second.__exit__(None, None, None)
    net(x())
    assert len(compiles) == 1
