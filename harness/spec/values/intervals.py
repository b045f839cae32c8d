"""Intervals as a spec writes them: a length of time (`20 ms`), a number of them, or a number of an event's counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from unperturbed.harness.spec.values.quantities import (
    DURATION_PATTERN,
    DURATION_UNITS,
    Duration,
    parse_duration,
    shorten,
)

COUNTED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "instructions": ("PAPI_TOT_INS", "perf::instructions"),
        "cycles": ("PAPI_TOT_CYC", "perf::cycles", "perf::cpu-cycles"),
    }
)
"""Units of work that are not a metric's name, and the metrics that count them."""

TIMES = ("perf::task-clock", "perf::cpu-clock")
"""Events of perf that count nanoseconds: the kernel ends their periods by a timer, not by counts."""

FEWEST = MappingProxyType({**dict.fromkeys((*COUNTED_BY, *sum(COUNTED_BY.values(), ())), 100_000)})
FEWEST_OF_OTHERS = 10
"""With one page fault an interval, a fault that the kernel breaks off for the signal comes again, for ever."""

_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_MOST = 10**15
_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(?:([kMG]) )?([A-Za-z]\S*)")
_UNIT = rf"({'|'.join(COUNTED_BY)}|[A-Z]+_[A-Za-z0-9_]+|[^ \t0-9:]+::[^ \t]+)"
COUNT_PATTERN = rf"^[0-9]{{1,18}}(\.[0-9]{{1,9}})? ?([kMG] )?{_UNIT}$"
_FORMS = (
    "write a number, k, M or G if wanted, and what is counted, such as `2 M instructions` or `500 perf::page-faults`"
)


@dataclass(frozen=True)
class Interval:
    """Length of an interval, or the number of them that a run shall have; exactly one is given."""

    nanoseconds: int | None = None  # Length
    records: int | None = None  # Number of intervals

    def __str__(self) -> str:
        """Return the form that a spec has."""
        return str(Duration(self.nanoseconds)) if self.nanoseconds is not None else f"{{records: {self.records}}}"


@dataclass(frozen=True)
class WorkInterval(Interval):
    """An interval that ends after so many counts of an event."""

    counts: int = 0  # How many
    unit: str = ""  # Of what: a unit of `COUNTED_BY`, or the name of a metric

    def __str__(self) -> str:
        """Return the form that a spec has: `2 M instructions`, `1500 perf::page-faults`."""
        scale = next(name for name in ("G", "M", "k", "") if self.counts % _SCALES[name] == 0)
        return f"{self.counts // _SCALES[scale]} {scale}{' ' if scale else ''}{self.unit}"

    def event(self, hardware: Iterable[str]) -> str:
        """Return which of some hardware metrics counts the unit; empty when none does."""
        wanted = COUNTED_BY.get(self.unit, (self.unit,))
        return next((name for name in hardware if name in wanted or name.removesuffix(":u") in wanted), "")


def parse_interval(value: object) -> Duration | WorkInterval:
    """Read an interval that is written as text."""
    parts = _COUNT.fullmatch(value) if isinstance(value, str) else None
    unit = parts[3] if parts else ""
    if parts is None or not (unit in COUNTED_BY or "_" in unit or "::" in unit or (parts[2] and unit)):
        return parse_duration(value)
    if unit in DURATION_UNITS:
        raise ValueError(f"`{shorten(value)}`: a unit of time takes no {parts[2]}; {_FORMS}")
    counts = Decimal(parts[1]) * _SCALES[parts[2] or ""]
    if counts != counts.to_integral_value() or counts > _MOST:
        raise ValueError(f"`{shorten(value)}` is not a whole number of counts up to {_MOST:,}; {_FORMS}")
    fewest = FEWEST.get(unit, FEWEST_OF_OTHERS)
    if counts < fewest:
        raise ValueError(
            f"an interval of {counts} {unit} is too short, {fewest:,} is the least: the signal that ends it costs the "
            "program work itself"
        )
    return WorkInterval(counts=int(counts), unit=unit)


IntervalText = Annotated[
    Duration | WorkInterval,
    PlainValidator(parse_interval),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": DURATION_PATTERN},
                {"type": "string", "pattern": COUNT_PATTERN},
            ],
            "examples": ["20 ms", "1.5 s", "2 M instructions", "500 perf::page-faults"],
        }
    ),
]
