# SPDX-License-Identifier: Apache-2.0
"""Work that can't be seen, in a thread of the forward's own or outside torch, is told and not taken for 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from where_kit import Calls, exact, in_thread, not_observed

import lamina

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)


def x():
    return torch.rand(4, 8)


def states(report):
    return {row.path: row.macs.state for row in report.rows if row.event >= 0}


def test_layers_that_the_forward_calls_in_a_thread():
    def forward(self, x):
        got = []
        in_thread(lambda: got.append(self.a(x)))
        return self.b(got[0])

    model = nn.Sequential(nn.Tanh(), Calls(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 3)))
    report = exact(model, x())
    assert (report.macs, report.macs.state) == (4 * 8 * 3, "at least")
    assert states(report) == {"": "exact", "0": "exact", "1": "unknown", "1.b": "exact"}
    assert any("another thread" in gap for gap in report.gaps)
    assert lamina.inspect(model, (x(),)).macs.state == "at least"


def test_a_thread_that_runs_another_model_or_at_another_time_hides_nothing():
    other, layer = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        in_thread(lambda: other(x))
        return self.fc(x)

    model = Calls(forward, fc=layer)
    given = x()
    with lamina.capture(model, ops=True) as watch:
        in_thread(lambda: layer(given))
        model(given)
        in_thread(lambda: layer(given))
    report = watch.report("exact")
    assert (report.macs, report.macs.state) == (96, "exact")


OUTSIDE = {
    "numpy": lambda x: torch.from_numpy(x.detach().numpy() @ np.ones((8, 8), dtype=np.float32)),
    "array": lambda x: torch.as_tensor(np.tanh(np.asarray(x.detach()))),
    "list": lambda x: torch.tensor(np.array(x.detach().tolist(), dtype=np.float32)),
}


@pytest.mark.parametrize("way", OUTSIDE)
def test_what_is_computed_outside_torch(way):
    model = nn.Sequential(nn.Linear(8, 8), Calls(lambda self, x: OUTSIDE[way](x)), nn.Linear(8, 3))
    report = exact(model, x())
    assert (report.macs, report.macs.state) == (4 * 64 + 96, "at least")
    assert states(report) == {"": "exact", "0": "exact", "1": "unknown", "2": "exact"}
    assert ["numpy" in gap for gap in report.gaps] == [True]
    assert report.unruled_ops == {}


def _written(x, number):
    y = x * 2
    y[:, 0] = number
    return y


HARMLESS = {
    "looks at numbers": lambda x: x * float(x.detach().numpy().max()),
    "brings a table": lambda x: x + torch.from_numpy(np.arange(8, dtype=np.float32)),
    "makes a tensor of tensors": lambda x: x * torch.tensor([x.sum(), len(x.tolist())] * 4),
    "writes a number": lambda x: _written(x, len(x.tolist())),
    "makes a tensor of numbers": lambda x: x * torch.tensor([len(x.tolist())] * 8),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_numbers_that_go_one_way_hide_nothing(way):
    report = exact(Calls(lambda self, x: self.fc(HARMLESS[way](x)), fc=nn.Linear(8, 3)), x())
    assert (report.macs, report.macs.state, report.gaps) == (96, "exact", [])


def test_calls_of_another_thread_alone_are_told_of():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with lamina.capture(net, health=True) as cap:
        in_thread(lambda: net(torch.rand(1, 2)))
    report = cap.report()
    assert [note for note in report.notes if "another thread called layers of this model" in note]
    assert report.health.sentence.startswith("there was no value to check")
    with lamina.capture(net) as cap:
        net(torch.rand(1, 2))
    assert not cap.report().notes
