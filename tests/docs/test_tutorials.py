"""Each tutorial is followed as a reader would: its files are written, its commands run, its outputs compared.

In a page, a block with a `title` is a file, a block of `sh` is typed in one folder, in order, and a block of `text`
below it is what that prints: each of its lines is there, whatever its numbers, `…` standing for any text. A comment
`<!-- exit 4 -->` or `<!-- exit 0 or 4 -->` above a block of `sh` says how it may end. Blocks of `python` are one
notebook. Other blocks (`console`, `yaml`) are to read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
_BLOCK = re.compile(
    r"^(?:<!-- exit (?P<exits>\d+(?: or \d+)*) -->\n)?"
    r"```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?")
_AFTER = {"one_trace.md": "campaign.md"}
"""Tutorials that go on in the folder of another."""


class Block(NamedTuple):
    language: str
    title: str
    text: str
    exit_codes: tuple[int, ...]


def blocks(page: Path) -> list[Block]:
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
            assert done.returncode in block.exit_codes, f"{block.text}\n{printed}"
        elif block.language == "python":
            run_in_notebook(block.text, folder, notebook)
        elif block.language == "text":
            missing = [line for line in block.text.splitlines() if not is_printed(line, printed)]
            assert not missing, "\n".join([*missing, "is not in", printed])


def run_in_notebook(text: str, folder: Path, notebook: dict[str, object]) -> None:
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile(text, "tutorial", "exec"), notebook)
    finally:
        os.chdir(before)


def is_printed(line: str, printed: str) -> bool:
    wanted = re.escape(_plain(line)).replace("…", ".*")
    return any(re.fullmatch(wanted, _plain(one)) for one in printed.splitlines()) or not line.strip()


def _plain(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).split())


@pytest.mark.parametrize("page", [page for page in TUTORIALS if page.name not in _AFTER.values()], ids=lambda p: p.stem)
def test_a_tutorial_can_be_followed(page: Path, tmp_path: Path) -> None:
    if page.name in _AFTER:
        follow(page.with_name(_AFTER[page.name]), tmp_path)
    assert blocks(page)
    follow(page, tmp_path)


def test_outputs_are_compared() -> None:
    assert is_printed("run 1 of …", "run 7 of 20: baseline")
    assert not is_printed("run 1 of …", "no run")
