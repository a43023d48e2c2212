# SPDX-License-Identifier: Apache-2.0
"""What thoplw 2024.1.25 got wrong or left behind, one test each."""

from __future__ import annotations

import csv
import io
from contextlib import suppress

import nets
import pytest
import torch
from torch import nn

import lamina


def profile(net, *inputs, **options):
    given = inputs[0] if len(inputs) == 1 else inputs
    return lamina.profile(net, given, verbose=False, **options)


def counted(net, *args, kwargs=None):
    return lamina.inspect(net, args, kwargs, convention="thoplw")


def x(*shape):
    return torch.rand(*(shape or (1, 4)))


def test_nothing_stays_on_the_model():
    net = nets.block().train()
    before = [dict(vars(module)) for module in net.modules()]
    profile(net, x(1, 3, 8, 8))
    assert all(module.training for module in net.modules())
    assert all(not hasattr(module, "thoplw_log") and not module._forward_hooks for module in net.modules())
    assert [vars(module).keys() for module in net.modules()] == [old.keys() for old in before]


def test_a_second_profile_starts_anew():
    net = nets.Branches()
    assert profile(net, x())[0] == 16
    net.which = "b"
    assert profile(net, x())[0] == 16


def test_every_call_is_counted_by_inspect():
    assert profile(nets.Repeats(), x())[0] == 20
    assert counted(nets.Repeats(), x()).macs == 60


def test_one_module_in_two_places():
    layer = nn.Linear(4, 4)
    assert counted(nn.Sequential(nn.Sequential(layer), nn.Sequential(layer)), x()).macs == 40


def test_tied_parameters_are_counted_once_by_inspect():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    assert counted(net, x()).params == 24


@pytest.mark.parametrize("kind", ["text", "csv", "md"])
@pytest.mark.parametrize("fmt", ["raw", "clever", "ratio"])
def test_no_counted_layer(kind, fmt):
    macs, params, info = profile(nn.Sequential(nn.GELU()), x())
    assert (macs, params) == (0, 0)
    assert "Total" in info.summary(kind, fmt)


def test_ratio_of_nothing():
    _, _, info = profile(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), x(1, 3, 8, 8))
    assert "Total" in info.summary(fmt="ratio")


def test_several_inputs():
    macs, params, info = profile(nets.TwoInputs(), x(), x())
    assert (macs, params) == (10, 10)
    assert info.shape == (1, 4)


def test_keywords_are_seen():
    report = counted(nets.Keywords(), kwargs={"x": x()})
    assert report.macs == 15
    assert next(row for row in report.rows if row.path == "fc").in_shapes == ((1, 4),)


def test_scripted_child_is_named_unknown(capsys):
    net = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 4))
    macs, _, _ = lamina.profile(net, x())
    assert macs == 20
    assert "ignored" in capsys.readouterr().out
    assert lamina.inspect(net, (x(),), convention="thoplw").macs.state != "exact"


@pytest.mark.parametrize(
    "layer", [nn.LSTM(4, 4), nn.TransformerEncoderLayer(4, 2, 8)], ids=lambda v: type(v).__name__
)
def test_what_was_silently_0_is_named(layer, capsys):
    lamina.profile(nn.Sequential(layer), x(3, 2, 4))
    assert type(layer).__name__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("root", "named"),
    [(nn.LSTM(4, 4), True), (nn.GELU(), True), (nets.Owner(), True), (nets.TwoInputs(), False)],
    ids=lambda v: type(v).__name__,
)
def test_a_root_that_does_work_itself_is_named(root, named, capsys):
    lamina.profile(root, (x(2, 4),) * (2 - named))
    assert (type(root).__name__ in capsys.readouterr().out) == named


def test_an_exception_leaves_nothing():
    net = nets.Fails().train()
    with pytest.raises(ValueError, match="no good") as caught:
        profile(net, x())
    assert caught.value is net.breaks.error
    assert all(module.training and not module._forward_hooks for module in net.modules())


def test_lazy_layers_count_the_first_time():
    macs, params, _ = profile(nn.Sequential(nn.LazyLinear(3)), x())
    assert (macs, params) == (15, 15)


def test_linear_counts_rows_and_batch():
    assert counted(nn.Linear(768, 3072), x(1, 197, 768)).macs == 197 * 768 * 3072 + 3072
    assert counted(nn.Linear(8, 4), x(5, 8)).macs == 5 * 32 + 4


def test_batch_of_a_convolution():
    assert counted(nn.Conv2d(3, 8, 3, bias=False), x(2, 3, 8, 8)).macs == 2 * 8 * 27 * 36


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_other_ranks(n, kind, bias):
    layer = getattr(nn, f"{kind}{n}d")(2, 3, 3, bias=bias)
    out = 6**n if kind == "Conv" else 10**n
    assert profile(nn.Sequential(layer), x(1, 2, *[8] * n))[0] == 6 * 3**n * out + 3 * bias


def test_leaky_relu_is_0_like_the_other_rectifiers():
    macs, _, info = profile(nn.Sequential(nn.LeakyReLU()), x())
    assert (macs, macs.state) == (0, "exact")
    assert dict(info.info)["0"]["macs"] == 0


@pytest.mark.parametrize(("affine", "each"), [(True, 4), (False, 2)])
def test_layer_norm_scale_and_shift(affine, each):
    assert counted(nn.LayerNorm(4, elementwise_affine=affine), x(3, 4)).macs == 12 * each
    assert profile(nn.Sequential(nn.LayerNorm(4, elementwise_affine=affine)), x(3, 4))[0] == 24  # as released


def test_linear_without_batch_axis():
    macs, _, _ = profile(nn.Sequential(nn.Linear(6, 2)), x(6))
    assert macs == 14


def test_csv_is_quoted():
    _, _, info = profile(nn.Sequential(nn.Conv2d(1, 1, (3, 1))), x(1, 1, 8, 8))
    lines = list(csv.reader(io.StringIO(info.summary(kind="csv"))))
    assert [len(line) for line in lines] == [6, 6, 6]
    assert lines[1][-1] == "Conv2d k=(3, 1) p=0 s=1"


def test_clever_format_is_exported_and_keeps_its_format_in_lists():
    assert lamina.clever_format([1824010216, 11689512], "%.3f") == ["1.824 G", "11.690 M"]
    assert lamina.thoplw.clever_format is lamina.clever_format


# -- custom_ops ----------------------------------------------------------------------------------------------


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Derived(Mine):
    pass


@pytest.mark.parametrize("wrong", [{nn.Linear: 3}, {"Linear": print}])
def test_custom_ops_are_classes_and_functions(wrong):
    with pytest.raises(TypeError, match="it is a dict, "):
        profile(nn.Sequential(nn.Linear(4, 4)), x(), custom_ops=wrong)


def test_custom_ops_get_live_tensors_and_override():
    seen = []

    def count(layer, inputs, output):
        seen.append((type(layer), inputs[0].shape, float(output.sum())))
        return 1000

    macs, params, info = profile(nn.Sequential(Mine(), nn.ReLU()), x(), custom_ops={Mine: count})
    assert [entry[:2] for entry in seen] == [(Mine, (1, 4))]
    assert dict(info.info)["0"]["macs"] == 1000
    assert macs == 1000 + 20  # the layer's own child is counted by its rule too
    assert params == 20 + 20
    assert profile(nn.Sequential(nn.Linear(4, 4)), x(), custom_ops={nn.Linear: count})[0] == 1000


def test_custom_op_of_a_layer_whose_first_call_raised():
    class Tried(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            with suppress(RuntimeError):
                self.fc(x[:, 1:])
            return self.fc(x)

    macs, params, _ = profile(Tried(), x(), custom_ops={nn.Linear: lambda *_: 8})
    assert (macs, macs.state, params) == (8, "exact", 20)


def test_custom_op_that_returns_none_leaves_the_layer_out():
    macs, params, info = profile(
        nn.Sequential(nn.Linear(4, 4), nn.ReLU()), x(), custom_ops={nn.Linear: lambda *_: None}
    )
    assert (macs, params) == (0, 0)
    assert dict(info.info)["0"]["macs"] is None


def test_a_custom_op_may_count_nothing_and_only_whole_numbers():
    macs, params, info = profile(nn.Sequential(nn.Linear(4, 4)), x(), custom_ops={nn.Linear: lambda *_: 0})
    assert (macs, params, dict(info.info)["0"]["macs"]) == (0, 20, 0)
    for wrong in (-1, 0.5, "4"):
        with pytest.raises(ValueError, match=r"Linear returned .*; it returns a whole number of "):
            profile(nn.Linear(4, 4), x(), custom_ops={nn.Linear: lambda *_, wrong=wrong: wrong})


def test_custom_op_serves_its_class_only_and_silences_the_message(capsys):
    net = nn.Sequential(Mine(), Derived())
    macs, _, _ = lamina.profile(net, x(), custom_ops={Mine: lambda *_: 7})
    assert macs == 7 + 20 + 20
    out = capsys.readouterr().out
    assert "Derived" in out
    assert ".Mine" not in out


def test_an_exception_in_a_custom_op_comes_through():
    def count(*_):
        raise ZeroDivisionError("mine")

    net = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(ZeroDivisionError, match="mine"):
        profile(net, x(), custom_ops={nn.Linear: count})
    assert not net[0]._forward_hooks


# -- LayersInfo ----------------------------------------------------------------------------------------------


def test_layers_info():
    net = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.ReLU())
    macs, params, info = profile(net, x())
    assert isinstance(info, lamina.LayersInfo)
    assert (info.name, info.shape, info.total()) == ("Sequential", (1, 4), (macs, params))
    assert [name for name, _ in info.info] == ["", "0", "1", "2"]
    assert dict(info.info)["0"] == {
        "macs": 15,
        "params": 15,
        "shapes_in": [(1, 4)],
        "shape_out": (1, 3),
        "description": "Linear",
    }
    assert dict(info.info)["1"]["macs"] is None


def test_layers_info_made_by_hand():
    info = lamina.LayersInfo("Net", (1, 4))
    info.append("fc", {"macs": 5, "params": 2, "shapes_in": None, "shape_out": None, "description": "Mine"})
    info.append(
        "act", {"macs": None, "params": None, "shapes_in": None, "shape_out": None, "description": "Act"}
    )
    assert info.total() == (5, 2)
    assert info.summary().splitlines()[2:] == [
        "| fc    |      ?      |      ?       |    5 |      2 | Mine        |",
        "+-------+-------------+--------------+------+--------+-------------+",
        "| Total |      ?      |      ?       |    5 |      2 | Net         |",
    ]
    info.append("other", {"macs": 1})
    with pytest.raises(ValueError, match="'other' lacks params, shapes_in, shape_out, description"):
        info.summary()


def test_a_row_of_ones_own_is_in_the_table():
    """As thoplw 2024.1.25 prints it, to the letter."""
    _, _, info = profile(nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.ReLU()), x())
    log = {"macs": 985, "params": 0, "shapes_in": [[1, 3, 5], [1, 3]], "shape_out": [1, 7, 7]}
    info.append("mine", log | {"description": "Mine"})
    info.append("none", log | {"macs": 7, "params": None, "description": "None"})
    assert info.total() == (1000, 15)
    assert info.summary().splitlines() == [
        "| Name  | Input shape | Output shape | MACs | Params | Description |",
        "+-------+-------------+--------------+------+--------+-------------+",
        "| 0     |      4      |      3       |   15 |     15 | Linear      |",
        "| 2     |      3      |      3       |    0 |      0 | ReLU        |",
        "| mine  |    3x5, 3   |     7x7      |  985 |      0 | Mine        |",
        "+-------+-------------+--------------+------+--------+-------------+",
        "| Total |      4      |     7x7      | 1000 |     15 | Sequential  |",
    ]
    assert 'mine,"3x5, 3",7x7,98.50 %,0.00 %,Mine' in info.summary("csv", "ratio")
    info.info.pop(1)
    assert info.total() == (985, 0)


def test_a_number_in_a_log_is_a_whole_number():
    info = lamina.LayersInfo("Net", (1, 4))
    info.append("fc", {"macs": 5.5, "params": 2, "shapes_in": [], "shape_out": [], "description": "Mine"})
    with pytest.raises(ValueError, match=r"macs of 'fc' is 5\.5; it is a whole number or None"):
        info.summary()
