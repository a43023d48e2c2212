# SPDX-License-Identifier: Apache-2.0
"""The workspace of operators: copies, partial sums, a kernel library's buffers. Each operator of a dry run
whose memory is followed is run once, alone, on made-up tensors of its sizes, while torch's allocator is
watched; the result is kept for all operators with these arguments. For operators that are too much work the
core has rules (src/vocab/workspace.def); those without a rule are run on fewer examples."""

from __future__ import annotations

import math
import mmap
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._observe.memory import refused
from .._observe.support import in_a_thread
from .operators import is_tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .mode import _Run

# An operator is run if its arguments and results have at most so many bytes, and it has at most so many
# products.
MOST_BYTES = 67108864
MOST_WORK = 2147483648
# The same for convolutions, whose workspace does not follow from a few examples, and for all convolutions of
# a run.
LARGE_BYTES, LARGE_WORK, LARGE_IN_ALL = 536870912, 68719476736, 274877906944
SLOWER = 64  # how much more work a product is if the processor has no instructions for its type
# More work than this runs in another thread, so that Ctrl-C is heard meanwhile.
LONG = 4294967296
UNTOUCHED = 16777216  # bytes: tensors of more are zeros that take no memory
MOST_KEPT = 65536  # the most results that are kept
BLOCK = 4096
OURS = ("aten", "torchvision")  # the namespaces whose operators are run
PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2)}
RECURRENT = ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward")
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward")
# Parts of names of operators that work on whole rows, or matrices, for each element.
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
    "ldl",
)
TIMES = 16  # the most passes of such an operator over a row
KNOWN = (  # these have no workspace
    "aten::_softmax_backward_data",
    "aten::_log_softmax_backward_data",
    "aten::_local_scalar_dense",
)
FROM_ONE = ("lu_", "ldl")  # parts of names of operators whose integers are positions from 1
# The workspace of the first depends on values; torch takes another path to the second in aten::linalg_lu.
ROUGHLY = ("aten::linalg_matrix_exp", "aten::lu_unpack")

# Under torch's dispatch mode, where callers are unknown, these may replace operators that torch runs in
# place.
IN_PLACE = frozenset(
    f"aten::{name}"
    for name in ("scatter", "scatter_add", "index_add", "index_fill", "logical_and", "logical_or", "isnan")
)

NOTHING = 0, -1, True

# The same, and the strides of results that a real run lays out differently.
_measured: dict[Any, tuple[int, int, bool, list[tuple[int, Any]]] | None] = {}


class Taken:
    """Measures for one dry run."""

    def __init__(self, run: _Run) -> None:
        self.run = run
        self.torch = sys.modules["torch"]
        self.can = refused() is None
        self.left = LARGE_IN_ALL

    def __call__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, out: Any, ruled: bool
    ) -> tuple[int, int, bool] | None:
        """The operator's workspace in bytes, the bytes of its results (-1: by their shapes), and whether both
        are exact; None if they were not measured. ``out``: its results in the dry run; ``ruled``: the core
        has a rule for it if it is too much work."""
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
        if taken is None:
            return None
        bytes_, left, sure, layouts = taken
        if layouts:
            sure = self._lay_out(_tensors(out), tensors, layouts) and sure
        elsewhere = function._schema.name in IN_PLACE and self.run.core.here() >= 0
        return bytes_, left, sure and not by_values and not elsewhere

    def _lay_out(self, results: list[Any], given: list[Any], layouts: list[tuple[int, Any]]) -> bool:
        """Lays results out as a real run does, before other code holds them, because operators on them may
        then copy them. False if that is impossible."""
        try:
            with self.torch._C._DisableTorchDispatch():
                for at, stride in layouts:
                    if any(results[at] is tensor for tensor in given) or self.run.knows(results[at]):
                        return False
                    self.torch.ops.aten.as_strided_.default(results[at], results[at].shape, stride)
        except RuntimeError:  # it would not fit in the memory of the result
            return False
        return True

    def _key(self, value: Any, tensors: list[Any]) -> Any:
        """A key that calls with the same workspace share; collects the tensors in ``value``."""
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
        return type(value), repr(value) if isinstance(value, float) or value.__hash__ is None else value

    def _measure(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], out: Any, ruled: bool
    ) -> tuple[int, int, bool, list[tuple[int, Any]]] | None:
        schema = getattr(function, "_schema", None)
        if schema is None or schema.name.partition("::")[0] not in OURS:
            return *NOTHING, []  # the fit names operators of other libraries beside the peak
        if schema.name == RECURRENT[1] and args[0].dtype == self.torch.float32:
            return None  # a rule sized what its forward kept, which the kernel would trust
        dear = self._is_dear(schema.name, args, tensors, out)
        if not self.can or (dear and not self._is_worth_it(schema.name, args, tensors, out)):
            if not tensors or self._is_map(function, tensors) or schema.name in KNOWN:
                return *NOTHING, []
            fewer = self.can and not ruled and schema.name not in RECURRENT
            return self._of_fewer(function, args, kwargs, tensors, out) if fewer else None
        taken = self._of(function, args, kwargs, tensors, lambda shape: shape)
        if taken is None:
            return None
        most, left, real = taken
        return most, left, schema.name not in ROUGHLY, _layouts(real, out)

    def _of(
        self,
        function: Any,
        args: Any,
        kwargs: Any,
        tensors: list[Any],
        sized: Callable[[Any], Any],
        whole: Sequence[Any] = (),
    ) -> tuple[int, int, Any] | None:
        """Runs the operator on tensors of ``sized(shape)``, except those in ``whole``: its workspace, the
        bytes of its results, and the results; None if it fails on made-up values."""
        for values in (0, 1):
            with suppress(Exception):  # it may fail on made-up values
                return self._once(
                    function,
                    args,
                    kwargs,
                    tensors,
                    partial(self._made, sized=sized, values=values, whole=whole),
                )
        return None

    def _once(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], make: Callable[[Any, str], Any]
    ) -> tuple[int, int, Any]:
        with self.torch._C._DisableTorchDispatch():
            made = {id(t): make(t, function._schema.name) for t in tensors}
            given = self.run._map(args, [], lambda t: made[id(t)])
            named = self.run._map({**kwargs, **self._own(kwargs)}, [], lambda t: made[id(t)])
            if self._work(function._schema.name, given, list(made.values())) > LONG:
                threads = self.torch.get_num_threads  # torch sets their number when a thread first asks
                most, left, out = in_a_thread(lambda: threads() and _lamina.taken(function, given, named))
            else:
                most, left, out = _lamina.taken(function, given, named)
        return max(most - left, 0), left, out

    def _of_fewer(
        self, function: Any, args: Any, kwargs: Any, tensors: list[Any], out: Any
    ) -> tuple[int, int, bool, list[tuple[int, Any]]] | None:
        """Runs an operator that is too much work on fewer examples, by the first axis of the first tensor,
        and on half of them. Both together give roughly the workspace of all."""
        name, examples = function._schema.name, tensors[0].shape[0] if tensors[0].dim() else 0
        few = examples // 2  # not a count: examples, as below
        while few and self._is_dear(name, args, tensors, out, few / examples):  # not a count: a share
            few //= 2  # not a count: examples
        half = few // 2  # not a count: examples
        if not few:
            return None

        def taken(n: int) -> int | None:
            def sized(shape: Any) -> Any:
                return (n, *shape[1:]) if shape and shape[0] == examples else shape

            made = (math.prod((*sized(t.shape), t.element_size())) for t in _tensors(out))
            if sum(made) > LARGE_BYTES:  # not a count: whether there is room for the results
                return None
            listed = self._listed(args, sized)
            # The results show whether there are as many channels as examples in some tensor.
            for whole in ([], tensors[1:], *([t] for t in tensors[1:])):
                found = self._of(function, listed, kwargs, tensors, sized, whole)
                if found is not None and _are_of(found[2], out, sized):
                    return found[0]
            return None

        more, less = taken(few), taken(half) if half else 0
        if more is None or less is None:
            return None
        rest = (more - less) * (examples - few) // (few - half)  # not a count: bytes of the others
        return max(more + rest, 0), -1, False, []

    def _listed(self, args: Any, sized: Callable[[Any], Any]) -> Any:
        """The shapes among the arguments."""
        return tuple(
            type(a)(sized(tuple(a))) if isinstance(a, list) and a and type(a[0]) is int and len(a) > 1 else a
            for a in args
        )

    def _is_map(self, function: Any, tensors: list[Any]) -> bool:
        """True for elementwise work in one type: nothing is converted, and each result is written once."""
        return is_tagged(function, "pointwise") and len({t.dtype for t in tensors}) == 1

    def _is_dear(self, name: str, args: Any, tensors: list[Any], out: Any, share: float = 1) -> bool:
        size, work = _size([*tensors, *_tensors(out)]), self._work(name, args, tensors)
        return size * share > MOST_BYTES or work * share > MOST_WORK  # not a count: whether it is run

    def _is_worth_it(self, name: str, args: Any, tensors: list[Any], out: Any) -> bool:
        """True if an expensive operator is run nevertheless: a convolution, unless this run had too many."""
        if name not in CONVOLUTIONS:
            return False
        work = self._work(name, args, tensors)
        if _size([*tensors, *_tensors(out)]) > LARGE_BYTES or work > min(LARGE_WORK, self.left):
            return False
        self.left -= work
        return True

    def _work(self, name: str, args: Any, tensors: list[Any]) -> int:
        """The number of products or, if unknown, of elements; more if they are slow."""
        slow = any(_lamina.lacks(str(t.dtype).removeprefix("torch.")) for t in tensors)
        return self._products(name, args, tensors) * (SLOWER if slow else 1)  # not a count: of work

    def _products(self, name: str, args: Any, tensors: list[Any]) -> int:
        if name in PRODUCTS:
            x, y = (args[at] for at in PRODUCTS[name])
            return math.prod((x.numel(), y.shape[-1]))
        if name in CONVOLUTIONS:
            return self._of_convolution(name, args)
        images = [t for t in tensors if t.dim() == 4]  # not a count: axes
        if "attention" in name and len(images) > 1:
            return math.prod((images[0].numel(), images[1].shape[-2]))
        if name in RECURRENT:
            x, *weights = args[:3]
            return sum(math.prod((*x.shape[:2], w.numel())) for w in weights)  # not a count: of work
        if any(part in name for part in SQUARES):
            return max(math.prod((TIMES, t.numel(), *t.shape[-1:])) for t in tensors)
        return sum(t.numel() for t in tensors)  # not a count: of work

    def _of_convolution(self, name: str, args: Any) -> int:
        """Products of a convolution: the weights are used at each position of the output, or of the input of
        a transposed one."""
        back = name.endswith("backward")
        x, w, stride = (args[1], args[2], args[4]) if back else (args[0], args[1], args[3])
        if args[7 if back else 6]:
            return math.prod((w.numel(), x.shape[0], *x.shape[2:]))
        axes = enumerate(x.shape[2:])
        along = (n // stride[min(i, len(stride) - 1)] for i, n in axes)  # not a count: of work
        return math.prod((w.numel(), x.shape[0], *along))

    def _own(self, kwargs: Any) -> dict[str, Any]:
        """Replaces the user's generators."""
        return {k: _generator(self.torch) for k, v in kwargs.items() if isinstance(v, self.torch.Generator)}

    def _made(
        self, fake: Any, name: str, sized: Callable[[Any], Any], values: int, whole: Sequence[Any]
    ) -> Any:
        """A real tensor with this layout, with values that hardly any kernel rejects; other values if
        ``values`` is 1."""
        torch, shape = self.torch, tuple(fake.shape)
        if not any(fake is tensor for tensor in whole):
            shape = sized(shape)
        if self.run.knows(fake) and shape == fake.shape:
            return self.run.real(fake)
        axes = zip(shape, fake.stride(), strict=True)
        last = sum((n - 1) * s for n, s in axes)  # not a count: a position
        if (last + 1) * fake.element_size() > UNTOUCHED:  # not a count: whether it takes memory
            return _zeros(torch, shape, fake.stride(), fake.dtype, last + 1)
        tensor = torch.empty_strided(shape, fake.stride(), dtype=fake.dtype, device="cpu")
        memory = torch.empty(0, dtype=fake.dtype, device="cpu").set_(tensor.untyped_storage())
        if not (tensor.is_floating_point() or tensor.is_complex()):
            from_one = values or any(part in name for part in FROM_ONE)
            memory.fill_(1 if from_one and fake.dtype != torch.bool else 0)
        elif values and tensor.dim() > 1 and shape[-1] == shape[-2]:
            memory.fill_(0)
            tensor.diagonal(0, -2, -1).fill_(1)
        else:
            self._fill(torch.view_as_real(memory).view(-1) if fake.is_complex() else memory)
        return tensor

    def _fill(self, memory: Any) -> None:
        """Fills with numbers between 0 and 1, without the user's generators."""
        if "block" not in _blocks:
            _blocks["block"] = self.torch.rand(BLOCK, generator=_generator(self.torch), device="cpu")
        block = _blocks["block"]
        whole = memory.numel() - memory.numel() % BLOCK  # not a count: elements in whole blocks
        if whole:
            memory[:whole].view(-1, BLOCK).copy_(block)
        memory[whole:].copy_(block[: memory.numel() - whole])


def _zeros(torch: Any, shape: Any, stride: Any, dtype: Any, elements: int) -> Any:
    """Zeros that take memory only when they are written to."""
    memory = mmap.mmap(-1, elements * dtype.itemsize)  # not a count: bytes
    return torch.frombuffer(memory, dtype=dtype).as_strided(shape, stride)


def _size(tensors: list[Any]) -> int:
    return sum(math.prod((t.numel(), t.element_size())) for t in tensors)  # not a count: bytes


_blocks: dict[str, Any] = {}


def _generator(torch: Any) -> Any:
    """A separate generator, which no other code uses."""
    own = torch.Generator()
    own.manual_seed(0)
    return own


def _are_of(real: Any, fake: Any, sized: Callable[[Any], Any]) -> bool:
    """True if the results are those of fewer examples, and otherwise have the same sizes."""
    pairs = zip(_tensors(real), _tensors(fake), strict=False)
    return all(tuple(a.shape) in (tuple(b.shape), sized(tuple(b.shape))) for a, b in pairs)


def _layouts(real: Any, fake: Any) -> list[tuple[int, Any]]:
    """The strides of the results that a real run lays out differently."""

    def along(tensor: Any) -> list[int]:
        return [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]

    pairs = enumerate(zip(_tensors(real), _tensors(fake), strict=False))
    return [(at, a.stride()) for at, (a, b) in pairs if a.numel() > 0 and along(a) != along(b)]


def _tensors(value: Any) -> list[Any]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if hasattr(item, "element_size")]
