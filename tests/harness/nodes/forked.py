"""Commands of `unperturbed` that a test watches, interrupts and kills: each forked from a process that has loaded all.

Loading takes longer than most of what these commands do themselves.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from weakref import finalize

_LOADED = ("unperturbed.harness.cli", "unperturbed.harness.nodes", "unperturbed.harness.results.reporting")
_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload([*_LOADED, __name__])


class Forked:
    """A command in a process group of its own, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, folder: Path, *words: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self.args = ["unperturbed", *map(str, words)]
        place = Path(tempfile.mkdtemp())
        finalize(self, shutil.rmtree, place)
        self._printed = [place / "out", place / "err"]
        for path in self._printed:
            path.touch()
        arguments = (folder, self.args[1:], dict(environment or os.environ), self._printed)
        self._process = _FORKING.Process(target=_become, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int:
        """Number of the process, and of its group."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, or minus the signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""
        self._process.join(timeout)
        if (code := self.returncode) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return what it printed, once it has ended."""
        self.wait(timeout)
        out, err = (path.read_text() for path in self._printed)
        return out, err

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        os.kill(self.pid, number)


def _become(folder: Path, words: list[str], environment: dict[str, str], printed: list[Path]) -> None:
    """Turn this process, which was forked, into a command; multiprocessing ends it as Python would."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate([Path(os.devnull), *printed]):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))  # multiprocessing has put another there
    sys.exit(import_module("unperturbed.harness.cli").main(words))
