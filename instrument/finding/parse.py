"""Reading preprocessed text with libclang: the syntax tree, and where it cannot be relied on.

libclang is not the compiler that will compile the text, so it meets words it does not know (gcc's own builtins and
attributes in system headers, above all). Shims make most of them readable; what stays unreadable is kept as a list of
places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from unperturbed.errors import HostError
from unperturbed.instrument.finding.preprocessed import PreprocessedText

_PATH = "/preprocessed"
_SHIMS_PATH = "/shims.h"

_SHIMS = """typedef float _Float32; typedef double _Float64; typedef double _Float32x; typedef long double _Float64x;
"""
_FLOAT128 = "typedef __float128 _Float128;\n"

_MACROS = (
    "__builtin_va_arg_pack()=0",
    "__builtin_va_arg_pack_len()=0",
    "__malloc__(...)=__malloc__",
    "__is_same_as=__is_same",
)
"""Words of gcc as macros: libclang reads the text as not yet preprocessed, and gives places of macros as they stand."""

_INTEGER_PACK = re.compile(rb"integer_sequence<(\w+), *__integer_pack\((\w+)\)\.\.\.>")
_DEFINITIONS = re.compile(rb"^[ \t]*#[ \t]*(?:define|undef|include|assert|unassert)\b[^\n]*", re.MULTILINE)

_HARMLESS = re.compile(r"\battribute\b|\bconstraint\b|inline assembly|register name|calling convention")
"""Errors after which the statement's neighbours, and its shape, are still right."""

_LENIENT = (
    "implicit-function-declaration",
    "implicit-int",
    "int-conversion",
    "incompatible-function-pointer-types",
    "return-type",
    "register",
    "c++11-narrowing",
    "reserved-user-defined-literal",
)
"""What clang calls an error by default and gcc does not."""

_ERROR = 3


class Facts(NamedTuple):
    """Facts about a compiler as one command calls it."""

    clang: bool  # It is clang, not gcc
    # How events can be counted by instructions of ours: `x86-64` (AT&T's dialect is read, or both), `aarch64`,
    # `aarch64+lse` (which has atomic additions); '' elsewhere.
    machine: str
    standard: str  # Language standard, as clang's -std= takes it
    target: str  # Machine, as clang's -target takes it; '' when it does not matter
    # Options of the command that change the language itself or the layout of its types, in clang's spelling.
    dialect: tuple[str, ...] = ()


class UnreadableError(Exception):
    """libclang cannot read the text, or not where it matters. The message gives the reason."""


class ParsedText(NamedTuple):
    """A syntax tree with its text."""

    text: PreprocessedText  # The text; every place in the tree is a byte offset in it
    root: Any  # Libclang's cursor of the translation unit
    errors: tuple[tuple[int, str], ...]  # (offset, message) of each error outside system headers, in order
    unit: Any  # Libclang's translation unit, which must live as long as its cursors


def parse(text: PreprocessedText, language: str, facts: Facts) -> ParsedText:
    """Read preprocessed text."""
    from clang import cindex  # noqa: PLC0415  60 MB, and most files of a build need no tree

    arguments = [
        "-x",
        language,
        f"-std={facts.standard}",
        "-undef",
        "-nostdinc",
        "-w",
        "-ferror-limit=0",
        "-fno-spell-checking",
    ]
    arguments += [*facts.dialect, "-include", _SHIMS_PATH]
    arguments += [f"-D{macro}" for macro in _MACROS]
    arguments += [f"-Wno-{warning}" for warning in _LENIENT]
    if facts.target:
        arguments += ["-target", facts.target]
    shims = _SHIMS + (_FLOAT128 if facts.target.startswith(("x86_64", "i686")) else "")
    try:
        index = cindex.Index.create()
        unit = index.parse(
            _PATH, args=arguments, unsaved_files=[(_PATH, _readable(text.data)), (_SHIMS_PATH, shims.encode())]
        )
    except cindex.LibclangError as error:
        raise HostError(f"libclang cannot be loaded: {error}") from None
    except cindex.TranslationUnitLoadError:
        raise UnreadableError("libclang gives no syntax tree") from None
    return ParsedText(text, unit.cursor, tuple(_errors(unit, text)), unit)


def span(cursor: Any) -> tuple[int, int]:
    """Return the byte offsets where a cursor's text begins and ends."""
    extent, offset = cursor.extent, _offset_reader()
    return offset(extent.start), offset(extent.end)


@cache
def _offset_reader() -> Callable[[Any], int]:
    """Return a function that reads a location's byte offset alone: the bindings fetch its file and line as well."""
    from ctypes import byref, c_uint  # noqa: PLC0415  as above

    from clang import cindex  # noqa: PLC0415  as above

    read = cindex.conf.lib.clang_getInstantiationLocation

    def offset(location: Any) -> int:
        found = c_uint()
        read(location, None, None, None, byref(found))
        return found.value

    return offset


def children_of(cursor: Any) -> list[Any]:
    """Return a cursor's children, faster than the bindings, which create a callback for each call."""
    found: list[Any] = []
    visit, note = _visitor()
    visit(cursor, note, found)
    unit = cursor._tu  # as the bindings do: it must live as long as its cursors
    for child in found:
        child._tu = unit
    return found


@cache
def _visitor() -> tuple[Callable[..., int], Any]:
    """Return libclang's function that visits children, and a callback that appends each to a list."""
    from ctypes import CFUNCTYPE, c_int, py_object  # noqa: PLC0415  as above

    from clang import cindex  # noqa: PLC0415  as above

    def note(child: Any, _parent: Any, found: list[Any]) -> int:
        found.append(child)
        return 1  # go on behind the child

    return cindex.conf.lib.clang_visitChildren, CFUNCTYPE(c_int, cindex.Cursor, cindex.Cursor, py_object)(note)


def cursor_at(parsed: ParsedText, offset: int) -> Any | None:
    """Return the innermost cursor at a byte offset, None when there is none."""
    from clang import cindex  # noqa: PLC0415  as above

    file = parsed.unit.get_file(parsed.root.spelling)
    return cindex.Cursor.from_location(parsed.unit, cindex.SourceLocation.from_offset(parsed.unit, file, offset))


def _readable(data: bytes) -> bytes:
    """Return the text with what libclang must not see replaced, every byte in its place."""

    def same_length(found: re.Match[bytes]) -> bytes:
        made = b"__make_integer_seq<integer_sequence,%b,%b>" % found.groups()
        return made.ljust(len(found[0])) if len(made) <= len(found[0]) else found[0]

    data = _INTEGER_PACK.sub(same_length, data)
    return _DEFINITIONS.sub(lambda found: b" " * len(found[0]), data)


def _errors(unit: Any, text: PreprocessedText) -> Iterator[tuple[int, str]]:
    for diagnostic in unit.diagnostics:
        location = diagnostic.location
        if diagnostic.severity < _ERROR or location.file is None or location.file.name != _PATH:
            continue
        if not text.is_system(location.offset):
            message = _message(diagnostic)
            if not _HARMLESS.search(message):
                yield location.offset, message


def _message(diagnostic: Any) -> str:
    try:
        message: str = diagnostic.spelling
    except UnicodeDecodeError:
        return "an error whose message quotes text that is not UTF-8"
    return message
