"""The chosen curve with its coefficients and their uncertainty.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.curves.forms import Function, Ids, Term, steps_of
from unperturbed.analysis.causal.regression.curves.least_squares import (
    coefficients_of,
    gradient_of,
    independent_columns,
)
from unperturbed.analysis.causal.regression.curves.problem import Errors, State
from unperturbed.analysis.causal.table.variables import Floats


@dataclass(frozen=True, eq=False)
class Curve:
    """A sum of terms with their coefficients."""

    terms: tuple[Term, ...]  # The terms
    coefficients: tuple[Floats, ...]  # (values of the term's scope,): The coefficients of each term
    errors: Errors  # {"even", "proportional", "factor"}: How errors grow with the curve
    # Standard deviation of the errors: in units of the target, in parts of the curve, or of the logarithm.
    spread: float
    degrees_of_freedom: int  # Rows less parameters
    covariance: Floats  # (parameters, parameters): Of the parameters that are kept
    kept: NDArray[np.bool_]  # (coefficients + exponents,): Which are linearly independent; others are 0
    factor: Function | None  # Where errors are factors: what the curve is a multiple of

    def level(self, numbers: Mapping[str, Floats], ids: Ids, rows: int) -> Floats:
        """Return the curve in each row; its logarithm where errors are a factor."""
        total = np.zeros(rows) if self.factor is None else np.log(self.factor.values(numbers, ids, rows))
        for term, coefficients in zip(self.terms, self.coefficients, strict=True):
            total += coefficients[ids(term.scope)] * term.function.values(numbers, ids, rows)
        return total

    def uncertainty(self, numbers: Mapping[str, Floats], ids: Ids, rows: int) -> Floats:
        """Return the standard deviation of `level` due to uncertain parameters; thresholds are taken as exact."""
        if not len(self.covariance):
            return np.zeros(rows)
        gradient = gradient_of(self.terms, self.coefficients, numbers, ids, rows)[self.kept]
        return np.asarray(np.sqrt(np.maximum(((self.covariance @ gradient) * gradient).sum(axis=0), 0)))


def curve_of(state: State) -> Curve:
    """Return the curve of a state."""
    problem = state.problem
    coefficients = coefficients_of(state)
    gradient = gradient_of(state.terms, coefficients, problem.numbers, problem.ids, problem.rows) * problem.weights
    scale = np.sqrt((gradient * gradient).sum(axis=1))
    scale[scale == 0] = 1
    kept = independent_columns(gradient / scale[:, None])
    thresholds = sum(len(one.thresholds) for one in steps_of(state.terms))
    free = max(problem.rows - int(kept.sum()) - thresholds, 1)
    spread = math.sqrt(state.rss / free)
    triangle = np.linalg.qr((gradient[kept] / scale[kept][:, None]).T, mode="r")
    inverse = np.linalg.inv(triangle) / scale[kept][:, None]
    covariance = inverse @ inverse.T * spread**2
    return Curve(state.terms, coefficients, problem.errors, spread, free, covariance, kept, problem.factor)
