"""A partition of hardware metrics on the PMU of an emulated arm64 machine.

Written to `docs/evidence/passes_pmu.md`.

    python docs/evidence/passes_pmu.py [--runs 10] [--seed 1]

The program and the machine of `own_perturbation_pmu.py`. The search is that of `unperturbed partition --hardware`; each
of its measurements is a boot of the machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the emulated machine is part of the tests, which are not installed

from own_perturbation import TOLERANCE  # noqa: E402
from own_perturbation_pmu import (  # noqa: E402
    INSIDE,
    LATEST_START_NS,
    TIMEOUT_S,
    as_trace,
    compile_programs,
    events_of_the_guest,
)

from experiments.common.provenance import made_by  # noqa: E402  after the path is set
from experiments.common.tables import markdown_table, right  # noqa: E402
from tests.pmu.cases import run_cases  # noqa: E402
from tests.pmu.machine import Machine, prepare_machine  # noqa: E402
from unperturbed.analysis.partition import STAGES, Measurement, Plan, partition, plan_headline  # noqa: E402
from unperturbed.analysis.perturbation import Baseline, ranked_changes  # noqa: E402
from unperturbed.collectors.data import Trace  # noqa: E402
from unperturbed.collectors.sources import Pass  # noqa: E402
from unperturbed.collectors.sources.perf import events as perf_event  # noqa: E402
from unperturbed.errors import RunError  # noqa: E402

SHARED = ("perf::instructions", "perf::page-faults", "perf::raw_syscalls:sys_enter")
DIVIDED = (
    *("perf::instructions:k", "perf::cycles", "perf::cycles:k", "perf::r000", "perf::context-switches"),
    "perf::kmem:mm_page_alloc",
)


class Guest:
    """Runs of the program in the emulated machine, sampled inside."""

    def __init__(self, machine: Machine, folder: Path, chance: random.Random) -> None:
        self._machine, self._folder, self._chance = machine, folder, chance
        events_of_the_guest(machine, folder)  # the numbers of its tracepoints
        self._programs = compile_programs(folder)
        self._made = 0

    def measure(self, subset: Sequence[str], repetitions: int) -> list[Trace]:
        """Make runs that count the shared metrics and a subset, in one boot."""
        names = (*SHARED, *subset)
        events = [perf_event.event(name, self._folder) for name in names]
        metrics = tuple(perf_event.metric(name, self._folder) for name in names)
        counted = Pass("main", "perf_event", metrics, tuple(event for event in events if event))
        cases = {}
        for _ in range(repetitions):
            self._made += 1
            cases[f"run-{self._made:03d}"] = INSIDE.case(counted, self._chance.randrange(LATEST_START_NS))
        records = self._folder / f"records-{self._made}"
        results = run_cases(self._machine, self._programs, cases, records, timeout_s=TIMEOUT_S)
        failed = [f"{name}: {result.stderr}" for name, result in results.items() if result.status != 0]
        if failed:
            raise RunError(f"{len(failed)} runs failed, the first {failed[0]}")
        return [as_trace(results[name], counted, name) for name in cases]

    def baseline(self, runs: int) -> Baseline:
        """Make runs that count the shared metrics alone."""
        return Baseline(self.measure((), runs), tolerance=TOLERANCE)


def history_table(plan: Plan) -> list[str]:
    """Return what was measured, in order."""
    rows = [
        [
            *(each.number, STAGES[each.stage], ", ".join(each.subset) or "–", each.repetitions),
            each.outcome.verdict if each.outcome else "–",
        ]
        for each in plan.history
    ]
    return markdown_table([*right("step"), "for", "metrics", *right("runs"), "verdict"], rows)


def passes_table(plan: Plan) -> list[str]:
    """Return the certified passes, each with the change that is nearest to the tolerance."""
    rows = []
    for subset in plan.subsets:
        most = ranked_changes(subset.verdict.changes if subset.verdict else ())[0]
        nearest = f"{most.check} {most.label} {most.effect:+.3f} ({most.low:+.3f} … {most.high:+.3f})"
        rows.append([subset.name, ", ".join(subset.metrics), subset.repetitions, nearest])
    return markdown_table(["pass", "metrics", *right("runs"), "largest change, with its interval"], rows)


def main() -> None:
    """Search, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="runs of each baseline")
    parser.add_argument("--seed", type=int, default=1)
    arguments, made = parser.parse_args(), made_by()

    def tell(each: Measurement) -> None:
        print(each.number, each.stage, *each.subset, each.outcome and each.outcome.verdict, file=sys.stderr)

    with tempfile.TemporaryDirectory() as name:
        guest = Guest(prepare_machine(), Path(name), random.Random(arguments.seed))
        plan = partition(
            DIVIDED,
            guest.measure,
            guest.baseline(arguments.runs),
            strategy="restarts",
            fresh_baseline=lambda: guest.baseline(arguments.runs),
            observer=tell,
        )
    lines = [
        "# Passes of hardware metrics, on an emulated PMU",
        "",
        made,
        "",
        "The search of [`unperturbed partition --hardware`](../explanation/partition.md"
        "#which-hardware-metrics-may-share-a-pass) on an emulated arm64 machine (Cortex-A57 with a PMU), sampled "
        f"inside every 10 ms. Every pass counts {', '.join(SHARED)}; the others are divided. Tolerance ±{TOLERANCE}. "
        "The machine has no caches: what reading more counters does to them cannot be seen here, only what it "
        "executes.",
        "",
        f"**{plan_headline(plan).replace('software metric', 'metric')}**",
        "",
        *passes_table(plan),
        "",
        "## The search",
        "",
        "A candidate gets more runs while these may show it unperturbed, so the verdicts of the search guarantee "
        "nothing: only *certify* counts, which judges a fixed number of fresh runs against a fresh baseline. A "
        "candidate that is unperturbed is not used if the runs allowed would hardly certify it, as here all six "
        "metrics together.",
        "",
        *history_table(plan),
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
