"""Student's t distribution: the bits of values in a class, and the fit of a class to its values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.classes.scaling import FloatArray

_MODULE = "unperturbed.analysis.structure.classes.kernels"
_FIT = ("const float64[:,::1]" + 3 * ", const float64[::1]" + ", float64, const float64[::1], int64, float64",)
_DISTANCES = ("const float64[:,::1]" + 2 * ", const float64[:,::1]",)

DEGREES_OF_FREEDOM = 4.0
"""An interval 10 standard deviations off costs 12 bits; under a normal distribution it would cost 72."""

_ROUNDS = 6
"""Of reweighting: further ones hardly move a class."""


def student_t_bits(
    values: NDArray[np.float64], centre: NDArray[np.float64], variances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return −log2 of the density of values under a multivariate t distribution.

    `values`: array of float64, shape (n, metrics). One row a value.
    `centre`, `variances`: array of float64, shape (metrics,). Location, and variances along the axes as scale
    parameters.
    Result: array of float64, shape (n,). Differences between classes are bits; the level depends on the unit, and may
    be negative.
    """
    distance = ((values - centre) ** 2 / variances).sum(axis=1)
    return student_t_peak_bits(variances) + _tail_bits(distance, values.shape[1])


def student_t_bits_of_classes(values: FloatArray, centres: FloatArray, variances: FloatArray) -> FloatArray:
    """Return `student_t_bits` in several classes, of centres and variances (k, metrics): shape (n, k)."""
    measure = compiled(_MODULE, "class_distances", _DISTANCES)
    distances = measure(*map(np.ascontiguousarray, (values, centres, variances)))
    return np.array([student_t_peak_bits(one) for one in variances]) + _tail_bits(distances, values.shape[1])


def _tail_bits(distance: NDArray[np.float64], metrics: int) -> NDArray[np.float64]:
    """Return the bits that values take more than one at the centre, by their squared distances from it."""
    bits: NDArray[np.float64] = (DEGREES_OF_FREEDOM + metrics) / 2 * np.log2(1 + distance / DEGREES_OF_FREEDOM)
    return bits


def student_t_peak_bits(variances: NDArray[np.float64]) -> float:
    """Return the bits of a value at the centre: the least of `student_t_bits`."""
    metrics, freedom = len(variances), DEGREES_OF_FREEDOM
    normaliser = (
        math.lgamma(freedom / 2) - math.lgamma((freedom + metrics) / 2) + metrics / 2 * math.log(freedom * math.pi)
    )
    return float(normaliser + np.log(variances).sum() / 2) / math.log(2)


def student_t_weights(
    values: NDArray[np.float64], centre: NDArray[np.float64], variances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight of each value in the fit of its class: outlying values weigh little."""
    distance = ((values - centre) ** 2 / variances).sum(axis=1)
    weights: NDArray[np.float64] = (DEGREES_OF_FREEDOM + values.shape[1]) / (DEGREES_OF_FREEDOM + distance)
    return weights


def fit_student_t(
    values: NDArray[np.float64],
    floor: NDArray[np.float64],
    prior: NDArray[np.float64] | None = None,
    *,
    prior_weight: float = 0.0,
    rounds: int = _ROUNDS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit centre and variances by iterated weights (expectation and maximisation).

    `values`: array of float64, shape (n, metrics). One row or more.
    `floor`: array of float64, shape (metrics,) or (1,). Variance that is always added: what the metrics do not resolve.
    `prior`: array of float64, shape (metrics,). Variances to which the fit is shrunk.
    Result `centre`, `variances`: array of float64, shape (metrics,). The fit, along the axes of the values.
    """
    metrics = values.shape[1]
    expected = np.zeros(metrics) if prior is None else prior
    centre = median_of_rows(values)
    start = (((values - centre) ** 2).sum(axis=0) + prior_weight * expected) / (len(values) + prior_weight) + floor
    reweight = compiled(_MODULE, "fit_rounds", _FIT)
    found: tuple[FloatArray, FloatArray] = reweight(
        np.ascontiguousarray(values),
        centre,
        start,
        expected,
        prior_weight,
        np.full(metrics, floor),
        rounds,
        DEGREES_OF_FREEDOM,
    )
    return found


def median_of_rows(values: FloatArray) -> FloatArray:
    """Return `np.median(values, axis=0)` of a row or more without NaN, of few rows in a third of its time."""
    middle = len(values) // 2
    lower = (len(values) - 1) // 2
    parted = np.partition(values, (lower, middle), axis=0)
    return np.asarray((parted[lower] + parted[middle]) / 2, np.float64)
