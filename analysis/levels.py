"""Levels: by how much the total of a metric differs between the runs of two configurations.

Correlations say whether metrics still go together; a program may take half the cycles and keep every correlation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.metric_names import plain_name
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import number, percent

special = LazyLibrary("scipy.special")

_FEWEST = 2
_ROUNDING = 1e-12
_UNITS = {"T": 1e12, "G": 1e9, "M": 1e6}


@dataclass(frozen=True)
class LevelChange:
    """How the total of one metric differs.

    Attributes
    ----------
    metric : str
        Its name.
    before, after : float
        Mean total of a run, of the reference and of the configuration.
    ratio : float
        Change of the mean: 0.03 is 3 % more.
    low, high : float
        Interval of that change, from the spread between runs; NaN where a configuration has fewer than two runs.
    """

    metric: str
    before: float
    after: float
    ratio: float
    low: float = math.nan
    high: float = math.nan

    @property
    def shown(self) -> bool:
        """Return whether the interval excludes no change."""
        return self.low > 0 or self.high < 0

    @property
    def interval(self) -> str:
        """Return the interval in words: one number where both ends are written alike."""
        if not math.isfinite(self.low):
            return "–"
        low, high = percent(self.low), percent(self.high)
        return low if low == high else f"{low.removesuffix('%').rstrip()} … {high}"


def level_changes(
    reference: Sequence[Trace], observed: Sequence[Trace], metrics: Sequence[str], *, alpha: float
) -> tuple[LevelChange, ...]:
    """Compare the totals of metrics between the runs of two configurations.

    Parameters
    ----------
    reference, observed : sequence of Trace
        Runs of the reference and of the configuration.
    metrics : sequence of str
        Metrics of all traces; a metric whose mean total is zero in the reference is left out.
    alpha : float
        All intervals hold together with probability 1 − 2α.

    Notes
    -----
    Welch's interval of the difference of mean logarithms, at α over the number of metrics a side (Bonferroni).
    """
    found = []
    for metric in metrics:
        before, after = (np.array([float(trace[metric].sum()) for trace in runs]) for runs in (reference, observed))
        if not before.size or not after.size or not before.mean():
            continue
        ratio = float(after.mean() / before.mean() - 1)
        low, high = _interval(before, after, alpha / len(metrics))
        found.append(LevelChange(metric, float(before.mean()), float(after.mean()), ratio, low, high))
    return tuple(found)


def _interval(before: NDArray[np.float64], after: NDArray[np.float64], alpha: float) -> tuple[float, float]:
    if min(len(before), len(after)) < _FEWEST or min(before.min(), after.min()) <= 0:
        return math.nan, math.nan
    middle, reach = float(np.log(after).mean() - np.log(before).mean()), log_reach(before, after, alpha)
    if not reach and abs(middle) < _ROUNDING:
        return 0.0, 0.0
    return math.expm1(middle - reach), math.expm1(middle + reach)


def log_reach(before: NDArray[np.float64], after: NDArray[np.float64], alpha: float) -> float:
    """Return how far Welch's interval of a difference of mean logarithms reaches, one-sided at α.

    Each side needs two values.
    """
    logs = [np.log(values) for values in (before, after)]
    parts = [float(values.var(ddof=1)) / len(values) for values in logs]
    error = math.sqrt(sum(parts))
    if error < _ROUNDING:  # equal counts, but for the last digits of their logarithms
        return 0.0
    freedom = sum(parts) ** 2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, logs, strict=True))
    return -float(special.stdtrit(freedom, alpha)) * error


def level_table(changes: Mapping[str, Sequence[LevelChange]], alpha: float, caption: str = "") -> Table:
    """Return one row a metric of a configuration: its total in both, and the change with its interval.

    Parameters
    ----------
    changes : mapping of str to sequence of LevelChange
        Of each configuration.
    alpha : float
        Level of the intervals.
    caption : str, default ""
        What the table holds.
    """
    level = number(100 * (1 - 2 * alpha), 3)
    columns = [
        *([Column("configuration")] if len(changes) > 1 else []),
        Column("total of a run"),
        Column("A" if set(changes) == {"B"} else "baseline", "right", whole=True),
        Column("B" if set(changes) == {"B"} else "here", "right", whole=True),
        Column("change", "right", whole=True),
        Column(
            f"{level} % interval",
            "right",
            "from the variation between runs; all intervals of a configuration hold together",
            whole=True,
        ),
    ]
    rows: list[list[Cell | str]] = [
        [
            *([name] if len(changes) > 1 else []),
            plain_name(change.metric),
            Cell(_short(change.before), key=change.before),
            Cell(_short(change.after), key=change.after),
            Cell(percent(change.ratio), key=change.ratio),
            Cell(change.interval, key=change.low),
        ]
        for name, found in changes.items()
        for change in found
    ]
    return Table(tuple(columns), rows, caption)


def _short(value: float) -> str:
    """Write a total with four digits: `608.6 M`, the space unbreakable."""
    for unit, size in _UNITS.items():
        if value >= size:
            return f"{number(value / size, 4)}\u00a0{unit}"
    return number(value, 4)
