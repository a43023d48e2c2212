# SPDX-License-Identifier: Apache-2.0
"""``lamina show run/ --rank``, ``--node`` and ``--layers``: one of a run beside its peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from schemas import ANSWERS, wrong

import ranked
from lamina._command import cli
from lamina._ranks import merge_tables, open_run

pytest.importorskip("duckdb")

SLOW = {"slow": "rank = 11", "more_us": 20000, "since": 48, "layer": "blocks.0.mlp"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("look")
    merge_tables(ranked.write(at / "tables", ranks=32, **SLOW), at / "run")
    return at / "run"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["show", *words])
    out, err = capsys.readouterr()
    return code, out, err


def looked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = shown(capsys, *words, "--json")
    assert (code, err) == (0, "")
    told: dict[str, Any] = json.loads(out)
    assert not wrong(ANSWERS, told)
    return told


def test_a_slow_rank_stands_beside_its_peers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = looked(capsys, str(folder), "--rank", "11")
    of = told["of"]
    assert (of["rank"], of["node"], of["ranks"], of["peers"], of["alike"]) == (11, "n01", 1, 31, True)
    assert of["since"] == {"attempt": 0, "step": 4800, "unix_us": ranked.EPOCH + 4800 * 100_000}
    peers, own = of["phases"]
    assert own["backward_us"] - peers["backward_us"] == pytest.approx(20000, rel=0.01)
    assert own["forward_us"] == pytest.approx(peers["forward_us"], rel=0.01)
    assert own["comm_us"] < peers["comm_us"]
    assert of["late"] == pytest.approx(20000 / peers["own_us"], rel=0.05)
    assert of["last"] >= told["steps"] // 2
    assert told["layers"][0]["layer"] == "blocks.0.mlp"
    assert told["layers"][0]["own_us"] - told["layers"][0]["peer_us"] == pytest.approx(20000, rel=0.01)
    assert len(of["windows"]) == len(told["windows"])
    assert told["verdict"]["ranks"] == [11]


def test_a_rank_that_is_not_late_is_told_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = looked(capsys, str(folder), "--rank", "3")["of"]
    assert of["since"] is None and of["late_ranks"] == 0
    assert abs(of["late"]) < 0.01
    assert "It is not late again and again" in shown(capsys, str(folder), "--rank", "3")[1]


def test_a_node_has_a_row_for_each_of_its_ranks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = looked(capsys, str(folder), "--node", "n01")["of"]
    assert (of["rank"], of["node"], of["ranks"], of["peers"], of["late_ranks"]) == (None, "n01", 8, 24, 1)
    assert [(row["rank"], row["node"]) for row in of["phases"]] == [
        (None, None), (None, "n01"), *((rank, None) for rank in range(8, 16)),
    ]  # fmt: skip
    assert "1 of its 8 ranks is late again and again" in shown(capsys, str(folder), "--node", "n01")[1]


def test_all_layers_are_told_by_what_the_slowest_rank_takes_longer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = looked(capsys, str(folder), "--layers")
    assert told["of"] is None
    first, *others = told["layers"]
    assert (first["layer"], first["rank"]) == ("blocks.0.mlp", 11)
    assert len(others) == len(ranked.LAYERS) - 1
    assert all(layer["own_us"] == pytest.approx(layer["peer_us"]) for layer in others)


def test_what_is_not_looked_at_is_null(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = looked(capsys, str(folder))
    assert told["of"] is None and told["layers"] is None


def test_layers_that_are_not_recorded_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(ranked.write(tmp_path / "run", layers=False))
    assert looked(capsys, run, "--rank", "3")["layers"] is None
    for what, whose in ((("--rank", "3"), "its "), (("--node", "n00"), "its "), (("--layers",), "")):
        assert f"Nothing is known of {whose}layers." in shown(capsys, run, *what)[1]


def test_phases_that_are_unknown_have_a_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ranked.write(tmp_path / "run", waits="other", layers=False)
    (row,) = [row for row in looked(capsys, str(run), "--rank", "3")["of"]["phases"] if row["rank"] == 3]
    assert row["comm_us"] is None
    _, out, _ = shown(capsys, str(run), "--rank", "3")
    assert "?" in out and "waits for other ranks are not measured apart" in " ".join(out.split())


def test_a_rank_or_node_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(ranked.write(tmp_path / "run", ranks=40, missing="rank BETWEEN 8 AND 12", layers=False))
    for words, said in (
        (("--rank", "40"), "there is no rank 40 in this run: its ranks are 0..39"),
        (
            ("--rank", "9"),
            "rank 9 of this run has no recorded steps that can be compared; 0..7, 13..39 have",
        ),
        (("--node", "n1"), "there is no node 'n1' in this run; nearest are: n01, n00, n02"),
        (("--rank", "-1"), "--rank -1: it takes a whole number"),
        (("--rank", "3", "--node", "n00"), "--rank, --node and --layers each show something else"),
        (("--rank", "3", "--layers"), "--rank, --node and --layers each show something else"),
    ):
        code, out, err = shown(capsys, run, *words)
        assert (code, out) == (2, ""), err
        assert said in err, err


def test_models_have_no_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--rank", "0"), ("--node", "a"), ("--layers",)):
        code, _, err = shown(capsys, "torch.nn:Identity", *words)
        assert code == 2 and f"{words[0]} is for a run of many ranks" in err


# -- which files are opened ----------------------------------------------------------------------------------


def many_nodes(folder: Path) -> Path:
    run = folder / "run"
    merge_tables(ranked.write(folder / "tables", ranks=64, per_node=1, **SLOW), run)
    return run


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def test_a_rank_opens_the_layers_of_its_node_and_of_some_peers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = many_nodes(tmp_path)
    whole = looked(capsys, str(run), "--rank", "11")
    opened: list[Path] = []
    at = open_run(str(run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamina._ranks.check", opened.extend)
        at.judged().look(11, None, False, at.layers)
    of_look = opened[-17:]
    assert len({file.stem for file in of_look}) == 17 and all("layers" in file.parts for file in of_look)
    assert "n11-0" in {file.stem for file in of_look}
    # files of raw steps, and of layers of other nodes, are not looked at: they may be damaged
    for file in run.glob("steps/*/*"):
        cut(file)
    for file in run.glob("layers/*/*"):
        if file.stem not in {f.stem for f in opened}:
            cut(file)
    assert looked(capsys, str(run), "--rank", "11") == whole


def test_files_of_other_names_are_opened_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = many_nodes(tmp_path)
    whole = looked(capsys, str(run), "--rank", "11")
    for k, file in enumerate(sorted(run.glob("layers/*/*"))):
        file.rename(file.with_name(f"part-{k}.parquet"))
    assert looked(capsys, str(run), "--rank", "11") == whole


# -- recordings ----------------------------------------------------------------------------------------------


def test_one_recording_has_no_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torch import nn, ones

    import lamina

    model = nn.Linear(2, 2)
    with lamina.watch(model, every=1, file=tmp_path / "a.lamina"):
        for _ in range(3):
            model(ones(1, 2)).sum().backward()
    code, out, err = shown(capsys, str(tmp_path / "a.lamina"), "--rank", "0")
    assert (code, out) == (2, "")
    assert "there is one recording" in err and err.count("\n") == 1
