import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.causal.regression.naive import by_cell, left
from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.curve import Curve
from unperturbed.analysis.causal.regression.curve_mechanism import CurveMechanism, formula_of
from unperturbed.analysis.causal.regression.fit import fit_mechanism
from unperturbed.analysis.causal.regression.forms import CurveFunction, Power, Term
from unperturbed.analysis.causal.regression.table_mechanism import TableMechanism
from unperturbed.analysis.causal.table.variables import prepare
from unperturbed.errors import DataError

ROWS = 300
HALF_LOG = 0.5 * math.log2(ROWS)


def table(**columns):
    continuous = {name: "continuous" for name, x in columns.items() if np.asarray(x).dtype.kind == "f"}
    return prepare(pl.DataFrame(columns), kinds=continuous)


def inputs(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(5, 300, ROWS)
    return random, x, random.uniform(1, 20, ROWS), random.integers(0, 4, ROWS), random.standard_normal(ROWS)


def terms(mechanism):
    return sorted((term.function.text().partition("[")[0], term.scope.names) for term in mechanism.curve.terms)


def parameter(mechanism, name, **where):
    (found,) = [one for one in mechanism.parameters if one.name == name and (not where or where in one.where)]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_operations_of_a_decomposition_are_a_cubic_polynomial_of_its_size(seed):
    n = np.random.default_rng(seed).integers(5, 301, ROWS)
    found = fit_mechanism(table(n=n * 1.0, op=n * (n - 1) * (2 * n - 1) / 6), "op", ["n"])
    assert found.formula == "op = 0.33333·n³ − 0.5·n² + 0.16667·n"
    assert parameter(found, "coefficient of n²").value == pytest.approx(-0.5, abs=1e-6)
    assert found.exact
    assert found.used == ("n",)


FORMS = {
    "step": (lambda x, z, e: 4 * (x > 137) + 0.5 * e, ["x"], [("", ())]),
    "step from a level": (lambda x, z, e: 20 + 4 * (x > 137) + 0.5 * e, ["x"], [("", ()), ("1", ())]),
    "inverse": (lambda x, z, e: 3 + 500 / x + 0.5 * e, ["x"], [("1", ()), ("x⁻¹", ())]),
    "square root": (lambda x, z, e: 20 * np.sqrt(x) + 3 * e, ["x"], [("√x", ())]),
    "logarithm": (lambda x, z, e: 10 + 10 * np.log(x) + 0.2 * e, ["x"], [("1", ()), ("ln x", ())]),
    "square": (lambda x, z, e: 9000 + 2 * x**2 + 2000 * e, ["x"], [("1", ()), ("x²", ())]),
    "linearithmic": (lambda x, z, e: 2 * x * np.log(x) + 5 * e, ["x"], [("x·ln x", ())]),
    "product": (lambda x, z, e: 2 * x * z + 30 * e, ["x", "z"], [("x·z", ())]),
    "ratio": (lambda x, z, e: 100 * x / z + 30 * e, ["x", "z"], [("x·z⁻¹", ())]),
    "plane": (lambda x, z, e: 70 + 2 * x + 10 * z + 8 * e, ["x", "z"], [("1", ()), ("x", ()), ("z", ())]),
    "nothing": (lambda x, z, e: 3 + e, ["x", "z"], [("1", ())]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", FORMS)
def test_known_forms_are_found(form, seed):
    _, x, z, _, e = inputs(seed)
    make, parents, expected = FORMS[form]
    found = fit_mechanism(table(x=x, z=z, y=make(x, z, e)), "y", parents)
    assert terms(found) == expected
    assert found.errors == "even"


@pytest.mark.parametrize("seed", range(3))
def test_products_and_powers_with_errors_in_proportion_are_told_as_such(seed):
    _, x, z, _, e = inputs(seed)
    data = table(x=x, z=z, product=3 * x * z * (1 + 0.03 * e), power=0.2 * x**2.3 * z**0.7 * np.exp(0.05 * e))
    product = fit_mechanism(data, "product", ["x", "z"])
    assert (product.errors, terms(product)) == ("proportional", [("x·z", ())])
    assert product.formula.startswith("product = ")
    assert product.formula.endswith(" %")
    assert product.curve.spread == pytest.approx(0.03, rel=0.2)
    power = fit_mechanism(data, "power", ["x", "z"])
    assert power.errors == "factor"
    exponent = parameter(power, "exponent of x")
    assert exponent.low < 2.3 < exponent.high
    assert exponent.high - exponent.low < 0.05
    assert parameter(power, "factor").value == pytest.approx(0.2, rel=0.15)


def test_a_multiple_with_errors_that_are_factors_has_no_exponent():
    rng = np.random.default_rng(4)
    x = np.exp(rng.uniform(0, 7, 1000))
    data = table(x=x, y=np.sqrt(x), z=2.5 * np.sqrt(x) * np.exp(0.2 * rng.standard_normal(1000)))
    found = fit_mechanism(data, "z", ["y"])
    assert (found.errors, terms(found), found.used) == ("factor", [("1", ())], ("y",))
    assert found.formula.startswith("z = 2.5")
    assert "·y " in found.formula
    assert parameter(found, "factor").value == pytest.approx(2.5, rel=0.03)
    mean, deviation = found.predict({"y": [10.0, 20.0]})
    assert mean == pytest.approx(np.array([25.0, 50.0]) * np.exp(0.02), rel=0.03)
    assert deviation == pytest.approx(0.2 * mean, rel=0.1)
    assert np.median(found.draw({"y": np.full(4000, 10.0)}, rng)) == pytest.approx(25, rel=0.03)
    # The root is an operation more, or an exponent.
    assert found.bits + 7 < fit_mechanism(data, "z", ["x"]).bits


def test_numbers_of_few_values_are_looked_up_or_not():
    rng = np.random.default_rng(5)
    n = rng.choice([10, 20, 40, 80, 160], 100)
    data = table(
        n=n, y=np.choose(np.searchsorted([10, 20, 40, 80, 160], n), [3.0, 9, 1, 7, 2]) + 0.1 * rng.normal(size=100)
    )
    assert data.kinds["n"] == "discrete"
    assert fit_mechanism(data, "y", ["n"]).looked_up == ("n",)
    without = fit_mechanism(data, "y", ["n"], lookup=False)
    assert without.looked_up == ()
    assert np.isfinite(without.predict({"n": [30.0]})[0]).all()


@pytest.mark.parametrize("spread", [0.1, 0.2, 0.4])
def test_curves_with_large_errors_in_proportion_are_not_too_low(spread):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.uniform(100, 1000, 300)
        y = 3 * x * rng.gamma(1 / spread**2, spread**2, len(x))
        made = fit_mechanism(table(x=x, y=y), "y", ["x"], errors="proportional")
        assert terms(made) == [("x", ())]
        found.append(parameter(made, "coefficient of x"))
    # Of 20 intervals of 95 %, four miss with a chance of 2 %; weighed by 1/y they all lie too low by the square of the
    # spread.
    assert sum(one.low < 3 < one.high for one in found) >= 16
    assert np.mean([one.value for one in found]) == pytest.approx(3, abs=4 * 3 * spread / np.sqrt(20 * 300))


@pytest.mark.parametrize("seed", range(3))
def test_an_exponent_is_fitted_with_its_interval(seed):
    _, x, _, _, e = inputs(seed)
    found = fit_mechanism(table(x=x, y=2 * x**1.4 + 20 * e), "y", ["x"])
    exponent = parameter(found, "exponent of x")
    assert exponent.low < 1.4 < exponent.high
    assert exponent.value == pytest.approx(1.4, abs=0.02)
    exact = fit_mechanism(table(x=x, y=2 * x**1.4), "y", ["x"])
    assert exact.exact
    assert exact.formula == "y = 2·x^1.4"


def test_a_step_has_the_jump_and_the_threshold_of_each_cell():
    random, n, _, cell, e = inputs(1)
    jumps, thresholds = np.array([0.06, 0.12, 0.19, 0.31])[cell], np.array([220.0, 160, 130, 70])[cell]
    names = np.array(["float", "double", "long", "longdouble"])[cell]
    found = fit_mechanism(
        table(n=n, datatype=names, L2M=jumps * (n > thresholds) + 0.003 * e), "L2M", ["n", "datatype"]
    )
    assert terms(found) == [("", ("datatype",))]
    for name, jump, threshold in zip(names[:40], jumps, thresholds, strict=False):
        for kind, true in (("jump of n", jump), ("threshold of n", threshold)):
            told = parameter(found, kind, datatype=name)
            assert told.low - 0.002 < true < told.high + 0.002
    assert len(found.cells) == len(found.formula.splitlines()) == 4
    assert sum(one.rows for one in found.cells) == ROWS
    assert found.cells[0].where == {"datatype": "double"}
    assert found.cells[0].formula.startswith("L2M = 0.1")
    assert found.cells[0].spread == pytest.approx(0.003, rel=0.3)
    del random


def test_a_number_behind_a_category_tells_what_was_never_measured():
    # Section 8.2: the size of a datatype is a continuous variable, "which makes it possible to predict the cache misses
    # for yet unknown sizes".
    random, n, _, cell, e = inputs(2)
    size = np.array([2.0, 4, 8, 12])[cell]
    data = table(n=n, size=size, L2M=np.where(n**2 * size > 2e5, size / 64, 0) + 0.002 * e)
    found = fit_mechanism(data, "L2M", ["n", "size"])
    mean, deviation = found.predict({"n": [100, 290], "size": 16})
    assert mean == pytest.approx([0, 0.25], abs=0.002)
    assert deviation == pytest.approx(0.002, rel=0.2)
    del random


def test_lengths_are_those_of_the_formulas():
    _, x, z, cell, e = inputs(3)
    names = np.array(list("abcd"))[cell]
    bits = lambda rss: 0.5 * ROWS * math.log2(rss / ROWS)  # noqa: E731
    line = table(x=x, d=names, y=50 + (1.0 + cell) * x + 5 * e)
    found = fit_mechanism(line, "y", ["x", "d"])
    columns = [np.ones(ROWS), *by_cell(x, cell)]
    assert terms(found) == [("1", ()), ("x", ("d",))]
    assert found.hypothesis_bits == pytest.approx(5 * HALF_LOG + 8 * 2)  # five coefficients, a product and a sum
    assert found.data_bits == pytest.approx(bits(left(columns, np.asarray(line.values("y")))))
    assert found.bits == found.hypothesis_bits + found.data_bits
    square = fit_mechanism(table(x=x, y=9000 + 2 * x**2 + 2000 * e), "y", ["x"])
    assert square.hypothesis_bits == pytest.approx(2 * HALF_LOG + 8 * 3 + math.log2(2))  # product, power of two, sum
    step = fit_mechanism(table(x=x, y=4 * (x > 137) + 0.5 * e), "y", ["x"])
    assert step.hypothesis_bits == pytest.approx(2 * HALF_LOG + 8 * 2)  # jump, threshold; product, comparison
    product = fit_mechanism(table(x=x, z=z, y=2 * x * z + 30 * e), "y", ["x", "z"])
    assert product.hypothesis_bits == pytest.approx(HALF_LOG + 8 * 2)
    relative = fit_mechanism(table(x=x, z=z, y=3 * x * z * (1 + 0.03 * e)), "y", ["x", "z"])
    y = 3 * x * z * (1 + 0.03 * e)
    assert relative.hypothesis_bits == pytest.approx(HALF_LOG + 8 * 3)
    curve = (y / (x * z)).mean() * x * z  # the mean is what weights by the curve itself end at
    assert relative.data_bits == pytest.approx(bits(((y / curve - 1) ** 2).sum()) + np.log2(curve).sum())


def test_cells_that_share_a_value_are_told_once_and_by_name():
    random, x, _, _, e = inputs(4)
    cell = random.integers(0, 10, ROWS)
    slopes = np.where(np.arange(10) < 6, 2.0, 5.0)
    names = np.array([f"c{one}" for one in range(10)])[cell]
    found = fit_mechanism(table(x=x, d=names, y=slopes[cell] * x + 40 * e), "y", ["x", "d"])
    assert found.hypothesis_bits == pytest.approx(2 * HALF_LOG + 8 + 10 * math.log2(2))
    low, high = sorted(found.parameters, key=lambda one: one.value)
    assert [one["d"] for one in low.where] == [f"c{one}" for one in range(6)]
    assert (low.value, high.value) == (pytest.approx(2, rel=0.05), pytest.approx(5, rel=0.05))
    mean, _ = found.predict({"x": [100, 100], "d": ["c3", "c7"]})
    assert mean == pytest.approx([200, 500], rel=0.03)


def test_a_simpler_relation_of_information_equivalent_parents_is_shorter():
    # Section 6.2: of n and #op, which carry the same information on T, the one with the simpler relation is kept.
    random = np.random.default_rng(5)
    n, cell = random.integers(5, 301, ROWS), random.integers(0, 6, ROWS)
    op, cycles = n * (n - 1) * (2 * n - 1) / 6, random.uniform(20, 90, ROWS)
    size = np.array([2.0, 4, 4, 8, 8, 12])[cell]
    misses = np.where(n**2 * size > 2e5, size / 64, 0) + 0.003 * random.standard_normal(ROWS)
    datatype = np.array(["short", "int", "float", "double", "long", "longdouble"])[cell]
    data = table(n=n * 1.0, op=op, C=cycles, T=op * cycles / 2e9, datatype=datatype, elementsize=size, L2M=misses)
    assert fit_mechanism(data, "T", ["op", "C"]).bits < fit_mechanism(data, "T", ["n", "C"]).bits - 20
    by_size, by_type = (fit_mechanism(data, "L2M", ["n", one]).bits for one in ("elementsize", "datatype"))
    assert by_size < by_type - 5
    assert fit_mechanism(data, "L2M", ["n", "elementsize", "datatype"]).bits == pytest.approx(by_size)


def test_the_unit_of_the_target_does_not_change_what_is_chosen_but_in_the_papers_length():
    _, x, z, _, e = inputs(6)
    y = 70 + 2 * x + 10 * z + 8 * e
    data = table(x=x, z=z, y=y, y_milli=1000 * y)
    for parents in ([], ["x"], ["x", "z"]):
        unit, milli = (fit_mechanism(data, name, parents) for name in ("y", "y_milli"))
        assert terms(unit) == terms(milli)
        assert milli.bits - unit.bits == pytest.approx(ROWS * math.log2(1000), rel=1e-6)
    literal, many = (fit_mechanism(data, name, ["x", "z"], coding="paper") for name in ("y", "y_milli"))
    assert literal.data_bits == pytest.approx(float((literal.residuals**2).sum()))  # eq. (16)
    assert len(many.curve.terms) > len(literal.curve.terms)


def test_intervals_hold_the_true_values_as_often_as_they_say():
    held = {"intercept": 0, "coefficient of x": 0, "threshold of x": 0}
    for seed in range(15):
        random = np.random.default_rng(seed)
        x = random.uniform(0, 10, 80)
        line = fit_mechanism(table(x=x, y=40 + 3 * x + random.standard_normal(80)), "y", ["x"])
        step = fit_mechanism(table(x=x, y=np.where(x > 4, 8.0, 0) + 2 * random.standard_normal(80)), "y", ["x"])
        for mechanism, name, true in (
            (line, "intercept", 40),
            (line, "coefficient of x", 3),
            (step, "threshold of x", 4),
        ):
            found = [one for one in mechanism.parameters if one.name == name]
            held[name] += len(found) == 1 and found[0].low <= true <= found[0].high
    assert all(12 <= times <= 15 for times in held.values()), held


def test_new_runs_lie_where_predictions_say():
    random, x, _, cell, e = inputs(7)
    names = np.array(list("abcd"))[cell]
    y = (50 + (1.0 + cell) * x) * (1 + 0.1 * e)
    half = ROWS // 2
    data = table(x=x, d=names, y=y)
    found = fit_mechanism(data.take(np.arange(half)), "y", ["x", "d"])
    mean, deviation = found.predict(data.frame[half:])
    scores = (y[half:] - mean) / deviation
    assert np.mean(np.abs(scores) < 1.96) > 0.88
    assert np.std(scores) == pytest.approx(1, abs=0.25)
    drawn = np.array([found.draw({"x": 100.0, "d": "c"}, random)[0] for _ in range(400)])
    mean, deviation = found.predict({"x": 100.0, "d": "c"})
    assert drawn.mean() == pytest.approx(mean[0], rel=0.03)
    assert drawn.std() == pytest.approx(deviation[0], rel=0.2)
    density = np.exp(found.log_density({"x": np.full(2000, 100.0), "d": ["c"] * 2000}, np.linspace(100, 600, 2000)))
    assert density.sum() * 500 / 1999 == pytest.approx(1, abs=0.01)


def test_a_mechanism_can_be_written_as_json():
    _, x, _, cell, e = inputs(13)
    data = table(x=x, d=np.array(list("abcd"))[cell], y=(1.0 + cell) * x + 5 * e, big=x > 100)
    told = json.loads(json.dumps(fit_mechanism(data, "y", ["x", "d"]).to_dict()))
    assert told["parents"] == told["used"] == ["x", "d"]
    assert told["cells"][0]["where"] == {"d": "a"}
    assert told["cells"][0]["formula"].startswith("y = ")
    first = next(one for one in told["parameters"] if one["where"] == [{"d": "a"}])
    assert first["low"] < 1 < first["high"]
    hits = json.loads(json.dumps(fit_mechanism(data, "big", ["x"]).to_dict()))
    assert [one["name"] for one in hits["parameters"] if one["name"].startswith("cut")] == ["cut of x"]


def test_what_cannot_be_predicted_is_said():
    _, x, _, cell, e = inputs(8)
    both = table(
        x=x, d=np.array(list("abcd"))[cell], e=np.array(["p", "q"])[cell // 2], y=np.log(x) * 9 + cell**2 * 1.0 + e
    )
    found = fit_mechanism(both, "y", ["x", "d"])
    with pytest.raises(DataError, match="the prediction depends on d"):
        found.predict({"x": 3.0})
    with pytest.raises(DataError, match=r"d never has the value 'z' in the model's data; use one of a, b, c, d"):
        found.predict({"x": 3.0, "d": "z"})
    with pytest.raises(DataError, match="x needs numbers, not '1', 'much'"):
        found.predict({"x": ["1", "much"], "d": "a"})
    with pytest.raises(DataError, match="x needs numbers, not 'much'"):
        found.predict({"x": "much", "d": "a"})
    with pytest.raises(DataError, match="x needs finite numbers, not nan"):
        found.predict({"x": math.nan, "d": "a"})
    with pytest.raises(
        DataError, match="each parent needs one value, or as many values as the other parents: x has 2, d has 3"
    ):
        found.predict({"x": [1.0, 2.0], "d": ["a", "b", "c"]})
    with pytest.raises(DataError, match="the formula of y has no finite value at x=-1"):
        found.predict({"x": -1.0, "d": "a"})
    never = table(d=np.array(list("ab"))[cell // 2], e=np.array(["p", "q", "r"])[cell % 3], y=cell * 1.0 + 0.001 * e)
    with pytest.raises(DataError, match="no run has the combination d=a, e=r"):
        fit_mechanism(never, "y", ["d", "e"]).predict({"d": "a", "e": "r"})


def test_a_table_tells_probabilities_and_its_length():
    random, _, _, cell, _ = inputs(9)
    names = np.array(list("abcd"))[cell]
    chance = np.array([0.1, 0.5, 0.5, 0.9])[cell]
    data = table(d=names, noise=random.integers(0, 3, ROWS).astype(str), hit=random.random(ROWS) < chance)
    found = fit_mechanism(data, "hit", ["d", "noise"])
    assert isinstance(found, TableMechanism)
    assert found.used == ("d",)
    assert found.hypothesis_bits == pytest.approx(4 * HALF_LOG)
    hits = np.asarray(data.codes("hit"))
    shares = np.array([hits[names == one].mean() for one in "abcd"])
    assert found.predict({"d": list("abcd")})[:, 1] == pytest.approx(shares)
    expected = -np.log2(np.where(hits, shares[cell], 1 - shares[cell])).sum()
    assert found.data_bits == pytest.approx(expected)
    assert found.residuals.sum() == pytest.approx(expected)
    assert sum(one.rows for one in found.cells) == ROWS
    told = parameter(found, "P(hit=True | d=a)")
    assert told.low < 0.1 < told.high
    drawn = found.draw({"d": ["d"] * 500}, random)
    assert np.mean(drawn) == pytest.approx(shares[3], abs=0.05)
    with pytest.raises(DataError, match="d never has the value 'z'"):
        found.predict({"d": "z"})


def test_continuous_parents_of_a_discrete_variable_are_cut():
    _, x, z, cell, _ = inputs(10)
    version = np.where(x > 64, np.where(z > 10, "large", "middle"), "small")
    found = fit_mechanism(table(x=x, z=z, d=cell.astype(str), version=version), "version", ["x", "z", "d"])
    assert found.used == ("x", "z")
    assert found.table.cuts["x"] == pytest.approx((64,), abs=2)
    assert found.data_bits == 0
    assert found.predict({"x": [10.0, 100, 100], "z": [19.0, 19, 1]}).argmax(axis=1).tolist() == [2, 0, 1]
    assert "x ≤ 64" in found.formula


def test_without_parents_there_is_the_variables_own_spread():
    random, x, _, cell, _ = inputs(11)
    data = table(x=x, d=cell.astype(str))
    own = fit_mechanism(data, "x", [])
    assert terms(own) == [("1", ())]
    mean, deviation = own.predict({})
    assert (mean[0], deviation[0]) == (pytest.approx(x.mean()), pytest.approx(x.std(), rel=0.01))
    assert set(own.draw({}, random, 50)) <= set(x)
    shares = fit_mechanism(data, "d", [])
    assert shares.predict({})[0] == pytest.approx(np.bincount(cell) / ROWS)
    assert len(shares.draw({}, random, 7)) == 7


def test_a_variable_that_has_become_constant_costs_as_good_as_nothing():
    _, x, _, cell, _ = inputs(12)
    data = table(x=x, y=np.where(cell == 0, 3.5, x), d=cell.astype(str)).take(np.flatnonzero(cell == 0))
    found = fit_mechanism(data, "y", ["x", "d"])
    assert found.exact
    assert found.formula == "y = 3.5"
    assert math.isfinite(found.bits)
    assert fit_mechanism(data, "d", ["x"]).bits == 0


def test_wrong_parents_are_told():
    data = table(a=np.arange(20.0), b=np.arange(20.0) ** 2)
    with pytest.raises(DataError, match="must be other variables"):
        fit_mechanism(data, "a", ["a"])
    with pytest.raises(DataError, match="each named once"):
        fit_mechanism(data, "a", ["b", "b"])
    for target, parent in (("a", "c"), ("c", "a")):
        with pytest.raises(DataError, match="no column 'c'"):
            fit_mechanism(data, target, [parent])
    with pytest.raises(ValueError, match=r"confidence level `level` must be above 0 and below 1, not 1\.5"):
        fit_mechanism(data, "a", ["b"], level=1.5)
    with pytest.raises(DataError, match=r"too few rows to fit a \(2\)"):
        fit_mechanism(data.take([0, 1]), "a", ["b"])
    with pytest.raises(
        DataError, match='`errors="proportional"` needs positive values, but the minimum of b is 0: use `errors="even"`'
    ):
        fit_mechanism(data, "b", ["a"], errors="proportional")


@st.composite
def any_tables(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(8, 60))
    scale = 10.0 ** draw(st.integers(-12, 12))
    kind = draw(st.sampled_from(["normal", "uniform", "whole", "lognormal", "few"]))
    numbers = {
        "normal": random.normal,
        "uniform": random.uniform,
        "whole": lambda size: random.integers(-3, 40, size).astype(float),
        "lognormal": lambda size: np.exp(3 * random.normal(size=size)),
        "few": lambda size: random.choice([0.0, 1.0, 7.0], size),
    }[kind]
    columns = {"a": scale * numbers(size=rows), "b": numbers(size=rows), "y": numbers(size=rows)}
    columns["d"] = random.integers(0, draw(st.integers(1, 6)), rows).astype(str)
    columns["k"] = random.integers(0, 4, rows)
    if draw(st.booleans()):
        columns["y"] = scale * (columns["a"] * columns["k"] + (columns["d"] == "1"))
    return prepare(pl.DataFrame(columns), kinds={"a": "continuous", "b": "continuous"}), random


@given(any_tables(), st.sampled_from(["y", "d", "k", "a"]))
@settings(max_examples=15, deadline=None)
def test_any_table_is_described_and_not_longer_than_without_parents(made, target):
    data, random = made
    if target not in data.names:
        return
    parents = [name for name in data.names if name != target]
    found, alone = fit_mechanism(data, target, parents), fit_mechanism(data, target, [])
    assert found.bits <= alone.bits + 1e-6
    assert found.hypothesis_bits >= 0
    assert found.residuals.shape == (data.rows,)
    assert np.isfinite(found.residuals).all()
    assert found.formula
    assert all(one.low <= one.value <= one.high for one in found.parameters)
    assert sum(one.rows for one in found.cells) == data.rows
    columns = {name: data.frame[name] for name in found.used}
    if isinstance(found, CurveMechanism):
        mean, deviation = found.predict(columns)
        assert np.isfinite(mean).all()
        assert (deviation >= 0).all()
        if found.errors == "even":
            assert data.values(target) - mean == pytest.approx(
                np.broadcast_to(found.residuals, data.rows), abs=1e-6 + np.ptp(data.values(target)) * 1e-6
            )
    else:
        assert found.predict(columns).sum(axis=1) == pytest.approx(1)
    assert len(found.draw(columns, random, data.rows)) == data.rows
    shuffled = random.permutation(data.rows)
    assert fit_mechanism(data.take(shuffled), target, parents).bits == pytest.approx(found.bits, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize(("least", "bound"), [(0, 0.0), (3, 1.0)])
def test_a_count_is_not_forecast_below_what_a_count_can_be(least, bound):
    """A count that was never 0 is at least 1, so that its logarithm has a value."""
    random = np.random.default_rng(1)
    x = np.linspace(0, 10, 100)
    counts = np.maximum(np.rint(5 * x + random.normal(0, 15, 100)), least)
    counts[0] = least
    found = fit_mechanism(prepare(pl.DataFrame({"x": x, "y": counts})), "y", ["x"], errors="even")
    assert min(found.draw({"x": [-1.0] * 400}, random)) == bound
    assert found.predict({"x": [-100.0]})[0][0] == bound
    for shift, reached in ((0.5, 0.0), (-0.5 - least, None)):  # counts that were averaged; numbers below 0
        shifted = fit_mechanism(prepare(pl.DataFrame({"x": x, "y": counts + shift})), "y", ["x"], errors="even")
        drawn = min(shifted.draw({"x": [-1.0] * 400}, random))
        assert drawn < 0 if reached is None else drawn == reached


def test_a_forecast_is_as_unsure_as_what_few_runs_tell():
    """Each of eight groups has at most two runs above the threshold, which say little of its further ones."""
    random = np.random.default_rng(3)
    group, work = np.repeat(np.arange(8), 12), np.tile(np.r_[np.linspace(1, 40, 10), 60, 90], 8)
    misses = random.poisson(np.where(work > 50, 4 * work, 0.5)).astype(float)
    data = prepare(pl.DataFrame({"group": group.astype(str), "work": work, "misses": misses}))
    found = fit_mechanism(data, "misses", ["group", "work"])
    held = 0
    for value in range(8):
        low, high = np.quantile(
            found.draw({"group": [str(value)] * 1000, "work": [75.0] * 1000}, random), [0.025, 0.975]
        )
        held += low <= 300 <= high
    assert held == 8
    assert np.quantile(found.draw({"group": ["3"] * 1000, "work": [20.0] * 1000}, random), 0.975) < 20


def test_a_threshold_may_lie_anywhere_between_the_runs_on_either_side():
    random = np.random.default_rng(4)
    x = np.r_[np.linspace(1, 40, 40), np.linspace(60, 99, 40)]
    data = prepare(pl.DataFrame({"x": x, "y": np.where(x > 50, 100.0, 5.0) + random.normal(0, 1, 80)}))
    found = fit_mechanism(data, "y", ["x"])
    for place in (45.0, 55.0):
        drawn = np.asarray(found.draw({"x": [place] * 1000}, random))
        assert np.quantile(drawn, 0.025) < 8
        assert np.quantile(drawn, 0.975) > 97
    assert np.quantile(found.draw({"x": [30.0] * 1000}, random), 0.975) < 9


def test_different_terms_look_different():
    """Exponents that are the same to four digits would make x^1 − x^1."""
    terms = [Term(CurveFunction((Power("x", exponent, fitted=True),)), Scope()) for exponent in (1.00002, 0.99998)]
    numbers = np.array([3.0]), np.array([-2.0])
    curve = Curve(tuple(terms), numbers, "even", 1.0, 10, np.zeros((0, 0)), np.zeros(0, np.bool_), None)
    assert formula_of("y", curve, Cells.of({}, {}, 3), {}, True) == "y = 3·x^1 − 2·x^0.99998"
    alone = replace(curve, terms=curve.terms[:1], coefficients=numbers[:1])
    assert formula_of("y", alone, Cells.of({}, {}, 3), {}, True) == "y = 3·x^1"


def test_a_power_whose_variance_no_number_holds_is_described_without_one():
    # Its coefficient is about 1e154; the warning of an overflow reached the terminal.
    random = np.random.default_rng(1)
    x = random.uniform(500, 20_000, 60)
    found = fit_mechanism(table(x=x, y=5e4 * (x / x.min()) ** -60 + 10 + 0.3 * random.standard_normal(60)), "y", ["x"])
    assert isinstance(found, CurveMechanism)
    assert np.isfinite(found.curve.covariance).all()
    assert found.used == ("x",)
