# SPDX-License-Identifier: Apache-2.0
"""Names of floating-point types, as users type them."""

from __future__ import annotations

import sys
from typing import Any

from .errors import UsageError

# Other names of a type.
CALLED = {"fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32"}
CALLED |= {"fp64": "float64", "f64": "float64", "tf32": "float32", "fp8": "float8_e4m3fn"}
USUAL = ("float16", "bfloat16", "float32", "float64")


def real_dtype(name: str) -> str:
    """The name of a floating-point type, without "torch.".

    Raises:
        UsageError: there is no such type; the sentence lists the usual ones.
    """
    from difflib import get_close_matches

    torch = sys.modules["torch"]
    short = name.removeprefix("torch.")
    dtype: Any = getattr(torch, short, None)
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return str(dtype).removeprefix("torch.")
    near = [CALLED[short]] if short in CALLED else get_close_matches(short, _real(torch), n=3)
    meant = f"did you mean {' or '.join(near)}? The usual ones" if near else "the usual ones"
    what = "not a floating-point type" if isinstance(dtype, torch.dtype) else "not a type that torch has"
    raise UsageError(f"{name!r} is {what}; {meant} are {', '.join(USUAL)}")


def _real(torch: Any) -> list[str]:
    every = ((name, getattr(torch, name)) for name in dir(torch))
    return [name for name, value in every if isinstance(value, torch.dtype) and value.is_floating_point]
