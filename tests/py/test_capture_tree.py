# SPDX-License-Identifier: Apache-2.0
"""The tree of places, and what is told of every module in it."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest
import torch
from ext_kit import calls, seen, watching
from torch import nn

from lamina import _lamina

X = torch.randn(2, 3)


def paths(model):
    return [p["path"] for p in model.places()]


def at(model, path):
    return model.modules()[model.places()[model.find(path)]["module"]]


def walked(root):
    with watching(root) as capture:
        pass
    return capture.model()


def test_places_are_in_registration_order_parents_first():
    net = nn.Sequential(
        nn.Sequential(nn.Tanh(), nn.ReLU()), nn.ModuleDict({"b": nn.Tanh(), "a": nn.Sequential()})
    )
    net.add_module("none", None)
    net.last = nn.Linear(1, 1)
    model = walked(net)
    assert paths(model) == ["", "0", "0.0", "0.1", "1", "1.b", "1.a", "last"]
    assert paths(model) == [name for name, _ in net.named_modules()]
    assert [p["depth"] for p in model.places()] == [0, 1, 2, 2, 1, 2, 2, 1]


def test_a_module_may_have_none_for_its_buffers():
    net = nn.Sequential(nn.Linear(3, 4))
    vars(net[0])["_buffers"] = None
    assert [t["shape"] for t in seen(net, X).tensors()] == [(4, 3), (4,)]


def test_a_shared_module_has_a_place_under_each_parent():
    shared = nn.Sequential(nn.Tanh())
    net = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    model = seen(net, X)
    assert paths(model) == ["", "0", "0.0", "0.0.0", "1", "1.0", "1.0.0"]
    assert len(model.modules()) == 5
    assert [p for p, _ in calls(model)] == ["", "0", "0.0", "0.0.0", "1", "1.0", "1.0.0"]


def test_a_duplicate_in_one_parent_counts_once_and_is_told():
    tanh = nn.Tanh()
    net = nn.Sequential(nn.Sequential(tanh, nn.ReLU(), tanh, tanh))
    model = seen(net, X)
    assert paths(model) == ["", "0", "0.0", "0.1"]
    assert model.notes() == ["0.0 is also registered as 0.2", "0.0 is also registered as 0.3"]
    assert [p for p, _ in calls(model)] == ["", "0", "0.0", "0.1", "0.0", "0.0"]


def test_a_cycle_is_cut():
    net = nn.Sequential(nn.Sequential(nn.Tanh()))
    net[0].up = net
    net[0].self = net[0]
    assert paths(walked(net)) == ["", "0", "0.0"]


def test_a_tree_may_be_very_deep():
    net = nn.Tanh()
    for _ in range(20_000):
        outer = nn.Module()
        outer.x = net
        net = outer
    # torch itself recurses when such a tree is dropped, so it is taken apart again.
    model = walked(net)
    assert model.places()[-1]["depth"] == 20_000
    while isinstance(net, nn.Module) and net._modules:
        inner = net._modules.pop("x")
        net = inner


def test_trees_that_multiply_are_refused():
    net = nn.Module()
    for _ in range(40):
        outer = nn.Module()
        outer.a = outer.b = net
        outer.c = nn.Module()
        outer.c.d = net
        net = outer
    with pytest.raises(Exception, match="more than 1000000 places"):
        _lamina.Capture(net).start()


def test_modules_are_kept_while_watched():
    class Swaps(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            self.fc = nn.Linear(3, 3)
            return self.fc(x)

    model = seen(Swaps(), X)
    assert calls(model) == [("", None)]
    assert paths(model) == ["", "fc"]


# -- what is told of a module -------------------------------------------------------------------------------


class MyConv(nn.Conv2d):
    pass


class MyForward(nn.Conv2d):
    def forward(self, x):
        return super().forward(x) * 2


def test_words_and_flags():
    patched = nn.Linear(3, 3)
    patched.forward = lambda x: x
    net = nn.ModuleList(
        [nn.Conv2d(1, 1, 1), MyConv(1, 1, 1), MyForward(1, 1, 1), patched, nn.Module().eval()]
    )
    told = walked(net).modules()
    assert [m["word"] for m in told] == ["ModuleList", "Conv2d", "Conv2d", "Conv2d", "Linear", None]
    assert [m["exact"] for m in told] == [True, True, False, False, True, False]
    assert [m["own_forward"] for m in told] == [False, False, False, True, True, False]
    assert [m["leaf"] for m in told] == [False, True, True, True, True, True]
    assert [m["training"] for m in told] == [True, True, True, True, True, False]
    assert told[2]["type"] == "MyConv" and told[2]["type_path"].endswith("MyConv")
    assert told[1]["type_path"] == "torch.nn.modules.conv.Conv2d"


def test_classes_of_the_same_name_elsewhere_are_no_words():
    Linear = type("Linear", (nn.Module,), {"__module__": "mine"})
    torchnn = type("Linear", (nn.Module,), {"__module__": "torch.nnot"})
    assert [m["word"] for m in walked(nn.ModuleList([Linear(), torchnn()])).modules()] == [
        "ModuleList",
        None,
        None,
    ]


def test_attributes_have_their_kinds():
    attrs = at(walked(nn.Conv2d(3, 4, (3, 5), padding="same", bias=False)), "")["attrs"]
    assert attrs["kernel_size"] == (3, 5) and attrs["padding"] == "same" and attrs["groups"] == 1
    assert at(walked(nn.MaxPool2d(3)), "")["attrs"]["kernel_size"] == 3
    assert at(walked(nn.AdaptiveAvgPool2d((None, 7))), "")["attrs"]["output_size"] == (-1, 7)
    norm = at(walked(nn.BatchNorm2d(4, momentum=None, affine=False)), "")["attrs"]
    assert norm["momentum"] is None and norm["affine"] is False and norm["eps"] == pytest.approx(1e-5)


def test_odd_attribute_values():
    class Odd(nn.MaxPool2d):
        stride = 7

    net = Odd(2)
    del net.__dict__["stride"]
    net.kernel_size = [3, 3]
    net.padding = {"not": "told"}
    net.dilation = 2**80
    net.ceil_mode = torch.relu
    attrs = at(walked(net), "")["attrs"]
    assert attrs["stride"] == 7 and attrs["kernel_size"] == (3, 3) and attrs["ceil_mode"] == "relu"
    assert "padding" not in attrs and "dilation" not in attrs


def test_parameters_and_buffers_are_told_once_each():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3))
    net[1].weight = net[0].weight
    net[0].bias.requires_grad_(False)
    net.own = nn.Parameter(torch.zeros(5, dtype=torch.bfloat16))
    model = walked(net)
    owned = {p["path"]: model.modules()[p["module"]]["owned"] for p in model.places()}
    assert owned[""] == (("own", 0, False),)
    assert owned["0"] == (("weight", 1, False), ("bias", 2, False))
    assert owned["1"] == (("weight", 1, False),)
    assert [(n, b) for n, _, b in owned["2"]] == [
        ("weight", False),
        ("bias", False),
        ("running_mean", True),
        ("running_var", True),
        ("num_batches_tracked", True),
    ]
    tensors = model.tensors()
    assert tensors[0]["dtype"] == "bfloat16" and tensors[0]["bytes"] == 10
    assert tensors[1]["n_owners"] == 2 and not tensors[2]["requires_grad"]


def test_lazy_layers_are_told_as_what_they_became():
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    told = walked(net)
    assert at(told, "0")["word"] == "Linear" and told.tensors()[0]["shape"] is None
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    told = seen(net, X)
    assert [at(told, p)["type"] for p in "01"] == ["Linear", "BatchNorm1d"]
    assert at(told, "0")["attrs"]["in_features"] == 3
    assert told.tensors()[0]["shape"] == (4, 3)


def test_a_parametrized_layer_stays_a_leaf_with_a_weight():
    if not hasattr(nn.utils, "parametrizations"):
        pytest.skip("no parametrizations")
    net = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    model = walked(net)
    told = at(model, "0")
    assert told["word"] == "Conv2d" and told["leaf"] and not told["own_forward"] and not told["exact"]
    assert told["attrs"]["weight"] is True
    assert [n for n, _, _ in told["owned"]] == ["bias"]
    # Telling did not run the parametrization, which would have stepped its power iteration.
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


def test_old_weight_norm_and_pruning_are_told():
    from torch.nn.utils import prune, weight_norm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.Sequential(weight_norm(nn.Linear(3, 4)), weight_norm(nn.LSTM(3, 4), "weight_hh_l0"))
    net.append(prune.l1_unstructured(nn.Linear(3, 4, bias=False), "weight", 0.5))
    model = walked(net)
    assert at(model, "0")["attrs"]["weight"] is True
    assert {n for n, _, _ in at(model, "0")["owned"]} == {"bias", "weight_g", "weight_v"}
    assert at(model, "1")["attrs"]["weight_hh_l0"] is True and at(model, "1")["attrs"]["bias"] is True
    assert at(model, "2")["attrs"]["weight"] is True and "bias" not in at(model, "2")["attrs"]


def test_names_of_any_alphabet():
    net = nn.Module()
    net.add_module("größe", nn.Tanh())
    net.add_module("层", nn.Tanh())
    net._modules["\udc80"] = nn.Tanh()
    assert paths(walked(net)) == ["", "größe", "层", "?"]


def test_a_module_without_its_init_is_a_leaf():
    net = nn.Module.__new__(nn.Module)
    assert paths(walked(net)) == [""]


def test_one_call_is_a_model_of_its_own():
    layer = nn.Linear(3, 4)
    model = _lamina.one_call(layer, (X,), layer(X))
    (event,) = model.events()
    assert event["inputs"][0]["shape"] == (2, 3) and event["outputs"][0]["shape"] == (2, 4)
    assert model.costs().totals()["macs"] == (24, "exact")
    with pytest.raises(TypeError):
        _lamina.one_call(layer, X, X)
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        _lamina.one_call(3, (X,), X)


@pytest.mark.parametrize("net", [nn.Sequential(nn.Linear(3, 3)), nn.Tanh()])
def test_nothing_of_the_model_changes(net):
    before = [dict(vars(m)) for m in net.modules()]
    seen(net, X)
    assert [dict(vars(m)) for m in net.modules()] == before


# -- classes are looked at once ------------------------------------------------------------------------------


def test_a_class_that_is_given_another_forward_is_told_so():
    class Mine(nn.Linear):
        pass

    net, x = nn.Sequential(Mine(3, 3)), torch.ones(2, 3)
    assert not at(seen(net, x), "0")["own_forward"]
    Mine.forward = lambda self, x: x
    assert at(seen(net, x), "0")["own_forward"]
    del Mine.forward
    assert not at(seen(net, x), "0")["own_forward"]


def test_a_class_that_is_renamed_or_given_other_bases_is_told_so():
    class Base(nn.Module):
        def forward(self, x):
            return x

    class Mine(Base):
        pass

    net, x = nn.Sequential(Mine()), torch.ones(2, 3)
    assert at(seen(net, x), "0")["type"] == "Mine"
    Mine.__name__ = "Yours"
    assert at(seen(net, x), "0")["type"] == "Yours"
    Mine.__bases__ = (nn.Identity,)
    assert at(seen(net, x), "0")["word"] is not None


def test_classes_are_not_kept_alive_and_thousands_of_them_do_no_harm():
    def one(n):
        kind = type(f"Class{n}", (nn.Linear,), {})
        assert at(seen(nn.Sequential(kind(2, 2)), torch.ones(1, 2)), "0")["type"] == f"Class{n}"
        return weakref.ref(kind)

    kinds = [one(n) for n in range(2500)]
    gc.collect()
    assert sum(kind() is not None for kind in kinds) == 0
