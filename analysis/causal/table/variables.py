"""Variables of known kinds from a table, and the columns that cannot be variables.

Lemeire et al., section 6, let the user state which columns are discrete; here the kind is inferred, reported, and can
be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from unperturbed.common.wording import counted, first_of, no_such_column
from unperturbed.errors import DataError

Kind = Literal["discrete", "continuous"]
Category = str | bool | int | float
"""A value of a discrete variable, as in the table."""
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_Array = TypeVar("_Array", Floats, Codes)

_ROWS_A_CATEGORY = 5


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """Values of a variable: numbers if it is numeric, codes and categories if it is discrete."""

    values: Floats | None
    codes: Codes | None
    categories: tuple[Category, ...]

    def take(self, rows: NDArray[np.intp]) -> ColumnValues:
        """Return some rows, with all categories, so codes keep their meaning."""
        values = None if self.values is None else _read_only(self.values[rows])
        codes = None if self.codes is None else _read_only(self.codes[rows])
        return ColumnValues(values, codes, self.categories)


def _read_only(array: _Array) -> _Array:
    array.setflags(write=False)
    return array


def is_text(dtype: pl.DataType) -> bool:
    """Return whether a column is text: String, Enum or Categorical."""
    return dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean


def column_fault(dtype: pl.DataType) -> str:
    """Return why a column of this type cannot be a variable; empty if it can."""
    if is_text(dtype) or _is_number(dtype) or dtype == pl.Null:
        return ""
    if dtype.is_temporal():
        return "contains dates or times, which must be converted to numbers"
    if dtype.is_nested():
        return f"contains {str(dtype).partition('(')[0].lower()}s, not single values"
    return f"has type {dtype}"


def gaps(column: pl.Series) -> NDArray[np.bool_]:
    """Return whether each row of a column lacks a value (null, NaN or infinite): boolean, shape (rows,)."""
    missing = column.is_null()
    if column.dtype.is_float():
        missing |= ~column.is_finite().fill_null(value=False)
    return missing.to_numpy()


def content_key(column: pl.Series) -> bytes:
    """Return a key that two columns without gaps share if all their values are equal, whatever their types."""
    if is_text(column.dtype):
        return b"text" + repr(column.to_list()).encode()
    # Adding zero makes -0.0 the same as 0.0.
    return b"number" + (column.cast(pl.Float64).to_numpy() + 0.0).tobytes()


def too_many_categories(column: pl.Series, distinct: int) -> str:
    """Return the fault of text with fewer than two rows per value; else an empty text."""
    if not is_text(column.dtype) or distinct <= 2 or 2 * distinct <= len(column):
        return ""
    if distinct == len(column):
        return "text that differs in every row, like row names"
    return (
        f"text with too many distinct values ({distinct} in {len(column)} rows); convert the column if its values are "
        "numbers"
    )


def inferred_kind(column: pl.Series, distinct: int, most_categories: int) -> tuple[Kind, str]:
    """Return the inferred kind of a column without gaps, and the reason; see `variables.prepare`."""
    if is_text(column.dtype):
        return "discrete", "text"
    if column.dtype == pl.Boolean:
        return "discrete", "false and true"
    if distinct == 2:
        return "discrete", "numbers with two values"
    values = column.cast(pl.Float64).to_numpy()
    if (values != np.floor(values)).any():
        return "continuous", "numbers that are not whole"
    few = distinct <= most_categories and distinct * _ROWS_A_CATEGORY <= len(values)
    return ("discrete" if few else "continuous"), f"whole numbers, {distinct} distinct values"


def read_column(column: pl.Series, kind: Kind) -> ColumnValues:
    """Return the arrays of a column without gaps, read-only."""
    values = _read_only(column.cast(pl.Float64).to_numpy().copy()) if _is_number(column.dtype) else None
    if kind == "continuous":
        return ColumnValues(values, None, ())
    # An Enum sorts in its own order; a Categorical, converted to text, alphabetically and not by first occurrence.
    sortable = column.cast(pl.String) if isinstance(column.dtype, pl.Categorical) else column
    sortable = sortable.cast(pl.Float64) if column.dtype.is_decimal() else sortable
    codes = sortable.rank("dense").to_numpy().astype(np.int64) - 1
    return ColumnValues(values, _read_only(codes), tuple(sortable.unique().sort().to_list()))


MOST_CATEGORIES = 10
"""Whole numbers with more distinct values than this are continuous, unless the caller says otherwise."""
_WIDEST = 1e75
"""Largest number whose fourth power is still finite: curves have cubes, and errors squares."""

_CONSTANT = "constant"


@dataclass(frozen=True)
class Variable:
    """Column that is analysed.

    Attributes
    ----------
    name : str
        The column's name.
    kind : {"discrete", "continuous"}
        Its kind.
    distinct : int
        Number of distinct values.
    why : str
        Reason for the kind: "text", "whole numbers, 4 distinct values", "as requested".
    """

    name: str
    kind: Kind
    distinct: int
    why: str


@dataclass(frozen=True)
class Exclusion:
    """Column that is not analysed, and the reason: "constant: always 3", "duplicate of n"."""

    name: str
    why: str

    @property
    def is_constant(self) -> bool:
        """Whether the column has the same value in all rows, so nothing is lost without it."""
        return self.why.startswith(_CONSTANT)


@dataclass(frozen=True, eq=False)
class Data:
    """Variables of known kinds without missing values, as `prepare` returns them.

    Attributes
    ----------
    variables : tuple of Variable
        The variables, in the table's order.
    frame : polars.DataFrame
        The variables' columns as they were given, without the rows that were dropped.
    exclusions : tuple of Exclusion
        Columns of the table that are not variables here.
    dropped_rows : int64, shape (dropped,)
        Rows of the table, from 0, that were dropped for a missing value.
    missing : mapping of str to int
        For each column with missing values, the number of rows without a value.
    """

    variables: tuple[Variable, ...]
    frame: pl.DataFrame
    exclusions: tuple[Exclusion, ...]
    dropped_rows: NDArray[np.int64]
    missing: Mapping[str, int]
    _columns: Mapping[str, ColumnValues]

    def __repr__(self) -> str:
        return f"Data({self.rows:,} rows, {len(self.names)} variables)"

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.frame.height

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the variables, in the table's order."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of each variable."""
        return {variable.name: variable.kind for variable in self.variables}

    def has_values(self, name: str) -> bool:
        """Return whether a variable has numbers (false and true count as 0 and 1), which `values` returns."""
        return self._column(name).values is not None

    def values(self, name: str) -> Floats:
        """Return a variable's numbers: float64, shape (rows,), read-only.

        Raises DataError if the variable is text, and for an unknown name.
        """
        values = self._column(name).values
        if values is None:
            raise DataError(f"{name} is text and has no numbers: use a numeric variable, or `codes` and `categories`")
        return values

    def codes(self, name: str) -> Codes:
        """Return each row's index into the `categories` of a discrete variable: int64, shape (rows,), read-only.

        Raises DataError if the variable is continuous, and for an unknown name.
        """
        codes = self._column(name).codes
        if codes is None:
            raise DataError(
                f'{name} is continuous and has no codes: pass `kinds={{"{name}": "discrete"}}` to make it discrete'
            )
        return codes

    def categories(self, name: str) -> tuple[Category, ...]:
        """Return the values of a discrete variable: numbers ascending, text alphabetically, an Enum in its own order.

        Raises DataError if the variable is continuous, and for an unknown name. After `take`, some may not occur.
        """
        self.codes(name)
        return self._column(name).categories

    def take(self, row_indices: ArrayLike) -> Data:
        """Return some rows, in the order given; a row may occur more than once.

        Kinds, categories and codes stay the same, even if a variable has become constant.

        Raises
        ------
        DataError
            No such row, or row indices that are not integers of shape (k,).
        """
        rows = np.asarray(row_indices)
        if rows.ndim != 1 or not (np.issubdtype(rows.dtype, np.integer) or rows.size == 0):
            raise DataError(
                f"row indices must be a one-dimensional array of integers, not {rows.dtype} of shape {rows.shape}"
            )
        rows = rows.astype(np.intp)
        if rows.size and not (rows.min() >= 0 and rows.max() < self.rows):
            raise DataError(f"row indices must be from 0 to {self.rows - 1}, not from {rows.min()} to {rows.max()}")
        columns = {name: column.take(rows) for name, column in self._columns.items()}
        return replace(self, frame=self.frame[rows], _columns=columns)

    def subset(self, names: Sequence[str]) -> Data:
        """Return the data of the named variables, in that order; raise DataError for unknown and repeated names."""
        for name in names:
            self._column(name)
        if len(set(names)) < len(names):
            raise DataError(f"a variable is named twice in {', '.join(names)}: name each variable once")
        variables = tuple(self.variables[self.names.index(name)] for name in names)
        columns = {name: self._columns[name] for name in names}
        return replace(self, variables=variables, frame=self.frame.select(list(names)), _columns=columns)

    def _column(self, name: str) -> ColumnValues:
        try:
            return self._columns[name]
        except KeyError:
            excluded = next(
                (f"{name} is left out: {exclusion.why}" for exclusion in self.exclusions if exclusion.name == name),
                None,
            )
            raise DataError(excluded or no_such_column(name, self.names)) from None


def prepare(
    frame: pl.DataFrame,
    *,
    kinds: Mapping[str, Kind] | None = None,
    missing: Literal["error", "drop"] = "error",
    most_categories: int = MOST_CATEGORIES,
) -> Data:
    """Turn a table into variables of known kinds.

    Text, booleans, enums, categoricals and numbers with two values are discrete. Whole numbers (also as floats) are
    discrete if they have at most `most_categories` values, with at least five rows per value on average. All other
    numbers are continuous.

    Parameters
    ----------
    frame : polars.DataFrame
        One row per run.
    kinds : mapping of str to Kind, optional
        Kinds of columns whose inferred kind is wrong: an element size of 2, 4 or 8 bytes is inferred to be discrete,
        but should be continuous to predict sizes that were not measured, as in section 8.2 of the paper.
    missing : {"error", "drop"}
        What to do with rows that have a null, a NaN or an infinite value. Dropped rows are listed in `dropped_rows` and
        `missing`.
    most_categories : int
        Maximum number of values of a discrete variable with whole numbers.

    Returns
    -------
    Data
        Constant columns, duplicates of an earlier column, columns without a value, text with fewer than two rows per
        value (it names rows), and columns of dates, lists, structures or bytes are left out and listed in `exclusions`.

    Raises
    ------
    DataError
        Unknown names or kinds; text with the kind "continuous"; missing values if `missing` is "error"; fewer rows than
        variables; no variable left.
    """
    if not isinstance(frame, pl.DataFrame):
        raise TypeError(
            f"the table must be a polars.DataFrame, not {type(frame).__module__}.{type(frame).__qualname__}"
        )
    if missing not in {"error", "drop"}:
        raise DataError(f'`missing` must be "error" or "drop", not {missing!r}')
    if frame.width == 0 or frame.height == 0:
        raise DataError(
            f"the table has {counted(frame.width, 'column')} and {counted(frame.height, 'row')}: give one row per run "
            "and one column per variable"
        )
    asked = kinds or {}
    _check_kinds(frame, asked)
    unusable = _unusable(frame, asked)
    usable = frame.drop([exclusion.name for exclusion in unusable])
    absent = {column.name: here for column in usable if (here := gaps(column)).any()}
    kept, dropped = _without_gaps(usable, absent, missing)
    excluded = unusable + _repeated(kept, asked)
    kept = kept.drop([exclusion.name for exclusion in excluded if exclusion.name in kept.columns])
    if kept.width == 0:
        raise DataError(
            f"no column of the table can be analysed: {first_of([f'{entry.name} ({entry.why})' for entry in excluded])}"
        )
    if kept.height < kept.width:
        raise DataError(
            f"too few rows ({kept.height}) for {kept.width} variables: measure more runs, or choose fewer columns"
        )
    variables = tuple(_variable(column, asked.get(column.name), most_categories) for column in kept)
    return Data(
        variables=variables,
        frame=kept,
        exclusions=tuple(sorted(excluded, key=lambda exclusion: frame.columns.index(exclusion.name))),
        dropped_rows=dropped,
        missing={name: int(here.sum()) for name, here in absent.items()},
        _columns={variable.name: read_column(kept[variable.name], variable.kind) for variable in variables},
    )


def _check_kinds(frame: pl.DataFrame, asked: Mapping[str, Kind]) -> None:
    for name, kind in asked.items():
        if name not in frame.columns:
            raise DataError(f"`kinds`: {no_such_column(name, frame.columns)}")
        if kind not in get_args(Kind):
            raise DataError(f'`kinds`: the kind of {name} must be "discrete" or "continuous", not {kind!r}')
        if kind == "continuous" and is_text(frame[name].dtype):
            raise DataError(f"`kinds`: {name} is text and cannot be continuous: convert it to numbers first")
        if column_fault(frame[name].dtype):
            raise DataError(f"`kinds`: {name} cannot be a variable: it {column_fault(frame[name].dtype)}")


def _unusable(frame: pl.DataFrame, asked: Mapping[str, Kind]) -> list[Exclusion]:
    exclusions = []
    for column in frame:
        if fault := column_fault(column.dtype):
            exclusions.append(Exclusion(column.name, fault))
        elif (absent := gaps(column)).all():
            if column.name not in asked:
                exclusions.append(Exclusion(column.name, "has no value in any row"))
        elif fault := _out_of_range(column, absent):
            exclusions.append(Exclusion(column.name, fault))
    return exclusions


def _out_of_range(column: pl.Series, absent: NDArray[np.bool_]) -> str:
    """Return why numbers are unusable: squares and products overflow, or are all 0; else an empty text."""
    if not column.dtype.is_float():
        return ""
    values = np.abs(column.to_numpy().astype(np.float64)[~absent])
    greatest = float(values.max())
    if greatest > _WIDEST:
        return f"has values beyond ±{_WIDEST:g}; use a larger unit"
    if 0 < greatest < 1 / _WIDEST:
        return f"has only values within ±{1 / _WIDEST:g}; use a smaller unit"
    return ""


def _without_gaps(
    frame: pl.DataFrame, absent: Mapping[str, NDArray[np.bool_]], missing: str
) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return the rows without gaps, and the numbers of the other rows."""
    if not absent:
        return frame, np.zeros(0, np.int64)
    lacking = np.logical_or.reduce(list(absent.values()))
    if lacking.all():
        worst = max(absent, key=lambda name: int(absent[name].sum()))
        raise DataError(
            f"every row lacks a value, most often that of {worst} ({int(absent[worst].sum())} of {frame.height} "
            f"rows): leave {worst} out"
        )
    if missing == "error":
        lacking_text = [
            f"{name} ({int(mask.sum())} of {frame.height} rows, first row {int(mask.argmax())})"
            for name, mask in absent.items()
        ]
        rest = f'pass `missing="drop"` to analyse the {int((~lacking).sum())} complete rows, or leave the columns out'
        raise DataError(
            f"values are missing, NaN or infinite (rows are counted from 0): {first_of(lacking_text)}; {rest}"
        )
    return frame.filter(pl.Series(~lacking)), np.flatnonzero(lacking).astype(np.int64)


def _repeated(frame: pl.DataFrame, asked: Mapping[str, Kind]) -> list[Exclusion]:
    """Return the columns without information of their own: constants, row names, duplicates."""
    exclusions = []
    first: dict[bytes, str] = {}
    for column in frame:
        distinct = column.n_unique()
        if distinct <= 1:
            exclusions.append(Exclusion(column.name, f"{_CONSTANT}: always {column[0]}"))
        elif column.name not in asked and (fault := too_many_categories(column, distinct)):
            exclusions.append(Exclusion(column.name, fault))
        else:
            original = first.setdefault(content_key(column), column.name)
            if original != column.name:
                exclusions.append(Exclusion(column.name, f"duplicate of {original}"))
    return exclusions


def _variable(column: pl.Series, asked: Kind | None, most_categories: int) -> Variable:
    distinct = column.n_unique()
    kind, why = inferred_kind(column, distinct, most_categories)
    return Variable(column.name, asked or kind, distinct, "as requested" if asked and asked != kind else why)
