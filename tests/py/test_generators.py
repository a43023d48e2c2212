# SPDX-License-Identifier: Apache-2.0
"""The random number generators are put back, whatever was drawn and however their states are read."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from conftest import environment

import warm
from lamina._guard import generators
from lamina._guard.generators import state_of_generators


def states():
    told = [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]
    return random.getstate(), told, torch.get_rng_state().tolist()


@pytest.fixture(params=["by memory", "by asking"], autouse=True)
def way(request, monkeypatch):
    if request.param == "by asking":
        monkeypatch.setattr(generators, "_python_at", None)
        monkeypatch.setattr(generators, "_numpy_at", None)
    return request.param


@pytest.fixture(params=[False, True], ids=["", "with spare numbers"], autouse=True)
def spare(request):
    before = random.getstate(), np.random.get_state()
    random.seed(1)
    np.random.seed(1)
    if request.param:
        random.gauss(0, 1)
        np.random.randn()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])


DRAWS = [
    lambda: None,
    random.random,
    lambda: random.gauss(0, 1),
    lambda: [random.gauss(0, 1) for _ in range(2)],
    lambda: [random.random() for _ in range(1000)],
    lambda: random.seed(5),
    lambda: np.random.rand(),
    lambda: np.random.randn(),
    lambda: [np.random.randn() for _ in range(2)],
    lambda: np.random.rand(1000),
    lambda: np.random.seed(5),
    lambda: torch.rand(3),
    lambda: torch.manual_seed(5),
]


@pytest.mark.parametrize("draw", range(len(DRAWS)))
def test_what_is_drawn_is_put_back(draw):
    before = states()
    put_back = state_of_generators()
    DRAWS[draw]()
    put_back()
    assert states() == before


def test_the_memory_is_found_here(way):
    state_of_generators()
    if way == "by memory":
        assert isinstance(generators._python_at, int) and generators._python_at > 0
        assert isinstance(generators._numpy_at, tuple)


def test_another_algorithm_is_asked():
    old = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        before = np.random.get_state(legacy=False)["state"]
        put_back = state_of_generators()
        np.random.rand()
        put_back()
        assert np.random.get_state(legacy=False)["state"] == before
    finally:
        np.random.set_bit_generator(old)


def test_numpy_is_not_imported_for_it():
    code = """
import sys, torch
from lamina._guard import generators
for name in [name for name in sys.modules if name.startswith("numpy.random")]:
    del sys.modules[name]
generators.state_of_generators()()
assert "numpy.random" not in sys.modules
"""
    warm.python("-c", code, env=environment(), check=True)
