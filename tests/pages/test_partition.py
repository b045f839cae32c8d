"""The page of a partition: as text, and as Chromium shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from tests.analysis.report.partition.partitions import (
    METRICS,
    TOLERANCE,
    make_hostile_plan,
    make_partition_content,
    make_plan,
)
from tests.pages.test_campaign_in_use import CONTRAST
from unperturbed.analysis.partition import Plan, UndecidedMetrics
from unperturbed.analysis.partition.plan_text import new_runs, plan_headline
from unperturbed.analysis.report import CounterSource, ReportContent, render_partition, write_partition
from unperturbed.analysis.report.partition_figures import runs_figure, steps_figure

EVIL = "</script><img src=x onerror=alert(1)>\"'&<!--%{y}\u2028\u202e\ud800\x00日本"
needs_browser = pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = make_plan()
    assert found.complete
    assert [each.metric for each in found.unmeasurable] == ["loud"]
    assert len(found.subsets) == 2
    return found


@pytest.fixture(scope="module")
def stopped() -> Plan:
    found = make_plan(max_runs=40)
    assert not found.complete
    assert found.subsets
    assert found.undecided
    return found


@pytest.fixture(scope="module")
def empty() -> Plan:
    found = make_plan(max_runs=9)
    assert not found.subsets
    return found


@pytest.fixture(scope="module")
def facts() -> ReportContent:
    return make_partition_content()


def _text(page: str) -> str:
    return " ".join("".join(Document(page).text).split())


def test_the_answer_stands_first_and_then_plan_evidence_and_search(plan: Plan, facts: ReportContent):
    page = render_partition(facts, plan)
    assert (
        "4 of 5 software metrics can be measured, in 2 subsets certified to leave the program unperturbed; loud cannot"
        in page
    )
    places = [
        page.index(part) for part in ('class="answer"', 'id="plan"', 'id="left-out"', 'id="evidence"', 'id="search"')
    ]
    assert places == sorted(places)


def test_what_is_simulated_says_so(plan: Plan, facts: ReportContent):
    text = _text(render_partition(facts, plan))
    assert "Simulated counters: " in text
    assert "instructions added (simulated)" in text
    real = _text(render_partition(replace(facts, source=CounterSource("papi", "Counted by the processor.")), plan))
    assert "imulated" not in real
    assert "Counters: papi." in real


def test_every_metric_has_its_row_its_cost_and_its_place(plan: Plan, facts: ReportContent):
    page = render_partition(facts, plan)
    picture = page[page.index('id="plan"') : page.index('id="left-out"')]
    rows = {
        re.sub("<.*?>", "", head).removesuffix(" anchor"): row
        for row, head in re.findall(r"<tr[^>]*>(<th scope=\"row\">(.*?)</th>.*?)</tr>", picture)
    }
    assert set(rows) == {*METRICS, "steps", "together"}
    held = {metric: re.findall(r'title="[^"]* in (subset-\d)"', row) for metric, row in rows.items()}
    assert held["steps"] == ["subset-1", "subset-2"]
    for subset in plan.subsets:
        assert all(held[metric] == [subset.name] for metric in subset.metrics)
    assert held["loud"] == []
    assert "✗ perturbs alone" in rows["loud"]
    assert "+1.2" in rows["loud"]  # it costs 3 × 0.4 % in the simulated program
    assert "+2.0" in rows["reads"]


def test_left_out_metrics_have_reason_and_advice(plan: Plan, stopped: Plan, facts: ReportContent):
    (lone,) = plan.unmeasurable
    text = _text(render_partition(facts, plan))
    assert lone.reason[1:] in text
    assert lone.advice[1:] in text
    text = _text(render_partition(facts, stopped))
    assert all(each.reason[1:] in text for each in stopped.undecided)
    assert "Continue the search" in text
    alike = [UndecidedMetrics((metric,), "not measured") for each in stopped.subsets for metric in each.metrics]
    page = _text(render_partition(facts, replace(stopped, subsets=(), undecided=(*stopped.undecided, *alike))))
    together = ", ".join(metric for each in alike for metric in each.metrics)
    assert f"{together} ? undecidedNot measured." in page


def test_evidence_names_runs_and_level(plan: Plan, facts: ReportContent):
    page = render_partition(facts, plan)
    for place, subset in enumerate(plan.subsets, 1):
        part = page[page.index(f'id="evidence-{place}"') :]
        text = re.sub("<.*?>", " ", part[: part.index("</dl>")])
        assert f"{len(subset.runs)}: {subset.runs[0]} … {subset.runs[-1]}" in text
        assert f"{subset.level:g}" in text
        assert subset.verdict is not None
        assert re.search(rf"Changes within the tolerance\s+{len(subset.verdict.changes)}\b", text)


def test_every_measurement_is_listed_in_order_with_its_runs(plan: Plan, facts: ReportContent):
    page = render_partition(facts, plan)
    table = page[page.index('id="measurements"') :]
    rows = re.findall(r"<tr><th [^>]*scope=\"row\"[^>]*>(.*?)</tr>", table[: table.index("</table>")])
    assert len(rows) == len(plan.history)
    cells = [re.sub(r"<[^>]*>", "|", row).split("|") for row in rows]
    assert [row[0] for row in cells] == [str(each.number) for each in plan.history]
    for row, measurement, runs in zip(rows, plan.history, new_runs(plan), strict=True):
        assert ", ".join(measurement.subset) in row
        assert f'data-key="{runs}"' in row
        assert f'data-key="{measurement.runs_used}"' in row
    certified = [row for row in rows if "✓ certified" in row]
    assert sorted(re.findall(r"subset-\d", " ".join(certified))) == ["subset-1", "subset-2"]
    assert sum(new_runs(plan)) == plan.runs_used


def test_the_figure_of_the_search_holds_every_metric_of_every_candidate(plan: Plan):
    order = list(METRICS)
    figure = steps_figure(plan, order)
    assert figure is not None
    drawn = {
        (order[row - 1], base, runs)
        for trace in figure.data[1:]
        for row, base, runs in zip(trace["y"], trace["base"], trace["x"], strict=True)
    }
    expected = {
        (metric, measurement.runs_used - runs, runs)
        for measurement, runs in zip(plan.history, new_runs(plan), strict=True)
        for metric in measurement.subset or order
    }
    assert drawn == expected
    assert {trace["name"] for trace in figure.data[1:]} >= {
        "✓ unperturbed",
        "✗ perturbed",
        "fresh baseline",
        "✓ certified",
    }


def test_narrow_columns_have_no_edge_and_what_only_searched_stays_pale(plan: Plan):
    for runs, width, pale in ((plan.runs_used, 1, None), (1000, 0, 0.45)):
        figure = steps_figure(replace(plan, runs_used=runs), METRICS)
        assert figure is not None
        looks = {trace["name"]: trace for trace in figure.data[1:]}
        assert {trace["marker"]["line"]["width"] for trace in looks.values()} == {width}
        assert looks["✗ perturbed"].get("opacity") == pale
        assert looks["✓ certified"].get("opacity", 1) == 1
        assert looks["✓ certified"]["marker"]["color"] == "@unperturbed"


def test_runs_used_stand_beside_the_forecast(plan: Plan):
    forecast, expected, *used = runs_figure(plan).data
    assert forecast["base"] == [plan.forecast.low]
    assert forecast["x"] == [plan.forecast.high - plan.forecast.low]
    assert expected["x"] == [plan.forecast.expected]
    assert sum(trace["x"][0] for trace in used) == plan.runs_used
    assert [trace["base"][0] for trace in used] == [0, used[0]["x"][0], used[0]["x"][0] + used[1]["x"][0]]


def test_an_unfinished_plan_and_one_without_a_subset_say_so(stopped: Plan, empty: Plan, facts: ReportContent):
    text = _text(render_partition(facts, stopped))
    assert f"Not finished: {stopped.stopped}. This is the best plan so far." in text
    assert "with a higher limit" in text
    interrupted = _text(render_partition(facts, replace(stopped, stopped="interrupted")))
    assert "with a higher limit" not in interrupted
    text = _text(render_partition(facts, empty))
    assert (
        "No subset of the 5 software metrics is certified to leave the program unperturbed; 5 metrics are undecided."
        in text
    )
    assert "No subset is certified, so there is no evidence to show." in text
    nothing = _text(render_partition(facts, replace(empty, history=(), runs_used=0)))
    assert "Nothing was measured." in nothing


def test_the_sentence_counts_metrics_and_subsets(plan: Plan):
    first, second = plan.subsets
    whole = replace(plan, unmeasurable=())
    assert plan_headline(whole) == (
        "All 4 software metrics can be measured, in 2 subsets certified to leave the program unperturbed."
    )
    one = replace(whole, subsets=(replace(second, metrics=("loops",)),))
    assert plan_headline(one).startswith("The one software metric can be measured, in one subset certified")
    left = replace(whole, subsets=(first,), undecided=(UndecidedMetrics(("loops",), "why"),))
    assert plan_headline(left).endswith("in one subset certified to leave the program unperturbed; loops is undecided.")


def test_a_plan_without_kept_evidence_stands(plan: Plan, facts: ReportContent):
    bare = replace(
        plan,
        subsets=tuple(replace(each, verdict=None, runs=()) for each in plan.subsets),
        unmeasurable=tuple(replace(each, verdict=None) for each in plan.unmeasurable),
        tolerance=None,
    )
    text = _text(render_partition(facts, bare))
    assert "The plan contains no changes for this subset." in text
    assert "more than the tolerance" in text


def test_it_is_well_formed_and_asks_for_nothing(plan: Plan, facts: ReportContent):
    document = Document(render_partition(facts, plan))
    identities = [attributes["id"] for _, attributes in document.elements if attributes.get("id")]
    assert len(identities) == len(set(identities))
    targets = [str(link["href"]).removeprefix("#") for link in document.all("a")]
    assert set(targets) <= set(identities)
    assert not [
        name for name, attributes in document.elements if "src" in attributes or name in {"link", "img", "iframe"}
    ]


def test_names_of_metrics_never_leave_their_place(plan: Plan, stopped: Plan, facts: ReportContent):
    for found in (plan, stopped):
        usual, hostile = (Document(render_partition(facts, each)) for each in (found, make_hostile_plan(found, EVIL)))
        assert not hostile.all("img")
        assert len(hostile.all("script")) == len(usual.all("script"))
        assert "onerror=alert(1)" in "".join(hostile.text)


def test_the_example_of_the_documentation_runs(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "library.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "write_partition" in code]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "('entries', 'writes')" in done.stdout
    assert "loops perturbs the program when measured alone" in done.stdout
    assert "2 of 3 software metrics can be measured" in _text((tmp_path / "partition.html").read_text())


@pytest.fixture(scope="module")
def opened(
    plan: Plan, facts: ReportContent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ReportPage, Path]]:
    path = tmp_path_factory.mktemp("partition") / "partition.html"
    write_partition(path, facts, plan)
    with open_report(path) as page:
        page.wait_drawn()
        assert page.requests() == [path.resolve().as_uri()]
        yield page, path


def _show(opened: tuple[ReportPage, Path], facts: ReportContent, plan: Plan) -> ReportPage:
    page, path = opened
    write_partition(path, facts, plan)
    page.open(path)
    page.wait_drawn()
    return page


@needs_browser
def test_every_figure_is_drawn_and_every_change_has_its_point(opened: tuple[ReportPage, Path], plan: Plan):
    page, _ = opened
    drawn = page.drawn()
    assert set(drawn) == {"forest-1", "forest-2", "forest-left-out", "search-runs", "search-steps"}
    assert all(drawn.values())
    for place, subset in enumerate(plan.subsets, 1):
        assert subset.verdict is not None
        points = f"return document.querySelectorAll('#forest-{place} .scatterlayer .point').length"
        assert page.js(points) == len(subset.verdict.changes)
        low, high = page.js(
            f"const s = document.getElementById('forest-{place}').layout.shapes[0]; return [s.x0, s.x1]"
        )
        assert (low, high) == (-TOLERANCE, TOLERANCE)
        for axis, check in (("y", "inner"), ("y2", "outer")):
            reach = page.js(
                f"return document.getElementById('forest-{place}').data.filter((t) => t.yaxis === "
                f"'{axis}').flatMap((t) => t.y.map("
                "(row, i) => [row, Math.max(t.x[i] + t.error_x.array[i], t.error_x.arrayminus[i] - "
                "t.x[i])])).sort((a, b) => a[0] - b[0])"
                ".map((pair) => pair[1])"
            )
            assert len(reach) == len(subset.verdict.of(check))
            assert reach == pytest.approx(sorted(reach, reverse=True), abs=2e-3)  # worst first; ends are rounded
    assert page.console() == []


@needs_browser
def test_labels_do_not_overlap(opened: tuple[ReportPage, Path]):
    page, _ = opened
    overlapping = page.js(
        "return [...document.querySelectorAll('.chart')].flatMap((chart) => {"
        "  const texts = [...chart.querySelectorAll('.xtick text, .ytick text, .legendtext, .annotation-text, "
        ".xtitle, .bartext')]"
        "    .filter((t) => t.textContent && getComputedStyle(t).display !== 'none').map((t) => [t.textContent, "
        "t.getBoundingClientRect()])"
        "    .filter(([, r]) => r.width > 1);"
        "  return texts.flatMap(([a, r], i) => texts.slice(i + 1).filter(([, s]) => r.left < s.right - 1 && "
        "s.left < r.right - 1 && "
        "    r.top < s.bottom - 2 && s.top < r.bottom - 2).map(([b]) => `${chart.id}: ${a} / ${b}`));"
        "})"
    )
    assert overlapping == []


@needs_browser
def test_a_click_on_a_cell_leads_to_the_evidence_and_one_on_a_point_opens_its_runs(
    opened: tuple[ReportPage, Path], plan: Plan
):
    page, _ = opened
    page.js("document.querySelector('#plan td.held a').click()")
    assert page.js("return location.hash") == "#evidence-1"
    page.js(
        "document.getElementById('forest-1').emit('plotly_click', {points: [{customdata: "
        "document.getElementById('forest-1').data[0].customdata[0]}]})"
    )
    page.wait("return document.getElementById('details').open", 20)
    assert page.text("#details-title").startswith("subset-1: ")
    (subset,) = plan.subsets[:1]
    assert subset.runs[0] in page.text("#details-runs")
    page.js("document.getElementById('details').close()")


@needs_browser
def test_dark_reaches_picture_and_figures(opened: tuple[ReportPage, Path]):
    page, _ = opened
    light = page.js("return getComputedStyle(document.querySelector('td.held')).backgroundColor")
    page.emulate(dark=True)
    page.wait(
        "return getComputedStyle(document.querySelector('#search-steps .ytick text')).fill === 'rgb(230, 233, 236)' && "
        f"getComputedStyle(document.querySelector('td.held')).backgroundColor !== '{light}'",
        20,
    )
    page.emulate()
    page.wait(
        "return getComputedStyle(document.querySelector('#search-steps .ytick text')).fill === 'rgb(27, 31, 36)'", 20
    )


@needs_browser
@pytest.mark.parametrize("width", [1280, 800])
def test_nothing_runs_out_of_the_window(opened: tuple[ReportPage, Path], width: int):
    page, _ = opened
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    page.wait(
        "return [...document.querySelectorAll('.chart svg')].every((s) => s.getBoundingClientRect().right <= "
        "innerWidth)"
    )
    assert page.js("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]


@needs_browser
def test_unfinished_plans_are_drawn(opened: tuple[ReportPage, Path], stopped: Plan, empty: Plan, facts: ReportContent):
    page = _show(opened, facts, stopped)
    assert "Not finished" in page.text(".banner")
    assert all(page.drawn().values())
    page = _show(opened, facts, empty)
    assert set(page.drawn()) == {"search-runs", "search-steps"}
    assert page.text(".answer").startswith("No subset")
    page = _show(opened, facts, replace(empty, history=(), runs_used=0))
    assert page.drawn() == {}
    assert page.console() == []


@needs_browser
def test_hostile_names_are_shown_and_never_run(opened: tuple[ReportPage, Path], plan: Plan, facts: ReportContent):
    page = _show(opened, facts, make_hostile_plan(plan, EVIL))
    assert all(page.drawn().values())
    assert "<img src=x onerror=alert(1)>" in page.text("#plan")
    assert page.js("return document.images.length") == 0
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")
    assert page.console() == []


def test_a_plan_is_a_result(plan: Plan, tmp_path: Path) -> None:
    assert repr(plan) == f"<Plan: {plan_headline(plan)}>"
    frame = plan.to_frame()
    assert frame.height == sum(len(subset.metrics) for subset in plan.subsets) + len(plan.unmeasurable) + sum(
        len(each.metrics) for each in plan.undecided
    )
    assert plan.to_dict() == plan.to_json()
    assert plan.subsets[0].name in plan.summary()
    assert plan.subsets[0].name in plan.write_html(tmp_path / "plan.html").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_every_text_stands_out_from_its_ground(
    plan: Plan, facts: ReportContent, tmp_path: Path, width: int, dark: bool
):
    if chromium_missing():
        pytest.skip(chromium_missing())
    write_partition(tmp_path / "partition.html", facts, plan)
    with open_report(tmp_path / "partition.html", width=width, dark=dark) as page:
        page.wait_drawn()
        page.unfold()
        assert page.js(CONTRAST) == []
        assert page.console() == []
