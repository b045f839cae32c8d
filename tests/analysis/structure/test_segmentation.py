import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.naive_decomposition import best, indel, preferred
from unperturbed.analysis.structure.segmentation import decompose
from unperturbed.errors import DataError

WORDS = st.lists(st.text("abcd", min_size=1, max_size=6), min_size=1, max_size=4)
PRICES = st.integers(0, 20).map(lambda quarters: quarters / 4)


def checked(found, sequence, words):
    """Assert that a decomposition says of itself what its cuts and words say."""
    assert found.cuts[0] == 0
    assert found.cuts[-1] == len(sequence)
    assert (np.diff(found.cuts) > 0).all()
    assert "".join(found.segments) == sequence
    assert found.lengths.tolist() == [len(segment) for segment in found.segments]
    assert found.dictionary == tuple(words)
    near = [
        len(segment) if word < 0 else indel(segment, words[word])
        for segment, word in zip(found.segments, found.words.tolist(), strict=True)
    ]
    assert found.distances.tolist() == near
    assert found.edits == sum(near)
    assert found.model == tuple(words[word] for word in found.words.tolist() if word >= 0)


@given(st.text("abc", max_size=14), WORDS)
def test_it_is_the_papers_recursion(sequence, words):
    found = decompose(sequence, words)
    assert (found.cost, len(found)) == best(sequence, words, 2 * max(map(len, words)))
    assert found.cost == found.edits
    checked(found, sequence, words)


@given(st.text("ab", max_size=9), WORDS, st.integers(1, 12))
def test_of_equal_costs_the_documented_one_is_taken(sequence, words, longest):
    found = decompose(sequence, words, longest=longest)
    cuts, chosen = preferred(sequence, words, longest)
    assert (tuple(found.cuts.tolist()), found.words.tolist()) == (cuts, chosen)


@given(st.data(), st.text("abc", max_size=12), WORDS, st.integers(1, 12), st.sampled_from([0, 0.5, 2, 3]))
def test_prices_are_minimised_with_the_distances(data, sequence, words, longest, edit_price):
    prices = data.draw(st.lists(PRICES, min_size=len(words), max_size=len(words)))
    symbols = data.draw(st.lists(PRICES, min_size=len(sequence), max_size=len(sequence)))
    stretch = data.draw(st.none() | PRICES)
    found = decompose(
        sequence,
        words,
        longest=longest,
        word_prices=prices,
        edit_price=edit_price,
        stretch_price=stretch,
        symbol_prices=symbols,
    )
    # Quarters add up exactly, so that equal is equal.
    assert found.cost == best(sequence, words, longest, prices, edit_price, stretch, symbols)[0]
    checked(found, sequence, words)
    spent = 0.0
    for segment, word in enumerate(found.words.tolist()):
        first, last = found.cuts[segment : segment + 2].tolist()
        if word < 0:
            spent += stretch + sum(symbols[first:last])
        else:
            spent += edit_price * found.distances[segment] + prices[word]
    assert spent == found.cost
    assert (np.diff(np.flatnonzero(found.words < 0)) > 1).all()  # two stretches in a row would be one


@pytest.mark.parametrize("lengths", [(63, 64), (65, 1), (64, 128), (130, 70, 3), (200,)])
def test_words_of_several_blocks(lengths):
    rng = random.Random(str(lengths))
    words = ["".join(rng.choices("abc", k=length)) for length in lengths]
    noisy = "".join(symbol for symbol in words[0] + words[-1] + words[0] if rng.random() > 0.1)[:240]
    found = decompose(noisy, words)
    checked(found, noisy, words)
    # The recursion with the slow distance would take minutes here; from the words' own prefixes it needs no more than
    # all starts and ends.
    longest = 2 * max(lengths)
    nearest = np.min([_to_prefixes(word, noisy, longest) for word in words], axis=0)
    costs = np.array([0] + [len(noisy) * 10] * len(noisy))
    for start in range(len(noisy)):
        ends = costs[start + 1 : start + longest + 1]
        np.minimum(ends, costs[start] + nearest[start, 1 : len(ends) + 1], out=ends)
    assert found.cost == costs[-1]


def _to_prefixes(word, sequence, longest):
    """The distances of a word to the segments of a sequence: a row a start, and in it their lengths from 0 on."""
    facing = np.frombuffer((sequence + "-" * longest).encode(), np.uint8)  # no word has what is behind the end
    facing = np.lib.stride_tricks.sliding_window_view(facing, longest)[: len(sequence)]
    places = np.arange(longest + 1)
    rows = np.tile(places, (len(sequence), 1))
    for number, symbol in enumerate(word.encode(), 1):
        diagonal = rows[:, :-1] + 2 * (facing != symbol)
        free = np.insert(np.minimum(diagonal, rows[:, 1:] + 1), 0, number, axis=1)
        rows = np.minimum.accumulate(free - places, axis=1) + places
    return rows


def test_a_word_longer_than_the_sequence_is_a_word_still():
    found = decompose("ab", ["xabyz"])
    assert (found.cost, found.cuts.tolist(), found.words.tolist()) == (3.0, [0, 2], [0])


def test_a_segment_longer_than_twice_the_longest_word_may_cost_less():
    # Section 3 bounds segments so; the documentation names this case.
    assert decompose("xxxxxxab", ["ab"]).cost == 8
    assert decompose("xxxxxxab", ["ab"], longest=8).cost == 6


def test_a_sequence_without_symbols_has_no_segments():
    for words in ([], ["ab"]):
        found = decompose("", words)
        assert (found.cost, found.cuts.tolist(), found.words.tolist(), found.segments, found.model) == (
            0.0,
            [0],
            [],
            (),
            (),
        )


def test_without_words_all_is_one_stretch():
    found = decompose("abab", [])
    assert (found.cost, found.cuts.tolist(), found.words.tolist(), found.model) == (4.0, [0, 4], [-1], ())
    assert decompose("abab", [], edit_price=2.5).cost == 10.0
    assert decompose("abab", [], stretch_price=3.0, symbol_prices=0.5).cost == 5.0


def test_of_the_same_word_twice_the_first_is_taken():
    assert decompose("abab", ["ba", "ab", "ab"]).words.tolist() == [1, 1]


def test_symbols_may_be_anything():
    found = decompose([("disk", 1), None, ("disk", 1)], [[("disk", 1), None]])
    assert (found.cost, found.segments) == (1.0, ((("disk", 1), None, ("disk", 1)),))
    numbers = decompose(np.array([7, 9, 7, 9], np.int16), [np.array([7, 9])])
    assert (numbers.cost, numbers.model) == (0.0, ((7, 9), (7, 9)))


def test_symbols_of_no_word_cost_one_each():
    assert decompose("abxyz" * 3, ["ab"], longest=5).cost == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest": 0}, "`longest` is 0: use 1 symbol or more"),
        (
            {"word_prices": [1.0, 2.0]},
            r"`word_prices` has the shape \(2,\): give one number, or one for each word, shape \(1,\)",
        ),
        ({"word_prices": [np.inf]}, "`word_prices` contains inf: use finite prices"),
        ({"edit_price": -1.0}, r"`edit_price` is -1\.0: use a finite price of 0 or more"),
        ({"edit_price": float("nan")}, "`edit_price` is nan"),
        ({"stretch_price": float("inf")}, "`stretch_price` is inf: use a finite price, or `None`"),
        ({"symbol_prices": [0.0]}, r"`symbol_prices` has the shape \(1,\).*each symbol of the sequence"),
    ],
)
def test_wrong_prices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        decompose("abab", ["ab"], **options)


def test_an_empty_word_is_refused():
    with pytest.raises(DataError, match="word 1 is empty"):
        decompose("abab", ["ab", ""])
