"""Check that docstrings are numpydoc: an entry's colon is followed by its type alone, and its meaning is below it.

    python tools/checks/docstrings.py [FOLDER …]

Prints one line a fault, `file:line: object: what`, and exits with 1 where there is any. Documentation tools show what
follows the colon as a type; prose there makes the reference unreadable.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from numpydoc.docscrape import NumpyDocString
from prose import report

PARTS = ("src", "common", "errors", "harness", "collectors", "instrument", "analysis")

_WITH_NAMES = ("Parameters", "Other Parameters", "Attributes", "Yields", "Returns")
_TYPE_WORDS = """
a an of or and to by any all array arrays int ints float floats bool bools str bytes bytearray object path paths
path-like file folder open binary text stream list lists tuple tuples dict dicts mapping mappings sequence sequences
iterable iterator generator set sets frozenset callable function class type module number numbers integer integers
collection collections iterables hashable array_like callables functions classes complex optional none None
True False shape scalar vector matrix pair pairs self
"""
_WORDS = frozenset(re.findall(r"\S+", _TYPE_WORDS))
_NAME = r"(?:[A-Z]\w*|[a-z_]\w*(?:\.\w+)+|(?:u?int|float)\d+|np|pl)"


def main(folders: list[str]) -> int:
    """Print every fault below the folders; return the exit code."""
    paths = (path for folder in folders or PARTS for path in sorted(Path(folder).rglob("*.py")))
    return report(
        (f"{path}:{line}: {name}: {what}" for path in paths for line, name, what in faults(path)), "docstrings"
    )


def faults(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, object and fault of every docstring in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node, clean=False)
            if text and "\n" in text:
                for what in _of_docstring(inspect.cleandoc(text), node):
                    yield node.lineno, node.name, what


def _of_docstring(text: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    try:
        sections = NumpyDocString(text)
    except ValueError as error:
        yield f"not numpydoc: {str(error).splitlines()[0]}"
        return
    for section in _WITH_NAMES:
        for given, kind, description in sections[section]:
            name = given or "result"
            if not kind:
                yield f"{section}: `{name}` has no type"
            elif not is_type(kind):
                yield f"{section}: `{name} : {kind}` is not a type"
            if not "".join(description).strip():
                yield f"{section}: `{name}` has no description"
    if sections["Parameters"] and not isinstance(node, ast.ClassDef):
        yield from _undocumented(sections, node)


def _undocumented(sections: NumpyDocString, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Compare what a docstring describes with the signature."""
    entries = [name for section in ("Parameters", "Other Parameters") for name, _, _ in sections[section]]
    described = {name.strip().lstrip("*") for entry in entries for name in entry.split(",")}
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    names = {argument.arg for argument in every} - {"self", "cls"}
    for name in sorted(described - names):
        yield f"Parameters: `{name}` is not a parameter"
    for name in sorted(names - described):
        yield f"Parameters: `{name}` is not described"


def is_type(text: str) -> bool:
    """Tell whether a text names types: `int`, `array of float64, shape (n,)`, `{"a", "b"}, default "a"`."""
    text = re.sub(r"`([^`]*)`", r"\1", text)
    text = re.sub(r",?\s*(default|keyword-only)\b.*$", "", text)  # any value may follow
    text = re.sub(r"\{[^{}]*\}|\"[^\"]*\"|'[^']*'|\([^()]*\)", " ", text)
    while "[" in (shorter := re.sub(r"\[[^\[\]]*\]", " ", text)) and shorter != text:
        text = shorter
    words = [word for word in re.split(r"[\s,|]+", shorter) if word]
    return all(word in _WORDS or re.fullmatch(_NAME, word) or word == "..." for word in words) and len(words) <= 14


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
