"""Refuse turns of phrase that are not the field's: in names, in first lines of docstrings, in texts that users meet.

    python tools/checks/words.py [FOLDER …]

Prints `file:line: name: what`, and exits with 1 where there is any.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from prose import RATE, report

PARTS = ("src", "common", "errors", "harness", "collectors", "instrument", "analysis")

IN_NAMES = {
    "told": "shown, reported, encoded",
    "telling": "describe, report",
    "said": "stated, reported, given",
    "bettered": "refined",
    "begun": "started",
    "glued": "merged",
    "parted": "split",
    "needless": "redundant",
    "shamless": "without_sham",
    "blaming": "with_position",
    "unseen": "uncounted",
    "laid": "prepared",
    "stands": "is",
    "news": "new",
    "handed": "passed",
    "bare": "unquoted, plain",
}
"""Words that no name of a module, class, function or parameter may have, and what may stand for them."""

IN_FIRST_LINES = {
    r"\b(?:is|are|was|were|be|been) (?:told|said|asked for|spelt|begun|bettered)\b": "returns, reports, requests",
    r"\btells?\b(?! whether| apart)": "returns, reports, shows",
    r"\bsays?\b": "returns, describes, states",
    r"\bstands?\b(?!ard| for)": "is",
    r"\b(?:holds?|held) against\b": "compare with",
    r"\bwhat (?:comes|becomes) of\b": "result",
    r"\bmade (?:ready|of)\b": "prepare, from",
    r"\bput together\b": "combine",
    r"\bthe (?:other|same) way (?:round|about)\b": "reversed",
    r"\bfor want of\b": "without",
    r"\bin turns?\b": "in order",
}
"""Turns that no first line of a docstring may have (regular expressions), and what to write."""

IN_TEXTS = {
    RATE: "one … per …",
    r"\b(?:is|are|was|were|be|been|not) (?:told(?! apart)|said|asked for|spelt|bettered)\b": "shown, requested",
    r"\btells?\b(?! whether| apart)": "shows, reports",
    r"\bbegun\b": "started",
    r"\bstands?\b(?! for)": "is",
    r"\b(?:holds?|held) (?:\w+ )?against\b|\blaid beside\b": "compare with",
    r"\bhardly\b": "rarely, unlikely",
    r"\b(?:goes|go) on with\b|\bcommand goes on\b": "continue, repeat the command",
    r"\bis there (?:already|twice)\b": "already exists, appears twice",
    r"\bis none\b(?! of)": "is not a …",
    r"\bmade of\b": "consists of, computed from",
    r"\bfor want of\b": "without",
    r"\bflattered\b": "inflated",
    r", so that\b": "so, to",
    r"(?-i:^Of )": "N of M …",
}
"""Turns that no text may have that users meet (help, messages, tables, reports), and what to write."""

_TEXT_WORDS = 3  # literals of fewer words are keys, names and parts of tables


def main(folders: list[str]) -> int:
    """Print every fault below the folders; return the exit code."""
    paths = (path for folder in folders or PARTS for path in sorted(Path(folder).rglob("*.py")))
    return report((f"{path}:{line}: {name}: {what}" for path in paths for line, name, what in faults(path)), "words")


def faults(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and fault of everything that a file names or describes."""
    tree = ast.parse(path.read_text())
    yield from _in_texts(tree)
    yield from _in_name(1, path.stem)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_name(node.lineno, node.name)
            given = node.args
            for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                yield from _in_name(argument.lineno, argument.arg)
        elif isinstance(node, ast.ClassDef):
            yield from _in_name(node.lineno, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            name = getattr(node, "name", path.stem)
            for pattern, better in IN_FIRST_LINES.items():
                if match := re.search(pattern, first, re.IGNORECASE):
                    yield getattr(node, "lineno", 1), name, f"first line has {match[0]!r}; rather: {better}"


def _in_texts(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the faults of string literals that are not docstrings; the values in an f-string count as `{}`."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(text.split()) < _TEXT_WORDS:
            continue
        for pattern, better in IN_TEXTS.items():
            if match := re.search(pattern, text, re.IGNORECASE):
                start = " ".join(text.split())[:40]
                yield node.lineno, f"text {start!r}", f"has {match[0]!r}; rather: {better}"


def _in_name(line: int, name: str) -> Iterator[tuple[int, str, str]]:
    for word in name.lower().split("_"):
        if word in IN_NAMES:
            yield line, name, f"the name has {word!r}; rather: {IN_NAMES[word]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
