# SPDX-License-Identifier: Apache-2.0
"""tools/wheels: what it makes of a wheel that is built, and what it stops at."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("tools_wheels", str(ROOT / "tools/wheels"))
wheels = module_from_spec(spec_from_loader("tools_wheels", loader))
loader.exec_module(wheels)

INFO = "lamina-1.2.3.dist-info"
MEMBERS = {
    "lamina/__init__.py": b"",
    wheels.EXTENSION: b"\x7fELF and more",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-abi3-linux_x86_64\n",
    f"{INFO}/RECORD": b"what the builder wrote",
}


def raw(folder, members, when=(2026, 1, 31, 1, 2, 4)):
    """A wheel as the builder leaves it, with the times of that build."""
    file = folder / "raw/lamina-1.2.3-cp311-abi3-linux_x86_64.whl"
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, when), data)
    return file


@pytest.fixture(autouse=True)
def when(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767323045")
    wheels.commit_time.cache_clear()


def finished(folder, **options):
    return wheels.finish(raw(folder, **{"members": MEMBERS} | options), "manylinux_2_28_x86_64")


def test_order_and_times_of_the_build_leave_no_trace(tmp_path):
    first = finished(tmp_path / "first")
    backwards = dict(reversed(MEMBERS.items()))
    second = finished(tmp_path / "second", members=backwards, when=(2001, 2, 3, 4, 5, 6))
    assert first.name == second.name == "lamina-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl"
    wheels.same("it", first, second)


def test_other_contents_are_no_second_build_of_the_same(tmp_path):
    first = finished(tmp_path / "first")
    second = finished(tmp_path / "second", members=MEMBERS | {"lamina/__init__.py": b"#"})
    with pytest.raises(SystemExit, match="two builds of it differ"):
        wheels.same("it", first, second)


def test_the_record_and_the_list_of_contents_are_true(tmp_path):
    with zipfile.ZipFile(finished(tmp_path)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        times = {each.date_time for each in archive.infolist()}
    assert times == {(2026, 1, 2, 3, 4, 4)}  # a zip file has every other second
    assert b"\nTag: cp311-abi3-manylinux_2_28_x86_64\n" in members[f"{INFO}/WHEEL"]
    rows = {name: rest for name, *rest in csv.reader(members[f"{INFO}/RECORD"].decode().splitlines())}
    assert rows.pop(f"{INFO}/RECORD") == ["", ""]
    assert set(rows) == set(members) - {f"{INFO}/RECORD"}
    for name, (digest, size) in rows.items():
        sum_ = base64.urlsafe_b64encode(hashlib.sha256(members[name]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={sum_}", len(members[name]))
    [part] = json.loads(members[f"{INFO}/sboms/lamina.cdx.json"])["components"]
    assert part["name"] == wheels.EXTENSION
    assert part["hashes"][0]["content"] == hashlib.sha256(MEMBERS[wheels.EXTENSION]).hexdigest()


def test_a_target_that_is_none_is_named(capsys):
    with pytest.raises(SystemExit):
        wheels.main(["sparc-gnu"])
    assert "sparc-gnu: there is no such target" in capsys.readouterr().err
