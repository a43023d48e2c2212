# SPDX-License-Identifier: Apache-2.0
"""Networks drawn from a seed that mask scores with -Inf, and may do something wrong beside that."""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
from health_nets import INF, Do, WrongGradient
from torch import nn
from torch.nn import functional as F
from where_kit import Calls

SIZE = 6


class Case(NamedTuple):
    model: nn.Module
    args: tuple
    path: str | None = None  # whose fault it is; None: nobody's
    op: str | None = None  # where operators are watched
    phase: str = "forward"


# -- masks: scores, which of them may be seen, the layer -> scores that are -Inf elsewhere -------------------

MASKS = {
    "full_triu": lambda s, keep, layer: s + torch.full((SIZE, SIZE), -INF).triu(1 - layer.closed),
    "where": lambda s, keep, layer: torch.where(keep, s, -INF),
    "where_tensor": lambda s, keep, layer: torch.where(keep, s, torch.tensor(-INF)),
    "log": lambda s, keep, layer: s + torch.log(keep.float()),
    "log_": lambda s, keep, layer: s + keep.float().log_(),
    "masked_fill": lambda s, keep, layer: s.masked_fill(~keep, -INF),
    "masked_fill_": lambda s, keep, layer: s.clone().masked_fill_(~keep, -INF),
    "filled_zeros": lambda s, keep, layer: s + torch.zeros(SIZE, SIZE).masked_fill(~keep, -INF),
    "index": lambda s, keep, layer: indexed(s, keep),
    "buffer": lambda s, keep, layer: s + layer.additive,
    "argument": lambda s, keep, layer: s + layer.given,
    "where_log": lambda s, keep, layer: torch.where(keep, s, torch.log(torch.zeros(SIZE, SIZE))),
    "chosen_nan": lambda s, keep, layer: torch.where(keep, s, torch.log(-1 - s * s)).nan_to_num(nan=-INF),
    "copied": lambda s, keep, layer: s + torch.empty(SIZE, SIZE).copy_(layer.given),
    "numbers": lambda s, keep, layer: (
        s + torch.tensor([[0.0 if k else -INF for k in r] for r in keep.tolist()])
    ),
    "inverse": lambda s, keep, layer: s + (1 - 1 / keep.double()).float(),
}


def indexed(s, keep):
    s = s.clone()
    s[..., ~keep] = -INF
    return s


# -- what takes masked scores and leaves no trace of -Inf ----------------------------------------------------


def exponentials(s, v):
    e = s.exp()
    return (e @ v) / e.sum(-1, keepdim=True)


def stable_exponentials(s, v):
    return exponentials(s - s.amax(-1, keepdim=True), v)


TAKE = {
    "softmax": lambda s, v: s.softmax(-1) @ v,
    "exponentials": exponentials,
    "stable_exponentials": stable_exponentials,
    "log_sum": lambda s, v: s.logsumexp(-1, keepdim=True) + v,
    "chosen": lambda s, v: torch.where(s == -INF, torch.zeros(()), s) @ v,
    "masked_sum": lambda s, v: s.masked_fill(s == -INF, 0.0).sum(-1, keepdim=True) + v,
    "cleaned": lambda s, v: s.nan_to_num(neginf=0.0) @ v,
    "greatest": lambda s, v: s.amax(-1, keepdim=True) + v,
    "log_softmax": lambda s, v: s.log_softmax(-1).exp() @ v,
    "sigmoid": lambda s, v: torch.sigmoid(s) @ v,
    "relu": lambda s, v: torch.relu(s) @ v,
    "maximum": lambda s, v: torch.maximum(s, torch.zeros(())) @ v,
    "clamp": lambda s, v: s.clamp(min=-9.0) @ v,
    "nansum": lambda s, v: torch.where(s > -INF, s, float("nan")).nansum(-1, keepdim=True) + v,
}
if hasattr(F, "scaled_dot_product_attention"):  # since torch 2.0
    TAKE["attention"] = lambda s, v: F.scaled_dot_product_attention(v, v, v, attn_mask=s)
    TAKE["heads"] = lambda s, v: F.scaled_dot_product_attention(
        v.unsqueeze(1), v.unsqueeze(1), v.unsqueeze(1), attn_mask=s.unsqueeze(1)
    ).squeeze(1)

# -- faults --------------------------------------------------------------------------------------------------

FAULTS = {
    "aten::div": lambda x: x / torch.zeros_like(x),
    "aten::log": lambda x: torch.log(x - 99),
    "aten::sqrt": lambda x: torch.sqrt(x - 99),
    "aten::rsqrt": lambda x: torch.rsqrt(x - 99),
}
BACKWARD = {
    "SqrtBackward0": lambda x: torch.sqrt(x * 0) + x,
    "PowBackward0": lambda x: (x * 0) ** 0.5 + x,
    "AsinBackward0": lambda x: torch.asin(x * 0 + 1) + x,
    "WrongGradientBackward": WrongGradient.apply,
}
PLACES = ("before", "beside", "after", "of the scores")


class Attend(nn.Module):
    """Masks, takes what it masked, and does ``fault`` in one place."""

    def __init__(self, mask, take, fault=None, place="", closed=0, wrap=None):
        super().__init__()
        self.mask, self.take, self.fault, self.place, self.closed = mask, take, fault, place, closed
        self.pre, self.post = wrap or (None, None)
        self.keep = torch.ones(SIZE, SIZE, dtype=torch.bool).tril(-closed)
        self.given = torch.zeros(SIZE, SIZE).masked_fill(~self.keep, -INF)
        self.register_buffer("additive", self.given.clone())

    def at(self, place, x, of=None):
        return x if place != self.place else self.fault(x if of is None else of)

    def forward(self, x, given=None):
        self.given = self.given if given is None else given
        x = x if self.pre is None else self.pre(x)
        x = self.at("before", x)
        scores = self.mask(x @ x.transpose(-1, -2), self.keep, self)
        y = self.take(scores, x)
        y = y + self.at("beside", x) + self.at("of the scores", x, scores)
        y = self.at("after", y)
        return y if self.post is None else self.post(y)


class Given(nn.Module):
    """Hands the mask to the layer that has it as an argument."""

    def __init__(self, before, attend, after):
        super().__init__()
        self.before, self.attend, self.after = before, attend, after

    def forward(self, x, mask):
        return self.after(self.attend(self.before(x), mask))


def linear():
    return nn.Linear(SIZE, SIZE)


def around(attend, mask):
    """The layer between others, or the model that is given its mask."""
    x = torch.rand(2, SIZE, SIZE)
    if mask == "argument":
        return Given(linear(), attend, linear()), (x, attend.given), "attend"
    return nn.Sequential(linear(), attend, linear(), nn.ReLU()), (x,), "1"


def same_layer(mask, take, fault, place):
    return around(Attend(MASKS[mask], TAKE[take], fault, place), mask)


def own_work(mask, take, fault, place):
    """The same in what a layer does itself between two others."""
    attend = Attend(MASKS[mask], TAKE[take], fault, place, wrap=(linear(), linear()))
    return around(attend, mask)


def after_it(mask, take, fault, place):
    """The layer that masks is another one."""
    model, args, _ = around(Attend(MASKS[mask], TAKE[take]), mask)
    return (
        Calls(
            lambda self, *a: self.last(self.bad(self.whole(*a))), whole=model, bad=Do(fault), last=linear()
        ),
        (args),
        "bad",
    )


def before_it(mask, take, fault, place):
    model, args, _ = around(Attend(MASKS[mask], TAKE[take]), mask)
    return (
        Calls(
            lambda self, x, *a: self.whole(self.bad(self.first(x)), *a),
            first=linear(),
            bad=Do(fault),
            whole=model,
        ),
        args,
        "bad",
    )


def steps(mask, take, fault, place):
    """Each step is a layer: scores, mask, what takes them, and the fault."""
    attend = Attend(MASKS[mask], TAKE[take])
    return (
        Calls(
            lambda self, x, *a: self.bad(self.take(self.mask(self.pre(x)), x)),
            pre=Do(lambda x: x @ x.transpose(-1, -2)),
            mask=Do(lambda s: attend.mask(s, attend.keep, attend)),
            take=Do(attend.take),
            bad=Do(fault),
        ),
        (torch.rand(2, SIZE, SIZE),),
        "bad",
    )


LAYOUTS = {f.__name__: f for f in (same_layer, own_work, after_it, before_it, steps)}


def closed_rows(draw):
    """Softmax of a row in which nothing may be seen."""
    mask = draw.choice(list(MASKS))
    if draw.random() < 0.3:
        return around(Attend(MASKS[mask], stable_exponentials, closed=1), mask), "aten::sub"
    if draw.random() < 0.5:
        return around(Attend(MASKS[mask], TAKE["softmax"], closed=1), mask), "aten::_softmax"
    attend = Attend(MASKS[mask], TAKE["log_softmax"], closed=1, wrap=(linear(), linear()))
    return around(attend, mask), "aten::_log_softmax"


def forward_case(seed):
    """Each mask, fault and layout comes up; what goes with what is drawn."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    if seed % 6 == 5:
        (model, args, path), op = closed_rows(draw)
        return Case(model, args, path, op)
    mask = list(MASKS)[seed % len(MASKS)]
    op = list(FAULTS)[seed % len(FAULTS)]
    layout = draw.choice([same_layer, own_work, same_layer, own_work, *LAYOUTS.values()])
    place = draw.choice(PLACES)
    model, args, path = layout(mask, draw.choice(list(TAKE)), FAULTS[op], place)
    return Case(model, args, path, op)


def backward_case(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    mask = list(MASKS)[seed % len(MASKS)]
    op = list(BACKWARD)[seed % len(BACKWARD)]
    layout = list(LAYOUTS.values())[seed % len(LAYOUTS)]
    take = draw.choice(["softmax", "log_sum", "chosen", "masked_sum", "greatest", "log_softmax"])
    model, args, path = layout(mask, take, BACKWARD[op], draw.choice(PLACES[:3]))
    args[0].requires_grad_()
    return Case(model, args, path, op, "backward")


def sound_case(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    mask = list(MASKS)[seed % len(MASKS)]
    take = list(TAKE)[seed % len(TAKE)]
    layout = draw.choice(list(LAYOUTS.values()))
    model, args, _ = layout(mask, take, torch.tanh, draw.choice(PLACES[:3]))
    return Case(model, args)
