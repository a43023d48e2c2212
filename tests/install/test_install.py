# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` serves other programs: pkg-config, a CMake package, both libraries, the command.

`make install` puts the same under a prefix, and `make uninstall` takes away exactly that."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = r"""
#include <lamina.h>
#include <stdio.h>
#include <string.h>

/* Prints the header's and the library's version, and a formula's value: 7 * 3. */
int main(void) {
    const char *names[] = {"out"};
    int64_t values[] = {7};
    lam_count count;
    lam_error error = {0};
    if (lam_formula_eval("out*3", names, values, 1, &count, &error) != LAM_OK) return 1;
    printf("%s %s %lld\n", LAM_VERSION, lam_version(), (long long)count.n);
    return strcmp(LAM_VERSION, lam_version()) != 0;
}
"""

CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.18)
project(client C)
find_package(lamina {version} REQUIRED)
add_executable(client client.c)
target_link_libraries(client PRIVATE lamina::{target})
"""


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def version() -> str:
    found = re.search(r'LAM_VERSION "(.+)"', (ROOT / "include/lamina_core.h").read_text("utf-8"))
    assert found
    return found.group(1)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configured, built, installed, and then moved: an installed prefix may be put anywhere."""
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    top = tmp_path_factory.mktemp("install")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_C_FLAGS_RELEASE=-O0",  # what is installed is looked at, and its speed is not
        "-DLAMINA_CHECK=OFF",  # a test of its own looks at the rooms
        f"-DCMAKE_INSTALL_PREFIX={top / 'first'}",
        "-DCMAKE_INSTALL_LIBDIR=lib",
    ]
    run("cmake", *generator, "-S", ROOT, "-B", top / "build", *options)
    run("cmake", "--build", top / "build")
    run("cmake", "--install", top / "build")
    return (top / "first").rename(top / "prefix")


@pytest.fixture
def client(tmp_path: Path) -> Path:
    (tmp_path / "client.c").write_text(PROGRAM)
    return tmp_path


EXPECTED = f"{version()} {version()} 21\n"


def test_pkg_config(prefix: Path, client: Path) -> None:
    pkg_config = shutil.which("pkg-config")
    if not pkg_config:
        pytest.skip("pkg-config is not installed")
    env = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    assert run(pkg_config, "--modversion", "lamina", env=env).strip() == version()
    flags = run(pkg_config, "--cflags", "--libs", "lamina", env=env).split()
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "client.c", "-o", "client", *flags, cwd=client)
    assert run(client / "client", env=os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib")}) == EXPECTED


@pytest.mark.parametrize("target", ["lamina", "lamina_static"])
def test_cmake_package(prefix: Path, client: Path, target: str) -> None:
    (client / "CMakeLists.txt").write_text(CMAKE_LISTS.format(version=version(), target=target))
    run("cmake", "-S", client, "-B", client / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", client / "build")
    assert run(client / "build/client") == EXPECTED


def test_header_serves_cpp(prefix: Path, tmp_path: Path) -> None:
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    source = "#include <lamina.h>\nint main() { return lam_version() == nullptr; }\n"
    (tmp_path / "client.cpp").write_text(source)
    command = ["c++", "-Wall", "-Wextra", "-Werror", f"-I{prefix / 'include'}", "client.cpp", "-o", "client"]
    run(*command, str(prefix / "lib/liblamina.a"), cwd=tmp_path)
    run(tmp_path / "client")


def test_shared_library_shows_the_public_names_only(prefix: Path) -> None:
    library = prefix / "lib/liblamina.so"
    lines = run("nm", "--dynamic", "--defined-only", "--format=posix", library).splitlines()
    shown = {line.split()[0] for line in lines}
    assert shown, "the library shows nothing"
    assert {name for name in shown if not name.startswith("lam_")} == set()
    headers = "".join(header.read_text("utf-8") for header in (prefix / "include").glob("lamina*.h"))
    declared = set(re.findall(r"\b(lam_\w+)\(", headers))
    assert shown <= declared
    major = version().split(".")[0]
    assert re.search(rf"SONAME.*liblamina\.so\.{major}\b", run("readelf", "-d", library))


TEXTS = {
    "man/man1/lamina.1": ["help", "--man"],
    "bash-completion/completions/lamina": ["completion", "bash"],
    "zsh/site-functions/_lamina": ["completion", "zsh"],
    "fish/vendor_completions.d/lamina.fish": ["completion", "fish"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_manual_page_and_completions(prefix: Path, name: str) -> None:
    assert (prefix / "share" / name).read_text("utf-8") == run(prefix / "bin/lamina", *TEXTS[name])


def test_native_command(prefix: Path) -> None:
    command = prefix / "bin/lamina"
    assert version() in run(command, "--version")
    assert "torchscan" in run(command, "rules", "torchscan")


def test_native_doctor_where_python_has_no_lamina(prefix: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho False\n")
    python.chmod(0o755)
    env = os.environ | {"LAMINA_PYTHON": str(python), "PATH": f"{prefix / 'bin'}{os.pathsep}/usr/bin:/bin"}
    done = subprocess.run(
        [prefix / "bin/lamina", "doctor"], env=env, text=True, capture_output=True, check=False
    )
    assert done.returncode == 3
    assert "does not have the package lamina" in done.stderr
    assert f"\ncommand: {prefix}/bin/lamina (native, {version()})" in done.stdout


# -- the confinement of the command ------------------------------------------------------------------------

FILES = ROOT / "tests/data/files"
# The numbers of the system calls of landlock (three) and of seccomp.
NUMBERS = {"x86_64": (444, 445, 446, 317), "aarch64": (444, 445, 446, 277)}


def without(*calls: int) -> None:
    """From now on these system calls fail in this process, as in an older kernel, or in a container."""
    code = [(0x20, 0, 0, 0)]  # load the number of the call
    for each in calls:
        code += [(0x15, 0, 1, each), (0x06, 0, 0, 0x00050000 | 38)]  # if it is this one: ENOSYS
    code.append((0x06, 0, 0, 0x7FFF0000))  # allow it
    program = b"".join(struct.pack("=HBBI", *each) for each in code)
    held = ctypes.create_string_buffer(program)
    whole = struct.pack("@HP", len(code), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, whole) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def lamina(prefix: Path, *words: str | Path, missing: tuple[int, ...] = ()) -> tuple[int, str, str]:
    done = subprocess.run(
        [prefix / "bin/lamina", *words], env=os.environ | {"LAMINA_PYTHON": "there-is-no-python"}, text=True,
        capture_output=True, check=False, preexec_fn=(lambda: without(*missing)) if missing else None,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_name_without_a_colon_needs_no_python(prefix: Path) -> None:
    for words in (("show", "no-file"), ("why", "no-file", "."), ("diff", FILES / "state.pt", "no-file")):
        code, _, said = lamina(prefix, *words)
        assert code == 2
        assert "no-file: it is no file that lamina reads, and no model" in said
    assert "a live model needs Python with the package lamina" in lamina(prefix, "show", "net.py:Net")[2]
    said = lamina(prefix, "merge", "run.lamina", "-o", "run")[2]
    assert "`lamina merge` needs Python with the package lamina" in said and "could not be started" in said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="landlock and seccomp are Linux'")
def test_where_the_kernel_can_not_confine_files_are_read_as_well(prefix: Path, tmp_path: Path) -> None:
    *landlock, seccomp = NUMBERS[platform.machine()]
    told = set()
    for missing in ((), tuple(landlock), (*landlock, seccomp)):
        said = []
        for words in (
            ("show", FILES / "state.pt"),
            ("show", FILES / "shards", "--json"),
            ("scan", FILES / "model.pt"),
            ("show", FILES / "cut.safetensors"),
            ("report", FILES / "tiny.gguf", "-f", "-o", tmp_path / "page.html"),
        ):
            said.append(lamina(prefix, *words, missing=missing))
        said.append((0, (tmp_path / "page.html").read_text("utf-8"), ""))
        told.add(tuple(said))
        doctor = lamina(prefix, "doctor", missing=missing)[1]
        if missing:
            assert ("has neither landlock" if seccomp in missing else "it has no landlock") in doctor
    assert len(told) == 1
    assert [each[0] for each in said] == [0, 0, 1, 3, 0, 0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="landlock and seccomp are Linux'")
def test_the_command_is_confined_while_it_writes_what_it_read(prefix: Path, tmp_path: Path) -> None:
    """Its output is larger than a pipe, which nobody reads until the process has been looked at."""
    if "(landlock), network and programs (seccomp)" not in lamina(prefix, "doctor")[1]:
        pytest.skip("this kernel has not both")
    tensors = {f"{i}.weight": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(3000)}
    header = json.dumps(tensors).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(3000))
    command: list[str | Path] = [prefix / "bin/lamina", "show", tmp_path / "m.safetensors", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout
        first = child.stdout.read(1)
        status = Path(f"/proc/{child.pid}/status").read_text()
        rest = child.stdout.read()
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.M)
    assert re.search(r"^Seccomp:\s*2$", status, re.M)
    assert len(json.loads(first + rest)["rows"]) > 3000


# -- make install ------------------------------------------------------------------------------------------


def make(prefix: Path, *words: str, fails: bool = False) -> str:
    """What make says. It is built where the fixture built it, so that nothing is compiled twice."""
    env = os.environ | {"BUILD": str(prefix.parent / "build"), "MAKEFLAGS": "", "MAKELEVEL": ""}
    done = subprocess.run(
        ["make", "-s", "-C", str(ROOT), *words],
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def tree(folder: Path) -> dict[str, bytes | None]:
    """All below a folder: the bytes of files, None for folders."""
    every = sorted(folder.rglob("*"))
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None for each in every}


def test_uninstall_leaves_what_was_there_before(prefix: Path, tmp_path: Path) -> None:
    home = tmp_path / "a home" / "local"
    (home / "bin").mkdir(parents=True)
    (home / "share/man/man1").mkdir(parents=True)
    (home / "share/man/man1/other.1").write_text("another program's\n")
    before = tree(tmp_path)
    said = make(prefix, "install", f"PREFIX={home}")
    assert said.startswith(f"install: {home}/bin/lamina and ")
    assert version() in run(home / "bin/lamina", "--version")
    assert (home / "share/man/man1/lamina.1").is_file()
    assert "files were removed from" in make(prefix, "uninstall", f"PREFIX={home}")
    assert tree(tmp_path) == before


def test_what_others_put_into_a_folder_of_ours_stays(prefix: Path, tmp_path: Path) -> None:
    make(prefix, "install", f"PREFIX={tmp_path / 'p'}")
    (tmp_path / "p/include/theirs.h").write_text("")
    make(prefix, "uninstall", f"PREFIX={tmp_path / 'p'}")
    assert set(tree(tmp_path)) == {"p", "p/include", "p/include/theirs.h"}


def test_destdir_goes_before_every_path(prefix: Path, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    make(prefix, "install", "PREFIX=/opt/lamina", f"DESTDIR={stage}")
    assert [each.name for each in stage.iterdir()] == ["opt"]
    assert version() in run(stage / "opt/lamina/bin/lamina", "--version")
    make(prefix, "uninstall", "PREFIX=/opt/lamina", f"DESTDIR={stage}")
    assert tree(tmp_path) == {}


def test_an_installation_over_an_older_one_leaves_nothing_of_it(prefix: Path, tmp_path: Path) -> None:
    make(prefix, "install", f"PREFIX={tmp_path}")
    after = tree(tmp_path)
    (tmp_path / "include/lamina_old.h").write_text("")
    with (tmp_path / "share/lamina/installed").open("a") as listed:
        listed.write("f include/lamina_old.h\n")
    make(prefix, "install", f"PREFIX={tmp_path}")
    assert tree(tmp_path) == after
    make(prefix, "uninstall", f"PREFIX={tmp_path}")
    assert tree(tmp_path) == {}


def test_a_command_that_pip_put_there_is_not_replaced(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/lamina").write_text("#!/usr/bin/python3\n")
    before = tree(tmp_path)
    said = make(prefix, "install", f"PREFIX={tmp_path}", fails=True)
    assert f"{tmp_path}/bin/lamina is there, and another program put it there" in said
    assert tree(tmp_path) == before
    assert "has no lamina that make install put there" in make(
        prefix, "uninstall", f"PREFIX={tmp_path}", fails=True
    )
    assert tree(tmp_path) == before


def test_a_home_that_the_shell_left_as_it_is(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "first").mkdir()
    (tmp_path / "first/lamina").write_text("#!/bin/sh\n")
    (tmp_path / "first/lamina").chmod(0o755)
    said = make(prefix, "install", "PREFIX=~/.local")
    assert (tmp_path / ".local/bin/lamina").is_file()
    assert f"{tmp_path}/first/lamina comes first in PATH" in said
