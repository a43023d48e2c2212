# SPDX-License-Identifier: Apache-2.0
"""The modules of a model of any depth: torch's own walks are recursive, and their cost is quadratic in the
depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def core_path(path: object) -> object:
    """A path as the core has it: that of the model itself, ``"."`` as in the command, is ``""``."""
    return "" if path == "." else path


def no_layer(path: object, paths: Iterable[str]) -> KeyError:
    """The error for a ``path`` without a layer, with the layers of similar names."""
    from difflib import get_close_matches

    if not isinstance(path, str):
        return KeyError(
            f"a layer is named by its path, as 'layer1.0', '' is the whole model, and this is {path!r}"
        )
    near = get_close_matches(path, list(paths), n=3)
    return KeyError(f"no layer at {path!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))


def modules(root: Any) -> Iterator[tuple[str, Any]]:
    """Each module once, under its first path, in the order of ``root.named_modules()``."""
    seen: set[int] = set()
    stack = [("", root)]
    while stack:
        path, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        prefix = path and f"{path}."
        children = [(prefix + name, child) for name, child in module._modules.items() if child is not None]
        stack.extend(reversed(children))


def parameters(root: Any) -> Iterator[Any]:
    """The parameters in the order of ``root.parameters()``; a shared one may be repeated."""
    for _, module in modules(root):
        yield from (value for value in module._parameters.values() if value is not None)
