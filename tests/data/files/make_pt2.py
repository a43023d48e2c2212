# SPDX-License-Identifier: Apache-2.0
"""Writes the archives of torch.export beside it: `python3 make_pt2.py`. They have what torch writes, without
traces of stacks: `net.pt2` as PyTorch 2.9 and later, `old.pt2` as 2.5,
`branch.pt2` with graphs in a graph."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from make import pickled, word

HERE = Path(__file__).parent
Size = int | str
Shape = list[Size]


def size(n: Size) -> dict[str, Any]:
    """A number, or "EXPRESSION=HINT"."""
    if isinstance(n, int):
        return {"as_int": n}
    expression, _, hint = n.rpartition("=")
    return {"as_expr": {"expr_str": expression, "hint": {"as_int": int(hint)} if hint else None}}


def tensor(shape: Shape, grad: bool = False, dtype: int = 7) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "sizes": [size(n) for n in shape],
        "requires_grad": grad,
        "device": {"type": "cpu"},
        "layout": 7,
    }


def argument(value: Any) -> dict[str, Any]:
    if value is None:
        return {"as_none": True}
    if isinstance(value, dict):
        return {"as_graph": value}
    if isinstance(value, str):
        return {"as_tensor": {"name": value}}
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, float):
        return {"as_float": value}
    if isinstance(value, int):
        return {"as_int": value}
    if value and isinstance(value[0], str):
        return {"as_tensors": [{"name": name} for name in value]}
    return {"as_ints": value}


def node(target: str, stack: str, out: list[str], **inputs: Any) -> dict[str, Any]:
    args = [{"name": name.strip("_"), "arg": argument(value), "kind": 1} for name, value in inputs.items()]
    outputs = [{"as_tensor": {"name": name}} for name in out]
    metadata = {"nn_module_stack": stack} if stack else {}
    return {"target": f"torch.ops.{target}", "inputs": args, "outputs": outputs, "metadata": metadata}


def graph(inputs: list[str], outputs: list[str], nodes: list[Any], values: dict[str, Any]) -> dict[str, Any]:
    names = ([{"as_tensor": {"name": name}} for name in side] for side in (inputs, outputs))
    ins, outs = names
    return {"inputs": ins, "outputs": outs, "nodes": nodes, "tensor_values": values, "sym_int_values": {}}


def program(
    inner: dict[str, Any], weights: dict[str, tuple[str, bool]], modules: list[str], version: tuple[int, int]
) -> bytes:
    """`weights` are (name in the model, is a buffer) by the name in the graph."""
    specs: list[Any] = []
    for arg, (name, buffer) in weights.items():
        kind = "buffer" if buffer else "parameter"
        specs.append({kind: {"arg": {"name": arg}, f"{kind}_name": name}})
    given = [each["as_tensor"]["name"] for each in inner["inputs"]]
    specs += [{"user_input": {"arg": argument(name)}} for name in given if name not in weights]
    results = [{"user_output": {"arg": each}} for each in inner["outputs"]]
    module = {
        "graph": inner,
        "signature": {"input_specs": specs, "output_specs": results},
        "module_call_graph": [{"fqn": name} for name in ["", *modules]],
    }
    whole = {"graph_module": module, "schema_version": {"major": version[0], "minor": version[1]}}
    return json.dumps({**whole, "torch_version": "2.13.0"}, separators=(",", ":")).encode()


def archive(path: str, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(HERE / path, "w") as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name), content)


def config(weights: dict[str, tuple[str, bool, Shape]]) -> bytes:
    """(file, is a parameter, shape) by the name in the model."""
    of = {
        name: {"path_name": file, "is_param": param, "use_pickle": False, "tensor_meta": tensor(shape, param)}
        for name, (file, param, shape) in weights.items()
    }
    return json.dumps({"config": of}, separators=(",", ":")).encode()


CONV, NORM = "torch.nn.modules.conv.Conv2d", "torch.nn.modules.batchnorm.BatchNorm2d"


def net() -> None:
    """Two calls of one convolution, a batch of any size, an unused layer, and a name tied to another."""
    batch, root = "Symbol('s77', positive=True, integer=True)=2", "L__self__,,net.Net"
    shape: Shape = [batch, 4, 8, 8]
    flat: Shape = [batch, 256]
    stat = [4]
    weights = {
        "p_conv_weight": ("conv.weight", False),
        "p_conv_bias": ("conv.bias", False),
        "p_bn_weight": ("bn.weight", False),
        "p_bn_bias": ("bn.bias", False),
        "p_head_weight": ("head.weight", False),
        "b_bn_running_mean": ("bn.running_mean", True),
        "b_bn_running_var": ("bn.running_var", True),
    }
    values = {
        "p_conv_weight": tensor([4, 4, 3, 3], True),
        "p_conv_bias": tensor(stat, True),
        "p_bn_weight": tensor(stat, True),
        "p_bn_bias": tensor(stat, True),
        "p_head_weight": tensor([10, 256], True),
        "b_bn_running_mean": tensor(stat),
        "b_bn_running_var": tensor(stat),
        **{name: tensor(shape) for name in ("x", "conv2d", "batch_norm", "relu", "conv2d_1")},
        "flatten": tensor(flat),
        "linear": tensor([batch, 10]),
    }
    conv = {"weight": "p_conv_weight", "bias": "p_conv_bias", "stride": [1, 1], "padding": [1, 1]}
    bn = {"weight": "p_bn_weight", "bias": "p_bn_bias", "running_mean": "b_bn_running_mean"}
    rest = {
        "running_var": "b_bn_running_var",
        "training": False,
        "momentum": 0.1,
        "eps": 1e-05,
        "cudnn_enabled": True,
    }
    nodes = [
        node("aten.conv2d.default", f"{root};L__self__conv,conv,{CONV}", ["conv2d"], input="x", **conv),
        node(
            "aten.batch_norm.default",
            f"{root};L__self__bn,bn,{NORM}",
            ["batch_norm"],
            input="conv2d",
            **bn,
            **rest,
        ),
        node("aten.relu.default", root, ["relu"], self_="batch_norm"),
        node(
            "aten.conv2d.default", f"{root};L__self__conv@1,conv,{CONV}", ["conv2d_1"], input="relu", **conv
        ),
        node("aten.flatten.using_ints", root, ["flatten"], self_="conv2d_1", start_dim=1),
        node(
            "aten.linear.default",
            f"{root};L__self__head,head,torch.nn.modules.linear.Linear",
            ["linear"],
            input="flatten",
            weight="p_head_weight",
        ),
    ]
    inner = graph([*weights, "x"], ["linear"], nodes, values)
    save_net(program(inner, weights, ["conv", "bn", "act", "head", "tied", "spare"], (8, 20)))


def save_net(text: bytes) -> None:
    stored: dict[str, tuple[str, bool, Shape]] = {
        "conv.weight": ("weight_0", True, [4, 4, 3, 3]),
        "conv.bias": ("weight_1", True, [4]),
        "bn.weight": ("weight_2", True, [4]),
        "bn.bias": ("weight_3", True, [4]),
        "bn.running_mean": ("weight_4", False, [4]),
        "bn.running_var": ("weight_5", False, [4]),
        "head.weight": ("weight_6", True, [10, 256]),
        "tied.weight": ("weight_6", True, [10, 256]),
        "spare.weight": ("weight_7", True, [3, 5]),
    }
    archive(
        "net.pt2",
        {
            "net/archive_format": b"pt2",
            "net/models/model.json": text,
            "net/data/weights/model_weights_config.json": config(stored),
            "net/data/constants/model_constants_config.json": b'{"config":{}}',
            "net/.data/version": b"3\n",
        },
    )


def old() -> None:
    """Paths are expressions, keys are not of one call each, and a checkpoint tells which weights are tied."""
    root, emb = "L__self__,,net.Old", "torch.nn.modules.sparse.Embedding"
    weights = {
        "p_emb": ("head.weight", False),
        "p_head": ("head.weight", False),
        "p_fc": ("blocks.0.fc.weight", False),
    }
    values = {
        "p_emb": tensor([5, 4], True),
        "p_head": tensor([5, 4], True),
        "p_fc": tensor([4, 4], True),
        "x": tensor(["s0=3"], dtype=5),
        "embedding": tensor(["s0=3", 4]),
        "linear": tensor(["s0=3", 4]),
        "linear_1": tensor(["s0=3", 4]),
        "linear_2": tensor(["s0=3", 5]),
    }
    linear = "torch.nn.modules.linear.Linear"
    blocks = "getattr(L['self'].blocks, '0')"
    block = f"{root};L__self___blocks_0,{blocks},net.Block;L__self___blocks_0_fc,{blocks}.fc,{linear}"
    nodes = [
        node(
            "aten.embedding.default",
            f"{root};L__self___emb,L['self'].emb,{emb}",
            ["embedding"],
            weight="p_emb",
            indices="x",
        ),
        node("aten.linear.default", block, ["linear"], input="embedding", weight="p_fc"),
        node("aten.linear.default", block, ["linear_1"], input="linear", weight="p_fc"),
        node(
            "aten.linear.default",
            f"{root};L__self___head,L['self']._modules['head'],{linear}",
            ["linear_2"],
            input="linear_1",
            weight="p_head",
        ),
    ]
    inner = graph([*values][:4], ["linear_2"], nodes, values)
    for each in nodes:
        for item in each["inputs"]:
            del item["kind"]
    saved = io.BytesIO()
    tied = pickled("0", 20, (5, 4))
    names = (
        word("emb.weight")
        + tied
        + word("blocks.0.fc.weight")
        + pickled("1", 16, (4, 4))
        + word("head.weight")
        + tied
    )
    data = b"\x80\x02ccollections\nOrderedDict\n)R(" + names + b"u."
    with zipfile.ZipFile(saved, "w") as file:
        for name, content in (
            ("data.pkl", data),
            ("data/0", bytes(80)),
            ("data/1", bytes(64)),
            ("version", b"3\n"),
        ):
            file.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
    archive(
        "old.pt2",
        {
            "serialized_exported_program.json": program(inner, weights, [], (7, 3)),
            "serialized_state_dict.pt": saved.getvalue(),
            "version": b"1.1",
        },
    )


def branch() -> None:
    """A graph that runs once, one of two graphs by a value, and one that runs until a value says so."""
    root = "L__self__,,net.Branch"
    values = {name: tensor([2, 8]) for name in ("x", "once", "either")}
    weights = {"p_a": ("a.weight", False), "p_b": ("b.weight", False)}
    values |= {
        "p_a": tensor([8, 8], True),
        "p_b": tensor([8, 8], True),
        "flag": tensor([], dtype=12),
        "loop": tensor([2, 8]),
    }
    inside = {name: tensor([2, 8]) for name in ("y", "z")}

    def linear(weight: str) -> dict[str, Any]:
        of = {**inside, "w": tensor([8, 8])}
        nodes = [node("aten.linear.default", "", ["z"], input="y", weight="w")]
        return {"name": weight, "graph": graph(["y", "w"], ["z"], nodes, of)}

    ends = graph(
        ["y"],
        ["z"],
        [node("aten.any.default", "", ["z"], self_="y")],
        {"y": tensor([2, 8]), "z": tensor([], dtype=12)},
    )
    nodes = [
        node(
            "higher_order.wrap_with_set_grad_enabled",
            root,
            ["once"],
            a=False,
            b=linear("p_a"),
            c="x",
            d="p_a",
        ),
        node("aten.any.default", root, ["flag"], self_="once"),
        node(
            "higher_order.cond",
            root,
            ["either"],
            a="flag",
            b=linear("p_a"),
            c=linear("p_b"),
            d=["once", "p_b"],
        ),
        node(
            "higher_order.while_loop",
            root,
            ["loop"],
            a={"name": "ends", "graph": ends},
            b=linear("p_b"),
            c=["either"],
        ),
    ]
    inner = graph([*weights, "x"], ["loop"], nodes, values)
    stored: dict[str, tuple[str, bool, Shape]] = {
        "a.weight": ("weight_0", True, [8, 8]),
        "b.weight": ("weight_1", True, [8, 8]),
    }
    archive(
        "branch.pt2",
        {
            "branch/models/model.json": program(inner, weights, ["a", "b"], (8, 14)),
            "branch/data/weights/model_weights_config.json": config(stored),
        },
    )


if __name__ == "__main__":
    net()
    old()
    branch()
