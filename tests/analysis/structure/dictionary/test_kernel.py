import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.dictionary.naive_kernel import best_subsets
from unperturbed.analysis.structure.dictionary.monotone import kernel
from unperturbed.analysis.structure.symbols import indel_distances
from unperturbed.errors import DataError

POWERS = (1, 2, 4, 0.5)
POWER = st.sampled_from(POWERS)


@st.composite
def matrices(draw, least=0, most=12, furthest=9):
    nodes = draw(st.integers(1, most))
    upper = draw(
        st.lists(st.integers(least, furthest), min_size=nodes * (nodes - 1) // 2, max_size=nodes * (nodes - 1) // 2)
    )
    matrix = np.zeros((nodes, nodes), np.int64)
    matrix[np.triu_indices(nodes, 1)] = upper
    return matrix + matrix.T


def words(count=12):
    return st.lists(st.text("abc", max_size=6), min_size=1, max_size=count)


def assert_is_the_largest_maximiser(distances, power):
    found = kernel(distances, power)
    greatest, reached = best_subsets(distances, power)
    assert found.value == pytest.approx(greatest, rel=1e-12)
    assert set(found.members.tolist()) == max(reached, key=len)


@given(matrices(), POWER)
def test_equals_brute_force_for_any_distances(distances, power):
    assert_is_the_largest_maximiser(distances, power)


@given(matrices(furthest=2), POWER)
def test_equals_brute_force_where_most_are_ties(distances, power):
    assert_is_the_largest_maximiser(distances, power)


@given(words(), POWER)
def test_equals_brute_force_for_distances_of_words(segments, power):
    assert_is_the_largest_maximiser(indel_distances(segments), power)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("nodes", range(1, 13))
def test_equals_brute_force_on_random_cases_of_each_size(nodes, power):
    rng = np.random.default_rng(nodes)
    for furthest in (1, 3, 40):
        upper = np.triu(rng.integers(0, furthest + 1, (nodes, nodes)), 1)
        assert_is_the_largest_maximiser(upper + upper.T, power)


@given(matrices(least=1, most=9, furthest=4), POWER)
def test_the_smallest_is_the_smallest_of_all_where_no_two_are_the_same(distances, power):
    _, reached = best_subsets(distances, power)
    smallest = min(reached, key=len)
    assert sum(len(subset) == len(smallest) for subset in reached) == 1
    assert set(kernel(distances, power, smallest=True).members.tolist()) == smallest


@given(words(9), POWER)
def test_the_smallest_cannot_be_made_smaller_where_segments_recur(segments, power):
    distances = indel_distances(segments)
    found = frozenset(kernel(distances, power, smallest=True).members.tolist())
    _, reached = best_subsets(distances, power)
    assert found in reached
    assert not any(subset < found for subset in reached)


@given(matrices(), POWER, st.booleans())
def test_says_how_it_was_found(distances, power, smallest):
    found = kernel(distances, power, smallest=smallest)
    powers = distances.astype(float) ** power
    remaining = list(range(len(distances)))
    threshold, steps = -1.0, []
    for step, row in enumerate(found.defining_sequence.tolist()):
        weights = powers[np.ix_(remaining, remaining)].sum(axis=1)
        assert found.weights[step] == pytest.approx(weights.min())
        assert weights[remaining.index(row)] == pytest.approx(weights.min())
        if found.weights[step] > threshold * (1 + 1e-12) or (
            smallest and found.weights[step] >= threshold * (1 - 1e-12)
        ):
            steps.append(step)
        threshold = max(threshold, found.weights[step])
        remaining.remove(row)
    assert found.threshold_steps.tolist() == steps
    assert found.members.tolist() == sorted(found.defining_sequence[steps[-1] :].tolist())
    assert found.value == found.weights[steps[-1]]


def test_of_equal_weights_the_lowest_row_is_taken_away_first():
    found = kernel(np.ones((3, 3)) - np.eye(3))
    assert found.defining_sequence.tolist() == [0, 1, 2]
    assert found.weights.tolist() == [2, 1, 0]
    assert found.threshold_steps.tolist() == [0]
    assert found.members.tolist() == [0, 1, 2]


def test_the_smallest_may_be_larger_than_another_where_different_rows_are_at_distance_0():
    """0 is at distance 0 of 2 and 3, which lie apart: no metric. {0, 1} reaches 10 too, and taking 0 away breaks it."""
    distances = np.array([[0, 10, 0, 0], [10, 0, 3, 3], [0, 3, 0, 7], [0, 3, 7, 0]])
    value, reached = best_subsets(distances, 1)
    assert (value, set(reached)) == (10, {frozenset({0, 1}), frozenset({0, 1, 2, 3})})
    assert kernel(distances, smallest=True).members.tolist() == [0, 1, 2, 3]


def test_no_segment_one_segment_and_equal_segments():
    empty = kernel(np.empty((0, 0)))
    assert (empty.members.tolist(), empty.value, empty.defining_sequence.tolist(), empty.threshold_steps.tolist()) == (
        [],
        0,
        [],
        [],
    )
    assert kernel([]).members.tolist() == []
    one = kernel([[0]])
    assert (one.members.tolist(), one.value, one.weights.tolist()) == ([0], 0, [0])
    same = kernel(np.zeros((4, 4)), 0.5)
    assert (same.members.tolist(), same.value) == ([0, 1, 2, 3], 0)
    assert kernel(np.zeros((4, 4)), smallest=True).members.tolist() == [3]


def test_sums_do_not_drift_when_columns_are_subtracted():
    """Far more rows than brute force could try: each weight is summed afresh."""
    rng = np.random.default_rng(5)
    upper = np.triu(rng.integers(1, 60, (200, 200)), 1)
    distances = upper + upper.T
    for power in (0.5, 3, 4.5, 40):
        found = kernel(distances, power)
        powers = distances.astype(float) ** power
        for step in range(0, 200, 7):
            left = found.defining_sequence[step:]
            assert found.weights[step] == pytest.approx(
                powers[found.defining_sequence[step], left].sum(), abs=1e-12 * powers.max()
            )


def test_scaling_distances_changes_nothing():
    rng = np.random.default_rng(6)
    upper = np.triu(rng.integers(0, 6, (30, 30)), 1)
    distances = upper + upper.T
    for power in POWERS:
        first = kernel(distances, power)
        for factor in (1e-60, 0.3, 1e60):
            other = kernel(distances * factor, power)
            assert other.members.tolist() == first.members.tolist()
            assert other.value == pytest.approx(first.value * factor**power)


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\): give a square matrix"),
        ([0, 1], "give a square matrix"),
        ([[0, 1], [2, 0]], "distance from segment 0 to segment 1 is 1.0: it must be the same in both directions"),
        ([[0, -1], [-1, 0]], "distance from segment 0 to segment 1 is -1.0: it must not be negative"),
        ([[0, 1], [1, 3]], "distance from segment 1 to segment 1 is 3.0: it must be 0"),
        ([[0, np.nan], [np.nan, 0]], "distance from segment 0 to segment 1 is nan: it must be finite"),
        ([[0, np.inf], [np.inf, 0]], "must be finite"),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(distances, message):
    with pytest.raises(DataError, match=message):
        kernel(distances)


@pytest.mark.parametrize("power", [0, -1, float("nan"), float("inf")])
def test_a_power_is_above_0(power):
    with pytest.raises(ValueError, match="use a finite number above 0"):
        kernel([[0, 1], [1, 0]], power)


@pytest.mark.parametrize(("distance", "power"), [(10, 400), (1e-200, 2)])
def test_powers_beyond_the_range_of_numbers_are_refused(distance, power):
    with pytest.raises(ValueError, match="is out of range: use a power nearer to 1"):
        kernel([[0, distance], [distance, 0]], power)
