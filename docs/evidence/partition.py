"""How few subsets a partition has, what it takes, and how often a certificate is wrong: written to
`docs/evidence/partition.md`.

    python docs/evidence/partition.py --trials 1000 --seed 1

A trial is a search on a simulated program whose true changes are known for every subset
(`tests/analysis/partition/simulated.py`). Each run's correlations are drawn, and judged by the functions that judge
traces; the last part does the same with traces.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the simulated programs are part of the tests, which are not installed

from experiments.common.provenance import made_by  # noqa: E402  after the path is set
from tests.analysis import simulate  # noqa: E402
from tests.analysis.partition import exact  # noqa: E402
from tests.analysis.partition.simulated import FastJudge, Oracle, Program, program  # noqa: E402
from tests.analysis.partition.traced import TracedProgram, traced_program  # noqa: E402
from unperturbed.analysis.partition import STRATEGIES, Plan, SearchSettings, TraceJudge, partition, search  # noqa: E402
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher  # noqa: E402

ALPHA, TOLERANCE = 0.05, 0.1
SMALL, LARGE = 10, 20
"""Software metrics of the programs."""

QUIET = {"spread": (0.01, 0.025)}
WORST: dict[str, Any] = {"metrics": 12, "hardware": 4, "touched": 1, "conflicts": 12, "changed": (0.1, 0.102)}
"""Programs in which hardly anything is clearly wrong: what perturbs changes one pair by the tolerance and at most 2
% more."""

TRACED: dict[str, Any] = {
    "metrics": 6,
    "hardware": 5,
    "pressures": 2,
    "conflicts": 3,
    "touched": 2,
    "rho": (-0.1, 0.5),
    "changed": (0.15, 0.25),
}
TRACED_RUNS, TRACED_INTERVALS = 10, 2000
PLANTED = (0.0, 0.05, 0.08, 0.1, 0.15, 0.2)
"""True changes of one pair by which drawn correlations and traces are compared."""


@dataclass(frozen=True)
class Trial:
    """What one search gave, beside what there was to be found."""

    found: int
    fewest: int
    left: int
    certificates: int
    invalid: int
    runs: int
    expected: int

    @property
    def ratio(self) -> float:
        """Return subsets found to fewest; a valid metric that is left without a certificate counts as a subset of
        its own."""
        return (self.found + self.left) / self.fewest


@dataclass(frozen=True)
class Case:
    """A simulated program and what is best for it."""

    of: Program
    seed: int
    alone: tuple[str, ...]
    fewest: int


def case(seed: Sequence[int], **options: Any) -> Case:
    """Draw a program, and find the smallest partition of the metrics that are valid alone into valid subsets:
    exactly."""
    of = program(np.random.default_rng(seed), **options)
    valid = exact.validity(of, TOLERANCE)
    mask = exact.measurable(valid)
    alone = tuple(metric for at, metric in enumerate(of.metrics) if mask >> at & 1)
    return Case(of, seed[-1], alone, exact.fewest(valid, mask))


def trial(of: Case, plan: Plan) -> Trial:
    """Compare a plan with the truth."""
    placed = {metric for subset in plan.subsets for metric in subset.metrics}
    return Trial(
        found=len(plan.subsets),
        fewest=of.fewest,
        left=len(set(of.alone) - placed),
        certificates=len(plan.subsets),
        invalid=sum(not of.of.is_valid(subset.metrics, TOLERANCE) for subset in plan.subsets),
        runs=plan.runs_used,
        expected=plan.forecast.expected,
    )


def side_by_side(cases: Sequence[Case], *, oracle: bool = True, **limits: Any) -> dict[str, list[Trial]]:
    """Search every program by every strategy; the last by a judge that is always right, which shows what the search
    alone loses."""
    found = {
        name: [
            trial(each, search(each.of.metrics, FastJudge(each.of, each.seed), SearchSettings(**limits), strategy=name))
            for each in cases
        ]
        for name in STRATEGIES
    }
    if oracle:
        plans = [search(each.of.metrics, Oracle(each.of), SearchSettings(), strategy="first-fit") for each in cases]
        found["first-fit, by a judge that is never wrong"] = [
            trial(each, plan) for each, plan in zip(cases, plans, strict=True)
        ]
    return found


def strategies_table(found: dict[str, list[Trial]]) -> Iterator[str]:
    """One row a strategy, as Markdown."""
    yield from header(
        [
            "strategy",
            "subsets",
            "fewest",
            "ratio",
            "its 90 % quantile",
            "fewest found in",
            "metrics left",
            "certificates invalid",
            "runs",
            "their 90 % quantile",
            "forecast",
        ]
    )
    for name, trials in found.items():
        ratios, runs = np.array([each.ratio for each in trials]), np.array([each.runs for each in trials])
        yield (
            f"| {name} | {mean(trials, 'found'):.2f} | {mean(trials, 'fewest'):.2f} | **{ratios.mean():.2f}** | "
            f"{np.quantile(ratios, 0.9):.2f} | "
            f"{np.mean(ratios <= 1):.0%} | {mean(trials, 'left'):.2f} | {invalid(trials)} | {runs.mean():.0f} | "
            f"{np.quantile(runs, 0.9):.0f} | "
            f"{mean(trials, 'expected'):.0f} |"
        )


def certificates_table(trials: int, seed: int) -> Iterator[str]:
    """Show how often certificates are invalid: on many programs, and on the worst that could be thought of."""
    yield from header(
        [
            "programs",
            "baseline of the certificates",
            "strategy",
            "searches",
            "certificates",
            "invalid",
            "share",
            "plans with an invalid one",
            "failed certifications a plan",
        ]
    )
    usual: dict[str, Any] = {"metrics": LARGE}
    rows = [("usual", usual, False, "first-fit", trials)]
    worst = max(3, trials // 5)
    rows += [("worst", WORST, fresh, name, worst) for name in ("first-fit", "halving") for fresh in (False, True)]
    for kind, options, fresh, strategy, count in rows:
        certificates, wrong, plans, failures = 0, 0, 0, 0
        for number in range(count):
            of = program(np.random.default_rng([seed, 3, number]), **options)
            plan = search(of.metrics, FastJudge(of, number, fresh=fresh), SearchSettings(), strategy=strategy)
            bad = sum(not of.is_valid(subset.metrics, TOLERANCE) for subset in plan.subsets)
            certificates, wrong, plans = certificates + len(plan.subsets), wrong + bad, plans + (bad > 0)
            failures += sum(
                each.stage == "certify" and each.outcome is not None and not each.outcome.unperturbed
                for each in plan.history
            )
        against = "fresh" if fresh else "the search's"
        shares = f"**{wrong / certificates:.2%}** | {plans / count:.1%} | {failures / count:.2f}"
        yield f"| {kind} | {against} | {strategy} | {count} | {certificates} | {wrong} | {shares} |"


def budget_table(cases: Sequence[Case]) -> Iterator[str]:
    """Show what a limit on runs leaves of a plan."""
    yield from header(
        ["max_runs", "strategy", "runs", "metrics certified", "subsets", "certificates invalid", "ended by itself"]
    )
    for most in (100, 200, 400):
        for name in ("first-fit", "halving"):
            plans = [
                search(each.of.metrics, FastJudge(each.of, each.seed), SearchSettings(max_runs=most), strategy=name)
                for each in cases
            ]
            trials = [trial(each, plan) for each, plan in zip(cases, plans, strict=True)]
            certified = np.mean([1 - each.left / len(of.alone) for of, each in zip(cases, trials, strict=True)])
            ended = np.mean([plan.complete for plan in plans])
            counts = f"{mean(trials, 'runs'):.0f} | {certified:.0%} | {mean(trials, 'found'):.2f} | {invalid(trials)}"
            yield f"| {most} | {name} | {counts} | {ended:.0%} |"


def planted_program() -> Program:
    """Return a program each of whose metrics changes one pair by one of `PLANTED`, and nothing else."""
    of = program(
        np.random.default_rng(1),
        **(TRACED | {"metrics": len(PLANTED), "unmeasurable": 0, "pressures": 1, "conflicts": 0}),
    )
    small = np.zeros_like(of.small)
    small[np.arange(len(PLANTED)), 0] = PLANTED
    return replace(of, rho=np.full_like(of.rho, 0.3), small=small, pressed=np.zeros_like(of.pressed))


def stand_in_table(campaigns: int, seed: int) -> Iterator[str]:
    """Compare verdicts on six runs: by traces, inner and outer; by the same traces' inner correlations; and by drawn
    correlations."""
    of = planted_program()
    rng = np.random.default_rng([seed, 5])
    matrix = simulate.equicorrelated(TRACED["hardware"], float(of.rho[0]))
    work = TracedProgram(
        of,
        simulate.program(rng, correlation=matrix, intervals=TRACED_INTERVALS, phi=0.7, shared=0.3, run_effect=0.02),
        rng,
    )
    shown: dict[tuple[str, str], list[str]] = {
        (metric, how): [] for metric in of.metrics for how in ("both", "inner", "drawn")
    }
    seen: dict[str, list[float]] = {metric: [] for metric in of.metrics}
    z: list[FloatArray] = []
    for _ in range(campaigns):
        reference = work.baseline(TRACED_RUNS)
        z.append(fisher(reference.baseline.correlations))
        judge = TraceJudge(work, reference)
        for metric in of.metrics:
            verdict = judge.explore((metric,), 6).evidence
            assert verdict is not None
            inner = verdict.of("inner")
            seen[metric].append(inner[0].effect)
            shown[metric, "both"].append(verdict.verdict)
            shown[metric, "inner"].append("unperturbed" if all(each.verdict == "unperturbed" for each in inner) else "")
    spread = np.sqrt(np.mean([one.var(axis=0, ddof=1) for one in z], axis=0))
    drawn = replace(of, spread=spread, rho=np.tanh(np.mean([one.mean(axis=0) for one in z], axis=0)))
    for number in range(500):
        fast = FastJudge(drawn, number, references=TRACED_RUNS)
        for metric in of.metrics:
            shown[metric, "drawn"].append(fast.explore((metric,), 6).verdict)
    yield from header(
        [
            "planted Δρ of one pair",
            "found on average",
            "shown unperturbed: by traces, inner and outer",
            "inner alone",
            "drawn",
            "perturbed: by traces",
            "drawn",
        ]
    )
    for change, metric in zip(PLANTED, of.metrics, strict=True):
        cells = [np.mean([each == "unperturbed" for each in shown[metric, how]]) for how in ("both", "inner", "drawn")]
        cells += [np.mean([each == "perturbed" for each in shown[metric, how]]) for how in ("both", "drawn")]
        yield f"| {change} | {np.mean(seen[metric]):.3f} | {' | '.join(f'{cell:.2f}' for cell in cells)} |"
    yield ""
    yield (
        f"{campaigns} campaigns by traces, 500 drawn; standard deviation between runs {spread.mean():.3f} on "
        f"Fisher's scale."
    )


def traced_table(programs: int, seed: int) -> Iterator[str]:
    """Search programs by traces, through `partition`, and by drawn correlations."""
    yield from header(
        ["program", "fewest", "by traces: subsets", "invalid", "runs", "drawn: subsets", "invalid", "runs"]
    )
    for number in range(programs):
        work = traced_program([seed, 6, number], intervals=TRACED_INTERVALS, **TRACED)
        reference = work.baseline(TRACED_RUNS)
        valid = exact.validity(work.of, TOLERANCE)
        mask = exact.measurable(valid)
        alone = tuple(metric for at, metric in enumerate(work.of.metrics) if mask >> at & 1)
        of = Case(work.of, number, alone, exact.fewest(valid, mask))
        spread = fisher(reference.baseline.correlations).std(axis=0, ddof=1)
        fast = FastJudge(replace(work.of, spread=spread), number, references=TRACED_RUNS)
        both = [
            trial(of, partition(work.of.metrics, work, reference)),
            trial(of, search(work.of.metrics, fast, SearchSettings())),
        ]
        cells = [
            f"{each.found}{f' and {each.left} metrics left' if each.left else ''} | {each.invalid} | {each.runs}"
            for each in both
        ]
        yield f"| {number + 1} | {of.fewest} | {' | '.join(cells)} |"


def mean(trials: Sequence[Trial], name: str) -> float:
    """Return the mean of one field."""
    return float(np.mean([getattr(each, name) for each in trials]))


def invalid(trials: Sequence[Trial]) -> str:
    """Return how many certificates are invalid, of how many."""
    return f"{sum(each.invalid for each in trials)} of {sum(each.certificates for each in trials)}"


def header(heads: Sequence[str]) -> Iterator[str]:
    """First two lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"


def plot(found: dict[str, dict[str, list[Trial]]], target: Path) -> None:
    """Draw runs needed against subsets found, one panel a kind of program."""
    import matplotlib as mpl  # noqa: PLC0415  slow to load
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "partition", "font.size": 9})
    figure, panels = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.4), sharey=True)
    for panel, (title, by_strategy) in zip(panels, found.items(), strict=True):
        for name in STRATEGIES:
            trials = by_strategy[name]
            runs, ratios = (np.array([getattr(each, what) for each in trials]) for what in ("runs", "ratio"))
            line = panel.errorbar(
                runs.mean(),
                ratios.mean(),
                xerr=runs.std(),
                yerr=ratios.std() / np.sqrt(len(trials)),
                fmt="o",
                capsize=3,
                label=name,
            )
            panel.scatter(runs, ratios, s=6, alpha=0.25, color=line[0].get_color(), linewidths=0)
        panel.axhline(1.25, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=title, xlabel="runs needed", xlim=(0, None))
    panels[0].set_ylabel("subsets found / fewest")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    target.write_text(
        "\n".join(line.rstrip() for line in target.read_text(encoding="utf-8").splitlines()) + "\n", encoding="utf-8"
    )


def page(trials: int, seed: int, drawing: Path) -> str:
    """Run everything and write it down."""
    made, started = made_by(), time.process_time()
    small = [case([seed, 1, number], metrics=SMALL) for number in range(max(5, trials // 10))]
    quiet = [case([seed, 4, number], metrics=SMALL, **QUIET) for number in range(max(5, trials // 20))]
    large = [case([seed, 2, number], metrics=LARGE) for number in range(max(3, trials // 50))]
    on_small, on_quiet, on_large = (side_by_side(cases) for cases in (small, quiet, large))
    plot({f"{SMALL} metrics": on_small, f"{SMALL} metrics, quiet": on_quiet, f"{LARGE} metrics": on_large}, drawing)
    tables = {
        "small": strategies_table(on_small),
        "quiet": strategies_table(on_quiet),
        "large": strategies_table(on_large),
        "budget": budget_table(large),
        "certificates": certificates_table(trials, seed),
        "stand_in": stand_in_table(max(3, trials // 50), seed),
        "traced": traced_table(max(2, trials // 200), seed),
    }
    written = {name: "\n".join(table) for name, table in tables.items()}
    return PAGE.format(
        made=made, seconds=time.process_time() - started, figure=drawing.name,
        trials_small=len(small), trials_quiet=len(quiet), trials_large=len(large), metrics_small=SMALL,
        metrics_large=LARGE, **written,
    )  # fmt: skip


PAGE = """# Partition: how few subsets, how many runs, how often wrong

{made} It took {seconds:.0f} s of one core.

**What changed on this page, and why.** On 28 November 2026 it was made again by the checks of that day, on a host that
is named. The page before was of version 0.1.0 with changes that were not committed, on a host that was not recorded. No
ratio and no number of invalid certificates changed; runs, their quantiles included, changed by 1 at most.

Verdicts here are those of the commit named above; later outer checks are stricter only where the checked runs of all
metrics spread wider than the baseline's ([Outer checks](calibration.md#outer-checks)).

Simulated programs: software metrics that perturb 66 pairs of 12 hardware metrics, by three *pressures* (totals with a
threshold; half of them are relieved while one certain metric is there) and by *conflicts* of two metrics (two for each
five metrics; half are cancelled by a third metric). Neither is monotone. One metric perturbs alone. Pressures and
conflicts change five pairs each by .15 to .35. A subset is *valid* when no pair's true change exceeds the tolerance,
.1. Runs vary with a standard deviation of .02 to .05 on Fisher's scale, 20 baseline runs; α = .05, three repetitions at
first, at most 20.

- *fewest*: the smallest number of valid subsets that hold all metrics that are valid alone, by exhaustive search.
- *ratio*: subsets found to fewest, mean over programs. A valid metric that got no certificate counts as a subset of its
  own. Goal: at most 1.25.
- *fewest found in*: share of programs for which the plan has no more subsets than the smallest number.
- *runs*: all that the search and the certification took, without the first baseline. *forecast*: as predicted before
  the search.

![Runs needed and subsets found, each strategy](partition.svg)

Large dots: means, with the standard deviation of runs and the standard error of the ratio; small dots: single programs;
dotted: the goal.

## {metrics_small} metrics, {trials_small} programs

{small}

What even the judge that is never wrong loses is the search's; the rest is lost because a valid subset whose true change
is near the tolerance cannot be shown valid by a few runs.

## {metrics_small} metrics, {trials_quiet} programs, runs that vary half as much

{quiet}

## {metrics_large} metrics, {trials_large} programs

{large}

With a limit, `first-fit` and `halving` on the same programs:

{budget}

## Certificates

*Usual*: programs of {metrics_large} metrics as above. *Worst*: 12 metrics and 4 hardware metrics, 12 conflicts, and
whatever perturbs changes a single pair, by the tolerance and at most 2 % more: hardly any invalid subset is clearly
invalid, and the search comes by many. Goal: at most 5 % of the certificates are invalid, and by the rule of
`unperturbed.analysis.partition.certify` at most 5 % of the plans hold an invalid one.

{certificates}

## Are drawn correlations a fair stand-in for traces?

Not quite: by traces, the change that is found is smaller than the planted one, so that changes near the tolerance are
called unperturbed more often, and perturbed less often, than drawn ones. Whole searches find as many subsets by both.

Traces of {intervals} intervals of autocorrelated counts (φ = .7), 5 hardware metrics, 10 baseline runs, six runs of a
metric that changes one pair: judged by `Baseline.inner` and `.outer` (aligned on a metric, through milestones), and by
drawn correlations of the same spread.

{stand_in}

Whole searches of programs of 6 metrics by traces, through `partition`, beside the same programs drawn:

{traced}
""".replace("{intervals}", str(TRACED_INTERVALS)).replace("(partition.svg)", "({figure})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--trials",
        type=int,
        default=1000,
        help="searches whose certificates are checked; the other parts take a share of that",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    chosen = parser.parse_args(arguments)
    chosen.output.write_text(page(chosen.trials, chosen.seed, chosen.output.with_suffix(".svg")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
