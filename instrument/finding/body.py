"""What happens in a function's body, and where text may be inserted to count it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from clang.cindex import CursorKind

from unperturbed.instrument.events.places import Body, Function, InsertionPoint
from unperturbed.instrument.finding.declarations import FUNCTION_KINDS, after_brace, function_of, lambda_of
from unperturbed.instrument.finding.expressions import OPERATIONS, address_taken, assigned, unevaluated
from unperturbed.instrument.finding.parse import children_of, span
from unperturbed.instrument.finding.preprocessed import after_parentheses, next_token

_LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT)
_LABELS = (CursorKind.LABEL_STMT, CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT)
_BODY_LAST = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.SWITCH_STMT, CursorKind.CXX_FOR_RANGE_STMT)
_NOT_RUN = (
    CursorKind.CXX_UNARY_EXPR,
    CursorKind.STATIC_ASSERT,
    CursorKind.PARM_DECL,
    CursorKind.FIELD_DECL,
    CursorKind.TYPE_REF,
    CursorKind.TEMPLATE_REF,
    CursorKind.NAMESPACE_REF,
)
_CONSTEXPR = re.compile(rb"\bconstexpr\b")
_STATEMENT_EXPRESSION = re.compile(rb"\(\s*(?:#[^\n]*\n\s*)*\{")
_NEVER = (b"0", b"false")

_EXPRESSION, _IN_BLOCK, _BARE = range(3)
"""Position of a cursor: no statement, a statement between braces, the only statement of an if, a loop or an else."""


class _Node(NamedTuple):
    """A cursor to visit."""

    cursor: Any  # libclang's cursor
    position: int = _EXPRESSION  # Its position: `_EXPRESSION`, `_IN_BLOCK` or `_BARE`
    anchor: int | None = None  # Where a statement before it would go; at its start by default
    variable: Any = None  # The variable that it initialises
    in_block: bool = False  # It is in a declaration between braces


def read_body(function: Function, data: bytes, *, expressions: bool = True) -> Body:
    """Walk through a function's body (and a constructor's initialisers).

    `expressions`: Look into declarations and expressions too; else `assignments`, `calls`, `addresses` and `variables`
    stay empty, and lambdas uncounted.

    Notes
    -----
    Left out is what only the compiler evaluates: operands of sizeof, typeof and decltype, static_assert, the condition
    of `if constexpr`, constexpr variables, case labels. `do … while (0)` is a way to write macros, not a loop.
    """
    return _Reader(function, data, expressions=expressions).read()


class _Reader:
    def __init__(self, function: Function, data: bytes, *, expressions: bool) -> None:
        self._function = function
        self._expressions = (
            expressions or _STATEMENT_EXPRESSION.search(data, function.opening, function.closing) is not None
        )
        self._data = data
        self._body = Body([], [], [], [], [], [], [], [], [])
        self._lambdas = 0
        self._unevaluated = unevaluated(data, function.start, function.end)

    def read(self) -> Body:
        function = self._function
        stack = [_Node(function.body, _BARE)]
        if function.cursor.kind == CursorKind.CONSTRUCTOR:
            initialisers = [child for child in children_of(function.cursor) if child.kind.is_expression()]
            stack += [_Node(child) for child in reversed(initialisers)]
        while stack:
            node = stack.pop()
            if self._visit(node):
                children = self._children(node)
                stack += reversed(
                    children if self._expressions else [child for child in children if child.position != _EXPRESSION]
                )
        if not self._ends_with_return():
            self._body.returns.append(InsertionPoint("block", function.closing, function.closing, function.closing))
        self._body.loops.sort(key=lambda point: point.at)
        return self._body

    def _visit(self, node: _Node) -> bool:
        """Note what a cursor does; return whether its children are looked at."""
        kind = node.cursor.kind
        if kind == CursorKind.VAR_DECL:
            self._body.variables.append((node.cursor, node.in_block))
        if kind in _NOT_RUN:
            return False
        if kind == CursorKind.LAMBDA_EXPR:
            self._lambdas += 1
            self._nest(lambda_of(node.cursor, self._data, self._function, self._lambdas, self._variable_of(node)))
            return True
        if kind in FUNCTION_KINDS:
            self._nest(function_of(node.cursor, self._data, self._function))
            return False
        if node.position != _EXPRESSION:
            self._statement(node)
        if kind in _LOOPS:
            self._loop(node.cursor)
        elif kind.is_expression():
            self._expression(node.cursor)
        return True

    def _nest(self, function: Function | None) -> None:
        if function is not None:
            self._body.nested.append(function)

    def _statement(self, node: _Node) -> None:
        kind = node.cursor.kind
        point = self._point(node, span(node.cursor)[0])
        if node.cursor != self._function.body:
            self._body.statements.append((node.cursor, point))
        if self._is_return(node.cursor):
            self._body.returns.append(point)
        elif kind == CursorKind.LABEL_STMT:
            self._body.labels.append((node.cursor.spelling, point))

    def _loop(self, loop: Any) -> None:
        children = children_of(loop)
        start, _ = span(loop)
        if loop.kind == CursorKind.DO_STMT:
            condition = self._data[slice(*span(children[-1]))]
            if re.sub(rb"[\s()]", b"", condition) in _NEVER:
                return
        body = children[0] if loop.kind == CursorKind.DO_STMT else children[-1]
        self._body.loops.append(self._point(_Node(body, _BARE), start))

    def _expression(self, cursor: Any) -> None:
        if cursor.kind not in OPERATIONS:
            return
        start, end = span(cursor)
        if not self._function.start <= start < end <= self._function.end:
            return  # an argument's default value, an implicit call: its text is elsewhere or nowhere
        if self._data.startswith(b"co_return", start) or self._data[start:end] in (b"co_yield", b"co_await"):
            return  # calls that the compiler makes of a coroutine's keyword
        if any(low <= start < high for low, high in self._unevaluated):
            return
        point = InsertionPoint("expression", start, end, start)
        left = assigned(cursor, self._data)
        if left is not None:
            self._body.assignments.append((point, left))
        if cursor.kind == CursorKind.CALL_EXPR:
            self._body.calls.append((point, cursor))
        operand = address_taken(cursor, self._data)
        if operand is not None:
            self._body.addresses.append((start, operand))

    def _point(self, node: _Node, at: int) -> InsertionPoint:
        """Return where a statement is counted: in its block, before it, or after its labels."""
        cursor, kind = node.cursor, node.cursor.kind
        start, _ = span(cursor)
        anchor = start if node.anchor is None else node.anchor
        if kind == CursorKind.COMPOUND_STMT and self._data.startswith((b"{", b"<%"), start):
            offset = after_brace(self._data, start)
            return InsertionPoint("block", offset, offset, at)
        if kind in _LABELS:
            return self._point(_Node(children_of(cursor)[-1], node.position), at)
        if kind == CursorKind.NULL_STMT and (node.position == _IN_BLOCK or self._data[start : start + 1] == b":"):
            # Behind a semicolon: in C++ nothing else may follow a label's attributes. A label at the end of a block:
            # libclang puts the missing statement on its colon.
            anchor = start + 1
        return InsertionPoint("block" if node.position == _IN_BLOCK else "bare", anchor, anchor, at)

    def _children(self, node: _Node) -> list[_Node]:
        cursor, kind = node.cursor, node.cursor.kind
        children = children_of(cursor)
        if kind == CursorKind.COMPOUND_STMT:
            return [_Node(child, _IN_BLOCK) for child in children]
        if kind in _LABELS:
            return [_Node(children[-1], node.position)]
        if kind == CursorKind.UNEXPOSED_STMT and not self._is_return(cursor):
            anchor = span(cursor)[0] if node.anchor is None else node.anchor
            return [_Node(child, node.position, anchor) for child in children]
        if kind == CursorKind.IF_STMT:
            return self._branches(cursor, children)
        if kind == CursorKind.VAR_DECL:
            before_name = self._data[span(cursor)[0] : max(span(cursor)[0], cursor.location.offset)]
            if _CONSTEXPR.search(before_name):
                # Its value is made by the compiler, but a lambda in it may be called by the program.
                children = [child for child in children if _is_lambda(child)]
            return [_Node(child, variable=cursor) for child in children]
        if kind == CursorKind.LAMBDA_EXPR:
            children = [child for child in children if child.kind.is_expression()]
        if kind == CursorKind.CXX_FOR_RANGE_STMT:
            children = [child for child in children if child.kind != CursorKind.VAR_DECL]
        bodies = {
            CursorKind.DO_STMT: (0,),
            CursorKind.CXX_TRY_STMT: range(len(children)),
            CursorKind.CXX_CATCH_STMT: (-1,),
        }
        only = (
            {index % len(children) for index in bodies.get(kind, (-1,) if kind in _BODY_LAST else ())}
            if children
            else set()
        )
        in_block = kind == CursorKind.DECL_STMT and node.position == _IN_BLOCK
        return [
            _Node(child, _BARE if index in only else _EXPRESSION, variable=node.variable, in_block=in_block)
            for index, child in enumerate(children)
        ]

    def _branches(self, cursor: Any, children: list[Any]) -> list[_Node]:
        """Return the parts of an if: those after the condition's parenthesis are statements."""
        token, offset = next_token(self._data, span(cursor)[0] + len(b"if"))
        constant = token == b"constexpr"
        if constant:
            token, offset = next_token(self._data, offset + len(token))
        behind = after_parentheses(self._data, offset) if token == b"(" else offset
        nodes = []
        for child in children:
            if span(child)[0] >= behind:
                nodes.append(_Node(child, _BARE))
            elif not constant:
                nodes.append(_Node(child))
        return nodes

    def _variable_of(self, node: _Node) -> str:
        """Return the name of the variable that a lambda expression initialises, '' when it does something else."""
        if node.variable is None:
            return ""
        name: str = node.variable.spelling
        token, offset = next_token(self._data, node.variable.location.offset + len(name.encode()))
        if token not in (b"=", b"{", b"("):
            return ""
        return name if next_token(self._data, offset + 1)[1] == span(node.cursor)[0] else ""

    def _ends_with_return(self) -> bool:
        last = next(reversed(children_of(self._function.body)), None)
        while last is not None and last.kind in _LABELS:
            last = children_of(last)[-1]
        return last is not None and self._is_return(last)

    def _is_return(self, cursor: Any) -> bool:
        if cursor.kind == CursorKind.RETURN_STMT:
            return True
        return cursor.kind == CursorKind.UNEXPOSED_STMT and next_token(self._data, span(cursor)[0])[0] == b"co_return"


def _is_lambda(expression: Any) -> bool:
    """Return whether an expression is a lambda and nothing more."""
    while expression.kind == CursorKind.UNEXPOSED_EXPR:
        inner = children_of(expression)
        if len(inner) != 1:
            return False
        expression = inner[0]
    return bool(expression.kind == CursorKind.LAMBDA_EXPR)
