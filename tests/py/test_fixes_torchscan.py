# SPDX-License-Identifier: Apache-2.0
"""What torchscan 0.1.2 got wrong or could not do, one test each; and what it did and must stay."""

from __future__ import annotations

import warnings

import nets
import pytest
import torch
from torch import nn

import lamina
from lamina.torchscan import crawler, modules, process, utils


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def crawl(net, shape=(4,), dtype=None):
    return lamina.crawl_module(net, shape, dtype)


def rows(net, *args, convention="torchscan", **options):
    return {row.path: row for row in lamina.inspect(net, args, convention=convention, **options).rows}


def x(*shape):
    return torch.rand(*(shape or (1, 4)))


# -- the dict ------------------------------------------------------------------------------------------------


def test_input_shape_keeps_its_channels():
    assert crawl(nn.Conv2d(3, 8, 3), (3, 32, 32))["layers"][0]["input_shape"] == (-1, 3, 32, 32)


def test_no_parameters():
    info = crawl(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), (3, 8, 8))
    assert [layer["flops"] for layer in info["layers"]] == [0, 192, 48]


def test_fewer_dtypes_than_inputs_is_said():
    with pytest.raises(ValueError, match="2 input shapes and 1 dtypes"):
        crawl(nets.TwoInputs(), [(4,), (4,)], [torch.float32])


def test_dtype_for_each_input():
    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.fc = nn.Embedding(3, 4), nn.Linear(4, 4)

        def forward(self, ids, x):
            return self.fc(x) + self.table(ids).sum()

    assert len(crawl(Lookup(), [(2,), (4,)], [torch.int64, torch.float32])["layers"]) == 3


def test_summary_takes_a_dtype(capsys):
    lamina.summary(nn.Embedding(10, 4), (5,), dtype=torch.int64)
    assert "Embedding" in capsys.readouterr().out


def test_summary_returns_the_report(capsys):
    report = lamina.summary(nn.Linear(4, 4), (4,))
    assert report.macs == 16
    assert report.convention == "torchscan"


def test_style_lamina(capsys):
    lamina.summary(nets.Repeats(), (4,), style="lamina")
    assert "fc" in capsys.readouterr().out


# -- what used to raise --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda t: {"out": t}, lambda o: o["out"]),
        (lambda t: (t, t), lambda o: o[0]),
        (lambda t: None, lambda o: torch.zeros(1, 4)),
        (lambda t: [t], lambda o: o[0]),
    ],
    ids=["dict", "tuple", "None", "list"],
)
def test_any_output(wrap, unwrap):
    info = crawl(nets.Wraps(wrap, unwrap))
    assert [layer["name"] for layer in info["layers"]] == ["wraps", "inner", "fc", "head"]


def test_keywords_only():
    found = rows(nets.Repeats(1), x())
    report = lamina.inspect(nets.Keywords(), (), {"x": x()}, convention="torchscan")
    assert found["fc"].macs == 16
    assert report.macs == 12


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_as_a_word(padding, capsys):
    report = lamina.summary(nn.Conv2d(3, 6, 3, padding=padding), (3, 10, 10), receptive_field=True)
    (row,) = report.rows
    assert (row.rf, row.rf_padding) == (3, 1 if padding == "same" else 0)


def test_kernel_as_a_list():
    pool = nn.MaxPool2d([2, 2])
    assert modules.module_flops(pool, (x(1, 3, 8, 8),), x(1, 3, 4, 4)) == 144


def test_batch_norm_without_running_statistics():
    norm = nn.BatchNorm2d(8, track_running_stats=False)
    count = modules.module_dmas(norm, x(2, 8, 6, 6), x(2, 8, 6, 6))
    assert (count.state, int(count)) == ("exact", 1170)  # as torchscan 0.2.0 has it


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.LSTM(4, 5), (3, 4)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (5, 8)),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (5, 8)),
    ],
    ids=["LSTM", "TransformerEncoderLayer", "TransformerEncoder"],
)
@pytest.mark.parametrize("train", [False, True])
def test_recurrent_and_attention(make, shape, train):
    assert crawl(make().train(train), shape)["layers"]


def test_multihead_attention_and_transformer():
    attention = lamina.inspect(nn.MultiheadAttention(8, 2), (x(3, 2, 8),) * 3, convention="torchscan")
    assert attention.flops.state != "exact"
    both = lamina.inspect(nn.Transformer(8, 2, 1, 1, 16), (x(3, 2, 8), x(3, 2, 8)), convention="torchscan")
    assert both.flops.state != "exact"


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.attn(x, x, x)[0] * self.scale)


def test_a_layer_that_calls_no_layer_in_it_is_unknown(capsys):
    with pytest.warns(UserWarning, match="MultiheadAttention"):
        lamina.summary(Attends(), (5, 8))
    assert ">= 160.00 MACs" in capsys.readouterr().out
    _, attention, fc = crawl(Attends(), (5, 8))["layers"]
    assert (attention["macs"].state, fc["macs"], fc["macs"].state) == ("unknown", 160, "exact")


def test_transformers_released_formula_is_a_bound_that_warns_and_never_a_rule():
    net = nn.Transformer(16, 4, 1, 1, 32, dropout=0.0)
    with pytest.warns(UserWarning, match="Transformer"):
        count = modules.module_flops(net, (x(6, 2, 16),) * 2, x(6, 2, 16))
    assert (int(count), count.state) == (94754, "at least")
    assert lamina.inspect(net, (x(6, 2, 16),) * 2, convention="torchscan").flops.state != "exact"


def test_parametrized_layer_is_still_a_layer():
    conv = torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3))
    info = crawl(nn.Sequential(conv), (3, 8, 8))
    assert rows(nn.Sequential(conv), x(1, 3, 8, 8))["0"].macs == 7776
    assert sum(layer["macs"] for layer in info["layers"]) in (0, 7776)  # a leaf no more, as torchscan sees it


def test_old_weight_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conv = torch.nn.utils.weight_norm(nn.Conv2d(3, 8, 3))
    assert crawl(conv, (3, 8, 8))["layers"][0]["macs"] == 7776


def test_container_without_called_children_at_max_depth(capsys):
    lamina.summary(nets.Skips(), (4,), max_depth=1)
    info = utils.aggregate_info(crawl(nets.Skips()), 1)
    assert [layer["name"] for layer in info["layers"]] == ["skips", "block"]
    assert "block" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_scripted_and_traced(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.Linear(4, 4)
        compiled = torch.jit.script(layer) if kind == "script" else torch.jit.trace(layer, x())
    report = lamina.inspect(nn.Sequential(compiled, nn.Linear(4, 2)), (x(),), convention="torchscan")
    assert report.params == 30
    assert report.flops.state != "exact"
    assert any(
        "script" in gap or "traced" in gap or "opaque" in gap or "inside" in gap for gap in report.gaps
    )


# -- what used to be lost or wrong ---------------------------------------------------------------------------


def test_every_call_is_counted_by_inspect_and_the_first_by_the_drop_in():
    assert sum(layer["macs"] for layer in crawl(nets.Repeats())["layers"]) == 16
    assert lamina.inspect(nets.Repeats(), (x(),), convention="torchscan").macs == 48


def test_the_second_parent_is_named():
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential())
    net[1].add_module("again", net[0][0])
    report = lamina.inspect(net, (x(),), convention="torchscan")
    assert [row.path for row in report.rows if row.type == "Linear"] == ["0.0", "1.again"]
    assert report.params == 20


def test_one_object_twice_in_one_parent():
    layer = nn.Linear(4, 4)
    net = nn.Sequential(layer, layer)
    assert sum(layer["macs"] for layer in crawl(net)["layers"]) == 16
    assert lamina.inspect(net, (x(),), convention="torchscan").macs == 32


def test_a_users_pre_hook_hides_no_call():
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential())
    net[1].add_module("again", net[0][0])
    seen = []
    handle = net[0][0].register_forward_pre_hook(lambda module, args: seen.append(1))
    info = crawl(net)
    handle.remove()
    assert sum(layer["type"] == "Linear" for layer in info["layers"]) == 2
    assert seen == [1, 1]


def test_parameters_of_a_container_have_a_row():
    report = lamina.inspect(nets.Owner(), (x(),), convention="torchscan")
    assert report.params == 48
    assert sum(row.params for row in report.rows) == 48


def test_weights_used_without_a_call_are_no_secret():
    report = lamina.inspect(nets.Borrows(), (x(),), ops=False)
    assert report.macs.state == "at least"
    assert any("qkv" in line or "Borrows" in line for line in [*report.gaps, str(report)])


def test_functional_work_is_not_0():
    report = lamina.inspect(nets.Functional(), (x(),), ops=False)
    assert report.macs.state != "exact"
    assert report.params == 12


def test_modules_never_called_are_listed():
    report = lamina.inspect(nets.Unused(), (x(),), convention="torchscan")
    never = {row.path for row in report.rows if row.never_called}
    assert {"spare", "several.0"} <= never or {"spare", "several"} <= never
    assert "never" in str(report)


def test_train_mode_keeps_its_formulas_and_leaves_the_statistics():
    net = nn.BatchNorm2d(4).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    (layer,) = crawl(net, (4, 6, 6))["layers"]
    assert layer["flops"] == 2 * 4 + 4 * 144 + 4 * 144 + 6 * 4
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_unbatched_convolution_has_its_own_channels():
    conv = nn.Conv2d(3, 6, 3)
    report = lamina.inspect(conv, (x(3, 10, 10),), convention="torchscan")
    assert report.macs == 6 * 8 * 8 * 27
    assert modules.module_macs(conv, x(3, 10, 10), x(6, 8, 8)) == 34560  # as released


def test_receptive_field_of_an_encoder_and_decoder_is_not_negative():
    net = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ConvTranspose2d(4, 1, 2, 2))
    found = rows(net, x(1, 1, 28, 28), convention="layers")
    assert found["1"].rf > 0


def test_linear_after_flatten_sees_everything():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 6 * 6, 3))
    assert rows(net, x(1, 1, 8, 8), convention="layers")["2"].rf >= 8


def test_receptive_field_of_branches_is_not_defined():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (
                nn.Conv2d(1, 1, 3, padding=1),
                nn.Conv2d(1, 1, 5, padding=2),
                nn.Conv2d(1, 1, 3),
            )

        def forward(self, x):
            return self.c(self.a(x) + self.b(x))

    assert rows(Residual(), x(1, 1, 9, 9), convention="layers")["c"].rf_state == "unknown"


# -- text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["end", "mid"])
def test_the_marker_is_whole(mode):
    text = utils.wrap_string("a_rather_long_name_of_a_layer", 15, mode=mode)
    assert "[...]" in text


def test_wrap_string_and_format_s():
    assert utils.wrap_string("layer.0.conv.something", 10) == "layer[...]"
    assert utils.wrap_string("a.b", 10) == "a.b"
    assert utils.wrap_string("abc", 10, mode="bad") == "abc"
    with pytest.raises(ValueError):
        utils.wrap_string("abcdefghijk", 10, mode="bad")
    assert (utils.format_s("abc", 5, 7), utils.format_s("abcdef", None, 3), utils.format_s("abc")) == (
        "abc  ",
        "abc",
        "abc",
    )


def test_unit_scale():
    given = (0, 999, 1000, 2.5e9, 1e12, -5000)
    assert [utils.unit_scale(v) for v in given] == [
        (0, ""),
        (999, ""),
        (1, "k"),
        (2.5, "G"),
        (1, "T"),
        (-5000, ""),
    ]


def test_format_name_of_an_absurd_depth():
    with pytest.raises(lamina.LaminaError, match="no tree is deeper"):
        utils.format_name("n", 2**31 - 1)
    layer = {"name": "n", "depth": 2**40, "type": "Linear", "output_shape": (-1, 2), "grad_params": 0}
    layer |= {"nograd_params": 0, "num_buffers": 0, "rf": 1, "s": 1, "p": 0}
    with pytest.raises(lamina.LaminaError, match="no tree is deeper"):
        utils.format_line_str(layer)


def test_format_name():
    assert [utils.format_name("n", depth) for depth in range(4)] == ["n", "├─n", "|    └─n", "|    |    └─n"]


def test_format_line_str():
    layer = crawl(nn.Sequential(nn.Conv2d(3, 8, 3)), (3, 8, 8))["layers"][1]
    assert utils.format_line_str(layer) == ["├─0", "Conv2d", "(-1, 8, 6, 6)", "224"]
    assert utils.format_line_str(layer, [8, 9, 10, 11, 12, 13, 14], "mid", True, True) == [
        "├─0     ",
        "Conv2d   ",
        "(-1, 8, 6,",
        "224        ",
        "3           ",
        "1            ",
        "0             ",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"receptive_field": True},
        {"receptive_field": True, "effective_rf_stats": True, "wrap_mode": "end"},
    ],
)
def test_format_info_is_what_summary_prints(options, capsys):
    net = nn.Sequential(nets.block(), nn.Flatten(), nn.Linear(4 * 36, 5))
    lamina.summary(net, (3, 8, 8), **options)
    assert utils.format_info(crawl(net, (3, 8, 8)), **options) == capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_aggregate_info_is_what_summary_aggregates(depth, capsys):
    net = nn.Sequential(nets.block(), nn.Flatten(), nn.Linear(4 * 36, 5))
    lamina.summary(net, (3, 8, 8), max_depth=depth, receptive_field=True)
    info = crawl(net, (3, 8, 8))
    assert utils.aggregate_info(info, depth) is info
    assert utils.format_info(info, receptive_field=True) == capsys.readouterr().out.rstrip("\n")


def test_helpers_take_dicts_made_by_hand():
    layer = {
        "name": "a",
        "depth": 0,
        "type": "T",
        "output_shape": (-1, 2),
        "grad_params": 1,
        "nograd_params": 0,
    }
    layer |= {
        "num_buffers": 0,
        "param_size": 4,
        "buffer_size": 0,
        "flops": 5,
        "macs": 2,
        "dmas": 3,
        "is_leaf": True,
    }
    layer |= {"rf": 1, "s": 1, "p": 0}
    overall = {"grad_params": 1, "nograd_params": 0, "param_size": 4, "num_buffers": 0, "buffer_size": 0}
    zero = {"pre": 0.0, "fwd": 0.0}
    info = {
        "overheads": {"cuda": zero, "framework": {"pre": 0.0, "fwd": 1.5}},
        "layers": [layer],
        "overall": overall,
    }
    text = utils.format_info(info)
    assert "Framework & CUDA overhead: 1.50 Mb" in text
    assert "Floating Point Operations on forward: 5.00 FLOPs" in text


@pytest.mark.parametrize("depth", [-1, 7])
def test_max_depth_beyond_the_tree(depth):
    with pytest.raises(ValueError, match="1"):
        lamina.summary(nn.Sequential(nn.ReLU()), (4,), max_depth=depth)
    with pytest.raises(ValueError, match="1"):
        utils.aggregate_info(crawl(nn.Sequential(nn.ReLU())), depth)


def test_max_depth_true_is_1(capsys):
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    assert len(lamina.summary(net, (4,), max_depth=True).rows) == len(
        lamina.summary(net, (4,), max_depth=1).rows
    )


# -- what must stay ------------------------------------------------------------------------------------------


def test_apply_visits_parents_first():
    seen = []
    net = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
    crawler.apply(net, lambda module, name: seen.append((type(module).__name__, name)))
    assert seen == [
        ("Sequential", "sequential"),
        ("ReLU", "sequential.0"),
        ("Sequential", "sequential.1"),
        ("ReLU", "sequential.1.0"),
    ]


def test_two_inputs():
    assert crawl(nets.TwoInputs(), [(4,), (4,)])["layers"][1]["macs"] == 8


def test_a_bare_size_is_refused():
    with pytest.raises(TypeError, match=r"\(3, 224, 224\)"):
        crawl(nn.Linear(4, 4), [4])


def test_tied_and_frozen():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    net[0].bias.requires_grad_(False)
    first, second = crawl(net)["layers"][1:]
    assert (first["grad_params"], first["nograd_params"], first["is_shared"]) == (16, 4, False)
    assert (second["grad_params"], second["nograd_params"], second["is_shared"]) == (4, 0, True)


def test_overheads_are_what_a_gpu_holds_beyond_tensors(monkeypatch):
    """Of 100 MiB of the process, torch's allocator holds 30, of which tensors use 20."""
    if torch.cuda.is_available():
        torch.cuda.init()
    told = {"is_initialized": True, "memory_reserved": 30 << 20, "memory_allocated": 20 << 20}
    for name, value in told.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(crawler, "get_process_gpu_ram", lambda _: 100.0)
    overheads = crawl(nn.ReLU())["overheads"]
    assert overheads == {"cuda": {"pre": 70.0, "fwd": 70.0}, "framework": {"pre": 10.0, "fwd": 10.0}}


def test_gpu_memory_without_a_gpu(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="nvidia-smi"):
            process.get_process_gpu_ram(1)
    assert process.get_process_gpu_ram(1) == 0.0


def test_gpu_memory_of_one_process(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '12, 300'\necho '7, 100'\necho '12, 24'\necho '13, [N/A]'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert [process.get_process_gpu_ram(pid) for pid in (12, 7, 13, 99)] == [324.0, 100.0, 0.0, 0.0]
