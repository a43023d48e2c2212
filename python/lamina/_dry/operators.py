# SPDX-License-Identifier: Apache-2.0
"""What an operator is to a dry run, read from torch once: a view or not, what it writes to, and the function
that runs the operators inside it."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, NamedTuple

from .. import _lamina
from .._guard.redispatch import Redispatch
from .fused import FUSED
from .kernels import checks_its_shapes

KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Views that their schemas do not declare.
UNSAFE_VIEWS = ("aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes")


class Operator(NamedTuple):
    """The properties of an operator. ``opened``: runs the operators that it runs on the CPU, if these do its
    work. ``drawn``: from a generator. ``writes``: positions and names of the arguments that it writes to.
    ``by_element``: each element of a result is made of one of each argument."""

    name: str
    is_view: bool
    opened: Any
    drawn: bool
    writes: list[tuple[int, str]]
    by_element: bool


_learned: dict[Any, Operator] = {}


def has_kernel(function: Any, learned: Operator) -> bool:
    """True if torch has a kernel that may run on a few elements."""
    mine = any(map(partial(_has, function), KERNELS))
    return mine and not depends_on_values(function) and checks_its_shapes(function, learned.name)


def learn(function: Any) -> Operator:
    """The properties that do not change between runs, read from torch once."""
    learned = _learned.get(function)
    if learned is None:
        schema = function._schema
        is_view = is_tagged(function, "inplace_view") or _is_view(schema) or schema.name in UNSAFE_VIEWS
        writes = [
            (at, argument.name)
            for at, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        drawn = is_tagged(function, "nondeterministic_seeded")
        learned = Operator(
            schema.name,
            is_view,
            _opened(function, schema),
            drawn,
            writes,
            is_tagged(function, "pointwise"),
        )
        _learned[function] = learned
    return learned


def _opened(function: Any, schema: Any) -> Any:
    """The function that runs the operators inside this one on the CPU, if these do its work."""
    if _has(function, "CompositeImplicitAutograd") and not _has(function, "CPU"):
        inside = _inside(function)
        plain = _has(function, "Conjugate") or _is_view(schema)
        return inside if plain else partial(_conjugated, inside)
    if not _lamina.op_wraps(schema.name):
        return None
    spelled = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if spelled in FUSED:
        return FUSED[spelled]
    cpu, *explicit = KERNELS
    if _has(function, cpu) or not any(_has(function, key) for key in explicit):
        return None
    core = sys.modules["torch"]._C
    keys = core.DispatchKeySet(core.DispatchKey.CPU)
    return partial(Redispatch.own(), function, keys)


def _inside(function: Any) -> Any:
    """Runs a composite operator's own kernel: torch may also have a decomposition in Python, which keeps
    tensors alive differently."""
    direct = getattr(function, "_op_dk", None)
    if direct is None:
        return function.decompose
    return partial(direct, sys.modules["torch"]._C.DispatchKey.CompositeImplicitAutograd)


def is_tagged(function: Any, *names: str) -> bool:
    """True if torch tags the operator with one of ``names``."""
    tags = sys.modules["torch"].Tag
    return any(getattr(tags, name, None) in function.tags for name in names)


def _has(function: Any, key: str) -> bool:
    """True if the operator has a separate kernel for this dispatch key. torch's queries (prim::layout)
    have none."""
    try:
        return bool(sys.modules["torch"]._C._dispatch_has_kernel_for_dispatch_key(function.name(), key))
    except RuntimeError:
        return False


def depends_on_values(function: Any) -> bool:
    return is_tagged(function, "dynamic_output_shape", "data_dependent_output")


def _conjugated(inside: Any, *args: Any, **kwargs: Any) -> Any:
    """Below autograd, torch passes copies of lazily conjugated tensors to such an operator."""
    clone = sys.modules["torch"].ops.aten.clone.default

    def physical(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([physical(v) for v in value])
        return clone(value) if hasattr(value, "is_conj") and value.is_conj() else value

    return inside(*(physical(v) for v in args), **{k: physical(v) for k, v in kwargs.items()})


def is_plain(schema: Any) -> bool:
    """True if no result shares memory with an argument."""
    return all(result.alias_info is None for result in schema.returns)


def _is_view(schema: Any) -> bool:
    infos = [result.alias_info for result in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)
