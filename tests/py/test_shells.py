# SPDX-License-Identifier: Apache-2.0
"""`lamina completion` and `lamina help --man`, in the shells and by the program that read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment

ROOT = Path(__file__).resolve().parents[2]
VERBS = re.findall(r"^VERB\((\w+),", (ROOT / "src/cmd/line/verbs.def").read_text("utf-8"), re.M)


def lamina(*words):
    command = [sys.executable, "-m", "lamina", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def script(shell, tmp_path):
    done = lamina("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / f"lamina.{shell}"
    path.write_text(done.stdout, "utf-8")
    return path


def shell(*words):
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


# A line, and words that complete it; a line ends where the cursor is.
LINES = [
    ("lamina sh", {"show"}),
    ("lamina ", set(VERBS)),
    ("lamina show --mo", {"--mode"}),
    ("lamina show --mode ", {"eval", "train"}),
    ("lamina show --mode e", {"eval"}),
    ("lamina fit --opti", {"--optimizer"}),
    ("lamina help com", {"compare", "completion"}),
    ("lamina completion ", {"bash", "zsh", "fish"}),
]


@pytest.mark.parametrize(("line", "words"), LINES, ids=[line for line, _ in LINES])
def test_bash(line, words, tmp_path):
    code = f"""
source {script("bash", tmp_path)}
compopt() {{ :; }}
line='{line}'
COMP_WORDS=($line); [[ $line == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_lamina
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    given = set(shell("bash", "--norc", "-c", code))
    assert given - {"--help", "--version"} == words


def test_bash_takes_a_target_as_show_does(tmp_path):
    code = f"""
source {script("bash", tmp_path)}
COMP_WORDS=(lamina net.py:Net --col); COMP_CWORD=2; _lamina
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    assert shell("bash", "--norc", "-c", code) == ["--color"]


@pytest.mark.parametrize(("line", "words"), LINES, ids=[line for line, _ in LINES])
def test_fish(line, words, tmp_path):
    code = f"source {script('fish', tmp_path)}; complete -C '{line}'"
    given = {told.split("\t")[0] for told in shell("fish", "--no-config", "-c", code)}
    assert words <= given
    files = {name for name in given if name not in VERBS and not name.startswith("-")}
    if "help" in line or "completion" in line or "--mode" in line:
        assert files <= words  # nothing else is one


# zsh's completion needs a terminal, so what the script tells zsh is looked at.
ZSH = """
_arguments() {{ print -rl -- arguments "$@" }}
_describe() {{ print -rl -- describe "${{(P@)4}}" }}
_files() {{ : }}
compdef() {{ print -r -- "compdef $*" }}
source {path}
words=({words}) CURRENT={at}
_lamina
"""


def test_zsh(tmp_path):
    path = script("zsh", tmp_path)
    told = shell("zsh", "-f", "-c", ZSH.format(path=path, words="lamina ''", at=2))
    assert told[:2] == ["compdef _lamina lamina", "describe"]
    assert [line.split(":")[0] for line in told[2:]] == VERBS
    told = shell("zsh", "-f", "-c", ZSH.format(path=path, words="lamina fit ''", at=3))
    assert told[1] == "arguments"
    assert any(
        re.match(r"\*--optimizer\[adamw \(default\),.*\]:NAME: $", line.replace("\\", "")) for line in told
    )
    assert any(line.startswith("*-o[") and line.endswith(":FILE:_files") for line in told)
    told = shell("zsh", "-f", "-c", ZSH.format(path=path, words="lamina net.py:Net ''", at=3))
    assert any(line.startswith("*--mode[") and line.endswith(":mode:(eval train)") for line in told)
    told = shell("zsh", "-f", "-c", ZSH.format(path=path, words="lamina completion ''", at=3))
    assert told[-1] == "*:word:(bash zsh fish)"


def test_another_shell():
    done = lamina("completion", "ksh")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "lamina: error: ksh: there is no completion for this shell",
        "  hint: it is one of bash, zsh and fish",
    ]


def test_the_manual_page(tmp_path):
    done = lamina("help", "--man")
    assert (done.returncode, done.stderr) == (0, "")
    page = tmp_path / "lamina.1"
    page.write_text(done.stdout, "utf-8")
    assert re.findall(r"^\.SS (.*)$", done.stdout, re.M) == VERBS
    sections = ["NAME", "SYNOPSIS", "DESCRIPTION", "SUBCOMMANDS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"]
    assert re.findall(r"^\.SH (.*)$", done.stdout, re.M) == sections
    shown = "\n".join(shell("groff", "-man", "-Tascii", "-P-cbou", "-ww", str(page)))
    words = " ".join(shown.split())
    assert "-o, --output FILE" in words
    assert "lamina compare TARGET [options]" in words
    assert "exit code 1" in words
