# SPDX-License-Identifier: Apache-2.0
"""The graph of the data: who gave what to whom in real models, and its text."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import torch
from torch import nn

import lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Conv2d(4, 4, 3, padding=1)
        self.right = nn.Conv2d(4, 4, 1)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        both = torch.cat([self.left(x), self.right(x).relu()], dim=1)
        halves = both.chunk(2, dim=1)
        return self.fc((halves[0] + halves[1]).mean(dim=(2, 3)))


def graph(model=None, *args, **options):
    model = Block() if model is None else model
    return lamina.inspect(model, args or (torch.rand(2, 4, 8, 8),), ops=True, **options).graph()


def named_edges(g):
    names = {node["id"]: node["name"] for node in g.nodes}
    return [(names[edge["from"]], names[edge["to"]]) for edge in g.edges]


def test_branches_and_joins():
    edges = named_edges(graph())
    assert edges == [
        ("input", "aten::convolution"),
        ("left.weight", "aten::convolution"),
        ("left.bias", "aten::convolution"),
        ("input", "aten::convolution"),
        ("right.weight", "aten::convolution"),
        ("right.bias", "aten::convolution"),
        ("aten::convolution", "aten::relu"),
        ("aten::convolution", "aten::cat"),
        ("aten::relu", "aten::cat"),
        ("aten::cat", "aten::add"),
        ("aten::cat", "aten::add"),
        ("aten::add", "aten::mean"),
        ("fc.bias", "aten::addmm"),
        ("aten::mean", "aten::addmm"),
        ("fc.weight", "aten::addmm"),
        ("aten::addmm", "output"),
    ]


def test_nodes_are_data():
    nodes = graph().nodes
    left = next(node for node in nodes if node["path"] == "left")
    assert (left["type"], left["name"], left["kind"]) == ("operator", "aten::convolution", "conv_either")
    assert (left["phase"], left["shape"]) == ("forward", (2, 4, 8, 8))
    assert left["in_shapes"] == ((2, 4, 8, 8), (4, 4, 3, 3), (4,))
    weight = next(node for node in nodes if node["name"] == "left.weight")
    assert (weight["type"], weight["path"], weight["shape"]) == ("parameter", None, (4, 4, 3, 3))
    assert [node["type"] for node in nodes].count("input") == 1


def test_an_edge_tells_the_tensor_as_it_is_read():
    g = graph()
    names = {node["id"]: node["name"] for node in g.nodes}
    weight = next(edge for edge in g.edges if names[edge["from"]] == "fc.weight")
    assert (weight["shape"], weight["arg"]) == ((4, 2), 2)  # the transposed view that addmm takes


def test_a_backward_pass_is_part_of_it():
    phases = {node["phase"] for node in graph(backward=True).nodes}
    assert phases == {"forward", "backward"}
    assert "backward" not in graph(backward=True).dot()


def test_several_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, a, b=None):
            return {"sum": a + b, "a": a}

    g = lamina.inspect(Two(), (torch.rand(3),), {"b": torch.rand(3)}, ops=True).graph()
    ends = [(node["type"], node["name"]) for node in g.nodes if node["type"] != "operator"]
    assert ends[:2] == [("input", "input 0"), ("input", "b")]
    assert [kind for kind, _ in ends[2:]] == ["output", "output"]
    assert [edge[0] for edge in named_edges(g)] == ["input 0", "b", "aten::add", "input 0"]


def names_of(graph):
    return [(graph.nodes[e["from"]]["name"], graph.nodes[e["to"]]["name"]) for e in graph.edges]


class Parts(nn.Module):
    """Two views of one memory are written, and one of them or both are read."""

    def __init__(self, both):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.ReLU()
        self.both = both

    def forward(self, x):
        memory = x.new_empty(6, 4)
        u, v = memory[:3], memory[3:]
        u.copy_(self.a(x))
        v.copy_(self.b(x))
        return (memory if self.both else u).exp()


def test_each_that_wrote_a_part_of_what_is_read_has_an_edge():
    report = lamina.inspect(Parts(True), torch.rand(3, 4), ops=True)
    assert names_of(report.graph()).count(("aten::copy_", "aten::exp")) == 2
    assert report.unused == {}


def test_who_wrote_another_part_has_none():
    report = lamina.inspect(Parts(False), torch.rand(3, 4), ops=True)
    edges = names_of(report.graph())
    assert edges.count(("aten::copy_", "aten::exp")) == 1
    assert ("aten::addmm", "aten::copy_") in edges
    assert list(report.unused) == ["b"]


def test_what_was_there_before_a_part_was_written_is_read_too():
    class Moved(nn.Module):
        def forward(self, x):
            y = x + 0
            y[:, 1:] = x[:, :-1]
            return y.exp()

    edges = names_of(lamina.inspect(Moved(), torch.rand(3, 4), ops=True).graph())
    assert ("aten::copy_", "aten::exp") in edges
    assert ("aten::add", "aten::exp") in edges


def test_text():
    text = graph().dot()
    assert text.startswith('digraph "Block" {\n')
    assert '[label="Block\\nrelu, cat' in text
    assert graph().dot("op").count("aten::convolution") == 2


def test_every_line_is_valid_dot(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return x * 2

    Odd.__name__ = 'a "b"\\ <c> {d|e}\n\x1b[31m'
    text = "".join(graph(Odd()).dot(level) for level in ("module", "op"))
    assert "\x1b" not in text
    for line in text.splitlines():
        quotes = line.replace("\\\\", "").replace('\\"', "").count('"')
        assert quotes % 2 == 0, line
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text.encode(), check=True, capture_output=True)


def test_a_file_is_not_overwritten(tmp_path):
    g = graph()
    path = tmp_path / "graph.dot"
    assert g.to_dot(path) == path.read_text("utf-8") == g.dot()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        g.to_dot(path)
    g.to_dot(path, "op", overwrite=True)
    assert path.read_text("utf-8") == g.dot("op")


def test_what_can_not_be_drawn_is_told():
    with pytest.raises(ValueError, match="ops=True"):
        lamina.inspect(Block(), torch.rand(1, 4, 8, 8), ops=False).graph()
    with pytest.raises(ValueError, match="'module' or 'op'"):
        graph().dot("layer")


def test_every_operator_of_a_large_model_is_connected():
    torchvision = pytest.importorskip("torchvision")
    g = graph(torchvision.models.googlenet(weights=None, init_weights=False).eval(), torch.rand(1, 3, 64, 64))
    read = {edge["to"] for edge in g.edges}
    given = {edge["from"] for edge in g.edges}
    for node in g.nodes:
        assert node["type"] in ("input", "parameter", "buffer") or node["id"] in read, node
        assert node["type"] == "output" or node["id"] in given, node
