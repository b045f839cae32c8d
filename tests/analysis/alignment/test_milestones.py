"""Positions by deterministic milestones, and the choice of anchors; `milestone_anchors` is tested with `align`."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.alignment import choose_anchors, milestone_positions, milestone_scores, summarise_scores
from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.flatness import even_pace, path_from_positions
from unperturbed.errors import DataError


@st.composite
def counted_twice(draw):
    total = draw(st.integers(1, 30))
    ends = [sorted(draw(st.lists(st.integers(0, total), max_size=15))) for _ in "xy"]
    return [[*cuts, total] for cuts in ends]


def assert_warp_path(x_index, y_index, n, m):
    """Constraints 1 to 3 of the paper's section 2."""
    cells = list(zip(x_index.tolist(), y_index.tolist(), strict=True))
    assert (cells[0], cells[-1]) == ((0, 0), (n - 1, m - 1))
    assert all((i - p, j - q) in {(1, 1), (1, 0), (0, 1)} for (p, q), (i, j) in pairwise(cells))


def moment(counts, ordinal):
    """When a milestone happened, those of one interval evenly spread: the slow twin."""
    interval = next(at for at, count in enumerate(counts) if count >= ordinal)
    before = counts[interval - 1] if interval else 0
    return interval + (ordinal - before - 0.5) / (counts[interval] - before)


@given(counted_twice())
@settings(max_examples=200, deadline=None)
def test_positions_interpolate_between_all_milestones(both):
    x, y = both
    ordinals = range(1, x[-1] + 1)
    of_x = [0.0, *(moment(x, ordinal) for ordinal in ordinals), len(x)]
    of_y = [0.0, *(moment(y, ordinal) for ordinal in ordinals), len(y)]
    expected = np.interp(np.arange(len(x)) + 0.5, of_x, of_y)
    assert milestone_positions(x, y) == pytest.approx(expected)


@given(counted_twice())
@settings(max_examples=200, deadline=None)
def test_a_path_through_positions_is_a_warp_path(both):
    x, y = both
    assert_warp_path(*path_from_positions(milestone_positions(x, y), len(y)), len(x), len(y))


def test_positions_of_a_run_with_itself_are_the_middles():
    counts = np.cumsum(np.random.default_rng(1).integers(1, 4, 50))
    assert milestone_positions(counts, counts) == pytest.approx(np.arange(50) + 0.5)


def test_other_totals_are_refused():
    with pytest.raises(DataError, match="STEPS occurred 3 times in one run and 2 times"):
        milestone_positions([1, 3], [2], name="STEPS")


def test_milestones_of_their_own_path_score_nothing():
    rng = np.random.default_rng(2)
    runs = [np.sort(rng.choice(400, 300, replace=False)) for _ in "xy"]
    x, y = ([*run.tolist(), 400] for run in runs)
    i, j = path_from_positions(milestone_positions(x, y), len(y))
    summary = summarise_scores(milestone_scores(WarpPath(i, j, 0.0), x, y))
    assert summary.perfect > 0.8
    assert summary.within_one > 0.98


def test_anchors_go_where_it_is_flat():
    anchors = np.column_stack((np.arange(0, 1000, 5), np.arange(0, 1000, 5)))
    flat = np.zeros(1000, bool)
    flat[600:900] = True
    chosen = choose_anchors(anchors, flat, flat, 8)
    assert len(chosen) == 8
    assert ((chosen[:, 0] >= 600) & (chosen[:, 0] < 900)).sum() >= 6
    everywhere = choose_anchors(anchors, ~flat | flat, ~flat | flat, 9)
    assert np.diff(everywhere[:, 0]) == pytest.approx(100, abs=5)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_a_choice_is_a_part_and_never_more_than_the_budget(possible, budget, seed):
    rng = np.random.default_rng(seed)
    anchors = np.column_stack([np.sort(rng.choice(40, possible, replace=False)) for _ in "xy"])
    chosen = choose_anchors(anchors, rng.random(40) < 0.5, rng.random(40) < 0.5, budget)
    assert len(chosen) <= budget
    assert {tuple(cell) for cell in chosen.tolist()} <= {tuple(cell) for cell in anchors.tolist()}
    if possible <= budget:
        assert len(chosen) == possible


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_even_pace_leaves_a_warp_path_and_its_ends(n, m, seed):
    rng = np.random.default_rng(seed)
    i, j = [0], [0]
    while (i[-1], j[-1]) != (n - 1, m - 1):
        along = [(a, b) for a, b in ((1, 1), (1, 0), (0, 1)) if i[-1] + a < n and j[-1] + b < m]
        a, b = along[rng.integers(len(along))]
        i.append(i[-1] + a)
        j.append(j[-1] + b)
    ends = np.unique(rng.integers(0, len(i), 4))
    stretches = np.column_stack((ends[:-1], ends[1:]))
    new_i, new_j = even_pace(np.array(i), np.array(j), stretches, np.arange(n) ** 1.5, np.arange(m) ** 0.5)
    assert_warp_path(new_i, new_j, n, m)
    cells = set(zip(new_i.tolist(), new_j.tolist(), strict=True))
    assert all((i[at], j[at]) in cells for at in ends)


def test_an_even_pace_is_a_straight_line_in_what_progresses():
    path = np.concatenate((np.arange(101), np.full(50, 100))), np.concatenate((np.zeros(101, int), np.arange(1, 51)))
    whole = np.array([[0, len(path[0]) - 1]])
    i, j = even_pace(*path, whole, np.arange(101.0), np.arange(51.0))
    assert np.abs(i / 2 - j).max() <= 1
    work_x = np.concatenate((np.linspace(0, 0.8, 21), np.linspace(0.8, 1.0, 81)[1:]))
    i, j = even_pace(*path, whole, work_x, np.linspace(0, 1, 51))
    assert abs(j[np.searchsorted(i, 20)] - 40) <= 1
    assert (i[-1], j[-1]) == (100, 50)


def test_scores_are_summarised_as_the_papers_figures_show_them():
    summary = summarise_scores([0, 0, 1, 3])
    assert (summary.elements, summary.perfect, summary.within_one, summary.largest) == (4, 0.5, 0.75, 3)
    assert summary.shares == (0.5, 0.25, 0.0, 0.25)
    assert summary.median == 0.5
    assert np.isnan(summarise_scores([]).perfect)
