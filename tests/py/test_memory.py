# SPDX-License-Identifier: Apache-2.0
"""Memory, to the byte: against the storages that autograd and the caller hold, the gradients, and torch's own
profiler."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls

import lamina
from lamina import _lamina
from lamina._observe import memory, support

pytestmark = pytest.mark.skipif(bool(memory.refused()), reason=f"no memory: {memory.refused()}")
observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")

MIB = 1 << 20


def vision(name, size, **kwargs):
    models = pytest.importorskip("torchvision.models")
    return getattr(models, name)(weights=None, **kwargs), (torch.randn(2, 3, size, size),)


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=200,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    return transformers.BertModel(config), (torch.randint(0, 200, (2, 16)),)


def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=200,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config), (torch.randint(0, 200, (2, 16)),)


def lstm():
    net = Calls(lambda self, x: self.head(self.rnn(self.embed(x))[0]), embed=nn.Embedding(50, 8))
    net.rnn = nn.LSTM(8, 16, num_layers=2, batch_first=True, dropout=0.1)
    net.head = nn.Linear(16, 3)
    return net, (torch.randint(0, 50, (3, 7)),)


NETS = {
    "resnet18": lambda: vision("resnet18", 64),
    "densenet121": lambda: vision("densenet121", 64),
    "vgg11_bn": lambda: vision("vgg11_bn", 32, num_classes=10),
    "vit_b_16": lambda: vision("vit_b_16", 32, image_size=32),
    "swin_t": lambda: vision("swin_t", 64),
    "lstm": lstm,
    "bert": bert,
    "llama": llama,
}


@pytest.fixture(params=NETS, scope="module")
def net(request):
    torch.manual_seed(0)
    model, args = NETS[request.param]()
    return model.train(), args


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def storages(value):
    held = [t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage() for t in tensors_in(value)]
    return {storage.data_ptr(): storage.nbytes() for storage in held}


def loss_of(result):
    return sum(t.sum() for t in tensors_in(result) if t.requires_grad)


def leaves(model):
    return {path: m for path, m in model.named_modules(remove_duplicate=False) if not list(m.children())}


class Holding:
    """What each leaf's call left behind: storages that were saved while it ran or came out of it, and had
    not gone in, in bytes by path. Told by torch alone."""

    def __init__(self, model):
        self.bytes = {}
        self._open = []
        self._handles = []
        self._known = storages([*model.parameters(), *model.buffers()])
        for path, leaf in leaves(model).items():
            self.bytes[path] = 0
            self._handles += [
                leaf.register_forward_pre_hook(self._enter, with_kwargs=True),
                leaf.register_forward_hook(lambda m, a, out, path=path: self._leave(path, out)),
            ]

    def _enter(self, module, args, kwargs):
        self._open.append((storages([args, kwargs]), {}))

    def _leave(self, path, out):
        went_in, saved = self._open.pop()
        held = {**saved, **storages(out if isinstance(out, (tuple, list, dict, torch.Tensor)) else vars(out))}
        self.bytes[path] += sum(n for at, n in held.items() if at not in went_in and at not in self._known)

    def pack(self, tensor):
        if self._open:
            self._open[-1][1].update(storages(tensor))
        return tensor

    def remove(self):
        for handle in self._handles:
            handle.remove()


def drop_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None
    gc.collect()


@observed
def test_every_leaf_to_the_byte(net):
    model, args = net
    drop_gradients(model)
    # A first run makes what is made once (packed weights, positions).
    loss_of(model(*args)).backward()
    drop_gradients(model)
    holding = Holding(model)
    try:
        with (
            torch.autograd.graph.saved_tensors_hooks(holding.pack, lambda t: t),
            lamina.capture(model, memory=True) as cap,
        ):
            result = model(*args)
            loss_of(result).backward()
    finally:
        holding.remove()
    memory = cap.report().memory
    told = {path: memory[path].forward.retained for path in holding.bytes}
    assert told == holding.bytes
    assert sum(told.values()) > 0
    calls = {row["path"]: row["calls"] for row in cap._model.memory()["places"]}
    for path, leaf in leaves(model).items():
        gradients = sum(p.grad.untyped_storage().nbytes() for p in leaf.parameters() if p.grad is not None)
        if calls[path]:
            assert memory[path].backward.retained == gradients, path
    everything = sum(p.grad.untyped_storage().nbytes() for p in model.parameters() if p.grad is not None)
    assert memory[""].total_backward.retained == everything > 0


def start(event):
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def profiled(profile):
    """Bytes that came (and, negative, went), in order, as torch's profiler noted them."""
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=start)]


def test_the_peak_is_the_allocator_s_own(net):
    model, args = net
    drop_gradients(model)
    with (
        lamina.capture(model, memory=True) as cap,
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof,
    ):
        loss_of(model(*args)).backward()
    memory = cap.report().memory
    live = peak = 0
    for n in profiled(prof):
        live += n
        peak = max(peak, live)
    assert memory.peak_allocated == peak > 0
    assert memory.allocated - memory.freed == live
    before = storages([*model.parameters(), *model.buffers(), args])
    assert memory.before == sum(before.values())
    assert memory.peak == sum(memory.held.values()) >= peak
    assert memory.peak == max(n for _, n in memory.timeline(10**9))


# -- what is held as what ------------------------------------------------------------------------------------


def mlp():
    return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))


def bytes_of(tensors):
    return sum(storages(list(tensors)).values())


def test_a_training_loop():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(64, 64)
    with lamina.capture(model, memory=True) as cap:
        for i in range(4):
            optimizer.zero_grad()
            model(data[16 * i : 16 * i + 16]).sum().backward()
            optimizer.step()
    memory = cap.report().memory
    state = [v for s in optimizer.state.values() for v in s.values()]
    assert memory.held["parameters"] == bytes_of(model.parameters())
    assert memory.held["gradients"] == bytes_of(model.parameters())
    if hasattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook"):
        assert memory.held["optimizer"] == bytes_of(state)
        kept = bytes_of(v for v in optimizer.state[model[0].weight].values())
        kept += bytes_of(v for v in optimizer.state[model[0].bias].values())
        assert memory["0"].held["optimizer"] == kept
    assert memory.held["input"] == bytes_of([data])
    assert memory["2"].held["gradients"] == bytes_of(model[2].parameters())
    assert memory[""].total_held["parameters"] == bytes_of(model.parameters())
    assert sum(memory.held.values()) == memory.peak


def test_a_place_that_is_not_there():
    memory = lamina.inspect(mlp(), torch.randn(2, 64), memory=True).memory
    for path, text in (
        ("00", "no layer at '00'; did you mean 0?"),
        (3, r"a layer is named by its path, as 'layer1\.0', '' is the whole model, and this is 3"),
        ([], r"and this is (a list|\[\])"),
    ):
        with pytest.raises(KeyError, match=text):
            memory[path]


class Lists(torch.optim.Optimizer):
    """Keeps its tensors in lists, dicts and tuples, and in a list that holds itself; and of all parameters
    together a vector, with the first."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        for p in (p for group in self.param_groups for p in group["params"]):
            state = self.state[p]
            if not state:
                state["kept"] = [p.grad.clone(), {"more": (p.grad.clone(), 1)}]
                state["kept"].append(state["kept"])
        first = self.state[self.param_groups[0]["params"][0]]
        first["flat"] = torch.cat([g.flatten() for g in grads])


@pytest.mark.skipif(
    not hasattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook"),
    reason="this torch does not tell of steps",
)
def test_what_an_optimizer_keeps_in_lists():
    model, x = mlp(), torch.randn(16, 64)
    optimizer = Lists(model.parameters())
    with lamina.capture(model, memory=True) as cap:
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    memory, size = cap.report().memory, bytes_of(model.parameters())
    assert memory.held["optimizer"] == 3 * size
    assert memory.unplaced["optimizer"] == size
    assert memory["0"].held["optimizer"] == 2 * bytes_of(model[0].parameters())


def test_torchs_optimizers_call_nothing_of_ours_afterwards():
    module = sys.modules["torch.optim.optimizer"]
    hooks = [module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks]
    before = [dict(hook) for hook in hooks]
    model = mlp()
    with lamina.capture(model, memory=True):
        assert [len(hook) for hook in hooks] == [len(hook) + 1 for hook in before]
    assert [dict(hook) for hook in hooks] == before
    lamina.inspect(model, torch.randn(16, 64), memory=True, backward=True)
    assert [dict(hook) for hook in hooks] == before


def test_what_was_there_before_and_goes():
    model, x = mlp(), torch.randn(4, 64)
    model(x).sum().backward()
    before = bytes_of(model.parameters())
    with lamina.capture(model, memory=True) as cap:
        model(x).sum().backward()  # adds to the gradients that there are
        model.zero_grad(set_to_none=True)
    memory = cap.report().memory
    assert memory.before == 2 * before + bytes_of([x])
    assert memory.held["gradients"] == before
    assert memory.timeline()[-1][1] == before + bytes_of([x]) + memory.allocated - memory.freed


def test_the_timeline_goes_by_the_monotonic_clock():
    """Whatever counts in a capture: a block that is kept comes while its layer sleeps on it."""

    class Slow(nn.Module):
        def forward(self, x):
            self.began = time.monotonic_ns()
            kept = torch.ones(MIB)
            self.came = time.monotonic_ns()
            time.sleep(0.02)
            return x + kept

    model = Slow()
    with lamina.capture(model, time=True, memory=True) as watch:
        model(torch.zeros(1))
    points = watch.report().memory.timeline(10**9)
    came = [at for (_, before), (at, n) in pairwise(points) if n - before == 4 * MIB]
    assert len(came) == 2
    slack = 5_000_000
    assert model.began - slack < came[0] < model.came + slack
    assert came[1] - came[0] > 20_000_000 - slack


@observed
def test_inspect_leaves_gradients_as_they_were():
    model, x = mlp(), torch.randn(4, 64)
    model(x).sum().backward()
    kept = [p.grad.clone() for p in model.parameters()]
    report = lamina.inspect(model, (x,), ops=False, backward=True, memory=True)
    assert all(torch.equal(p.grad, k) for p, k in zip(model.parameters(), kept, strict=True))
    memory = report.memory
    # The old ones are put aside and new ones made.
    assert memory["0"].backward.allocated >= bytes_of(model[0].parameters())
    assert memory.held["gradients"] == 2 * bytes_of(model.parameters())
    assert report.backward.macs.state == "unknown"  # operators were not watched


def test_without_gradients_nothing_is_kept():
    model, x = mlp(), torch.randn(16, 64)
    memory = lamina.inspect(model, (x,), memory=True).memory
    assert memory["0"].forward == (16384, 16384, 16384, 16384)
    assert memory["1"].forward == (16384, 16384, 16384, 16384)
    assert memory[""].forward.peak == 2 * 16384
    assert memory[""].total_forward.allocated == 2 * 16384 + 4096
    assert memory[""].total_forward.retained == 4096
    assert memory.peak_phase == "forward"
    assert memory.peak_in in ("1", "2")


def test_workspace_is_what_goes_again():
    net = Calls(lambda self, x: self.lin(x) + (x.exp() * 2).sum(), lin=nn.Linear(64, 64))
    memory = lamina.inspect(net, (torch.randn(1024, 64),), memory=True).memory
    both = 2 * 1024 * 64 * 4  # exp() and its double, while a sum begins
    assert both <= memory[""].held["workspace"] < both + 64
    assert memory["lin"].held["activations"] in (0, 1024 * 64 * 4)
    assert memory[""].forward.retained == 1024 * 64 * 4


@observed
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("ops", [False, True])
def test_work_done_again(reentrant, ops):
    net = Calls(lambda self, x: checkpoint(self.block, x, use_reentrant=reentrant), block=mlp())
    x = torch.randn(16, 64, requires_grad=True)
    with lamina.capture(net, memory=True, ops=ops) as cap:
        net(x).sum().backward()
    memory = cap.report().memory
    assert memory["block.0"].forward.allocated == 16384
    assert memory["block.0"].recompute.allocated == 16384
    assert memory["block.1"].forward.retained == 16384
    given = bytes_of([*net.block[0].parameters(), x.grad])
    if not reentrant:  # there the gradient of the input is handed on by what is around the block
        assert memory["block.0"].backward.retained == given
    assert memory["block"].total_recompute.allocated == memory[""].total_recompute.allocated > 0
    gradients = bytes_of([p.grad for p in net.parameters()])
    for path in ("", "block"):
        assert gradients <= memory[path].total_backward.retained <= gradients + bytes_of([x.grad])


def test_nested_captures_see_the_same():
    net, x = nn.Sequential(mlp(), nn.Linear(64, 8)), torch.randn(16, 64)
    with lamina.capture(net, memory=True) as outer, lamina.capture(net[0], memory=True) as inner:
        net(x)
    a, b = outer.report().memory, inner.report().memory
    assert a["0.0"].forward == b["0"].forward
    assert a["0.1"].held["activations"] == b["1"].held["activations"]
    assert a.peak_allocated == b.peak_allocated
    assert b.unplaced["other"] == 0 or b.unplaced["other"] == 16 * 8 * 4


def test_resident_memory_is_told():
    model = mlp()
    rss = lamina.inspect(model, (torch.randn(2, 64),), memory=True).memory.rss
    assert rss["open"] > MIB
    assert rss["close"] > MIB
    assert rss["peak"] is None or rss["peak"] >= rss["close"]


# -- in tables and files -------------------------------------------------------------------------------------


def test_tables_and_files():
    model, x = mlp(), torch.randn(16, 64)
    report = lamina.inspect(model, (x,), memory=True)
    line = next(line for line in str(report).splitlines() if "0 (Linear)" in line)
    assert "16.0 KiB  16.0 KiB  16.0 KiB" in line
    assert "\nmemory     peak" in str(report)
    assert "\nmemory     peak" not in str(lamina.inspect(model, (x,)))
    told = json.loads(report.to_json())
    assert told["memory"]["held"] == {k: v for k, v in report.memory.held.items() if v}
    assert told["rows"][1]["memory"]["own"]["forward"]["retained"] == 16384
    row = next(csv.DictReader(line for line in report.to_csv().splitlines() if not line.startswith(",")))
    assert (row["memory_allocated"], row["memory_peak"]) == ("16384", "16384")


# -- not measured --------------------------------------------------------------------------------------------


def test_not_asked_for():
    report = lamina.inspect(mlp(), (torch.randn(2, 64),))
    with pytest.raises(ValueError, match="memory=True"):
        _ = report.memory


def test_a_dry_run_has_none():
    with pytest.raises(ValueError, match="a dry run allocates nothing"):
        lamina.inspect(mlp(), (torch.randn(2, 64),), dry=True, memory=True)


def test_where_it_cant_be_measured_that_is_said(monkeypatch):
    monkeypatch.setattr(memory, "refused", lambda: "this torch has no allocator")
    monkeypatch.setattr(memory.Profiled, "refused", lambda: "it is away")
    says = "can't be measured here: this torch has no allocator; nor by torch's profiler: it is away"
    with pytest.raises(ValueError, match=says):
        lamina.inspect(mlp(), (torch.randn(2, 64),), memory=True)


profiler = pytest.mark.skipif(
    bool(memory.Profiled.refused()), reason=f"no profiler: {memory.Profiled.refused()}"
)


@profiler
@pytest.mark.parametrize("name", ["resnet18", "lstm"])
def test_the_profiler_tells_the_same_of_forwards(name, monkeypatch):
    torch.manual_seed(0)
    model, args = NETS[name]()
    loss_of(model(*args)).backward()
    told = []
    for refused in (None, "this torch has no allocator"):
        monkeypatch.setattr(memory, "refused", lambda why=refused: why)
        drop_gradients(model)
        with lamina.capture(model, memory=True) as cap:
            loss_of(model(*args)).backward()
        told.append(cap.report().memory)
        assert ("by torch's profiler" in " ".join(cap.report().notes)) == (refused is not None)
    ours, theirs = told
    assert "backward" not in theirs.held and "backward" not in theirs.rows[0].held
    assert sum(theirs.held.values()) == theirs.peak
    assert theirs.peak_phase is None if theirs.peak_in is None else theirs.peak_phase == "forward"
    assert theirs.source == "torch's profiler, because this torch has no allocator"
    assert [row.forward for row in theirs.rows] == [row.forward for row in ours.rows]
    assert theirs.peak_allocated == ours.peak_allocated
    assert (theirs.allocated, theirs.freed) == (ours.allocated, ours.freed)
    assert theirs.rows[0].held["gradients"] == ours.rows[0].held["gradients"]
    assert all(row.backward is None and row.total_recompute is None for row in theirs.rows)
    assert all((row.backward is None) == bool(support.nodes()) for row in ours.rows)
    report = cap.report()
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert all(row["backward_memory_allocated"] == "" for row in rows)
    assert any(row["memory_allocated"] not in ("", "0") for row in rows)
    told = [row["memory"] for row in json.loads(report.to_json())["rows"] if row["memory"]]
    assert told and all(use["own"]["backward"] is None and use["own"]["forward"] for use in told)


# -- threads, forks, and what is left ------------------------------------------------------------------------


def entries():
    """What torch's libraries hold that was sealed once they were loaded: their entries are there."""
    held = {}
    with Path("/proc/self/maps").open() as maps, Path("/proc/self/mem").open("rb", 0) as memory:
        for line in maps:
            where, mode, *_, path = line.split(maxsplit=5)
            name = Path(path.strip()).name
            if name.split(".")[0] not in ("libc10", "libtorch_cpu") or mode != "r--p":
                continue
            start, end = (int(edge, 16) for edge in where.split("-"))
            if end - start < 64 * MIB and int(line.split()[2], 16) != 0:
                memory.seek(start)
                held[name, start, mode] = hash(memory.read(end - start))
    return held


def test_entries_are_as_they_were():
    model, x = mlp(), torch.randn(2, 64)
    lamina.inspect(model, (x,), memory=True)
    before = entries()
    with lamina.capture(model, memory=True):
        model(x)
        assert entries() != before
    assert entries() == before
    with pytest.raises(ZeroDivisionError), lamina.capture(model, memory=True) as cap:
        model(x)
        raise ZeroDivisionError
    assert entries() == before
    assert cap.report().memory["0"].forward.allocated == 2048
    with pytest.raises(RuntimeError):
        lamina.inspect(model, (torch.randn(2, 3),), memory=True)
    assert entries() == before


def test_a_call_that_raised():
    net = Calls(lambda self, x: self.last(self.lin(x)), lin=nn.Linear(64, 64))
    net.last = Calls(lambda self, x: x.exp() + torch.zeros(5, 5))
    with pytest.raises(RuntimeError), lamina.capture(net, memory=True) as cap:
        net(torch.randn(2, 64))
    memory = cap.report().memory
    assert memory["lin"].forward.allocated == 512
    assert memory["last"].forward.allocated >= 512


def test_what_other_threads_do_is_apart():
    model, x = mlp(), torch.randn(2, 64)
    with lamina.capture(model, memory=True) as cap:
        thread = threading.Thread(target=lambda: torch.empty(1000, dtype=torch.uint8))
        thread.start()
        thread.join()
        model(x)
    memory = cap.report().memory
    assert memory.elsewhere == 1000
    assert memory.allocated == memory[""].total_forward.allocated == 2 * 2048 + 512


def test_opened_and_closed_while_threads_run():
    model, x = mlp(), torch.randn(8, 64)
    stop, wrong = threading.Event(), []

    def work():
        own = mlp()
        want = own(x)
        while not stop.is_set():
            if not torch.equal(own(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            with lamina.capture(model, memory=True) as cap:
                model(x)
            assert cap.report().memory[""].total_forward.allocated == 2 * 8192 + 2048
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_looks_no_further():
    model, x = mlp(), torch.randn(2, 64)
    with lamina.capture(model, memory=True) as cap:
        model(x)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                torch.set_num_threads(1)  # the others were not forked
                model(x)
                cap.__exit__(None, None, None)
                told = cap.report()
                code = 0 if not told._model.memory_measured() and "forked" in " ".join(told.notes) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        model(x)
    assert cap.report().memory[""].total_forward.allocated == 2 * (2 * 2048 + 512)


def test_a_loader_that_forks():
    model = mlp()
    data = torch.utils.data.TensorDataset(torch.randn(12, 64))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
    with lamina.capture(model, memory=True) as cap:
        seen = [model(x) for (x,) in loader]
    assert len(seen) == 3
    assert cap.report().memory["2"].forward.allocated == 3 * 4 * 256


def test_ten_at_a_time_are_too_many():
    model = mlp()
    kept = []
    with pytest.raises(lamina.LaminaError, match=r"captures .*are open"):
        for _ in range(10):
            kept.append(lamina.capture(model, memory=True))
            kept[-1].__enter__()
    for capture in reversed(kept[:-1]):
        capture.__exit__(None, None, None)
    lamina.inspect(model, (torch.randn(2, 64),), memory=True)
    assert _lamina.probe_memory() is None


def test_the_doctor_says_whether(monkeypatch):
    from lamina._command.doctor import describe

    assert "\nmemory: measured at torch's allocator for the CPU (checked)\n" in describe()
    monkeypatch.setattr(memory, "refused", lambda: "this torch has no allocator")
    assert (
        "\nmemory: measured by torch's profiler (checked), which is slower: this torch has no allocator\n"
        in describe()
    )
    monkeypatch.setattr(memory.Profiled, "refused", lambda: "it is away")
    assert "\nmemory: not measured, so --memory doesn't work; `lamina fit`" in describe()
    assert " instead: this torch has no allocator; it is away\n" in describe()
