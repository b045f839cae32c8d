"""Follow the tutorials: write their files, type their commands, compare what these print.

In a page, a block with a `title` is a file, a block of `sh` is typed in one folder, in order, and a block of `text`
below it is what that prints: each of its lines is there, whatever its numbers, `…` standing for any text. A comment
`<!-- exit 4 -->` or `<!-- exit 0 or 4 -->` above a block of `sh` says how it may end. Blocks of `python` are one
notebook. Other blocks (`console`, `yaml`) are to read.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path for path in sorted((ROOT / "docs/tutorials").glob("*.md")) if path.stem != "notebook"}
"""Each tutorial; the notebook follows campaigns that are made elsewhere, and has a test of its own."""

AFTER = {"one_trace": "campaign"}
"""Tutorials that go on in the folder of another."""

_BLOCK = re.compile(
    r"^(?:<!-- exit (?P<exits>\d+(?: or \d+)*) -->\n)?"
    r"```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?")


class Block(NamedTuple):
    """A block of a page that is not only to read."""

    language: str
    title: str
    text: str
    exit_codes: tuple[int, ...]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [
        Block(one["language"], one["title"] or "", one["text"], tuple(map(int, (one["exits"] or "0").split(" or "))))
        for one in _BLOCK.finditer(page.read_text())
    ]


def follow(page: Path, folder: Path) -> None:
    """Do everything that a page asks for, in a folder."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UNPERTURBED_SOURCE": str(ROOT),
        "COLUMNS": "120",
    }
    printed = ""
    notebook: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title:
            place = folder / block.title
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text)
        elif block.language == "sh":
            done = subprocess.run(
                ["bash", "-ec", block.text],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            printed = done.stdout + done.stderr
            if done.returncode not in block.exit_codes:
                raise AssertionError(f"exit code {done.returncode} of {block.text}\n{printed}")
        elif block.language == "python":
            with contextlib.chdir(folder):
                exec(compile(block.text, page.name, "exec"), notebook)
        elif block.language == "text":
            missing = [line for line in block.text.splitlines() if not is_printed(line, printed)]
            if missing:
                raise AssertionError("\n".join([*missing, "is not in", printed]))


def is_printed(line: str, printed: str) -> bool:
    """Tell whether a line of a page is among the lines that were printed, whatever its numbers."""
    wanted = re.escape(_plain(line)).replace("…", ".*")
    return any(re.fullmatch(wanted, _plain(one)) for one in printed.splitlines()) or not line.strip()


def _plain(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).split())
