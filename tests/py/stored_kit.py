# SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory lies in other tensors, as those of torchao, and the bytes of their storages."""

from __future__ import annotations

import torch


class Wrapper(torch.Tensor):
    """Parts under the names of ``PARTS``, which its class names; ``full`` makes a plain tensor of them."""

    PARTS = ("q", "scale")

    @staticmethod
    def __new__(cls, *parts, dtype=torch.float32, grad=False):
        first = parts[0]
        return torch.Tensor._make_wrapper_subclass(
            cls, first.shape, dtype=dtype, device=first.device, requires_grad=grad
        )

    def __init__(self, *parts, dtype=torch.float32, grad=False):
        del dtype, grad
        for name, part in zip(self.PARTS, parts, strict=True):
            setattr(self, name, part)

    def __tensor_flatten__(self):
        return list(self.PARTS), None

    def __repr__(self):
        return type(self).__name__

    def parts(self):
        return [getattr(self, name) for name in self.PARTS]

    def full(self):
        return self.q.to(torch.float32) * self.scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(*args[0].parts(), dtype=args[0].dtype)
        plain = [arg.full() if isinstance(arg, Wrapper) else arg for arg in args]
        return function(*plain, **(kwargs or {}))


class Asked(Wrapper):
    """Answers torch's functions, as torchao's tensors do, so that no operator sees it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            x, weight, *bias = args
            return function(x, weight.full(), *bias)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class Nameless(Wrapper):
    """Does not name its parts."""

    def __tensor_flatten__(self):
        raise NotImplementedError


class Pair(Wrapper):
    """Two tensors of its own type, on which operators run in turn; it can be trained."""

    PARTS = ("a", "b")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def run(name):
            return function(
                *[getattr(arg, name) if isinstance(arg, Pair) else arg for arg in args], **(kwargs or {})
            )

        first, second = run("a"), run("b")
        return cls(first, second, dtype=first.dtype)


class Own(torch.Tensor):
    """Has memory of its own, and answers operators."""

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            out = function(*args, **(kwargs or {}))
        return cls(out) if function is torch.ops.aten.detach.default else out


def quantised(weight, cls=Wrapper):
    weight = weight.detach()
    scale = weight.abs().amax(1, keepdim=True) / 127
    return cls((weight / scale).round().to(torch.int8), scale)


def storages(tensors):
    """The bytes of the distinct storages in which tensors lie."""
    todo, found = list(tensors), {}
    while todo:
        tensor = todo.pop()
        if isinstance(tensor, Wrapper):
            todo += tensor.parts()
        elif hasattr(tensor, "_local_tensor"):
            todo.append(tensor._local_tensor)
        else:
            storage = tensor.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return sum(found.values())
