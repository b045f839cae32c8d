import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.causal.regression.naive import best_groups, best_threshold, by_cell, cut_length, left
from unperturbed.analysis.causal.regression import loops
from unperturbed.analysis.causal.regression.cells import Cells
from unperturbed.analysis.causal.regression.loops import compiled_loop, cut_lengths
from unperturbed.analysis.causal.regression.problem import make_problem
from unperturbed.analysis.causal.regression.search import _group_values

ROWS = 24
TOLERANCE = 1e-9


def orthonormal(columns, target=None):
    basis, kept, explained = np.empty((len(columns), ROWS)), np.empty(len(columns), np.bool_), np.empty(len(columns))
    residual = np.zeros(ROWS) if target is None else target.copy()
    filled = compiled_loop("extend")(
        basis, 0, np.ascontiguousarray(columns, float), TOLERANCE, residual, kept, explained
    )
    return basis[:filled], kept, residual, explained


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    cells = np.sort(random.integers(0, draw(st.integers(1, 4)), ROWS))
    cells = np.unique(cells, return_inverse=True)[1]
    known = random.normal(size=(draw(st.integers(0, 3)), ROWS))
    # Few values make columns that repeat each other, and ties.
    functions = random.integers(-2, 4, (draw(st.integers(1, 3)), ROWS)).astype(float)
    if draw(st.booleans()):
        functions[0] = 1.0
        known = np.concatenate([known, by_cell(np.ones(ROWS), cells)])
    return random, cells.astype(np.int64), known, functions, random.normal(size=ROWS)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_a_basis_is_orthonormal_and_spans_its_columns(problem):
    _, cells, known, functions, target = problem
    columns = np.concatenate([known, *(np.array(by_cell(one, cells)) for one in functions)])
    basis, kept, residual, explained = orthonormal(columns, target)
    assert np.allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    assert kept.sum() == len(basis)
    assert left(basis, target) == pytest.approx(left(columns, target), abs=1e-9)
    assert np.allclose(columns - (columns @ basis.T) @ basis, 0, atol=1e-4)
    assert np.allclose(residual, target - basis.T @ (basis @ target), atol=1e-12)
    for many in range(len(columns) + 1):
        assert target @ target - explained[:many].sum() == pytest.approx(left(columns[:many], target), abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_what_candidates_explain_is_what_least_squares_with_them_leaves_less(problem):
    random, cells, known, functions, target = problem
    basis, _, residual, _ = orthonormal(known, target)
    count = int(cells.max()) + 1
    grouped = random.integers(0, 2, count)
    grouped = np.unique(grouped, return_inverse=True)[1]
    values_of = np.array([np.zeros(count), np.arange(count), grouped], np.int64)
    sizes = np.array([1, count, int(grouped.max()) + 1])
    gain, rank = np.empty((len(functions), 3)), np.empty((len(functions), 3), np.int64)
    starts = np.searchsorted(cells, np.arange(count + 1)).astype(np.int64)
    compiled_loop("gains")(residual, basis, functions, starts, values_of, sizes, TOLERANCE, gain, rank)
    for number, function in enumerate(functions):
        for scope in range(3):
            columns = by_cell(function, values_of[scope][cells])
            expected = left(known, target) - left([*known, *columns], target)
            assert gain[number, scope] == pytest.approx(expected, abs=1e-7)
            assert rank[number, scope] == len(orthonormal([*known, *columns])[0]) - len(basis)


def test_a_scope_of_no_values_explains_nothing():
    gain, rank = np.empty((1, 2)), np.empty((1, 2), np.int64)
    target = np.arange(4.0)
    values_of, starts = np.zeros((2, 1), np.int64), np.array([0, 4])
    compiled_loop("gains")(
        target, np.zeros((0, 4)), np.ones((1, 4)), starts, values_of, np.array([1, 0]), TOLERANCE, gain, rank
    )
    assert gain.tolist() == [[9.0, 0.0]]
    assert rank.tolist() == [[1, 0]]


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(1, 4), st.booleans())
def test_thresholds_are_those_of_a_search_through_all(problem, fewest, by_cells):
    random, cells, known, functions, target = problem
    basis, _, residual, _ = orthonormal(known, target)
    compared, weights = random.integers(0, 8, (len(functions), ROWS)).astype(float), functions + 0.5
    which = cells if by_cells else np.zeros(ROWS, np.int64)
    count = int(which.max()) + 1
    best = np.empty((len(functions), count, 2))
    falling = np.argsort(-compared, axis=1, kind="stable").astype(np.int64)
    transposed, sizes = np.ascontiguousarray(basis.T), np.array([count, count])
    compiled_loop("scan")(residual, transposed, compared, falling, weights, which, which, sizes, fewest, best)
    for step, value in np.ndindex(len(functions), count):
        gained, where = best_threshold(known, target, compared[step], weights[step], which == value, fewest)
        explained, threshold = best[step, value]
        if gained < 1e-9:
            assert explained == pytest.approx(0, abs=1e-9)
        else:
            assert explained == pytest.approx(gained, rel=1e-6, abs=1e-9)
            assert any(low <= threshold < high for low, high in where)


def test_jumps_at_one_threshold_add_up():
    # Two cells with jumps of opposite sign at the same place: together they cancel, apart they do not.
    x = np.tile(np.arange(12.0), 2)
    cells = np.repeat([0, 1], 12)
    target = np.where(x > 5.5, 1.0, 0.0) * np.where(cells, -1, 1)
    best = np.empty((1, 1, 2))
    falling = np.argsort(-x, kind="stable").astype(np.int64)
    common = (target, np.zeros((24, 0)), x[None], falling[None], np.ones((1, 24)), np.zeros(24, np.int64))
    compiled_loop("scan")(*common, cells, np.array([1, 2]), 3, best)
    assert best[0].tolist() == [[12.0, 5.5]]
    compiled_loop("scan")(*common, np.zeros(24, np.int64), np.array([1, 1]), 3, best)
    assert best[0, 0, 0] < 3


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_cuts_are_priced_as_tables_of_all_halves(data):
    rows, categories = 14, data.draw(st.integers(2, 3))
    draw = lambda most: np.array(data.draw(st.lists(st.integers(0, most), min_size=rows, max_size=rows)))  # noqa: E731
    target, cells, x = draw(categories - 1), draw(2), draw(6).astype(float)
    order, lengths, price = np.argsort(x, kind="stable"), np.empty(rows), 2.5
    compiled_loop("cut_lengths")(target, cells, order, x, 3, categories, price, 2, lengths)
    twin = np.empty(rows)
    cut_lengths(target, cells, order, x, 3, categories, price, 2, twin)
    assert np.array_equal(lengths, twin)
    for at in range(rows):
        low, high = x[order[at]], x[order[min(at + 1, rows - 1)]]
        if at + 1 < 2 or rows - at - 1 < 2 or low == high:
            assert lengths[at] == np.inf
        else:
            assert lengths[at] == pytest.approx(cut_length(target.tolist(), cells.tolist(), x, low, categories, price))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 1.0, 1.05, 4.0, -3.0]), min_size=3, max_size=7), st.integers(0, 2**32 - 1))
def test_values_are_shared_as_in_the_best_of_all_ways(values, seed):
    random = np.random.default_rng(seed)
    values, weights = np.array(values) + 0.01 * random.normal(size=len(values)), random.uniform(1, 20, len(values))
    problem, rss = make_problem(random.normal(size=50), {}, {}, Cells.of({}, {}, 50)), random.uniform(0.1, 20)
    found = _group_values(problem, values, weights, rss, 1)
    bits = problem.data_bits(rss) + len(values) * problem.parameter_bits
    if found is not None:
        groups = np.array(found)
        assert set(found) == set(range(max(found) + 1))
        means = [np.average(values[groups == one], weights=weights[groups == one]) for one in range(max(found) + 1)]
        cost = float((weights * (values - np.array(means)[groups]) ** 2).sum())
        told = len(means) * problem.parameter_bits + len(values) * np.log2(len(means))
        assert problem.data_bits(rss + cost) + told < bits
        bits = problem.data_bits(rss + cost) + told
    assert bits == pytest.approx(best_groups(values, weights, rss, problem.data_bits, problem.parameter_bits), abs=1e-6)


def test_what_is_compiled_is_what_is_written():
    public = {name for name, one in vars(loops).items() if inspect.isfunction(one) and one.__module__ == loops.__name__}
    assert {name for name in public if not name.startswith("_")} == {
        "compiled_loop",
        "cut_lengths",
        "extend",
        "gains",
        "scan",
    }
    random = np.random.default_rng(1)
    columns = random.normal(size=(5, ROWS))
    basis, residual, kept, explained = np.empty((5, ROWS)), columns[0] + 1, np.empty(5, np.bool_), np.empty(5)
    assert loops.extend(basis, 0, columns, TOLERANCE, residual, kept, explained) == 5
    compiled_basis, _, compiled_residual, compiled_explained = orthonormal(columns, columns[0] + 1)
    assert np.allclose(basis, compiled_basis, atol=1e-13)
    assert np.allclose(residual, compiled_residual, atol=1e-13)
    assert np.allclose(explained, compiled_explained, atol=1e-12)
