"""Quantities with units as a spec writes them: durations and sizes.

A bare number is never a quantity: `timeout: 10` would be seconds to one reader and milliseconds to another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

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

_DURATION_FORMS = "write a number with its unit, such as `500 us`, `10 ms`, `1.5 s`, `2 min` or `1 h`"
_SIZE_FORMS = "write a number with its unit, such as `64 B`, `32 KiB` or `1 MB`"

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-zµμ]+)")
_BARE_NUMBER = re.compile(r"[-+]?[0-9.,_]+")
_LONGEST_NS = 366 * 24 * DURATION_UNITS["h"]


@dataclass(frozen=True, order=True)
class Duration:
    """A time span."""

    ns: int  # Nanoseconds, above 0

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
    """Read a duration, such as `10 ms`."""
    number, unit = _split(value, "duration", DURATION_UNITS, _DURATION_FORMS)
    ns = int((number * DURATION_UNITS[unit]).to_integral_value())
    if ns < 1:
        raise ValueError(f"`{value}` is not a duration; {_DURATION_FORMS}")
    if ns > _LONGEST_NS:
        raise ValueError(f"`{value}` is more than a year")
    return Duration(ns)


def parse_size(value: object) -> int:
    """Read a size, such as `32 KiB`."""
    number, unit = _split(value, "size", SIZE_UNITS, _SIZE_FORMS)
    size = number * SIZE_UNITS[unit]
    if size < 1 or size != size.to_integral_value():
        raise ValueError(f"`{value}` is not a whole number of bytes; {_SIZE_FORMS}")
    return int(size)


def format_size(size: int) -> str:
    """Return bytes in the largest unit that shows them as a whole number: `32 KiB`, `1000 B`."""
    unit = next(name for name in ("GiB", "MiB", "KiB", "B") if size % SIZE_UNITS[name] == 0)
    return f"{size // SIZE_UNITS[unit]} {unit}"


def _split(value: object, what: str, units: dict[str, int], forms: str) -> tuple[Decimal, str]:
    if not isinstance(value, str) or _BARE_NUMBER.fullmatch(value):
        unitless = isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool))
        raise ValueError(
            f"`{shorten(value)}` has no unit; {forms}" if unitless else f"`{shorten(value)}` is not a {what}; {forms}"
        )
    parts = _QUANTITY.fullmatch(value)
    if parts is None:
        raise ValueError(f"`{shorten(value)}` is not a {what}; {forms}")
    unit = parts[2].replace("μ", "µ")  # the Greek letter looks the same as the micro sign
    if unit not in units:
        raise ValueError(f"`{parts[2]}` is not a unit of a {what}: use {', '.join(units)}")
    return Decimal(parts[1]), unit


def shorten(value: object) -> str:
    """Return a value for a message, at most 61 characters of it."""
    if isinstance(value, list | dict):
        return "[…]" if isinstance(value, list) else "{…}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:60] + "…"


TimeSpan = Annotated[
    Duration,
    PlainValidator(parse_duration),
    WithJsonSchema(
        {"type": "string", "pattern": DURATION_PATTERN, "examples": ["500 us", "10 ms", "1.5 s", "2 min", "1 h"]}
    ),
]
SizeInBytes = Annotated[
    int,
    PlainValidator(parse_size),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["64 B", "32 KiB"]}),
]
