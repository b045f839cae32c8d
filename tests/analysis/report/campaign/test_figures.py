from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.report.synthetic import make_content, make_hostile
from unperturbed.analysis.pages import chart
from unperturbed.analysis.pages.chart import Figure, bucket_means, plot_text, short, stacked
from unperturbed.analysis.perturbation.verdict import Overhead
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.alignment import score_shares
from unperturbed.analysis.report.campaign.content import (
    ReportContent,
    configuration_results,
    described_metrics,
    listed_changes,
)
from unperturbed.analysis.report.campaign.figures import FigureBlock, ReportView, drawn_blocks
from unperturbed.analysis.report.campaign.figures.before_after import before_after, worst_pair
from unperturbed.analysis.report.campaign.figures.correlation import colour_key, total_overheads
from unperturbed.analysis.report.campaign.figures.totals import TOTALS, total_forest
from unperturbed.analysis.report.campaign.figures.traces import neighbours
from unperturbed.analysis.totals import TotalChange


@dataclass(frozen=True)
class Figures:
    """The figures of a page by the names of their records; None or empty where there is none."""

    forest: Figure | None
    traces: dict[str, Figure]
    before_after: Figure | None
    baseline: Figure | None
    inner: Figure | None
    outer: Figure | None
    alignment: list[Figure]


def all_figures(figures: Figures) -> Iterator[Figure]:
    several = [
        figures.forest,
        figures.before_after,
        figures.baseline,
        figures.inner,
        figures.outer,
        *figures.traces.values(),
        *figures.alignment,
    ]
    yield from (figure for figure in several if figure is not None)


def made_blocks(content: ReportContent) -> dict[str, FigureBlock]:
    found = configuration_results(content)
    sections = drawn_blocks(ReportView(content, found, listed_changes(found)))
    return {name: block for section in sections.values() for name, block in section.items()}


def made(content: ReportContent) -> Figures:
    blocks = {name: block.figures for name, block in made_blocks(content).items()}

    def one(name: str) -> Figure | None:
        return blocks[name][0].figure if name in blocks else None

    return Figures(
        forest=one("forest"),
        traces={str(each.title[0]): each.figure for each in blocks.get("traces", ())},  # type: ignore[index]
        before_after=one("before-after"),
        baseline=one("baseline-by-run"),
        inner=one("inner-overhead"),
        outer=one("outer-overhead"),
        alignment=[each.figure for each in blocks.get("alignment", ())],
    )


@pytest.fixture(scope="module")
def figures(content: ReportContent) -> Figures:
    return made(content)


def with_colours(value: Any, key: str = "") -> Any:
    """Put a colour where a colour's name stands, as the page's script does."""
    if isinstance(value, Mapping):
        return {name: with_colours(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_colours(item, key) for item in value]
    return "#123456" if isinstance(value, str) and value.startswith("@") and key.endswith("color") else value


def patched(layout: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = json.loads(json.dumps(layout))
    for path, value in patch.items():
        place, *keys = result, *path.replace("[", ".").replace("]", "").split(".")
        for key in keys[:-1]:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[keys[-1]] = value
    return dict(result)


@pytest.mark.parametrize("hostile", [False, True])
def test_plotly_knows_every_attribute_of_every_figure(content: ReportContent, hostile: bool):
    """The page holds plotly's basic bundle, which draws these types alone."""
    blocks = made_blocks(make_hostile(content) if hostile else content)
    drawn = [each.figure for name in blocks for each in blocks[name].figures]
    assert len(drawn) >= 13
    assert {trace["type"] for figure in drawn for trace in figure.data} <= {"scatter", "bar", "pie"}
    for figure in drawn:
        json.dumps(figure.to_json(), allow_nan=False)
        for choice in figure.choices or [""]:
            shown = [
                {
                    key: figure.shared[value["shared"]]
                    if key in {"x", "hovertext"} and isinstance(value, dict)
                    else value
                    for key, value in trace.items()
                }
                for trace in figure.data
                if trace.get("meta") in {None, choice}
            ]
            layout = patched(figure.layout, figure.choices.get(choice, {}))
            assert shown, figure.name
            go.Figure(data=with_colours(shown), layout=with_colours(layout))


def test_every_colour_has_a_value_in_the_stylesheet(figures: Figures):
    from importlib import resources

    css = resources.files("unperturbed.analysis.pages").joinpath("report.css").read_text()

    def colours(value: Any) -> Iterator[str]:
        if isinstance(value, Mapping):
            for item in value.values():
                yield from colours(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from colours(item)
        elif isinstance(value, str) and value.startswith("@"):
            yield value[1:]

    used = {colour for figure in all_figures(figures) for colour in colours([figure.data, figure.layout])}
    assert {"perturbed", "undecided", "unperturbed", "ink", "grid", "series-1"} <= used
    assert all(f"--{colour}:" in css for colour in used)


def test_figure_names_are_unique_and_described(figures: Figures):
    drawn = list(all_figures(figures))
    assert len({figure.name for figure in drawn}) == len(drawn)
    assert all(len(figure.description) > 20 for figure in drawn)


def test_forest_shows_every_change_with_its_interval(content: ReportContent, figures: Figures):
    assert figures.forest is not None
    assert figures.forest.chosen == "heavy"
    listed = listed_changes(configuration_results(content))
    seen = 0
    for trace in figures.forest.data:
        for x, more, less, place in zip(
            trace["x"], trace["error_x"]["array"], trace["error_x"]["arrayminus"], trace["customdata"], strict=True
        ):
            result, change = listed[place]
            assert result.configuration == trace["meta"]
            assert change.verdict in trace["name"]
            assert x == pytest.approx(change.effect, rel=0.01)
            assert x + more == pytest.approx(change.high, abs=0.002)
            assert x - less == pytest.approx(change.low, abs=0.002)
            seen += 1
    assert seen == sum(len(verdict.changes) for verdict in content.verdicts)


def test_forest_draws_what_can_be_drawn_of_a_boundless_interval(content: ReportContent):
    verdict = content.verdicts[0]
    odd = (
        replace(verdict.changes[0], low=-float("inf"), high=float("inf"), verdict="undecided"),
        replace(verdict.changes[1], effect=float("nan"), low=float("nan"), high=float("nan"), verdict="undecided"),
    )
    forest = made(replace(content, verdicts=(replace(verdict, changes=odd),))).forest
    assert forest is not None
    (trace,) = forest.data
    assert sorted(x is None for x in trace["x"]) == [False, True]
    assert forest.layout["xaxis"]["range"][1] < 3


def test_baseline_figure_shows_each_run_in_order(content: ReportContent, figures: Figures):
    assert figures.baseline is not None
    signed = [trace for trace in figures.baseline.data if trace["meta"] == "signed"]
    paper = [trace for trace in figures.baseline.data if trace["meta"] == "paper"]
    assert len(signed) == len(paper) == 21
    change = content.verdicts[0].of("inner")[0]
    line = next(trace for trace in signed if trace["name"] == "instructions – L1-data misses")
    assert line["y"] == pytest.approx(list(change.reference), rel=0.01)
    assert line["x"] == {"shared": 0}
    assert figures.baseline.shared[0] == list(range(1, 11))
    assert line["hovertext"] == {"shared": 1}
    assert figures.baseline.shared[1] == list(change.reference_runs)
    assert all(y >= 0 for trace in paper for y in trace["y"])
    assert figures.baseline.choices["paper"]["yaxis.range"][0] == 0.3


def test_correlation_starts_at_the_baseline_and_goes_by_what_was_added(content: ReportContent, figures: Figures):
    assert figures.inner is not None
    heavy = content.verdicts[-1]
    worst = configuration_results(content)[-1].worst("inner")
    assert worst is not None
    coloured = [t for t in figures.inner.data if t["meta"] == "signed" and t["showlegend"]]
    assert {t["name"] for t in coloured} == {
        "L1-data misses – mispredicted branches",
        "L1-data misses – L2 misses",
        "mispredicted branches – stores",
    }
    line = next(t for t in coloured if "L1-data misses – mispredicted" in t["name"])
    assert line["hovertext"] == ["baseline", "anchor", "light", "medium", "heavy"]
    assert line["x"] == [0, 0.21, 0.43, 4.8, 17.2]
    assert line["y"][0] == pytest.approx(mean_rho(worst.reference), rel=0.01)
    assert line["y"][-1] == pytest.approx(mean_rho(worst.observed), rel=0.01)
    assert heavy.overhead.instructions == 0.172


def test_overheads_add_up_along_the_references(content: ReportContent):
    anchor, light, *_ = configuration_results(content)
    chained = [
        replace(anchor, overhead=Overhead(0.1)),
        replace(light, references=("anchor",), overhead=Overhead(0.2)),
    ]
    quantity, added = total_overheads(chained)
    assert quantity == "instructions"
    assert added == pytest.approx({"anchor": 0.1, "light": 0.32})
    circle = [replace(anchor, references=("anchor",), overhead=Overhead(None, None, 0.1))]
    assert total_overheads(circle) == ("time", pytest.approx({"anchor": 0.1}))
    assert total_overheads([replace(anchor, overhead=Overhead(float("nan")))]) == ("instructions", {})


def test_without_overheads_there_is_no_such_figure(content: ReportContent):
    bare = replace(content, verdicts=tuple(replace(verdict, overhead=Overhead()) for verdict in content.verdicts))
    figures = made(bare)
    assert figures.inner is None
    assert figures.outer is None
    assert figures.baseline is not None


def test_colour_key_tells_what_is_coloured(content: ReportContent):
    found = configuration_results(content)
    assert colour_key(found, "inner").startswith("Coloured: the 3 pairs perturbed in at least one configuration.")
    assert colour_key(found[:2], "outer").startswith(
        "No metric was perturbed; the three metrics closest to perturbation are coloured."
    )


def test_before_and_after_shows_the_worst_pair_and_the_software_metric_that_came_in(content: ReportContent):
    found = configuration_results(content)
    shown = worst_pair(content, found)
    assert shown is not None
    assert shown.change == found[-1].worst("inner")
    assert shown.software == "compares"
    figure = before_after(shown, described_metrics(content))
    assert [bool(trace["y"]) for trace in figure.data] == [True, True, True, True, False, True]
    runs = {trace["name"] for trace in figure.data}
    for run, names, rhos in zip(
        sorted(runs),
        (shown.change.reference_runs, shown.change.observed_runs),
        (shown.change.reference, shown.change.observed),
        strict=True,
    ):
        nearest = min(zip(rhos, names, strict=True), key=lambda pair: abs(pair[0] - mean_rho(rhos)))
        assert run == nearest[1]


def test_before_and_after_needs_the_traces(content: ReportContent):
    assert worst_pair(replace(content, traces={}), configuration_results(content)) is None
    without = {name: traces for name, traces in content.traces.items() if name != "heavy"}
    shown = worst_pair(replace(content, traces=without), configuration_results(content))
    assert shown is not None
    assert shown.result.configuration == "medium"


def test_traces_hold_the_chosen_metric_of_three_runs_and_the_software_metrics(content: ReportContent, figures: Figures):
    heavy = figures.traces["heavy"]
    shown = [trace for trace in heavy.data if trace.get("meta") in {None, heavy.chosen}]
    assert len(shown) == 3 * (1 + 3)
    line = next(trace for trace in shown if trace.get("meta") == "PAPI_L1_DCM")
    values = content.traces["heavy"][0]["PAPI_L1_DCM"]
    assert line["y"] == pytest.approx(values.tolist(), rel=1e-3)
    assert len(heavy.shared[0]) == len(values)
    ranges = {name: figure.choices["PAPI_L1_DCM"]["yaxis.range"] for name, figure in figures.traces.items()}
    assert len({tuple(one) for one in ranges.values()}) == 1


@pytest.mark.parametrize(("shaded", "whose"), [(("light", "heavy"), " of light and heavy,"), ((), ",")])
def test_the_legend_names_the_configurations_whose_start_is_shaded(
    content: ReportContent, shaded: tuple[str, ...], whose: str
):
    begins = dict.fromkeys(shaded or content.traces, 7)
    block = made_blocks(replace(content, warm_up=begins))["traces"]
    said = block.to_html()
    assert f"Shaded is the start{whose} which differs from the rest; correlations include it." in said
    assert "Shaded" not in made_blocks(content)["traces"].to_html()


def test_long_traces_are_thinned_and_say_so(content: ReportContent):
    long = make_content(intervals=3000, runs=3, baseline_runs=5)
    assert neighbours(content) == 1
    assert neighbours(long) > 1
    size = sum(len(json.dumps(figure.to_json())) for figure in made(long).traces.values())
    assert size < 900_000


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 50))
def test_bucket_means_against_a_plain_loop(values, points):
    reduced = bucket_means(np.array(values), points)
    width = chart.bucket_width(len(values), points)
    naive = [float(np.mean(values[start : start + width])) for start in range(0, len(values), width)]
    assert len(reduced) <= points
    assert reduced == pytest.approx(naive, rel=1e-9, abs=1e-6)


def test_bucket_means_of_nothing():
    assert bucket_means(np.array([]), 10).size == 0


def test_short_numbers():
    assert short([1234567.0, 0.123456, 3.0, float("nan"), float("inf")]) == [1235000, 0.1235, 3, None, None]


@given(st.lists(st.floats(1, 500), min_size=1, max_size=8), st.floats(0, 60))
def test_stacked_panels_fill_the_paper_without_overlap(heights, gap):
    domains = stacked(heights, gap)
    assert domains[0][1] == pytest.approx(1)
    assert domains[-1][0] == pytest.approx(0, abs=1e-9)
    for (low, high), (_, below) in pairwise(domains):
        assert low < high
        assert below <= low + 1e-9


def test_plot_text_is_safe_and_fits():
    assert plot_text("<b>&%{y}") == "&lt;b&gt;&amp;%\u200b{y}"
    assert plot_text("a" * 100, 10) == "a" * 9 + "…"


def test_score_shares_join_the_far_ones():
    shares = score_shares(np.array([0, 0, 1, 12, 13, 90]))
    assert shares[0] == pytest.approx(2 / 6)
    assert shares[12] == pytest.approx(1 / 6)
    assert shares[13] == pytest.approx(2 / 6)
    assert sum(shares.values()) == pytest.approx(1)


def test_intervals_beyond_the_axis_of_totals_end_in_arrows():
    inside = TotalChange("cycles", (1.0, 1.0), (1.0, 1.1), (), (), 0.01, -0.02, 0.04, verdict="undecided")
    beyond = replace(inside, low=-0.2, high=0.3)
    points, arrows = total_forest([("B", inside), ("B", beyond)]).data
    assert (arrows["x"], arrows["y"]) == ([-5.0, 5.0], [1, 1])
    assert arrows["marker"]["symbol"] == ["triangle-left", "triangle-right"]
    assert points["legendgroup"] == arrows["legendgroup"] == "undecided"
    assert len(total_forest([("B", inside)]).data) == 1
    assert "An arrow marks an interval that goes on beyond the axis." in str(TOTALS.caption)
