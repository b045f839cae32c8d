"""The page of a causal model: as text, and as Chromium shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from unperturbed.analysis.causal import CausalModel, Exclusion, Knowledge, curve_parameters, learn
from unperturbed.analysis.causal.html.figures import variable_figure
from unperturbed.analysis.causal.html.graph import graph_svg
from unperturbed.analysis.causal.model_text import markov_sentences
from unperturbed.analysis.report import render_model, write_page

EVIL = "</script><img src=x onerror=alert(1)>\"'&%{y}\u202e"


def draw(rows: int = 150, names: dict[str, str] | None = None) -> pl.DataFrame:
    chance = np.random.default_rng(2)
    n = chance.integers(5, 301, rows)
    kind = chance.integers(0, 3, rows)
    level = np.array(["low", "high"])[(chance.random(rows) < 0.1 + 0.4 * kind).astype(int)]
    misses = np.where(n > 150, 8.0 * (kind + 1), 0.0) + 0.3 * chance.normal(size=rows)
    cycles = 50 + 3 * misses + 20 * (level == "high") + chance.normal(size=rows)
    columns = {
        "n": n,
        "datatype": np.array(["float", "int", "long"])[kind],
        "level": level,
        "misses": misses,
        "cycles": cycles,
    }
    return pl.DataFrame({(names or {}).get(name, name): values for name, values in columns.items()})


def known(names: dict[str, str] | None = None) -> Knowledge:
    tiers = [["n", "datatype"], ["level"], ["misses"], ["cycles"]]
    return Knowledge(tiers=[[(names or {}).get(name, name) for name in tier] for tier in tiers])


@pytest.fixture(scope="module")
def model() -> CausalModel:
    return learn(draw(), known(), test="regression", subsamples=3)


@pytest.fixture(scope="module")
def open_model() -> CausalModel:
    return learn(draw().select("misses", "cycles"), test="regression", subsamples=0)


def text_of(page: str) -> str:
    return " ".join("".join(Document(page).text).split())


def test_edges_formulas_separations_and_exclusions_are_told(model: CausalModel) -> None:
    gone = [Exclusion("PAPI_TOT_CYC", "simulated cycles are not cycles")]
    page = render_model(model, name="runs.csv", left_out=gone, notes=["Mind the gap."], derived={"cycles": "a / b"})
    text = text_of(page)
    assert "150 rows of 5 variables (2 discrete, 3 continuous) give 5 edges" in text
    for edge in model.edges:
        assert str(edge) in text
        assert f"{edge.strength:.2f}" in text
    for mechanism in model.mechanisms.values():
        assert " ".join(mechanism.formula.split()) in text
    for found in model.separations:
        assert f"{found.one}, {found.other}" in text
    for told in ("simulated cycles are not cycles", "Mind the gap.", "a / b", "n, datatype / level / misses / cycles"):
        assert told in text
    places = [
        page.index(f'<section id="{name}"')
        for name in ("graph", "edges", "formulas", "separations", "variables", "settings")
    ]
    assert places == sorted(places)


def test_the_graph_links_every_node_and_edge_to_its_regression(model: CausalModel) -> None:
    document = Document(render_model(model))
    links = [link for link in document.all("a") if link.get("class", "").startswith(("edge", "node"))]
    drawn = {(link["data-cause"], link["data-variable"]) for link in links if "data-cause" in link}
    number = {name: str(at) for at, name in enumerate(model.data.names)}
    assert drawn == {(number[edge.source], number[edge.target]) for edge in model.edges}
    targets = {article["id"] for article in document.all("article")}
    assert {link["href"].removeprefix("#") for link in links} == targets


def test_open_directions_look_different(model: CausalModel, open_model: CausalModel) -> None:
    assert 'class="edge open"' not in graph_svg(model)
    drawn = graph_svg(open_model)
    assert 'class="edge open"' in drawn
    assert 'marker-start="url(#open-end)"' in drawn
    assert "Undecided" in text_of(render_model(open_model))


def test_the_data_over_a_cause_and_its_curve_are_drawn(model: CausalModel) -> None:
    number = model.data.names.index("misses")
    shown = variable_figure(model, "misses", number)
    assert [choice for choice, _ in shown.views] == ["cause-0", "cause-1", "predicted", "residuals"]
    over = [trace for trace in shown.figure.data if trace["meta"] == "cause-0"]
    points = [trace for trace in over if trace["mode"] == "markers"]
    curves = [trace for trace in over if trace["mode"] == "lines"]
    assert sum(len(trace["x"]) for trace in points) == 150
    assert {trace["name"] for trace in points} == {"datatype=float", "datatype=int", "datatype=long"}
    # Nothing else moves the misses, so the points are the data.
    assert sorted(y for trace in points for y in trace["y"]) == pytest.approx(sorted(draw()["misses"]), rel=1e-3)
    for curve in curves:
        mean, _ = model.mechanisms["misses"].predict(
            {"n": curve["x"], "datatype": [curve["name"].removeprefix("datatype=")]}
        )
        assert curve["y"] == pytest.approx(mean.tolist(), rel=1e-3, abs=1e-6)


def test_points_are_moved_to_where_other_causes_are_at_their_medians(model: CausalModel) -> None:
    shown = variable_figure(model, "cycles", 4)
    assert "misses" in model.mechanisms["cycles"].parents
    (level,) = [choice for choice, said in shown.views if said == "over level"]
    points = next(trace for trace in shown.figure.data if trace["meta"] == level and trace["mode"] == "markers")
    assert np.ptp(points["y"]) < 40 < np.ptp(draw()["cycles"].to_numpy())
    assert any("moved along the formula to the medians misses = " in note for note in shown.notes)


def test_a_cause_of_many_magnitudes_is_drawn_by_its_logarithm() -> None:
    chance = np.random.default_rng(4)
    size = 10 ** chance.uniform(2, 7, 120)
    level = chance.permutation(np.repeat([3, 1, 2], 40))
    frame = pl.DataFrame(
        {"size": size, "level": level, "cost": 5.0 * level + 2e3 / size + 0.1 * chance.normal(size=120)}
    )
    model = learn(
        frame, Knowledge(inputs=["size", "level"]), kinds={"level": "discrete"}, test="regression", subsamples=0
    )
    figure = variable_figure(model, "cost", 2).figure
    assert figure.choices["cause-0"]["xaxis.type"] == "log"
    assert "xaxis.type" not in figure.choices["predicted"]
    over = [trace for trace in figure.data if trace["meta"] == "cause-0"]
    assert [trace["name"] for trace in over if trace["mode"] == "markers"] == ["level=1", "level=2", "level=3"]
    (curve, *_) = [trace for trace in over if trace["mode"] == "lines"]
    steps = np.diff(np.log(curve["x"]))
    assert steps == pytest.approx(np.full(len(steps), steps.mean()), rel=0.1)


def test_checks_and_curves_are_told(model: CausalModel) -> None:
    curves = curve_parameters(model.data, "misses", "n", cells=["datatype"])
    screenings = [model.screens_off(["n"], ["cycles"], by=["misses", "level"])]
    markov = model.check_markov(permutations=2)
    text = text_of(render_model(model, curves=[curves], markov=markov, screenings=screenings))
    for sentence in (*markov_sentences(markov), str(screenings[0]), "curve parameters in each cell"):
        assert " ".join(sentence.split()) in text
    assert "misses_threshold_of_n" in text
    assert "Does the model agree with the data?" not in text_of(render_model(model))


def test_shares_of_a_discrete_variable_are_drawn(model: CausalModel) -> None:
    shown = variable_figure(model, "level", 2)
    assert shown.views == (("cause-1", "over datatype"),)
    bars = [trace for trace in shown.figure.data if trace["type"] == "bar"]
    assert [bar["name"] for bar in bars] == ["high", "low"]
    assert [sum(pair) for pair in zip(*(bar["y"] for bar in bars), strict=True)] == pytest.approx([1, 1, 1], abs=1e-3)
    (border,) = [trace for trace in shown.figure.data if trace["type"] == "scatter"]
    assert border["y"] == pytest.approx(bars[0]["y"], abs=0.02)


def test_a_variable_without_causes_shows_its_data(model: CausalModel) -> None:
    for number, name in ((0, "n"), (1, "datatype")):
        (bars,) = variable_figure(model, name, number).figure.data
        assert sum(bars["y"]) == 150


def test_many_rows_are_thinned_and_that_is_said() -> None:
    many = learn(draw(3000), known(), test="regression", subsamples=0)
    shown = variable_figure(many, "misses", 3)
    assert (
        sum(len(trace["x"]) for trace in shown.figure.data if trace["meta"] == "cause-0" and trace["mode"] == "markers")
        == 800
    )
    assert "800 of 3,000 rows are drawn; formulas were fitted to all rows." in shown.notes


def test_names_never_leave_their_place() -> None:
    def page(name: str) -> Document:
        names = {"datatype": name, "misses": f"{name} 2"}
        made = learn(draw(names=names), known(names), test="regression", subsamples=0)
        return Document(
            render_model(made, name=name, left_out=[Exclusion(name, name)], notes=[name], derived={"n": name})
        )

    hostile, plain = page(EVIL), page("usual")
    assert not hostile.all("img")
    assert len(hostile.all("script")) == len(plain.all("script"))
    assert "onerror=alert(1)" in "".join(hostile.text)


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_chromium_draws_it_and_an_edge_opens_its_curve(model: CausalModel, tmp_path: Path) -> None:
    path = tmp_path / "model.html"
    write_page(path, render_model(model))
    with open_report(path) as page:
        page.wait_drawn()
        assert page.requests() == [path.resolve().as_uri()]
        assert page.js("return document.querySelectorAll('svg.graph a.node').length") == 5
        shown = (
            "return [...document.querySelectorAll('#regressions article')].filter((one) => "
            "one.offsetParent).map((one) => one.id)"
        )
        assert page.js(shown) == ["variable-4"]
        # A real click, where the pointer would be: on the line, half way.
        place = page.js(
            'const line = document.querySelector(\'svg.graph a[data-variable="3"][data-cause="1"] .line\');'
            "const at = line.getPointAtLength(line.getTotalLength() / 2).matrixTransform(line.getScreenCTM()); "
            "return [at.x, at.y]"
        )
        for kind in ("mousePressed", "mouseReleased"):
            where = {"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1}
            page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", where)
        page.wait("return document.querySelector('#variable-3').classList.contains('chosen')", 5)
        assert page.js(shown) == ["variable-3"]
        assert page.js("return document.querySelector('#variable-3 select').value") == "cause-1"
        page.wait("return document.querySelector('#model-3 .xtitle')?.textContent === 'datatype'", 5)
        assert page.drawn()["model-3"] > 3
        # Drawn while it was hidden, it learns its width when it is shown.
        page.wait("return document.querySelector('#model-3 .main-svg').getBoundingClientRect().width > 1000", 5)
        node = "document.querySelector('svg.graph a.node[data-variable=\"0\"]')"
        page.js(f"{node}.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))")
        assert page.js(shown) == ["variable-0"]
        assert page.console() == []
