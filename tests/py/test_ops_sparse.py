# SPDX-License-Identifier: Apache-2.0
"""Operators on sparse tensors: the logical product, and of what is stored what is read, written and made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn
from where_kit import not_observed, tells_layouts

import lamina
from lamina._observe import probe, support

if support.way().name == "calls":
    pytest.skip(f"no operators: {support.way().why}", allow_module_level=True)

FORMS = {
    "coo": lambda dense: dense.to_sparse(),
    "csr": lambda dense: dense.to_sparse_csr(),
    "csc": lambda dense: dense.to_sparse_csc(),
    "bsr": lambda dense: dense.to_sparse_bsr((2, 2)),
}
PARTS = {
    "coo": ("_indices", "_values"),
    "csr": ("crow_indices", "col_indices", "values"),
    "csc": ("ccol_indices", "row_indices", "values"),
    "bsr": ("crow_indices", "col_indices", "values"),
}
# What a compressed tensor stores is known to observers only where torch tells its layout in C.
TELLS = tells_layouts()


class Does(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.does = does

    def forward(self, *args):
        return self.does(*args)


def matrix():
    dense = torch.zeros(6, 8)
    for i, j in ((0, 1), (3, 2), (3, 7), (5, 0)):
        dense[i, j] = 1
    return dense


def stored(tensor, form):
    """Elements, those with their indices, and the bytes of both."""
    parts = [getattr(tensor, part)() for part in PARTS[form]]
    return (
        parts[-1].numel(),
        sum(part.numel() for part in parts),
        sum(part.numel() * part.element_size() for part in parts),
    )


def look(does, *args):
    return lamina.inspect(Does(does), args, convention="exact")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_products(form, way):
    sparse, x = FORMS[form](matrix()), torch.rand(8, 5)
    values, elements, size = stored(sparse, form)
    for does in (torch.mm, torch.matmul, torch.sparse.mm):
        report = look(does, sparse, x)
        zeros = 30 if does is torch.sparse.mm else 0  # made, and added to
        assert (report.macs, report.macs.state) == (6 * 8 * 5, "exact")
        if way == "observer" and form != "coo" and not TELLS:
            assert "exact" not in (report.effective_macs.state, report.dmas.state)
            continue
        assert (report.effective_macs, report.effective_macs.state) == (values * 5, "exact")
        assert (report.dmas, report.dmas.state) == (elements + 40 + 30 + 2 * zeros, "exact")
        assert (report.bytes_read, report.bytes_written) == (size + 160 + 4 * zeros, 120 + 4 * zeros)


@pytest.mark.filterwarnings("ignore")
def test_a_weight_that_is_sparse(way):
    if way == "observer" and not TELLS:
        pytest.skip("what a compressed tensor stores is not known here")
    weight = FORMS["csr"](matrix())
    values, elements, _ = stored(weight, "csr")
    report = look(nn.functional.linear, torch.rand(3, 8), weight)
    assert (report.macs, report.effective_macs) == (3 * 8 * 6, 3 * values)
    assert report.dmas == elements + 24 + 18
    report = look(torch.addmm, torch.rand(6, 4), weight, torch.rand(8, 4))
    assert (report.macs, report.effective_macs) == (6 * 8 * 4, 4 * values)


@pytest.mark.filterwarnings("ignore")
def test_what_positions_decide_is_not_known(way):
    if way == "observer" and not TELLS:
        pytest.skip("what a compressed tensor stores is not known here")
    sparse = FORMS["csr"](matrix())
    report = look(lambda s: s @ s.t(), sparse)
    assert (report.macs, report.effective_macs.state) == (6 * 8 * 6, "unknown")
    report = look(torch.relu, sparse)
    assert (report.flops.state, report.dmas) == ("unknown", 2 * stored(sparse, "csr")[1])


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_left_of_looking(way):
    """Asking what a tensor stores takes no node number and leaves the tensor as it was."""
    sparse = FORMS["csr"](matrix()).requires_grad_()
    parts = [getattr(sparse.detach(), part)().data_ptr() for part in PARTS["csr"]]
    numbers = torch.autograd._get_sequence_nr
    before = numbers()
    look(torch.mm, sparse, torch.rand(8, 5))
    assert numbers() == before
    assert [getattr(sparse.detach(), part)().data_ptr() for part in PARTS["csr"]] == parts


@pytest.mark.filterwarnings("ignore")
def test_reductions_of_products_and_products_that_are_sampled(way):
    if way == "observer" and not TELLS:
        pytest.skip("what a compressed tensor stores is not known here")
    sparse = FORMS["csr"](matrix())
    other = torch.rand(8, 5)
    try:
        torch.sparse.mm(sparse, other, "amax")
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"not in this torch: {error}")
    report = look(torch.sparse.mm, sparse, other, "mean")
    assert (report.macs, report.effective_macs) == (6 * 8 * 5, 4 * 5)
    assert (report.flops, report.flops.state) == (2 * 6 * 8 * 5 + 6 * 5, "exact")
    report = look(torch.sparse.mm, sparse, other, "amax")
    assert (report.macs, report.flops, report.flops.state) == (0, 2 * 4 * 5, "exact")
    report = look(torch.sparse.sampled_addmm, sparse, torch.rand(6, 3), torch.rand(3, 8))
    assert (report.macs, report.effective_macs) == (6 * 3 * 8, 4 * 3)
    assert (report.flops, report.flops.state) == (2 * 6 * 3 * 8, "exact")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_dispatch_keys_tell_sparse_tensors_by_their_form(form):
    """A torch that tells no layout in C is asked in this way."""
    keys, _ = probe._find_keys(torch)
    bits = probe._find_sparse(torch, keys)
    if -1 in bits:
        pytest.skip("the keys of tensors are not found in this torch")
    dense = matrix()
    told = [[probe._word(x, keys) >> bit & 1 for bit in bits] for x in (dense, FORMS[form](dense))]
    assert told == [[0, 0], [form == "coo", form != "coo"]]


# Allocators of C++ that give something else than malloc does.
OPERATORS = """
#include <stdlib.h>
enum { BEFORE = 64 };
void *_Znwm(size_t n)
{
    char *at = malloc(n + BEFORE);
    return at ? at + BEFORE : NULL;
}
void _ZdlPv(void *at)
{
    if (at) free((char *)at - BEFORE);
}
void _ZdlPvm(void *at, size_t n)
{
    (void)n;
    _ZdlPv(at);
}
"""

PRELOADED = """
import torch, lamina
class Product(torch.nn.Module):
    def forward(self, x):
        return torch.sparse.mm(x, x)
print(int(lamina.inspect(Product(), (torch.eye(4).to_sparse(),), convention="exact").dmas) > 0)
"""


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.skipif(not shutil.which("cc") or sys.platform != "linux", reason="needs a C compiler")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="the sanitizer has allocators of its own")
def test_allocators_that_are_preloaded(tmp_path):
    source, library = tmp_path / "operators.c", tmp_path / "operators.so"
    source.write_text(OPERATORS)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    env = {**os.environ, "LD_PRELOAD": str(library), "LAMINA_CAPTURE": "observer"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELOADED],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "True"), ran.stderr


UNUSUAL = {form: (lambda make=make: make(matrix())) for form, make in FORMS.items()} | {
    "nested": lambda: torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(5, 8)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(5, 8)], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.parametrize("form", UNUSUAL)
def test_nothing_is_printed_of_what_such_a_tensor_lacks(form, capfd):
    """Up to torch 2.12 its functions print a trace when they are asked for what is not there."""
    x = UNUSUAL[form]()
    model = Does(
        torch.neg if form in ("nested", "jagged") else lambda t: torch.sparse.mm(t, torch.ones(8, 2))
    )
    lamina.inspect(model, x, memory=True, health=True)
    assert capfd.readouterr().err == ""
