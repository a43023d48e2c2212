# SPDX-License-Identifier: Apache-2.0
"""The command from Python: streams, live models and exceptions of the host."""

from __future__ import annotations

import sys

import pytest
import torch
from ext_kit import seen
from torch import nn

from lamina import _lamina
from lamina._base import errors

X = torch.randn(2, 3)
SHOW = ["lamina", "show", "somewhere:Net", "-i", "2x3"]


class Stream:
    def __init__(self):
        self.parts = []

    def write(self, text):
        assert isinstance(text, str)
        self.parts.append(text)

    def __str__(self):
        return "".join(self.parts)


class Host:
    is_terminal = False
    is_utf8 = True
    width = 0

    def __init__(self, live=None):
        self.out, self.err = Stream(), Stream()
        self._live = live
        self.asked = None

    def live(self, request):
        self.asked = request
        return self._live()

    def doctor(self):
        return "the doctor's text: größe\n"

    def run(self, *argv):
        return _lamina.command(list(argv or SHOW), self)


def model():
    return seen(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), X)


def test_a_live_model_is_shown():
    host = Host(model)
    assert host.run() == 0
    assert "Linear" in str(host.out) and not str(host.err)
    assert (host.asked["target"], host.asked["inputs"]) == ("somewhere:Net", ["2x3"])


def test_options_of_a_run_reach_the_host_by_their_names():
    host = Host(model)
    words = "somewhere:Net --inputs in.py:x --mode train -k a=1 -k b=2 --time --repeats 3 --memory --health"
    host.run("lamina", "show", *words.split())  # which finds no times in that model
    asked, plain = host.asked, Host(model)
    assert plain.run() == 0
    given = {"target": "somewhere:Net", "given": "in.py:x", "inputs": [], "build": ["a=1", "b=2"]}
    given |= {"mode": "train", "time": True, "repeats": 3, "memory": True, "health": True}
    given |= {"ops": True, "or_layers": True, "unfused": False, "follow": False, "dry": False}
    given |= {"backward": False, "batch": 0, "dtype": None, "optimizer": None, "needs_run": "--repeats"}
    given |= {"tokens": None, "prompt": 0, "fresh": 0, "longest": 0}
    assert asked == given
    not_given = {"time": False, "repeats": 0, "memory": False, "health": False, "needs_run": None}
    not_given |= {"given": None, "inputs": ["2x3"], "build": [], "mode": "eval"}
    assert plain.asked == given | not_given


def test_the_class_of_an_error_is_not_held():
    """It is looked up by each error, to find the exit status."""

    def live():
        raise errors.RangeError("no number")

    before = sys.getrefcount(errors.RangeError)
    assert {Host(live).run() for _ in range(100)} == {2}
    assert sys.getrefcount(errors.RangeError) < before + 50


def test_a_width_that_is_no_number_is_no_width():
    host, other = Host(model), Host(model)
    host.width = "wide"
    assert (host.run(), other.run()) == (0, 0)
    assert str(host.out) == str(other.out) and not str(host.err)


def test_a_model_that_was_handed_over_is_empty():
    mine = model()
    assert Host(lambda: mine).run() == 0
    with pytest.raises(ValueError, match="empty"):
        mine.events()
    with pytest.raises(ValueError, match="empty"):
        mine.costs()


def test_a_model_that_is_still_read_is_not_handed_over():
    mine = model()
    costs = mine.costs()
    host = Host(lambda: mine)
    assert host.run() == 2
    assert "still read" in str(host.err)
    assert costs.rows() and mine.events()


def raising(error):
    def live():
        raise error

    return live


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.UsageError("no such path"), 2),
        (RuntimeError("it broke\nsecond line"), 3),
        (MemoryError(), 4),
        (errors.LaminaError("model failed"), 3),
    ],
)
def test_exceptions_become_exit_codes(error, code):
    host = Host(raising(error))
    assert host.run() == code
    assert "second line" not in str(host.err)
    if str(error):
        assert str(error).split("\n")[0] in str(host.err)


def test_what_was_seen_before_an_exception_is_shown():
    error = ValueError("layer two")
    error.lamina_model = model()
    host = Host(raising(error))
    assert host.run() == 3
    assert "Linear" in str(host.out) and "ValueError: layer two" in str(host.err)


def test_something_that_is_no_model_is_an_error():
    host = Host(lambda: 3)
    assert host.run() != 0 and "Model" in str(host.err)


def test_an_interrupt_ends_the_command():
    with pytest.raises(KeyboardInterrupt):
        Host(raising(KeyboardInterrupt())).run()


def test_a_stream_that_fails_ends_the_command():
    host, error = Host(model), BrokenPipeError("nobody reads")

    def write(text):
        raise error

    host.out.write = write
    with pytest.raises(BrokenPipeError) as caught:
        host.run()
    assert caught.value is error


def test_the_doctor_speaks():
    host = Host()
    assert host.run("lamina", "doctor") == 0
    assert "größe" in str(host.out)


def test_arguments_are_texts():
    with pytest.raises(TypeError):
        _lamina.command(["lamina", 3], Host())
    with pytest.raises(TypeError):
        _lamina.command("lamina", Host())
    with pytest.raises(AttributeError):
        _lamina.command(["lamina"], object())


def test_unknown_commands_are_usage():
    host = Host()
    assert host.run("lamina", "nonsense") == 2
    assert str(host.err)
