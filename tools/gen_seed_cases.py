# SPDX-License-Identifier: Apache-2.0
"""Writes the single-layer cases of a recorded reference as a C table, tests/c/seeds_*.def.

    python tools/gen_seed_cases.py tests/data/torchscan.json > tests/c/seeds_torchscan.def
    python tools/gen_seed_cases.py tests/data/thoplw.json > tests/c/seeds_thoplw.def

The numbers come from the JSON file. Shapes, attributes, parameters and buffers come from the real layer,
built and run with the PyTorch that is installed, so that the C test sees what a capture of it would push.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

HEAD = """\
/* SPDX-License-Identifier: Apache-2.0
 * The single-layer cases of tests/data/{name}, with the layers as PyTorch makes them.
 * Written by tools/gen_seed_cases.py; do not edit.
 *
 * CASE(id, training, inputs, outputs, modules, macs, flops, dmas)
 * MODULE(parent, name, class, attributes, tensors): the layer first, then what is inside it
 * A number is what the tool returned; IGNORED: it has no rule; RAISED: it failed; SILENT: it left the layer
 * out although its table has the class. */
"""


def shape(sizes: Any) -> str:
    return f"SHAPE({', '.join(map(str, (len(sizes), *sizes)))})"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a nested result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one)


def listed(macro: str, items: list[str]) -> str:
    return f"{macro}({', '.join(items)})" if items else f"NO_{macro}"


def value(v: Any) -> str | None:
    """The C form of an attribute's value, or None where it is of a kind that is not pushed."""
    if v is None:
        return "NONE"
    if isinstance(v, bool):
        return f"BOOL({int(v)})"
    if isinstance(v, int):
        return f"INT({v})"
    if isinstance(v, float):
        return f"FLOAT({v!r})"
    if isinstance(v, str):
        return f"TEXT({json.dumps(v)})"
    if isinstance(v, (tuple, list)) and v and all(isinstance(i, int) for i in v):
        return f"INTS({', '.join(map(str, (len(v), *v)))})"
    return None


def attributes(module: nn.Module) -> list[str]:
    out = []
    for name, v in vars(module).items():
        text = None if name.startswith("_") or name == "training" else value(v)
        if text is not None:
            out.append(f'ATTR("{name}", {text})')
    return out


def tensors(module: nn.Module) -> list[str]:
    own: list[tuple[str, str, torch.Tensor]] = []
    own += [("PARAM", n, p) for n, p in module._parameters.items() if p is not None]
    own += [("BUFFER", n, b) for n, b in module._buffers.items() if b is not None]
    return [f'{macro}("{name}", {shape(t.shape)})' for macro, name, t in own]


def modules(layer: nn.Module) -> list[str]:
    numbers: dict[str, int] = {}
    out = []
    for i, (path, module) in enumerate(layer.named_modules()):
        numbers[path] = i
        parent, _, name = path.rpartition(".")
        up = -1 if path == "" else numbers[parent]
        parts = (
            str(up),
            f'"{name}"',
            f'"{type(module).__name__}"',
            listed("ATTRS", attributes(module)),
            listed("TENSORS", tensors(module)),
        )
        out.append(f"MODULE({', '.join(parts)})")
    return out


def arguments(args: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in args.items()}


def expected(tool: str, expect: dict[str, Any]) -> list[str]:
    """macs, flops, dmas as the tool gave them."""
    if tool == "thoplw":
        if "error" in expect:
            return ["RAISED", "IGNORED", "IGNORED"]
        if expect["macs"] is None:
            return ["IGNORED" if expect["printed_unknown"] else "SILENT", "IGNORED", "IGNORED"]
        return [str(expect["macs"]), "IGNORED", "IGNORED"]
    if "error" in expect:
        return ["RAISED"] * 3
    # A warning beside a number is about something inside the layer: the number was printed.
    unsupported = [m for m in expect.get("unsupported_warning", []) if m != "rf" and not expect[m]]
    return [
        "IGNORED" if m in unsupported else "RAISED" if isinstance(expect[m], dict) else str(expect[m])
        for m in ("macs", "flops", "dmas")
    ]


def case(tool: str, number: int, c: dict[str, Any]) -> str:
    torch.manual_seed(0)
    layer: nn.Module = getattr(nn, c["layer"])(**arguments(c["args"]))
    layer.train(c["train"])
    shapes = c["input"] if isinstance(c["input"][0], list) else [c["input"]]
    dtype = getattr(torch, c.get("dtype", "float32"))
    inputs = [torch.rand(s).to(dtype) for s in shapes]
    with torch.no_grad():
        out = list(tensors_in(layer(*inputs)))
    parts = [
        f'"{tool}/{number}"',
        str(int(c["train"])),
        listed("SHAPES", [shape(t.shape) for t in inputs]),
        listed("SHAPES", [shape(t.shape) for t in out]),
        listed("MODULES", modules(layer)),
    ]
    return f"CASE({', '.join(parts + expected(tool, c['expect']))})"


def main(path: Path) -> None:
    print(HEAD.format(name=path.name), end="")
    for number, c in enumerate(json.loads(path.read_text())["layer_cases"]):
        text = case(path.stem, number, c)
        print(
            textwrap.fill(text, 128, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
