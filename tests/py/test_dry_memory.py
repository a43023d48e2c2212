# SPDX-License-Identifier: Apache-2.0
"""A dry run has no memory to read: what reads it is refused in a sentence, what only copies it goes on."""

from __future__ import annotations

import copy
import ctypes
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import environment
from test_dry import numbers, offered, same, watched
from torch import nn
from torch.utils import _python_dispatch as modes

import lamina
import warm
from lamina import _lamina
from lamina._base.errors import NeedsValuesError

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not offered(), reason="this torch has no tensors without memory")


class Does(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.register_buffer("ids", torch.arange(4))
        self.register_buffer("table", torch.rand(20))
        self.does = does

    def forward(self, x):
        return self.does(self, x)


class Own(torch.Tensor):
    """A program's class of tensors."""


def with_layer(read):
    """A forward that does this with the result of a layer."""
    return lambda net, x: (read(net.layer(x).detach()), net.layer(x))[1]


FLOATS = ctypes.POINTER(ctypes.c_float)
STORAGE, ADDRESS = (
    "it needs a tensor's memory (untyped_storage(): ",
    "it needs the memory at a tensor's address",
)
AS_MEMORY, AS_LIST, AS_ARRAY = (
    "it needs its memory (",
    "it needs its values as a list",
    "it needs its values as an array",
)
AS_NUMBER, AS_PICKLE = "it needs a tensor's value as a number", "it needs its values (pickle, torch.save)"
READS = {
    "clone": (with_layer(lambda y: y.untyped_storage().clone()), STORAGE + ".clone()"),
    "first byte": (with_layer(lambda y: y.untyped_storage()[0]), STORAGE + "__getitem__"),
    "first value": (with_layer(lambda y: y.storage()[0]), AS_MEMORY + ".storage()"),
    "of an older class": (with_layer(lambda y: y._typed_storage()[0]), AS_MEMORY + ".storage()"),
    "list": (with_layer(lambda y: y.untyped_storage().tolist()), STORAGE + ".tolist()"),
    "bytes": (with_layer(lambda y: bytes(y.untyped_storage())), STORAGE + "__iter__"),
    "filled": (with_layer(lambda y: y.untyped_storage().fill_(1)), STORAGE + ".fill_()"),
    "one set": (with_layer(lambda y: y.untyped_storage().__setitem__(0, 1)), STORAGE + "__setitem__"),
    "copied to": (
        with_layer(lambda y: y.untyped_storage().copy_(torch.UntypedStorage(y.nbytes))),
        STORAGE + ".copy_()",
    ),
    "copied from": (
        with_layer(lambda y: torch.UntypedStorage(y.nbytes).copy_(y.untyped_storage())),
        "it needs a tensor's memory (untyped_storage())",
    ),
    "freed": (with_layer(lambda y: y.untyped_storage().resize_(0)), STORAGE + ".resize_()"),
    "converted": (with_layer(lambda y: y.untyped_storage().double()), STORAGE + ".double()"),
    "moved": (with_layer(lambda y: y.untyped_storage().cpu()), STORAGE + ".cpu()"),
    "shared": (with_layer(lambda y: y.untyped_storage().share_memory_()), STORAGE + ".share_memory_()"),
    "pickled storage": (with_layer(lambda y: pickle.dumps(y.untyped_storage())), STORAGE + "__reduce_ex__"),
    "turned": (with_layer(lambda y: y.untyped_storage().byteswap(torch.float32)), STORAGE + ".byteswap()"),
    "a storage of it": (
        with_layer(lambda y: torch.UntypedStorage(y.untyped_storage())),
        STORAGE + "__len__",
    ),
    "applied": (with_layer(lambda y: y.apply_(abs)), "it needs its values (.apply_())"),
    "mapped": (with_layer(lambda y: y.map_(y, lambda a, b: a)), "it needs its values (.map_())"),
    "a tensor of the storage": (
        with_layer(lambda y: torch.ByteTensor(y.untyped_storage()).tolist()),
        "it needs a tensor's memory (untyped_storage())",
    ),
    "taken over": (
        with_layer(lambda y: torch.empty(0).set_(y.untyped_storage())),
        "it needs a tensor's memory (untyped_storage())",
    ),
    "taken over as a tensor": (with_layer(lambda y: torch.empty(0).set_(y).tolist()), AS_LIST),
    "numpy": (with_layer(lambda y: y.numpy()), AS_ARRAY),
    "numpy of data": (with_layer(lambda y: y.data.numpy()), AS_ARRAY),
    "numpy of a weight": (lambda net, x: net.layer.weight.data.numpy(), AS_ARRAY),
    "numpy's own function": (with_layer(np.asarray), AS_ARRAY),
    "list of values": (with_layer(lambda y: y.tolist()), AS_LIST),
    "list of a counter": (
        lambda net, x: (setattr(net.ids, "data", (x[:, 0] > 0).long()), net.ids.tolist()),
        AS_LIST,
    ),
    "a tensor of a list": (with_layer(lambda y: torch.tensor(list(y[0]))), AS_NUMBER),
    "a tensor of whole numbers": (with_layer(lambda y: torch.tensor(list(y[0].long()))), AS_NUMBER),
    "sum in Python": (with_layer(lambda y: sum(float(each) for each in y[0])), AS_NUMBER),
    "pickled": (with_layer(pickle.dumps), AS_PICKLE),
    "a saved state": (lambda net, x: torch.save(net.state_dict(), io.BytesIO()), AS_PICKLE),
    "at the address": (with_layer(lambda y: ctypes.string_at(y.data_ptr(), 4)), ADDRESS),
    "by a pointer": (with_layer(lambda y: ctypes.cast(y.data_ptr(), FLOATS)[0]), ADDRESS),
    "by an array there": (with_layer(lambda y: (ctypes.c_float * 2).from_address(y.data_ptr())[0]), ADDRESS),
    "by a void pointer": (with_layer(lambda y: ctypes.c_void_p(y.data_ptr())), ADDRESS),
    "at the storage's address": (
        with_layer(lambda y: ctypes.string_at(y.untyped_storage().data_ptr(), 4)),
        ADDRESS,
    ),
    "DLPack": (with_layer(torch.from_dlpack), AS_MEMORY + "DLPack"),
    "DLPack of old": (with_layer(lambda y: torch.utils.dlpack.to_dlpack(y)), AS_MEMORY + "DLPack"),
    "numpy by DLPack": (with_layer(np.from_dlpack), AS_MEMORY + "DLPack"),
    "shared memory": (with_layer(lambda y: y.share_memory_()), AS_MEMORY + ".share_memory_()"),
    "under another class": (with_layer(lambda y: y.as_subclass(Own).untyped_storage()[0]), STORAGE),
    "numpy of another class": (with_layer(lambda y: y.as_subclass(Own).numpy()), AS_ARRAY),
    "list of another class": (with_layer(lambda y: (y.as_subclass(Own) * 2).tolist()), AS_LIST),
    "under torch's class": (with_layer(lambda y: y.as_subclass(torch.Tensor).tolist()), AS_LIST),
    "shown in full": (with_layer(torch._tensor_str._str), "it "),
}


def told(read):
    """What a dry run and a prediction of memory say of a forward."""
    said = []
    for run in (lambda net, x: lamina.inspect(net, x, dry=True), lamina.fit):
        try:
            said.append(f"ran: {run(Does(read), torch.rand(4, 8))}")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.mark.parametrize("name", READS)
def test_what_reads_memory_is_refused_in_a_sentence(name):
    read, what = READS[name]
    for text in told(read) if lamina._observe.support.way().name != "calls" else told(read)[:1]:
        start = f"NeedsValuesError: a dry run can't follow the model itself (Does): {what}"
        assert text.startswith(start)
        assert "\n" not in text


COPIES = {
    "a layer": lambda net, x: copy.deepcopy(net.layer)(x),
    "the model": lambda net, x: copy.deepcopy(net).layer(x),
    "statistics": lambda net, x: copy.deepcopy(net.norm)(net.layer(x)),
    "one layer twice": lambda net, x: copy.deepcopy(nn.ModuleList([net.layer, net.layer]))[1](x),
    "a state": lambda net, x: (copy.deepcopy(net.state_dict()), net.layer(x))[1],
    "a tensor and its view": lambda net, x: _sum(*copy.deepcopy([x.detach(), x.detach()[1:]])),
    "one that wants a gradient": lambda net, x: copy.deepcopy(torch.ones(8, requires_grad=True)) * x,
    "known values": lambda net, x: net.layer(x)[:, : copy.deepcopy(net).ids[2].item()],
    "without its values": lambda net, x: copy.copy(net.layer)(copy.copy(x)),
    "a moving average": lambda net, x: _averaged(copy.deepcopy(net.layer).requires_grad_(False), net.layer)(
        x
    ),
    "known values by pickle": lambda net, x: x * pickle.loads(pickle.dumps(torch.arange(8)))[1],
}


def _sum(x, part):
    return x[1:] + part


def _averaged(copied, layer):
    for ours, new in zip(copied.requires_grad_(False).parameters(), layer.parameters(), strict=True):
        ours.mul_(0.9).add_(new, alpha=0.1)
    return copied


@watched
@pytest.mark.parametrize("name", COPIES)
def test_copies_are_those_of_a_real_run(name):
    net = Does(COPIES[name]).eval()
    report = same(net, torch.rand(4, 8), convention="exact")
    assert int(report.bytes) == int(lamina.inspect(net, torch.rand(4, 8)).bytes)
    assert lamina.fit(net, torch.rand(4, 8)).forward.bytes > 0


def test_what_is_no_leaf_is_not_copied():
    with pytest.raises(RuntimeError, match="support the deepcopy protocol"):
        lamina.inspect(
            Does(lambda net, x: copy.deepcopy(net.layer(x))), torch.rand(4, 8), dry=True, backward=True
        )


LAYOUTS = {
    "an empty result": lambda net, x: torch.mm(x, x.mT, out=torch.empty(0)),
    "an empty one of its own": lambda net, x: torch.cat([x, x], out=x.new_empty(0)),
    "one that grows": lambda net, x: x.clone().resize_(8, 8),
    "as another": lambda net, x: x.clone().resize_as_(torch.empty(8, 8)),
    "one that shrinks": lambda net, x: x.clone().resize_(2, 8),
    "taken over": lambda net, x: net.layer(torch.empty(0).set_(x)),
    "emptied": lambda net, x: (x.clone().set_(), net.layer(x))[1],
    "a part of a buffer": lambda net, x: net.table[5:15].as_strided((2, 2), (1, 2), 0) * 2,
    "a part of an input": lambda net, x: x.as_strided((2, 8), (8, 1), 0) * 2,
    "another class": lambda net, x: net.layer((x.as_subclass(Own) * 2).relu()),
    "another class and back": lambda net, x: net.layer(x.as_subclass(Own).as_subclass(torch.Tensor)),
}


@watched
@pytest.mark.parametrize("name", LAYOUTS)
def test_memory_that_changes_hands_is_that_of_a_real_run(name):
    net = Does(LAYOUTS[name])
    for x in (torch.rand(4, 8), torch.rand(20, 8)[6:10]):
        report = same(net, x, convention="exact")
        assert report.rows[0].out_shapes == lamina.inspect(net, x).rows[0].out_shapes


@watched
def test_tensors_that_share_memory_share_it_in_a_dry_run():
    def does(net, x):
        whole, part = x
        assert part.data_ptr() - whole.data_ptr() == 2 * 8 * 4
        assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        part.zero_()
        return net.layer(whole)

    whole = torch.rand(4, 8)
    same(Does(does), ((whole, whole[2:]),), convention="exact")
    same(Does(does), ((whole[:], whole[2:]),), convention="exact")


def test_addresses_tell_what_shares_memory():
    def does(net, x):
        at, part, other = x.data_ptr(), x[1].data_ptr(), x.clone().data_ptr()
        assert at == x.view(-1).data_ptr() != part
        assert part - at == 32
        assert at + 32 == part == 32 + at
        assert part - 32 == at
        assert at < part
        assert part >= at
        assert not at > part
        assert at <= part
        assert at % 4 == 0 == at & 3
        assert len({at, x.data_ptr(), part}) == 2
        assert bool(at)
        assert at != other
        assert at != 0
        assert "address" in repr(at)
        assert f"{at:d}".isdigit()
        storage = x.untyped_storage()
        assert (storage.nbytes(), storage.size(), storage.device.type) == (128, 128, "cpu")
        assert "without values" in repr(storage)
        return net.layer(x)

    assert lamina.inspect(Does(does), torch.rand(4, 8), dry=True).macs == 4 * 8 * 8


# -- under a limit of address space --------------------------------------------------------------------------

LIMIT = 40 << 30


def all_of_it():
    """What a child process under the limit says."""
    said = {name: told(read) for name, (read, _) in READS.items()}
    for name, copies in COPIES.items():
        said[name] = [numbers(lamina.inspect(Does(copies).eval(), torch.rand(4, 8), dry=True))[1]]
    said["large"] = [
        int(lamina.inspect(nn.Linear(8, 1 << 30, device="meta"), torch.rand(4, 8), dry=True).macs)
    ]
    return said


@cache
def under_a_limit():
    code = (
        "import json, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))\n"
        "import test_dry_memory\n"
        "json.dump(test_dry_memory.all_of_it(), sys.stdout)\n"
    )
    search = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


limited = pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="the sanitizer needs the addresses")


@limited
@watched
@pytest.mark.parametrize("name", READS)
def test_nothing_dies_where_addresses_are_few(name):
    assert under_a_limit()[name] == told(READS[name][0])


@limited
@watched
def test_copies_are_the_same_where_addresses_are_few():
    for name, copies in COPIES.items():
        net = Does(copies).eval()
        assert under_a_limit()[name] == [int(lamina.inspect(net, torch.rand(4, 8)).macs)]
    assert under_a_limit()["large"] == [4 * 8 << 30]  # twice the limit, and no memory


# -- other programs in the forward ---------------------------------------------------------------------------


def test_a_module_that_is_imported_keeps_what_it_makes(tmp_path, monkeypatch):
    (tmp_path / "its_constants.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "scale = torch.tensor([1., 2.]).repeat(4)\n"
        "layer = nn.Linear(8, 8)\n"
        "n = int((torch.rand(9) >= 0).sum())\n"  # of what has no values in a dry run
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def does(net, x):
        its = importlib.import_module("its_constants")
        return its.layer(x * its.scale) + its.n

    try:
        report = lamina.inspect(Does(does), torch.rand(4, 8), dry=True)
        its = sys.modules["its_constants"]
        assert (type(its.scale), type(its.layer.weight)) == (torch.Tensor, nn.Parameter)
        assert (its.scale.sum().item(), its.n) == (12, 9)
        assert its.layer(torch.ones(1, 8)).isfinite().all()
        assert report.macs == lamina.inspect(Does(does), torch.rand(4, 8)).macs
    finally:
        sys.modules.pop("its_constants", None)


def test_what_a_cache_of_the_program_keeps_has_its_values_afterwards():
    @cache
    def table(n):
        return torch.arange(n).float().outer(torch.ones(2)).cos()

    net = Does(lambda net, x: net.layer(x) * table(4)[:, :1])
    lamina.inspect(net, torch.rand(4, 8), dry=True)
    assert torch.equal(table(4) + 0, torch.arange(4).float().outer(torch.ones(2)).cos())
    assert table(4)[0, 0].item() == 1
    assert table(4).tolist()[0] == [1, 1]
    assert torch.stack([table(4), table(4)]).sum() > 0
    assert lamina.inspect(net, torch.rand(4, 8)).macs == 4 * 8 * 8


def test_what_such_a_cache_keeps_without_values_is_no_trap():
    kept = []
    net = Does(lambda net, x: kept.append((torch.arange(4).add_(x[:, 0].long()), x)) or net.layer(x))
    lamina.inspect(net, torch.rand(4, 8), dry=True)
    for tensor in kept[0]:
        for use in (lambda t: t + 1, lambda t: t.tolist(), copy.deepcopy, pickle.dumps):
            with pytest.raises(NeedsValuesError, match="of a dry run that has ended"):
                use(tensor)


def exported(module, *args):
    return torch.export.export(module, args).module()(*args)


def traced(module, *args):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(module)(*args)(*args)


TRACES = {
    "export": lambda net, x: exported(net.layer, x),
    "export of another": lambda net, x: exported(nn.Linear(8, 8), torch.zeros(4, 8)),
    "make_fx": lambda net, x: traced(net.layer, x),
    "linearize": lambda net, x: torch.func.linearize(net.layer, x)[1](x),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_forward_that_traces_itself_is_refused(name):
    before = modes._push_mode, list(sys.meta_path)
    with pytest.raises(NeedsValuesError, match=r"it exports or traces itself \(torch\.\w+") as caught:
        lamina.inspect(Does(TRACES[name]), torch.rand(4, 8), dry=True)
    assert "\n" not in str(caught.value)
    assert (modes._push_mode, list(sys.meta_path)) == before
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_first_export_is_refused_too():
    code = (
        "import torch, lamina\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        "    def forward(self, x):\n"
        "        return torch.export.export(self.layer, (x,)).module()(x)\n"
        "try:\n"
        "    lamina.inspect(Net(), torch.rand(4, 8), dry=True)\n"
        "except lamina.LaminaError as error:\n"
        "    print(error)\n"
        "print(torch.export.export(nn.Linear(8, 8), (torch.rand(4, 8),)) is not None)\n"
    )
    done = warm.python("-c", code, env=environment(PYTHONWARNINGS="ignore"), check=True)
    refused, works = done.stdout.splitlines()
    assert "it exports or traces itself (torch.export.export)" in refused
    assert works == "True"


def test_modes_of_the_program_are_no_traces():
    class Passes(modes.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **kwargs or {})

    def does(net, x):
        with Passes():
            return net.layer(x)

    assert lamina.inspect(Does(does), torch.rand(4, 8), dry=True).macs == 4 * 8 * 8


def test_other_threads_import_and_trace_meanwhile():
    done = []

    def other():
        from torch.fx.experimental.proxy_tensor import make_fx

        done.append(make_fx(torch.sin)(torch.ones(2))(torch.zeros(2)).tolist())
        done.append(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist())

    def does(net, x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return net.layer(x)

    lamina.inspect(Does(does), torch.rand(4, 8), dry=True)
    assert done == [[0, 0], [1, 1]]


JAGGED = {
    "converted": lambda net, x: net.layer(x.to(torch.float32)),
    "its layout": lambda net, x: net.layer(x.values()) if x.layout == torch.jagged else x,
    "a layer": lambda net, x: net.layer(x),
    "as a result": lambda net, x: torch.nested.nested_tensor_from_jagged(net.layer(x.values()), x.offsets()),
    "made of parts": lambda net, x: torch.nested.as_nested_tensor([x.values()], layout=torch.jagged),
}


@pytest.mark.skipif(not hasattr(torch, "jagged"), reason="this torch has no jagged tensors")
@pytest.mark.parametrize("name", JAGGED)
def test_a_jagged_tensor_is_followed_or_refused(name):
    net = Does(JAGGED[name])
    try:
        x = torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(2, 8)], layout=torch.jagged)
        real = lamina.inspect(net, (x,)).macs
    except NotImplementedError:
        pytest.skip("this torch's jagged tensors do not do that")
    try:
        assert lamina.inspect(net, (x,), dry=True).macs == real
    except NeedsValuesError as refused:
        assert "a dry run can't follow" in str(refused)
        assert "ested" in str(refused)


@pytest.mark.parametrize("make", [lambda x: Own._make_subclass(Own, x), Own, lambda _: Own(4, 8).zero_()])
def test_a_tensor_of_a_class_of_the_program_s_is_refused(make):
    net = Does(lambda net, x: net.layer(make(x)))
    lamina.inspect(net, torch.rand(4, 8))
    with pytest.raises(NeedsValuesError, match="makes a tensor of the subclass Own,"):
        lamina.inspect(net, torch.rand(4, 8), dry=True)


def test_the_core_knows_the_addresses_of_a_dry_run():
    at = []
    lamina.inspect(Does(lambda net, x: at.append(x.data_ptr()) or net.layer(x)), torch.rand(4, 8), dry=True)
    assert _lamina.Dry.owns(at[0]._at)
    assert not _lamina.Dry.owns(torch.rand(2).data_ptr())
    with pytest.raises(TypeError):
        _lamina.Dry.owns("x")
