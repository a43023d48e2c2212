# SPDX-License-Identifier: Apache-2.0
"""Tensors in arguments and results: any nesting, any kind of tensor, and both ways to describe them."""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, UserDict, namedtuple

import pytest
import torch
from conftest import environment
from ext_kit import fresh, seen, shapes
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import warm
from lamina import _lamina

CORES = {"attributes": fresh("attributes")}
if fresh().describe_status()["tensors"] == "shim":
    CORES["shim"] = fresh("shim")


@pytest.fixture(params=sorted(CORES))
def core(request):
    return CORES[request.param]


class Returns(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.__dict__["value"] = value

    def forward(self, *args, **kwargs):
        return self.value


Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Plain:
    a: object = None
    b: object = None


@dataclasses.dataclass
class Slots:
    __slots__ = ("a", "b")
    a: object
    b: object


class Bag:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)


def t(*sizes, **kwargs):
    return torch.zeros(*sizes, **kwargs)


NESTED = {
    "tensor": (lambda: t(1), [(1,)], [0]),
    "tuple": (lambda: (t(1), t(2)), [(1,), (2,)], [0, 1]),
    "list": (lambda: [t(1), None, t(2)], [(1,), (2,)], [0, 2]),
    "dict": (lambda: {"a": t(1), "b": t(2)}, [(1,), (2,)], [0, 1]),
    "ordered dict": (lambda: OrderedDict(a=t(1), b=t(2)), [(1,), (2,)], [0, 1]),
    "user dict": (lambda: UserDict(a=t(1)), [(1,)], [0]),
    "named tuple": (lambda: Pair(t(1), t(2)), [(1,), (2,)], [0, 1]),
    "dataclass": (lambda: Plain(t(1), t(2)), [(1,), (2,)], [0, 1]),
    "dataclass with slots": (lambda: Slots(t(1), t(2)), [(1,), (2,)], [0, 1]),
    "object": (lambda: Bag(a=t(1), b=3, c=t(2)), [(1,), (2,)], [0, 2]),
    "deep": (lambda: (t(1), [{"k": (t(2), Bag(x=[t(3)]))}]), [(1,), (2,), (3,)], [0, 1, 1]),
    "torch's own": (lambda: torch.max(t(2, 3), 0), [(3,), (3,)], [0, 1]),
    "packed": (lambda: nn.utils.rnn.pack_sequence([t(3, 2), t(2, 2)]), [(5, 2), (3,)], [0, 1]),
    "distribution": (lambda: torch.distributions.Categorical(t(4, 5) + 0.2), [(4, 5), (4, 5)], None),
    "the same one twice": (lambda: [t(1)] * 2, [(1,), (1,)], [0, 1]),
    "a module": (lambda: (nn.Linear(2, 2), t(1)), [(1,)], [1]),
    "a parameter": (lambda: nn.Parameter(t(4)), [(4,)], [0]),
}


@pytest.mark.parametrize("name", sorted(NESTED))
def test_any_nesting_is_looked_through(name, core):
    make, expected, positions = NESTED[name]
    value = make()
    event = seen(Returns(value), value, core=core).events()[0]
    assert sorted(shapes(event["outputs"])) == sorted(expected)
    assert sorted(shapes(event["inputs"])) == sorted(expected)
    assert {a["position"] for a in event["inputs"]} == {0}
    if positions is not None:
        assert [a["position"] for a in event["outputs"]] == positions
    assert not event["unseen"]


@pytest.mark.parametrize(
    "value", [None, "text", 3, 2.5, (), {}, [None], Bag(), object(), range(9), nn.Tanh()]
)
def test_a_result_without_tensors_is_unseen(value, core):
    event = seen(Returns(value), t(1), core=core).events()[0]
    assert event["unseen"] and event["outputs"] == ()


def test_arguments_keep_their_place_and_name(core):
    inputs = seen(
        Returns(None), t(1), [t(2), t(3)], 5, t(4), mask=t(6), extra={"a": t(7)}, core=core
    ).events()[0]["inputs"]
    assert [(a["name"], a["position"], a["shape"]) for a in inputs] == [
        (None, 0, (1,)),
        (None, 1, (2,)),
        (None, 1, (3,)),
        (None, 3, (4,)),
        ("mask", -1, (6,)),
        ("extra.a", -1, (7,)),
    ]


def test_keywords_made_up_at_run_time_are_kept_by_text(core):
    net = Returns(None)
    capture = core.Capture(net)
    capture.start()
    for i in range(3000):
        net(**{f"key{i % 7}": t(1)})
    capture.stop()
    assert [e["inputs"][0]["name"] for e in capture.model().events()[:8]] == [f"key{i % 7}" for i in range(8)]


def test_cycles_and_depths_end(core):
    loop = [t(1)]
    loop.append(loop)
    loop.append({"again": loop, "more": t(2)})
    assert shapes(seen(Returns(loop), loop, core=core).events()[0]["outputs"]) == [(1,), (2,)]
    bag = Bag(x=t(3))
    bag.self = bag
    assert shapes(seen(Returns(bag), bag, core=core).events()[0]["outputs"]) == [(3,)]
    deep = t(4)
    for _ in range(5000):
        deep = [deep]
    model = seen(Returns(deep), deep, core=core)
    assert model.events()[0]["unseen"]
    assert any("levels" in note for note in model.notes())


def test_a_flood_of_values_is_cut_and_told(core):
    flood = [t(1)] + [0] * 100_000 + [t(2)]
    model = seen(Returns(flood), flood, core=core)
    assert shapes(model.events()[0]["outputs"]) == [(1,)]
    assert any("values" in note for note in model.notes())


def test_attributes_that_raise_are_stepped_over(core):
    class Bad:
        def __getattr__(self, name):
            raise RuntimeError(name)

        @property
        def __dict__(self):
            raise RuntimeError("no")

    assert seen(Returns((Bad(), t(2))), Bad(), core=core).events()[0]["outputs"][0]["shape"] == (2,)


# -- tensors ------------------------------------------------------------------------------------------------


class PlainSubclass(torch.Tensor):
    pass


class OwnShape(torch.Tensor):
    @property
    def shape(self):
        return torch.Size([7, 7])


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(2, 3, dtype=torch.float16)


def quantized():
    return torch.quantize_per_tensor(t(2, 3), 0.1, 0, torch.qint8)


# name: (make, shape, dtype, device number)
TENSORS = {
    "float": (lambda: t(2, 3), (2, 3), "float32", 0),
    "scalar": (lambda: torch.tensor(2.0), (), "float32", 0),
    "no elements": (lambda: t(0, 3), (0, 3), "float32", 0),
    "bf16": (lambda: t(2, dtype=torch.bfloat16), (2,), "bfloat16", 0),
    "int": (lambda: t(2, dtype=torch.int64), (2,), "int64", 0),
    "bool": (lambda: t(2, dtype=torch.bool), (2,), "bool", 0),
    "complex": (lambda: t(2, dtype=torch.complex64), (2,), "complex64", 0),
    "needs grad": (lambda: t(2, requires_grad=True), (2,), "float32", 0),
    "not a leaf": (lambda: t(2, requires_grad=True) * 2, (2,), "float32", 0),
    "view": (lambda: t(4, 6)[1:, ::2], (3, 3), "float32", 0),
    "expanded": (lambda: t(1, 3).expand(5, 3), (5, 3), "float32", 0),
    "transposed": (lambda: t(4, 6).t(), (6, 4), "float32", 0),
    "channels last": (
        lambda: t(1, 2, 3, 4).to(memory_format=torch.channels_last),
        (1, 2, 3, 4),
        "float32",
        0,
    ),
    "conjugate": (lambda: t(2, dtype=torch.complex64).conj(), (2,), "complex64", 0),
    "meta": (lambda: t(2, 3, device="meta"), (2, 3), "float32", 14),
    "sparse": (lambda: t(2, 3).to_sparse(), (2, 3), "float32", 0),
    "sparse rows": (lambda: t(2, 3).to_sparse_csr(), (2, 3), "float32", 0),
    "quantized": (quantized, (2, 3), "qint8", 0),
    "subclass": (lambda: t(2, 3).as_subclass(PlainSubclass), (2, 3), "float32", 0),
    "subclass with a shape of its own": (lambda: t(2, 3).as_subclass(OwnShape), (7, 7), "float32", 0),
    "parameter": (lambda: nn.Parameter(t(2)), (2,), "float32", 0),
    "uninitialised": (lambda: nn.UninitializedParameter(), None, "float32", 0),
    "fake": (fake, (2, 3), "float16", 0),
    "thirteen axes": (lambda: t(*[1] * 13), (1,) * 13, "float32", 0),
}
TENSORS |= {
    name: (lambda name=name: t(2, dtype=getattr(torch, name)), (2,), name, 0)
    for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64")
}


def described(value, core):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        (told,) = seen(Returns(None), value, core=core).events()[0]["inputs"]
    return told


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_every_kind_of_tensor_is_described(name, core):
    make, shape, dtype, device = TENSORS[name]
    try:
        value = make()
    except (ImportError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"this torch makes none: {error}")
    told = described(value, core)
    assert (told["shape"], told["dtype"], told["device"]) == (shape, dtype, device)


@pytest.mark.skipif("shim" not in CORES, reason="this torch's tensors are described by their attributes")
@pytest.mark.parametrize("name", sorted(TENSORS))
def test_both_ways_say_the_same(name):
    try:
        value = TENSORS[name][0]()
    except (ImportError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"this torch makes none: {error}")
    assert described(value, CORES["shim"]) == described(value, CORES["attributes"])


def test_nested_tensors_have_no_shape(core):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = torch.nested.nested_tensor([t(2, 3), t(4, 3)])
        told = seen(Returns(None), value, core=core).events()[0]["inputs"][0]
    assert told["shape"] is None and told["dtype"] == "float32"


def test_batched_tensors_of_vmap_are_described(core):
    net = nn.Linear(3, 4)
    capture = core.Capture(net)
    capture.start()
    torch.vmap(net)(t(5, 3))
    capture.stop()
    assert shapes(capture.model().events()[0]["outputs"]) == [(4,)]


def test_every_dtype_of_torch_has_the_same_name_both_ways(core):
    for kind in {v for v in vars(torch).values() if isinstance(v, torch.dtype)}:
        try:
            value = torch.empty(2, device="meta", dtype=kind)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
        assert f"torch.{described(value, core)['dtype']}" == str(kind)


def test_the_data_has_an_identity(core):
    net = nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), nn.Tanh())
    _, flat, act, tanh = seen(net, torch.randn(2, 3, 4), core=core).events()
    assert flat["inputs"][0]["storage"] == flat["outputs"][0]["storage"] != 0
    assert act["inputs"][0]["storage"] == act["outputs"][0]["storage"]
    assert tanh["inputs"][0]["storage"] != tanh["outputs"][0]["storage"]
    assert described(t(3, device="meta"), core)["storage"] == 0


def test_a_symbolic_size_is_unknown(core):
    class Symbolic(torch.Tensor):
        @property
        def shape(self):
            return (2, "s0")

    assert described(t(2, 3).as_subclass(Symbolic), core)["shape"] is None


class Interrupts(torch.Tensor):
    @property
    def shape(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_describing_reaches_the_user(core):
    bad = t(2).as_subclass(Interrupts)
    for net, given in ((Returns(None), (bad,)), (Returns(bad), ())):
        capture = core.Capture(net)
        capture.start()
        with pytest.raises(KeyboardInterrupt):
            net(*given)
        net.__dict__["value"] = t(3)
        net(t(4))
        capture.stop()
        last = capture.model().events()[-1]
        assert last["parent"] == -1 and shapes(last["inputs"]) == [(4,)] and shapes(last["outputs"]) == [(3,)]


def test_a_module_called_while_describing_is_not_a_call_of_the_model(core):
    net = nn.Sequential(nn.Tanh())

    class Calls(torch.Tensor):
        @property
        def shape(self):
            net[0](t(1))
            return torch.Size([9])

    model = seen(net, t(2).as_subclass(Calls), core=core)
    assert [e["inputs"][0]["shape"] for e in model.events()[:1]] == [(9,)]
    assert all(shapes(e["inputs"]) != [(1,)] for e in model.events())


@pytest.mark.skipif(not hasattr(torch.Tensor, "const_data_ptr"), reason="this torch has one address for all")
def test_memory_that_is_shared_until_it_is_written_to_is_not_copied(core):
    given = torch._lazy_clone(torch.rand(2, 4))
    assert seen(nn.Linear(4, 3), given, core=core).events()[0]["inputs"][0]["shape"] == (2, 4)
    assert torch._C._is_cow_tensor(given)


# -- which way ----------------------------------------------------------------------------------------------


def test_the_status_names_the_way_and_the_reason(monkeypatch):
    status = CORES["attributes"].describe_status()
    assert status == {"tensors": "attributes", "why": "LAMINA_TENSORS=attributes asks for it", "offset": -1}
    default = _lamina.describe_status()
    assert default["tensors"] in ("shim", "attributes") and default["why"]
    assert (default["offset"] >= 0) == (default["tensors"] == "shim")
    odd = fresh("nonsense").describe_status()
    assert odd["tensors"] == fresh().describe_status()["tensors"] and "is ignored" in odd["why"]


def test_a_proof_that_fails_falls_back_to_attributes(monkeypatch):
    low = getattr(torch._C, "_aoti", None)
    if low is None or not hasattr(low, "unsafe_alloc_void_ptr_from_tensor"):
        pytest.skip("this torch hands out no handles")
    true = low.unsafe_alloc_void_ptr_from_tensor
    other = t(1)
    monkeypatch.setattr(low, "unsafe_alloc_void_ptr_from_tensor", lambda _: true(other))
    lost = fresh()
    assert lost.describe_status()["tensors"] == "attributes"
    assert "could not be proved" in lost.describe_status()["why"]
    assert described(t(2, 3), lost)["shape"] == (2, 3)
    monkeypatch.setattr(low, "unsafe_alloc_void_ptr_from_tensor", lambda _: 1 / 0)
    assert fresh("shim").describe_status()["tensors"] == "attributes"


@pytest.mark.skipif("shim" not in CORES, reason="this torch's tensors are kept by their attributes")
def test_a_snapshot_keeps_buffers_without_an_operator_of_torchs():
    """An operator for each buffer would take ten times as long, and a mode of the user's would see it."""
    net, ran = nn.BatchNorm1d(3), []

    class Sees(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(func)
            return func(*args, **(kwargs or {}))

    with Sees():
        assert CORES["shim"].Snapshot(net).restore() == []
    assert ran == []


@pytest.mark.parametrize("version", ["1.13.1", "2.3.1+cpu"])
def test_an_older_torch_is_refused_in_a_sentence(version):
    script = (
        f"import torch\ntorch.__version__ = {version!r}\nimport lamina\n"
        "try: lamina.inspect(torch.nn.Linear(2, 2), torch.ones(1, 2))\n"
        "except ValueError as error: print(error)\n"
    )
    done = warm.python("-c", script, env=environment(), check=True)
    assert f"needs PyTorch 2.4 or later, and this is {version}: upgrade PyTorch" in done.stdout
    assert "lamina 0.1" in done.stdout


def test_without_torch_nothing_is_known_and_nothing_imported():
    import subprocess
    import sys

    script = (
        "import sys\nfrom lamina import _lamina\n"
        "assert _lamina.describe_status()['tensors'] == 'unknown'\n"
        "try: _lamina.Capture(3)\n"
        "except ValueError as error: assert 'torch is not imported' in str(error), error\n"
        "else: raise SystemExit('no error')\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
