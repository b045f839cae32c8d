"""Watch an unmeasured run: which program its process becomes (exec), and which it starts.

A command is often a script that ends in `exec`: pyenv's `python3`, `zcat`, wrappers that set variables. The sampler
stays in the program that a run begins with, so the spec names the program that the process becomes.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.common.wording import duration

_POLL_S = 0.002
_STILL_S = (10.0, 60.0)
"""When a program that does not end is spoken of; then every minute."""
_OF_SHELLS = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables that shells set for themselves."""
_LAUNCHER = "setpriv"
_EARLY = 100
"""So many times at the beginning all is read: a shell that starts another script stays the same program."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Image:
    """A program that a process ran."""

    file: Path  # The executable, without links
    words: tuple[str, ...]  # Its arguments, the first of which names it
    folder: Path  # Where it ran
    environment: Mapping[str, str]  # What it was started with

    @property
    def path(self) -> Path:
        """Return the executable as it was named, where that leads to it: Python finds its environment by the link."""
        named = self.words[0] if self.words else ""
        found = shutil.which(named, path=self.environment.get("PATH", os.defpath)) if named else None
        here = Path(os.path.abspath(self.folder / found)) if found else self.file  # noqa: PTH100  the link stays
        return here if here.resolve() == self.file else self.file

    def changed_environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that a script set before it became this program."""
        return {
            name: value
            for name, value in self.environment.items()
            if before.get(name) != value and name not in _OF_SHELLS and name.isidentifier()
        }


@dataclass(frozen=True)
class Watched:
    """What was seen of a process."""

    image: Image | None  # The program that it was at last; None when it ended before anything was seen
    child: tuple[str, ...]  # The command that it started and that ran longest; empty for none
    own_s: float  # CPU time of the process itself, without its children, to a clock tick


class Watch:
    """Look at a process some hundred times a second from a thread, and report when it takes long.

    `say`: Receives a sentence after ten seconds, and each minute.
    """

    def __init__(self, say: Callable[[str], None], limit_s: float) -> None:
        self._say, self._limit_s = say, limit_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._looks = 0
        self._last: Image | None = None
        self._children: Counter[tuple[str, ...]] = Counter()
        self._own_s = 0.0

    def begin(self, pid: int) -> None:
        """Begin to watch a process."""
        self._thread = threading.Thread(target=self._watch, args=(pid,), daemon=True)
        self._thread.start()

    def end(self) -> Watched:
        """Return what was seen."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        child = self._children.most_common(1)
        return Watched(self._last, child[0][0] if child else (), self._own_s)

    def _watch(self, pid: int) -> None:
        begun = time.monotonic()
        next_s, later = _STILL_S
        while not self._over.wait(_POLL_S):
            self._look(pid)
            if time.monotonic() - begun >= next_s:
                self._say(
                    f"the program, unmeasured, still runs after {duration(next_s)}; it is stopped after "
                    f"{duration(self._limit_s)} (Ctrl-C ends it now)"
                )
                next_s, later = later, later + _STILL_S[1]

    def _look(self, pid: int) -> None:
        place = Path(f"/proc/{pid}")
        try:
            file = (place / "exe").readlink()
            if file.name != _LAUNCHER:
                self._looks += 1
                if self._last is None or self._last.file != file or self._looks < _EARLY or self._looks % 64 == 0:
                    image = Image(file, _words(place / "cmdline"), (place / "cwd").readlink(), _variables(place))
                    if (place / "exe").readlink() == file and image.words:
                        self._last = image
                stat = (place / "stat").read_text().rpartition(")")[2].split()
                self._own_s = (int(stat[11]) + int(stat[12])) / _TICKS
            for child in (place / "task" / str(pid) / "children").read_text().split():
                self._children[_words(Path(f"/proc/{child}/cmdline"))] += 1
        except (OSError, ValueError, IndexError):  # it ended, or became another program meanwhile
            return


def _words(cmdline: Path) -> tuple[str, ...]:
    return tuple(word.decode(errors="surrogateescape") for word in cmdline.read_bytes().split(b"\0")[:-1])


def _variables(process: Path) -> dict[str, str]:
    pairs = (entry.partition(b"=") for entry in (process / "environ").read_bytes().split(b"\0") if entry)
    return {name.decode(errors="replace"): value.decode(errors="surrogateescape") for name, _, value in pairs}
