"""Start programs in sessions of their own, which are killed when this process ends, for whatever reason.

The kernel can kill a child when its parent dies, but not the child's own children: the compilers of a `make` would
outlive a killed harness. So one small watcher process waits at the other end of a pipe. This process reports each
session to the watcher as soon as the session has started; a harness that is killed in the microseconds before the
report leaves that session running. When the pipe closes (the kernel closes it in any case), the watcher kills all
processes in the reported sessions. A daemon has left its session, and its parent by then is init: the watcher knows it
by a variable in the environment with which it was started. The watcher is not an ancestor of the programs, so a
measured program has the same parent and the same costs as without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

_WATCHER = r"""
import os, signal, sys

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sessions, marks = set(), {}
for line in sys.stdin:
    session, _, mark = line[1:].strip().partition(" ")
    if line[0] == "+":
        # Marks of ended sessions are kept until the next start: their daemons may be left.
        marks = {known: marks[known] for known in sessions & marks.keys()}
        sessions.add(session)
        if mark:
            marks[session] = bytes.fromhex(mark)
    else:
        sessions.discard(session)


def is_marked(name):
    try:
        with open(f"/proc/{name}/environ", "rb") as file:
            return not set(marks.values()).isdisjoint(file.read().split(b"\0"))
    except OSError:
        return False


def members():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b") ")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X") and (fields[3].decode() in sessions or is_marked(name)):
            yield int(name)


for _ in range(100):  # a killed process may have started another meanwhile
    found = list(members()) if sessions or marks else []
    for process in found:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
"""

_LOCK = threading.Lock()
_PIPES: dict[int, IO[bytes]] = {}
"""The pipe to this process's watcher, by process number: a fork inherits the pipe of its parent, which may end
earlier."""
_RUNNING: set[int] = set()
"""Process numbers of the programs that `start` started and `end` has not ended."""

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_LONGEST_STAT = 4096
_OF_PROCESS = 2  # CPUCLOCK_SCHED: the kernel's clocks of other processes, as clock_getcpuclockid(3) makes them
_ORPHANS_END_S = 1.0  # Time in which killed orphans must end


def _tell_watcher(line: str = "") -> None:
    """Start the watcher if it is not running, and send it a line."""
    with _LOCK:
        if os.getpid() not in _PIPES:
            _PIPES.clear()
            _PIPES[os.getpid()] = _start_watcher()
        with contextlib.suppress(BrokenPipeError):  # somebody killed the watcher: only needed if this process is killed
            _PIPES[os.getpid()].write(line.encode())


def _start_watcher() -> IO[bytes]:
    process = subprocess.Popen(
        [sys.executable or "python3", "-I", "-S", "-c", _WATCHER],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )
    process.returncode = 0  # nobody waits for the watcher: it ends after this process
    assert process.stdin is not None
    return process.stdin


def start(command: Sequence[str | os.PathLike[str]], *, mark: str = "", **options: Any) -> subprocess.Popen[Any]:
    """Start a program in its own session, and have it killed when this process ends.

    `mark`: `NAME=VALUE` in its environment that no other program has; its daemons, known by it, are killed too.
    """
    _tell_watcher()  # start the watcher before the program
    process: subprocess.Popen[Any] = subprocess.Popen(command, start_new_session=True, **options)
    _RUNNING.add(process.pid)
    _tell_watcher(f"+{process.pid} {os.fsencode(mark).hex()}\n")
    return process


def end(process: subprocess.Popen[Any]) -> None:
    """Kill all processes of a program that `start` started, and wait for the program to end."""
    with contextlib.suppress(ProcessLookupError):  # the process group has already ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _RUNNING.discard(process.pid)
    _tell_watcher(f"-{process.pid}\n")


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    input: Any = None,  # noqa: A002  as subprocess.run
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program like `subprocess.run` with `check=False`, then kill all processes that it left running."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    process = start(command, **options)
    try:
        stdout, stderr = process.communicate(input, timeout)
    except subprocess.TimeoutExpired as late:
        end(process)
        late.stdout, late.stderr = process.communicate()
        raise
    finally:
        end(process)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


@dataclass(frozen=True)
class ProcessState:
    """A process as /proc/PID/stat shows it; times are in the kernel's ticks."""

    pid: int
    parent: int
    session: int
    is_zombie: bool
    user: int
    system: int
    # Of children that ended and were waited for
    children_user: int
    children_system: int


def processes() -> Iterator[ProcessState]:
    """Yield the processes of this host that /proc shows."""
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  five times as fast as `iterdir`
        try:
            file = os.open(f"/proc/{name}/stat", os.O_RDONLY)  # five times as fast as `Path.read_bytes`
            try:
                fields = os.read(file, _LONGEST_STAT).rpartition(b") ")[2].split()
            finally:
                os.close(file)
        except OSError:  # it has just ended
            continue
        times = map(int, fields[11:15])
        yield ProcessState(int(name), int(fields[1]), int(fields[3]), fields[0] in (b"Z", b"X"), *times)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, as exactly as the kernel knows it; 0 if the process has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_PROCESS)
    except OSError:
        return 0.0


def descendants(root: int) -> list[ProcessState]:
    """Return a process and all that descend from it, the process first; an empty list if it has ended."""
    by_parent: dict[int, list[ProcessState]] = {}
    found: list[ProcessState] = []
    for process in processes():
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid == root:
            found.append(process)
    for process in found:  # grows meanwhile
        found += by_parent.get(process.pid, ())
    return found


@contextlib.contextmanager
def orphans_ended() -> Iterator[Callable[[], list[int]]]:
    """Kill, at the end, the processes that have left the session of a program started meanwhile, as daemons do.

    Meanwhile, the kernel makes this process the parent of the orphans among its descendants. Yields a function that
    returns the process numbers of these orphans and their descendants that have not ended.
    """
    control = ctypes.CDLL(None, use_errno=True).prctl
    was = ctypes.c_int(0)
    _tell_watcher()  # start the watcher before: it is no orphan
    control(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    before = {process.pid for process in processes() if process.parent == os.getpid()}
    control(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield lambda: [process.pid for process in _orphans(before) if not process.is_zombie]
    finally:
        _end_orphans(before)
        control(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _orphans(known: set[int]) -> list[ProcessState]:
    """Return new children of this process that nobody in it started, as their session shows, and their descendants."""
    own, watched = os.getsid(0), known | _RUNNING
    found: dict[int, ProcessState] = {}
    for process in descendants(os.getpid())[1:]:  # parents come before their children
        is_orphan = process.parent == os.getpid() and process.session not in (own, *_RUNNING)
        if process.parent in found or (is_orphan and process.pid not in watched):
            found[process.pid] = process
    return list(found.values())


def _end_orphans(known: set[int]) -> None:
    """Kill and reap orphans."""
    deadline = time.monotonic() + _ORPHANS_END_S
    while time.monotonic() < deadline and (orphans := _orphans(known)):
        for process in orphans:
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
        for process in orphans:
            with contextlib.suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)
        time.sleep(0.005)
