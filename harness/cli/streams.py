"""Standard output and standard error; a closed stream or limited encoding changes neither results nor exit codes.

Control characters in untrusted text (names, paths, output of programs) are escaped. Only text written through
`drawing` may move the cursor and set colours.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from unperturbed.common.wording import visible

STANDARD_OUTPUT = "standard output"

_PAIRS = """
✓ok ✗X …... →-> ←<- ↔<-> –- —- −- ±+- ×x ·. ≤<= ≥>= ≠!= ≈~ ρrho αalpha µu μu Δdelta ²^2 ³^3 ’' ‘' “" ”"
"""
_PLAIN: Mapping[str, str] = {
    **{pair[0]: pair[1:] for pair in _PAIRS.split()},
    "°": " deg",
    "\xa0": " ",
    "\u202f": " ",
}
"""Replacements for characters that the terminal's encoding lacks; not a question mark, which is a verdict."""


def _to_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "-" if "─" <= sign <= "╿" else "_") for sign in text), error.end


class _Output:
    """Stream that discards all output once a write has failed with a forgiven error, such as a closed pipe."""

    def __init__(self, stream: TextIO, forgiven: type[OSError], *, drawing: bool = False) -> None:
        self._stream = stream
        self._forgiven = forgiven
        self._drawing = drawing

    @property
    def drawing(self) -> _Output:
        """Return the same stream for text that may control the terminal."""
        return _Output(self._stream, self._forgiven, drawing=True)

    def write(self, text: str) -> int:
        """Write a text and return its length; escape control characters unless the stream is for drawing."""
        self._attempt(self._stream.write, text if self._drawing else visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush the stream."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[..., object], *arguments: str) -> None:
        try:
            action(*arguments)
        except self._forgiven:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare_streams() -> None:
    """Keep output working with a closed pipe (`| head`), a closed stderr, and an encoding that lacks characters.

    A result that cannot be written (a full disk) stays an error, because it would be lost.
    """
    codecs.register_error("unperturbed", _to_plain)
    for name, forgiven in (("stdout", BrokenPipeError), ("stderr", OSError)):
        stream = getattr(sys, name)
        if isinstance(stream, _Output):
            continue
        if stream is None:  # closed before this process started
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open until the process ends
        try:
            "✓─".encode(stream.encoding)
        except UnicodeEncodeError:
            stream.reconfigure(errors="unperturbed")
        setattr(sys, name, _Output(stream, forgiven))


def drawing(stream: TextIO) -> TextIO:
    """Return a standard stream for text that may control the terminal; never write untrusted text to it."""
    raw: TextIO = getattr(stream, "drawing", stream)
    return raw


def print_event(event: str, **facts: object) -> None:
    """Print an event as one line of JSON on standard error, for programs that watch a command."""
    line = json.dumps({"event": event, "time": round(time.time(), 3), **facts}, ensure_ascii=False)
    print(line, file=sys.stderr, flush=True)


def print_json(described: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(described, indent=2, ensure_ascii=False))
