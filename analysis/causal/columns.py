"""A column of a table: whether it can be a variable, of which kind it looks, and its values as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import process

__all__ = [
    "Category",
    "Codes",
    "Column",
    "Floats",
    "Kind",
    "column_fault",
    "content",
    "gaps",
    "inferred_kind",
    "is_text",
    "listed",
    "no_such_column",
    "read_column",
    "too_many_categories",
]

Kind = Literal["discrete", "continuous"]
Category = str | bool | int | float
"""A value of a discrete variable, as the table has it."""
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_Array = TypeVar("_Array", Floats, Codes)

_ROWS_A_CATEGORY = 5
_SHOWN = 8


@dataclass(frozen=True, eq=False)
class Column:
    """A variable's values: numbers where it has some, codes and categories where it is discrete."""

    values: Floats | None
    codes: Codes | None
    categories: tuple[Category, ...]

    def take(self, rows: NDArray[np.intp]) -> Column:
        """Return some rows; categories stay, so that codes mean the same."""
        values = None if self.values is None else _read_only(self.values[rows])
        codes = None if self.codes is None else _read_only(self.codes[rows])
        return Column(values, codes, self.categories)


def _read_only(array: _Array) -> _Array:
    array.setflags(write=False)
    return array


def is_text(dtype: pl.DataType) -> bool:
    """Tell whether a column's values are words: strings, an Enum's or a Categorical's."""
    return dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean


def column_fault(dtype: pl.DataType) -> str:
    """Return why a column of this type cannot be a variable; empty where it can."""
    if is_text(dtype) or _is_number(dtype) or dtype == pl.Null:
        return ""
    if dtype.is_temporal():
        return "holds dates or times; turn it into a number to analyse it"
    return f"holds {str(dtype).partition('(')[0].lower()}s, not single values" if dtype.is_nested() else f"holds {dtype}"


def gaps(column: pl.Series) -> NDArray[np.bool_]:
    """Return where a column has no value: null, NaN or infinite. Boolean, shape (rows,)."""
    missing = column.is_null()
    if column.dtype.is_float():
        missing |= ~column.is_finite().fill_null(value=False)
    return missing.to_numpy()


def content(column: pl.Series) -> bytes:
    """Return what two columns without gaps share where all their values are equal, whatever their types."""
    if is_text(column.dtype):
        return b"text" + repr(column.to_list()).encode()
    # Adding zero makes -0.0 the same as 0.0.
    return b"number" + (column.cast(pl.Float64).to_numpy() + 0.0).tobytes()


def too_many_categories(column: pl.Series, distinct: int) -> str:
    """Return what is wrong with text that has fewer than two rows a value, from which nothing can be learnt; else empty."""
    if not is_text(column.dtype) or distinct <= 2 or 2 * distinct <= len(column):
        return ""
    if distinct == len(column):
        return "text that is different in every row: it names rows"
    return f"text of {distinct} different values in {len(column)} rows; where these are numbers, cast them"


def inferred_kind(column: pl.Series, distinct: int, most_categories: int) -> tuple[Kind, str]:
    """Return the kind that a column without gaps looks like, and by what; see `variables.prepare`."""
    if is_text(column.dtype):
        return "discrete", "text"
    if column.dtype == pl.Boolean:
        return "discrete", "false and true"
    if distinct == 2:
        return "discrete", "numbers of two values"
    values = column.cast(pl.Float64).to_numpy()
    if (values != np.floor(values)).any():
        return "continuous", "numbers that are not whole"
    few = distinct <= most_categories and distinct * _ROWS_A_CATEGORY <= len(values)
    return ("discrete" if few else "continuous"), f"whole numbers, {distinct} distinct values"


def read_column(column: pl.Series, kind: Kind) -> Column:
    """Return the arrays of a column without gaps, read-only."""
    values = _read_only(column.cast(pl.Float64).to_numpy().copy()) if _is_number(column.dtype) else None
    if kind == "continuous":
        return Column(values, None, ())
    # An Enum sorts by its own order; a Categorical, made text, by the alphabet and not by what was met first.
    sortable = column.cast(pl.String) if isinstance(column.dtype, pl.Categorical) else column
    sortable = sortable.cast(pl.Float64) if column.dtype.is_decimal() else sortable
    codes = sortable.rank("dense").to_numpy().astype(np.int64) - 1
    return Column(values, _read_only(codes), tuple(sortable.unique().sort().to_list()))


def no_such_column(name: str, names: Sequence[str]) -> str:
    """Return the message for a column that does not exist: with the nearest name, else with all of them."""
    near = process.extractOne(name, names, score_cutoff=70)
    return f"no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; there are {listed(names)}")


def listed(names: Sequence[str]) -> str:
    """Return the first of several words, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
