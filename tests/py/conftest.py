# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: reference data, layers and nets from their description, models built once."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import warm
from warm import LIMIT

gc.disable()  # until all tests are collected

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = HERE.parent / "data"
SHIM = HERE.parent / "shim"

# By its path: Python itself may have loaded another module of this name.
_spec = importlib.util.spec_from_file_location("torchvision_shim", SHIM / "sitecustomize.py")
assert _spec is not None and _spec.loader is not None
_shim = importlib.util.module_from_spec(_spec)  # what it registers lasts as long as the module
_spec.loader.exec_module(_shim)

import torch  # noqa: E402
from corpus_nets import undrawn  # noqa: E402
from torch import nn  # noqa: E402

from lamina._observe import support  # noqa: E402

# Each processor runs tests; threads and processes that wait for work would take its time from them.
torch.set_num_threads(1)
os.environ.update(warm.COMPILER)


def pytest_configure(config):
    config.addinivalue_line("markers", "uncompiled: runs first, before code is compiled")


def pytest_collection_modifyitems(items):
    """What has to run before anything is compiled comes first, whatever the order of the others."""
    items.sort(key=lambda item: item.get_closest_marker("uncompiled") is None)


def pytest_collection_finish():
    """Takes what is imported by now out of each later search for garbage, which torch's objects make slow: it
    is a fifth of the time that the tests took."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    if "triton" in sys.modules:  # it would print that its frozen objects leak
        gc.unfreeze()


def needs_recordings() -> None:
    """Leaves the calling module out where no SQLite is found."""
    import tempfile

    from lamina import _lamina

    with tempfile.TemporaryDirectory() as folder:
        try:
            _lamina.Recorder(f"{folder}/run.lamina", None, None, None, 0, 1, 1, 1).close()
        except Exception as error:
            if "need SQLite" in str(error):
                pytest.skip(str(error), allow_module_level=True)
            raise


@cache
def why_no_fit() -> str | None:
    """Why memory can't be followed here, as ``fit`` needs it; None where it can."""
    import lamina
    from lamina._observe import support

    if support.way().name == "calls":
        return f"no operators: {support.way().why}"
    try:
        lamina.fit(nn.ReLU(), torch.ones(1))
    except ValueError as error:
        return str(error)
    return None


def needs_fit() -> None:
    """Skips the calling test where ``fit`` can't run."""
    if why := why_no_fit():
        pytest.skip(why)


def reference(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text())


def tuples(value):
    """Lists of numbers, as JSON has them, as the tuples that torch takes."""
    return tuple(tuples(v) for v in value) if isinstance(value, list) else value


def build_layer(name: str, args: dict) -> nn.Module:
    return getattr(nn, name)(**{k: tuples(v) for k, v in args.items()})


def build_net(chain: dict) -> nn.Module:
    """The net that a chain of the reference data describes, with its ties, shared modules and frozen
    layers."""
    net = _build(chain["spec"])
    for source, target in chain.get("share", ()):
        _set(net, target, net.get_submodule(source))
    for source, target in chain.get("tie", ()):
        owner, _, name = target.rpartition(".")
        setattr(net.get_submodule(owner), name, net.get_parameter(source))
    for path in chain.get("freeze", ()):
        for parameter in net.get_submodule(path).parameters():
            parameter.requires_grad_(False)
    return net.train(chain.get("train", False))


def _build(spec) -> nn.Module:
    name, args = spec
    if name != "Sequential":
        return build_layer(name, args)
    net = nn.Sequential()
    for key, child in args:
        net.add_module(key, _build(child))
    return net


def _set(net: nn.Module, path: str, module: nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    net.get_submodule(owner)._modules[name] = module


_SLOW_INIT = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}


@pytest.fixture(scope="session")
def zoo():
    """``zoo(name)`` builds a torchvision model without drawing its weights, which is most of what building
    costs. On the ``meta`` device it has no weights at all, and its forward computes nothing but shapes."""
    models = pytest.importorskip("torchvision.models")
    built: dict[tuple[str, str], nn.Module] = {}

    def get(name: str, device: str = "cpu") -> nn.Module:
        if len(built) > 2:  # big ones would fill the memory of a small machine
            built.pop(next(iter(built)))
        if (name, device) not in built:
            with torch.random.fork_rng(), undrawn(), torch.device(device):
                model = getattr(models, name)(weights=None, **_SLOW_INIT.get(name, {}))
            built[name, device] = model.eval()
        return built[name, device]

    return get


def environment(**extra: str) -> dict[str, str]:
    """The environment of a child process that may import torchvision; an installed lamina or the one under
    test. What a CI host sets is left out, for pytest prints more under CI."""
    import lamina

    paths = [str(SHIM), str(Path(lamina.__file__).absolute().parent.parent)]
    left_out = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "CI", "BUILD_NUMBER")
    left_out += ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
    # As transcripts have them, so that both are forks of one process. Torch's compiler sets the last one.
    left_out += ("PYTHONUNBUFFERED", "LC_ALL", "LC_CTYPE", "TORCHINDUCTOR_CACHE_DIR")
    same = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    return {**kept, **same, "PYTHONPATH": os.pathsep.join(paths), **extra}


def wait_until(there: Callable[[], object]) -> None:
    """Waits for what another process or thread does, as long as it may take on a busy machine."""
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def steps_in(file: Path | str) -> int:
    """The steps that a recording has on the disk, while it is written or afterwards."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=LIMIT)) as db:
        return int(db.execute("SELECT count(*) FROM steps").fetchone()[0])


def hear_interrupts() -> None:
    """Of a child process: a shell has its commands in the background ignore the signal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def shell():
    """``shell("show", ...)`` runs ``lamina show ...`` and gives the finished process."""

    def run(*argv: str, cwd=None, **extra: str) -> subprocess.CompletedProcess:
        return warm.lamina([*argv], cwd=cwd or ROOT, env=environment(**extra))

    return run


@pytest.fixture(autouse=True, scope="module")
def few_to_search():
    """As at the end of the collection, for what the tests of other modules imported, torch's compiler above
    all: with it each search takes a third of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["observer", "dispatch"])
def way(request, monkeypatch):
    """How operators are watched: a test that asks for it runs in each way that this torch allows."""
    monkeypatch.setenv("LAMINA_CAPTURE", request.param)
    found = support.way()
    if found.name != request.param:
        pytest.skip(found.why)
    return request.param


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
