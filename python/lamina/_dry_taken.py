# SPDX-License-Identifier: Apache-2.0
"""What an operator takes beside its results while it runs: copies, partial sums, what a kernel library works
in. That is not imitated. Each operator of a dry run whose memory is followed is run once, alone, on tensors
of its sizes that are made up, while torch's allocator is watched; what it took is remembered for all
operators with these arguments. What is too much work is left to the core's rules (src/vocab/workspace.def)."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._memory import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._dry import _Run

MOST_BYTES = 1 << 26  # of its arguments and its results, and
MOST_WORK = 1 << 31  # products, for it to be run
MOST_KEPT = 65536  # answers
BLOCK = 4096
OURS = ("aten", "torchvision")  # namespaces; whatever others' operators do is not done unasked
# Their work is more than a number of times their elements.
PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::baddbmm": (1, 2),
}
SQUARES = (
    "linalg",
    "cholesky",
    "svd",
    "matrix_exp",
    "lu_",
    "qr",
    "triangular",
    "cdist",
    "pdist",
    "rnn",
    "ldl",
)
FROM_ONE = ("lu_", "ldl")  # whose whole numbers are positions from 1
# What the first takes depends on values; torch's own way to the second is another in aten::linalg_lu.
ROUGHLY = ("aten::linalg_matrix_exp", "aten::lu_unpack")

NOTHING = 0, -1, True

_measured: dict[Any, tuple[int, int, bool] | None] = {}


class Taken:
    """Measures for one dry run."""

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.torch = sys.modules["torch"]
        self.can = refused() is None

    def __call__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, out: Any, ruled: bool
    ) -> tuple[int, int, bool] | None:
        """Bytes that the operator takes beside its results, bytes that these hold (-1: as their shapes say),
        and whether both are sure; None where they were not measured. ``out``: what it gives in the dry run;
        ``ruled``: where it is too much work, the core knows it."""
        if self.run.stands_in:
            self.run.stands_in = False
            return NOTHING
        kwargs = kwargs or {}
        tensors: list[Any] = []
        key = (function, self._key(args, tensors), self._key(kwargs, tensors), self.torch.get_num_threads())
        if key not in _measured:
            if len(_measured) >= MOST_KEPT:
                _measured.clear()
            _measured[key] = self._measure(function, args, kwargs, tensors, out, ruled)
        taken = _measured[key]
        by_values, self.run.by_values = self.run.by_values, False
        return (*taken[:2], False) if taken and by_values else taken

    def _key(self, value: Any, tensors: list[Any]) -> Any:
        """What two calls have in common that take the same; gathers the tensors in ``value``."""
        if isinstance(value, self.torch.Tensor):
            for at, tensor in enumerate(tensors):
                if tensor is value:
                    return at
            tensors.append(value)
            return value.dtype, tuple(value.shape), value.stride()
        if isinstance(value, (list, tuple)):
            return tuple(self._key(v, tensors) for v in value)
        if isinstance(value, dict):
            return tuple((k, self._key(v, tensors)) for k, v in value.items())
        if isinstance(value, self.torch.Generator):
            return self.torch.Generator
        return type(value), value if value.__hash__ is not None else repr(value)

    def _measure(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], out: Any, ruled: bool
    ) -> tuple[int, int, bool] | None:
        schema = getattr(function, "_schema", None)
        if schema is None or schema.name.partition("::")[0] not in OURS:
            return NOTHING  # others' are named where the peak is told
        if not self.can or self._is_dear(schema.name, args, tensors, out):
            if not tensors or self._is_map(function, tensors):
                return NOTHING
            return self._of_fewer(function, args, kwargs, tensors, out) if self.can and not ruled else None
        taken = self._of(function, args, kwargs, tensors, lambda shape: shape)
        return None if taken is None else (*taken, schema.name not in ROUGHLY)

    def _of(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], sized: Callable[[Any], Any]
    ) -> tuple[int, int] | None:
        """Runs it on tensors of ``sized(shape)``: what it took beside its results, and what these hold; None
        where it can't work on what was made up."""
        torch, name = self.torch, function._schema.name
        for values in (0, 1):
            try:
                with torch._C._DisableTorchDispatch():
                    made = {id(t): self._made(t, name, values, sized) for t in tensors}
                    given = self.run._map(args, [], lambda t: made[id(t)])
                    named = self.run._map({**kwargs, **self._own(kwargs)}, [], lambda t: made[id(t)])
                    most, left = _lamina.taken(function, given, named)
            except Exception:  # noqa: BLE001, PERF203 - whatever it is that it can't work on
                continue
            return max(most - left, 0), left
        return None

    def _of_fewer(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], out: Any
    ) -> tuple[int, int, bool] | None:
        """What is too much work is run on fewer examples, as the first tensor has on its first axis, and on
        half of them. From both follows roughly what all take."""
        examples = tensors[0].shape[0] if tensors[0].dim() else 0  # not a count
        names = function._schema.name
        few = examples // 2
        while few and self._is_dear(names, args, tensors, out, few / examples):
            few //= 2
        if not few:
            return None
        took = []
        for n in (few, few // 2) if few > 1 else (few,):

            def sized(shape: Any, n: int = n) -> Any:
                return (n, *shape[1:]) if shape and shape[0] == examples else shape

            taken = self._of(function, self._listed(args, sized), kwargs, tensors, sized)
            if taken is None:
                return None
            took.append(taken[0])
        if few == 1:
            took.append(0)
        each = (took[0] - took[1]) / (few - few // 2)  # not a count: of memory, as what follows
        return max(round(took[0] + each * (examples - few)), 0), -1, False

    def _listed(self, args: Any, sized: Callable[[Any], Any]) -> Any:
        """Shapes among the arguments."""
        return tuple(
            type(a)(sized(tuple(a))) if isinstance(a, list) and a and type(a[0]) is int and len(a) > 1 else a
            for a in args
        )

    def _is_map(self, function: Any, tensors: list[Any]) -> bool:
        """Element by element, in one type: nothing is converted, and each result is written once."""
        return self.run._is(function, "pointwise") and len({t.dtype for t in tensors}) == 1

    def _is_dear(self, name: str, args: Any, tensors: list[Any], out: Any, share: float = 1) -> bool:
        everything = [*tensors, *_tensors(out)]
        size = sum(t.numel() * t.element_size() for t in everything)  # not a count: whether it is run
        work = sum(t.numel() for t in tensors)  # not a count: as above, and what follows
        if name in PRODUCTS:
            x, y = (args[at] for at in PRODUCTS[name])
            work = x.numel() * y.shape[-1]  # not a count
        elif name.startswith("aten::convolution"):
            work = self._of_convolution(name, args)
        elif "attention" in name:
            q, k = (next(t for t in tensors if t.dim() == 4), tensors[1])  # not a count: axes
            work = q.numel() * k.shape[-2]  # not a count
        elif any(part in name for part in SQUARES):
            work = 16 * max(t.numel() * max([1, *t.shape[-2:]]) for t in tensors)  # not a count
        return size * share > MOST_BYTES or work * share > MOST_WORK

    def _of_convolution(self, name: str, args: Any) -> int:
        """The weights take part in as many products as the output, or a transposed one's input, has places."""
        back = name.endswith("backward")
        places = args[0] if back else None
        x, w = (args[1], args[2]) if back else (args[0], args[1])
        transposed = args[7] if back else args[6]
        if transposed:
            places = x
        if places is not None:
            return int(w.numel() * places.numel() // max(places.shape[1], 1))  # not a count
        stride = args[3]
        area = math.prod(-(-n // stride[i % len(stride)]) for i, n in enumerate(x.shape[2:]))
        return int(w.numel() * x.shape[0] * area)  # not a count

    def _own(self, kwargs: Any) -> dict[str, Any]:
        """In the place of a generator of the user's."""
        return {k: generator(self.torch) for k, v in kwargs.items() if isinstance(v, self.torch.Generator)}

    def _made(self, fake: Any, name: str, values: int, sized: Callable[[Any], Any]) -> Any:
        """A real tensor laid out as this one, with values that hardly any kernel refuses."""
        torch = self.torch
        shape = sized(tuple(fake.shape))
        if self.run.knows(fake) and shape == fake.shape:
            return self.run.real(fake)
        tensor = torch.empty_strided(shape, fake.stride(), dtype=fake.dtype)
        if fake.numel() == 0:
            return tensor
        if not (tensor.is_floating_point() or tensor.is_complex()):
            from_one = values or any(part in name for part in FROM_ONE)
            return tensor.fill_(1 if from_one and fake.dtype != torch.bool else 0)
        if values and fake.dim() > 1 and fake.shape[-1] == fake.shape[-2]:
            return tensor.copy_(torch.eye(fake.shape[-1]).expand(fake.shape))
        memory = torch.empty(0, dtype=fake.dtype).set_(tensor.untyped_storage())
        if fake.is_complex():
            memory = torch.view_as_real(memory).view(-1)
        whole = memory.numel() // BLOCK * BLOCK  # not a count: of blocks
        if whole:
            memory[:whole].view(-1, BLOCK).copy_(self._block())
        memory[whole:].copy_(self._block()[: memory.numel() - whole])  # not a count: the rest
        return tensor

    def _block(self) -> Any:
        """Numbers between 0 and 1 that no generator of the user's gave."""
        if "block" not in _blocks:
            _blocks["block"] = self.torch.rand(BLOCK, generator=generator(self.torch))
        return _blocks["block"]


_blocks: dict[str, Any] = {}


def generator(torch: Any) -> Any:
    """One that is nobody else's."""
    own = torch.Generator()
    own.manual_seed(0)
    return own


def _tensors(value: Any) -> list[Any]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if hasattr(item, "element_size")]
