# SPDX-License-Identifier: Apache-2.0
"""Models that two processes run together: work is this rank's, parameters are the whole's and this rank's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch.distributed
from conftest import environment
from torch import nn
from where_kit import not_observed

import lamina
import warm

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)
pytest.importorskip("torch.distributed.device_mesh")

FIRST, LAST = 4 * 16 * 32, 4 * 32 * 8  # MACs of the two layers
SIZES = {"0": 16 * 32 + 32, "2": 32 * 8 + 8}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of the two saw, by way of working together."""
    meet = tmp_path_factory.mktemp("ranks") / "meet"
    worker = Path(__file__).with_name("ranks_worker.py")
    done = warm.together([warm.start(worker, rank, meet, env=environment()) for rank in range(2)])
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads(process.stdout.strip().rpartition("\n")[2]) for process in done]


def of(ranks, way):
    """The steps of both ranks; skips where this torch has not that way."""
    if isinstance(ranks[0][way], str):
        pytest.skip(ranks[0][way])
    return [(rank, step) for rank in range(2) for step in ranks[rank][way]]


def check_labels(rank, step):
    assert step["notes"] == [
        f"work is what rank {rank} of 2 ran; params are the whole model's, local_params this rank's"
    ]
    assert step["params"] == sum(SIZES.values())
    assert f"rank {rank} of 2" in step["text"]
    # Whatever is not known is how processes talk to each other.
    assert all(name.partition("::")[0] != "aten" for name in step["unruled"])


def test_every_rank_runs_the_whole_model_on_its_data(ranks):
    for rank, step in of(ranks, "ddp"):
        assert step["macs"] == {"module.0": FIRST, "module.2": LAST}
        assert step["backward"] == {"module.0": FIRST, "module.2": 2 * LAST}
        assert step["local"] == [sum(SIZES.values()), 4 * sum(SIZES.values())]
        assert "local_params" not in step["json"]
        check_labels(rank, step)


def test_parameters_that_are_gathered_to_be_used(ranks):
    """Each rank holds a half and computes with the whole."""
    for rank, step in of(ranks, "fsdp"):
        assert step["macs"] == {"0": FIRST, "2": LAST}
        assert step["backward"] == {"0": FIRST, "2": 2 * LAST}
        held = {path: local for path, params, local, _ in step["rows"] if params}
        assert held == {path: size // 2 for path, size in SIZES.items()}
        assert step["local"] == [sum(SIZES.values()) // 2, 2 * sum(SIZES.values())]
        assert step["json"]["local_params"] == {"value": step["local"][0], "state": "exact"}
        assert f"in this process {step['local'][0]} (" in step["text"]
        check_labels(rank, step)


def test_layers_that_are_split(ranks):
    """Each rank computes half of every product. The first backward also tries the rules of sharding out on
    tensors without data, which is no work."""
    for rank, step in of(ranks, "tp"):
        assert step["macs"] == {"0": FIRST // 2, "2": LAST // 2}
        assert step["backward"] == {"0": FIRST // 2, "2": LAST}
        assert step["recompute"] == 0
        held = {path: local for path, params, local, _ in step["rows"] if params}
        assert held == {"0": SIZES["0"] // 2, "2": 32 * 8 // 2 + 8}  # the last bias is each rank's
        check_labels(rank, step)


SHARDS = [(15 * 16 + 15) + (15 * 30 + 15) + (3 * 30 + 3), (15 * 16 + 15) + (15 * 30 + 15) + (2 * 30 + 2)]


@pytest.mark.parametrize("way", ["stored", "stored without", "stored gathered"])
def test_a_sharded_step_holds_the_shards(ranks, way):
    """Parameters and state are those of this rank; the whole's sizes do not depend on what is gathered."""
    for rank in range(2):
        told = ranks[rank][way]
        if isinstance(told, str):
            pytest.skip(told)
        if told["held"] is not None:
            assert told["held"]["parameters"] == told["there"]["parameters"]
            assert told["held"]["optimizer"] == told["there"]["optimizer"]
            assert told["held"]["gradients"] == told["there"]["gradients"]
        assert told["sizes"] == [sum(SHARDS), SHARDS[rank], 4 * sum(SHARDS), 4 * SHARDS[rank]]
        assert told["no_gradient"] == told["backward"] == told["there"]["no_gradient"]
        assert ("aten::detach" in "".join(told["why"])) == (way == "stored without")
        assert "which gathers its parameters for each call" in told["refused"]
        assert told["again"] == [4, 5]  # it still runs


def test_shards_of_quantised_weights(ranks):
    whole, logical = 30 * 8 + 4 * 30, 4 * 30 * 8
    for rank in range(2):
        told = ranks[rank]["wrapped"]
        if isinstance(told, str):
            pytest.skip(told)
        assert told[0] == told[1] == [30 * 8, 15 * 8, whole, logical, whole // 2]
        assert told[2] == [30 * 8, 30 * 8, logical, logical, logical]


# -- one process alone ---------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path):
    meet = f"file://{tmp_path / 'meet'}"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Gathers(nn.Module):
    def __init__(self, weight, gather):
        super().__init__()
        self.weight, self.gather = nn.Parameter(weight), gather

    def forward(self, x):
        return x @ self.gather(self.weight)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "gather", [lambda w: w.full_tensor(), lambda w: w.to_local(), lambda w: w.to_local() + w.full_tensor()]
)
def test_the_whole_of_a_sharded_weight_brings_it_a_gradient(gather):
    tensor = pytest.importorskip("torch.distributed.tensor")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    net = Gathers(tensor.distribute_tensor(torch.rand(8, 8), mesh, [tensor.Shard(0)]), gather)
    x = torch.rand(4, 8)
    with lamina.capture(net) as watch:
        net(x).sum().backward()
    assert net.weight.grad is not None
    assert watch.report().no_gradient == {}
    assert lamina.inspect(net, x).no_gradient == lamina.inspect(net, x, backward=True).no_gradient == {}


@pytest.mark.usefixtures("alone")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_static_graph_can_be_trained_after_a_backward_pass():
    net = nn.parallel.DistributedDataParallel(nn.Linear(8, 4), static_graph=True)
    x = torch.rand(2, 8)
    for _ in range(2):
        assert lamina.inspect(net, x, backward=True).backward.macs == 2 * 8 * 4
        assert lamina.inspect(net, x, dry=True).macs == 2 * 8 * 4
        net(x).sum().backward()
    assert net.module.weight.grad.tolist() == [(2 * x.sum(0)).tolist()] * 4
