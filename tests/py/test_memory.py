# SPDX-License-Identifier: Apache-2.0
"""Memory, to the byte: against the storages that autograd and the caller hold, the gradients, and torch's own
profiler."""

from __future__ import annotations

import gc
import os
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls

import lamina
from lamina import _lamina, _memory, _observe

pytestmark = pytest.mark.skipif(bool(_memory.refused()), reason=f"no memory: {_memory.refused()}")
observed = pytest.mark.skipif(bool(_observe.nodes()), reason=f"no nodes: {_observe.nodes()}")

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
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors_in(value)}


def loss_of(result):
    return sum(t.sum() for t in tensors_in(result) if t.requires_grad)


def leaves(model):
    return {path: m for path, m in model.named_modules(remove_duplicate=False) if not list(m.children())}


class Holding:
    """What each leaf's call left behind: storages that were saved while it ran or came out of it, and that had not
    gone in, in bytes by path. Told by torch alone."""

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


def profiled(profile):
    """Bytes that came (and, negative, went), in order, as torch's profiler noted them."""
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda e: e.start_ns())]


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
