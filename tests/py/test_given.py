# SPDX-License-Identifier: Apache-2.0
"""What the command gives a model: ``-i``, values, dicts, and inputs from code."""

from __future__ import annotations

import json
import textwrap

import pytest
import torch
from conftest import needs_fit
from torch import nn

import lamina
from lamina._base.errors import UsageError
from lamina._command import live
from lamina._observe import support
from lamina._target import inputs

watched = pytest.mark.skipif(support.way().name == "calls", reason="no operators: no dry run of a step")


class Takes(nn.Module):
    """Keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, ids=None, attention_mask=None, scale=None, *, batch=None):
        return ids, attention_mask, scale, batch


class Half(nn.Linear):
    def __init__(self):
        super().__init__(2, 2, dtype=torch.float16)


def given(*texts, root=None, **options):
    torch.manual_seed(0)
    return inputs.made_up(root or Takes(), "m:Takes", texts, **{"dry": False, **options})


def one(text, **options):
    return given(text, **options).args[0]


@pytest.mark.parametrize("text", ["1x3x8x8", "1,3,8,8", "(1, 3, 8, 8)"])
def test_a_shape_as_lamina_prints_it(text):
    assert one(text).shape == (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x3:int64", torch.zeros(2, 3, dtype=torch.int64)),
        ("2x3:torch.int64", torch.zeros(2, 3, dtype=torch.int64)),
        ("2x3:bool", torch.ones(2, 3, dtype=torch.bool)),
        ("2x3:bool=False", torch.zeros(2, 3, dtype=torch.bool)),
        ("2x3=True", torch.ones(2, 3, dtype=torch.bool)),
        ("2x3:int64=-7", torch.full((2, 3), -7)),
        ("2x3=0.5", torch.full((2, 3), 0.5)),
        ("2x3=1e-3", torch.full((2, 3), 1e-3)),
        ("2x3=5", torch.full((2, 3), 5.0)),
        ("2x3:int64=ones", torch.ones(2, 3, dtype=torch.int64)),
        ("2x3=zeros", torch.zeros(2, 3)),
        ("2x3=arange", torch.tensor([[0, 1, 2], [0, 1, 2]])),
        ("2x3:float32=arange", torch.tensor([[0.0, 1, 2], [0, 1, 2]])),
        (":int64=5", torch.tensor(5)),
        ("=0.25", torch.tensor(0.25)),
    ],
)
def test_values(text, expected):
    torch.testing.assert_close(one(text), expected, rtol=0, atol=0)
    dry = one(text, dry=True)
    assert (dry.shape, dry.dtype) == (expected.shape, expected.dtype)
    if not expected.is_floating_point():
        torch.testing.assert_close(dry, expected, rtol=0, atol=0)


def test_fractions_are_drawn():
    x = one("400")
    assert x.dtype == torch.float32 and x.min() >= 0 and x.max() < 1 and x.std() > 0.1
    assert one("400=randn").min() < -1
    assert one("4", root=Half()).dtype == torch.float16
    assert one("400:complex64").dtype == torch.complex64


def test_whole_numbers_are_drawn_alike_in_a_dry_run():
    text = "ids=400=randint(5, 9)"
    real, dry = (given(text, text.replace("ids", "scale"), dry=dry).kwargs for dry in (False, True))
    assert real["ids"].dtype == torch.int64 and set(real["ids"].tolist()) == {5, 6, 7, 8}
    assert not torch.equal(real["ids"], real["scale"])
    assert all(torch.equal(real[name], dry[name]) for name in real)
    assert one("9:int64=randint(1)").tolist() == [0] * 9


def test_masks_are_ones_by_their_name():
    assert given("attention_mask=1x4:int64").kwargs["attention_mask"].tolist() == [[1, 1, 1, 1]]
    ids, mask = given("1x4:int64", "1x4:int64").args  # by position
    assert (ids.sum(), mask.sum()) == (0, 4)
    batch = given("batch.Mask=4:int64", "batch.ids=4:int64").kwargs["batch"]
    assert (batch["Mask"].sum(), batch["ids"].sum()) == (4, 0)
    assert given("attention_mask=4:int64=0").kwargs["attention_mask"].sum() == 0


def test_the_batch_and_values():
    x = one("1x3=arange", batch=2)
    assert x.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert one(":int64=5", batch=2).shape == ()


def test_names_with_dots_are_a_dict():
    got = given("batch.image=1x3", "batch.text.ids=4:int64=7", "2", "batch.text.mask=4:bool")
    assert list(got.kwargs) == ["batch"] and list(got.kwargs["batch"]) == ["image", "text"]
    assert got.kwargs["batch"]["text"]["ids"].tolist() == [7] * 4
    assert got.made == ["rand", "rand", "all 7", "all True"]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["1x-3"], "the size -3 is negative"),
        (["0x3"], "a size is 0"),
        (["1xx3"], "a size is missing"),
        (["1x3,4"], "one -i is one input"),
        (["1xfour"], "'four' is not a size"),
        (["1x3:flaot32"], "unknown dtype 'flaot32'; did you mean float32"),
        (["1x3:nn"], "unknown dtype 'nn'; write int64 or float32"),
        (["1x3=arnage"], "unknown value 'arnage'; did you mean arange"),
        (["1x3=zork"], r"a value is a number, True, False, zeros.* or randint\(0,100\)"),
        (["1x3:uint8=300"], "uint8 can't hold 300"),
        (["1x3:uint8=randint(0,300)"], "uint8 can't hold 299"),
        (["300:uint8=arange"], "uint8 can't hold 299"),
        (["1x3:int64=0.5"], "int64 can't hold 0.5"),
        (["1x3:int64=nan"], "int64 can't hold nan"),
        (["1x3:bool=2"], "bool can't hold 2"),
        (["1x3:float16=70000"], "float16 can't hold 70000"),
        (["1x3:int64=rand"], r"int64 holds none; write randint\(0,10\)"),
        (["1x3=randint(3,3)"], "from 3 up to 3 there is no number"),
        (["1x3="], "is not an input; write"),
        ([":"], "is not an input; write"),
        (["a..b=1x3"], "'a..b' is not a name"),
        (["ids=1", "ids=1"], "'ids' is given twice"),
        (["batch=1", "batch.x=1"], "'batch' is an input already"),
        (["batch.x=1", "batch=1"], "'batch' is given twice"),
        (["atention_mask=1"], "has no parameter 'atention_mask'; did you mean attention_mask"),
        (["batsh.x=1"], r"a dict goes to the parameter before the dot: ids.NAME=..."),
        (["1", "1", "1", "1"], "with 4 inputs given: too many positional arguments"),
        (["9" * 12], r"needs 3.64 TiB, and there are"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(texts, says):
    with pytest.raises(UsageError, match=says) as told:
        given(*texts)
    assert len(str(told.value)) < 256


def test_what_lies_on_the_meta_device_is_of_any_size():
    root = Takes().to("meta")
    assert one("9" * 12, root=root).device.type == "meta"
    assert one("4:int64=7", root=root).device.type == "meta"


def test_a_long_signature_is_cut():
    class Long(nn.Module):
        def forward(self, **kwargs):
            pass

    names = [f"a_rather_long_parameter_{i}" for i in range(50)]
    exec(f"def forward(self, {', '.join(names)}): pass", space := {})
    Long.forward = space["forward"]
    with pytest.raises(UsageError, match=r"_5, \.\.\.\).*missing a required argument") as told:
        given("1", root=Long())
    assert len(str(told.value)) < 400


FILE = """
    import dataclasses
    import torch
    from torch import nn

    @dataclasses.dataclass
    class Box:
        x: torch.Tensor

    class Net(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
        def forward(self, box, scale=1):
            assert isinstance(box, Box), type(box)
            return super().forward(box.x) * scale

    class Plain(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)

    x = torch.rand(3, 4)
    kwargs = {"input": x}
    pair = (x,), {}
    wrong = [x]
    several = x, x
    def box():
        return (Box(x),), {"scale": torch.tensor(2)}
    def boxed():
        return (Box(x),)
    def raises():
        raise KeyError("shards")
    def needs(width):
        pass
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(textwrap.dedent(FILE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["mine.py:x", "mine.py:kwargs", "mine.py:pair"])
def test_inputs_from_code(file, name):
    model = live.run_target("mine.py:Plain", [], None, [], given=name)
    assert model.events()[0]["inputs"][0]["shape"] == (3, 4)
    assert model.costs().totals()["macs"] == (48, "exact")


@watched
@pytest.mark.parametrize("verb", ["show", "why", "compare", "graph", "fit"])
def test_every_subcommand_takes_inputs_from_code(shell, file, verb):
    if verb == "fit":
        needs_fit()
    more = ["."] if verb == "why" else []
    done = shell(verb, "mine.py:Net", *more, "--inputs", "mine.py:box", cwd=file)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@watched
def test_the_batch_of_inputs_from_code(file):
    model = live.run_target("mine.py:Plain", [], None, [], given="mine.py:x", batch=8, dry=True)
    assert model.events()[0]["inputs"][0]["shape"] == (8, 4)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine.py:wrong", r"mine.py:wrong gives a list; give a tensor, a tuple .* or \(args, kwargs\)"),
        ("mine.py:raises", r"mine.py:raises: KeyError: 'shards', in line \d+ of mine.py"),
        (
            "mine.py:needs",
            r"missing .* 'width'; it takes \(width\); it is called with no argument",
        ),
        ("mine.py:several", "with 2 inputs given: too many positional arguments"),
        ("mine.py:boxx", "did you mean box"),
        ("mine.py", "is a file and names no function"),
        ("none.py:x", "there is no file none.py"),
    ],
)
def test_inputs_from_code_that_are_none(file, name, says):
    with pytest.raises(Exception, match=says):
        live.run_target("mine.py:Plain", [], None, [], given=name)


def test_either_inputs_or_code(file):
    with pytest.raises(UsageError, match="--inputs and -i both"):
        live.run_target("mine.py:Plain", ["1x4"], None, [], given="mine.py:x")


def test_the_head_says_what_was_made_up(shell, file):
    made = ["-i", "1x4=0.5"]
    head = shell("show", "mine.py:Plain", *made, cwd=file).stdout.splitlines()[0]
    assert "float32 all 0.5" in head
    assert json.loads(shell("show", "mine.py:Plain", *made, "--format", "json", cwd=file).stdout)[
        "made_up"
    ] == ["all 0.5"]
    given = shell("show", "mine.py:Plain", "--inputs", "mine.py:x", "--format", "json", cwd=file).stdout
    assert "made_up" not in json.loads(given)


class OfDict(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)

    def forward(self, batch, *, more=None):
        return super().forward(batch["x"] + batch["in"]["y"] + (0 if more is None else more[0] + more[1]))


def test_entries_of_dicts_are_told_by_their_keys():
    """Of what goes into the model, and nowhere else."""
    x = torch.ones(1, 2)
    batch = {"x": x, "in": {"y": x}}
    report = lamina.inspect(nn.Sequential(OfDict()), ({"x": x, "in": {"y": x}},))
    assert str(report).startswith("Sequential    input x 1x2 float32 · input in.y 1x2 float32 · cpu")
    assert {arg["name"] for arg in json.loads(report.to_json())["rows"][1]["inputs"]} == {None}
    report = lamina.inspect(OfDict(), kwargs={"batch": batch, "more": [x, x]})
    named = [arg["name"] for arg in json.loads(report.to_json())["rows"][0]["inputs"]]
    assert named == ["batch.x", "batch.in.y", "more", "more"]
