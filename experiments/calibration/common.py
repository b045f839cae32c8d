"""What the parts of the calibration share: level and tolerance, shares of campaigns, tables, naming of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unperturbed.analysis.multiple_testing import holm, holm_of_intervals
from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.analysis.perturbation.decide import classify_change

ALPHA, TOLERANCE, METRICS = 0.05, 0.1, 5


def share(outcomes: Sequence[float] | Sequence[np.floating[Any]]) -> str:
    """Write a share of campaigns with its standard error; of a share of 0 or 1, the error of one campaign in all."""
    values = np.asarray(outcomes, np.float64)
    error = max(float(values.std()), np.sqrt(1 / len(values)) if values.std() == 0 else 0.0) / np.sqrt(len(values))
    return f"{values.mean():.3f} ± {error:.3f}"


def header(heads: Sequence[str]) -> Iterator[str]:
    """First two lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"


def classified(compared: Comparison, p_beyond: FloatArray, tolerances: FloatArray) -> list[str]:
    """Name the verdicts of a family."""
    numbers = zip(holm(compared.p), holm_of_intervals(p_beyond), compared.low, compared.high, tolerances, strict=True)
    return [
        classify_change(p, beyond, low, high, alpha=ALPHA, tolerance=tolerance)
        for p, beyond, low, high, tolerance in numbers
    ]
