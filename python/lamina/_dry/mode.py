# SPDX-License-Identifier: Apache-2.0
"""A forward that computes nothing: fake tensors replace the model's tensors, and a mode answers operators.

A fake tensor is a tensor of the CPU with sizes, strides and a type, and no values. Common operators are
answered in C (python/ext/dry/dry.c); this answers the others, with torch's own shape functions on the meta
device. Values that depend on nothing fake (a table of positions, a literal, a small input of whole numbers)
are computed and known, so that a model may read them. If a model reads other values, the run ends.
"""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .. import _lamina
from .._base.errors import NeedsValuesError, UnsupportedError
from .._base.modules import modules
from .._guard.gradients import end_graphs, ending
from .decompositions import ANYHOW, ELSEWHERE, INSTEAD, OneHot
from .kernels import ask
from .layouts import as_the_cpu_does
from .operators import Operator, depends_on_values, has_kernel, is_plain, learn
from .parallel import Buckets
from .process import EXPORTS, Process, tracer_of
from .recurrent import RECURRENT, recurrent
from .running import MOST_KNOWN, set_running
from .tensors import (
    NUMBER,
    address_of,
    class_of_fake,
    forget,
    forget_no_more,
    is_dry,
    is_of_address,
    knows,
    real,
    storage_of,
    types,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from .._observe.run import Run

    class Given(Protocol):
        """The arguments of a run (_run/arguments.py), and the modules among them."""

        inside: dict[_lamina.Snapshot, str]

        def given(self, instead: Callable[[Any], Any], /) -> tuple[tuple[Any, ...], dict[str, Any]]: ...


MOST_WORK = 16777216  # the most values that are computed to know them
# Operators that make masks of others, and those that masks begin with if they are square: their results are
# known however large, up to MOST_WORK. Those of operators that work element by element are, too.
MASKS = {"aten::_to_copy", "aten::clone", "aten::index", "aten::tril", "aten::triu"}
SQUARE = {"aten::full", "aten::ones", "aten::zeros"}
BY_RULE, BY_VIEW, BY_OTHERS = 0, 1, 2  # as in python/ext/dry/dry.c
NEVER, PURE, WRITES, VIEWS = 0, 1, 2, 3  # as in python/ext/dry/dry.h: whether an answer may be given again

NUMBER_OF = "aten::_local_scalar_dense"
# Operators that return values to the program, each with the cause in the program, for the error.
READS = {
    NUMBER_OF: NUMBER,
    "aten::equal": "needs to know whether two tensors are equal (torch.equal)",
    "aten::is_nonzero": "needs to know whether a tensor is zero (an if)",
    "aten::nonzero": "needs to know where a tensor is not zero (nonzero, a mask as an index)",
    "aten::masked_select": "needs the values that a mask selects (masked_select)",
    "aten::unique_consecutive": "needs to know which values differ (unique)",
    "aten::_unique2": "needs to know which values differ (unique)",
    "aten::unique_dim": "needs to know which values differ (unique)",
}


# The shapes of these depend on the values of integer tensors.
BY_VALUES = ("aten::_pack_padded_sequence",)
# The CPU takes bytes as targets of these; torch's shape functions do not.
BY_BYTES = "aten::nll_loss"
# What torch's exceptions say where a nested tensor comes to code for others.
NESTED = ("NestedTensorImpl", "SymIntArrayRef expected")
# How torch refuses to make a tensor of another class of one that has a class, as those of a dry run have.
SUBCLASS = "Creating a new Tensor subclass "
# torch asks these of tensors that wrap others.
QUERIES = {
    *("prim::layout", "prim::device", "aten::dim", "aten::is_contiguous", "aten::is_strides_like_format"),
    *("aten::is_non_overlapping_and_dense", "aten::size", "aten::stride", "aten::numel", "aten::sym_size"),
    *("aten::storage_offset", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset"),
}
LEFT = "uses its tensors on another thread"
# These give a tensor other memory, which torch's own kernels can't for tensors without any.
MOVED = ("aten::set_", "aten::resize_", "aten::resize_as_")
# Of a test, the result that lets an optimizer go on: all values are finite, none is zero.
USUAL = ("aten::all", "aten::isfinite", "aten::ne", "aten::gt", "aten::ge")
# Operators that talk to other processes, which a dry run never does; the one that leaves all values as they
# are, if the processes agree.
COMMUNICATES, SENDS = ("c10d::", "_c10d_functional::", "c10d_functional::"), "c10d::broadcast_"
# The answers of these are more than sizes, or depend on more: on values, or on whether gradients are wanted.
UNLIKE = (*RECURRENT, *BY_VALUES, "aten::index", "aten::_neg_view")


class _Blocked(Exception):  # noqa: N818 - ends the run inside, even if the model catches exceptions
    pass


# -- torch's modes -------------------------------------------------------------------------------------------


def _enter(mode: Any) -> Any:
    """Enters a mode as torch does, but without torch's flags for its compiler: all threads share them, and
    two dry runs at a time would leave the compiler disabled. Compiled code is bypassed anyway."""
    from torch.utils import _python_dispatch as modes

    modes._push_mode(mode)
    return mode


def _leave(*_: object) -> None:
    from torch.utils import _python_dispatch as modes

    modes._pop_mode()


@cache
def _mode() -> Any:
    """The class of modes: torch's own, whose operators C answers."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def init(self: Any, *_: object) -> None:
        cast("Any", TorchDispatchMode).__init__(self)

    # torch passes an operator that runs functions (torch.cond, flex_attention) only to modes that accept it.
    own = {"__init__": init, "__module__": __name__, "supports_higher_order_operators": True}
    own |= {"__enter__": _enter, "__exit__": _leave}
    return type("DryMode", (_lamina.Dry, TorchDispatchMode), own)


def _holders(torch: Any, tensor: Any) -> tuple[int, int]:
    """The number of references to the tensor, and to its memory."""
    return tensor._use_count(), torch._C._storage_Use_Count(storage_of(tensor)._cdata)


@cache
def _holders_of_lone(torch: Any) -> tuple[int, int]:
    """The same numbers for a gradient that only the engine of autograd holds, in a mode: measured once, with
    a gradient that no other code can hold."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[int, int]] = []

    def look(_: Any, function: Any, __: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.add.Tensor:
            seen.append(_holders(torch, args[0]))
        return function(*args, **kwargs or {})

    own = {"__torch_dispatch__": look, "__enter__": _enter, "__exit__": _leave}
    mode = type("Look", (cast("Any", TorchDispatchMode),), own)
    with (
        torch.inference_mode(mode=False),
        torch.enable_grad(),
        torch.autograd.set_multithreading_enabled(False),
    ):
        leaf = torch.ones(2, requires_grad=True)
        ends = [leaf.exp(), leaf.sin()]
        with mode():
            torch.autograd.grad(ends, leaf, [torch.ones(2), torch.ones(2)])
    return seen[0] if len(seen) == 1 else (-1, -1)


# -- one run -------------------------------------------------------------------------------------------------


class _Run:
    """Answers the operators that C does not, and keeps the known values."""

    def __init__(self, watch: _lamina.Capture) -> None:
        self.torch = sys.modules["torch"]
        self.fake: Any
        self.known: Any
        self.fake, self.known = types()
        self.blocked: str | None = None
        self.left = False  # another thread had the run's tensors, and needed more than their sizes
        self.unread: dict[Any, Any] = {}  # by a class of the program: that of its fake tensors
        self.shadows: dict[int, tuple[Any, Any]] = {}  # real tensors of the model's own code
        self.reads_aside = 0  # how many of the next numbers a real run does not read
        self.one_hot = OneHot()
        self.sought_nan = False  # a node has tested all values for NaN, but not yet the one that it chose
        self.plain_one_hot = False  # one_hot has computed its smallest class, as an older torch does
        self.ranks_checked = False  # this quantile has checked its ranks, as in an older torch
        self.bounds_share = False  # in the gradient of a clamp, with elements equal to its bounds
        self.spread: Any = None  # the zeros over which a gradient is spread next
        self.stands_in = False  # a real run has neither the answered operator nor its result
        self.by_values = False  # the workspace of the answered operator depends on values
        self.written_over = 0  # the address that was written to instead of a new tensor
        self.weighs = False  # a cross entropy sums the weights of its targets
        self.buckets: Buckets
        self.subject = "the model"  # what is followed, for the error
        self.guesses: dict[int, Any] = {}  # storages of supposed values and of what is computed from them
        self.guessed = False  # such a value was read
        self.core = _mode()(self.fake, self.known, self.answer, self.about, partial(ask, self))
        self.core.serves(watch)
        cpu = self.torch._C.DispatchKey.AutocastCPU
        self.device: int = self.torch._C.DispatchKeySet(cpu).raw_repr()
        self.watch = watch

    # The end of the run.

    def block(self, what: str) -> NoReturn:
        if self.blocked is None:
            self.blocked = what
        raise _Blocked(what)

    # Values.

    knows = staticmethod(knows)
    forget = staticmethod(forget)
    real = staticmethod(real)

    def copied(self, tensor: Any, copies: dict[int, Any]) -> Any:
        """A copy of the tensor, in a copy of its memory which ``copies`` keeps for those that share it."""
        torch, storage = self.torch, storage_of(tensor)
        new = copies.get(storage._cdata)
        if new is None:
            self.watch.pause(True)  # noqa: FBT003 - in a real run this is no operator
            line = self._over(type(tensor), storage, torch.uint8)
            known = self.knows(tensor) and len(line) <= MOST_KNOWN
            with torch._C._DisableTorchDispatch():
                plain = torch.empty(len(line), dtype=torch.uint8, device="cpu" if known else "meta")
                new = self.core.known(plain) if known else self.core.like(plain)
            self.watch.pause(False)  # noqa: FBT003
            copies[storage._cdata] = torch.ops.aten.copy_.default(new, line)
        self.watch.pause(True)  # noqa: FBT003
        at = tensor.storage_offset(), tensor.size(), tensor.stride()
        part = self._over(type(new), storage_of(new), tensor.dtype, *at)
        self.watch.pause(False)  # noqa: FBT003
        return part

    def _over(self, cls: type, storage: Any, dtype: Any, *at: Any) -> Any:
        """A tensor of one of our classes over this storage."""
        with self.torch._C._DisableTorchDispatch():
            return self._as(cls, self.torch.empty(0, dtype=dtype, device="cpu").set_(storage, *at))

    def supposed(self, function: Any, results: Any) -> Any:
        """The results, with a value for each unknown one of one element: one, the position zero, or True if
        that is usual. An optimizer may read it, for example a norm as a factor."""

        def suppose(result: Any) -> Any:
            if type(result) is not self.fake or result.numel() != 1:
                return result
            usual = result.is_floating_point() or result.is_complex() or function._schema.name in USUAL
            with self.torch._C._DisableTorchDispatch():
                value = self.core.known(self.torch.full(result.shape, usual, dtype=result.dtype))
            self._guess(value)
            return value

        return self._map(results, [], suppose)

    def _guess(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        self.guesses[storage._cdata] = self.torch.multiprocessing.reductions.StorageWeakRef(storage)

    def lone(self, tensor: Any) -> bool:
        """True if only the engine of autograd holds a gradient and its memory."""
        alone = _holders_of_lone(self.torch)
        return tensor._use_count() == alone[0] and _holders(self.torch, tensor) == alone

    def argument(self, tensor: Any) -> Any:
        """What the run is given instead of a tensor of the caller's."""
        fake = self.core.fake_of(tensor)
        return fake if tensor.grad_fn is None or fake is tensor else ending(fake)

    # Operators.

    def about(self, function: Any) -> tuple[str, int, str | None, int, bool]:
        """An operator's name, how C answers it, the callers for which this class does, whether the answer may
        be given again for equal arguments, and whether its kernel is asked what it accepts."""
        if getattr(function, "_schema", None) is None:
            return str(function), BY_OTHERS, None, NEVER, False
        learned = learn(function)
        others = learned.opened or learned.name in MOVED
        way = BY_OTHERS if others else BY_VIEW if learned.is_view else BY_RULE
        if way == BY_OTHERS or learned.name in UNLIKE or learned.name in ANYHOW:
            again = NEVER
        elif way == BY_VIEW:
            again = VIEWS
        else:
            again = PURE if is_plain(function._schema) and not learned.writes else WRITES
        asks = way == BY_RULE and learned.name not in READS and has_kernel(function, learned)
        return learned.name, way, ELSEWHERE.get(learned.name), again, asks

    def answer(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Answers one operator: from values if all are known, otherwise by torch's own shape function."""
        if getattr(function, "_schema", None) is None:
            return self._run_attention(function, args, kwargs or {})
        operator = learn(function)
        if operator.name in QUERIES:  # an exception here may end the process: torch declares some noexcept
            return function(*args, **kwargs or {})
        seen: list[Any] = []
        args = self._map(args, seen, self._as_fake)
        kwargs = self._map(kwargs or {}, seen, self._as_fake)
        if operator.name == MOVED[0] and len(args) > 1 and self._is_ours(args[1]):
            self.block("needs a tensor's memory (untyped_storage())")
        if operator.name in ELSEWHERE:
            instead = INSTEAD.get((self.core.caller(1) or "", operator.name))
            out = instead(self, function, args, kwargs) if instead else None
            if out is not None:
                return out
        if operator.opened is not None:
            with self.core, self._turning(seen), self.casting():
                return self.core.opened(operator.opened, args, kwargs)
        if operator.name == NUMBER_OF and self._seeks_nan():
            return False
        if operator.name not in ANYHOW or self.core.here() < 0:
            return self._answer(operator, function, args, kwargs, seen)
        out = self.one_hot.instead(self, operator.name, args)
        if out is None:
            out = self._answer(operator, function, args, kwargs, seen)
            self.one_hot.gave(operator.name, out)
        return out

    def _run_attention(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Runs the operators that do the work of flex_attention on the CPU. Other operators that run
        functions end the run."""
        key: Any = getattr(self.torch._C, "DispatchKey", None)
        kernel = getattr(function, "py_kernels", {}).get(getattr(key, "CompositeExplicitAutograd", None))
        if str(function) != "flex_attention" or kernel is None:
            self.block(f"runs {function}, which is not a plain operator")
        seen: list[Any] = []
        args = self._map(args, seen, self._as_fake)
        with self.core:
            return self.core.opened(kernel, args, self._map(kwargs, seen, self._as_fake))

    def _turning(self, seen: list[Any]) -> Any:
        """Lets torch compute conjugates for the operators inside that can't read them, as it does where no
        mode runs the operator around them."""
        guard = getattr(self.torch._C, "_SetExcludeDispatchKeyGuard", None)
        if guard is None or not any(tensor.is_complex() for tensor in seen):
            return nullcontext()
        return guard(self.torch._C.DispatchKey.Conjugate, False)  # noqa: FBT003

    def _seeks_nan(self) -> bool:
        """True if it is autograd's engine that reads a number: of whether a gradient has a NaN, if
        ``torch.autograd.set_detect_anomaly`` is on."""
        return (self.core.caller(1), self.core.caller(2)) == ("aten::item", "")

    def casting(self) -> Any:
        """Lets autocast convert the arguments of the operators inside, as it does where no mode runs the
        operator around them, unless autocast itself called that."""
        guard = getattr(self.torch._C, "_SetExcludeDispatchKeyGuard", None)
        if guard is None or not self.core.casts(self.device):
            return nullcontext()
        return guard(self.torch._C.DispatchKey.AutocastCPU, False)  # noqa: FBT003

    def _answer(self, operator: Operator, function: Any, args: Any, kwargs: Any, seen: list[Any]) -> Any:
        if operator.name == "aten::_to_copy" and str(kwargs.get("device")) == "meta":
            self.core.aside()  # the destination of the copy has no memory
        others = operator.name.startswith(COMMUNICATES)
        known = not (operator.drawn or others) and all(self.knows(tensor) for tensor in seen)
        if not known or not self._is_small(operator, seen, args, kwargs):
            args = self._look(operator.name, seen, args)
            for tensor in seen if others and operator.name != SENDS else ():
                self.forget(tensor)
            for at, name in operator.writes:
                for tensor in _tensors(args[at] if at < len(args) else kwargs.get(name)):
                    self.forget(tensor)
            known = False
        if operator.name in RECURRENT:
            return recurrent(self, function, args)
        if operator.name in MOVED[1:]:
            return self._resized(function, args, kwargs)
        if operator.is_view:
            return self._view(function, args, kwargs)
        if not function._schema.returns and not known:
            return None
        if known:
            most = MOST_WORK if self._makes_masks(operator, args) else MOST_KNOWN
            return self._compute(function, args, kwargs, seen, most)
        return as_the_cpu_does(self, function, args, kwargs, seen)

    def _map(self, value: Any, seen: list[Any], each: Callable[[Any], Any]) -> Any:
        """``value`` with each tensor in it replaced; the new ones are collected in ``seen``."""
        if isinstance(value, self.torch.Tensor):
            new = each(value)
            seen.append(new)
            return new
        if isinstance(value, (list, tuple)):
            items = [self._map(v, seen, each) for v in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {k: self._map(v, seen, each) for k, v in value.items()}
        return value

    def _as_fake(self, tensor: Any) -> Any:
        if is_dry(tensor):
            return tensor
        if id(tensor) in self.shadows:
            return self.shadows[id(tensor)][1]
        fake = self.core.fake_of(tensor)
        if fake is tensor:
            self.block(f"works on a {type(tensor).__name__} with {tensor.layout} and {tensor.dtype}")
        small = tensor.numel() <= MOST_KNOWN and tensor.device.type == "cpu"
        if type(fake) is self.fake and small and not self.core.owns(address_of(tensor)):
            # A literal or a global of the model's own code: its values are real.
            fake = self._as(self.known, tensor.detach().clone())
        self.shadows[id(tensor)] = (tensor, fake)
        return fake

    def _is_ours(self, storage: Any) -> bool:
        """True for the storage of a fake tensor without values."""
        kind = self.torch.UntypedStorage
        return isinstance(storage, kind) and self.core.owns(int(kind.data_ptr(storage)))

    def _makes_masks(self, operator: Operator, args: Any) -> bool:
        if operator.name in SQUARE:
            size = args[0] if args else ()
            return isinstance(size, (list, tuple)) and len(size) > 1 and size[-1] == size[-2]
        return operator.by_element or operator.name in MASKS

    def _is_small(self, operator: Operator, seen: list[Any], args: Any, kwargs: Any) -> bool:
        numbers, work = [*args, *kwargs.values()], 1
        if not seen:
            for value in numbers:
                for n in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(n, int) and not isinstance(n, bool):
                        work *= max(abs(n), 1)  # not a count: how much would be computed
            return work <= (MOST_WORK if self._makes_masks(operator, args) else MOST_KNOWN)
        shapes = [tensor.shape for tensor in seen]
        picks = operator.name == "aten::index" and all(t.dtype == self.torch.int64 for t in seen[1:])
        if operator.by_element or picks:
            with suppress(RuntimeError):  # the operator itself tells which shapes do not fit
                work = math.prod(self.torch.broadcast_shapes(*shapes[picks:]))
                kept = [n for n, by in zip_longest(shapes[0], args[1]) if by is None] if picks else []
                return bool(work * math.prod(kept) <= MOST_WORK)  # not a count: as above
        for shape in shapes:
            work *= max(math.prod(shape), 1)  # not a count: as above
        return work <= MOST_WORK

    def _compute(self, function: Any, args: Any, kwargs: Any, seen: list[Any], most: int) -> Any:
        guess = bool(self.guesses) and any(t.untyped_storage()._cdata in self.guesses for t in seen)
        self.guessed = self.guessed or (guess and function._schema.name in READS)
        with self.torch._C._DisableTorchDispatch():
            out = function(*args, **self._here(kwargs, "cpu"))

        def wrap(tensor: Any) -> Any:
            if is_dry(tensor):
                return tensor
            if tensor.layout is not self.torch.strided:
                self.block(self._other(tensor.layout))
            return self.core.known(tensor) if tensor.numel() <= most else self.core.like(tensor)

        results: list[Any] = []
        out = self._map(out, results, wrap)
        for result in results if guess else []:
            self._guess(result)
        return out

    def _other(self, layout: Any) -> str:
        """What is known of a tensor with a layout that is not followed."""
        in_backward = self.torch._C._current_graph_task_id() >= 0
        if layout is self.torch.sparse_coo and in_backward:
            return "makes a sparse gradient (sparse=False makes a dense one, which can be followed)"
        return f"makes a tensor with {layout}"

    def _as(self, cls: type, tensor: Any) -> Any:
        """The same memory as a tensor of one of our classes."""
        return self.torch.Tensor._make_subclass(cls, tensor, False)  # noqa: FBT003

    def _view(self, function: Any, args: Any, kwargs: Any) -> Any:
        """torch's own view of the memory, which reads none of it."""
        seen: list[Any] = []
        given = self._map(args, seen, lambda t: t)
        with self.torch._C._DisableTorchDispatch():
            try:
                views = function(*given, **kwargs)
            except NotImplementedError as error:  # a kernel for other kinds of tensors, as nested ones
                self.unsure(function, error)
        # torch gives the number that a tensor was made of
        cls = self.fake if seen and type(seen[0]) is not self.known else self.known
        return self._map(views, [], lambda t: t if is_dry(t) else self._as(cls, t))

    def _resized(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The tensor itself, with other memory if its own is too small for the new size."""
        try:
            return self._view(function, args, kwargs)
        except RuntimeError:  # torch does not resize memory that it did not allocate
            return self.by_meta(function, args, kwargs)

    def _laid_out_as(self, fake: Any, meta: Any) -> Any:
        """The tensor itself, with the size that an operator gave to its argument (``out=torch.empty(0)``)."""
        if fake.size() != meta.size():
            fake.data = self.core.like(meta)
        return fake

    def _look(self, name: str, seen: list[Any], args: Any) -> Any:
        """Ends the run at an operator that returns values, or whose result's size depends on them. Returns
        the arguments, with a known mask replaced by the positions that it selects."""
        masks = [t for t in seen[1:] if t.dtype in (self.torch.bool, self.torch.uint8)]
        if name == "aten::index" and masks:
            if not all(self.knows(mask) for mask in masks):
                self.block("needs to know which entries a mask selects (a mask as an index)")
            return (args[0], [index for entry in args[1] for index in self._positions(entry)])
        if name in READS:
            self.block(READS[name])
        return args

    def _positions(self, index: Any) -> list[Any]:
        if index is None or index.dtype not in (self.torch.bool, self.torch.uint8):
            return [index]
        return [self._as(self.known, t) for t in self.real(index).nonzero(as_tuple=True)]

    def _here(self, kwargs: dict[str, Any], device: str) -> dict[str, Any]:
        if kwargs.get("device") is not None:
            kwargs["device"] = self.torch.device(device)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return kwargs

    def by_meta(self, function: Any, args: Any, kwargs: Any) -> Any:
        torch = self.torch
        metas: dict[int, Any] = {}  # of a fake tensor
        origin: dict[int, Any] = {}  # of a meta tensor
        stores: dict[int, Any] = {}  # of a meta storage

        by_values = function._schema.name in BY_VALUES
        by_bytes = function._schema.name.startswith(BY_BYTES)
        # If it shares no memory with an argument, its shape function may return one nevertheless.
        fresh = is_plain(function._schema) and not function._schema.name.startswith("c10d::")

        def to_meta(fake: Any) -> Any:
            if by_values and fake.dtype == torch.int64 and self.knows(fake):
                return self.real(fake)
            meta = metas.get(id(fake))
            if meta is None:
                dtype = torch.int64 if by_bytes and fake.dtype is torch.uint8 else fake.dtype
                meta = torch.empty_strided(fake.size(), fake.stride(), dtype=dtype, device="meta")
                metas[id(fake)] = meta
                origin[id(meta)] = stores[meta.untyped_storage()._cdata] = fake
            return meta

        def new(meta: Any) -> Any:
            if fresh and 0 in meta.stride():
                meta = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
            return self.core.like(meta)

        def back(meta: Any) -> Any:
            if id(meta) in origin:
                return new(meta) if fresh else self._laid_out_as(origin[id(meta)], meta)
            if meta.layout is not torch.strided:
                self.block(self._other(meta.layout))
            if meta.device.type == "cpu":
                return self.core.known(meta)  # it was computed from values
            fake = stores.get(meta.untyped_storage()._cdata)
            if fake is None or fresh:
                return new(meta)
            at = fake.storage_offset() + meta.storage_offset()
            return self._view(torch.ops.aten.as_strided.default, (fake, meta.size(), meta.stride(), at), {})

        given = self._map(args, [], to_meta)
        named = self._here(self._map(kwargs, [], to_meta), "meta")
        try:
            out = function(*given, **named)
        except Exception as error:
            self.unsure(function, error)
        return self._map(out, [], back)

    def unsure(self, function: Any, error: Exception) -> NoReturn:
        """torch's shape function returned no shape: it does not exist, needs values, or raised."""
        what = f"runs {function._schema.name}, "
        if depends_on_values(function):
            self.block(what + "whose result's size depends on values")
        if isinstance(error, NotImplementedError):
            self.block(what + "of which torch does not tell the result's shape")
        reason = str(error).partition("\n")[0]
        self.block(what + f"which torch's shape function refuses ({reason})")


def _tensors(value: Any) -> list[Any]:
    return [v for v in value if v is not None] if isinstance(value, (list, tuple)) else [value]


# -- around a forward ----------------------------------------------------------------------------------------


def check(root: Any, *, follow: bool) -> None:
    """Raises UnsupportedError if a dry run of this model can't be complete, before anything changes.
    ``follow`` as for ``run_once``."""
    instead = "measure it with memory=True" if follow else "leave dry=True out to run the model"
    torch = sys.modules["torch"]
    sharded = sys.modules.get("torch.distributed.fsdp")
    fsdp = tuple(
        cls
        for name in ("FullyShardedDataParallel", "FSDPModule")
        if (cls := getattr(sharded, name, None)) is not None
    )
    for path, module in modules(root):
        if isinstance(module, torch.jit.ScriptModule):
            kind = "is scripted or traced, and keeps its tensors where they can't be swapped"
        elif isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
            kind = "is lazy and takes its sizes from the first real input"
        elif isinstance(module, fsdp) or any(hasattr(p, "ds_id") for p in module._parameters.values()):
            kind = "gathers its parameters for each call (FSDP, ZeRO-3) and keeps what it gathered"
        else:
            continue
        name = f"{path} ({type(module).__name__})" if path else f"the model ({type(module).__name__})"
        raise UnsupportedError(f"a dry run can't run {name}, which {kind}; {instead}")


@contextmanager
def go_dry(
    run: Run,
    root: Any,
    snapshot: _lamina.Snapshot,
    watch: _lamina.Capture,
    given: Given,
    *,
    follow: bool = False,
    dtype: str | None = None,
    backward: bool = False,
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """In the block the model's tensors are fake and operators compute nothing; yields the arguments with fake
    tensors. ``snapshot.restore()`` restores the model's tensors, ``given.put_back()`` those of the arguments.
    ``follow`` and ``dtype`` as for ``run_once``. An operator that the run can't answer becomes its error."""
    dry = _Run(watch)
    if dtype is not None:
        dry.core.cast(dtype)
    inference = getattr(dry.torch._C, "_InferenceMode", None)
    of_one = backward or not run.in_inference_mode
    dry.core.alike(inference if of_one else None, partial(class_of_fake, dry.unread))
    for each in (snapshot, *given.inside):
        dry.core.swap(each)
        if backward:
            end_graphs(each, watch, dry.core.fake_of)
    passed = given.given(dry.argument)
    dry.buckets = Buckets(dry, root)
    if follow:
        _holders_of_lone(dry.torch)
        from .workspace import Taken

        dry.core.follow(dry.torch.get_num_threads(), dry.lone, Taken(dry))
    before = set_running(dry)
    Process.open()
    try:
        with dry.buckets.open(follow=follow), dry.core:
            yield passed
    finally:
        Process.close()
        set_running(before)
        dry.core.over()
        dry.shadows.clear()
        forget_no_more()
        if dry.blocked is None:
            dry.blocked = LEFT if dry.left or not run.alone else _cause(run.error)
        if dry.blocked is not None:
            run.error = _sentence(run, dry.subject, dry.blocked, follow=follow)


def _cause(error: BaseException | None) -> str | None:
    """What the program did, if an exception shows that a dry run can't follow it."""
    if is_of_address(error):
        return "needs the memory at a tensor's address (.data_ptr())"
    if isinstance(error, RuntimeError) and any(part in str(error) for part in NESTED):
        return "works on a nested tensor"
    if isinstance(error, RuntimeError) and str(error).startswith(SUBCLASS):
        return f"makes a tensor of the subclass {str(error)[len(SUBCLASS) :].split()[0]}"
    tracer = tracer_of(error)
    return None if tracer is None else f"{EXPORTS} ({tracer})"


def _sentence(run: Run, subject: str, blocked: str, *, follow: bool) -> NeedsValuesError:
    where = None if run.model is None else run.model.costs().failed_layer()
    sentence = f"a dry run can't follow {where or subject}: it {blocked}, and nothing was computed"
    error = NeedsValuesError(sentence if follow else f"{sentence}; leave dry=True out to run the model")
    error.__cause__ = run.error
    return error
