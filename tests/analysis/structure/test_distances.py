import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.dictionary.naive_kernel import indel
from unperturbed.analysis.structure.symbols import indel_distance, indel_distances
from unperturbed.errors import DataError

TEXTS = st.text("abcd", max_size=12)
SEGMENTS = st.lists(TEXTS, max_size=6)


@given(TEXTS, TEXTS)
def test_equals_the_shortest_way_through_the_papers_graph(one, other):
    assert indel_distance(one, other) == indel(one, other)


def test_the_papers_figure_1():
    assert indel_distance("aabaa", "aaba") == 1


@given(SEGMENTS, SEGMENTS)
def test_each_pair_of_two_lists(segments, others):
    found = indel_distances(segments, others)
    assert found.shape == (len(segments), len(others))
    assert found.dtype == np.int64
    assert found.tolist() == [[indel(one, other) for other in others] for one in segments]


@given(SEGMENTS)
def test_a_list_with_itself(segments):
    assert indel_distances(segments).tolist() == indel_distances(segments, segments).tolist()


@given(TEXTS, TEXTS, TEXTS)
def test_is_a_metric(one, other, third):
    assert indel_distance(one, other) == indel_distance(other, one)
    assert (indel_distance(one, other) == 0) == (one == other)
    assert indel_distance(one, third) <= indel_distance(one, other) + indel_distance(other, third)


def test_many_pairs_are_compared_by_several_threads():
    rng = np.random.default_rng(1)
    segments = [rng.integers(0, 6, rng.integers(0, 20)) for _ in range(400)]
    found = indel_distances(segments)
    assert (found == found.T).all()
    for row, column in rng.integers(0, 400, (60, 2)).tolist():
        assert found[row, column] == indel(segments[row].tolist(), segments[column].tolist())


def test_symbols_of_any_kind_are_compared_by_value_not_by_their_hash():
    assert hash(-1) == hash(-2)
    assert indel_distance([-1, 5], [-2, 5]) == 2
    assert indel_distance(["a", "page 7"], ("a", "page 8")) == 2
    assert indel_distance([(1, 2)], [(1, 2)]) == 0
    assert indel_distance(np.array([1, 2], np.int16), [1, 2]) == 0


def test_alphabets_and_distances_that_fill_no_byte():
    many = list(range(1000))
    assert indel_distances([many], [many[::2], [], many]).tolist() == [[500, 1000, 0]]
    assert indel_distances(["a" * 70_000], ["b" * 70_000]).tolist() == [[140_000]]


def test_nothing_to_compare():
    assert indel_distances([]).shape == (0, 0)
    assert indel_distances([], ["ab"]).shape == (0, 1)
    assert indel_distances(["ab"], []).shape == (1, 0)
    assert indel_distance("", "") == 0
    assert indel_distance("", "abc") == 3


def test_one_text_is_no_list_of_segments():
    with pytest.raises(DataError, match="give a list of segments"):
        indel_distances("abc")
    with pytest.raises(DataError, match="give a list of segments"):
        indel_distances(["abc"], "abc")


def test_symbols_that_cannot_be_compared_are_named():
    with pytest.raises(DataError, match=r"symbol 1 of segment 2 is \[\]"):
        indel_distances(["a", "b", ["c", []]])
    with pytest.raises(DataError, match="symbol 0 of other 0 is NaN"):
        indel_distances(["a"], [[float("nan")]])
