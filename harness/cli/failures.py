"""Messages for failures caused by the host: which file, why, and what to do about it."""

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

_NO_MEMORY = "not enough memory: raise the limits of this shell (ulimit -a) or container, or use less data"
_ADVICE = {
    errno.EFBIG: "raise this shell's file-size limit (ulimit -f)",
    errno.ENOSPC: "free space on this disk, or choose a folder on a different disk",
    errno.EDQUOT: "delete files that count towards your quota, or choose a folder on a different disk",
    errno.EAGAIN: "raise the limit on processes (ulimit -u), or end some processes",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
}
_NO_THREAD = "can't start new thread"  # Python's message if the host allows no more threads

_LIMITS = {"VmPeak": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
"""Memory limits, keyed by the name in /proc/self/status of the memory that they limit."""

_LITTLE = 64 << 20  # Bytes of memory; with less memory left, loading a library probably fails
_SPARE = 128 << 20  # Bytes of memory for a command's own data, in addition to the libraries that it loads

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
"""Program that uses the libraries that crash or hang if memory runs out while they load."""


def require_memory() -> None:
    """Raise HostError if this process's memory limits are too low for the libraries that analyses need.

    A separate process tries this: if memory runs out, these libraries abort or hang, which this process cannot catch.
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
    """Return the message for an error of the host (full disk, unreadable file, too little memory); else ''."""
    if any(isinstance(each, MemoryError) or getattr(each, "errno", None) == errno.ENOMEM for each in _chain(error)):
        return _NO_MEMORY
    if isinstance(error, sqlite3.Error):
        return (
            f"cannot read or write a campaign's manifest (campaign.sqlite): {error}. Check that the disk has free "
            "space, that you may write to the folder, that the file-size limit (ulimit -f) is high enough, and that "
            "the file is not damaged"
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return f"{error}: {_ADVICE[errno.EAGAIN]}"
    if isinstance(error, OSError) and error.errno is not None:
        # No advice for standard output: only the shell knows its file.
        advice = _ADVICE.get(error.errno or 0) if error.filename != STANDARD_OUTPUT else None
        reason = f"{error.strerror or error}{f'; {advice}' if advice else ''}"
        named = isinstance(error.filename, str | bytes | os.PathLike)
        return f"{os.fsdecode(error.filename)}: {reason}" if named else reason
    # Libraries raise various errors if memory runs out while they load: SystemError, ImportError, KeyError.
    if _had_little_memory():
        return _NO_MEMORY
    return str(error) if isinstance(error, OSError) else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    seen: list[BaseException] = []
    behind: BaseException | None = error
    while behind is not None and behind not in seen:
        seen.append(behind)
        yield behind
        behind = behind.__cause__ or behind.__context__


def _had_little_memory() -> bool:
    """Return whether this process came close to its memory limit."""
    try:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    except OSError:
        return False
    used = {name: int(status.get(name, "0").split()[0]) << 10 for name in ("VmPeak", "VmData")}
    limits = {name: resource.getrlimit(which)[0] for name, which in _LIMITS.items()}
    return any(limit != resource.RLIM_INFINITY and used[name] + _LITTLE > limit for name, limit in limits.items())
