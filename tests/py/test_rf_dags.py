# SPDX-License-Identifier: Apache-2.0
"""Receptive fields of random networks against what changes when the input does (rf_dags.py)."""

from __future__ import annotations

from collections import Counter

import pytest
import rf_dags
import torch

import lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")

NETS = 300


def extent(positions):
    """First and last of them, None where there are none."""
    at = positions.nonzero().flatten().tolist()
    return (at[0], at[-1]) if at else None


def holds(outer, inner):
    return inner is None or (outer is not None and outer[0] <= inner[0] and outer[1] >= inner[1])


def elements(shape):
    """Corners, the middle, and one beside it, each in one of the channels."""
    c, h, w = shape
    places = {(0, 0), (h - 1, w - 1), (0, w - 1), (h // 2, w // 2), (h // 2, w // 2 - 1), (1, w - 2)}
    return {((row + column) % c, row, column) for row, column in places}


def at(of, element, axes):
    """What one element depends on; where no field tells those along an axis apart, what any of them does."""
    told = {axis["out_axis"] for axis in axes}
    for axis in (1, 2, 3):
        of = of[:, element[axis - 1]] if axis in told else of.any(1)
    return of


def judge(net, x):
    """What is wrong, how many answers were right, and the reasons of those that were not known."""
    report = lamina.inspect(net, x, mode="eval", ops=True)
    rows = {row.path: row for row in report.rows}
    wrong, right, unknown = [], 0, []
    for k, pair in enumerate(rf_dags.depends(net, x)):
        path, what = f"nodes.{k}", f"{k + 1} {net.nodes[k].name}"
        axes = rows[path].rf_axes or []
        assert {axis["axis"] for axis in axes} <= {2, 3}, f"{net}: node {k + 1} shows another axis"
        for element in sorted(elements(pair[0][0].shape[1:])):
            if any(axis["reach"] == "unknown" for axis in axes):
                unknown += [axis["why"] or "?" for axis in axes]
                continue
            seen = report.sees(
                path, *(element[axis["out_axis"] - 1] if axis["out_axis"] > 0 else 0 for axis in axes)
            )
            for axis, span in zip(axes, seen, strict=True):
                does, may = (extent(at(of, element, axes)) for of in pair[axis["axis"] - 2])
                exact = axis["state"] == "exact" and not axis["at_most"]
                if not holds(span, does):
                    wrong.append(
                        f"{what}, axis {axis['axis']}, element {element}: {span} is smaller than {does}"
                    )
                elif exact and not holds(may, span):
                    wrong.append(
                        f"{what}, axis {axis['axis']}, element {element}: {span} is larger than {may}"
                    )
                else:
                    right += 1
    return wrong, right, unknown


@pytest.fixture
def one_thread():
    """Tensors of a few hundred elements: handing parts of them to threads takes longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def check(seeds):
    """Holds every answer about the networks of these seeds against the truth. Returns how many were right."""
    found, right, unknown = [], 0, Counter()
    for seed in seeds:
        net, x = rf_dags.draw(seed)
        wrong, here, why = judge(net, x)
        right += here
        unknown.update(why)
        found += [f"net {seed}: {net}\n    {line}" for line in wrong]
    assert not found, f"{len(found)} of {right} wrong:\n" + "\n".join(found[:10])
    share = unknown.total() / (right + unknown.total())
    assert share <= 0.1, unknown.most_common(10)
    return right


@pytest.mark.usefixtures("one_thread")
def test_random_networks_see_what_changes_them():
    assert check(range(NETS)) > 5000


def profiled():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def autocast():
    """It leaves float64 as it is, but the operators inside views and convolutions are observed."""
    return torch.autocast("cpu", torch.bfloat16)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("around", [profiled, autocast])
def test_random_networks_see_the_same_where_more_is_observed(around):
    with around():
        assert check(range(NETS // 5)) > 1000
