"""Texts on set-ups that are compared with the baseline: what differs, by how much, and what to do.

Both sides count the same metrics, so a difference is not a perturbation by measuring.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS
from unperturbed.analysis.totals.total_text import totals_sentence
from unperturbed.common.wording import correlation, counted, listing

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportContent

SECOND = "B"
"""Name of the configuration of `unperturbed compare`'s second command; the first command is A, the baseline."""


def all_setups(results: Sequence[ConfigurationResult]) -> bool:
    """Return whether all configurations are set-ups, as in `unperturbed compare`."""
    return bool(results) and all(result.setup for result in results)


def first_name(result: ConfigurationResult) -> str:
    """Return the displayed name of the set-up that a configuration is compared with."""
    return "A" if result.configuration == SECOND else "the baseline"


def setups_sentence(results: Sequence[ConfigurationResult], content: ReportContent | None = None) -> str:
    """Return sentences on each set-up: whether its metrics correlate as in the baseline, and how totals differ."""
    said = []
    for result in results:
        first, name = first_name(result), result.configuration
        tolerance = f"±{correlation(result.tolerance)}"
        if result.verdict == "unperturbed":
            lead = f"the metrics of {first} and {name} correlate alike: no ρ differs by more than {tolerance}"
        elif result.verdict == "perturbed":
            lead = (
                f"the metrics of {name} correlate differently from those of {first}: {_how_many(result)} by more "
                f"than {tolerance}"
            )
        elif result.verdict == "shifted":
            lead = (
                f"the metrics of {first} and {name} do not correlate alike: {_how_many(result)}, and "
                f"{what_shows(result.having('shifted'))} whether they differ by more than {tolerance}"
            )
        else:
            lead = f"it is undecided whether the metrics of {first} and {name} correlate alike: {_how_many(result)}"
        totals = () if content is None else content.totals.get(name, ())
        totals_said = totals_sentence(name, totals, first, advice=content is None or content.looks is None)
        said.append(f"{lead[0].upper()}{lead[1:]}. {totals_said}".rstrip())
    return " ".join(said)


def what_shows(shifted: Iterable[Change]) -> str:
    """Return `more runs would probably show` if the runs that decide all these changes can be made."""
    near = all(change.runs_to_decide is not None and change.runs_to_decide <= MOST_RUNS for change in shifted)
    return "more runs would probably show" if near else "these runs do not show"


def _how_many(result: ConfigurationResult) -> str:
    parts = []
    for changes, singular, several in (
        (result.of("inner"), "pair of metrics", "pairs of metrics"),
        (result.of("outer"), "metric across runs", "metrics across runs"),
    ):
        having = sum(change.verdict == result.verdict for change in changes)
        if having:
            parts.append(f"{having} of {counted(len(changes), singular, several)}")
    verb = "are undecided" if result.verdict == "undecided" else "differ"
    return f"{listing(parts) or 'some'} {verb}"


def setup_meaning(result: ConfigurationResult) -> str:
    """Return one sentence on what the verdict on a set-up means for the user."""
    first, name = first_name(result), result.configuration
    inner, outer = result.check_verdict("inner") == "perturbed", result.check_verdict("outer") == "perturbed"
    if result.verdict == "unperturbed":
        return f"{name} and {first} behave alike in these metrics: findings about one are valid for the other."
    if result.verdict == "shifted":
        return "There is a difference, but these runs do not show whether it exceeds the tolerance."
    if result.verdict == "undecided":
        return "No difference was shown, but these runs cannot exclude a difference larger than the tolerance."
    if inner and outer:
        return (
            f"Its metrics correlate differently from {first}'s, and its runs cannot be compared with {first}'s runs "
            "interval by interval."
        )
    if outer:
        return f"Its runs cannot be compared with {first}'s runs interval by interval."
    return f"Within its runs, metrics correlate differently than in {first}'s runs."


def setup_advice(result: ConfigurationResult) -> tuple[str, ...]:
    """Return advice on a set-up that differs, one text for each case."""
    first, name = first_name(result), result.configuration
    said = [
        f"If you compared builds or inputs: {name} behaves differently, so profile it separately; a bottleneck of "
        f"{first} need not be a bottleneck of {name}. The totals show what increased or decreased.",
        f"If a tool is attached in {name}: the tool changes what it observes, so do not use correlations of its runs.",
    ]
    if result.check_verdict("inner") == "unperturbed":
        said.append("Within a run, both set-ups agree; only the correlations across aligned runs differ.")
    return tuple(said)
