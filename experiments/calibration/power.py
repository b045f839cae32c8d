"""Power of the whole verdict and of the inner check: a part of the calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from experiments.calibration.common import TOLERANCE, header, share
from experiments.calibration.inner import judge, pair_correlations
from tests.analysis import simulate
from unperturbed.analysis.perturbation import SHOWN, Baseline, combine_checks
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

GOAL = {"intervals": 3000, "phi": 0.95, "k": 10, "r": 3}
"""The case in which a planted change is to be found in 95 % of campaigns."""
PLANTED, OTHERS, FAMILY = (0.8, 0.5), 0.5, 12
"""Spearman's ρ of one pair before and after, of all other pairs, and the number of metrics."""

CURVES = {"k": (5, 10, 20), "r": (1, 3, 5, 10), "intervals": (300, 1000, 3000), "phi": (0.0, 0.7, 0.9, 0.95)}


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
    detections: dict[str, list[bool]] = defaultdict(list)
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
            detections[name].append(verdict.changes[0].verdict == "perturbed")
            others[name].append(any(change.verdict in SHOWN for change in verdict.changes[1:]))
        measured.append([fisher(each).mean() for each in (inner.changes[0].reference, inner.changes[0].observed)])
    yield from header(["family", "campaigns", "found", "another change called perturbed or shifted", "ρ as measured"])
    before, after_change = from_fisher(np.mean(measured, axis=0))
    for name, each in detections.items():
        yield (
            f"| {name} | {len(each)} | **{share(each)}** | {share(others[name])} | {before:.2f} → {after_change:.2f} |"
        )


def power_curves(
    campaigns: int, seed: int, phi: float, intervals: int
) -> Iterator[tuple[tuple[int, float, int, int], list[bool]]]:
    """Whether the planted change was found, for every k and r."""
    detections: dict[tuple[int, float, int, int], list[bool]] = defaultdict(list)
    rng = np.random.default_rng([seed, 3, intervals, round(100 * phi)])
    program, after = power_program(rng, intervals, phi)
    for _ in range(campaigns):
        reference = pair_correlations(simulate.runs(program, rng, int(max(CURVES["k"]))), program.names)
        observed = pair_correlations(
            simulate.runs(program, rng, int(max(CURVES["r"])), correlation=after), program.names
        )
        for k, r in product(map(int, CURVES["k"]), map(int, CURVES["r"])):
            verdicts, *_ = judge(reference[:k], observed[:r], intervals)
            detections[intervals, phi, k, r].append(verdicts[0] == "perturbed")
    yield from detections.items()


def power_table(detections: Mapping[tuple[int, float, int, int], Sequence[bool]]) -> Iterator[str]:
    """The same as a table: a row for n, φ and k, a column for r."""
    yield from header(["intervals", "φ", "k", *(f"r = {r}" for r in CURVES["r"])])
    for intervals, phi, k in product(CURVES["intervals"], CURVES["phi"], CURVES["k"]):
        cells = [f"{np.mean(detections[int(intervals), phi, int(k), int(r)]):.2f}" for r in CURVES["r"]]
        yield f"| {intervals} | {phi} | {k} | {' | '.join(cells)} |"


def plot(detections: Mapping[tuple[int, float, int, int], Sequence[bool]], target: Path) -> None:
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
            power = [np.mean(detections[int(intervals), phi, int(k), int(r)]) for r in CURVES["r"]]
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
