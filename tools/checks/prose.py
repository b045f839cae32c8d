"""Check the documentation's prose: banned turns of phrase, and paragraphs that are too long.

    python tools/checks/prose.py [FILE …]

Prints `file:line: what`, and exits with 1 where there is any. CONTRIBUTING.md has the style that this checks a part of.
Evidence pages are made by scripts and are not checked; neither is code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

MOST_WORDS = 90  # in a paragraph or an item of a list

RATE = (
    r"\b(?:a|an|one|\d[\d,.]*|most|ns|us|µs|ms|bits|bytes|cycles|events|hits|instructions|misses|intervals|runs|samples|"
    r"values) (?:(?!(?:as|by|for|from|if|in|is|of|or|than|that|to|with)\b)\w+ )?(?:a|an) (?:call|configuration|CPU|"
    r"element|entry|event|hit|interval|metric|operation|pass|point|processor|row|run|second|thread)"
    r"(?= *(?:[,.;:)|]|$|and\b|for\b|is\b|where\b|on average))"
)
"""“A row a metric”, “180 intervals a run”: engineers write “one row per metric”."""

BANNED = {
    r"\b(?:is|are|was|were|be|been|being) (?:told|said|spelt|begun|bettered|spoken of)\b": "“the report shows …”",
    r"\b(?:is|are|was|were|be|been) asked for\b": "use, request, set",
    r"\bis asked of\b": "the question is",
    r"\b(?:hold|holds|held) against\b": "compare with",
    r"\b(?:lay|lays|laid) (?:side by side|beside)\b": "align with, compare with",
    r"\bwhat (?:comes|becomes) of\b": "the result of",
    r"\bspeaks? against\b": "contradicts, weakens",
    r"\bfor want of\b": "without",
    r"\bas it were\b": "leave it out",
    r"\bgo(?:es)? on with\b": "continue, resume",
    r"\bnone the less\b": "leave it out",
    r"\bthe (?:other|same) way (?:round|about)\b": "reversed",
    r"\bhardly ever\b": "rarely",
    r"\bwherever there (?:is|are) (?:one|any|some)\b": "if available",
    r"\bmade ready\b": "prepared",
    r"\bby the (?:by|way)\b": "leave it out",
    RATE: "one … per …",
}
"""Turns (regular expressions, case ignored), and what to write."""

_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_NO_PROSE = re.compile(r"\s*(?:\||#|:::|<|!\[|===|!!!|\?\?\?)")


def main(files: list[str]) -> int:
    """Print every fault of the files, or of README, CONTRIBUTING and all user pages; return the exit code."""
    pages = [Path(name) for name in files] or user_pages()
    all_faults = ((page, fault) for page in pages for fault in faults(page.read_text(encoding="utf-8")))
    return report((f"{page}:{line}: {what}" for page, (line, what) in all_faults), "prose")


def report(messages: Iterable[str], subject: str) -> int:
    """Print each fault, and how many there are; return the exit code."""
    lines = list(messages)
    print("\n".join([*lines, f"{len(lines)} faults in {subject}" if lines else f"{subject}: no fault"]))
    return 1 if lines else 0


def user_pages() -> list[Path]:
    """Return the pages that are written by hand, evidence left out."""
    pages = [path for path in sorted(Path("docs").rglob("*.md")) if "evidence" not in path.parts]
    return [path for path in (Path("README.md"), Path("CONTRIBUTING.md")) if path.exists()] + pages


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and fault of everything in a page's prose."""
    for number, paragraph in (*paragraphs(text), *table_rows(text)):
        words = len(paragraph.split())
        if words > MOST_WORDS and not paragraph.startswith("|"):
            yield number, f"a paragraph of {words} words; at most {MOST_WORDS}: split it, or make a list"
        plain = re.sub(r"`[^`]*`", "`", " ".join(paragraph.split()))
        for pattern, better in BANNED.items():
            for match in re.finditer(pattern, plain, re.IGNORECASE):
                yield number, f"“{match[0]}”; rather: {better}"


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph and list item with its line; code, tables, headings and comments are left out."""
    kept = enumerate(blank_code(text).split("\n"), 1)
    for filled, lines in groupby(kept, key=lambda numbered: bool(numbered[1].strip())):
        if filled:
            yield from _items(list(lines))


def table_rows(text: str) -> Iterator[tuple[int, str]]:
    """Yield each row of a table with its line; tables in code are left out."""
    for number, line in enumerate(blank_code(text).split("\n"), 1):
        if re.match(r"\s*\|(?! \")", line):  # a quoted cell shows what not to write
            yield number, line.strip()


def _items(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the items of a block of lines; a block without any is one paragraph."""
    first, gathered = lines[0][0], ""
    for number, line in lines:
        if _NO_PROSE.match(line) or _LIST_ITEM.match(line):
            if gathered:
                yield first, gathered
            first, gathered = number, "" if _NO_PROSE.match(line) else _LIST_ITEM.sub("", line, count=1)
        else:
            gathered += " " + line
    if gathered.strip():
        yield first, gathered


def blank_code(text: str) -> str:
    """Return the text with the same lines, those of code blocks and comments empty."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    text = re.sub(r"(?ms)^( *)```.*?^\1```\s*?$", blank, text)
    return re.sub(r"(?s)<!--.*?-->", blank, text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
