"""Parquet files: written with a seal, and read from exactly the file that was named.

Parquet's pages have no checksum, and one changed byte in them can end the process that decodes them: its reader
allocates more memory than there is. The seal is a digest of the whole file, in the file's own metadata; it is checked
before anything is decoded. A file without a seal, which another tool wrote, is first decoded in a process apart.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
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
"""Decodes files and prints a digest of each as soon as it is through: the first without one has ended the process."""

_harmless: set[str] = set()
"""Digests of files without a seal that were decoded in a process apart."""


def is_whole_parquet(path: Path) -> bool:
    """Return whether a file is there and begins and ends as a Parquet file; what lies between is not read."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
            file.seek(-len(_MAGIC), os.SEEK_END)
            return file.read() == _MAGIC
    except OSError:
        return False


def read_parquet_file(path: Path) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Read a Parquet file and its key-value metadata.

    polars takes a path as a glob: of `x[1]/trace.parquet` it reads `x1/trace.parquet`. An open file is taken as it is.

    Result `frame`: Its columns.
    Result `metadata`: What its writer noted beside them.
    """
    return decode_parquet(_content(path), path)


def decode_parquet(content: bytes, path: Path) -> tuple[pl.DataFrame, Mapping[str, str]]:
    """Decode a Parquet file.

    Result `frame`: Its columns.
    Result `metadata`: What its writer noted beside them.
    """
    import polars as pl  # noqa: PLC0415

    _require_decodable(content, path)
    try:
        file = io.BytesIO(content)
        metadata = pl.read_parquet_metadata(file)
        file.seek(0)
        return pl.read_parquet(file), metadata
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        # A panic of the reader is a BaseException, which nothing else would catch.
        raise _unreadable(path, error) from None


def read_parquet_head(path: Path) -> tuple[Mapping[str, pl.DataType], Mapping[str, str]]:
    """Read what columns a Parquet file has, once its seal is checked: what decodes it later is not surprised.

    Result `schema`: Its columns' names and types.
    Result `metadata`: What its writer noted beside them.
    """
    import polars as pl  # noqa: PLC0415

    content = _content(path)
    _require_decodable(content, path)
    try:
        file = io.BytesIO(content)
        schema = pl.read_parquet_schema(file)
        file.seek(0)
        return schema, pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read ({error.strerror})") from None


def _unreadable(path: Path, error: BaseException) -> DataError:
    reason = str(error).strip().partition("\n")[0]
    return DataError(f"{path}: not a readable Parquet file ({reason})")


def _require_decodable(content: bytes, path: Path) -> None:
    """Refuse a file that is not as it was written, or would end the process that decodes it."""
    if not (content.startswith(_MAGIC) and content.endswith(_MAGIC)):
        raise DataError(f"{path}: not a readable Parquet file: it is cut off, or of another format")
    at = _place_of_seal(content)
    if at is not None:
        end = at + len(_UNSEALED)
        if content[at:end] != _seal(content[:at] + _UNSEALED + content[end:]):
            raise DataError(f"{path}: its content is not what was written: the file is damaged")
    elif not _is_harmless(content):
        raise DataError(f"{path}: not a readable Parquet file (its reader crashes on it)")


def encode_parquet(frame: pl.DataFrame, key: str, described: Mapping[str, Any]) -> bytes:
    """Return a Parquet file with a seal."""
    file = io.BytesIO()
    text = json.dumps({"seal": "", **described} | {"seal": _UNSEALED.decode()})
    frame.write_parquet(file, metadata={key: text})
    content = file.getvalue()
    at = _place_of_seal(content)
    assert at is not None, "it was just written"
    return content[:at] + _seal(content) + content[at + len(_UNSEALED) :]


def _place_of_seal(content: bytes) -> int | None:
    """Return the place of the digest in the metadata at the file's end."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    at = content.find(_SEAL_BEGIN, max(0, footer))
    return None if at < 0 else at + len(_SEAL_BEGIN)


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=len(_UNSEALED) // 2).hexdigest().encode()


def try_parquet_files(paths: Sequence[Path]) -> None:
    """Decode the files without a seal in one process apart, so that each is decoded there but once.

    Starting a process takes longer than most files do. Whatever is wrong with a file, its reader says so.
    """
    foreign = [os.fsencode(path.absolute()) for path in paths if is_whole_parquet(path) and not _has_seal(path)]
    while foreign:
        tried = _probe(bytes(1).join(foreign))
        foreign = foreign[tried + 1 :]  # the next one has ended the process


def _probe(given: bytes, *what: str) -> int:
    """Decode files, or a content, in a process apart; return how many it came through before it ended."""
    done = supervision.run([sys.executable, "-I", "-c", _PROBE, *what], input=given, capture_output=True)
    digests = done.stdout.decode().split()
    _harmless.update(digests)
    return len(digests)


def _has_seal(path: Path) -> bool:
    """Return whether a file has a seal, by its metadata alone."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return _SEAL_BEGIN in file.read()


def _is_harmless(content: bytes) -> bool:
    """Return whether the process that decodes a file survives it."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    if digest not in _harmless:
        _probe(content, "content")
    return digest in _harmless
