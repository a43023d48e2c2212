# SPDX-License-Identifier: Apache-2.0
"""Which steps a watch sees: of loops that do several things in turn each thing, whole, and no more than one
call in so many."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import cycle, islice, pairwise

import pytest
import torch
from conftest import needs_recordings
from torch import nn

import lamina
from lamina import _lamina
from lamina._observe import support

needs_recordings()

observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")

EVAL, TRAIN, GRAD = 0, 1, 2
BACK = "a backward pass"


def replay(every, events):
    """What would be seen of calls of these kinds, with backward passes between them: (index of the first
    call, kinds of the calls, whether a backward pass was seen); and how many calls were watched."""
    schedule, went_back, steps, calls, watched = _lamina.Schedule(every), False, [], [], 0

    def end():
        if schedule.end_step(went_back):
            steps.append((calls[0][0], tuple(kind for _, kind in calls), went_back))

    index = -1
    for event in events:
        if event is BACK:
            went_back = True
            continue
        index += 1
        if schedule.skip_call(event):
            continue
        if schedule.kind >= 0 and schedule.extend_step(event, went_back):
            calls.append((index, event))
            watched += 1
            continue
        end()
        if schedule.begin_step(event):
            calls, went_back = [(index, event)], False
            watched += 1
            if not event & GRAD:
                end()
    end()
    return steps, watched


LOOPS = {
    "one call": [TRAIN | GRAD, BACK],
    "a generator": [TRAIN | GRAD, BACK, TRAIN | GRAD, BACK],
    "a discriminator": [TRAIN | GRAD, TRAIN | GRAD, BACK, TRAIN | GRAD, BACK],
    "words": [*[TRAIN | GRAD] * 20, BACK],
    "a rollout": [*[EVAL] * 30, *[TRAIN | GRAD, BACK] * 4],
    "a rollout in train mode": [*[TRAIN] * 30, *[TRAIN | GRAD, BACK] * 4],
    "a guess first": [TRAIN, TRAIN | GRAD, BACK, TRAIN | GRAD, BACK],
    "a target between": [TRAIN | GRAD, TRAIN, BACK],
    "validation": [*[TRAIN | GRAD, BACK] * 50, *[EVAL] * 10],
    "careless validation": [*[TRAIN | GRAD, BACK] * 50, *[EVAL | GRAD] * 10],
    "frozen statistics": [EVAL | GRAD, EVAL | GRAD, BACK],
    "no backward": [TRAIN | GRAD],
}


def kinds_in(pattern):
    """The steps of one round of a loop: kinds of calls, and whether a backward pass follows."""
    found, calls = set(), []
    for event in pattern:
        if event is BACK:
            found.add((tuple(calls), True))
            calls = []
        elif event & GRAD or calls:
            calls.append(event)
        else:
            found.add(((event,), False))
    return found


@pytest.mark.parametrize("every", [2, 3, 4, 5, 7, 10, 16, 20, 50, 100])
@pytest.mark.parametrize(
    "name", [name for name in LOOPS if name not in ("careless validation", "no backward")]
)
def test_each_thing_that_a_loop_does_is_seen_whole(name, every):
    pattern = LOOPS[name]
    calls = sum(event is not BACK for event in pattern)
    events = pattern * (every * 60 * 20 // calls + 1)
    steps, watched = replay(every, events)
    wanted = kinds_in(pattern)
    if name == "a target between":  # the target's calls are in the steps, and never a step of their own
        wanted = {((TRAIN | GRAD, TRAIN), True)}
        steps = [step for step in steps if step[1] != (TRAIN,)]
    if name == "frozen statistics":  # in eval mode a call is taken to be alone until a backward is seen
        steps = steps[1 + [back for _, _, back in steps].index(True) :]
    seen = Counter((kinds, back) for _, kinds, back in steps)
    assert set(seen) == wanted
    total = sum(event is not BACK for event in events)
    first = max(len(kinds) for kinds, _ in wanted)  # the first step of each kind is seen whatever it has
    assert watched <= total / every + 4 * (1 + first) + max(len(kinds) for _, kinds, _ in steps)


@pytest.mark.parametrize("every", [1, 2, 10, 100])
@pytest.mark.parametrize("period", [2, 3, 4, 5, 8, 10, 16, 20, 50, 100])
def test_no_period_hides_anything(every, period):
    """Steps of one call: of any period, each place has its share."""
    steps, watched = replay(every, [TRAIN | GRAD, BACK] * every * period * 40)
    shares = Counter(first % period for first, _, _ in steps)
    assert len(shares) == period
    assert min(shares.values()) >= 20
    assert max(shares.values()) <= 60
    assert watched == len(steps) == 40 * period


def test_every_call_is_seen_where_every_is_one():
    for pattern in LOOPS.values():
        events = pattern * 40
        steps, watched = replay(1, events)
        calls = [event for event in events if event is not BACK]
        assert watched == len(calls)
        assert sum(len(kinds) for _, kinds, _ in steps) >= len(calls) - 256


# -- the default: each step at first, then fewer -------------------------------------------------------------

WIDTHS = (1, 2, 5, 10, 20, 50, 100)


def represents(k):
    """How many steps the recorded one of this number represents."""
    return next((n for n in WIDTHS if n >= k / 32), WIDTHS[-1])


def plain_loop(calls, *, missed=()):
    """Numbers of the steps of a loop of one call a step that are recorded, but for some that fail to be."""
    schedule, seen, number = _lamina.Schedule(0), [], -1
    for number in range(calls):
        if schedule.kind >= 0:
            schedule.end_step(True)
        if schedule.skip_call(TRAIN | GRAD) or not schedule.begin_step(TRAIN | GRAD):
            continue
        if number in missed:
            schedule.discard_step()
        else:
            seen.append(schedule.number)
    return seen


def test_steps_are_recorded_densely_at_first_and_then_fewer():
    steps = plain_loop(200_000)
    assert steps[:33] == list(range(33))
    assert 78 <= sum(step < 300 for step in steps) <= 84
    assert 114 <= sum(step <= 1600 for step in steps) <= 120
    assert len(steps) == pytest.approx(120 + 200_000 / 100 - 16, abs=4)
    for one, after in pairwise(steps):
        assert after - one < 2 * represents(after)
    for width in WIDTHS[1:]:  # one in each window
        inside = [
            step for step in steps if represents(step) == width and step // width * width + width < 199_000
        ]
        windows = Counter(step // width for step in inside)
        assert set(windows.values()) == {1}
        assert len(windows) >= max(windows) - min(windows)


def test_steps_stand_for_all_of_a_run():
    for calls in (300, 1600, 10_000):
        assert sum(map(represents, plain_loop(calls))) == pytest.approx(calls, rel=0.03)


@pytest.mark.parametrize("missed", [{3}, {20, 21}, {40, 41, 42}, set(range(500, 700)), {1700, 1701}])
def test_a_process_that_missed_a_step_records_the_same_ones_as_the_others(missed):
    last = max(missed)
    others = [step for step in plain_loop(30_000) if step > last + 200]
    assert [step for step in plain_loop(30_000, missed=missed) if step > last + 200] == others


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8, 10, 16])
def test_by_default_no_period_hides_anything(period):
    """Weighed by what the steps represent, each place of a period has its share."""
    shares = Counter()
    for step in plain_loop(100 * period * 40):
        shares[step % period] += represents(step)
    assert set(shares) == set(range(period))
    assert max(shares.values()) < 1.25 * min(shares.values())


@pytest.mark.parametrize("name", [name for name in LOOPS if "no backward" not in name])
def test_by_default_each_thing_that_a_loop_does_is_seen_whole(name):
    pattern = LOOPS[name]
    steps, watched = replay(0, pattern * 2000)
    wanted = kinds_in(pattern)
    if name == "a target between":
        wanted = {((TRAIN | GRAD, TRAIN), True)}
    assert wanted <= {(kinds, back) for _, kinds, back in steps}
    assert watched < 2000 * sum(event is not BACK for event in pattern) / 4


def test_what_no_backward_follows_is_not_gathered_for_ever():
    steps, watched = replay(10, LOOPS["no backward"] * 5000)
    assert len(steps[0][1]) == 256
    assert {len(kinds) for _, kinds, _ in steps[1:]} == {1}
    assert watched <= 500 + 256
    steps, _ = replay(10, LOOPS["careless validation"] * 100)
    shapes = Counter((kinds, back) for _, kinds, back in steps)
    assert set(shapes) == {((TRAIN | GRAD,), True), ((EVAL | GRAD,), False)}


def test_a_call_before_training_is_soon_forgotten():
    """It is taken for a part of the first step, and then each step is held to be one of several."""
    steps, watched = replay(10, [TRAIN | GRAD, *[TRAIN | GRAD, BACK] * 2000])
    assert steps[0][1:] == ((TRAIN | GRAD,) * 2, True)
    assert {step[1:] for step in steps[1:]} == {((TRAIN | GRAD,), True)}
    assert len(steps) > 180
    assert watched <= 2000 / 10 + 2


def test_schedules_refuse_nonsense():
    with pytest.raises(ValueError, match="every"):
        _lamina.Schedule(-1)
    schedule = _lamina.Schedule(2)
    for call in (schedule.skip_call, schedule.begin_step, lambda kind: schedule.extend_step(kind, False)):
        with pytest.raises(ValueError, match="kinds"):
            call(4)
    assert not schedule.end_step(True)
    assert not schedule.extend_step(1, False)
    assert schedule.begin_step(3) and not schedule.begin_step(3)
    assert (schedule.kind, schedule.number, schedule.seeks_start, schedule.calls) == (3, 0, False, 1)
    schedule.discard_step()
    assert (schedule.kind, schedule.calls) == (-1, 1)
    with pytest.raises(TypeError, match="Schedule"):
        _lamina.Root(3, None, 0, "net", True, True)
    with pytest.raises(RuntimeError, match="__init__"):
        _lamina.Root.__new__(_lamina.Root).count(nn.Linear(1, 1))


# -- real loops ----------------------------------------------------------------------------------------------


def net(n_in=8, n_out=8):
    return nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Linear(16, n_out))


def gan():
    g, d = net(4, 8), net(8, 1)
    while True:
        z = torch.rand(2, 4)
        (d(torch.rand(2, 8)).sum() - d(g(z).detach()).sum()).backward()
        yield
        d(g(z)).sum().backward()
        yield


def gan_of_one_forward():
    g, d = net(4, 8), net(8, 1)
    while True:
        fake = g(torch.rand(2, 4))
        (d(torch.rand(2, 8)).sum() - d(fake.detach()).sum()).backward()
        d(fake).sum().backward()
        yield


def accumulation():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for i in cycle(range(4)):
        model(torch.rand(2, 8)).sum().backward()
        if i == 3:
            optimizer.step()
            optimizer.zero_grad()
        yield


def validation():
    model = net()
    while True:
        model.train()
        for _ in range(6):
            model(torch.rand(2, 8)).sum().backward()
            yield
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                model(torch.rand(2, 8))
                yield


def siamese():
    model = net()
    while True:
        (model(torch.rand(2, 8)) - model(torch.rand(2, 8))).abs().sum().backward()
        yield


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x, state):
        return torch.tanh(self.inner(x) + state)


def words():
    cell = Cell()
    for i in cycle(range(5)):
        state = torch.zeros(2, 8)
        for _ in range(8 + i):
            state = cell(torch.rand(2, 8), state)
        state.sum().backward()
        yield


def self_conditioning():
    model = net()
    for i in cycle(range(2)):
        x = torch.rand(2, 8)
        if i:
            with torch.no_grad():
                x = x + model(x)
        model(x).sum().backward()
        yield


def rollout():
    model = net()
    while True:
        with torch.no_grad():
            for _ in range(20):
                model(torch.rand(1, 8))
        yield
        for _ in range(3):
            model(torch.rand(4, 8)).sum().backward()
            yield


def distillation():
    student, teacher = net(), net().eval()
    while True:
        with torch.inference_mode():
            wanted = teacher(torch.rand(2, 8))
        (student(torch.rand(2, 8)) - wanted.clone()).square().sum().backward()
        yield


def target():
    model = net()
    while True:
        q = model(torch.rand(2, 8)).sum()
        with torch.no_grad():
            wanted = model(torch.rand(2, 8)).sum()
        (q - wanted).square().backward()
        yield


# What is to be in the recording: by root (train mode, gradients, calls or None for any, a backward pass).
LINES = {
    gan: {(1, 1, 2, 1), (1, 1, 1, 1), (1, 1, 1, 0)},
    gan_of_one_forward: {(1, 1, 2, 1), (1, 1, 1, 1)},
    accumulation: {(1, 1, 1, 1)},
    validation: {(1, 1, 1, 1), (0, 0, 1, 0)},
    siamese: {(1, 1, 2, 1)},
    words: {(1, 1, n, 1) for n in range(8, 13)},
    self_conditioning: {(1, 1, 1, 1), (1, 0, 1, 0)},
    rollout: {(1, 1, 1, 1), (1, 0, 1, 0)},
    distillation: {(1, 1, 1, 1), (0, 0, 1, 0)},
    target: {(1, 1, 2, 1)},
}


@contextlib.contextmanager
def every_root(file, **options):
    """As `lamina run` has it, without a process of its own."""
    from lamina import _watch
    from lamina._command import script
    from lamina._guard.standing_entry import Rest

    watch = _watch.Watch([], file=file, **options)
    script.find_roots(watch)
    try:
        yield watch
    finally:
        watch.close()
        _lamina.find(None)
        Rest.end()  # the program's, which nothing ends


def rows(file, sql):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(sql).fetchall()


@observed
@pytest.mark.parametrize("options", [{"every": 4}, {"every": 5}, {"every": 2, "memory": True}], ids=str)
@pytest.mark.parametrize("loop", LINES)
def test_each_kind_of_call_and_its_backward_are_recorded(tmp_path, loop, options):
    torch.manual_seed(0)
    file = tmp_path / "run.lamina"
    with every_root(file, **options) as watch:
        for _ in islice(loop(), 300):
            pass
    assert watch.stopped is None
    seen = set(rows(file, "SELECT DISTINCT training, gradients, calls, backward_ns IS NOT NULL FROM steps"))
    if loop is target:  # its call alone, where no step with gradients was being seen
        seen -= {(1, 0, 1, 0)}
    assert seen == LINES[loop]
    back = "SELECT count(*) FROM timeline WHERE path = '0' AND backward_ns IS NULL AND gradients"
    ((forward_only,),) = rows(file, back)
    assert forward_only == 0 or loop is gan  # the generator, where only the discriminator learns


@observed
def test_tables_tell_kinds_apart(tmp_path, capsys):
    from lamina._command import cli

    file = tmp_path / "run.lamina"
    with every_root(file, every=4):
        for _ in islice(gan(), 200):
            pass
    assert cli.main(["show", str(file)]) == 0
    told = capsys.readouterr().out
    heads = [line.split(":")[0] for line in told.splitlines() if ", steps of kind " in line]
    assert sorted(heads) == sorted(
        f"{name}, steps of kind {k} of 2" for name in ("Sequential", "Sequential 2") for k in (1, 2)
    )
    for line in ("a training step every ", "a training step without a backward pass every ",
                 "a training step of 1 call: ", "a training step of 2 calls: "):  # fmt: skip
        assert told.count(f"\n{line}") == 1
    assert told.count("\nlayer ") == 4
    assert cli.main(["live", "--once", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.count("\nlayer ") == 2  # of each model's first kind
    assert told.count(", steps of kind ") == 4


@observed
def test_steps_of_many_lengths_are_told_as_such(tmp_path, capsys):
    from lamina._command import cli

    file = tmp_path / "run.lamina"
    with every_root(file, every=4):
        for _ in islice(words(), 200):
            pass
    assert cli.main(["show", str(file)]) == 0
    told = capsys.readouterr().out
    assert "a training step of 8 to 12 calls: " in told
    assert "! these steps differ in their calls" in told


@observed
@pytest.mark.parametrize("options", [{}, {"memory": True}], ids=str)
def test_models_that_share_a_backward_pass_are_all_seen_with_it(tmp_path, options):
    """Fifteen are more than can be seen at a time, so they are not seen at the same time."""
    file = tmp_path / "run.lamina"
    models = [net() for _ in range(15)]
    with lamina.watch(models, every=8, file=file, **options):
        for _ in range(60):
            sum(model(torch.rand(2, 8)).sum() for model in models).backward()
    assert rows(file, "SELECT DISTINCT backward_ns IS NOT NULL FROM steps WHERE number > 0") == [(1,)]
    seen = [n for (n,) in rows(file, "SELECT count(*) FROM steps GROUP BY model")]
    assert len(seen) == 15
    assert min(seen) >= 5
    assert max(seen) <= 60 / 8 + 2
