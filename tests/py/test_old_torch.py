# SPDX-License-Identifier: Apache-2.0
"""The oldest torch: Debian's 1.13.1 on the system's Python sees the same calls and gives the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE

import lamina

PYTHON = "/usr/bin/python3"

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
import lamina
from old_nets import build

out = {}
for name, (net, args, kwargs) in build().items():
    report = lamina.inspect(net, args, kwargs)
    both = {c: report.under(c) for c in ("layers", "torchscan", "thoplw")}
    out[name] = {
        c: [[r.path, r.type, r.macs, r.flops, r.dmas, r.params, r.in_shapes, r.out_shapes] for r in seen.rows]
        for c, seen in both.items()
    }
print(json.dumps(out))
"""


def run(python, *paths):
    package = str(Path(lamina.__file__).absolute().parent.parent)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([package, str(HERE), *paths]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [python, "-c", SCRIPT], capture_output=True, text=True, timeout=300, env=env, check=False
    )


@pytest.fixture(scope="module")
def old():
    probe = subprocess.run(
        [PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False
    )
    if probe.returncode != 0 or not probe.stdout.startswith("1.13"):
        pytest.skip("the system's Python has no torch 1.13")
    done = run(PYTHON)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_same_rows_as_this_torch(old):
    done = run(sys.executable)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == old
    assert len(old) >= 8


LEFT = """
import torch, lamina, lamina._lamina
call = torch.nn.Module.__call__
norm = torch.nn.BatchNorm1d(4)
report = lamina.inspect(norm, torch.rand(2, 4))
assert torch.nn.Module.__call__ is call
assert norm.num_batches_tracked == 0
assert not norm.running_mean.any()
assert report.params == 8
print(lamina._lamina.describe_status()["why"])
"""


def test_nothing_is_left_there_either(old):
    package = str(Path(lamina.__file__).absolute().parent.parent)
    env = {**os.environ, "PYTHONPATH": package}
    done = subprocess.run([PYTHON, "-c", LEFT], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


BLIND = """
import json, torch, lamina
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
report = lamina.inspect(net, torch.rand(2, 4), ops=True)
for ask in (report.graph, lambda: report.unused, lambda: report.no_gradient):
    try:
        ask()
    except ValueError as error:
        assert "this torch does not tell whose memory a tensor has" in str(error), error
    else:
        raise AssertionError("it answers")
assert "not known: what ran in vain" in report._text(why=True)
data = json.loads(report.to_json())
assert not {"unused", "no_gradient"} & set(data)
assert report.macs == 64
"""


def test_what_no_graph_tells_is_not_silently_nothing(old):
    package = str(Path(lamina.__file__).absolute().parent.parent)
    env = {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([PYTHON, "-c", BLIND], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
