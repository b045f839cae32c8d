"""Causes of noise: totals that are correlated with a property of the runs, such as the load at their start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unperturbed.analysis.multiple_testing import holm
from unperturbed.common.extras import LazyLibrary

stats = LazyLibrary("scipy.stats")

_LEVEL = 0.01
_FEWEST = 8


class Cause(NamedTuple):
    """A total that rises or falls with a property of its runs."""

    total: str
    property: str
    rho: float  # Spearman's
    p: float  # Corrected family-wise over all totals and properties


def find_causes(totals: Mapping[str, Sequence[float]], properties: Mapping[str, Sequence[float]]) -> tuple[Cause, ...]:
    """Return totals correlated with properties of runs (Spearman's ρ, Holm, p ≤ .01), the strongest correlation first.

    Both arguments map a name to one value for each run; the order of runs is the same. Runs with NaN are left out.
    """
    candidates = []
    for total, values in totals.items():
        for name, given in properties.items():
            known = np.isfinite(given)
            known_values, other = np.asarray(values, np.float64)[known], np.asarray(given, np.float64)[known]
            if len(known_values) < _FEWEST or np.ptp(known_values) == 0 or np.ptp(other) == 0:
                continue
            test = stats.spearmanr(known_values, other)
            candidates.append(Cause(total, name, float(test.statistic), float(test.pvalue)))
    corrected = holm([cause.p for cause in candidates]) if candidates else ()
    causes = [cause._replace(p=float(p)) for cause, p in zip(candidates, corrected, strict=True) if p <= _LEVEL]
    return tuple(sorted(causes, key=lambda cause: -abs(cause.rho)))
