"""Where a log comes from: a file, standard input or an open stream, as it is or compressed, read once, a block at a time."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.reading.spans import PADDING
from unperturbed.errors import DataError, HostError

__all__ = ["Blocks", "opened", "source_name"]

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SAMPLE_BYTES = 1 << 18


def source_name(path: str | Path | BinaryIO) -> str:
    """Return what messages call a source."""
    if isinstance(path, (str, Path)):
        return "standard input" if str(path) == "-" else str(path)
    return str(getattr(path, "name", "stream"))


@contextmanager
def opened(path: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """Open a source to be read; compression is known by its first bytes.

    Raises DataError where there is no such file, or where what is compressed is damaged or ends too early.
    """
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
            yield closing.enter_context(_plain(stream))
        except _of_damage() as error:
            raise DataError(
                f"{source}: what is compressed is damaged or ends too early ({error}); record or copy it again"
            ) from error
        except OSError as error:
            raise DataError(f"{source}: {error.strerror or error}") from error


@contextmanager
def _plain(stream: io.BufferedReader) -> Iterator[BinaryIO]:
    first = stream.peek(4)[:4]
    if first.startswith(_GZIP):
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield cast(BinaryIO, unpacked)
    elif first == _ZSTD:
        with _zstd().ZstdFile(stream) as unpacked:
            yield cast(BinaryIO, unpacked)
    else:
        yield stream


def _zstd() -> Any:
    """Return the standard library's module of Python 3.14, or the same for older ones."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd  # noqa: PLC0415 - only where a log needs it
        else:
            from backports import zstd  # noqa: PLC0415 - the same
    except ImportError as error:
        raise HostError(
            "reading zstd needs the package backports.zstd: pip install backports.zstd; or unpack the log first"
        ) from error
    return zstd


def _of_damage() -> tuple[type[Exception], ...]:
    """Return what damaged data raise."""
    module = sys.modules.get("compression.zstd") or sys.modules.get("backports.zstd")
    return (EOFError, gzip.BadGzipFile, zlib.error, *((module.ZstdError,) if module else ()))


class Blocks:
    """Bytes of a stream in one buffer, of which what is not used up moves to the front.

    Attributes
    ----------
    buffer : uint8
    stop : int
        What is held ends here; it begins at 0.
    is_last : bool
        Nothing comes behind it.
    sample : bytes
        What the stream begins with.
    """

    def __init__(self, stream: BinaryIO, block_bytes: int) -> None:
        self._stream = stream
        self.sample = self._ahead(_SAMPLE_BYTES)
        self._pending = memoryview(self.sample)
        self.buffer: NDArray[np.uint8] = np.empty(block_bytes + PADDING, np.uint8)
        self.stop = 0
        self.is_last = False

    def _ahead(self, wanted: int) -> bytes:
        pieces = []
        while wanted and (piece := self._stream.read(wanted)):
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def advance(self, used: int) -> None:
        """Drop what was used, and read on until the buffer is full. It doubles where nothing was used: a line is longer."""
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
