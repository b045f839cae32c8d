"""From comparisons to verdicts: family-wise correction, the three verdicts, both checks joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.perturbation.compare import runs_to_decide, smallest_visible
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher
from unperturbed.analysis.perturbation.verdict import Change, Verdict, VerdictName, combine
from unperturbed.errors import DataError

__all__ = ["combine_checks", "decide", "holm", "name_verdict"]


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


def decide(changes: Sequence[Change], *, alpha: float) -> tuple[Change, ...]:
    """Correct the p-values of a family of changes and fill in what depends on the family: verdict, power, runs needed."""
    if not changes:
        return ()
    corrected = holm([change.p for change in changes])
    return tuple(
        _decided(change, float(p), alpha=alpha, family=len(changes)) for change, p in zip(changes, corrected, strict=True)
    )


def combine_checks(configuration: str, inner: Verdict, outer: Verdict) -> Verdict:
    """Join the verdicts of both checks of one configuration; p-values are corrected over the changes of both.

    Parameters
    ----------
    configuration : name of the joint verdict.
    inner, outer : as `Baseline.inner` and `Baseline.outer` gave them, with the same α and tolerance.

    Raises
    ------
    DataError
        The checks were made at different α or tolerance.
    """
    if (inner.alpha, inner.tolerance) != (outer.alpha, outer.tolerance):
        raise DataError(
            f"configuration {configuration!r}: the inner check was made at α {inner.alpha} and tolerance {inner.tolerance}, the "
            f"outer at {outer.alpha} and {outer.tolerance}; make both with one baseline"
        )
    changes = decide((*inner.changes, *outer.changes), alpha=inner.alpha)
    incomplete = any(_lost_something(check) for check in (inner, outer))
    return Verdict(
        configuration=configuration,
        reference=inner.reference,
        verdict=combine([change.verdict for change in changes] + ["undecided"] * incomplete),
        changes=changes,
        excluded=tuple(dict.fromkeys((*inner.excluded, *outer.excluded))),
        overhead=inner.overhead,
        alpha=inner.alpha,
        tolerance=inner.tolerance,
    )


def _lost_something(check: Verdict) -> bool:
    """Tell whether a check could not compare what the baseline holds: undecided, though no change of it is."""
    return check.verdict == "undecided" and all(change.verdict == "unperturbed" for change in check.changes)


def _decided(change: Change, p_corrected: float, *, alpha: float, family: int) -> Change:
    verdict = name_verdict(p_corrected, change.low, change.high, alpha=alpha, tolerance=change.tolerance)
    reference_z = fisher(change.reference).mean()
    k, r = len(change.reference), len(change.observed)
    visible = smallest_visible(np.array([reference_z]), np.array([change.standard_error]), k, r, alpha=alpha, family=family)
    needed = None
    if verdict == "undecided":
        effect_z = float(fisher(change.observed).mean() - reference_z)
        needed = runs_to_decide(
            float(reference_z), effect_z, change.standard_error, k, r, alpha=alpha, tolerance=change.tolerance, family=family
        )
    return replace(change, p_corrected=p_corrected, verdict=verdict, smallest_visible=float(visible[0]), runs_to_decide=needed)
