"""Metrics computed from other metrics interval by interval: arithmetic, min, max and conditional expressions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from unperturbed.common.expressions.syntax import DEEPEST, ExpressionError, name_at, parse
from unperturbed.errors import DataError, SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_LONGEST = 10_000
_LARGEST = 1e300

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_EXTREMES = ("min", "max")
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

_ALLOWED = "an expression may contain metric names, numbers, + - * /, parentheses, min, max and `A if B > C else D`"


@dataclass(frozen=True)
class MetricExpression:
    """An arithmetic expression over metrics; see `parse_metric_expression`."""

    text: str  # The expression, with each run of white space replaced by one space
    names: tuple[str, ...]  # The metrics that the expression needs, each once, in the order of first use
    _tree: ast.expr = field(repr=False, compare=False)

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Compute the metric in each interval.

        `columns`: One array per metric, all of shape (intervals,). Additional metrics are ignored.
        Result: array of float64, shape (intervals,). Finite or NaN. **A division by zero is NaN**, and so is an
        overflow: an interval without cycles has no IPC. Zero would mislead rank statistics: such intervals would tie at
        the lowest rank with the zeros of every counter, which is a spurious correlation. Infinity would be the highest
        rank, and warp paths do not allow infinity. So leave NaN intervals out of a correlation pair by pair, and fill
        them before aligning on the metric.
        """
        import numpy as np  # noqa: PLC0415  reading a spec parses expressions, but evaluates none

        missing = [name for name in self.names if name not in columns]
        if missing:
            raise DataError(f"the trace does not contain {', '.join(missing)}, needed for `{self.text}`")
        arrays = {name: np.asarray(columns[name], dtype=np.float64) for name in self.names}
        with np.errstate(all="ignore"):
            # Each step is checked, because an undefined part must make the whole undefined: 1 / (1 / 0) is not 0.
            value = _evaluate(self._tree, arrays, lambda part: np.where(np.isfinite(part), part, np.nan))
        return np.asarray(value, dtype=np.float64)


def parse_metric_expression(text: str) -> MetricExpression:
    """Parse an expression over metrics.

    `text`: Metric names, numbers, ``+ - * /`` and parentheses; ``min(a, b)`` and ``max(a, b)``; ``a if b > c else d``
    with one comparison; the branch that is not chosen may be undefined. A name that is not a plain identifier needs
    quotes or backquotes: ``'perf::page-faults' / PAPI_TOT_INS``.
    """
    text = " ".join(text.split())  # folded YAML text may contain line breaks
    if len(text) > _LONGEST:
        raise SpecError(f"the expression has {len(text):,} characters; the limit is {_LONGEST:,}")
    try:
        tree = parse(text, comments=True)
    except ExpressionError:
        quotes = "; a name such as perf::page-faults needs single quotes" if "::" in text else ""
        raise SpecError(f"cannot read `{text}`: {_ALLOWED}{quotes}") from None
    names: dict[str, None] = {}
    arithmetic = _checked(tree, text, names, depth=1)
    if not names:
        raise SpecError(f"`{text}` contains no metric, so its value is the same in every interval")
    return MetricExpression(text, tuple(names), arithmetic)


def _checked(node: ast.expr, text: str, names: dict[str, None], *, depth: int) -> ast.expr:
    """Reject nodes that are not allowed; return the tree with each metric as `Name`, and add the names to `names`."""
    if depth > DEEPEST:
        raise SpecError(f"the expression is nested more than {DEEPEST} levels deep; use fewer terms")
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            node.left = _checked(left, text, names, depth=depth + 1)
            node.right = _checked(right, text, names, depth=depth + 1)
            if isinstance(op, ast.Div) and isinstance(right, ast.Constant) and right.value == 0:
                raise SpecError("the expression divides by the constant 0")
            return node
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            node.operand = _checked(operand, text, names, depth=depth + 1)
            return node
        case ast.IfExp(test=ast.Compare(ops=[op], comparators=[other]) as test) if type(op) in _COMPARISONS:
            node.body = _checked(node.body, text, names, depth=depth + 1)
            test.left = _checked(test.left, text, names, depth=depth + 1)
            test.comparators = [_checked(other, text, names, depth=depth + 1)]
            node.orelse = _checked(node.orelse, text, names, depth=depth + 1)
            return node
        case ast.Call(func=ast.Name(id=function), args=[_, _, *_], keywords=[]) if function in _EXTREMES:
            node.args = [_checked(argument, text, names, depth=depth + 1) for argument in node.args]
            return node
        case ast.Name():
            metric = name_at(text, node)
        case ast.Constant(value=str() as metric) if metric:
            pass
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if abs(number) > _LARGEST or not math.isfinite(number):
                raise SpecError(f"a number in the expression is too large; the limit is {_LARGEST:g}")
            return node
        case _:
            raise SpecError(f"{_describe(node, text)} is not allowed in an expression: {_ALLOWED}")
    names[metric] = None
    return ast.Name(id=metric)


def _describe(node: ast.expr, text: str) -> str:
    """Return the source text of a node in backquotes; for an operation, only the operator."""
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return f"`{_SIGNS[type(node.op)]}`"
    part = text[node.col_offset : node.end_col_offset]
    return f"`{part if len(part) <= 40 else part[:40] + '…'}`"


def _evaluate(node: ast.expr, arrays: Mapping[str, Any], defined: Callable[[Any], Any]) -> Any:
    import numpy as np  # noqa: PLC0415  as in `MetricExpression.evaluate`

    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return defined(_BINARY[type(op)](_evaluate(left, arrays, defined), _evaluate(right, arrays, defined)))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, arrays, defined))
        case ast.IfExp(body=body, test=ast.Compare(left=left, ops=[compared], comparators=[right]), orelse=orelse):
            first, second = _evaluate(left, arrays, defined), _evaluate(right, arrays, defined)
            value = np.where(
                _COMPARISONS[type(compared)](first, second),
                _evaluate(body, arrays, defined),
                _evaluate(orelse, arrays, defined),
            )
            return np.where(np.isnan(first) | np.isnan(second), np.nan, value)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            extreme = np.minimum if function == "min" else np.maximum  # NaN if either operand is NaN
            return reduce(extreme, [_evaluate(argument, arrays, defined) for argument in arguments])
        case ast.Name(id=name):
            return defined(arrays[name])
        case ast.Constant(value=number):
            # An array, so that a division by zero gives NaN, not an error.
            return defined(float(number))  # type: ignore[arg-type]  # `_checked` allows only numbers
        case _:
            raise AssertionError(f"`_checked` let {ast.dump(node)} pass")
