# SPDX-License-Identifier: Apache-2.0
"""What a target of the command builds: how large it may be, and what is said where it fails."""

from __future__ import annotations

import json
import sys
import textwrap
from contextlib import suppress

import pytest
import torch
from conftest import needs_fit
from torch import nn

import lamina
from lamina._base.errors import UnsupportedError, UsageError
from lamina._command import cli, live
from lamina._observe import support
from lamina._target import limit, load

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")

FILE = """
    import torch
    from torch import nn

    made = []

    class Net(nn.Module):  # 2 MiB, and it looks at values while it is built
        def __init__(self, n=2, width=512):
            super().__init__()
            made.append(n)
            self.rates = [rate.item() for rate in torch.linspace(0.5, 1, n)]
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n))
            self.register_buffer("at", torch.arange(5))
        def forward(self, x):
            for rate, layer in zip(self.rates, self.layers):
                x = layer(x) * rate
            return x[:, self.at.tolist()]

    def huge():
        return Net(64, 4096)  # 4 GiB

    def copies():
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, batch_first=True), 4)

    class Sums(nn.Linear):
        def __init__(self):
            super().__init__(1024, 1024)
            self.sum = self.weight.sum().item()

    class Goes(nn.Module):
        def __init__(self):
            super().__init__()
            try:
                self.a = nn.Linear(1024, 1024)
            except:
                self.a = nn.Linear(4, 4)

    class Filled(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.table = torch.randn(1 << 30, 1 << 10)

    class Here(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(1024, 1024, device="cpu"))
        def forward(self, x):
            return x * 2
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.py").write_text(textwrap.dedent(FILE))
    (tmp_path / "ready.py").write_text("from big import Net\nnet = Net()\n")
    return tmp_path


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(load, "MOST_REAL", 1 << 20)


def dry(target, *inputs, **options):
    built = {}
    model = live.run_target(target, inputs, "eval", [], dry=True, ops=True, built=built, **options)
    return built[target,], model.costs().totals()


def weights(net):
    return [p.device.type for p in net.parameters()]


def test_what_is_small_is_built_once_and_for_real(file):
    net, _ = dry("big.py:Net", "1x512")
    assert set(weights(net)) == {"cpu"}
    assert net.layers[0].weight.abs().sum() > 0


@pytest.mark.parametrize("target", ["big.py:Net", "ready.py:net", "big:Net"])
def test_a_large_model_is_built_on_the_meta_device_for_a_dry_run(file, small_is_large, monkeypatch, target):
    net, totals = dry(target, "1x512")
    assert net.layers[0].weight.device.type == "meta"
    monkeypatch.setattr(load, "MOST_REAL", 1 << 30)
    real, expected = dry(target, "1x512")
    assert (real.layers[0].weight.device.type, expected) == ("cpu", totals)
    assert net.rates == real.rates == [0.5, 1]


def test_copies_count_too(file, small_is_large):
    assert "meta" in weights(dry("big.py:copies", "1x4x256")[0])


def test_a_model_larger_than_any_memory(shell, file):
    needs_fit()
    done = shell("fit", "big.py:huge", "-i", "1x4096", "--format", "json", cwd=file)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["forward"]["parts"]["parameters"] == 64 * (4096 * 4096 + 4096) * 4


def test_what_needs_values_of_a_large_tensor_says_what_to_write(file, small_is_large):
    with pytest.raises(
        Exception, match=r"Sums: .*meta.*in line \d+ of big.py; .*torch.device..meta.."
    ) as told:
        dry("big.py:Sums", "1x1024")
    assert len(str(told.value)) < 256


def test_what_names_the_cpu_for_its_large_tensors_is_real_where_it_fits(file, small_is_large):
    assert weights(dry("big.py:Here", "1x4")[0]) == ["cpu"]


def test_what_names_the_cpu_for_its_large_tensors_says_so(file, small_is_large, monkeypatch):
    monkeypatch.setattr(load, "available", lambda: 1 << 20)
    with pytest.raises(Exception, match="makes large tensors on a device that it names"):
        dry("big.py:Here", "1x4")


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(256),
        lambda: torch.full((2, 64), 1.0, dtype=torch.complex64),
        lambda: torch.empty(1024, dtype=torch.int8),
        lambda: torch.arange(128),
    ],
)
def test_tensors_that_are_alive_are_limited_to_the_byte(make):
    with limit.limited(1024):
        for _ in range(3):
            assert make().untyped_storage().nbytes() == 1024  # and is gone before the next
    with pytest.raises(limit.TooLargeError), limit.limited(1023):
        make()
    with pytest.raises(limit.TooLargeError), limit.limited(2047):
        kept = make()
        with suppress(limit.TooLargeError):  # as a model's own `except` may
            make()
        assert kept.numel() > 0
    with pytest.raises(limit.TooLargeError), limit.limited((4 << 44) - 1):  # it is not even tried
        torch.randn(1 << 44)


@pytest.mark.parametrize("target", ["big.py:Net", "big.py:Goes", "big.py:Filled", "ready.py:net"])
def test_a_model_larger_than_the_memory_is_refused_in_a_sentence(file, monkeypatch, target):
    monkeypatch.setattr(load, "available", lambda: 1 << 20)
    with pytest.raises(
        Exception, match=r"needs (more memory|.*alone).* 1\.00 MiB|needs more memory than there is \(1"
    ) as told:
        live.run_target(target, ["1x512"], None, [])
    assert type(told.value).__name__ == "_TooLargeShownError"


def test_what_needs_the_values_of_a_large_tensor_is_built_where_it_fits(file, monkeypatch):
    built = {}
    monkeypatch.setattr(load, "available", lambda: 1 << 23)  # more than a quarter of it is needed
    live.run_target("big.py:Sums", ["1x1024"], None, [], built=built)
    assert weights(built["big.py:Sums",]) == ["cpu", "cpu"]


def test_a_model_that_fits_has_the_weights_that_its_seed_gives(file, monkeypatch):
    built = {}
    monkeypatch.setattr(load, "available", lambda: 1 << 22)  # more than a quarter of it is needed
    live.run_target("big.py:Net", ["1x512"], None, [], built=built)
    torch.manual_seed(0)
    expected = nn.Linear(512, 512)
    torch.testing.assert_close(built["big.py:Net",].layers[0].weight, expected.weight, rtol=0, atol=0)


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "kaiming_uniform_"])
def test_large_random_weights_are_not_drawn_for_a_dry_run(file, fill):
    (file / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, n=256):\n"
        f"        super().__init__(n, n)\n        nn.init.{fill}(self.weight)\n"
        "class Direct(Net):\n"
        "    def __init__(self, n=256):\n"
        "        super().__init__(n)\n        self.weight.data.normal_(), self.weight.data.uniform_()\n"
    )
    for name in ("Net", "Direct"):
        small, large = (load.build(f"net.py:{name}", [f"n={n}"], {}, dry=True) for n in (256, 257))
        assert len(small.weight.unique()) > 1000
        assert large.weight.unique().tolist() == [pytest.approx(limit.SOME)]
        real = load.build(f"net.py:{name}", ["n=257"], {}, dry=False)
        assert len(real.weight.unique()) > 1000


def test_a_dry_run_that_needs_values_names_the_option(file):
    (file / "asks.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Identity):\n    def forward(self, x):\n        return x.sum().item()\n"
        "scripted = torch.jit.script(nn.Linear(4, 4))\n"
    )
    for target, says in (
        ("Net", "needs a tensor's value as a number"),
        ("scripted", "is scripted or traced"),
    ):
        with pytest.raises(UnsupportedError, match=f"{says}.*; leave --dry out to run the model"):
            dry(f"asks.py:{target}", "1x4")


def test_a_model_that_a_file_holds_is_built_for_real(file, monkeypatch):
    built = {}
    monkeypatch.setattr(load, "available", lambda: 1 << 22)
    live.run_target("ready.py:net", ["1x512"], None, [], built=built)
    assert set(weights(built["ready.py:net",])) == {"cpu"}


def test_compare_follows_shapes_alone(shell, file):
    real, followed = (
        shell("compare", "big.py:copies", "-i", "1x4x256", "--format", "json", *more, cwd=file)
        for more in ([], ["--dry"])
    )
    assert (real.returncode, real.stdout) == (0, followed.stdout)
    net, x = nn.Sequential(nn.Linear(8, 4), nn.ReLU()), torch.rand(2, 8)
    assert lamina.compare(net, x, dry=True).to_json() == lamina.compare(net, x).to_json()
    with torch.device("meta"):
        assert (
            lamina.compare(nn.Linear(1 << 20, 1 << 20), torch.empty(1, 1 << 20), dry=True)["exact"].macs
            == 1 << 40
        )


# -- what the user's code raises -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "target", "says"),
    [
        (
            {"a": "from torch import nothing_here\n"},
            "a:net",
            "^while importing a: ImportError: .*, in line 1 of a.py$",
        ),
        (
            {"a": "import b\n", "b": "\nimport torch.none\n"},
            "a:net",
            "^while importing a: No module named 'torch.none'",
        ),
        (
            {"a": "\nimport b\n", "b": "from torch import nothing_here\n"},
            "a.py:net",
            "^a.py can't be run: while importing b: ImportError: .*, in line 2 of a.py$",
        ),
        (
            {"a": "import b\n", "b": "raise RuntimeError('operator torchvision::nms does not exist')\n"},
            "a.py:net",
            "while importing b: RuntimeError: operator torchvision::nms .*; torchvision does not fit torch ",
        ),
        (
            {
                "a": "def net():\n    import b\n",
                "b": "raise RuntimeError('operator torchvision::nms is not there')\n",
            },
            "a:net",
            "^a:net: while importing b: RuntimeError: .*, in line 2 of a.py; torchvision does not fit torch",
        ),
        (
            {"a": "import torch\ndef net():\n    return help()\ndef help():\n    torch.nn.Linear(2, 'x')\n"},
            "a.py:net",
            "^a.py:net: TypeError: .*, in line 5 of a.py$",
        ),
    ],
)
def test_errors_of_a_target_name_what_was_imported_and_the_line(tmp_path, monkeypatch, files, target, says):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)
    try:
        with pytest.raises(Exception, match=says):
            live.run_target(target, ["1x4"], None, [])
    finally:
        for name in files:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("text", ["width", "=3", "a b=3", ""])
def test_a_build_argument_is_a_name_and_a_value(text):
    with pytest.raises(UsageError, match=f"^{text!r} is no build argument; write -k name=value$"):
        live.run_target("torch.nn:Linear", ["2x4"], None, [text])


def test_a_program_of_torch_export_keeps_its_mode(tmp_path, monkeypatch, capsys):
    (tmp_path / "exported.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def net():\n"
        "    return torch.export.export(nn.Linear(4, 4), (torch.ones(1, 4),)).module()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["show", "exported.py:net", "-i", "1x4"]) == 0
    assert "16 MACs" in capsys.readouterr().out


def test_a_model_that_is_in_eval_mode_is_not_put_into_it_again():
    class Keeps(nn.Linear):
        puts = 0

        def train(self, mode=True):
            self.puts += 1
            return super().train(mode)

    net = Keeps(4, 4).eval()
    lamina.inspect(net, torch.ones(1, 4), mode="eval")
    assert (net.puts, net.training) == (1, False)


# -- the limit of a control group ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, None),
        ({"memory.max": "max\n"}, None),
        ({"memory.max": "4294967296\n"}, 4 << 30),
        ({"memory/memory.limit_in_bytes": "2147483648\n"}, 2 << 30),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 9223372036854771712),
        ({"memory.max": "4294967296\n", "memory/memory.limit_in_bytes": "2147483648\n"}, 2 << 30),
        ({"memory.max": "max\n", "memory/memory.limit_in_bytes": "2147483648\n"}, 2 << 30),
        ({"memory.max": "\n", "memory/memory.limit_in_bytes": "?\n"}, None),
    ],
)
def test_the_limit_of_a_control_group(tmp_path, files, most):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert limit.group_limit(tmp_path) == most


def test_what_is_available_is_within_the_limit(monkeypatch):
    monkeypatch.setattr(limit, "group_limit", lambda: None)
    free = limit.available()
    if free is None:
        pytest.skip("nobody tells how much memory there is")
    monkeypatch.setattr(limit, "group_limit", lambda: 1 << 20)
    assert limit.available() < free
