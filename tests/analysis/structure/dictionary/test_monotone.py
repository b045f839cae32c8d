from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure import naive_decomposition
from tests.analysis.structure.dictionary.naive_kernel import best_subsets
from tests.analysis.structure.planted import planted, structureless
from unperturbed.analysis.structure.dictionary import monotone
from unperturbed.analysis.structure.dictionary.adequacy import Adequacy, cheapest_decomposition
from unperturbed.analysis.structure.dictionary.description_length import description_length
from unperturbed.analysis.structure.dictionary.learning import learn_monotone
from unperturbed.analysis.structure.dictionary.monotone import (
    Start,
    alternate,
    kernel,
    starts,
)
from unperturbed.analysis.structure.segmentation import decompose, first_decomposition
from unperturbed.analysis.structure.symbols import encode, indel_distances
from unperturbed.errors import DataError

GOES_ROUND = "cbdcdcbdcdabdabcdada"


def by_window(sequence):
    return Start("window", first_decomposition(sequence))


def best_alternation(text, start):
    return min((alternate(encode(text), start, power) for power in (4, 8)), key=lambda one: one.bits.total)


def segments_of(sequence, cuts):
    return [sequence[first:last] for first, last in pairwise(np.asarray(cuts).tolist())]


def judge_by(bound):
    def judge(found):
        judged.append(found)
        cost = cheapest_decomposition(found.sequence).cost
        return Adequacy(cost, bound, cost <= bound)

    judged = []
    judge.judged = judged
    return judge


def in_order(text, words):
    return tuple(sorted(words, key=lambda word: [text.index(symbol) for symbol in word]))


def kernel_words(segments, power):
    distinct = sorted(set(segments))
    _, subsets = best_subsets(indel_distances(distinct), power)
    return tuple(distinct[row] for row in sorted(max(subsets, key=len)))


@given(st.text("abc", min_size=1, max_size=9), st.sampled_from([1, 4]))
def test_equals_the_papers_section_3_step_by_step(text, power):
    """Every subset of segments and every decomposition is tried; of equally near words the first is taken."""
    segments, seen, expected = segments_of(text, first_decomposition(text)), [], []
    while (words := in_order(text, kernel_words(segments, power))) not in seen:
        seen.append(words)
        cuts, chosen = naive_decomposition.preferred(text, words, 2 * max(map(len, words)))
        segments = segments_of(text, cuts)
        cost = sum(
            naive_decomposition.indel(segment, words[word]) for segment, word in zip(segments, chosen, strict=True)
        )
        expected.append((cost, {words[word] for word in chosen}))
    found = alternate(encode(text), by_window(text), power)
    assert [(one.cost, set(one.words)) for one in found.rounds] == expected
    period = len(seen) - seen.index(words)
    assert found.stopped.startswith("fixed point, " if period == 1 else f"cycle of {period} rounds, ")


def test_the_alternation_may_go_round_in_a_cycle_and_that_is_seen():
    """Two dictionaries of which each leads to the other: kernel and decomposition have no common objective."""
    found = alternate(encode(GOES_ROUND), by_window(GOES_ROUND), 4)
    assert found.stopped == "cycle of 2 rounds, power 4, start: window"
    words = kernel_words(segments_of(GOES_ROUND, first_decomposition(GOES_ROUND)), 4)
    gone_through = []
    for _ in range(len(found.rounds) + 4):
        gone_through.append(words)
        words = kernel_words(decompose(GOES_ROUND, words).segments, 4)
    again = gone_through[len(found.rounds) - 2 :]
    assert again[0] == again[2] == again[4]
    assert again[1] == again[3] == again[5]
    assert again[0] != again[1]


def test_a_limit_of_rounds_ends_a_cycle_too():
    found = alternate(encode(GOES_ROUND), by_window(GOES_ROUND), 4, most_rounds=1)
    assert (found.stopped, len(found.rounds)) == ("limit of 1 rounds, power 4, start: window", 1)


@pytest.mark.parametrize("noise", [0, 0.05, 0.15])
@pytest.mark.thorough
def test_power_1_keeps_nearly_every_segment_so_that_j_is_nearly_0(noise):
    """The defect for which dictionaries are scored by description length."""
    shares, costs, bits = {1: [], 4: [], 16: []}, {1: [], 4: [], 16: []}, {1: [], 4: [], 16: []}
    for seed in range(8):
        text, _ = planted(seed, noise)
        start = by_window(text)
        distinct = sorted(set(segments_of(text, start.cuts)))
        for power, of_segments in shares.items():
            found = alternate(encode(text), start, power)
            of_segments.append(len(kernel(indel_distances(distinct), power).members) / len(distinct))
            best = min(found.rounds, key=lambda one: one.bits)
            costs[power].append(best.cost / len(text))
            bits[power].append(best.bits)
    assert np.mean(shares[1]) > 0.9
    assert np.mean(costs[1]) < 0.02
    assert 0.4 < np.mean(shares[4]) < 0.8
    assert np.mean(shares[16]) < 0.3
    # What has the least J is told in the most bits.
    assert np.mean(costs[1]) < np.mean(costs[4])
    assert np.mean(bits[1]) > np.mean(bits[4])


def test_equal_segments_taking_part_each_by_itself_the_frequent_phase_is_taken_away_first():
    """Why segments are made distinct, unless the paper is wanted to the letter."""
    text = "abcdef" * 12 + "uvwxyz" + "ghijkl" + "mnopqr"
    start = Start("phases", np.arange(0, len(text) + 1, 6))
    assert "abcdef" in alternate(encode(text), start, 1, most_rounds=1).decomposition.dictionary
    segments = segments_of(text, start.cuts)
    order = kernel(indel_distances(segments)).defining_sequence
    assert {segments[row] for row in order[:8].tolist()} == {"abcdef"}
    literal = alternate(encode(text), start, 8, most_rounds=1, literal=True)
    assert set(literal.rounds[0].words) <= set(segments)


@given(st.text("abcd", min_size=1, max_size=40), st.sampled_from([1, 3, 8]), st.booleans(), st.sampled_from([4, 32]))
def test_rounds_say_what_their_words_cost(text, power, literal, longest):
    found = alternate(encode(text), by_window(text), power, longest=longest, literal=literal)
    for one in found.rounds:
        assert all(word in text for word in one.words)
        made = decompose(text, one.words, longest=min(longest, 2 * max(map(len, one.words))))
        assert made.cost >= one.cost  # words that no segment stands for may have been the longest ones
        if 2 * max(map(len, one.words)) >= longest:
            assert (made.cost, len(made.dictionary)) == (one.cost, len(set(made.words.tolist())))
            assert description_length(text, made).total == pytest.approx(one.bits)


@given(st.text("abcd", min_size=1, max_size=60), st.sampled_from([1, 3, 8]), st.sampled_from([2, 4, 32]))
def test_the_best_round_is_kept_and_told_in_no_more_bits(text, power, longest):
    found = alternate(encode(text), by_window(text), power, longest=longest)
    best = min(found.rounds, key=lambda one: one.bits)
    made = found.decomposition
    assert (
        found.bits.total
        <= min(best.bits, description_length(text, best.words).total, description_length(text, []).total) + 1e-9
    )
    assert description_length(text, made).total == pytest.approx(found.bits.total)
    assert set(made.dictionary) <= set(best.words)
    assert set(made.words.tolist()) - {-1} == set(range(len(made.dictionary)))
    assert "".join(made.segments) == text


def test_words_have_a_greatest_length_lest_two_of_them_spell_out_everything():
    """Segments of twice the longest word become words, and these are twice as long in the next round."""
    text, _ = planted(0, 0.05)
    for longest in (12, 32, 1000):
        grown = [
            max(map(len, one.words)) for one in alternate(encode(text), by_window(text), 12, longest=longest).rounds
        ]
        assert max(grown) <= longest
        assert all(later <= 2 * earlier for earlier, later in pairwise(grown))
    last = alternate(encode(text), by_window(text), 12, longest=1000).rounds[-1]
    assert (len(last.words), last.cost) == (2, 0)


def test_the_best_power_is_kept():
    text, _ = planted(3, 0.05)
    each = [alternate(encode(text), by_window(text), power).bits.total for power in (1, 4, 12)]
    best = learn_monotone(text, judge_by(-1), powers=(1, 4, 12), thetas=(0.3,), random_starts=0)
    assert best.bits.total == min(each)


def test_starts_are_tried_until_a_model_is_adequate():
    text, _ = planted(1, 0.05, size=150)
    never, always = judge_by(-1), judge_by(1000)
    names = [start.name for start in starts(encode(text))]
    assert names == [
        "window, θ = 0.3",
        "window, θ = 0.15",
        "window, θ = 0.5",
        "random cuts 1",
        "random cuts 2",
        "random cuts 3",
    ]
    all_tried = learn_monotone(text, never, powers=(4, 8))
    assert len(never.judged) == len(names)
    assert not all_tried.is_adequate
    each = [best_alternation(text, start).bits.total for start in starts(encode(text))]
    assert all_tried.bits.total == min(each)
    first = learn_monotone(text, always, powers=(4, 8))
    assert len(always.judged) == 1
    assert first.is_adequate
    assert first.bits.total == each[0]
    assert first.stopped.endswith("start: window, θ = 0.3")


def test_an_adequate_model_comes_before_a_shorter_one():
    text, _ = planted(8, 0.05, size=150)
    first, second = (best_alternation(text, start) for start in list(starts(encode(text)))[:2])
    costs = [cheapest_decomposition(one.decomposition.sequence).cost for one in (first, second)]
    assert first.bits.total < second.bits.total
    assert costs[0] > 30 > costs[1]
    found = learn_monotone(text, judge_by(30), powers=(4, 8))
    assert found.is_adequate
    assert found.bits.total == second.bits.total
    assert found.adequacy.cost == costs[1]


def test_a_starting_vocabulary_is_tried_first():
    model = ("abcd", "abcd", "xyz", "abcd", "xyz", "xyz") * 10
    found = learn_monotone("".join(model), judge_by(0), words=["abcd", "xyz", "q"], powers=(1,))
    assert found.stopped == "fixed point, power 1, start: given words"
    assert found.words == ("abcd", "xyz")
    assert found.decomposition.model == model


def test_segments_of_given_words_that_are_too_long_are_cut():
    start = next(starts(encode("abcdefghijklmnop"), words=["abcdefgh", "ijklmnop"], longest=3))
    assert start.cuts.tolist() == [0, 3, 6, 8, 11, 14, 16]


def test_random_starts_follow_the_seed():
    code = encode(planted(1, 0)[0])

    def cuts(seed):
        return [start.cuts.tolist() for start in starts(code, thetas=(), seed=seed)]

    assert cuts(1) == cuts(1)
    assert cuts(1) != cuts(2)
    for made in cuts(1):
        assert (made[0], made[-1]) == (0, len(code.codes))
        lengths = np.diff(made)
        assert (lengths[:-1] >= 3).all()
        assert (lengths >= 1).all()
        assert (lengths <= 12).all()


@pytest.mark.parametrize("noise", [0, 0.05])
def test_planted_motifs_are_told_in_fewer_bits_than_the_sequence_spelt_out(noise):
    """And in more than the motifs themselves would be: "maximally distant" segments are not the most telling ones."""
    found = [learn_monotone(planted(seed, noise)[0], judge_by(-1), powers=(3, 6), random_starts=0) for seed in range(3)]
    truth = [description_length(*planted(seed, noise)).total for seed in range(3)]
    assert np.mean([one.saved_share for one in found]) > 0.1
    assert np.mean([one.bits.total for one in found]) > np.mean(truth)


@pytest.mark.parametrize("sequence", ["", "a", [7], "aaaa", "abcabcabc"])
def test_sequences_of_next_to_nothing_are_spelt_out(sequence):
    found = learn_monotone(sequence, judge_by(-1))
    assert found.words == ()
    assert found.decomposition.cuts.tolist() == ([0, len(sequence)] if len(sequence) else [0])
    assert found.bits.total == found.baseline_bits
    assert found.method == "monotone"
    assert [start.cuts.tolist()[-1] for start in starts(encode(sequence))] == [len(sequence)] * 6


def test_what_only_recurs_is_one_word():
    found = learn_monotone("abcdefg" * 12, judge_by(0))
    assert found.words == ("abcdefg",)
    assert found.adequacy.cost == 0
    assert len(found.decomposition) == 12


@pytest.mark.thorough
def test_no_word_of_a_sequence_without_structure_pays():
    for seed in range(6):
        found = learn_monotone(structureless(seed, size=200), judge_by(-1), powers=(2, 8), random_starts=1)
        assert found.words == ()


def test_symbols_of_any_kind():
    names = dict(zip("abcde", ["page 1", "page 2", (3,), None, 5.5], strict=True))
    text, _ = planted(2, 0.05, size=120)
    one = learn_monotone(text, judge_by(-1), powers=(4,))
    other = learn_monotone([names[letter] for letter in text], judge_by(-1), powers=(4,))
    assert other.words == tuple(tuple(names[letter] for letter in word) for word in one.words)
    assert other.bits.total == pytest.approx(one.bits.total)
    assert other.baseline_bits == description_length(text, []).total


def test_more_segments_than_can_be_compared_are_refused(monkeypatch):
    monkeypatch.setattr(monotone, "_MOST_SEGMENTS", 3)
    compared = "there are 4 segments, but at most 3 can be compared in pairs"
    with pytest.raises(DataError, match=rf'^{compared}: call `learn_dictionary` with `method="description_length"`'):
        learn_monotone("abcdefghijkl", judge_by(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"thetas": (), "random_starts": 0}, "no starting point"),
        ({"powers": ()}, "`powers` is empty"),
        ({"most_rounds": 0}, "`most_rounds` is 0: use 1 or more"),
        ({"longest": 0}, "`longest` is 0: use 1 symbol or more"),
        ({"powers": (0,)}, "use a finite number above 0"),
        ({"thetas": (2,)}, "use a ratio from 0 to 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        learn_monotone("abcabc", judge_by(0), **settings)
