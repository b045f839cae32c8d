"""Columns computed from other columns row by row: the full expression language, on polars tables.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.3: "Derived variables,
defined by the user, are calculated. The model can, for example, often be simplified by dividing variables with the most
influential variable."::

    PAPI_TOT_CYC / ops                         + - * / // % **, signs; // and % use the floor of the float64 quotient
    log2(n) + max(a, b, 1)                     log log2 log10 exp sqrt abs floor ceil min max
    {"float": 4, "double": 8}[datatype]        a mapping of literals
    L2M if n > 100 else 0                      < <= > >= == != in, and or not
    `perf::cache-misses` / `#op`               a name with other characters needs backquotes

Numbers are float64 whatever the column's type, so integers cannot overflow; false and true count as 0 and 1. A missing
value or NaN makes the result missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unperturbed.common.expressions.syntax import ExpressionError, ResultType, parse
from unperturbed.common.expressions.translation import Translator

_ROWS_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Undefined:
    """Rows in which an expression has no value, although all columns that the expression uses have a value.

    Attributes
    ----------
    why : str
        "division by 0", "log of a number that is not positive", …
    position : int
        Position in the expression's text, from 1.
    rows : array of int64, shape (undefined,)
        Rows of the table, from 0.
    values : tuple
        For each row, the operand for which the operation has no result.
    """

    why: str
    position: int
    rows: NDArray[np.int64]
    values: tuple[object, ...]

    def __str__(self) -> str:
        shown = zip(self.rows[:_ROWS_SHOWN], self.values, strict=False)
        first = ", ".join(f"{row} (value {value!r})" for row, value in shown)
        rest = f" and {len(self.rows) - _ROWS_SHOWN} more" if len(self.rows) > _ROWS_SHOWN else ""
        return f"{self.why}, in row{'s' if len(self.rows) > 1 else ''} {first}{rest}; row numbers start at 0"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The values of an expression, and the rows without a value."""

    values: pl.Series  # Null in the rows of `undefined`, and where a column of the expression has no value
    undefined: tuple[Undefined, ...]  # Rows without a result, by reason


@dataclass(frozen=True, eq=False)
class ColumnExpression:
    """A checked and translated expression over columns of known types; see `parse_column_expression`."""

    text: str  # The original text of the expression
    columns: tuple[str, ...]  # The columns that the expression uses, in order of first use
    type: ResultType  # {"number", "truth", "text"}: Type of the result
    _translated: Translator
    _result: pl.Expr

    def evaluate(self, frame: pl.DataFrame) -> Evaluation:
        """Return the value of the expression in each row of a table.

        Rows without a result are null and listed in `undefined`; they raise no error.
        """
        work, checks = frame.select(self._translated.inputs), self._translated.checks
        # One column per step: a nested expression would repeat shared parts exponentially often.
        for step in self._translated.steps:
            work = work.with_columns(step)
        bad = {f"bad {number}": check.bad.fill_null(value=False) for number, check in enumerate(checks)}
        shown = {f"value {number}": check.value for number, check in enumerate(checks)}
        # The first column has the table's height; polars broadcasts checks that contain only literals to that height.
        result = work.select(pl.first().is_null().alias("height"), self._result.alias("result"), **bad, **shown)
        values = result["result"]
        undefined = []
        for number, check in enumerate(checks):
            rows = result[f"bad {number}"].arg_true()
            if len(rows):
                bad_values = result[f"value {number}"].gather(rows).to_list()
                undefined.append(
                    Undefined(check.why, check.position, rows.to_numpy().astype(np.int64), tuple(bad_values))
                )
                # Three-valued logic may have decided without this value: (log(-1) > 0 or True) is true.
                values = pl.select(pl.when(~result[f"bad {number}"]).then(values)).to_series()
        if self.type == "number":
            values, overflown = self._without_overflow(frame, values)
            undefined += overflown
        return Evaluation(values, tuple(undefined))

    def _without_overflow(self, frame: pl.DataFrame, values: pl.Series) -> tuple[pl.Series, list[Undefined]]:
        finite_input = pl.lit(value=True)
        for name in self.columns:
            if frame[name].dtype.is_float():
                finite_input &= pl.col(name).is_finite()
        bad = frame.select(finite_input.fill_null(value=False) & (~values.is_finite()).fill_null(value=False))
        rows = bad.to_series().arg_true()
        if not len(rows):
            return values, []
        fault = Undefined(
            "result not finite", 1, rows.to_numpy().astype(np.int64), tuple(values.gather(rows).to_list())
        )
        return pl.select(pl.when(values.is_finite()).then(values)).to_series(), [fault]


def parse_column_expression(text: str, schema: Mapping[str, pl.DataType]) -> ColumnExpression:
    """Parse an expression over columns with the given schema (`frame.schema`)."""
    translator = Translator(text, schema)
    term = translator.term(parse(text))
    if not translator.inputs:
        raise ExpressionError(text, 1, "the expression uses no column")
    return ColumnExpression(text, tuple(translator.columns), term.type, translator, term.value)


def evaluate(text: str, frame: pl.DataFrame) -> pl.Series:
    """Return the value of an expression in each row of a table.

    Parameters
    ----------
    text : str
        The expression; the module describes the syntax.
    frame : polars.DataFrame
        The table.

    Returns
    -------
    polars.Series
        float64, boolean or text. Null where a column that the expression uses is null or NaN.

    Raises
    ------
    ExpressionError
        The expression is wrong (see `parse_column_expression`), or has no value in some rows, for example because of a
        division by 0 or the logarithm of a number that is not positive. The message lists the rows.
    """
    evaluation = parse_column_expression(text, frame.schema).evaluate(frame)
    for undefined in evaluation.undefined:
        raise ExpressionError(text, undefined.position, str(undefined))
    return evaluation.values
