"""Files and streams as UTF-8: gzip, bzip2, zstd, xz and UTF-16, recognised by their first bytes."""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from unperturbed.errors import DataError, HostError

_GZIP, _BZIP2, _ZSTD, _XZ = b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0"
_HEAD, _FEWEST, _MOSTLY, _SOME = 4096, 8, 10, 5
_SUFFIXES = (".gz", ".bz2", ".zst", ".zstd", ".xz")


def plain_name(path: Path) -> Path:
    """Return a file's path without the suffix of its compression: `runs.csv` for `runs.csv.gz`."""
    return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path


@contextmanager
def unpacked(stream: io.BufferedReader, source: str) -> Iterator[BinaryIO]:
    """Yield the decompressed content of a stream, or the stream if it is not compressed.

    Damaged data raises DataError, which names `source`.
    """
    first = stream.peek(len(_XZ))[: len(_XZ)]
    try:
        if first.startswith(_GZIP):
            with gzip.GzipFile(fileobj=stream) as opened:
                yield cast(BinaryIO, opened)
        elif first.startswith(_BZIP2):
            with _library("bzip2").BZ2File(stream) as opened, _damaged_bzip2(source):
                yield cast(BinaryIO, opened)
        elif first.startswith(_ZSTD):
            with _library("zstd").ZstdFile(stream) as opened:
                yield cast(BinaryIO, opened)
        elif first.startswith(_XZ):
            with _library("xz").LZMAFile(stream) as opened:
                yield cast(BinaryIO, opened)
        else:
            yield stream
    except _damage_errors() as error:
        raise _damaged(source, error) from error


@contextmanager
def _damaged_bzip2(source: str) -> Iterator[None]:
    """Raise DataError for what bz2 raises for damaged data: an OSError without a number of the system."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise _damaged(source, error) from error


def _damaged(source: str, error: Exception) -> DataError:
    what = f"{source}: the compressed data is damaged or ends too early ({error}): record or copy the file again"
    return DataError(what)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or compressed file for reading; OSError is the caller's."""
    with path.open("rb") as file, unpacked(file, str(path)) as stream:
        yield stream


def unpack(content: bytes, source: str) -> bytes:
    """Return content decompressed, or as it is if it is not compressed; `source` names it in messages."""
    if not content.startswith((_GZIP, _BZIP2, _ZSTD, _XZ)):
        return content
    with unpacked(io.BufferedReader(io.BytesIO(content)), source) as stream:
        return stream.read()


def utf16_of(head: bytes) -> str:
    """Return the name of UTF-16 if a text begins so, with a mark or with a zero beside each ASCII character."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return ""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # Digits, blanks and ends of lines have zeros in any language; bytes that only begin like a mark have none.
        return "utf-16" if _SOME * head.count(0) >= len(head) else ""
    even, odd = head[::2], head[1::2]
    if len(odd) < _FEWEST or b"\0\0" in head:
        return ""
    if even.count(0) * _MOSTLY > len(even) * (_MOSTLY - 1) and not odd.count(0):
        return "utf-16-be"
    return "utf-16-le" if odd.count(0) * _MOSTLY > len(odd) * (_MOSTLY - 1) and not even.count(0) else ""


def as_utf8(content: bytes, source: str, errors: str = "strict") -> bytes:
    """Return text in UTF-8, without a mark of its byte order; other content is returned as it is."""
    encoding = utf16_of(content[:_HEAD])
    if not encoding:
        return content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode(encoding, errors).removeprefix("\ufeff").encode()
    except UnicodeError as error:
        raise DataError(f"{source}: the file is not whole UTF-16 text ({error}): record or copy it again") from None


def _library(form: str) -> Any:
    """Return the module that reads bzip2, xz or zstd."""
    # Some builds of Python lack bz2 or lzma; zstd is in the standard library from Python 3.14 on.
    newest = sys.version_info >= (3, 14)
    name = {"bzip2": "bz2", "xz": "lzma"}.get(form, "compression.zstd" if newest else "backports.zstd")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = "the package backports.zstd" if form == "zstd" else f"Python's module {name}"
        how = "use a Python that has it" if form != "zstd" else "run `pip install backports.zstd`"
        raise HostError(f"reading {form} requires {package}: {how}, or unpack the file") from error


def _damage_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that damaged data raises."""
    loaded = [sys.modules.get(name) for name in ("compression.zstd", "backports.zstd", "lzma")]
    of_libraries = (getattr(module, name, None) for module in loaded for name in ("ZstdError", "LZMAError"))
    return (EOFError, gzip.BadGzipFile, zlib.error, *(error for error in of_libraries if error is not None))
