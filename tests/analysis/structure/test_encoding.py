from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.structure.symbols import encode, indel_distances
from unperturbed.errors import DataError


@dataclass(frozen=True)
class Symbols:
    symbols: np.ndarray


@given(st.text(max_size=20), st.lists(st.text(min_size=1, max_size=5), max_size=4))
def test_text_is_given_back_as_text(text, words):
    found = encode(text, words)
    assert found.decode(found.codes) == text
    assert [found.decode(word) for word in found.words] == words
    assert found.codes.dtype == np.int32
    assert len(set(found.alphabet)) == len(found.alphabet)


@given(st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.booleans()), st.none()), max_size=20))
def test_any_symbols_are_given_back_as_a_tuple(symbols):
    found = encode(symbols)
    assert found.decode(found.codes) == tuple(symbols)


def test_numbers_follow_the_order_in_which_symbols_appear():
    found = encode("cabca", ["ax", "yc"])
    assert found.codes.tolist() == [0, 1, 2, 0, 1]
    assert [word.tolist() for word in found.words] == [[1, 3], [4, 0]]
    assert found.alphabet == ("c", "a", "b", "x", "y")


def test_arrays_lists_and_structural_sequences_are_compared_by_value():
    given_words = [(7, 3), [3], np.array([3, 9], np.uint8), Symbols(np.array([7], np.int32))]
    for sequence in ([3, 7, 3], np.array([3, 7, 3]), Symbols(np.array([3, 7, 3], np.int32))):
        found = encode(sequence, given_words)
        assert found.codes.tolist() == [0, 1, 0]
        assert [word.tolist() for word in found.words] == [[1, 0], [0], [0, 2], [1]]
        assert found.decode(found.words[2]) == (3, 9)
        assert all(type(symbol) is int for symbol in found.alphabet)


def test_text_with_a_symbol_that_is_no_character_is_given_back_as_a_tuple():
    found = encode("ab", [("a", "page 7")])
    assert found.decode(found.words[0]) == ("a", "page 7")


def test_words_of_text_fit_lists_of_characters():
    assert encode(["a", "b"], ["ba"]).words[0].tolist() == [1, 0]
    assert encode([], ["ba"]).words[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("sequence", "words", "message"),
    [
        ("ab", "ab", "`words` is the single string 'ab': give a list"),
        ("ab", ["a", ""], "word 1 is empty"),
        ([1], [()], "word 0 is empty"),
        (["page 7"], ["page 7"], "word 0 is the string 'page 7', but the sequence's symbols are not single characters"),
        ([1, 2], ["12"], "give a tuple of symbols"),
        ([1, [2]], [], r"symbol 1 of the sequence is \[2\]: give a hashable symbol"),
        ([1.0, float("nan")], [], "symbol 1 of the sequence is NaN"),
        (np.array([np.nan]), [], "symbol 0 of the sequence is NaN"),
        (np.zeros((2, 2)), [], r"the sequence has the shape \(2, 2\)"),
        ([1], [(1, {})], "symbol 1 of word 0 is {}"),
    ],
)
def test_what_cannot_be_numbered_is_refused_by_name(sequence, words, message):
    with pytest.raises(DataError, match=message):
        encode(sequence, words)


@pytest.mark.parametrize(
    ("segments", "others", "message"), [("ab", ["a"], "`segments` is"), (["a"], "ab", "`others` is")]
)
def test_a_single_text_instead_of_segments_is_refused(segments, others, message):
    with pytest.raises(DataError, match=f"^{message} a single string: give a list of segments"):
        indel_distances(segments, others)
