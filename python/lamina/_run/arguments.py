# SPDX-License-Identifier: Apache-2.0
"""The arguments of a run are afterwards as before: tensors by value, containers and objects by what they
hold.

The objects that modules hold are remembered in the same way: a cache, an optimizer, a configuration.

Everything that can be reached from the arguments is remembered by reference before the run. The values of
tensors of up to a MiB, and of 4 MiB together, are copied then. Those of any other are copied only if an
operator is about to write to it (python/ext/observe/guard.c); if operators are not watched, before the run.
The forward gets the caller's own objects, but for tensors and iterators that need a stand-in: those of a dry
run, those that are the result of a graph.
"""

from __future__ import annotations

import io
import sys
from collections import OrderedDict, deque
from contextlib import suppress
from functools import cache, partial
from operator import is_
from types import (
    BuiltinMethodType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from .. import _lamina
from .._base.modules import modules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

MOST = 65536  # the most values that are read
MOST_BYTES = 268435456  # the most of an array of numbers, whose writes can't be seen before they happen
CONSTANTS = ("torch",)  # home of types whose objects never change: dtype, layout, memory_format
LOST = "was changed and could not be restored"
HEAP_TYPE, IMMUTABLE_TYPE = 512, 256  # flags of CPython's types
ABSENT: Any = object()

# Values that no run changes, and objects that are not the program's: their contents are not read.
PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(...)),
    *(type, ModuleType, MethodDescriptorType, WrapperDescriptorType),
)
BOUND = (MethodType, BuiltinMethodType, MethodWrapperType)  # methods of an object
MACHINERY = {
    *("_thread", "_weakref", "abc", "asyncio", "concurrent", "importlib", "inspect", "logging"),
    *("multiprocessing", "threading", "typing", "weakref"),
}
WEAK = (WeakKeyDictionary, WeakValueDictionary, WeakSet)  # what they refer to is kept until they are restored
# What torch keeps of a sharded model: which parts are gathered, and what it waits for. The other ranks go on
# from it, so it is not restored.
SHARDS = "torch.distributed."


# -- what a value holds --------------------------------------------------------------------------------------


class _Holder:
    """A mutable object and what it held: places, and the value at each."""

    keeps_its_own = False  # nothing replaces what it holds: a tensor that is made of others

    def __init__(self, name: str, of: Any) -> None:
        self.name, self.of = name, of
        self.was: list[Any] = self.read()

    def read(self) -> list[Any]:
        raise NotImplementedError

    def values(self) -> Iterable[tuple[str, Any]]:
        """What it held that may change, each with the name of its place: a list may hold a million
        numbers."""
        return (
            (f"{self.name}[{at}]", value) for at, value in enumerate(self.was) if not isinstance(value, PLAIN)
        )

    def write(self, values: list[Any]) -> None:
        raise NotImplementedError

    def put_back(self) -> None:
        now = self.read()
        if len(now) != len(self.was) or not all(map(is_, now, self.was)):
            self.write(self.was)

    def replace(self, instead: Callable[[Any], Any]) -> None:
        new = [instead(value) for value in self.was]
        if any(a is not b for a, b in zip(new, self.was, strict=True)):
            self.write(new)


class _List(_Holder):
    def read(self) -> list[Any]:
        return list(list.__iter__(self.of))

    def write(self, values: list[Any]) -> None:
        list.__setitem__(self.of, slice(None), values)


class _Deque(_Holder):
    def read(self) -> list[Any]:
        return list(deque.__iter__(self.of))

    def write(self, values: list[Any]) -> None:
        deque.clear(self.of)
        deque.extend(self.of, values)


class _Set(_Holder):
    def read(self) -> list[Any]:
        self.base: Any = WeakSet if isinstance(self.of, WeakSet) else set
        return list(self.base.__iter__(self.of))

    def write(self, values: list[Any]) -> None:
        self.base.clear(self.of)
        self.base.update(self.of, values)

    def put_back(self) -> None:
        if set(map(id, self.read())) != set(map(id, self.was)):  # they have no order
            self.write(self.was)


class _Dict(_Holder):
    """The methods are those of ``dict``: a subclass may compute or refuse."""

    def read(self) -> list[Any]:
        kinds: tuple[Any, ...] = (OrderedDict, *WEAK, dict)
        self.base = next(kind for kind in kinds if isinstance(self.of, kind))
        items = list(self.base.items(self.of))
        self.keys = getattr(self, "keys", [key for key, _ in items])
        return [part for item in items for part in item]

    def values(self) -> Iterable[tuple[str, Any]]:
        return (
            (self.place(key), value)
            for key, value in zip(self.keys, self.was[1::2], strict=True)
            if not isinstance(value, PLAIN)
        )

    def place(self, key: Any) -> str:
        return f"{self.name}[{key!r}]" if isinstance(key, (str, int)) else f"{self.name}[...]"

    def write(self, values: list[Any]) -> None:
        self.base.clear(self.of)
        for key, value in zip(values[::2], values[1::2], strict=True):
            self.base.__setitem__(self.of, key, value)


class _Attributes(_Dict):
    """The ``__dict__`` of an object, and its class."""

    def __init__(self, name: str, of: Any) -> None:
        self.object, self.cls = of, type(of)
        super().__init__(name, vars(of))

    def place(self, key: Any) -> str:
        return f"{self.name}.{key}"

    def put_back(self) -> None:
        if type(self.object) is not self.cls:
            object.__setattr__(self.object, "__class__", self.cls)
        if vars(self.object) is not self.of:
            object.__setattr__(self.object, "__dict__", self.of)
        super().put_back()


class _Slots(_Holder):
    def __init__(self, name: str, of: Any, slots: list[MemberDescriptorType]) -> None:
        self.slots = slots
        super().__init__(name, of)

    def read(self) -> list[Any]:
        return [_slot(slot, self.of) for slot in self.slots]

    def values(self) -> Iterable[tuple[str, Any]]:
        return ((f"{self.name}.{s.__name__}", v) for s, v in zip(self.slots, self.was, strict=True))

    def write(self, values: list[Any]) -> None:
        for slot, now, value in zip(self.slots, self.read(), values, strict=True):
            if value is not ABSENT:
                slot.__set__(self.of, value)
            elif now is not ABSENT:
                slot.__delete__(self.of)


class _Function(_Holder):
    """The defaults of a function, and the variables that it closes over."""

    def read(self) -> list[Any]:
        cells = [_cell(cell) for cell in self.of.__closure__ or ()]
        return [self.of.__defaults__, self.of.__kwdefaults__, *cells]

    def write(self, values: list[Any]) -> None:
        self.of.__defaults__, self.of.__kwdefaults__ = values[:2]
        for cell, value in zip(self.of.__closure__ or (), values[2:], strict=True):
            if value is not ABSENT:
                cell.cell_contents = value
            elif _cell(cell) is not ABSENT:
                del cell.cell_contents


class _Bytes(_Holder):
    """A bytearray, or an ``array.array``."""

    def read(self) -> list[Any]:
        return [self.of[:]]

    def values(self) -> Iterable[tuple[str, Any]]:
        return ()

    def put_back(self) -> None:
        if self.of[:] != self.was[0]:
            self.of[:] = self.was[0]

    def replace(self, instead: Callable[[Any], Any]) -> None:
        pass


class _Array(_Bytes):
    """An array of numpy."""

    def read(self) -> list[Any]:
        return [self.of.copy(order="K"), self.of.shape]

    def put_back(self) -> None:
        values, shape = self.was
        if self.of.shape != shape:
            self.of.shape = shape
        if self.of.flags.writeable:
            self.of[...] = values


class _File(_Bytes):
    """A file: its position, and what one in memory contains."""

    def read(self) -> list[Any]:
        held = self.of.getvalue() if isinstance(self.of, (io.BytesIO, io.StringIO)) else None
        return [held, self.of.tell()]

    def put_back(self) -> None:
        held, at = self.was
        if held is not None and self.of.getvalue() != held:
            self.of.seek(0)
            self.of.truncate()
            self.of.write(held)
        if self.of.tell() != at:
            self.of.seek(at)


def _array_of(value: Any) -> type[_Holder] | None:
    """What remembers an array of numbers: of numpy, or of Python's ``array``; None for other values."""
    numpy, arrays = sys.modules.get("numpy"), sys.modules.get("array")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _Array if value.nbytes <= MOST_BYTES else None
    return _Bytes if arrays is not None and isinstance(value, arrays.array) else None


def _slot(slot: MemberDescriptorType, of: Any) -> Any:
    try:
        return slot.__get__(of)
    except AttributeError:
        return ABSENT


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _alike(value: Any, parts: list[Any]) -> Any:
    """Another tuple or frozenset of the class of ``value``, whose own constructor may compute."""
    kind: Any = tuple if isinstance(value, tuple) else frozenset
    if hasattr(value, "n_sequence_fields"):  # one of C's, as torch.max returns
        return type(value)(parts)
    return kind.__new__(type(value), parts)


def _slots_of(cls: type) -> list[MemberDescriptorType]:
    """The slots that Python code declared. Other members are of types in C, and hold what is theirs."""
    return [
        value
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for value in vars(base).values()
        if isinstance(value, MemberDescriptorType)
    ]


def _hides(cls: type) -> bool:
    """True if objects of this class may hold what can't be seen, for a base of it is written in C. Those that
    are equal by value do not change."""
    known = {object, dict, list, set, frozenset, tuple, deque, int, float, str, bytes, bytearray}
    if all(base in known or _is_python(base) for base in cls.__mro__) or cls.__module__ in CONSTANTS:
        return False
    own = next(vars(base)["__hash__"] for base in cls.__mro__ if "__hash__" in vars(base))
    return not issubclass(cls, BaseException) and own in (None, object.__hash__)


def _is_memory(value: Any) -> bool:
    """True for memory that can be written to, as an array of ctypes."""
    try:
        return not memoryview(value).readonly
    except (TypeError, ValueError, BufferError):
        return False


def _is_python(cls: type) -> bool:
    return bool(cls.__flags__ & HEAP_TYPE and not cls.__flags__ & IMMUTABLE_TYPE)


def _of_machinery(cls: type) -> bool:
    home = getattr(cls, "__module__", None)
    return isinstance(home, str) and (home.partition(".")[0] in MACHINERY or home.startswith(SHARDS))


# The parts of sparse tensors, by layout.
COMPRESSED = {
    "torch.sparse_csr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_bsr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_csc": ("ccol_indices", "row_indices", "values"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def _parts_of(name: str, tensor: Any) -> list[tuple[str, Any]]:
    """The tensors that a tensor wraps, or is made of."""
    if hasattr(tensor, "__tensor_flatten__"):
        return [(f"{name}.{part}", getattr(tensor, part)) for part in tensor.__tensor_flatten__()[0]]
    own = ("_indices", "_values") if tensor.is_sparse else COMPRESSED.get(str(tensor.layout), ())
    return [(f"{name}.{part}()", getattr(tensor.detach(), part)()) for part in own]


def _has_parts_of(tensor: Any, other: Any) -> bool:
    pairs = zip(_parts_of("", tensor), _parts_of("", other), strict=True)
    same = all(a.data_ptr() == b.data_ptr() and a.shape == b.shape for (_, a), (_, b) in pairs)
    return same and (not tensor.is_sparse or tensor.is_coalesced() == other.is_coalesced())


# -- iterators -----------------------------------------------------------------------------------------------


def _copied(iterator: Any) -> Any:
    """Another iterator in the same state; None if it has none to copy, as a generator."""
    try:
        parts = iterator.__reduce__()
    except TypeError:
        return None
    if not isinstance(parts, tuple) or len(parts) < 2 or not callable(parts[0]):
        return None
    try:
        new = parts[0](*map(_state_of, parts[1]))
        if len(parts) > 2 and parts[2] is not None:
            new.__setstate__(_state_of(parts[2]))
    except _NoState:
        return None
    return new


class _NoState(Exception):  # noqa: N818
    """An iterator inside another has no state that can be copied."""


def _state_of(part: Any) -> Any:
    """A part of an iterator's state, with copies of the iterators in it."""
    if type(part) in (tuple, list):
        return type(part)(map(_state_of, part))
    if not _is_iterator(part):
        return part
    new = _copied(part)
    if new is None:
        raise _NoState
    return new


def _is_iterator(value: Any) -> bool:
    return hasattr(type(value), "__next__") and not isinstance(value, io.IOBase)


# -- what operators write ------------------------------------------------------------------------------------

# These write to arguments of which their schema does not say so: running statistics, noise.
UNDECLARED = {
    "batch_norm": (3, 4),
    "batch_norm_update_stats": (1, 2),
    "instance_norm": (3, 4),
    "rrelu_with_noise": (1,),
}


@cache
def written_by(name: str, n: int) -> frozenset[int] | None:
    """The positions of the arguments to which operators of this name with ``n`` arguments may write; None: it
    may be any."""
    low: Any = sys.modules["torch"]._C
    schemas = [s for s in low._jit_get_schemas_for_operator(name) if len(s.arguments) == n]
    if not schemas:
        return None
    infos = ((at, a.alias_info) for s in schemas for at, a in enumerate(s.arguments))
    more = (at for part, places in UNDECLARED.items() if part in name for at in places if at < n)
    return frozenset((*(at for at, info in infos if info is not None and info.is_write), *more))


# -- all arguments -------------------------------------------------------------------------------------------


class Arguments:
    """The arguments of one or more runs, and ``held``: the objects of the model, each with its name. They are
    saved when this is made. ``watch`` gets a note for each argument that can't be restored if the forward
    changes it."""

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        root: Any,
        watch: _lamina.Capture,
        held: Iterable[tuple[str, Any]] = (),
    ) -> None:
        self._note = watch.note
        self._of_model = False  # whether it is the model's objects that are being remembered
        self.tensors: list[Any] = []
        self._given = args, dict(kwargs)
        self._kept = _lamina.Snapshot(None)
        self.inside: dict[_lamina.Snapshot, str] = {}  # of modules that are passed, each with its name
        self._holders: list[_Holder] = []
        self._iterators: list[Any] = []
        self._sparse: list[tuple[Any, Any]] = []  # each with another tensor of the same parts
        self._parts: dict[int, list[int]] = {}  # by the address of a sparse tensor, those of its parts
        self._seen: dict[int, Any] = {}  # keeps values alive, so that no identity is reused
        self._root = root
        self._own: set[int] = set()  # modules that need no other snapshot
        self._owned: set[int] = set()  # tensors that the model's own snapshot restores
        self._new: dict[int, Any] = {}
        self._unsure: list[str] = []
        named = [(f"args[{at}]", value) for at, value in enumerate(args)] + list(kwargs.items())
        self._look(named)
        self._n_given = len(self._holders)
        if held := list(held):
            self._of_model = True
            for _, module in modules(root):
                self._owned.update(map(id, (*module._parameters.values(), *module._buffers.values())))
            self._look(held)

    # Remembering.

    def _look(self, todo: list[tuple[str, Any]]) -> None:
        todo.reverse()
        while todo:
            name, value = todo.pop()
            if isinstance(value, PLAIN) or id(value) in self._seen:
                continue
            if len(self._seen) >= MOST:
                whose = "the model's objects" if self._of_model else "the arguments"
                self._note(f"{whose} hold more than {MOST} values; {name} and what follows is not restored")
                return
            self._seen[id(value)] = value
            try:
                todo += reversed(list(self._inside_of(name, value)))
            except Exception:  # a class of the program's that is not what it says may raise anything
                self._doubt(name, value)

    def _hold(self, holder: _Holder) -> Iterable[tuple[str, Any]]:
        self._holders.append(holder)
        return holder.values()

    def _inside_of(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Remembers one value, and returns those inside it."""
        torch = sys.modules["torch"]
        if isinstance(value, torch.nn.Module):
            return self._keep_module(name, value)
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return self._keep_tensor(name, value)
        if isinstance(value, WEAK):
            return self._hold((_Set if isinstance(value, WeakSet) else _Dict)(name, value))
        if self._kept.keep(name, value) or _of_machinery(type(value)):
            return ()
        found = [
            part
            for kind, holder in HOLDERS
            if isinstance(value, kind)
            for part in self._hold(holder(name, value))
        ]
        if isinstance(value, (tuple, frozenset)):
            found += [(f"{name}[{at}]", part) for at, part in enumerate(value)]
        elif isinstance(value, FunctionType):
            return [*self._hold(_Function(name, value)), *self._attributes(name, value)]
        elif isinstance(value, BOUND):
            return [(name, value.__self__)]
        elif isinstance(value, partial):
            found += [(name, part) for part in (value.func, value.args, value.keywords)]
        elif isinstance(value, memoryview):
            found.append((name, value.obj))
        return [*found, *self._others(name, value), *self._attributes(name, value)]

    def _keep_tensor(self, name: str, tensor: Any) -> Iterable[tuple[str, Any]]:
        if id(tensor) in self._owned:
            return ()
        parts = _parts_of(name, tensor)
        self._kept.keep(name, tensor, bool(parts))
        if parts and not hasattr(tensor, "__tensor_flatten__"):
            self._sparse.append((tensor, tensor.detach()))
            self._parts[_lamina.identity(tensor)[1]] = [_lamina.identity(part)[0] for _, part in parts]
        held = len(self._holders)
        for place, part in parts:
            self._seen[id(part)] = part
            self._keep_tensor(place, part)
        inside = self._attributes(name, tensor)
        for holder in self._holders[held:] if parts else ():
            holder.keeps_its_own = True
        return () if parts else inside

    def _others(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Remembers a value of a type written in C that is no container."""
        cls, held = type(value), _array_of(value)
        if held is not None:
            return self._hold(held(name, value))
        if isinstance(value, io.IOBase):
            return self._keep_file(name, value)
        if _is_iterator(value) and not _is_python(cls):
            self._iterators.append(value)
            if _copied(value) is not None:
                return [(name, part) for part in value.__reduce__()[1:]]
            self._doubt(name, value)
        elif not isinstance(value, LOOKED_INTO) and (_hides(cls) or _is_memory(value)):
            self._doubt(name, value)
        return ()

    def _doubt(self, name: str, value: Any) -> None:
        if not self._of_model:  # a model holds many things, and few of them ever change
            self._note(f"{name}, a {type(value).__name__}, can't be restored if the forward changes it")

    def _keep_file(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        in_memory = isinstance(value, (io.BytesIO, io.StringIO))
        try:
            if in_memory or (value.seekable() and not value.writable()):
                return self._hold(_File(name, value))
        except (OSError, ValueError):  # it is closed, or is being iterated over
            pass
        if not value.closed:
            self._doubt(name, value)
        return ()

    def _keep_module(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        if not self._own:
            self._own.update(id(module) for _, module in modules(self._root))
        found = self._slots(name or type(value).__name__, value)
        if id(value) in self._own:
            return found
        snapshot = _lamina.Snapshot(value)
        self.inside[snapshot] = name
        self._own.update(id(module) for _, module in modules(value))
        return [*found, *((f"{name}.{path}", held) for path, held in snapshot.objects())]

    def _attributes(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        own = getattr(value, "__dict__", None)
        if type(own) is dict and not isinstance(value, BOUND):
            found += self._hold(_Attributes(name, value))
        return [*found, *self._slots(name, value)]

    def _slots(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        slots = _slots_of(type(value))
        return self._hold(_Slots(name, value, slots)) if slots else ()

    # Before a write.

    def guard(self, watch: _lamina.Capture) -> None:
        """Copies the values of each tensor before an operator that ``watch`` sees writes to it."""
        addresses = self._kept.memory()
        self._save(addresses & {0})  # where these are unknown, operators can't be told from others
        known = (snapshot.memory() - {0} for snapshot in self.inside)
        guarded = addresses.union(*known)
        if guarded:
            watch.guard(guarded, self._before_write)

    def copy(self) -> None:
        """Copies the values of all tensors, for a run whose operators are not watched."""
        self._save(self._kept.memory().union(*(snapshot.memory() for snapshot in self.inside)))

    def _before_write(self, name: str, n: int, touched: list[tuple[int, int]]) -> list[int]:
        places = written_by(name, n)
        written = {address for at, address in touched if places is None or at in places}
        return self._save(written.union(*(self._parts.get(address, ()) for address in written)))

    def _save(self, addresses: Collection[int]) -> list[int]:
        torch = sys.modules["torch"]
        saved: list[int] = []
        if not addresses:
            return saved
        with torch.no_grad():
            for address in addresses:
                try:
                    for snapshot in (self._kept, *self.inside):
                        snapshot.save(address)
                except Exception as error:  # restoring names what was written to
                    self._unsure.append(f"an argument could not be copied before it was written to: {error}")
                saved.append(address)
        return saved

    # Running.

    def given(self, instead: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for one run. ``instead`` returns what stands in for a tensor, or the tensor. Until
        ``put_back`` the caller's own containers and objects hold the stand-ins."""
        pairs = [(tensor, instead(tensor)) for tensor in self.tensors]
        pairs += [(iterator, _copied(iterator)) for iterator in self._iterators]
        self._new = {id(was): new for was, new in pairs if new is not was and new is not None}
        args, kwargs = self._given
        if not self._new:
            return args, kwargs
        for holder in self._holders:
            if not holder.keeps_its_own:
                holder.replace(self._instead)
        return tuple(map(self._instead, args)), {name: self._instead(v) for name, v in kwargs.items()}

    def _instead(self, value: Any) -> Any:
        if id(value) in self._new:
            return self._new[id(value)]
        if not isinstance(value, (tuple, frozenset)):
            return value
        parts = [self._instead(part) for part in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        new = _alike(value, parts)
        if hasattr(value, "__dict__"):
            vars(new).update(vars(value))
        self._new[id(value)] = new
        return new

    def put_back(self, *, between: bool = False) -> list[str]:
        """Restores everything, and returns a sentence for each thing that could not be restored. ``between``
        two runs the model's objects stay as they are, like the model. An exception that is no Exception is
        raised when all the rest is restored."""
        problems, raised = list(self._unsure), None
        for holder in self._holders[: self._n_given] if between else self._holders:
            try:
                holder.put_back()
            except Exception:  # a class of the program's may raise anything
                problems.append(f"{holder.name} {LOST}")
            except BaseException as error:
                raised = error
        for tensor, same in self._sparse:
            with suppress(RuntimeError):  # restoring its values then says that they could not be restored
                if not _has_parts_of(tensor, same):
                    tensor.data = same
        for snapshot, name in {self._kept: "", **self.inside}.items():
            try:
                problems += (f"{name}.{what}" if name else what for what in snapshot.restore())
            except BaseException as error:
                raised = error
        self._new, self._unsure = {}, []
        if raised is not None:
            raise raised
        return problems


HOLDERS: list[tuple[type, type[_Holder]]] = [
    (dict, _Dict),
    (list, _List),
    (set, _Set),
    (deque, _Deque),
    (bytearray, _Bytes),
]
LOOKED_INTO = (*(kind for kind, _ in HOLDERS), *BOUND, FunctionType, SimpleNamespace, memoryview, partial)
