"""How often the verdicts are wrong, and what they find: simulated campaigns, written to `docs/evidence/calibration.md`.

    python docs/evidence/calibration.py --campaigns 1000 --seed 1 [--jobs 4]

A campaign is k baseline runs and r checked runs of a simulated program (`tests/analysis/simulate.py`), judged by the
same functions as real ones. One campaign's runs serve for every k and r, so rows of one kind of program are not
independent. The kinds of programs are independent pieces of work: with `--jobs`, or within `joblib.parallel_config`,
they are shared among processes, and the page is the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import special, stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]  # the simulated programs are part of the tests, not installed

from calibration_common import ALPHA, METRICS, TOLERANCE, classified, header, share  # noqa: E402  after the path is set
from calibration_outer import (  # noqa: E402
    NOISE_SPREAD,
    OUTER,
    OUTER_RHO,
    WIDER,
    WIDER_SPREAD,
    outer_cell,
    outer_header,
    wider_cell,
    wider_header,
)
from calibration_unlike import KINDS, unlike_header, unlike_row  # noqa: E402

from experiments.common.provenance import made_by  # noqa: E402
from tests.analysis import simulate  # noqa: E402
from unperturbed.analysis.multiple_testing import holm  # noqa: E402
from unperturbed.analysis.parallel import choose_workers  # noqa: E402
from unperturbed.analysis.perturbation import SHOWN, Baseline, Verdict, combine_checks  # noqa: E402
from unperturbed.analysis.perturbation.compare import compare_runs  # noqa: E402
from unperturbed.analysis.perturbation.compare_outer import (  # noqa: E402
    compare_outer_runs,
    pair_variance,
)
from unperturbed.analysis.perturbation.correlation import (  # noqa: E402
    FloatArray,
    correlate_ranks,
    fisher,
    from_fisher,
    standard_ranks,
)
from unperturbed.analysis.perturbation.outer import OuterSettings  # noqa: E402
from unperturbed.collectors.data import Trace  # noqa: E402

PHI, INTERVALS = (0.7, 0.95), (165, 1000)

WHOLE = ((5, 3), (10, 3), (10, 5))
"""Baseline runs and checked runs for which both checks are made."""
WHOLE_SHARE = {165: 2, 1000: 10}
"""They cost more than inner checks alone: one campaign for so many, by intervals."""
SHARED = {"unchanged": 0.8, "tolerance": 0.58}
"""The part of every signal that runs share; what the checked runs share moves outer correlations by about the
tolerance."""

INNER_BASELINE, INNER_CHECKED = (5, 10, 20), (3, 5)
RHO = {"unchanged": 0.5, "tolerance": 0.38}
"""Spearman's ρ of a pair in the checked runs: of one alone, or of every one."""

GOAL = {"intervals": 3000, "phi": 0.95, "k": 10, "r": 3}
"""The case in which a planted change is to be found in 95 % of campaigns."""
PLANTED, OTHERS, FAMILY = (0.8, 0.5), 0.5, 12
"""Spearman's ρ of one pair before and after, of all other pairs, and the number of metrics."""

CURVES = {"k": (5, 10, 20), "r": (1, 3, 5, 10), "intervals": (300, 1000, 3000), "phi": (0.0, 0.7, 0.9, 0.95)}


@dataclass
class Tally:
    """What the campaigns of one row gave: a list entry a campaign."""

    alarms: list[bool] = field(default_factory=list)
    significant: list[bool] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)

    def cells(self) -> str:
        """Shares and their standard errors, as cells of a table."""
        return " | ".join(share(each) for each in (self.alarms, self.significant))


# --- false alarms and acceptance of whole verdicts ---


def whole_header() -> Iterator[str]:
    """The header of the table of whole verdicts."""
    heads = ["φ", "intervals", "k", "r", "campaigns", "inner", "outer", "false alarms of the whole", "significant"]
    heads += ["unperturbed", "outer accepted", "outer called perturbed", "at a tolerance of Δρ"]
    yield from header([*heads, "other bound missed", "skewness"])


def whole_cell(campaigns: int, seed: int, phi: float, intervals: int) -> Iterator[str]:
    """Judge unchanged and slightly changed configurations by both checks in one family: 10 pairs and 5 metrics.

    Rows of one kind of program: all signals are shared to 80 %, and runs are aligned on the last metric through
    milestones.
    """
    campaigns = max(4, campaigns // WHOLE_SHARE[intervals])
    rng = np.random.default_rng([seed, round(100 * phi), intervals, 1])
    matrix = simulate.equicorrelated(METRICS, 0.2)
    program = simulate.program(rng, correlation=matrix, intervals=intervals, phi=phi, shared=SHARED["unchanged"])
    unchanged: dict[tuple[int, int], list[tuple[Verdict, Verdict, Verdict]]] = defaultdict(list)
    changed: dict[tuple[int, int], list[Verdict]] = defaultdict(list)
    shared: dict[tuple[int, int], list[FloatArray]] = defaultdict(list)
    settings = OuterSettings(tuple((name, name) for name in program.names), program.names[-1:], simulate.MILESTONE)
    for _ in range(campaigns):
        reference = simulate.runs(program, rng, max(k for k, _ in WHOLE))
        checked = {
            name: simulate.runs(program, rng, max(r for _, r in WHOLE), configuration=name, shared=shared)
            for name, shared in SHARED.items()
        }
        baselines = {k: Baseline(reference[:k], metrics=program.names, tolerance=TOLERANCE) for k, _ in WHOLE}
        for k, r in WHOLE:
            outer = [
                baselines[k].outer(checked[name][:r], align_on=program.names[-1:], anchor=simulate.MILESTONE)
                for name in SHARED
            ]
            inner = baselines[k].inner(checked["unchanged"][:r])
            unchanged[k, r].append((inner, outer[0], combine_checks("unchanged", inner, outer[0])))
            changed[k, r].append(outer[1])
            shared[k, r].append(pair_variance(baselines[k]._outer_matrix(settings)))
    truth = true_changes([outer for _, outer, _ in unchanged[WHOLE[-1]]], changed[WHOLE[-1]])
    for (k, r), verdicts in unchanged.items():
        alarms = [share([verdict.verdict in SHOWN for verdict in each]) for each in zip(*verdicts, strict=True)]
        joint = [verdict for *_, verdict in verdicts]
        pairs = [list(zip(truth, verdict.changes, strict=True)) for verdict in changed[k, r]]
        accepted = [np.mean([fall < change.low and change.high < -fall for fall, change in each]) for each in pairs]
        beyond = [
            outer_beyond(verdict, each, intervals, np.abs(truth))
            for verdict, each in zip(changed[k, r], shared[k, r], strict=True)
        ]
        missed = [np.mean([change.high < fall for fall, change in each]) for each in pairs]
        yield (
            f"| {phi} | {intervals} | {k} | {r} | {campaigns} | {alarms[0]} | {alarms[1]} | **{alarms[2]}** | "
            f"{share([min(change.p_corrected for change in verdict.changes) <= ALPHA for verdict in joint])} | "
            f"{np.mean([verdict.verdict == 'unperturbed' for verdict in joint]):.2f} | {share(accepted)} | "
            f"**{share(beyond)}** | {-np.mean(truth):.3f} | "
            f"{share(missed)} | {skewness(changed[k, r]):.2f} |"
        )


def outer_beyond(verdict: Verdict, shared: FloatArray, intervals: int, tolerances: FloatArray) -> bool:
    """Whether any outer change is called perturbed, at a tolerance that is exactly its true change."""
    reference, observed = (
        np.array([getattr(change, side) for change in verdict.changes]).T for side in ("reference", "observed")
    )
    compared = compare_outer_runs(reference, observed, shared, intervals=intervals, alpha=ALPHA)
    return "perturbed" in classified(compared, compared.p_beyond(tolerances), tolerances)


def judged_at(reference: FloatArray, observed: FloatArray, intervals: int, tolerances: FloatArray) -> list[str]:
    """Judge a family of inner changes, each at a tolerance of its own."""
    compared = compare_runs(reference, observed, intervals=intervals, alpha=ALPHA)
    return classified(compared, compared.p_beyond(tolerances), tolerances)


def skewness(verdicts: Sequence[Verdict]) -> float:
    """The skewness of the checked runs' values on Fisher's scale, mean over changes."""
    values = np.concatenate([fisher([change.observed for change in verdict.changes]) for verdict in verdicts], axis=1)
    return float(stats.skew(values, axis=1).mean())


def true_changes(unchanged: Sequence[Verdict], changed: Sequence[Verdict]) -> list[float]:
    """The fall of each ρ from unchanged to changed checked runs, over all campaigns, means on Fisher's scale."""
    before, after = (
        from_fisher(fisher([[change.observed for change in verdict.changes] for verdict in each]).mean(axis=(0, 2)))
        for each in (unchanged, changed)
    )
    return [float(fall) for fall in after - before]


# --- inner checks alone, where more campaigns can be had ---


def pair_correlations(traces: Sequence[Trace], names: Sequence[str]) -> FloatArray:
    """ρ of every pair in every run, shape (runs, pairs)."""
    first, second = zip(*combinations(range(len(names)), 2), strict=True)
    ranks = [standard_ranks(trace.values(names)) for trace in traces]
    return np.array([correlate_ranks(one, one)[list(first), list(second)] for one in ranks])


def judge(
    reference: FloatArray, observed: FloatArray, intervals: int
) -> tuple[list[str], FloatArray, FloatArray, FloatArray]:
    """Judge a family of pairs as `Baseline.inner` does, without its records: verdicts, corrected p-values, bounds."""
    compared = compare_runs(reference, observed, intervals=intervals, alpha=ALPHA)
    verdicts = classified(compared, compared.p_beyond(TOLERANCE), np.full(len(compared.p), TOLERANCE))
    return verdicts, holm(compared.p), compared.low, compared.high


def inner_header() -> Iterator[str]:
    """The header of the table of inner checks."""
    heads = ["φ", "intervals", "k", "r", "campaigns", "false alarms", "significant"]
    yield from header(
        [*heads, "accepted", "one called perturbed", "any of all called perturbed", "at a tolerance of Δρ"]
    )


def inner_cell(campaigns: int, seed: int, phi: float, intervals: int) -> Iterator[str]:
    """Inner checks of 10 pairs with ρ ≈ .5, unchanged, and with one pair changed by about the tolerance."""
    matrix = simulate.equicorrelated(METRICS, RHO["unchanged"])
    changed = {name: simulate.with_pair(matrix, (0, 1), rho) for name, rho in RHO.items()}
    changed["every"] = simulate.equicorrelated(METRICS, RHO["tolerance"])
    rng = np.random.default_rng([seed, round(100 * phi), intervals])
    program = simulate.program(rng, correlation=matrix, intervals=intervals, phi=phi)
    rows: dict[tuple[int, int], Tally] = defaultdict(Tally)
    bounds: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    means: dict[str, list[FloatArray]] = defaultdict(list)
    kept = []
    for _ in range(campaigns):
        reference = pair_correlations(simulate.runs(program, rng, max(INNER_BASELINE)), program.names)
        observed = {
            name: pair_correlations(simulate.runs(program, rng, max(INNER_CHECKED), correlation=each), program.names)
            for name, each in changed.items()
        }
        for name, each in (("before", reference), *observed.items()):
            means[name].append(fisher(each).mean(axis=0))
        kept.append((reference, observed))
        for k, r in product(INNER_BASELINE, INNER_CHECKED):
            verdicts, corrected, *_ = judge(reference[:k], observed["unchanged"][:r], intervals)
            rows[k, r].alarms.append(any(verdict in SHOWN for verdict in verdicts))
            rows[k, r].significant.append(bool((corrected <= ALPHA).any()))
            *_, low, high = judge(reference[:k], observed["tolerance"][:r], intervals)
            bounds[k, r].append((low[0], high[0]))
    before = from_fisher(np.mean(means["before"], axis=0))
    falls = {name: np.abs(before - from_fisher(np.mean(means[name], axis=0))) for name in ("tolerance", "every")}
    fall = float(falls["tolerance"][0])
    for (k, r), row in rows.items():
        accepted = share([-fall < low and high < fall for low, high in bounds[k, r]])
        # One pair at the tolerance among unchanged ones, and all of them there.
        one = [
            judged_at(reference[:k], observed["tolerance"][:r], intervals, np.full(len(before), fall))[0]
            for reference, observed in kept
        ]
        every = [
            judged_at(reference[:k], observed["every"][:r], intervals, falls["every"]) for reference, observed in kept
        ]
        yield (
            f"| {phi} | {intervals} | {k} | {r} | {campaigns} | {row.cells()} | {accepted} | "
            f"{share([verdict == 'perturbed' for verdict in one])} | "
            f"**{share(['perturbed' in verdicts for verdicts in every])}** | {fall:.3f} |"
        )


# --- power ---


def power_program(rng: np.random.Generator, intervals: int, phi: float) -> tuple[simulate.Program, FloatArray]:
    """A program with one pair that goes together strongly, and the correlations of the runs in which it goes
    together less."""
    others = simulate.equicorrelated(FAMILY, OTHERS)
    before, after = (simulate.with_pair(others, (0, 1), rho) for rho in PLANTED)
    return simulate.program(rng, correlation=before, intervals=intervals, phi=phi, shared=0.0), after


def goal_table(campaigns: int, seed: int) -> Iterator[str]:
    """The stated case through `Baseline` and `combine_checks`; with outer checks, which cost more, in a quarter of
    the campaigns."""
    rng = np.random.default_rng([seed, 2])
    program, after = power_program(rng, int(GOAL["intervals"]), GOAL["phi"])
    found: dict[str, list[bool]] = defaultdict(list)
    others: dict[str, list[bool]] = defaultdict(list)
    measured = []
    for number in range(campaigns):
        baseline = Baseline(simulate.runs(program, rng, int(GOAL["k"])), metrics=program.names, tolerance=TOLERANCE)
        checked = simulate.runs(program, rng, int(GOAL["r"]), configuration="planted", correlation=after)
        inner = baseline.inner(checked)
        judged = {f"{len(inner.changes)} pairs": inner}
        if number < campaigns // 4:
            outer = baseline.outer(checked, align_on=program.names[-1:], anchor=simulate.MILESTONE)
            judged[f"{len(inner.changes)} pairs and {len(outer.changes)} outer changes"] = combine_checks(
                "planted", inner, outer
            )
        for name, verdict in judged.items():
            found[name].append(verdict.changes[0].verdict == "perturbed")
            others[name].append(any(change.verdict in SHOWN for change in verdict.changes[1:]))
        measured.append([fisher(each).mean() for each in (inner.changes[0].reference, inner.changes[0].observed)])
    yield from header(["family", "campaigns", "found", "another change called perturbed or shifted", "ρ as measured"])
    before, after_change = from_fisher(np.mean(measured, axis=0))
    for name, each in found.items():
        yield (
            f"| {name} | {len(each)} | **{share(each)}** | {share(others[name])} | {before:.2f} → {after_change:.2f} |"
        )


def power_curves(
    campaigns: int, seed: int, phi: float, intervals: int
) -> Iterator[tuple[tuple[int, float, int, int], list[bool]]]:
    """Whether the planted change was found, for every k and r."""
    found: dict[tuple[int, float, int, int], list[bool]] = defaultdict(list)
    rng = np.random.default_rng([seed, 3, intervals, round(100 * phi)])
    program, after = power_program(rng, intervals, phi)
    for _ in range(campaigns):
        reference = pair_correlations(simulate.runs(program, rng, int(max(CURVES["k"]))), program.names)
        observed = pair_correlations(
            simulate.runs(program, rng, int(max(CURVES["r"])), correlation=after), program.names
        )
        for k, r in product(map(int, CURVES["k"]), map(int, CURVES["r"])):
            verdicts, *_ = judge(reference[:k], observed[:r], intervals)
            found[intervals, phi, k, r].append(verdicts[0] == "perturbed")
    yield from found.items()


def power_table(found: Mapping[tuple[int, float, int, int], Sequence[bool]]) -> Iterator[str]:
    """The same as a table: a row for n, φ and k, a column for r."""
    yield from header(["intervals", "φ", "k", *(f"r = {r}" for r in CURVES["r"])])
    for intervals, phi, k in product(CURVES["intervals"], CURVES["phi"], CURVES["k"]):
        cells = [f"{np.mean(found[int(intervals), phi, int(k), int(r)]):.2f}" for r in CURVES["r"]]
        yield f"| {intervals} | {phi} | {k} | {' | '.join(cells)} |"


def plot(found: Mapping[tuple[int, float, int, int], Sequence[bool]], target: Path) -> None:
    """Draw power against checked runs, a panel for each number of intervals and autocorrelation, a line for each k."""
    import matplotlib as mpl  # noqa: PLC0415  slow to load
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "calibration", "font.size": 8})
    rows, columns = CURVES["intervals"], CURVES["phi"]
    figure, panels = plt.subplots(
        len(rows), len(columns), figsize=(2.2 * len(columns), 1.9 * len(rows)), sharex=True, sharey=True
    )
    for (intervals, phi), panel in zip(product(rows, columns), panels.flat, strict=True):
        for k in CURVES["k"]:
            power = [np.mean(found[int(intervals), phi, int(k), int(r)]) for r in CURVES["r"]]
            panel.plot(CURVES["r"], power, marker="o", markersize=3, label=f"k = {k}")
        panel.axhline(0.95, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=f"n = {intervals}, φ = {phi}", ylim=(-0.03, 1.03), xticks=CURVES["r"])
    for panel in panels[-1]:
        panel.set_xlabel("checked runs r")
    for panel in panels[:, 0]:
        panel.set_ylabel("found")
    panels[0, 0].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    target.write_text(
        "\n".join(line.rstrip() for line in target.read_text(encoding="utf-8").splitlines()) + "\n", encoding="utf-8"
    )


# --- the statistics alone ---


def spread_table(draws: int, seed: int, family: int = 66) -> Iterator[str]:
    """Why the test pools and the interval does not: normal populations, the checked runs' spread 1, 2 and 3 times as
    wide."""
    rng = np.random.default_rng(seed)
    heads = ["k", "r", "spread", "false alarms of 66: pooled", "Welch", "power: pooled", "Welch"]
    yield from header([*heads, "accepted at the tolerance: pooled", "Welch", "the wider"])
    for k, r, ratio in product(INNER_BASELINE, INNER_CHECKED, (1, 2, 3)):
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


Task = tuple[str, Callable[..., Iterator[Any]], tuple[Any, ...]]


def execute(_common: None, task: Task) -> tuple[list[Any], float]:
    """Make the rows of one task, in whatever process; return them, and the CPU time that they took."""
    _, function, arguments = task
    started = time.process_time()
    return list(function(*arguments)), time.process_time() - started


def page(campaigns: int, seed: int, drawing: Path) -> str:
    """Run everything and write it down."""
    made, started = made_by(), time.process_time()
    kinds = [(campaigns, seed, phi, intervals) for phi, intervals in product(PHI, INTERVALS)]
    curves = [
        (max(4, campaigns // 10), seed, phi, int(intervals))
        for intervals, phi in product(CURVES["intervals"], CURVES["phi"])
    ]
    tasks: list[Task] = [
        *(("whole", whole_cell, kind) for kind in kinds),
        *(("inner", inner_cell, kind) for kind in kinds),
        ("goal", goal_table, (max(4, campaigns * 2 // 5), seed)),
        *(
            ("outer", outer_cell, (max(4, campaigns * 2 // 5), seed, rho, spread))
            for rho, spread in product(OUTER_RHO, NOISE_SPREAD)
        ),
        *(("wider", wider_cell, (max(4, campaigns * 2 // 5), seed, *kind)) for kind in WIDER),
        *(("unlike", unlike_row, (max(4, campaigns * 2 // 5), seed, kind)) for kind in KINDS),
        *(("curves", power_curves, curve) for curve in curves),
        ("spread", spread_table, (50 * campaigns, seed)),
    ]
    workers = choose_workers(kernels=False)
    heads = {
        "whole": whole_header,
        "inner": inner_header,
        "outer": outer_header,
        "wider": wider_header,
        "unlike": unlike_header,
    }
    found: dict[str, list[Any]] = {name: [*head()] for name, head in heads.items()}
    elsewhere = 0.0
    with closing(workers.map(execute, None, tasks)) as in_order:
        for (name, *_), (rows, seconds) in zip(tasks, in_order, strict=True):
            found.setdefault(name, []).extend(rows)
            elsewhere += seconds if workers.count > 1 else 0.0
    power = dict(found.pop("curves"))
    plot(power, drawing)
    tables = {**found, "power": power_table(power)}
    tables["summary"] = list(summary(tables))
    written = {name: "\n".join(table) for name, table in tables.items()}
    return PAGE.format(
        made=made, seconds=time.process_time() - started + elsewhere,
        figure=drawing.name, outer_campaigns=max(4, campaigns * 2 // 5), outer_intervals=OUTER["intervals"],
        wider_spread=WIDER_SPREAD,
        alpha=ALPHA, tolerance=TOLERANCE, floor=ALPHA / 5, curve_campaigns=max(4, campaigns // 10), before=PLANTED[0],
        after=PLANTED[1],
        others=OTHERS, **GOAL, **written,
    )  # fmt: skip


def summary(tables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The rates of all kinds of campaigns in a few rows, which the explanation of the verdicts quotes."""

    def shares(table: str, column: str) -> list[tuple[float, float]]:
        heads = [cell.strip() for cell in tables[table][0].split("|")]
        cells = [row.split("|")[heads.index(column)].strip("* ").split(" ± ") for row in tables[table][2:]]
        return [(float(share), float(error)) for share, error in cells]

    rows = {
        "false alarms, inner and outer check together": ("whole", "false alarms of the whole"),
        "false alarms, inner check alone": ("inner", "false alarms"),
        "called perturbed at the tolerance, inner check: one pair has changed": ("inner", "one called perturbed"),
        "… every pair has changed": ("inner", "any of all called perturbed"),
        "called perturbed at the tolerance, outer check: every metric has changed": ("whole", "outer called perturbed"),
        "called unperturbed at the tolerance, inner check": ("inner", "accepted"),
        "called unperturbed at the tolerance, outer check": ("whole", "outer accepted"),
    }
    yield from header(["error", "kinds of campaigns", "smallest share", "mean", "largest", "its standard error"])
    for name, place in rows.items():
        found = shares(*place)
        largest, error = max(found)
        mean = np.mean([share for share, _ in found])
        yield f"| {name} | {len(found)} | {min(found)[0]:.3f} | {mean:.3f} | {largest:.3f} | {error:.3f} |"


PAGE = """# Calibration of the verdicts

{made} It took {seconds:.0f} s of one core.

**What changed on this page, and why.** Since November 2026 outer changes are compared on Fisher's scale, with the
spread that runs have at their level of agreement. Before, on the scale ρ / (1 − ρ), a fall from .99 to .5 was often
called only *shifted*. The inner check allows for correlations near 1, which vary less: before, a fall by exactly the
tolerance from .9999 was called *perturbed* in 28 % of campaigns, from .999 in 18 %. The tables of outer checks and of
checked runs that differ in other ways are new.

Simulated campaigns of k baseline runs and r checked runs. φ is the autocorrelation of the signals from interval to
interval; runs differ in their signals, a little in their true correlations, and in where the intervals are cut. α =
{alpha}, tolerance {tolerance}. Each share of campaigns stands with its standard error. What real programs give: [runs
held back](held_back.md).

- *false alarms*: share of campaigns in which an unchanged configuration is called shifted or perturbed, family-wise. It
  may be {alpha} at most.
- *significant*: share in which some change is significant family-wise, whether or not it is shown to lie within the
  tolerance. This is the test's own level: {alpha} is right.
- *unperturbed*: share in which the whole unchanged configuration is shown to be unperturbed.
- *accepted*: share in which a true change is called unperturbed when the tolerance is exactly as large: {alpha} is
  right, and less is safe. *Other bound missed*: share in which the true change is larger than the interval says.
  *Skewness*: of the checked runs' outer values, on Fisher's scale.
- *called perturbed*: share in which a true change is called perturbed, that is beyond the tolerance, when the tolerance
  is exactly as large, family-wise: {alpha} at most. For outer checks every metric has changed by exactly the tolerance;
  for inner checks one pair has (*one*), or every pair (*any of all*, the worst case).

## In short

{summary}

## The whole verdict

Inner check of 10 pairs and outer check of 5 metrics (aligned on one of them, through milestones), joined to one family
by `Baseline` and
`combine_checks`.

{whole}

**Why false alarms go below α/5 = {floor}.** A change that is shown to lie within the tolerance is *unperturbed*, even
if it is significant. The more is known (long runs, many runs, low autocorrelation), the more of the 5 % that are
significant by chance are shown to be too small to matter. The column *significant* shows the test without that.

**What is left of skewness.** The outer correlation of two runs cannot exceed what each of the two has in common with
the program, so its values are skewed towards low ones, and in a skewed sample a high mean comes with a small spread.
The end of the interval that shows a change to lie within the tolerance is therefore taken at α/2.

## Outer checks

10 baseline and 3 (or 5) checked runs of {outer_intervals} intervals, 5 metrics, {outer_campaigns} campaigns each. A run
is the program and noise of its own, whose logarithm varies from run to run with the standard deviation of the
second column; the third has the values of the baseline's runs, 90 % of them. *Found*: one metric falls by about .3 and
is called perturbed (tolerance {tolerance}). Goal: 95 % of campaigns. *False alarms*, *accepted* and *called perturbed*
as above, the latter two with all metrics at the tolerance.

{outer}

*Oracle*: of one metric alone, the share that a test would find which knew how falls by the tolerance are distributed:
the most that three runs can show, without a family. Where the noise varies as in the last row of each group, three runs
do not tell where their mean lies, by whatever test.

Checked runs whose noise varies more than that of the baseline's, from run to run, where the spread at their level is
not known beforehand (the baseline's noise varies by {wider_spread}):

{wider}

Three runs show a spread poorly. Where they spread several times as wide as runs at their level should, more than
{alpha} of the campaigns call a fall by the tolerance *perturbed*, fewer by far than if the baseline's spread were taken
for theirs. Give such a configuration more runs. One checked run
shows no spread at all: a disturbance that comes in one run of several cannot be told from one that is always there.

## Inner checks

10 pairs of 5 metrics, ρ about .5; one pair is changed by about the tolerance.

{inner}

### Where checked runs differ in other ways

10 baseline and 3 checked runs, {outer_campaigns} campaigns each, φ = 0.7. *False alarms*: all correlations are
unchanged on average; *of these perturbed*: at a tolerance of {tolerance}. *Accepted* and *called perturbed*: all pairs
fall by the tolerance. The spread of z is that between runs, on Fisher's scale.

{unlike}

A correlation near 1 varies little on Fisher's scale, and more when it has fallen. The check allows for that. It cannot
know how much more other runs vary, and three runs hardly show it. Then more than {alpha} of the unchanged
configurations are called shifted, and more than {alpha} of the falls by the tolerance perturbed. A note says that the
checked runs vary more. Give them more runs, and as many intervals as the baseline has. If each of many metrics is
disturbed in one run of ten, three runs of some metric hold two disturbances by chance.

## Power

{k} baseline runs, {r} checked runs of {intervals} intervals, φ = {phi}, 12 metrics: one of 66 pairs changes from ρ =
{before} to {after}, all others stay at {others}. Goal: found in 95 % of campaigns. Runs differ in their true
correlations, which are somewhat lower on average, so that the change that can be measured is smaller than that.

{goal}

The same change with other numbers of intervals n, baseline runs k, checked runs r and autocorrelations φ,
{curve_campaigns} campaigns each:

![Share of campaigns in which the change is found]({figure})

{power}

## Pooled, or Welch?

Normal populations, no traces. Expected number of false alarms in a family of 66 at 5 %, power against 4 standard
deviations in that family, and acceptance of a change equal to a tolerance of 4 standard deviations, nominal 5 %.

{spread}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--campaigns", type=int, default=1000, help="inner campaigns of each kind of program; others are shares of it"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    parser.add_argument("--jobs", type=int, help="processes among which the kinds of programs are shared")
    chosen = parser.parse_args(arguments)
    with nullcontext() if chosen.jobs is None else joblib.parallel_config("loky", n_jobs=chosen.jobs):
        written = page(chosen.campaigns, chosen.seed, chosen.output.with_suffix(".svg"))
    chosen.output.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
