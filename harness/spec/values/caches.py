"""Caches of the simulated machine as a spec writes them: `32 KiB 8-way 64 B`, or a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from unperturbed.collectors.sources.callgrind import Cache, Machine
from unperturbed.harness.spec.model import AS_MAPPING, AS_TEXT, Section, reading, text_or_mapping
from unperturbed.harness.spec.values.quantities import SIZE_PATTERN, SizeInBytes, format_size, parse_size, shorten

_SIZE = SIZE_PATTERN.strip("^$")
CACHE_PATTERN = f"^{_SIZE} [0-9]{{1,4}}-way {_SIZE}$"

_CACHE_FORMS = "write `32 KiB 8-way 64 B` (size, ways, line), or a mapping {size: 32 KiB, ways: 8, line: 64 B}"
_SMALLEST_LINE = 32
"""The simulator refuses lines shorter than the widest register, 32 bytes on x86-64."""


def parse_cache(value: object) -> Cache:
    """Read a cache, such as `32 KiB 8-way 64 B`."""
    parts = re.fullmatch(r"(.+?) ([0-9]{1,4})-way (.+)", value) if isinstance(value, str) else None
    if parts is None:
        raise ValueError(f"`{shorten(value)}` is not a cache; {_CACHE_FORMS}")
    return check_cache(Cache(size=parse_size(parts[1]), ways=int(parts[2]), line=parse_size(parts[3])))


def check_cache(cache: Cache) -> Cache:
    """Return the cache if the simulator can simulate it."""
    line = format_size(cache.line)
    if cache.line < _SMALLEST_LINE or cache.line & (cache.line - 1):
        raise ValueError(f"a cache line of {line} cannot be simulated: a power of two from {_SMALLEST_LINE} B on can")
    if cache.ways < 1:
        raise ValueError("a cache has at least 1 way")
    way = cache.ways * cache.line
    if cache.size <= cache.line or cache.size % way:
        raise ValueError(
            f"{format_size(cache.size)} does not consist of {cache.ways} ways of {line} lines: the size must be a "
            "multiple of ways × line, and more than one line"
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


class CacheFields(Section):
    """A cache; the same as the text `32 KiB 8-way 64 B`."""

    size: SizeInBytes = Field(description="Size of the whole cache.")
    ways: int = Field(ge=1, le=9999, description="Associativity.", examples=[8])
    line: SizeInBytes = Field(description="Size of a line.")


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


def _cache(of: Callable[[Machine], Cache], description: str) -> Any:
    default = of(Machine())
    return Field(
        default_factory=lambda: default, description=description, json_schema_extra={"default": format_cache(default)}
    )


class MachineFields(Section):
    """The machine that the simulated source simulates: its caches, each by size, ways and line."""

    I1: _CacheValue = _cache(lambda machine: machine.i1, "First-level instruction cache.")
    D1: _CacheValue = _cache(lambda machine: machine.d1, "First-level data cache.")
    LL: _CacheValue = _cache(
        lambda machine: machine.ll, "Last-level cache. PAPI's L2 and L3 presets are counted there."
    )


Simulator = Annotated[Machine, reading(MachineFields, lambda fields: Machine(fields.I1, fields.D1, fields.LL))]
