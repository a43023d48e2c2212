# SPDX-License-Identifier: Apache-2.0
"""Finds the offsets of fields in torch's records of operators, and checks the result.

Known operations are run, and their arguments are searched in their records. The search follows words that may
not be pointers, and only runs in a separate process (:mod:`lamina._observe.support`); the check reads by the
layout alone.
"""

from __future__ import annotations

import struct
import sys
import warnings
from contextlib import ExitStack, suppress
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from .. import _lamina

if TYPE_CHECKING:
    from collections.abc import Callable

    Layout = dict[str, int]


class NotFoundError(Exception):
    """The search found nothing."""


def _look(
    name: str, call: Callable[[], Any], args: tuple[Any, ...] = (), nodes: bool = False, quiet: int = -1
) -> dict[str, Any]:
    got = _lamina.probe_record(name, call, args, nodes, quiet)
    if got is None:
        raise NotFoundError(f"{name} ran without a record")
    return got


def find() -> Layout:
    """The layout of this torch's records."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        layout = _find_values(torch)
        layout["storage"] = _find_storage(torch)
        layout["text"], layout["text_at"] = _find_text(torch)
        layout["callbacks"] = _find_callbacks(torch)
        layout["keys"], layout["python"] = _find_keys(torch)
        layout["coo"], layout["compressed"] = _find_sparse(torch, layout["keys"])
        layout["nested"] = _find_nested(torch, layout["keys"])
        layout["asks"] = _find_asks(torch)
        layout |= _find_states(torch)
        layout["hooks"] = _find_hooks(torch)
        layout["autograd"], layout["tangent"] = _find_tangents(torch)
    with torch.enable_grad():
        layout["sequence"] = _find_sequence(torch)
        layout["forward_thread"] = _find_thread(torch)
    return layout


def _find_values(torch: Any) -> Layout:
    x, w, b = torch.empty(2, 4, 7, 9), torch.empty(4, 3, 3, 2), torch.empty(6)
    rest = ([2, 3], [1, 0], [1, 1], True, [0, 0], 2)
    convolution, name = torch.ops.aten.convolution, "aten::convolution"
    whole = _look(name, partial(convolution, x, w, b, *rest), (x, w, b, *rest))
    without = _look(name, partial(convolution, x, w, None, *rest), (x, w, None, *rest))
    slope = _look("aten::leaky_relu", partial(torch.ops.aten.leaky_relu, x, 0.125), (x, 0.125))
    same = _look("aten::relu_", x.relu_, (x,))
    tags, words = whole["tags"], whole["words"]
    offsets = {got["inputs"] for got in (whole, without, slope, same)}
    if len(offsets) != 1 or -1 in offsets or same["outputs"] < 0:
        raise NotFoundError("the arguments of known operations are not where records keep theirs")
    eighth = struct.unpack("Q", struct.pack("d", 0.125))[0]
    numbers = (words[6] & 0xFF, words[8], slope["words"][1]) == (1, 2, eighth)
    kinds = [tags[0], without["tags"][2], tags[6], tags[8], slope["tags"][1], tags[3]]
    if len(set(kinds)) != len(kinds) or len(set(tags[:3])) != 1 or not numbers:
        raise NotFoundError("the kinds of arguments can't be told apart")
    names = ("tensor", "none", "boolean", "integer", "real")
    return {
        **dict(zip(names, kinds, strict=False)),
        "inputs": whole["inputs"],
        "outputs": same["outputs"],
        "list": whole["list"],
        "list_tag": kinds[5],
    }


def _apart(torch: Any) -> list[list[Any]]:
    """Lists of tensors: those of one list share memory, those of different lists do not."""
    memories = []
    for device in ("cpu", "cpu", "meta"):
        x = torch.empty(4, 6, device=device, dtype=torch.float32)
        memories.append([x, x[1:], x.t(), x.view(-1), x.data])  # .data does not share its version
    return memories


def _find_storage(torch: Any) -> int:
    """The offset of the memory in the C++ object of a tensor; -1 if it is not found."""
    seen = [[_lamina.probe_tensor(x) for x in memory] for memory in _apart(torch)]
    fit = []
    for at in range(8, len(seen[0][0]) - 7, 8):
        words = [{whole[at : at + 8] for whole in memory} for memory in seen]
        if all(len(own) == 1 for own in words) and len(set.union(*words)) == len(words):
            fit.append(at)
    return fit[0] if len(fit) == 1 else -1


def _find_text(torch: Any) -> tuple[int, int]:
    """The kind of a text among arguments, and the offset of its address; -1: not found."""
    x = torch.empty(2)
    seen = [
        _look("aten::gelu", partial(torch.ops.aten.gelu, x, approximate=text), (x, text))
        for text in ("none", "tanh")
    ]
    tags, places = {got["tags"][1] for got in seen}, {got["text"] for got in seen}
    return (tags.pop(), places.pop()) if len(tags) == len(places) == 1 and -1 not in places else (-1, -1)


def _find_callbacks(torch: Any) -> int:
    """The offset of a thread's list of callbacks, without which operators inside others are not reported; -1:
    not found."""
    x, w = torch.empty(2, 4, 7, 9), torch.empty(6, 4, 3, 2)
    call = partial(torch.conv2d, x, w)
    whole = _look("aten::conv2d", call)
    quiet = [at for at in whole["callbacks"] if _look("aten::conv2d", call, quiet=at)["inside"] == 0]
    again = _look("aten::conv2d", call)
    same = [again[name] == whole[name] for name in ("inside", "callbacks")]
    return quiet[0] if whole["inside"] and len(quiet) == 1 and all(same) else -1


def _by_class(torch: Any, sizes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Tensors whose operators torch's kernels run, and tensors whose class handles them. No operator runs."""
    own = type("Answers", (torch.Tensor,), {"__torch_dispatch__": staticmethod(lambda *_: None)})
    plain = type("Plain", (torch.Tensor,), {})
    made = [
        torch.empty(sizes, device=d, dtype=t) for d in ("cpu", "meta") for t in (torch.float32, torch.int64)
    ]
    wrappers = [torch.Tensor._make_wrapper_subclass(own, sizes, dtype=x.dtype, device=x.device) for x in made]
    return (
        [*made, *(x.as_subclass(plain) for x in made), *(x.t() for x in made)],
        [*(torch.Tensor._make_subclass(own, x) for x in made), *wrappers],
    )


def _part(memory: bytes, at: int) -> int:
    return int.from_bytes(memory[at : at + 8], sys.byteorder)


def _word(tensor: Any, at: int) -> int:
    return _part(_lamina.probe_tensor(tensor), at)


def _find_keys(torch: Any) -> tuple[int, int]:
    """The offset of the dispatch keys in the C++ object of a tensor, and the bit of its class."""
    plain, own = _by_class(torch, (3, 5))
    python, every = _bit_of(torch, "Python"), _bit_of(torch, "ADInplaceOrView")
    fit = [
        at
        for at in range(8, len(_lamina.probe_tensor(plain[0])) - 7, 8)
        if all(_word(x, at) & every for x in (*plain, *own))
        and all(_word(x, at) & python for x in own)
        and not any(_word(x, at) & python for x in plain)
    ]
    if len(fit) != 1:
        raise NotFoundError(f"{len(fit)} places in a tensor look like its dispatch keys")
    return fit[0], python.bit_length() - 1  # not a count: the number of a bit


def _sparse(torch: Any) -> tuple[list[Any], list[Any]]:
    """Sparse tensors by coordinates, and compressed ones."""
    one, pair, ends = (torch.tensor(x, device="cpu") for x in ([1.0], [[0], [0]], [0, 1, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls the second kind a beta
        return (
            [torch.sparse_coo_tensor(pair, value, (2, 2)) for value in (one, one.long())],
            [make(ends, pair[0], one, (2, 2)) for make in (torch.sparse_csr_tensor, torch.sparse_csc_tensor)],
        )


def _find_sparse(torch: Any, keys: int) -> tuple[int, int]:
    """The bits among the dispatch keys of both kinds of sparse tensors; or -1."""
    coo, compressed = (_own_bit(torch, keys, kind) for kind in _sparse(torch))
    return (coo, compressed) if coo != compressed and min(coo, compressed) >= 0 else (-1, -1)


def _find_nested(torch: Any, keys: int) -> int:
    """The bit among the dispatch keys of nested tensors; or -1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls them a prototype
        return _own_bit(torch, keys, [torch.nested.nested_tensor([torch.ones(2)])])


def _own_bit(torch: Any, keys: int, kind: list[Any]) -> int:
    """The lowest bit among the dispatch keys of these tensors that dense tensors do not have; -1: none. The
    key of a kind is below that of its gradients."""
    dense = reduce(int.__or__, (_word(x, keys) for x in chain(*_by_class(torch, (3, 5)))))
    bits = reduce(int.__and__, (_word(x, keys) for x in kind)) & ~dense
    return (bits & -bits).bit_length() - 1


def _find_asks(torch: Any) -> int:
    """The dispatch key of classes that handle operators in Python, if torch records no operator around them;
    otherwise -1."""

    def answer(_func: Any, _types: Any, _args: Any = (), _kwargs: Any = None) -> Any:
        return torch.empty(2)

    own = type("Answers", (torch.Tensor,), {"__torch_dispatch__": staticmethod(answer)})
    x = torch.Tensor._make_subclass(own, torch.empty(2))
    recorded = _lamina.probe_record("PythonSubclass", partial(torch.add, x, x), ()) is not None
    return -1 if recorded else int(torch._C.DispatchKey.Python)


# The sets of dispatch keys that tell what runs inside an operator, as LMX_KEYS (python/ext/native/layout.h).
# A torch without a key has no tensors or states of that kind, except for those of NEEDED.
DEVICES = ("CPU", "CUDA", "XPU", "MPS", "HPU", "MTIA", "MAIA", "IPU", "XLA", "PrivateUse1")
STATES = {
    "below": ("ADInplaceOrView",),
    "gradients": ("AutogradFunctionality",),
    "autocast": tuple(f"Autocast{device}" for device in DEVICES),
    "transforms": ("FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"),
    "wrapped": ("FuncTorchBatched", "BatchedNestedTensor", "FuncTorchGradWrapper", "Batched"),
    "replayed": ("Functionalize",),
    "turned": ("Conjugate", "Negative"),
    "zeros": ("ZeroTensor",),
}
NEEDED = {"ADInplaceOrView", "AutogradFunctionality", "AutocastCPU", *STATES["transforms"]}
NEEDED |= {"FuncTorchBatched", "FuncTorchGradWrapper", "Batched"}


SMALLEST = 128  # bytes of a tensor's C++ object that each version of torch has, at least


def _bit_of(torch: Any, key: str) -> int:
    """The bit of a dispatch key in the words of a thread: a guard that includes the key, or one that excludes
    it, changes it. 0: there is none."""
    try:
        number = torch._C._dispatch_key_parse(key)
    except RuntimeError:
        return 0
    included, excluded, _ = _lamina.probe_thread()
    with torch._C._IncludeDispatchKeyGuard(number):
        included ^= _lamina.probe_thread()[0]
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(number)):
        excluded ^= _lamina.probe_thread()[1]
    return included | excluded


def _find_states(torch: Any) -> Layout:
    """The bits of each of STATES. They hold for a thread's words and for tensors'."""
    if any(_lamina.probe_thread()[:2]):
        raise NotFoundError("the dispatch keys of a thread are not where this torch keeps them")
    bits = {key: _bit_of(torch, key) for keys in STATES.values() for key in keys}
    wrong = [key for key, bit in bits.items() if bit & (bit - 1) or (key in NEEDED and not bit)]
    if wrong:
        raise NotFoundError(f"the dispatch keys {', '.join(wrong)} are not found")
    return {state: reduce(int.__or__, (bits[key] for key in keys)) for state, keys in STATES.items()}


def _find_hooks(torch: Any) -> int:
    """The offset of the list of hooks in a thread's hooks for saved tensors: it is empty where the word is
    that of its end, which follows. -1: not found."""
    end = 32

    def words() -> bytes:
        return _lamina.probe_thread()[2]

    before = words()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        inside = words()
    after = words()
    fit = [
        at
        for at in range(0, len(inside) - end - 7, 8)
        if all(seen[at : at + 8] == seen[at + end : at + end + 8] for seen in (before, after))
        and inside[at : at + 8] != inside[at + end : at + end + 8]
    ]
    return fit[0] if len(fit) == 1 else -1


def _find_tangents(torch: Any) -> tuple[int, int]:
    """The offset, in the C++ object of a tensor, of the address of its autograd data, and in that data the
    offset of the address of its tangents."""
    size = 112  # bytes of the data that are searched
    plain = [torch.empty(3, 5), torch.empty(7), torch.empty(2, device="meta")]
    leaves = [torch.empty(n, requires_grad=True) for n in (3, 4)]
    with torch.enable_grad():
        graded = [*leaves, leaves[0].exp(), leaves[1].view(2, 2)]

    def is_address(word: int) -> bool:
        return 4096 < word < 1 << 47 and word % 8 == 0  # not a count: an address

    def is_data(at: int) -> bool:
        seen = {_word(x, at) for x in graded}
        return len(seen) == len(graded) and all(map(is_address, seen))

    fit = [at for at in range(8, SMALLEST - 7, 8) if is_data(at) and not any(_word(x, at) for x in plain)]
    if len(fit) != 1:
        raise NotFoundError(f"{len(fit)} places in a tensor look like its autograd data")

    def data(tensor: Any) -> bytes:
        return _lamina.read_memory(((_word(tensor, fit[0]), size),))

    ad = torch.autograd.forward_ad
    # Not by make_dual(), which first loads torch's decompositions: that takes long, and torch warns of it.
    with ad.dual_level() as level:
        duals = [torch._make_dual(x, torch.empty_like(x), level) for x in (*plain[:2], *leaves)]
        found = [
            at
            for at in range(8, size - 7, 8)
            if all(is_address(_part(data(x), at)) for x in duals)
            and not any(_part(data(x), at) for x in graded)
        ]
    # A std::shared_ptr has two addresses. Views have more of them, behind the data that every tensor has.
    pairs = [at for at in found if at + 8 in found]
    if not pairs:
        raise NotFoundError("no place in a tensor's autograd data looks like its tangent")
    return fit[0], pairs[0]


def _misread_class(layout: Layout) -> str | None:
    bit = 1 << layout["python"]  # not a count: a mask
    plain, own = _by_class(sys.modules["torch"], (2, 7))
    wrong = [x for x in plain if _word(x, layout["keys"]) & bit]
    wrong += [x for x in own if not _word(x, layout["keys"]) & bit]
    return f"{len(wrong)} tensors, by whose class answers for them" if wrong else None


def _words(record: bytes) -> dict[int, int]:
    """The words of a record from the first possible offset of its own fields."""
    return {at: int.from_bytes(record[at : at + 8], sys.byteorder) for at in range(64, len(record) - 7, 8)}


def _find_sequence(torch: Any) -> int:
    made, minus_one = 1500, 0xFFFF_FFFF_FFFF_FFFF  # far from any other small number
    p = torch.empty(3, requires_grad=True)
    for _ in range(made):
        torch.mul(p, 2)
    first, second = (_words(_look("aten::mul", partial(torch.mul, p, 2), (p, 2))["begin"]) for _ in range(2))
    with torch.no_grad():
        third = _words(_look("aten::mul", partial(torch.mul, p, 2), (p, 2))["begin"])
    places = [
        at for at in first if first[at] >= made and second[at] == first[at] + 1 and third[at] == minus_one
    ]
    if len(places) != 1:
        raise NotFoundError(f"{len(places)} places in a record look like a sequence number")
    return places[0]


def _find_thread(torch: Any) -> int:
    """The offset of the forward's thread in a node's record; -1 if it is not found."""
    from threading import Thread

    seen: list[tuple[int, dict[int, int]]] = []

    def forward(kept: list[Any]) -> None:
        p = torch.empty(3, requires_grad=True)
        kept += [torch.mul(p, 2), _look("aten::mul", partial(torch.mul, p, 2), (p, 2))["thread"]]

    for _ in range(3):
        kept: list[Any] = []
        thread = Thread(target=forward, args=(kept,))
        thread.start()
        thread.join()
        y, number = kept
        seen.append((number, _words(_look("MulBackward0", y.sum().backward, nodes=True)["begin"])))
    places = [at for at in seen[0][1] if all(words[at] == number for number, words in seen)]
    distinct = len({number for number, _ in seen}) > 1
    return places[0] if distinct and len(places) == 1 else -1


# -- checking ------------------------------------------------------------------------------------------------


def fits(layout: Layout) -> str | None:
    """Uses the layout and checks it with other operations than those of the search; the reason why it does
    not fit, or None."""
    try:
        _lamina.use_layout(layout)
        wrong = _checked(None) or _misread_class(layout)
    except Exception as error:
        return f"checking the layout of torch's records failed: {type(error).__name__}: {error}"
    return None if wrong is None else f"torch's records of known operations were misread ({wrong})"


def fits_dispatch() -> str | None:
    """Checks torch's dispatch mode with known operations; the reason why it can't be used, or None."""
    try:
        wrong = _checked("")
    except ImportError:
        raise
    except Exception as error:
        return f"checking torch's dispatch mode failed: {type(error).__name__}: {error}"
    return None if wrong is None else f"torch's dispatch mode misreports known operations ({wrong})"


def _checked(dispatch: str | None) -> str | None:
    torch = sys.modules["torch"]
    with ExitStack() as stack:
        stack.enter_context(torch.utils._python_dispatch._disable_current_modes())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        return _check(torch, dispatch) or _check_memory(torch) or _check_text(torch, dispatch)


def _check(torch: Any, dispatch: str | None) -> str | None:
    watch = _lamina.Capture(torch.nn.Module(), ops=True, dispatch=dispatch)
    empty = partial(torch.empty, device="cpu", dtype=torch.float32)
    trials = _trials(torch, empty)
    watch.start()
    try:
        for _, call, *_ in trials:
            with suppress(RuntimeError):  # one raises on purpose
                call()
    finally:
        watch.stop()
    ops = watch.model().operators()
    at = 0
    for name, _, inputs, outputs, flags in trials:
        if flags[1] and dispatch is not None:
            continue  # a node: the mode receives operators only
        while at < len(ops) and ops[at]["name"] != name:
            at += 1
        if at == len(ops):
            return f"{name} was not seen"
        got = ops[at]
        got_values = tuple(_short(v) for _, v in got["inputs"]), tuple(_short(v) for _, v in got["outputs"])
        if got_values != (inputs, outputs) or (got["phase"], got["node"], got["failed"]) != flags:
            return f"{name}: {got_values} {got['phase']}"
        at += 1
    return None


def _check_memory(torch: Any) -> str | None:
    """Checks that the identity of memory is the same for all its views, and differs for other tensors; 0:
    none."""
    memories = _apart(torch)
    identities = [{_lamina.identity(x)[0] for x in memory} for memory in memories]
    known = [own for own in identities if own != {0}]
    if any(len(own) != 1 for own in identities) or len(set().union(*known)) != len(known):
        return f"the memory of tensors: {identities}"
    return None


def _check_text(torch: Any, dispatch: str | None) -> str | None:
    """Checks that a text among arguments is read correctly, or not at all."""
    watch = _lamina.Capture(torch.nn.Module(), ops=True, dispatch=dispatch)
    watch.start()
    try:
        torch.ops.aten.gelu(torch.empty(2, device="cpu", dtype=torch.float32), approximate="tanh")
    finally:
        watch.stop()
    inputs = [op["inputs"][1:] for op in watch.model().operators() if op["name"] == "aten::gelu"]
    return None if inputs in ([((1, "tanh"),)], [()]) else f"aten::gelu: {inputs}"


def _short(value: Any) -> Any:
    return (value["shape"], value["dtype"]) if isinstance(value, dict) else value


def _trials(torch: Any, empty: Callable[..., Any]) -> list[tuple[str, Callable[[], Any], Any, Any, Any]]:
    """Operations with their expected records: inputs, outputs, and (phase, node, failed). The convolutions
    have all their arguments, but no images: so no library prepares kernels and threads for them."""
    aten, f = torch.ops.aten, "float32"
    x, w, g = empty(0, 4, 7, 9), empty(6, 2, 3, 2), empty(0, 6, 3, 10)
    conv = ([2, 1], [0, 1], [1, 1], False, [0, 0], 2)
    arguments = ((2, 1), (0, 1), (1, 1), False, (0, 0), 2)
    a, m, n = empty(5), empty(3, 4), empty(4, 5)
    i, j = (torch.zeros(size, device="cpu", dtype=torch.int64) for size in ((1, 2), (3, 2)))
    p = empty(3).requires_grad_()
    fine, failed, node = ("forward", False, False), ("forward", False, True), ("backward", True, False)
    tx, tw, tg = ((0, 4, 7, 9), f), ((6, 2, 3, 2), f), ((0, 6, 3, 10), f)
    mask = [True, False, False]
    return [
        (
            "aten::convolution",
            partial(aten.convolution, x, w, None, *conv),
            (tx, tw, None, *arguments),
            (tg,),
            fine,
        ),
        (
            "aten::convolution_backward",
            partial(aten.convolution_backward, g, x, w, None, *conv, mask),
            (tg, tx, tw, None, *arguments, (1, 0, 0)),
            (tx, None, None),
            fine,
        ),
        (
            "aten::addmm",
            partial(torch.addmm, a, m, n, beta=0.5, alpha=2),
            (((5,), f), ((3, 4), f), ((4, 5), f), 0.5, 2),
            (((3, 5), f),),
            fine,
        ),
        ("aten::mm", partial(torch.mm, m, m), (((3, 4), f), ((3, 4), f)), (), failed),
        (
            "aten::cat",
            partial(torch.cat, [i, j]),
            (((1, 2), "int64"), ((3, 2), "int64"), 0),
            (((4, 2), "int64"),),
            fine,
        ),
        ("aten::mul", partial(_twice, p), (((3,), f), ((), "int64")), (((3,), f),), fine),
        ("MulBackward0", lambda: None, (), (), node),
        *_inner_trials(torch, empty),
    ]


def _inner_trials(
    torch: Any, empty: Callable[..., Any]
) -> list[tuple[str, Callable[[], Any], Any, Any, Any]]:
    """Operations in which others run than their own work. Each of these is expected in a trial of its own."""
    f, b, fine, passed = "float32", "bfloat16", ("forward", False, False), ("forward", True, False)
    m, n, p, t = empty(3, 4), empty(4, 5), empty(6).requires_grad_(), empty(7)

    def cast() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.mm(m, n)

    def hook() -> None:
        with torch.autograd.graph.saved_tensors_hooks(torch.erf, lambda x: x):
            torch.exp(p)

    def derive() -> None:
        ad = torch.autograd.forward_ad
        with ad.dual_level() if ad._current_level < 0 else ExitStack():
            torch.exp(torch._make_dual(t, t, ad._current_level))

    both = ((3, 4), f), ((4, 5), f)
    return [
        ("aten::mm", cast, both, (((3, 5), b),), passed),
        ("aten::mm", lambda: None, (((3, 4), b), ((4, 5), b)), (((3, 5), b),), fine),
        ("aten::exp", hook, (((6,), f),), (((6,), f),), fine),
        ("aten::erf", lambda: None, (((6,), f),), (((6,), f),), fine),
        ("aten::exp", derive, (((7,), f),), (((7,), f),), fine),
        ("aten::mul", lambda: None, (((7,), f), ((7,), f)), (((7,), f),), fine),
    ]


def _twice(p: Any) -> None:
    """Doubles ``p``, and runs a backward pass to ``p``."""
    p.mul(2).sum().backward()
