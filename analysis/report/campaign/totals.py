"""The sections on totals, on responses to doses, on MPI ranks and threads, and on multiplexed metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unperturbed.analysis.doses.response_text import dose_sentences, response_table
from unperturbed.analysis.pages.document import section
from unperturbed.analysis.report.campaign.figures import Blocks, shown
from unperturbed.analysis.report.campaign.setups import SECOND
from unperturbed.analysis.totals.total_text import HOW_COMPARED, total_table, totals_sentence
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.nodes.strata import Kind, StrataVerdicts
    from unperturbed.analysis.report.campaign.content import ReportContent


def totals_section(content: ReportContent, blocks: Blocks) -> Html | None:
    """Return the section on totals; None if no totals were compared."""
    if not content.totals:
        return None
    first = "A" if set(content.totals) == {SECOND} else "the baseline"
    said = [
        tag("li", totals_sentence(name, changes, first, advice=content.looks is None))
        for name, changes in content.totals.items()
    ]
    return section(
        "totals",
        "Totals of a run",
        tag(
            "p",
            "Counts and times of whole runs, and means of gauges, each compared with a relative tolerance. Totals "
            "have their own verdicts: a total can halve without a change of correlations, and a correlation can change "
            f"without a change of totals. {HOW_COMPARED}",
        ),
        tag("ul", said),
        shown(blocks),
        total_table(content.totals, "Totals").to_html(sortable=True),
    )


def strata_section(strata: StrataVerdicts | None) -> Html | None:
    """Return the section on MPI ranks or on threads; None if the runs have none."""
    if strata is None:
        return None
    return section(
        f"{strata.kind}s",
        f"{strata.kind.capitalize()}s",
        tag("p", _ABOUT_STRATA[strata.kind]),
        tag("ul", [tag("li", sentence) for sentence in strata.sentences()]),
        [table.to_html(sortable=True) for table in strata.tables()],
    )


_ABOUT_STRATA: Mapping[Kind, str] = {
    "rank": "Each MPI rank is compared with itself in the baseline's runs. The verdict on all ranks is that on the "
    "changes of all of them, as one family; the campaign's verdicts are on the sum over ranks. A rank waits in calls "
    "of MPI that return only when another rank has done its part.",
    "thread": "Each thread is compared with the thread of the same role in the baseline's runs: what it was created to "
    "run, and as which one. The verdict on all threads is that on the changes of all of them, as one family; the "
    "campaign's verdicts are on the sum over threads.",
}


def multiplexing_section(content: ReportContent) -> Html | None:
    """Return the section on metrics that take turns on the counters; None if the campaign did not try it."""
    if content.multiplexing is None:
        return None
    return section(
        "multiplexing",
        "Multiplexed metrics",
        tag(
            "p",
            "Runs in which metrics take turns on the counters are compared with passes, in which each metric has a "
            "counter all the time. A metric may be multiplexed if its total is unperturbed, and its correlations with "
            "the other metrics that may be and with those that are always counted. Longer intervals join those of the "
            "campaign.",
        ),
        tag("ul", [tag("li", sentence) for sentence in content.multiplexing.sentences()]),
        [table.to_html(sortable=True) for table in content.multiplexing.tables()],
    )


def doses_section(content: ReportContent, blocks: Blocks) -> Html | None:
    """Return the section on responses to the number of increments; None if nothing ran at several."""
    if not content.doses:
        return None
    said = [tag("li", " ".join(dose_sentences(responses))) for responses in content.doses.values()]
    tables = [response_table(responses).to_html(sortable=True) for responses in content.doses.values()]
    return section(
        "doses",
        "Response to the dose",
        tag(
            "p",
            "Each subset also ran with several increments in place of one: the first counts the event, the others only "
            "cost as much. A line through these doses, extended to 0, gives the value without counting; for "
            "correlations, the signals are extrapolated where intervals are of work. Corrected: the line holds within "
            "the tolerance, so use the value at dose 0 with its interval. Not linear: no correction is possible. Not "
            "needed: the counting leaves the value unperturbed.",
        ),
        tag("ul", said),
        shown(blocks),
        *tables,
    )
