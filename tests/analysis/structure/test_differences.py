"""A second run under the first one's words: false alarms, what is seen, what no word describes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.structure.planted import planted
from unperturbed.analysis.structure import (
    Quantiles,
    adequacy_of,
    compare_structure,
    compose,
    decompose,
    structural_sequence,
)
from unperturbed.analysis.structure.differences import simulate_run_costs
from unperturbed.analysis.structure.phase_text import composition_sentence, difference_sentence
from unperturbed.analysis.structure.sequence import StructuralSequence

CLASSES = {letter: number for number, letter in enumerate("abcdef")}


def _runs(seed: int, noise: float, size: int, foreign: str = "") -> tuple[StructuralSequence, StructuralSequence]:
    """Return two runs of the same motifs; in the middle of the second a tenth of something else."""
    both, _ = planted(seed, noise, size=2 * size)
    one, other = both[:size], both[size:]
    if foreign:
        half = len(other) // 2
        other = other[:half] + (foreign * size)[: size // 10] + other[half:]
    first = structural_sequence(list(one), classes=CLASSES, name="one")
    return first, structural_sequence(list(other), classes=first.classes, name="other")


@pytest.mark.parametrize(("changed", "edit"), [("abcacdb", (3, "d", True)), ("abcdaecdb", (5, "e", False))])
def test_what_every_segment_lacks_or_has_in_addition_is_told(changed: str, edit: tuple[int, str, bool]) -> None:
    one = structural_sequence(list("abcdacdb" * 30), classes=CLASSES, name="one")
    other = structural_sequence(list(changed * 30), classes=one.classes, name="other")
    found = compare_structure(compose(one, adequate=1e9), compose(other, adequate=1e9))
    assert found.first.dictionary.words == (tuple(CLASSES[letter] for letter in "abcdacdb"),)
    (told,) = found.habitual_edits
    place, letter, missing = edit
    assert (told.word, told.place, told.symbol, told.missing) == (0, place, CLASSES[letter], missing)
    assert told.times >= 28
    assert told.to_dict() in found.to_dict()["habitual_edits"]
    change = f"{letter.upper()} is {'missing' if missing else 'added'} at position {place + 1} of word 1"
    assert f"{change} in {told.times} of {told.segments} segments" in difference_sentence(found)
    same = compare_structure(found.first, compose(one, adequate=1e9))
    assert same.habitual_edits == ()


def test_a_single_phase_is_the_same_whatever_else_happens_for_a_moment() -> None:
    """Odd intervals are a symbol, and no second phase."""
    rng = np.random.default_rng(3)
    values = rng.normal(100, 1, 1000)
    odd = values.copy()
    odd[:8] = 500.0
    one = structural_sequence(values, classes=None, smooth=True, name="one")
    other = structural_sequence(odd, classes=one.classes, smooth=True, name="other")
    assert len(other) == 2
    first, second = compose(one), compose(other)
    assert composition_sentence(first) == "one: 1,000 intervals of one class: there is a single phase."
    assert (
        composition_sentence(second)
        == "other: 1,000 intervals of one class: there is a single phase, except in 1 stretch."
    )
    assert compare_structure(first, second).adequacy.is_adequate
    assert compare_structure(second, first).adequacy.is_adequate
    half = structural_sequence(
        np.where(np.arange(1000) < 500, values, 500.0), classes=one.classes, smooth=True, name="half"
    )
    assert not compare_structure(first, compose(half)).adequacy.is_adequate


def test_a_foreign_stretch_is_seen_and_marked() -> None:
    one, other = _runs(4, 0.0, 290, foreign="fafbfcfd")
    found = compare_structure(compose(one, adequate=1e9), compose(other, adequate=1e9))
    assert not found.adequacy.is_adequate
    begin = (other.elements - 29) // 2
    stretch = range(begin, begin + 29)
    covering = max(found.unmatched, key=lambda span: span.stop - span.first)
    assert covering.first in range(begin - 12, begin + 3)
    assert covering.stop in range(stretch.stop - 3, stretch.stop + 13)
    others = [span for span in found.unmatched if span is not covering]
    assert all(span.stop - span.first < 12 for span in others), "words that the ends of the run cut off"
    assert len(others) <= 2
    assert found.uses[-1].letters == ""
    assert found.uses[-1].share == pytest.approx(
        sum(span.stop - span.first for span in found.unmatched) / other.elements
    )


def test_costs_of_another_run_follow_its_length_and_its_words_support() -> None:
    found = decompose("abcabcabcabXabcabc" * 3, ["abc"])
    short, long = (simulate_run_costs(found, symbols, seed=1) for symbols in (60, 600))
    assert (np.diff(short) >= 0).all()
    assert np.median(long) == pytest.approx(10 * np.median(short), rel=0.3)
    lone = decompose("abcabcabc" + "defdefdef", ["abc", "defdefdef"])
    assert lone.cost == 0
    assert simulate_run_costs(lone, len("abcabcabcdefdefdef")).mean() > 4, (
        "a word made for one segment predicts no other"
    )


def test_nothing_to_go_by() -> None:
    empty = structural_sequence([], classes=CLASSES)
    one = structural_sequence(list("abababab"), classes=empty.classes)
    nothing = compare_structure(compose(empty), compose(one))
    assert not nothing.adequacy.is_adequate
    assert nothing.unmatched[0].stop == 8
    same = compare_structure(compose(one, adequate=1e9), compose(empty))
    assert same.adequacy.cost == 0
    assert same.unmatched == ()
    assert simulate_run_costs(decompose("", ["ab"]), 10).tolist() == [0.0] * 1000


def test_what_is_classified_otherwise_is_refused() -> None:
    values = np.random.default_rng(1).normal(size=50)
    one, other = (compose(structural_sequence(values, classes=Quantiles(3))) for _ in range(2))
    with pytest.raises(
        ValueError, match=r"classified differently: classify the second run with `classes=first\.sequence\.classes`"
    ):
        compare_structure(one, other)
    with pytest.raises(ValueError, match="`level` is 2"):
        compare_structure(one, one, level=2)


@pytest.mark.thorough
def test_a_given_dictionary_is_judged_by_shuffled_sequences_too() -> None:
    one, _ = _runs(2, 0.05, 290)
    words = compose(one).dictionary.words
    assert adequacy_of(one, words).is_adequate
