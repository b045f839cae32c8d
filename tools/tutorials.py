"""Follow the tutorials: write their files, type their commands, compare what these print.

In a page, a block with a `title` is a file, a block of `sh` is typed in one folder, in order, and a block of `text`
below it is what that prints: each of its lines is there, whatever its numbers, `…` standing for any text. A comment
`<!-- exit 4 -->` or `<!-- exit 0 or 4 -->` above a block of `sh` says how it may end; `<!-- any verdict -->` above a
block of `text` says that a busy host may come to another verdict than the page shows. Blocks of `python` are the cells
of one notebook; each shows what it prints and what its expressions give. Other blocks (`console`, `yaml`) are to read.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path for path in sorted((ROOT / "docs/tutorials").glob("*.md")) if path.stem != "notebook"}
"""Each tutorial; the notebook needs campaigns that are made elsewhere, and follows when the site is built."""

AFTER = {"one_trace": "campaign"}
"""Tutorials that go on in the folder of another."""

_BLOCK = re.compile(
    r"^(?:<!-- (?:exit (?P<exits>\d+(?: or \d+)*)|(?P<any>any verdict)) -->\n)?"
    r"```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PICTURE = re.compile(r'<img src="(?P<name>[^"]+)"')
_VERDICT = re.compile(r"✓ unperturbed|✗ perturbed|~ shifted|\? undecided")
_NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


class Block(NamedTuple):
    """A block of a page that is not only to read.

    `picture` is the picture that the page shows between this block and the next one of `python` or `sh`; '' if none.
    """

    language: str
    title: str
    text: str
    exit_codes: tuple[int, ...]
    picture: str
    any_verdict: bool


class NotebookCell(NamedTuple):
    """A block of Python that was run: the values of its expressions that are not None, and the page's picture."""

    values: tuple[Any, ...]
    picture: str


class Followed(NamedTuple):
    """What following a page leaves: its cells, and the names that they define."""

    cells: list[NotebookCell]
    names: dict[str, Any]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    matches = list(_BLOCK.finditer(text))
    ends = [match.start() for match in matches if match["language"] in ("python", "sh")] + [len(text)]
    result = []
    for match in matches:
        picture = _PICTURE.search(text, match.end(), min(end for end in ends if end >= match.end()))
        shown = picture["name"] if picture else ""
        codes = tuple(map(int, (match["exits"] or "0").split(" or ")))
        result.append(Block(match["language"], match["title"] or "", match["text"], codes, shown, bool(match["any"])))
    return result


def follow(page: Path, folder: Path, replaced: Mapping[str, str] = MappingProxyType({})) -> Followed:
    """Do everything that a page asks for, in a folder, with some text of its commands replaced.

    An AssertionError says which command or cell failed, or which line of the page was not printed.
    """
    printed = ""
    followed = Followed([], {"__name__": "__main__"})
    for block in blocks(page):
        if block.title:
            place = folder / block.title
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            command = block.text
            for before, after in replaced.items():
                command = command.replace(before, after)
            printed = _type(block._replace(text=command), folder)
        elif block.language == "python":
            with contextlib.chdir(folder):
                values, printed = _run_cell(block.text, page.name, followed.names)
            followed.cells.append(NotebookCell(values, block.picture))
        elif block.language == "text":
            wanted = _VERDICT.sub("…", block.text) if block.any_verdict else block.text
            missing = [line for line in wanted.splitlines() if not is_printed(line, printed)]
            if missing:
                raise AssertionError("\n".join([f"{page.name}:", *missing, "is not in", printed]))
    return followed


def is_printed(line: str, printed: str) -> bool:
    """Tell whether a line of a page is among the lines that were printed, whatever its numbers."""
    wanted = re.escape(_plain(line)).replace("…", ".*")
    return any(re.fullmatch(wanted, _plain(shown)) for shown in printed.splitlines()) or not line.strip()


def _type(block: Block, folder: Path) -> str:
    """Run a block's commands in a folder; return what they print."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UNPERTURBED_SOURCE": str(ROOT),
        "COLUMNS": "120",
    }
    command = ["bash", "-ec", block.text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode not in block.exit_codes:
        raise AssertionError(f"exit code {done.returncode} of {block.text}\n{printed}")
    return printed


def _run_cell(code: str, name: str, names: dict[str, Any]) -> tuple[tuple[Any, ...], str]:
    """Run a cell; return the values of its expressions, and what it prints and they show as text."""
    values = []
    shown = io.StringIO()
    try:
        for statement in ast.parse(code, name).body:
            if isinstance(statement, ast.Expr):
                with contextlib.redirect_stdout(shown):
                    value = eval(compile(ast.Expression(statement.value), name, "eval"), names)
                if value is not None:
                    values.append(value)
                    print(repr(value), file=shown)
            else:
                with contextlib.redirect_stdout(shown):
                    exec(compile(ast.Module([statement], []), name, "exec"), names)
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error} in\n{code}") from error
    return tuple(values), shown.getvalue()


def _plain(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).split())
