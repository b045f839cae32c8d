"""Run one command to its end: no shell, no polling, a time limit, and nothing left behind when it or the harness dies."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.errors import HostError, RunError

__all__ = ["Command", "Outcome", "launch"]

_GRACE_S = 2.0
"""Time that a command which is stopped gets to end by itself."""


@dataclass(frozen=True)
class Command:
    """A command and its surroundings. `environment` is the whole environment, not an addition to this process's own."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    stdin: Path | None = None
    timeout_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes
    ----------
    exit_code : as the shell would say it: 128 + n for a command killed by signal n.
    timed_out : it was stopped at its time limit.
    seconds : wall-clock time. user_s, system_s : processor time with all waited-for children. max_rss_kib : largest memory of one.
    """

    exit_code: int
    timed_out: bool
    seconds: float
    user_s: float
    system_s: float
    max_rss_kib: int


def launch(command: Command) -> Outcome:
    """Run a command in a process group of its own and wait for it.

    The wait sleeps in the kernel: while the program runs, the harness executes nothing. An interrupt stops the whole group and is passed on.
    The command is started through setpriv(1), so that it is killed when the harness is.

    Raises
    ------
    RunError
        The program does not exist or is not executable.
    HostError
        setpriv(1), of util-linux, is missing.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError(
            "setpriv is missing: it ties the measured program's life to the harness (on Debian: apt-get install util-linux)"
        )
    program = shutil.which(command.argv[0], path=command.environment.get("PATH", os.defpath))
    if program is None:
        there = Path(command.argv[0]).exists()
        raise RunError(f"{command.argv[0]}: " + ("not an executable file" if there else "there is no such program"))
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(Path(command.stdin or os.devnull).open("rb"))
        stdout = stack.enter_context(command.stdout.open("wb"))
        stderr = stack.enter_context(command.stderr.open("wb"))
        started = time.monotonic()
        process = subprocess.Popen(
            [setpriv, "--pdeathsig", "KILL", "--", program, *command.argv[1:]],
            cwd=command.folder,
            env=dict(command.environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    timed_out = False
    try:
        watch = os.pidfd_open(process.pid)
        try:
            if not _ended(watch, command.timeout_s):
                timed_out = True
                _stop(process.pid, watch)
        finally:
            os.close(watch)
    except BaseException:
        _kill(process.pid, signal.SIGKILL)
        process.wait()
        raise
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    _kill(process.pid, signal.SIGKILL)  # what the program left running in its group would disturb the next run
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    return Outcome(code if code >= 0 else 128 - code, timed_out, seconds, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)


def _ended(watch: int, timeout_s: float | None) -> bool:
    poller = select.poll()
    poller.register(watch, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))


def _stop(group: int, watch: int) -> None:
    _kill(group, signal.SIGTERM)
    if not _ended(watch, _GRACE_S):
        _kill(group, signal.SIGKILL)


def _kill(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the group is gone already: that is what was wanted
        os.killpg(group, number)
