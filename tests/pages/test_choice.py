"""The page of a choice of metrics: as text, and as Chromium shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from unperturbed.analysis.choice.metric_choice import Cost, MetricChoice, choose_metrics
from unperturbed.analysis.choice.page import dendrogram, predictions_figure, render_choice

EVIL = "</script><img src=x onerror=alert(1)>\"'&%{y}\u202e"


def _choice(name: str = "twin", *, target: float = 0.9) -> MetricChoice:
    chance = np.random.default_rng(1)
    runs = {}
    for run in range(6):
        base = chance.gamma(2, 100, (80, 2))
        runs[f"{run}"] = np.column_stack([base, base[:, 0] * 2 + chance.normal(size=80), base.sum(axis=1)])
    return choose_metrics(runs, ["a", "b", name, "sum"], target=target, cost=Cost(6, 2.0), simulated=["a"])


def _text(page: str) -> str:
    return " ".join("".join(Document(page).text).split())


def test_the_answer_stands_first_and_then_clusters_choices_and_metrics() -> None:
    choice = _choice()
    page = render_choice(choice)
    assert "2 of 4 metrics predict the rest to R² 0.9 in runs held back" in _text(page)
    assert "Some counts are simulated, not counted by a processor." in _text(page)
    places = [page.index(part) for part in ('class="answer"', 'id="clusters"', 'id="choices"', 'id="metrics"')]
    assert places == sorted(places)
    tree = dendrogram(choice)
    assert {trace["name"] for trace in tree.data} == {"one cluster", "apart", "measured by the choice"}
    assert sum(x is None for trace in tree.data for x in trace["x"]) == len(choice.metrics) - 1
    assert "a, twin" in tree.description
    shown = predictions_figure(choice)
    points = [trace for trace in shown.data if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in points) == sum(len(step.predictions) for step in choice.steps)


def test_names_never_leave_their_place() -> None:
    hostile, plain = Document(render_choice(_choice(EVIL))), Document(render_choice(_choice()))
    assert not hostile.all("img")
    assert len(hostile.all("script")) == len(plain.all("script"))


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_chromium_draws_it_and_asks_for_nothing(tmp_path: Path) -> None:
    path = _choice().write_html(tmp_path / "choice.html")
    with open_report(path) as page:
        page.wait_drawn()
        assert page.requests() == [path.resolve().as_uri()]
        assert page.drawn()["choice-tree"] > 3
        assert page.drawn()["choice-predictions"] > 3
        assert page.console() == []
