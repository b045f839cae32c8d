"""Plans for the page of a partition: searched for on a simulated program, ended early, without any certificate, with
hostile names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.analysis import simulate
from unperturbed.analysis.partition import Plan, Reference, partition
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.analysis.report import CounterSource, Headline, ReportContent, ReportSettings, RunRow
from unperturbed.collectors.data import Metric, Trace

NAMES = ("H0", "H1", "H2", "H3")
MATRIX = simulate.equicorrelated(4, 0.5)
LOUD = simulate.with_pair(MATRIX, (0, 1), -0.1)
CLASH = simulate.with_pair(MATRIX, (2, 3), 0.0)
METRICS = ("enters", "loops", "loud", "writes", "reads")
TOLERANCE = 0.3


class Program:
    """Runs of a program: `loud` changes it alone, and so do `loops` and `writes` where they are measured together."""

    def __init__(self, seed: int = 5) -> None:
        self.rng = np.random.default_rng(seed)
        self.program = simulate.program(
            self.rng, correlation=MATRIX, intervals=300, phi=0.3, shared=0.3, run_effect=0.02
        )
        self.made = 0

    def measure(self, subset: tuple[str, ...], repetitions: int) -> list[Trace]:
        """Make fresh runs."""
        return [self._run(subset) for _ in range(repetitions)]

    def baseline(self) -> Reference:
        """Make a fresh baseline."""
        runs = Baseline([self._run(()) for _ in range(8)], metrics=NAMES, tolerance=TOLERANCE)
        return Reference(runs, align_on=NAMES[:1], anchor=simulate.MILESTONE)

    def _run(self, subset: tuple[str, ...]) -> Trace:
        self.made += 1
        matrix = LOUD if "loud" in subset else CLASH if {"loops", "writes"} <= set(subset) else MATRIX
        made = simulate.run(
            self.program,
            self.rng,
            correlation=matrix,
            work=1 + sum(0.004 * (1 + METRICS.index(metric)) for metric in subset),
            name=f"{self.made:04d}",
            configuration="+".join(subset) or "baseline",
        )
        return Trace.from_columns(
            [*made.metrics.values(), *(Metric(metric, "software", source="simulation") for metric in subset)],
            {**made.columns, **{metric: np.full(len(made), 2) for metric in subset}},
            begin_ns=made.begin_ns,
            end_ns=made.end_ns,
            attributes=made.attributes,
        )


def make_plan(max_runs: int | None = None, seed: int = 5) -> Plan:
    """Search for a partition of `METRICS`; `loud` can be in no subset, `loops` and `writes` in no common one."""
    program = Program(seed)
    return partition(METRICS, program.measure, program.baseline(), max_runs=max_runs, fresh_baseline=program.baseline)


def make_partition_content() -> ReportContent:
    """What a plan's page shows beside the plan."""
    return ReportContent(
        campaign="quickstart-partition",
        verdicts=(),
        source=CounterSource("simulated by callgrind", "A model of caches counted.", simulated=True),
        settings=ReportSettings(0.05, TOLERANCE, "20 ms", "process-cpu", ("H0",), "steps", 8, 5),
        headline=Headline(
            "blocksort", "blocksort -c corpus.txt", "2031-05-04 10:12 UTC", 176.0, "2 CPUs, Linux 6.18", "0.1.0"
        ),
        runs=tuple(
            RunRow(f"{number:04d}", "candidate-001", number, seconds=4.0, intervals=170, layout=number - 1)
            for number in range(1, 6)
        ),
        provenance={"program": {"result": "exit code 0"}},
        spec_text="name: quickstart\n",
    )


def make_hostile_plan(plan: Plan, evil: str) -> Plan:
    """The same plan with metrics that are named to break out of the page."""

    def renamed(metrics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{metric}{evil}" for metric in metrics)

    def verdict(found: Verdict | None) -> Verdict | None:
        if found is None:
            return None
        changes = (replace(each, first=f"{each.first}{evil}", second=f"{each.second}{evil}") for each in found.changes)
        return replace(found, changes=tuple(changes))

    return replace(
        plan,
        subsets=tuple(
            replace(each, metrics=renamed(each.metrics), verdict=verdict(each.verdict), runs=renamed(each.runs))
            for each in plan.subsets
        ),
        unmeasurable=tuple(
            replace(each, metric=f"{each.metric}{evil}", reason=evil, advice=evil, verdict=verdict(each.verdict))
            for each in plan.unmeasurable
        ),
        undecided=tuple(
            replace(each, metrics=renamed(each.metrics), reason=evil, verdict=verdict(each.verdict))
            for each in plan.undecided
        ),
        history=tuple(
            replace(
                each,
                subset=renamed(each.subset),
                outcome=None if each.outcome is None else replace(each.outcome, carried=(evil,)),
            )
            for each in plan.history
        ),
        complete=False,
        stopped=evil,
        strategy=evil,
    )
