"""Types of a spec's values that are more than text, numbers and lists: how each is read from YAML and shown in the JSON Schema.

Each type is an `Annotated` of what the campaign's code gets (`Duration`, `Event`, …); pydantic reads what the YAML holds and converts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetPydanticSchema,
    PlainValidator,
    Strict,
    StringConstraints,
    Tag,
    WithJsonSchema,
)
from pydantic_core import core_schema

from unperturbed.collectors.catalogue import OS_METRICS, PRESETS
from unperturbed.collectors.expressions import Expression, parse_expression
from unperturbed.collectors.simulated import Cache, Machine
from unperturbed.errors import SpecError
from unperturbed.harness.spec.quantities import (
    CACHE_PATTERN,
    DURATION_PATTERN,
    SIZE_PATTERN,
    Duration,
    check_cache,
    format_cache,
    parse_cache,
    parse_duration,
    parse_size,
)
from unperturbed.instrument.events import DEFAULT_MAX_RATE, EVENT_KINDS, SOURCELESS_KINDS, Event, parse_event

__all__ = [
    "AS_LIST",
    "AS_MAPPING",
    "DIGEST_PATTERN",
    "ENVIRONMENT_PATTERN",
    "FILE_NAME_PATTERN",
    "METRIC_PATTERN",
    "NATIVE_PATTERN",
    "PACKAGE_PATTERN",
    "SHORTEST_INTERVAL_NS",
    "TEXT_PATTERN",
    "UNION_TAGS",
    "CacheFields",
    "CompilerFields",
    "Compilers",
    "Derived",
    "Digest",
    "EventFields",
    "FileName",
    "Frozen",
    "HardwareMetric",
    "Interval",
    "IntervalValue",
    "ListOf",
    "MachineFields",
    "MetricName",
    "OsMetric",
    "PackageName",
    "ProbeFields",
    "PythonFields",
    "Records",
    "Section",
    "Simulator",
    "Software",
    "Text",
    "TimeSpan",
    "VariableName",
    "reading",
]

SHORTEST_INTERVAL_NS = 1_000_000
METRIC_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
FILE_NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
ENVIRONMENT_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
DIGEST_PATTERN = "^sha256:[0-9a-f]{64}$"
PACKAGE_PATTERN = "^(upstream:)?[a-z0-9][a-z0-9+.-]+$"
TEXT_PATTERN = r"\S"
NATIVE_PATTERN = r"^[^\s:]+::\S+$"

_AS_TEXT, AS_MAPPING, AS_LIST = "<text>", "<mapping>", "<list>"
UNION_TAGS = frozenset({_AS_TEXT, AS_MAPPING, AS_LIST})
"""What pydantic adds to the path of a value that may be a text, a list or a mapping."""


class Section(BaseModel):
    """A mapping of the spec: immutable, strict, without unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


Text = Annotated[str, StringConstraints(pattern=TEXT_PATTERN)]
MetricName = Annotated[str, StringConstraints(pattern=METRIC_PATTERN)]
FileName = Annotated[str, StringConstraints(pattern=FILE_NAME_PATTERN)]
PackageName = Annotated[str, StringConstraints(pattern=PACKAGE_PATTERN)]
VariableName = Annotated[str, StringConstraints(pattern=ENVIRONMENT_PATTERN)]
HardwareMetric = Annotated[
    Text, WithJsonSchema({"anyOf": [{"enum": list(PRESETS)}, {"type": "string", "pattern": NATIVE_PATTERN}]})
]
OsMetric = Annotated[Text, WithJsonSchema({"enum": list(OS_METRICS)})]
ListOf = Strict(False)
"""Marks a tuple: YAML has lists only."""
Frozen = AfterValidator(MappingProxyType)
"""Marks a mapping: nobody changes it afterwards."""


def reading(source: Any, convert: Callable[[Any], Any]) -> GetPydanticSchema:
    """Read YAML as type `source`, then convert; the JSON Schema is that of `source`."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(convert, handler.generate_schema(source))
    )


def _choose(value: Any) -> str:
    return AS_MAPPING if isinstance(value, dict) else _AS_TEXT


TimeSpan = Annotated[
    Duration,
    PlainValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["500 us", "10 ms", "1.5 s", "2 min", "1 h"]}),
]
_SizeInBytes = Annotated[
    int, PlainValidator(parse_size), WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["64 B", "32 KiB"]})
]


@dataclass(frozen=True)
class Interval:
    """How long an interval lasts, or how many of them a run shall have; exactly one is given."""

    nanoseconds: int | None = None
    records: int | None = None

    def __str__(self) -> str:
        """Return the form that a spec has."""
        return str(Duration(self.nanoseconds)) if self.nanoseconds is not None else f"{{records: {self.records}}}"


class Records(Section):
    """A number of intervals, instead of their length."""

    records: int = Field(
        ge=30,
        le=10_000_000,
        description="Intervals that a run shall have. A pilot run picks the duration for this host and source.",
        examples=[3000],
    )


def _to_interval(value: Duration | Records) -> Interval:
    if isinstance(value, Records):
        return Interval(records=value.records)
    if value.ns < SHORTEST_INTERVAL_NS:
        raise ValueError(
            f"an interval of {value} is too short, 1 ms is the least: a sample itself takes the program some 10 us"
        )
    return Interval(nanoseconds=value.ns)


_TextOrRecords = Annotated[Annotated[TimeSpan, Tag(_AS_TEXT)] | Annotated[Records, Tag(AS_MAPPING)], Discriminator(_choose)]
IntervalValue = Annotated[Interval, reading(_TextOrRecords, _to_interval)]


class CacheFields(Section):
    """A cache; the same as the text `32 KiB 8-way 64 B`."""

    size: _SizeInBytes = Field(description="Size of the whole cache.")
    ways: int = Field(ge=1, le=9999, description="Associativity.", examples=[8])
    line: _SizeInBytes = Field(description="Size of a line.")


def _to_cache(value: Cache | CacheFields) -> Cache:
    return value if isinstance(value, Cache) else check_cache(Cache(value.size, value.ways, value.line))


_CacheText = Annotated[
    Cache,
    PlainValidator(parse_cache),
    WithJsonSchema({"type": "string", "pattern": CACHE_PATTERN, "examples": ["32 KiB 8-way 64 B"]}),
]
_TextOrFields = Annotated[
    Annotated[_CacheText, Tag(_AS_TEXT)] | Annotated[CacheFields, Tag(AS_MAPPING)], Discriminator(_choose)
]
_CacheValue = Annotated[Cache, reading(_TextOrFields, _to_cache)]


def _cache(of: Callable[[Machine], Cache], description: str) -> Any:
    default = of(Machine())
    return Field(default_factory=lambda: default, description=description, json_schema_extra={"default": format_cache(default)})


class MachineFields(Section):
    """The machine that the simulated source simulates: its caches, each by size, ways and line."""

    I1: _CacheValue = _cache(lambda machine: machine.i1, "First-level instruction cache.")
    D1: _CacheValue = _cache(lambda machine: machine.d1, "First-level data cache.")
    LL: _CacheValue = _cache(lambda machine: machine.ll, "Last-level cache. It stands for PAPI's L2 and L3 presets.")


Simulator = Annotated[Machine, reading(MachineFields, lambda fields: Machine(fields.I1, fields.D1, fields.LL))]


class CompilerFields(Section):
    """The compilers that {cc} and {cxx} call after instrumenting the source."""

    cc: Text = Field(default="gcc", description="C compiler.", examples=["gcc", "clang"])
    cxx: Text = Field(default="g++", description="C++ compiler.", examples=["g++", "clang++"])


Compilers = Annotated[
    Mapping[str, str], reading(CompilerFields, lambda fields: MappingProxyType({"cc": fields.cc, "cxx": fields.cxx}))
]


def _counts(kind: str) -> str:
    return f"{EVENT_KINDS[kind][:1].upper()}{EVENT_KINDS[kind][1:]}."


def _to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_TextOrNumber = Annotated[Text, BeforeValidator(_to_text), WithJsonSchema({"type": ["string", "integer"]})]


def _counts_without_source(kind: str) -> str:
    return f"{SOURCELESS_KINDS[kind][:1].upper()}{SOURCELESS_KINDS[kind][1:]}."


class ProbeFields(Section):
    """A probe of the kernel, in a binary that need not be built here. One hit costs the program about a microsecond."""

    uprobe: Text | None = Field(default=None, description=_counts_without_source("uprobe"), examples=["xz:lzma_code"])
    usdt: Text | None = Field(
        default=None, description=_counts_without_source("usdt"), examples=["libstdc++.so.6:libstdcxx:throw"]
    )
    max_rate: int = Field(
        default=DEFAULT_MAX_RATE,
        ge=1,
        description="Hits a second, above which the campaign is refused after a rehearsal. At a microsecond a hit, 10000 take one "
        "hundredth of the run's time; where a hit costs more on this host, the default is as much less.",
    )


class PythonFields(Section):
    """An event of a program that is written in Python."""

    enter: Text = Field(description=_counts_without_source("python"), examples=["json.decoder.JSONDecoder.decode"])


class EventFields(Section):
    """What a software metric counts: an event named by one of the first eleven keys; the others narrow or weight it."""

    enter: Text | None = Field(default=None, description=_counts("enter"), examples=["compress_block"])
    call: Text | None = Field(default=None, description=_counts("call"), examples=["compare"])
    write: Text | None = Field(default=None, description=_counts("write"), examples=["Stack.depth"])
    loop: Text | None = Field(default=None, description=_counts("loop"), examples=["sort#1"])
    line: Text | None = Field(default=None, description=_counts("line"), examples=["compress.c:170"])
    label: Text | None = Field(default=None, description=_counts("label"), examples=["decode::finish"])
    return_: Text | None = Field(default=None, alias="return", description=_counts("return"), examples=["search"])
    gauge: Text | None = Field(default=None, description=_counts("gauge"), examples=["server.c::queue.length"])
    probe: ProbeFields | None = Field(
        default=None, description="An event that the kernel counts in a binary, without its source."
    )
    preload: Text | None = Field(default=None, description=_counts_without_source("preload"), examples=["malloc"])
    python: PythonFields | None = Field(default=None, description="An event of a program that is written in Python.")
    in_: Text | None = Field(
        default=None,
        alias="in",
        description="Only inside functions of this name (with call and write); globs too.",
        examples=["sort_*"],
    )
    file: Text | None = Field(default=None, description="Only in source files of this name; globs too.", examples=["*.c"])
    add: _TextOrNumber | None = Field(
        default=None,
        description="Add the value of this C expression, taken just before the event, instead of 1.",
        examples=["n"],
    )
    threads: Literal["plain", "exact"] = Field(
        default="plain",
        description="What happens where several threads count at one place at once: `plain` loses some counts, `exact` none, at about ten "
        "times the cost of an event.",
    )


def _to_event(fields: EventFields) -> Event:
    try:
        return parse_event(fields.model_dump(by_alias=True, exclude_none=True, exclude_unset=True))
    except SpecError as error:
        raise ValueError(str(error)) from None


Software = Annotated[Event, reading(EventFields, _to_event)]


def _to_expression(text: str) -> Expression:
    try:
        return parse_expression(text)
    except SpecError as error:
        raise ValueError(str(error)) from None


Derived = Annotated[Expression, reading(Text, _to_expression)]
Digest = Annotated[
    str, reading(Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)], lambda text: text.removeprefix("sha256:"))
]
