# SPDX-License-Identifier: Apache-2.0
"""The command, as a person runs it."""

from __future__ import annotations

import io
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LIMIT, environment, hear_interrupts, needs_fit

from lamina import _inspect, _lamina
from lamina._base.errors import UsageError
from lamina._command import cli, doctor, live
from lamina._observe import support


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user code")
    (folder / "nets_of_mine.py").write_text(
        textwrap.dedent(
            """
            import dataclasses
            import os
            import time
            import torch
            from torch import nn

            class Net(nn.Sequential):
                def __init__(self, width=4, deep=False):
                    super().__init__(nn.Linear(4, width), nn.ReLU())

            class Masked(nn.Module):
                def forward(self, x, mask):
                    assert mask.dtype == torch.bool and x.dtype == torch.int64
                    return x * mask

            class Fails(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first, self.second = nn.Linear(4, 4), nn.Linear(5, 5)
                def forward(self, x):
                    return self.second(self.first(x))

            class Sleeps(nn.Module):
                def forward(self, x):
                    os.write(2, b"ready\\n")
                    while True:
                        time.sleep(1)

            @dataclasses.dataclass
            class Kept:
                model: nn.Module
            ready = Net(8)
            kept = Kept(ready)
            number = 5
            def build(width):
                return Net(width)
            """
        )
    )
    return folder


def run(shell, net, *argv, **extra):
    return shell(*argv, cwd=net, **extra)


def test_show(shell, net):
    for target in ("nets_of_mine:Net", "nets_of_mine.py:Net", "nets_of_mine:kept.model"):
        done = run(shell, net, "show", target, "-i", "1x4")
        assert (done.returncode, done.stderr) == (0, "")
        assert "Linear" in done.stdout


def test_build_arguments(shell, net):
    done = run(
        shell, net, "show", "nets_of_mine:build", "-i", "1x4", "--build", "width=16", "--format", "csv"
    )
    assert done.returncode == 0
    assert "80" in done.stdout  # 4 * 16 + 16 parameters


def test_named_and_typed_inputs(shell, net):
    done = run(shell, net, "show", "nets_of_mine:Masked", "-i", "1x4:int64", "-i", "mask=1x4:bool")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_real_model(shell):
    pytest.importorskip("torchvision")
    done = shell("show", "torchvision.models:resnet18", "-i", "1x3x64x64", "--depth", "2")
    assert done.returncode == 0
    assert "layer4" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_why(shell, net):
    done = run(shell, net, "why", "nets_of_mine:Net", "-i", "1x4", "0")
    assert done.returncode == 0
    assert "16" in done.stdout


def test_rules(shell):
    done = shell("rules", "torchscan")
    assert done.returncode == 0
    assert "conv" in done.stdout


def test_doctor(shell):
    done = shell("doctor")
    assert done.returncode == 0
    assert "\ntest: a small model is counted right\n" in done.stdout
    assert re.search(r"\nroof: .* [kMGT]FLOP/s .* [kMGT]B/s of memory with \d+ threads?;", done.stdout)
    assert re.search(rf"\nsystem: {platform.system()} on \S+\n", done.stdout)
    for line in ("tensors: read ", "operators: ", "memory: ", "GPU: "):
        assert f"\n{line}" in done.stdout


def test_the_doctor_says_what_does_not_work(monkeypatch):
    monkeypatch.setattr(support, "way", lambda: support.Way("observer", "x"))
    monkeypatch.setattr(_lamina, "describe_status", lambda: {"tensors": "shim", "why": "byte 16"})
    assert "\ntensors: read directly (checked)\noperators: observed (checked)\n" in doctor.describe()
    monkeypatch.setattr(_lamina, "describe_status", lambda: {"tensors": "attributes", "why": "no handle"})
    monkeypatch.setattr(support, "way", lambda: support.Way("calls", "no records"))
    told = doctor.describe()
    assert "same results but slower: no handle\n" in told
    assert "compare don't work; use -c layers, or PyTorch 2 on Linux with x86-64: no records\n" in told
    for answer, said in (
        (41, "counted wrong: 41 MACs instead of 40"),
        (None, "can't be counted: AttributeError"),
    ):
        monkeypatch.setattr(
            _inspect, "inspect", lambda *_, answer=answer: answer and SimpleNamespace(macs=answer)
        )
        assert said in doctor.describe()


def test_help_and_version(shell):
    assert shell("--help").returncode == 0
    assert shell("--version").stdout == f"lamina {_lamina.version()}\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["show", "nets_of_mine:Nett", "-i", "1x4"], "Net"),
        (["show", "nets_of_min:Net", "-i", "1x4"], "nets_of_mine"),
        (["show", "nets_of_min.py:Net", "-i", "1x4"], "nets_of_mine.py"),
        (["show", "torchvison.models:resnet18", "-i", "1x4"], "torchvison"),
        (["show", "nets_of_mine", "-i", "1x4"], "nets_of_mine"),
        (["show", "nets_of_mine:number", "-i", "1x4"], "an int"),
        (["show", "nets_of_mine:Net", "-i", "1xfour"], "1xfour"),
        (["show", "nets_of_mine:Net", "-i", "1x4:flaot32"], "float32"),
        (["show", "nets_of_mine:Net"], "-i"),
        (["show", "nets_of_mine:Net", "-i", "1x4", "--convention", "torchscn"], "torchscan"),
        (["show", "nets_of_mine:Net", "-i", "1x4", "--build", "width"], "name=value"),
        (["rules", "torchscn"], "torchscan"),
        (["shwo"], "show"),
    ],
    ids=lambda v: " ".join(v[:2]) + str(len(v)) if isinstance(v, list) else None,
)
def test_usage_errors_are_one_sentence_and_code_2(shell, net, argv, says):
    done = run(shell, net, *argv)
    assert done.returncode in (2, 3)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failing_model_prints_what_was_seen_and_is_code_3(shell, net):
    done = run(shell, net, "show", "nets_of_mine:Fails", "-i", "1x4")
    assert done.returncode == 3
    assert "first" in done.stdout
    assert "second" in done.stderr
    assert "RuntimeError" in done.stderr
    assert "Traceback" not in done.stderr


def test_colour_only_when_asked_for(shell, net):
    assert "\x1b[" not in run(shell, net, "show", "nets_of_mine:Net", "-i", "1x4").stdout


def test_ascii_where_the_terminal_has_no_more(shell, net):
    done = run(shell, net, "show", "nets_of_mine:Net", "-i", "1x4", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


def test_interrupt_is_130(net):
    command = [sys.executable, "-m", "lamina", "show", "nets_of_mine:Sleeps", "-i", "1x4"]

    with subprocess.Popen(
        command,
        cwd=net,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    ) as child:
        assert child.stderr.readline() == b"ready\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=LIMIT)
    assert child.returncode in (130, -signal.SIGINT)  # a shell shows 130 for both
    assert b"Traceback" not in err


def test_a_reader_that_left_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "lamina", "rules", "torchscan"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment(), check=False)
    os.close(write)
    assert done.stderr == b""
    assert done.returncode != 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
def test_output_that_can_not_be_written_is_said_in_a_sentence():
    command = [sys.executable, "-m", "lamina", "rules", "torchscan"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment(), check=False, text=True
        )
        unsaid = subprocess.run(command, stdout=full, stderr=full, env=environment(), check=False)
    assert done.returncode == unsaid.returncode == 3
    assert done.stderr == "lamina: error: the output can't be written: No space left on device\n"
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        stderr=subprocess.PIPE, env=environment(), check=False, text=True,
    )  # fmt: skip
    assert closed.returncode == 3
    assert closed.stderr == "lamina: error: the output can't be written: Bad file descriptor\n"


# -- in this process: what each piece says -------------------------------------------------------------------


class Stream(io.StringIO):
    encoding = "utf-8"


def test_host_tells_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "77")
    host = cli.Host(Stream(), Stream())
    assert (host.is_terminal, host.is_utf8, host.width) == (False, True, 77)


def test_what_is_followed_is_read_again_after_milliseconds(monkeypatch):
    slept, out = [], io.StringIO()
    monkeypatch.setattr("time.sleep", slept.append)
    cli.Host(out, out).wait(250)
    assert slept == [0.25]


def test_internal_errors_are_code_4(monkeypatch, capsys):
    def breaks(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(cli._lamina, "command", breaks)
    assert cli.main(["show"]) == 4
    assert "ZeroDivisionError: oh" in capsys.readouterr().err
    monkeypatch.setenv("LAMINA_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["show"])


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode")
def test_names_need_not_be_utf8(tmp_path, capsys):
    code, out = (tmp_path / os.fsdecode(name) for name in (b"n\xff.py", b"o\xff.txt"))
    code.write_text("from torch import nn\nclass Net(nn.Sequential): ...\n")
    assert cli.main(["show", f"{code}:Net", "-i", "1x3", "-o", str(out)]) == 0
    assert out.read_text().startswith("Net ")
    for words, says in (
        (["version", "\udcff"], "one operand too many"),
        (["show", f"{code}:None", "-i", "1x3"], "n?.py has no 'None'"),
    ):
        assert cli.main(words) == 2
        assert says in capsys.readouterr().err


def test_inputs_are_the_same_every_time():
    build = ["in_features=4", "out_features=3"]
    first, second = (live.run_target("torch.nn:Linear", ["2x4"], None, build).costs().totals() for _ in "ab")
    assert first == second
    assert first["macs"] == (24, "exact")


def test_files_that_hold_no_model(tmp_path):
    def fails(name, text, says, kind=UsageError):
        (tmp_path / name).write_text(text)
        with pytest.raises(kind, match=says):
            live.run_target(f"{tmp_path / name}:net", ["1x2"], None, [])

    fails(
        "raises_1.py",
        "x = 1\nraise RuntimeError('no\\nway')\n",
        "RuntimeError: no, in line 2 of raises_1.py$",
        Exception,
    )
    fails("syntax_1.py", "def f(:\n", r"syntax_1.py can't be run: SyntaxError: .*line 1", Exception)
    fails("empty_1.py", "", "has no 'net'")
    needs = "def net(width):\n    pass\n"
    fails("takes_1.py", needs, "'width'; it takes .width.; give what it takes with -k NAME=VALUE")
    raises = "def net():\n    raise TypeError('inside')\n"
    fails("inside_1.py", raises, "inside_1.py:net: TypeError: inside, in line 2 of inside_1.py$", Exception)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "weights.pt").write_text("")
    for target, says in (
        (tmp_path / "folder.py:net", "is a folder"),
        (tmp_path / "weights.pt", "is a file and names no model.* loads the file into it"),
        (tmp_path / "empty_1.py", r"is a file and names no model; write .*empty_1\.py:NAME; it has no class"),
        ("x" * 5000, "does not name a model"),
        ("x" * 5000 + ".py:net", "there is no file"),
    ):
        with pytest.raises(UsageError, match=says):
            live.run_target(str(target), ["1x2"], None, [])


@pytest.mark.parametrize("text", ["9" * 30 + "x2", "9" * 19, f"{2**32}x{2**32}", "0x" + "9" * 40])
def test_an_input_too_large_to_count(text):
    with pytest.raises(UsageError, match="more elements than can be counted"):
        live.run_target("torch.nn:Identity", [text], None, [])


def test_sizes_are_ordinary_digits():
    with pytest.raises(UsageError, match="is not a size"):
        live.run_target("torch.nn:Identity", ["\u00b2x2"], None, [])


@pytest.mark.parametrize("where", ["file", "module", "builder", "forward"])
def test_sys_exit_in_a_model_is_a_sentence_and_code_3(shell, net, where):
    exits = "import sys\nfrom torch import nn\n"
    exits += {
        "builder": "def net():\n    sys.exit(9)\n",
        "forward": "class net(nn.Identity):\n    def forward(self, x):\n        sys.exit(9)\n",
    }.get(where, "sys.exit(9)\n")
    (net / f"ends_{where}.py").write_text(exits)
    target = f"ends_{where}:net" if where == "module" else f"ends_{where}.py:net"
    done = run(shell, net, "show", target, "-i", "1x4")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1 and "its code called sys.exit(9)" in done.stderr
    assert ("raised in the model itself" if where == "forward" else f"of ends_{where}.py") in done.stderr
    assert bool(done.stdout) == (where == "forward")


PRINTS = """
    import ctypes, os, sys
    from torch import nn
    print("file")
    ctypes.CDLL(None).puts(b"from C")

    class Net(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            print("builder", file=sys.__stdout__)
        def forward(self, x):
            os.write(1, b"forward\\n")
            return super().forward(x)
"""


@pytest.mark.parametrize("verb", ["show", "fit", "compare", "graph"])
def test_what_a_model_prints_is_not_in_the_data(shell, net, verb):
    if verb == "fit":
        needs_fit()
    (net / "prints.py").write_text(textwrap.dedent(PRINTS))
    done = run(
        shell, net, verb, "prints.py:Net", "-i", "1x4", *(["--format", "json"] if verb != "graph" else [])
    )
    assert done.returncode == 0
    for printed in ("file", "from C", "builder", "forward"):
        assert printed in done.stderr.splitlines()
        assert printed not in done.stdout.splitlines()
    assert done.stdout.startswith("digraph" if verb == "graph" else "{")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("torch.nn:Liner", "did you mean Linear"),
        ("torch.n:Linear", "no module 'n' in torch"),
        ("torch.nn.functional:relu", "did not|built|takes|missing|argument"),
        ("torch.nn:Module.forward.x", "no 'Module.forward.x'"),
        (":x", "does not name a model"),
    ],
)
def test_targets(target, says):
    with pytest.raises((UsageError, TypeError), match=says):
        live.run_target(target, [], None, [])
