"""Functions, records and variables in a syntax tree, with the names that targets use for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from clang.cindex import CursorKind, StorageClass, conf

from unperturbed.instrument.events.kind import ParsedFunction
from unperturbed.instrument.finding.preprocessed import ParsedText, after_parentheses, children_of, next_token, span

FUNCTION_KINDS = frozenset(
    {
        CursorKind.FUNCTION_DECL,
        CursorKind.CXX_METHOD,
        CursorKind.CONSTRUCTOR,
        CursorKind.DESTRUCTOR,
        CursorKind.CONVERSION_FUNCTION,
        CursorKind.FUNCTION_TEMPLATE,
    }
)
RECORD_KINDS = frozenset(
    {
        CursorKind.STRUCT_DECL,
        CursorKind.UNION_DECL,
        CursorKind.CLASS_DECL,
        CursorKind.CLASS_TEMPLATE,
        CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
    }
)
SCOPE_KINDS = RECORD_KINDS | {
    CursorKind.NAMESPACE,
    CursorKind.LINKAGE_SPEC,
    CursorKind.UNEXPOSED_DECL,
    CursorKind.FRIEND_DECL,
}
_TYPEDEFS = (CursorKind.TYPEDEF_DECL, CursorKind.TYPE_ALIAS_DECL)
_CONSTANT = re.compile(rb"\b(?:constexpr|consteval)\b")


def top_level(parsed: ParsedText) -> Iterator[Any]:
    """Yield the text's top-level cursors, without the declarations from the shims."""
    for cursor in children_of(parsed.root):
        location = cursor.location
        if location.file is not None and location.file.name == parsed.root.spelling:
            yield cursor


def members(scope: Any, is_wanted: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Yield a cursor and, through namespaces and classes, all declarations in it that `is_wanted` accepts."""
    stack = [scope]
    while stack:
        cursor = stack.pop()
        yield cursor
        if cursor.kind in SCOPE_KINDS:
            stack.extend(child for child in reversed(children_of(cursor)) if is_wanted is None or is_wanted(child))


def function_of(cursor: Any, data: bytes, outer: ParsedFunction | None = None) -> ParsedFunction | None:
    """Return the function that a declaration's cursor defines; None if the declaration has no body of its own."""
    body = _body(cursor)
    if body is None or not data.startswith((b"{", b"<%"), span(body)[0]):
        return None  # for `= default` libclang shows the body that the compiler generates
    start, end = span(cursor)
    if end == 0:
        # For `f(auto x)` libclang gives only the name's position: the definition begins after the preceding statement
        # or brace.
        start, end = max(data.rfind(sign, 0, cursor.location.offset) for sign in (b";", b"{", b"}")) + 1, span(body)[1]
        start = next_token(data, start)[1]
    names = function_names(cursor)
    if outer is not None:
        # libclang names a lambda's locals after its call operator, a name that users do not write.
        inside = "operator()::" if "operator()::" in names[0] else outer.names[0].rpartition("::")[2] + "::"
        tail = names[0].rpartition(inside)[2]
        names = tuple(f"{name}::{tail}" for name in outer.names[:-1]) + names
    return _function(names, cursor, body, data, (start, end), outer)


def lambda_of(cursor: Any, data: bytes, outer: ParsedFunction, number: int, variable: str) -> ParsedFunction | None:
    """Return a function's nth lambda, named `outer::lambda<n>`, and also `outer::x` if it initialises x."""
    body = _body(cursor)
    if body is None:
        return None
    tails = [f"lambda{number}", *([variable] if variable else [])]
    names = tuple(f"{name}::{tail}" for tail in tails for name in outer.names[:-1])
    return _function((*names, names[0] + "()"), cursor, body, data, span(cursor), outer)


def lambdas_of(declaration: Any, data: bytes) -> Iterator[ParsedFunction]:
    """Yield the lambdas in the initialiser of a variable x outside functions, each named `x::lambda<n>`.

    If the initialiser begins with a lambda, that lambda is also named `x`.
    """
    name = qualified_name(declaration)
    behind = declaration.location.offset + len(declaration.spelling.encode())
    token, offset = next_token(data, behind)
    first = next_token(data, offset + 1)[1] if token in (b"=", b"{", b"(") else behind
    number, passed = 0, 0
    for cursor in declaration.walk_preorder():
        start, end = span(cursor)
        body = _body(cursor) if cursor.kind == CursorKind.LAMBDA_EXPR and start >= passed else None
        if body is None:
            continue
        number, passed = number + 1, end  # lambdas inside it are found with its body
        names = (f"{name}::lambda{number}", *([name] if start == first else []))
        yield _function((*names, names[0] + "()"), cursor, body, data, (start, end), None)


def _function(
    names: tuple[str, ...], cursor: Any, body: Any, data: bytes, whole: tuple[int, int], outer: ParsedFunction | None
) -> ParsedFunction:
    brace, end = span(body)
    closing = end - (2 if data.startswith(b"<%", brace) else 1)
    is_lambda = cursor.kind == CursorKind.LAMBDA_EXPR
    # `constexpr` comes before a function's name, and after a lambda's parameters.
    head = brace if is_lambda else max(whole[0], cursor.location.offset)
    constant = _CONSTANT.search(data[whole[0] : head]) is not None
    return ParsedFunction(names, cursor, body, *whole, after_brace(data, brace), closing, constant, is_lambda, outer)


def after_brace(data: bytes, brace: int) -> int:
    """Return the offset for a block's first statement: after its `{` and after `__label__` declarations."""
    offset = brace + (2 if data.startswith(b"<%", brace) else 1)
    while True:
        token, start = next_token(data, offset)
        if token != b"__label__":
            return offset
        offset = data.index(b";", start) + 1


def function_names(cursor: Any) -> tuple[str, ...]:
    """Return a function's qualified names: without inline namespaces, with them, and with parameter types."""
    scopes = _scopes(cursor)
    of_template = cursor.kind in (CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR)
    own = re.sub(r"<.*>$", "", cursor.spelling) if of_template else cursor.spelling
    parameters = cursor.displayname[len(cursor.spelling) :]
    plain = _qualified([name for name, hidden in scopes if not hidden], own)
    full = _qualified([name for name, _ in scopes], own)
    return (*dict.fromkeys((plain, full)), (plain + re.sub(r"^<[^(]*>", "", parameters)).replace(" ", ""))


def is_lambda(function: Any) -> bool:
    """Return whether a function's cursor is the call operator of a lambda."""
    parent = function.semantic_parent
    return parent is not None and re.search(r"\(lambda\b", parent.spelling) is not None


def variable_names(cursor: Any, function: ParsedFunction | None) -> tuple[str, ...]:
    """Return a variable's names as seen from a function: function::x if local, otherwise ns::x, Class::x or x."""
    offset = cursor.location.offset
    holder = function
    while holder is not None:
        if holder.start <= offset < holder.end and cursor.storage_class != StorageClass.EXTERN:
            return tuple(f"{name}::{cursor.spelling}" for name in holder.names[:-1])
        holder = holder.outer
    scopes = _scopes(cursor)
    plain = _qualified([name for name, hidden in scopes if not hidden], cursor.spelling)
    return tuple(dict.fromkeys((plain, _qualified([name for name, _ in scopes], cursor.spelling))))


def qualified_name(cursor: Any, *, inline: bool = False) -> str:
    """Return a declaration's name with its scopes, including inline namespaces only if `inline`."""
    return _qualified([name for name, hidden in _scopes(cursor) if inline or not hidden], cursor.spelling)


def has_initialiser(variable: Any, data: bytes) -> bool:
    """Return whether a variable's declaration has an initialiser."""
    token, offset = next_token(data, variable.location.offset + len(variable.spelling.encode()))
    while token == b"[":
        token, offset = next_token(data, after_parentheses(data, offset))
    return token in (b"=", b"{")


def field_names(cursor: Any, typedefs: dict[int, set[str]]) -> tuple[str, ...]:
    """Return a field's names Type.field, by tag and typedefs; an unnamed member's fields belong to the outer type."""
    record = cursor.semantic_parent
    while record is not None and record.kind in RECORD_KINDS:
        names = record_names(record, typedefs)
        if names:
            return tuple(f"{name}.{cursor.spelling}" for name in names)
        record = record.semantic_parent
    return ()


def record_names(record: Any, typedefs: dict[int, set[str]]) -> tuple[str, ...]:
    """Return the qualified names of a struct, union or class: its tag and its typedefs; () if it is unnamed."""
    names = sorted(typedefs.get(record.location.offset, ()))
    if _is_name(record.spelling):
        names.insert(0, qualified_name(record))
    return tuple(dict.fromkeys(names))


def typedef_names(parsed: ParsedText) -> dict[int, set[str]]:
    """Return typedef names by the byte offset of the struct, union or class that they name."""
    names: dict[int, set[str]] = {}
    for scope in top_level(parsed):
        for cursor in members(scope):
            if cursor.kind in _TYPEDEFS:
                record = cursor.underlying_typedef_type.get_declaration()
                if record.kind in RECORD_KINDS:
                    names.setdefault(record.location.offset, set()).add(qualified_name(cursor))
    return names


def _body(cursor: Any) -> Any | None:
    children = children_of(cursor)
    last = children[-1] if children else None
    if last is not None and last.kind == CursorKind.CXX_TRY_STMT:
        last = next(iter(children_of(last)), None)
    if last is not None and last.kind == CursorKind.UNEXPOSED_STMT:
        last = next(iter(children_of(last)), None)  # a coroutine's body, inside code that the compiler adds
    return last if last is not None and last.kind == CursorKind.COMPOUND_STMT else None


def _scopes(cursor: Any) -> list[tuple[str, bool]]:
    """Return a declaration's named scopes, outermost first, each with whether it is an inline namespace."""
    scopes: list[tuple[str, bool]] = []
    parent = cursor.semantic_parent
    while parent is not None and parent.kind.is_declaration():
        name = parent.spelling
        if _is_name(name):
            inline = parent.kind == CursorKind.NAMESPACE and conf.lib.clang_Cursor_isInlineNamespace(parent)
            scopes.append((name, bool(inline)))
        parent = parent.semantic_parent
    return scopes[::-1]


def _is_name(spelling: str) -> bool:
    """Return whether a spelling is a name, not libclang's placeholder such as `(unnamed struct at …)`."""
    return bool(spelling) and not re.search(r"\((?:anonymous|unnamed|lambda)\b", spelling)


def _qualified(scopes: list[str], name: str) -> str:
    return "::".join([*scopes, name])
