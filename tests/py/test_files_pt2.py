# SPDX-License-Identifier: Apache-2.0
"""Archives of torch.export: every row of a module that ran an operator is as in the live model."""

import io
import json
import warnings
import zipfile

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lamina
from lamina._command.cli import main

FIELDS = "macs", "flops", "effective_macs", "params", "buffers", "receptive_field"


class Does(nn.Module):
    """Runs a function of its modules."""

    def __init__(self, does, **modules):
        super().__init__()
        self.does = does
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.does(self, *inputs)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = (t.view(batch, steps, 2, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, steps, width))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(50, 16), nn.Linear(16, 50, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        return self.head(self.emb(x))


def a_chain(self, x):
    for each in self.each:
        x = each(x)
    return x


def attend_causally(x):
    x = x.mT.unflatten(-1, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(x, x, x, is_causal=True).transpose(1, 2).flatten(2).mT


def image(*shape):
    return torch.zeros(shape)


def tokens(*shape):
    return torch.zeros(shape, dtype=torch.long)


NETS = {
    "groups and dilation": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 8, 3, stride=2, dilation=2, groups=4),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 3),
        ),
        [image(2, 4, 32, 32)],
    ),
    "padding that is the same": lambda: (
        nn.Sequential(nn.Conv2d(4, 8, 4, padding="same"), nn.Conv2d(8, 8, 3, padding="same")),
        [image(1, 4, 16, 16)],
    ),
    "transposed": lambda: (
        nn.Sequential(
            nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1, output_padding=1), nn.ReLU(inplace=True)
        ),
        [image(1, 4, 8, 8)],
    ),
    "one and three axes": lambda: (
        Does(lambda self, x, y: (self.a(x), self.b(y)), a=nn.Conv1d(3, 4, 3), b=nn.Conv3d(1, 2, 3)),
        [image(1, 3, 10), image(1, 1, 5, 5, 5)],
    ),
    "attention": lambda: (
        nn.Sequential(
            Attention(), nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Dropout(), nn.Linear(64, 16)
        ),
        [image(2, 7, 16)],
    ),
    "multihead attention": lambda: (
        Does(lambda self, x: self.m(x, x, x)[0], m=nn.MultiheadAttention(16, 4, batch_first=True)),
        [image(2, 5, 16)],
    ),
    "an encoder": lambda: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
        ),
        [image(2, 7, 16)],
    ),
    "lstm": lambda: (
        Does(
            lambda self, x: self.fc(self.lstm(x)[0][:, -1]),
            lstm=nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True),
            fc=nn.Linear(32, 4),
        ),
        [image(2, 6, 8)],
    ),
    "lstm with a projection": lambda: (
        Does(lambda self, x: self.lstm(x)[0], lstm=nn.LSTM(8, 16, 2, proj_size=4)),
        [image(6, 2, 8)],
    ),
    "gru": lambda: (Does(lambda self, x: self.gru(x)[0], gru=nn.GRU(8, 16, 2)), [image(6, 2, 8)]),
    "rnn": lambda: (Does(lambda self, x: self.rnn(x)[0], rnn=nn.RNN(8, 16)), [image(6, 2, 8)]),
    "sequences first": lambda: (
        Does(
            lambda self, x: (self.lstm(x)[0], self.gru(x)[0], self.rnn(x)[0]),
            lstm=nn.LSTM(8, 16, 2, proj_size=4, batch_first=True),
            gru=nn.GRU(8, 16, 2, batch_first=True, bidirectional=True),
            rnn=nn.RNN(8, 16, batch_first=True, bias=False),
        ),
        [image(2, 6, 8)],
    ),
    "weights of a given norm": lambda: (
        nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3)),
            nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)),
        ),
        [image(2, 4, 7)],
    ),
    "parameters that no layer has": lambda: (
        Does(
            lambda self, x: F.linear(self.a(x), self.w[:4].t() * self.g) + F.linear(x, self.a.weight, self.b),
            a=nn.Linear(4, 4),
            w=nn.Parameter(torch.ones(6, 4)),
            g=nn.Parameter(torch.ones(1)),
            b=nn.Parameter(torch.ones(4)),
        ),
        [image(2, 4)],
    ),
    "tied weights": lambda: (Tied(), [tokens(2, 5)]),
    "called twice": lambda: (
        Does(lambda self, x: self.conv(torch.relu(self.conv(x))), conv=nn.Conv2d(4, 4, 3, padding=1)),
        [image(1, 4, 8, 8)],
    ),
    "called on its own result": lambda: (
        Does(lambda self, x: self.block(self.block(x)), block=nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU())),
        [image(1, 4, 16, 16)],
    ),
    "a list of modules": lambda: (
        Does(a_chain, each=nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 4)])),
        [image(2, 8)],
    ),
    "a layer that is not called": lambda: (
        Does(lambda self, x: self.a(x), a=nn.Linear(4, 4), b=nn.Linear(4, 4)),
        [image(2, 4)],
    ),
    "losses": lambda: (
        Does(lambda self, x, y: F.cross_entropy(self.a(x), y), a=nn.Linear(5, 5)),
        [image(4, 5), tokens(4)],
    ),
    "padding layers": lambda: (
        nn.Sequential(nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ZeroPad2d(2), nn.CircularPad2d(1)),
        [image(1, 2, 6, 6)],
    ),
    "normalisation": lambda: (
        nn.Sequential(
            nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.RMSNorm(6), nn.Softmax(-1), nn.LogSoftmax(-1)
        ),
        [image(2, 4, 6, 6)],
    ),
    "activations": lambda: (
        nn.Sequential(nn.ELU(), nn.SiLU(), nn.LeakyReLU(), nn.PReLU(), nn.ReLU6(), nn.GELU("tanh"), nn.GLU()),
        [image(2, 8)],
    ),
    "resizing": lambda: (
        nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2)
        ),
        [image(1, 4, 6, 6)],
    ),
    "products": lambda: (
        Does(lambda self, x, y: (x @ y, torch.bmm(x, y), torch.baddbmm(x @ y, x, y, alpha=2))),
        [image(2, 3, 4), image(2, 4, 5)],
    ),
    "attention in steps": lambda: (
        Does(
            lambda self, x, y, mask: (
                F.scaled_dot_product_attention(x, x, x),
                F.scaled_dot_product_attention(x, y, y, is_causal=True),
                F.scaled_dot_product_attention(x[0], x[0], x[0, :, :, :3]),
                F.scaled_dot_product_attention(x[0, 0], x[0, 0], x[0, 0]),
            )
        ),
        [image(2, 3, 4, 5, 8), image(2, 3, 1, 5, 8), image(5, 5)],
    ),
    "causal attention twice": lambda: (
        Does(lambda self, x: attend_causally(attend_causally(self.conv(x))), conv=nn.Conv1d(8, 8, 1)),
        [image(2, 8, 7)],
    ),
    "scores with a temperature": lambda: (
        Does(lambda self, x, heat: ((x @ x.mT) * heat).softmax(-1) @ x),
        [image(2, 3, 5, 8), image(3, 1, 1)],
    ),
    "bounds without an end": lambda: (
        Does(lambda self, x: (x.clamp(0, float("inf")), x.clamp(0, 1), x.masked_fill(x > 0, -float("inf")))),
        [image(2, 8)],
    ),
    "a place that a list tells": lambda: (
        Does(lambda self, x: self.conv(x)[:, [-1]].sin(), conv=nn.Conv1d(4, 4, 3)),
        [image(2, 4, 9)],
    ),
    "equations": lambda: (
        Does(
            lambda self, x, y: (
                torch.einsum("bhik, bhjk -> bhij", self.conv(x), y),
                torch.einsum("...ik,kj", x, y[0, 0].mT),
            ),
            conv=nn.Conv2d(3, 3, 1),
        ),
        [image(2, 3, 5, 4), image(2, 3, 6, 4)],
    ),
    "cells": lambda: (
        Does(
            lambda self, x: (self.a(x, self.a(x)), self.b(x, self.b(x)), self.c(x)),
            a=nn.LSTMCell(8, 16),
            b=nn.GRUCell(8, 16),
            c=nn.RNNCell(8, 16),
        ),
        [image(2, 8)],
    ),
    "train: normalisation and dropout": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3), nn.ReLU()),
        [image(2, 3, 8, 8)],
    ),
}


@pytest.fixture(autouse=True)
def plain_attention():
    """A run in eval mode has a kernel of its own for nn.MultiheadAttention, which an export has not."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(before)


def export(path, net, inputs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, tuple(inputs), **options)
        torch.export.save(program, path)
    return path


def rows_of(report):
    found = {}
    for row in report.rows:
        if row.type != "?":
            found.setdefault(row.path, []).append(row)
    return found


def told(row):
    return [row.out_shapes[:1], *(row.get(name) for name in FIELDS)]


@pytest.mark.parametrize("name", NETS)
def test_every_row_is_that_of_the_live_model(tmp_path, name):
    net, inputs = NETS[name]()
    net.train(name.startswith("train"))
    file = lamina.read(export(tmp_path / "net.pt2", net, inputs))
    live = lamina.inspect(net, tuple(inputs))
    assert (file.macs, file.flops, file.params) == (live.macs, live.flops, live.params)
    of = rows_of(file)
    for path, rows in rows_of(live).items():
        if path in of:
            assert [told(row) for row in of[path]] == [told(row) for row in rows], path
        else:
            assert all(row.get("status") == "never called" or not row.macs for row in rows), path
    assert set(of) <= set(rows_of(live))


def test_a_convention_that_counts_layers_counts_them_in_a_file(tmp_path, capsys):
    net, inputs = NETS["groups and dilation"]()
    path = export(tmp_path / "net.pt2", net.eval(), inputs)
    assert main(["show", str(path), "-c", "layers", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    live = json.loads(lamina.inspect(net, tuple(inputs), convention="layers").to_json())["totals"]
    assert {name: totals[name] for name in ("macs", "flops")} == {
        name: live[name] for name in ("macs", "flops")
    }


def test_a_program_that_was_decomposed_has_the_same_macs(tmp_path):
    net, inputs = NETS["groups and dilation"]()
    program = torch.export.export(net.eval(), tuple(inputs)).run_decompositions()
    torch.export.save(program, tmp_path / "net.pt2")
    assert lamina.read(tmp_path / "net.pt2").macs == lamina.inspect(net, tuple(inputs)).macs


def test_sizes_of_any_batch_are_those_of_the_example(tmp_path):
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    shapes = {"input": {0: torch.export.Dim("batch", min=1, max=64)}}
    file = lamina.read(export(tmp_path / "net.pt2", net, [image(5, 4)], dynamic_shapes=shapes))
    assert (file.macs, file.rows[0].out_shapes) == (60, ((5, 3),))


def test_sizes_that_are_open_can_be_given(tmp_path):
    net = nn.Sequential(nn.Conv1d(4, 6, 3, stride=2), nn.ReLU(), nn.Flatten(0, 1))
    free = {0: torch.export.Dim("batch", min=1, max=64), 2: torch.export.Dim("steps", min=5, max=1000)}
    path = export(tmp_path / "net.pt2", net, [image(3, 4, 20)], dynamic_shapes={"input": free})
    for sizes, shape in (
        ({"batch": 8}, (8, 20)),
        ({"input.2": 99}, (3, 99)),
        ({"batch": 2, "input.2": 7}, (2, 7)),
    ):
        live = lamina.inspect(net, image(shape[0], 4, shape[1]))
        assert [told(row) for row in lamina.read(path, sizes=sizes).rows] == [told(row) for row in live.rows]


def test_sizes_that_can_not_be_given_are_refused(tmp_path, capsys):
    net = nn.Sequential(nn.Linear(4, 3))
    free = {"input": {0: torch.export.Dim("batch", min=1, max=64)}}
    path = export(tmp_path / "net.pt2", net, [image(5, 4)], dynamic_shapes=free)
    with pytest.raises(lamina.LaminaError, match="it was exported for 1 to 64"):
        lamina.read(path, sizes={"batch": 65})
    with pytest.raises(lamina.LaminaError, match="no size 'depth' is open in it; these are: input"):
        lamina.read(path, sizes={"depth": 2})
    with pytest.raises(lamina.LaminaError, match="with all sizes fixed"):
        lamina.read(export(tmp_path / "fixed.pt2", net, [image(5, 4)]), sizes={"batch": 2})
    with pytest.raises(TypeError):
        lamina.read(path, sizes={"batch": "8"})
    assert main(["show", str(path), "--set", "batch=8", "--exact"]) == 0
    assert "96 MACs" in capsys.readouterr().out
    assert main(["show", str(path), "--set", "batch"]) == 2
    assert "as batch=8" in capsys.readouterr().err


def repacked(path, to, **changes):
    """The same program in the layout of PyTorch 2.5: flat, with a checkpoint of the weights."""
    with zipfile.ZipFile(path) as file:
        program = json.loads(file.read(next(n for n in file.namelist() if n.endswith("models/model.json"))))
    program |= {"schema_version": {"major": 7, "minor": 3}} | changes
    for node in program["graph_module"]["graph"]["nodes"]:
        for item in node["inputs"]:
            item.pop("kind", None)
    weights = io.BytesIO()
    torch.save(torch.export.load(path).state_dict, weights)
    with zipfile.ZipFile(to, "w") as file:
        file.writestr("serialized_exported_program.json", json.dumps(program))
        file.writestr("serialized_state_dict.pt", weights.getvalue())
        file.writestr("version", "1.1")
    return to


@pytest.mark.parametrize("name", ["tied weights", "groups and dilation", "lstm"])
def test_older_layouts_have_the_same_table(tmp_path, name):
    net, inputs = NETS[name]()
    path = export(tmp_path / "net.pt2", net.eval(), inputs)
    now, before = lamina.read(path), lamina.read(repacked(path, tmp_path / "old.pt2"))
    assert [told(row) for row in before.rows] == [told(row) for row in now.rows]
    assert before.params == now.params


@pytest.mark.parametrize(("version", "fused"), [("2.13.1", False), ("2.14.0+cu130", True), ("3.0", True)])
def test_attention_of_three_axes_has_a_kernel_from_torch_2_14_on(tmp_path, version, fused):
    path = export(
        tmp_path / "net.pt2",
        Does(lambda self, x: F.scaled_dot_product_attention(x, x, x)),
        [image(2, 7, 8)],
    )
    file = lamina.read(repacked(path, tmp_path / "of.pt2", torch_version=version))
    four = lamina.inspect(Does(lambda self, x: F.scaled_dot_product_attention(x, x, x)), image(2, 1, 7, 8))
    assert file.macs == four.macs
    assert (file.flops == four.flops) is fused


def test_what_a_mask_of_the_program_hides_is_not_known(tmp_path):
    def work(self, x):
        mask = torch.ones(len(x[0]), len(x[0]), dtype=torch.bool).tril()
        y = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return (y @ y.mT).masked_fill(~mask, float("-inf")).softmax(-1) @ y

    file = lamina.read(export(tmp_path / "net.pt2", Does(work), [image(2, 7, 8)]))
    live = lamina.inspect(Does(work), image(2, 7, 8))
    assert (file.macs, file.flops, file.effective_macs.state) == (live.macs, live.flops, "unknown")
    assert live.effective_macs.state == "exact"
    assert file.notes == [
        "1 attention has a mask that is computed in the program; a run may leave it out, and some FLOPs"
    ]


def test_products_of_groups_are_counted_to_the_last_row(tmp_path):
    pytest.importorskip("transformers.integrations.moe")
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        pytest.skip("this transformers has no operator for them")

    def work(self, x, scores):
        experts = scores.argmax(-1).float()
        ends = torch.histc(experts, bins=3, min=0, max=2).cumsum(0, dtype=torch.int32)
        return torch.ops.transformers.grouped_mm_fallback(x, self.w, ends)

    net = Does(work, w=nn.Parameter(torch.ones(3, 4, 5)))
    inputs = image(6, 4), torch.eye(6, 3)
    file = lamina.read(export(tmp_path / "net.pt2", net, inputs))
    live = lamina.inspect(net, inputs)
    assert (file.macs, file.macs.state) == (6 * 4 * 5, "exact") == (live.macs, live.macs.state)


def test_a_module_without_an_operator_has_a_row_of_unknown_type(tmp_path):
    net = nn.Sequential(nn.Linear(4, 4), nn.Identity())
    rows = lamina.read(export(tmp_path / "net.pt2", net, [image(1, 4)])).rows
    assert [(row.path, row.type) for row in rows] == [("", "Sequential"), ("0", "Linear"), ("1", "?")]


def test_branches_are_a_lower_bound_and_are_named(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y = self.a(x)
            return torch.cond(y.sum() > 0, lambda x: self.b(x), lambda x: x * 2, (y,))

    file = lamina.read(export(tmp_path / "net.pt2", Net(), [image(2, 8)]))
    assert (file.macs.state, int(file.macs)) == ("at least", 128)
    assert any("higher_order::cond runs one of its graphs" in note for note in file.notes)


@pytest.mark.parametrize(("batch", "macs"), [(None, 6 * 208), (5, 5 * 208), (4, 4 * 48), (2, 2 * 48)])
def test_sizes_decide_which_branch_is_counted(tmp_path, batch, macs):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 8))
            self.narrow, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            wide, narrow = lambda x: self.wide(x).relu(), lambda x: self.narrow(x) + 1
            return self.last(torch.cond(x.shape[0] > 4, wide, narrow, (x,)))

    free = ({0: torch.export.Dim.DYNAMIC},)
    path = export(tmp_path / "net.pt2", Net(), [image(6, 4)], dynamic_shapes=free)
    file = lamina.read(path, sizes={"batch": batch} if batch else None)
    assert (file.macs.state, int(file.macs)) == ("exact", macs)
    assert "of higher_order::cond the graphs are counted that run at these sizes" in file.notes
    assert file.per == {}, "at other sizes other work is done"


def test_a_file_reports_what_a_run_reports(tmp_path):
    net, inputs = NETS["groups and dilation"]()
    file = lamina.read(export(tmp_path / "net.pt2", net.eval(), inputs))
    assert "aten::convolution" in str(file.why("0"))
    assert "<html" in file.to_html()
    assert file.plot("icicle")
    assert "receptive_field" in file.to_csv()
    assert str(file.diff(lamina.inspect(net, tuple(inputs))))
    saved = tmp_path / "net.json"
    file.to_json(saved)
    assert lamina.read(saved).macs == file.macs


def test_a_live_model_is_compared_with_its_file(tmp_path, capsys):
    net = "from torch import nn\n\n\ndef net():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())\n"
    (tmp_path / "net.py").write_text(net)
    names: dict = {}
    exec(net, names)
    file = export(tmp_path / "net.pt2", names["net"]().eval(), [image(1, 3, 8, 8)])
    assert main(["diff", f"{tmp_path / 'net.py'}:net", str(file), "-i", "1x3x8x8", "--exit-code"]) == 0
    assert "3 modules are equal" in capsys.readouterr().out


def test_totals_by_an_open_size_are_those_of_the_live_model(tmp_path):
    net = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(2)).eval()
    free = {"input": {0: torch.export.Dim("batch"), 2: torch.export.Dim("high", min=4, max=99)}}
    path = export(tmp_path / "net.pt2", net, [image(3, 4, 20, 12)], dynamic_shapes=free)
    for sizes in ({}, {"batch": 5}, {"input.2": 9}):
        per = lamina.read(path, sizes=sizes).per
        assert [(name, growth.value) for name, growth in per.items()] == [
            ("batch", sizes.get("batch", 3)),
            ("input.2", sizes.get("input.2", 20)),
        ]
        for name, metric in ((name, metric) for name in per for metric in ("macs", "flops")):
            grows, each, fixed = per[name].numbers[metric]
            for value in (4, 7, 11):
                at = {"batch": 3, "input.2": 20, **sizes, name: value}
                live = lamina.inspect(net, image(at["batch"], 4, at["input.2"], 12))
                assert (grows, fixed + each * value) == ("linear", int(getattr(live, metric)))


@pytest.mark.parametrize(
    ("name", "net", "shape", "axis"),
    [
        ("a product of its own scores", Attention(), (2, 8, 16), 1),
        ("a stride", nn.Conv2d(3, 4, 3, stride=2), (2, 3, 16, 16), 2),
        ("patches", nn.Conv2d(3, 4, 4, stride=4), (2, 3, 16, 16), 3),
    ],
)
def test_a_total_that_is_no_line_is_not_told_as_one(name, net, shape, axis, tmp_path):
    free = {0: torch.export.Dim("batch"), axis: torch.export.Dim("long", min=8, max=99)}
    path = export(tmp_path / "net.pt2", net.eval(), [image(*shape)], dynamic_shapes=(free,))
    report = lamina.read(path)
    other = next(growth for size, growth in report.per.items() if size != "batch")
    assert other.value == shape[axis]
    assert other.numbers["macs"] == ("otherwise", None, None)
    assert report.per["batch"].numbers["macs"] == ("linear", int(report.macs) // 2, 0)
    assert f"not linear in {other.size}" in str(report)


def test_values_that_a_program_refuses_are_not_tried(tmp_path):
    for least, most, known in ((3, 5, True), (4, 100, True), (2, 5, True), (4, 5, False)):
        batch = torch.export.Dim("batch", min=least, max=most)
        path = export(tmp_path / "net.pt2", nn.Linear(4, 2), [image(5, 4)], dynamic_shapes=({0: batch},))
        per = lamina.read(path).per
        assert [growth.numbers["macs"] for growth in per.values()] == ([("linear", 8, 0)] if known else [])


def test_a_report_keeps_how_its_totals_grow(tmp_path, capsys):
    free = {"input": {0: torch.export.Dim("batch")}}
    path = export(tmp_path / "net.pt2", nn.Linear(4, 2), [image(5, 4)], dynamic_shapes=free)
    report = lamina.read(path)
    report.to_json(tmp_path / "net.json")
    assert lamina.read(tmp_path / "net.json").per == report.per
    assert "MACs 8 x batch" in str(lamina.read(tmp_path / "net.json"))
    assert "MACs 8 x batch, FLOPs 16 x batch" in report.to_html()
    assert main(["show", str(path), "--json"]) == 0
    per = json.loads(capsys.readouterr().out)["per"]
    assert per[0]["macs"] == {"grows": "linear", "each": 8, "fixed": 0}
    assert report.under("layers").per["batch"].numbers["macs"] == ("linear", 8, 0)
    assert lamina.inspect(nn.Linear(4, 2), image(5, 4)).per == {}


def test_a_lower_bound_has_no_growth(tmp_path):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.a(y), lambda y: self.b(y), (self.a(x),))

    net = Does(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    free = {"inputs": ({0: torch.export.Dim("batch")},)}
    report = lamina.read(export(tmp_path / "net.pt2", net, [image(5, 4)], dynamic_shapes=free))
    assert report.macs.state == "at least"
    assert report.per["batch"].numbers["macs"] == ("unknown", None, None)
    assert "grows" not in str(report)
