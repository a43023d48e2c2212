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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from .. import _lamina
from .._base.errors import NeedsValuesError, UnsupportedError
from .._base.modules import modules
from .._guard.gradients import end_graphs, ending
from .._guard.redispatch import Redispatch
from .decompositions import ANYHOW, ELSEWHERE, INSTEAD, OneHot
from .fused import FUSED
from .kernels import ask, checks_its_shapes
from .parallel import Buckets
from .process import EXPORTS, Process, tracer_of
from .running import MOST_KNOWN, set_running
from .tensors import (
    NUMBER,
    address_of,
    forget,
    forget_no_more,
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
MOST_ASKED = 268435456  # products of a recurrence that is run to measure its memory for the backward
BY_RULE, BY_VIEW, BY_OTHERS = 0, 1, 2  # as in python/ext/dry/dry.c
NEVER, PURE, WRITES, VIEWS = 0, 1, 2, 3  # as in python/ext/dry/dry.h: whether an answer may be given again

# Operators that return values to the program, each with the cause in the program, for the error.
READS = {
    "aten::_local_scalar_dense": NUMBER,
    "aten::equal": "needs to know whether two tensors are equal (torch.equal)",
    "aten::is_nonzero": "needs to know whether a tensor is zero (an if)",
    "aten::nonzero": "needs to know where a tensor is not zero (nonzero, a mask as an index)",
    "aten::masked_select": "needs the values that a mask selects (masked_select)",
    "aten::unique_consecutive": "needs to know which values differ (unique)",
    "aten::_unique2": "needs to know which values differ (unique)",
    "aten::unique_dim": "needs to know which values differ (unique)",
}


# torch, or an older version, has no shape function for these: the results have the shapes of these arguments.
AS_ARGUMENT = {
    "aten::_masked_softmax": (0,),
    "aten::fractional_max_pool3d_backward": (1,),
    "aten::multi_margin_loss_backward": (1,),
    "aten::multilabel_margin_loss_backward": (1,),
    "aten::_weight_norm_interface_backward": (1, 2),
}
# The shapes of these depend on the values of integer tensors.
BY_VALUES = ("aten::_pack_padded_sequence",)
# The CPU takes bytes as targets of these; torch's shape functions do not.
BY_BYTES = "aten::nll_loss"
# The CPU returns these with columns in order; torch's shape functions do not.
BY_COLUMNS = {"aten::_linalg_svd": (0, 2), "aten::linalg_eig": (1,)}
# The CPU lays out the first result of these as this argument, by channels or in rows; torch's shape functions
# do not.
BY_ARGUMENT = {
    "aten::native_batch_norm_backward": 1,
    "aten::log_sigmoid_backward": 0,
    "aten::reflection_pad2d_backward": 1,
    "aten::reflection_pad3d_backward": 1,
    "aten::replication_pad2d_backward": 1,
    "aten::replication_pad3d_backward": 1,
}
# The CPU leaves these results empty if a flag is off; torch's shape functions do not: the flag, those
# results.
EMPTY = {
    "aten::native_batch_norm": (5, "training", (1, 2)),
    "aten::_native_batch_norm_legit": (5, "training", (1, 2)),
    "aten::_linalg_svd": (2, "compute_uv", (0, 2)),
    "aten::_linalg_eigh": (2, "compute_v", (1,)),
}
# The CPU returns the statistics of these in the type of the input, or in float32 if a weight is of that type;
# torch's shape functions do not.
STATISTICS = (
    "aten::native_layer_norm",
    "aten::native_group_norm",
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update",
)
# What torch's exceptions say where a nested tensor comes to code for others.
NESTED = ("NestedTensorImpl", "SymIntArrayRef expected")
# torch asks these of tensors that wrap others.
QUERIES = {
    *("prim::layout", "prim::device", "aten::dim", "aten::is_contiguous", "aten::is_strides_like_format"),
    *("aten::is_non_overlapping_and_dense", "aten::size", "aten::stride", "aten::numel", "aten::sym_size"),
    *("aten::storage_offset", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset"),
}
# These give a tensor other memory, which torch's own kernels can't for tensors without any.
MOVED = ("aten::set_", "aten::resize_", "aten::resize_as_")
ONEDNN = ("Mkldnn", "MkldnnTranspose", "???")  # its convolutions; torch has no name for the transposed one
KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
RECURRENT = ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward")
# Of a test, the result that lets an optimizer go on: all values are finite, none is zero.
USUAL = ("aten::all", "aten::isfinite", "aten::ne", "aten::gt", "aten::ge")
# Operators that talk to other processes, which a dry run never does; the one that leaves all values as they
# are, if the processes agree.
COMMUNICATES, SENDS = ("c10d::", "_c10d_functional::", "c10d_functional::"), "c10d::broadcast_"
# Views that their schemas do not declare.
UNSAFE_VIEWS = ("aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes")
# The answers of these are more than sizes, or depend on more: on values, or on whether gradients are wanted.
UNLIKE = (*RECURRENT, *BY_VALUES, "aten::index", "aten::_neg_view")
_workspaces: dict[Any, Any] = {}  # bytes that oneDNN keeps of a forward, by type and shapes; "rule": it fits


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


class _Operator(NamedTuple):
    """The properties of an operator. ``opened``: runs the operators that it runs on the CPU, if these do its
    work. ``drawn``: from a generator. ``writes``: positions and names of the arguments that it writes to.
    ``by_element``: each element of a result is made of one of each argument."""

    name: str
    is_view: bool
    opened: Any
    drawn: bool
    writes: list[tuple[int, str]]
    by_element: bool


_learned: dict[Any, _Operator] = {}


class _Run:
    """Answers the operators that C does not, and keeps the known values."""

    def __init__(self, watch: _lamina.Capture) -> None:
        self.torch = sys.modules["torch"]
        self.fake: Any
        self.known: Any
        self.fake, self.known = types()
        self.blocked: str | None = None
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
        learned = self._learn(function)
        others = learned.opened or learned.name in MOVED
        way = BY_OTHERS if others else BY_VIEW if learned.is_view else BY_RULE
        if way == BY_OTHERS or learned.name in UNLIKE or learned.name in ANYHOW:
            again = NEVER
        elif way == BY_VIEW:
            again = VIEWS
        else:
            again = PURE if _is_plain(function._schema) and not learned.writes else WRITES
        asks = way == BY_RULE and learned.name not in READS and self._has_kernel(function, learned)
        return learned.name, way, ELSEWHERE.get(learned.name), again, asks

    def _has_kernel(self, function: Any, learned: _Operator) -> bool:
        """True if torch has a kernel that may run on a few elements."""
        mine = any(map(partial(self._has, function), KERNELS))
        return mine and not self._depends(function) and checks_its_shapes(function, learned.name)

    def _learn(self, function: Any) -> _Operator:
        """The properties that do not change between runs, read from torch once."""
        learned = _learned.get(function)
        if learned is None:
            schema = function._schema
            is_view = self._is(function, "inplace_view") or _is_view(schema) or schema.name in UNSAFE_VIEWS
            writes = [
                (at, argument.name)
                for at, argument in enumerate(schema.arguments)
                if argument.alias_info is not None and argument.alias_info.is_write
            ]
            drawn = self._is(function, "nondeterministic_seeded")
            learned = _Operator(
                schema.name,
                is_view,
                self._opened(function, schema),
                drawn,
                writes,
                self._is(function, "pointwise"),
            )
            _learned[function] = learned
        return learned

    def answer(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Answers one operator: from values if all are known, otherwise by torch's own shape function."""
        if getattr(function, "_schema", None) is None:
            return self._run_attention(function, args, kwargs or {})
        operator = self._learn(function)
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
            with self.core, self._turning(seen):
                return self.core.opened(operator.opened, args, kwargs)
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

    def _answer(self, operator: _Operator, function: Any, args: Any, kwargs: Any, seen: list[Any]) -> Any:
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
            return self._recurrent(function, args)
        if operator.name in MOVED[1:]:
            return self._resized(function, args, kwargs)
        if operator.is_view:
            return self._view(function, args, kwargs)
        if not function._schema.returns and not known:
            return None
        if operator.name in AS_ARGUMENT and not known:
            empty = self.torch.ops.aten.empty_like.default
            made = [self._by_meta(empty, (args[at],), {}) for at in AS_ARGUMENT[operator.name]]
            return tuple(made) if len(made) > 1 else made[0]
        if operator.name in EMPTY and not known:
            return self._in_type(operator.name, seen, self._with_empty(function, args, kwargs))
        if known:
            most = MOST_WORK if self._makes_masks(operator, args) else MOST_KNOWN
            return self._compute(function, args, kwargs, seen, most)
        out = self._by_meta(function, args, kwargs)
        if operator.name == "aten::convolution_backward":
            return self._by_channels(args, self._with_weight(args, out))
        if operator.name in BY_ARGUMENT:
            return self._as_suggested(args[BY_ARGUMENT[operator.name]], out)
        out = self._in_type(operator.name, seen, out)
        return self._by_columns(operator.name, out) if operator.name in BY_COLUMNS else out

    def _opened(self, function: Any, schema: Any) -> Any:
        """The function that runs the operators inside this one on the CPU, if these do its work."""
        if self._has(function, "CompositeImplicitAutograd") and not self._has(function, "CPU"):
            inside = self._inside(function)
            plain = self._has(function, "Conjugate") or _is_view(schema)
            return inside if plain else partial(_conjugated, inside)
        if not _lamina.op_wraps(schema.name):
            return None
        spelled = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if spelled in FUSED:
            return FUSED[spelled]
        cpu, *explicit = KERNELS
        if self._has(function, cpu) or not any(self._has(function, key) for key in explicit):
            return None
        keys = self.torch._C.DispatchKeySet(self.torch._C.DispatchKey.CPU)
        return partial(Redispatch.own(), function, keys)

    def _inside(self, function: Any) -> Any:
        """Runs a composite operator's own kernel: torch may also have a decomposition in Python, which keeps
        tensors alive differently."""
        direct = getattr(function, "_op_dk", None)
        if direct is None:
            return function.decompose
        return partial(direct, self.torch._C.DispatchKey.CompositeImplicitAutograd)

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
        if isinstance(tensor, self.fake):
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

    def _makes_masks(self, operator: _Operator, args: Any) -> bool:
        if operator.name in SQUARE:
            size = args[0] if args else ()
            return isinstance(size, (list, tuple)) and len(size) > 1 and size[-1] == size[-2]
        return operator.by_element or operator.name in MASKS

    def _is_small(self, operator: _Operator, seen: list[Any], args: Any, kwargs: Any) -> bool:
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
            if isinstance(tensor, self.fake):
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
        """What is told of a tensor with a layout that is not followed."""
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
        cls = type(seen[0]) if seen else self.known  # torch gives the number that a tensor was made of
        return self._map(views, [], lambda t: t if isinstance(t, self.fake) else self._as(cls, t))

    def _resized(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The tensor itself, with other memory if its own is too small for the new size."""
        try:
            return self._view(function, args, kwargs)
        except RuntimeError:  # torch does not resize memory that it did not allocate
            return self._by_meta(function, args, kwargs)

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

    def _by_meta(self, function: Any, args: Any, kwargs: Any) -> Any:
        torch = self.torch
        metas: dict[int, Any] = {}  # of a fake tensor
        origin: dict[int, Any] = {}  # of a meta tensor
        stores: dict[int, Any] = {}  # of a meta storage

        by_values = function._schema.name in BY_VALUES
        by_bytes = function._schema.name.startswith(BY_BYTES)
        # If it shares no memory with an argument, its shape function may return one nevertheless.
        fresh = _is_plain(function._schema) and not function._schema.name.startswith("c10d::")

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

    def _with_empty(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Makes results empty that a flag does not request."""
        at, name, unwanted = EMPTY[function._schema.name]
        wanted = args[at] if at < len(args) else kwargs.get(name, True)
        out = self._by_meta(function, args, kwargs)
        if wanted:
            return self._by_columns(function._schema.name, out)
        return tuple(self._new((0,), each.dtype) if at in unwanted else each for at, each in enumerate(out))

    def _in_type(self, name: str, seen: list[Any], out: Any) -> Any:
        """The results of a normalisation, with its statistics in the type of a real run."""
        torch = self.torch
        if name not in STATISTICS:
            return out
        dtype = torch.float32 if any(t.dtype is torch.float32 for t in seen) else seen[0].dtype
        if out[1].dtype is dtype:
            return out
        return out[0], *(self._new(t.shape, dtype) for t in out[1:3]), *out[3:]

    def _by_columns(self, name: str, out: tuple[Any, ...]) -> tuple[Any, ...]:
        which = BY_COLUMNS.get(name, ())
        return tuple(
            self.in_columns(each.shape, each.dtype) if at in which else each for at, each in enumerate(out)
        )

    def _with_weight(self, args: Any, out: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of a convolution. oneDNN computes that of the weight with that of the bias, also of a
        frozen weight."""
        torch = self.torch
        _, x, weight, _, *how, mask = args
        if mask[1] or not mask[2]:
            return out
        with torch._C._DisableTorchDispatch():
            plain = [torch.empty((), dtype=t.dtype).expand(t.shape) for t in (x, weight)]
            backend = torch._C._select_conv_backend(*plain, None, *how).name
        return (out[0], self._new(weight.shape, weight.dtype), out[2]) if backend in ONEDNN else out

    def _by_channels(self, args: Any, out: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of a convolution, both channels last if its input or weight is. The shape function of
        an older torch returns them in rows."""
        torch, laid_out = self.torch, sys.modules["torch._prims_common"].suggest_memory_format
        last = next((f for f in map(laid_out, args[1:3]) if f is not torch.contiguous_format), None)
        if last is None:
            return out
        return tuple(
            g if g is None or g.dim() == 1 else self._new(g.shape, g.dtype, memory_format=last) for g in out
        )

    def _as_suggested(self, x: Any, out: Any) -> Any:
        """The results, the first by channels if ``x`` is, else in rows."""
        torch, laid_out = self.torch, sys.modules["torch._prims_common"].suggest_memory_format
        first = out[0] if isinstance(out, tuple) else out
        if first is None:
            return out
        with torch._C._DisableTorchDispatch():
            made = torch.empty(first.shape, dtype=first.dtype, device="meta", memory_format=laid_out(x))
            made = first if made.stride() == first.stride() else self.core.like(made)
        return (made, *out[1:]) if isinstance(out, tuple) else made

    def _new(self, shape: Any, dtype: Any, **layout: Any) -> Any:
        """A new fake tensor, in rows unless ``layout`` says otherwise."""
        with self.torch._C._DisableTorchDispatch():
            return self.core.like(self.torch.empty(shape, dtype=dtype, device="meta", **layout))

    def in_columns(self, shape: Any, dtype: Any) -> Any:
        """A new fake tensor, whose matrices are stored by columns."""
        *many, rows, columns = shape
        with self.torch._C._DisableTorchDispatch():
            return self.core.like(self.torch.empty([*many, columns, rows], dtype=dtype, device="meta").mT)

    def _recurrent(self, function: Any, args: Any) -> Any:
        """A layer of oneDNN's LSTM. It keeps memory for its backward, whose size only oneDNN determines."""
        if function._schema.name == RECURRENT[1]:
            x, w1, w2, _, _, hx, cx = args[:7]
            bias = self.torch.empty(w1.shape[:1], dtype=w1.dtype, device="meta")
            whole = self.torch.float32  # in which oneDNN gives the gradients, also of a narrower layer
            return tuple(
                self.core.like(tensor) if tensor.dtype == whole else self._new(tuple(tensor.shape), whole)
                for tensor in (x, w1, w2, bias, bias, hx, cx)
            )
        out = self._by_meta(function, args, {})
        if not self.torch.is_grad_enabled():
            return out
        kept = self._kept(function, args)
        return (*out[:3], self._new((kept,), self.torch.uint8))

    def _kept(self, function: Any, args: Any) -> int:
        """The bytes of that memory, by the core's rule if it agrees with this oneDNN; otherwise oneDNN runs
        once, on zeros, if that is not much work."""
        x, w1, w2 = args[:3]
        if x.dtype == self.torch.float32 and self._kept_is_known(function, args):
            steps, examples, wide = x.shape
            return _lamina.recurrent_kept(steps, examples, wide, w2.shape[1])
        work = x.shape[0] * x.shape[1] * (w1.numel() + w2.numel())  # not a count: how much would be computed
        if work > MOST_ASKED:
            self.block(f"runs {RECURRENT[0]} for a backward pass, with memory that only oneDNN can size")
        return self._kept_really(function, args, [tuple(t.shape) for t in args[:7]])

    def _kept_is_known(self, function: Any, args: Any) -> bool:
        """True if the core's rule agrees with oneDNN for two small layers."""
        if "rule" not in _workspaces:
            small = ((3, 2, 5, 64), (9, 5, 40, 100))
            _workspaces["rule"] = all(
                _lamina.recurrent_kept(steps, examples, wide, hidden)
                == self._kept_really(function, args, _of_layer(steps, examples, wide, hidden))
                for steps, examples, wide, hidden in small
            )
        return bool(_workspaces["rule"])

    def _kept_really(self, function: Any, args: Any, shapes: list[tuple[int, ...]]) -> int:
        key = (args[0].dtype, *shapes)
        if key not in _workspaces:
            given = [self.torch.zeros(shape, dtype=args[0].dtype) for shape in shapes]
            with self.torch._C._DisableTorchDispatch():
                biased = len(shapes[3]) == 1  # otherwise torch passes zeros in the shape of the weights
                options: tuple[Any, ...] = (False, [], 2, shapes[5][-1], 1, biased, False, False, True)
                _workspaces[key] = function(*given, *options)[3].untyped_storage().nbytes()
        return int(_workspaces[key])

    def _is(self, function: Any, *names: str) -> bool:
        """True if torch tags the operator with one of ``names``."""
        return any(getattr(self.torch.Tag, name, None) in function.tags for name in names)

    def _has(self, function: Any, key: str) -> bool:
        """True if the operator has a separate kernel for this dispatch key. torch's queries (prim::layout)
        have none."""
        try:
            return bool(self.torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), key))
        except RuntimeError:
            return False

    def _depends(self, function: Any) -> bool:
        return self._is(function, "dynamic_output_shape", "data_dependent_output")

    def unsure(self, function: Any, error: Exception) -> NoReturn:
        """torch's shape function returned no shape: it does not exist, needs values, or raised."""
        what = f"runs {function._schema.name}, "
        if self._depends(function):
            self.block(what + "whose result's size depends on values")
        if isinstance(error, NotImplementedError):
            self.block(what + "of which torch does not tell the result's shape")
        told = str(error).partition("\n")[0]
        self.block(what + f"which torch's shape function refuses ({told})")


def _conjugated(inside: Any, *args: Any, **kwargs: Any) -> Any:
    """Below autograd, torch passes copies of lazily conjugated tensors to such an operator."""
    clone = sys.modules["torch"].ops.aten.clone.default

    def physical(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([physical(v) for v in value])
        return clone(value) if hasattr(value, "is_conj") and value.is_conj() else value

    return inside(*(physical(v) for v in args), **{k: physical(v) for k, v in kwargs.items()})


def _of_layer(steps: int, examples: int, wide: int, hidden: int) -> list[tuple[int, ...]]:
    """Shapes of an LSTM layer's data, weights, biases and states."""
    gates, state = 4 * hidden, (examples, hidden)  # not a count: sizes of a layer that is tried
    return [(steps, examples, wide), (gates, wide), (gates, hidden), (gates,), (gates,), state, state]


def _is_plain(schema: Any) -> bool:
    """True if no result shares memory with an argument."""
    return all(result.alias_info is None for result in schema.returns)


def _is_view(schema: Any) -> bool:
    infos = [result.alias_info for result in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


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
        forget_no_more()
        if dry.blocked is None:
            dry.blocked = _cause(run.error)
        if dry.blocked is not None:
            run.error = _sentence(run, dry.subject, dry.blocked, follow=follow)


def _cause(error: BaseException | None) -> str | None:
    """What the program did, if an exception shows that a dry run can't follow it."""
    if is_of_address(error):
        return "needs the memory at a tensor's address (.data_ptr())"
    if isinstance(error, RuntimeError) and any(part in str(error) for part in NESTED):
        return "works on a nested tensor"
    tracer = tracer_of(error)
    return None if tracer is None else f"{EXPORTS} ({tracer})"


def _sentence(run: Run, subject: str, blocked: str, *, follow: bool) -> NeedsValuesError:
    where = None if run.model is None else run.model.costs().failed_layer()
    told = f"a dry run can't follow {where or subject}: it {blocked}, and nothing was computed"
    error = NeedsValuesError(told if follow else f"{told}; leave dry=True out to run the model")
    error.__cause__ = run.error
    return error
