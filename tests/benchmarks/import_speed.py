"""What importing perf's CSV costs, and reading the campaign: CPU time and memory, beside polars' bare reader.

::

    python tests/benchmarks/import_speed.py [--runs 70] [--intervals 3000] [--metrics 12] [--folder FOLDER]

The full size, 25 million rows, is `--runs 700`. The files are of generated counts; a tenth of the runs is the baseline.
Then `load(campaign).frame().collect()` reads all intervals back, beside polars' bare reader on the same Parquet files.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

EVENTS = (
    *("cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses", "L1-dcache-loads"),
    *("L1-dcache-load-misses", "dTLB-load-misses", "iTLB-load-misses", "page-faults", "context-switches"),
)

IMPORTS = """
import sys, time
from pathlib import Path
import polars as pl
import unperturbed as up
up.Campaign, pl.LazyFrame
campaign = Path(sys.argv[1])
"""
READERS = {
    "the campaign's frame": "frame = up.load(campaign).frame().collect()",
    "polars' bare reader": 'frame = pl.scan_parquet(f"{campaign}/runs/0*/trace.parquet").collect()',
}


def main() -> int:
    """Write the files, import them in a process of its own, print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=70)
    parser.add_argument("--intervals", type=int, default=3000)
    parser.add_argument("--metrics", type=int, default=12, choices=range(2, 13))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = Path(place)
        write(folder, arguments.runs, arguments.intervals, EVENTS[: arguments.metrics])
        words = [sys.executable, "-m", "unperturbed.harness.cli", "import", "perf-stat", str(folder / "base"), "--as"]
        words += ["baseline", str(folder / "new"), "--as", "new", "-o", str(folder / "campaign"), "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            print(done.stderr)
            return 1
        read = [(what, *_measured(code, folder / "campaign")) for what, code in READERS.items()]
    rows = arguments.runs * arguments.intervals * arguments.metrics
    seconds = used.ru_utime + used.ru_stime
    print(
        f"{rows / 1e6:.1f} million rows: {seconds:.1f} s of CPU time, {rows / seconds / 1e6:.2f} million rows a "
        f"second, {used.ru_maxrss / 1e6:.2f} GB"
    )
    for what, taken, values in read:
        print(f"{what}: {values} intervals in {taken} s of CPU time")
    return 0


def _measured(code: str, campaign: Path) -> tuple[str, str]:
    """Return the CPU time of a reader in a process of its own, without its imports, and how many rows it read."""
    text = f"{IMPORTS}\nbefore = time.process_time()\n{code}\nprint(time.process_time() - before, frame.height)"
    done = subprocess.run([sys.executable, "-c", text, campaign], capture_output=True, text=True, check=True)
    seconds, rows = done.stdout.split()
    return f"{float(seconds):.2f}", f"{int(rows):,}"


def write(folder: Path, runs: int, intervals: int, events: tuple[str, ...]) -> None:
    """Write recordings as perf stat -I 20 -x, does."""
    chance = np.random.default_rng(1)
    for run in range(runs):
        place = folder / ("base" if run < max(5, runs // 10) else "new")
        place.mkdir(exist_ok=True)
        ends = np.cumsum(0.02 + 1e-4 * chance.random(intervals))
        counts = chance.integers(1, 10**8, (intervals, len(events)))
        rows = [
            f"     {end:.9f},{count},,{event},20012345,100.00,,\n"
            for end, row in zip(ends.tolist(), counts.tolist(), strict=True)
            for event, count in zip(events, row, strict=True)
        ]
        heading = f"# started on Mon Nov  3 {run // 3600:02d}:{run // 60 % 60:02d}:{run % 60:02d} 2031\n\n"
        (place / f"{run:04d}.csv").write_text(heading + "".join(rows))


if __name__ == "__main__":
    raise SystemExit(main())
