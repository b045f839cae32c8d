"""Events in a function's body, and the points where counting code can be inserted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from clang.cindex import CursorKind, TypeKind, conf

from unperturbed.instrument.events.kind import Body, InsertionPoint, ParsedFunction
from unperturbed.instrument.finding.declarations import FUNCTION_KINDS, after_brace, function_of, lambda_of
from unperturbed.instrument.finding.preprocessed import after_parentheses, children_of, next_token, span

_ARRAYS = (
    *(TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY),
    *(TypeKind.DEPENDENTSIZEDARRAY, TypeKind.VECTOR),
)
OPERATIONS = frozenset(
    {
        CursorKind.BINARY_OPERATOR,
        CursorKind.COMPOUND_ASSIGNMENT_OPERATOR,
        CursorKind.UNARY_OPERATOR,
        CursorKind.CALL_EXPR,
    }
)
"""Kinds of expression that may write, call or take an address."""

_OPERATORS = re.compile(r"operator(?:(?:[-+*/%&|^]|<<|>>)?=|\+\+|--)")
_UNEVALUATED = re.compile(
    rb"(?<![\w$])(?:decltype|typeof|__typeof__|__typeof|typeof_unqual|typeid|noexcept|static_assert|_Static_assert|requires"
    rb"|__builtin_constant_p|__builtin_object_size|__builtin_dynamic_object_size)\s*(?=[({])"
)


def assigned(cursor: Any, data: bytes) -> Any | None:
    """Return the left side of an assignment or the operand of ++ or --, overloaded or not; None for others."""
    kind = cursor.kind
    if kind not in OPERATIONS:
        return None
    if kind == CursorKind.CALL_EXPR and not _OPERATORS.fullmatch(cursor.spelling):
        return None
    left = next(iter(children_of(cursor)), None)
    if left is None:
        return None
    if kind == CursorKind.BINARY_OPERATOR:
        token, offset = next_token(data, span(left)[1])
        return left if token == b"=" and data[offset + 1 : offset + 2] != b"=" else None
    if kind == CursorKind.UNARY_OPERATOR:
        start, end = span(cursor)
        return left if data[start : start + 2] in (b"++", b"--") or data[end - 2 : end] in (b"++", b"--") else None
    return left


def address_taken(cursor: Any, data: bytes) -> Any | None:
    """Return the operand of a unary &; None for any other expression."""
    if cursor.kind != CursorKind.UNARY_OPERATOR or data[span(cursor)[0] : span(cursor)[0] + 1] != b"&":
        return None
    return next(iter(children_of(cursor)), None)


def objects(expression: Any, data: bytes) -> Iterator[Any]:
    """Yield the declarations of the fields and the variable that contain an lvalue, innermost first.

    `s.a[2].b` is in field b, field a and variable s; `p->a` is only in field a, because p is only read.
    """
    cursor: Any | None = expression
    while cursor is not None:
        kind = cursor.kind
        if kind == CursorKind.DECL_REF_EXPR:
            yield from _declaration(cursor)
            return
        if kind == CursorKind.MEMBER_REF_EXPR:
            yield from _declaration(cursor, data)
            cursor = _base(cursor, data)
        elif kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
            base = _stripped(next(iter(children_of(cursor)), None))
            cursor = base if base is not None and base.type.get_canonical().kind in _ARRAYS else None
        elif kind in (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR):
            cursor = next(iter(children_of(cursor)), None)
        else:
            return


def called(call: Any) -> Iterator[Any]:
    """Yield the functions that a call may call directly; several for an overload that a template resolves later."""
    callee = call.referenced
    if callee is None:
        first = _stripped(next(iter(children_of(call)), None))
        callee = _chosen(first) if first is not None else None
    if callee is None:
        return
    if callee.kind == CursorKind.OVERLOADED_DECL_REF:
        for number in range(conf.lib.clang_getNumOverloadedDecls(callee)):
            yield conf.lib.clang_getOverloadedDecl(callee, number)
    elif callee.kind in FUNCTION_KINDS and callee.kind != CursorKind.CONSTRUCTOR:
        yield callee


def _chosen(expression: Any) -> Any | None:
    """Return the declaration that an expression refers to; for _Generic, the only choice with the expression's type."""
    if expression.kind != CursorKind.GENERIC_SELECTION_EXPR:
        return expression.referenced
    _, *choices = children_of(expression)
    alike = [choice.referenced for choice in choices if choice.referenced and choice.type == expression.type]
    return alike[0] if len({function.hash for function in alike}) == 1 else None


def unevaluated(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the byte ranges between start and end that are not evaluated, such as operands of typeof."""
    return [(match.start(), after_parentheses(data, match.end())) for match in _UNEVALUATED.finditer(data, start, end)]


def _declaration(reference: Any, data: bytes = b"") -> Iterator[Any]:
    declaration = reference.referenced
    if declaration is not None:
        yield declaration
        return
    # In a class template libclang does not resolve `this->x`, although x can only be the template's own member.
    start, end = span(reference)
    match = re.fullmatch(rb"this\s*->\s*(\w+)", data[start:end])
    this = next(iter(children_of(reference)), None)
    if match is None or this is None:
        return
    record = this.type.get_pointee().get_declaration()
    name = match[1].decode("utf-8", "replace")
    yield from (
        field for field in children_of(record) if field.kind == CursorKind.FIELD_DECL and field.spelling == name
    )


def _base(member: Any, data: bytes) -> Any | None:
    """Return the object that a member expression accesses; None for access through a pointer or `this`."""
    base = next((child for child in children_of(member) if child.kind.is_expression()), None)
    if base is None or base.type.get_canonical().kind == TypeKind.POINTER:
        return None
    return None if next_token(data, span(base)[1])[0] == b"->" else base


def _stripped(cursor: Any | None) -> Any | None:
    while cursor is not None and cursor.kind in (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR):
        inner = next(iter(children_of(cursor)), None)
        if inner is None:
            return cursor
        cursor = inner
    return cursor


_LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT)
_LABELS = (CursorKind.LABEL_STMT, CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT)
_BODY_LAST = (
    *(CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.SWITCH_STMT),
    *(CursorKind.CXX_FOR_RANGE_STMT, CursorKind.CXX_CATCH_STMT),
)
_NOT_RUN = (
    *(CursorKind.CXX_UNARY_EXPR, CursorKind.STATIC_ASSERT, CursorKind.PARM_DECL, CursorKind.FIELD_DECL),
    *(CursorKind.TYPE_REF, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF),
)
_CONSTEXPR = re.compile(rb"\bconstexpr\b")
_STATEMENT_EXPRESSION = re.compile(rb"\(\s*(?:#[^\n]*\n\s*)*\{")
_NEVER = (b"0", b"false")

_EXPRESSION, _IN_BLOCK, _BARE = range(3)
"""Position of a cursor: not a statement; a statement in a block; the single statement of an if, a loop or an else."""


class _Node(NamedTuple):
    """Cursor to visit, with its context."""

    cursor: Any
    position: int = _EXPRESSION  # `_EXPRESSION`, `_IN_BLOCK` or `_BARE`
    anchor: int | None = None  # Offset for a statement before the cursor; by default the cursor's start
    variable: Any = None  # Variable that the cursor initialises
    in_block: bool = False  # Whether the cursor is in a declaration in a block


def read_body(function: ParsedFunction, data: bytes, *, expressions: bool = True) -> Body:
    """Read a function's body and a constructor's initialisers, with or without declarations and expressions.

    Code that only the compiler evaluates is skipped: operands of sizeof, typeof and decltype, static_assert, the
    condition of `if constexpr`, constexpr variables, case labels. `do … while (0)` is a macro idiom, not a loop.
    """
    return _Reader(function, data, expressions=expressions).read()


class _Reader:
    def __init__(self, function: ParsedFunction, data: bytes, *, expressions: bool) -> None:
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
        """Record the events of a cursor; return whether to visit its children."""
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

    def _nest(self, function: ParsedFunction | None) -> None:
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
            return  # a default argument or an implicit call: its text is elsewhere or does not exist
        if self._data.startswith(b"co_return", start) or self._data[start:end] in (b"co_yield", b"co_await"):
            return  # calls that the compiler generates for a coroutine's keyword
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
        """Return the insertion point of a statement: inside its block, before it, or after its labels."""
        cursor, kind = node.cursor, node.cursor.kind
        start, _ = span(cursor)
        anchor = start if node.anchor is None else node.anchor
        if kind == CursorKind.COMPOUND_STMT and self._data.startswith((b"{", b"<%"), start):
            offset = after_brace(self._data, start)
            return InsertionPoint("block", offset, offset, at)
        if kind in _LABELS:
            return self._point(_Node(children_of(cursor)[-1], node.position), at)
        if kind == CursorKind.NULL_STMT and (node.position == _IN_BLOCK or self._data[start : start + 1] == b":"):
            # After the semicolon: in C++ nothing else may follow a label's attributes. For a label at the end of a
            # block, libclang locates the missing statement at the colon.
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
            start = span(cursor)[0]
            if _CONSTEXPR.search(self._data, start, max(start, cursor.location.offset)):
                # The compiler computes the value, but the program may call a lambda in it.
                children = [child for child in children if _is_lambda(child)]
            return [_Node(child, variable=cursor) for child in children]
        if kind == CursorKind.LAMBDA_EXPR:
            children = [child for child in children if child.kind.is_expression()]
        if kind == CursorKind.CXX_FOR_RANGE_STMT:
            children = [child for child in children if child.kind != CursorKind.VAR_DECL]
        bodies = {CursorKind.DO_STMT: range(1), CursorKind.CXX_TRY_STMT: range(len(children))}
        last = range(len(children) - 1, len(children))
        only = bodies.get(kind, last if kind in _BODY_LAST else range(0))
        in_block = kind == CursorKind.DECL_STMT and node.position == _IN_BLOCK
        return [
            _Node(child, _BARE if index in only else _EXPRESSION, variable=node.variable, in_block=in_block)
            for index, child in enumerate(children)
        ]

    def _branches(self, cursor: Any, children: list[Any]) -> list[_Node]:
        """Return the parts of an if statement; parts after the condition's closing parenthesis are statements."""
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
        """Return the name of the variable that a lambda expression initialises; '' if it initialises none."""
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
    """Return whether an expression consists only of a lambda."""
    while expression.kind == CursorKind.UNEXPOSED_EXPR:
        inner = children_of(expression)
        if len(inner) != 1:
            return False
        expression = inner[0]
    return bool(expression.kind == CursorKind.LAMBDA_EXPR)
