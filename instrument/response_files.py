"""Response files of a command line, read as gcc reads them."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH113, PTH123

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence

__all__ = ["expanded", "response_text"]


def expanded(words: tuple[str, ...], depth: int = 0) -> tuple[str, ...]:
    """Put the content of response files in their place, as gcc does; a file that cannot be read stays a word."""
    result: list[str] = []
    for word in words:
        if word.startswith("@") and depth < 16 and os.path.isfile(word[1:]):
            with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
                result += expanded(tuple(_response_words(file.read())), depth + 1)
        else:
            result.append(word)
    return tuple(result)


def response_text(words: Sequence[str]) -> str:
    """Return a response file's text that holds these words."""
    return "".join((re.sub(r"([\s\"'\\])", r"\\\1", word) or '""') + "\n" for word in words)


def _response_words(text: str) -> list[str]:
    """Split a response file: white space separates, quotes join, a backslash takes the next sign as it is."""
    words: list[str] = []
    for found in re.finditer(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""", text, re.DOTALL):
        pieces = re.finditer(r"""\\(.)|["']((?:\\.|[^\\])*?)["']|(.)""", found[0], re.DOTALL)
        words.append("".join(_unescape(piece) for piece in pieces))
    return words


def _unescape(piece: re.Match[str]) -> str:
    escaped, quoted, plain = piece.groups()
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    return escaped if escaped is not None else plain
