# SPDX-License-Identifier: Apache-2.0
"""A GPU's times in recordings, of a GPU that there is not; and recordings of before they knew of any."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from fake_gpu import fake
from test_device import two

import lamina
from lamina._observe import support

sqlite3 = pytest.importorskip("sqlite3")

observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")

DEVICE = "path, device_forward_ns, device_self_ns, device_backward_ns, device_recompute_ns"

# The tables as they were in version 1, with a run of two steps.
OLD = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', '1'), ('made_by', 'lamina 0.1');
CREATE TABLE runs (id INTEGER PRIMARY KEY, started_unix_ns INTEGER NOT NULL, seen_unix_ns INTEGER NOT NULL,
 ended_unix_ns INTEGER, command TEXT, host TEXT, torch TEXT, lamina TEXT NOT NULL, pid INTEGER NOT NULL,
 rank INTEGER NOT NULL, world INTEGER NOT NULL, every INTEGER NOT NULL, dropped INTEGER NOT NULL DEFAULT 0);
CREATE TABLE models (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), root INTEGER NOT NULL,
 name TEXT NOT NULL, params INTEGER, local_params INTEGER, param_bytes INTEGER);
CREATE TABLE places (model INTEGER NOT NULL REFERENCES models(id), place INTEGER NOT NULL, parent INTEGER,
 depth INTEGER NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, params INTEGER, local_params INTEGER,
 PRIMARY KEY (model, place)) WITHOUT ROWID;
CREATE TABLE steps (id INTEGER PRIMARY KEY, model INTEGER NOT NULL REFERENCES models(id),
 number INTEGER NOT NULL, training INTEGER NOT NULL, started_unix_ns INTEGER NOT NULL,
 started_ns INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL, forward_ns INTEGER,
 backward_ns INTEGER, peak_bytes INTEGER, looked INTEGER NOT NULL, first_bad INTEGER, bad TEXT);
CREATE INDEX steps_of ON steps (model, number);
CREATE TABLE layers (step INTEGER NOT NULL REFERENCES steps(id), place INTEGER NOT NULL,
 calls INTEGER NOT NULL, forward_ns INTEGER, forward_self_ns INTEGER, backward_ns INTEGER,
 recompute_ns INTEGER, allocated_bytes INTEGER, retained_bytes INTEGER, peak_bytes INTEGER,
 nan INTEGER, inf INTEGER, PRIMARY KEY (step, place)) WITHOUT ROWID;
CREATE VIEW timeline AS SELECT m.run, m.name AS model, s.number AS step, s.training, p.path, p.type,
 l.calls, l.forward_ns, l.forward_self_ns, l.backward_ns, l.recompute_ns, l.allocated_bytes,
 l.retained_bytes, l.peak_bytes, l.nan, l.inf FROM layers l JOIN steps s ON s.id = l.step
 JOIN models m ON m.id = s.model JOIN places p ON p.model = m.id AND p.place = l.place;
INSERT INTO runs VALUES (1, 10, 20, 30, 'train.py', 'host', '2.0', '0.1', 1, 0, 1, 1, 0);
INSERT INTO models VALUES (1, 1, 0, 'Net', 6, 6, 24);
INSERT INTO places VALUES (1, 0, NULL, 0, '', 'Net', 6, 6);
INSERT INTO steps VALUES (1, 1, 0, 1, 10, 10, 1, 0, 9000, 7000, NULL, 1, 0, 'NaN');
INSERT INTO steps VALUES (2, 1, 1, 1, 15, 15, 1, 0, 8000, 6000, NULL, 1, NULL, NULL);
INSERT INTO layers VALUES (1, 0, 1, 9000, 9000, 7000, 0, NULL, NULL, NULL, 3, 0);
INSERT INTO layers VALUES (2, 0, 1, 8000, 8000, 6000, 0, NULL, NULL, NULL, 0, 0);
PRAGMA application_id = 0x4c414d4e;
PRAGMA user_version = 1;
"""


@pytest.fixture(autouse=True)
def command(monkeypatch):
    """A recording tells how its process was started, and what is shown of it is searched for words."""
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"])


@pytest.fixture
def device():
    fake("use", 1)
    yield
    assert fake("live") == 0  # every event was given back
    assert fake("errors") == 0
    fake("use", 0)


def rows(file, select):
    db = sqlite3.connect(file)
    try:
        return db.execute(select).fetchall()
    finally:
        db.close()


def shown(file, *options):
    command = [sys.executable, "-m", "lamina", "show", str(file), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def record(file, steps=5, **options):
    model = two()
    with lamina.watch(model, every=2, file=file, **options) as watch:
        for _ in range(steps):
            model(torch.rand(3)).sum().backward()
    assert watch.stopped is None


@observed
@pytest.mark.parametrize("options", [{}, {"memory": True}, {"health": True}])
def test_times_by_a_gpus_clock_are_recorded(tmp_path, device, options):
    file = tmp_path / "run.lamina"
    record(file, **options)
    for step in (0, 3, 4):
        assert rows(file, f"SELECT {DEVICE} FROM timeline WHERE step = {step} ORDER BY path") == [
            ("", 6000, 0, 0, 0),
            ("0", 1000, 1000, 3000, 0),
            ("1", 5000, 5000, 7000, 0),
        ]
    steps = rows(file, "SELECT device_forward_ns, device_backward_ns, device_peak_bytes IS NULL FROM steps")
    assert steps == [(6000, 10000, int("memory" not in options))] * 3


@observed
def test_they_are_shown_and_exported(tmp_path, device):
    file = tmp_path / "run.lamina"
    record(file, memory=True)
    text = shown(file, "--width", "200").splitlines()
    assert "; on the device forward 6.00 us, backward 10.0 us, peak 1.00 MiB" in text[3]
    (head,) = [line for line in text if line.startswith("layer")]
    assert head.endswith("device  bwd device  share  retained  peak  dev retained  dev peak")
    slowest = shown(file, "-n", "1", "--width", "200").splitlines()
    assert any(line.startswith("1 ") and "75.0%" in line for line in slowest)
    told = json.loads(shown(file, "--format", "json"))["runs"][0]["models"][0]
    assert told["device_forward_ns"]["median"] == 6000
    assert told["device_backward_ns"]["median"] == 10000
    assert [layer["device_self_ns"]["median"] for layer in told["layers"]] == [0, 1000, 5000]
    folder = tmp_path / "logs"
    command = [sys.executable, "-m", "lamina", "export", str(file), "--tensorboard", str(folder)]
    subprocess.run(command, capture_output=True, check=True)
    (events,) = folder.iterdir()
    assert b"/1/device_self_ms" in events.read_bytes()
    assert b"/device_peak_bytes" in events.read_bytes()


def test_without_a_gpu_nothing_is_told_of_one(tmp_path):
    file = tmp_path / "run.lamina"
    record(file)
    assert "device" not in shown(file).split("\n", 1)[1]
    assert rows(file, "SELECT count(device_forward_ns), count(device_peak_bytes) FROM layers") == [(0, 0)]


# -- recordings of the first version -------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    file = tmp_path / "old.lamina"
    db = sqlite3.connect(file)
    db.executescript(OLD)
    db.close()
    return file


def test_an_old_recording_is_read_as_it_is(old):
    before = old.read_bytes()
    text = shown(old)
    assert "forward 8.00 us, backward 6.00 us" in text
    assert "NaN or Inf in 1 step, first in step 0, by the model itself" in text
    assert "device" not in text
    assert json.loads(shown(old, "--format", "json"))["runs"][0]["models"][0]["device_forward_ns"] is None
    assert old.read_bytes() == before


@observed
def test_an_old_recording_takes_another_run(old, device):
    record(old)
    assert rows(old, "PRAGMA user_version") == [(8,)]
    assert rows(old, "SELECT value FROM meta WHERE key = 'schema'") == [("8",)]
    assert rows(old, "SELECT forward_ns, device_forward_ns FROM timeline WHERE run = 1") == [
        (9000, None),
        (8000, None),
    ]
    assert rows(old, "SELECT device_forward_ns FROM timeline WHERE run = 2 AND path = '1'") == [(5000,)] * 3
    assert "forward 8.00 us, backward 6.00 us" in shown(old, "--run", "1")
    assert "on the device forward 6.00 us" in " ".join(shown(old).split())


def test_a_newer_recording_is_refused(old):
    db = sqlite3.connect(old)
    db.execute("PRAGMA user_version = 99")
    db.close()
    command = [sys.executable, "-m", "lamina", "show", str(old)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "version 99" in done.stderr
