"""One statement, `-hit`, put into chosen functions of a syntax tree as their first; no line, name or signature changes."""

from __future__ import annotations

import _ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

__all__ = ["functions_of", "insert_hits", "matches"]

_FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def matches(pattern: str, name: str) -> bool:
    """Tell whether a part of a dotted name is of a glob of `*` and `?`. By hand: fnmatch and re are not loaded when Python starts."""
    begin, star, rest = pattern.partition("*")
    if len(name) < len(begin) or any(sign not in ("?", other) for sign, other in zip(begin, name)):  # noqa: B905  3.9 has no strict
        return False
    if not star:
        return len(begin) == len(name)
    return any(matches(rest, name[place:]) for place in range(len(begin), len(name) + 1))


def functions_of(tree: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every function that is defined in a module by a statement, with its dotted name in it; a nested one is outer.inner."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), tree)]
    while waiting:
        names, node = waiting.pop()
        own = names
        if isinstance(node, (*_FUNCTIONS, _ast.ClassDef)):
            own = (*names, node.name)
            if not isinstance(node, _ast.ClassDef):
                yield own, node
        for block in _BLOCKS:
            waiting.extend((own, inner) for inner in reversed(getattr(node, block, None) or ()) if isinstance(inner, _ast.AST))


def insert_hits(tree: Any, hits_of: Callable[[tuple[str, ...]], Sequence[str]]) -> int:
    """Put hits into the functions of a module.

    Parameters
    ----------
    hits_of : names of the objects that count, for a function's dotted name in the module.

    Returns
    -------
    int
        How many functions got one.
    """
    chosen = 0
    for names, function in functions_of(tree):
        hits = hits_of(names)
        if not hits:
            continue
        chosen += 1
        body = function.body
        has_text = (
            isinstance(body[0], _ast.Expr) and isinstance(body[0].value, _ast.Constant) and isinstance(body[0].value.value, str)
        )
        # At the place of the statement that follows: tracers and tracebacks meet no line of ours.
        behind = body[1] if has_text and len(body) > 1 else body[0]
        place = {
            "lineno": behind.lineno,
            "col_offset": behind.col_offset,
            "end_lineno": behind.lineno,
            "end_col_offset": behind.col_offset,
        }
        body[int(has_text) : int(has_text)] = [
            _ast.Expr(
                value=_ast.UnaryOp(op=_ast.USub(), operand=_ast.Name(id=name, ctx=_ast.Load(), **place), **place), **place
            )
            for name in hits
        ]
    return chosen
