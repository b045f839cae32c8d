"""How evenly each sampler samples.

The longest gap between records, and the share of intervals within 10 % of the asked length.

    python tests/benchmarks/sampler_intervals.py [--runs 5] [--quick] [--json FILE] [--markdown]

Alone, and with a busy process pinned to every processor.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sampler_program import build_program
from sampler_report import Section, Table, deliver, host_state, parse_arguments
from sampler_runs import Clock, Sampler, calibrate, measure, require_tools, wait_until_quiet

from unperturbed.errors import RunError

SECONDS = 2.0
TOLERANCE = 0.1
_VARIANTS: tuple[tuple[str, Sampler, Clock], ...] = (
    ("inside", "inside", "monotonic"),
    ("inside, process's CPU time", "inside", "process-cpu"),
    ("outside", "outside", "monotonic"),
    ("perf stat -I", "perf", "monotonic"),
)
_INTERVALS_MS = (10, 1)
_PATIENCE = 20.0
_BUSY = "while True: pass"


@contextlib.contextmanager
def _load(busy: bool) -> Iterator[None]:
    """Keep a busy process on every processor meanwhile."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)) if busy else ():
            process = stack.enter_context(subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-c", _BUSY]))
            stack.callback(process.kill)
        yield


def _cell(
    program: Path, turns: int, variant: tuple[str, Sampler, Clock], interval_ms: int, runs: int, busy: bool
) -> dict[str, Any]:
    name, sampler, clock = variant
    gaps_ms, took_ms, disturbed = [], 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            if not busy:
                disturbed += not wait_until_quiet(_PATIENCE)
            run = measure(program, turns, sampler, interval_ms * 1_000_000, Path(folder), clock=clock)
            if len(run.stamps_ns) < 3:
                raise RunError(f"{name}: {len(run.stamps_ns)} records in {run.own_ns / 1e9:.2f} s")
            gaps_ms.append(np.diff(run.stamps_ns) / 1e6)
            took_ms += run.own_ns / 1e6
    every = np.concatenate(gaps_ms)
    return {
        "sampler": name,
        "interval_ms": interval_ms,
        "disturbed": disturbed,
        "intervals": len(every),
        "median_ms": float(np.median(every)),
        "p99_ms": float(np.percentile(every, 99)),
        "longest_ms": float(every.max()),
        "longest_of_each_run_ms": [float(gaps.max()) for gaps in gaps_ms],
        "within": float((np.abs(every - interval_ms) <= TOLERANCE * interval_ms).mean()),
        "asked_share": len(every) * interval_ms / took_ms,
    }


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments(__doc__.splitlines()[0] if __doc__ else "", runs=(5, "runs of each variant"))
    require_tools()
    before = host_state()
    runs = 1 if arguments.quick else arguments.runs
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        program = build_program(Path(name))
        turns = calibrate(program, SECONDS / 4 if arguments.quick else SECONDS)
        for busy in (False, True):
            with _load(busy):
                found += [
                    {"load": busy, **_cell(program, turns, variant, interval_ms, runs, busy)}
                    for interval_ms in _INTERVALS_MS
                    for variant in _VARIANTS
                ]
    deliver(_section(found, runs), arguments, before)


def _section(found: list[dict[str, Any]], runs: int) -> Section:
    tables = []
    for busy, title in ((False, "Alone"), (True, "A busy process pinned to every processor")):
        rows = [
            [
                cell["sampler"],
                f"{cell['interval_ms']} ms",
                str(cell["intervals"]),
                f"{cell['asked_share']:.0%}",
                f"{cell['median_ms']:.3f}",
                f"{cell['p99_ms']:.2f}",
                f"{np.median(cell['longest_of_each_run_ms']):.2f}",
                f"{cell['longest_ms']:.2f}",
                f"{cell['within']:.1%}",
            ]
            for cell in found
            if cell["load"] == busy
        ]
        columns = [
            "sampler",
            "asked",
            "intervals",
            "of those asked",
            "median ms",
            "99 % below ms",
            "longest of a run ms (median)",
            "longest of all ms",
            "within ±10 %",
        ]
        tables.append(Table(title, columns, rows))
    verdicts = []
    for interval_ms in _INTERVALS_MS:
        for busy, words in ((False, "alone"), (True, "under load")):
            here = {
                cell["sampler"]: cell for cell in found if cell["load"] == busy and cell["interval_ms"] == interval_ms
            }
            ours, perfs = here["outside"], here["perf stat -I"]
            verdicts.append(
                f"{interval_ms} ms {words}: longest gap of the observer {ours['longest_ms']:.2f} ms (median over runs "
                f"{np.median(ours['longest_of_each_run_ms']):.2f}), of perf {perfs['longest_ms']:.2f} ms "
                f"({np.median(perfs['longest_of_each_run_ms']):.2f}); "
                f"within ±10 % {ours['within']:.1%} and {perfs['within']:.1%}."
            )
    return Section(
        script="sampler_intervals",
        title="How even the intervals are",
        method=(
            f"The same program for {SECONDS:.0f} s, {runs} runs a row, on the processors of the section above. Time "
            "between the time stamps of "
            "neighbouring records (perf's own stamps for perf, which have nanoseconds). The share of those asked "
            "counts intervals against the "
            "program's time: a loaded processor runs the inside sampler only when it runs the program, and perf adds "
            "its own work to each interval. "
            "A clock of CPU time ticks with the kernel's jiffy, and stands still while the program waits for a "
            "processor. Alone, each run "
            f"waits until the machine is idle but for a tenth; {sum(cell['disturbed'] for cell in found)} runs began "
            "without."
        ),
        tables=tables,
        verdicts=verdicts,
        data={"runs": runs, "cells": found},
    )


if __name__ == "__main__":
    main()
