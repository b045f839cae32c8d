"""Set-ups that are compared with the baseline: what differs, by how much, and what to do about it.

Nothing is counted in one that is not counted in the other, so nothing here speaks of what measuring changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.levels import level_table
from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.perturbation import VERDICT_SIGNS
from unperturbed.common.markup import Html, table, tag
from unperturbed.common.wording import correlation, counted, listing, percent

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import CheckName
    from unperturbed.analysis.report.campaign.content import ReportContent
    from unperturbed.analysis.report.campaign.results import ConfigurationResult

SECOND = "B"
"""The configuration of the second command of `unperturbed compare`; the first is A, the baseline."""

_LEAST = 0.001
"""Smaller changes of level are in the table alone."""

_CHECKS: tuple[CheckName, CheckName] = ("inner", "outer")


def all_setups(found: Sequence[ConfigurationResult]) -> bool:
    """Return whether set-ups are compared, and nothing else."""
    return bool(found) and all(result.setup for result in found)


def first_name(result: ConfigurationResult) -> str:
    """Return how the set-up is called that a configuration is compared with."""
    return "A" if result.configuration == SECOND else "the baseline"


def setups_sentence(found: Sequence[ConfigurationResult], content: ReportContent | None = None) -> str:
    """Return a sentence a set-up: whether it and the baseline leave each other's numbers alone; how levels differ.

    Parameters
    ----------
    found : sequence of ConfigurationResult
        Set-ups.
    content : ReportContent, optional
        With the changes of levels.
    """
    said = []
    for result in found:
        first, name = first_name(result), result.configuration
        tolerance = f"±{correlation(result.tolerance)}"
        if result.verdict == "unperturbed":
            lead = f"{first} and {name} leave each other's numbers alone: no ρ differs by more than {tolerance}"
        elif result.verdict == "perturbed":
            lead = f"{name}'s numbers do not go together as {first}'s do: {_how_many(result)} by more than {tolerance}"
        elif result.verdict == "shifted":
            lead = (
                f"{first} and {name} differ: {_how_many(result)}, and more runs would tell whether by more than "
                f"{tolerance}"
            )
        else:
            lead = f"Whether {first} and {name} leave each other's numbers alone is not decided: {_how_many(result)}"
        levels = (
            []
            if content is None
            else [one for one in content.levels.get(name, ()) if one.shown and abs(one.ratio) >= _LEAST]
        )
        largest = sorted(levels, key=lambda one: -abs(one.ratio))[:3]
        moved = listing([f"{plain_name(one.metric)} {percent(one.ratio)}" for one in largest])
        said.append(f"{lead[0].upper()}{lead[1:]}.{f' Largest changes of level: {moved}.' if moved else ''}")
    return " ".join(said)


def _how_many(result: ConfigurationResult) -> str:
    parts = []
    for found, one, several in (
        (result.of("inner"), "pair of metrics", "pairs of metrics"),
        (result.of("outer"), "metric across runs", "metrics across runs"),
    ):
        having = sum(change.verdict == result.verdict for change in found)
        if having:
            parts.append(f"{having} of {counted(len(found), one, several)}")
    verb = "are open" if result.verdict == "undecided" else "differ"
    return f"{listing(parts) or 'some'} {verb}"


def setup_meaning(result: ConfigurationResult) -> str:
    """Return what the verdict on a set-up means for its user."""
    first, name = first_name(result), result.configuration
    inner, outer = (result.check_verdict(check) == "perturbed" for check in _CHECKS)
    if result.verdict == "unperturbed":
        return f"What the counters show of {name} they show of {first} too: findings on one hold for the other."
    if result.verdict == "shifted":
        return "A difference was shown, and these runs leave open whether it is larger than the tolerance."
    if result.verdict == "undecided":
        return "No difference was shown, but these runs leave room for one larger than the tolerance."
    if inner and outer:
        return f"Its metrics go together in another way than {first}'s, and its runs cannot be laid beside {first}'s."
    if outer:
        return f"Its runs cannot be laid beside {first}'s interval by interval."
    return f"Within its runs, metrics go together in another way than in {first}'s."


def setup_advice(result: ConfigurationResult) -> tuple[str, ...]:
    """Return what to do about a set-up that differs, one sentence each."""
    first, name = first_name(result), result.configuration
    said = [
        f"Two builds or inputs: {name} behaves otherwise, so read its profile by itself; a bottleneck found in {first} "
        f"need not be one in {name}. The levels say what became more or less.",
        f"A tool attached in {name}: it changes what it looks at; do not take correlations from runs under it.",
    ]
    if result.check_verdict("inner") == "unperturbed":
        said.append("Within a run both agree: only laying their runs side by side fails.")
    return tuple(said)


def levels_section(content: ReportContent) -> Html | None:
    """Return the section on levels; None where nothing is compared."""
    if not content.levels:
        return None
    made = level_table(content.levels, content.settings.alpha)
    heads: list[str | tuple[str, str]] = [
        (column.head, column.meaning) if column.meaning else column.head for column in made.columns
    ]
    rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in made.rows]
    return tag(
        "section",
        tag("h2", "Levels: how much more, how much less"),
        tag(
            "p",
            "Totals of a whole run, mean over the runs. A verdict speaks of how metrics go together, which may stay "
            f"({VERDICT_SIGNS['unperturbed']}) when a level falls by half.",
        ),
        table("Levels of both", heads, rows),
        id="levels",
    )
