# SPDX-License-Identifier: Apache-2.0
"""The layouts of torchscan and thoplw where no recording says what those tools print: unknown numbers,
strange names and attributes, and options that can't be."""

from __future__ import annotations

import csv
import io

import nets
import pytest
import torch
from torch import nn

import lamina
from lamina import Count
from lamina._command.cli import main
from lamina._old import scan, text, thoplw
from lamina._old.layouts import lay_out
from lamina.torchscan import utils


def row(**fields):
    """A row as the core hands it over, of a layer that was called."""
    counts = ("params", "buffers", "macs", "flops", "dmas", "running_stats")
    shapes = {"in_shapes": ((1, 3),), "out_shapes": ((1, 3),)}
    plain = {"path": "a", "name": "a", "type": "A", "depth": 1, "module": 0, "event": 0} | shapes
    plain |= {"never_called": False, "counted": True, "rf_state": "exact"}
    plain |= {"rf": 3.0, "rf_stride": 0.5, "rf_padding": -435.0}
    return plain | dict.fromkeys(counts, (0, "exact")) | fields


def module(**fields):
    return {"type": "Net", "word": None, "attrs": {}} | fields


PARAMS = dict.fromkeys(("grad_params", "nograd_params", "param_bytes", "buffer_bytes"), (0, "exact"))


def table(rows, params=PARAMS, layout="torchscan-0.1.2", kind="text", rf=False, modules=None, **options):
    return lay_out(layout, kind, rf, rows, params, modules or [module()], options)


# -- torchscan -----------------------------------------------------------------------------------------------


def test_sums_say_when_they_are_not_whole():
    unknown = (0, "unknown")
    rows = [
        row(path="", name="", type="Net", depth=0, out_shapes=(), rf_state="unknown", macs=(5, "exact")),
        row(params=(1234, "at least"), macs=unknown, flops=unknown, out_shapes=((1,),)),
    ]
    params = PARAMS | {"grad_params": (1234, "at least"), "param_bytes": unknown}
    lines = table(rows, params, rf=True, overhead_mb=1.5).splitlines()
    assert lines[3:5] == [
        "net      Net     ?               0           ?              ",
        "├─a      A       (-1,)           >= 1,234    3              ",
    ]
    assert [line for line in lines if ":" in line] == [
        "Trainable params: >= 1,234",
        "Non-trainable params: 0",
        "Total params: >= 1,234",
        "Model size (params + buffers): ? Mb",
        "Framework & CUDA overhead: 1.50 Mb",
        "Total RAM usage: ? Mb",
        "Floating Point Operations on forward: ? FLOPs",
        "Multiply-Accumulations on forward: >= 5.00 MACs",
        "Direct memory accesses on forward: 0.00 DMAs",
    ]
    params |= {"param_bytes": (3 << 20, "at least")}
    assert "\nTotal RAM usage: >= 4.50 Mb\n" in table(rows, params, overhead_mb=1.5)


def test_receptive_fields_are_floats_before_a_transposed_convolution_in_0_1_1():
    rows = [row(name=f"l{i}", module=i % 2, rf=float(i)) for i in range(3)]
    modules = [module(), module(word="ConvTranspose2d")]
    shown = {
        layout: [
            line.split()[-1] for line in table(rows, layout=layout, rf=True, modules=modules).split("\n")[3:6]
        ]
        for layout in scan.STYLES
    }
    assert shown == {"torchscan-0.1.2": ["0", "1", "2"], "torchscan-0.1.1": ["0.0", "1.0", "2"]}
    for value, expected in ((0.5, "0.5"), (-11.0, "-11.0"), (1 / 3, "0.333333"), (float("nan"), "?")):
        line = table([row(module=1, rf=value)], layout="torchscan-0.1.1", rf=True, modules=modules).split(
            "\n"
        )[3]
        assert line.split()[-1] == expected


def test_names_drive_no_terminal():
    hostile = "x\x1b[31m\n\u202e\u2028\x7f\ud800"
    for layout in (*scan.STYLES, "thoplw"):
        printed = table(
            [row(name=hostile, path=hostile, type=hostile)], layout=layout, modules=[module(type=hostile)]
        )
        assert "x?[31m?????" in printed
        assert printed.replace("\n", "").isprintable()


def test_own_parameters_stand_below_their_layer():
    printed = table([row(event=-1, depth=0, out_shapes=())])
    assert printed.splitlines()[3].startswith("├─[own parameters]    A       ?   ")


def test_cells_of_a_dict():
    layer = {"name": "features", "type": "Sequential", "output_shape": (-1, 8), "depth": 2}
    layer |= {"grad_params": 1234567, "nograd_params": Count(1, "at least"), "num_buffers": 0}
    layer |= {"rf": 2.5, "s": 0.5, "p": None}
    name = "|    └─features"
    assert utils.format_line_str(layer, None, None, True, True) == [
        *(name, "Sequential", "(-1, 8)", ">= 1,234,568", "2", "0", "0"),
    ]
    assert utils.format_line_str(layer, [9, 12, 3, 4]) == ["|    └[..", "Sequential  ", "(-1", ">= 1"]
    with pytest.raises(IndexError):
        utils.format_line_str(layer, [9, 12, 3])
    for wrong in ("none", "odd", 3):
        with pytest.raises(ValueError, match="there is no wrap mode"):
            utils.format_line_str(layer, None, wrong)
    with pytest.raises(KeyError, match="depth"):
        utils.format_line_str({key: value for key, value in layer.items() if key != "depth"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("a.a.a.a.a.a.a.a.a.a", 10, ".", "[...]", "end"), "a.a.a[...]"),
        (("a.a.a.a.a.a.a.a.a.a", 10, ".", "[...]", "mid"), "a.a[...].a"),
        (("a.a.a.a.a.a.a.a.a.a", 2, ".", "[...]", "end"), "a.a.a.a.a.a.a.a.[...]"),  # text[:-3]
        (("abcdef", 5, ".", "[...]", "mid"), "[...].abcdef"),
        (("├─names", 6, ".", "[...]", "end"), "├[...]"),
        (("ab--cd--ef", 9, "--", "~", "mid"), "ab--c~.ef"),
        (("abcdefgh", 6, ".", "[..]", None), "abcdefgh"),
    ],
)
def test_wrap_string(given, expected):
    assert utils.wrap_string(*given) == expected


def test_an_empty_delimiter_separates_nothing():
    with pytest.raises(ValueError, match="empty"):
        utils.wrap_string("abcdefgh", 6, "", mode="mid")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("abc", 5, 4), "abc "),
        (("abc", 0, 0), ""),
        (("abc", -1, -1), ""),
        (("├─x", 4, 4), "├─x "),
        (("", 2, 2), "  "),
    ],
)
def test_format_s(given, expected):
    assert utils.format_s(*given) == expected


# -- thoplw --------------------------------------------------------------------------------------------------


def cells(rows, **options):
    return list(csv.reader(io.StringIO(table(rows, layout="thoplw", kind="csv", **options))))[1:]


def test_an_unknown_part_is_in_the_total():
    rows = [
        row(macs=(985, "exact")),
        row(path="b", macs=(0, "unknown"), in_shapes=(), out_shapes=(None, (1, 2))),
    ]
    assert cells(rows) == [
        ["a", "3", "3", "985", "0", "Net"],
        ["b", "?", "?, 2", "?", "0", "Net"],
        ["Total", "3", "?, 2", ">= 985", "0", "Net"],
    ]
    assert [line[3:5] for line in cells(rows, numbers="ratio")] == [
        ["100.00 %", "-"],
        ["?", "-"],
        [">= 985.00", "0.00"],
    ]
    assert [line[3] for line in cells([row(macs=(10**18, "exact"))], numbers="clever")] == ["1000.00 P"] * 2


def test_rows_without_a_call():
    own = row(path="own", event=-1, in_shapes=(), out_shapes=(), params=(7, "exact"))
    rows = [own, row(never_called=True, event=-1), row(counted=False), row(path="b")]
    assert [line[:3] for line in cells(rows)] == [["own", "", ""], ["b", "3", "3"], ["Total", "3", "3"]]
    assert cells([own])[-1] == ["Total", "", "", "0", "7", "Net"]


def test_running_statistics_join_the_parameters_on_request():
    rows = [row(params=(8, "exact"), running_stats=(8, "exact"))]
    assert [line[4] for line in cells(rows)] == ["8", "8"]
    assert [line[4] for line in cells(rows, old_params=True)] == ["16", "16"]


@pytest.mark.parametrize(
    ("word", "attrs", "expected"),
    [
        ("Conv2d", {"kernel_size": (3, 1), "stride": (1, 1), "padding": (1, 0)}, "Net k=(3, 1) p=(1, 0) s=1"),
        ("Conv2d", {"kernel_size": (3, 3), "stride": (2, 2), "padding": "sa\nme"}, "Net k=3 p=sa?me s=2"),
        ("MaxPool2d", {"kernel_size": 2, "stride": (2, 1), "padding": 0}, "Net k=2 s=(2, 1)"),
        ("LPPool2d", {"kernel_size": 1.5, "stride": None}, "Net k=1.5 s=None"),
        ("AvgPool2d", {"kernel_size": (), "stride": True}, "Net k=() s=1"),
        ("Unfold", {"kernel_size": 2, "stride": 1}, "Net"),
        (None, {"kernel_size": 2}, "Net"),
        ("AdaptiveAvgPool2d", {"output_size": 2}, "Net"),
    ],
)
def test_windows(word, attrs, expected):
    assert text.description(module(word=word, attrs=attrs)) == expected


def test_a_log_of_ones_own_is_cleaned_and_quoted():
    log = {"macs": 5, "params": 2, "shapes_in": None, "shape_out": (2,), "description": 'Mi\nne "x", y  '}
    assert thoplw.table_of_info([("fc,\x07", log)], "Net", "csv", "raw").splitlines()[1:] == [
        '"fc,?",?,,5,2,"Mi?ne ""x"", y"',
        "Total,?,,5,2,Net",
    ]


# -- what asks for them --------------------------------------------------------------------------------------


def test_options_that_cant_be():
    report = lamina.inspect(nn.Linear(4, 4), torch.rand(1, 4))
    for options, error, sentence in (
        ({"wrap": "x"}, ValueError, "wrap can't be 'x'; the first it can be is 'mid'"),
        ({"numbers": 3}, ValueError, "numbers can't be 3"),
        ({"overhead_mb": "x"}, TypeError, "real number"),
    ):
        with pytest.raises(error, match=sentence):
            report.show(**options)


def test_a_report_in_each_layout(capsys):
    report = lamina.inspect(nets.block(), torch.rand(1, 3, 8, 8), convention="thoplw", ops=False)
    report.show(layout="thoplw", numbers="clever")
    assert capsys.readouterr().out.startswith("| Name")
    assert report.to_markdown(layout="thoplw").splitlines()[1].startswith("|:--")
    report.show(layout="torchscan-0.1.2", wrap=None, depth=0)
    assert len([line for line in capsys.readouterr().out.splitlines() if "─" in line]) == 0


def test_an_exception_in_a_layout_ends_the_command_with_a_sentence(monkeypatch, capsys):
    def broken(*_):
        raise KeyError("no such row")

    monkeypatch.setattr("lamina._old.layouts.lay_out", broken)
    assert main(["show", "torch.nn:ReLU", "-i", "1x4", "--layout", "thoplw"]) != 0
    assert "no such row" in capsys.readouterr().err
