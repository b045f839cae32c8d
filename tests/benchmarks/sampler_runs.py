"""One run of the benchmarks' program: alone, under each sampler, or under `perf stat -I`.

Everywhere on the same processors.

The observer keeps the last processor for itself and gives the program the others. So the program has those in every
variant, and perf's own process has the observer's: `taskset -c LAST perf stat … -- taskset -c OTHERS program`. perf
reads its events as one group, as the observer does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
from numpy.typing import NDArray
from sampler_program import METRICS, THREE_EVENTS, environment

from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.errors import HostError, RunError

__all__ = ["Clock", "Run", "Sampler", "calibrate", "measure", "processors", "require_tools", "wait_until_quiet"]

Sampler = Literal["none", "inside", "outside", "perf"]
Clock = Literal["monotonic", "process-cpu"]


@dataclass(frozen=True)
class Run:
    """What one run took and left.

    Attributes
    ----------
    own_ns : the program's work by its own clock.
    cpu_ns : the CPU time of that, interrupts included: whoever else wants the processor does not move it.
    wall_ns : the whole command, from its start to its end, with what starting a sampler costs.
    stamps_ns : when each record was made, shape (records,); without the program's last moments, which its end cut
    short.
    """

    own_ns: int
    cpu_ns: int
    wall_ns: int
    stamps_ns: NDArray[np.int64]


def processors() -> tuple[str, str]:
    """Return the processors of the program and of whoever watches it, as taskset(1) takes them."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise HostError("one processor: a sampler beside the program needs a second one")
    return ",".join(map(str, allowed[:-1])), str(allowed[-1])


def require_tools() -> None:
    """Raise HostError when a tool that the comparison needs is missing."""
    for tool in ("perf", "taskset"):
        if not shutil.which(tool):
            raise HostError(f"{tool} is not installed (on Debian: apt-get install linux-perf util-linux)")


def calibrate(program: Path, seconds: float) -> int:
    """Return how many turns of the program take so long alone."""
    turns = 500
    with tempfile.TemporaryDirectory() as name:
        fastest = min(measure(program, turns, "none", 0, Path(name)).own_ns for _ in range(5))
    return max(1, round(turns * seconds * 1e9 / fastest))


def measure(
    program: Path, turns: int, sampler: Sampler, interval_ns: int, folder: Path, *, clock: Clock = "monotonic"
) -> Run:
    """Run the program once.

    Raises
    ------
    RunError
        The program or its sampler failed, or records were lost.
    """
    mine, others = processors()
    command = ["taskset", "-c", mine, str(program), str(turns)]
    record = folder / "record"
    setup = None
    if sampler in ("inside", "outside"):
        setup = Setup("perf_event", interval_ns, clock, events=THREE_EVENTS, software=METRICS, sampler=sampler)
        create_record_file(record, setup)
    if sampler == "outside":
        command = [str(build_observer("gcc")), str(record), str(program), str(turns)]
    if sampler == "perf":
        events = ",".join(event.name.removeprefix("perf::") for event in THREE_EVENTS)
        options = ["-I", str(interval_ns // 1_000_000), "-x,", "-o", str(record), "-e", f"{{{events}}}"]
        command = ["taskset", "-c", others, "perf", "stat", *options, "--", *command]
    begin = time.monotonic_ns()
    done = subprocess.run(
        command,
        env=environment(record if setup else None),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wall_ns = time.monotonic_ns() - begin
    told = re.search(r"^ns 1(\d{15}) 1(\d{15})$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not told:
        raise RunError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr}")
    stamps_ns = np.array([], dtype=np.int64)
    if setup:
        records = read_record_file(record, setup)
        if records.state != "finished" or records.lost or records.unread:
            raise RunError(
                f"{sampler}: state {records.state}, {records.lost} lost, {records.unread} unread; {records.message}"
            )
        # The observer's first record comes before the program starts; the last of both is made when it ends.
        stamps_ns = records.rows["monotonic_ns"][1 if sampler == "outside" else 0 : -1].astype(np.int64)
    elif sampler == "perf":
        stamps_ns = _stamps_of_perf(record.read_text())[:-1]
    return Run(int(told[1]), int(told[2]), wall_ns, stamps_ns)


def wait_until_quiet(patience: float) -> bool:
    """Wait until the processors are idle but for a tenth, `patience` seconds at most; tell whether they are."""
    end = time.monotonic() + patience
    while (busy := _busy_share(0.1)) > 0.1 and time.monotonic() < end:
        time.sleep(0.2)
    return busy <= 0.1


def _busy_share(seconds: float) -> float:
    """Return the share of all processors' time that was not idle."""
    before = psutil.cpu_times()
    time.sleep(seconds)
    after = psutil.cpu_times()
    whole = sum(after[:8]) - sum(before[:8])
    return 1 - (after.idle + after.iowait - before.idle - before.iowait) / max(whole, 1e-9)


def _stamps_of_perf(text: str) -> NDArray[np.int64]:
    stamps = [line.split(",")[0].strip() for line in text.splitlines() if re.match(r"\s*\d+\.\d+,", line)]
    return np.unique(
        np.array([int(seconds) * 10**9 + int(rest) for seconds, rest in (stamp.split(".") for stamp in stamps)])
    )
