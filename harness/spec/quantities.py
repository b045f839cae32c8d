"""Quantities with units as a spec writes them: durations, sizes, cache geometries.

A bare number is never a quantity: `timeout: 10` would be seconds to one reader and milliseconds to another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from unperturbed.collectors.simulated import Cache

__all__ = [
    "CACHE_PATTERN",
    "DURATION_PATTERN",
    "DURATION_UNITS",
    "SIZE_PATTERN",
    "SIZE_UNITS",
    "Duration",
    "check_cache",
    "format_cache",
    "format_size",
    "parse_cache",
    "parse_duration",
    "parse_size",
]

DURATION_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Units of a duration, in nanoseconds."""

SIZE_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Units of a size, in bytes."""

# ECMA-262 syntax too, for the JSON Schema: no named groups, no Unicode classes.
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,9})?"
DURATION_PATTERN = rf"^{_NUMBER} ?({'|'.join(DURATION_UNITS)}|μs)$"
SIZE_PATTERN = rf"^{_NUMBER} ?({'|'.join(SIZE_UNITS)})$"
CACHE_PATTERN = rf"^{_NUMBER} ?({'|'.join(SIZE_UNITS)}) [0-9]{{1,4}}-way {_NUMBER} ?({'|'.join(SIZE_UNITS)})$"

_DURATION_FORMS = "write a number with its unit, such as `500 us`, `10 ms`, `1.5 s`, `2 min` or `1 h`"
_SIZE_FORMS = "write a number with its unit, such as `64 B`, `32 KiB` or `1 MB`"
_CACHE_FORMS = "write `32 KiB 8-way 64 B` (size, ways, line), or a mapping {size: 32 KiB, ways: 8, line: 64 B}"

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-zµμ]+)")
_BARE_NUMBER = re.compile(r"[-+]?[0-9.,_]+")
_LONGEST_NS = 366 * 24 * DURATION_UNITS["h"]
_SMALLEST_LINE = 32
"""The simulator refuses lines shorter than the widest register, 32 bytes on x86-64."""


@dataclass(frozen=True, order=True)
class Duration:
    """A time span.

    Attributes
    ----------
    ns : nanoseconds, > 0.
    """

    ns: int

    @property
    def seconds(self) -> float:
        """Return the span in seconds."""
        return self.ns / DURATION_UNITS["s"]

    def __str__(self) -> str:
        """Return the span in the largest unit that shows it as a whole number: `90 s`, `2 min`, `1500 us`."""
        units = (name for name in ("h", "min", "s", "ms", "us", "ns") if self.ns % DURATION_UNITS[name] == 0)
        unit = next(units)
        return f"{self.ns // DURATION_UNITS[unit]} {unit}"


def parse_duration(value: object) -> Duration:
    """Read `10 ms`.

    Raises
    ------
    ValueError
        No number with a unit of time, zero, or more than a year. The message says what to write.
    """
    number, unit = _split(value, "duration", DURATION_UNITS, _DURATION_FORMS)
    ns = int((number * DURATION_UNITS[unit]).to_integral_value())
    if ns < 1:
        raise ValueError(f"`{value}` is no time at all; {_DURATION_FORMS}")
    if ns > _LONGEST_NS:
        raise ValueError(f"`{value}` is more than a year")
    return Duration(ns)


def parse_size(value: object) -> int:
    """Read `32 KiB`; return bytes.

    Raises
    ------
    ValueError
        No number with a unit of memory, or no whole number of bytes.
    """
    number, unit = _split(value, "size", SIZE_UNITS, _SIZE_FORMS)
    size = number * SIZE_UNITS[unit]
    if size < 1 or size != size.to_integral_value():
        raise ValueError(f"`{value}` is not a whole number of bytes; {_SIZE_FORMS}")
    return int(size)


def parse_cache(value: object) -> Cache:
    """Read `32 KiB 8-way 64 B`.

    Raises
    ------
    ValueError
        Another form, or a cache that cannot be simulated.
    """
    parts = re.fullmatch(r"(.+?) ([0-9]{1,4})-way (.+)", value) if isinstance(value, str) else None
    if parts is None:
        raise ValueError(f"`{_shown(value)}` is no cache; {_CACHE_FORMS}")
    return check_cache(Cache(size=parse_size(parts[1]), ways=int(parts[2]), line=parse_size(parts[3])))


def check_cache(cache: Cache) -> Cache:
    """Return the cache if the simulator can simulate it.

    Raises
    ------
    ValueError
        It cannot; the message says what would do.
    """
    line = format_size(cache.line)
    if cache.line < _SMALLEST_LINE or cache.line & (cache.line - 1):
        raise ValueError(f"a cache line of {line} cannot be simulated: a power of two from {_SMALLEST_LINE} B on can")
    if cache.ways < 1:
        raise ValueError("a cache has at least 1 way")
    way = cache.ways * cache.line
    if cache.size <= cache.line or cache.size % way:
        raise ValueError(
            f"{format_size(cache.size)} is not made of {cache.ways} ways of {line} lines: "
            "the size must be a multiple of ways × line, and more than one line"
        )
    sets = cache.size // way
    if sets & (sets - 1):
        near = format_size(way << (sets.bit_length() - 1))
        raise ValueError(
            f"`{format_cache(cache)}` has {sets} sets (size / ways / line), and the simulator wants a power of two: "
            f"`{near} {cache.ways}-way {line}` would do"
        )
    return cache


def format_cache(cache: Cache) -> str:
    """Return the form that `parse_cache` reads."""
    return f"{format_size(cache.size)} {cache.ways}-way {format_size(cache.line)}"


def format_size(size: int) -> str:
    """Return bytes in the largest unit that shows them as a whole number: `32 KiB`, `1000 B`."""
    unit = next(name for name in ("GiB", "MiB", "KiB", "B") if size % SIZE_UNITS[name] == 0)
    return f"{size // SIZE_UNITS[unit]} {unit}"


def _split(value: object, what: str, units: dict[str, int], forms: str) -> tuple[Decimal, str]:
    if not isinstance(value, str) or _BARE_NUMBER.fullmatch(value):
        unitless = isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool))
        raise ValueError(f"`{_shown(value)}` has no unit; {forms}" if unitless else f"`{_shown(value)}` is no {what}; {forms}")
    parts = _QUANTITY.fullmatch(value)
    if parts is None:
        raise ValueError(f"`{_shown(value)}` is no {what}; {forms}")
    unit = parts[2].replace("μ", "µ")  # the Greek letter looks the same as the micro sign
    if unit not in units:
        raise ValueError(f"`{parts[2]}` is no unit of a {what}: {', '.join(units)} are")
    return Decimal(parts[1]), unit


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "[…]" if isinstance(value, list) else "{…}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:60] + "…"
