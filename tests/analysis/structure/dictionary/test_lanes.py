from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.structure.naive_decomposition import indel
from unperturbed.analysis.structure.dictionary.candidates import (
    NONE,
    IntegerPrices,
    Lanes,
    SegmentCosts,
    Windows,
    extended_ends,
    word_variants,
)

CODES = st.lists(st.integers(0, 2), max_size=14)
WORD = st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)


def least(codes, words, word_prices, prices, times=2):
    """The least cost, by recursion; each word stands for segments of up to so many times its length."""

    def of_word(start, end, word, price):
        if prices.merged is not None and start and codes[start - 1] == word[0]:
            return prices.edit * indel(codes[start:end], word[1:]) + price + prices.merged
        return prices.edit * indel(codes[start:end], word) + price

    @cache
    def until(end):
        if end == 0:
            return 0
        ways = [NONE]
        for start in range(end):
            for word, price in zip(words, word_prices, strict=True):
                if end - start <= times * len(word):
                    ways.append(until(start) + of_word(start, end, word, price))
            if prices.stretch is not None:
                ways.append(until(start) + prices.stretch + sum(prices.symbols[start:end].tolist()))
        return min(ways)

    return until(len(codes))


@st.composite
def cases(draw):
    codes = draw(CODES)
    words = draw(st.lists(WORD, max_size=3))
    tried = draw(st.lists(WORD, min_size=1, max_size=4))
    stretch = draw(st.none() | st.integers(0, 9))
    symbols = draw(
        st.lists(
            st.integers(-1, 6) if draw(st.booleans()) else st.integers(0, 3), min_size=len(codes), max_size=len(codes)
        )
    )
    if stretch is None:
        symbols = [0] * len(codes)
    merged = draw(st.none() | st.integers(-2, 2))
    prices = IntegerPrices(draw(st.integers(1, 5)), merged, stretch, np.array(symbols, np.int32))
    of_words = draw(st.lists(st.integers(0, 9), min_size=len(words), max_size=len(words)))
    of_tried = draw(st.lists(st.integers(0, 9), min_size=len(tried), max_size=len(tried)))
    return codes, words, of_words, tried, of_tried, prices


@given(cases(), st.data())
@settings(max_examples=300)
def test_a_candidate_costs_what_the_recursion_says(case, data):
    codes, words, of_words, tried, of_tried, prices = case
    without = data.draw(st.integers(-1, len(words) - 1))
    sequence = np.array(codes, np.int32)
    kept = [number for number in range(len(words)) if number != without]
    known = SegmentCosts.of(sequence, words, 3, np.array(of_words, np.int32), prices)
    together = Lanes.of(tried, 3)
    costs = together.costs(sequence, known, np.array(of_tried, np.int32)[together.order], prices, without=without)
    for lane, number in enumerate(together.order.tolist()):
        alone = Lanes.of([tried[number]], 3)
        cost = alone.costs(sequence, known, np.array([of_tried[number]], np.int32), prices, without=without)[0]
        beside = [*(words[one] for one in kept), tried[number]]
        beside_prices = [*(of_words[one] for one in kept), of_tried[number]]
        assert cost == least(codes, beside, beside_prices, prices)
        # Beside longer ones it may stand for longer segments.
        assert least(codes, beside, beside_prices, prices, times=len(codes)) <= costs[lane] <= cost


def test_many_candidates_of_any_length_at_once():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, 150).astype(np.int32)
    prices = IntegerPrices(2, None, 5, np.ones(150, np.int32))
    tried = [tuple(rng.integers(0, 4, length).tolist()) for length in rng.integers(1, 65, 300).tolist()]
    known = SegmentCosts.of(codes, [(0, 1, 2)], 4, np.array([1], np.int32), prices)
    lanes = Lanes.of(tried, 4)
    costs = lanes.costs(codes, known, np.full(300, 3, np.int32), prices)
    for lane in range(0, 300, 7):
        alone = Lanes.of([tried[lanes.order[lane]]], 4)
        assert alone.costs(codes, known, np.array([3], np.int32), prices)[0] == costs[lane]
    assert costs.max() <= 155  # one stretch


def test_around_a_word_s_segments_no_segment_goes_over_a_gap():
    codes = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2], np.int32)
    prices = IntegerPrices(1, None, 90, np.full(9, 90, np.int32))
    known = SegmentCosts.of(codes, [(0, 1), (2,)], 3, np.zeros(2, np.int32), prices)
    near = known.without_word(1, np.array([0, 1, 6, 7, 8]))
    assert near.least[0].tolist() == [1, 0, NONE, NONE]  # of 0 1, then the gap
    assert near.least[2].tolist() == [1, 0, 1, NONE]


def test_windows_are_all_there_are_where_they_are_few():
    codes = np.array([0, 1, 2, 0, 1, 3], np.int32)
    found = Windows(codes, 3).best(np.ones(6), 1.0, 100, np.random.default_rng(0))
    assert sorted(found) == sorted({(0, 1), (1, 2), (2, 0), (1, 3), (0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 1, 3)})
    assert Windows(codes[:1], 3).best(np.ones(1), 1.0, 100, np.random.default_rng(0)) == []


def test_what_recurs_and_what_is_told_badly_come_first():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 6, 3000).astype(np.int32)
    motif = np.array([0, 5, 1, 4, 2, 3, 0, 4], np.int32)
    for start in range(0, 3000, 60):
        codes[start : start + 8] = motif
    told = np.full(3000, 2.5)
    found = Windows(codes, 32).best(told, 4.0, 100, rng)
    assert found[0][:4] == (0, 5, 1, 4) or tuple(motif.tolist()) in found[:10]
    told[:2000] = 0.1
    late = Windows(codes[:], 8).best(told, 1.0, 60, rng)[30:]
    starts = [
        next(at for at in range(2993) if tuple(codes[at : at + len(word)].tolist()) == word)
        for word in late
        if len(word) > 5
    ]
    assert np.mean([start > 1990 for start in starts]) > 0.8


@given(WORD, st.booleans())
def test_variants_are_a_symbol_away_or_parts(word, is_collapsed):
    found = word_variants(word, [0, 1, 2], 5, is_collapsed=is_collapsed)
    assert len(set(found)) == len(found)
    for one in found:
        part = any(word[start : start + len(one)] == one for start in (0, len(word) - len(one)))
        assert part or indel(word, one) <= 2
        assert 1 <= len(one) <= 5
        assert not is_collapsed or all(one[i] != one[i + 1] for i in range(len(one) - 1))
    if not is_collapsed or word in found:
        assert found[0] == word


@pytest.mark.parametrize("length", [31, 32, 33, 63, 64])
def test_words_up_to_a_lane_s_bits(length):
    rng = np.random.default_rng(length)
    word = tuple(rng.integers(0, 3, length).tolist())
    codes = np.array(word * 2, np.int32)
    prices = IntegerPrices(1, None, None, np.zeros(len(codes), np.int32))
    nothing = SegmentCosts.of(codes, [], 3, np.zeros(0, np.int32), prices)
    assert Lanes.of([word], 3).costs(codes, nothing, np.array([7], np.int32), prices).tolist() == [14]


def test_a_symbol_is_put_before_or_behind_all_that_share_a_border():
    assert set(extended_ends(((0, 1), (0, 2), (3, 1)), 4)) == {
        *(((more, 0, 1), (more, 0, 2), (3, 1)) for more in (1, 2, 3)),
        *(((0, 1, more), (0, 2), (3, 1, more)) for more in (0, 2, 3)),
    }
