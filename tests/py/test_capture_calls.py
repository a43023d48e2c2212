# SPDX-License-Identifier: Apache-2.0
"""Which calls a capture notes, how they nest, and that torch.nn.Module.__call__ is afterwards what it was."""

from __future__ import annotations

import copy
import csv
import gc
import inspect
import io
import json
import pickle
import random
import re
import threading

import pytest
import torch
from ext_kit import calls, module_call, seen, watching
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls, in_thread, not_observed

import lamina
from lamina import _lamina

observed = pytest.mark.skipif(bool(not_observed()), reason=f"{not_observed()}")

X = torch.randn(2, 3)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.fc(x)) + x


class Raises(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


def test_calls_nest_and_the_original_comes_back():
    before = module_call()
    net = nn.Sequential(Block(), nn.Tanh())
    with watching(net) as capture:
        assert module_call() != before
        assert capture.is_open
        net(X)
    assert module_call() == before
    assert not capture.is_open
    assert calls(capture.model()) == [("", None), ("0", ""), ("0.fc", "0"), ("0.act", "0"), ("1", "")]
    assert len(capture.model().modules()) == 5


def test_events_are_timed_inside_their_parent():
    events = seen(nn.Sequential(Block(), nn.Tanh()), X).events()
    for event in events:
        assert 0 < event["t0_ns"] <= event["t1_ns"]
        if event["parent"] >= 0:
            parent = events[event["parent"]]
            assert parent["t0_ns"] <= event["t0_ns"] and event["t1_ns"] <= parent["t1_ns"]


def test_a_capture_is_used_once_and_in_order():
    capture = _lamina.Capture(Block())
    with pytest.raises(ValueError, match="never started"):
        capture.model()
    capture.start()
    with pytest.raises(ValueError, match="started once"):
        capture.start()
    with pytest.raises(ValueError, match="still open"):
        capture.model()
    capture.stop()
    capture.stop()
    with pytest.raises(ValueError, match="started once"):
        capture.start()
    assert capture.model() is capture.model()


@pytest.mark.parametrize("thing", [None, 3, nn.Linear, {"a": 1}, torch.randn(2)])
def test_only_modules_are_captured(thing):
    with pytest.raises(ValueError, match=r"expected a torch\.nn\.Module, not "):
        _lamina.Capture(thing)


def test_the_training_flag_is_that_of_the_call():
    net = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    assert [e["training"] for e in seen(net, X).events()] == [True, True, False]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_call_that_raises_is_closed(error):
    net = nn.Sequential(nn.Tanh(), nn.Sequential(Raises(error)), nn.Tanh())
    with watching(net) as capture:
        with pytest.raises(type(error)) as raised:
            net(X)
        net[0](X)
    assert raised.value is error
    assert [e["failed"] for e in capture.model().events()] == [True, False, True, True, False]
    assert calls(capture.model())[-1] == ("0", None)


def test_an_exception_that_is_caught_inside_does_not_unbalance():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.bad = Raises(RuntimeError("caught"))
            self.good = nn.Tanh()

        def forward(self, x):
            try:
                self.bad(x)
            except RuntimeError:
                return self.good(x)

    model = seen(Tries(), X)
    assert calls(model) == [("", None), ("bad", ""), ("good", "")]
    assert [e["failed"] for e in model.events()] == [False, True, False]
    assert model.costs().failure() is None


def test_the_failing_layer_is_named():
    net = nn.Sequential(nn.Tanh(), nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4)))
    told = seen(net, X).costs().failure()
    assert told == "raised in 1.1 (Linear), which was given float32 (2, 4)"


def test_no_exception_is_lost_in_recomputation():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Block()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    net = Checkpointed()
    with watching(net) as capture:
        net(X.clone().requires_grad_()).sum().backward()
    assert [p for p, _ in calls(capture.model())].count("inner") == 2


def test_unknown_modules_go_straight_through():
    other, net = nn.Linear(3, 3), nn.Tanh()
    with watching(net) as capture:
        other(net(X))
    assert calls(capture.model()) == [("", None)]


def test_captures_nest():
    before, net = module_call(), nn.Sequential(Block())
    with watching(net) as outer:
        patched = module_call()
        net(X)
        with watching(net[0]) as inner:
            assert module_call() == patched
            net(X)
        assert module_call() == patched
        net[0].fc(X)
    assert module_call() == before
    assert len(calls(outer.model())) == 9
    assert calls(inner.model()) == [("", None), ("fc", ""), ("act", "")]


def test_captures_may_close_in_any_order():
    before, net = module_call(), nn.Tanh()
    first, second = _lamina.Capture(net), _lamina.Capture(net)
    first.start()
    second.start()
    first.stop()
    assert module_call() != before
    net(X)
    second.stop()
    assert module_call() == before
    assert len(calls(first.model())) == 0 and len(calls(second.model())) == 1


def test_a_capture_may_open_or_close_inside_a_call():
    captures = {}

    class Opens(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Tanh()

        def forward(self, x):
            captures["inner"] = _lamina.Capture(self)
            captures["inner"].start()
            x = self.child(x)
            captures["outer"].stop()
            return self.child(x)

    net = Opens()
    captures["outer"] = _lamina.Capture(net)
    captures["outer"].start()
    net(X)
    captures["inner"].stop()
    assert calls(captures["outer"].model()) == [("", None), ("child", "")]
    assert captures["outer"].model().events()[0]["unseen"]
    assert calls(captures["inner"].model()) == [("child", None), ("child", None)]


def test_too_many_captures_in_one_thread_are_refused():
    before, net = module_call(), nn.Tanh()
    captures = [_lamina.Capture(net) for _ in range(9)]
    for capture in captures[:8]:
        capture.start()
    with pytest.raises(Exception, match="8 captures are open"):
        captures[8].start()
    net(X)
    for capture in captures[:8]:
        capture.stop()
        assert len(calls(capture.model())) == 1
    assert module_call() == before


def test_a_capture_that_is_dropped_closes():
    before = module_call()
    capture = _lamina.Capture(nn.Tanh())
    capture.start()
    del capture
    gc.collect()
    assert module_call() == before


def test_a_capture_in_a_cycle_with_its_model_closes_when_collected():
    before, net = module_call(), nn.Tanh()
    net.capture = _lamina.Capture(net)
    net.capture.start()
    del net
    gc.collect()
    assert module_call() == before


def test_threads_see_their_own_calls_only():
    shared, failures = nn.Sequential(Block(), nn.Tanh()), []
    barrier = threading.Barrier(4)

    def work(k):
        own = nn.Sequential(*[Block() for _ in range(k + 1)])
        barrier.wait()
        for _ in range(30):
            with watching(own) as capture:
                own(shared(X))
            if len(capture.model().events()) != 1 + 3 * (k + 1):
                failures.append(k)

    before = module_call()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    with watching(shared) as capture:
        for thread in threads:
            thread.join()
    assert not failures
    assert calls(capture.model()) == []
    assert module_call() == before


def test_one_model_in_two_threads_is_seen_by_the_thread_that_watches():
    net = Block()
    with watching(net) as capture:
        in_thread(lambda: net(X))
        net(X)
    assert len(calls(capture.model())) == 3


@pytest.mark.parametrize("ops", [False, pytest.param(True, marks=observed)])
def test_what_another_thread_called_is_not_never_called(ops):
    def forward(self, x):
        found = []
        in_thread(lambda: found.append(self.there(x)))
        return self.here(x) + found[0].detach()

    net = Calls(forward, here=nn.Linear(4, 4), there=nn.Linear(4, 4), unused=nn.Linear(4, 4))
    with lamina.capture(net, ops=ops) as cap:
        net(torch.ones(1, 4))
    report = cap.report()
    text = str(report)
    assert "there (Linear) [called elsewhere]" in text
    assert "unused (Linear) [never called]" in text
    words = " ".join(text.split())
    assert "1 layer was never called" in words and "1 layer was called by other threads alone" in words
    assert report.macs.state == "at least"
    gap = "Linear (1 place, `there`) was called by another thread, and what ran there is not seen"
    assert gap in report.gaps
    rows = csv.DictReader(io.StringIO(report.to_csv()))
    status = {row["path"]: row["status"] for row in rows if row["status"] not in ("outside calls", "total")}
    assert status == {"": "called", "here": "called", "there": "called elsewhere", "unused": "never called"}
    if ops:
        assert [row["path"] for row in json.loads(report.to_json())["unused"]] == ["unused"]


def test_a_model_that_another_thread_alone_called_costs_not_0():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with lamina.capture(net) as cap:
        in_thread(lambda: net(torch.ones(1, 4)))
    report = cap.report()
    assert report.macs.state == "unknown"
    assert "MACs not known" in str(report)
    assert "Sequential [called elsewhere]" in str(report)
    with lamina.capture(net) as cap:
        net(torch.ones(1, 4))
        in_thread(lambda: net(torch.ones(1, 4)))
    assert cap.report().macs.state == "exact"
    assert any("another thread called layers of this model too" in note for note in cap.report().notes)


# -- living with others -------------------------------------------------------------------------------------


@pytest.fixture
def restored_call():
    before = module_call()[0]
    yield before
    nn.Module.__call__ = before


def test_a_replacement_made_meanwhile_stays_and_is_told(restored_call):
    def theirs(self, *args, **kwargs):
        return restored_call(self, *args, **kwargs)

    capture = _lamina.Capture(nn.Tanh())
    capture.start()
    nn.Module.__call__ = theirs
    capture.stop()
    assert module_call()[0] is theirs
    assert any("was replaced by other code" in note for note in capture.model().notes())


@observed
def test_layers_that_came_later_count_by_their_operators():
    x = torch.ones(2, 4)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with lamina.capture(net) as cap:
        net(x)
        net.append(nn.Linear(4, 4))
        net(x)
    assert (cap.report().macs, cap.report().macs.state) == (96, "exact")


def test_layers_that_came_later_make_the_total_a_lower_bound():
    x = torch.ones(2, 4)
    for change, least in (("replace", 32), ("append", 64), ("nothing", 64)):
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        with lamina.capture(net, ops=False) as cap:
            net(x)
            if change == "replace":
                net[0] = nn.Linear(4, 4)
            elif change == "append":
                net.append(nn.Linear(4, 4))
            net(x)
        report = cap.report()
        assert report.macs == least
        assert report.macs.state == ("exact" if change == "nothing" else "at least")
        assert any("it called layers that were not the model's" in gap for gap in report.gaps) == (
            change != "nothing"
        )
    other, net = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))
    with lamina.capture(net) as cap:
        other(net(x))
    assert cap.report().macs.state == "exact"


def test_a_capture_in_which_nothing_was_called_says_so():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    told = "no layer of the model was called while the capture was open"
    with lamina.capture(net) as cap:
        pass
    report = cap.report()
    assert report.gaps == [told] and not report.notes and told in str(report)
    with lamina.capture(net) as cap:
        nn.Linear(4, 4)(torch.ones(1, 4))
    assert cap.report().notes == [told] and cap.report().macs == 16
    for called in (net, net[0]):
        with lamina.capture(net) as cap:
            called(torch.ones(1, 4))
        assert told not in cap.report().notes


def test_a_wrapper_around_ours_never_loops(restored_call):
    net, counted = nn.Sequential(nn.Tanh()), []
    kept = []
    for round in range(6):
        capture = _lamina.Capture(net)
        capture.start()
        ours = module_call()[0]

        def wrapper(self, *args, _ours=ours, **kwargs):
            counted.append(self)
            return _ours(self, *args, **kwargs)

        kept.append(wrapper)
        nn.Module.__call__ = wrapper
        counted.clear()
        net(X)
        capture.stop()
        assert len(counted) == 2 * (round + 1)  # this wrapper and those before it
        assert len(capture.model().events()) == 2, round
        net(X)  # through every wrapper, to the original
    assert module_call()[0] is kept[-1]


def leads():
    before = module_call()[0]
    with watching(nn.Tanh()):
        return module_call()[0] is before


class Bound:
    """What others may put in the place of a function: it can't be led, so a method takes its place."""

    def __init__(self, inner):
        self.inner = inner

    def __get__(self, module, kind=None):
        return self if module is None else lambda *a, **k: self(module, *a, **k)

    def __call__(self, module, *args, **kwargs):
        return self.inner(module, *args, **kwargs)


@pytest.mark.uncompiled
def test_replacements_by_functions_have_no_end(restored_call):
    if not leads():
        pytest.skip("this interpreter's functions take no detour")
    for _ in range(20):
        capture = _lamina.Capture(nn.Tanh())
        capture.start()
        before = module_call()[0]
        nn.Module.__call__ = lambda self, *a, _before=before, **k: _before(self, *a, **k)
        capture.stop()
    assert len(seen(nn.Tanh(), X).events()) == 1
    nn.Module.__call__ = restored_call
    assert len(seen(nn.Tanh(), X).events()) == 1


def test_replacements_without_end_are_refused_with_a_sentence(restored_call):
    kept = []
    nn.Module.__call__ = Bound(restored_call)
    with pytest.raises(Exception, match="replaced by others"):
        for _ in range(20):
            capture = _lamina.Capture(nn.Tanh())
            capture.start()
            ours = module_call()[0]
            kept.append(ours)
            nn.Module.__call__ = Bound(ours)
            capture.stop()
    kept.clear()
    del ours, capture
    nn.Module.__call__ = restored_call
    gc.collect()
    assert len(seen(nn.Tanh(), X).events()) == 1


@pytest.mark.uncompiled
def test_code_that_was_copied_while_it_was_led_does_no_harm(restored_call):
    if not leads():
        pytest.skip("this interpreter's functions take no detour")
    net = nn.Tanh()
    with watching(net):
        code = nn.Module.__call__.__code__
    copied = type(restored_call)(code, restored_call.__globals__)
    assert torch.equal(copied(net, X), torch.tanh(X))
    nn.Module.__call__ = copied
    for _ in range(2):
        assert len(seen(net, X).events()) == 1
        assert torch.equal(net(X), torch.tanh(X))
    nn.Module.__call__ = restored_call
    assert len(seen(net, X).events()) == 1


def test_a_method_takes_the_place_of_what_is_no_function(restored_call):
    net = nn.Sequential(Block(), nn.Tanh())
    nn.Module.__call__ = theirs = Bound(restored_call)
    before = module_call()
    with watching(net) as capture:
        assert isinstance(module_call()[0], type(str.join))
        net(X)
        net[0].__call__(X)
    assert module_call() == before and module_call()[0] is theirs
    paths = ["", "0", "0.fc", "0.act", "1", "0", "0.fc", "0.act"]
    assert [path for path, _ in calls(capture.model())] == paths


@pytest.mark.uncompiled
def test_every_way_to_call_is_seen():
    class Above(nn.Linear):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    net, plain = nn.Sequential(nn.Linear(3, 3), Above(3, 3)), nn.Module.__call__
    bound = net[0].__call__
    if not leads():
        pytest.skip("this interpreter's functions take no detour")

    def many(m):
        for _ in range(100):
            m(X)
            m.__call__(X)
            m.__call__(*(X,))
            nn.Module.__call__(m, X)
            plain(m, input=X)

    many(net[0])
    with watching(net) as capture:
        many(net[0])
        many(net[1])
        bound(X)
        map(net[0], [X]).__next__()
    many(net[0])
    events = capture.model().events()
    assert len(events) == 2 * 500 + 2
    assert all(len(event["inputs"]) == 1 for event in events)


def test_our_method_taken_during_a_capture_works_after_it():
    net = nn.Tanh()
    with watching(net):
        bound, unbound = net.__call__, nn.Module.__call__
    assert torch.equal(bound(X), torch.tanh(X))
    assert torch.equal(unbound(net, X), torch.tanh(X))
    assert len(seen(net, X).events()) == 1


@pytest.mark.uncompiled
def test_the_call_looks_as_before():
    before = inspect.signature(nn.Module.__call__), nn.Module.__call__.__name__
    with pytest.raises(AttributeError) as plain:
        nn.Module.__call__(3, X)
    if not leads():
        pytest.skip("this interpreter's functions take no detour")
    with watching(nn.Tanh()):
        assert (inspect.signature(nn.Module.__call__), nn.Module.__call__.__name__) == before
        with pytest.raises(AttributeError, match=re.escape(str(plain.value))):
            nn.Module.__call__(3, X)
        with pytest.raises(TypeError):
            nn.Module.__call__()


def test_arguments_arrive_as_given():
    class Echo(nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    net = Echo()
    given = tuple(range(40))
    with watching(net):
        assert net() == ((), {})
        assert net(*given) == (given, {})
        assert net(1, b=2, a=3) == ((1,), {"b": 2, "a": 3})
        assert net(*given, **{f"k{i}": i for i in range(40)}) == (given, {f"k{i}": i for i in range(40)})


def test_hooks_of_the_user_run():
    net, ran = nn.Sequential(nn.Tanh()), []
    net[0].register_forward_pre_hook(lambda *_: ran.append("pre"))
    net[0].register_forward_hook(lambda *_: ran.append("post"))
    seen(net, X)
    assert ran == ["pre", "post"]


def test_copying_pickling_and_scripting_work_while_open():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with watching(net) as capture:
        copy.deepcopy(net)(X)
        pickle.loads(pickle.dumps(net))(X)
        torch.save(net.state_dict(), io.BytesIO())
        torch.jit.script(net)(X)
        net(X)
    assert calls(capture.model()) == [("", None), ("0", ""), ("1", "")]


def test_tracing_works_while_open():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with watching(net):
        traced = torch.jit.trace(net, X)
    assert torch.equal(traced(X), net(X))


def test_gradients_flow_through_a_captured_call():
    net = Block()
    with watching(net):
        net(X).sum().backward()
    assert net.fc.weight.grad is not None


def test_the_attention_fast_path_is_kept():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        model = seen(layer, torch.randn(1, 4, 8))
    assert calls(model) == [("", None)]


# -- what torch compiles ------------------------------------------------------------------------------------


def test_a_scripted_child_is_one_opaque_row():
    net = nn.Sequential(nn.Tanh(), torch.jit.script(nn.Sequential(nn.Linear(3, 3))))
    model = seen(net, X)
    assert ("1", "") in calls(model)
    scripted = model.modules()[model.places()[model.find("1")]["module"]]
    assert scripted["opaque"] and scripted["type"] == "Sequential" and scripted["word"] is None


def test_a_scripted_root_has_places_and_parameters():
    model = seen(torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))), X)
    assert [p["path"] for p in model.places()] == ["", "0", "1"]
    assert [t["shape"] for t in model.tensors()] == [(3, 3), (3,), (3, 3), (3,)]
    assert calls(model) == [("", None)]


needs_stance = pytest.mark.skipif(
    not hasattr(torch.compiler, "set_stance"),  # before torch 2.6
    reason="this torch can't step around compiled code",
)


@needs_stance
def test_a_compiled_child_is_seen_layer_by_layer_and_stays_compiled():
    net = nn.Sequential(nn.Tanh(), torch.compile(Block(), backend="eager"))
    ran = []
    compiled = torch.compile(net[1]._orig_mod, backend=lambda gm, _: ran.append(1) or gm.forward)
    compiled(X)
    assert ran == [1]
    with torch.compiler.set_stance("force_eager"):
        model = seen(net, X)
        assert calls(seen(nn.Sequential(compiled), X))[-1] == ("0._orig_mod.act", "0._orig_mod")
    compiled(X)
    assert ran == [1]
    assert calls(model) == [
        ("", None), ("0", ""), ("1", ""), ("1._orig_mod", "1"),
        ("1._orig_mod.fc", "1._orig_mod"), ("1._orig_mod.act", "1._orig_mod"),
    ]  # fmt: skip
    assert not any(m["opaque"] for m in model.modules())


@needs_stance
def test_a_compiled_leaf_is_called_once():
    net = torch.compile(nn.Linear(3, 3), backend="eager")
    with torch.compiler.set_stance("force_eager"):
        model = seen(net, X)
    assert calls(model) == [("", None), ("_orig_mod", "")]
    inner = model.events()[1]
    assert inner["inputs"][0]["shape"] == (2, 3) and inner["outputs"][0]["shape"] == (2, 3)


def test_a_child_with_the_name_that_compiling_gives_is_a_child_like_others():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self._orig_mod, self.unused = Block(), Block()

        def forward(self, x):
            return self._orig_mod.fc(self._orig_mod(x))

    model = seen(Plain(), X)
    assert calls(model) == [
        ("", None), ("_orig_mod", ""), ("_orig_mod.fc", "_orig_mod"), ("_orig_mod.act", "_orig_mod"),
        ("_orig_mod.fc", ""),
    ]  # fmt: skip
    assert not any(m["opaque"] for m in model.modules())


def test_compiled_code_is_opaque_unless_its_inside_was_seen():
    try:
        net = nn.Sequential(torch.compile(Block(), backend="eager"))
        net(X)
    except Exception as error:
        pytest.skip(f"torch.compile does not work here: {error}")
    model = seen(net, X)
    seen_calls = calls(model)
    assert seen_calls[:3] == [("", None), ("0", ""), ("0._orig_mod", "0")]
    assert [m["opaque"] for m in model.modules()][:3] == [False, False, len(seen_calls) == 3]


class Drawn(nn.Linear):
    """A layer that draws a number each time it is asked for one of its settings."""

    @property
    def in_features(self):
        return 2 + int(torch.rand(1)) + int(random.random())

    @in_features.setter
    def in_features(self, value):
        pass


def test_describing_a_layer_draws_no_number():
    model = nn.Sequential(Drawn(2, 3))
    torch.manual_seed(1)
    random.seed(1)
    with lamina.capture(model):
        model(torch.ones(1, 2))
    drawn = torch.rand(1).item(), random.random()
    torch.manual_seed(1)
    random.seed(1)
    assert drawn == (torch.rand(1).item(), random.random())


def test_a_capture_that_could_not_begin_is_not_open(monkeypatch):
    def refused(_):
        raise RuntimeError("not now")

    model = nn.Linear(3, 2)
    capture = lamina.capture(model)
    monkeypatch.setattr("lamina._guard.compiled.Compiled.__enter__", refused)
    with pytest.raises(RuntimeError, match="not now"):
        capture.__enter__()
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="was never opened"):
        capture.report()
    with capture:
        model(X)
    assert capture.report().params == 8
