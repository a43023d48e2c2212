# SPDX-License-Identifier: Apache-2.0
"""``lamina run``: the program is as Python runs it, and its models are recorded."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import textwrap
import zipfile
from contextlib import closing

import pytest
from conftest import LIMIT, environment, hear_interrupts, needs_recordings, steps_in, wait_until

import warm

needs_recordings()

BEFORE_TORCH = """
    import sys
    assert "torch" not in sys.modules  # it may set variables before it imports torch
    from importlib.util import find_spec
    assert find_spec("torch")  # a question, which imports nothing
    import torch
    assert torch.__spec__.loader.__class__.__name__ == "SourceFileLoader"
    torch.nn.Linear(4, 4)(torch.ones(2, 4))
"""
PROGRAM = """
    import pickle, os, sys
    from pathlib import Path
    here = Path(sys.path[0]).samefile(".")
    print(__name__, sys.argv[1:], Path(sys.argv[0]).name, Path(__file__).name, here)
    import beside
    assert sys.modules["__main__"].beside is beside
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        def forward(self, x):
            return self.inner(x)
    if __name__ == "__main__":
        assert pickle.loads(pickle.dumps(Net)) is Net
        torch.set_num_threads(1)
        net, other, loss = Net(), nn.Linear(4, 1), nn.MSELoss()
        for i in range(7):
            out = net(torch.ones(2, 4))
            loss(other(out), torch.zeros(2, 1)).backward()
        net.inner(torch.ones(1, 4))  # called by itself
        assert not any("__call__" in vars(kind) for kind in (nn.MSELoss, nn.ReLU))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "beside.py").write_text("")
    return tmp_path


def lamina(folder, *words, end="", module=False):
    path = folder / "train.py"
    path.write_text(textwrap.dedent(PROGRAM) + end)
    target = ["-m", "train"] if module else ["train.py"]
    return warm.python("-m", "lamina", "run", *target, *words, cwd=folder, env=environment())


def recorded(folder, sql, file="run.lamina"):
    with closing(sqlite3.connect(folder / file)) as db:
        return db.execute(sql).fetchall()


def test_torch_is_imported_by_the_program(folder):
    """In a Python of its own: others have imported torch."""
    (folder / "train.py").write_text(textwrap.dedent(BEFORE_TORCH))
    done = subprocess.run(
        [sys.executable, "-m", "lamina", "run", "train.py"],
        env=environment(), cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert recorded(folder, "SELECT name FROM models") == [("Linear",)]


def test_every_root_is_found(folder):
    done = lamina(folder)
    assert done.returncode == 0, done.stderr
    sql = "SELECT m.name, group_concat(s.number) FROM models m JOIN steps s ON s.model = m.id GROUP BY m.id"
    seven = "0,1,2,3,4,5,6"
    assert recorded(folder, sql) == [("Net", seven), ("Linear", seven), ("Sequential", "0")]
    paths = "SELECT group_concat(path) FROM places GROUP BY model"
    assert recorded(folder, paths) == [(",inner,inner.0,inner.1",), ("",), (",0,1",)]


@pytest.mark.parametrize("module", [False, True])
def test_arguments_are_the_programs(folder, module):
    done = lamina(folder, "--every", "5", "-x", "a b", "--", "-m", module=module)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"__main__ {['--every', '5', '-x', 'a b', '--', '-m']} train.py train.py True\n"


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are Unicode")
def test_arguments_need_not_be_utf8(folder):
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "lamina", "run", "train.py", "\udcff"],
        env=environment(), cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert r"__main__ ['\udcff']" in done.stdout
    assert recorded(folder, "SELECT count(*) FROM models") == [(3,)], done.stderr


def test_options_come_before_the_program(folder):
    path = folder / "train.py"
    path.write_text(textwrap.dedent(PROGRAM))
    options = ("--every", "3", "--file", "other.lamina")
    done = warm.python("-m", "lamina", "run", *options, "train.py", cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    assert recorded(folder, "SELECT count(*) FROM steps WHERE model = 1", "other.lamina") == [(3,)]
    assert not (folder / "run.lamina").exists()


@pytest.mark.parametrize(
    ("end", "code", "errors"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('bye')", 1, "bye\n"),
        ("raise SystemExit", 0, ""),
        ("os._exit(9)", 9, ""),
    ],
)
def test_exit_codes_are_the_programs(folder, end, code, errors):
    done = lamina(folder, end=end + "\n")
    said, told = done.stderr.split("lamina: recorded ")[0], "lamina: recorded " in done.stderr
    assert (done.returncode, said, told) == (code, errors, "_exit" not in end)
    if "_exit(9)" not in end:
        assert recorded(folder, "SELECT count(*) FROM runs WHERE ended_unix_ns") == [(1,)]


def test_exceptions_are_told_as_python_tells_them(folder):
    end = "def fail():\n    raise ValueError('boom')\nfail()\n"
    done = lamina(folder, end=end)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip().startswith(f'File "{folder / "train.py"}", line ')
    assert lines[-2] == "ValueError: boom"
    assert lines[-1].startswith("lamina: recorded ")
    assert "lamina" not in "".join(lines[:-1]).replace(str(folder), "")
    assert recorded(folder, "SELECT count(*) FROM runs WHERE ended_unix_ns") == [(1,)]


def test_a_traceback_of_a_module_begins_in_it(folder):
    done = lamina(folder, end="raise ValueError('boom')\n", module=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip().startswith(f'File "{folder / "train.py"}", line ')
    assert lines[-2] == "ValueError: boom"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
@pytest.mark.parametrize("target", [["train.py"], ["-m", "train"]])
def test_a_safe_path_stays_as_it_is(folder, target):
    more = folder / "more"
    more.mkdir()
    (more / "from_path.py").write_text("")
    where = folder if target[0] == "train.py" else more
    (where / "train.py").write_text(
        textwrap.dedent("""
        import torch, from_path
        try:
            import beside
        except ModuleNotFoundError:
            print("safe")
        torch.nn.Linear(1, 1)(torch.ones(1))
    """)
    )
    env = environment()
    env.update(
        PYTHONSAFEPATH="1", PYTHONPATH=f"{more}:{env['PYTHONPATH']}" if env.get("PYTHONPATH") else str(more)
    )
    done = subprocess.run(
        [sys.executable, "-m", "lamina", "run", *target],
        env=env, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "safe\n"), done.stderr


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, -2)])
def test_signals_are_the_programs(folder, sent, code):
    (folder / "train.py").write_text(
        textwrap.dedent(PROGRAM) + "print('go', flush=True)\nimport time\nwhile True: time.sleep(1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lamina", "run", "--every", "100", "train.py"],
        env=environment(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    process.stdout.readline()
    assert process.stdout.readline() == "go\n"
    wait_until(lambda: steps_in(folder / "run.lamina") == 2)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == code
    if sent == signal.SIGINT:
        assert errors.splitlines()[-2] == "KeyboardInterrupt"
    # The step of the root that was called last goes on; who is killed can't end it.
    steps = 3 if sent == signal.SIGINT else 2
    assert recorded(folder, "SELECT count(*) FROM steps") == [(steps,)]


RUN = "SELECT job, attempt, ended_by, ended_unix_ns IS NOT NULL FROM runs ORDER BY id"


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("", "end"),
        ("sys.exit()", "end"),
        ("sys.exit(0)", "end"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise SystemExit('no data')", "SystemExit: no data"),
        ("raise ValueError('boom\\nand more')", "ValueError: boom"),
        ("raise KeyError", "KeyError"),
        ("class Own(Exception): pass\nraise Own('x' * 9999)", "Own: " + 250 * "x"),
        ("raise OSError('\\udcff')", "OSError: ?"),
        ("import threading\nthreading.Thread(target=lambda: 1 / 0).start()", "end"),
        ("import os; os.abort()", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import faulthandler; faulthandler.enable(); ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_how_a_program_ended_is_recorded(folder, end, how):
    lamina(folder, end=f"import ctypes\n{end}\n")
    assert recorded(folder, RUN) == [(None, None, how, 1)]


def test_a_program_that_ends_without_a_word_is_not_said_to_have_ended(folder):
    lamina(folder, end="import os; os._exit(0)\n")
    assert recorded(folder, RUN) == [(None, None, None, 0)]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGXCPU, signal.SIGUSR1])
def test_a_signal_that_ends_a_program_is_recorded(folder, sent):
    end = f"import os\nos.kill(os.getpid(), {int(sent)})\nprint('here')\n"
    done = lamina(folder, end=end)
    assert done.returncode == -sent
    assert "here" not in done.stdout
    assert recorded(folder, RUN) == [(None, None, sent.name, 1)]


def test_signals_that_a_program_handles_are_its_own(folder):
    end = """
import os, signal
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
os.kill(os.getpid(), signal.SIGTERM)
while not heard: pass
child = os.fork()
if not child:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGUSR1)
assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGUSR1
raise RuntimeError("Connection closed by peer")
"""
    assert lamina(folder, end=end).returncode == 1
    assert recorded(folder, RUN) == [(None, None, "RuntimeError: Connection closed by peer", 1)]


@pytest.mark.parametrize(
    ("words", "variables", "runs"),
    [
        ([], {}, [(None, None), (None, None)]),
        (["--job", "first try"], {}, [("first try", 1), ("first try", 2)]),
        ([], {"SLURM_JOB_ID": "77"}, [("77", 1), ("77", 2)]),
        ([], {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "4"}, [("77", 5), ("77", 6)]),
        (["--job", "a"], {"SLURM_JOB_ID": "77"}, [("a", 1), ("a", 2)]),
        ([], {"TORCHELASTIC_RUN_ID": "u", "SLURM_JOB_ID": "77"}, [("u", 1), ("u", 2)]),
        ([], {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"}, [(None, None)] * 2),
        ([], {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "2"}, [(None, 3)] * 2),
        ([], {"SLURM_RESTART_COUNT": "what"}, [(None, None)] * 2),
    ],
)
def test_starts_of_one_job_are_its_attempts(folder, words, variables, runs):
    (folder / "train.py").write_text("import torch\ntorch.nn.Linear(4, 4)(torch.ones(2, 4))\n")
    for _ in range(2):
        command = ["-m", "lamina", "run", *words, "train.py"]
        warm.python(*command, cwd=folder, env=environment(**variables), check=True)
    assert recorded(folder, "SELECT job, attempt FROM runs ORDER BY id") == runs


def test_all_calls_are_counted_also_those_that_are_not_recorded(folder):
    program = """
    import torch
    net, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    for i in range(500):
        other(net(torch.ones(2, 4)))
    """
    (folder / "train.py").write_text(textwrap.dedent(program))
    command = ["-m", "lamina", "run", "--every", "100", "train.py"]
    warm.python(*command, cwd=folder, env=environment(), check=True)
    assert recorded(folder, "SELECT calls FROM runs") == [(1000,)]
    assert recorded(folder, "SELECT sum(calls), min(slowest_ns) > 0 FROM pace") == [(1000, 1)]
    assert recorded(folder, "SELECT count(*) < 50 FROM steps") == [(1,)]


def test_equal_layers_have_equal_trees(folder):
    program = """
    import torch
    from torch import nn
    torch.manual_seed({seed})
    for net in (nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 5), nn.Linear(4, 4, bias=False),
                nn.Sequential(nn.Linear(4, 4)), nn.Bilinear(4, 4, 1)):
        net(*[torch.ones(2, 4)] * (2 if isinstance(net, nn.Bilinear) else 1))
    """
    for seed in (1, 2):
        (folder / "train.py").write_text(textwrap.dedent(program.format(seed=seed)))
        warm.python("-m", "lamina", "run", "train.py", cwd=folder, env=environment(), check=True)
    trees = recorded(folder, "SELECT tree FROM models ORDER BY id")
    assert trees[:6] == trees[6:]
    assert trees[0] == trees[1] == trees[2] == trees[3]  # other parts of the parameters, as under sharding
    assert len({*trees}) == 3
    assert all(tree > 0 for (tree,) in trees)


def test_what_cannot_be_run(folder):
    done = warm.python("-m", "lamina", "run", "absent.py", cwd=folder, env=environment())
    assert done.returncode == 2
    assert done.stderr == (
        "lamina: error: absent.py: No such file or directory; name a Python program, or -m MODULE\n"
    )
    for words in ([], ["--every", "0", "train.py"]):
        done = warm.python("-m", "lamina", "run", *words, cwd=folder, env=environment())
        assert done.returncode == 2
        assert done.stderr.startswith("lamina: error: ")


def test_it_ends_with_what_was_recorded(folder):
    program = (
        "import sys, torch\nnet = torch.nn.Linear(4, 4)\n"
        "for _ in range(int(sys.argv[1])):\n    net(torch.ones(1, 4)).sum().backward()\n"
    )
    done = run(folder, program, "--every", "1", "train.py", "3")
    steps = recorded(folder, "SELECT count(*) FROM steps")[0][0]
    assert steps == 3
    said = f"lamina: recorded {steps} steps of 3 calls (every step); see them with: lamina show run.lamina\n"
    assert (done.returncode, done.stderr) == (0, said)
    done = run(folder, program + "raise ValueError('at the end')\n", "train.py", "1")
    assert done.returncode == 1
    rule = "every step at first, then fewer, one in 100 from step 1,600 on"
    said = f"lamina: recorded 1 step of 1 call ({rule}), run 2 in that file; see them with: "
    assert done.stderr.splitlines()[-2:] == ["ValueError: at the end", f"{said}lamina show run.lamina"]
    done = run(folder, program, "--every", "3", "train.py", "9")
    assert "steps of 9 calls (one in 3 steps), run 3 in that file" in done.stderr
    assert recorded(folder, "SELECT every FROM runs") == [(1,), (0,), (3,)]


def test_a_program_without_models_makes_no_file(folder):
    (folder / "train.py").write_text("import torch\ntorch.ones(1) + 1\n")
    done = warm.python("-m", "lamina", "run", "train.py", cwd=folder, env=environment())
    said = "lamina: nothing was recorded: this process called no model with parameters\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert not (folder / "run.lamina").exists()


QUIET = "ignore::DeprecationWarning,ignore::FutureWarning"  # Python's of a fork, torch's of torch


def run(folder, program, *words):
    (folder / "train.py").write_text(textwrap.dedent(program))
    return warm.python("-m", "lamina", "run", *words, cwd=folder, env=environment(PYTHONWARNINGS=QUIET))


def test_what_python_could_not_begin_is_told_as_python_tells_it(folder):
    done = run(folder, "x = = 3\n", "train.py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f'  File "{folder / "train.py"}", line 1'
    done = run(folder, "", "-m", "no_such_module_here")
    assert (done.returncode, done.stderr) == (1, "ImportError: No module named no_such_module_here\n")


OWN_CALL = """
    import torch
    from torch import nn
    class Scaled(nn.Linear):
        entered = 0
        def __call__(self, x):
            Scaled.entered += 1
            return super().__call__(x / 4)
    class Next(nn.Linear):
        def __call__(self, batches):
            return super().__call__(next(batches))
    net = Scaled(1, 1, bias=False)
    net.weight.data.fill_(1)
    for n in range(1, 4):
        out = net(torch.full((1, 1), 4.0))
        out.sum().backward()
        assert (out.item(), net.entered) == (1.0, n)
    assert nn.Module.__call__(Scaled(1, 1), torch.ones(1, 1)).shape == (1, 1) and net.entered == 3
    Next(1, 1)(iter([torch.ones(1, 1)]))
"""


def test_a_call_of_a_class_of_its_own_runs_once_and_is_recorded(folder):
    done = run(folder, OWN_CALL, "--every", "1", "train.py")
    assert done.returncode == 0, done.stderr
    sql = "SELECT m.name, count(*) FROM models m JOIN steps s ON s.model = m.id GROUP BY m.id"
    assert recorded(folder, sql) == [("Scaled", 3), ("Scaled 2", 1), ("Next", 1)]
    sql = "SELECT count(*) FROM steps WHERE forward_ns > 0 AND calls = 1 AND backward_ns > 0"
    assert recorded(folder, sql) == [(3,)]


SEEN_BY_MODES = """
    import torch
    from torch import nn
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []
    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))
    class Function(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))
    net, x = nn.Linear(4, 4), torch.ones(1, 4)
    with Function(), Dispatch(), torch.profiler.profile() as profile:
        net(x)
    print(seen, sorted(event.key for event in profile.key_averages()))
"""
TRACED = """
    import torch
    net, x = torch.nn.Linear(4, 8), torch.ones(2, 4)
    traced = torch.jit.trace(net, x)
    print(str(traced.graph).partition("#")[0], torch.equal(traced(x), net(x)))
"""


@pytest.mark.parametrize("program", [SEEN_BY_MODES, TRACED])
def test_what_is_proved_in_the_first_call_is_not_seen_by_the_program(folder, program):
    options = [["--file", "a.lamina"], ["--file", "b.lamina", "--memory"]]
    both = [run(folder, program, *more, "train.py") for more in options]
    plain = warm.python("train.py", cwd=folder, env=environment())
    assert plain.returncode == 0
    for recording, (_, file, *_) in zip(both, options, strict=True):
        assert (recording.returncode, recording.stdout) == (0, plain.stdout), recording.stderr
        assert recorded(folder, "SELECT min(number) FROM steps", file) == [(0,)]


def test_a_program_is_compiled_as_python_compiles_it(folder):
    program = """
        import dataclasses
        @dataclasses.dataclass
        class A:
            x: int = 1
        print(dataclasses.fields(A)[0].type)
    """
    assert run(folder, program, "train.py").stdout == "<class 'int'>\n"


MOVED = """
    import contextlib, io, os, sqlite3, sys, time, torch
    net, to = torch.nn.Linear(4, 4), sys.argv[1:]
    def step():
        net(torch.ones(1, 4)).sum().backward()
    for _ in range(60):
        step()
    with contextlib.closing(sqlite3.connect("run.lamina")) as file:
        while file.execute("SELECT count(*) FROM steps").fetchone()[0] < 59:  # the last one goes on
            time.sleep(0.01)
    os.rename("run.lamina", to[0]) if to else os.remove("run.lamina")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        while "stopped" not in said.getvalue():
            step()
            time.sleep(0.001)
    sys.stderr.write(said.getvalue())
    print("trained")
"""


@pytest.mark.parametrize("to", [["moved.lamina"], []])
def test_a_file_that_is_moved_ends_the_recording_and_says_so(folder, to):
    done = run(folder, MOVED, "--every", "1", "train.py", *to)
    said = "lamina: the recording stopped, the program goes on: "
    said += f"{folder / 'run.lamina'}: it was moved or removed during the run; "
    said += "where it was moved, it has the steps until then\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", said)
    assert not [*folder.glob("run.lamina*")]
    if to:
        steps, ended = recorded(folder, "SELECT count(*), max(ended_unix_ns) FROM steps, runs", to[0])[0]
        assert steps == 59 and ended


AFTER_MAIN = """
    import atexit, sys, threading, time, torch
    net, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    def train():
        threading.main_thread().join()
        for _ in range(30):
            net(torch.ones(1, 4)).sum().backward()
    atexit.register(lambda: other(torch.ones(1, 4)).sum().backward())
    net(torch.ones(1, 4))
    threading.Thread(target=train).start()
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(1)
    pool.submit(print, "pooled")
    if sys.argv[1:]:
        raise ValueError("in main")
"""


@pytest.mark.parametrize("words", [[], ["raise"]])
def test_what_threads_do_after_the_program_ended_is_recorded(folder, words):
    done = run(folder, AFTER_MAIN, "--every", "1", "train.py", *words)
    assert (done.returncode, done.stdout) == (len(words), "pooled\n"), done.stderr
    sql = "SELECT m.name, m.root, count(*) FROM models m JOIN steps s ON s.model = m.id GROUP BY m.id"
    assert recorded(folder, sql) == [("Linear", 0, 31), ("Linear 2", 1, 1)]
    *errors, last = done.stderr.splitlines()
    assert last == "lamina: recorded 32 steps of 32 calls (every step); see them with: lamina show run.lamina"
    assert errors[-1:] == ["ValueError: in main"][: len(words)]


INSIDE = """
    import sys, beside
    from pathlib import Path
    main = sys.modules["__main__"]
    print(__name__, __loader__ is main.__loader__, type(__loader__).__name__, __package__, __spec__ is None)
    print(sys.argv, sys.path[0], __file__, Path(beside.__file__).parent.name, main.beside is beside)
"""


def test_a_folder_and_a_zip_file_run_as_python_runs_them(folder):
    inside = folder / "app"
    inside.mkdir()
    (inside / "__main__.py").write_text(textwrap.dedent(INSIDE))
    (inside / "beside.py").write_text("")
    with zipfile.ZipFile(folder / "app.zip", "w") as to:
        for file in inside.iterdir():
            to.write(file, file.name)
    for target in ("app", "app.zip", "app/__main__.py"):
        told = [
            subprocess.run(
                [sys.executable, *before, target, "--x"],
                env=environment(PYTHONDONTWRITEBYTECODE="1"), cwd=folder, capture_output=True, text=True,
                check=False,
            )
            for before in ([], ["-m", "lamina", "run"])
        ]  # fmt: skip
        assert told[0].returncode == 0, told[0].stderr
        assert (told[1].returncode, told[1].stdout) == (0, told[0].stdout), told[1].stderr
    (folder / "empty").mkdir()
    done = run(folder, "", "empty")
    assert (done.returncode, done.stderr) == (2, "lamina: error: empty: it has no __main__.py\n")


def test_forward_work_that_is_done_again_is_no_root(folder):
    program = """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self, reentrant):
                super().__init__()
                self.reentrant = reentrant
                self.first, self.inner = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            def forward(self, x):
                return checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant)
        a, b, whole = Net(False), Net(True), nn.Linear(4, 4)
        for _ in range(4):
            for net in (a, b):
                net(torch.ones(2, 4)).sum().backward()
            checkpoint(whole, torch.ones(2, 4), use_reentrant=False).sum().backward()
    """
    done = run(folder, program, "--every", "1", "train.py")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.startswith("lamina: recorded ")
    sql = "SELECT m.name, count(*), sum(failed) FROM models m JOIN steps s ON s.model = m.id GROUP BY m.id"
    assert sorted(recorded(folder, sql)) == [("Linear", 4, 0), ("Net", 4, 0), ("Net 2", 4, 0)]
    again = "SELECT count(*) FROM timeline WHERE model = 'Linear' AND recompute_ns > 0"
    assert recorded(folder, again) == [(4,)]


def test_compiled_programs_stay_compiled(folder):
    (folder / "train.py").write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn
            net, seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
            def backend(graph, inputs):
                seen.append(len(graph.graph.nodes))
                return graph.forward
            model = torch.compile(net, backend=backend, fullgraph=True)
            for _ in range(3):
                model(torch.ones(2, 4)).sum().backward()
            function = torch.compile(lambda x: net(x) * 2, backend=backend, fullgraph=True)
            function(torch.ones(2, 4))
            assert len(seen) == 2, seen
            """
        )
    )
    done = warm.python("-m", "lamina", "run", "train.py", cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    # An older torch calls the layers in the function's code as modules, from outside any other.
    inlined = pytest.importorskip("torch._dynamo").config.inline_inbuilt_nn_modules
    assert recorded(folder, "SELECT number FROM steps") == [(0,), (1,), (2,), *([] if inlined else [(0,)])]


ODD = """
    import os, sys, torch
    from torch import nn
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(4, 4)
        def __eq__(self, other):  # so it has no hash
            return self is other
        def forward(self, x):
            return self.part(x)
    frozen = nn.Linear(4, 4)
    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, i):
            with torch.no_grad():
                return frozen(torch.ones(4))
    if __name__ == "__main__":
        for x in torch.utils.data.DataLoader(Data(), num_workers=2):
            pass
        for _ in range(2):
            if os.fork() == 0:
                nn.Linear(4, 4)(torch.ones(4)).sum().backward()
                os._exit(0)
            os.wait()
        os.mkdir("elsewhere")
        os.chdir("elsewhere")
        model = Odd()
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
"""


def test_forked_children_write_nothing_and_a_module_needs_no_hash(folder):
    done = run(folder, ODD, "--file", "odd.lamina", "train.py")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.startswith("lamina: recorded ")
    assert not (folder / "elsewhere/odd.lamina").exists()
    assert recorded(folder, "SELECT name FROM models", "odd.lamina") == [("Odd",)]
    assert recorded(folder, "SELECT count(*) FROM runs", "odd.lamina") == [(1,)]


def test_a_file_without_a_name_is_refused_before_the_program_runs(folder):
    done = run(folder, "print('ran')\n", "--file", "", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lamina: error: --file is empty; name the file that is to be written\n"


COMPILED = """
    import sys, torch
    from torch import nn
    import torch._dynamo
    made, ran = [], []
    def backend(graph, inputs):
        made.append(graph)
        return lambda *args: ran.append(1) or graph.forward(*args)
    inner = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    model = torch.compile(inner, backend=backend, fullgraph=True)
    head = nn.Linear(4, 4)  # a root of a class that stands in the compiled model too
    for _ in range(20):
        head(model(torch.rand(4, 16))).sum().backward()
    print(len(made), len(ran) >= 10)
"""


def test_a_root_of_a_class_that_compiled_code_has_too(folder):
    pytest.importorskip("torch._dynamo", reason="this torch has no compiler")
    done = run(folder, COMPILED, "--every", "10", "train.py")
    if "torch.compile is not supported" in done.stderr or "Dynamo is not supported" in done.stderr:
        pytest.skip("this Python can't compile with this torch")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 True\n"


DEEP = """
    import sys, traceback
    import torch
    from torch import nn
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(2, 2)
        def forward(self, x, depth):
            self.depth = depth
            return self(x, depth + 1)
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(2, 2)
        def forward(self, x):
            raise ValueError
    again, fails = Again(), nn.Sequential(nn.Linear(2, 2), Fails())
    for _ in range(3):
        try:
            again(torch.rand(2), 0)
        except RecursionError:
            print(again.depth)
        try:
            fails(torch.rand(2))
        except ValueError as error:
            print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
"""


def test_layers_have_no_frames_of_ours(tmp_path):
    """Tracebacks are as without lamina, and modules call each other as deep, but for the runner itself."""
    (tmp_path / "deep.py").write_text(textwrap.dedent(DEEP))
    told = []
    for words in ((), ("-m", "lamina", "run")):
        done = warm.python(*words, "deep.py", cwd=tmp_path, env=environment(), check=True)
        told.append(done.stdout.splitlines())
    plain, ours = told
    assert ours[1::2] == plain[1::2]
    for one, other in zip(ours[::2], plain[::2], strict=True):
        assert int(one) >= int(other) - 5
