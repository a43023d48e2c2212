# SPDX-License-Identifier: Apache-2.0
"""Operators and gradients that ask whether a tensor has a class of its own and take another way then. In a
dry run all tensors have: here is what the plain way runs, so that a dry run sees the work of a real one.

Each function stands for one operator inside one of them. It sets that operator aside, which then counts
nothing, runs what a real run has in its place, and gives what the composite goes on with; None where it is to
be answered as always.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._dry_fused import a_known_number, looks_at_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._dry import _Run


def _aten() -> Any:
    return sys.modules["torch"].ops.aten


def _wants_gradient(tensor: Any) -> bool:
    return bool(sys.modules["torch"].is_grad_enabled() and tensor.requires_grad)


def _opened(run: _Run, function: Callable[..., Any]) -> Any:
    """What ``function`` gives, whose operators count in the place of the one that is answered."""
    run.core.aside()
    with run.core:
        return run.core.opened(function, (), {})


def _pool(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """max_pool1d without gradients computes itself, and no indices."""
    if run.core.caller(2) == "aten::max_pool1d" and not _wants_gradient(args[0]):
        run.core.whole(2)


def _one_hot_largest(run: _Run, *_: Any) -> Any:
    run.core.aside()
    run.reads_aside = 1


def _one_hot_read(run: _Run, *_: Any) -> Any:
    if run.reads_aside and run.core.caller(2) == "aten::one_hot":
        run.core.aside()
        run.reads_aside = 0


def _one_hot_classes(run: _Run, *_: Any) -> Any:
    run.core.aside()


def _one_hot(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    x, classes = args
    torch = sys.modules["torch"]

    def plain() -> Any:
        if x.numel() > 0:
            _aten().aminmax(x)
            looks_at_one(torch.int64)
            looks_at_one(torch.int64)
        out = _aten().zeros([*x.shape[:-1], classes.shape[0]], dtype=torch.int64)
        return _aten().scatter_(out, -1, x, 1)

    return _opened(run, plain)


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


def _ranks(run: _Run, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """quantile looks whether all that is asked for lies between 0 and 1."""
    aten, torch = _aten(), sys.modules["torch"]
    q = args[0]

    def plain() -> Any:
        aten.all(aten.logical_and_(aten.ge(q, 0), aten.le(q, 1)))
        yes = a_known_number(torch.bool)
        aten.equal(yes, aten.new_ones(yes, ()))
        return function(*args, **kwargs)

    return _opened(run, plain)


def _nan(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    """The gradient of a largest, smallest or middle element goes to all that equal it. Whether that one is
    NaN a real run asks the one, and with a class of tensors' own all are asked. It is taken not to be."""
    run.sought_nan = not run.sought_nan
    if run.sought_nan:
        return run.core.aside()

    def plain() -> Any:
        out = _aten().isnan(args[0])
        looks_at_one(sys.modules["torch"].bool)
        return out

    return _opened(run, plain)


def _not_run(run: _Run, *_: Any) -> Any:
    run.core.aside()


def _spread(run: _Run, _: Any, args: tuple[Any, ...], __: Any) -> Any:
    mask, share = args

    def plain() -> Any:
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
    """How much a real run has in its place values decide, or shapes that are not at hand here: a mask that is
    looked up instead of a choice, columns that are written to zeros instead of being put together."""
    run.core.decided(0)


INSTEAD: dict[tuple[str, str], Callable[..., Any]] = {
    ("aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices"): _pool,
    ("aten::one_hot", "aten::max"): _one_hot_largest,
    ("aten::item", "aten::_local_scalar_dense"): _one_hot_read,
    ("aten::one_hot", "aten::arange"): _one_hot_classes,
    ("aten::one_hot", "aten::eq"): _one_hot,
    ("aten::linalg_svdvals", "aten::_linalg_svd"): _singular_values,
    ("aten::linalg_eigvalsh", "aten::_linalg_eigh"): _symmetric_values,
    ("aten::linalg_eigvals", "aten::linalg_eig"): _values,
    ("aten::quantile", "aten::mul"): _ranks,
    ("aten::nanquantile", "aten::mul"): _ranks,
    **{
        (f"{name}Backward{overload}", operator): instead
        for name in ("Max", "Min", "Median", "Nanmedian")
        for overload in range(2)
        for operator, instead in {
            "aten::isnan": _nan,
            "aten::logical_and": _not_run,
            "aten::logical_or_": _not_run,
            "aten::mul": _spread,
        }.items()
    },
    ("LinalgEighBackward0", "aten::diagonal_scatter"): _diagonal,
    ("MaskedFillBackward1", "aten::where"): _by_values,
    ("MaskedFillBackward1", "aten::sum"): _by_values,
    ("LinalgHouseholderProductBackward0", "aten::cat"): _by_values,
    ("OrmqrBackward0", "aten::cat"): _by_values,
}


def _callers() -> dict[str, str]:
    found: dict[str, str] = {}
    for caller, name in INSTEAD:
        found[name] = found.get(name, " ") + caller + " "
    return found


# Of each of these operators the callers in which it is answered so, each between two spaces.
ELSEWHERE = _callers()
