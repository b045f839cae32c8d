"""Insertion of a statement, `-hit`, at the start of chosen functions; lines, names and signatures stay the same."""

from __future__ import annotations

import _ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType
    from typing import Any

_FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def functions_of(tree: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every function that a statement of a module defines, with its dotted name, `outer.inner` if nested."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), tree)]
    while waiting:
        names, node = waiting.pop()
        own = names
        if isinstance(node, (*_FUNCTIONS, _ast.ClassDef)):
            own = (*names, node.name)
            if not isinstance(node, _ast.ClassDef):
                yield own, node
        for block in _BLOCKS:
            waiting.extend(
                (own, inner) for inner in reversed(getattr(node, block, None) or ()) if isinstance(inner, _ast.AST)
            )


def insert_hits(tree: Any, plain: CodeType, hits_of: Callable[[tuple[str, ...]], Sequence[str]]) -> int:
    """Insert hits into the functions of a module, and return the number of changed functions.

    `tree`: The module's syntax tree, which is changed in place.
    `hits_of`: Returns the names of the objects that count, for a function's dotted name in the module.

    A hit gets the line on which the function's own code begins, so that tracers and tracebacks see no additional line.
    This is not always the first line of a statement that spans several lines.
    """
    chosen = [(function, hits) for names, function in functions_of(tree) for hits in [hits_of(names)] if hits]
    begins = _first_lines(plain) if chosen else {}
    for function, hits in chosen:
        body = function.body
        has_text = (
            isinstance(body[0], _ast.Expr)
            and isinstance(body[0].value, _ast.Constant)
            and isinstance(body[0].value.value, str)
        )
        behind = body[1] if has_text and len(body) > 1 else body[0]
        head = function.decorator_list[0].lineno if function.decorator_list else function.lineno
        line = behind.lineno if behind.lineno == head else begins.get((function.name, head), head)
        column = behind.col_offset if line == behind.lineno else 0
        place = {"lineno": line, "col_offset": column, "end_lineno": line, "end_col_offset": column}
        body[int(has_text) : int(has_text)] = [
            _ast.Expr(
                value=_ast.UnaryOp(op=_ast.USub(), operand=_ast.Name(id=name, ctx=_ast.Load(), **place), **place),
                **place,
            )
            for name in hits
        ]
    return len(chosen)


def _first_lines(module: CodeType) -> dict[tuple[str, int], int]:
    """Return the line on which each function's own code begins, by function name and line of its head."""
    first_lines = {}
    waiting = [module]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if hasattr(constant, "co_code")]
        # Instructions before, on the line of the head, prepare the frame.
        first = next((line for line in _lines(code) if line != code.co_firstlineno), None)
        if first is not None:
            first_lines[code.co_name, code.co_firstlineno] = first
    return first_lines


def _lines(code: CodeType) -> Iterator[int]:
    if hasattr(code, "co_lines"):
        yield from (line for _, _, line in code.co_lines() if line)
        return
    line = code.co_firstlineno  # Python 3.9: pairs of an address step and a line step
    for place in range(0, len(code.co_lnotab), 2):
        if code.co_lnotab[place]:
            yield line
        step = code.co_lnotab[place + 1]
        line += step - 256 if step >= 128 else step
    yield line
