"""Safe reading of files: Parquet with a seal (a digest of the file), and checks of the shape of JSON.

Parquet pages have no checksum, and one changed byte can kill the process that decodes them: the reader tries to
allocate more memory than the host has. The seal is a digest of the whole file in the file's own metadata; it is checked
before anything is decoded. A file without a seal, from another tool, is first decoded in a separate process.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.common import supervision
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl


_MAGIC = b"PAR1"
_SEAL_BEGIN = b'{"seal": "'
_UNSEALED = b"0" * 32
_PROBE = """
import hashlib, io, polars, sys
from pathlib import Path
given = sys.stdin.buffer.read()
for path in [None] if "content" in sys.argv else given.split(bytes(1)):
    content = b""
    try:
        content = Path(path.decode(errors="surrogateescape")).read_bytes() if path else given
        polars.read_parquet(io.BytesIO(content))
    except BaseException:
        pass
    print(hashlib.blake2b(content, digest_size=16).hexdigest(), flush=True)
"""
"""Program that decodes files and prints each file's digest afterwards: the first file without a digest crashed it."""

_harmless: set[str] = set()
"""Digests of files without a seal that a separate process has decoded."""


def is_whole_parquet(path: Path) -> bool:
    """Return whether a file exists and begins and ends like a Parquet file; nothing in between is read."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
            file.seek(-len(_MAGIC), os.SEEK_END)
            return file.read() == _MAGIC
    except OSError:
        return False


def read_parquet_file(path: Path) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Read a Parquet file: its columns and its metadata.

    polars treats a path as a glob: for `x[1]/trace.parquet` it reads `x1/trace.parquet`. An open file avoids this.
    """
    return decode_parquet(_content(path), path)


def decode_parquet(content: bytes, path: Path) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Decode the content of a Parquet file: its columns and its metadata."""
    import polars as pl  # noqa: PLC0415

    with _decodable(content, path) as file:
        metadata = pl.read_parquet_metadata(file)
        file.seek(0)
        frame = pl.read_parquet(file)
    return frame, metadata


def read_parquet_head(path: Path) -> tuple[Mapping[str, pl.DataType], Mapping[str, str]]:
    """Check a Parquet file's seal; read its metadata and the names and types of its columns."""
    import polars as pl  # noqa: PLC0415

    with _decodable(_content(path), path) as file:
        schema = pl.read_parquet_schema(file)
        file.seek(0)
        metadata = pl.read_parquet_metadata(file)
    return schema, metadata


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror})") from None


@contextmanager
def _decodable(content: bytes, path: Path) -> Iterator[io.BytesIO]:
    """Check the content of a file, and yield it as a file that is safe to decode; refuse damaged content."""
    import polars as pl  # noqa: PLC0415

    if not (content.startswith(_MAGIC) and content.endswith(_MAGIC)):
        raise DataError(f"{path}: not a readable Parquet file: it is truncated or has a different format")
    at = _place_of_seal(content)
    if at is not None:
        end = at + len(_UNSEALED)
        if content[at:end] != _seal(content[:at] + _UNSEALED + content[end:]):
            raise DataError(f"{path}: the file is damaged: its content has changed since it was written")
    elif not _is_harmless(content):
        raise DataError(f"{path}: not a readable Parquet file (the Parquet reader crashes on this file)")
    try:
        yield io.BytesIO(content)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        # A panic of the Parquet reader is a BaseException, which no other handler catches.
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path}: not a readable Parquet file ({reason})") from None


def encode_parquet(frame: pl.DataFrame, key: str, described: Mapping[str, Any]) -> bytes:
    """Encode a frame and its description as the content of a Parquet file with a seal (a digest of the content)."""
    file = io.BytesIO()
    text = json.dumps({"seal": "", **described} | {"seal": _UNSEALED.decode()})
    frame.write_parquet(file, metadata={key: text})
    content = file.getvalue()
    at = _place_of_seal(content)
    assert at is not None, "the seal was just written"
    return content[:at] + _seal(content) + content[at + len(_UNSEALED) :]


def _place_of_seal(content: bytes) -> int | None:
    """Return the offset of the seal's digest in the metadata at the end of the file; None without a seal."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    at = content.find(_SEAL_BEGIN, max(0, footer))
    return None if at < 0 else at + len(_SEAL_BEGIN)


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=len(_UNSEALED) // 2).hexdigest().encode()


def try_parquet_files(paths: Sequence[Path]) -> None:
    """Try to decode all files without a seal in one process: starting one for each file would take longer."""
    foreign = [os.fsencode(path.absolute()) for path in paths if is_whole_parquet(path) and not _has_seal(path)]
    while foreign:
        decoded = _probe(bytes(1).join(foreign))
        foreign = foreign[decoded + 1 :]  # the next file crashed the process


def _probe(given: bytes, *what: str) -> int:
    """Decode files, or one file's content, in a separate process; return how many files it decoded before it ended."""
    done = supervision.run([sys.executable, "-I", "-c", _PROBE, *what], input=given, capture_output=True)
    digests = done.stdout.decode().split()
    _harmless.update(digests)
    return len(digests)


def _has_seal(path: Path) -> bool:
    """Return whether a file has a seal; read only the file's metadata."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return _SEAL_BEGIN in file.read()


def _is_harmless(content: bytes) -> bool:
    """Return whether a file can be decoded without crashing the process that decodes it."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    if digest not in _harmless:
        _probe(content, "content")
    return digest in _harmless


Shape = type | list[Any] | dict[Any, Any]
"""Expected shape of a JSON value: a type (`float` accepts any finite number), a list of one shape, a dictionary with at
least these keys, or `{str: shape}`, a dictionary with any keys."""

_NAMES = {
    **{str: "text", int: "an integer", float: "a number"},
    **{bool: "a boolean", list: "a list", dict: "a mapping"},
}
_SHOWN = 40


def misfit(value: Any, shape: Shape, name: str) -> str:
    """Return how a value from `json.loads` differs from the expected shape; empty if it does not."""
    kind = shape if isinstance(shape, type) else type(shape)
    if not _is_of(value, kind):
        shown = repr(value)
        return f"{name} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}, not {_NAMES[kind]}"
    parts: Iterable[tuple[Any, Shape, str]] = ()
    if isinstance(shape, list):
        parts = ((item, shape[0], f"{name}[{at}]") for at, item in enumerate(value))
    elif isinstance(shape, dict):
        wanted: dict[Any, Any] = dict.fromkeys(value, shape[str]) if str in shape else shape
        missing = next((key for key in wanted if key not in value), None)
        if missing is not None:
            return f"{name} has no key {missing!r}"
        parts = ((value[key], inner, f"{name}.{key}") for key, inner in wanted.items())
    return next(filter(None, (misfit(*part) for part in parts)), "")


def _is_of(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
