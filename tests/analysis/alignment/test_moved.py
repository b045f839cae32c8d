"""Stretches that change places, beside a search through all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.alignment.test_traces import trace
from unperturbed.analysis.alignment import align, anchored_dtw, dtw_cost, map_region
from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.moved import PRICE, SHORTEST, absorb, find_moved

PENALTY = 0.05


def rows(*parts):
    return np.concatenate([np.atleast_1d(np.asarray(part, float)) for part in parts])[:, None]


def search(x, y):
    def warp(keep_x, keep_y):
        return anchored_dtw(x[keep_x], y[keep_y], (), penalty=PENALTY)

    found = find_moved(x, y, penalty=PENALTY, warp=warp)
    keep_x, keep_y = np.ones(len(x), bool), np.ones(len(y), bool)
    for stretch in found:
        keep_x[stretch.x], keep_y[stretch.y] = False, False
    return found, warp(keep_x, keep_y)


def noise_of(x, y):
    path = anchored_dtw(x, y, (), penalty=PENALTY)
    return float(np.median(np.abs(x[path.x_index] - y[path.y_index]).sum(axis=1)))


def every_single_move(x, y, lengths):
    """The oracle: the least total over all pairs of stretches of these lengths, and over none."""
    price = PRICE * noise_of(x, y)
    best = (dtw_cost(x, y, penalty=PENALTY), None)
    for n, m in ((length, length) for length in lengths):
        for i, j in itertools.product(range(len(x) - n + 1), range(len(y) - m + 1)):
            rest_x, rest_y = np.delete(x, slice(i, i + n), 0), np.delete(y, slice(j, j + m), 0)
            inside = dtw_cost(x[i : i + n], y[j : j + m], penalty=PENALTY)
            total = dtw_cost(rest_x, rest_y, penalty=PENALTY) + inside + price
            best = min(best, (total, (i, i + n, j, j + m)), key=lambda item: item[0])
    return best


@pytest.mark.parametrize("seed", range(3))
def test_a_moved_stretch_is_the_one_that_a_search_through_all_finds(seed):
    random = np.random.default_rng(seed)
    work = np.repeat(random.uniform(1, 3, 18), 4)
    stretch = random.uniform(5, 9, 5)
    first, second = int(random.integers(5, 15)), int(random.integers(40, 65))
    x = rows(work[:first], stretch, work[first:]) + 0.002 * random.normal(size=(77, 1))
    y = rows(work[:second], stretch, work[second:]) + 0.002 * random.normal(size=(77, 1))
    least, where = every_single_move(x, y, (5,))
    found, rest = search(x, y)
    assert [(one.x.start, one.x.stop, one.y.start, one.y.stop) for one in found] == [where]
    assert where == (first, first + 5, second, second + 5)
    assert rest.cost + found[0].cost + PRICE * noise_of(x, y) == pytest.approx(least)


@given(st.integers(0, 2**32 - 1), st.integers(10, 60), st.integers(10, 60))
@settings(max_examples=60, deadline=None)
def test_it_never_takes_what_does_not_reduce_the_total(seed, n, m):
    random = np.random.default_rng(seed)
    x, y = (np.cumsum(random.normal(size=(length, 2)), axis=0) for length in (n, m))
    found, rest = search(x, y)
    total = rest.cost + sum(one.cost + PRICE * noise_of(x, y) for one in found)
    assert total <= dtw_cost(x, y, penalty=PENALTY) * (1 + 1e-12)
    for one in found:
        assert min(one.x.stop - one.x.start, one.y.stop - one.y.start) >= SHORTEST
        assert np.all(np.diff(one.index, axis=0) >= 0)
        assert np.all(np.diff(one.index, axis=0).max(axis=1) == 1)
        assert set(one.index[:, 0]) == set(range(one.x.start, one.x.stop))
        assert set(one.index[:, 1]) == set(range(one.y.start, one.y.stop))
    for side in ("x", "y"):
        taken = [at for one in found for at in range(getattr(one, side).start, getattr(one, side).stop)]
        assert len(taken) == len(set(taken)), "no interval is in two stretches"


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.lists(st.booleans(), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None)
def test_intervals_that_are_taken_out_are_absorbed_by_a_warp_path(in_x, in_y):
    keep_x, keep_y = np.array(in_x), np.array(in_y)
    keep_x[len(keep_x) // 2] = keep_y[len(keep_y) // 3] = True
    random = np.random.default_rng(len(in_x))
    inner = anchored_dtw(random.random(keep_x.sum()), random.random(keep_y.sum()), ())
    i, j, places = absorb(inner, keep_x, keep_y)
    assert (i[0], j[0], i[-1], j[-1]) == (0, 0, len(keep_x) - 1, len(keep_y) - 1)
    steps = np.column_stack((np.diff(i), np.diff(j)))
    assert np.all((steps >= 0) & (steps <= 1))
    assert np.all(steps.any(axis=1))
    assert np.array_equal(i[places], np.flatnonzero(keep_x)[inner.x_index])
    assert np.array_equal(j[places], np.flatnonzero(keep_y)[inner.y_index])


def two_runs(seed, *, moved=True, noise=0.01):
    """Two runs of 200 intervals of work with a stretch of 12; the milestone counts the work."""
    random = np.random.default_rng(seed)
    work = np.repeat(random.uniform(1, 3, 40), 5)
    stretch = random.uniform(4, 6, 12)
    runs = []
    for name, at in (("a", 40), ("b", 130 if moved else 40)):
        values = np.concatenate((work[:at], stretch, work[at:])) + noise * random.normal(size=212)
        count = np.concatenate((np.ones(at, int), np.zeros(12, int), np.ones(200 - at, int)))
        runs.append(trace(name, IPC=values, STEPS=count, PAGES=count))
    return runs


@pytest.mark.parametrize("method", ["dtw", "paper"])
@pytest.mark.parametrize("anchor", [None, "PAGES"])
def test_align_matches_a_moved_stretch_and_scores_better(method, anchor):
    a, b = two_runs(2)
    plain = align(a, b, method=method, anchor=anchor)
    matched = align(a, b, method=method, anchor=anchor, moved="match")
    assert len(plain.moved) == 0
    ((of_a, end_a, of_b, end_b),) = matched.moved.tolist()
    assert abs(np.array([of_a, end_a, of_b, end_b]) - (40, 52, 130, 142)).max() <= 1
    assert matched.scores["STEPS"].perfect == 1 or method == "paper"
    assert matched.scores["STEPS"].perfect >= plain.scores["STEPS"].perfect
    assert matched.to_dict()["moved"] == matched.moved.tolist()
    assert (matched.x_index[0], matched.y_index[-1]) == (0, 211)
    inside = (matched.moved_index - (of_a, of_b)).tolist()
    assert [i for i, _ in inside] == [j for _, j in inside]
    assert isinstance(matched.warped, WarpPath)
    region = map_region(matched, of_a + 2, of_a + 7)
    assert (region.start, region.stop) == (of_b + 2, of_b + 7)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_matched_where_nothing_moved(seed):
    a, b = two_runs(seed, moved=False, noise=0.1)
    plain, searched = align(a, b), align(a, b, moved="match")
    assert len(searched.moved) == 0
    assert np.array_equal(plain.x_index, searched.x_index)
    assert np.array_equal(plain.y_index, searched.y_index)
    assert plain.cost == searched.cost


def test_swapped_runs_have_the_same_moves():
    a, b = two_runs(3)
    there, back = (align(*pair, moved="match").moved for pair in ((a, b), (b, a)))
    assert there[:, [2, 3, 0, 1]].tolist() == back.tolist()


def test_milestones_alone_cannot_show_what_moved():
    a, b = two_runs(1)
    with pytest.raises(ValueError, match="`moved='match'`: use `absorb`"):
        align(a, b, method="milestones", anchor="PAGES", moved="match")
    with pytest.raises(ValueError, match="`moved='other'`"):
        align(a, b, moved="other")
