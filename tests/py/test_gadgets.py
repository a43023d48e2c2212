# SPDX-License-Identifier: Apache-2.0
"""InspectorGadgets: torch_inspector's file, right where that was right, and true where it was not."""

from __future__ import annotations

import gc
import json
import math
import pickle
import weakref

import pytest
import torch
from conftest import build_net, reference
from torch import nn
from where_kit import Calls, in_thread

import lamina
from lamina._observe import memory, support
from lamina.torch_inspector import InspectorGadgets

DATA = reference("torch_inspector")["chains"]
FIELDS = [
    "type",
    "input_shapes",
    "output_shapes",
    "grad_in_shape",
    "grad_out_shape",
    "num_parameters",
    "num_learnable_parameters",
    "param_memory_usage",
    "gradient_memory_usage",
    "input_memory_usage",
    "output_memory_usage",
    "effective_additional_memory_fwd",
    "effective_additional_memory_bwd",
    "forward_nan",
    "grad_in_nan",
    "grad_out_nan",
    "total_memory",
    "forward_latency",
    "backward_latency",
    "calls",
]
NOT_HOOKED = ("ReLU", "BatchNorm2d", "Dropout")
# What torch_inspector told of every layer, hooked or not; total_memory has the inputs of those that are.
OF_ALL = FIELDS[:1] + FIELDS[5:9]
OF_HOOKED = [*FIELDS[:5], *FIELDS[9:11], *FIELDS[13:17]]
observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")
measured = pytest.mark.skipif(bool(memory.refused()), reason=f"no memory: {memory.refused()}")


def info_of(layers, path=""):
    at = next(iter(layers.values()))
    for name in path.split(".") if path else ():
        at = at["children"][name]
    return at["info"]


def infos(layers):
    """Path -> info, of one model."""
    found, todo = {}, [("", next(iter(layers.values())))]
    while todo:
        path, at = todo.pop()
        found[path] = at["info"]
        todo += [(f"{path}.{name}" if path else name, child) for name, child in at["children"].items()]
    return found


def watched(model, run, **options):
    with InspectorGadgets(model, **options) as gadgets:
        run(model)
    return gadgets


@observed
@pytest.mark.parametrize("name", [name for name in DATA if "json" in DATA[name]])
def test_what_was_right_is_the_same(name):
    chain = DATA[name]
    net = build_net(chain)
    gadgets = watched(net, lambda net: net(torch.rand(chain["input"])).mean().backward())
    ours, theirs = infos(gadgets.layers[0]), infos(chain["json"])
    assert list(ours) == list(theirs)
    for path, info in theirs.items():
        told = [*OF_ALL]
        hooked = path and info["input_shapes"] and info["type"] not in NOT_HOOKED
        if hooked and "share" not in chain:  # of a shared layer it told the last call in every place
            told += OF_HOOKED
        for field in told:
            assert ours[path][field] == info[field], (path, field)


@observed
def test_every_field_is_there():
    layers = watched(nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True)), step).layers[0]
    for info in infos(layers).values():
        assert list(info) == FIELDS
        assert info["calls"] == 1
        assert info["forward_latency"] > 0
        assert info["backward_latency"] > 0


def step(model, *shape):
    model(torch.rand(shape or (2, 3))).sum().backward()


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple, dict)):
        return [t for part in (value.values() if isinstance(value, dict) else value) for t in tensors(part)]
    return []


def gradients_by_hooks(model, x):
    """How many gradients came to each layer's inputs and outputs, told by hooks on the tensors."""
    came = {}

    def note(key, value):
        for tensor in tensors(value):
            if tensor.requires_grad:
                tensor.register_hook(lambda grad: came.__setitem__(key, came.get(key, 0) + 1))

    handles = []
    for path, module in model.named_modules():
        before, after = (path, "grad_in_shape"), (path, "grad_out_shape")
        handles.append(module.register_forward_pre_hook(lambda m, args, k=before: note(k, args)))
        handles.append(module.register_forward_hook(lambda m, args, out, k=after: note(k, out)))
    model(x).sum().backward()
    for handle in handles:
        handle.remove()
    model.zero_grad()
    return came


@observed
@pytest.mark.parametrize(
    "name",
    ["alexnet", "squeezenet1_1", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "densenet121"],
)
def test_gradients_are_those_that_flow(name, zoo):
    model, x = zoo(name).eval(), torch.rand(1, 3, 64, 64)
    came = gradients_by_hooks(model, x)
    layers = watched(model, lambda model: model(x).sum().backward()).layers[0]
    model.zero_grad()
    seen = infos(layers)
    assert sorted(seen) == sorted(path for path, _ in model.named_modules())
    for path, info in seen.items():
        for field in ("grad_in_shape", "grad_out_shape"):
            assert len(info[field]) == came.get((path, field), 0), (path, field)
        assert len(info["grad_out_shape"]) <= len(info["output_shapes"])


@observed
def test_tuple_outputs(zoo):
    model = zoo("vit_b_16").eval()
    seen = infos(watched(model, lambda m: m(torch.rand(1, 3, 224, 224)).sum().backward()).layers[0])
    model.zero_grad()
    attention = seen["encoder.layers.encoder_layer_0.self_attention"]
    assert attention["input_shapes"] == [[1, 197, 768]] * 3
    assert attention["grad_in_shape"] == [[1, 197, 768]] * 3
    assert attention["grad_out_shape"] == [[1, 197, 768]]
    assert seen["encoder.layers.encoder_layer_0.self_attention.out_proj"]["calls"] == 0


@observed
def test_where_nan_is_born():
    torch.manual_seed(0)
    spoil = Calls(lambda self, x: x / (x - x) - x / (x - x))
    net = nn.Sequential(nn.Linear(3, 3), spoil, nn.Linear(3, 3), nn.ReLU())
    x = torch.rand(2, 3, requires_grad=True)
    seen = infos(watched(net, lambda net: net(x).sum().backward()).layers[0])
    told = [[seen[p][f] for f in ("forward_nan", "grad_in_nan", "grad_out_nan")] for p in ("0", "1", "2")]
    assert told[0] == [False, True, True]
    assert told[1][0]
    assert told[1][1]
    assert told[2][0]
    assert seen[""]["forward_nan"]
    assert seen["3"]["forward_nan"]


@observed
def test_gradients_of_a_view_that_is_written_to_are_unknown():
    spoil = Calls(lambda self, x: x.mul_(0).sqrt_())
    net = nn.Sequential(nn.Linear(4, 4), nn.Flatten(0, 1), spoil, nn.Linear(4, 2))
    seen = infos(watched(net, lambda net: net(torch.rand(2, 4, 4)).sum().backward()).layers[0])
    assert not net[0].weight.grad.isfinite().all()
    assert seen["0"]["grad_out_nan"] is not False  # True if this torch's Linear returns no view
    assert [seen[p]["grad_out_nan"] for p in "123"] == [None, False, False]
    assert seen["1"]["grad_out_shape"] == [[8, 4]]


@observed
def test_an_input_that_keeps_its_gradient():
    net, x = nn.Linear(3, 3), torch.rand(2, 3, requires_grad=True)
    first = info_of(watched(net, lambda net: net(x).sum().backward()).layers[0])
    assert first["grad_in_shape"] == [[2, 3]]
    assert first["grad_in_nan"] is False
    again = info_of(watched(net, lambda net: net(x).sum().backward()).layers[0])
    assert again["grad_in_shape"] == [[2, 3]]
    assert again["grad_in_nan"] is None  # it was added to what was there
    assert info_of(watched(net, lambda net: net(x)).layers[0])["grad_in_shape"] == []


@observed
def test_an_input_whose_gradient_can_not_be_read():
    class Refuses(torch.Tensor):
        @property
        def grad(self):
            raise RuntimeError("not to be had")

    net, x = nn.Linear(3, 3), torch.rand(2, 3).as_subclass(Refuses).requires_grad_()
    info = info_of(watched(net, lambda net: net(x).sum().backward()).layers[0])
    assert [info[name] for name in ("grad_in_shape", "grad_out_shape")] == [[], [[2, 3]]]


@measured
@observed
def test_memory_is_what_was_retained():
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1))
    gadgets = watched(net, lambda net: step(net, 16, 64))
    seen, memory = infos(gadgets.layers[0]), gadgets.report.memory
    for path, info in seen.items():
        row = memory[path]
        assert info["effective_additional_memory_fwd"] == row.total_forward.retained / 1e6
        assert info["effective_additional_memory_bwd"] == row.total_backward.retained / 1e6
    assert seen["0"]["effective_additional_memory_fwd"] == 16 * 256 * 4 / 1e6
    assert seen[""]["effective_additional_memory_bwd"] == seen[""]["gradient_memory_usage"]


@observed
def test_latencies_are_inclusive_and_summed():
    net = nn.Sequential(nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 64))
    gadgets = watched(net, lambda net: [step(net, 8, 64) for _ in range(3)])
    rows = [row for row in gadgets.report.rows if row.event >= 0]
    for path, info in infos(gadgets.layers[0]).items():
        assert info["calls"] == 3
        for phase in ("forward", "backward"):
            whole = sum(getattr(row.time, phase).total for row in rows if row.path == path)
            assert info[f"{phase}_latency"] == whole / 1e6
    seen = infos(gadgets.layers[0])
    assert seen[""]["forward_latency"] >= seen["0"]["forward_latency"] + seen["1"]["forward_latency"]


def test_real_item_sizes():
    net = nn.Linear(3, 5).to(torch.bfloat16)
    info = info_of(watched(net, lambda net: net(torch.rand(2, 3).to(torch.bfloat16))).layers[0])
    assert info["input_memory_usage"] == [12 / 1e6]
    assert info["output_memory_usage"] == [20 / 1e6]
    assert info["param_memory_usage"] == 40 / 1e6
    assert info["total_memory"] == 92 / 1e6


def test_the_last_run_tells_the_shapes():
    shared = nn.Linear(3, 3)
    net = nn.Sequential(shared, nn.ReLU(), shared)
    seen = infos(watched(net, lambda net: [net(torch.rand(n, 3)) for n in (5, 2)]).layers[0])
    assert seen[""]["input_shapes"] == [[2, 3]]
    assert seen["1"]["calls"] == 2
    assert seen["0"]["num_parameters"] == seen[""]["num_parameters"] == 12


class SharedBetweenParents(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 3))
        self.blk = nn.ModuleList([self.a, nn.ReLU(), nn.Tanh()])

    def forward(self, x):
        return self.blk[1](self.blk[0](self.a(x)))


def test_a_layer_in_two_parents_is_told_once_and_never_as_not_called():
    seen = infos(watched(SharedBetweenParents(), step).layers[0])
    assert (seen["a"]["calls"], seen["a.0"]["calls"]) == (2, 2)
    for path, first in {"blk.0": "a", "blk.0.0": "a.0"}.items():
        assert seen[path]["same_as"] == first
        for field in ("calls", "input_shapes", "forward_latency", "forward_nan"):
            assert seen[path][field] is None
        assert seen[path]["num_parameters"] == 12
    assert seen["blk.1"]["calls"] == 1
    assert seen["blk.2"]["calls"] == 0  # nobody called it
    assert [path for path, info in seen.items() if "same_as" in info] == ["blk.0", "blk.0.0"]


def test_watch_depth():
    net = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(3, 3))))
    for depth, paths in ((0, {""}), (1, {"", "0"}), (-1, {"", "0", "0.0", "0.0.0"})):
        seen = infos(watched(net, lambda net: net(torch.rand(1, 3)), watch_depth=depth).layers[0])
        assert set(seen) == paths
        assert seen[""]["num_parameters"] == 12
    with pytest.raises(ValueError, match="watch_depth=-2"):
        InspectorGadgets(net, watch_depth=-2)


def test_what_is_not_watched_is_null():
    net = nn.Linear(3, 3)
    info = info_of(watched(net, step, watch_backward=False).layers[0])
    assert info["grad_out_shape"] is info["backward_latency"] is info["grad_out_nan"] is None
    assert info["forward_latency"] > 0
    info = info_of(watched(net, step, watch_forward=False).layers[0])
    assert info["input_shapes"] is info["forward_latency"] is info["forward_nan"] is None


def test_without_parameters():
    net = nn.Sequential(nn.ReLU(inplace=True), nn.MaxPool2d(2))
    info = info_of(watched(net, lambda net: net(torch.rand(1, 3, 8, 8))).layers[0])
    assert (info["num_parameters"], info["param_memory_usage"]) == (0, 0.0)


def test_lazy_layers():
    net = nn.Sequential(nn.LazyLinear(3))
    info = info_of(watched(net, lambda net: None).layers[0])
    assert info["num_parameters"] is None
    assert info["total_memory"] is None
    info = info_of(watched(net, lambda net: net(torch.rand(2, 5))).layers[0])
    assert info["num_parameters"] == 18


def test_meta_tensors():
    net = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.ReLU(inplace=True))
    info = info_of(watched(net, lambda net: net(torch.empty(2, 3, device="meta"))).layers[0])
    assert info["output_shapes"] == [[2, 4]]
    assert info["forward_nan"] is None
    assert info["effective_additional_memory_fwd"] is None
    assert info["num_parameters"] == 16


@observed
def test_lstm_and_transformer():
    x = torch.rand(4, 2, 16)
    seen = infos(watched(nn.LSTM(16, 8), lambda net: net(x)[0].sum().backward()).layers[0])
    assert seen[""]["output_shapes"] == [[4, 2, 8], [1, 2, 8], [1, 2, 8]]
    assert seen[""]["grad_out_shape"] == [[4, 2, 8]]
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
    seen = infos(watched(layer, lambda net: net(x).sum().backward()).layers[0])
    assert seen["linear1"]["grad_in_shape"] == [[4, 2, 16]]
    assert seen["self_attn"]["calls"] == 1


def test_files(tmp_path):
    first, second = nn.Linear(2, 2), nn.Linear(2, 3)
    file = tmp_path / "new" / "folder" / "run.v1.txt"
    for _ in range(2):  # a file of the same model is replaced
        gadgets = watched([first, second], lambda both: second(first(torch.rand(1, 2))), save_file=file)
        names = sorted(path.name for path in file.parent.iterdir())
        assert names == ["run.v1_Linear.json", "run.v1_Linear_2.json"]
    for name, layers, out in zip(names, gadgets.layers, (2, 3), strict=True):
        assert json.loads((file.parent / name).read_text()) == layers
        assert info_of(layers)["output_shapes"] == [[1, out]]
    assert [report.params for report in gadgets.reports] == [6, 9]
    with pytest.raises(ValueError, match="2 models"):
        assert gadgets.report
    watched(nn.Linear(2, 2), lambda net: None, save_file=file)
    assert (file.parent / "run.v1_Linear_3.json").exists()


def test_text_is_indented_by_four(tmp_path):
    watched(nn.Sequential(nn.Linear(2, 2)), lambda net: None, save_file=tmp_path / "a")
    lines = (tmp_path / "a_Sequential.json").read_text().splitlines()
    assert lines[:4] == [
        "{",
        '    "Sequential": {',
        '        "info": {',
        '            "type": "Sequential",',
    ]
    assert lines[-1] == "}"


def test_by_hand_and_by_old_names():
    net = nn.Linear(3, 3)
    gadgets = lamina.InspectorGadgets(net)
    with pytest.raises(RuntimeError, match="start"):
        gadgets.finish()
    for call in (gadgets.start, gadgets.initialize_hooks, gadgets.start_timer, gadgets.forward_mode):
        call()
    with pytest.raises(RuntimeError, match="before finish"):
        assert gadgets.layers
    y = net(torch.rand(2, 3))
    gadgets.backward_mode()
    assert gadgets.mode == "backward"
    y.sum().backward()
    gadgets.remove_forward_hooks()
    net(torch.rand(4, 3))
    gadgets.remove_backward_hooks()
    net(torch.rand(5, 3))
    gadgets.finish()
    gadgets.finish()
    assert info_of(gadgets.layers[0])["calls"] == 2
    gadgets.start()  # from nothing
    gadgets.finish()
    assert info_of(gadgets.layers[0])["calls"] == 0


def test_refused():
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        InspectorGadgets("net")
    with pytest.raises(ValueError, match="no model"):
        InspectorGadgets([])
    with pytest.raises(ValueError, match="watch_depth='2'"):
        InspectorGadgets(nn.ReLU(), watch_depth="2")
    with pytest.raises(TypeError):
        InspectorGadgets(nn.ReLU(), save_file=3)


def test_a_model_that_is_there_twice_is_watched_once():
    net = nn.Linear(2, 2)
    gadgets = watched([net, net], lambda both: step_small(both[0]))
    assert [info_of(layers)["calls"] for layers in gadgets.layers] == [1]


def test_the_inside_of_a_scripted_module_is_not_known():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    seen = infos(watched(nn.Sequential(scripted, nn.ReLU()), step_small).layers[0])
    assert seen["0"]["calls"] == seen["1"]["calls"] == 1
    inside = seen["0.0"]
    assert (inside["type"], inside["num_parameters"]) == ("Linear", 6)
    for field in ("calls", "input_shapes", "output_shapes", "grad_in_shape", "forward_latency", "forward_nan",
                  "effective_additional_memory_fwd", "backward_latency", "total_memory"):  # fmt: skip
        assert inside[field] is None, field


def test_what_another_thread_called_is_not_known():
    def forward(self, x):
        found = []
        in_thread(lambda: found.append(self.there(x)))
        return found[0]

    net = Calls(forward, there=nn.Sequential(nn.Linear(4, 4)), unused=nn.Linear(4, 4))
    with InspectorGadgets(net) as gadgets:
        net(torch.ones(1, 4)).sum().backward()
    layers = gadgets.layers[0]["Calls"]["children"]
    for layer in (layers["there"], layers["there"]["children"]["0"]):
        for key in (
            "calls",
            "forward_latency",
            "backward_latency",
            "forward_nan",
            "grad_in_nan",
            "input_shapes",
        ):
            assert layer["info"][key] is None, key
    assert layers["unused"]["info"]["calls"] == 0


def test_the_blocks_own_exception_is_the_one_that_is_raised(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    net = nn.Linear(2, 2)
    with (
        pytest.raises(ZeroDivisionError),
        InspectorGadgets(net, save_file=tmp_path / "file" / "a") as gadgets,
    ):
        step_small(net)
        raise ZeroDivisionError
    assert info_of(gadgets.layers[0])["calls"] == 1
    assert capsys.readouterr().err.startswith("lamina: the file could not be written: ")
    with pytest.raises(OSError), InspectorGadgets(net, save_file=tmp_path / "file" / "a") as gadgets:
        step_small(net)
    assert info_of(gadgets.layers[0])["calls"] == 1


def test_what_raises_is_told_and_nothing_stays(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4))
    before = pickle.dumps(net.state_dict()), torch.nn.Module.__call__
    with (
        pytest.raises(RuntimeError, match="shape"),
        InspectorGadgets(net, save_file=tmp_path / "a") as gadgets,
    ):
        net(torch.rand(2, 3))
    assert (tmp_path / "a_Sequential.json").exists()
    seen = infos(gadgets.layers[0])
    assert seen["0"]["forward_nan"] is False
    assert seen[""]["forward_nan"] is None
    assert (pickle.dumps(net.state_dict()), torch.nn.Module.__call__) == before
    assert not any(m._forward_hooks or m._backward_hooks for m in net.modules())


def test_a_deep_tree_is_written():
    net = nn.Linear(1, 1)
    for _ in range(300):
        net = nn.Sequential(net)
    gadgets = watched(net, lambda net: None)
    text = gadgets._text_of(gadgets._captures[0])
    assert text.count(b'"info"') == 301
    assert len(text) < 301 * 22 * 400


def test_models_are_not_kept(tmp_path):
    model = nn.Linear(2, 2)
    gadgets = watched(model, step_small, save_file=tmp_path / "a")
    gone = [weakref.ref(model), weakref.ref(gadgets)]
    del model, gadgets
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def step_small(model):
    model(torch.rand(1, 2)).sum().backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True)).to("cuda:0")
    seen = infos(watched(net, lambda net: net(torch.rand(2, 3, device="cuda:0")).sum().backward()).layers[0])
    assert seen[""]["effective_additional_memory_fwd"] is None
    assert seen["1"]["grad_in_shape"] == [[2, 4]]
    assert seen[""]["grad_out_nan"] is False
    assert math.isfinite(seen["0"]["backward_latency"])


def test_more_models_than_can_be_watched_are_refused():
    nets = [nn.Linear(2, 2) for _ in range(9)]
    with pytest.raises(ValueError, match="there are 9 models, and 8 can be watched at a time"):
        InspectorGadgets(nets)
    with pytest.raises(ValueError, match="watch_depth="):
        InspectorGadgets(nets[0], watch_depth=10**30)
    with lamina.capture(nets[8]):
        gadgets = InspectorGadgets(nets[:8])
        with pytest.raises(lamina.LaminaError, match="8 captures are open"):
            gadgets.start()
    with pytest.raises(RuntimeError, match="nothing was watched yet"):
        gadgets.finish()
    with InspectorGadgets(nets[:8]) as gadgets:
        nets[7](torch.ones(1, 2))
    assert len(gadgets.layers) == 8


def test_each_rank_writes_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in ("0", "2"):
        monkeypatch.setenv("RANK", rank)
        with InspectorGadgets(nn.Linear(2, 2), save_file=tmp_path / "run.json"):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run_Linear.0.json", "run_Linear.2.json"]
