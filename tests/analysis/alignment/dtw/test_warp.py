import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.alignment import naive
from unperturbed.analysis.alignment import WarpPath, anchored_dtw, dtw, dtw_cost
from unperturbed.analysis.alignment.dtw import kernels
from unperturbed.errors import DataError, UnperturbedError

# Few distinct values, so that ties are met at every turn; and floats, so that rounding is.
coarse = st.integers(0, 3).map(float)
fine = st.floats(-1e3, 1e3, allow_nan=False, width=32)
penalties = st.sampled_from([0.0, 0.5, 3.0])
bands = st.none() | st.integers(0, 6)


@st.composite
def pairs_of_series(draw, longest=12):
    values = draw(st.sampled_from([coarse, fine]))
    metrics = draw(st.integers(1, 3))
    shapes = [(draw(st.integers(1, longest)), metrics) for _ in "xy"]
    flat = metrics == 1 and draw(st.booleans())
    series = [np.array(draw(st.lists(values, min_size=n * m, max_size=n * m))).reshape(n, m) for n, m in shapes]
    return [rows[:, 0] for rows in series] if flat else series


def cells(path: WarpPath) -> list[tuple[int, int]]:
    return list(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))


@given(pairs_of_series(), penalties, bands)
@settings(max_examples=300, deadline=None)
def test_equals_the_naive_table_cell_for_cell(series, penalty, band):
    x, y = series
    path = dtw(x, y, penalty=penalty, band=band)
    expected, cost = naive.dtw(x, y, penalty, band)
    assert cells(path) == expected
    assert path.cost == cost == naive.path_cost(x, y, expected, penalty)
    assert dtw_cost(x, y, penalty=penalty, band=band) == cost


@given(pairs_of_series(longest=5), penalties)
@settings(max_examples=60, deadline=None)
def test_no_path_at_all_is_cheaper(series, penalty):
    x, y = series
    cheapest = min(naive.path_cost(x, y, path, penalty) for path in naive.every_path(len(x), len(y)))
    assert dtw(x, y, penalty=penalty).cost == pytest.approx(cheapest, rel=1e-12, abs=1e-12)


@given(pairs_of_series(), penalties, bands, st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=5))
@settings(max_examples=300, deadline=None)
def test_swapped_arguments_give_the_same_path(series, penalty, band, anchors):
    x, y = series
    anchors = [(i, j) for i, j in anchors if i < len(x) and j < len(y)]
    there = anchored_dtw(x, y, anchors, penalty=penalty, band=band)
    back = anchored_dtw(y, x, [(j, i) for i, j in anchors], penalty=penalty, band=band)
    if not np.array_equal(x, y) or naive.largest_passable(anchors) == len(set(anchors)):
        assert cells(there) == cells(back.swapped())
    assert there.cost == back.cost


@given(pairs_of_series(), bands)
@settings(max_examples=100, deadline=None)
def test_path_obeys_the_papers_constraints_and_the_band(series, band):
    x, y = series
    path = dtw(x, y, band=band)
    assert (path.x_index[0], path.y_index[0]) == (0, 0)
    assert (path.x_index[-1], path.y_index[-1]) == (len(x) - 1, len(y) - 1)
    steps = set(zip(np.diff(path.x_index).tolist(), np.diff(path.y_index).tolist(), strict=True))
    assert steps <= {(1, 1), (1, 0), (0, 1)}
    assert all(naive.inside_band(len(x), len(y), i, j, band) for i, j in cells(path))


@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 6), (6, 3)])
def test_constant_input_goes_diagonally(n, m):
    path = dtw(np.ones(n), np.ones(m))
    assert path.cost == 0
    assert len(path) == max(n, m)


def test_a_series_is_aligned_to_itself_by_the_diagonal():
    x = np.array([1.0, 1, 2, 1, 1, 1, 0, 0])
    path = dtw(x, x)
    assert np.array_equal(path.x_index, np.arange(8))
    assert np.array_equal(path.y_index, np.arange(8))


def test_the_papers_example_resists_a_bad_detour():
    # Section 3.2: the second pair of sequences is aligned one to one.
    path = dtw([2, 3, 6, 8], [2, 4, 6, 8])
    assert cells(path) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert path.cost == 1


def test_a_penalty_straightens_a_noisy_flat_stretch():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=200), rng.normal(size=200)
    lengths = [len(dtw(x, y, penalty=penalty)) for penalty in (0, 0.2, 1, 10)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 250
    assert lengths[-1] == 200


def test_a_band_of_zero_is_the_diagonal():
    rng = np.random.default_rng(3)
    path = dtw(rng.normal(size=50), rng.normal(size=50), band=0)
    assert np.array_equal(path.x_index, path.y_index)


@given(pairs_of_series(), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=6), penalties)
@settings(max_examples=200, deadline=None)
def test_anchors_are_passed_and_thinned_to_a_largest_set(series, anchors, penalty):
    x, y = series
    anchors = [(i, j) for i, j in anchors if i < len(x) and j < len(y)]
    path = anchored_dtw(x, y, anchors, penalty=penalty)
    assert set(path.anchors) <= set(anchors)
    assert set(path.anchors) <= set(cells(path))
    assert len(path.anchors) == naive.largest_passable(anchors)
    assert set(path.dropped) == set(anchors) - set(path.anchors)
    assert list(path.dropped) == sorted(path.dropped)
    assert path.cost == pytest.approx(naive.path_cost(x, y, cells(path), penalty), rel=1e-12)


@given(pairs_of_series(longest=5), st.tuples(st.integers(0, 4), st.integers(0, 4)), penalties)
@settings(max_examples=60, deadline=None)
def test_no_path_through_the_anchor_is_cheaper(series, anchor, penalty):
    x, y = series
    anchor = (min(anchor[0], len(x) - 1), min(anchor[1], len(y) - 1))
    through = [path for path in naive.every_path(len(x), len(y)) if anchor in path]
    cheapest = min(naive.path_cost(x, y, path, penalty) for path in through)
    assert anchored_dtw(x, y, [anchor], penalty=penalty).cost == pytest.approx(cheapest, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_index(bad):
    with pytest.raises(DataError, match=r"y\[2\] is (nan|inf|-inf)"):
        dtw([1.0, 2, 3], [1.0, 2, bad])
    with pytest.raises(DataError, match=r"x\[1, 0\] is .*, one of 2 values that are not finite"):
        dtw([[1.0, 2], [bad, bad]], [[1.0, 2]])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([], [1.0], "x is empty"),
        ([1.0], np.empty((3, 0)), "y is empty"),
        (1.0, [1.0], r"x has shape \(\)"),
        ([1.0], np.ones((2, 2, 2)), r"y has shape \(2, 2, 2\)"),
        (np.ones((3, 2)), np.ones((3, 1)), "x has 2 metrics and y has 1"),
        ([1e308, 1e308], [-1e308, -1e308], "overflow"),
    ],
)
def test_wrong_series_are_refused(x, y, message):
    with pytest.raises(DataError, match=message) as caught:
        dtw(x, y)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UnperturbedError)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`penalty` is -1"):
        dtw([1.0], [1.0], penalty=-1)
    with pytest.raises(ValueError, match="`penalty` is nan"):
        dtw([1.0], [1.0], penalty=math.nan)
    with pytest.raises(ValueError, match="`band` is -1"):
        dtw([1.0], [1.0], band=-1)
    with pytest.raises(TypeError):
        dtw([1.0], [1.0], band=1.5)  # type: ignore[arg-type]
    for anchor in ((0, 3), (-1, 0)):
        with pytest.raises(ValueError, match=r"anchor \(.*\) is out of range"):
            anchored_dtw([1.0, 2.0], [1.0, 2.0, 3.0], [anchor])
    with pytest.raises(TypeError):
        anchored_dtw([1.0, 2.0], [1.0, 2.0], [(0.5, 1)])  # type: ignore[list-item]


def test_integers_and_lists_are_taken_and_the_input_is_left_alone():
    x = np.array([3, 1, 2])
    path = dtw(x, [3, 1, 1, 2])
    assert path.cost == 0
    assert x.dtype.kind == "i"
    assert x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        path.x_index[0] = 1


def test_anchors_that_cross_are_reported_from_both_sides():
    x, y = np.arange(8.0), np.arange(9.0)
    path = anchored_dtw(x, y, [(1, 1), (2, 6), (3, 2), (4, 4), (4, 4)])
    assert (path.anchors, path.dropped) == (((1, 1), (3, 2), (4, 4)), ((2, 6),))
    assert path.swapped().dropped == ((6, 2),)
    assert dtw(x, y).dropped == ()


def test_series_are_divided_as_asked_and_the_divisors_reported():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(40, 2)) * (1, 1e6), rng.normal(size=(50, 2)) * (1, 1e6)
    together = np.concatenate((x, y))
    low, high = np.percentile(together, (5, 95), axis=0)
    for scale, divisors in (("std", together.std(axis=0)), ("range", high - low), ((2.0, 3e6), np.array([2.0, 3e6]))):
        path = dtw(x, y, penalty=0.1, band=30, scale=scale)
        assert path.scale == pytest.approx(divisors, rel=1e-12)
        by_hand = dtw(x / path.scale, y / path.scale, penalty=0.1, band=30)
        assert (cells(path), path.cost) == (cells(by_hand), by_hand.cost)
        back = dtw(y, x, penalty=0.1, band=30, scale=scale)
        assert (cells(path), path.scale) == (cells(back.swapped()), back.scale)
        assert dtw_cost(x, y, penalty=0.1, band=30, scale=scale) == path.cost
    assert dtw(x, y).scale is None
    assert anchored_dtw(x, y, [(3, 4)], scale="std").swapped().scale == dtw(x, y, scale="std").scale


def test_wrong_scales_are_refused():
    x = np.column_stack((np.arange(5.0), np.ones(5)))
    with pytest.raises(
        DataError, match=r"metric 1 \(counted from 0\) cannot be .* standard deviation over all series, which is 0"
    ):
        dtw(x, x, scale="std")
    with pytest.raises(ValueError, match="`scale` is 'mad': give 'std', 'range'"):
        dtw(x, x, scale="mad")
    with pytest.raises(ValueError, match=r"`scale` has shape \(3,\): give shape \(2,\), a divisor for each metric"):
        dtw(x, x, scale=[1.0, 2, 3])
    with pytest.raises(ValueError, match=r"`scale\[1\]` is 0.0"):
        dtw(x, x, scale=[1.0, 0])


def test_long_series_of_whole_numbers_are_aligned_in_integers_to_the_same_path(monkeypatch):
    rng = np.random.default_rng(12)
    x, y = (np.cumsum(rng.integers(-3, 4, length)) / 4 + 1e6 for length in (16_390, 16_400))
    given = []
    through = kernels.path_through
    monkeypatch.setattr(
        kernels, "path_through", lambda cells, *rest: given.append(cells.dtype.name) or through(cells, *rest)
    )
    whole = dtw(x, y, penalty=0.5)
    real = dtw(x + 2.0**-20, y + 2.0**-20, penalty=0.5)  # no longer whole in 32 bits, with the same differences
    assert given == ["int32", "float64"]
    assert cells(real) == cells(whole)
    assert real.cost == whole.cost == dtw_cost(x, y, penalty=0.5) == dtw_cost(x + 2.0**-20, y + 2.0**-20, penalty=0.5)


def test_a_path_that_does_not_cost_what_the_matrix_says_is_an_internal_error(monkeypatch):
    path = np.zeros((2, 1), np.int64)
    monkeypatch.setattr(kernels, "path_through", lambda *rest: (path, 1.0, 0))
    with pytest.raises(RuntimeError, match=r"internal error: the cost of the path from \(0, 0\) to \(1, 1\) differs"):
        dtw([1.0, 2], [1.0, 2])


def test_read_only_and_strided_series_are_taken():
    rows = np.arange(24.0).reshape(6, 4)
    rows.setflags(write=False)
    assert dtw(rows[:, 1], rows[::2, 1]).cost == dtw(rows[:, 1].copy(), rows[::2, 1].copy()).cost
    assert dtw(rows, rows[::2]).cost == dtw(rows.copy(), rows[::2].copy()).cost


def test_dropped_anchors_are_in_order_seen_from_either_side():
    """A falling series of anchors: whichever is kept, the others lie the other way round for the other series."""
    x, y = np.arange(11.0), np.arange(10.0)
    path = anchored_dtw(x, y, [(0, 2), (1, 1), (2, 0)])
    for one in (path, path.swapped()):
        assert list(one.dropped) == sorted(one.dropped)
        assert len(one.dropped) == 2
