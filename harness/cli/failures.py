"""One message for a failure that the host causes: which file, why, and what to do about it."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
_NO_THREAD = "can't start new thread"  # The interpreter's message where the host allows no further thread

_LIMITS = {"VmPeak": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
"""Limits of memory, by what /proc/self/status calls the memory that they bound."""

_LITTLE = 64 << 20  # Bytes of memory: a process that had fewer left cannot be expected to load a library
_SPARE = 128 << 20  # Bytes of memory for a command's own data, beside the libraries that it loads

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


def require_memory() -> None:
    """Raise HostError where this process's limits of memory are too low for the libraries that analyses need.

    It is tried in a process apart: where memory ends, these libraries abort or wait forever, which nothing could catch.
    """
    if all(resource.getrlimit(which)[0] == resource.RLIM_INFINITY for which in _LIMITS.values()):
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
    if any(isinstance(each, MemoryError) or getattr(each, "errno", None) == errno.ENOMEM for each in _chain(error)):
        return _NO_MEMORY
    if isinstance(error, sqlite3.Error):
        return (
            f"a campaign's manifest (campaign.sqlite) cannot be read or written: {error}; is its disk full, the folder "
            "another user's, the size of files limited (ulimit -f), or the file damaged?"
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return f"{error}: {_ADVICE[errno.EAGAIN]}"
    if isinstance(error, OSError) and error.errno is not None:
        # Where standard output goes, the shell knows.
        advice = _ADVICE.get(error.errno or 0) if error.filename != STANDARD_OUTPUT else None
        reason = f"{error.strerror or error}{f'; {advice}' if advice else ''}"
        named = isinstance(error.filename, str | bytes | os.PathLike)
        return f"{os.fsdecode(error.filename)}: {reason}" if named else reason
    # Libraries raise many things when memory ends while they are loaded: SystemError, ImportError, KeyError.
    if _had_little_memory():
        return _NO_MEMORY
    return str(error) if isinstance(error, OSError) else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it."""
    seen: list[BaseException] = []
    behind: BaseException | None = error
    while behind is not None and behind not in seen:
        seen.append(behind)
        yield behind
        behind = behind.__cause__ or behind.__context__


def _had_little_memory() -> bool:
    """Return whether this process came near its limit of memory."""
    try:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    except OSError:
        return False
    used = {name: int(status.get(name, "0").split()[0]) << 10 for name in ("VmPeak", "VmData")}
    limits = {name: resource.getrlimit(which)[0] for name, which in _LIMITS.items()}
    return any(limit != resource.RLIM_INFINITY and used[name] + _LITTLE > limit for name, limit in limits.items())
