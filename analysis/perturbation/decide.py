"""From comparisons to verdicts: family-wise correction, the three verdicts, both checks joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.perturbation.compare import runs_to_decide, smallest_visible
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher
from unperturbed.analysis.perturbation.verdict import Change, Overhead, Verdict, VerdictName, combine
from unperturbed.errors import DataError

__all__ = ["combine_checks", "decide", "discovery", "holm", "name_verdict"]

_T = TypeVar("_T")


def holm(p: ArrayLike) -> FloatArray:
    """Correct p-values so that comparing each with α keeps the family-wise error at α (Holm 1979), shape as given."""
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(steps, 1)
    return corrected


def name_verdict(p_corrected: float, low: float, high: float, *, alpha: float, tolerance: float) -> VerdictName:
    """Name the verdict on one change.

    *unperturbed*: the interval lies inside ± tolerance. Each change is tested at α by itself: a configuration is unperturbed only
    if all are (intersection–union), so testing more pairs never makes acceptance easier.
    *perturbed*: significant family-wise, and the interval excludes 0: where the checked runs spread wider than the
    reference's, the interval says so and the p-value does not.
    """
    if -tolerance < low and high < tolerance:
        return "unperturbed"
    return "perturbed" if p_corrected <= alpha and (low > 0 or high < 0) else "undecided"


def discovery(p: ArrayLike) -> FloatArray:
    """Correct p-values so that comparing each with α keeps the expected share of false findings at α (Benjamini and Hochberg 1995).

    Sound for tests that are independent or positively dependent, as those of pairs that share metrics mostly are.
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")[::-1]
    steps = np.minimum.accumulate(values[order] * len(values) / np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(steps, 1)
    return corrected


def decide(changes: Sequence[Change], *, alpha: float) -> tuple[Change, ...]:
    """Correct the p-values of a family of changes and fill in what depends on the family: verdict, power, runs needed."""
    if not changes:
        return ()
    p = [change.p for change in changes]
    return tuple(
        _decided(change, float(family_wise), float(rate), alpha=alpha, family=len(changes))
        for change, family_wise, rate in zip(changes, holm(p), discovery(p), strict=True)
    )


def combine_checks(configuration: str, *checks: Verdict) -> Verdict:
    """Join the verdicts of several checks of one configuration, and of several passes; p-values are corrected over the changes of all.

    Parameters
    ----------
    configuration : name of the joint verdict.
    checks : at least one, as `Baseline.inner` and `Baseline.outer` gave them, with the same α and tolerance; the first gives the
        reference, the first that knows it the overhead.

    Raises
    ------
    DataError
        The checks were made at different α or tolerance, or some by the paper's rule and others not.
    """
    first = checks[0]
    for other in checks[1:]:
        if (first.alpha, first.tolerance) != (other.alpha, other.tolerance):
            raise DataError(
                f"configuration {configuration!r}: one check was made at α {first.alpha} and tolerance {first.tolerance}, another "
                f"at {other.alpha} and {other.tolerance}; make both with one baseline"
            )
        if first.method != other.method and "paper" in (first.method, other.method):
            raise DataError(f"configuration {configuration!r}: one check was made by {first.method}, another by {other.method}")
    changes = tuple(change for check in checks for change in check.changes)
    if first.method != "paper":  # whose rule knows no family
        changes = decide(changes, alpha=first.alpha)
    lost = _once(entry for check in checks for entry in check.lost)
    return replace(
        first,
        configuration=configuration,
        verdict=combine((change.verdict for change in changes), lost=bool(lost)),
        changes=changes,
        excluded=_once(entry for check in checks for entry in check.excluded),
        lost=lost,
        overhead=next((check.overhead for check in checks if check.overhead != Overhead()), Overhead()),
        method="bootstrap" if any(check.method == "bootstrap" for check in checks) else first.method,
        notes=_once(note for check in checks for note in check.notes),
    )


def _once(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))


def _decided(change: Change, p_corrected: float, p_discovery: float, *, alpha: float, family: int) -> Change:
    verdict = name_verdict(p_corrected, change.low, change.high, alpha=alpha, tolerance=change.tolerance)
    reference_z = float(fisher(change.reference).mean())
    visible = smallest_visible(reference_z, change.standard_error, change.freedom, alpha=alpha, family=family)
    needed = None
    if verdict == "undecided" and change.more_runs_help:
        effect_z = float(fisher(change.observed).mean()) - reference_z
        k, r = len(change.reference), len(change.observed)
        needed = runs_to_decide(
            reference_z, effect_z, change.standard_error, k, r, alpha=alpha, tolerance=change.tolerance, family=family
        )
    return replace(
        change,
        p_corrected=p_corrected,
        p_discovery=p_discovery,
        verdict=verdict,
        smallest_visible=visible,
        runs_to_decide=needed,
    )
