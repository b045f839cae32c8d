"""Runs commands of `unperturbed`, each in a process of its own that is forked from one that has loaded everything.

Loading takes longer than most commands of these tests. A command that is given another environment starts by itself, as
a user's does.

    python command_server.py    reads lines of JSON: {"argv", "folder", "out", "err"}; answers each by its exit code
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

__all__ = ["run_command"]

_SECONDS, _TOO_LONG = 280, 999
_LOADED = (
    "unperturbed.harness.cli",
    "unperturbed.harness.campaign.execution",
    "unperturbed.harness.studies.partition",
    "unperturbed.harness.results.recorded",
    "unperturbed.harness.results.reporting",
    "llvmlite.binding",
)


def run_command(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; return its exit code and what it printed."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        asked = {"argv": words, "folder": str(folder), "out": str(out), "err": str(err)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        if code == _TOO_LONG:
            raise subprocess.TimeoutExpired(words, _SECONDS, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(["unperturbed", *words], code, out.read_text(), err.read_text())


@cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _serve() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Not through sys.stdin, whose buffer a forked process would share: the lines' file is closed there at once.
    with os.fdopen(os.dup(0)) as lines:
        for line in lines:
            asked = json.loads(line)
            process = os.fork()
            if not process:
                lines.close()
                answers.close()
                _become(asked)
                main = importlib.import_module("unperturbed.harness.cli").main
                sys.exit(main(asked["argv"]))
            answers.write(f"{_ended(process)}\n")


def _ended(process: int) -> int:
    """Wait for a process; return its exit code."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        known, status = os.waitpid(process, os.WNOHANG)
        if known:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return _TOO_LONG


def _become(asked: dict[str, str]) -> None:
    os.chdir(asked["folder"])
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, asked["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)


if __name__ == "__main__":
    _serve()
