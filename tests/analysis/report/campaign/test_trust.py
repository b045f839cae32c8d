"""The table of metrics and configurations: what a cell says, how it is sorted, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.report.campaign.test_page import Document
from tests.analysis.report.synthetic import make_change
from unperturbed.analysis.perturbation import VERDICT_SIGNS, Verdict, combine
from unperturbed.analysis.perturbation.verdict_text import anchor_notes, cause_legend
from unperturbed.analysis.report.campaign.content import (
    CounterSource,
    ReportContent,
    ReportView,
    configuration_results,
    described_metrics,
)
from unperturbed.analysis.report.campaign.trust import (
    metric_rows,
    metric_verdicts,
    ordered_configurations,
    trust_section,
    trust_sentence,
)

RUNS = (("b1", "b2"), ("c1", "c2"))


def verdict(configuration: str, **pairs: str) -> Verdict:
    """A verdict on a configuration; `a_b="perturbed"` is a pair of the metrics a and b, `a="…"` a single metric."""
    changes = []
    for pair, found in pairs.items():
        first, _, second = pair.partition("_")
        check = "inner" if second else "outer"
        change = make_change(check, first, second or first, [0.5, 0.51], [0.5, 0.52], RUNS, force=found)  # type: ignore[arg-type]
        changes.append(change)
    return Verdict(configuration, "baseline", combine([one.verdict for one in changes]), tuple(changes))


def rows_of(*verdicts: Verdict, **software: tuple[str, ...]):
    content = ReportContent("x", verdicts, CounterSource("papi"), software_by_configuration=software)
    columns = ordered_configurations(configuration_results(content))
    return columns, metric_rows(columns, {})


def test_a_cell_is_the_most_serious_verdict_of_the_changes_that_hold_the_metric():
    (result,) = configuration_results(
        ReportContent("x", (verdict("c", a_b="unperturbed", a_c="perturbed", b="undecided"),), CounterSource("papi"))
    )
    found = metric_verdicts(result)
    assert {name: (one.verdict, one.serious, one.changes) for name, one in found.items()} == {
        "a": ("perturbed", 1, 2),
        "b": ("undecided", 1, 2),
        "c": ("perturbed", 1, 1),
    }
    assert found["a"].worst.second == "c"


@pytest.mark.parametrize("name", list(VERDICT_SIGNS))
def test_every_verdict_that_there_is_has_a_cell_and_a_place(name: str):
    columns, (row,) = rows_of(verdict("c", a=name))
    (cell,) = row.verdicts
    assert cell is not None
    assert cell.verdict == name
    assert row.trusted == (name == list(VERDICT_SIGNS)[-1])
    content = ReportContent("x", (verdict("c", a=name),), CounterSource("papi"))
    html = str(trust_section(ReportView(content, columns)))
    assert f'class="badge {name}"' in html
    assert f'<span class="sign">{VERDICT_SIGNS[name]}</span><span class="share"> 1 of 1</span>' in html  # type: ignore[index]


def against(reference: str, made: Verdict) -> Verdict:
    """Return a verdict whose outer changes have other reference runs than its inner changes."""
    changes = tuple(replace(one, against="baseline" if one.check == "inner" else reference) for one in made.changes)
    return replace(made, changes=changes)


def test_changes_of_the_anchor_hold_for_subsets_that_are_compared_with_its_runs():
    anchor = against("baseline", verdict("anchor", a_b="unperturbed", a="perturbed", b="shifted", c="undecided"))
    calls = against("anchor", verdict("calls", a_b="unperturbed", a="unperturbed", b="unperturbed", c="unperturbed"))
    other = against("anchor", verdict("other", a_b="unperturbed", a="shifted", b="perturbed", c="unperturbed"))
    (said,) = anchor_notes([anchor, calls])
    assert said == (
        "Between runs, the anchor itself is ✗ perturbed in a and ~ shifted in b against the baseline. calls runs with "
        "the anchor, and between runs is compared with its runs: so this holds for it too."
    )
    (both,) = anchor_notes([anchor, calls, other])
    assert both.endswith(
        "calls and other run with the anchor, and between runs are compared with its runs: so this holds for them too."
    )
    assert "between runs, subsets against the anchor's runs" in cause_legend([anchor, calls])
    assert "anchor" not in cause_legend([anchor])
    columns, _ = rows_of(anchor, calls)
    content = ReportContent("x", (anchor, calls), CounterSource("papi"))
    assert said in str(trust_section(ReportView(content, columns)))


def test_an_anchor_with_no_more_serious_change_has_no_note():
    anchor = against("baseline", verdict("anchor", a_b="unperturbed", a="unperturbed", b="undecided"))
    calls = against("anchor", verdict("calls", a_b="unperturbed", a="perturbed", b="unperturbed"))
    assert anchor_notes([anchor, calls]) == ()
    alone = against("baseline", verdict("calls", a_b="unperturbed", a="unperturbed"))
    assert anchor_notes([against("baseline", verdict("anchor", a_b="unperturbed", a="perturbed")), alone]) == ()


def test_what_can_be_trusted_stands_first_in_both_directions():
    columns, rows = rows_of(
        verdict("bad", a="perturbed", b="unperturbed", c="undecided"),
        verdict("sham-bad", a="unperturbed"),
        verdict("fine", a="unperturbed", b="unperturbed", c="unperturbed"),
        verdict("open", a="unperturbed", b="unperturbed", c="undecided"),
        bad=("calls",),
    )
    assert [result.configuration for result in columns] == ["fine", "open", "bad"], "a sham counts nothing"
    assert [row.name for row in rows] == ["b", "c", "a", "calls"]
    assert [row.software for row in rows] == [False, False, False, True]


def test_of_equal_verdicts_the_larger_share_is_worse():
    _, rows = rows_of(verdict("c", a_b="perturbed", a_c="unperturbed", a_d="unperturbed", b_c="unperturbed"))
    assert [row.name for row in rows if row.trusted] == ["c", "d"]
    assert [row.name for row in rows if not row.trusted] == ["a", "b"]


def test_the_sentence_says_how_many_and_names_a_few():
    columns, rows = rows_of(verdict("c", a="unperturbed", PAPI="perturbed"))
    assert trust_sentence(rows, 1) == "The correlations of 1 of 2 metrics can be trusted: a."
    assert (
        trust_sentence(rows[:1], 3)
        == "The correlations of every metric that was checked can be trusted in all 3 configurations."
    )
    assert trust_sentence(rows[1:], 3).startswith("No metric's correlations can be trusted in all 3 configurations;")
    partly = replace(rows[0], verdicts=(*rows[0].verdicts, None))
    said = "The correlations of every metric that was checked can be trusted in every configuration that checks them."
    assert trust_sentence([partly], 2) == said
    assert trust_sentence([replace(rows[0], verdicts=(None,))], 1) == "No metric was checked."
    assert len(columns) == 1


def test_the_page_begins_with_it_then_says_what_to_do(content: ReportContent, html: str):
    text = "".join(Document(html).text)
    order = ["heavy is perturbed;", "Simulated counters: ", "Metrics you may trust", "What to do", "The campaign"]
    places = [text.index(said) for said in order]
    assert places == sorted(places)
    advised = text[text.index("What to do") : text.index("The campaign")]
    assert "Take the hardware metrics from the baseline runs, not from these runs." in advised
    assert "anchor, light" in advised
    described = described_metrics(content)
    columns = ordered_configurations(configuration_results(content))
    assert len(metric_rows(columns, described)) == len(described)


def test_a_software_metric_that_nothing_can_be_held_against_says_why(html: str):
    assert 'title="no configuration with fewer metrics counts this metric' in html
    assert 'title="heavy does not collect this metric"' in html


def test_what_speaks_against_the_baseline_stands_under_the_headline(content: ReportContent, html: str):
    from unperturbed.analysis.report.campaign.page import render

    assert "Doubts about the baseline" not in html
    page = "".join(Document(render(replace(content, doubts=("The baseline drifts: x goes up.", "Run 7.")))).text)
    assert page.index("perturbed;") < page.index("The baseline drifts") < page.index("Simulated counters")
    assert page.index("Run 7.") < page.index("Metrics you may trust")


def test_reasons_of_sources_are_folded_away(content: ReportContent):
    from unperturbed.analysis.report.campaign.verdicts import simulated_banner

    errors = "papi: Permission denied (EACCES)"
    for source in (replace(content.source, sentence=errors), CounterSource("perf_event", errors)):
        said = str(simulated_banner(replace(content, source=source, traces={})))
        assert said.startswith("<details")
        assert "EACCES" in said.partition("</summary>")[2]


def test_the_time_is_the_hosts_own(monkeypatch: pytest.MonkeyPatch):
    import time

    from unperturbed.analysis.pages.document import moment

    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        assert ">2026-07-01 14:00 CEST</time>" in str(moment("2026-07-01T12:00:00+00:00"))
        assert moment("yesterday") == "yesterday"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_many_configurations_fit_by_their_signs_alone():
    content = ReportContent(
        "x", tuple(verdict(f"c{number}", a="unperturbed") for number in range(9)), CounterSource("p")
    )
    found = configuration_results(content)
    assert 'class="trust compact"' in str(trust_section(ReportView(content, found)))
    assert 'class="trust"' in str(trust_section(ReportView(content, found[:8])))
