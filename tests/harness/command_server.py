"""Runs commands of `unperturbed`, each in a process of its own that is forked from one that has loaded everything.

Loading takes longer than most commands of these tests. A command whose environment changes what Python or this tool
load starts by itself, as a user's does.

    python command_server.py    reads lines of JSON and answers each by a number:
        {"argv", "folder", "out", "err", "environment"}    the command's exit code, once it has ended
        the same with "group": true                        the number of its process, which leads a group of its own,
                                                           in that environment alone
        {"process"}                                        that process' exit code, or `STILL_RUNS`
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

__all__ = ["READ_LATE", "STILL_RUNS", "run_command", "start_command", "state_of"]

READ_LATE = frozenset({"PATH", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY"})
"""Variables that no import reads: a forked process takes them as one that was started with them."""

STILL_RUNS = 998
_SECONDS, _TOO_LONG = 280, 999
_LOADED = (
    "unperturbed.harness.cli",
    "unperturbed.harness.campaign.execution",
    "unperturbed.harness.studies.partition.software",
    "unperturbed.harness.results.recorded",
    "unperturbed.harness.results.reporting",
    "unperturbed.harness.results.merging",
    "llvmlite.binding",
    "numba",
    "pyperf._collect_metadata",
    "rich.console",
    "rich.markup",
    "rich.table",
    "scipy.special",
    "unperturbed.harness.cli.campaigns.check",
    "unperturbed.harness.cli.campaigns.run",
    "unperturbed.harness.cli.running",
)
_SPEC = "{name: x, program: {run: sh -c true}, measure: {os: [minor_faults]}}"
"""Pydantic makes ready what checks a spec when it meets the first."""


def run_command(
    folder: Path, words: list[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with other values of variables in `READ_LATE`; return its exit code and what it
    printed."""
    assert READ_LATE.issuperset(environment or {})
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        code = _ask(argv=words, folder=str(folder), out=str(out), err=str(err), environment=dict(environment or {}))
        if code == _TOO_LONG:
            raise subprocess.TimeoutExpired(words, _SECONDS, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(["unperturbed", *words], code, out.read_text(), err.read_text())


def start_command(folder: Path, words: list[str], environment: Mapping[str, str], out: Path, err: Path) -> int:
    """Start a command in a process group of its own, whatever its environment; return the number of its process."""
    return _ask(argv=words, folder=str(folder), out=str(out), err=str(err), environment=dict(environment), group=True)


def state_of(process: int) -> int:
    """Return the exit code of a process that was started here, or minus its signal; `STILL_RUNS` while it runs."""
    return _ask(process=process)


def _ask(**asked: object) -> int:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(asked) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _serve() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    importlib.import_module("unperturbed.harness.spec").parse_spec(_SPEC, "x.yaml", Path.cwd())
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    loaded = False
    # Not through sys.stdin, whose buffer a forked process would share: the lines' file is closed there at once.
    with os.fdopen(os.dup(0)) as lines:
        for line in lines:
            asked = json.loads(line)
            if "process" in asked:
                answers.write(f"{_code_of(asked['process'])}\n")
                continue
            loaded = loaded or _load_kernels()
            gc.collect()
            gc.freeze()  # collecting what was loaded would copy all of it into each process
            process = os.fork()
            if not process:
                lines.close()
                answers.close()
                _become(asked)
                _run(asked["argv"])
            answers.write(f"{process if 'group' in asked else _ended(process)}\n")


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
        if (code := _code_of(process)) != STILL_RUNS:
            return code
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return _TOO_LONG


def _code_of(process: int) -> int:
    known, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if known else STILL_RUNS


def _become(asked: dict[str, Any]) -> None:
    if "group" in asked:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
        os.environ.clear()
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
