"""Files that are not YAML, recognized by their beginning or name, and what to do with each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_MEASURE = "to measure it without a spec, type `unperturbed run -- {command}`"
_UNPACK = "unpack it first"
_EXPECTED = "name the YAML file of a spec"

_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x7fELF", "a program or a library (ELF)", _MEASURE),
    (b"PAR1", "a Parquet file", "`unperturbed align` and `structure` take traces, `unperturbed model` takes tables"),
    (b"SQLite format 3\0", "an SQLite database", "`unperturbed check {path.parent}` judges the campaign of a manifest"),
    (b"\x1f\x8b", "compressed by gzip", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (b"\xfd7zXZ\0", "compressed by xz", _UNPACK),
    (b"BZh", "compressed by bzip2", _UNPACK),
    (b"PK\x03\x04", "a ZIP archive", _UNPACK),
    (b"%PDF-", "a PDF document", _EXPECTED),
    (b"\x89PNG", "a picture (PNG)", _EXPECTED),
    (b"!<arch>\n", "a static library", _EXPECTED),
    (b"PERFILE2", "a recording of perf", "no command reads it; `unperturbed run -- PROGRAM` measures at intervals"),
)
"""The first bytes of a file, what it is, and what to do."""

_TEXTS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    # A spec may be a script itself: #!/usr/bin/env -S unperturbed run
    (re.compile(rb"#!(?!.*\bunperturbed\b)"), "a script", _MEASURE),
    (
        re.compile(rb"# The record of an import\."),
        "the record of an import",
        "there is no program to run: `unperturbed check {path.parent}` judges the imported runs",
    ),
    (re.compile(rb"\s*<(!doctype|html|\?xml|svg)", re.IGNORECASE), "a page (HTML or XML)", _EXPECTED),
    (re.compile(rb"\s*(//|/\*|#include *[<\"]|#pragma |#ifndef )"), "source code in C or C++", _EXPECTED),
    (re.compile(rb"\s*\{\s*\"(verdicts|table|traceEvents|benchmarks)\""), "a result in JSON", _EXPECTED),
    (re.compile(rb'\s*(import|from) [\w.]+\s|\s*(def|class) \w+.*:|\s*"""'), "a Python program", _EXPECTED),
    (re.compile(rb"[\w.:]+(,[\w.: ]+){2,}\r?\n"), "a table (CSV)", "`unperturbed model` takes tables"),
)
"""How a text begins that is none of YAML: what YAML could begin so too is not listed."""

_NAMES: Mapping[str, str] = {
    **dict.fromkeys((".md", ".rst", ".adoc"), "a document"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"), "source code in C or C++"),
    **dict.fromkeys((".py", ".pyi"), "a Python program"),
    **dict.fromkeys((".sh", ".bash"), "a script"),
    **dict.fromkeys(("Makefile", "makefile", ".mk"), "a makefile"),
    **dict.fromkeys(("CMakeLists.txt", ".cmake"), "a build description of CMake"),
    ".log": "a log",
}
"""What a text is by its suffix or its name."""


def other_than_yaml(content: bytes, path: Path) -> str:
    """Return what a file is and what to do with it, where it is known to be no YAML; '' for all others."""
    command = path if "/" in str(path) else f"./{path}"  # as a shell would find it
    for beginning, what, advice in _BEGINNINGS:
        if content.startswith(beginning):
            return f"{path}: this is {what}, no spec; {advice.format(path=path, command=command)}"
    for form, what, advice in _TEXTS:
        if form.match(content):
            return f"{path}: this is {what}, no spec; {advice.format(path=path, command=command)}"
    named = _NAMES.get(path.name) or _NAMES.get(path.suffix)
    return f"{path}: this is {named}, no spec; {_EXPECTED}" if named and content.strip() else ""
