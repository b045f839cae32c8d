from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.structure.dictionary.candidates import (
    concatenate,
    extend_shared_ends,
    merge_into_neighbours,
    split_word,
    strip_shared_ends,
)

WORDS = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=8).map(tuple), min_size=1, max_size=4, unique=True
).map(tuple)


def test_what_words_begin_or_end_with_is_taken_from_all_that_do():
    found = list(strip_shared_ends(((0, 1, 2), (0, 1, 3), (2, 3))))
    assert ((1, 2), (1, 3), (2, 3)) in found
    assert ((2,), (3,), (2, 3)) in found
    assert ((0, 1, 2), (0, 1), (2,)) in found  # both end with 3
    assert len(found) == 3


def test_a_symbol_is_put_before_or_behind_all_that_share_a_border():
    assert set(extend_shared_ends(((0, 1), (0, 2), (3, 1)), 4)) == {
        *(((more, 0, 1), (more, 0, 2), (3, 1)) for more in (1, 2, 3)),
        *(((0, 1, more), (0, 2), (3, 1, more)) for more in (0, 2, 3)),
    }


def test_a_word_is_parted_where_both_parts_are_words():
    assert list(split_word(((0, 1, 2, 3, 0, 1, 2), (5, 6)))) == [
        ((0, 1, 2), (5, 6), (3, 0, 1, 2)),
        ((0, 1, 2, 3), (5, 6), (0, 1, 2)),
    ]
    assert list(split_word(((0, 1, 2, 3, 4, 5), (3, 4, 5)))) == []  # the second part is there already


def test_a_word_becomes_a_part_of_all_that_follow_it():
    words = ((0,), (1, 2), (0, 3), (4,))
    assert list(merge_into_neighbours(words, [(0, 1), (0, 2), (3, 0)], is_collapsed=True)) == [
        (0, ((0, 1, 2), (0, 3), (4,)))
    ]
    assert list(merge_into_neighbours(words, [(0, 1), (0, 2), (3, 0)], is_collapsed=False)) == [
        (0, ((0, 1, 2), (0, 0, 3), (4,)))
    ]
    assert list(merge_into_neighbours(words, [(1, 0), (2, 0), (0, 0)], is_collapsed=True)) == [
        (0, ((1, 2, 0), (0, 3, 0), (4,)))
    ]
    assert list(merge_into_neighbours(words, [(0, 1)], is_collapsed=True)) == []  # one other is joined instead


@given(WORDS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_all_words_stay_words(words, pairs):
    known = [(first, second) for first, second in pairs if max(first, second) < len(words)]
    made = [
        *((one, len(words)) for one in strip_shared_ends(words)),
        *((one, len(words)) for one in extend_shared_ends(words, 4)),
        *((one, len(words) + 1) for one in split_word(words)),
        *((one, len(words) - 1) for _, one in merge_into_neighbours(words, known, is_collapsed=False)),
    ]
    for one, count in made:
        assert len(one) == count
        assert all(one)


def test_two_words_are_one():
    assert concatenate((0, 1), (1, 2), is_collapsed=True) == (0, 1, 2)
    assert concatenate((0, 1), (1, 2), is_collapsed=False) == (0, 1, 1, 2)
    assert concatenate((0, 1), (2,), is_collapsed=True) == (0, 1, 2)
