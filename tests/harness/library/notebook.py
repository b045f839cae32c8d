"""Runs the code of a page of the documentation as a notebook does: block after block, showing what expressions give."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r'<img src="(?P<name>[^"]+)"')


@dataclass(frozen=True)
class Shown:
    """What one block shows.

    Attributes
    ----------
    code : str
        The block.
    values : tuple of object
        Those of its expressions that are not None, in order.
    picture : str
        The picture that follows the block on the page; '' if none does.
    """

    code: str
    values: tuple[Any, ...]
    picture: str


def run_page(page: Path, folder: Path) -> tuple[list[Shown], dict[str, Any]]:
    """Run all Python blocks of a page in a folder; return what each shows, and the names that they leave."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    shown = []
    found = list(_BLOCK.finditer(text))
    with _working_in(folder):
        for place, block in enumerate(found):
            until = found[place + 1].start() if place + 1 < len(found) else len(text)
            picture = _PICTURE.search(text, block.end(), until)
            values = tuple(_run(block["code"], f"{page.name}, block {place + 1}", names))
            shown.append(Shown(block["code"], values, picture["name"] if picture else ""))
    return shown, names


def _run(code: str, where: str, names: dict[str, Any]) -> Iterator[Any]:
    """Run a block; yield what its expressions give."""
    for statement in ast.parse(code, where).body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), where, "eval"), names)
            if value is not None:
                yield value
        else:
            exec(compile(ast.Module([statement], []), where, "exec"), names)


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
