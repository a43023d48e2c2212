# SPDX-License-Identifier: Apache-2.0
"""What a call leaves for the next one: caches in its result, and the tensors in any object."""

import functools
import types
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass

import torch
from torch import nn

from lamina._run.held import caches_of, tensors_held

Pair = namedtuple("Pair", "keys values")
ONE, TWO = torch.zeros(2, 3), torch.zeros(4)


class Slots:
    __slots__ = ("keys", "never", "values")

    def __init__(self):
        self.keys, self.values = ONE, TWO


@dataclass
class Layer:
    keys: torch.Tensor
    values: torch.Tensor
    window: int = 4


class Named(dict):
    """A dict with attributes that are no items of it."""

    def __init__(self):
        super().__init__(keys=ONE)
        self.values_too = TWO


def places(value, name=""):
    return [place for place, _ in tensors_held(value, name)]


def test_each_way_to_hold_two_tensors():
    pairs = {
        "[0][0] [0][1]": ((ONE, TWO),),
        "[0].keys [0].values": [Pair(ONE, TWO)],
        "keys values": Slots(),
        "layers[0].keys layers[0].values": types.SimpleNamespace(layers=[Layer(ONE, TWO)]),
        "['a'] [1]": OrderedDict({"a": ONE, 1: TWO}),
        "[0] [1]": deque([ONE, TWO]),
        "['keys'] values_too": Named(),
    }
    for told, value in pairs.items():
        assert " ".join(places(value)) == told
        assert all(a is b for (_, a), b in zip(tensors_held(value), (ONE, TWO), strict=True))


def test_the_name_of_the_whole_comes_first():
    assert places([Layer(ONE, TWO)], "cache") == ["cache[0].keys", "cache[0].values"]
    assert places(ONE, "hidden") == ["hidden"]


def test_a_tensor_that_is_held_twice_is_told_once_and_a_circle_ends():
    ring = [ONE, ONE]
    ring.append(ring)
    assert places(ring) == ["[0]"]


def test_what_is_no_part_of_a_cache_is_not_looked_into():
    inside = types.SimpleNamespace(
        owner=nn.Linear(2, 2), call=lambda: ONE, bound=nn.Linear(2, 2).forward, of=nn.Linear, part="text"
    )
    inside.partial = functools.partial
    assert places(inside) == []


def test_counters_are_left_out_and_scales_are_not():
    held = [torch.tensor(7), torch.tensor([7]), torch.tensor([7, 8]), torch.tensor(0.5), torch.tensor(True)]
    assert places(held) == ["[2]", "[3]"]


def test_a_sparse_tensor_is_told_by_its_parts():
    assert places({"a": torch.eye(3).to_sparse()}) == ["['a']._indices()", "['a']._values()"]


class Cached(nn.Module):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, x, cache=None, hidden=None, mask=None):
        return self.result(x, cache)


@dataclass
class Output:
    logits: object
    cache: object
    hidden: object = None


def grown(x, cache):
    return [*(cache or []), (x, x)]


def test_the_cache_of_a_result_has_the_name_of_an_argument():
    named = namedtuple("Named", "logits cache")
    made = (
        lambda x, cache: Output(x, grown(x, cache), hidden=x),
        lambda x, cache: {"logits": x, "cache": grown(x, cache), "mask": None},
        lambda x, cache: named(x, grown(x, cache)),
    )
    for make in made:
        model = Cached(make)
        found = caches_of(model, model(ONE))
        assert list(found) == ["cache"]
        assert places(found["cache"], "cache") == ["cache[0][0]"]  # both are one tensor
        assert len(caches_of(model, model(TWO, found["cache"]))["cache"]) == 2


def test_a_result_without_names_or_without_a_cache_has_none():
    for make in (
        lambda x, cache: (x, grown(x, cache)),
        lambda x, _: x,
        lambda x, _: {"logits": x, "attentions": (x,)},
        lambda x, _: {"logits": x, "cache": None},
        lambda x, _: {"logits": x, "cache": []},
    ):
        model = Cached(make)
        assert caches_of(model, model(ONE)) == {}
