# SPDX-License-Identifier: Apache-2.0
"""tests/warm.py: a program in a warm process prints what it prints in a Python of its own, and ends alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import environment

import warm

PROGRAM = """
import atexit, os, signal, sys
print(__name__, sys.argv, sys.path[0], __package__, __spec__ and __spec__.name, __builtins__)
print(globals().get("__file__"), getattr(__loader__, "__name__", type(__loader__).__name__))
print(sorted(globals()))
print(sys.modules["__main__"].__dict__ is globals(), sys.orig_argv[1:], sys.flags.safe_path)
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.name, stream.encoding, stream.errors, stream.line_buffering, stream.fileno(), stream.mode)
print(sorted(os.environ.items()), os.getcwd(), sys.warnoptions, sys.dont_write_bytecode, sys.stdin.read())
print([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE)], os.umask(0))
atexit.register(print, "at the end")
def ends():
    {}
ends()
"""
ENDS = {
    "fine": "pass",
    "a code": "sys.exit(7)",
    "a large code": "sys.exit(259)",
    "a text": "sys.exit('bye')",
    "at once": "os._exit(9)",
    "an exception": "raise ValueError('boom')",
    "an interrupt": "raise KeyboardInterrupt",
    "a signal": "os.kill(os.getpid(), signal.SIGTERM)",
    "a thread": "import threading; threading.Timer(0.05, print, ['of a thread']).start()",
    "no such name": "nothing",
    "no Python": "1 +",
}


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a shell starts Python, and changes its environment")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", ["file", "module", "text"])
def test_it_is_a_python_of_its_own(tmp_path, way, end):
    program = PROGRAM.replace("{}", ENDS[end])
    (tmp_path / "program.py").write_text(program)
    words = {"file": ["program.py"], "module": ["-m", "program"], "text": ["-c", program]}[way]
    words += ["--x", "a b"]
    env = environment(PYTHONWARNINGS="ignore::FutureWarning", PYTHONDONTWRITEBYTECODE="1", OTHER="\u00e9")
    told = warm.python(*words, cwd=tmp_path, env=env)
    alone = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr) == (alone.returncode, alone.stdout, alone.stderr)


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a shell starts Python, and changes its environment")
@pytest.mark.parametrize("asked", ["ascii", "latin-1:replace", ":ignore"])
def test_its_streams_have_the_encoding_that_is_asked_for(asked):
    program = "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.encoding, s.errors)"
    env = environment(PYTHONIOENCODING=asked)
    alone = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert warm.python("-c", program, env=env, check=True).stdout == alone.stdout


def test_nothing_is_left_to_the_next_one(tmp_path):
    changes = """
import os, random, signal, sys, torch
os.environ["LEFT"] = "1"
os.chdir("/")
os.umask(0o77)
sys.path.insert(0, "/left")
sys.modules["left"] = sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
torch.set_num_threads(3)
torch.nn.Linear.left = torch.rand(1)
"""
    looks = """
import os, random, signal, sys, torch
print("LEFT" in os.environ, os.getcwd(), os.umask(0), "/left" in sys.path, "left" in sys.modules)
print(signal.getsignal(signal.SIGTERM), torch.get_num_threads(), hasattr(torch.nn.Linear, "left"))
print([name for name in sys.modules if "lamina" in name])
print([random.random(), torch.initial_seed(), torch.rand(8).tolist()])
"""
    *before, first = warm.python("-c", looks, cwd=tmp_path, env=environment(), check=True).stdout.splitlines()
    warm.python("-c", changes, cwd=tmp_path, env=environment(), check=True)
    *after, second = warm.python("-c", looks, cwd=tmp_path, env=environment(), check=True).stdout.splitlines()
    assert before == after and before[2] == "[]"
    assert before[0].startswith(f"False {tmp_path} ") and before[0].endswith(" False False")
    assert not set(json.loads(first)[:2]) & set(json.loads(second)[:2])  # each draws numbers of its own
    assert json.loads(first)[2] != json.loads(second)[2]


def test_several_run_at_a_time(tmp_path):
    program = """
import os, sys, time
mine, other = sys.argv[1:]
open(mine, "w").close()
while not os.path.exists(other):
    time.sleep(0.01)
sys.exit(int(mine[-1]))
"""
    running = [warm.start("-c", program, *names, cwd=tmp_path, env=environment()) for names in ("12", "21")]
    done = warm.together(running)
    assert [each.returncode for each in done] == [1, 2]


def test_who_does_not_end_is_killed():
    running = warm.start("-c", "while True: pass", env=environment())
    running.kill()
    assert running.end().returncode == -9


def test_an_option_of_python_is_refused():
    done = warm.python("-X", "dev", "-c", "pass", env=environment())
    assert done.returncode == 1 and done.stderr == "-X: an option of Python is read when it starts\n"
