# SPDX-License-Identifier: Apache-2.0
"""A recorded step has the layers that run in the calls of its root, and those that its backward pass repeats.
The program may also call a layer by itself; such calls are not the step's."""

from __future__ import annotations

import copy
import gc
import sqlite3
import textwrap
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import torch
import torch.distributed
from conftest import environment, needs_recordings, why_no_fit
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint
from where_kit import not_observed

import lamina
import warm

needs_recordings()
observed = pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")


def has_gloo():
    return torch.distributed.is_available() and torch.distributed.is_gloo_available()


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).relu()


class Wrap(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner or Inner()
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.inner(x))


def x():
    return torch.rand(4, 8)


def rows(file, sql, *args):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(sql, args).fetchall()


STEPS = 3
# All calls of a layer in steps of a kind, and whether some were repeated.
SQL = """
    SELECT m.name, s.training, s.gradients, p.path, sum(l.calls), sum(l.recompute_ns > 0)
    FROM layers l JOIN steps s ON s.id = l.step JOIN models m ON m.id = s.model
    JOIN places p ON p.model = m.id AND p.place = l.place GROUP BY 1, 2, 3, 4
"""
ONCE = {"": STEPS, "inner": STEPS, "inner.layer": STEPS, "head": STEPS}


def recorded(tmp_path, models, step, steps=STEPS, **options):
    """The calls of each layer, by the root and the kind of its steps, and the layers that were repeated."""
    file = tmp_path / "run.lamina"
    with lamina.watch(models, every=1, file=file, **options) as watch:
        for _ in range(steps):
            step()
    assert watch.stopped is None
    return told(file)


def told(file):
    calls, again = {}, set()
    for name, training, gradients, path, n, repeated in rows(file, SQL):
        kind = name + (" train" if training else " eval") + ("" if gradients else " no gradients")
        calls.setdefault(kind, {})[path] = n
        if repeated:
            again.add((name, path))
    return calls, again


# -- loops, each with calls of an inner layer outside the root -----------------------------------------------


def sampling(model):
    model(x()).sum().backward()
    with torch.no_grad():
        for _ in range(5):
            model.inner(x())


def sampling_before_the_backward(model):
    loss = model(x()).sum()
    with torch.no_grad():
        for _ in range(5):
            model.inner(x())
    loss.backward()


def in_the_loss(model):
    (model(x()).sum() + model.inner(x()).sum()).backward()


def with_a_loss_of_its_own(model):
    loss = model(x()).sum()
    model.inner(x()).sum().backward()
    loss.backward()


def a_checkpoint_outside(model):
    (model(x()).sum() + checkpoint(model.inner, x(), use_reentrant=False).sum()).backward()


def a_gradient_penalty(model):
    given = x().requires_grad_()
    out = model(given).sum()
    (slope,) = torch.autograd.grad(out, given, create_graph=True)
    model.inner(given.detach())
    (out + slope.square().sum()).backward()


def a_functional_call(model):
    parameters = dict(model.named_parameters())
    torch.func.functional_call(model, parameters, (x(),)).sum().backward()
    model.inner(x())


def a_copy_for_averages(model):
    model(x()).sum().backward()
    with torch.no_grad():
        copy.deepcopy(model)(x())
        copy.copy(model.inner)(x())
        model.inner(x())


def another_thread(model):
    loss = model(x()).sum()
    thread = threading.Thread(target=lambda: [model.inner(x()) for _ in range(4)])
    thread.start()
    thread.join()
    loss.backward()


LOOPS = [
    sampling, sampling_before_the_backward, in_the_loss, with_a_loss_of_its_own, a_checkpoint_outside,
    a_gradient_penalty, a_functional_call, a_copy_for_averages, another_thread,
]  # fmt: skip


@observed
@pytest.mark.parametrize("options", [{}, {"memory": True, "health": True}], ids=["times", "all"])
@pytest.mark.parametrize("loop", LOOPS)
def test_calls_outside_those_of_the_root_are_not_in_its_steps(tmp_path, loop, options):
    model = Wrap()
    calls, again = recorded(tmp_path, model, lambda: loop(model), **options)
    assert calls == {"Wrap train": ONCE}
    assert not again


def test_the_forward_of_a_step_is_that_of_the_roots_calls(tmp_path):
    model = Wrap()
    recorded(tmp_path, model, lambda: sampling(model))
    file = tmp_path / "run.lamina"
    root = "SELECT s.forward_ns = l.forward_ns FROM steps s JOIN layers l ON l.step = s.id AND l.place = 0"
    assert rows(file, root) == [(1,)] * STEPS
    inside = """
        SELECT min(r.forward_ns >= i.forward_ns) FROM timeline i JOIN timeline r ON r.step = i.step
        WHERE r.path = '' AND i.path = 'inner'
    """
    assert rows(file, inside) == [(1,)]


@observed
def test_a_nan_of_a_sampler_is_none_of_the_step(tmp_path):
    model = Wrap()

    def step():
        model(x()).sum().backward()
        with torch.no_grad():
            model.inner(torch.full((2, 8), float("nan")))

    recorded(tmp_path, model, step, health=True)
    assert rows(tmp_path / "run.lamina", "SELECT DISTINCT looked, bad FROM steps") == [(1, None)]


class Checkpointed(Wrap):
    reentrant = False

    def forward(self, given):
        return self.head(checkpoint(self.inner, given, use_reentrant=self.reentrant))


class Reentrant(Checkpointed):
    reentrant = True


class Own(torch.autograd.Function):
    """Calls a layer again in its backward."""

    @staticmethod
    def forward(ctx, given, layer):
        ctx.layer = layer
        ctx.save_for_backward(given)
        return layer(given)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            given = ctx.saved_tensors[0].detach().requires_grad_()
            out = ctx.layer(given)
        return torch.autograd.grad(out, given, gradient)[0], None


class Reversible(Wrap):
    def forward(self, given):
        return self.head(Own.apply(given, self.inner))


@observed
@pytest.mark.parametrize("kind", [Checkpointed, Reentrant, Reversible])
def test_what_the_backward_of_a_step_repeats_is_in_it(tmp_path, kind):
    model = kind()

    def step():
        model(x().requires_grad_()).sum().backward()
        model.inner(x())

    calls, again = recorded(tmp_path, model, step)
    assert calls == {f"{kind.__name__} train": ONCE}
    assert {(kind.__name__, "inner"), (kind.__name__, "inner.layer")} <= again


@observed
def test_a_checkpoint_around_the_root_is_repeated_whole(tmp_path):
    model = Wrap()
    calls, again = recorded(
        tmp_path, model, lambda: checkpoint(model, x(), use_reentrant=False).sum().backward()
    )
    assert calls == {"Wrap train": ONCE}
    assert again == {("Wrap", path) for path in ONCE}


@observed
def test_an_evaluation_between_is_a_step_of_its_own(tmp_path):
    model = Wrap()

    def step():
        model(x()).sum().backward()
        model.eval()
        with torch.no_grad():
            model(x())
            model.inner(x())
        model.train()

    calls, _ = recorded(tmp_path, model, step)
    assert calls == {"Wrap train": ONCE, "Wrap eval no gradients": ONCE}


@pytest.mark.parametrize("both", [False, True])
def test_models_that_share_a_layer_have_its_calls_apart(tmp_path, both):
    """As the heads of several tasks, or an actor and a critic."""
    shared = Inner()
    one, other = Wrap(shared), Wrap(shared)

    def step():
        one(x()).sum().backward()
        other(x()).sum().backward()

    calls, _ = recorded(tmp_path, [one, other] if both else one, step)
    assert calls == {"Wrap train": ONCE, **({"Wrap 2 train": ONCE} if both else {})}


def test_a_teacher_inside_the_student(tmp_path):
    model = Wrap()

    def step():
        with torch.no_grad():
            wanted = model.inner(x())
        (model(x()) - wanted).square().sum().backward()

    calls, _ = recorded(tmp_path, [model, model.inner], step)
    once = {"": STEPS, "layer": STEPS}
    assert calls == {"Wrap train": ONCE, "Inner train": once, "Inner train no gradients": once}


def test_a_closure_is_called_once_a_step(tmp_path):
    model, given = Wrap(), x()
    optimizer, evaluations = torch.optim.LBFGS(model.parameters(), max_iter=2), []

    def step():
        def closure():
            evaluations.append(1)
            optimizer.zero_grad()
            loss = model(given).square().sum()
            loss.backward()
            model.inner(given)
            return loss

        optimizer.step(closure)

    calls, _ = recorded(tmp_path, model, step)
    assert calls == {"Wrap train": dict.fromkeys(ONCE, len(evaluations))}
    if not not_observed():
        assert rows(tmp_path / "run.lamina", "SELECT count(*) FROM steps") == [(len(evaluations),)]


class Trainer(nn.Module):
    """Owns an optimizer, and trains in its forward."""

    def __init__(self):
        super().__init__()
        self.net = Wrap()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)

    def forward(self, given):
        loss = self.net(given).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@observed
def test_a_model_that_trains_itself(tmp_path):
    model = Trainer()

    def step():
        model(x())
        model.net(x())
        model.net.inner(x())

    calls, _ = recorded(tmp_path, model, step)
    inside = {f"net.{path}".rstrip("."): n for path, n in ONCE.items()}
    assert calls == {"Trainer train": {"": STEPS, **inside}}
    assert rows(tmp_path / "run.lamina", "SELECT min(backward_ns) > 0, max(calls) FROM steps") == [(1, 1)]


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


def test_a_parametrized_weight_may_be_read_outside(tmp_path):
    model = Wrap()
    parametrize.register_parametrization(model.head, "weight", Symmetric())

    def step():
        (model(x()).sum() + model.head.weight.square().sum()).backward()

    calls, _ = recorded(tmp_path, model, step)
    made = dict.fromkeys(("head.parametrizations.weight", "head.parametrizations.weight.0"), STEPS)
    (found,) = calls.values()
    assert found == {**ONCE, **made}


def test_a_wrapper_for_several_devices(tmp_path):
    model = nn.DataParallel(Wrap())

    def step():
        model(x()).sum().backward()
        with torch.no_grad():
            model.module(x())
            model.module.inner(x())

    calls, _ = recorded(tmp_path, model, step)
    inside = {f"module.{path}".rstrip("."): n for path, n in ONCE.items()}
    assert calls == {"DataParallel train": {"": STEPS, **inside}}


class Threads(Wrap):
    def forward(self, given):
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(self.inner, (given, given))
        return self.head(one + other)


def test_layers_that_threads_of_the_root_call_are_not_told(tmp_path):
    model = Threads()

    def step():
        model(x()).sum().backward()
        model.inner(x())

    calls, _ = recorded(tmp_path, model, step)
    assert calls == {"Threads train": {"": STEPS, "head": STEPS}}


class Direct(nn.Module):
    """Its class never calls that of torch.nn.Module."""

    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(), Inner()

    def __call__(self, given):
        return self.b(self.a(given))


def test_a_call_of_a_class_of_its_own_is_the_roots(tmp_path):
    model, call = Direct(), Direct.__dict__["__call__"]
    others = [Direct(), Direct()]

    def step():
        model(x()).sum().backward()
        model.a(x())
        for other in others:
            other(x())

    calls, _ = recorded(tmp_path, [model, others[0]], step)
    once = dict.fromkeys(("", "a", "a.layer", "b", "b.layer"), STEPS)
    assert calls == {"Direct train": once, "Direct 2 train": once}
    assert Direct.__dict__["__call__"] is call


# -- lamina run ----------------------------------------------------------------------------------------------

PROGRAM = """
    import torch
    from torch import nn
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
        def forward(self, x):
            return self.layer(x).relu()
    class Wrap(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
        def forward(self, x):
            return self.inner(x)
    model = Wrap()
    for _ in range(3):
        model(torch.rand(4, 8)).sum().backward()
        with torch.no_grad():
            for _ in range(10):
                model.inner(torch.rand(4, 8))
"""


def run_program(tmp_path, text, *words):
    """The calls of the layers in what a program records; ``words``: how it is started."""
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    done = warm.python(*words, "train.py", cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("*.lamina")
    return told(file)[0]


RUN = ("-m", "lamina", "run", "--every", "1")


@observed
def test_a_program_whose_wrapper_trains_and_whose_inner_module_samples(tmp_path):
    # The inner module is a root from its first own call on.
    assert run_program(tmp_path, PROGRAM, *RUN) == {
        "Wrap train": {"": 3, "inner": 3, "inner.layer": 3},
        "Inner train": {"": 2, "layer": 2},
        "Inner train no gradients": {"": 30, "layer": 30},
    }


DISTRIBUTED = """
    import contextlib, sys
    import lamina, torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    meet = "file://" + sys.path[0] + "/meet"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=0, world_size=1)
    class Net(nn.Sequential):
        pass
    ddp = DistributedDataParallel(Net(nn.Linear(8, 8), nn.ReLU()))
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    with WATCH:
        for step in range(3):
            for last in (False, True):
                with contextlib.nullcontext() if last else ddp.no_sync():
                    ddp(torch.rand(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for _ in range(10):
                    ddp.module(torch.rand(4, 8))
            ddp.module[0](torch.rand(4, 8))
    torch.distributed.destroy_process_group()
"""


@observed
@pytest.mark.skipif(not has_gloo(), reason="this torch has no gloo")
@pytest.mark.parametrize("way", ["run", "watch"])
def test_a_program_that_samples_from_what_data_parallelism_wraps(tmp_path, way):
    watch = 'lamina.watch(ddp, every=1, file="run.lamina")' if way == "watch" else "contextlib.nullcontext()"
    calls = run_program(tmp_path, DISTRIBUTED.replace("WATCH", watch), *(RUN if way == "run" else ()))
    wrapper = {"": 6, "module": 6, "module.0": 6, "module.1": 6}
    assert calls.pop("DistributedDataParallel train") == wrapper
    if way == "run":
        assert calls.pop("Net train") == {"": 4, "0": 4, "1": 4}
        assert calls.pop("Net train no gradients") == {"": 30, "0": 30, "1": 30}
        # Each model is one from its first call by itself on, so the layer is in two calls more a step.
        layer = calls.pop("Linear train no gradients"), calls.pop("Linear train")
        assert layer == ({"": 20}, {"": 7})
    assert calls == {}


ADAPTERS = """
    import contextlib
    import torch
    from torch import nn
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.used = base, True
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        def forward(self, x):
            out = self.base(x)
            return out + self.up(self.down(x)) if self.used else out
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
        def forward(self, x):
            return self.layer(x)
        @torch.no_grad()
        def generate(self, n):
            for _ in range(n):
                self(torch.rand(1, 8))
    class Adapted(nn.Module):
        def __init__(self, model):
            super().__init__()
            for parameter in model.parameters():
                parameter.requires_grad = False
            model.layer = Adapter(model.layer)
            self.model = model
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.model, name)
        @contextlib.contextmanager
        def without(self):
            self.model.layer.used = False
            yield
            self.model.layer.used = True
        def forward(self, x):
            return self.model(x)
    model = Adapted(Base())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    for _ in range(3):
        with torch.no_grad(), model.without():
            model(torch.rand(4, 8))
        loss = model(torch.rand(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.generate(5)
"""


@observed
def test_a_program_that_trains_adapters_and_samples(tmp_path):
    """It samples from the model inside, through the wrapper; a pass without adapters is a step of its own."""

    def times(n, prefix, adapters):
        layers = ["", "layer", "layer.base", *(["layer.down", "layer.up"] if adapters else [])]
        return {f"{prefix}{layer}".rstrip("."): n for layer in layers}

    assert run_program(tmp_path, ADAPTERS, *RUN) == {
        "Adapted train": {"": 3, **times(3, "model.", True)},
        "Adapted train no gradients": {"": 3, **times(3, "model.", False)},
        "Base train": times(2, "", True),
        "Base train no gradients": {**times(17, "", False), "layer.down": 15, "layer.up": 15},
    }


OWNERS = """
    import torch
    from torch import nn
    class Net(nn.Sequential):
        pass
    class Trainer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net(nn.Linear(8, 8), nn.ReLU())
            self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
        def forward(self, x):
            for _ in range(2):
                self.optimizer.zero_grad()
                loss = self.net(x).square().mean()
                loss.backward()
                self.optimizer.step()
            return loss.detach()
    class Adversaries(nn.Module):
        def __init__(self):
            super().__init__()
            self.maker, self.judge = nn.Linear(8, 8), nn.Linear(8, 1)
            self.makers = torch.optim.SGD(self.maker.parameters(), 0.1)
            self.judges = torch.optim.SGD(self.judge.parameters(), 0.1)
        def forward(self, x):
            with torch.no_grad():
                made = self.maker(x)
            (self.judge(made).mean() - self.judge(x).mean()).backward()
            self.judges.step()
            self.judges.zero_grad()
            (-self.judge(self.maker(x)).mean()).backward()
            self.makers.step()
            self.makers.zero_grad()
    class Methods(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Net(nn.Linear(8, 8), nn.ReLU())
            self.optimizer = torch.optim.SGD(self.parameters(), 0.1)
        def forward(self, x):
            return self.body(x)
        def training_step(self, x):
            self.optimizer.zero_grad()
            self(x).sum().backward()
            self.optimizer.step()
    model = MODEL()
    for _ in range(3):
        CALL(torch.rand(4, 8))
"""
OWNER = [
    ("Trainer", "model", {"Trainer train": {"": 3, "net": 6, "net.0": 6, "net.1": 6}}),
    ("Adversaries", "model", {"Adversaries train": {"": 3, "maker": 6, "judge": 9}}),
    ("Methods", "model.training_step", {"Methods train": {"": 3, "body": 3, "body.0": 3, "body.1": 3}}),
]


@observed
@pytest.mark.parametrize(("model", "call", "expected"), OWNER, ids=[row[0] for row in OWNER])
def test_a_program_whose_model_owns_its_optimizers(tmp_path, model, call, expected):
    text = OWNERS.replace("MODEL", model).replace("CALL", call)
    assert run_program(tmp_path, text, *RUN) == expected


def test_a_model_that_is_done_with_is_not_kept(tmp_path):
    """Its last step waits for the next call; another model that is called ends it."""
    gone = []
    with lamina.watch([], every=1, file=tmp_path / "run.lamina") as watch:
        for _ in range(3):
            model = Inner()
            gone.append(weakref.ref(model))
            watch.add_found(model)
            for _ in range(STEPS):
                model(x()).sum().backward()
            del model
            gc.collect()
            assert [each() is None for each in gone] == [True] * (len(gone) - 1) + [False]
    assert watch.totals[:2] == (3 * STEPS, 3 * STEPS)


def test_two_models_that_take_turns_keep_their_steps(tmp_path):
    maker, judge = Inner(), Inner()

    def step():
        made = maker(x())
        judge(made).sum().backward()
        judge(x()).sum().backward()

    calls, _ = recorded(tmp_path, [maker, judge], step)
    assert calls == {
        "Inner train": {"": STEPS, "layer": STEPS},
        "Inner 2 train": {"": 2 * STEPS, "layer": 2 * STEPS},
    }


APART = {
    "forward": lambda net: lamina.inspect(net, x()),
    "backward": lambda net: lamina.inspect(net, x(), backward=True),
    "time": lambda net: lamina.inspect(net, x(), time=True, warmup=1, repeats=2),
    "memory and health": lambda net: lamina.inspect(net, x(), memory=True, health=True),
    "fit": lambda net: lamina.fit(net, x()),
}


@observed
@pytest.mark.parametrize("measures", [{}, {"memory": True}])
@pytest.mark.parametrize("how", [how for how in APART if how != "fit" or why_no_fit() is None])
def test_what_inspect_runs_is_no_step(tmp_path, how, measures):
    model, work = Wrap(), []

    def step():
        APART[how](model)  # the first time no step is open, and then one is
        model(x()).sum().backward()
        work.append(APART[how](model))

    calls, again = recorded(tmp_path, model, step, **measures)
    assert (calls, again) == ({"Wrap train": ONCE}, set())
    [counted] = {flops for (flops,) in rows(tmp_path / "run.lamina", "SELECT flops FROM work")}
    with lamina.capture(model) as watch:
        model(x()).sum().backward()
    report = watch.report()
    assert counted == 2 * (report.macs + report.backward.macs)
    assert lamina.inspect(model, x()).macs == report.macs
