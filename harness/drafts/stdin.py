"""Standard input of a command that is run many times: a file each run reads anew, or a copy of what was piped in."""

from __future__ import annotations

import hashlib
import os
import select
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unperturbed.common.wording import duration
from unperturbed.errors import SpecError

_STDIN = 0
_NONE = "null"
_WAIT_S = 2.0
"""A pipe in which nothing arrives so long was not meant: services and editors leave an idle one open."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Piped:
    """What was piped in."""

    content: BinaryIO  # All of it, in a file that is gone when it is closed
    digest: str  # Begin of its sha256

    def keep(self, path: Path) -> None:
        """Write it into a file."""
        self.content.seek(0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                while chunk := self.content.read(_CHUNK):
                    file.write(chunk)
        except OSError as error:
            raise SpecError(f"{path}: piped input cannot be kept there ({error.strerror})") from None


def choose_stdin(asked: str) -> Path | None:
    """Return the file that the program reads; None for none.

    `asked`: A file; `null` for none; '' for the one that standard input was redirected from, `< file`.
    """
    if asked == _NONE:
        return None
    if asked:
        path = Path(asked).absolute()
        if not path.is_file():
            raise SpecError(f"--input {asked}: there is no such file; `--input {_NONE}` gives the program no input")
        return path
    try:
        path = Path(f"/proc/self/fd/{_STDIN}").readlink()
    except OSError:
        return None
    return path if path.is_absolute() and path.is_file() else None


def spool_stdin(say: Callable[[str], None]) -> Piped | None:
    """Return what is piped into this process, as far as it is; None where standard input is not a pipe, or idle."""
    try:
        if not stat.S_ISFIFO(os.fstat(_STDIN).st_mode):
            return None
    except OSError:  # it is closed
        return None
    if not select.select([_STDIN], [], [], _WAIT_S)[0]:
        say(
            f"standard input is a pipe, in which nothing arrived for {duration(_WAIT_S)}: the program gets no input; "
            "give it a file by --input FILE, or say --input null"
        )
        return None
    content = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as what is returned
    digest = hashlib.sha256()
    while chunk := os.read(_STDIN, _CHUNK):
        digest.update(chunk)
        content.write(chunk)
    return Piped(content, digest.hexdigest()[:12]) if content.tell() else None
