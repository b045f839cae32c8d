"""Do two single runs lie side by side as runs of the baseline do?"""

from __future__ import annotations

import numpy as np
from scipy import special

from unperturbed.analysis.perturbation.compare import Comparison, difference_of_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, from_fisher
from unperturbed.analysis.perturbation.outer import variances

__all__ = ["compare_with_one_run"]


_KNOWN = 1e9
"""Degrees of freedom of a variance that is as good as known, where all runs are equal but for rounding."""


def compare_with_one_run(matrix: FloatArray, observed_z: FloatArray, *, alpha: float) -> Comparison:
    """Compare outer correlations with one run, which need not be a baseline, with those of baseline runs with each other.

    Parameters
    ----------
    matrix : float64, shape (k, k, m), k ≥ 4
        Fisher's z between baseline runs, from `outer_matrix`.
    observed_z : float64, shape (r, m)
        Fisher's z of r checked runs, each against the one run.
    alpha : level of each one-sided bound.

    Notes
    -----
    In the model z_ij = a + b_i + b_j + e_ij of `outer`, the mean over r runs against one has the variance σ²_b + (σ²_b + σ²_e)/r, and the
    baseline's mean over its pairs 4 σ²_b/k + 2 σ²_e/(k(k − 1)). Degrees of freedom by Satterthwaite from those of the two parts, k − 1 and
    k(k − 3)/2. The one run's b does not average out, however many runs are held against it: more runs do not help much. False alarms at
    5 %, measured: 4–5 % with 10 baseline runs; down to nothing with 5 or 6 where most of the variation belongs to pairs of runs, as a
    part of a variance cannot be estimated below 0.
    """
    k, r = len(matrix), len(observed_z)
    parts = variances(matrix)
    reference_z = matrix.sum(axis=(0, 1)) / (k * (k - 1))
    effect_z = observed_z.mean(axis=0) - reference_z
    of_reference = 4 * parts.run / k + 2 * parts.both / (k * (k - 1))
    of_observed = parts.run + (parts.run + parts.both) / r
    # What is estimated is S = σ²_b + σ²_e/(k − 2) and σ²_e: the variance in terms of these, and how well it is known.
    of_run = 1 + 1 / r + 4 / k
    of_both = 1 / r + 2 / (k * (k - 1)) - of_run / (k - 2)
    spread = parts.run + parts.both / (k - 2)
    variance = of_reference + of_observed
    known = (of_run * spread) ** 2 / (k - 1) + (of_both * parts.both) ** 2 / (k * (k - 3) / 2)
    freedom = np.minimum(_KNOWN, variance**2 / np.maximum(known, np.finfo(np.float64).tiny))
    standard_error = np.sqrt(variance)
    quantile = special.stdtrit(freedom, 1 - alpha)
    low, high = difference_of_rho(reference_z, reference_z + effect_z, np.sqrt(of_reference), np.sqrt(of_observed), quantile)
    return Comparison(
        reference_z=reference_z,
        effect_z=effect_z,
        standard_error=standard_error,
        effect=from_fisher(reference_z + effect_z) - from_fisher(reference_z),
        low=low,
        high=high,
        p=2 * special.stdtr(freedom, -np.abs(effect_z) / standard_error),
        freedom=freedom,
        notes=("",) * len(effect_z),
    )
