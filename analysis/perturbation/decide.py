"""From comparisons to verdicts: family-wise correction, the four verdicts, checks joined, origins by sham builds.

Instrumentation moves code, and a program whose code lies elsewhere misses its caches elsewhere: Mytkowicz et al.,
"Producing wrong data without doing anything obviously wrong" (2009). One binary is one sample of layout. A *sham* build
has the same rewriting with inert instructions in place of the counting: what it shows against the baseline is layout
(and the instructions' mere presence), what the counting build shows against the sham is the counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unperturbed.analysis.multiple_testing import benjamini_hochberg, holm, holm_of_intervals
from unperturbed.analysis.perturbation.compare import Comparison, runs_to_decide, smallest_visible, wider_below_one
from unperturbed.analysis.perturbation.compare_outer import relative_spread
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
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
    """Compare the interval of one change with the tolerance, and name the verdict.

    Every verdict by the variation between runs is decided here, and nowhere else.

    `low`, `high`: Confidence interval of the change of ρ, one-sided at α each.
    `tolerance`: |Δρ| that counts as no perturbation; with 0, any change that is shown is *perturbed*.
    Result: *unperturbed*: the interval lies inside ± tolerance, whether or not a change is shown. Each change is tested
    at α by itself: a configuration is unperturbed only if all changes are (intersection–union), so testing more pairs
    never makes acceptance easier. *perturbed*: beyond the tolerance, significantly family-wise, and the interval lies
    outside of it: where the checked runs spread wider than the reference's, the interval shows it and the p-value does
    not. *shifted*: likewise, for no change in place of the tolerance. *undecided*: none of these.
    """
    if -tolerance < low and high < tolerance:
        return "unperturbed"
    if not p_corrected <= alpha or low <= 0 <= high:  # a p-value that is not a number shows nothing
        return "undecided"
    beyond = p_beyond_corrected <= alpha and (low > tolerance or high < -tolerance)
    return "perturbed" if beyond else "shifted"


def decide(changes: Sequence[Change], *, alpha: float) -> tuple[Change, ...]:
    """Correct the p-values of a family of changes; add verdict, power and runs needed."""
    if not changes:
        return ()
    p = [change.p for change in changes]
    # With tolerance 0 both questions are one, and its hypotheses are points.
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
    """Join the verdicts of several checks and passes of one configuration.

    p-values are corrected over the changes of all.

    Parameters
    ----------
    configuration : str
        Name of the joint verdict.
    checks : Verdict
        At least one, as `Baseline.inner` and `Baseline.outer` gave them, with the same α and tolerance; the first gives
        the reference, the first that knows it the overhead.

    Raises
    ------
    DataError
        The checks were made at different α or tolerance, or some by the paper's rule and others not.
    """
    first = checks[0]
    for other in checks[1:]:
        if (first.alpha, first.tolerance) != (other.alpha, other.tolerance):
            raise DataError(
                f"configuration {configuration!r}: one check was made at α {first.alpha} and tolerance "
                f"{first.tolerance}, another at {other.alpha} and {other.tolerance}; make both with one baseline"
            )
        if first.method != other.method and "paper" in (first.method, other.method):
            raise DataError(
                f"configuration {configuration!r}: one check was made by {first.method}, another by {other.method}; "
                "make both by one method"
            )
    changes = tuple(change for check in checks for change in check.changes)
    if first.method != "paper":  # whose rule knows no family
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
    """Name the origin of a change: an effect that is not shown may be there too, but too small."""
    return _ORIGINS[layout in SHOWN, counting in SHOWN]


def with_origins(verdict: Verdict, layout: Verdict, counting: Verdict) -> Verdict:
    """Mark each change of a configuration that is shown with its origin: counting, layout or both."""
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
    reference_mean, observed_mean = (float(fisher(values).mean()) for values in (change.reference, change.observed))
    level = alpha / change.designs
    visible = smallest_visible(reference_mean, change.standard_error, change.freedom, alpha=level, family=family)
    needed = None
    if verdict in OPEN and change.more_runs_help:
        needed = runs_to_decide(
            reference_mean,
            observed_mean,
            change.standard_error,
            len(change.reference),
            len(change.observed),
            alpha=level,
            tolerance=change.tolerance,
            family=family,
            relative_spread=_relative_spread(change, reference_mean, observed_mean),
        )
    return replace(change, verdict=verdict, smallest_visible=visible, runs_to_decide=needed)


def _relative_spread(change: Change, *means: float) -> float:
    """Return the spread of checked runs over the reference's where there is a change."""
    of_check = relative_spread if change.check in ("outer", "across") else wider_below_one
    return float(of_check(*(from_fisher(np.array([mean])) for mean in means))[0])


def compare_as_paper(reference: FloatArray, observed: FloatArray) -> Comparison:
    """Compare by the paper's own rule: a deviation counts if it is larger than any among the baseline runs.

    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.3: "If the deviation […]
    is smaller than the deviation observed due to non-determinism, then the deviation is not significant; if it is
    larger, then it is significant." The paper does not say how the deviation among baselines is measured; here it is
    the largest distance of a baseline run from their mean.

    It is offered to reproduce the paper, and is not a basis for a decision: of k exchangeable baseline runs and one
    that is checked the last is the farthest out in one case of k + 1, for each pair by itself. With 10 baseline runs
    and 66 independent pairs an unperturbed configuration is called perturbed in 99.8 % of cases. And "not perturbed"
    is what it says of anything that noise could hide.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row a run. The paper checks
    one run; of several the mean is taken.
    Result: `effect` is the change of the mean ρ; `low` and `high` lie as far from it as any baseline run from the
    baseline's mean; `p` is the share of such deviations, the checked one counted in, that are as large: never below
    1/(k + 1). No standard error exists (NaN).
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
    """Classify each change as *perturbed* or *unperturbed*: the paper has nothing between, and no families of tests."""
    return tuple(
        replace(
            change,
            verdict="perturbed" if change.low > 0 or change.high < 0 else "unperturbed",
            smallest_visible=(change.high - change.low) / 2,
            more_runs_help=False,
        )
        for change in changes
    )
