"""Runs commands of `unperturbed`, each in a process of its own that is forked from one that has loaded everything.

Loading takes longer than most commands of these tests. A command whose environment changes what Python or this tool
load starts by itself, as a user's does.

    python command_server.py    reads lines of JSON: {"argv", "folder", "out", "err", "environment"}; answers each by
                                its exit code
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["READ_LATE", "run_command"]

READ_LATE = frozenset({"PATH", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY"})
"""Variables that no import reads: a forked process takes them as one that was started with them."""

_SECONDS, _TOO_LONG = 280, 999
_LOADED = (
    "unperturbed.harness.cli",
    "unperturbed.harness.campaign.execution",
    "unperturbed.harness.studies.partition",
    "unperturbed.harness.results.recorded",
    "unperturbed.harness.results.reporting",
    "llvmlite.binding",
    "numba",
    "scipy.special",
)


def run_command(
    folder: Path, words: list[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with other values of variables in `READ_LATE`; return its exit code and what it
    printed."""
    assert READ_LATE.issuperset(environment or {})
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        asked = {
            "argv": words,
            "folder": str(folder),
            "out": str(out),
            "err": str(err),
            "environment": dict(environment or {}),
        }
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
    loaded = False
    # Not through sys.stdin, whose buffer a forked process would share: the lines' file is closed there at once.
    with os.fdopen(os.dup(0)) as lines:
        for line in lines:
            asked = json.loads(line)
            loaded = loaded or _load_kernels()
            gc.collect()
            gc.freeze()  # collecting what was loaded would copy all of it into each process
            process = os.fork()
            if not process:
                lines.close()
                answers.close()
                _become(asked)
                _run(asked["argv"])
            answers.write(f"{_ended(process)}\n")


def _run(words: list[str]) -> NoReturn:
    """Run a command and end this process as Python does, but for the memory, which ends with the process."""
    main = importlib.import_module("unperturbed.harness.cli").main
    code: object = 1
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001  the interpreter would print it, too
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


@cache
def _kernels() -> Path:
    """Return the folder of compiled kernels, which is that of the commands."""
    from unperturbed.common.user_cache import user_cache

    return user_cache() / "kernels"


def _load_kernels() -> bool:
    """Load what a verdict calls once some command has compiled it: that takes longer than to judge a few runs.

    No thread is started here, which a process that is forked later would miss.
    """
    if not any(_kernels().glob("alignment-*.ready")):
        return False
    import numpy as np

    from unperturbed.analysis.alignment.dtw import kernels
    from unperturbed.analysis.perturbation.correlation import compiled_correlate_along

    for function in ("path_through", "pair_costs"):
        for element in (np.float64, np.int32):
            kernels.prepare(function, np.zeros((1, 1), element))
    compiled_correlate_along()
    return True


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


def _become(asked: dict[str, Any]) -> None:
    os.environ.update(asked["environment"])
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
