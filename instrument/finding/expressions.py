"""What an expression does to names: which variables and fields an assignment writes, which function a call calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clang.cindex import CursorKind, TypeKind, conf

from unperturbed.instrument.finding.declarations import FUNCTION_KINDS
from unperturbed.instrument.finding.parse import children_of, span
from unperturbed.instrument.finding.preprocessed import after_parentheses, next_token

_ARRAYS = frozenset(
    {
        TypeKind.CONSTANTARRAY,
        TypeKind.INCOMPLETEARRAY,
        TypeKind.VARIABLEARRAY,
        TypeKind.DEPENDENTSIZEDARRAY,
        TypeKind.VECTOR,
    }
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
    """Return the left side of an assignment, compound assignment, ++ or --; None for any other expression.

    C++ operators of classes (`operator=`, `operator+=`, `operator++`, …) are assignments too when written as operators.
    """
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
    """Return the operand of a unary &, None for any other expression."""
    if cursor.kind != CursorKind.UNARY_OPERATOR or data[span(cursor)[0] : span(cursor)[0] + 1] != b"&":
        return None
    return next(iter(children_of(cursor)), None)


def objects(expression: Any, data: bytes) -> Iterator[Any]:
    """Yield the declarations of the fields and the variable whose own storage an lvalue designates, innermost first.

    `s.a[2].b` lies within field b, within field a and within variable s; `p->a` lies within field a alone, for p is
    only read.
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
    """Return what an expression refers to; for a _Generic selection, what alone has the type of the whole."""
    if expression.kind != CursorKind.GENERIC_SELECTION_EXPR:
        return expression.referenced
    _, *choices = children_of(expression)
    found = {
        choice.referenced.hash: choice.referenced
        for choice in choices
        if choice.referenced and choice.type == expression.type
    }
    return next(iter(found.values())) if len(found) == 1 else None


def unevaluated(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the byte ranges between start and end that are not evaluated: operands of typeof and the like."""
    return [(found.start(), after_parentheses(data, found.end())) for found in _UNEVALUATED.finditer(data, start, end)]


def _declaration(reference: Any, data: bytes = b"") -> Iterator[Any]:
    declaration = reference.referenced
    if declaration is not None:
        yield declaration
        return
    # In a class template libclang leaves `this->x` open, though x can only be the template's own member.
    start, end = span(reference)
    found = re.fullmatch(rb"this\s*->\s*(\w+)", data[start:end])
    this = next(iter(children_of(reference)), None)
    if found is None or this is None:
        return
    record = this.type.get_pointee().get_declaration()
    name = found[1].decode("utf-8", "replace")
    yield from (
        field for field in children_of(record) if field.kind == CursorKind.FIELD_DECL and field.spelling == name
    )


def _base(member: Any, data: bytes) -> Any | None:
    """Return the object whose member is named, None when it is reached through a pointer or is `this`."""
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
