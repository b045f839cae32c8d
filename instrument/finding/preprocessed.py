"""Preprocessed text: source file and line of each byte, tokens and matching brackets, and the syntax tree.

libclang parses the text, but a different compiler will compile it. So the text contains words that libclang does not
know, mostly builtins and attributes of gcc. Shims declare most of them; the others give a list of errors with offsets.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from unperturbed.errors import HostError

LIBRARY_VARIABLE = "UNPERTURBED_LIBCLANG"
"""Path of a libclang to use instead of the one that comes with its bindings."""

_SYSTEM_LIBRARY = "lib/llvm-[0-9]*/lib/libclang*.so.1"
_MARKER = re.compile(rb'^#(?:line)? (\d+) "((?:[^"\\\n]|\\.)*)"((?: \d)*)[^\n]*\n?', re.MULTILINE)
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)

_TOKEN = re.compile(
    rb"""^[ \t]*\#[^\n]* | \n | [^\S\n]+ | //[^\n]* | /\*.*?\*/                # not tokens
    | (?P<token> (?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\(.*?\)(?P=fence)"  # raw string
    | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*" | (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'
    | \.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*                                         # number, ' may separate digits
    | [A-Za-z_$\x80-\xff][\w$\x80-\xff]* | -> | :: | . )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

_SYSTEM = b"3"
_WORD_SIGNS = frozenset(sign for sign in range(128) if re.match(r"[\w$]", chr(sign)))


class PreprocessedText:
    """Text of a preprocessed file, with its line markers parsed."""

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
        """Return the source file and line of the byte at `offset`; ('', line) before the first line marker."""
        index = bisect_right(self._starts, offset) - 1
        before = bisect_left(self._line_ends, offset)
        if index < 0:
            return "", 1 + before
        file, line, _ = self._origins[index]
        return file, line + before - bisect_left(self._line_ends, self._starts[index])

    @cached_property
    def _line_ends(self) -> list[int]:
        return [newline.start() for newline in re.finditer(b"\n", self.data)]

    def is_system(self, offset: int) -> bool:
        """Return whether the byte at `offset` came from a system header."""
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and self._origins[index][2]

    def user_text(self) -> bytes:
        """Return the text without directives and without text from system headers."""
        bounds = [0, *self._starts, len(self.data)]
        systems = [False, *(system for _, _, system in self._origins)]
        pieces = zip(bounds, bounds[1:], systems, strict=False)
        return _DIRECTIVE.sub(b"", b"".join(self.data[start:end] for start, end, system in pieces if not system))

    def user_files(self) -> set[str]:
        """Return the files that the line markers name, without system headers and the compiler's own entries."""
        user = {file for file, _, system in self._origins if not system}
        return {file for file in user if not file.startswith("<") and not file.endswith("//")}

    def prologue_offset(self) -> int:
        """Return the offset where a prologue can be inserted: after the line marker that names the main file, if any.

        A compiler takes the main file's name from the first line marker; gcc takes the folder from a second one,
        `# 1 "/dir//"`.
        """
        first = _MARKER.match(self.data)
        if first is None:
            return 0
        folder = _MARKER.match(self.data, first.end())
        return folder.end() if folder is not None and folder[2].endswith(b"//") else first.end()


def words_like(data: bytes, name: bytes) -> Iterator[re.Match[bytes]]:
    """Yield each match of a name as a whole word."""
    # The pattern begins with the name, which lets the search jump between occurrences; with the lookbehind first, it
    # would try every byte.
    literal = re.escape(name)
    return re.finditer(rb"%b(?<![\w$]%b)(?![\w$])" % (literal, literal), data)


def words_with(data: bytes, part: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word that contains a piece of a name."""
    for word in re.finditer(re.escape(part) + rb"[\w$]*", data):
        start = word.start()
        while start and data[start - 1] in _WORD_SIGNS:
            start -= 1
        yield start, word.end()


def next_token(data: bytes, offset: int) -> tuple[bytes, int]:
    """Return the token at or after `offset` and its start, skipping directives; (b'', len(data)) at the end."""
    while (match := _TOKEN.match(data, offset)) is not None:
        if match["token"] is not None:
            return match["token"], match.start()
        offset = match.end()
    return b"", len(data)


def after_parentheses(data: bytes, offset: int) -> int:
    """Return the offset after the bracket that closes the bracket at `offset`; len(data) if none does."""
    depth = 0
    while (match := _TOKEN.match(data, offset)) is not None:
        token = match["token"]
        if token in (b"(", b"[", b"{"):
            depth += 1
        elif token in (b")", b"]", b"}"):
            depth -= 1
            if depth == 0:
                return match.end()
        offset = match.end()
    return len(data)


def _unescaped(name: bytes) -> str:
    def plain(escape: re.Match[bytes]) -> bytes:
        sign = escape[1]
        return bytes([int(sign, 8) & 0xFF]) if len(sign) == 3 else sign

    return _ESCAPE.sub(plain, name).decode("utf-8", "surrogateescape")


_PATH = "/preprocessed"
_SHIMS_PATH = "/shims.h"

_SHIMS = "typedef float _Float32; typedef double _Float64; typedef double _Float32x; typedef long double _Float64x;\n"
_FLOAT128 = "typedef __float128 _Float128;\n"

_MACROS = (
    "__builtin_va_arg_pack()=0",
    "__builtin_va_arg_pack_len()=0",
    "__malloc__(...)=__malloc__",
    "__is_same_as=__is_same",
)
"""gcc's own words, defined as macros: libclang preprocesses the text again, and locates a macro where it is used."""

# Patterns that only parsed text needs are compiled at first use: most sources of a build are not parsed.
_INTEGER_PACK = rb"integer_sequence<(\w+), *__integer_pack\((\w+)\)\.\.\.>"
_DEFINITIONS = rb"(?m)^[ \t]*#[ \t]*(?:define|undef|include|assert|unassert)\b[^\n]*"

_HARMLESS = r"\battribute\b|\bconstraint\b|inline assembly|register name|calling convention"
"""Errors that leave the structure of their statement and of its neighbours correct."""

_LENIENT = (
    *("implicit-function-declaration", "implicit-int", "int-conversion", "incompatible-function-pointer-types"),
    *("return-type", "register", "c++11-narrowing", "reserved-user-defined-literal"),
)
"""Warnings that are errors by default in clang but not in gcc."""

_ERROR = 3


class Facts(NamedTuple):
    """Properties of a compiler in one command."""

    clang: bool  # Whether the compiler is clang, not gcc
    # Which inline assembly can count events: `x86-64` (the compiler reads AT&T syntax, or both syntaxes), `aarch64`,
    # `aarch64+lse` (with atomic additions); '' on other machines.
    machine: str
    standard: str  # Language standard, as in clang's -std=
    target: str  # Machine, as in clang's -target; '' if it does not matter
    # Options of the command that change the language itself or the layout of its types, in clang's spelling.
    dialect: tuple[str, ...] = ()


class UnreadableError(Exception):
    """libclang cannot parse the text, or a part that may contain sites. The message gives the reason."""


class ParsedText(NamedTuple):
    """Syntax tree with its text."""

    text: PreprocessedText  # Text; positions in the tree are byte offsets in it
    root: Any  # libclang's cursor of the translation unit
    errors: tuple[tuple[int, str], ...]  # (offset, message) of each error outside system headers, in order
    unit: Any  # libclang's translation unit, which must live as long as its cursors


def parse(text: PreprocessedText, language: str, facts: Facts) -> ParsedText:
    """Parse preprocessed text with libclang."""
    cindex = _bindings()
    arguments = ["-x", language, f"-std={facts.standard}", "-undef", "-nostdinc", "-w", "-ferror-limit=0"]
    arguments += ["-fno-spell-checking", *facts.dialect, "-include", _SHIMS_PATH]
    arguments += [f"-D{macro}" for macro in _MACROS]
    arguments += [f"-Wno-{warning}" for warning in _LENIENT]
    if facts.target:
        arguments += ["-target", facts.target]
    shims = _SHIMS + (_FLOAT128 if facts.target.startswith(("x86_64", "i686")) else "")
    files = [(_PATH, _readable(text.data)), (_SHIMS_PATH, shims.encode())]
    try:
        unit = cindex.Index.create().parse(_PATH, args=arguments, unsaved_files=files)
    except cindex.LibclangError as error:
        why = str(error).partition(". To provide a path")[0]
        raise HostError(f"cannot load libclang: {why}. Give the path of one with {LIBRARY_VARIABLE}") from None
    except cindex.TranslationUnitLoadError:
        raise UnreadableError("libclang cannot parse the preprocessed source") from None
    return ParsedText(text, unit.cursor, tuple(_errors(unit, text)), unit)


@cache
def _bindings() -> Any:
    """Return libclang's bindings, set to the library of UNPERTURBED_LIBCLANG, or the first that is found.

    The bindings' own (a wheel) is sought first, then that of the environment (conda), then the system's.
    """
    from clang import cindex  # noqa: PLC0415  takes 60 MB, and most files of a build need no tree

    chosen = os.environ.get(LIBRARY_VARIABLE, "")
    if not chosen and not Path(cindex.Config.library_path or "", "libclang.so").is_file():
        own = sorted(str(path) for path in Path(sys.prefix, "lib").glob("libclang.so*"))
        systems = (str(path) for path in Path("/usr").glob(_SYSTEM_LIBRARY))
        chosen = own[0] if own else max(systems, key=_llvm_version, default="")
    if chosen:
        cindex.Config.set_library_file(chosen)
        cindex.Config.set_compatibility_check(False)  # other versions lack functions that are not called here
    return cindex


def _llvm_version(library: str) -> int:
    return int(library.partition("llvm-")[2].partition("/")[0])


def span(cursor: Any) -> tuple[int, int]:
    """Return the byte offsets where a cursor's text begins and ends."""
    extent, offset = cursor.extent, _offset_reader()
    return offset(extent.start), offset(extent.end)


@cache
def _offset_reader() -> Callable[[Any], int]:
    """Return a function that reads only a location's byte offset; the bindings also fetch file and line."""
    from ctypes import byref, c_uint  # noqa: PLC0415  as above

    from clang import cindex  # noqa: PLC0415  as above

    read = cindex.conf.lib.clang_getInstantiationLocation

    def offset(location: Any) -> int:
        position = c_uint()
        read(location, None, None, None, byref(position))
        return position.value

    return offset


def children_of(cursor: Any) -> list[Any]:
    """Return a cursor's children, faster than the bindings, which create a callback for each call."""
    children: list[Any] = []
    visit, note = _visitor()
    visit(cursor, note, children)
    unit = cursor._tu  # as the bindings do: the unit must live as long as its cursors
    for child in children:
        child._tu = unit
    return children


@cache
def _visitor() -> tuple[Callable[..., int], Any]:
    """Return libclang's function that visits children, and a callback that appends each child to a list."""
    from ctypes import CFUNCTYPE, c_int, py_object  # noqa: PLC0415  as above

    from clang import cindex  # noqa: PLC0415  as above

    def note(child: Any, _parent: Any, children: list[Any]) -> int:
        children.append(child)
        return 1  # CXChildVisit_Continue: skip the child's own children

    return cindex.conf.lib.clang_visitChildren, CFUNCTYPE(c_int, cindex.Cursor, cindex.Cursor, py_object)(note)


def cursor_at(parsed: ParsedText, offset: int) -> Any | None:
    """Return the innermost cursor at a byte offset; None if there is none."""
    from clang import cindex  # noqa: PLC0415  as above

    file = parsed.unit.get_file(parsed.root.spelling)
    return cindex.Cursor.from_location(parsed.unit, cindex.SourceLocation.from_offset(parsed.unit, file, offset))


def _readable(data: bytes) -> bytes:
    """Replace constructs that libclang cannot parse, without moving other bytes, and return the text."""

    def same_length(pack: re.Match[bytes]) -> bytes:
        made = b"__make_integer_seq<integer_sequence,%b,%b>" % pack.groups()
        return made.ljust(len(pack[0])) if len(made) <= len(pack[0]) else pack[0]

    data = re.sub(_INTEGER_PACK, same_length, data)
    return re.sub(_DEFINITIONS, lambda definition: b" " * len(definition[0]), data)


def _errors(unit: Any, text: PreprocessedText) -> Iterator[tuple[int, str]]:
    for diagnostic in unit.diagnostics:
        location = diagnostic.location
        if diagnostic.severity < _ERROR or location.file is None or location.file.name != _PATH:
            continue
        if not text.is_system(location.offset):
            try:
                message = diagnostic.spelling
            except UnicodeDecodeError:
                message = "an error message that is not valid UTF-8"
            if not re.search(_HARMLESS, message):
                yield location.offset, message
