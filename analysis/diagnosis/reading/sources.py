"""Source of a log: a file, standard input or an open stream, plain or compressed, read once in blocks."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from unperturbed.common.packed import as_utf8, unpacked, utf16_of
from unperturbed.errors import DataError

_SAMPLE_BYTES = 1 << 18
_PIECE_BYTES = 1 << 16
_HEAD = 1 << 12

PADDING = 8
"""Spare bytes at the end of every array of bytes; compiled functions load eight bytes at a time."""


def source_name(path: str | Path | BinaryIO) -> str:
    """Return a source's name for use in messages."""
    if isinstance(path, (str, Path)):
        return "standard input" if str(path) == "-" else str(path)
    return str(getattr(path, "name", "stream"))


@contextmanager
def open_source(path: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """Open a plain or compressed source; raise DataError if it is missing, damaged or truncated."""
    source = source_name(path)
    with ExitStack() as closing:
        try:
            if not isinstance(path, (str, Path)):
                raw = path
            elif str(path) == "-":
                raw = sys.stdin.buffer
            else:
                raw = closing.enter_context(Path(path).open("rb"))
            stream = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
            if stream is not raw:
                closing.callback(stream.detach)  # the caller's stream stays open
            yield _utf8(closing.enter_context(unpacked(stream, source)), source)
        except OSError as error:
            raise DataError(f"{source}: {error.strerror or error}") from error


def _utf8(stream: BinaryIO, source: str) -> BinaryIO:
    """Return a stream in UTF-8: one in UTF-16, as PowerShell writes it, is read as a whole."""
    peek = getattr(stream, "peek", None)
    if peek is None or not utf16_of(peek(_HEAD)[:_HEAD]):
        return stream
    return io.BytesIO(as_utf8(stream.read(), source))


def _pieces_behind(stream: BinaryIO) -> list[bytes]:
    """Return pieces of the middle and the end of what follows in a plain file; none of other streams."""
    if not isinstance(stream, io.BufferedReader) or not isinstance(stream.raw, io.FileIO) or not stream.seekable():
        return []
    here = stream.tell()
    rest = os.fstat(stream.raw.fileno()).st_size - here
    pieces = []
    for share in (0.5, 1.0):
        stream.seek(here + max(0, int(share * (rest - _PIECE_BYTES))))
        pieces.append(stream.read(_PIECE_BYTES))
    stream.seek(here)
    return pieces if rest > 2 * _PIECE_BYTES else []


class Blocks:
    """Blocks of a stream in one buffer: data in bytes 0 to `stop`, then spare room; unread data moves to the front."""

    def __init__(self, stream: BinaryIO, block_bytes: int) -> None:
        self._stream = stream
        self.sample = b""  # the beginning of the stream
        while len(self.sample) < _SAMPLE_BYTES and (piece := stream.read(_SAMPLE_BYTES - len(self.sample))):
            self.sample += piece
        self.further = _pieces_behind(stream) if len(self.sample) == _SAMPLE_BYTES else []
        self._pending = memoryview(self.sample)
        self.buffer: NDArray[np.uint8] = np.empty(block_bytes + PADDING, np.uint8)
        self.stop = 0
        self.is_last = False  # whether the stream ends at `stop`

    def advance(self, used: int) -> None:
        """Drop the used bytes and fill the buffer; double the buffer if a line is longer."""
        rest = self.stop - used
        room = len(self.buffer) - PADDING
        if rest == room:
            grown = np.empty(2 * room + PADDING, np.uint8)
            grown[:rest] = self.buffer[used : self.stop]
            self.buffer, room = grown, 2 * room
        elif used:
            self.buffer[:rest] = self.buffer[used : self.stop].copy()
        self.stop = rest
        into = memoryview(self.buffer)  # type: ignore[arg-type]
        while self.stop < room:
            if self._pending:
                read = min(len(self._pending), room - self.stop)
                into[self.stop : self.stop + read] = self._pending[:read]
                self._pending = self._pending[read:]
            else:
                read = self._stream.readinto(into[self.stop : room])  # type: ignore[attr-defined]
            if not read:
                self.is_last = True
                break
            self.stop += read

    def lines(self, skipped: int) -> Iterator[bytes]:
        """Yield each line without its newline, after skipping a number of bytes at the beginning."""
        self.advance(0)
        while True:
            at = min(skipped, self.stop)
            skipped -= at
            held = bytes(self.buffer[at : self.stop])
            whole = len(held) if self.is_last else held.rfind(b"\n") + 1
            if whole:
                yield from held[:whole].removesuffix(b"\n").split(b"\n")
            if self.is_last:
                return
            self.advance(at + whole)
