"""The page of a run's structure: as text, and as Chromium shows it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from unperturbed.analysis.report import render_structure, write_page
from unperturbed.analysis.structure import (
    Composition,
    Span,
    compare_structure,
    compose,
    most_discriminating_metric,
    structural_sequence,
)
from unperturbed.analysis.structure.page import StripRow, adequacy_figure, strips, word_colours

EVIL = "</script><img src=x onerror=alert(1)>\"'&%{y}\u202e"
Values = np.ndarray[tuple[int], np.dtype[np.float64]]


def _values(order: str, seed: int) -> Values:
    chance = np.random.default_rng(seed)
    levels = {"a": 1.0, "b": 4.0, "c": 9.0, "x": 20.0}
    return np.concatenate([levels[phase] + 0.1 * chance.normal(size=5) for phase in order])


@pytest.fixture(scope="module")
def runs() -> tuple[Composition, Composition, list[Values]]:
    orders = ["abcacb" * 20, "abcacb" * 8 + "bxbxbxbxbxbxbxbx" + "abcacb" * 8]
    phases = [[phase for phase in order for _ in range(5)] for order in orders]
    first = structural_sequence(phases[0], classes={phase: number for number, phase in enumerate("abcx")}, name="run 1")
    second = structural_sequence(phases[1], classes=first.classes, name="run 2")
    return compose(first), compose(second), [_values(order, seed) for seed, order in enumerate(orders)]


def _text(page: str) -> str:
    return " ".join("".join(Document(page).text).split())


def test_words_shares_classes_and_adequacy_are_told(runs: tuple[Composition, Composition, list[Values]]) -> None:
    made, _, drawn = runs
    page = render_structure(made, signals=[("value", drawn[0])])
    text = _text(page)
    assert "600 intervals of 4 classes form a sequence of 120 symbols" in text
    assert "the model is adequate" in text
    for use in made.uses:
        assert use.letters in text
        assert f"{use.share:.1%}" in text
    assert "Do the words describe the second run?" not in text
    places = [page.index(f'id="{name}"') for name in ("strips", "words", "adequacy", "classes")]
    assert places == sorted(places)


def test_what_no_word_of_the_first_run_describes_is_listed_and_red(
    runs: tuple[Composition, Composition, list[Values]],
) -> None:
    first, second, drawn = runs
    found = compare_structure(first, second)
    assert not found.adequacy.is_adequate
    text = _text(render_structure(first, found, signals=[("value", one) for one in drawn]))
    assert "The first run's words do not describe run 2" in text
    assert "Stretches that no word describes" in text
    longest = max(found.unmatched, key=lambda span: span.stop - span.first)
    cells = [str(longest.first), str(longest.stop), str(longest.stop - longest.first)]
    assert re.search(r"\s*".join(cells), text)
    words = [use.letters for use in first.uses if use.letters]
    colours = word_colours([use.share for use in first.uses if use.letters])
    figure = strips([StripRow("run 2", found.spans, "value", drawn[1])], words, colours, "interval")
    (red,) = [bar for bar in figure.data if bar.get("name") == "no word"]
    assert red["marker"]["color"] == "@perturbed"
    assert sum(red["x"]) == sum(span.stop - span.first for span in found.unmatched)
    bars = [bar for bar in figure.data if bar["type"] == "bar"]
    assert sum(sum(bar["x"]) for bar in bars) == second.sequence.elements


def test_the_words_with_the_largest_shares_have_colours_of_their_own() -> None:
    colours = word_colours([0.01, 0.3, 0.2, 0.1, 0.1, 0.1, 0.15, 0.04])
    assert colours[1] == "@series-1"
    assert (colours[0], colours[7]) == ("@muted-bar", "@muted-bar")
    assert len(set(colours)) == 7
    spans = [Span(number, number + 1, number, 0) for number in range(8)]
    figure = strips([StripRow("run", spans, "", np.empty(0))], list("ABCDEFGH"), colours, "access")
    assert [bar["name"] for bar in figure.data].count("further words") == 2
    assert sum(bool(bar["showlegend"]) for bar in figure.data) == 7


def test_a_given_bound_has_no_picture_and_no_words_is_said() -> None:
    flat = compose(structural_sequence(np.ones(30), classes=1), adequate=3)
    assert adequacy_figure(flat.dictionary.adequacy, "x") is None
    text = _text(render_structure(flat))
    assert "there is a single phase" in text
    assert "No word shortens the description of this sequence" in text


def test_names_never_leave_their_place() -> None:
    def page(name: str) -> Document:
        sequence = structural_sequence(
            list("abcabcabcabcabcabc") * 4, classes={"a": name, "b": "b", "c": "c"}, name=name
        )
        return Document(render_structure(compose(sequence, adequate=1e9)))

    hostile, plain = page(EVIL), page("usual")
    assert not hostile.all("img")
    assert len(hostile.all("script")) == len(plain.all("script"))
    assert "onerror=alert(1)" in "".join(hostile.text)


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_chromium_draws_it_and_asks_for_nothing(
    runs: tuple[Composition, Composition, list[Values]], tmp_path: Path
) -> None:
    first, second, drawn = runs
    path = tmp_path / "structure.html"
    write_page(
        path, render_structure(first, compare_structure(first, second), signals=[("value", one) for one in drawn])
    )
    with open_report(path) as page:
        page.wait_drawn()
        assert page.requests() == [path.resolve().as_uri()]
        assert page.drawn()["structure-strips"] > 30
        assert page.console() == []


def test_a_traces_metric_stands_above_its_strip() -> None:
    values = _values("abcacb" * 10, 3)
    sequence = structural_sequence(values, classes=3)
    found = most_discriminating_metric(values, sequence)
    assert found is not None
    figure = strips([StripRow("run", compose(sequence).spans, *found)], ["A"] * 9, ["@series-1"] * 9, "interval")
    line = next(trace for trace in figure.data if trace["type"] == "scatter")
    assert line["y"] == pytest.approx(values.tolist(), rel=1e-3)
    assert figure.layout["annotations"][0]["text"] == f"run: {found[0]}"
