# SPDX-License-Identifier: Apache-2.0
"""The state of every random number generator in use, noted and put back.

Asking Python's and numpy's generators for their states takes longer than many a small model, and almost
nobody draws from them in a forward. So their memory is copied and compared: where it lies is found on
generators of our own, and proved by drawing from them. Where that fails they are asked, and where something
was drawn they are put back, both in the way that is documented.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = struct.Struct("624I")  # the state of a Mersenne twister, and its position
POSITION = struct.Struct("i")
NUMBER = struct.Struct("d")


def state_of_generators() -> Callable[[], None]:
    """Notes the state of every random number generator in use; the function returned puts it back."""
    torch = sys.modules["torch"]
    cpu = torch.get_rng_state()
    puts: list[Callable[[], object]] = [lambda: torch.set_rng_state(cpu), _python()]
    if torch.cuda.is_initialized():
        cuda = torch.cuda.get_rng_state_all()
        puts.append(lambda: torch.cuda.set_rng_state_all(cuda))
    # Whoever draws from numpy has imported it; lamina never does.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        puts.append(_numpy(numpy_random))

    def put_back() -> None:
        for put in puts:
            put()

    return put_back


# -- Python's ------------------------------------------------------------------------------------------------

_python_at: int | None = -1  # bytes from a generator to its position, which its words follow; None: not known


def _python() -> Callable[[], None]:
    global _python_at
    if _python_at == -1:
        _python_at = _find_python()
    one: Any = getattr(random, "_inst", None)
    if _python_at is None or one.__class__ is not random.Random:
        before = random.getstate()

        def put() -> None:
            if random.getstate() != before:
                random.setstate(before)

        return put
    at, n = id(one) + _python_at, POSITION.size + WORDS.size
    own = vars(one)  # holds the spare Gaussian
    seen, gauss = ctypes.string_at(at, n), own["gauss_next"]

    def put_seen() -> None:
        if ctypes.string_at(at, n) != seen or own["gauss_next"] != gauss:
            words = (*WORDS.unpack_from(seen, POSITION.size), *POSITION.unpack_from(seen))
            random.setstate((random.Random.VERSION, words, gauss))

    return put_seen


def _packed(one: random.Random) -> bytes:
    words = one.getstate()[1]
    return POSITION.pack(words[-1]) + WORDS.pack(*words[:-1])


def _find_python() -> int | None:
    one = random.Random(1)  # noqa: S311 - nothing is drawn for anybody
    try:
        whole = ctypes.string_at(id(one), random.Random.__basicsize__)
        at = whole.find(_packed(one))
        if at < 0:
            return None
        for _ in range(700):  # beyond the end of the words, where they are made anew
            one.random()
        found = ctypes.string_at(id(one) + at, POSITION.size + WORDS.size)
        return at if found == _packed(one) else None
    except (AttributeError, TypeError, ValueError, struct.error):
        return None


# -- numpy's -------------------------------------------------------------------------------------------------

_numpy_at: tuple[int, int] | int | None = -1  # bytes from a generator to its spare Gaussian's flag and number


def _numpy(module: Any) -> Callable[[], object]:
    global _numpy_at
    if _numpy_at == -1:
        _numpy_at = _find_numpy(module)
    one = getattr(getattr(module, "mtrand", None), "_rand", None)
    words = _words_of(module, one)
    if not isinstance(_numpy_at, tuple) or words is None:
        before = module.get_state()
        return lambda: module.set_state(before)
    flag, number = (id(one) + at for at in _numpy_at)
    n = WORDS.size + POSITION.size

    def look() -> tuple[bytes, bytes, bytes]:
        return (
            ctypes.string_at(words, n),
            ctypes.string_at(flag, POSITION.size),
            ctypes.string_at(number, NUMBER.size),
        )

    seen = look()

    def put_seen() -> None:
        if look() != seen or _words_of(module, one) != words:
            key = WORDS.unpack_from(seen[0])
            position = POSITION.unpack_from(seen[0], WORDS.size)[0]
            spare = POSITION.unpack(seen[1])[0], NUMBER.unpack(seen[2])[0]
            module.set_state(("MT19937", key, position, *spare))

    return put_seen


def _words_of(module: Any, one: Any) -> int | None:
    """The address of the words of a generator's Mersenne twister; None where it has another algorithm."""
    bits: Any = getattr(one, "_bit_generator", None)
    if type(one) is not getattr(module, "RandomState", None) or type(bits) is not module.MT19937:
        return None
    address = bits.ctypes.state_address
    return address if isinstance(address, int) else None


def _find_numpy(module: Any) -> tuple[int, int] | None:
    try:
        one = module.RandomState(module.MT19937(1))
        words = _words_of(module, one)
        size = module.RandomState.__basicsize__
        if words is None:
            return None
        for _ in range(8):  # without and with a spare Gaussian, in turns
            one.standard_normal()
            _, key, position, has_spare, spare = one.get_state()
            found = ctypes.string_at(words, WORDS.size + POSITION.size)
            if found != WORDS.pack(*map(int, key)) + POSITION.pack(position):
                return None
            if has_spare:
                whole = ctypes.string_at(id(one), size)
                number = whole.find(NUMBER.pack(spare))
                flags = [
                    at for at in (number - 8, number + 8) if at >= 0 and whole[at : at + 4] == b"\1\0\0\0"
                ]
        return _proved(one, flags, number, size)
    except (AttributeError, TypeError, ValueError, struct.error, UnboundLocalError):
        return None


def _proved(one: Any, flags: list[int], number: int, size: int) -> tuple[int, int] | None:
    """The places of a spare Gaussian's flag and number, if they follow what is drawn."""
    for flag in flags:
        told = []
        for _ in range(5):
            one.standard_normal()
            whole, state = ctypes.string_at(id(one), size), one.get_state()
            same_number = not state[3] or NUMBER.unpack_from(whole, number)[0] == state[4]
            told.append(POSITION.unpack_from(whole, flag)[0] == state[3] and same_number)
        if all(told):
            return flag, number
    return None
