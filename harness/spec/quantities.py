"""Quantities with units in a spec: durations, sizes, intervals, and caches of the simulated machine.

A number without a unit is never a quantity: `timeout: 10` could mean seconds or milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from unperturbed.collectors.sources.callgrind import FORMULAS, Cache, Machine
from unperturbed.collectors.sources.limits import Limits
from unperturbed.common.wording import counted, listing
from unperturbed.harness.spec.model import ADDED_LATER, AS_MAPPING, AS_TEXT, ListOf, Section, reading, text_or_mapping
from unperturbed.harness.spec.text import Text

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

# Also valid in ECMA-262, for the JSON Schema: no named groups, no Unicode classes.
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,9})?"
DURATION_PATTERN = rf"^{_NUMBER} ?({'|'.join(DURATION_UNITS)}|μs)$"
SIZE_PATTERN = rf"^{_NUMBER} ?({'|'.join(SIZE_UNITS)})$"

PERCENT_PATTERN = rf"^{_NUMBER} ?%$"

_DURATION_FORMS = "write a number with its unit, such as `500 us`, `10 ms`, `1.5 s`, `2 min` or `1 h`"
_SIZE_FORMS = "write a number with its unit, such as `64 B`, `32 KiB` or `1 MB`"

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-zµμ]+)")
_PERCENT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?%")
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
    """Parse a duration, such as `10 ms`."""
    number, unit = _split(value, "duration", DURATION_UNITS, _DURATION_FORMS)
    ns = int((number * DURATION_UNITS[unit]).to_integral_value())
    if ns < 1:
        raise ValueError(f"`{value}` is shorter than 1 ns: write a longer time")
    if ns > _LONGEST_NS:
        raise ValueError(f"`{value}` is longer than a year: write a shorter time")
    return Duration(ns)


def parse_size(value: object) -> int:
    """Parse a size, such as `32 KiB`."""
    number, unit = _split(value, "size", SIZE_UNITS, _SIZE_FORMS)
    size = number * SIZE_UNITS[unit]
    if size < 1 or size != size.to_integral_value():
        raise ValueError(f"`{value}` is not a positive whole number of bytes: write one, such as `64 B` or `32 KiB`")
    return int(size)


def parse_percent(value: object) -> float:
    """Parse a percentage, such as `1 %`, as a ratio."""
    parts = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise ValueError(f"`{shorten(value)}` is not a percentage; write a number with `%`, such as `1 %` or `0.5 %`")
    share = float(Decimal(parts[1]) / 100)
    if share >= 1:
        raise ValueError(f"`{value}` is too large: write less than 100 %")
    return share


def format_size(size: int) -> str:
    """Return a number of bytes in the largest unit that shows it as a whole number: `32 KiB`, `1000 B`."""
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
        raise ValueError(f"`{parts[2]}` is not a unit for a {what}: use {listing(units, 'or')}")
    return Decimal(parts[1]), unit


def shorten(value: object) -> str:
    """Return a value as text for a message, shortened to at most 61 characters."""
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
Percentage = Annotated[
    float,
    PlainValidator(parse_percent),
    WithJsonSchema({"type": "string", "pattern": PERCENT_PATTERN, "examples": ["1 %", "0.5 %"]}),
]
SizeInBytes = Annotated[
    int,
    PlainValidator(parse_size),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["64 B", "32 KiB"]}),
]


COUNTED_BY: Mapping[str, tuple[str, ...]] = {
    "instructions": ("PAPI_TOT_INS", "perf::instructions"),
    "cycles": ("PAPI_TOT_CYC", "perf::cycles", "perf::cpu-cycles"),
}
"""Unit of work that is not itself a metric's name → the metrics that count it."""

TIMES = ("perf::task-clock", "perf::cpu-clock")
"""Events of perf that count nanoseconds: the kernel ends their periods by a timer, not by counts."""

FEWEST = MappingProxyType({**dict.fromkeys((*COUNTED_BY, *sum(COUNTED_BY.values(), ())), 100_000)})
FEWEST_OF_OTHERS = 10
"""Minimum for other events: with intervals of 1 page fault, the signal aborts each fault, which then recurs forever."""

_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_MOST_COUNTS = 10**15
_COUNT_OF = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(?:([kMG]) )?([A-Za-z]\S*)")
_UNIT = rf"({'|'.join(COUNTED_BY)}|[A-Z]+_[A-Za-z0-9_]+|[^ \t0-9:]+::[^ \t]+)"
COUNT_PATTERN = rf"^[0-9]{{1,18}}(\.[0-9]{{1,9}})? ?([kMG] )?{_UNIT}$"
_INTERVAL_FORMS = (
    "write a number, optionally k, M or G, and a unit, such as `2 M instructions` or `500 perf::page-faults`"
)


@dataclass(frozen=True)
class Interval:
    """Length of an interval, or number of intervals in a run; exactly one is given."""

    nanoseconds: int | None = None  # Length
    records: int | None = None  # Number of intervals

    def __str__(self) -> str:
        """Return the text form used in a spec."""
        return str(Duration(self.nanoseconds)) if self.nanoseconds is not None else f"{{records: {self.records}}}"


@dataclass(frozen=True)
class WorkInterval(Interval):
    """Interval that ends after an event has occurred a given number of times."""

    counts: int = 0  # Number of counts
    unit: str = ""  # What is counted: a unit in `COUNTED_BY`, or the name of a metric

    def __str__(self) -> str:
        """Return the text form used in a spec: `2 M instructions`, `1500 perf::page-faults`."""
        scale = next(name for name in ("G", "M", "k", "") if self.counts % _SCALES[name] == 0)
        return f"{self.counts // _SCALES[scale]} {scale}{' ' if scale else ''}{self.unit}"

    def event(self, hardware: Iterable[str]) -> str:
        """Return the first of the given hardware metrics that counts the unit; '' if none does."""
        wanted = COUNTED_BY.get(self.unit, (self.unit,))
        return next((name for name in hardware if name in wanted or name.removesuffix(":u") in wanted), "")


@dataclass(frozen=True)
class EventInterval(Interval):
    """Interval that ends after a number of events of a software metric: the program itself ends it."""

    every: int = 0  # Number of events
    of: str = ""  # Name of the software metric

    def __str__(self) -> str:
        """Return the text form used in a spec."""
        return f"{{every: {self.every}, of: {self.of}}}"


def parse_interval(value: object) -> Duration | WorkInterval:
    """Parse an interval that is given as text: a duration, or a number of counts."""
    parts = _COUNT_OF.fullmatch(value) if isinstance(value, str) else None
    unit = parts[3] if parts else ""
    if parts is None or not (unit in COUNTED_BY or "_" in unit or "::" in unit or (parts[2] and unit)):
        return parse_duration(value)
    if unit in DURATION_UNITS:
        raise ValueError(
            f"`{shorten(value)}`: `{parts[2]}` is only for numbers of events, such as `2 M instructions`; write a "
            "time as a number and its unit, such as `20 ms`"
        )
    counts = Decimal(parts[1]) * _SCALES[parts[2] or ""]
    if counts != counts.to_integral_value() or counts > _MOST_COUNTS:
        raise ValueError(
            f"`{shorten(value)}` is not a whole number of counts up to {_MOST_COUNTS:,}; {_INTERVAL_FORMS}"
        )
    fewest = FEWEST.get(unit, FEWEST_OF_OTHERS)
    if counts < fewest:
        raise ValueError(
            f"an interval of {counts} {unit} is too short: the minimum is {fewest:,}, because the signal that ends "
            "each interval adds work to the program"
        )
    return WorkInterval(counts=int(counts), unit=unit)


IntervalText = Annotated[
    Duration | WorkInterval,
    PlainValidator(parse_interval),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": DURATION_PATTERN}, {"type": "string", "pattern": COUNT_PATTERN}],
            "examples": ["20 ms", "1.5 s", "2 M instructions", "500 perf::page-faults"],
        }
    ),
]


_SIZE = SIZE_PATTERN.strip("^$")
CACHE_PATTERN = f"^{_SIZE} [0-9]{{1,4}}-way {_SIZE}$"

_CACHE_FORMS = "write `32 KiB 8-way 64 B` (size, ways, line), or a mapping `{size: 32 KiB, ways: 8, line: 64 B}`"
_SMALLEST_LINE = 32  # The simulator refuses lines shorter than the widest register, 32 bytes on x86-64


def parse_cache(value: object) -> Cache:
    """Parse the description of a cache, such as `32 KiB 8-way 64 B`."""
    parts = re.fullmatch(r"(.+?) ([0-9]{1,4})-way (.+)", value) if isinstance(value, str) else None
    if parts is None:
        raise ValueError(f"`{shorten(value)}` is not a cache; {_CACHE_FORMS}")
    return check_cache(Cache(size=parse_size(parts[1]), ways=int(parts[2]), line=parse_size(parts[3])))


def check_cache(cache: Cache) -> Cache:
    """Return the cache; raise ValueError if the simulator cannot simulate it."""
    line = format_size(cache.line)
    if cache.line < _SMALLEST_LINE or cache.line & (cache.line - 1):
        raise ValueError(f"cannot simulate a cache line of {line}: use a power of two, at least {_SMALLEST_LINE} B")
    if cache.ways < 1:
        raise ValueError("a cache needs at least 1 way")
    way = cache.ways * cache.line
    if cache.size <= cache.line or cache.size % way:
        raise ValueError(
            f"a cache of {format_size(cache.size)} cannot have {counted(cache.ways, 'way')} with lines of {line}: the "
            "size must be a multiple of ways × line, and larger than one line"
        )
    sets = cache.size // way
    if sets & (sets - 1):
        near = format_size(way << (sets.bit_length() - 1))
        raise ValueError(
            f"`{format_cache(cache)}` has {sets} sets (size / ways / line), but the simulator needs a power of two: "
            f"use `{near} {cache.ways}-way {line}`"
        )
    return cache


def format_cache(cache: Cache) -> str:
    """Return the description of a cache, in the form that `parse_cache` reads."""
    return f"{format_size(cache.size)} {cache.ways}-way {format_size(cache.line)}"


class CacheFields(Section):
    """A cache, as a mapping; a text such as `32 KiB 8-way 64 B` has the same meaning."""

    size: SizeInBytes = Field()
    """Size of the whole cache."""
    ways: int = Field(ge=1, le=9999, examples=[8])
    """Associativity (number of ways)."""
    line: SizeInBytes = Field()
    """Size of a cache line."""


def _to_cache(value: Cache | CacheFields) -> Cache:
    return value if isinstance(value, Cache) else check_cache(Cache(value.size, value.ways, value.line))


_CacheText = Annotated[
    Cache,
    PlainValidator(parse_cache),
    WithJsonSchema({"type": "string", "pattern": CACHE_PATTERN, "examples": ["32 KiB 8-way 64 B"]}),
]
_TextOrFields = Annotated[
    Annotated[_CacheText, Tag(AS_TEXT)] | Annotated[CacheFields, Tag(AS_MAPPING)], Discriminator(text_or_mapping)
]
_CacheValue = Annotated[Cache, reading(_TextOrFields, _to_cache)]


class MachineFields(Section):
    """The simulated machine: its caches, each with size, ways and line size, and its counters."""

    I1: _CacheValue = Field(default_factory=lambda: Machine().i1)
    """First-level instruction cache."""
    D1: _CacheValue = Field(default_factory=lambda: Machine().d1)
    """First-level data cache."""
    LL: _CacheValue = Field(default_factory=lambda: Machine().ll)
    """Last-level cache. PAPI's L2 and L3 presets count its events."""
    counters: Annotated[int | None, ADDED_LATER] = Field(default=None, ge=1, le=1000, examples=[4])
    """Number of metrics that the simulated processor counts at once, as a real one does; each takes one counter. Other
    metrics need further passes, or take turns with `multiplex: true`. By default, all metrics are counted at once."""
    fixed: Annotated[tuple[Text, ...], ListOf, ADDED_LATER] = Field(default=Limits.fixed)
    """With `counters`: metrics that have a counter of their own."""
    multiplex_every: Annotated[TimeSpan, ADDED_LATER] = Field(
        default_factory=lambda: parse_duration("4 ms"), examples=["10 ms"]
    )
    """With `counters` and `multiplex: true`: simulated time, one cycle a nanosecond, after which metrics take turns on
    the counters: a whole number of quanta. Linux lets them take turns every 4 ms."""


def _to_machine(fields: MachineFields) -> Machine:
    given = fields.model_fields_set
    if fields.counters is None:
        if without := [name for name in ("fixed", "multiplex_every") if name in given]:
            raise ValueError(f"`{without[0]}` has no effect without `counters`: add `counters`, or remove it")
        return Machine(fields.I1, fields.D1, fields.LL)
    if unknown := [name for name in fields.fixed if name not in FORMULAS]:
        raise ValueError(f"`fixed`: the simulator does not count {unknown[0]}: name metrics such as PAPI_TOT_INS")
    limits = Limits(fields.counters, tuple(fields.fixed), fields.multiplex_every.ns)
    return Machine(fields.I1, fields.D1, fields.LL, limits)


Simulator = Annotated[Machine, reading(MachineFields, _to_machine)]
