# SPDX-License-Identifier: Apache-2.0
"""The weights of two files against each other: as torch computes it, in any mix of formats."""

import _thread
import json
import os
import signal
import struct
import threading
import zipfile

import pytest
import torch
from torch import nn

import lamina
from lamina._command.cli import main

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
}


def safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = [len(data), len(data) + len(values)]
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def saved(path, state, **options):
    torch.save(state, path, **options)
    return path


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 4))


def test_numbers_are_those_of_torch(tmp_path, net):
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        net[0].weight.add_(torch.randn_like(net[0].weight) * 0.01)
        net[3].weight[1, 7] += 2
    after = net.state_dict()
    diff = lamina.diff_weights(safetensors(tmp_path / "a", before), saved(tmp_path / "b", after))
    assert {change.name for change in diff.tensors} == {"0.weight", "3.weight"}
    for change in diff.tensors:
        was, now = before[change.name].double(), after[change.name].double()
        numbers = change.numbers
        assert numbers.norm == pytest.approx((now - was).norm().item(), rel=1e-8)
        assert numbers.relative == pytest.approx(((now - was).norm() / was.norm()).item(), rel=1e-8)
        assert numbers.largest == pytest.approx((now - was).abs().max().item(), rel=1e-8)
        assert numbers.elements_differ == int((now != was).sum())
    assert [module.path for module in diff.modules] == ["3", "0"]
    assert (diff.total.changed, diff.total.equal) == (2, len(before) - 2)
    assert diff and "2 tensors changed" in str(diff)


@pytest.mark.parametrize("dtype", [*NAMES][:-1])
def test_a_rounded_copy_has_the_error_of_its_type(tmp_path, dtype):
    value = torch.randn(37, 41)
    was, now = safetensors(tmp_path / "a", {"w": value}), safetensors(tmp_path / "b", {"w": value.to(dtype)})
    (change,) = lamina.diff_weights(was, now).tensors or [None]
    if dtype == torch.float32:
        assert change is None
        return
    error = (value.to(dtype).double() - value.double()).norm() / value.double().norm()
    assert change.numbers.relative == pytest.approx(error.item(), rel=1e-8, abs=1e-12)
    assert (change.before_type, change.type) == ("float32", str(dtype).removeprefix("torch."))


def test_every_format_has_the_same_values(tmp_path, net):
    state = net.state_dict()
    files = [
        safetensors(tmp_path / "st", state),
        saved(tmp_path / "zip", state),
        saved(tmp_path / "legacy", state, _use_new_zipfile_serialization=False),
        saved(tmp_path / "nested", {"state_dict": state, "epoch": 3}),
    ]
    shards = tmp_path / "shards"
    shards.mkdir()
    names = {name: f"{i % 2}.safetensors" for i, name in enumerate(state)}
    for shard in set(names.values()):
        safetensors(shards / shard, {name: state[name] for name in state if names[name] == shard})
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    files.append(shards)
    for a in files:
        for b in files:
            diff = lamina.diff_weights(a, b)
            assert not diff
            assert diff.total.equal == len(state)
            assert str(diff).endswith(f"Nothing differs: {len(state)} tensors are equal.") or diff.notes


@pytest.mark.parametrize("zipped", [True, False])
def test_views_are_read_in_the_order_of_their_elements(tmp_path, zipped):
    base = torch.arange(3.0 * 4 * 5 * 6).reshape(3, 4, 5, 6)
    views = {
        "turned": base.permute(2, 0, 3, 1),
        "strided": base[:, 1::2, :, 2:5],
        "column": base[..., 3],
        "one": base[2, 3, 4, 5],
        "none": base[:, 4:],
    }
    views["images"] = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    ours = saved(tmp_path / "a", views, _use_new_zipfile_serialization=zipped)
    plain = safetensors(tmp_path / "b", views)
    diff = lamina.diff_weights(ours, plain)
    assert (bool(diff), diff.total.equal) == (False, len(views)), str(diff)
    views["turned"] = views["turned"].clone()
    views["turned"][4, 2, 5, 3] += 8
    (change,) = lamina.diff_weights(ours, safetensors(tmp_path / "b", views)).tensors
    assert (change.name, change.numbers.norm, change.numbers.elements_differ) == ("turned", 8.0, 1)


def test_what_is_not_in_the_file_is_not_compared(tmp_path):
    state = {
        "wide": torch.ones(1).expand(4, 4),
        "meta": torch.empty(2, 2, device="meta"),
        "here": torch.ones(3),
    }
    ours = saved(tmp_path / "a", state)
    whole = {"wide": torch.ones(4, 4), "meta": torch.ones(2, 2), "here": torch.ones(3)}
    diff = lamina.diff_weights(ours, safetensors(tmp_path / "b", whole))
    assert {change.name: change.change for change in diff.tensors} == {
        "wide": "not compared",
        "meta": "not compared",
    }
    why = {change.name: change.why for change in diff.tensors}
    assert "several times" in why["wide"]
    assert "meta device" in why["meta"]
    assert all(change.numbers.norm is None for change in diff.tensors)
    assert "2 tensors not compared; 1 is equal." in str(diff)


def rewritten(path, change):
    """A copy of a zip file of torch's, its entries changed."""
    copy = path.with_suffix(".changed")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for entry in old.infolist():
            name, data, how = change(entry.filename, old.read(entry))
            new.writestr(zipfile.ZipInfo(name), data, compress_type=how)
    return copy


def test_other_byte_orders_and_compressed_storages_are_not_compared(tmp_path):
    ours = saved(tmp_path / "a.pt", {"w": torch.ones(64)})
    plain = safetensors(tmp_path / "b", {"w": torch.ones(64)})
    stored, packed = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    if not any("byteorder" in name for name in zipfile.ZipFile(ours).namelist()):
        pytest.skip("this torch does not tell its byte order")
    big = rewritten(ours, lambda name, data: (name, b"big" if "byteorder" in name else data, stored))
    (change,) = lamina.diff_weights(big, plain).tensors
    assert "byte order" in change.why
    small = rewritten(ours, lambda name, data: (name, data, packed if "/data/" in name else stored))
    (change,) = lamina.diff_weights(small, plain).tensors
    assert "compressed" in change.why


def test_names_that_share_memory_are_read_a_bounded_number_of_times(tmp_path):
    base = torch.zeros(1 << 20)
    state = {f"v{i}": base[i : (1 << 20) - 64 + i] for i in range(64)}
    ours = saved(tmp_path / "a", state)
    theirs = saved(tmp_path / "b", state)
    diff = lamina.diff_weights(ours, theirs)
    assert diff.total.equal + diff.total.not_compared == 64
    assert 0 < diff.total.not_compared < 64
    assert "so often" in diff.tensors[-1].why


def test_a_moved_module_is_renamed(tmp_path, net):
    state = net.state_dict()
    moved = {"body." + name: value for name, value in state.items() if name != "3.bias"}
    diff = lamina.diff_weights(safetensors(tmp_path / "a", state), safetensors(tmp_path / "b", moved))
    of = {change.name: change for change in diff.tensors}
    assert of["body.0.weight"].change == "renamed"
    assert of["body.0.weight"].before_name == "0.weight"
    assert of[None].before_name == "3.bias"
    assert diff.total.renamed == len(moved)


def test_the_answer_is_written_as_a_difference_is(tmp_path, capsys):
    was = safetensors(tmp_path / "a", {"l.w": torch.ones(2)})
    now = safetensors(tmp_path / "b", {"l.w": torch.full((2,), 2.0)})
    diff = lamina.diff_weights(was, now, by="norm")
    diff.show(exact=True, rows=0, depth=1)
    assert "1.41421356" in capsys.readouterr().out
    told = json.loads(diff.to_json(tmp_path / "diff.json"))
    assert told == json.loads((tmp_path / "diff.json").read_text())
    assert told["by"] == "norm"
    assert diff.to_markdown().startswith("### ")
    with pytest.raises(FileExistsError):
        diff.to_json(tmp_path / "diff.json")
    with pytest.raises(ValueError, match="no metric 'macs'"):
        lamina.diff_weights(was, now, by="macs")
    with pytest.raises(FileNotFoundError):
        lamina.diff_weights(was, tmp_path / "none")
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(ValueError, match="no model file"):
        lamina.diff_weights(was, tmp_path / "text")
    with pytest.raises(TypeError):
        lamina.diff_weights(was, 7)
    assert main(["diff", str(was), str(now), "--weights", "--exit-code"]) == 1
    assert main(["diff", str(was), str(was), "--weights", "--exit-code"]) == 0


def test_columns_without_a_number_are_left_out(tmp_path, capsys):
    name = "model.layers.0.self_attn.query_key_value"
    was = safetensors(tmp_path / "a", {f"{name}.weight": torch.rand(4, 2)})
    with open(was, "rb") as file:
        now = tmp_path / "b"
        now.write_bytes(file.read().replace(b'"model.', b'"other.'))
    assert main(["diff", str(was), str(now), "--weights", "--width", "80"]) == 0
    out = capsys.readouterr().out
    assert "relative" not in out and "norm" not in out
    assert f"> {name.replace('model', 'other')}" in out and "weight was model.l" in out
    assert "not shown" not in out


def test_a_job_gets_its_summary(tmp_path, monkeypatch, capsys):
    was = safetensors(tmp_path / "a", {"l.w": torch.ones(2)})
    now = safetensors(tmp_path / "b", {"l.w": torch.zeros(2)})
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["diff", str(was), str(now), "--weights", "--github"]) == 0
    assert "| \\~ l | w |" in (tmp_path / "summary.md").read_text()
    assert "~ l" in capsys.readouterr().out


def hole(path, size):
    """A file of weights that are all zeros, which take no room on a disk."""
    text = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + size)
    return path


@pytest.fixture
def interruptible():
    """Python's handler of interrupts, which a process that was started in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_heard_while_files_are_read(tmp_path):
    try:
        files = [hole(tmp_path / name, 1 << 38) for name in "ab"]  # it would take minutes to read all
    except OSError:
        pytest.skip("this file system has no files of that size")
    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        lamina.diff_weights(*files)
