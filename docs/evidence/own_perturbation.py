"""The samplers put through the tool's own inner-perturbation check.

Outside against inside, written to `docs/evidence/own_perturbation.md`.

    python docs/evidence/own_perturbation.py --runs 20 --seed 1

One program, one binary, the same events. Runs observed from outside are the baseline; held against it are further runs
from outside (nothing differs: the null), and runs sampled by the signal inside. On a host without a PMU the kernel's
own counters stand for hardware events, and the report says so.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.provenance import made_by
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.collectors.data import Trace
from unperturbed.collectors.passes import plan_passes
from unperturbed.collectors.records.assemble import assemble
from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, build_observer, runtime_files
from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.errors import HostError

INTERVAL_NS = 5_000_000
TOLERANCE = 0.1
PMU = ("perf::instructions", "perf::cycles", "perf::branch-misses", "perf::cache-misses")
KERNEL = (
    "perf::task-clock",
    "perf::page-faults",
    "perf::context-switches",
    "perf::raw_syscalls:sys_enter",
    "perf::kmem:mm_page_alloc",
)

PROGRAM = """
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long sink;
static unsigned state = 1;
static unsigned draw(unsigned n) { state = state * 1664525u + 1013904223u; return (state >> 8) % n; }
static void compute(unsigned n) { for (unsigned i = 0; i < n; i++) sink += i * sink; }
static void fault(unsigned n) {
    char *p = mmap(0, n * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < n; i++) p[i * 4096ul] = 1;
    munmap(p, n * 4096ul);
}
static void ask(unsigned n) { for (unsigned i = 0; i < n; i++) sink += (unsigned long)getppid(); }
int main(void) {
    for (int phase = 0; phase < 120; phase++) {
        unsigned kind = draw(4), weight = 1 + draw(4);
        for (int round = 0; round < 40; round++) {
            switch (kind) {
            case 0: compute(150000); break;
            case 1: fault(50 * weight); compute(100000); break;
            case 2: ask(300 * weight); compute(100000); break;
            default: compute(50000); ask(40 * weight); fault(10 * weight); usleep(30);
            }
        }
    }
    return 0;
}
"""


def compile_program(folder: Path) -> Path:
    """Compile the program with the runtime inside; without a record file the runtime sleeps."""
    (folder / "program.c").write_text(PROGRAM)
    sources = [BOUNDS[0], folder / "program.c", *runtime_files(), BOUNDS[1]]
    target = folder / "program"
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        "-DUNPERTURBED_EXECUTABLE",
        f"-I{INCLUDE}",
        *map(str, sources),
    ]
    subprocess.run([*command, "-o", str(target), "-ldl", "-lrt"], check=True)
    return target


def events_of_this_host() -> tuple[Pass, bool]:
    """Return what is counted, and whether a processor's counters are among it."""
    for names, is_pmu in (((*PMU, *KERNEL[1:]), True), (KERNEL, False)):
        try:
            found = plan_passes(names, source="perf_event", machine=Machine(), compiler="gcc", shared=names).passes
        except HostError:
            continue
        if len(found) == 1:
            return found[0], is_pmu
    raise HostError("this host lets nobody count the events of this experiment; it needs root, for tracepoints")


def run(folder: Path, program: Path, collected: Pass, sampler: str, name: str) -> Trace:
    """Make one run and return its trace, every counter declared as what it stands for: a hardware event."""
    setup = Setup("perf_event", INTERVAL_NS, "monotonic", collected.events, sampler=sampler)  # type: ignore[arg-type]
    record = folder / "record"
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if sampler == "outside" else ["taskset", "-c", "0"]
    subprocess.run(
        [*observer, str(program)], env={"UNPERTURBED_RECORD": str(record), "PATH": "/usr/bin:/bin"}, check=True
    )
    trace = assemble(
        read_record_file(record, setup),
        collected,
        software=(),
        os_metrics=(),
        derived={},
        dumps=folder / "none",
        attributes={"run": name, "clock": "monotonic"},
    )
    metrics = [replace(metric, kind="hardware") for metric in trace.metrics.values()]
    return Trace.from_columns(
        metrics, dict(trace.columns), begin_ns=trace.begin_ns, end_ns=trace.end_ns, attributes=dict(trace.attributes)
    )


def table(verdict: Verdict) -> list[str]:
    """Return one row a pair."""
    head = ["| pair | change of ρ | interval | smallest visible | verdict |", "|---|---|---|---|---|"]
    return head + [
        f"| {change.label} | {change.effect:+.3f} | {change.low:+.3f} … {change.high:+.3f} | "
        f"{change.smallest_visible:.3f} | {change.verdict} |"
        for change in verdict.changes
    ]


def main() -> None:
    """Make the runs in random order, judge them, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    made = made_by()
    found: dict[str, list[Trace]] = {"outside": [], "outside again": [], "inside": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compile_program(folder)
        collected, is_pmu = events_of_this_host()
        for repetition in range(arguments.runs):
            kinds = list(found)
            chance.shuffle(kinds)
            for kind in kinds:
                found[kind].append(run(folder, program, collected, kind.split()[0], f"{kind} {repetition}"))
                print(f"{repetition + 1} of {arguments.runs}: {kind}", file=sys.stderr)
    baseline = Baseline(found["outside"], tolerance=TOLERANCE)
    intervals = int(np.median([len(trace) for trace in found["outside"]]))
    lines = [
        "# The samplers under their own check",
        "",
        made,
        "",
        "**What changed on this page, and why.** On 27 November 2026 it was made again, so that commit, host and load "
        "are known; beside other work a run takes longer. The page before said none of these, had about 232 "
        "intervals a run, and left two of the ten pairs of the null undecided.",
        "",
        "Verdicts here are those of the commit named above, by the inner check alone, so that later outer checks "
        "change nothing. Later inner checks are stricter where a correlation is beyond ±0.9 ([Inner "
        "checks](calibration.md#where-checked-runs-differ-in-other-ways)).",
        "",
        f"{arguments.runs} runs of each kind in random order, about {intervals} intervals of {INTERVAL_NS / 1e6:g} "
        f"ms a run, tolerance ±{TOLERANCE}.",
        "The baseline are runs observed from outside."
        + ("" if is_pmu else " This host has no PMU: the kernel's counters stand for hardware events here."),
    ]
    for kind, title in (("outside again", "Outside against outside: the null"), ("inside", "Inside against outside")):
        verdict = baseline.inner(found[kind])
        lines += ["", f"## {title}: {verdict.verdict}", "", *table(verdict)]
    totals = {
        kind: {m: np.median([t[m].sum() for t in traces]) for m in baseline.metrics} for kind, traces in found.items()
    }
    lines += [
        "",
        "## Totals of a run (medians)",
        "",
        "| metric | outside | outside again | inside |",
        "|---|---|---|---|",
    ]
    lines += [f"| {m} | " + " | ".join(f"{totals[kind][m]:,.0f}" for kind in found) + " |" for m in baseline.metrics]
    page = Path(__file__).with_suffix(".md")
    page.write_text("\n".join(lines) + "\n")
    print(page.read_text())


if __name__ == "__main__":
    main()
