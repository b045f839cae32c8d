"""Expressions over a table's columns: derived variables as the user writes them, parsed and translated, never run as Python.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.3: "Derived variables, defined by the user, are
calculated. The model can, for example, often be simplified by dividing variables with the most influential variable." The syntax is that of a Python
expression, of which a white list of nodes is translated to polars::

    PAPI_TOT_CYC / ops                         + - * / // % **, signs; // and % go by the floor of the quotient as float64 has it
    log2(n) + max(a, b, 1)                     log log2 log10 exp sqrt abs floor ceil min max
    {"float": 4, "double": 8}[datatype]        a mapping of literals
    L2M if n > 100 else 0                      < <= > >= == != in, and or not
    `perf::cache-misses` / `#op`               a name with other signs stands in backquotes

Numbers are float64 whatever the column's type, so that nothing wraps around; false and true count as 0 and 1. A missing value or NaN makes the result
missing.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unperturbed.analysis.causal.terms import Check, ExpressionError, ResultType
from unperturbed.analysis.causal.translation import Translator

__all__ = ["Evaluation", "Expression", "Undefined", "check_syntax", "evaluate", "parse_expression"]

_LONGEST = 10_000
_ROWS_SHOWN = 5
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?P<name>[^`]*)`|(?P<comment>\#)|(?P<open>[`'"])""")


@dataclass(frozen=True, eq=False)
class Undefined:
    """Rows in which an expression has no value, although all columns that it uses have one.

    Attributes
    ----------
    why : str
        "division by 0", "log of a number that is not positive", …
    position : int
        Where in the expression's text, from 1.
    rows : int64, shape (undefined,)
        Rows of the table, from 0.
    values : tuple
        For each row, the value that has no result.
    """

    why: str
    position: int
    rows: NDArray[np.int64]
    values: tuple[object, ...]

    def __str__(self) -> str:
        shown = zip(self.rows[:_ROWS_SHOWN], self.values, strict=False)
        told = ", ".join(f"{row} ({value!r})" for row, value in shown)
        rest = f" and {len(self.rows) - _ROWS_SHOWN} more" if len(self.rows) > _ROWS_SHOWN else ""
        return f"{self.why}, in row{'s' if len(self.rows) > 1 else ''} {told}{rest}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of an expression, null in the rows of `undefined` and where a column that it uses is missing."""

    values: pl.Series
    undefined: tuple[Undefined, ...]


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression over columns of known types, checked and translated; made by `parse_expression`.

    Attributes
    ----------
    text : str
    columns : tuple of str
        Those it uses, in order of first use.
    type : {"number", "truth", "text"}
        Of the result.
    polars : polars.Expr
        What it was translated to.
    """

    text: str
    columns: tuple[str, ...]
    type: ResultType
    polars: pl.Expr
    _checks: tuple[Check, ...]

    def evaluate(self, frame: pl.DataFrame) -> Evaluation:
        """Return the value in each row of a table that has the columns.

        Rows without a result are told in `undefined`, and null; nothing is raised for them.
        """
        asked = {f"bad {number}": check.bad.fill_null(value=False) for number, check in enumerate(self._checks)}
        shown = {f"value {number}": check.value for number, check in enumerate(self._checks)}
        # The first column has the table's height, to which checks of literals alone are then broadcast.
        result = frame.select(self.polars.alias("result"), **asked, **shown)
        values = result["result"]
        undefined = []
        for number, check in enumerate(self._checks):
            rows = result[f"bad {number}"].arg_true()
            if len(rows):
                told = result[f"value {number}"].gather(rows).to_list()
                undefined.append(Undefined(check.why, check.position, rows.to_numpy().astype(np.int64), tuple(told)))
                # Three-valued logic may have got over it: (log(-1) > 0 or True) is true.
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
        fault = Undefined("no finite number", 1, rows.to_numpy().astype(np.int64), tuple(values.gather(rows).to_list()))
        return pl.select(pl.when(values.is_finite()).then(values)).to_series(), [fault]


def parse_expression(text: str, schema: Mapping[str, pl.DataType]) -> Expression:
    """Parse an expression over the columns of a schema (`frame.schema`).

    Parameters
    ----------
    text : str
        See the module for the syntax.
    schema : mapping of str to polars.DataType
        The table's columns.

    Raises
    ------
    DataError
        Wrong syntax, anything that is not in the white list, unknown columns, text where a number is needed, or no column at all: with the expression
        and the position in it, from 1.
    """
    translator = Translator(text, schema)
    term = translator.term(_tree(text))
    if not translator.columns:
        raise ExpressionError(text, 1, "it uses no column")
    return Expression(text, tuple(translator.columns), term.type, term.value, tuple(translator.checks))


def check_syntax(text: str) -> None:
    """Raise a DataError where a text cannot be an expression over any table: with the position of its fault, from 1."""
    _tree(text)


def evaluate(text: str, frame: pl.DataFrame) -> pl.Series:
    """Return the value of an expression in each row of a table.

    Parameters
    ----------
    text : str
    frame : polars.DataFrame

    Returns
    -------
    polars.Series
        float64, boolean or text. Null where a column that the expression uses is null or NaN.

    Raises
    ------
    DataError
        As `parse_expression`; and where the expression has no value, as in a division by 0 or the logarithm of a number that is not positive: with
        the rows.
    """
    found = parse_expression(text, frame.schema).evaluate(frame)
    for one in found.undefined:
        raise ExpressionError(text, one.position, str(one))
    return found.values


def _tree(text: str) -> ast.expr:
    """Return the syntax tree of an expression, its nodes' offsets those of `text` in UTF-8."""
    if len(text) > _LONGEST:
        raise ExpressionError(text, 1, f"it has {len(text)} characters, more than {_LONGEST}")
    # Lines are joined, as in YAML.
    plain = re.sub(r"[\r\n\t\f]", " ", _without_backquotes(text))
    start = len(plain) - len(plain.lstrip())
    if start == len(plain):
        raise ExpressionError(text, 1, "it is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(plain[start:], mode="eval").body
    except SyntaxError as error:
        why = f"{error.msg}; a name with other signs than letters, digits and _ stands in backquotes"
        # Where the end is what is wrong, there is no offset.
        raise ExpressionError(text, start + error.offset if error.offset else len(text), why) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise ExpressionError(text, 1, f"it cannot be parsed: {str(error) or 'nested too deeply'}") from None
    # Offsets count bytes of UTF-8 in the stripped text; leading blanks are one byte each.
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            for attribute in ("col_offset", "end_col_offset"):
                before = plain[start:].encode()[: getattr(node, attribute)]
                setattr(node, attribute, len(before.decode()) + start)
    return tree


def _without_backquotes(text: str) -> str:
    """Return the text with names in backquotes as names of as many characters; what they stand for is read from the text itself."""
    parts, done = [], 0
    for found in _QUOTED.finditer(text):
        if found["comment"]:
            raise ExpressionError(text, found.start() + 1, "a name with # stands in backquotes")
        if found["open"]:
            raise ExpressionError(text, found.start() + 1, f"{found['open']} is not closed")
        if found["name"] is not None:
            if not found["name"]:
                raise ExpressionError(text, found.start() + 1, "no name between the backquotes")
            parts += [text[done : found.start()], "_" * len(found[0])]
            done = found.end()
    return "".join([*parts, text[done:]])
