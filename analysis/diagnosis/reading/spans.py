"""Compiled functions on stretches of bytes: find, compare, hash, read a number, write a word without what varies from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

__all__ = [
    "PADDING",
    "UNCOUNTED",
    "Integer",
    "append",
    "append_normalised",
    "begins",
    "compiled",
    "copy",
    "equal",
    "find",
    "mixed",
    "past_blanks",
    "read_number",
    "skip_blanks",
    "skip_word",
    "text",
    "until",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

PADDING = 8
"""Bytes that every array of bytes has behind what it holds: eight are loaded at a time."""

UNCOUNTED = {"_nrt": False}
"""Options of compiled functions that make no array: references to those they are given need not be counted, which took half of the time."""

Integer = Any
"""In compiled functions: an int64, to Python an int or numpy's."""

_memchr = types.ExternalFunction("memchr", types.uintp(types.uintp, types.intc, types.uintp))

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_EACH, _HIGH, _BLANKS = (np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x80, 0x20))
_LARGEST = np.uint64(2**63 - 1)

_BLANK, _TAB = 32, 9
_ZERO, _NINE, _COLON, _POINT, _MINUS, _UNDERSCORE, _HASH = 48, 57, 58, 46, 45, 95, 35


def compiled(function: _Function) -> _Function:
    """Mark a function that compiled ones call."""
    marked: _Function = register_jitable(**UNCOUNTED)(function)
    return marked


def _loaded(_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 - the compiled function's arguments
    """Load eight bytes (uint64) from any place."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(array, types.int64), build


_load: Any = intrinsic(_loaded)


def _lowest(_context: Any, bits: Any) -> Any:  # noqa: ARG001 - the compiled function's argument
    """Return in which byte of eight the lowest bit stands that is set."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

    return types.int64(types.uint64), build


_first_byte: Any = intrinsic(_lowest)


@compiled
def until(source: Any, byte: Integer, start: Integer, stop: Integer) -> Integer:
    """Return where a byte stands first, or `stop`: quicker than `find` where it is near."""
    wanted = np.uint64(byte) * _EACH
    at = start
    while at < stop:
        differs = _load(source, at) ^ wanted
        found = (differs - _EACH) & ~differs & _HIGH
        if found:
            return min(at + _first_byte(found), stop)
        at += 8
    return stop


@compiled
def past_blanks(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return where something else than a blank stands, or `stop`."""
    at = start
    while at < stop:
        others = _load(source, at) ^ _BLANKS
        if others:
            return min(at + _first_byte(others), stop)
        at += 8
    return stop


@compiled
def find(source: Any, byte: Integer, start: Integer, stop: Integer) -> Integer:
    """Return where a byte stands first, or -1."""
    if stop <= start:
        return -1
    base = source.ctypes.data
    found = _memchr(base + start, byte, stop - start)
    return np.int64(found - base) if found else np.int64(-1)


@compiled
def mixed(source: Any, start: Integer, stop: Integer, seed: Any) -> Any:
    """Return a hash (uint64) of some bytes, on top of another one."""
    value = seed ^ (np.uint64(stop - start) * _PRIME)
    at = start
    while at + 8 <= stop:
        value = (value ^ _load(source, at)) * _PRIME
        value ^= value >> np.uint64(29)
        at += 8
    if at < stop:
        rest = _load(source, at) & ((np.uint64(1) << np.uint64(8 * (stop - at))) - np.uint64(1))
        value = (value ^ rest) * _PRIME
        value ^= value >> np.uint64(32)
    return value


@compiled
def equal(first: Any, at: Integer, second: Any, start: Integer, stop: Integer) -> Any:
    """Tell whether the bytes from `at` on in one array are those between `start` and `stop` in another."""
    while start + 8 <= stop:
        if _load(first, at) != _load(second, start):
            return False
        at += 8
        start += 8
    if start < stop:
        wanted = (np.uint64(1) << np.uint64(8 * (stop - start))) - np.uint64(1)
        return (_load(first, at) ^ _load(second, start)) & wanted == np.uint64(0)
    return True


def text(characters: str) -> NDArray[np.uint8]:
    """Return a text as `begins` takes it, with the padding behind it."""
    return np.frombuffer(characters.encode() + bytes(PADDING), np.uint8)


@compiled
def begins(source: Any, at: Integer, stop: Integer, wanted: Any) -> Any:
    """Tell whether a text (as `text` makes it) stands here."""
    length = len(wanted) - PADDING
    return stop - at >= length and equal(source, at, wanted, 0, length)


@compiled
def copy(source: Any, start: Integer, stop: Integer, target: Any, at: Integer) -> Integer:
    """Write some bytes, and return where they end."""
    for index in range(start, stop):
        target[at] = source[index]
        at += 1
    return at


@compiled
def append(target: Any, at: Integer, byte: Integer) -> Integer:
    """Write a byte, and return the place behind it."""
    target[at] = byte
    return at + 1


@compiled
def skip_blanks(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return where something else than a blank or tab stands, or `stop`."""
    while start < stop and (source[start] == _BLANK or source[start] == _TAB):
        start += 1
    return start


@compiled
def skip_word(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return where the next blank or tab stands, or `stop`."""
    while start < stop and source[start] != _BLANK and source[start] != _TAB:
        start += 1
    return start


@compiled
def read_number(source: Any, start: Integer, stop: Integer, decimals: Integer) -> tuple[Integer, Integer]:  # noqa: PLR0911 - a return for each fault
    """Read a non-negative number.

    Returns it times 10^decimals, and where it ends. Further decimals are cut off. The end is -1 where there is no number, or where it
    has decimals and `decimals` is 0; -2 where it is over 2^63.
    """
    value = np.uint64(0)
    at = start
    while at < stop and _ZERO <= source[at] <= _NINE:
        digit = np.uint64(source[at] - _ZERO)
        if value > (_LARGEST - digit) // np.uint64(10):
            return 0, -2
        value = value * np.uint64(10) + digit
        at += 1
    if at == start:
        return 0, -1
    missing = decimals
    if at < stop and source[at] == _POINT:
        if decimals == 0:
            return 0, -1
        at += 1
        first = at
        while at < stop and _ZERO <= source[at] <= _NINE:
            if missing > 0:
                digit = np.uint64(source[at] - _ZERO)
                if value > (_LARGEST - digit) // np.uint64(10):
                    return 0, -2
                value = value * np.uint64(10) + digit
                missing -= 1
            at += 1
        if at == first:
            return 0, -1
    for _ in range(missing):
        if value > _LARGEST // np.uint64(10):
            return 0, -2
        value *= np.uint64(10)
    return np.int64(value), at


@compiled
def _is_letter(byte: Integer) -> Any:
    return 97 <= (byte | 32) <= 122 or byte == _UNDERSCORE


@compiled
def _is_digit(byte: Integer) -> Any:
    return _ZERO <= byte <= _NINE


@compiled
def append_normalised(source: Any, start: Integer, stop: Integer, target: Any, at: Integer, numbers: bool) -> Integer:
    """Write a word without what varies from run to run, and return where it ends.

    An address, 0x and hexadecimal digits, becomes 0x#. With `numbers`, a number that is no part of a name, as in `size=21984`,
    `0:00:00.040000000` or `-1`, becomes #; those of `filesrc0`, `avdec_mpeg4-0` and `640x480` stay. It is what these regular
    expressions do: `(?<![0-9])0[xX][0-9a-fA-F]+` and `(?<![A-Za-z0-9_.-])-?[0-9][0-9.:]*+(?![A-Za-z_])`.
    """
    index = start
    while index < stop:
        byte = source[index]
        if byte > _NINE or (byte < _ZERO and byte != _MINUS):
            target[at] = byte
            at += 1
            index += 1
            continue
        before = source[index - 1] if index > start else np.uint8(_BLANK)
        if byte == _ZERO and index + 2 < stop and (source[index + 1] | 32) == 120 and not _is_digit(before):
            end = index + 2
            while end < stop and (_is_digit(source[end]) or 97 <= (source[end] | 32) <= 102):
                end += 1
            if end > index + 2:
                target[at] = byte
                target[at + 1] = source[index + 1] | 32
                target[at + 2] = _HASH
                at += 3
                index = end
                continue
        if numbers and (byte == _MINUS or _is_digit(byte)):
            end = index + 1 if byte == _MINUS else index
            follows = _is_letter(before) or _is_digit(before) or before in (_POINT, _MINUS)
            if not follows and end < stop and _is_digit(source[end]):
                while end < stop and (_is_digit(source[end]) or source[end] == _POINT or source[end] == _COLON):
                    end += 1
                if end == stop or not _is_letter(source[end]):
                    target[at] = _HASH
                    at += 1
                    index = end
                    continue
        target[at] = byte
        at += 1
        index += 1
    return at
