"""Verdicts from comparisons: family-wise correction, classification, combined checks, origins by sham builds.

Instrumentation moves code, and code at other addresses has other cache misses: Mytkowicz et al., "Producing wrong data
without doing anything obviously wrong" (2009). One binary is one sample of the layout. A *sham* build is rewritten in
the same way, with inert instructions instead of counting ones. A change from the baseline to the sham is caused by the
layout (and by the presence of the instructions); a change from the sham to the counting build, by the counting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unperturbed.analysis.multiple_testing import benjamini_hochberg, holm, holm_of_intervals
from unperturbed.analysis.perturbation.compare import Comparison, smallest_visible, wider_below_one
from unperturbed.analysis.perturbation.compare_outer import COUNTED, FAR_LEVEL, following, relative_spread
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, fisher_slope, from_fisher
from unperturbed.analysis.perturbation.rounds import variance_added
from unperturbed.analysis.perturbation.verdict import (
    OPEN,
    SHOWN,
    Change,
    OriginName,
    Overhead,
    Verdict,
    VerdictName,
    combine,
)
from unperturbed.analysis.planned_runs import Noise, runs_to_decide
from unperturbed.errors import DataError

_ORIGINS: Mapping[tuple[bool, bool], OriginName] = {
    (True, True): "both",
    (True, False): "layout",
    (False, True): "counting",
    (False, False): "unclear",
}


def classify_change(
    p_corrected: float, p_beyond_corrected: float, low: float, high: float, *, alpha: float, tolerance: float
) -> VerdictName:
    """Return the verdict on one change, from its corrected p-values, its interval and the tolerance.

    All verdicts by the variation between runs are decided here.

    `low`, `high`: Confidence interval of the change of ρ, one-sided at α each.
    `tolerance`: Largest |Δρ| that counts as no perturbation; with 0, any change that is shown is *perturbed*.
    Result: *unperturbed*: the interval lies within ± tolerance, whether or not a change is shown. Each change is tested
    at α by itself: a configuration is unperturbed only if all changes are (intersection–union), so testing more pairs
    never makes acceptance easier. *perturbed*: the change exceeds the tolerance significantly (family-wise), and the
    interval lies outside the tolerance. The interval is needed because the p-value does not account for checked runs
    that spread wider than the reference's. *shifted*: the same with 0 instead of the tolerance. *undecided*: none of
    these.
    """
    if -tolerance < low and high < tolerance:
        return "unperturbed"
    if not p_corrected <= alpha or low <= 0 <= high:  # a p-value of NaN shows no change
        return "undecided"
    beyond = p_beyond_corrected <= alpha and (low > tolerance or high < -tolerance)
    return "perturbed" if beyond else "shifted"


def decide(changes: Sequence[Change], *, alpha: float) -> tuple[Change, ...]:
    """Correct the p-values of a family of changes; add verdicts, smallest visible changes and runs needed."""
    if not changes:
        return ()
    p = [change.p for change in changes]
    # With tolerance 0, both tests ask the same question, with point hypotheses.
    beyond = [change.p_beyond for change in changes]
    of_beyond = holm(beyond) if changes[0].tolerance == 0 else holm_of_intervals(beyond)
    corrected = zip(changes, holm(p).tolist(), of_beyond.tolist(), benjamini_hochberg(p).tolist(), strict=True)
    return tuple(
        _decided(
            replace(change, p_corrected=family_wise, p_beyond_corrected=of_interval, p_discovery=rate),
            alpha=alpha,
            family=len(changes),
        )
        for change, family_wise, of_interval, rate in corrected
    )


def combine_checks(configuration: str, *checks: Verdict) -> Verdict:
    """Combine the verdicts of several checks and passes of one configuration.

    p-values are corrected over all changes together.

    Parameters
    ----------
    configuration : str
        Configuration that the combined verdict names.
    checks : Verdict
        At least one verdict of `Baseline.inner` or `Baseline.outer`, all with the same α and tolerance. The reference
        is that of the first verdict; the overhead is that of the first verdict that has one.

    Raises
    ------
    DataError
        The checks differ in α or tolerance, or only some of them use the paper's rule.
    """
    first = checks[0]
    for other in checks[1:]:
        if (first.alpha, first.tolerance) != (other.alpha, other.tolerance):
            raise DataError(
                f"configuration {configuration!r}: one check has α {first.alpha} and tolerance {first.tolerance}, "
                f"another has α {other.alpha} and tolerance {other.tolerance}: use one baseline for both"
            )
        if first.method != other.method and "paper" in (first.method, other.method):
            raise DataError(
                f"configuration {configuration!r}: one check has method {first.method}, another has {other.method}: "
                "use one method for both"
            )
    changes = tuple(change for check in checks for change in check.changes)
    if first.method != "paper":  # the paper's rule has no family-wise correction
        changes = decide(changes, alpha=first.alpha)
    lost = tuple(dict.fromkeys(entry for check in checks for entry in check.lost))
    return replace(
        first,
        configuration=configuration,
        verdict=combine((change.verdict for change in changes), lost=bool(lost)),
        changes=changes,
        excluded=tuple(dict.fromkeys(entry for check in checks for entry in check.excluded)),
        lost=lost,
        overhead=next((check.overhead for check in checks if check.overhead != Overhead()), Overhead()),
        method="bootstrap" if any(check.method == "bootstrap" for check in checks) else first.method,
        notes=tuple(dict.fromkeys(note for check in checks for note in check.notes)),
        simulated=any(check.simulated for check in checks),
    )


def origin_of_change(layout: VerdictName, counting: VerdictName) -> OriginName:
    """Return the origin of a change; an effect that is not shown may still exist, but too small to show."""
    return _ORIGINS[layout in SHOWN, counting in SHOWN]


def with_origins(verdict: Verdict, layout: Verdict, counting: Verdict) -> Verdict:
    """Add the origin (counting, layout, both or unclear) to each shown change of a configuration."""
    of_layout, of_counting = _by_pair(layout), _by_pair(counting)
    return replace(
        verdict,
        changes=tuple(
            replace(change, origin=origin_of_change(of_layout[key].verdict, of_counting[key].verdict))
            if change.verdict in SHOWN
            and (key := (change.check, change.first, change.second)) in of_layout.keys() & of_counting.keys()
            else change
            for change in verdict.changes
        ),
    )


def _by_pair(verdict: Verdict) -> dict[tuple[str, str, str], Change]:
    return {(change.check, change.first, change.second): change for change in verdict.changes}


def _decided(change: Change, *, alpha: float, family: int) -> Change:
    verdict = classify_change(
        change.p_corrected,
        change.p_beyond_corrected,
        change.low,
        change.high,
        alpha=alpha,
        tolerance=change.tolerance,
    )
    level = alpha / change.designs
    reference_mean = float(fisher(change.reference).mean())
    visible = smallest_visible(reference_mean, change.standard_error, change.freedom, alpha=level, family=family)
    needed = None
    if verdict in OPEN and change.more_runs_help:
        needed = runs_to_decide(
            noise_of(change, changed=True),
            float(fisher(from_fisher(reference_mean) + change.effect)) - reference_mean,
            alpha=alpha,
            family=family,
            unchanged=noise_of(change) if change.low <= 0 <= change.high else None,
        )
    return replace(change, verdict=verdict, smallest_visible=visible, runs_to_decide=needed)


def tolerance_on_scale(level: float, tolerance: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return how far a tolerance reaches below and above a level of Fisher's scale, and how much an error of it counts.

    Not by the slope at the level: near ±1 the scale is so curved that a fall by the tolerance would look several times
    as far. An error of the level counts more at the end towards which the scale gets steeper, as in Zou's interval.
    """
    rho = float(from_fisher(level))
    ends = [rho + side * tolerance for side in (-1, 1)]
    below, above = (math.inf if abs(end) >= 1 else abs(float(fisher(end)) - level) for end in ends)
    flat = tolerance * float(fisher_slope(rho))
    return (below, above), (below / min(flat, above), above / min(flat, below)) if flat else (1.0, 1.0)


def noise_of(change: Change, *, changed: bool = False) -> Noise:
    """Return the noise of a change on Fisher's scale; with `changed`, that of runs which did change by the effect."""
    before, after = fisher(change.reference), fisher(change.observed)
    k, r = len(before), len(after)
    within = bool(change.partners) and change.freedom == r - 1
    outer = change.check in ("outer", "across")
    bounds, counts = tolerance_on_scale(float(before.mean()), change.tolerance)
    made = Noise(
        change.standard_error,
        change.freedom,
        k,
        r,
        bounds,
        designs=change.designs,
        within=within,
        apart=change.independent_error / math.sqrt(1 / k + 1 / r),
        counted=COUNTED if outer else 1.0,
        far_level=FAR_LEVEL if outer else 1.0,
    )
    if within:
        added = variance_added(before[list(change.partners)], after)
        return replace(made, observed_error=math.sqrt(max(0.0, change.standard_error**2 - added / r)))
    means = np.array([before.mean()]), np.array([after.mean()])
    if not changed:
        if not outer:
            return replace(made, counts=counts)
        # By chance, the checked runs' mean lies lower, and the interval is that of their spread there. How often runs
        # planned with a quarter of the tolerance are accepted: docs/evidence/totals.md, "Advised numbers of runs".
        rho = from_fisher(means[0])
        relative = relative_spread(rho, rho - change.tolerance / 4)
        return replace(made, counts=counts, relative=float(relative[0]))
    relative = (relative_spread if outer else wider_below_one)(*map(from_fisher, means))
    follows = 2 - float(following(*means)[0]) if outer else 1.0
    return replace(made, relative=float(relative[0]), counts=(follows * counts[0], follows * counts[1]))


def compare_as_paper(reference: FloatArray, observed: FloatArray) -> Comparison:
    """Compare by the paper's own rule: a deviation counts if it exceeds every deviation among baseline runs.

    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.3: "If the deviation […]
    is smaller than the deviation observed due to non-determinism, then the deviation is not significant; if it is
    larger, then it is significant." The paper does not say how the deviation among baselines is measured; here it is
    the largest distance of a baseline run from the baseline's mean.

    Use this rule to reproduce the paper, not to decide: of k exchangeable baseline runs and one checked run, the
    checked run is the farthest out in one of k + 1 cases, for each pair separately. With 10 baseline runs and 66
    independent pairs, an unperturbed configuration is called perturbed in 99.8 % of cases. The rule also calls any
    change "not perturbed" that noise could hide.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row for each run. The paper
    checks one run; for several runs, their mean is used.
    Result: `effect` is the change of the mean ρ; `low` and `high` are as far from it as the farthest baseline run
    is from the baseline's mean; `p` is the share of deviations, including the checked one, that are at least as large
    as the effect: never below 1/(k + 1). There is no standard error (NaN).
    """
    middle = reference.mean(axis=0)
    effect = observed.mean(axis=0) - middle
    deviations = np.abs(reference - middle)
    largest = deviations.max(axis=0)
    unknown = np.full_like(effect, np.nan)
    return Comparison(
        reference_mean=fisher(middle),
        observed_mean=fisher(observed.mean(axis=0)),
        standard_error=unknown,
        effect=effect,
        low=effect - largest,
        high=effect + largest,
        p=(1 + (deviations >= np.abs(effect)).sum(axis=0)) / (1 + len(reference)),
        freedom=unknown,
        notes=("",) * len(effect),
    )


def decide_as_paper(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Classify each change as *perturbed* or *unperturbed*: the paper's rule has no other verdict and no correction."""
    return tuple(
        replace(
            change,
            verdict="perturbed" if change.low > 0 or change.high < 0 else "unperturbed",
            smallest_visible=(change.high - change.low) / 2,
            more_runs_help=False,
        )
        for change in changes
    )
