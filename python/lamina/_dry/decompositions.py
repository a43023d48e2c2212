# SPDX-License-Identifier: Apache-2.0
"""Operators and gradients that take another path for tensor subclasses. In a dry run all tensors are of a
subclass; this runs the plain path, so that a dry run has the work of a real one.
Each function replaces one operator inside one of them. It sets that operator aside, so that it counts
nothing, runs the operators of a real run instead, and returns the result with which the composite continues;
None: the operator is answered as usual.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .fused import a_known_number, looks_at_one
from .running import caller, since
from .tensors import address_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .mode import _Run


def _aten() -> Any:
    return sys.modules["torch"].ops.aten


def _wants_gradient(tensor: Any) -> bool:
    return bool(sys.modules["torch"].is_grad_enabled() and tensor.requires_grad)


def _opened(run: _Run, function: Callable[..., Any]) -> Any:
    """The result of ``function``, whose operators count instead of the answered one."""
    run.core.aside()
    with run.core:
        return run.core.opened(function, (), {})


def _pool(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """max_pool1d without gradients computes only its result, and no indices."""
    if run.core.caller(2) == "aten::max_pool1d" and not _wants_gradient(args[0]):
        run.core.whole(2)


def _one_hot_smallest(run: _Run, *_: Any) -> Any:
    """one_hot of a tensor from outside, which is of no subclass: a real run also computes the smallest and
    the largest class."""
    run.plain_one_hot = True


def _one_hot_largest(run: _Run, *_: Any) -> Any:
    if run.plain_one_hot:
        run.plain_one_hot = False
        return
    run.core.aside()
    run.reads_aside = 1


def _one_hot_read(run: _Run, *_: Any) -> Any:
    if run.reads_aside and run.core.caller(2) == "aten::one_hot":
        run.core.aside()
        run.reads_aside = 0


def _one_hot_classes(run: _Run, *_: Any) -> Any:
    run.core.aside()


@cache
def _extremes() -> tuple[str, str]:
    """The operators by which this torch's one_hot finds the smallest and the largest class: one or two."""
    from .._observe.support import in_a_thread, way

    def look() -> tuple[str, str]:
        torch = sys.modules["torch"]
        dispatch = None if way().name == "observer" else ""
        watch = _lamina.Capture(torch.nn.Module(), ops=True, dispatch=dispatch)
        watch.start()
        try:
            torch.ops.aten.one_hot(torch.zeros(1, dtype=torch.int64), 1)
        finally:
            watch.stop()
        names = {op["name"] for op in watch.model().operators()}
        return ("min", "max") if "aten::min" in names else ("aminmax", "")

    return ("aminmax", "") if way().name == "calls" else in_a_thread(look)


def _one_hot(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    x, classes = args
    torch = sys.modules["torch"]

    def plain() -> Any:
        if x.numel() > 0:
            for extreme in _extremes():
                if extreme:
                    getattr(_aten(), extreme)(x)
                looks_at_one(torch.int64)
        out = _aten().zeros([*x.shape[:-1], classes.shape[0]], dtype=torch.int64)
        return _aten().scatter_(out, -1, x, 1)

    return _opened(run, plain)


class OneHot:
    """Recognises one_hot if callers are unknown, under torch's dispatch mode: one instruction of a Python
    frame runs all its operators."""

    def __init__(self) -> None:
        self.frame: Any = None  # the calling frame
        self.at = -1
        self.numbers: list[int] = []  # numbers of the operators that the instruction ran
        self.classes: Any = None  # the result of its arange

    def instead(self, run: _Run, name: str, args: tuple[Any, ...]) -> Any:
        """The result of its comparison; None for another operator."""
        frame = caller()
        if self.frame is not frame or self.at != frame.f_lasti:
            self.frame, self.at, self.numbers, self.classes = frame, frame.f_lasti, [], None
        if name != "aten::eq" or self.classes is None or args[1] is not self.classes:
            self.numbers.append(run.core.here())
            return None
        for number in self.numbers:
            run.core.aside(number)
        self.frame = self.classes = None
        return _one_hot(run, None, args, {})

    def gave(self, name: str, out: Any) -> None:
        """Called for each operator that was not answered here."""
        self.classes = out if name == "aten::arange" else None
        if name == "aten::eq":
            self.frame = None


def _singular_values(run: _Run, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x = args[0]
    if _wants_gradient(x):
        return None
    driver = kwargs.get("driver")
    return _opened(run, lambda: _aten()._linalg_svd(x, compute_uv=False, driver=driver))


def _symmetric_values(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    x = args[0]
    if _wants_gradient(x):
        return None
    half = args[1] if len(args) > 1 else "L"
    return _opened(run, lambda: _aten()._linalg_eigh(x, half, compute_v=False))


def _values(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    x = args[0]
    if _wants_gradient(x):
        return None
    values = _opened(run, lambda: _aten()._linalg_eigvals(x))
    return values, values


def _ranks_are_checked(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """An older torch checks the ranks of a quantile for tensor subclasses too, and reads the result."""
    run.ranks_checked = True
    if run.knows(args[0]):
        return None
    yes = a_known_number(sys.modules["torch"].bool)
    return _opened(run, lambda: _aten().equal(yes, yes))


def _ranks(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """quantile checks that all its ranks are between 0 and 1."""
    if run.ranks_checked:
        run.ranks_checked = False
        return None
    aten, torch = _aten(), sys.modules["torch"]
    q = args[0]

    def plain() -> Any:
        aten.all(aten.logical_and_(aten.ge(q, 0), aten.le(q, 1)))
        yes = a_known_number(torch.bool)
        aten.equal(yes, aten.new_ones(yes, ()))
        return function(*args, **kwargs)

    return _opened(run, plain)


def _selects(run: _Run, *_: Any) -> Any:
    """From 2.14 on, torch does not sort a tensor in the CPU's memory: a kernel without an operator
    selects."""
    if since(2, 14):
        run.core.decided(0)


def _bounds_share(run: _Run, *_: Any) -> Any:
    """In a later torch, an element equal to a bound shares the gradient with the bound, by three masks."""
    run.bounds_share = True


def _within_bounds(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return None if run.bounds_share else _in_place(run, function, args, kwargs)


def _shared_by_bounds(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    run.bounds_share = False
    return _in_place(run, function, args, kwargs)


def _nan(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """The gradient of a maximum, minimum or median goes to all elements equal to it. A real run tests that
    value for NaN; with tensor subclasses all elements are tested. It is assumed not to be NaN."""
    run.sought_nan = not run.sought_nan
    if run.sought_nan:
        return _without_memory(run, args[0].shape)

    def plain() -> Any:
        out = _aten().isnan(args[0])
        looks_at_one(sys.modules["torch"].bool)
        return out

    return _opened(run, plain)


def _looks_at_mask(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The memory that the gradient is spread over is allocated before the equal elements are counted."""
    mask = args[0]
    metadata = getattr(sys.modules["torch"]._C._current_autograd_node(), "_input_metadata", None)

    def plain() -> Any:
        if metadata:
            run.spread = _aten().new_zeros(mask, mask.shape, dtype=metadata[0].dtype)
        return function(*args, **kwargs)

    return _opened(run, plain)


def _in_place(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes to its first argument, a tensor that only the caller's next step needs."""
    schema = function._schema
    twin = getattr(getattr(_aten(), schema.name.partition("::")[2] + "_"), schema.overload_name or "default")
    out = _opened(run, lambda: twin(*args, **kwargs))
    run.written_over = address_of(out)
    return out


def _in_place_again(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same, to the tensor that was just written to."""
    if address_of(args[0]) != run.written_over:
        return None
    return _in_place(run, function, args, kwargs)


def _without_memory(run: _Run, shape: Any) -> Any:
    """A mask that a real run does not have."""
    run.core.aside()
    run.stands_in = True
    torch = sys.modules["torch"]
    return run.core.like(torch.empty_strided(shape, [0] * len(shape), dtype=torch.bool, device="meta"))


def _no_mask(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    return _without_memory(run, sys.modules["torch"].broadcast_shapes(args[0].shape, args[1].shape))


def _not_run(run: _Run, *_: Any) -> Any:
    run.core.aside()


def _spread(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    mask, share = args

    none, run.spread = run.spread, None

    def plain() -> Any:
        nonlocal none
        if none is None:
            none = _aten().new_zeros(share, mask.shape, dtype=share.dtype)
        return _aten().masked_fill_(none, mask, share)

    return _opened(run, plain)


def _diagonal(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    x, diagonal, *axes = args

    def plain() -> Any:
        _aten().copy_(_aten().diagonal(x, *axes), diagonal)
        return x

    return _opened(run, plain)


def _by_values(run: _Run, *_: Any) -> Any:
    """The work of a real run depends on values here: it reads a mask instead of choosing."""
    run.core.decided(0)
    run.by_values = True


def _columns(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """Columns that a real run writes to zeros with the layout of the input, whose shape is unknown here."""
    torch = sys.modules["torch"]
    run.core.decided(0)
    node = torch._C._current_autograd_node()
    x = getattr(node, "_saved_input", None)
    x = getattr(node, "_saved_self", None) if x is None else x
    if x is None or x.dim() != args[0][0].dim():
        return None
    shape = torch.broadcast_shapes(x.shape, (*args[0][0].shape[:-1], x.shape[-1]))
    zeros = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
    return run.core.like(zeros) if shape == x.shape else None


def _chooses_weights(run: _Run, *_: Any) -> Any:
    """A smoothed cross entropy sums the weights of the targets that are not ignored; their number depends on
    values. With tensor subclasses the weights of all targets are read, and masked."""
    run.weighs = True
    run.core.decided(0)


def _of_weights(run: _Run, *_: Any) -> Any:
    if run.weighs:
        run.core.decided(0)


def _sums_weights(run: _Run, *_: Any) -> Any:
    if run.weighs:
        run.core.decided(0)
    run.weighs = False


INSTEAD: dict[tuple[str, str], Callable[..., Any]] = {
    ("aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices"): _pool,
    ("aten::one_hot", "aten::min"): _one_hot_smallest,
    ("aten::one_hot", "aten::max"): _one_hot_largest,
    ("aten::item", "aten::_local_scalar_dense"): _one_hot_read,
    ("aten::one_hot", "aten::arange"): _one_hot_classes,
    ("aten::one_hot", "aten::eq"): _one_hot,
    ("aten::linalg_svdvals", "aten::_linalg_svd"): _singular_values,
    ("aten::linalg_eigvalsh", "aten::_linalg_eigh"): _symmetric_values,
    ("aten::linalg_eigvals", "aten::linalg_eig"): _values,
    **{
        (f"aten::{name}", operator): instead
        for name in ("quantile", "nanquantile")
        for operator, instead in {
            "aten::equal": _ranks_are_checked,
            "aten::mul": _ranks,
            "aten::sort": _selects,
        }.items()
    },
    **{
        (f"{name}Backward{overload}", operator): instead
        for name in ("Max", "Min", "Median", "Nanmedian")
        for overload in range(2)
        for operator, instead in {
            "aten::isnan": _nan,
            "aten::logical_and": _no_mask,
            "aten::logical_or_": _not_run,
            "aten::sum": _looks_at_mask,
            "aten::mul": _spread,
        }.items()
    },
    ("aten::value_selecting_reduction_backward", "aten::scatter"): _in_place,
    ("aten::cummaxmin_backward", "aten::scatter_add"): _in_place,
    ("aten::gather_backward", "aten::scatter_add"): _in_place,
    ("aten::index_select_backward", "aten::index_add"): _in_place,
    ("aten::trace_backward", "aten::index_fill"): _in_place,
    ("aten::_scaled_dot_product_attention_math", "aten::add"): _in_place,
    ("Atan2Backward0", "aten::masked_fill"): _in_place,
    ("BinaryCrossEntropyBackward0", "aten::mul"): _in_place,
    ("BinaryCrossEntropyWithLogitsBackward0", "aten::sub"): _in_place,
    ("BinaryCrossEntropyWithLogitsBackward0", "aten::mul"): _in_place_again,
    **{
        (f"ClampBackward{overload}", f"aten::logical_{operator}"): _within_bounds
        for overload in range(2)
        for operator in ("and", "or")
    },
    ("ClampBackward0", "aten::eq"): _bounds_share,
    ("ClampBackward0", "aten::masked_fill"): _shared_by_bounds,
    ("aten::cross_entropy_loss", "aten::masked_fill"): _chooses_weights,
    ("aten::cross_entropy_loss", "aten::gather"): _of_weights,
    ("aten::cross_entropy_loss", "aten::masked_fill_"): _of_weights,
    ("aten::cross_entropy_loss", "aten::sum"): _sums_weights,
    ("LinalgEighBackward0", "aten::diagonal_scatter"): _diagonal,
    ("MaskedFillBackward1", "aten::where"): _by_values,
    ("MaskedFillBackward1", "aten::sum"): _by_values,
    **{
        (f"{name}Backward0", operator): instead
        for name in ("LinalgHouseholderProduct", "Ormqr")
        for operator, instead in {"aten::cat": _columns, "aten::zeros": _not_run}.items()
    },
}

# The operators of one_hot, which are replaced even if callers are unknown.
ANYHOW = ("aten::max", "aten::_local_scalar_dense", "aten::arange", "aten::eq")


def _callers() -> dict[str, str]:
    found: dict[str, str] = {}
    for outer, name in INSTEAD:
        found[name] = found.get(name, "* " if name in ANYHOW else " ") + outer + " "
    return found


# For each of these operators the callers in which it is replaced, each between two spaces; a star: always.
ELSEWHERE = _callers()
