"""Derived variables (Lemeire et al., section 7.3): columns computed from others, and the columns that each uses.

Only the columns that a derived variable uses cause it, so its edges are known and need not be learnt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import polars as pl

from unperturbed.common.expressions.columns import Evaluation, Undefined, parse_column_expression
from unperturbed.errors import DataError

Definitions = dict[str, tuple[str, ...]]
"""For each derived variable, the columns that its expression uses; `Knowledge(definitions=…)` makes them edges."""

_DEFINITION = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*))\s*=(?!=)(?P<expression>.*)", re.DOTALL)


def derive(
    frame: pl.DataFrame, expressions: Mapping[str, str], *, undefined: Literal["error", "null"] = "error"
) -> tuple[pl.DataFrame, Definitions]:
    """Compute derived variables.

    Parameters
    ----------
    frame : polars.DataFrame
        One row per run.
    expressions : mapping of str to str
        Expressions by name: {"C_op": "PAPI_TOT_CYC / ops"}; `common.expressions.columns` has the syntax. An expression
        may use earlier derived variables.
    undefined : {"error", "null"}
        How to treat rows in which an expression has no value: a division by 0, the logarithm of a number that is not
        positive, a value without an entry in a mapping. "null" leaves the values missing; `undefined_rows` lists the
        rows, and `prepare(…, missing="drop")` drops them.

    Returns
    -------
    frame : polars.DataFrame
        The table, with the derived columns after the others.
    definitions : dict of str to tuple of str
        The columns that each derived variable uses, in order of use.

    Raises
    ------
    DataError
        A name that the table already has; an invalid expression, with its position; rows without a value if `undefined`
        is "error".
    """
    if undefined not in {"error", "null"}:
        raise DataError(f'`undefined` must be "error" or "null", not {undefined!r}')
    definitions: Definitions = {}
    for name, evaluation, columns in _evaluated(frame, expressions):
        if undefined == "error" and evaluation.undefined:
            first = evaluation.undefined[0]
            raise DataError(f"{name} = {expressions[name].strip()}, character {first.position}: {first}")
        frame = frame.with_columns(evaluation.values.alias(name))
        definitions[name] = columns
    return frame, definitions


def undefined_rows(frame: pl.DataFrame, expressions: Mapping[str, str]) -> dict[str, tuple[Undefined, ...]]:
    """Return, for each derived variable, the rows where it has no value, with the reasons; see `derive`."""
    return {
        name: evaluation.undefined for name, evaluation, _ in _evaluated(frame, expressions) if evaluation.undefined
    }


def _evaluated(
    frame: pl.DataFrame, expressions: Mapping[str, str]
) -> Iterable[tuple[str, Evaluation, tuple[str, ...]]]:
    """Evaluate derived variables in order; yield the name and values of each, and the columns that it uses."""
    for position, (name, text) in enumerate(expressions.items()):
        if not name.strip():
            raise DataError(f"the derived variable with the expression {text!r} has no name: give it a name")
        if name in frame.columns:
            raise DataError(
                f"{name} = {text.strip()}: the table already has a column {name}; give the derived variable a "
                "different name"
            )
        try:
            expression = parse_column_expression(text, frame.schema)
        except DataError as error:
            later = [
                variable for variable in list(expressions)[position + 1 :] if f"no column {variable!r}" in str(error)
            ]
            hint = f"; {later[0]} is defined after {name}: move it before {name}" if later else ""
            raise DataError(f"{name}: {error}{hint}") from None
        evaluation = expression.evaluate(frame)
        frame = frame.with_columns(evaluation.values.alias(name))
        yield name, evaluation, expression.columns


def read_definitions(texts: Iterable[str]) -> dict[str, str]:
    """Read definitions from a command line or a spec: ["C_op = cycles / ops"] gives {"C_op": "cycles / ops"}.

    A name with characters other than letters, digits and _ must be in backquotes. Raises DataError if a text is not a
    definition, or if a name is defined twice.
    """
    definitions: dict[str, str] = {}
    for text in texts:
        definition = _DEFINITION.fullmatch(text)
        if definition is None:
            raise DataError(f"{text!r} is not a definition: write NAME = EXPRESSION, as in C_op = PAPI_TOT_CYC / ops")
        name = definition["quoted"] or definition["name"]
        if name in definitions:
            twice = f"as {definitions[name]} and as {definition['expression'].strip()}"
            raise DataError(f"{name} is defined twice: {twice}; keep only one definition")
        definitions[name] = definition["expression"].strip()
    return definitions


def logarithms(names: Iterable[str], *, function: Literal["log", "log2", "log10"] = "log") -> dict[str, str]:
    """Return the expressions of the columns' logarithms: ["n"] gives {"log_n": "log(`n`)"}.

    A product becomes a sum: for T = ops · C, independence tests that look for sums see log T = log ops + log C.
    """
    return {f"{function}_{name}": f"{function}({quoted(name)})" for name in names}


def quoted(name: str) -> str:
    """Return a column's name quoted for an expression; raise DataError for a name with a backquote."""
    if "`" in name or not name:
        raise DataError(
            f"column name {name!r} is empty or contains a backquote: rename the column to use it in an expression"
        )
    return f"`{name}`"
