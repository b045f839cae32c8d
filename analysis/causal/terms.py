"""Parts of an expression: their types, literals, and what is said of a wrong one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from unperturbed.errors import DataError

__all__ = ["SAID", "Check", "ExpressionError", "ResultType", "Term", "Value", "as_number", "finite", "literal", "of_one_type"]

ResultType = Literal["number", "truth", "text"]
Value = float | bool | str

_SHOWN = 200

SAID = {"number": "a number", "truth": "a truth value", "text": "text"}


class ExpressionError(DataError):
    """An expression that is wrong, or has no value in some rows: with its text and the position in it, from 1."""

    def __init__(self, text: str, position: int, why: str) -> None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        super().__init__(f"expression {shown!r}, character {position}: {why}")
        self.position = position
        self.why = why


@dataclass(frozen=True)
class Term:
    """A translated part of an expression."""

    value: pl.Expr
    type: ResultType


@dataclass(frozen=True)
class Check:
    """Rows in which a part has no value: where `bad` is true. `value` is what has none there."""

    bad: pl.Expr
    value: pl.Expr
    why: str
    position: int


def as_number(term: Term) -> pl.Expr:
    """Return false and true as 0 and 1."""
    return term.value.cast(pl.Float64) if term.type == "truth" else term.value


def literal(text: str, node: ast.expr) -> tuple[Value, ResultType]:
    """Return the value and the type of a literal; ExpressionError where the node is none."""
    match node:
        case ast.Constant(value=bool() as truth):
            return truth, "truth"
        case ast.Constant(value=int() | float() as number):
            return finite(text, node, number), "number"
        case ast.Constant(value=str() as string):
            return string, "text"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -finite(text, node, number), "number"
    raise ExpressionError(text, node.col_offset + 1, "a number, text, True or False stands here")


def finite(text: str, node: ast.expr, value: float) -> float:
    """Return a number of the text as float64; ExpressionError where it is beyond its range."""
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number == float("inf"):
        raise ExpressionError(text, node.col_offset + 1, "the number is too large")
    return number


def of_one_type(text: str, at: ast.expr, literals: Sequence[tuple[Value, ResultType]]) -> tuple[list[Value], ResultType]:
    """Return literals as values of one type: numbers where some are numbers and some truth values."""
    kinds = {kind for _, kind in literals}
    values = [value for value, _ in literals]
    if len(kinds) == 1:
        return values, kinds.pop()
    if "text" in kinds:
        raise ExpressionError(text, at.col_offset + 1, "text and numbers are mixed")
    return [float(value) for value in values], "number"
