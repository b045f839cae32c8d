"""Translation of syntax trees to polars: allowed nodes, their types, and the rows in which they have no value.

All other syntax is an error with its position: attributes, calls of functions other than those below, comprehensions,
assignments. See `columns` for the syntax. Each inner node becomes a step, which is a column that outer nodes refer to,
so the translation grows in proportion to the text, however often a value is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import polars as pl

from unperturbed.common.expressions.syntax import (
    DEEPEST,
    TYPE_NAMES,
    ExpressionError,
    ResultType,
    Value,
    common_type,
    finite,
    literal,
    name_at,
)
from unperturbed.common.wording import no_such_column

_NEED = {
    "number": "expected a number, not {}",
    "truth": "expected a comparison or another truth value, not {}",
    "text": "expected text, not {}",
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    ast.Eq: pl.Expr.eq,
    ast.NotEq: pl.Expr.ne,
    ast.Lt: pl.Expr.lt,
    ast.LtE: pl.Expr.le,
    ast.Gt: pl.Expr.gt,
    ast.GtE: pl.Expr.ge,
}


def _log_to(base: float) -> Callable[[pl.Expr], pl.Expr]:
    def log(value: pl.Expr) -> pl.Expr:
        # A quotient of natural logarithms misses integer results (log10(1000) would be below 3), so floor or ceil would
        # be off by one.
        logarithm = value.log(base)
        whole = logarithm.round()
        return pl.when(pl.lit(base).pow(whole) == value).then(whole).otherwise(logarithm)

    return log


_FUNCTIONS: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    "abs": pl.Expr.abs,
    "ceil": pl.Expr.ceil,
    "exp": pl.Expr.exp,
    "floor": pl.Expr.floor,
    "log": pl.Expr.log,
    "log10": _log_to(10.0),
    "log2": _log_to(2.0),
    "sqrt": pl.Expr.sqrt,
}
_EXTREMES: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {"max": pl.Expr.ge, "min": pl.Expr.le}


@dataclass(frozen=True)
class Term:
    """A translated part of an expression."""

    value: pl.Expr  # A column: an input, a step, or a repeated literal
    type: ResultType  # {"number", "truth", "text"}: Type of the value


@dataclass(frozen=True)
class Check:
    """A condition under which a part of an expression has no value."""

    bad: pl.Expr  # True in the rows without a value
    value: pl.Expr  # The operand that causes this
    why: str  # The reason, for messages
    position: int  # Position in the text, from 1


class Translator:
    """Translator of one expression to polars."""

    def __init__(self, text: str, schema: Mapping[str, pl.DataType]) -> None:
        self.columns: dict[str, Term] = {}  # The columns used, in order of first use
        # These columns as float64, booleans or text, under internal names; to be selected from the table.
        self.inputs: list[pl.Expr] = []
        self.steps: list[pl.Expr] = []  # Columns to be added to the inputs, one after the other
        self.checks: list[Check] = []  # Conditions without a value, over inputs and steps
        self._text = text
        self._schema = schema
        self._depth = 0
        self._reached: pl.Expr | None = None

    def term(self, node: ast.expr) -> Term:
        """Translate a node; raise ExpressionError for unknown columns, wrong types and syntax that is not allowed."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(node, f"the expression is nested more than {DEEPEST} levels deep; use fewer terms")
        translation = _TRANSLATIONS.get(type(node))
        if translation is None:
            raise self._error(node, _REFUSED.get(type(node), "syntax not allowed in an expression over columns"))
        term = translation(self, node)
        self._depth -= 1
        return term if isinstance(node, ast.Name | ast.Constant) else Term(self._step(term.value), term.type)

    def _step(self, value: pl.Expr) -> pl.Expr:
        """Add a value as a column, so that it is computed only once."""
        name = f"step {len(self.steps)}"
        self.steps.append(value.alias(name))
        return pl.col(name)

    def _error(self, node: ast.expr, why: str) -> ExpressionError:
        return ExpressionError(self._text, node.col_offset + 1, why)

    def _check(self, node: ast.expr, bad: pl.Expr, value: pl.Expr, why: str) -> None:
        self.checks.append(
            Check(bad if self._reached is None else self._reached & bad, value, why, node.col_offset + 1)
        )

    @contextmanager
    def _only_where(self, condition: pl.Expr) -> Iterator[None]:
        """Restrict the checks inside this context to rows with a true condition: other rows do not use the value."""
        before = self._reached
        self._reached = self._step(condition if before is None else before & condition)
        yield
        self._reached = before

    def _of_type(self, node: ast.expr, needed: ResultType) -> pl.Expr:
        term = self.term(node)
        if term.type == needed:
            return term.value
        if term.type == "truth" and needed == "number":
            return term.value.cast(pl.Float64)
        raise self._error(node, _NEED[needed].format(TYPE_NAMES[term.type]))

    def _number(self, node: ast.expr) -> pl.Expr:
        return self._of_type(node, "number")

    # Names and literals

    def _name(self, node: ast.Name) -> Term:
        name = name_at(self._text, node)
        if name not in self._schema:
            raise self._error(node, self._with_quotes_hint(node, no_such_column(name, list(self._schema))))
        if name not in self.columns:
            value, kind = self._input(node, name)
            own = f"column {len(self.inputs)}"
            self.inputs.append(value.alias(own))
            self.columns[name] = Term(pl.col(own), kind)
        return self.columns[name]

    def _input(self, node: ast.Name, name: str) -> tuple[pl.Expr, ResultType]:
        dtype, column = self._schema[name], pl.col(name)
        if dtype == pl.Boolean:
            return column, "truth"
        if dtype.is_numeric():
            return column.cast(pl.Float64).fill_nan(None), "number"
        if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
            return column.cast(pl.String), "text"
        raise self._error(node, f"column {name} has type {dtype}, which is neither numeric nor text")

    def _attribute(self, node: ast.Attribute) -> Term:
        raise self._error(node, self._with_quotes_hint(node, "a name that contains a dot needs backquotes"))

    def _with_quotes_hint(self, node: ast.expr, otherwise: str) -> str:
        """Return a hint to use backquotes if a column name that needs them starts here unquoted, else `otherwise`."""
        here = self._text[node.col_offset :]
        odd = [name for name in self._schema if here.startswith(name) and not name.isidentifier()]
        meant = max(odd, key=len, default="")
        return (
            f"a name with characters other than letters, digits and _ needs backquotes: `{meant}`"
            if meant
            else otherwise
        )

    def _constant(self, node: ast.Constant) -> Term:
        # A full column: polars treats a value computed only from literals as a scalar, and may not broadcast it.
        match node.value:
            case bool():
                return Term(pl.repeat(node.value, pl.len()), "truth")
            case int() | float():
                return Term(pl.repeat(finite(self._text, node, node.value), pl.len(), dtype=pl.Float64), "number")
            case str():
                return Term(pl.repeat(node.value, pl.len()), "text")
        raise self._error(node, f"{node.value!r} is neither a number nor text")

    # Arithmetic

    def _sign(self, node: ast.UnaryOp) -> Term:
        if isinstance(node.op, ast.Not):
            return Term(self._of_type(node.operand, "truth").not_(), "truth")
        if isinstance(node.op, ast.Invert):
            raise self._error(node, "unsupported operator ~: use `not`")
        value = self._number(node.operand)
        return Term(-value if isinstance(node.op, ast.USub) else value, "number")

    def _arithmetic(self, node: ast.BinOp) -> Term:
        left, right = self._number(node.left), self._number(node.right)
        match node.op:
            case ast.Add():
                return Term(left + right, "number")
            case ast.Sub():
                return Term(left - right, "number")
            case ast.Mult():
                return Term(left * right, "number")
            case ast.Pow():
                return self._power(node, left, right)
            case ast.Div() | ast.FloorDiv() | ast.Mod():
                self._check(node.right, right == 0, right, "division by 0")
                safe = pl.when(right != 0).then(right)
                if isinstance(node.op, ast.Div):
                    return Term(left / safe, "number")
                return Term(left // safe if isinstance(node.op, ast.FloorDiv) else left % safe, "number")
        raise self._error(node, "unsupported operator: use + - * / // % or **")

    def _power(self, node: ast.BinOp, base: pl.Expr, exponent: pl.Expr) -> Term:
        by_zero = self._step((base == 0) & (exponent < 0))
        of_negative = self._step((base < 0) & (exponent != exponent.floor()))
        self._check(node.left, by_zero, base, "0 to a negative power")
        self._check(node.left, of_negative, base, "a negative number to a non-integer power")
        return Term(pl.when(~(by_zero | of_negative)).then(base.pow(exponent)), "number")

    def _call(self, node: ast.Call) -> Term:
        if not isinstance(node.func, ast.Name):
            raise self._error(node.func, "a call needs the name of a function, as in log2(n)")
        name = node.func.id
        if name not in _FUNCTIONS and name not in _EXTREMES:
            known = ", ".join(sorted({*_FUNCTIONS, *_EXTREMES}))
            raise self._error(node, f"unknown function {name!r}: use one of {known}")
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._error(node, f"{name} takes only positional arguments, without `*`")
        if name in _EXTREMES:
            return self._extreme(node, name)
        if len(node.args) != 1:
            raise self._error(node, f"{name} takes one argument, not {len(node.args)}")
        value = self._number(node.args[0])
        if name.startswith("log"):
            self._check(node, value <= 0, value, f"{name} of a number that is not positive")
            value = pl.when(value > 0).then(value)
        if name == "sqrt":
            self._check(node, value < 0, value, "sqrt of a negative number")
            value = pl.when(value >= 0).then(value)
        return Term(_FUNCTIONS[name](value), "number")

    def _extreme(self, node: ast.Call, name: str) -> Term:
        if len(node.args) < 2:
            raise self._error(node, f"{name} needs two or more arguments, which it compares row by row")
        extreme = self._number(node.args[0])
        for argument in node.args[1:]:
            other = self._number(argument)
            first = self._step(_EXTREMES[name](extreme, other))
            extreme = self._step(pl.when(first).then(extreme).when(~first).then(other))
        return Term(extreme, "number")

    # Comparisons and choices

    def _comparison(self, node: ast.Compare) -> Term:
        pairs = []
        first: Term | None = None
        for left, operator, right in zip((node.left, *node.comparators), node.ops, node.comparators, strict=False):
            first = first or self.term(left)
            if isinstance(operator, ast.In | ast.NotIn):
                is_member = self._member(first, right)
                pairs.append(is_member if isinstance(operator, ast.In) else ~is_member)
                first = None  # the next item is a tuple of literals, which cannot be compared
            else:
                second = self._compared(operator, right)
                pairs.append(self._pair(first, operator, second, right))
                first = second
        return Term(reduce(and_, pairs), "truth")

    def _compared(self, operator: ast.cmpop, right: ast.expr) -> Term:
        if type(operator) not in _COMPARISONS:
            raise self._error(right, "unsupported operator `is`: use == or !=")
        return self.term(right)

    def _pair(self, first: Term, operator: ast.cmpop, second: Term, right: ast.expr) -> pl.Expr:
        compare = _COMPARISONS[type(operator)]
        if "text" in {first.type, second.type}:
            if first.type != second.type:
                raise self._error(right, f"cannot compare {TYPE_NAMES[first.type]} with {TYPE_NAMES[second.type]}")
            if not isinstance(operator, ast.Eq | ast.NotEq):
                raise self._error(right, "text has no order: compare text with == or !=")
            return compare(first.value, second.value)
        return compare(_as_number(first), _as_number(second))

    def _member(self, first: Term, right: ast.expr) -> pl.Expr:
        if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise self._error(right, "`in` needs literals in parentheses, as in datatype in ('int', 'float')")
        options = [literal(self._text, element) for element in right.elts]
        term, keys = self._keys(first, right, options)
        return term.is_in(keys)

    def _junction(self, node: ast.BoolOp) -> Term:
        joined = self._of_type(node.values[0], "truth")
        is_and = isinstance(node.op, ast.And)
        for operand in node.values[1:]:
            # As in Python, later operands count only where they can still change the result.
            with self._only_where(joined if is_and else ~joined):
                other = self._of_type(operand, "truth")
            joined = self._step(joined & other if is_and else joined | other)
        return Term(joined, "truth")

    def _choice(self, node: ast.IfExp) -> Term:
        condition = self._of_type(node.test, "truth")
        with self._only_where(condition):
            first = self.term(node.body)
        with self._only_where(~condition):
            second = self.term(node.orelse)
        if first.type != second.type:
            if "text" in {first.type, second.type}:
                raise self._error(
                    node.orelse,
                    f"the value before `if` is {TYPE_NAMES[first.type]}, but the value after `else` is "
                    f"{TYPE_NAMES[second.type]}: both must have the same type",
                )
            first, second = Term(_as_number(first), "number"), Term(_as_number(second), "number")
        # A row with a missing condition must not get the second value.
        return Term(pl.when(condition).then(first.value).when(~condition).then(second.value), first.type)

    def _mapping(self, node: ast.Subscript) -> Term:
        table = node.value
        if not isinstance(table, ast.Dict):
            raise self._error(node, "only a mapping can be indexed, as in {'float': 4, 'double': 8}[datatype]")
        if not table.keys:
            raise self._error(node, "the mapping is empty")
        options = [literal(self._text, key) for key in table.keys if key is not None]
        if len(options) < len(table.keys):
            raise self._error(node, "unsupported ** in a mapping: list all keys and values")
        results, kind = common_type(self._text, table, [literal(self._text, value) for value in table.values])
        term, keys = self._keys(self.term(node.slice), table, options)
        if len(set(keys)) < len(keys):
            raise self._error(table, "a key appears twice in the mapping")
        self._check(node, term.is_in(keys).not_(), term, "the mapping has no entry for the value")
        dtype = {"number": pl.Float64, "truth": pl.Boolean, "text": pl.String}[kind]
        return Term(term.replace_strict(keys, results, default=None, return_dtype=dtype()), kind)

    def _keys(self, term: Term, at: ast.expr, options: list[tuple[Value, ResultType]]) -> tuple[pl.Expr, list[Value]]:
        """Convert a term, and the literals that the term is compared with, to one type."""
        keys, kind = common_type(self._text, at, options)
        if "text" in {term.type, kind} and term.type != kind:
            raise self._error(at, f"cannot compare {TYPE_NAMES[term.type]} with a key that is {TYPE_NAMES[kind]}")
        if term.type == kind:
            return term.value, keys
        return _as_number(term), [float(key) for key in keys]


def _as_number(term: Term) -> pl.Expr:
    """Convert truth values to 0 and 1."""
    return term.value.cast(pl.Float64) if term.type == "truth" else term.value


_TRANSLATIONS: Mapping[type[ast.expr], Callable[[Translator, Any], Term]] = {
    ast.Name: Translator._name,
    ast.Constant: Translator._constant,
    ast.UnaryOp: Translator._sign,
    ast.BinOp: Translator._arithmetic,
    ast.Call: Translator._call,
    ast.Compare: Translator._comparison,
    ast.BoolOp: Translator._junction,
    ast.IfExp: Translator._choice,
    ast.Subscript: Translator._mapping,
    ast.Attribute: Translator._attribute,
}
_REFUSED: Mapping[type[ast.expr], str] = {
    ast.Dict: "a mapping needs a column or value in brackets after it, as in {'float': 4}[datatype]",
    ast.Lambda: "an expression cannot define functions",
    ast.NamedExpr: "an expression cannot assign values",
}
