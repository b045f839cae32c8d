"""Figure 6 of Lemeire et al. (section 6.2): X → Y = f(X) → Z = a·Y; X and Y carry the same information about Z."""

import numpy as np
import pytest

from unperturbed.analysis.causal import Knowledge, learn

FUNCTIONS = {
    "x²": lambda x: x**2,
    "x³": lambda x: x**3,
    "√x": np.sqrt,
    "ln x": np.log,
    "1/x": lambda x: 1 / x,
    "x^1.5": lambda x: x**1.5,
    "x⁻²": lambda x: x**-2.0,
    "log₂(x + 1)": lambda x: np.log2(x + 1),
}
ORDER = Knowledge(tiers=(("X",), ("Y",), ("Z",)))


def campaign(name, n, noise, rng, factor):
    x = rng.uniform(1, 100, n)
    y = FUNCTIONS[name](x)
    return {"X": x, "Y": y, "Z": factor * y * (1 + noise * rng.standard_normal(n))}


@pytest.mark.parametrize("n", [50, 150, 400, 2000])
def test_the_cause_is_the_variable_with_the_simplest_relation(n):
    rng = np.random.default_rng([6, n])
    right, tried = 0, 0
    for name in FUNCTIONS:
        for noise in (0.0, 0.02, 0.1, 0.2):
            factor = float(rng.choice([0.2, 3.0, 7.5]))
            table = campaign(name, n, noise, rng, factor)
            model = learn(table, ORDER, subsamples=0)
            tried += 1
            if {(edge.source, edge.target) for edge in model.edges} != {("X", "Y"), ("Y", "Z")}:
                continue
            # An intervention on Y reaches Z, whatever X is.
            value = float(np.quantile(table["Y"], 0.3))
            forecast = model.intervene(X=float(np.quantile(table["X"], 0.8)), Y=value)["Z"]
            right += abs(forecast.mean - factor * value) <= 3 * (noise + 0.001) * factor * abs(value)
    assert right >= 0.95 * tried


def test_a_relation_as_simple_goes_to_the_input():
    x = np.random.default_rng(6).uniform(1, 100, 200)
    model = learn({"X": x, "Y": 4 * x, "Z": 12 * x}, ORDER, subsamples=0)
    assert {(edge.source, edge.target) for edge in model.edges} == {("X", "Y"), ("X", "Z")}
    (tie,) = [one for one in model.equivalences if one.target == "Z"]
    assert tie.reason == "the descriptions are as long, and it comes first"
