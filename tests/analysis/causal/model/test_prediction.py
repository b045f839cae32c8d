import math
from functools import partial
from itertools import product

import numpy as np
import polars as pl
import pytest

from unperturbed.analysis.causal.model.prediction import causal_order, forecast
from unperturbed.analysis.causal.regression.fit import fit_mechanism
from unperturbed.analysis.causal.table.variables import prepare
from unperturbed.errors import DataError

ROWS = 600

intervene, predict = partial(forecast, intervention=True), partial(forecast, intervention=False)


def fitted(frame, parents, **kinds):
    data = prepare(pl.DataFrame(frame), kinds=kinds)
    return data, {name: fit_mechanism(data, name, of) for name, of in parents.items()}


@pytest.fixture(scope="module")
def confounded():
    """load → speed, load → time, speed → time: who sees a speed also learns of the load; who sets it does not."""
    random = np.random.default_rng(0)
    load = random.uniform(0, 10, ROWS)
    speed = 50 - 2 * load + random.standard_normal(ROWS)
    time = 20 + 3 * load - 0.2 * speed + 0.5 * random.standard_normal(ROWS)
    parents = {"time": ["load", "speed"], "load": [], "speed": ["load"]}
    return fitted({"load": load, "speed": speed, "time": time}, parents)


def test_setting_a_variable_is_not_seeing_it(confounded):
    data, mechanisms = confounded
    load = data.values("load").mean()
    seen, set_ = predict(mechanisms, {"speed": 36.0}), intervene(mechanisms, {"speed": 36.0})
    assert set_["load"].mean == pytest.approx(load, abs=0.3)
    assert set_["time"].mean == pytest.approx(20 + 3 * load - 7.2, abs=1)
    # Given speed 36, the load is about 7, spread by half a unit.
    assert seen["load"].mean == pytest.approx(7, abs=0.2)
    assert seen["load"].standard_deviation == pytest.approx(0.5, abs=0.1)
    assert seen["time"].mean == pytest.approx(20 + 21 - 7.2, abs=0.5)
    assert seen.effective_runs < seen.runs
    assert set_.effective_runs == pytest.approx(set_.runs)
    assert (set_.intervention, seen.intervention) == (True, False)


def test_seeing_a_cause_is_setting_it(confounded):
    _, mechanisms = confounded
    seen, set_ = predict(mechanisms, {"load": 4.0}), intervene(mechanisms, {"load": 4.0})
    assert seen["time"].mean == set_["time"].mean == pytest.approx(20 + 12 - 8.4, abs=0.2)
    assert set_["time"].standard_deviation == pytest.approx(math.hypot(0.5, 0.2), rel=0.15)
    assert set_["time"].low < set_["time"].mean - 0.8 < set_["time"].mean + 0.8 < set_["time"].high
    given = set_["load"]
    assert (given.mean, given.standard_deviation, given.low, given.high, given.given) == (4, 0, 4, 4, True)


def test_the_same_seed_gives_the_same_runs(confounded):
    _, mechanisms = confounded
    means = [predict(mechanisms, {"speed": 40.0}, seed=seed)["time"].mean for seed in (1, 1, 2)]
    assert means[0] == means[1] != means[2]


def test_what_is_not_given_varies_as_in_the_table(confounded):
    data, mechanisms = confounded
    found = intervene(mechanisms, {}, runs=4000)
    for name in data.names:
        assert found[name].mean == pytest.approx(data.values(name).mean(), abs=0.1 * data.values(name).std())
        assert found[name].standard_deviation == pytest.approx(data.values(name).std(), rel=0.07)
    assert list(found.variables) == ["load", "speed", "time"]


@pytest.fixture(scope="module")
def discrete():
    random = np.random.default_rng(1)
    kernel = random.integers(0, 2, 4000)
    lossy = random.random(4000) < np.array([0.3, 0.8])[kernel]
    slow = random.random(4000) < np.array([[0.1, 0.5], [0.6, 0.9]])[kernel, lossy.astype(int)]
    frame = {"kernel": np.array(["5/3", "9/7"])[kernel], "lossy": lossy, "slow": slow}
    return fitted(frame, {"kernel": [], "lossy": ["kernel"], "slow": ["kernel", "lossy"]})


@pytest.mark.parametrize(
    "observed", [{"slow": True}, {"lossy": False}, {"slow": True, "lossy": False}, {"kernel": "9/7", "slow": False}]
)
def test_probabilities_are_those_of_bayes(discrete, observed):
    _, mechanisms = discrete

    def chance(name, row):
        table = mechanisms[name].predict({one: [row[one]] for one in mechanisms[name].parents})
        return table[0][mechanisms[name].categories.index(row[name])]

    joint = {}
    for kernel, lossy, slow in product(["5/3", "9/7"], [False, True], [False, True]):
        row = {"kernel": kernel, "lossy": lossy, "slow": slow}
        if all(row[name] == value for name, value in observed.items()):
            joint[kernel, lossy, slow] = math.prod(chance(name, row) for name in row)
    total = sum(joint.values())
    found = predict(mechanisms, observed, runs=20_000)
    for at, name in enumerate(["kernel", "lossy", "slow"]):
        for value in mechanisms[name].categories:
            expected = sum(weight for row, weight in joint.items() if row[at] == value) / total
            assert found[name].probabilities.get(value, 0.0) == pytest.approx(expected, abs=0.02)
    assert math.isnan(found["kernel"].mean)
    assert found["slow"].mean == pytest.approx(found["slow"].probabilities.get(True, 0.0))


def test_more_runs_are_drawn_where_few_agree_and_it_is_said_where_none_do(confounded):
    _, mechanisms = confounded
    rare = predict(mechanisms, {"speed": 30.5, "time": 46.0}, runs=200)
    assert rare.runs > 200
    assert rare.effective_runs >= 30
    with pytest.raises(
        DataError,
        match=r"too few random runs agree with speed=30, time=1000 \(effective number .*, of 12800 runs\): "
        r"increase `runs`, or observe causes",
    ):
        predict(mechanisms, {"speed": 30, "time": 1000}, runs=200)


def test_numbers_that_were_not_measured_may_be_set_where_the_formula_takes_them():
    random = np.random.default_rng(2)
    size, n = random.choice([2, 4, 8, 12], ROWS), random.uniform(5, 300, ROWS)
    _, mechanisms = fitted(
        {"size": size, "n": n, "bytes": n**2 * size * (1 + 0.01 * random.standard_normal(ROWS))},
        {"size": [], "n": [], "bytes": ["size", "n"]},
        n="continuous",
    )
    assert mechanisms["size"].categories == (2, 4, 8, 12)
    assert intervene(mechanisms, {"size": 16, "n": 100})["bytes"].mean == pytest.approx(160_000, rel=0.01)
    assert sum(intervene(mechanisms, {"n": 50.0})["size"].probabilities.values()) == pytest.approx(1)


def test_wrong_questions_are_answered_so(confounded, discrete):
    _, mechanisms = confounded
    with pytest.raises(DataError, match="no column 'sped'; did you mean 'speed'"):
        intervene(mechanisms, {"sped": 3})
    with pytest.raises(DataError, match="speed needs a finite number, not 'high'"):
        intervene(mechanisms, {"speed": "high"})
    with pytest.raises(DataError, match="speed needs a finite number, not nan"):
        predict(mechanisms, {"speed": math.nan})
    with pytest.raises(DataError, match=r"kernel never has the value '7/5' in the model's data; use one of 5/3, 9/7"):
        intervene(discrete[1], {"kernel": "7/5"})
    with pytest.raises(DataError, match="no column 'memory'"):
        _ = intervene(mechanisms, {})["memory"]
    with pytest.raises(DataError, match="load, a cause of speed, has no mechanism: state the directions of its edges"):
        intervene({"speed": mechanisms["speed"]}, {})
    with pytest.raises(DataError, match="at least one variable"):
        intervene({}, {})
    with pytest.raises(ValueError, match="`runs=1` is too few to show a spread: use 2 or more"):
        intervene(mechanisms, {}, runs=1)
    with pytest.raises(ValueError, match="`level` must be above 0 and below 1, not 2"):
        intervene(mechanisms, {}, level=2)


def test_causes_come_first_and_circles_are_told():
    assert causal_order({"c": ["a", "b"], "b": ["a"], "a": []}) == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"causes form a cycle: (a → b → c → a|b → c → a → b|c → a → b → c)"):
        causal_order({"a": ["c"], "b": ["a"], "c": ["b"]})
