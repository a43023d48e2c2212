# SPDX-License-Identifier: Apache-2.0
"""Writes the files of models beside it, of which tests/golden and docs/files.md have transcripts: `python3
make.py`. Their values are zeros, where only names, shapes and types matter."""

from __future__ import annotations

import json
import math
import struct
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4}


def safetensors(path: str, tensors: list[tuple[str, str, list[int]]], data: bytes | None = None) -> None:
    header, at = {}, 0
    for name, dtype, shape in tensors:
        end = at + math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    (HERE / path).write_bytes(struct.pack("<Q", len(text)) + text + (data or bytes(at)))


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(
    path: str, keys: dict[str, str | int], tensors: list[tuple[str, list[int], int, int]], data: bytes = b""
) -> None:
    """Tensors are (name, shape, number of the type, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        out += text(key)
        out += struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<I", 8) + text(value)
    at = 0
    for name, shape, kind, size in tensors:
        sizes = b"".join(struct.pack("<Q", n) for n in reversed(shape))
        out += text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, at)
        at += size + -size % 32
    (HERE / path).write_bytes(out + bytes(-len(out) % 32) + data + bytes(at - len(data)))


def block(i: int) -> list[tuple[str, list[int], int, int]]:
    q4, q6 = 4 * 144, 4 * 210  # bytes of 4 blocks of 256 elements
    return [
        (f"blk.{i}.attn_norm.weight", [32], 0, 128),
        (f"blk.{i}.attn_qkv.weight", [4, 256], 12, q4),
        (f"blk.{i}.ffn_down.weight", [4, 256], 14, q6),
    ]


def word(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def pickled(key: str, elements: int, shape: tuple[int, ...]) -> bytes:
    """The opcodes that rebuild a tensor of float32 from a storage."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    storage = b"(" + word("storage") + b"ctorch\nFloatStorage\n" + word(key) + word("cpu")
    storage += b"J" + struct.pack("<i", elements) + b"tQ"
    sizes, steps = (b"(" + b"".join(b"K" + bytes([n]) for n in v) + b"t" for v in (shape, strides))
    call = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + sizes + steps
    return call + b"\x89ccollections\nOrderedDict\n)RtR"


def checkpoint(path: str, data: bytes, sizes: list[int]) -> None:
    with zipfile.ZipFile(HERE / path, "w") as file:
        for name, content in [("data.pkl", data), *((f"data/{i}", bytes(n)) for i, n in enumerate(sizes))]:
            file.writestr(zipfile.ZipInfo(f"net/{name}"), content)


def checkpoints() -> None:
    weight, bias = pickled("0", 12, (3, 4)), pickled("1", 3, (3,))
    names = word("fc.weight") + weight + word("fc.bias") + bias + word("tied.weight") + weight
    checkpoint("state.pt", b"\x80\x02}(" + word("model") + b"}(" + names + b"uu.", [48, 12])
    held = word("_parameters") + b"}(" + word("weight") + weight + b"u" + word("_modules") + b"}"
    attack = b"cposix\nsystem\n" + word("true") + b"\x85R0"
    checkpoint("model.pt", b"\x80\x02" + attack + b"cnet\nOwn\n)\x81}(" + held + b"ub.", [48])


def row(i: int, tuned: float = 0) -> list[float]:
    """32 values of a weight, and how much they were tuned."""
    return [((7 * i + 5 * k) % 17 - 8) / 9 + tuned * (k % 3 - 1) for k in range(32)]


def q8(values: list[float]) -> bytes:
    """A block of q8_0, whose numbers are 64ths."""
    return struct.pack("<e32b", 1 / 64, *(round(64 * v) for v in values))


def tuned() -> None:
    """A model, what a training made of it, and the model in few bits."""
    up = [(f"model.layers.{i}.mlp.up_proj.weight", "F16", [4, 32]) for i in range(2)]
    ends = [("model.embed_tokens.weight", "F32", [2, 32]), ("model.norm.weight", "F32", [32])]
    rows = [row(i) for i in range(8)]
    embed = struct.pack("<64f", *row(20), *row(21))
    norm = struct.pack("<32f", *[1.0] * 32)
    ups = [b"".join(struct.pack("<32e", *row(i, tuned / 64)) for i in range(8)) for tuned in (0, 1)]
    half = len(ups[0]) // 2
    safetensors("base.safetensors", [ends[0], *up, ends[1]], embed + ups[0] + norm)
    bad = norm[:-4] + struct.pack("<f", math.nan)
    head = ("score.weight", "F32", [1, 32])
    data = embed + ups[0][:half] + ups[1][half:] + bad + bytes(128)
    safetensors("tuned.safetensors", [ends[0], *up, ends[1], head], data)
    small = [(f"blk.{i}.ffn_up.weight", [4, 32], 8, 136) for i in range(2)]
    packed = [b"".join(q8(values) for values in rows[k : k + 4]) for k in (0, 4)]
    gguf(
        "small.gguf",
        {"general.architecture": "llama"},
        [("token_embd.weight", [2, 32], 0, 256), *small, ("output_norm.weight", [32], 0, 128)],
        embed + b"".join(p + bytes(-len(p) % 32) for p in packed) + norm,
    )


# -- ONNX: messages of protocol buffers, as pairs of a field and its content


def varint(n: int) -> bytes:
    n, out = n % 2**64, b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(content)) + content
    return out


FLOAT, INT8, INT64, BOOL = 1, 3, 7, 9


def tensor(name: str, kind: int, shape: list[int], *data: tuple[int, int | float | str | bytes]) -> bytes:
    """Of zeros, unless `data` has the fields of its elements."""
    zeros = (9, bytes(math.prod(shape) * {FLOAT: 4, INT8: 1, INT64: 8, BOOL: 1}[kind]))
    return message(*((1, n) for n in shape), (2, kind), (8, name), *(data or [zeros]))


def stated(name: str, kind: int, shape: list[int | str]) -> bytes:
    axes = [(1, message((1, n) if isinstance(n, int) else (2, n))) for n in shape]
    return message((1, name), (2, message((1, message((1, kind), (2, message(*axes)))))))


def attribute(name: str, value: int | float | str | list[int] | tuple[int, bytes]) -> bytes:
    """A tuple: a tensor or a graph, by its field and its bytes."""
    if isinstance(value, list):
        return message((1, name), *((8, n) for n in value), (20, 7))
    if isinstance(value, tuple):
        return message((1, name), value, (20, value[0] - 1))
    field = {int: 3, float: 2, str: 4}[type(value)]
    return message((1, name), (field, value), (20, {3: 2, 2: 1, 4: 3}[field]))


def node(op: str, name: str, inputs: str, outputs: str, *attributes: bytes, domain: str = "") -> bytes:
    """Names of inputs and outputs are separated by spaces; "-": left out."""
    ins = [(1, "" if word == "-" else word) for word in inputs.split()]
    outs = [(2, word) for word in outputs.split()]
    return message(*ins, *outs, (3, name), (4, op), *((5, a) for a in attributes), (7, domain))


def graph(nodes: list[bytes], inputs: list[bytes], outputs: list[bytes], *more: tuple[int, bytes]) -> bytes:
    """`more`: initialisers (5), stated values (13), sparse initialisers (15)."""
    ends = [(11, x) for x in inputs] + [(12, x) for x in outputs]
    return message(*((1, n) for n in nodes), (2, "main"), *more, *ends)


def onnx(path: str, main: bytes, *more: tuple[int, bytes]) -> None:
    opsets = [(8, message((1, domain), (2, version))) for domain, version in (("", 20), ("own", 1))]
    (HERE / path).write_bytes(message((1, 9), (2, "pytorch"), (3, "2.13.0"), (7, main), *opsets, *more))


def image_net() -> None:
    """As torch's exporter names it: modules are in the names of nodes and of initialisers."""
    window = [attribute("kernel_shape", [2, 2]), attribute("strides", [2, 2])]
    nodes = [
        node(
            "Conv",
            "/stem/conv/Conv",
            "image stem.conv.weight stem.conv.bias",
            "c",
            attribute("pads", [1] * 4),
        ),
        node("Relu", "/stem/relu/Relu", "c", "r"),
        node("MaxPool", "/pool/MaxPool", "r", "p", *window),
        node("Flatten", "/Flatten", "p", "f"),
        node("Gemm", "/head/Gemm", "f head.weight head.bias", "label", attribute("transB", 1)),
    ]
    weights = [
        ("stem.conv.weight", [8, 3, 3, 3]),
        ("stem.conv.bias", [8]),
        ("head.weight", [10, 128]),
        ("head.bias", [10]),
    ]
    main = graph(
        nodes,
        [stated("image", FLOAT, [1, 3, 8, 8])],
        [stated("label", FLOAT, [1, 10])],
        *((5, tensor(name, FLOAT, shape)) for name, shape in weights),
    )
    onnx("image.onnx", main)


def odd_net() -> None:
    """All that a file may have beside: a function, branches, a loop, constants and elements in every form."""
    branch = [
        graph([node("Neg" if i else "Abs", "", "s", f"b{i}")], [], [stated(f"b{i}", FLOAT, [2, 4])])
        for i in range(2)
    ]
    body = graph(
        [node("Identity", "", "go", "on"), node("Add", "", "had step", "has")],
        [stated("i", INT64, []), stated("go", BOOL, []), stated("had", FLOAT, [2, 4])],
        [stated("on", BOOL, []), stated("has", FLOAT, [2, 4])],
    )
    nodes = [
        node("Constant", "", "", "w", attribute("value", (5, tensor("", FLOAT, [4, 4])))),
        node("Constant", "", "", "times", attribute("value_int", 3)),
        node("MatMul", "mix", "x w", "m"),
        node("Scale", "scale", "m", "s", attribute("by", 2.0), domain="own"),
        node(
            "If",
            "which",
            "flag",
            "b",
            attribute("then_branch", (6, branch[0])),
            attribute("else_branch", (6, branch[1])),
        ),
        node("Loop", "again", "times - b", "l", attribute("body", (6, body))),
        node("MatMulInteger", "whole", "q v", "n"),
        node("Gather", "rows", "far ids", "g"),
        node("Add", "sum", "l packed", "y"),
    ]
    sparse = message((1, tensor("thin", FLOAT, [1])), (2, tensor("", INT64, [1])), (3, 2), (3, 4))
    outside = message(
        (1, 5), (1, 4), (2, FLOAT), (8, "far"), (13, message((1, "location"), (2, "far.bin"))), (14, 1)
    )
    main = graph(
        nodes,
        [
            stated("x", FLOAT, ["n", 4]),
            stated("q", INT8, ["n", 4]),
            stated("ids", INT64, [3]),
            stated("flag", BOOL, []),
        ],
        [stated(name, FLOAT, []) for name in "yng"],
        (5, tensor("packed", FLOAT, [4], (4, struct.pack("<4f", 1, 2, 3, 4)))),
        (5, tensor("step", FLOAT, [1], (4, 0.5))),
        (5, tensor("v", INT8, [4, 4], (5, b"".join(varint(n) for n in range(-8, 8))))),
        (5, outside),
        (15, sparse),
        (13, stated("m", FLOAT, ["n", 4])),
    )
    scale = message(
        (1, "Scale"),
        (4, "a"),
        (5, "z"),
        (6, "by"),
        (7, node("Constant", "", "", "k", message((1, "value_float"), (20, 1), (21, "by")))),
        (7, node("Mul", "times", "a k", "z")),
        (9, message((1, ""), (2, 20))),
        (10, "own"),
    )
    onnx("odd.onnx", main, (25, scale))


def main() -> None:
    image_net()
    odd_net()
    checkpoints()
    tuned()
    norm = [(f"bn.{name}", "F32", [8]) for name in ("weight", "bias", "running_mean", "running_var")]
    stem = [("conv.weight", "F32", [8, 3, 3, 3]), ("conv.bias", "F32", [8])]
    head = [("head.weight", "F16", [10, 8]), ("head.bias", "F16", [10])]
    safetensors("net.safetensors", [*stem, *norm, ("bn.num_batches_tracked", "I64", []), *head])
    keys = {"general.architecture": "llama", "general.name": "Tiny", "llama.block_count": 2}
    ends = ("token_embd.weight", [4, 256], 14, 4 * 210), ("output_norm.weight", [32], 0, 128)
    gguf("tiny.gguf", keys, [ends[0], *block(0), *block(1), ends[1]])
    (HERE / "shards").mkdir(exist_ok=True)
    names = {}
    for i in range(2):
        shard = f"model-0000{i + 1}-of-00002.safetensors"
        layer = f"model.layers.{i}.up_proj"
        safetensors(
            f"shards/{shard}",
            [
                (f"{layer}.qweight", "I32", [8, 32]),
                (f"{layer}.qzeros", "I32", [1, 4]),
                (f"{layer}.scales", "F16", [1, 32]),
                (f"model.layers.{i}.norm.weight", "F16", [64]),
            ],
        )
        for end in ("up_proj.qweight", "up_proj.qzeros", "up_proj.scales", "norm.weight"):
            names[f"model.layers.{i}.{end}"] = shard
    index = {"metadata": {"total_size": 2464}, "weight_map": names}
    (HERE / "shards/model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "float16",
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64},
    }
    (HERE / "shards/config.json").write_text(json.dumps(config, indent=1))
    header = struct.pack("<I", 48) + b"ET12eh00" + struct.pack("<IQQQ", 32, 96, 128, 64)
    (HERE / "tiny.pte").write_bytes(header + bytes(192 - len(header)))
    whole = (HERE / "net.safetensors").read_bytes()
    (HERE / "cut.safetensors").write_bytes(whole[:-20])


if __name__ == "__main__":
    main()
