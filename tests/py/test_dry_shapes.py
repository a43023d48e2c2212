# SPDX-License-Identifier: Apache-2.0
"""Each shape rule against the operator itself on random shapes: sizes, strides, types."""

from __future__ import annotations

import random

import pytest
import torch

from lamina import _lamina

dry = pytest.importorskip("lamina._dry.mode")
aten = torch.ops.aten


def offered() -> bool:
    try:
        run()
    except ValueError:
        return False
    return True


def run():
    watch = _lamina.Capture(torch.nn.Identity())
    return dry._Run(watch)


pytestmark = pytest.mark.skipif(not offered(), reason="this torch has no tensors without memory")

REAL = (torch.float32, torch.float64, torch.bfloat16)
ROUNDS = 40


def size():
    return random.choice((1, 2, 3, 5))


def sizes(n=None):
    return [size() for _ in range(random.randint(0, 4) if n is None else n)]


def laid_out(tensor):
    """The tensor in some layout: in order, with axes exchanged, or with gaps; axes of one element anyhow."""
    how = random.randint(0, 3)
    if how == 1 and tensor.dim() > 1:
        order = random.sample(range(tensor.dim()), tensor.dim())
        tensor = tensor.permute(order).contiguous().permute([order.index(i) for i in range(tensor.dim())])
        one = (
            [random.choice((1, 2, 7, s)) for s in tensor.stride()]
            if random.random() < 0.5
            else tensor.stride()
        )
        strides = [o if n == 1 else s for n, s, o in zip(tensor.shape, tensor.stride(), one, strict=True)]
        return tensor.as_strided(tensor.shape, strides)
    if how == 2 and tensor.dim() > 0:
        return torch.stack([tensor, tensor], -1)[..., 0]
    return tensor


def make(shape, dtype=torch.float32):
    if dtype.is_floating_point:
        return laid_out(torch.rand(shape).to(dtype))
    return laid_out(torch.randint(0, 2, shape).to(dtype))


def fitting(shape):
    """A shape that broadcasts with ``shape``."""
    return [random.choice((1, s)) for s in shape][random.randint(0, len(shape)) :]


def same():
    return (make(sizes(), random.choice(REAL)),)


def pair():
    shape = sizes()
    other, dtype = fitting(shape), random.choice(REAL)
    operands = [make(shape, dtype), make(shape if random.random() < 0.3 else other, dtype)]
    random.shuffle(operands)
    return tuple(operands)


def whole_pair():
    shape, dtype = sizes(), random.choice((torch.int64, torch.bool))
    return make(shape, dtype), make(fitting(shape), dtype)


def mm():
    n, k, m = size(), size(), size()
    return make((n, k)), make((k, m))


def bmm():
    b, n, k, m = size(), size(), size(), size()
    return make((b, n, k)), make((b, k, m))


def addmm():
    x, y = mm()
    return make(fitting([x.shape[0], y.shape[1]])), x, y


def baddbmm():
    x, y = bmm()
    return make(fitting([x.shape[0], x.shape[1], y.shape[2]])), x, y


def grouped():
    """Rows of a matrix by groups, columns, the inner axis of two, or a batch of each."""
    ends = torch.tensor([8, 24], dtype=torch.int32)
    return random.choice(
        (
            (torch.rand(24, 8), torch.rand(2, 8, 16), ends),
            (torch.rand(2, 32, 8), torch.rand(8, 24), ends),
            (torch.rand(8, 24), torch.rand(24, 16), ends),
            (torch.rand(2, 8, 16), torch.rand(2, 16, 8)),
        )
    )


def conv():
    n, groups, transposed = random.randint(1, 3), random.randint(1, 2), random.random() < 0.3
    stride = [random.randint(1, 2) for _ in range(n)]
    window, x = [random.randint(1, 3) for _ in range(n)], [random.randint(5, 7) for _ in range(n)]
    weight = (2 * groups, 3, *window) if transposed else (3 * groups, 2, *window)
    bias = random.choice((None, torch.rand(3 * groups)))
    padding, dilation = [random.randint(0, 1) for _ in range(n)], [random.randint(1, 2) for _ in range(n)]
    more = [s - 1 for s in stride] if transposed else [0] * n
    args = (stride, padding, dilation, transposed, more, groups)
    operands = [torch.rand(size(), 2 * groups, *x), torch.rand(weight)]
    if n == 2:
        operands = [random.choice((t, t.contiguous(memory_format=torch.channels_last))) for t in operands]
    return *operands, bias, *args


def images():
    x = torch.rand([*(random.randint(2, 4) for _ in range(random.randint(1, 2))), 6, 7])
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 and random.random() < 0.5 else x


def pool(*more):
    def draw():
        window = [random.randint(1, 3), random.randint(1, 3)]
        stride = random.choice(([], [2, 1]))
        return images(), window, stride, [k // 2 for k in window], *more, random.random() < 0.5

    return draw


def padded():
    return images(), [random.randint(0, 2) for _ in range(4)]


def unpooled():
    x, where = aten.max_pool2d_with_indices(images(), [2, 2])
    return x, where, [6, 7]


def rolled():
    x = images()
    axes = random.sample(range(-x.dim(), 0), random.randint(1, 2))
    return x, [random.randint(-3, 3) for _ in axes], axes


def noisy():
    x = make(sizes())
    return x, torch.empty_like(x), 0.1, 0.3, random.random() < 0.5


def shuffled():
    order = random.choice((torch.contiguous_format, torch.channels_last))
    return torch.rand(2, 4, 3, 3).contiguous(memory_format=order), 2


def adaptive():
    return images(), [random.randint(1, 4), random.randint(1, 4)]


def batch_norm():
    c = random.randint(2, 4)
    x, dtype = torch.rand([2, c, *random.choice(((3, 5), (1, 5), (1, 1)))]), random.choice(REAL)
    training = random.random() < 0.5
    if training:
        dtype = torch.float32
    stats = [torch.rand(c).to(dtype) for _ in range(4)]
    if random.random() < 0.5:
        x = x.contiguous(memory_format=torch.channels_last)
    elif random.random() < 0.3:
        x = x.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2)
    return x.to(dtype), *stats, training, 0.1, 1e-5


def layer_norm():
    shape = sizes(2)
    return make([*sizes(1), *shape]), shape, random.choice((None, torch.rand(shape))), torch.rand(shape), 1e-5


def group_norm():
    n, c = size(), 4
    return torch.rand([n, c, 3, 2]), torch.rand(c), None, n, c, 6, random.choice((1, 2, 4)), 1e-5


def reduced():
    x = make(sizes(random.randint(1, 4)), random.choice(REAL))
    axes = random.sample(range(-x.dim(), 0), random.randint(1, x.dim()))
    return x, axes, random.random() < 0.5


def joined():
    shape, axis = sizes(random.randint(1, 4)), 0
    axis = random.randrange(-len(shape), len(shape))
    return [make(shape) for _ in range(random.randint(1, 3))], axis


def looked_up():
    return torch.rand(10, size()), torch.randint(0, 10, sizes())


def bags():
    args = (torch.rand(10, 4), torch.randint(0, 10, (12,)), torch.tensor([0, 4, 8]), False)
    last, padding = random.random() < 0.5, random.choice((-1, 2))
    mode = random.randint(0, 2)
    return *args, mode, False, torch.rand(12) if mode == 0 and random.random() < 0.5 else None, last, padding


def over_axis():
    x = make(sizes(random.randint(1, 4)))
    return x, random.randrange(x.dim()), False


def by_heads():
    b, t, h, d = size(), size(), size(), size()
    return torch.rand(b, t, 3 * h * d), torch.rand(3 * h * d), h


def bounded():
    return (*same(), 0.25)


# How to draw the arguments of an operator, by its name and overload. Every line of shapes.def has one.
DRAWN = {
    "_adaptive_avg_pool2d": adaptive,
    "_embedding_bag": bags,
    "_embedding_bag_forward_only": bags,
    "_grouped_mm": grouped,
    "_log_softmax": over_axis,
    "_softmax": over_axis,
    "_transform_bias_rescale_qkv": by_heads,
    "add.Tensor": pair,
    "addmm": addmm,
    "amax": reduced,
    "amin": reduced,
    "avg_pool2d": pool(),
    "baddbmm": baddbmm,
    "bitwise_and.Tensor": whole_pair,
    "bitwise_or.Tensor": whole_pair,
    "bmm": bmm,
    "cat": joined,
    "channel_shuffle": shuffled,
    "clamp_max": bounded,
    "clamp_min": bounded,
    "convolution": conv,
    "div.Tensor": pair,
    "embedding": looked_up,
    "eq.Tensor": pair,
    "ge.Tensor": pair,
    "gt.Tensor": pair,
    "le.Tensor": pair,
    "lt.Tensor": pair,
    "log_sigmoid_forward": same,
    "max_pool2d_with_indices": pool([1, 1]),
    "max_unpool2d": unpooled,
    "maximum": pair,
    "mean.dim": reduced,
    "minimum": pair,
    "mm": mm,
    "mul.Tensor": pair,
    "native_batch_norm": batch_norm,
    "native_channel_shuffle": shuffled,
    "native_group_norm": group_norm,
    "native_layer_norm": layer_norm,
    "ne.Tensor": pair,
    "pow.Tensor_Tensor": pair,
    "sub.Tensor": pair,
    "sum.dim_IntList": reduced,
    "threshold": lambda: (*same(), 0.5, 0.5),
    "clamp": bounded,
    "reflection_pad2d": padded,
    "replication_pad2d": padded,
    "roll": rolled,
    "rrelu_with_noise": noisy,
    "rsub.Scalar": lambda: (make(sizes()), 0.5),
    "bitwise_not": lambda: (make(sizes(), torch.bool),),
}
SAME = (
    *("abs", "ceil", "cos", "elu", "erf", "exp", "floor", "gelu", "hardsigmoid", "hardswish", "hardtanh"),
    *("leaky_relu", "log", "mish", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "silu", "sin"),
    *("softplus", "sqrt", "tanh"),
)
DRAWN.update(dict.fromkeys(SAME, same))


def lines():
    from conftest import ROOT

    text = (ROOT / "src/vocab/shapes.def").read_text()
    return [
        line.split('"')[1].removeprefix("aten::") for line in text.splitlines() if line.startswith('SHAPE("')
    ]


def test_every_line_is_drawn():
    assert sorted(name.partition(".")[0] for name in DRAWN) == lines()


def layouts():
    from conftest import ROOT

    rows = [line.split('"') for line in (ROOT / "src/vocab/shapes.def").read_text().splitlines()]
    return {
        row[1].removeprefix("aten::"): row[2].split()[-1].rstrip(")") for row in rows if row[0] == "SHAPE("
    }


def told(value, exactly=False):
    """What is to be seen of it; with ``exactly``, also the strides of axes of one element."""
    if isinstance(value, (list, tuple)):
        return [told(v) for v in value]
    strides = [s for size, s in zip(value.shape, value.stride(), strict=True) if exactly or size > 1]
    return tuple(value.shape), strides, value.dtype


def counting(run):
    """A run that counts what the rules left to torch."""
    left = []

    def slow(function, args, kwargs):
        left.append(function)
        return run.answer(function, args, kwargs)

    mode = dry._mode()(run.fake, run.known, slow, run.about, lambda *_: None)
    mode.serves(_lamina.Capture(torch.nn.Identity()))
    run.core = mode
    return left


def fakes(run, value):
    if isinstance(value, torch.Tensor):
        return run.core.like(value)
    return [fakes(run, v) for v in value] if isinstance(value, (list, tuple)) else value


def operator(name):
    packet, _, overload = name.partition(".")
    if not hasattr(aten, packet):
        pytest.skip("this torch has no such operator")
    return getattr(getattr(aten, packet), overload or "default")


def compare(name, draw, rounds=ROUNDS):
    """How many of these arguments the rules themselves answered, and not torch; each as the operator does."""
    function, served = operator(name), 0
    exactly = layouts()[name.partition(".")[0]] in ("like", "both")
    random.seed(name)
    for _ in range(rounds):
        args = draw()
        try:
            real = function(*args)
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" in str(error):
                continue
            raise
        dry_run = run()
        left = counting(dry_run)
        with dry_run.core:
            fake = function(*fakes(dry_run, args))
        assert told(fake, exactly) == told(real, exactly), [getattr(a, "stride", str)() for a in args]
        served += not left
    return served


@pytest.mark.parametrize("name", DRAWN)
def test_rule(name):
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("CPU", "CompositeExplicitAutograd")
    there = hasattr(torch.ops.aten, name.partition(".")[0])
    if name == "_grouped_mm" and not (there and any(has_kernel("aten::_grouped_mm", key) for key in keys)):
        pytest.skip("this torch has no kernel of the operator on the CPU")
    assert compare(name, DRAWN[name]) >= ROUNDS // 5


WITH_NUMBER = (
    *("add.Tensor", "div.Tensor", "eq.Scalar", "ge.Scalar", "gt.Scalar", "le.Scalar", "lt.Scalar"),
    *("mul.Tensor", "ne.Scalar", "pow.Tensor_Scalar", "rsub.Scalar", "sub.Tensor"),
)


@pytest.mark.parametrize("name", WITH_NUMBER)
def test_rule_beside_a_number(name):
    assert compare(name, lambda: (make(sizes()), 0.5)) == ROUNDS


@pytest.mark.parametrize("name", ["add.Tensor", "mul.Tensor", "maximum", "relu", "neg", "le.Tensor"])
def test_operands_in_any_layout_need_no_help(name):
    assert compare(name, same if name in SAME else pair, 4 * ROUNDS) == 4 * ROUNDS


@pytest.mark.parametrize("name", ["add_.Tensor", "mul_.Tensor", "relu_", "sigmoid_", "clamp_min_"])
def test_in_place_it_is_the_very_tensor(name):
    packet, _, overload = name.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")
    dry_run = run()
    x, y = dry_run.core.like(torch.rand(2, 3)), dry_run.core.like(torch.rand(3))
    more = {"add_": (y,), "mul_": (y,), "clamp_min_": (0.5,)}.get(packet, ())
    with dry_run.core:
        assert function(x, *more) is x


def test_a_view_is_at_the_same_address():
    dry_run = run()
    x = dry_run.core.like(torch.rand(4, 6))
    with dry_run.core:
        row, other = x[1], x.t()
        fresh = x + 1
    assert row.data_ptr() == x.data_ptr() + 24
    assert other.data_ptr() == x.data_ptr()
    assert not x.data_ptr() <= fresh.data_ptr() < x.data_ptr() + 96
