# SPDX-License-Identifier: Apache-2.0
"""Models, costs and the core's functions as Python sees them."""

from __future__ import annotations

import re

import pytest
import torch
from ext_kit import seen
from torch import nn

from lamina import _lamina
from lamina._base import errors

X = torch.randn(2, 3)


@pytest.fixture(scope="module")
def model():
    return seen(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)), X)


def test_rows_carry_counts_shapes_and_names(model):
    costs = model.costs()
    assert costs.convention == next(c["name"] for c in _lamina.conventions() if not c["counts_ops"])
    rows = {row["path"]: row for row in costs.rows()}
    assert list(rows) == ["", "0", "1", "2"]
    first = rows["0"]
    assert first["macs"] == (24, "exact") and first["flops"] == (48, "exact")
    assert first["params"] == (16, "exact") and first["param_bytes"] == (64, "exact")
    assert first["in_shapes"] == ((2, 3),) and first["out_shapes"] == ((2, 4),)
    assert first["in_dtypes"] == ("float32",) and first["type"] == "Linear" and first["name"] == "0"
    assert first["event"] == 1 and first["ordinal"] == 0 and not first["failed"] and first["leaf"]
    assert rows[""]["total_macs"] == (64, "exact") == costs.totals()["macs"]
    assert costs.params()["params"] == (41, "exact")


def test_every_row_has_the_same_entries_with_its_own_values():
    class Odd(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(3, 4), nn.Linear(4, 5, bias=False), nn.Linear(7, 7))

        def forward(self, x):
            return self[1](self[0](x)) + 1

    rows = seen(Odd(), X).costs().rows()
    assert [row["path"] for row in rows] == ["", "0", "1", "2"]
    assert all(list(row) == list(rows[0]) and len(row) > 90 for row in rows)
    assert [row["params"][0] for row in rows[1:]] == [16, 20, 56]
    total = [(64, "at least"), (24, "exact"), (40, "exact"), (0, "exact")]
    assert [row["total_macs"] for row in rows] == total
    assert [row["never_called"] for row in rows] == [False, False, False, True]
    assert [row["in_shapes"] for row in rows] == [((2, 3),), ((2, 3),), ((2, 4),), ()]
    assert [row["ordinal"] for row in rows] == [0, 0, 0, -1]


def test_one_total_is_as_in_all_of_them(model):
    costs = model.costs()
    for name, value in costs.totals().items():
        if name != "intensity":
            assert costs.total(name) == value
    with pytest.raises(ValueError, match="metric"):
        costs.total("speed")
    with pytest.raises(ValueError, match="str"):
        costs.total(3)


def test_reasons_and_gaps():
    class Own(nn.Module):
        def forward(self, x):
            return x @ x.t()

    costs = seen(nn.Sequential(Own()), X).costs()
    row = costs.rows()[1]
    assert row["macs"][1] != "exact" and row["reason"] and row["rule_kind"] is None
    assert costs.totals()["macs"][1] != "exact" and costs.gaps()
    ((name, n, path),) = costs.unruled()
    assert (name, n) == ("Own", 1) and path.endswith(".Own")


def test_why(model):
    costs = model.costs()
    why = {line["metric"]: line for line in costs.why(1)}
    assert (
        why["macs"]["value"] == (24, "exact")
        and why["macs"]["formula"]
        and "\u00d7" in why["macs"]["substituted"]
    )
    for bad in (-1, 4, 2**31 - 1):
        with pytest.raises(errors.RangeError, match="there is no row"):
            costs.why(bad)


def test_conventions_and_rules():
    names = [c["name"] for c in _lamina.conventions()]
    assert {"layers", "torchscan", "thoplw"} <= set(names)
    assert sum(c["default"] for c in _lamina.conventions()) == 1
    for name in names:
        rules = _lamina.rules(name)
        assert any(r["kind"] in ("conv", "any") and r["formula"]["macs"] for r in rules)
    for call in (_lamina.rules, seen(nn.Tanh(), X).costs):
        with pytest.raises(errors.UsageError) as told:
            call("nothing like it")
        assert all(name in str(told.value) for name in names)
        assert told.value.status == "USAGE" and isinstance(told.value, ValueError)


def test_every_convention_counts_calls_or_says_what_it_needs(model):
    for convention in _lamina.conventions():
        for released in (False, True):
            try:
                assert model.costs(convention["name"], released).rows()
            except errors.UsageError as error:
                assert "counts operators" in str(error)


def test_receptive_field(model):
    assert model.rf(1, "torchscan") == (1.0, 1.0, 0.0, "exact")
    with pytest.raises(IndexError):
        model.rf(99)


def test_places_are_found(model):
    assert model.find("2") == 3 and model.find("") == 0 and model.find("nowhere") == -1


def test_aggregation_and_the_old_receptive_field():
    net = nn.Sequential(nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU()), nn.Flatten())
    costs = seen(net, torch.randn(1, 1, 5, 5)).costs("torchscan", True)
    costs.rf_backwards()
    assert costs.rows()[0]["rf"] == 3
    costs.aggregate(1)
    assert [r["path"] for r in costs.rows()] == ["", "0", "1"]
    with pytest.raises(ValueError, match="depth"):
        costs.aggregate(7)


# -- counts of the user's own -------------------------------------------------------------------------------


def test_custom_counts(model):
    told = {0: None, 1: {"macs": 7}, 2: (1, None, (3, "at least")), 3: (2**70, 5)}
    asked = []

    def custom(event):
        asked.append(event)
        return told[event]

    rows = model.costs(custom=custom).rows()
    assert sorted(set(asked)) == [0, 1, 2, 3]
    assert rows[1]["macs"] == (7, "exact") and rows[1]["flops"][1] == "unknown"
    assert (
        rows[2]["macs"] == (1, "exact")
        and rows[2]["flops"][1] == "unknown"
        and rows[2]["dmas"] == (3, "at least")
    )
    assert rows[3]["macs"] == (2**70, "exact") and rows[3]["flops"] == (5, "exact")
    assert model.costs(custom=custom).totals()["macs"] == (2**70 + 8, "exact")


def test_a_custom_count_may_omit_a_layer(model):
    rows = model.costs("thoplw", True, lambda event: "omit" if event == 1 else None).rows()
    assert "0" not in [r["path"] for r in rows]


@pytest.mark.parametrize(
    "told",
    [
        3.5,
        "other",
        [1],
        {"macs": -1},
        {"macs": "x"},
        (2**96,),
        ((1, "sure"),),
        ((1, 2, 3),),
        {"macs": object()},
    ],
)
def test_custom_counts_that_are_none(model, told):
    with pytest.raises((ValueError, IndexError, TypeError)):
        model.costs(custom=lambda event: told)


def test_the_exception_of_a_custom_count_comes_through(model):
    asked = []

    def custom(event):
        asked.append(event)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.costs(custom=custom)
    assert len(asked) == 1
    with pytest.raises(ValueError, match="function"):
        model.costs(custom=3)


# -- text ---------------------------------------------------------------------------------------------------


def test_reports_are_written(model):
    costs = model.costs()
    assert "Linear" in costs.write() and "Linear" in costs.write({})
    assert costs.write({"format": "json"}).lstrip().startswith("{")
    assert "," in costs.write({"format": "csv", "layout": None})
    wide = costs.write(
        {"width": 60, "max_depth": 1, "color": False, "ascii": True, "exact": True, "expand": True}
    )
    assert wide.isascii() and max(map(len, wide.splitlines())) <= 60
    scan, old = {"layout": "torchscan-0.1.2"}, model.costs("torchscan", True)
    assert "Receptive field" in old.write({**scan, "receptive_field": True})
    assert "0.25 Mb" in old.write(scan, {"overhead_mb": 0.25})
    assert "Linear" in model.costs("thoplw", True).write({"layout": "thoplw"}, {"numbers": "ratio"})
    with pytest.raises(TypeError, match="real number"):
        old.write(scan, {"overhead_mb": "x"})


@pytest.mark.parametrize(
    "options, error, sentence",
    [
        ({"layout": "x"}, ValueError, "x"),
        ({"format": "x"}, ValueError, "x"),
        ({"colour": True}, ValueError, "no option 'colour'"),
        ({"width": "x"}, TypeError, "integer"),
        ({"width": 2**80}, OverflowError, "too large"),
        ({"max_depth": 2**31}, OverflowError, "max_depth can't be 2147483648"),
        ({"max_depth": -(2**31) - 1}, OverflowError, "max_depth"),
        ({"layout": 3}, TypeError, "layout is a text, not 3"),
        ({"peak": 3}, TypeError, "roof"),
        ({"peak": (1.0,)}, TypeError, "roof is what"),
        ({3: 4}, ValueError, "no option"),
    ],
)
def test_options_that_do_not_exist(model, options, error, sentence):
    with pytest.raises(error, match=sentence):
        model.costs().write(options)


def test_the_largest_numbers_that_options_may_be(model):
    costs = model.costs()
    assert costs.write({"max_depth": 2**31 - 1}) == costs.write()
    with pytest.raises(errors.UsageError):  # of the table, which is told it
        costs.write({"width": -(2**31)})


def test_numbers_as_text():
    assert _lamina.text_count((1_814_073_344, "exact")) == "1.81 G"
    assert _lamina.text_count((5, "at least"), True) == ">= 5"
    assert _lamina.text_count(None) == "?"
    assert _lamina.text_count(3 * 2**63, True).replace(",", "") == str(3 * 2**63)
    assert _lamina.text_bytes(97 * 2**20) == "97.0 MiB"


def test_models_and_costs_are_made_by_captures_only():
    for kind in (_lamina.Model, _lamina.Costs):
        with pytest.raises(TypeError):
            kind()


def test_costs_outlive_the_name_of_their_model():
    costs = seen(nn.Tanh(), X).costs()
    assert costs.rows()[0]["type"] == "Tanh"


def test_layouts_that_can_not_be_are_refused():
    layout = {}
    for _ in range(99):  # it is filled by what the refusals ask for
        with pytest.raises(errors.UsageError) as told:
            _lamina.use_layout(layout)
        asked = re.fullmatch("a layout has a small number '(.+)'", str(told.value))
        if not asked:
            break
        layout[asked[1]] = 4096 if layout else -1
    needed = {"inputs", "outputs", "sequence", "tensor"}
    assert needed < set(layout)
    for name in layout:
        with pytest.raises(errors.UsageError, match="with every place known"):
            _lamina.use_layout({**dict.fromkeys(layout, 0), **dict.fromkeys(needed & {name} or needed, -1)})
        for odd in (-2, 4097, "1", None):
            with pytest.raises(errors.UsageError, match=f"a small number '{name}'"):
                _lamina.use_layout({**layout, name: odd})
