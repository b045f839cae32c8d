"""What the text of a column means: numbers with units and separators of thousands, dates, categories, missing values.

The marks of a missing value are those that UCI's tables, spreadsheets, R, pandas and perf write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import polars as pl

What = Literal["numbers", "categories", "dates", "nothing"]
Comma = Literal["decimal", "thousands"]
"""What a comma in a number means."""

_ALWAYS = (
    *("", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "null", "NULL", "None", "nan", "NaN", "NAN", "NaT"),
    *("<not counted>", "<not supported>", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?", "#NULL!"),
)
"""Marks of a missing value, in a column of text too."""
_AMONG_NUMBERS = ("*", "**", "-", "--", "---", "–", "—", ".", "..", "na", "n.a.", "nil", "none", "missing", "unknown")
"""Words that mark a missing value among numbers; in a column of text, they may be a category."""
MARKS = frozenset(mark.casefold() for mark in (*_ALWAYS, *_AMONG_NUMBERS))
"""Every mark of a missing value among numbers, in lower case."""
_NEARLY_ALL, _ENOUGH = 0.9, 5
"""Share of the values, and their number, above which a column holds numbers although other words occur."""
_WORDS_NAMED = 5
_SAMPLE = 200

_SPACES = " \u00a0\u2009\u202f'’_"
"""Signs that separate thousands and nothing else."""
_BODY = rf"[+\-−]?(?:\d[\d.,{_SPACES}]*|[.,]\d+)(?:(?:[eE][+-]?)\d+)?"
_CURRENCY = "[$€£¥]"
_UNIT = r"[A-Za-zµμΩ%‰°][A-Za-zµμΩ%‰°/·²³^]{0,11}"
_NUMBER = rf"^({_CURRENCY})?\s*({_BODY})\s*({_CURRENCY}|{_UNIT})?$"
_BY_SPACES = rf"^[+-]?\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?$"
_BY_COMMAS = r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$"
_BY_DOTS, _BY_MORE_DOTS = (rf"^[+-]?\d{{1,3}}(?:\.\d{{3}}){{{least},}}(?:,\d+)?$" for least in (1, 2))
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_SURELY_DECIMAL = (
    rf"^[+-]?(?:\d*,(?:\d{{1,2}}|\d{{4,}}){_EXPONENT}|0\d*,\d+|\d{{4,}},\d+|\d{{1,3}}(?:\.\d{{3}})+,\d+|\d+,\d+[eE].*)$"
)
_SURELY_THOUSANDS = r"^[+-]?\d{1,3}(?:,\d{3})+\.\d+$|^[+-]?\d{1,3}(?:,\d{3}){2,}$"
_GROUPED, _SMALL = r"^[+-]?[1-9]\d{0,2},\d{3}$", r"^[+-]?\d{1,3}$"
_SURELY_POINT = rf"^[+-]?(?:\d*\.(?:\d{{1,2}}|\d{{4,}})|0\d*\.\d+){_EXPONENT}$"
_NUMBER_OF_A_CELL = re.compile(_NUMBER)

_BYTES = {"B": 1.0, "byte": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_BYTES |= {f"{sign}i{end}": 1024.0**power for power, sign in enumerate("KMGT", 1) for end in ("B", "")}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
_TIMES |= {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "secs": 1.0, "second": 1.0, "seconds": 1.0, "hours": 3600.0}
_TIMES |= {"mins": 60.0, "minute": 60.0, "minutes": 60.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "d": 86400.0}
TIMES_NS = {unit: round(seconds * 1e9) for unit, seconds in _TIMES.items()}
_HERTZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
_COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SUMS = {**_COUNTS, "m": 1e6, "MM": 1e6, "bn": 1e9, "B": 1e9}
"""Multiples of a currency: `$1.2B` is a billion."""
_DIMENSIONS: tuple[tuple[str, Mapping[str, float]], ...] = (
    *(("B", _BYTES), ("s", _TIMES), ("Hz", _HERTZ), ("", _COUNTS)),
    ("B/s", {f"{unit}/s": factor for unit, factor in _BYTES.items()}),
    *((sign, {f"{sign}{end}": factor for end, factor in _SUMS.items()}) for sign in "$€£¥"),
)
"""Base unit and the factors of the units that one column may mix."""
UNITS = frozenset(unit for _, factors in _DIMENSIONS for unit in factors) | {
    "%",
    "W",
    "J",
    "V",
    "A",
    "°C",
    "C",
    "1",
    "-",
}
"""Units that a line below the names usually has."""

_DATE = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}(?:\1\d{1,2})?|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"
    r"|\d{1,2}[- ][A-Za-z]{3}[- ](?:\d{4}|\d{2})|[A-Za-z]{3,9} \d{1,2}, \d{4})"
    r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?"
)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?")
_YEARS_FIRST = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d")
_DAYS_FIRST = ("%d.%m.%Y", "%d.%m.%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %b %y", "%b %d, %Y", "%B %d, %Y")
_EITHER_FIRST = ("%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%m-%d-%Y", "%d-%m-%Y", "%m-%d-%y", "%d-%m-%y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S%.f", " %I:%M %p", " %I:%M:%S%.f %p", " %H:%M%z", " %H:%M:%S%.f%z")
_EARLIEST_YEAR = 1000
"""A year below has two digits: `%Y` would read 99 as the year 99."""
_MICROSECONDS = 1_000_000
_EXACT = 2.0**53


@dataclass(frozen=True)
class ColumnReading:
    """What a column of a table was read as."""

    name: str
    what: What
    detail: str = ""  # Unit of numbers, or what the numbers of dates count
    levels: int = 0  # Number of categories
    missing: Mapping[str, int] = field(default_factory=dict)  # For each mark of a missing value, its rows; "" is blank
    # Words among numbers that are in no list of marks: of numbers, they are missing; of categories, a minority
    words: Mapping[str, int] = field(default_factory=dict)


def is_value(cell: str) -> bool:
    """Return whether a cell holds a number, with or without a unit, or a date."""
    return bool(_NUMBER_OF_A_CELL.match(cell) or _DATE.fullmatch(cell) or _TIME_OF_DAY.fullmatch(cell))


def kind_of_value(cell: str) -> str:
    """Return the unit of a number, "date" for a date or time, and an empty text for a number without unit."""
    found = _NUMBER_OF_A_CELL.match(cell)
    return (found[1] or found[3] or "") if found else "date"


def is_mark(cell: str) -> bool:
    """Return whether a cell marks a missing value among numbers."""
    return cell.casefold() in MARKS


def read_columns(
    frame: pl.DataFrame, *, texts: Iterable[str] = (), separator: str = ","
) -> tuple[pl.DataFrame, tuple[ColumnReading, ...]]:
    """Return a table whose text is read as numbers, dates or categories, and what each column was read as.

    A column of `texts` stays text if any of its values is neither a number nor a mark. Commas of numbers mean what they
    mean in the rest of the table; where nothing decides, they are decimal in tables separated by semicolons.
    """
    stripped = {column.name: _stripped(column) for column in frame if column.dtype == pl.String}
    own = {name: _comma(text) for name, text in stripped.items()}
    usual = _usual(own.values(), stripped.values(), separator)
    kept = set(texts)
    series, readings = [], []
    for column in frame:
        if column.name in stripped:
            text = stripped[column.name]
            comma = own[column.name] or _likely_comma(text) or usual
            read, reading = _read_text(text, comma, as_text=column.name in kept)
            if reading.what == "numbers" and not own[column.name]:
                reading = replace(reading, detail=", ".join(filter(None, (reading.detail, _guess(text, comma)))))
        else:
            read, reading = _read_typed(column)
        series.append(read)
        readings.append(reading)
    return pl.DataFrame(series), tuple(readings)


def usual_comma(frame: pl.DataFrame, separator: str) -> Comma:
    """Return what commas of numbers mean in columns that do not show it: what they mean in the rest of the table."""
    texts = [_stripped(column) for column in frame if column.dtype == pl.String]
    return _usual(map(_comma, texts), texts, separator)


def _usual(found: Iterable[Comma | None], texts: Iterable[pl.Series], separator: str) -> Comma:
    """Return what commas mean where a column does not show it; `found`: what columns show, `texts`: the columns."""
    shown = {comma for comma in found if comma}
    if len(shown) == 1:
        return shown.pop()
    if separator != ";":
        return "thousands"
    points = not shown and any(bool(text.str.extract(_NUMBER, 2).str.contains(_SURELY_POINT).any()) for text in texts)
    return "thousands" if points else "decimal"


def _likely_comma(text: pl.Series) -> Comma | None:
    """Return "thousands" if all numbers of a column from 1,000 on have a comma, and none below has; else None."""
    if not bool(text.str.contains(",", literal=True).any()):
        return None
    bodies = text.str.extract(_NUMBER, 2).drop_nulls()
    large, small = (bodies.str.contains(form) for form in (_GROUPED, _SMALL))
    return "thousands" if large.any() and small.any() and bool((large | small).all()) else None


def _guess(text: pl.Series, comma: Comma) -> str:
    """Return what commas were read as in a column that does not show it; empty if it has none."""
    if not bool(text.str.contains(r"\d,\d").any()):
        return ""
    return "commas as decimal signs" if comma == "decimal" else "commas between thousands"


class Numbers(NamedTuple):
    """Numbers of a column of text."""

    values: pl.Series  # Null where a cell has no number; whole numbers above 2^53 keep all digits
    missing: pl.Series  # Whether each cell marks a missing value
    unit: str  # Of all cells
    guess: str  # What commas were read as, if the column does not show it


def read_numbers(column: pl.Series, *, comma: Comma = "thousands") -> Numbers:
    """Return the numbers of a column of text; `comma` decides if the column does not."""
    text = _stripped(column)
    own = _comma(text)
    given = text.fill_null("").str.to_lowercase().is_in(list(MARKS))
    likely = own or _likely_comma(text) or comma
    numbers, units = _numbers(text, likely)
    numbers = numbers.set(given, None)
    guess = "" if own else _guess(text, likely)
    scaled, unit = _one_unit(numbers, units)
    if scaled is None:
        return Numbers(numbers.set(units != "", None), given, "", guess)
    if scaled is numbers and bool((numbers.abs() >= _EXACT).any()):
        exact = _all_digits(text.set(given, None), likely)
        scaled = scaled if exact.null_count() > numbers.null_count() else exact
    return Numbers(scaled, given, unit, guess)


def _all_digits(text: pl.Series, comma: Comma) -> pl.Series:
    """Return whole numbers with separators of thousands and units as Int64, null where a cell is none."""
    sign = "," if comma == "thousands" else "."
    body = text.str.extract(_NUMBER, 2).str.strip_chars().str.replace("−", "-", literal=True)
    return body.str.replace_all(rf"[{_SPACES}{re.escape(sign)}]", "").cast(pl.Int64, strict=False)


def read_durations(column: pl.Series) -> tuple[pl.Series, pl.Series] | None:
    """Return the texts of a column without their units, and the ns of each unit; None if no cell has a unit.

    The ns are null where a unit is none of time, and 0 for a number without a unit.
    """
    if not bool(column.str.contains(r"\p{L}\s*$").any()):
        return None
    text = _stripped(column)
    unit = text.str.extract(r"(\p{L}+)$").fill_null("")
    factors = unit.replace_strict({"": 0, **TIMES_NS}, default=None, return_dtype=pl.Int64)
    return text.str.replace(r"\s*\p{L}+$", ""), factors


def _stripped(column: pl.Series) -> pl.Series:
    return column.str.strip_chars()


def _comma(text: pl.Series) -> Comma | None:
    """Return what commas in the numbers of a column mean; None if it has none, or if nothing decides."""
    commas = text.filter(text.str.contains(",", literal=True))
    if not len(commas):
        return None
    bodies = commas.str.extract(_NUMBER, 2).drop_nulls()
    decimal, thousands = (int(bodies.str.contains(sure).sum()) for sure in (_SURELY_DECIMAL, _SURELY_THOUSANDS))
    return None if not decimal and not thousands else "decimal" if decimal > thousands else "thousands"


def _numbers(text: pl.Series, comma: Comma) -> tuple[pl.Series, pl.Series]:
    """Return the numbers of cells, null where a cell is none, and the unit of each number.

    Dots separate thousands only in a column that has decimal commas, or two dots in a number.
    """
    plain = text.cast(pl.Float64, strict=False)
    pending = plain.is_null() & text.is_not_null()
    nothing = pl.Series([""], dtype=pl.String).new_from_index(0, len(text))
    dotted = comma == "decimal" and bool(text.str.contains(r"\d,\d").any())
    if not pending.any() and not dotted:
        return plain, nothing
    here = pl.DataFrame({"text": text}).with_row_index("row").filter(pending if not dotted else text.is_not_null())
    group = pl.col("text").str.extract_groups(_NUMBER)
    parts = here.select(
        "row",
        body=group.struct[1].str.strip_chars().str.replace("−", "-", literal=True),
        unit=pl.concat_str(group.struct[0], group.struct[2], ignore_nulls=True),  # `$537K` is not `$537`
    )
    body = pl.col("body")
    spaced = pl.when(body.str.contains(_BY_SPACES)).then(body.str.replace_all(f"[{_SPACES}]", "")).otherwise(body)
    if comma == "decimal":
        grouped = _BY_DOTS if dotted else _BY_MORE_DOTS
        whole = pl.when(spaced.str.contains(grouped)).then(spaced.str.replace_all(".", "", literal=True))
        tidy = whole.otherwise(spaced).str.replace(",", ".", literal=True)
    else:
        tidy = pl.when(spaced.str.contains(_BY_COMMAS)).then(spaced.str.replace_all(",", ""))
        tidy = tidy.when(spaced.str.contains(_BY_MORE_DOTS)).then(spaced.str.replace_all(".", "", literal=True))
        tidy = tidy.otherwise(spaced)
    parts = parts.with_columns(number=tidy.cast(pl.Float64, strict=False))
    rows = parts["row"]
    numbers = plain.clone().scatter(rows, parts["number"])
    return numbers, nothing.scatter(rows, parts["unit"])


def _read_text(text: pl.Series, comma: Comma, *, as_text: bool) -> tuple[pl.Series, ColumnReading]:
    name = text.name
    marked = text.fill_null("").str.to_lowercase().is_in(list(MARKS))
    given = len(text) - int(marked.sum())
    numbers, units = _numbers(text, comma)
    numbers = numbers.set(marked, None)
    others = int(numbers.is_null().sum()) - (len(text) - given)
    if given == 0:
        return text.set(text.is_not_null(), None), ColumnReading(name, "nothing", missing=_marks(text, marked))
    if _nearly_all(given - others, given) and not (as_text and others):
        scaled, unit = _one_unit(numbers, units)
        if scaled is not None:
            absent = scaled.is_null()
            words = _marks(text, absent & ~marked)
            whole = scaled.cast(pl.Int64, strict=False)
            if _is_whole(text, whole, scaled):
                scaled = whole
            return scaled.alias(name), ColumnReading(name, "numbers", unit, 0, _marks(text, absent), words)
    if not as_text and (dates := _dates(text, marked, given)) is not None:
        values, detail = dates
        absent = values.is_null()
        words = _marks(text, absent & ~marked)
        return values.alias(name), ColumnReading(name, "dates", detail, 0, _marks(text, absent), words)
    values, reading = _categories(text)
    if others and 2 * others <= given:
        reading = replace(reading, words=_marks(text, numbers.is_null() & ~marked))
    return values, reading


def _nearly_all(count: int, given: int) -> bool:
    return count == given or (count >= _NEARLY_ALL * given and count >= _ENOUGH)


def _is_whole(text: pl.Series, whole: pl.Series, numbers: pl.Series) -> bool:
    """Return whether all numbers are whole and were written so, as polars infers integers: 1.0 is no integer."""
    if bool((numbers != numbers.floor()).any()) or bool(text.str.contains(r"\d[.]\d|[eE]|inf").any()):
        return False
    return whole.null_count() == numbers.null_count() and bool((numbers.abs() < 2**53).all())


def _marks(text: pl.Series, absent: pl.Series) -> dict[str, int]:
    """Return how many rows have each text among those that are absent, the most frequent first."""
    if not absent.any():
        return {}
    marks = text.filter(absent).fill_null("").alias("mark")  # the column may itself be named `rows`
    return dict(marks.value_counts(name="rows").sort("rows", "mark", descending=[True, False]).rows())


def _one_unit(numbers: pl.Series, units: pl.Series) -> tuple[pl.Series | None, str]:
    """Return numbers in one unit, and that unit; None if their units differ and none converts into another."""
    present = numbers.is_not_null()
    used = units.filter(present & (numbers != 0)).unique().to_list()
    used = used or units.filter(present).unique().to_list()
    if len(used) == 1:
        return numbers, used[0]
    for base, factors in _DIMENSIONS:
        if set(used) <= factors.keys():
            scale = units.replace_strict(factors, default=1.0, return_dtype=pl.Float64)
            return numbers * scale, base
    return None, ""


def _categories(text: pl.Series) -> tuple[pl.Series, ColumnReading]:
    absent = text.fill_null("").is_in(list(_ALWAYS))
    missing = _marks(text, absent)
    text = text.set(absent, None)
    folded = text.str.to_lowercase()
    if bool(folded.is_in(["true", "false"]).all()):
        truth = (folded == "true").alias(text.name)
        return truth, ColumnReading(text.name, "categories", "", truth.drop_nulls().n_unique(), missing)
    return text, ColumnReading(text.name, "categories", "", text.drop_nulls().n_unique(), missing)


def _read_typed(column: pl.Series) -> tuple[pl.Series, ColumnReading]:
    """Return a column that already has a type: dates become numbers, everything else stays."""
    name, dtype = column.name, column.dtype
    missing = {"": column.null_count()} if column.null_count() else {}
    if column.null_count() == len(column):
        return column, ColumnReading(name, "nothing", missing=missing)
    if dtype.is_float():
        nan, infinite = (int(part.sum() or 0) for part in (column.is_nan(), column.is_infinite()))
        missing |= ({"NaN": nan} if nan else {}) | ({"infinite": infinite} if infinite else {})
    if dtype.is_temporal():
        values, detail = _read_times(column)
        return values, ColumnReading(name, "dates", detail, 0, missing)
    if dtype.is_numeric():
        return column, ColumnReading(name, "numbers", "", 0, missing)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        return column, ColumnReading(name, "nothing", str(dtype).partition("(")[0].lower(), 0, missing)
    return column, ColumnReading(name, "categories", "", column.drop_nulls().n_unique(), missing)


def _read_times(column: pl.Series) -> tuple[pl.Series, str]:
    """Return the numbers of a column of dates, times or durations, and what they count."""
    if column.dtype == pl.Duration:
        return column.dt.total_microseconds() / _MICROSECONDS, "seconds"
    if column.dtype == pl.Time:
        return _seconds_of_day(column), "seconds since midnight"
    return _since_the_first(column.cast(pl.Datetime("us")))


def _dates(text: pl.Series, marked: pl.Series, given: int) -> tuple[pl.Series, str] | None:
    """Return the dates or times of a column as numbers, and what these count; None if they are no dates."""
    if (found := _moments(text.set(marked, None), given)) is None:
        return None
    moments, order = found
    values, detail = _read_times(moments)
    return values, f"{detail}{order}"


def read_moments(column: pl.Series) -> pl.Series | None:
    """Return the dates and times of a column, in UTC, or its times of day; None if the column has no such values."""
    if column.dtype != pl.String:
        return column if column.dtype.is_temporal() and column.dtype != pl.Duration else None
    text = _stripped(column)
    text = text.set(text.fill_null("").str.to_lowercase().is_in(list(MARKS)), None)
    given = len(text) - text.null_count()
    found = _moments(text, given) if given else None
    return None if found is None else found[0]


def _moments(text: pl.Series, given: int) -> tuple[pl.Series, str] | None:
    """Return dates and times, or times of day, and a remark on the order of day and month; None if they are neither."""
    sample = text.drop_nulls().unique(maintain_order=True).head(_SAMPLE).to_list()
    if _nearly_all(sum(bool(_TIME_OF_DAY.fullmatch(cell)) for cell in sample), len(sample)):
        times = text.str.replace(",", ".", literal=True).str.to_time("%H:%M:%S%.f", strict=False)
        return (times, "") if _nearly_all(len(times) - times.null_count(), given) else None
    if not _nearly_all(sum(bool(_DATE.fullmatch(cell)) for cell in sample), len(sample)):
        return None
    tidy = text.str.replace(r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2})T", "${1} ").str.replace(r" ?(?:Z|UTC)$", "+0000")
    tidy = tidy.str.replace(r" ([+-]\d{2}:?\d{2})$", "${1}").str.replace(r"(:\d{2}),(\d)", "${1}.${2}")
    tidy = tidy.str.replace(r"^(\d{4})[-/.](\d{1,2})$", "${1}-${2}-01")
    few = tidy.drop_nulls().unique(maintain_order=True).head(_SAMPLE)
    for day in (*_YEARS_FIRST, *_DAYS_FIRST, *_EITHER_FIRST):
        for clock in _CLOCKS:
            if not _nearly_all(len(few) - _parsed(few, day + clock).null_count(), len(few)):
                continue
            moments = _parsed(tidy, day + clock)
            if not _nearly_all(len(moments) - moments.null_count(), given):
                continue
            if (
                day not in _EITHER_FIRST
                or (swapped := _parsed(tidy, day.translate(_SWAP) + clock)).null_count() > moments.null_count()
            ):
                return moments, ""
            month_first = day.startswith("%m")
            if _is_likelier(swapped.drop_nulls(), moments.drop_nulls()):
                moments, month_first = swapped, not month_first
            return moments, f", the {'month' if month_first else 'day'} read first"
    return None


def _is_likelier(one: pl.Series, other: pl.Series) -> bool:
    """Return whether the first of two readings of dates is likelier: rows are in order of time, or a month apart."""
    if one.is_sorted() != other.is_sorted():
        return one.is_sorted()
    return one.dt.day().n_unique() == 1 < other.dt.day().n_unique()


def _parsed(text: pl.Series, form: str) -> pl.Series:
    moments = text.str.to_datetime(form, strict=False, time_unit="us")
    if moments.dtype != pl.Datetime("us"):
        moments = moments.dt.replace_time_zone(None)
    if "%y" in form:
        moments = _within_a_century(moments)
    return moments.set((moments.dt.year() < _EARLIEST_YEAR).fill_null(value=False), None)


def _within_a_century(moments: pl.Series) -> pl.Series:
    """Return dates with two digits for the year in the 100 years that begin after the widest gap between their years.

    polars reads 69 as 2069 and 70 as 1970: dates from 1962 to 2006 would begin in 1970 and end in 2069.
    """
    years = moments.dt.year().drop_nulls().unique().sort().to_list()
    if len(years) < 2:
        return moments
    width, first = max((late - soon, late) for soon, late in pairwise(years))
    if width <= years[0] + 100 - years[-1]:
        return moments
    early = (moments.dt.year() >= first).fill_null(value=False)
    return moments.dt.offset_by("-100y").zip_with(early, moments)


_SWAP = str.maketrans("md", "dm")


def _seconds_of_day(times: pl.Series) -> pl.Series:
    return times.cast(pl.Int64) // 1000 / _MICROSECONDS


def _since_the_first(moments: pl.Series) -> tuple[pl.Series, str]:
    """Return days since the earliest moment if all are days, else seconds, and which of the two."""
    since = moments.cast(pl.Int64)
    days = bool((since.drop_nulls() % (86_400 * _MICROSECONDS) == 0).all())
    passed = since - since.min()
    first = pl.Series([since.min()], dtype=pl.Int64).cast(pl.Datetime("us")).dt
    if days:
        return passed // (86_400 * _MICROSECONDS), f"days since {first.strftime('%Y-%m-%d')[0]}"
    return passed / _MICROSECONDS, f"seconds since {first.strftime('%Y-%m-%d %H:%M:%S')[0]}"


def describe(name: str, readings: Iterable[ColumnReading]) -> tuple[str, ...]:
    """Return lines on what the columns were read as, and which values are missing by which mark."""
    columns = list(readings)
    lines = []
    numbers = [_with(column.name, column.detail) for column in columns if column.what == "numbers"]
    categories = [_with(column.name, f"{column.levels:,}") for column in columns if column.what == "categories"]
    dates = [_with(column.name, column.detail) for column in columns if column.what == "dates"]
    nothing = [_with(column.name, column.detail) for column in columns if column.what == "nothing"]
    for what, names in (
        ("numbers", numbers),
        ("categories (how many)", categories),
        ("dates and times as numbers", dates),
        ("without a usable value", nothing),
    ):
        if names:
            lines.append(f"{what}: {_several(names)}")
    gaps = [f"{column.name}: {missing_of(column)}" for column in columns if column.missing and column.what != "nothing"]
    if gaps:
        lines.append(f"missing values: {_several(gaps, '; ')}")
    for what, foreign in (("categories, although most values are numbers", True), (_TAKEN, False)):
        words = [
            f"{', '.join(map(repr, list(column.words)[:_WORDS_NAMED]))} in {column.name}"
            for column in columns
            if column.words and (column.what == "categories") == foreign
        ]
        if words:
            lines.append(f"{what}: {_several(words, '; ')}" + ("" if foreign else f"; {_OTHERWISE}"))
    return (name, *(f"  {line}" for line in lines))


_TAKEN = "taken as missing, because nearly all other values of the column are numbers or dates"
_OTHERWISE = "if they are categories, pass --kinds NAME=discrete"
_NAMED = 60
"""Columns that a line names at most."""


def _several(names: list[str], between: str = ", ") -> str:
    more = len(names) - _NAMED
    return between.join(names[:_NAMED]) + (f"{between}and {more:,} more (--json lists all)" if more > 0 else "")


def _with(name: str, detail: str) -> str:
    return f"{name} ({detail})" if detail else name


def missing_of(column: ColumnReading) -> str:
    """Return how many cells of a column have each mark of a missing value: `3 × "?", 1 × blank`."""
    marks = list(column.missing.items())
    named = ", ".join(f"{count:,} × {_mark(mark)}" for mark, count in marks[:_WORDS_NAMED])
    rest = sum(count for _, count in marks[_WORDS_NAMED:])
    return named + (f" and {rest:,} × other words" if rest else "")


def _mark(mark: str) -> str:
    return f'"{mark}"' if mark else "blank"
