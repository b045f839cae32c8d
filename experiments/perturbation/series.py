"""The programs of the perturbation experiment, and their series of configurations: one software metric more a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation import Baseline, Verdict, combine_checks
from unperturbed.collectors.data import Trace
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec

HERE = Path(__file__).parent
Pair = tuple[str, str]
"""Two metrics of one run, in the order of the spec."""


@dataclass(frozen=True)
class Program:
    """A program of the experiment."""

    name: str  # Of its spec
    stands_for: str  # The paper's program of table 1, and whether the paper saw it perturbed
    # what, source, input: As in table 1.
    what: str
    source: str
    input: str
    long_input: str  # The input of a processor's runs, which are longer

    @property
    def spec(self) -> Path:
        """Return the file of its spec."""
        return HERE / f"{self.name}.yaml"


PROGRAMS = (
    Program(
        "bzip2",
        "bzip (hardly)",
        "compression",
        "Debian's bzip2",
        "Python's library sources, 3 MB, blocks of 300 kB",
        "Python's library sources, 30 MB, blocks of 300 kB",
    ),
    Program(
        "chess",
        "sjeng (perturbed)",
        "chess",
        "Phalanx, Debian's upstream archive",
        "4 positions, 7 half-moves deep",
        "4 positions, 9 half-moves deep",
    ),
    Program(
        "network",
        "mcf (inner: hardly, outer: perturbed)",
        "vehicle scheduling",
        "LEMON's network simplex, Debian's upstream archive",
        "a day of 1,080 trips",
        "a day of 2,600 trips",
    ),
    Program(
        "redcode",
        "sim-outorder (perturbed)",
        "simulator of a machine",
        "pMARS, Debian's upstream archive",
        "its 4 example programs, 36 rounds",
        "its 4 example programs, 400 rounds",
    ),
)


@dataclass(frozen=True)
class Step:
    """A configuration of the series, and what was found."""

    metric: str  # The software metric that came in
    traces: tuple[Trace, ...]  # Its runs
    events: int  # Increments that all its software metrics execute a run
    # Of the baseline's instructions. What the step executes beyond the baseline is `executed_ratio`.
    increment_ratio: float
    rho: NDArray[np.float64]  # (runs, pairs): Inner correlations, for the baseline's pairs
    # verdict, inner, outer: Of the tool.
    verdict: Verdict
    inner: Verdict
    outer: Verdict
    # inner_as_paper, outer_as_paper: By the paper's rule.
    inner_as_paper: Verdict
    outer_as_paper: Verdict
    # Verdict on the runs of its sham (the same rewriting, a no-op in the place of every increment), where the
    # campaign has such; None else.
    sham: Verdict | None = None

    @property
    def executed_ratio(self) -> float:
        """Return by what share more instructions are executed than by the baseline.

        The paper's measure: section 3 has what instrumentation "increased instructions executed by".
        """
        executed = self.verdict.overhead.instructions
        assert executed is not None  # every campaign here counts instructions
        return executed

    @property
    def largest_inner(self) -> tuple[str, float]:
        """Return the pair whose correlation changed most, and by how much."""
        return _largest(self.inner)

    @property
    def largest_outer(self) -> tuple[str, float]:
        """Return the metric whose outer correlation changed most, and by how much."""
        return _largest(self.outer)

    def of_sham(self, check: str, label: str) -> float | None:
        """Return by how much the sham changes a correlation; None where there is no sham."""
        if self.sham is None:
            return None
        return next(change.effect for change in self.sham.changes if (change.check, change.label) == (check, label))

    def outer_rho(self, metric: str) -> tuple[float, ...]:
        """Return a metric's outer correlation with itself, each run's with the baseline."""
        return next(change.observed for change in self.outer.changes if change.first == metric)


@dataclass(frozen=True)
class Series:
    """A program's steps."""

    program: Program
    spec: CampaignSpec  # Of the campaign
    baseline: Baseline  # Its baseline runs
    steps: tuple[Step, ...]
    # Pairs and metrics of each baseline run that the paper's rule calls perturbed, the others being the baseline.
    left_out: tuple[int, ...]
    left_out_verdicts: tuple[str, ...]  # The tool's verdict on each of these runs

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Return the pairs that are compared."""
        return self.baseline.pairs

    @property
    def compared(self) -> int:
        """Return how many pairs and metrics a step is judged by."""
        return len(self.steps[0].verdict.changes)

    def outer_reference(self, metric: str) -> tuple[float, ...]:
        """Return a metric's outer correlation with itself among the baseline runs."""
        return next(change.reference for change in self.steps[0].outer.changes if change.first == metric)

    def along(self, pair: Pair) -> NDArray[np.float64]:
        """Return a pair's mean correlation: in the baseline, then in each step."""
        at = self.pairs.index(pair)
        return np.array([self.baseline.correlations[:, at].mean(), *(step.rho[:, at].mean() for step in self.steps)])

    def sharpest(self) -> tuple[Pair, int, float]:
        """Return the pair and the step that changed most from one step to the next, and the change of ρ."""
        jumps = {pair: np.diff(self.along(pair)) for pair in self.pairs}
        pair = max(jumps, key=lambda pair: float(np.abs(jumps[pair]).max()))
        at = int(np.abs(jumps[pair]).argmax())
        return pair, at, float(jumps[pair][at])

    def before(self, at: int) -> tuple[Trace, ...]:
        """Return the runs of the step before, which are the baseline's for the first."""
        return self.steps[at - 1].traces if at else self.baseline.traces


def judge(program: Program, campaign: Path, spec_path: Path | None = None) -> Series:
    """Read a campaign's runs and compare every step with the baseline."""
    spec = load_spec(spec_path or program.spec)
    runs, shams = runs_by_configuration(campaign)
    align_on = tuple(spec.analysis.align_on)
    baseline = baseline_of(spec, runs["baseline"])
    instructions = float(np.mean([trace["PAPI_TOT_INS"].sum() for trace in baseline.traces]))
    steps = []
    for name, metrics in spec.campaign.subsets.items():
        traces = tuple(runs.get(name, ()))
        if not traces:
            raise ValueError(f"{campaign}: no run of {name}: let the campaign end first")
        inner, outer = baseline.inner(traces), baseline.outer(traces, align_on=align_on)
        events = int(np.mean([sum(int(trace[metric].sum()) for metric in metrics) for trace in traces]))
        steps.append(
            Step(
                metric=metrics[-1],
                traces=traces,
                events=events,
                increment_ratio=events / instructions,
                rho=np.array([change.observed for change in inner.changes]).T,
                verdict=combine_checks(name, inner, outer),
                inner=inner,
                outer=outer,
                inner_as_paper=baseline.inner(traces, method="paper"),
                outer_as_paper=baseline.outer(traces, align_on=align_on, method="paper"),
                sham=judge_runs(baseline, f"sham-{name}", shams[name], align_on) if name in shams else None,
            )
        )
    left_out, verdicts = _left_out(baseline, spec)
    return Series(program, spec, baseline, tuple(steps), left_out, verdicts)


def require_processor(traces: Iterable[Trace]) -> None:
    """Refuse runs whose cycles were not counted by a processor."""
    if any(trace.metrics["PAPI_TOT_CYC"].kind != "hardware" for trace in traces):
        raise SystemExit("the counters were simulated: this host's processor counts nothing, see `unperturbed doctor`")


def judge_runs(baseline: Baseline, name: str, traces: Sequence[Trace], align_on: Sequence[str]) -> Verdict:
    """Compare runs with a baseline, within runs and between them."""
    return combine_checks(name, baseline.inner(traces), baseline.outer(traces, align_on=align_on))


def runs_by_configuration(campaign: Path) -> tuple[Mapping[str, list[Trace]], Mapping[str, list[Trace]]]:
    """Return the runs of each configuration, and those of each one's sham, in the order of their start; no pilot.

    Result `runs`, `shams`: By the name of the configuration; of a sham, by that of the configuration whose code it has.
    """
    runs: dict[str, list[Trace]] = defaultdict(list)
    shams: dict[str, list[Trace]] = defaultdict(list)
    for path in sorted(campaign.glob("runs/[0-9]*/trace.parquet")):
        trace = Trace.read(path)
        if trace.attributes["run"] == "pilot":
            continue
        if trace.attributes.get("sham_of"):
            shams[str(trace.attributes["sham_of"])].append(trace)
        else:
            runs[str(trace.attributes["configuration"])].append(trace)
    return runs, shams


def baseline_of(spec: CampaignSpec, traces: Sequence[Trace]) -> Baseline:
    """Return runs as a baseline for the spec's metrics, with its tolerance and level."""
    return Baseline(traces, metrics=spec.measure.hardware, alpha=spec.analysis.alpha, tolerance=spec.analysis.tolerance)


def _left_out(baseline: Baseline, spec: CampaignSpec) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Compare each baseline run with the others: what is called perturbed then is a false alarm."""
    align_on = tuple(spec.analysis.align_on)
    counts, verdicts = [], []
    for trace in baseline.traces:
        others = baseline_of(spec, [other for other in baseline.traces if other is not trace])
        as_paper = (others.inner(trace, method="paper"), others.outer(trace, align_on=align_on, method="paper"))
        counts.append(sum(change.verdict == "perturbed" for verdict in as_paper for change in verdict.changes))
        both = combine_checks("left out", others.inner(trace), others.outer(trace, align_on=align_on))
        verdicts.append(both.verdict)
    return tuple(counts), tuple(verdicts)


def _largest(verdict: Verdict) -> tuple[str, float]:
    change = max(verdict.changes, key=lambda change: abs(change.effect))
    return change.label, change.effect


def paired(pairs: Sequence[Pair], first: str, second: str) -> Pair | None:
    """Return the pair of these two metrics, in either order; None when it is not compared."""
    return next((pair for pair in pairs if set(pair) == {first, second}), None)
