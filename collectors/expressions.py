"""Metrics computed from others interval by interval: `PAPI_TOT_INS / PAPI_TOT_CYC`."""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unperturbed.errors import DataError, SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Expression", "parse_expression"]

_MAX_LENGTH = 1_000
_MAX_DEPTH = 100

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.BitAnd: "&",
    ast.Not: "not",
    ast.Invert: "~",
}

_ALLOWED = "an expression is made of metric names, numbers, + - * / and parentheses"


@dataclass(frozen=True)
class Expression:
    """An arithmetic expression over metrics, made by `parse_expression`.

    Attributes
    ----------
    text : as it was written.
    names : the metrics that it needs, each once, in the order in which they are first named.
    """

    text: str
    names: tuple[str, ...]
    _tree: ast.expr = field(repr=False, compare=False)

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Compute the metric.

        Parameters
        ----------
        columns : one array a metric, all of shape (intervals,); more metrics than `names` do no harm.

        Returns
        -------
        float64, shape (intervals,)
            Finite or NaN. **What is divided by zero is NaN**, and so is what overflows: an interval without cycles has no IPC.
            Zero would be a lie that rank statistics believe: such intervals would tie at the lowest rank together with the
            zeros of every counter, a correlation out of nothing. Infinity would be a highest rank, and no warp path bears it.
            So leave NaN intervals out of a correlation pair by pair, and fill them before aligning on the metric.

        Raises
        ------
        DataError
            A metric is missing.
        """
        import numpy as np  # noqa: PLC0415  reading a spec parses expressions, but evaluates none

        missing = [name for name in self.names if name not in columns]
        if missing:
            raise DataError(f"`{self.text}` needs {', '.join(missing)}, which this trace does not hold")
        arrays = {name: np.asarray(columns[name], dtype=np.float64) for name in self.names}
        with np.errstate(all="ignore"):
            # An undefined part must spoil the whole (1 / (1 / 0) is not 0), hence the look at every step.
            value = _evaluate(self._tree, arrays, lambda part: np.where(np.isfinite(part), part, np.nan))
        return np.asarray(value, dtype=np.float64)


def parse_expression(text: str) -> Expression:
    """Parse an expression over metrics.

    Parameters
    ----------
    text : metric names, numbers, ``+ - * /`` and parentheses. A name that is no plain identifier stands in quotes:
        ``'perf::page-faults' / PAPI_TOT_INS``.

    Raises
    ------
    SpecError
        The text is something else, names no metric, divides by the number zero, or is too long or too deep to be meant.
    """
    text = " ".join(text.split())  # a folded YAML text may hold line breaks
    if len(text) > _MAX_LENGTH:
        raise SpecError(f"the expression has {len(text):,} characters; {_MAX_LENGTH:,} is the most")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser's remarks on style (`1if`, `'\\d'`): what is wrong is refused below
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        quotes = "; a name such as perf::page-faults stands in single quotes" if "::" in text else ""
        raise SpecError(f"`{text}` cannot be read: {_ALLOWED}{quotes}") from None
    names: dict[str, None] = {}
    _check(tree, text, names, depth=1)
    if not names:
        raise SpecError(f"`{text}` names no metric, so it is the same in every interval")
    return Expression(text, tuple(names), tree)


def _check(node: ast.expr, text: str, names: dict[str, None], *, depth: int) -> None:
    """Refuse every node that is not arithmetic, and gather the metrics' names in reading order."""
    if depth > _MAX_DEPTH:
        raise SpecError(f"the expression is nested more than {_MAX_DEPTH} deep; write it with fewer terms")
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, text, names, depth=depth + 1)
            _check(right, text, names, depth=depth + 1)
            if isinstance(op, ast.Div) and isinstance(right, ast.Constant) and right.value == 0:
                raise SpecError("division by the number zero")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            _check(operand, text, names, depth=depth + 1)
        case ast.Name(id=name):
            names[name] = None
        case ast.Constant(value=str() as name) if name:
            names[name] = None
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if abs(number) > 1e300 or not math.isfinite(number):
                raise SpecError("a number in the expression is too large")
        case _:
            raise SpecError(f"{_describe(node, text)} cannot stand in an expression: {_ALLOWED}")


def _describe(node: ast.expr, text: str) -> str:
    """Name what the user wrote, by its sign or its own text."""
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return f"`{_SIGNS[type(node.op)]}`"
    part = ast.get_source_segment(text, node) or text
    return f"`{part if len(part) <= 40 else part[:40] + '…'}`"


def _evaluate(node: ast.expr, arrays: Mapping[str, Any], defined: Callable[[Any], Any]) -> Any:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return defined(_BINARY[type(op)](_evaluate(left, arrays, defined), _evaluate(right, arrays, defined)))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, arrays, defined))
        case ast.Name(id=name) | ast.Constant(value=str() as name):
            return defined(arrays[name])
        case ast.Constant(value=number):
            return float(number)  # type: ignore[arg-type]  # `_check` lets numbers through alone
        case _:
            raise AssertionError(f"{ast.dump(node)} passed the check")
