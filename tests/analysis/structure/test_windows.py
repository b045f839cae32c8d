from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.dictionary.naive_kernel import indel
from unperturbed.analysis.structure.segmentation import first_decomposition
from unperturbed.analysis.structure.symbols import encode


def fragments(text, **settings):
    cuts = first_decomposition(text, **settings).tolist()
    return [text[begin:end] for begin, end in pairwise(cuts)]


def apart(one, other):
    return indel(one, other) / (len(one) + len(other))


def naive_cuts(text, theta, shortest, longest):
    cuts, before = [0], None
    while cuts[-1] < len(text):
        rest = text[cuts[-1] :]
        lengths = [length for length in range(shortest, longest + 1) if length <= len(rest)]
        like_before = [(apart(rest[:length], before), length) for length in lengths if before is not None]
        like_after = [
            (apart(rest[:length], rest[length : 2 * length]), length) for length in lengths if 2 * length <= len(rest)
        ]
        length = min(shortest, len(rest))
        for ways in (like_after, like_before):
            if ways and min(ways)[0] <= theta:
                length = min(ways)[1]
        before = rest[:length]
        cuts.append(cuts[-1] + length)
    return cuts


@given(st.text("abc", max_size=40), st.sampled_from([0, 0.2, 0.3, 0.5, 1]), st.integers(1, 4), st.integers(0, 6))
def test_equals_the_rule_as_it_is_written(text, theta, shortest, more):
    found = first_decomposition(text, theta=theta, shortest=shortest, longest=shortest + more)
    assert found.tolist() == naive_cuts(text, theta, shortest, shortest + more)
    assert found.dtype == np.int64


def test_a_fragment_that_recurs_is_cut_at_its_period():
    assert fragments("abcdabcdabcdabcd") == ["abcd"] * 4


def test_a_change_begins_a_fragment_of_its_own():
    assert fragments("abcabcabc" + "xyzuxyzuxyzu" + "abcabc") == ["abc"] * 3 + ["xyzu"] * 3 + ["abc"] * 2


def test_fragments_that_are_a_little_different_are_alike():
    assert fragments("abcdef" + "abcef" + "abcdxef" + "abcdef") == ["abcdef", "abcef", "abcdxef", "abcdef"]
    assert fragments("abcdef" + "abcef" + "abcdef", theta=0) == ["abc", "def", "abc", "efa", "bcd", "ef"]


def test_where_nothing_recurs_fragments_are_the_shortest():
    assert fragments("abcdefghij", shortest=4) == ["abcd", "efgh", "ij"]


def test_nothing_and_less_than_a_fragment():
    assert first_decomposition("").tolist() == [0]
    assert first_decomposition("a").tolist() == [0, 1]
    assert first_decomposition([7, 7], shortest=5, longest=9).tolist() == [0, 2]


def test_symbols_of_any_kind():
    text = "abcabcabcxyzuxyzu"
    expected = first_decomposition(text).tolist()
    assert first_decomposition([f"page {letter}" for letter in text]).tolist() == expected
    assert first_decomposition(encode(text).codes).tolist() == expected
    pages = [1000 * ord(letter) for letter in text] + list(range(500))
    assert first_decomposition(pages)[:5].tolist() == expected[:5]


@pytest.mark.parametrize("theta", [-0.1, 1.1, float("nan")])
def test_theta_is_a_ratio(theta):
    with pytest.raises(ValueError, match="use a ratio from 0 to 1"):
        first_decomposition("abc", theta=theta)


@pytest.mark.parametrize("lengths", [{"shortest": 0}, {"shortest": 5, "longest": 4}])
def test_lengths_are_in_order(lengths):
    with pytest.raises(ValueError, match="use 1 symbol or more for `shortest`"):
        first_decomposition("abc", **lengths)
