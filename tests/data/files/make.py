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


def main() -> None:
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
    whole = (HERE / "net.safetensors").read_bytes()
    (HERE / "cut.safetensors").write_bytes(whole[:-20])


if __name__ == "__main__":
    main()
