"""Wording of responses to doses: sentences on a configuration, and a table of its responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unperturbed.analysis.doses.response import SERIOUSNESS, DoseResponses, Response, ResponseName
from unperturbed.analysis.totals.total_text import short_total, total_name
from unperturbed.common.table import Cell, Column, Table, Tone
from unperturbed.common.wording import correlation, counted, listing, number, percent, signed

MOST_ROWS = 20
"""Maximum number of responses in a table, the most serious first."""

_TONES: Mapping[ResponseName, Tone] = {
    "not linear": "bad",
    "undecided": "undecided",
    "corrected": "good",
    "not needed": "good",
}


def response_name(response: Response) -> str:
    """Return what responds: both metrics, or the total."""
    return f"total of {total_name(response.first)}" if response.check == "total" else response.label


def named_with_check(response: Response) -> str:
    """Return what responds, a correlation with the kind of its check."""
    return response_name(response) + ("" if response.check == "total" else f" ({response.check})")


def dose_sentences(found: DoseResponses) -> tuple[str, ...]:
    """Return the outcome for a configuration, and its most serious response."""
    counts = [f"{len(each)} {name}" for name in SERIOUSNESS if (each := found.having(name))]
    doses = listing(str(dose) for dose in found.responses[0].means)
    said = [
        f"{found.configuration} at {doses} increments: {found.outcome}. Of "
        f"{counted(len(found.responses), 'correlation and total', 'correlations and totals')}, {listing(counts)}."
    ]
    worst = found.ranked[0]
    if worst.outcome != "not needed":
        said.append(f"{_CASES[worst.outcome]}{named_with_check(worst)}: {_numbers(worst)}.")
    return tuple(said)


_CASES: Mapping[ResponseName, str] = {
    "not linear": "No correction is possible: ",
    "undecided": "These runs do not show whether the response is linear: ",
    "corrected": "Largest correction: ",
}


def _numbers(response: Response) -> str:
    """Return the value with and without counting, and the deviation from a line."""
    said = [
        f"{shown(response, response.means[1])} with counting",
        f"{shown(response, response.value)} extrapolated to none ({interval(response)})",
    ]
    if response.without is not None:
        said.append(f"{shown(response, response.without)} observed without")
    if response.outcome != "corrected":
        said.append(f"{deviation(response)} off the line")
    return ", ".join(said)


def shown(response: Response, value: float) -> str:
    """Return a coefficient or a total as text."""
    return short_total(value, response.first) if response.check == "total" else correlation(value)


def interval(response: Response) -> str:
    """Return the interval of the extrapolated value as text."""
    return f"{shown(response, response.low)} … {shown(response, response.high)}"


def deviation(response: Response) -> str:
    """Return the deviation from a line as text: a difference of ρ, or a percentage of a total."""
    return percent(response.deviation) if response.check == "total" else signed(response.deviation)


def response_table(found: DoseResponses) -> Table:
    """Return a table of the most serious responses of a configuration."""
    level = number(100 * (1 - found.alpha), 3)
    has_idle = any(each.without is not None for each in found.responses)
    columns = (
        Column("correlation or total"),
        Column(
            "check",
            meaning="inner: two metrics of one run; outer: one metric in two aligned runs; software: like inner, with "
            "a software metric",
        ),
        Column("dose 1", "right", "with counting, one increment for each event", whole=True),
        Column("dose 0", "right", "without counting, extrapolated from the doses above 0", whole=True),
        Column(f"{level} % interval", "right", "confidence interval of the extrapolated value", whole=True),
        *([Column("observed", "right", "mean of the runs without counting", whole=True)] if has_idle else []),
        Column("off the line", "right", _DEVIATION[has_idle], whole=True),
        Column("outcome"),
    )
    rows: list[Sequence[Cell | str]] = [
        [
            response_name(each),
            each.check,
            Cell(shown(each, each.means[1]), key=each.means[1]),
            Cell(shown(each, each.value), key=each.value),
            interval(each),
            *([_observed(each)] if has_idle else []),
            Cell(deviation(each), key=each.deviation),
            Cell(each.outcome, _TONES[each.outcome], key=SERIOUSNESS.index(each.outcome)),
        ]
        for each in found.ranked[:MOST_ROWS]
    ]
    left_out = len(found.responses) - len(rows)
    more = f"; {left_out} less serious ones are in verdicts.json" if left_out else ""
    return Table(columns, rows, f"Response of {found.configuration} to the dose{more}")


_DEVIATION = {
    False: "what a parabola through the doses would give at dose 0, minus the line",
    True: "observed without counting, minus the line at dose 0",
}


def _observed(response: Response) -> Cell | str:
    return "" if response.without is None else Cell(shown(response, response.without), key=response.without)
