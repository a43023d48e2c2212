# SPDX-License-Identifier: Apache-2.0
"""The classes of fake tensors, of their storages and of their addresses. What reads their memory is refused
in a sentence, and ends the run.

torch's operators come to the mode of the run (mode.py). What reads a tensor's memory in another way, as a
storage, numpy or pickle does, is here. A copy needs no values: ``copy.deepcopy`` makes another fake tensor.
"""

from __future__ import annotations

import copy
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .. import _lamina
from .._base.errors import NeedsValuesError
from .running import elsewhere, running

if TYPE_CHECKING:
    from collections.abc import Callable

ENDED = "this tensor is of a dry run that has ended, or that runs on another thread, and has no values"
NUMBER = "needs a tensor's value as a number (.item(), an if, an index)"

# Memory of known values to which unknown ones were written, by its identity. It is held so that this is not
# reused, but without the memory itself.
_lost: dict[int, Any] = {}


def is_dry(tensor: Any) -> bool:
    """True for a fake tensor. One of a parameter has the class of the real one while its run lasts, and the
    mark that torch has for parameters of other classes than its own."""
    torch = sys.modules["torch"]
    if isinstance(tensor, types()[0]):
        return True
    return issubclass(type(tensor), torch.nn.Parameter) and "_is_param" in vars(tensor)


def storage_of(tensor: Any) -> Any:
    """The tensor's storage, as torch has it."""
    return sys.modules["torch"].Tensor.untyped_storage(tensor)


def address_of(tensor: Any) -> int:
    return int(sys.modules["torch"].Tensor.data_ptr(tensor))


def knows(tensor: Any) -> bool:
    """True if the values in the tensor's memory are those of a real run. ``.data`` and ``.set_()`` may have
    given it the memory of another tensor."""
    if type(tensor) is not types()[1] or _lamina.Dry.owns(address_of(tensor)):
        return False
    return storage_of(tensor)._cdata not in _lost


def forget(tensor: Any) -> None:
    """Notes that unknown values are written to ``tensor``, and so to all tensors of its memory."""
    if type(tensor) is types()[1]:
        storage = storage_of(tensor)
        storage.fill_(0xFF)  # as numbers -1, which ends no group: the capture reads those from memory
        _lost[storage._cdata] = sys.modules["torch"].multiprocessing.reductions.StorageWeakRef(storage)


def forget_no_more() -> None:
    """Drops what was noted of memory that was freed."""
    for identity in [identity for identity, storage in list(_lost.items()) if storage.expired()]:
        _lost.pop(identity, None)


def real(tensor: Any) -> Any:
    """The values of a known tensor, as an ordinary tensor."""
    torch = sys.modules["torch"]
    with torch._C._DisableTorchDispatch():
        return torch.ops.aten.clone.default(tensor)


def refuse(what: str) -> NoReturn:
    """Ends the run of this thread: the program ``what``. Without a run: the tensor outlived its own, or came
    from the thread of a run, which can't be followed then, whatever becomes of this thread."""
    run, other = running(), elsewhere()
    if run is not None:
        run.block(what)
    if other is not None:
        other.left = True
        _end_quietly(threading.current_thread())
    raise NeedsValuesError(f"{ENDED}, and your code {what}")


class _Quietly:
    """What a thread calls if an exception ends it. Python's own hook would print a traceback of the refusal,
    which the run raises too. A hook of the program's still gets it."""

    def __init__(self, ended: Callable[[threading.Thread], None]) -> None:
        self._ended = ended

    def __call__(self, thread: threading.Thread) -> None:
        refused = isinstance(sys.exc_info()[1], NeedsValuesError)
        if not refused or threading.excepthook is not threading.__excepthook__:
            self._ended(thread)


def _end_quietly(thread: Any) -> None:
    ended = getattr(thread, "_invoke_excepthook", None)
    if ended is not None and not isinstance(ended, _Quietly):
        thread._invoke_excepthook = _Quietly(ended)


def _refuser(what: str) -> Callable[..., NoReturn]:
    def refuses(*_: object, **__: object) -> NoReturn:
        refuse(what)

    return refuses


# -- addresses -----------------------------------------------------------------------------------------------


class DryAddress:
    """The address of a fake tensor. Addresses can be compared and subtracted, as by code that looks for
    shared memory. Nothing is there to be read, so this is no number for ctypes."""

    def __init__(self, at: int) -> None:
        self._at = at

    def _refuse(self, *_: object) -> NoReturn:
        refuse("needs the memory at a tensor's address (.data_ptr())")

    __index__ = __int__ = __float__ = _refuse
    _as_parameter_ = property(_refuse)

    def __eq__(self, other: object) -> bool:
        return bool(self._at == _number(other))

    def __hash__(self) -> int:
        return hash(self._at)

    def __bool__(self) -> bool:
        return bool(self._at)

    def __lt__(self, other: Any) -> bool:
        return bool(self._at < _number(other))

    def __le__(self, other: Any) -> bool:
        return bool(self._at <= _number(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self._at > _number(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self._at >= _number(other))

    def __add__(self, other: int) -> DryAddress:
        return DryAddress(self._at + other)  # not a count: an address

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        apart = self._at - _number(other)  # not a count: bytes between two addresses
        return apart if isinstance(other, DryAddress) else DryAddress(apart)

    def __rsub__(self, other: int) -> int:
        return other - self._at  # not a count: as above

    def __mod__(self, other: int) -> int:
        return self._at % other  # not a count: the alignment

    def __and__(self, other: int) -> int:
        return self._at & other

    def __format__(self, spec: str) -> str:
        return format(self._at, spec)

    def __repr__(self) -> str:
        return f"<an address of a dry run, {self._at:#x}>"  # not a count: an address


def _number(value: Any) -> Any:
    return value._at if isinstance(value, DryAddress) else value


def is_of_address(error: BaseException | None) -> bool:
    """True for the exception of ctypes for an address that is no number."""
    sentences = (
        "integer expected",
        "integer address expected",
        "cannot be converted to pointer",
        DryAddress.__name__,
    )
    return isinstance(error, TypeError) and any(each in str(error) for each in sentences)


# -- storages ------------------------------------------------------------------------------------------------

# What is known of a storage without its memory. The rest of its methods reads, writes or moves it.
KNOWN_OF_STORAGE = {
    *("device", "element_size", "filename", "get_device", "is_cuda", "is_hpu", "is_pinned", "is_shared"),
    *("is_sparse", "is_sparse_csr", "nbytes", "resizable", "size", "untyped"),
    *(
        "_cdata",
        "_checkpoint_offset",
        "_expired",
        "_fake_device",
        "_fix_weakref",
        "_get_filename",
        "_weak_ref",
    ),
}
READ_BY_STORAGE = {
    *("__copy__", "__deepcopy__", "__getitem__", "__iter__", "__reduce__", "__reduce_ex__", "__setitem__"),
    "__len__",  # torch asks for it before it reads a storage as a sequence, and expects no exception later
}


@cache
def _storages() -> type:
    """The class of their storages, which torch keeps for as long as a storage lives."""
    storage: Any = sys.modules["torch"].UntypedStorage
    methods: dict[str, Any] = {}
    for name in dir(storage):
        own = getattr(storage, name)
        ours = name in READ_BY_STORAGE or not (name.startswith("__") or name in KNOWN_OF_STORAGE)
        if ours and callable(own) and getattr(own, "__self__", None) is not storage:
            spelled = name if name.startswith("__") else f".{name}()"
            methods[name] = _refuser(f"needs a tensor's memory (untyped_storage(): {spelled})")
    methods["data_ptr"] = lambda self: DryAddress(storage.data_ptr(self))
    methods["__str__"] = methods["__repr__"] = lambda _: "<a storage of a dry run, without values>"
    return type("DryStorage", (storage,), {"__module__": __name__, "__slots__": (), **methods})


def _storage(self: Any) -> Any:
    storage, torch = storage_of(self), sys.modules["torch"]
    if not knows(self) and type(storage) is torch.UntypedStorage:
        storage.__class__ = _storages()
    return storage


# -- copies --------------------------------------------------------------------------------------------------


def _copied(self: Any, memo: dict[Any, Any]) -> Any:
    """``copy.deepcopy``, which copies the memory of a tensor once for all that share it, and clones a
    parameter."""
    torch, run = sys.modules["torch"], running()
    if run is None:
        refuse("copies it (copy.deepcopy)")
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        return torch.Tensor.__deepcopy__(self, memo)  # raises
    with torch.no_grad():
        if getattr(self, "_is_param", False):
            new = torch.ops.aten.clone.default(self, memory_format=torch.preserve_format)
            new = _parameter(type(self), new, requires_grad=self.requires_grad)
        else:
            new = run.copied(self, memo.setdefault("torch", {})).requires_grad_(self.requires_grad)
            if self.grad is not None:
                new.grad = copy.deepcopy(self.grad, memo)
            vars(new).update(copy.deepcopy(vars(self), memo))
    memo[id(self)] = new
    return new


def _again(self: Any) -> Any:
    """``copy.copy``: another tensor of the same memory."""
    torch = sys.modules["torch"]
    cls = type(self) if isinstance(self, _types()[0]) else _types()[0]
    with torch._C._DisableTorchDispatch():
        new = torch.Tensor._make_subclass(cls, self, self.requires_grad)
    vars(new).update(vars(self))
    return _parameter(type(self), new, requires_grad=self.requires_grad) if cls is not type(self) else new


# -- parameters ----------------------------------------------------------------------------------------------

READERS = ("as_subclass", "__copy__", "__deepcopy__", "__format__", "__repr__")


def _parameter(cls: type, tensor: Any, *, requires_grad: bool) -> Any:
    """The fake tensor as a parameter of the class ``cls``, while there is a run of this thread."""
    tensor.requires_grad_(requires_grad)._is_param = True
    run = running()
    return tensor if run is None or issubclass(cls, _types()[0]) else run.core.in_class(tensor, cls)


def of_parameters() -> dict[str, Any]:
    """Methods for torch's class of parameters while there are dry runs: fake tensors have those of their own
    class, others torch's."""
    torch = sys.modules["torch"]
    kind, fake = torch.nn.Parameter, _types()[0]
    return {
        "__new__": _made(kind),
        **{name: _method(kind, name, vars(fake)[name]) for name in (*_readers(), *READERS)},
    }


def _method(kind: Any, name: str, of_fake: Any) -> Any:
    own = vars(kind).get(name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dry(self):
            return of_fake(self, *args, **kwargs)
        return (
            getattr(super(kind, self), name)(*args, **kwargs) if own is None else own(self, *args, **kwargs)
        )

    return method


def _made(kind: Any) -> Any:
    own = kind.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True, *args: Any, **kwargs: Any) -> Any:
        if cls is kind and data is not None and is_dry(data) and running() is not None:
            return _parameter(cls, data.detach(), requires_grad=requires_grad)
        return own(cls, data, requires_grad, *args, **kwargs)

    return staticmethod(new)


# -- tensors -------------------------------------------------------------------------------------------------


def _outside(_: object, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """An operator that does not come to the mode: the run has ended, or the modes are off."""
    run = running()
    if run is not None:
        real_ones = run.core.real(False)  # noqa: FBT003 - this tensor has no values
        try:
            return run.core.__torch_dispatch__(function, types, args, kwargs or {})
        finally:
            run.core.real(real_ones)
    torch, fake = sys.modules["torch"], _types()[0]

    def value(of: Any) -> Any:
        if isinstance(of, fake):
            return real(of) if knows(of) else refuse(f"runs {function}")
        if isinstance(of, (list, tuple)):
            return type(of)(map(value, of))
        return of

    with torch._C._DisableTorchDispatch():
        return function(*map(value, args), **{name: value(of) for name, of in (kwargs or {}).items()})


def _number_of(name: str) -> Callable[[Any], Any]:
    """A conversion to a number. torch disables the modes while it makes a tensor of a list of others."""
    own = getattr(sys.modules["torch"].Tensor, name)

    def read(self: Any) -> Any:
        if self.numel() == 1 and not knows(self):
            refuse(NUMBER)
        return own(self)

    return read


def _as_subclass(self: Any, cls: type) -> Any:
    torch = sys.modules["torch"]
    if cls is torch.Tensor or issubclass(cls, _types()[0]):
        return torch.ops.aten.alias.default(self)
    with torch._C._DisableTorchDispatch():
        return torch.Tensor.as_subclass(self, cls if knows(self) else _unread(cls))


class Unread:
    """A fake tensor under a class of the program: its values can't be read either."""


def _unread(cls: Any) -> Any:
    run = running()
    return class_of_fake({} if run is None else run.unread, cls)


def class_of_fake(made: dict[Any, Any], cls: Any) -> Any:
    """The class of fake tensors that are instances of ``cls``; ``made``: such classes of the run."""
    if not issubclass(cls, Unread) and cls not in made:
        made[cls] = type(cls.__name__, (Unread, cls), {"__module__": cls.__module__, **_readers()})
    return made.get(cls, cls)


def _readers() -> dict[str, Any]:
    """The methods of a tensor that read or show its memory, but for torch's operators."""
    numbers = ("__bool__", "__int__", "__float__", "__complex__", "__index__")
    return {
        **{name: _number_of(name) for name in numbers},
        "numpy": _refuser("needs its values as an array (.numpy())"),
        "__array__": _refuser("needs its values as an array (numpy)"),
        "tolist": _refuser("needs its values as a list (.tolist())"),
        "storage": _refuser("needs its memory (.storage())"),
        "_typed_storage": _refuser("needs its memory (.storage())"),
        "__dlpack__": _refuser("needs its memory (DLPack)"),
        "__reduce_ex__": _refuser("needs its values (pickle, torch.save)"),
        **{name: _refuser(f"needs its values (.{name}())") for name in ("apply_", "map_", "map2_")},
        "share_memory_": _refuser("needs its memory (.share_memory_())"),
        "untyped_storage": _storage,
        "data_ptr": lambda self: DryAddress(address_of(self)),
    }


@cache
def types() -> tuple[type, type]:
    """The class of fake tensors, and its subclass for tensors with known values."""
    torch = sys.modules["torch"]

    def text_of(self: Any, **_: object) -> str:
        return f"<a tensor of a dry run, {tuple(self.shape)}, {self.dtype}, without values>"

    def formatted(self: Any, spec: str) -> str:
        return format(self.item() if self.dim() == 0 else repr(self), spec)

    def made_again(_: type, data: Any, requires_grad: bool = True) -> Any:
        """The constructor of a parameter class, for code that creates a parameter from new data."""
        return torch.nn.Parameter(data, requires_grad)

    fake = type(
        "DryTensor",
        (torch.Tensor,),
        {
            "__doc__": "A tensor of a dry run: sizes, strides and a type, and no values.",
            "__module__": __name__,
            "__new__": made_again,
            "__torch_function__": torch._C._disabled_torch_function_impl,
            "__torch_dispatch__": classmethod(cast("Any", _outside)),
            "__repr__": text_of,
            "__format__": formatted,
            **_readers(),
            "as_subclass": _as_subclass,
            "__deepcopy__": _copied,
            "__copy__": _again,
        },
    )

    def from_values(name: str) -> Callable[..., Any]:
        refuses = getattr(fake, name)

        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            run = running()
            if not knows(self):
                return refuses(self)
            if run is None:
                return getattr(real(self), name)(*args, **kwargs)
            run.watch.pause(True)  # noqa: FBT003 - a real run copies nothing for it
            try:
                values = real(self)
            finally:
                run.watch.pause(False)  # noqa: FBT003
            return getattr(values, name)(*args, **kwargs)

        return read

    readers = ("numpy", "__array__", "tolist", "__reduce_ex__")
    known = type(
        "KnownDryTensor",
        (fake,),
        {
            "__doc__": "A tensor of a dry run whose values are known.",
            "__module__": __name__,
            **{name: from_values(name) for name in readers},
        },
    )
    return fake, known


_types = types  # in functions with an argument of this name
