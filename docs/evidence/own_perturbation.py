"""The samplers put through the tool's own inner-perturbation check.

Outside against inside, written to `docs/evidence/own_perturbation.md`.

    python docs/evidence/own_perturbation.py --runs 20 --seed 1

One program, built as a campaign builds it, and the same events. Runs observed from outside are the baseline; held
against it are further runs from outside (nothing differs: the null), and runs sampled by the signal inside. With one
build, a run inside also has the no-ops and reads the software counters (`ready`), and counts where it is patched: these
are held against the runs inside, and against `ready`. On a host without a PMU the kernel's own counters stand for
hardware events, and the report says so.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.provenance import made_by
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.collectors.data import Trace
from unperturbed.collectors.passes import plan_passes
from unperturbed.collectors.records.assemble import assemble, milestone
from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.common.wording import listing
from unperturbed.errors import HostError
from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.program.patching import count_at
from unperturbed.harness.spec.load import parse_spec
from unperturbed.instrument.finding.rewrite import Form

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


SPEC = """
name: own
program: {source: source, build: "{cc} -std=gnu11 -O2 program.c -o program", run: "{build}/program"}
measure:
  os: [minor_faults]
  software: {computed: {enter: compute}, asked: {loop: ask}, faulted: {loop: fault}}
"""
SOFTWARE = ("computed", "asked", "faulted")


@dataclass(frozen=True)
class Way:
    """A way to make a run."""

    sampler: Literal["inside", "outside"] = "inside"
    form: Form = "counting"  # Without a metric, or with a no-op at each site of all
    counts: bool = False  # Whether the places count


WAYS = {
    "outside": Way("outside"),
    "outside again": Way("outside"),
    "inside": Way(),
    "ready": Way(form="patchable"),
    "patched": Way(form="patchable", counts=True),
}
COMPARISONS = {
    "Outside against outside: the null": ("outside", "outside again"),
    "Inside against outside": ("outside", "inside"),
    "One build, counting nothing, against inside": ("inside", "ready"),
    "One build, counting, against the same counting nothing": ("ready", "patched"),
}
"""Title, the kind of the baseline's runs, and the kind that is held against it."""


def build_programs(folder: Path) -> dict[str, Path]:
    """Build the program as a campaign does, in each form; without a record file the runtime in it sleeps."""
    source = folder / "source"
    source.mkdir()
    (source / "program.c").write_text(PROGRAM)
    spec = parse_spec(SPEC, "own.yaml", folder)
    programs = {}
    for number, (form, software) in enumerate({"counting": {}, "patchable": spec.measure.software}.items()):
        target = folder / f"{number:02d}"
        build = build_configuration(spec.program, source, target, software, spec_folder=folder, form=form)
        programs[form] = build.folder / "program"
    return programs


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


def run(folder: Path, programs: dict[str, Path], collected: Pass, way: Way, name: str) -> Trace:
    """Make one run and return its trace, every counter declared as what it stands for: a hardware event."""
    program, software = programs[way.form], SOFTWARE if way.form == "patchable" else ()
    if software:
        count_at(program.parent, range(len(SOFTWARE)) if way.counts else ())
    setup = Setup("perf_event", INTERVAL_NS, "monotonic", collected.events, software=len(software), sampler=way.sampler)
    record = folder / "record"
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if way.sampler == "outside" else ["taskset", "-c", "0"]
    subprocess.run(
        [*observer, str(program)], env={"UNPERTURBED_RECORD": str(record), "PATH": "/usr/bin:/bin"}, check=True
    )
    trace = assemble(
        read_record_file(record, setup),
        collected,
        software=[milestone(metric) if way.counts else None for metric in software],
        os_metrics=(),
        derived={},
        dumps=folder / "none",
        attributes={"run": name, "clock": "monotonic"},
    )
    metrics = [
        metric if metric.kind == "software" else replace(metric, kind="hardware") for metric in trace.metrics.values()
    ]
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
    found: dict[str, list[Trace]] = {kind: [] for kind in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = build_programs(folder)
        collected, is_pmu = events_of_this_host()
        for repetition in range(arguments.runs):
            kinds = list(found)
            chance.shuffle(kinds)
            for kind in kinds:
                found[kind].append(run(folder, programs, collected, WAYS[kind], f"{kind} {repetition}"))
                print(f"{repetition + 1} of {arguments.runs}: {kind}", file=sys.stderr)
    intervals = int(np.median([len(trace) for trace in found["outside"]]))
    events = listing(f"{int(found['patched'][0][metric].sum()):,} of {metric}" for metric in SOFTWARE)
    lines = [
        "# The samplers under their own check",
        "",
        made,
        "",
        "**What changed on this page, and why.** Since 28 November 2026 the program is built as a campaign builds it, "
        "and the runs of [one build](../explanation/software.md#run-all-configurations-from-one-build) are on it.",
        "",
        f"{arguments.runs} runs of each kind in random order, about {intervals} intervals of {INTERVAL_NS / 1e6:g} "
        f"ms a run, tolerance ±{TOLERANCE}. Verdicts are by the inner check alone."
        + ("" if is_pmu else " This host has no PMU: the kernel's counters stand for hardware events here."),
        "",
        "- *outside*: observed from outside. *Inside*: sampled by the signal inside.",
        "- *ready*: one build, sampled inside. It has a no-op at each site of three software metrics, and the sampler "
        "reads their counters. *Patched*: the same file, with the places counting.",
        f"- A patched run counts events: {events}.",
        "- *interval*: of 90 %. *Smallest visible*: |Δρ| that these runs would have shown with a power of 80 %.",
    ]
    for title, (reference, kind) in COMPARISONS.items():
        verdict = Baseline(found[reference], tolerance=TOLERANCE).inner(found[kind])
        lines += ["", f"## {title}: {verdict.verdict}", "", *table(verdict)]
    metrics = Baseline(found["outside"], tolerance=TOLERANCE).metrics
    totals = {kind: {m: np.median([t[m].sum() for t in traces]) for m in metrics} for kind, traces in found.items()}
    lines += [
        "",
        "## Totals of a run (medians)",
        "",
        f"| metric | {' | '.join(found)} |",
        f"|---|{'---|' * len(found)}",
    ]
    names = {m: f"{m}, ns" if m == "perf::task-clock" else m for m in metrics}
    lines += [f"| {names[m]} | " + " | ".join(f"{totals[kind][m]:,.0f}" for kind in found) + " |" for m in metrics]
    page = Path(__file__).with_suffix(".md")
    page.write_text("\n".join(lines) + "\n")
    print(page.read_text())


if __name__ == "__main__":
    main()
