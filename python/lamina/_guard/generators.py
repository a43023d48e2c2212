# SPDX-License-Identifier: Apache-2.0
"""Saves and restores the state of every random number generator in use.

Reading the states of Python's and numpy's generators takes longer than a run of many small models, and hardly
any forward draws from them. So their memory is copied and compared. Its location is found in generators that
lamina creates, and proved by drawing from them. If that fails, the states are read, and restored if numbers
were drawn, both by the documented functions.
"""

from __future__ import annotations

import random
import struct
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from .._lamina import read_memory

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = struct.Struct("624I")  # the state of a Mersenne twister
WORDS_AND_TWO = struct.Struct("624I2i")  # the same, its position, and the flag of a spare Gaussian
POSITION = struct.Struct("i")
NUMBER = struct.Struct("d")


def state_of_generators() -> Callable[[], None]:
    """Saves the state of every random number generator in use, and returns the function that restores it."""
    torch = sys.modules["torch"]
    one = torch.default_generator
    puts: list[Callable[[], object]] = [partial(one.set_state, one.get_state()), _python()]
    if torch.cuda.is_initialized():
        cuda = torch.cuda.get_rng_state_all()
        puts.append(lambda: torch.cuda.set_rng_state_all(cuda))
    # Code that draws from numpy has imported it; lamina never does.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        puts.append(_numpy(numpy_random))

    def put_back() -> None:
        for put in puts:
            put()

    return put_back


# -- Python's ------------------------------------------------------------------------------------------------

_python_at: int | None = -1  # bytes from a generator to its position, before its words; None: unknown


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
    places = ((id(one) + _python_at, POSITION.size + WORDS.size),)
    own = vars(one)  # holds the spare Gaussian
    seen, gauss = read_memory(places), own["gauss_next"]

    def put_seen() -> None:
        if read_memory(places) != seen or own["gauss_next"] != gauss:
            words = (*WORDS.unpack_from(seen, POSITION.size), *POSITION.unpack_from(seen))
            random.setstate((random.Random.VERSION, words, gauss))

    return put_seen


def _packed(one: random.Random) -> bytes:
    words = one.getstate()[1]
    return POSITION.pack(words[-1]) + WORDS.pack(*words[:-1])


def _find_python() -> int | None:
    one = random.Random(1)  # noqa: S311 - the numbers are not used
    try:
        whole = read_memory(((id(one), random.Random.__basicsize__),))
        at = whole.find(_packed(one))
        if at < 0:
            return None
        for _ in range(700):  # past the last word, after which new words are computed
            one.random()
        found = read_memory(((id(one) + at, POSITION.size + WORDS.size),))
        return at if found == _packed(one) else None
    except (AttributeError, TypeError, ValueError, struct.error):
        return None


# -- numpy's -------------------------------------------------------------------------------------------------

_numpy_at: tuple[int, int] | int | None = -1  # bytes from a generator to its spare Gaussian's flag and number
_known: tuple[Any, Any, int] = None, None, 0  # of the last read: generator, twister, address of the words


def _numpy(module: Any) -> Callable[[], object]:
    global _numpy_at
    if _numpy_at == -1:
        _numpy_at = _find_numpy(module)
    one = getattr(getattr(module, "mtrand", None), "_rand", None)
    words = _words_of(module, one)
    if not isinstance(_numpy_at, tuple) or words is None:
        before = module.get_state()
        return lambda: module.set_state(before)
    flag, number = _numpy_at
    places = (
        (words, WORDS.size + POSITION.size),
        (id(one) + flag, POSITION.size),
        (id(one) + number, NUMBER.size),
    )
    seen = read_memory(places)

    def put_seen() -> None:
        if read_memory(places) != seen or _words_of(module, one) != words:
            *key, position, has_spare = WORDS_AND_TWO.unpack_from(seen)
            spare = NUMBER.unpack_from(seen, WORDS_AND_TWO.size)[0]
            module.set_state(("MT19937", key, position, has_spare, spare))

    return put_seen


def _words_of(module: Any, one: Any) -> int | None:
    """The address of the words of a generator's Mersenne twister; None if it has another algorithm."""
    global _known
    bits: Any = getattr(one, "_bit_generator", None)
    whose, twister, address = _known
    if bits is not None and bits is twister and one is whose:
        return address
    if type(one) is not getattr(module, "RandomState", None) or type(bits) is not module.MT19937:
        return None
    address = bits.ctypes.state_address
    if not isinstance(address, int):
        return None
    _known = one, bits, address
    return address


def _find_numpy(module: Any) -> tuple[int, int] | None:
    try:
        one = module.RandomState(module.MT19937(1))
        words = _words_of(module, one)
        size = module.RandomState.__basicsize__
        if words is None:
            return None
        for _ in range(8):  # without and with a spare Gaussian, alternating
            one.standard_normal()
            _, key, position, has_spare, spare = one.get_state()
            found = read_memory(((words, WORDS.size + POSITION.size),))
            if found != WORDS.pack(*map(int, key)) + POSITION.pack(position):
                return None
            if has_spare:
                whole = read_memory(((id(one), size),))
                number = whole.find(NUMBER.pack(spare))
                flags = [
                    at for at in (number - 8, number + 8) if at >= 0 and whole[at : at + 4] == b"\1\0\0\0"
                ]
        return _proved(one, flags, number, size)
    except (AttributeError, TypeError, ValueError, struct.error, UnboundLocalError):
        return None


def _proved(one: Any, flags: list[int], number: int, size: int) -> tuple[int, int] | None:
    """The offsets of a spare Gaussian's flag and number, if they change with draws as expected."""
    for flag in flags:
        agrees = []
        for _ in range(5):
            one.standard_normal()
            whole, state = read_memory(((id(one), size),)), one.get_state()
            same_number = not state[3] or NUMBER.unpack_from(whole, number)[0] == state[4]
            agrees.append(POSITION.unpack_from(whole, flag)[0] == state[3] and same_number)
        if all(agrees):
            return flag, number
    return None
