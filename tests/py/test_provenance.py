# SPDX-License-Identifier: Apache-2.0
"""How, where and when a report's run was made, against what Python and torch themselves tell."""

import json
import platform
import re
from datetime import UTC, datetime, timedelta

import pytest
import torch
from conftest import environment
from torch import nn

import lamina
import warm
from lamina._base.machine import processor

X = torch.rand(2, 4)


@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout())


def test_it_names_the_machine_and_the_moment(net):
    began = datetime.now(UTC).replace(microsecond=0)
    facts = lamina.inspect(net, X).provenance
    ended = datetime.now(UTC)
    assert facts["torch"] == torch.__version__ and facts["python"] == platform.python_version()
    assert facts["threads"] == str(torch.get_num_threads())
    assert facts["system"] == f"{platform.system()} {platform.release()} {platform.machine()}"
    date = datetime.strptime(facts["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert began <= date <= ended < began + timedelta(minutes=10)
    assert (facts["dry"], facts["backward"]) == ("no", "no") and "target" not in facts


def test_threads_are_those_of_the_run(net):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert lamina.inspect(net, X).provenance["threads"] == "1"
    finally:
        torch.set_num_threads(before)


def test_the_mode_is_that_of_the_modules_that_were_called(net):
    assert lamina.inspect(net, X).provenance["mode"] == "train"
    assert lamina.inspect(net, X, mode="eval").provenance["mode"] == "eval"
    net[1].eval()
    assert lamina.inspect(net, X).provenance["mode"] == "mixed"
    with lamina.capture(net) as cap:
        net[1](X)
    assert cap.report().provenance["mode"] == "eval"


def test_what_was_asked_for(net):
    dry = lamina.inspect(net, X, dry=True).provenance
    assert (dry["dry"], dry["backward"]) == ("yes", "no")
    assert lamina.inspect(net, X, backward=True).provenance["backward"] == "yes"


def test_a_block_of_code_tells_no_more_than_is_known(net):
    with lamina.capture(net) as cap:
        pass
    facts = cap.report().provenance
    assert facts["dry"] == "no" and facts["torch"] == torch.__version__
    assert "backward" not in facts and "mode" not in facts


def test_it_can_be_read_and_not_changed(net):
    report = lamina.inspect(net, X)
    with pytest.raises(TypeError):
        report.provenance["torch"] = "1.0"
    assert dict(report.under("layers").provenance) == dict(report.provenance)


def test_json_has_it_and_gives_it_back(tmp_path, net):
    report = lamina.inspect(net, X)
    told = json.loads(report.to_json(tmp_path / "net.json") or (tmp_path / "net.json").read_text())
    assert told["provenance"] == dict(report.provenance)
    assert lamina.Report.load(tmp_path / "net.json").provenance == report.provenance


def test_json_of_an_older_lamina_has_none(tmp_path, net):
    told = json.loads(lamina.inspect(net, X).to_json())
    del told["provenance"]
    (tmp_path / "old.json").write_text(json.dumps(told))
    assert dict(lamina.Report.load(tmp_path / "old.json").provenance) == {}


def test_the_command_tells_what_it_was_given(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nx = torch.rand(2, 4)\ndef net(width): return torch.nn.Linear(4, width)\n"
    )
    command = ["show", "net.py:net", "-k", "width=3", "--format", "json"]

    def facts(*more):
        done = warm.lamina([*command, *more], cwd=tmp_path, env=environment())
        return json.loads(done.stdout)["provenance"]

    told = facts("-i", "2x4", "--dry")
    assert (told["target"], told["build"], told["inputs"]) == ("net.py:net", "width=3", "2x4")
    assert (told["dry"], told["mode"]) == ("yes", "eval")
    assert facts("--inputs", "net.py:x")["inputs"] == "net.py:x"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD  EPYC 7B13\nmodel name\t: other\n",
            "AMD EPYC 7B13",
        ),
        ("processor\t: 0\nBogoMIPS\t: 100.00\n", None),
        ("model name\t:\n", None),
        ("", None),
    ],
)
def test_the_processors_name_is_the_first(tmp_path, text, name):
    (tmp_path / "cpuinfo").write_text(text)
    assert processor(str(tmp_path / "cpuinfo")) == name


def test_a_system_without_such_a_file_has_no_name(tmp_path):
    assert processor(str(tmp_path / "none")) is None


def test_recorded_steps_carry_none(net):
    """A capture of one step of a watch has no provenance: its recording has its own."""
    from lamina._inspect import RecordedStep

    assert not RecordedStep(net, memory=False, health=False)._has_report
    assert lamina.capture(net)._has_report


def test_a_capture_takes_a_dict_of_texts(net):
    watch = lamina._lamina.Capture(net)
    with pytest.raises(TypeError, match="a dict"):
        watch.provenance("torch 2.13")
    watch.provenance({"Torch": "2.13"})
    watch.start()
    watch.stop()
    with pytest.raises(ValueError, match=re.escape("a to z, 0 to 9 and _")):
        watch.model()
