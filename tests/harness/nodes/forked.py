"""Commands of `unperturbed` that a test watches, interrupts and kills: each forked from a process that has loaded all.

Loading takes longer than most of what these commands do themselves.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from weakref import finalize

from tests.harness.command_server import STILL_RUNS, start_command, state_of


class Forked:
    """A command in a process group of its own, with the part of `subprocess.Popen` that the tests use."""

    def __init__(self, folder: Path, *words: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self.args = ["unperturbed", *map(str, words)]
        self.returncode: int | None = None
        place = Path(tempfile.mkdtemp())
        finalize(self, shutil.rmtree, place)
        self._printed = [place / "out", place / "err"]
        self.pid = start_command(folder, self.args[1:], environment or os.environ, *self._printed)

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal; None while it runs."""
        if self.returncode is None and (code := state_of(self.pid)) != STILL_RUNS:
            self.returncode = code
        return self.returncode

    def wait(self, timeout: float = 280) -> int:
        """Return the exit code once it has ended."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.01)
        return code

    def communicate(self, timeout: float = 280) -> tuple[str, str]:
        """Return what it printed, once it has ended."""
        self.wait(timeout)
        out, err = (path.read_text() if path.exists() else "" for path in self._printed)
        return out, err

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        os.kill(self.pid, number)
