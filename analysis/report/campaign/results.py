"""The verdicts of one configuration joined, counted and ranked, for cards, matrix, figures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unperturbed.analysis.perturbation import Change, Overhead, Verdict, VerdictName, combine, ranked_changes
from unperturbed.analysis.perturbation.verdict import change_weight
from unperturbed.common.markup import Content, Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import CheckName
    from unperturbed.analysis.report.campaign.content import ReportContent


ChangeKey = tuple[str, str, str, str]
"""Configuration, check, first and second metric: what a change is found by."""


@dataclass(frozen=True)
class ConfigurationResult:
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
    setup: str = ""
    """What is otherwise in it, where it is another set-up of the program that counts what the baseline does."""

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
        """Return the change that weighs most; see `change_weight`."""
        ranked = ranked_changes(self.changes if check is None else self.of(check))
        return ranked[0] if ranked else None


def change_key(result: ConfigurationResult, change: Change) -> ChangeKey:
    """Return what a change is found by."""
    return result.configuration, change.check, change.first, change.second


def change_numbers(listed: Iterable[tuple[ConfigurationResult, Change]]) -> Mapping[ChangeKey, int]:
    """Return the number of each listed change, by which a click on it opens its details."""
    return {change_key(result, change): number for number, (result, change) in enumerate(listed)}


def opening(number: int | None, shown: Content, spoken: str, style: str | None = None) -> Html:
    """Return the button that opens the details of the change with this number; plain where the page has none."""
    if number is None:
        return tag("span", shown, title=spoken, class_=style)
    return tag("button", shown, type="button", data_change=number, aria_label=spoken, class_=style)


def listed_changes(
    found: Iterable[ConfigurationResult], most: int | None = None
) -> list[tuple[ConfigurationResult, Change]]:
    """Return the `most` changes that weigh most, in that order."""
    pairs = [(result, change) for result in found for change in result.changes]
    return sorted(pairs, key=lambda pair: change_weight(pair[1]), reverse=True)[:most]


def configuration_results(content: ReportContent) -> tuple[ConfigurationResult, ...]:
    """Join the verdicts by configuration, in the order of the content."""
    by_configuration: dict[str, list[Verdict]] = {}
    for verdict in content.verdicts:
        by_configuration.setdefault(verdict.configuration, []).append(verdict)
    return tuple(
        ConfigurationResult(
            configuration=configuration,
            references=tuple(dict.fromkeys(verdict.reference for verdict in group)),
            verdict=combine([verdict.verdict for verdict in group]),
            changes=tuple(change for verdict in group for change in verdict.changes),
            excluded=tuple(dict.fromkeys(pair for verdict in group for pair in verdict.excluded)),
            overhead=_joined_overhead(group),
            software=tuple(content.software_by_configuration.get(configuration, ())),
            alpha=group[0].alpha,
            tolerance=group[0].tolerance,
            setup=content.setups.get(configuration, ""),
        )
        for configuration, group in by_configuration.items()
    )


def _joined_overhead(group: list[Verdict]) -> Overhead:
    def first(name: str) -> float | None:
        values = [getattr(verdict.overhead, name) for verdict in group]
        return next((value for value in values if value is not None), None)

    return Overhead(first("instructions"), first("cycles"), first("time"))


def changed_pairs(found: Iterable[ConfigurationResult], check: CheckName) -> list[tuple[str, str]]:
    """Return every pair of metrics that any configuration was checked for, the one that weighs most anywhere first."""
    changes = [change for result in found for change in result.of(check)]
    return list(dict.fromkeys((change.first, change.second) for change in ranked_changes(changes)))
