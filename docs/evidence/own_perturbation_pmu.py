"""The samplers under the tool's own check, on the PMU of an emulated arm64 machine.

Written to `docs/evidence/own_perturbation_pmu.md`.

    python docs/evidence/own_perturbation_pmu.py --runs 12 --seed 1

The program of `own_perturbation.py`, cross-compiled, its phases of another size. Held against runs observed from
outside: more of these (the null), runs sampled inside, and two controls that show what the check can see and what not.
All runs are made in one boot, in random order. The machine repeats itself, so what varies between runs is when the
program begins its work after the sampler's timer was started.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the emulated machine is part of the tests, which are not installed

from own_perturbation import PROGRAM, TOLERANCE, table  # noqa: E402

from experiments.common.provenance import made_by  # noqa: E402  after the path is set
from tests.pmu.cases import COMPILER, Case, Result, build_program, run_cases  # noqa: E402
from tests.pmu.machine import Machine, prepare_machine  # noqa: E402
from unperturbed.analysis.perturbation import Baseline, Change, Verdict  # noqa: E402
from unperturbed.collectors.data import Trace  # noqa: E402
from unperturbed.collectors.records.assemble import assemble  # noqa: E402
from unperturbed.collectors.records.file import Setup  # noqa: E402
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, build_observer, runtime_files  # noqa: E402
from unperturbed.collectors.sources import Pass  # noqa: E402
from unperturbed.collectors.sources.perf import events as perf_event  # noqa: E402
from unperturbed.errors import RunError  # noqa: E402

INTERVAL_NS, SHORT_INTERVAL_NS = 10_000_000, 1_000_000
LATEST_START_NS = 9_000_000
"""The program begins its work at a random time up to this: within the first interval, so that no tick falls into the
wait."""
SIZES = {"phase < 120": "phase < 80", "round < 40": "round < 8"}
"""Changes to the program: an instruction takes two nanoseconds here, and a run shall have 100 to 200 intervals."""
TRACEPOINTS = ("raw_syscalls/sys_enter", "kmem/mm_page_alloc")
USER, KERNEL, CYCLES = "perf::instructions", "perf::instructions:k", "perf::cycles"
METRICS = (
    *(USER, KERNEL, CYCLES, "perf::page-faults"),
    *(f"perf::{tracepoint.replace('/', ':')}" for tracepoint in TRACEPOINTS),
)
RECORD_FILE_BYTES = 1 << 19
"""Of every run: the program maps the file, and another size would put its own mappings elsewhere, in more or fewer page
tables."""
FIXED_RUNS = 6
COST_STARTS = 3
TIMEOUT_S = 1800.0

START = """
#include <stdlib.h>
#include <time.h>
int __real_main(void);
int __wrap_main(int count, char **argument)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += count > 1 ? atol(argument[1]) : 0;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
    return __real_main();
}
"""

LOG = """
#include <sys/mman.h>
#include <unistd.h>
enum { SIZE = 1 << 20, ENTRY = 16 };
pid_t __real_getppid(void);
pid_t __wrap_getppid(void)
{
    static char *place, *end;
    if (place == end) {
        place = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = place + SIZE;
    }
    *(char **)place = place;
    place += ENTRY;
    return __real_getppid();
}
"""
"""What an event tracer does: 16 bytes into fresh memory for each system call."""

BURDEN = """
#include <signal.h>
#include <sys/time.h>
enum { TURNS = 50000 };
static void spend(int signal)
{
    for (volatile int turn = signal - signal; turn < TURNS; turn++)
        ;
}
static void __attribute__((constructor)) begin(void)
{
    struct itimerval period = {{0, 10000}, {0, 10000}};
    struct sigaction action = {.sa_handler = spend, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &period, NULL);
}
"""
"""What a costly sampler does: the same work once an interval, whatever the program is doing."""


@dataclass(frozen=True)
class Way:
    """A way to make a run: the sampler and the program."""

    sampler: Literal["inside", "outside"]
    program: str = "program"

    def case(self, events: Pass, start_ns: int, interval_ns: int = INTERVAL_NS) -> Case:
        """Return the run, as the machine makes it; all command lines are of one length but for the observer's name."""
        setup = Setup(*("perf_event", interval_ns, "monotonic", events.events), sampler=self.sampler, capacity=1)
        setup = replace(setup, capacity=RECORD_FILE_BYTES // setup.record.itemsize)
        observer = "observer $RECORD " if self.sampler == "outside" else ""
        return Case(f"{observer}/bin/{self.program} {start_ns:07d}", setup)


OUTSIDE, INSIDE = Way("outside"), Way("inside")
NULL, BURDENED, LOGGED = "outside again", "outside, with a burden", "outside, with a log"
WAYS = {
    "outside": OUTSIDE,
    NULL: OUTSIDE,
    "inside": INSIDE,
    BURDENED: Way("outside", program="encumbered"),
    LOGGED: Way("outside", program="logging"),
}


def compile_programs(folder: Path) -> dict[str, Path]:
    """Cross-compile the program, the same with a log of its system calls or a burden, and the observer.

    The last one counts by perf_event alone.
    """
    text = PROGRAM
    for before, after in SIZES.items():
        if text.count(before) != 1:
            raise RunError(f"own_perturbation.PROGRAM has no single {before!r}: set SIZES anew")
        text = text.replace(before, after)
    for name, source in (("program", text), ("start", START), ("log", LOG), ("burden", BURDEN)):
        (folder / f"{name}.c").write_text(source)
    programs = {"observer": build_observer(COMPILER), "reference": build_program(folder, "reference.c", runtime=False)}
    options = ["-std=gnu11", "-O2", "-DUNPERTURBED_EXECUTABLE", f"-I{INCLUDE}", "-Wl,--wrap=main"]
    variants = {
        "program": [],
        "logging": [str(folder / "log.c"), "-Wl,--wrap=getppid"],
        "encumbered": [str(folder / "burden.c")],
    }
    for name, added in variants.items():
        sources = [BOUNDS[0], folder / "program.c", folder / "start.c", *runtime_files(), BOUNDS[1]]
        libraries = ["-ldl", "-lrt", "-lpthread"]
        programs[name] = folder / name
        subprocess.run(
            [COMPILER, *options, *map(str, sources), *added, "-o", str(folder / name), *libraries], check=True
        )
    return programs


def events_of_the_guest(machine: Machine, folder: Path) -> Pass:
    """Return what is counted, by the numbers that the guest's own kernel gives its tracepoints."""
    tracing = "/sys/kernel/tracing"
    copies = "".join(
        f"mkdir -p /out/events/{name}; cp events/{name}/id /out/events/{name}/ && " for name in TRACEPOINTS
    )
    script = f"mount -t tracefs tracefs {tracing} && cd {tracing} && {copies} cp available_events /out/"
    outcome = machine.run({}, script, timeout_s=60)
    if outcome.status != 0:
        raise RunError(
            f"the guest's kernel has no such tracepoint: {', '.join(TRACEPOINTS)}. Its console:\n{outcome.console}"
        )
    for name, content in outcome.files.items():
        file = folder / tracing.lstrip("/") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    events = [perf_event.event(name, folder) for name in METRICS]
    metrics = tuple(perf_event.metric(name, folder) for name in METRICS)
    return Pass("main", "perf_event", metrics, tuple(event for event in events if event))


def plan(events: Pass, runs: int, chance: random.Random) -> tuple[dict[str, Case], dict[str, str]]:
    """Return the runs in random order, and what each is.

    `fixed …` always begins its work at the same time; `cost …` is made for what a record costs; `alone` has no sampler.
    """
    cases: list[tuple[str, Case]] = []
    for _ in range(runs):
        cases += chance.sample(
            [(kind, way.case(events, chance.randrange(LATEST_START_NS))) for kind, way in WAYS.items()], len(WAYS)
        )
    for _ in range(FIXED_RUNS):
        fixed = {
            "fixed outside": (OUTSIDE, 0),
            "fixed inside": (INSIDE, 0),
            "fixed outside, later": (OUTSIDE, INTERVAL_NS // 2),
        }
        cases += chance.sample(
            [(kind, way.case(events, start_ns)) for kind, (way, start_ns) in fixed.items()], len(fixed)
        )
    for _ in range(COST_STARTS):
        start_ns = chance.randrange(LATEST_START_NS)
        for way in ("outside", "inside"):
            for interval_ns in (INTERVAL_NS, SHORT_INTERVAL_NS):
                cases.append((f"cost {interval_ns} {way}", WAYS[way].case(events, start_ns, interval_ns)))
    cases.append(("alone", Case("reference 0:1 /bin/program 0000000")))
    names = [f"run-{number:03d}" for number in range(len(cases))]
    return dict(zip(names, (case for _, case in cases), strict=True)), dict(
        zip(names, (kind for kind, _ in cases), strict=True)
    )


def as_trace(result: Result, events: Pass, name: str) -> Trace:
    """Return a run's trace, what the kernel counted declared as what it stands for: a hardware event."""
    attributes = {"run": name, "clock": "monotonic"}
    trace = assemble(
        result.sampled, events, software=(), os_metrics=(), derived={}, dumps=Path("none"), attributes=attributes
    )
    metrics = [replace(metric, kind="hardware") for metric in trace.metrics.values()]
    return Trace.from_columns(
        metrics, dict(trace.columns), begin_ns=trace.begin_ns, end_ns=trace.end_ns, attributes=dict(trace.attributes)
    )


def cost_of_a_record(seldom: Sequence[Trace], often: Sequence[Trace]) -> tuple[float, float, float]:
    """Return what one record adds.

    Instructions of the program, the kernel's in its place, microseconds until the program ends.

    The two sequences hold runs that differ in the interval alone, in the same order; the median over them is returned.
    """

    def whole(trace: Trace) -> tuple[float, ...]:
        return trace[USER].sum(), trace[KERNEL].sum(), trace.end_ns[-1] / 1000, len(trace)

    more = np.array([np.subtract(whole(b), whole(a)) for a, b in zip(seldom, often, strict=True)])
    user, kernel, time_us = np.median(more[:, :3] / more[:, 3:], axis=0).tolist()
    return user, kernel, time_us


def total(traces: Sequence[Trace], *metrics: str) -> float:
    """Return the median over runs of a run's total of some metrics."""
    return float(np.median([sum(trace[metric].sum() for metric in metrics) for trace in traces]))


def distinct(verdict: Verdict) -> list[Change]:
    """Return the pairs without cycles, which are this machine's clock and repeat the instructions."""
    return [change for change in verdict.changes if CYCLES not in (change.first, change.second)]


def largest(verdict: Verdict) -> float:
    """Return the largest change of ρ."""
    return max(abs(change.effect) for change in verdict.changes)


def significant(verdict: Verdict) -> str:
    """Say the verdict, and what changed."""
    count = sum(change.p_corrected <= verdict.alpha for change in verdict.changes)
    return (
        f"{verdict.verdict}: {count} of {len(verdict.changes)} changes are significant, the largest change of ρ "
        f"is {largest(verdict):.3f}"
    )


def seen(verdict: Verdict) -> str:
    """Say what changed, and what would have been seen."""
    visible = [change.smallest_visible for change in distinct(verdict)]
    return (
        f"is {significant(verdict)}. With a power of 80 % a change of {np.median(visible):.3f} would have been seen "
        f"in half of the {len(visible)} "
        f"pairs without cycles, one of {max(visible):.3f} in each of them."
    )


def conclusions(
    found: dict[str, list[Trace]],
    verdicts: dict[str, Verdict],
    costs: dict[str, tuple[float, float, float]],
    alone: int,
) -> Iterator[str]:
    """Yield what the numbers say, one paragraph each."""
    burdened, logged, fixed, later = (
        verdicts[kind] for kind in (BURDENED, LOGGED, "fixed inside", "fixed outside, later")
    )
    outside_runs = [
        trace
        for kind, traces in found.items()
        if "outside" in kind and kind not in (LOGGED, BURDENED)
        for trace in traces
    ]
    instructions = [int(trace[USER].sum()) for trace in outside_runs]

    def more(kind: str, *metrics: str) -> str:
        return f"{100 * (total(found[kind], *metrics) / total(found['outside'], *metrics) - 1):.1f} %"

    yield f"**The null** {seen(verdicts[NULL])}"
    yield f"**Inside against outside** {seen(verdicts['inside'])}"
    yield (
        "**What the check sees.** A program that logs its system calls, 16 bytes each into fresh memory, executes "
        f"{more(LOGGED, USER, KERNEL)} more "
        "instructions, those of the kernel included, and has "
        f"{more(LOGGED, 'perf::page-faults')} more page faults. It has them where it makes "
        "system calls, and is "
        f"{logged.verdict}: {sum(change.verdict == 'perturbed' for change in distinct(logged))} of the "
        f"{len(distinct(logged))} pairs without "
        f"cycles are, ρ changes by up to {largest(logged):.2f}."
    )
    yield (
        "**What it does not see.** ρ is made of the order of the intervals, and a cost that is the same in each "
        "leaves the order as it is. A program "
        "that is interrupted in every interval, by itself, for the same work executes "
        f"{more(BURDENED, USER, KERNEL)} more instructions, those of the kernel included: "
        f"{burdened.verdict}, ρ changes by up to {largest(burdened):.3f}. So the verdict says that a sampler does "
        "not change how the metrics go "
        "together. It does not say that the sampler costs nothing: that is in the table of costs."
    )
    yield (
        f"**Instructions of the program itself.** The outside sampler adds {costs['outside'][0]:.2f} a record: in "
        f"{len(outside_runs)} runs, at both "
        f"intervals, the program executed {min(instructions):,} to {max(instructions):,}. Without a sampler it is "
        f"{alone:,}; the difference is the "
        f"runtime's start. The inside sampler adds {costs['inside'][0]:.0f} a record."
    )
    yield (
        "**One processor.** The observer shares it with the program, which is the unfavourable case for the "
        "observer: each of its records takes "
        f"the processor away for {costs['outside'][2]:.0f} µs, two switches included; the signal inside takes "
        f"{costs['inside'][2]:.0f}. What either "
        "does to caches and branch prediction cannot be seen here. The machine has none: every instruction takes two "
        "nanoseconds."
    )
    yield (
        "**Cycles** are this machine's clock, twice the instructions in user space (ρ = 1.000). Pairs with cycles "
        "repeat those with instructions and "
        "add nothing. The kernel's instructions in the program's place were added to the events: what a sampler "
        "costs in the "
        "kernel is seen there alone."
    )
    yield (
        "**Why the start varies.** The machine repeats itself. With one start for all runs they differ by the "
        "kernel's doings alone, and the check "
        f"sees where the intervals cut the program. {FIXED_RUNS} runs inside against {FIXED_RUNS} outside, all begun "
        "at once, are "
        f"{significant(fixed)}. {FIXED_RUNS} runs from outside begun half an interval later, against the same, are "
        f"{significant(later)}. "
        "These differ in nothing but the cut, so that what is significant with one start for all is no sign of a "
        "sampler. (The observer's first "
        "interval begins before the program is loaded, the first one inside after it.) A campaign varies the layout "
        "of its runs for the same reason."
    )


def page(found: dict[str, list[Trace]], alone: int, made: str, runs: int) -> str:
    """Return the page."""
    baseline = Baseline(found["outside"], tolerance=TOLERANCE)
    verdicts = {kind: baseline.inner(found[kind]) for kind in WAYS if kind != "outside"}
    fixed = Baseline(found["fixed outside"], tolerance=TOLERANCE)
    verdicts |= {kind: fixed.inner(found[kind]) for kind in ("fixed inside", "fixed outside, later")}
    ways = [kind for kind in WAYS if f"cost {INTERVAL_NS} {kind}" in found]
    costs = {
        kind: cost_of_a_record(found[f"cost {INTERVAL_NS} {kind}"], found[f"cost {SHORT_INTERVAL_NS} {kind}"])
        for kind in ways
    }
    intervals = [len(trace) for kind in WAYS for trace in found[kind]]
    lines = [
        "# The samplers under their own check, on an emulated PMU",
        "",
        made,
        "",
        "**What changed on this page, and why.** On 26 November 2026 it was made again by the runtime of version "
        "1.0.0, and says at which commit and on which host. The page before was of 20 November, when the inside "
        "sampler's handler had not been trimmed: a record added 401 instructions. The verdicts of all comparisons are "
        "the same.",
        "",
        "Verdicts here are those of the commit named above, by the inner check alone, so that later outer checks "
        "change nothing. Later inner checks are stricter where a correlation is beyond ±0.9 ([Inner "
        "checks](calibration.md#where-checked-runs-differ-in-other-ways)).",
        "",
        f"{runs} runs of each kind in random order on an emulated arm64 machine (Cortex-A57 with a PMU, one "
        f"processor), {min(intervals)} to "
        f"{max(intervals)} intervals of",
        f"{INTERVAL_NS / 1e6:g} ms of its time a run. All events are read as one group; what the kernel counts "
        "stands for hardware events. The",
        "baseline are runs observed from outside. Program, seed, environment and addresses are the same in all runs; "
        "when the program begins its",
        f"work after the timer was started is drawn anew for each, up to {LATEST_START_NS / 1e6:g} ms. Tolerance "
        f"±{TOLERANCE}.",
        "",
        "## What follows",
        "",
        *(f"- {sentence}" for sentence in conclusions(found, verdicts, costs, alone)),
    ]
    titles = {
        NULL: "Outside against outside, the null",
        "inside": "Inside against outside",
        LOGGED: "Control: the program logs its system calls, outside against outside",
        BURDENED: "Control: the program does the same work more in every interval, outside against outside",
    }
    for kind, title in titles.items():
        lines += ["", f"## {title}: {verdicts[kind].verdict}", "", *table(verdicts[kind])]
    lines += ["", "## What one record costs", ""]
    lines += [
        "| sampler | instructions of the program | of the kernel in its place | µs until the program ends |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {kind} | {user:.2f} | {kernel:,.0f} | {time_us:.1f} |" for kind, (user, kernel, time_us) in costs.items()
    ]
    lines += [
        "",
        f"The same {COST_STARTS} starts at {SHORT_INTERVAL_NS / 1e6:g} ms and at {INTERVAL_NS / 1e6:g} ms: the "
        "difference, by the number of records.",
    ]
    lines += ["", "## Totals of a run (medians)", "", f"| metric | {' | '.join(WAYS)} |", "|---|" + "---|" * len(WAYS)]
    lines += [
        f"| {metric} | " + " | ".join(f"{total(found[kind], metric):,.0f}" for kind in WAYS) + " |"
        for metric in METRICS
    ]
    lines += ["", "The observer counts from the program's exec on, the sampler inside from its constructors on."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the runs, judge them, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12, help="runs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    arguments, made = parser.parse_args(), made_by()
    machine = prepare_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = events_of_the_guest(machine, folder)
        cases, kinds = plan(events, arguments.runs, random.Random(arguments.seed))
        print(f"{len(cases)} runs in one boot: a few minutes", file=sys.stderr)
        results = run_cases(machine, compile_programs(folder), cases, folder / "records", timeout_s=TIMEOUT_S)
    failed = [f"{name} ({kinds[name]}): {result.stderr}" for name, result in results.items() if result.status != 0]
    if failed:
        raise RunError(f"{len(failed)} runs failed, the first {failed[0]}")
    found: defaultdict[str, list[Trace]] = defaultdict(list)
    for name, kind in kinds.items():
        if kind != "alone":
            found[kind].append(as_trace(results[name], events, name))
    alone = next(int(results[name].stdout.split()[0]) for name, kind in kinds.items() if kind == "alone")
    text = page(found, alone, made, arguments.runs)
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
