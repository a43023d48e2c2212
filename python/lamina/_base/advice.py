# SPDX-License-Identifier: Apache-2.0
"""Advice for common errors of a forward: what the layer that raised takes, and how to give it that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

OFTEN = 50  # frames of one function in a traceback that are too many


class Spelling(NamedTuple):
    """The spellings of lamina's options for the reader of a sentence; ``given``: of an input."""

    eval_mode: str
    dry: str
    given: str
    command: bool


COMMAND = Spelling("--mode eval", "--dry", "give -i ", command=True)
PYTHON = Spelling('mode="eval"', "dry=True", "give ", command=False)


class Raised(NamedTuple):
    """The layer that raised, and its first input; ``dtype`` is a name."""

    layer: Any
    shape: Sequence[int] | None
    dtype: str | None


def raised_in(root: Any, rows: Sequence[Any]) -> Raised | None:
    """The innermost layer among the rows of a run that raised; None if it is unknown."""
    failed = [row for row in rows if row["failed"]]
    if not failed:
        return None
    row = max(failed, key=lambda each: each["depth"])
    try:
        layer = root.get_submodule(row["path"])
    except AttributeError:
        return None
    shapes, dtypes = row["in_shapes"], row["in_dtypes"]
    return Raised(layer, shapes[0] if shapes else None, dtypes[0] if dtypes else None)


def advise(error: BaseException, spell: Spelling, raised: Raised | None = None) -> str | None:
    """A sentence with advice for a common exception of torch; None for others."""
    import re

    text = str(error)
    if "Expected more than 1 value per channel when training" in text:
        return f"in train mode, batch norm needs a larger batch; give one, or {spell.eval_mode}"
    tried = re.search(r"you tried to allocate (\d+) bytes", text)
    if tried:
        from .. import _lamina

        size = _lamina.text_bytes(int(tried[1]))
        return f"that is {size}, more than this machine gives; {spell.dry} allocates nothing"
    if "maximum recursion depth exceeded" in text:
        return _of_recursion(error)
    if "Sizes of tensors must match except in dimension" in text:
        return (
            "branches of the model gave other sizes: one that halves its input and doubles it again takes "
            "sizes that can be halved as often, such as multiples of 32"
        )
    if "meta" in text and "device" in text:
        return f"what is on the meta device has no values; {spell.dry} follows shapes alone"
    try:
        return None if raised is None else _of_layer(raised, text, spell)
    except Exception:  # an attribute of somebody's layer may be anything, and raise
        return None


# -- a recursion ---------------------------------------------------------------------------------------------


def _of_recursion(error: BaseException) -> str:
    """A forward that calls itself never ends; modules that are nested deeply do."""
    counts: dict[CodeType, int] = {}
    owners: dict[CodeType, set[int]] = {}
    torch = sys.modules.get("torch")
    theirs = str(getattr(torch, "__file__", "")).removesuffix("__init__.py") or "?"
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((theirs, "<")):
            counts[code] = counts.get(code, 0) + 1  # not a count: of frames
            owners.setdefault(code, set()).add(id(trace.tb_frame.f_locals.get("self")))
        trace = trace.tb_next
    often = [code for code, n in counts.items() if n > OFTEN and len(owners[code]) < OFTEN]
    if often:
        code = often[0]
        name = code.co_filename.rpartition("/")[2]
        return f"{code.co_name} in line {code.co_firstlineno} of {name} calls itself without end"
    return "sys.setrecursionlimit allows modules nested more deeply"


# -- what a layer takes --------------------------------------------------------------------------------------


def _of_layer(raised: Raised, text: str, spell: Spelling) -> str | None:
    layer, shape, dtype = raised
    torch = sys.modules["torch"]
    entries = getattr(layer, "num_embeddings", None)
    real = dtype is not None and getattr(getattr(torch, dtype, None), "is_floating_point", False)
    sizes = "x".join(map(str, shape or ()))
    if entries is not None and real:
        like = f"{sizes}:int64" if spell.command else f"torch.zeros({_listed(shape)}, dtype=torch.int64)"
        return f"an embedding takes whole numbers: {spell.given}{like}"
    if entries is not None and "index out of range" in text:
        like = f"{sizes}:int64=randint(0,{entries})" if spell.command else f"torch.randint({entries}, ...)"
        return f"it has {entries} entries, from 0: {spell.given}{like}"
    return _size(layer, shape) or _type(layer, dtype, text, spell)


def _listed(shape: Sequence[int] | None) -> str:
    return ", ".join(map(str, shape or ()))


def _size(layer: Any, shape: Sequence[int] | None) -> str | None:
    """What the layer's attributes say of a size that the input has not."""
    if not shape:
        return None
    last = next((n for n in _sizes(layer, "in_features", "embed_dim", "input_size")), None)
    if last is not None and shape[-1] != last:
        return f"it takes {last} features, the last size of its input, which is {shape[-1]}"
    normal = getattr(layer, "normalized_shape", None)
    if isinstance(normal, tuple) and tuple(shape[-len(normal) :]) != normal:
        return f"it takes an input that ends in {'x'.join(map(str, normal))}, and this ends in {shape[-1]}"
    weight = getattr(layer, "weight", None)
    channels = next((n for n in _sizes(layer, "in_channels", "num_features", "num_channels")), None)
    if channels is None:
        return None
    ndim = getattr(weight, "ndim", None)  # of a quantised layer ``weight`` is a method
    dims = ndim if isinstance(ndim, int) and hasattr(layer, "in_channels") else len(shape)
    if len(shape) not in (dims, dims - 1):
        return f"it takes {dims} dimensions, a batch first, and its input has {len(shape)}"
    at = 1 if len(shape) == dims and len(shape) > 1 else 0
    if shape[at] == channels:
        return None
    missing = "; is the batch missing, the first size?" if len(shape) > 1 and shape[0] == channels else ""
    return f"it takes {channels} channels, and its input has {shape[at]}{missing}"


def _sizes(layer: Any, *names: str) -> list[int]:
    found = (getattr(layer, name, None) for name in names)
    return [n for n in found if isinstance(n, int)]


def _type(layer: Any, dtype: str | None, text: str, spell: Spelling) -> str | None:
    """The type that the parameters have and the input has not, if the error is about types."""
    own = next((p.dtype for p in layer.parameters(recurse=False)), None)
    name = str(own).removeprefix("torch.")
    if own is None or dtype is None or name == dtype or not any(word in text for word in ("type", "Type")):
        return None
    like = f"SHAPE:{name}" if spell.command else f"an input of torch.{name}"
    return f"its parameters are {name}, and its input is {dtype}: {spell.given}{like}"
