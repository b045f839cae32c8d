"""The verdicts of one configuration joined, counted and ranked: what cards, matrix, figures and tables all start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.perturbation.verdict import Change, Overhead, Verdict, VerdictName, combine

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation.verdict import CheckName
    from unperturbed.analysis.report.content import ReportContent

__all__ = ["ChangeKey", "Result", "change_key", "changed_pairs", "listed_changes", "mean_rho", "ranked_changes", "results"]

ChangeKey = tuple[str, str, str, str]
"""Configuration, check, first and second metric: what a change is found by."""


@dataclass(frozen=True)
class Result:
    """All that was found about one configuration."""

    configuration: str
    references: tuple[str, ...]
    verdict: VerdictName
    changes: tuple[Change, ...]
    excluded: tuple[tuple[str, str], ...]
    overhead: Overhead
    software: tuple[str, ...]
    alpha: float
    tolerance: float

    @property
    def is_sham(self) -> bool:
        """Tell whether nothing was measured in it: it shows what the rewritten code does without the counting."""
        return self.configuration.startswith("sham-")

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    def having(self, verdict: VerdictName) -> tuple[Change, ...]:
        """Return the changes with this verdict."""
        return tuple(change for change in self.changes if change.verdict == verdict)

    def check_verdict(self, check: CheckName) -> VerdictName | None:
        """Return the verdict on one check alone; None when it was not made."""
        found = self.of(check)
        return combine([change.verdict for change in found]) if found else None

    def worst(self, check: CheckName | None = None) -> Change | None:
        """Return the change that weighs most: a perturbed one before an undecided one, the larger effect first.

        Among changes that are not *perturbed* the far end of the interval counts, because that is how bad it may still be.
        """
        ranked = ranked_changes(self.changes if check is None else self.of(check))
        return ranked[0] if ranked else None


_WEIGHT = {"perturbed": 2, "undecided": 1, "unperturbed": 0}


def _weight(change: Change) -> tuple[int, float]:
    reach = abs(change.effect) if change.verdict == "perturbed" else max(abs(change.low), abs(change.high))
    return _WEIGHT[change.verdict], reach


def ranked_changes(changes: Iterable[Change]) -> list[Change]:
    """Sort changes, the one that weighs most first."""
    return sorted(changes, key=_weight, reverse=True)


def change_key(result: Result, change: Change) -> ChangeKey:
    """Return what a change is found by."""
    return result.configuration, change.check, change.first, change.second


def listed_changes(found: Iterable[Result], most: int | None = None) -> list[tuple[Result, Change]]:
    """Return the changes that the page lists, at most so many, the one that weighs most first."""
    pairs = [(result, change) for result in found for change in result.changes]
    return sorted(pairs, key=lambda pair: _weight(pair[1]), reverse=True)[:most]


def results(content: ReportContent) -> tuple[Result, ...]:
    """Join the verdicts by configuration, in the order of the content."""
    by_configuration: dict[str, list[Verdict]] = {}
    for verdict in content.verdicts:
        by_configuration.setdefault(verdict.configuration, []).append(verdict)
    return tuple(
        Result(
            configuration=configuration,
            references=tuple(dict.fromkeys(verdict.reference for verdict in group)),
            verdict=combine([verdict.verdict for verdict in group]),
            changes=tuple(change for verdict in group for change in verdict.changes),
            excluded=tuple(dict.fromkeys(pair for verdict in group for pair in verdict.excluded)),
            overhead=_joined_overhead(group),
            software=tuple(content.software_by_configuration.get(configuration, ())),
            alpha=group[0].alpha,
            tolerance=group[0].tolerance,
        )
        for configuration, group in by_configuration.items()
    )


def _joined_overhead(group: list[Verdict]) -> Overhead:
    def first(name: str) -> float | None:
        values = [getattr(verdict.overhead, name) for verdict in group]
        return next((value for value in values if value is not None), None)

    return Overhead(first("instructions"), first("cycles"), first("time"))


def changed_pairs(found: Iterable[Result], check: CheckName) -> list[tuple[str, str]]:
    """Return every pair of metrics that any configuration was checked for, the one that weighs most anywhere first."""
    changes = [change for result in found for change in result.of(check)]
    return list(dict.fromkeys((change.first, change.second) for change in ranked_changes(changes)))


def mean_rho(rhos: Iterable[float]) -> float:
    """Return the mean of correlations on Fisher's scale, as a correlation; NaN when there are none."""
    values = np.array([rho for rho in rhos if np.isfinite(rho)])
    if not values.size:
        return float("nan")
    # A correlation of exactly ±1 would be infinite on Fisher's scale; this bound only matters below what the page shows.
    return float(np.tanh(np.mean(np.arctanh(np.clip(values, -0.999999, 0.999999)))))
