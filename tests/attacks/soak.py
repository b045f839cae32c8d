"""Soak: thousands of runs in one campaign, whose harness may not grow or slow down.

::

    python -m tests.attacks.soak --runs 10000

A sweep over a program that does next to nothing, of the kernel's counters alone: what is left is the harness's own
work. The harness's memory, open files and time of a run are read from outside, at every tenth part.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

__all__ = ["Part", "soak"]

_PARTS = 10
_ROWS = 4
"""Runs of each repetition: two points, each once for its counts and once for its time."""

_GROWTH = 1.25
_MEMORY_MB = 30.0


@dataclass(frozen=True)
class Part:
    """What was seen at the end of a part of the runs.

    Attributes
    ----------
    runs : runs done.
    processor_ms : the harness's CPU time for each run of the part, without its children.
    memory_mb : its resident memory.
    files : its open files.
    """

    runs: int
    processor_ms: float
    memory_mb: float
    files: int


def _spec(runs: int) -> dict[str, object]:
    return {
        "name": "soak",
        "parameters": {"n": [1, 2]},
        "program": {"run": "/bin/true {parameters.n}", "result": "any", "timeout": "1 min"},
        "measure": {
            "source": "perf_event",
            "hardware": ["perf::task-clock"],
            "os": ["minor_faults"],
            "sampler": "outside",
        },
        "campaign": {"repetitions": runs // _ROWS, "max_runs": 10 * runs, "seed": 1},
    }


def soak(runs: int) -> tuple[list[Part], int]:
    """Run so many; return what was seen, and the exit code."""
    parts: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        (folder / "spec.yaml").write_text(yaml.safe_dump(_spec(runs)))
        said = (folder / "said").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "unperturbed.harness.cli", "run", "spec.yaml", "--quiet"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        last, spent = 0, 0.0
        while process.poll() is None:
            time.sleep(0.2)
            done = _done(folder / "campaigns" / "soak" / "campaign.sqlite")
            if done - last >= runs // _PARTS:
                with contextlib.suppress(OSError):
                    now = _processor_s(process.pid)
                    if last:
                        each = 1000 * (now - spent) / (done - last)
                        parts.append(
                            Part(done, each, _memory_mb(process.pid), len([*Path(f"/proc/{process.pid}/fd").iterdir()]))
                        )
                        print(_line(parts[-1]), flush=True)
                    last, spent = done, now
        code = process.returncode
        if code:
            print((folder / "said").read_text()[-2000:])
    return parts, code


def _line(part: Part) -> str:
    return f"{part.runs:>7} {part.processor_ms:>19.2f} ms {part.memory_mb:>7.1f} MB {part.files:>11}"


def _done(manifest: Path) -> int:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{manifest}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM runs WHERE state = 'done'").fetchone()[0])
    except sqlite3.Error:  # it is being made, or written to
        return 0


def _processor_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def faults_of(parts: list[Part], code: int) -> list[str]:
    """Return what grew: CPU time of a run, memory, open files."""
    found = [f"exit code {code}"] if code else []
    if len(parts) < 3:
        return [*found, "it ended too soon to be watched"]
    first, last = parts[0], parts[-1]
    if last.processor_ms > _GROWTH * first.processor_ms:
        found.append(f"a run costs {last.processor_ms:.2f} ms in the end, {first.processor_ms:.2f} ms in the beginning")
    if last.memory_mb > first.memory_mb + _MEMORY_MB:
        found.append(f"memory grew from {first.memory_mb:.0f} to {last.memory_mb:.0f} MB")
    if last.files > first.files + 10:
        found.append(f"open files grew from {first.files} to {last.files}")
    return found


def main() -> int:
    """Run them; return 1 when something grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    asked = parser.parse_args()
    print(f"{'runs':>7} {'CPU time a run':>22} {'memory':>10} {'open files':>11}", flush=True)
    parts, code = soak(asked.runs)
    faults = faults_of(parts, code)
    print("\n".join(faults) or "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
