# SPDX-License-Identifier: Apache-2.0
"""tools/proof: adds up what the C tests proved, and names a rule that was proved too little."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copy_of_house(tmp_path: Path) -> Path:
    """The tool, the tables it reads and the record that it compares with, in a tree of their own."""
    house = tmp_path / "house"
    for name in (
        "tools/proof",
        "tests/data/proof.tsv",
        "src/count/rules/exact.def",
        "src/count/rules/layers.def",
    ):
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, house / name)
    return house


def proof(house: Path, *args: object) -> tuple[int, str]:
    command = [sys.executable, house / "tools/proof", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_record_is_enough_for_every_rule(tmp_path: Path) -> None:
    house = copy_of_house(tmp_path)
    written = tmp_path / "written"
    written.mkdir()
    shutil.copy(house / "tests/data/proof.tsv", written / "all.tsv")
    assert proof(house, "--check", written) == (0, "")


def test_files_are_added_up_and_a_gap_has_a_name(tmp_path: Path) -> None:
    house = copy_of_house(tmp_path)
    written = tmp_path / "written"
    written.mkdir()
    lines = (house / "tests/data/proof.tsv").read_text("utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("exact\tattend\t")]
    (written / "a.tsv").write_text("\n".join(lines) + "\n")
    (written / "b.tsv").write_text("exact\tattend\t4000\n")
    (written / "c.tsv").write_text("exact\tattend\t5999\n")
    code, said = proof(house, "--check", written)
    assert code == 1
    assert "the rule attend of exact was held against a loop over 9999 shapes, not 10000" in said
    assert "`make proof` rewrites it" in said
    (written / "c.tsv").write_text("exact\tattend\t6000\n")
    assert proof(house, written) == (0, "")
    assert "exact\tattend\t10000\n" in (house / "tests/data/proof.tsv").read_text("utf-8")


def test_a_new_rule_without_a_loop_is_found(tmp_path: Path) -> None:
    house = copy_of_house(tmp_path)
    table = house / "src/count/rules/exact.def"
    table.write_text(table.read_text("utf-8") + 'RULE(brand_new, "out*red", "2*out*red", "ins+outs")\n')
    code, said = proof(house, "--check", house / "tests/data")
    assert code == 1
    assert "the rule brand_new of exact" in said


def test_usage(tmp_path: Path) -> None:
    assert proof(copy_of_house(tmp_path))[0] == 2
