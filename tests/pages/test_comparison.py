"""Two campaigns side by side: which verdicts, facts, totals and correlations differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from tests.analysis.report.campaign.test_trust import verdict
from tests.analysis.report.synthetic import make_content, make_hostile
from tests.pages.test_campaign_in_use import CONTRAST
from unperturbed.analysis.report import render_comparison, write_page
from unperturbed.analysis.report.campaign.comparison import (
    baseline_rhos,
    baseline_totals,
    comparison_sentence,
    verdict_pairs,
)
from unperturbed.analysis.report.campaign.content import (
    ConfigurationResult,
    CounterSource,
    ReportContent,
    ReportView,
    configuration_results,
)
from unperturbed.collectors.data import Trace

NAMES = ("yesterday", "today")


def results(*verdicts) -> tuple[ConfigurationResult, ...]:
    return configuration_results(ReportContent("x", verdicts, CounterSource("papi")))


def scaled(trace: Trace, metric: str, factor: float) -> Trace:
    columns = {**trace.columns, metric: (trace[metric] * factor).astype(np.int64)}
    return Trace.from_columns(
        list(trace.metrics.values()),
        columns,
        begin_ns=trace.begin_ns,
        end_ns=trace.end_ns,
        attributes=trace.attributes,
    )


@pytest.fixture(scope="module")
def other(content: ReportContent) -> ReportContent:
    """The same program from another compiler: a tenth fewer stores, `light` is no longer left alone."""
    made = make_content(21)
    baseline = tuple(scaled(trace, "PAPI_SR_INS", 0.9) for trace in made.traces["baseline"])
    worse = tuple(
        replace(one, verdict="perturbed", changes=tuple(replace(change, verdict="perturbed") for change in one.changes))
        if one.configuration == "light"
        else one
        for one in made.verdicts
    )
    tools = {**made.provenance["Tools"], "compiler": "clang 19"}
    return replace(
        made,
        verdicts=worse,
        traces={**made.traces, "baseline": baseline},
        provenance={**made.provenance, "Tools": tools},
        spec_text=content.spec_text.replace("blocksort\n", "blocksort\n  build: make CC={cc}\n", 1),
        doubts=("The baseline drifts.",),
    )


def test_verdicts_are_matched_by_configuration_and_metric():
    first = results(verdict("c", a="unperturbed", b="perturbed"), verdict("sham-c", a="perturbed"))
    second = results(verdict("c", a="perturbed"), verdict("d", a="undecided"))
    assert verdict_pairs(first, second) == {
        ("c", "a"): ("unperturbed", "perturbed"),
        ("c", "b"): ("perturbed", None),
        ("d", "a"): (None, "undecided"),
    }


def test_the_sentence_counts_what_became_more_and_less_serious():
    first = results(verdict("c", a="unperturbed", b="perturbed", c="unperturbed"))
    second = results(verdict("c", a="undecided", b="unperturbed", c="perturbed"))
    assert comparison_sentence(first, second, NAMES) == (
        "3 of 3 verdicts (one per metric and configuration) differ: 2 more serious and 1 less serious in today "
        "than in yesterday."
    )
    assert comparison_sentence(first, first, NAMES).startswith("Both campaigns agree on all 3 verdicts")
    assert comparison_sentence(first, (), NAMES).startswith("No metric was checked")


def test_totals_come_with_the_interval_of_their_change(content: ReportContent, other: ReportContent):
    totals = {total.metric: total for total in baseline_totals((content, other), ("baseline", "baseline"))}
    stores, loads = totals["PAPI_SR_INS"], totals["PAPI_LD_INS"]
    assert next(iter(totals)) == "PAPI_SR_INS"
    assert stores.change == pytest.approx(-0.1, abs=0.02)
    assert stores.low < stores.change < stores.high < 0, "beyond what runs vary by"
    assert abs(loads.change) < 0.02
    runs = [
        np.log([trace["PAPI_LD_INS"].sum() for trace in campaign.traces["baseline"]]) for campaign in (other, content)
    ]
    ends = [stats.ttest_ind(*runs, equal_var=pooled).confidence_interval(0.95) for pooled in (True, False)]
    assert np.log1p(loads.high) == pytest.approx(max(end.high for end in ends))
    assert np.log1p(loads.low) == pytest.approx(min(end.low for end in ends))
    assert stores.before == pytest.approx(np.mean([trace["PAPI_SR_INS"].sum() for trace in content.traces["baseline"]]))
    one = replace(content, traces={"baseline": content.traces["baseline"][:1]})
    assert all(math.isnan(total.low) for total in baseline_totals((one, other), ("baseline", "baseline")))
    assert baseline_totals((replace(content, traces={}), other), ("baseline", "baseline")) == []


def test_only_what_the_baseline_itself_shows_is_compared(content: ReportContent):
    found = results(verdict("c", a_b="unperturbed"))
    content_of = ReportContent("x", (), CounterSource("papi"))
    rhos = baseline_rhos(ReportView(content_of, found))
    assert list(rhos) == [("inner", "a", "b")]
    elsewhere = replace(found[0], changes=tuple(replace(one, against="anchor") for one in found[0].changes))
    assert baseline_rhos(ReportView(content_of, [elsewhere])) == {}
    assert len(baseline_rhos(ReportView(content, configuration_results(content)))) == 21 + 8


def test_the_page_says_what_differs(content: ReportContent, other: ReportContent):
    page = render_comparison(content, other, NAMES)
    text = " ".join("".join(Document(page).text).split())
    assert "more serious" in text and " less serious in today than in yesterday." in text
    assert "? Doubts about the baseline: The baseline drifts." in text
    assert text.count("Simulated counters: ") == 1
    assert "Tools: compilergcc 12.2.0clang 19" in text
    differing = text[text.index("Facts that differ") : text.index("facts in common")]
    assert "2 CPUs, Linux 6.18" not in differing
    assert "+ build: make CC={cc}" in text
    assert 'class="differs"' in page
    assert len(page.encode()) < 1_000_000


def test_nothing_in_common_is_no_error(content: ReportContent):
    bare = ReportContent("bare", (), CounterSource("papi"))
    for pair in ((bare, content), (content, bare), (bare, bare)):
        text = "".join(Document(render_comparison(*pair, NAMES)).text)
        assert "No metric was checked in both campaigns in configurations with the same name." in text
    same = "".join(Document(render_comparison(content, content, NAMES)).text)
    assert "All recorded facts are the same." in same


@pytest.fixture(scope="module")
def opened(
    content: ReportContent, other: ReportContent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReportPage]:
    if chromium_missing():
        pytest.skip(chromium_missing())
    path = tmp_path_factory.mktemp("comparison") / "comparison.html"
    write_page(path, render_comparison(content, other, NAMES))
    with open_report(path, width=1400) as page:
        page.wait_drawn()
        yield page
        assert page.console() == []
        assert page.requests() == [path.resolve().as_uri()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_it_is_read_in_chromium(opened: ReportPage, width: int, dark: bool):
    opened.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    opened.emulate(dark=dark)
    ink = "rgb(230, 233, 236)" if dark else "rgb(27, 31, 36)"
    opened.wait(f"return getComputedStyle(document.querySelector('#baselines-rho .xtick text')).fill === '{ink}'", 20)
    opened.unfold()
    assert opened.drawn()["baselines-rho"] > 20
    assert opened.js("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    assert opened.js(CONTRAST) == []


def test_hostile_names_stay_text(content: ReportContent, other: ReportContent, tmp_path: Path):
    if chromium_missing():
        pytest.skip(chromium_missing())
    evil = "</script><img src=x onerror=alert(1)>"
    write_page(
        tmp_path / "page.html", render_comparison(make_hostile(content), make_hostile(other), (evil, f"{evil}2"))
    )
    with open_report(tmp_path / "page.html") as page:
        page.wait_drawn()
        assert page.js("return document.images.length") == 0
        assert evil in page.text("h1")
        assert page.console() == []
