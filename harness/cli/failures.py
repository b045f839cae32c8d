"""What this host refused, in one message: which file, why, and what to do about it."""

from __future__ import annotations

import errno
import io
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from unperturbed.common import supervision
from unperturbed.errors import HostError
from unperturbed.harness.cli.streams import STANDARD_OUTPUT

_NO_MEMORY = "there is not enough memory; look at the limits of this shell (ulimit -a) or container, or give less data"
_ADVICE = {
    errno.EFBIG: "this shell allows no larger files: raise its limit (ulimit -f)",
    errno.ENOSPC: "make room on this disk, or choose a folder on another",
    errno.EDQUOT: "make room in your quota, or choose a folder on another disk",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or end some",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
_NO_THREAD = "can't start new thread"
"""What the interpreter says where the host allows no more."""

_OF_WRITING = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
_LITTLE = 64 << 20
"""Bytes of memory: a process that had fewer left cannot be expected to load a library."""

_SPARE = 128 << 20
"""Bytes of memory for a command's own data, beside the libraries that it loads."""

_TRIAL = """
import io, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for what in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
    limit = resource.getrlimit(what)[0]
    if limit != resource.RLIM_INFINITY:
        resource.setrlimit(what, (max(0, limit - int(sys.argv[1])),) * 2)
import numpy, polars
file = io.BytesIO()
polars.DataFrame({"a": numpy.arange(1000.0)}).write_parquet(file)
file.seek(0)
polars.read_parquet(file).lazy().group_by("a").len().collect()
numpy.linalg.inv(numpy.eye(100))
"""
"""A use of the libraries that crash, or wait forever, where memory ends while they start."""

_LOADING = "<frozen importlib._bootstrap>"


def require_memory() -> None:
    """Raise HostError where this process's limits of memory are too low for the libraries that analyses need.

    It is tried in a process apart: where memory ends, these libraries abort or wait forever, which nothing could catch.
    Without a limit nothing is tried.
    """
    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    if all(limit == resource.RLIM_INFINITY for limit in limits):
        return
    words = [sys.executable, "-I", "-c", _TRIAL, str(_SPARE)]
    try:
        done = supervision.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except (subprocess.TimeoutExpired, MemoryError):
        raise HostError(_NO_MEMORY) from None
    if done.returncode:
        raise HostError(_NO_MEMORY)


def host_message(error: BaseException) -> str:
    """Return the message for what this host refused: a full disk, a file that may not be read, too little memory."""
    if isinstance(error, MemoryError) or _ended_for_memory(error):
        return _NO_MEMORY
    if isinstance(error, sqlite3.Error):
        return (
            f"a campaign's manifest (campaign.sqlite) cannot be read or written: {error}; is its disk full, the folder "
            "another user's, the size of files limited (ulimit -f), or the file damaged?"
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return f"{error}: {_ADVICE[errno.EAGAIN]}"
    if isinstance(error, OSError):
        place = error.filename or (_file_at_hand(error) if error.errno in _OF_WRITING else None)
        advice = _ADVICE.get(error.errno or 0) if place != STANDARD_OUTPUT else None  # where that goes, the shell knows
        reason = f"{error.strerror or error}{f'; {advice}' if advice else ''}"
        return f"{os.fsdecode(place)}: {reason}" if isinstance(place, str | bytes | os.PathLike) else reason
    return ""


def _ended_for_memory(error: BaseException) -> bool:
    """Return whether too little memory is behind an error.

    Libraries raise many things when memory ends while they are loaded: SystemError, ImportError, KeyError.
    """
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        if isinstance(behind, MemoryError) or getattr(behind, "errno", None) == errno.ENOMEM:
            return True
        behind = behind.__cause__ or behind.__context__
    loading = any(frame.f_code.co_filename == _LOADING for frame in _frames(error))
    return (loading or isinstance(error, SystemError)) and _had_little_memory()


def _had_little_memory() -> bool:
    """Return whether this process came near its limit of memory."""
    used = {}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmPeak", "VmData"):
                used[name] = int(value.split()[0]) << 10
    except OSError:
        return False
    limits = {"VmPeak": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
    return any(
        limit != resource.RLIM_INFINITY and used.get(name, 0) + _LITTLE > limit
        for name, limit in ((name, resource.getrlimit(which)[0]) for name, which in limits.items())
    )


def _file_at_hand(error: OSError) -> str | os.PathLike[str] | None:
    """Return the file that the code was at that failed: the system names none where a write fails."""
    for frame in reversed(list(_frames(error))):
        values = list(frame.f_locals.values())
        for value in values:
            if isinstance(value, io.IOBase) and isinstance(name := getattr(value, "name", None), str):
                return name
        for value in values:
            if isinstance(value, Path):
                return value
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the calls that an exception came through, the outermost first."""
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next
