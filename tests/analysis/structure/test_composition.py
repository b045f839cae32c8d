"""What a run is made of, in elements and durations."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unperturbed.analysis.structure import compare_structure, compose, most_discriminating_metric, structural_sequence
from unperturbed.analysis.structure.phase_text import (
    adequacy_sentence,
    composition_sentence,
    difference_sentence,
    words_table,
)

LOOP = "aaabbbbccd" * 30


@pytest.fixture(scope="module")
def sequence():
    return structural_sequence(
        list(LOOP), classes={letter: number for number, letter in enumerate("abcd")}, name="loop"
    )


def test_spans_cover_the_elements_and_uses_the_time(sequence) -> None:
    made = compose(sequence)
    assert made.spans[0].first == 0
    assert made.spans[-1].stop == len(LOOP)
    assert [one.stop for one in made.spans[:-1]] == [one.first for one in made.spans[1:]]
    assert sum(use.share for use in made.uses) == pytest.approx(1)
    assert sum(use.times for use in made.uses) == len(made.spans)
    for number, use in enumerate(made.uses):
        lasted = [one.stop - one.first for one in made.spans if one.word == number]
        assert use.durations.tolist() == lasted
    assert {use.letters for use in made.uses} <= {"ABCD", "BCDA", "CDAB", "DABC", "A", "AB", "ABC", "B", "BC", "BCD"}


def test_durations_in_another_unit_are_added_up() -> None:
    lasted = np.arange(len(LOOP)) / 10
    made = compose(structural_sequence(list(LOOP), durations=lasted), adequate=1e9)
    assert sum(float(use.durations.sum()) for use in made.uses) == pytest.approx(lasted.sum())


def test_words_and_numbers_are_said(sequence) -> None:
    made = compose(sequence)
    told = composition_sentence(made)
    assert f"{len(LOOP)} intervals of 4 classes form a sequence of {len(sequence)} symbols" in told
    assert "the model is adequate" in told
    assert "from 19 shuffled sequences" in adequacy_sentence(made.dictionary.adequacy, "shuffled sequences")
    assert "set by the user" in adequacy_sentence(compose(sequence, adequate=3).dictionary.adequacy, "")
    flat = compose(structural_sequence([1.0] * 50, classes=1))
    assert composition_sentence(flat) == "50 intervals of one class: there is a single phase."
    random = np.random.default_rng(5).choice(list("abcd"), 60)
    loose = compose(structural_sequence(list(random)))
    assert "nothing in it recurs more often than by chance" in composition_sentence(loose)
    same = compare_structure(made, made)
    assert "The first run's words describe loop: J without merged symbols is" in difference_sentence(same)
    json.dumps([made.to_dict(), same.to_dict(), compose(sequence, adequate=3).to_dict()], allow_nan=False)


def test_the_metric_that_tells_classes_apart_is_found() -> None:
    rng = np.random.default_rng(3)
    phases = np.repeat([0, 1] * 20, 10)
    values = np.column_stack([rng.normal(size=400), 5 * phases + rng.normal(size=400)])
    sequence = structural_sequence(values, metrics=["noise", "signal"], classes=2)
    name, drawn = most_discriminating_metric(values, sequence)
    assert name == "signal"
    assert drawn.tolist() == values[:, 1].tolist()
    assert most_discriminating_metric(list("abcab"), structural_sequence(list("abcab"))) is None


def test_both_results_are_text_tables_a_frame_and_a_page(sequence, tmp_path) -> None:
    one = compose(sequence)
    other = structural_sequence(list("aaabbbbccd" * 9 + "bdbdbdbd" * 3), classes=sequence.classes, name="other")
    both = compare_structure(one, compose(other))
    for result, run in ((one, sequence), (both, other)):
        assert repr(result) == f"<{type(result).__name__}: {result.headline()}>"
        assert result.summary().startswith(result.headline())
        assert "ABCD" in result.summary() or "BCDA" in result.summary()
        frame = result.to_frame()
        assert frame.columns == ["first", "stop", "word", "letters", "edits"]
        assert frame["stop"].to_list()[-1] == run.elements
        assert frame["word"].null_count() == sum(span.word < 0 for span in result.spans)
        page = result.write_html(tmp_path / "page.html").read_text()
        assert all(str(use.edits) in page for use in result.uses)
    assert len(both.tables()[0].columns) == len(one.tables()[0].columns) + 4
    assert both.unmatched
    assert f"{both.unmatched[0].first:,}" in both.tables()[1].to_text()


def test_a_table_of_words_has_a_row_for_what_only_the_second_run_has_no_word_for(sequence) -> None:
    one = compose(sequence)
    assert all(use.letters for use in one.uses)
    other = structural_sequence(list(LOOP[:100] + "bd" * 30 + LOOP[:100]), classes=sequence.classes)
    table = words_table(one, compare_structure(one, compose(other)))
    assert table.rows[-1][0].text == "no word"
    assert table.rows[-1][2:6] == ["0", "", "", ""]
    assert table.rows[0][0].series == 1
