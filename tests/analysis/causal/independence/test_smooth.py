"""Kernel ridge regression on a conditioning set, and what it confirms of refuted independences."""

import numpy as np
import polars as pl
import pytest

from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.independence.residuals import Smoother, features_of
from unperturbed.analysis.causal.table.variables import prepare


def counters(seed, *, related=0.0, rows=150):
    """Two counters of one size and an option, with little noise; `related` of the first one's is the second's."""
    random = np.random.default_rng(seed)
    size, option = random.uniform(10, 1000, rows), random.choice(["a", "b"], rows)
    noise = 2e-3 * random.standard_normal((2, rows))
    one = size * np.log2(1 + size) * np.where(option == "a", 1, 1.5) * (1 + noise[0])
    other = (size**1.5 + 40 * size) * (1 + noise[1] + related * noise[0])
    return prepare(pl.DataFrame({"size": size, "option": option, "one": one, "other": other}))


def misfit(data):
    """What a straight line in each cell leaves: a formula that is wrong by far more than the noise."""
    size, one, cells = np.array(data.values("size")), np.array(data.values("one")), np.array(data.codes("option"))
    left = np.empty(data.rows)
    for code in np.unique(cells):
        here = cells == code
        left[here] = one[here] - np.polyval(np.polyfit(size[here], one[here], 1), size[here])
    return left


def p_value(data):
    return RegressionTest(data).p_value_of_residuals(misfit(data), "other", ("option", "size"))


def test_what_a_formula_misses_is_no_dependence():
    p_values = [p_value(counters(seed)) for seed in range(40)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.15


def test_a_common_error_is_a_dependence():
    """Of a formula that is right, even a part of the error is enough."""
    for seed in range(5):
        data = counters(seed, related=0.5)
        size, cells = np.array(data.values("size")), np.array(data.codes("option"))
        right = size * np.log2(1 + size) * np.where(cells == 0, 1, 1.5)
        left = np.array(data.values("one")) / right - 1
        assert RegressionTest(data).p_value_of_residuals(left, "other", ("option", "size")) < 1e-3


def test_a_variable_that_others_determine_depends_on_nothing():
    data = counters(1)
    columns = {name: data.values(name) for name in ("size", "one")} | {"other": 3 * np.array(data.values("size"))}
    assert RegressionTest(prepare(pl.DataFrame(columns))).p_value_of_residuals(misfit(data), "other", ("size",)) == 1.0


def test_without_others_nothing_but_the_mean_is_left_out():
    column = np.arange(10.0)[:, None]
    left, unexplained, freedom = Smoother([], np.arange(10)).residuals(column)
    assert left[:, 0] == pytest.approx(column[:, 0] - 4.5, rel=0.2)
    assert unexplained[0] == pytest.approx(1, abs=0.3)
    assert freedom == pytest.approx(9, abs=0.5)


def test_a_smooth_function_is_followed():
    data = counters(3)
    features = features_of(data)
    smoother = Smoother([features["size"], features["option"]], np.arange(data.rows))
    _, unexplained, freedom = smoother.residuals(features["other"].scales)
    assert unexplained.max() < 1e-3
    assert 50 < freedom < data.rows
