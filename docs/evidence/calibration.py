"""How often the verdicts are wrong: simulated campaigns, written as a table to `docs/evidence/calibration.md`.

    python docs/evidence/calibration.py --campaigns 2000 --seed 1

A campaign is k baseline runs and r checked runs of a simulated program (`tests/analysis/simulate.py`), judged by the same functions
as real ones. One campaign's 20 + 5 runs serve for every k and r, so rows of one kind of program are not independent.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path

import numpy as np
from scipy import special

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the simulated programs are part of the tests, which are not installed

from tests.analysis import simulate  # noqa: E402  after the path is set
from unperturbed.analysis.perturbation.compare import compare_runs, smallest_visible  # noqa: E402
from unperturbed.analysis.perturbation.correlation import FloatArray, correlate_ranks, fisher, from_fisher, standard_ranks  # noqa: E402
from unperturbed.analysis.perturbation.decide import holm, name_verdict  # noqa: E402
from unperturbed.analysis.perturbation.outer import Outer, outer_matrix, outer_of_checked, outer_of_reference, pair_variance  # noqa: E402
from unperturbed.collectors.trace import Trace  # noqa: E402

ALPHA, TOLERANCE = 0.05, 0.1
BASELINE_RUNS = {"inner": (5, 10, 20), "outer": (5, 10)}
CHECKED_RUNS = (3, 5)
PHI, INTERVALS = (0.7, 0.95), (165, 1000)
METRICS = 5
RHO = {"unchanged": 0.5, "planted": 0.15, "tolerance": 0.38}
"""Inner: Spearman's ρ of one pair in the checked runs."""
SHARED = {"unchanged": 0.8, "planted": 0.15, "tolerance": 0.58}
"""Outer: the part of every signal that the checked runs share with the baseline."""
OUTER_SHARE = {165: 5, 1000: 40}
"""Outer campaigns cost more: one for so many inner ones, by intervals."""


@dataclass
class Tally:
    """What the campaigns of one row gave."""

    false_alarms: int = 0
    significant: int = 0
    found: int = 0
    accepted_unchanged: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)

    def add(self, unchanged: Judged, planted: Judged, tolerance: Judged) -> None:
        """Add one campaign: checked runs as the baseline's; the first change large; the first change about the tolerance."""
        self.false_alarms += "perturbed" in unchanged.verdicts
        self.significant += unchanged.significant
        self.found += planted.verdicts[0] == "perturbed"
        self.accepted_unchanged.append(unchanged.verdicts.count("unperturbed") / len(unchanged.verdicts))
        self.visible.append(unchanged.smallest_visible)
        self.bounds.append(tolerance.first_bounds)

    def accepted(self, tolerance: float) -> float:
        """Share of campaigns in which the first change was shown to lie within a tolerance."""
        return float(np.mean([-tolerance < low and high < tolerance for low, high in self.bounds]))


@dataclass(frozen=True)
class Judged:
    """The verdicts on a family of changes."""

    verdicts: list[str]
    significant: bool
    smallest_visible: float
    first_bounds: tuple[float, float]


@dataclass(frozen=True)
class Cell:
    """All campaigns on one kind of program: a row for each (k, r), and the changes of ρ that were really there."""

    rows: dict[tuple[int, int], Tally]
    planted: float
    tolerance: float


def judge(reference: FloatArray, observed: FloatArray, intervals: int, of_pairs: FloatArray | None = None) -> Judged:
    """Judge a family of changes as `Baseline` does, without its records."""
    compared = compare_runs(reference, observed, intervals=intervals, alpha=ALPHA, pair_variance=of_pairs)
    corrected = holm(compared.p)
    verdicts = [
        name_verdict(p, low, high, alpha=ALPHA, tolerance=TOLERANCE)
        for p, low, high in zip(corrected, compared.low, compared.high, strict=True)
    ]
    k, r = len(reference), len(observed)
    visible = [
        smallest_visible(float(z), float(error), k + r - 2, alpha=ALPHA, family=len(verdicts))
        for z, error in zip(compared.reference_z, compared.standard_error, strict=True)
    ]
    bounds = (float(compared.low[0]), float(compared.high[0]))
    return Judged(verdicts, bool((corrected <= ALPHA).any()), float(np.median(visible)), bounds)


def pair_correlations(traces: Sequence[Trace], names: Sequence[str]) -> FloatArray:
    """ρ of every pair in every run, shape (runs, pairs)."""
    first, second = zip(*combinations(range(len(names)), 2), strict=True)
    ranks = [standard_ranks(trace.values(names)) for trace in traces]
    return np.array([correlate_ranks(one, one)[list(first), list(second)] for one in ranks])


def inner_cell(campaigns: int, seed: int, phi: float, intervals: int) -> Cell:
    """Inner checks: 5 metrics, all pairs at ρ ≈ .5, one of them changed."""
    rng = np.random.default_rng([seed, round(100 * phi), intervals])
    matrix = simulate.equicorrelated(METRICS, RHO["unchanged"])
    program = simulate.program(rng, correlation=matrix, intervals=intervals, phi=phi)
    changed = {name: simulate.with_pair(matrix, (0, 1), rho) for name, rho in RHO.items()}
    rows: dict[tuple[int, int], Tally] = defaultdict(Tally)
    first: dict[str, list[float]] = defaultdict(list)
    for _ in range(campaigns):
        reference = pair_correlations(simulate.runs(program, rng, max(BASELINE_RUNS["inner"])), program.names)
        observed = {
            name: pair_correlations(simulate.runs(program, rng, max(CHECKED_RUNS), correlation=correlation), program.names)
            for name, correlation in changed.items()
        }
        first["reference"].append(fisher(reference[:, 0]).mean())
        for name, checked in observed.items():
            first[name].append(fisher(checked[:, 0]).mean())
        for k, r in product(BASELINE_RUNS["inner"], CHECKED_RUNS):
            rows[k, r].add(**{name: judge(reference[:k], rho[:r], intervals) for name, rho in observed.items()})
    return Cell(rows, *(change(first["reference"], first[name]) for name in ("planted", "tolerance")))


def outer_cell(campaigns: int, seed: int, phi: float, intervals: int) -> Cell:
    """Outer checks: every metric's signal is shared to 80 %, aligned on the last metric; checked runs share less in all."""
    rng = np.random.default_rng([seed, round(100 * phi), intervals, 1])
    matrix = simulate.equicorrelated(METRICS, 0.2)
    program = simulate.program(rng, correlation=matrix, intervals=intervals, phi=phi, shared=SHARED["unchanged"])
    names = program.names
    how = Outer(tuple((name, name) for name in names), names[-1:], simulate.MILESTONE)
    rows: dict[tuple[int, int], Tally] = defaultdict(Tally)
    first: dict[str, list[float]] = defaultdict(list)
    for _ in range(campaigns):
        reference = simulate.runs(program, rng, max(BASELINE_RUNS["outer"]))
        z = outer_matrix(reference, how)
        observed = {}
        for name, shared in SHARED.items():
            checked = simulate.runs(program, rng, max(CHECKED_RUNS), shared=shared)
            observed[name] = outer_of_checked(reference, checked, how)
            first[name].append(observed[name][:, :, 0].mean())
        for k, r in product(BASELINE_RUNS["outer"], CHECKED_RUNS):
            values, of_pairs = outer_of_reference(z[:k, :k]), pair_variance(z[:k, :k])
            rows[k, r].add(
                **{
                    name: judge(values, from_fisher(each[:k, :r].mean(axis=0)), intervals, of_pairs)
                    for name, each in observed.items()
                }
            )
    return Cell(rows, *(change(first["unchanged"], first[name]) for name in ("planted", "tolerance")))


def change(before: Sequence[float], after: Sequence[float]) -> float:
    """The fall of ρ from one list of z to another, means on Fisher's scale."""
    return float(from_fisher(np.mean(before)) - from_fisher(np.mean(after)))


def table(check: str, campaigns: int, seed: int) -> Iterator[str]:
    """One check's rows, as Markdown."""
    heads = ["φ", "intervals", "k", "r", "campaigns", "false alarms", "significant", "power", "against Δρ"]
    yield from header([*heads, "accepted", "at a tolerance of Δρ", "accepted unchanged", "smallest visible"])
    errors = []
    for phi, intervals in product(PHI, INTERVALS):
        count = campaigns if check == "inner" else max(20, campaigns // OUTER_SHARE[intervals])
        cell = (inner_cell if check == "inner" else outer_cell)(count, seed, phi, intervals)
        for (k, r), row in cell.rows.items():
            errors.append((count, row.false_alarms / count, row.significant / count, row.accepted(cell.tolerance)))
            shares = (row.false_alarms / count, row.significant / count, row.found / count)
            yield (
                f"| {phi} | {intervals} | {k} | {r} | {count} | {' | '.join(f'{share:.3f}' for share in shares)} | "
                f"{cell.planted:.2f} | {row.accepted(cell.tolerance):.3f} | {cell.tolerance:.3f} | "
                f"{np.mean(row.accepted_unchanged):.2f} | {np.median(row.visible):.2f} |"
            )
    most = max(count for count, *_ in errors)
    worst = np.max([shares for count, *shares in errors if count == most], axis=0)
    yield ""
    yield (
        f"Largest of the rows with {most} campaigns: false alarms {worst[0]:.3f}, significant {worst[1]:.3f}, "
        f"accepted {worst[2]:.3f}; the standard error of .05 is {np.sqrt(ALPHA * (1 - ALPHA) / most):.3f}."
    )


def spread_table(draws: int, seed: int, family: int = 66) -> Iterator[str]:
    """Why the test pools and the interval does not: normal populations, the checked runs' spread 1, 2 and 3 times as wide."""
    rng = np.random.default_rng(seed)
    heads = ["k", "r", "spread", "false alarms of 66: pooled", "Welch", "power: pooled", "Welch"]
    yield from header([*heads, "accepted at the tolerance: pooled", "Welch", "the wider"])
    for k, r, ratio in product(BASELINE_RUNS["inner"], CHECKED_RUNS, (1, 2, 3)):
        before = rng.standard_normal((draws, k))
        after = ratio * rng.standard_normal((draws, r))
        change = after.mean(axis=1) - before.mean(axis=1)
        first, second = before.var(axis=1, ddof=1), after.var(axis=1, ddof=1)
        pooled = np.sqrt(((k - 1) * first + (r - 1) * second) / (k + r - 2) * (1 / k + 1 / r))
        welch = np.sqrt(first / k + second / r)
        freedom = (first / k + second / r) ** 2 / ((first / k) ** 2 / (k - 1) + (second / r) ** 2 / (r - 1))
        cells = []
        for shift in (0, 4):
            for error, degrees in ((pooled, k + r - 2), (welch, freedom)):
                p = 2 * special.stdtr(degrees, -np.abs(change + shift) / error)
                cells.append(float((p <= ALPHA / family).mean()) * (family if shift == 0 else 1))
        halves = [pooled * special.stdtrit(k + r - 2, 1 - ALPHA), welch * special.stdtrit(freedom, 1 - ALPHA)]
        tolerance = 4.0
        halves.append(np.maximum(*halves))
        cells += [float((np.abs(change + tolerance) + half < tolerance).mean()) for half in halves]
        yield f"| {k} | {r} | {ratio} × | {' | '.join(f'{cell:.3f}' for cell in cells)} |"


def header(heads: Sequence[str]) -> Iterator[str]:
    """First two lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"


def commit() -> str:
    """The commit that made the figures, as git describes it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "no commit"


def page(campaigns: int, seed: int) -> str:
    """Run everything and write it down."""
    started = time.monotonic()
    inner, outer = "\n".join(table("inner", campaigns, seed)), "\n".join(table("outer", campaigns, seed))
    spread = "\n".join(spread_table(50 * campaigns, seed))
    command = shlex.join(["python", "docs/evidence/calibration.py", "--campaigns", str(campaigns), "--seed", str(seed)])
    return f"""# Calibration of the verdicts

Command: `{command}`; seed {seed}; commit {commit()}; {time.monotonic() - started:.0f} s on one core.

α = {ALPHA}. φ is the autocorrelation of the simulated signals from interval to interval; runs differ in their
signals, a little in their true correlations, and in where the intervals are cut.

- *false alarms*: share of campaigns in which an unperturbed configuration has a change called perturbed (family-wise; at most {ALPHA}).
- *significant*: share in which some change is significant family-wise, whether or not it is shown to lie within the tolerance; {ALPHA} is right.
- *power*: share in which a true change, Δρ as measured over all campaigns, is called perturbed.
- *accepted*: share in which a true change is called unperturbed when the tolerance is exactly as large (at most {ALPHA}).
- *accepted unchanged*: share of unchanged correlations that are shown to be unperturbed, at a tolerance of {TOLERANCE}.
- *smallest visible*: |Δρ| that would be found with power 80 %, median.

## Inner: 10 pairs of 5 metrics, ρ about .5

{inner}

## Outer: 5 metrics aligned on one of them through a milestone

In the changed configurations all metrics change; counted is the first. The values depend on one another, so the levels are approximate.

{outer}

## Pooled, or Welch?

Normal populations, no traces. Expected number of false alarms in a family of 66 at 5 %, power against 4 standard deviations in that family,
and acceptance of a change equal to a tolerance of 4 standard deviations, nominal 5 %.

{spread}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--campaigns", type=int, default=2000, help="inner campaigns of each kind of program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    chosen = parser.parse_args(arguments)
    chosen.output.write_text(page(chosen.campaigns, chosen.seed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
