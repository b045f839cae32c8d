"""Preprocessed text: file and line that each byte came from, and as much of the grammar as brackets need."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property

_MARKER = re.compile(rb'^#(?:line)? (\d+) "((?:[^"\\\n]|\\.)*)"((?: \d)*)[^\n]*\n?', re.MULTILINE)
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)

_TOKEN = re.compile(
    rb"""^[ \t]*\#[^\n]* | \n | [^\S\n]+ | //[^\n]* | /\*.*?\*/                # nothing to the parser
    | (?P<token> (?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\(.*?\)(?P=fence)"  # raw string
    | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*" | (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'
    | \.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*                                         # number, ' may part its digits
    | [A-Za-z_$\x80-\xff][\w$\x80-\xff]* | -> | :: | . )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

_SYSTEM = b"3"
_WORD_SIGNS = frozenset(sign for sign in range(128) if re.match(r"[\w$]", chr(sign)))


class PreprocessedText:
    """Text of a preprocessed file with its line markers read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._starts: list[int] = []
        self._origins: list[tuple[str, int, bool]] = []
        for marker in _MARKER.finditer(data):
            number, file, flags = marker.groups()
            self._starts.append(marker.end())
            self._origins.append((_unescaped(file), int(number), _SYSTEM in flags))

    @cached_property
    def files(self) -> frozenset[str]:
        """Return every file that the line markers name."""
        return frozenset(file for file, _, _ in self._origins)

    def locate(self, offset: int) -> tuple[str, int]:
        """Return file and line that the byte at `offset` came from; ('', line) before the first line marker."""
        index = bisect_right(self._starts, offset) - 1
        before = bisect_left(self._line_ends, offset)
        if index < 0:
            return "", 1 + before
        file, line, _ = self._origins[index]
        return file, line + before - bisect_left(self._line_ends, self._starts[index])

    @cached_property
    def _line_ends(self) -> list[int]:
        return [found.start() for found in re.finditer(b"\n", self.data)]

    def is_system(self, offset: int) -> bool:
        """Return whether the byte came from a system header."""
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and self._origins[index][2]

    def user_text(self) -> bytes:
        """Return the text without directives and without what came from system headers."""
        if not self._starts:
            return _DIRECTIVE.sub(b"", self.data)
        ends = [*self._starts[1:], len(self.data)]
        pieces = [self.data[: self._starts[0]]]
        pieces += [
            self.data[start:end]
            for start, end, (_, _, system) in zip(self._starts, ends, self._origins, strict=True)
            if not system
        ]
        return _DIRECTIVE.sub(b"", b"".join(pieces))

    def user_files(self) -> set[str]:
        """Return the files that the line markers name, system headers and the compiler's own entries left out."""
        return {
            file
            for file, _, system in self._origins
            if not system and not file.startswith("<") and not file.endswith("//")
        }

    def prologue_offset(self) -> int:
        """Return where to insert text that must not be the first: after the marker that names the main file.

        A compiler takes the main file's name from the very first line marker (and gcc the folder from a second, `# 1
        "/dir//"`). 0 when the text starts with no marker.
        """
        first = _MARKER.match(self.data)
        if first is None:
            return 0
        folder = _MARKER.match(self.data, first.end())
        return folder.end() if folder is not None and folder[2].endswith(b"//") else first.end()


def words_like(data: bytes, name: bytes) -> Iterator[re.Match[bytes]]:
    """Yield each place where a name is a whole word."""
    # The name stands first, so that the search leaps from one to the next: with what must not precede it, it would
    # try every byte.
    literal = re.escape(name)
    return re.finditer(rb"%b(?<![\w$]%b)(?![\w$])" % (literal, literal), data)


def words_with(data: bytes, part: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word that holds a piece of a name."""
    for found in re.finditer(re.escape(part) + rb"[\w$]*", data):
        start = found.start()
        while start and data[start - 1] in _WORD_SIGNS:
            start -= 1
        yield start, found.end()


def next_token(data: bytes, offset: int) -> tuple[bytes, int]:
    """Return the token at or after `offset` and its start, skipping directives; (b'', len(data)) at the end."""
    while (found := _TOKEN.match(data, offset)) is not None:
        if found["token"] is not None:
            return found["token"], found.start()
        offset = found.end()
    return b"", len(data)


def after_parentheses(data: bytes, offset: int) -> int:
    """Return the offset behind the bracket that closes the one at `offset`; len(data) when none does."""
    depth = 0
    while (found := _TOKEN.match(data, offset)) is not None:
        token = found["token"]
        if token in (b"(", b"[", b"{"):
            depth += 1
        elif token in (b")", b"]", b"}"):
            depth -= 1
            if depth == 0:
                return found.end()
        offset = found.end()
    return len(data)


def _unescaped(name: bytes) -> str:
    def plain(found: re.Match[bytes]) -> bytes:
        sign = found[1]
        return bytes([int(sign, 8) & 0xFF]) if len(sign) == 3 else sign

    return _ESCAPE.sub(plain, name).decode("utf-8", "surrogateescape")
