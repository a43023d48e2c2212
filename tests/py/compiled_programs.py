# SPDX-License-Identifier: Apache-2.0
"""Programs that compile something while they train. ``compiled_programs.py WAY FILE`` runs all of them, and
prints of each what it computed and what torch's compiler did. WAY: "plain"; "run", under ``lamina run``;
"watch" and "meter", also with options that are True after commas. Every step is recorded."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import warnings

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint


class Program:
    """What a program calls, and what it did; ``steps``: how many it makes."""

    def __init__(self, name, way, file):
        way, *options = way.split(",")
        self.name, self.way, self.file = name, way, file
        self.options = dict.fromkeys(options, True)
        self.step, self.losses, self.made, self.ran = 0, [], [], []

    def backend(self, graph, _inputs):
        """Notes in which steps it compiles, and in which its code runs."""
        self.made.append(self.step)

        def run(*args):
            self.ran.append(self.step)
            return graph.forward(*args)

        return run

    def net(self, base=None):
        """A net whose class is called as the program."""
        torch.manual_seed(0)
        return type(self.name, (base or Net,), {})()

    @contextlib.contextmanager
    def watching(self, model):
        if self.way != "watch":
            yield
            return
        import lamina

        with lamina.watch(model, every=1, file=self.file, **self.options) as watch:
            yield
        assert watch.stopped is None

    def metering(self, model):
        if self.way != "meter":
            return contextlib.nullcontext
        from lamina.callbacks import StepMeter

        return StepMeter(model, every=1, **{"memory": False, "health": False, **self.options}).step

    def train(
        self, call, model, *, steps=6, rows=lambda _: 4, loss=None, update=None, optimizer=None, between=None
    ):
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        metered = self.metering(model)
        with self.watching(model):
            for self.step in range(steps):
                with metered():
                    out = call(torch.rand(rows(self.step), 8))
                    told = loss(out) if loss else out.square().mean()
                    optimizer.zero_grad()
                    told.backward()
                    (update or optimizer.step)()
                self.losses.append(told.item().hex())
                if between:
                    between(self.step)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.1))
        self.c = nn.Linear(16, 4)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


PROGRAMS = {}


def program(run):
    PROGRAMS[run.__name__] = run
    return run


# -- what is compiled ----------------------------------------------------------------------------------------


@program
def wrapped(p):
    model = p.net()
    p.train(torch.compile(model, backend=p.backend, fullgraph=True), model)


@program
def a_wrapper_is_watched(p):
    model = torch.compile(p.net(), backend="aot_eager")
    p.train(model, model)


@program
def fused(p):
    model = p.net()
    p.train(torch.compile(model, backend="inductor"), model)


@program
def in_place(p):
    model = p.net()
    model.compile(backend=p.backend)
    p.train(model, model)


@program
def a_container(p):
    torch.manual_seed(0)
    model = type(p.name, (nn.Sequential,), {})(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    p.train(torch.compile(model, backend=p.backend, fullgraph=True), model)


@program
def a_layer(p):
    model = p.net()
    model.b = torch.compile(model.b, backend=p.backend)
    p.train(model, model)


class Broken(Net):
    def forward(self, x):
        x = self.a(x)
        torch._dynamo.graph_break()
        return self.c(self.b(x))


@program
def graphs_that_break(p):
    model = p.net(Broken)
    p.train(torch.compile(model, backend=p.backend), model)


@program
def called_from_a_broken_graph(p):
    model = p.net(Broken)

    @torch.compile(backend=p.backend)
    def call(x):
        x = x * 2
        torch._dynamo.graph_break()
        return model(x)

    p.train(call, model)


@program
def other_shapes(p):
    model = p.net()
    call = torch.compile(model, backend=p.backend, dynamic=False)
    p.train(call, model, rows=lambda step: 4 + step // 2)


@program
def any_shape(p):
    model = p.net()
    p.train(torch.compile(model, backend=p.backend), model, rows=lambda step: 4 + step // 2)


@program
def from_the_fourth_step_on(p):
    model, calls = p.net(), []
    calls.append(model)

    def between(step):
        if step == 2:
            calls.append(torch.compile(model, backend=p.backend))

    p.train(lambda x: calls[-1](x), model, between=between)


@program
def a_loss(p):
    model = p.net()
    loss = torch.compile(lambda out: out.sin().square().mean(), backend=p.backend)
    p.train(model, model, loss=loss)


@program
def an_optimizer(p):
    model = p.net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    update = torch.compile(optimizer.step, backend=p.backend)
    p.train(model, model, optimizer=optimizer, update=update)


@program
def hooks(p):
    model = p.net()
    model.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    model.b.register_forward_hook(lambda _, args, out: out * 1.5)
    p.train(torch.compile(model, backend=p.backend), model)


class ByName(Net):
    def forward(self, x):
        return self.c(self.b.__call__(self.a.__call__(x)))


@program
def layers_called_by_name(p):
    model = p.net(ByName)
    p.train(torch.compile(model, backend=p.backend), model)


class Halves(Net):
    def __call__(self, x):
        return super().__call__(x / 2)


@program
def a_call_of_its_own(p):
    model = p.net(Halves)
    p.train(torch.compile(model, backend=p.backend), model)


class Checkpointed(Net):
    def forward(self, x):
        return self.c(checkpoint(self.b, self.a(x), use_reentrant=False))


@program
def repeated_work(p):
    model = p.net(Checkpointed)
    p.train(torch.compile(model, backend="aot_eager"), model)


class Branch(Net):
    def forward(self, x):
        if not hasattr(torch, "cond"):
            return super().forward(x)
        return self.c(torch.cond(x.sum() > 16, lambda y: self.b(self.a(y)), lambda y: self.a(y), (x,)))


@program
def code_that_compiles_itself(p):
    model = p.net(Branch)
    p.train(model, model)


@program
def the_whole_step(p):
    model = p.net()
    p.train(torch.compile(lambda x: model(x).square(), backend=p.backend), model)


@program
def forgotten_in_between(p):
    model = p.net()

    def between(step):
        if step in (1, 3):
            torch._dynamo.reset()

    p.train(torch.compile(model, backend=p.backend), model, between=between)


@program
def more_shapes_than_are_compiled(p):
    model = p.net()
    call = torch.compile(model, backend=p.backend, dynamic=False)
    p.train(call, model, steps=12, rows=lambda step: 4 + step)


@program
def validated(p):
    model = p.net()
    call = torch.compile(model, backend=p.backend)

    def between(_step):
        model.eval()
        with torch.no_grad():
            p.losses.append(call(torch.ones(3, 8)).sum().item().hex())
        model.train()

    p.train(call, model, between=between)


@program
def gradients_by_line_search(p):
    model, x = p.net(), torch.rand(4, 8)
    call = torch.compile(model, backend=p.backend)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def update():
        def closure():
            optimizer.zero_grad()
            loss = call(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)

    p.train(call, model, steps=3, optimizer=optimizer, update=update)


# -- all of them ---------------------------------------------------------------------------------------------


def main(way, file):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, run in PROGRAMS.items():
        torch._dynamo.reset()
        counters.clear()
        p, error = Program(name, way, file), None
        try:
            run(p)
        except Exception as raised:  # a version of torch that can't do this
            error = f"{type(raised).__name__}: {raised}"
        did = {
            kind: {str(what): n for what, n in of.items()}
            for kind, of in copy.deepcopy(counters).items()
            if of
        }
        told = {"losses": p.losses, "made": p.made, "ran": p.ran, "compiler": did, "error": error}
        sys.stdout.write("\n" + json.dumps({name: told}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
