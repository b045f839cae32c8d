"""False alarms and acceptance of whole verdicts, by both checks in one family: a part of the calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header, share
from tests.analysis import simulate
from unperturbed.analysis.perturbation import SHOWN, Baseline, Verdict, combine_checks
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.outer import OuterSettings

WHOLE = ((5, 3), (10, 3), (10, 5))
"""Baseline runs and checked runs for which both checks are made."""
WHOLE_SHARE = {165: 2, 1000: 10}
"""They cost more than inner checks alone: one campaign for so many, by intervals."""
SHARED = {"unchanged": 0.8, "tolerance": 0.58}
"""The part of every signal that runs share; what the checked runs share moves outer correlations by about the
tolerance."""


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
