"""Tables with one row per interval: their times and numbers, with all digits, and the bounds of their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.imports.format import EXACT, MOST, IntArray, from_ends, increments, refuse

if TYPE_CHECKING:
    import polars as pl

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "min": 60 * 10**9, "h": 3600 * 10**9}
"""Units of times, in ns."""


_DAY_NS = 86_400 * 10**9


class ColumnNumbers(NamedTuple):
    """Numbers of a column."""

    values: NDArray[Any]
    unit: str  # Of all cells that have one
    guess: str  # What commas were read as, if the column does not show it


def date_of(times: IntArray) -> str:
    """Return date and time of the first row; none if its times [ns] are not since 1970."""
    return datetime.fromtimestamp(int(times[0]) // 10**9, UTC).isoformat() if times[0] > 10**18 else ""


@dataclass(frozen=True)
class Table:
    """Columns of text or numbers; each row ends an interval, and is a line of a file."""

    frame: pl.DataFrame
    path: Path
    line_of: Callable[[int], int]  # Line number of a row (rows count from 0); 0 if the format has no lines
    comma: Literal["decimal", "thousands"] = "thousands"  # Of a comma, in a column that does not show it

    def refuse(self, row: int, what: str) -> NoReturn:
        """Raise an error about a row."""
        refuse(self.path, what, self.line_of(int(row)))

    def times(self, name: str, role: str, factor: int, *, is_given: bool = False) -> IntArray:
        """Return a column of times in ns, without rounding.

        `factor` is the unit in ns of numbers without one; dates need none. `is_given` tells that the user chose it.
        """
        import polars as pl  # noqa: PLC0415

        from unperturbed.common.reading.cells import read_durations  # noqa: PLC0415  loads polars

        column = self.frame[name]
        if (moments := self._moments(name)) is not None:
            return moments
        if column.dtype != pl.String or (durations := read_durations(column)) is None:
            return self._durations(name, role, factor)
        texts, factors = durations
        values = texts.cast(pl.Float64, strict=False)
        if values.null_count() == len(values):
            return self._durations(name, role, factor)  # these are no durations, and it says what they are
        zero = values.fill_null(1.0) == 0  # it may lack a unit
        wrong = (factors.is_null() | ((factors == 0) & ~zero)).to_numpy()
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            what = f"column {name!r} contains {_shown(column[row])}, expected a time with a unit, as in other rows"
            self.refuse(row, f"{what}: s, ms, us, ns, min or h")
        if is_given:
            row = int(factors.arg_max() or 0)
            self.refuse(row, f"column {name!r} contains {_shown(column[row])}, which has a unit: leave out unit=")
        found = np.zeros(len(texts), np.int64)
        for ns in factors.unique().to_list():
            here = np.flatnonzero((factors == ns).to_numpy())
            part = replace(self, frame=texts.alias(name)[here].to_frame(), line_of=_lines_at(self.line_of, here))
            found[here] = part._durations(name, role, ns or 1)
        return found

    def _durations(self, name: str, role: str, factor: int) -> IntArray:
        """Return a column of numbers in ns."""
        import polars as pl  # noqa: PLC0415

        column = self.frame[name]
        values = self.numbers(name, whole=True)
        late = np.flatnonzero(np.abs(values.astype(np.float64)) * factor > MOST)
        if len(late):
            self.refuse(late[0], f"the value in the {role} column is too large for 64-bit nanoseconds; check unit=")
        if values.dtype.kind in "iu":
            return np.asarray(values, np.int64) * factor
        digits = len(str(factor)) - 1
        if (
            column.dtype == pl.String
            and factor == 10**digits
            and len(values)
            and np.abs(values).max() * factor > EXACT / 2
        ):
            # As float64, seconds since 1970 are exact to a quarter of a microsecond only.
            parts = column.str.strip_chars().str.extract_groups(r"^([+-]?)(\d+)\.?(\d*)$").struct.unnest()
            sign, whole, fraction = parts.get_columns()
            if not whole.null_count():
                shown = fraction.str.slice(0, digits).str.pad_end(digits, "0")
                up = fraction.str.slice(digits, 1).is_in(list("56789"))
                total = whole.cast(pl.Int64) * factor + up.cast(pl.Int64)
                if digits:
                    total += shown.cast(pl.Int64)
                negative = sign.to_numpy() == "-"
                return np.asarray(np.where(negative, -total.to_numpy(), total.to_numpy()), np.int64)
        return np.asarray(np.rint(values * factor), np.int64)

    def _moments(self, name: str) -> IntArray | None:
        """Return the dates and times of a column in ns since 1970, or its times of day since midnight."""
        import polars as pl  # noqa: PLC0415

        from unperturbed.common.reading.cells import read_moments  # noqa: PLC0415

        column = self.frame[name]
        moments = None if column.dtype.is_numeric() else read_moments(column)
        if moments is None:
            return None
        if moments.null_count():
            row = int(np.flatnonzero(moments.is_null().to_numpy())[0])
            self.refuse(
                row, f"column {name!r} contains {_shown(column[row])}, expected a date and time as in other rows"
            )
        if moments.dtype == pl.Time:
            of_day = moments.cast(pl.Int64).to_numpy()
            # The first time after midnight is of the next day.
            midnights = np.cumsum(np.diff(of_day, prepend=of_day[:1]) < -_DAY_NS // 2)
            return np.asarray(of_day + _DAY_NS * midnights, np.int64)
        return np.asarray(moments.cast(pl.Datetime("ns")).cast(pl.Int64).to_numpy(), np.int64)

    def numbers(self, name: str, *, whole: bool = False, advice: str = "") -> NDArray[Any]:
        """Return a column's numbers, as `read` does."""
        return self.read(name, whole=whole, advice=advice).values

    def read(self, name: str, *, whole: bool = False, advice: str = "") -> ColumnNumbers:
        """Return a column as int64 or uint64 if it has only whole numbers, else as float64.

        Missing values are masked or become NaN; if `whole` is set, they are refused. `advice` ends the message about a
        word.
        """
        import polars as pl  # noqa: PLC0415

        column, unit, guess = self.frame[name], "", ""
        if column.dtype == pl.String:
            from unperturbed.common.reading.cells import MARKS, read_numbers  # noqa: PLC0415  loads polars

            given = column.fill_null("").str.strip_chars()
            empty = given.str.to_lowercase().is_in(list(MARKS))
            exact = _whole(given, empty)
            if exact is None:
                numbers, empty, unit, guess = read_numbers(column, comma=self.comma)
            else:
                numbers = exact
        elif column.dtype.is_integer() and column.dtype.is_numeric():
            wide = pl.UInt64 if column.dtype == pl.UInt64 else pl.Int64
            numbers = column.cast(wide if column.dtype != pl.Int128 else pl.Float64)
            empty = numbers.is_null()
        elif column.dtype.is_numeric():
            numbers = column.cast(pl.Float64)
            empty = numbers.is_null() | numbers.is_nan().fill_null(value=True)
        else:
            refuse(self.path, f"column {name!r} has type {column.dtype}, expected numbers")
        wrong = numbers.is_null() & ~empty if not whole else numbers.is_null() | empty
        if wrong.any():
            row = int(np.flatnonzero(wrong.to_numpy())[0])
            what = _shown(column[row])
            place = f"row {row + 1}: " if not self.line_of(row) else ""
            self.refuse(row, f"{place}column {name!r} contains {what}, expected a number{advice}")
        if numbers.dtype.is_integer():
            values: NDArray[Any] = numbers.fill_null(0).to_numpy()
            masked = np.ma.MaskedArray(values, empty.to_numpy()) if empty.any() else values
            return ColumnNumbers(masked, unit, guess)
        values = numbers.fill_null(float("nan")).to_numpy()
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            self.refuse(infinite[0], f"column {name!r} contains an infinite number")
        return ColumnNumbers(values, unit, guess)

    def intervals(
        self, rows: IntArray, times: Mapping[str, IntArray], columns: Mapping[str, NDArray[Any]], *, cumulative: bool
    ) -> tuple[tuple[IntArray, IntArray], dict[str, NDArray[Any]], list[str]]:
        """Return the bounds of a run's intervals [ns], each metric's values, and notes."""
        ends = times["time"][rows]
        wrong = np.flatnonzero(np.diff(ends) <= 0)
        if len(wrong):
            at = int(wrong[0]) + 1
            what = "the same time as" if ends[at] == ends[at - 1] else "an earlier time than"
            self.refuse(
                rows[at],
                f"this row has {what} the previous row of its run; if a file has several runs, "
                "name the column that identifies them with run=COLUMN",
            )
        values = {name: column[rows] for name, column in columns.items()}
        if cumulative:
            notes = []
            for name, column in values.items():
                values[name], more = self.increases(name, column, rows, "remove values=cumulative")
                notes += more
            return (ends[:-1] - ends[0], ends[1:] - ends[0]), values, notes
        if "begin" in times:
            begin = times["begin"][rows]
            late = np.flatnonzero(begin > ends)
            if len(late):
                self.refuse(rows[late[0]], "the interval ends before it begins")
            return (begin - begin[0], ends - begin[0]), values, []
        return from_ends(ends) if len(ends) else (ends, ends), values, []

    def increases(self, name: str, column: NDArray[Any], rows: IntArray, advice: str) -> tuple[NDArray[Any], list[str]]:
        """Return the increases of a cumulative counter from row to row, and a note if it wrapped around."""
        change = increments(column)
        if change.decreases:
            self.refuse(rows[change.decreases], f"{name} decreases, but cumulative counters never do: {advice}")
        if change.rounded:
            self.refuse(
                rows[0],
                f"{name} has values above 2^53 that are not written as whole numbers, so their differences are "
                "rounded: write all digits, without a decimal point or an exponent",
            )
        return change.values, change.note(name)


def _lines_at(line_of: Callable[[int], int], rows: IntArray) -> Callable[[int], int]:
    return lambda row: line_of(int(rows[row]))


def _shown(value: object) -> str:
    """Return a cell as messages show it."""
    return "nothing" if value is None or str(value).strip() == "" else repr(str(value))


def is_numeric(column: pl.Series) -> bool:
    """Return whether a column is numeric, judged by its first value that is not missing."""
    import polars as pl  # noqa: PLC0415

    from unperturbed.common.reading.cells import MARKS, read_numbers  # noqa: PLC0415

    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    given = column.filter(~column.fill_null("").str.strip_chars().str.to_lowercase().is_in(list(MARKS)))
    return len(given) > 0 and read_numbers(given.head(1)).values[0] is not None


def _whole(given: pl.Series, empty: pl.Series) -> pl.Series | None:
    """Return texts as Int64 or UInt64, which keep all digits; None if one that is not empty does not fit."""
    import polars as pl  # noqa: PLC0415

    first = given.filter(~empty).head(1)
    for whole in (pl.Int64, pl.UInt64) if len(first) and first.str.contains(r"^[+-]?\d+$")[0] else ():
        numbers = given.cast(whole, strict=False)
        if (numbers.is_not_null() | empty).all():
            return numbers
    return None
