# SPDX-License-Identifier: Apache-2.0
"""Whose work it is under torch.func, in scripted code, checkpoints and autograd functions: counts by hand."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from torch import func, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from where_kit import Calls, by_path, exact, in_thread, no_operators, on_a_thread_of_torchs, work

import lamina

if no_operators():
    pytest.skip(f"no operators: {no_operators()}", allow_module_level=True)

LINEAR = 4 * 8 * 3  # MACs of linear() on rows()


def linear():
    return nn.Linear(8, 3)


def rows():
    return torch.rand(4, 8)


# -- torch.func ----------------------------------------------------------------------------------------------


def test_vmap_of_a_layer_counts_the_whole_batch():
    model = Calls(lambda self, x: torch.vmap(self.fc)(x), fc=linear())
    report = exact(model, rows(), backward=True)
    assert work(report) == (LINEAR, LINEAR, 0)
    assert by_path(report) == by_path(report, "backward_macs") == {"fc": LINEAR}


def test_vmap_of_a_convolution():
    model = Calls(lambda self, x: torch.vmap(self.conv)(x), conv=nn.Conv2d(3, 4, 3))
    macs = 5 * 2 * 6 * 6 * 4 * 27
    report = exact(model, torch.rand(5, 2, 3, 8, 8).requires_grad_(), backward=True)
    assert work(report) == (macs, 2 * macs, 0)
    assert by_path(report) == {"conv": macs}


def test_vmap_in_vmap():
    model = Calls(lambda self, x: torch.vmap(torch.vmap(self.fc))(x), fc=linear())
    assert work(exact(model, torch.rand(5, 4, 8), backward=True)) == (5 * LINEAR, 5 * LINEAR, 0)


def test_a_gradient_that_the_forward_takes_is_the_backward_of_the_layer():
    model = Calls(lambda self, x: func.grad(lambda y: self.fc(y).sum())(x), fc=linear())
    report = exact(model, rows())
    assert work(report) == (LINEAR, LINEAR, 0)
    assert by_path(report, "backward_macs") == {"fc": LINEAR}


def test_a_gradient_of_a_gradient():
    """Of sum(d tanh(xW)/dx): once back for the gradient, then through it, for W and for what came before."""
    model = Calls(lambda self, x: func.grad(lambda y: self.fc(y).tanh().sum())(x), fc=linear())
    report = exact(model, rows(), backward=True)
    assert work(report) == (LINEAR, 4 * LINEAR, 0)
    assert by_path(report, "backward_macs") == {"fc": 4 * LINEAR}


def test_gradients_of_each_sample():
    def forward(self, x):
        def loss(weights, row):
            return func.functional_call(self.fc, weights, (row,)).sum()

        weights = dict(self.fc.named_parameters())
        return torch.vmap(func.grad(loss), in_dims=(None, 0))(weights, x)["weight"]

    report = exact(Calls(forward, fc=linear()), rows())
    assert work(report) == (LINEAR, LINEAR, 0)


def test_jacobian_by_rows():
    """The forward of one row, and its backward once for each of the three outputs."""
    model = Calls(lambda self, x: func.jacrev(self.fc)(x), fc=linear())
    assert work(exact(model, torch.rand(8))) == (24, 3 * 24, 0)


def test_a_directional_derivative_runs_the_layer_for_the_value_and_the_tangents():
    model = Calls(lambda self, x: func.jvp(self.fc, (x,), (x,))[1], fc=linear())
    report = exact(model, rows())
    # torch multiplies the tangent of the input, and the zero tangent of the weight, which is a real product.
    assert by_path(report) == {"fc": 3 * LINEAR}


def test_functional_call_belongs_to_the_layer():
    def forward(self, x):
        doubled = {name: 2 * value for name, value in self.fc.named_parameters()}
        return func.functional_call(self.fc, doubled, (x,))

    report = exact(Calls(forward, fc=linear()), rows(), backward=True)
    assert work(report) == (LINEAR, LINEAR, 0)
    assert by_path(report, "backward_macs") == {"fc": LINEAR}


# -- scripted and traced -------------------------------------------------------------------------------------


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize("how", ["script", "trace", "freeze"])
def test_work_inside_scripted_code_is_the_scripted_row_s(how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = torch.jit.trace(Inner(), rows()) if how == "trace" else torch.jit.script(Inner().eval())
        inner = torch.jit.freeze(inner) if how == "freeze" else inner
    model = nn.Sequential(inner, nn.Linear(3, 2))
    for _ in range(3):  # the second and third runs are optimised
        report = exact(model, rows(), backward=True)
        assert report.macs.state == "exact"
        assert by_path(report) == {"0": 4 * (64 + 24), "1": 24}
        backward = {} if how == "freeze" else {"0": 4 * (64 + 2 * 24)}
        assert by_path(report, "backward_macs") == {**backward, "1": 24 if how == "freeze" else 48}


def test_kernels_of_scripted_code_that_are_no_operators_are_said():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    try:
        fast = torch.jit.optimize_for_inference(torch.jit.script(net))
    except RuntimeError as error:
        pytest.skip(f"this torch can't make such code: {error}")
    x, plain = torch.rand(1, 3, 16, 16), torch.jit.freeze(torch.jit.script(net))
    if fast.graph.findNode("prim::mkldnn_convolution", True) is None:
        pytest.skip("this torch puts no such kernels into it")
    whole = exact(nn.Sequential(plain, nn.Flatten(), nn.Linear(576, 2)), x)
    assert (whole.macs, whole.macs.state) == (83808 + 1152, "exact")
    report = exact(nn.Sequential(fast, nn.Flatten(), nn.Linear(576, 2)), x)
    assert (report.macs, report.macs.state) == (1152, "at least")
    assert [row.path for row in report.rows if row.macs.state != "exact"] == ["0"]
    (gap,) = report.gaps
    assert "kernels that are not operators" in gap and "Sequential" in gap
    assert "in vain" not in str(report)


def test_a_scripted_root():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = exact(torch.jit.script(Inner()), rows(), backward=True)
    assert work(report) == (352, 256 + 2 * 96, 0)
    assert by_path(report) == {"": 352}


# -- checkpoints ---------------------------------------------------------------------------------------------


def block():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 8), nn.Tanh())


def graded():
    return torch.rand(2, 8).requires_grad_()


LAYER = 2 * 8 * 16


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_a_checkpoint_with_random_layers(reentrant, keeps):
    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=reentrant, preserve_rng_state=keeps))

    report = exact(Calls(forward, first=block(), last=nn.Linear(8, 4)), graded(), backward=True)
    assert work(report) == (2 * LAYER + 64, 4 * LAYER + 128, 2 * LAYER)
    assert by_path(report, "recompute_macs") == {"first.0": LAYER, "first.3": LAYER}
    assert by_path(report, "backward_macs") == {"first.0": 2 * LAYER, "first.3": 2 * LAYER, "last": 128}


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_in_a_checkpoint(reentrant):
    """Reentrant, the inner block is computed again with the outer one, and once more for its own backward."""

    def forward(self, x):
        def both(y):
            return torch.sin(checkpoint(self.b, self.a(y), use_reentrant=reentrant))

        return self.c(checkpoint(both, x, use_reentrant=reentrant))

    report = exact(Calls(forward, a=block(), b=block(), c=nn.Linear(8, 4)), graded(), backward=True)
    assert work(report) == (4 * LAYER + 64, 8 * LAYER + 128, 6 * LAYER)
    again = {f"{name}.{i}": n * LAYER for name, n in (("a", 1), ("b", 2)) for i in (0, 3)}
    assert by_path(report, "recompute_macs") == again
    assert by_path(report, "backward_macs")["b.3"] == 2 * LAYER


def test_a_checkpointed_sequence():
    """Two halves, of which the second is kept. Of the first, the last layer need not run again."""
    model = Calls(
        lambda self, x: checkpoint_sequential(self.layers, 2, x, use_reentrant=False),
        layers=nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)]),
    )
    report = exact(model, graded(), backward=True)
    assert work(report) == (4 * 128, 8 * 128, 128)
    assert by_path(report, "recompute_macs") == {"layers.0": 128}


def events(report):
    """The spans of its timelines."""
    return [event for event in json.loads(report.to_trace())["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("options", [{}, {"time": True, "memory": True}, {"health": True}])
def test_a_checkpoint_on_a_thread_of_torchs(reentrant, options):
    def repeated(run):
        model = Calls(
            lambda self, x: self.last(checkpoint(self.first, x, use_reentrant=reentrant)),
            first=block(),
            last=nn.Linear(8, 4),
        )
        with lamina.capture(model, **options) as capture:
            for _ in range(2):
                run(model(graded()).sum().backward)
        return capture.report()

    here, there = repeated(lambda work: work()), repeated(on_a_thread_of_torchs)
    assert work(there) == work(here)
    assert there.notes == here.notes == []
    for field in ("path", "ordinal", "macs", "backward_macs", "recompute_macs"):
        assert [row[field] for row in there.rows] == [row[field] for row in here.rows]
    if "time" in options:
        told = [
            (
                [row.time and row.time.recompute.total > 0 for row in report.rows],
                [report.memory[name].recompute for name in ("", "first", "first.0", "first.3", "last")],
                {event["tid"] for event in events(report) if "layer,recompute" in event["cat"]},
            )
            for report in (here, there)
        ]
        assert told[0][:2] == told[1][:2]
        # Two passes may run on two threads of torch's.
        assert told[0][2] == {0} and told[1][2] and 0 not in told[1][2]


@pytest.mark.parametrize("run", [lambda work: work(), on_a_thread_of_torchs])
def test_a_forward_is_followed_wherever_its_backward_runs(run):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    with lamina.capture(model) as capture:
        loss = model(torch.rand(1, 3, 9, 9)).sum()
        run(loss.backward)
    told = json.loads(capture.report().to_json())["rows"][:4]
    sizes = [[field["size"] for field in row["receptive_fields"]] for row in told]
    assert sizes == [[5, 5], [3, 3], [3, 3], [5, 5]]


def test_threads_have_numbers(way):
    """The capture's own is 0, also where an earlier capture left its memory to a later one."""
    model, numbers = nn.Linear(8, 3), []
    for run in (on_a_thread_of_torchs, lambda work: work(), lambda work: work()):
        with lamina.capture(model, time=True) as capture:
            run(model(rows()).sum().backward)
        numbers.append({event["tid"] for event in events(capture.report())})
    assert numbers == [{0, 1}, {0}, {0}]


def test_a_thread_of_one_s_own_is_none_of_torchs():
    """It calls layers while the capture's thread waits for it, and no backward runs there."""
    model = Calls(lambda self, x: (in_thread(lambda: self.layer(x)), x)[1], layer=nn.Linear(8, 4))
    with lamina.capture(model) as capture:
        model(graded())
    assert any("another thread called layers" in gap for gap in capture.report().gaps)


# -- functions of one's own ----------------------------------------------------------------------------------


class Product(torch.autograd.Function):
    """A product whose backward is written by hand, with one more product than it needs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t() + 0 * (grad @ w), x.t() @ grad


def test_a_function_s_own_backward_belongs_to_its_call():
    middle = Calls(lambda self, x: Product.apply(x, self.w), w=nn.Parameter(torch.rand(8, 8)))
    report = exact(nn.Sequential(nn.Linear(8, 8), middle, nn.Linear(8, 2)), rows(), backward=True)
    assert work(report) == (256 + 256 + 64, 256 + 3 * 256 + 128, 0)
    assert by_path(report, "backward_macs") == {"0": 256, "1": 3 * 256, "2": 128}


def test_a_function_under_vmap():
    model = Calls(
        lambda self, x: torch.vmap(lambda y: Product.apply(y, self.w))(x), w=nn.Parameter(torch.rand(8, 8))
    )
    report = exact(model, torch.rand(3, 4, 8), backward=True)
    assert work(report)[0] == 3 * 256
    assert by_path(report, "backward_macs") == {"": int(report.backward.macs)}


class Batched(torch.autograd.Function):
    """A product whose forward and backward are written for one row."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.vmap(lambda row: row @ w)(x)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        into = torch.vmap(lambda row: row @ w.t())(grad)
        return into, torch.vmap(torch.outer)(x, grad).sum(0)


def test_vmap_in_a_backward():
    """A backward pass has levels of transforms of its own: those of its operators are seen."""
    middle = Calls(lambda self, x: Batched.apply(x, self.w), w=nn.Parameter(torch.rand(8, 8)))
    model = nn.Sequential(nn.Linear(8, 8), middle, nn.Linear(8, 2))
    once = exact(model, rows(), backward=True)
    assert by_path(once) == {"0": 256, "1": 256, "2": 64}
    assert by_path(once, "backward_macs")["1"] == 256  # outer is no product of matrices


def test_data_parallel_without_devices_calls_the_module():
    inner = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    report = exact(nn.DataParallel(inner), rows(), backward=True)
    assert by_path(report) == {"module.0": 256, "module.1": 64}
    assert by_path(report, "backward_macs") == {"module.0": 256, "module.1": 128}
