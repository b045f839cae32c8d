"""The page as Chromium shows it: nothing asked for, nothing complained of, everything drawn and answering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report
from tests.analysis.report.synthetic import make_hostile
from unperturbed.analysis.report.campaign.content import CounterSource, ReportContent, configuration_results
from unperturbed.analysis.report.campaign.page import write_report

pytestmark = pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())

FIGURES = {
    "forest",
    "before-after",
    "baseline-by-run",
    "inner-overhead",
    "outer-overhead",
    "alignment-signals",
    "alignment-path",
    "alignment-scores",
    *(f"traces-{number}" for number in range(5)),
}


@pytest.fixture(scope="module")
def opened(content: ReportContent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportPage]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, content)
    with open_report(path) as page:
        page.wait_drawn()
        page.unfold()
        assert page.requests() == [path.resolve().as_uri()]
        yield page


@pytest.fixture(autouse=True)
def nothing_is_complained_of(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "opened" in request.fixturenames:
        page = request.getfixturevalue("opened")
        assert page.console() == []
        assert page.requests() == []


def test_every_figure_is_drawn(opened: ReportPage, content: ReportContent):
    drawn = opened.drawn()
    assert set(drawn) >= FIGURES
    assert all(drawn.values())
    heavy = configuration_results(content)[-1]
    points = opened.js("return document.querySelectorAll('#forest .scatterlayer .point').length")
    assert points == len(heavy.changes)
    assert opened.js("return document.querySelectorAll('#traces-4 .scatterlayer .js-line').length") == 3 * 4


def test_the_page_tells_when_it_was_painted_and_drawn(opened: ReportPage):
    assert {"first-contentful-paint", "plotly-ready", "all-drawn"} <= set(opened.timings())


def test_the_reader_sees_the_answer_and_the_verdicts(opened: ReportPage):
    assert "heavy is perturbed" in opened.text(".answer")
    assert " ".join(opened.text(".trust thead").split()) == "metric anchor ✓ light ✓ medium ? heavy ✗"
    assert "Simulated counters" in opened.text("details.banner summary")
    assert "L1-data misses and mispredicted branches: ρ fell from" in opened.text("#card-3")


def test_a_cell_opens_its_details_and_escape_closes_them(opened: ReportPage, content: ReportContent):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    cell = opened.driver.find_element(By.CSS_SELECTOR, ".matrix td.perturbed button")
    opened.js("arguments[0].scrollIntoView({block: 'center'})", cell)
    cell.click()
    opened.wait("return document.getElementById('details').open", 20)
    assert opened.text("#details-title").startswith(
        "heavy: L1-data misses – mispredicted branches (PAPI_L1_DCM and PAPI_BR_MSP)"
    )
    assert "fell from" in opened.text("#details-sentence")
    facts = opened.text("#details-facts")
    for label in ("change of ρ", "confidence interval", "tolerance", "p, corrected", "smallest visible change"):
        assert label in facts
    opened.wait("return document.querySelectorAll('#details-chart .point').length === 10 + 5 + 1", 20)
    assert opened.js("return document.querySelectorAll('#details-runs tr').length") == 10 + 5
    worst = configuration_results(content)[-1].worst("inner")
    assert worst is not None
    assert worst.observed_runs[0] in opened.text("#details-runs")
    opened.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not opened.js("return document.getElementById('details').open")


def choose(opened: ReportPage, selector: str, value: str) -> None:
    opened.js(
        "const control = document.querySelector(arguments[0]); control.value = arguments[1];"
        "control.dispatchEvent(new Event('change', {bubbles: true}))",
        selector,
        value,
    )


def test_the_metric_chosen_is_the_metric_drawn(opened: ReportPage):
    choose(opened, "[data-group='trace-metric']", "IPC")
    titles = opened.js(
        "return [...document.querySelectorAll('[id^=traces-]')].map((chart) => chart.layout?.annotations[0].text)"
    )
    assert [title for title in titles if title] == ["<b>instructions per cycle (simulated), ratio</b>"] * 5
    highest = opened.js("return Math.max(...document.getElementById('traces-4').data[0].y)")
    assert 1 < highest < 2
    choose(opened, "[data-group='trace-metric']", "PAPI_L1_DCM")
    assert opened.js("return Math.max(...document.getElementById('traces-4').data[0].y)") > 1000


def test_the_forest_shows_the_chosen_configuration(opened: ReportPage):
    choose(opened, "[data-group='forest-configuration']", "light")
    names = opened.js("return document.getElementById('forest').data.map((trace) => trace.name)")
    assert set(names) == {"✓ unperturbed"}
    choose(opened, "[data-group='forest-configuration']", "heavy")


def test_the_papers_scale_is_an_option(opened: ReportPage):
    opened.js("document.querySelector('input[value=paper]').click()")
    for figure in ("baseline-by-run", "inner-overhead", "outer-overhead"):
        low, *_ = opened.js("return document.getElementById(arguments[0]).layout.yaxis.range", figure)
        assert low == pytest.approx(0.3)
        assert opened.js(
            "return document.getElementById(arguments[0]).data.every((t) => t.y.every((y) => y >= 0))", figure
        )
    opened.js("document.querySelector('input[value=signed]').click()")
    assert opened.js("return document.getElementById('inner-overhead').layout.yaxis.range[0]") == pytest.approx(-1.05)


def column(opened: ReportPage, number: int, *, keys: bool = False) -> list[str]:
    cell = "row.cells[arguments[0]]"
    value = f"{cell}.dataset.key" if keys else f"{cell}.textContent"
    script = f"return [...document.querySelectorAll('#changes-table tbody tr:not([hidden])')].map((row) => {value})"
    return list(opened.js(script, number))


def test_the_table_sorts_by_number_and_says_so(opened: ReportPage):
    opened.js("document.querySelectorAll('#changes-table .sort')[6].click()")
    effects = [float(key) for key in column(opened, 6, keys=True)]
    assert effects == sorted(effects)
    assert opened.js("return document.querySelectorAll('#changes-table [aria-sort=ascending]').length") == 1
    opened.js("document.querySelectorAll('#changes-table .sort')[6].click()")
    assert [float(key) for key in column(opened, 6, keys=True)] == sorted(effects, reverse=True)
    opened.js("document.querySelectorAll('#changes-table .sort')[13].click()")
    runs = column(opened, 13)
    assert runs.index("–") > 0
    assert set(runs[runs.index("–") :]) == {"–"}
    opened.js("document.querySelectorAll('#changes-table .sort')[1].click()")
    assert column(opened, 1) == sorted(column(opened, 1))


def test_the_table_can_be_narrowed(opened: ReportPage, content: ReportContent):
    wanted = [change for verdict in content.verdicts for change in verdict.of("inner") if change.verdict == "undecided"]
    choose(opened, "[data-filter][data-column='3']", "undecided")
    choose(opened, "[data-filter][data-column='2']", "inner")
    assert set(column(opened, 3)) == {"? undecided"}
    assert opened.text("#changes-count") == f"{len(wanted)} changes"
    choose(opened, "[data-filter][data-column='3']", "unperturbed")
    assert set(column(opened, 3)) == {"✓ unperturbed"}
    choose(opened, "[data-filter][data-column='3']", "")
    choose(opened, "[data-filter][data-column='2']", "")
    assert len(column(opened, 3)) == sum(len(verdict.changes) for verdict in content.verdicts)


def test_the_matrix_unfolds(opened: ReportPage):
    shown = (
        "return [...document.querySelectorAll('.matrix')[0].querySelectorAll('tbody tr')].filter((r) => "
        "r.offsetHeight).length"
    )
    assert opened.js(shown) == 12
    opened.js("document.querySelector('.show-more').click()")
    assert opened.js(shown) == 21
    assert opened.js("return document.querySelector('.show-more').getAttribute('aria-expanded')") == "true"
    opened.js("document.querySelector('.show-more').click()")
    assert opened.js(shown) == 12


def expect_ink(opened: ReportPage, colour: str) -> None:
    """Wait until text of the page and text of a figure have this colour: figures are drawn anew a moment after the
    page."""
    tick = "getComputedStyle(document.querySelector('#forest .xtick text')).fill"
    opened.wait(f"return getComputedStyle(document.body).color === '{colour}' && {tick} === '{colour}'", 20)


def test_dark_light_and_paper_reach_the_figures(opened: ReportPage):
    expect_ink(opened, "rgb(27, 31, 36)")
    opened.emulate(dark=True)
    expect_ink(opened, "rgb(230, 233, 236)")
    opened.emulate(dark=True, media="print")
    expect_ink(opened, "rgb(0, 0, 0)")
    assert opened.js("return getComputedStyle(document.querySelector('nav')).display") == "none"
    assert opened.js("return document.querySelector('.more').offsetHeight") > 0
    opened.emulate()
    expect_ink(opened, "rgb(27, 31, 36)")


@pytest.mark.parametrize("width", [1280, 800])
def test_nothing_runs_out_of_the_window(opened: ReportPage, width: int):
    opened.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    opened.wait(
        "return [...document.querySelectorAll('.chart svg')].every((s) => s.getBoundingClientRect().right <= "
        "innerWidth)"
    )
    assert opened.js("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    escaped = opened.js(
        "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg, pre, .chart') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert escaped == []


def test_it_prints(opened: ReportPage):
    import base64

    pdf = base64.b64decode(opened.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type/Page\n") + pdf.count(b"/Type /Page/") < 60


def test_the_page_cannot_fetch_even_if_it_wanted(opened: ReportPage):
    """The policy holds: this is what keeps any text of a campaign from phoning home."""
    opened.driver.set_script_timeout(10)
    refused = opened.driver.execute_async_script(
        "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('went out'), (error) => "
        "done(String(error)))"
    )
    assert "went out" not in refused
    said = opened.console()
    assert said
    assert all("Content Security Policy" in line or "Refused" in line for line in said)
    opened.requests()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ReportPage, Path]]:
    """A second window, for other reports, and the file to write them to."""
    path = tmp_path_factory.mktemp("other") / "report.html"
    write_report(path, ReportContent("bare", (), CounterSource("papi")))
    with open_report(path, width=800, dark=True) as page:
        yield page, path


def test_a_page_without_figures_comes_to_rest(elsewhere: tuple[ReportPage, Path]):
    page, _ = elsewhere
    page.wait_drawn()
    assert page.drawn() == {}
    assert "No verdict" in page.text(".answer")
    assert page.console() == []


def test_hostile_names_are_shown_and_never_run(content: ReportContent, elsewhere: tuple[ReportPage, Path]):
    page, path = elsewhere
    write_report(path, make_hostile(content))
    page.open(path)
    page.wait_drawn()
    page.unfold()
    assert set(page.drawn()) >= FIGURES
    assert "</script><img src=x onerror=alert(1)>\"'&<!--" in page.text("h1")
    page.js("document.querySelector('[data-change]').click()")
    page.wait("return document.getElementById('details').open", 20)
    assert "onerror=alert(1)" in page.text("#details-title")
    assert page.js("return document.images.length") == 0
    assert page.js("return document.documentElement.scrollWidth") == 800
    assert page.console() == []
    assert page.requests() == [path.resolve().as_uri()]


def test_one_configuration_and_few_traces_are_enough(content: ReportContent, elsewhere: tuple[ReportPage, Path]):
    page, path = elsewhere
    few = replace(
        content, verdicts=content.verdicts[:1], alignment=None, traces={"baseline": content.traces["baseline"]}
    )
    write_report(path, few)
    page.open(path)
    page.wait_drawn()
    page.unfold()
    drawn = page.drawn()
    assert all(drawn.values())
    assert drawn.keys() & FIGURES == {"forest", "baseline-by-run", "inner-overhead", "outer-overhead", "traces-0"}
    assert page.console() == []
