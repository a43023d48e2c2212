# SPDX-License-Identifier: Apache-2.0
"""torch's operators that run functions, and what else imports torch's compiler while a model is looked at."""

from __future__ import annotations

import sys
import textwrap
import types

import pytest
import torch
from conftest import environment
from torch import nn
from torch._higher_order_ops import while_loop
from where_kit import Calls, by_path, exact, not_observed

import lamina
import warm
from lamina._guard.control_flow import OPERATORS

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)


def branches(self, x):
    return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))


def loops(self, x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.a(x)), (torch.tensor(0), x))[1]


def scans(self, x):
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, y: (self.a(c) + y, self.a(c) * 2), torch.zeros(4), x)[1]


def gathers(self, x):
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda p, q: p * q + p, self.a(x), 0, combine_mode="generic")


def maps(self, x):
    from torch._higher_order_ops.map import map as mapped

    return mapped(lambda x: self.a(x), x)


def by_hand(self, x):
    """The same in Python."""
    if self.does is branches:
        return self.a(x) if x.sum() > 0 else self.b(x).relu()
    if self.does is loops:
        return self.a(self.a(self.a(x)))
    if self.does is maps:
        return torch.stack([self.a(y) for y in x])
    carry, out = torch.zeros(4), []
    for y in x:
        out.append(self.a(carry) * 2)
        carry = self.a(carry) + y
    return torch.stack(out)


OLD = not hasattr(torch.compiler, "set_stance")  # before torch 2.6: no scans, and no gradients through map
# What runs functions, the MACs of a forward and a backward on 3 rows of 4, and the calls of its layer.
CASES = [(branches, 48, 48, 1), (loops, 144, 240, 3)]


def scanned():
    """How often torch's scan calls its function on 3 rows: some run it once more, for the shapes."""
    from torch._higher_order_ops.scan import generic_scan

    seen = []
    generic_scan(lambda c, y: seen.append(1) or [c + y, c * 2], [torch.zeros(4)], [torch.ones(3, 4)])
    return len(seen)


CASES += [] if OLD else [(scans, 32 * scanned(), 128, 2 * scanned()), (maps, 48, 48, 3)]


def make(runs):
    torch.manual_seed(0)
    return Calls(runs, a=nn.Linear(4, 4), b=nn.Linear(4, 4)), torch.rand(3, 4)


def trained(forward, net, x):
    """What a step gives: the output, and the gradients of what was used."""
    net.zero_grad()
    y = forward(net, x)
    y.sum().backward()
    return [y.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]


def close(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.allclose, ours, theirs))


@pytest.mark.parametrize(("runs", "macs", "back", "calls"), CASES, ids=[c[0].__name__ for c in CASES])
def test_functions_run_as_in_python(runs, macs, back, calls, way):
    net, x = make(runs)
    with lamina.capture(net, ops=True) as watch:
        ours = trained(Calls.__call__, net, x)
    report = watch.report("exact")
    assert (report.macs, report.backward.macs) == (macs, back)
    assert (by_path(report), by_path(report, "backward_macs")) == ({"a": macs}, {"a": back})
    assert f"a (Linear){f' ({calls} calls)' if calls > 1 else ''} " in str(report)
    assert close(ours, trained(by_hand, net, x))
    with lamina.capture(net) as watch:
        ours = trained(Calls.__call__, net, x)
    assert by_path(watch.report("layers")) == {"a": macs}


@pytest.mark.parametrize(("runs", "macs", "back", "calls"), CASES, ids=[c[0].__name__ for c in CASES])
def test_what_an_earlier_run_compiled_is_not_run_instead(runs, macs, back, calls):
    net, x = make(runs)
    net(x)
    with lamina.capture(net) as watch:
        ours = trained(Calls.__call__, net, x)
    report = watch.report("exact")
    assert (report.macs, report.backward.macs, report.macs.state) == (macs, back, "exact")
    assert (by_path(report), by_path(report, "backward_macs")) == ({"a": macs}, {"a": back})
    assert f"a (Linear){f' ({calls} calls)' if calls > 1 else ''} " in str(report)
    assert close(ours, trained(by_hand, net, x))


def kernels():
    known = [getattr(torch.ops.higher_order, name, None) for name in OPERATORS]
    return [dict(op.py_kernels) for op in known if op is not None]


def test_they_are_as_torch_has_them_until_torch_asks_whether_to_compile():
    net, x = make(branches)
    before = kernels()
    with lamina.capture(net, ops=True):
        net.a(x)
        assert kernels() == before
        net(x)
        assert kernels() != before
    assert kernels() == before


@pytest.mark.skipif(OLD, reason="this torch has no public switch")
def test_the_public_switch_serves_where_torch_has_no_other(monkeypatch):
    from lamina._guard import compiled

    monkeypatch.setattr(compiled, "_known_to", lambda switch, name: (None, None))
    net, x = make(branches)
    before, compiled = kernels(), torch.compile(net.a, backend="eager")
    with lamina.capture(net, ops=True) as watch:
        ours = trained(Calls.__call__, net, x)
        compiled(x)
    assert (watch.report("exact").macs, watch.report("exact").backward.macs) == (96, 48)
    assert close(ours, trained(by_hand, net, x))
    assert kernels() == before and torch._dynamo.eval_frame._stance.stance == "default"


@pytest.mark.skipif(OLD, reason="this torch has no public switch")
@pytest.mark.parametrize("lacks", ["_set_stance", "DynamoStance", "_stance"])
def test_a_switch_that_lacks_a_part_is_not_known(lacks):
    from torch._dynamo import eval_frame

    from lamina._guard import compiled

    parts = {"_set_stance", "DynamoStance", "_stance"}
    switch = types.ModuleType("switch")
    vars(switch).update({name: getattr(eval_frame, name) for name in parts - {lacks}})
    assert compiled._known_to(switch, "force_eager") == (None, None)
    setattr(switch, lacks, getattr(eval_frame, lacks))
    compiled._known_to.cache_clear()
    assert None not in compiled._known_to(switch, "force_eager")


@pytest.mark.parametrize("runs", [branches] if OLD else [branches, gathers])
def test_afterwards_torch_runs_them_its_way(runs):
    net, x = make(runs)
    before, plain = kernels(), net(x)
    assert by_path(exact(net, x, backward=True)).keys() == {"a"}
    with pytest.raises(RuntimeError, match="shapes"):
        lamina.inspect(net, (torch.rand(3, 5),))
    assert kernels() == before and sys.meta_path == [f for f in sys.meta_path if "lamina" not in str(f)]
    assert torch.equal(net(x), plain)


def test_somebody_elses_mode_is_given_what_torch_gives_it():
    from torch.fx.experimental.proxy_tensor import make_fx

    net, x = make(branches)
    with lamina.capture(net, ops=True):
        graph = make_fx(lambda x: torch.ops.higher_order.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))(x)
    assert "higher_order.cond" in graph.code


FRESH = """
import importlib.util, sys, torch, lamina
from torch import nn
from torch._higher_order_ops import while_loop
assert "torch._dynamo" not in sys.modules
"""


def in_a_fresh_process(body):
    code = FRESH + textwrap.dedent(body)
    done = warm.python("-c", code, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_the_compiler_is_off_as_soon_as_it_is_imported():
    """Nothing was compiled when the capture began, so there was nothing to switch off. What the compiler runs
    while it is imported, as that of torch 2.8 does, is not the model's."""
    told = in_a_fresh_process("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                x = torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x), (x,))
                return torch.compile(self.b, backend="eager")(x)

        net, x, finders = Net(), torch.rand(3, 4), list(sys.meta_path)
        with lamina.capture(net, ops=True) as outer:
            report = lamina.inspect(net, (x,), convention="exact", backward=True)
            y = net(x)
            y.sum().backward()
        print(report.macs, report.backward.macs, outer.report("exact").macs, net.a.weight.grad is not None)
        import torch._dynamo

        frames, loader = torch._dynamo.convert_frame.input_codes.seen, torch._dynamo.__spec__.loader
        print(len(frames), type(loader).__name__, torch._dynamo.__loader__ is loader)
        print(sys.meta_path == finders)
        print(torch.equal(net(x), y), len(frames) > 0)
        """)
    assert told == ["96", "144", "192", "True", "0", "SourceFileLoader", "True", "True", "True", "True"]


def test_a_compiler_that_can_not_be_imported_is_the_models_to_meet():
    told = in_a_fresh_process("""
        class Net(nn.Linear):
            def forward(self, x):
                try:
                    import torch._dynamo
                except ImportError as error:
                    print(error)
                return super().forward(x)

        class Broken:
            def find_spec(self, name, path=None, target=None):
                if name == "torch._dynamo.eval_frame":
                    raise ImportError("broken")

        sys.meta_path.insert(0, Broken())
        before = list(sys.meta_path)
        for _ in range(2):
            print(int(lamina.inspect(Net(4, 4), (torch.rand(1, 4),)).macs))
        print(sys.meta_path == before, "torch._dynamo" in sys.modules)
        """)
    assert told == ["broken", "16", "broken", "16", "True", "False"]
