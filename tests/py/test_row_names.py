# SPDX-License-Identifier: Apache-2.0
"""The fields of a row have names in JSON, in CSV and in Python: whatever the name, the value is the same."""

from __future__ import annotations

import csv
import io
import json
import pickle

import pytest
import torch
from test_schema import Odd
from torch import nn

import lamina
from lamina import _lamina

NAMES = _lamina.row_names()
MEASURED = {"time": True, "repeats": 1, "warmup": 0, "memory": True, "stats": True}
IMAGE, LINE = torch.rand(2, 3, 8, 8), torch.rand(2, 4)


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())


@pytest.fixture(
    params=[
        (images, IMAGE, {}),
        (images, IMAGE, {"backward": True, **MEASURED}),
        (images, IMAGE, {"convention": "torchscan"}),
        (images, IMAGE, {"dry": True}),
        (Odd, LINE, {"backward": True}),
        (Odd, LINE, {"convention": "layers"}),
        (lambda: nn.LSTM(4, 5), torch.rand(3, 1, 4), {"memory": True}),
        (lambda: nn.Embedding(9, 4), torch.zeros(2, 3, dtype=torch.long), {"ops": False}),
    ],
    ids=["images", "measured", "torchscan", "dry", "backward", "layers", "tuple", "calls"],
)
def report(request):
    net, x, options = request.param
    return lamina.inspect(net(), x, **options)


def at(told, path):
    for name in path.split("."):
        told = told.get(name) if told is not None else None
    return told


def text(count):
    return "" if count.state == "unknown" else str(int(count))


def test_a_count_of_json_is_that_of_python(report):
    rows = json.loads(report.to_json())["rows"]
    assert len(rows) == len(report.rows)
    compared = set()
    for row, told in zip(report.rows, rows, strict=True):
        for name, path, _ in NAMES:
            value = at(told, path) if path else None
            if not isinstance(value, dict) or value.keys() != {"value", "state"}:
                continue
            assert (row[name].state, value["value"]) == (
                value["state"],
                None if value["state"] == "unknown" else int(row[name]),
            ), (row.path, name)
            compared.add(path)
    assert {"params", "trainable", "frozen", "macs", "subtotal.params", "subtotal.flops"} <= compared
    assert ("subtotal.backward.macs" in compared) == ("backward" in rows[0])


def test_a_cell_of_csv_is_the_value_of_python(report):
    lines = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert lines.pop()["status"] == "total" and len(lines) == len(report.rows)
    columns = [(name, column) for name, _, column in NAMES if column in lines[0]]
    for row, line in zip(report.rows, lines, strict=True):
        for name, column in columns:
            value, cell = row[name], line[column]
            if isinstance(value, lamina.Count):
                assert cell == text(value), (row.path, name)
                assert line.get(f"{column}_state", value.state) == value.state
            elif isinstance(value, bool):
                assert cell == str(value).lower()
            elif isinstance(value, float):
                assert float(cell) == pytest.approx(value, rel=1e-5, abs=1e-6)
            elif not isinstance(value, tuple):
                assert cell == ("" if value is None else str(value)), (row.path, name)


def test_measured_numbers_of_csv_are_those_of_json(report):
    lines = list(csv.DictReader(io.StringIO(report.to_csv())))
    for line, told in zip(lines, json.loads(report.to_json())["rows"], strict=False):
        for phase, prefix in (("forward", ""), ("backward", "backward_"), ("recompute", "recompute_")):
            if "time" in told:
                assert line[f"{prefix}time_ns"] == written(at(told, f"time.{phase}.total"))
                assert line[f"{prefix}self_ns"] == written(at(told, f"time.{phase}.self"))
            for number in ("allocated", "freed", "retained", "peak") if "memory" in told else ():
                value = at(told, f"memory.own.{phase}.{number}")
                assert line[f"{prefix}memory_{number}"] == written(value)
        if "health" in told:
            assert line["backward_health"] == written(at(told, "health.backward"))
            first = (at(told, "health.stats") or [None])[0]
            assert line["zeros"] == written(at(first, "zeros"))


def written(value):
    return "" if value is None else str(value)


def test_shapes_and_types_are_of_each_tensor(report):
    lines = list(csv.DictReader(io.StringIO(report.to_csv())))
    for row, line, told in zip(report.rows, lines, json.loads(report.to_json())["rows"], strict=False):
        assert row.in_shapes == tuple(tuple(x["shape"]) for x in told["inputs"])
        assert row.out_dtypes == tuple(x["dtype"] for x in told["outputs"])
        assert line["input_shapes"] == "; ".join("x".join(map(str, x)) or "()" for x in row.in_shapes)
        assert line["dtype"] == (row.out_dtypes[0] if row.out_dtypes else "")


def test_names_of_csv_and_json_work_in_python(report):
    row = report.rows[0]
    assert row.trainable is not None and row.trainable == row.grad_params == row["trainable"]
    assert row.subtotal_macs == row.total_macs and row.subtotal_backward_flops == row.total_backward_flops
    assert row.receptive_field == row.rf and row.rule == row.rule_kind
    assert row.input_shapes == row.in_shapes and row.get("frozen") == row.nograd_params
    assert "trainable" in row and "trainable" not in list(row) and "nothing" not in row
    with pytest.raises(AttributeError, match="did you mean"):
        _ = row.trainabel
    again = pickle.loads(pickle.dumps(row))
    assert again == row and again.trainable == row.trainable


def test_every_name_stands_once():
    names, paths, columns = zip(*NAMES, strict=True)
    for each in (names, [path for path in paths if path], [column for column in columns if column]):
        assert len(each) == len(set(each))
    assert not set(names) & {path for path in paths if "." in path}
