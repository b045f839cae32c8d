"""Running the player: on one processor, under the probe, the host disturbed or not."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 90.0
MEMORY_SHARE = 4
"""All memory stress together takes at most this fraction (1/n) of what is available."""
MEMORY_PROCESS = 64 << 20
"""Bytes of one process of memory stress, at most."""


@dataclass(frozen=True)
class Played:
    """A run of the player."""

    shown: list[str]  # The lines of the probe
    printed: str  # Its output
    exit_code: int  # Negative for a signal
    duration_s: float  # From its start to its end
    # Share of the host's CPU time meanwhile that neither the player nor this process used; it includes stress.
    others_share: float


@contextlib.contextmanager
def own_processors() -> Iterator[int]:
    """Yield the last processor that this process may use, for the player and the stress, and keep off it meanwhile."""
    usable = os.sched_getaffinity(0)
    processor = max(usable)
    os.sched_setaffinity(0, usable - {processor} or usable)
    try:
        yield processor
    finally:
        os.sched_setaffinity(0, usable)


def environment(registry: Path) -> dict[str, str]:
    """Return the player's environment: nobody's settings of GStreamer, and a registry of the campaign's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GST_")}
    return kept | {"GST_REGISTRY": str(registry), "LC_ALL": "C.UTF-8"}


def build_probe(target: Path) -> None:
    """Compile the probe with the host's C compiler."""
    source = Path(__file__).with_name("probe.c")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(target), str(source)], check=True)


def play(
    command: Sequence[str],
    processor: int,
    *,
    registry: Path,
    probe: Path,
    log: Path,
    level: str = "*:5",
    before: Sequence[str] = (),
) -> Played:
    """Run the player on a processor, its log at level 5 of all categories, or as GST_DEBUG takes it.

    `before` is a command that becomes the player, as env does. A player that does not end within TIMEOUT_S is killed,
    and subprocess.TimeoutExpired is raised.
    """
    shown = log.with_name("shown.part")
    for file in (log, shown):
        file.unlink(missing_ok=True)
    variables = {
        "LD_PRELOAD": str(probe),
        "SHOWN_FILE": str(shown),
        "GST_DEBUG": level,
        "GST_DEBUG_NO_COLOR": "1",
        "GST_DEBUG_FILE": str(log),
        "GST_REGISTRY_UPDATE": "no",
    }
    # taskset becomes env, which becomes the player: the probe is preloaded into nothing else.
    setting = ["env", *(f"{name}={value}" for name, value in variables.items())]
    started, busy_s, own_s = time.monotonic(), _busy_s(), _own_s()
    ended = subprocess.run(
        ["taskset", "--cpu-list", str(processor), *before, *setting, *command],
        env=environment(registry),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        check=False,
    )
    duration_s = time.monotonic() - started
    others_s = (_busy_s() - busy_s) - (_own_s() - own_s)
    return Played(
        shown=shown.read_text(errors="replace").splitlines(),
        printed=ended.stdout.decode(errors="replace"),
        exit_code=ended.returncode,
        duration_s=round(duration_s, 3),
        others_share=round(max(0.0, others_s / duration_s / (os.cpu_count() or 1)), 3),
    )


@contextlib.contextmanager
def stress(way: str, processes: int, seed: int, processor: int) -> Iterator[None]:
    """Keep a processor busy meanwhile, see stress.py; without effect where the way is empty."""
    if not way:
        yield
        return
    size = min(MEMORY_PROCESS, _available_bytes() // MEMORY_SHARE // processes)
    command = [sys.executable, str(Path(__file__).with_name("stress.py")), way, str(processes), str(seed), str(size)]
    started = subprocess.Popen(
        ["taskset", "--cpu-list", str(processor), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdin is not None
    try:
        if started.stdout.readline() != b"ready\n":
            raise RuntimeError(f"stress did not start: {command}")
        yield
    finally:
        started.stdin.close()
        started.wait()
        started.stdout.close()


def missing_tools() -> list[str]:
    """Return which programs the recorder needs and this host lacks."""
    return [tool for tool in ("gst-launch-1.0", "taskset", "cc") if not shutil.which(tool)]


def _busy_s() -> float:
    """Return the CPU time that the host has used since its start, of all processors."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _available_bytes() -> int:
    """Return how much memory the host can give without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo does not tell MemAvailable")
