"""Durations, sizes and caches with their units."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors.sources.callgrind import Cache
from unperturbed.common.wording import listing
from unperturbed.harness.spec.quantities import (
    CACHE_PATTERN,
    DURATION_PATTERN,
    DURATION_UNITS,
    SIZE_PATTERN,
    SIZE_UNITS,
    Duration,
    format_cache,
    format_size,
    parse_cache,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1 ns", 1),
        ("500 us", 500_000),
        ("500us", 500_000),
        ("500 µs", 500_000),
        ("500 μs", 500_000),
        ("10 ms", 10_000_000),
        ("1.5 s", 1_500_000_000),
        ("2 min", 120_000_000_000),
        ("1 h", 3_600_000_000_000),
        ("0.1 s", 100_000_000),
        ("0.0000001 s", 100),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text) == Duration(ns)
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    ("ns", "text", "seconds"),
    [
        (1, "1 ns", 1e-9),
        (1500, "1500 ns", 1.5e-6),
        (20_000_000, "20 ms", 0.02),
        (90_000_000_000, "90 s", 90.0),
        (120_000_000_000, "2 min", 120.0),
        (7_200_000_000_000, "2 h", 7200.0),
    ],
)
def test_durations_are_shown_in_the_largest_whole_unit(ns: int, text: str, seconds: float) -> None:
    assert str(Duration(ns)) == text
    assert Duration(ns).seconds == seconds


@given(st.integers(1, 10**15))
def test_a_shown_duration_reads_back(ns: int) -> None:
    assert parse_duration(str(Duration(ns))) == Duration(ns)


def test_durations_compare() -> None:
    assert parse_duration("1 s") < parse_duration("1 min")


_FORMS = "write a number with its unit, such as `500 us`, `10 ms`, `1.5 s`, `2 min` or `1 h`"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (10, f"`10` has no unit; {_FORMS}"),
        (1.5, f"`1.5` has no unit; {_FORMS}"),
        ("10", f"`10` has no unit; {_FORMS}"),
        (True, f"`true` is not a duration; {_FORMS}"),
        (None, f"`None` is not a duration; {_FORMS}"),
        (["10 ms"], f"`[…]` is not a duration; {_FORMS}"),
        ({"a": 1}, f"`{{…}}` is not a duration; {_FORMS}"),
        ("", f"`` is not a duration; {_FORMS}"),
        ("ten ms", f"`ten ms` is not a duration; {_FORMS}"),
        ("-1 ms", f"`-1 ms` is not a duration; {_FORMS}"),
        ("1e3 ms", f"`1e3 ms` is not a duration; {_FORMS}"),
        ("10 ms 5 us", f"`10 ms 5 us` is not a duration; {_FORMS}"),
        ("٣ ms", f"`٣ ms` is not a duration; {_FORMS}"),
        ("x" * 100, f"`{'x' * 60}…` is not a duration; {_FORMS}"),
        ("0 s", "`0 s` is shorter than 1 ns: write a longer time"),
        ("0.1 ns", "`0.1 ns` is shorter than 1 ns: write a longer time"),
        ("10 sec", f"`sec` is not a unit for a duration: use {listing(DURATION_UNITS, 'or')}"),
        ("10 KiB", f"`KiB` is not a unit for a duration: use {listing(DURATION_UNITS, 'or')}"),
        ("9000 h", "`9000 h` is longer than a year: write a shorter time"),
    ],
)
def test_what_is_no_duration(value: object, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 B", 64),
        ("32 KiB", 32768),
        ("32KiB", 32768),
        ("1 kB", 1000),
        ("1.5 MB", 1_500_000),
        ("1 MiB", 1 << 20),
        ("2 GiB", 2 << 30),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert re.search(SIZE_PATTERN, text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (64, "`64` has no unit; write a number with its unit, such as `64 B`, `32 KiB` or `1 MB`"),
        ("1.5 B", "`1.5 B` is not a positive whole number of bytes: write one, such as `64 B` or `32 KiB`"),
        ("0 B", "`0 B` is not a positive whole number of bytes: write one, such as `64 B` or `32 KiB`"),
        ("1 k", f"`k` is not a unit for a size: use {listing(SIZE_UNITS, 'or')}"),
    ],
)
def test_what_is_no_size(value: object, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        parse_size(value)


@given(st.integers(1, 1 << 40))
def test_a_shown_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_caches() -> None:
    cache = parse_cache("32 KiB 8-way 64 B")
    assert cache == Cache(32768, 8, 64)
    assert format_cache(cache) == "32 KiB 8-way 64 B"
    assert parse_cache("48KiB 12-way 64B") == Cache(49152, 12, 64)
    assert re.search(CACHE_PATTERN, "48KiB 12-way 64B")


_CACHE_FORMS = "write `32 KiB 8-way 64 B` (size, ways, line), or a mapping `{size: 32 KiB, ways: 8, line: 64 B}`"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("32 KiB", f"`32 KiB` is not a cache; {_CACHE_FORMS}"),
        (32768, f"`32768` is not a cache; {_CACHE_FORMS}"),
        ("32 KiB 8 64 B", f"`32 KiB 8 64 B` is not a cache; {_CACHE_FORMS}"),
        ("32 8-way 64 B", "`32` has no unit; write a number with its unit, such as `64 B`, `32 KiB` or `1 MB`"),
        ("32 KiB 0-way 64 B", "a cache needs at least 1 way"),
        ("32 KiB 8-way 16 B", "cannot simulate a cache line of 16 B: use a power of two, at least 32 B"),
        ("33 KiB 8-way 96 B", "cannot simulate a cache line of 96 B: use a power of two, at least 32 B"),
        (
            "64 B 1-way 64 B",
            "a cache of 64 B cannot have 1 way with lines of 64 B: the size must be a multiple of ways × line, and "
            "larger than one line",
        ),
        (
            "1000 B 2-way 64 B",
            "a cache of 1000 B cannot have 2 ways with lines of 64 B: the size must be a multiple of ways × line, and "
            "larger than one line",
        ),
        (
            "48 KiB 8-way 64 B",
            "`48 KiB 8-way 64 B` has 96 sets (size / ways / line), but the simulator needs a power of two: use "
            "`32 KiB 8-way 64 B`",
        ),
    ],
)
def test_what_is_no_cache(value: object, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        parse_cache(value)


@given(st.text(max_size=30) | st.from_regex(CACHE_PATTERN, fullmatch=True) | st.integers() | st.floats() | st.none())
def test_any_value_is_a_quantity_or_a_value_error(value: object) -> None:
    for parse in (parse_duration, parse_size, parse_cache):
        try:
            parse(value)
        except ValueError as error:
            assert str(error)
