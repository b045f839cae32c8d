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


SIZES = {
    "uniform": lambda rng, n: rng.uniform(1, 100, n),
    "five": lambda rng, n: rng.choice([10.0, 20, 40, 80, 160], n),
    "wide": lambda rng, n: np.exp(0.5 + rng.uniform(0, 7, n)),
}
VARIED = [
    ("uniform", "1/x", 200, 0.02, 0.1),
    ("uniform", "x²", 300, 0.02, 0.05),
    ("uniform", "x³", 50, 0.1, 0.1),
    ("wide", "x^1.5", 200, 0.1, 0.1),
    ("wide", "√x", 300, 0.0, 0.2),
    ("five", "x²", 100, 0.0, 0.05),
    ("five", "x^1.5", 50, 0.0, 0.1),
    ("five", "ln x", 200, 0.05, 0.1),
]


def test_noise_on_every_variable_and_few_sizes_change_nothing():
    right = []
    for number, (sizes, name, n, noise_y, noise_z) in enumerate(VARIED):
        for seed in range(2):
            rng = np.random.default_rng([66, number, seed])
            x = SIZES[sizes](rng, n)
            y = FUNCTIONS[name](x) * np.exp(noise_y * rng.standard_normal(n))
            model = learn(
                {"X": x, "Y": y, "Z": 2.5 * y * np.exp(noise_z * rng.standard_normal(n))}, ORDER, subsamples=0
            )
            value = float(np.median(y))
            close = abs(model.intervene(Y=value)["Z"].mean / (2.5 * value) - 1) <= noise_z + 0.01
            right.append(close and {(edge.source, edge.target) for edge in model.edges} == {("X", "Y"), ("Y", "Z")})
    assert sum(right) >= len(right) - 1


def test_counts_that_are_rounded_carry_the_same_information():
    """Y = round(X²) is nearly, but not quite, what X determines, and X what Y determines."""
    for seed in range(3):
        rng = np.random.default_rng([67, seed])
        x = SIZES["wide"](rng, 200)
        y = np.round(x**2)
        z = np.round(2.5 * y * (1 + 0.2 * rng.standard_normal(200)))
        model = learn({"X": x, "Y": y, "Z": z}, ORDER, subsamples=0)
        assert {(edge.source, edge.target) for edge in model.edges} == {("X", "Y"), ("Y", "Z")}


def test_a_relation_as_simple_goes_to_the_input():
    x = np.random.default_rng(6).uniform(1, 100, 200)
    model = learn({"X": x, "Y": 4 * x, "Z": 12 * x}, ORDER, subsamples=0)
    assert {(edge.source, edge.target) for edge in model.edges} == {("X", "Y"), ("X", "Z")}
    (tie,) = [one for one in model.equivalences if one.target == "Z"]
    assert tie.reason == (
        "the descriptions are equally long, and it comes first in the causal order or, if that is open, in the table"
    )
