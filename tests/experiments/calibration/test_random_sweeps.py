"""Models of random sweeps agree with the program that was swept: no input is lost, and forecasts hold."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.causal.random_sweeps import Sweep, agreement, ancestors_in, draw_sweep, script_sweep
from unperturbed.analysis.causal.discovery.agreement import Contradiction
from unperturbed.analysis.causal.learning import learn
from unperturbed.analysis.causal.model_text import undecided


def test_models_of_random_sweeps_agree_with_the_program():
    """Without the check after orientation 17 of the inputs that matter here are lost."""
    found = agreement((draw_sweep(seed) for seed in (0, 10, 17, 20, 22)), settings=12)
    assert found.matters >= 30
    assert found.lost == 0
    assert found.negative == 0
    assert found.forecasts >= 250
    assert found.covered >= 0.92 * found.forecasts


def share_of_means(sweeps: Iterable[Sweep], *, settings: int) -> tuple[int, float, int]:
    """Return how many forecasts there are, the share that holds the mean of 400 runs, and how many go below 0."""
    held, below = [], 0
    for number, sweep in enumerate(sweeps):
        model = learn(sweep.table, inputs=sweep.inputs, subsamples=0, test="regression")
        for run, given in enumerate(sweep.settings(number, settings)):
            forecast, true = model.intervene(given), sweep.run(given, 1000 * number + run, 400)
            for counter in set(sweep.counters) & forecast.variables.keys():
                one, runs = forecast[counter], true[counter]
                sampling = 2 * float(np.std(runs)) / 20
                held.append(one.low - sampling <= float(np.mean(runs)) <= one.high + sampling)
                below += one.low < 0
    return len(held), float(np.mean(held)), below


@pytest.mark.parametrize("poisson", [False, True], ids=["normal", "poisson"])
def test_intervals_hold_what_runs_are_on_average(poisson):
    forecasts, held, below = share_of_means((draw_sweep(seed, poisson=poisson) for seed in (1002, 1009)), settings=12)
    assert forecasts >= 70
    assert held >= 0.95
    assert below == 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_models_of_many_random_sweeps_agree_with_the_program():
    found = agreement((draw_sweep(seed) for seed in range(200)), settings=20)
    assert found.lost <= 0.005 * found.matters
    assert found.negative == 0
    assert found.covered >= 0.945 * found.forecasts


def test_what_separates_a_scripts_inputs_from_its_instructions_is_no_effect_of_them():
    """Faults carry most of what kind and size say of the instructions; n alone describes these within 40 %."""
    sweep = script_sweep(1)
    model = learn(sweep.table, inputs=sweep.inputs, subsamples=2, test="regression")
    ancestors = ancestors_in(model)
    assert set(sweep.inputs) <= ancestors["instructions"]
    assert set(sweep.inputs) <= ancestors["cpu_s"]
    for given in ({"n": 10_000, "kind": "sort", "size": 100}, {"n": 10_000, "kind": "concat", "size": 150}):
        true = np.mean(sweep.run(given, 3, 400)["instructions"])
        assert model.intervene(given)["instructions"].mean == pytest.approx(true, rel=0.05)
    assert not model.contradictions
    assert all(0 <= edge.stability <= 1 for edge in model.edges)


def test_what_contradicts_the_data_is_told():
    table = draw_sweep(2).table
    model = learn(table, inputs=draw_sweep(2).inputs, subsamples=0, test="regression", quantify=False)
    assert "rules out" not in model.headline()
    against = Contradiction("counter_a", "counter_b", (), 20.0, 0.001)
    model = replace(model, contradictions=(against,))
    assert model.headline().endswith("; the graph rules out 1 dependence that the table shows.")
    assert undecided(model)[0] == f"The graph contradicts the data: {against}."
    assert model.to_dict()["contradictions"] == [
        {
            "target": "counter_a",
            "other": "counter_b",
            "given": [],
            "bits": 20.0,
            "p_value": 0.001,
            "words": str(against),
        }
    ]
