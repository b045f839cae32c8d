"""The noise floor on simulated campaigns: the smallest change is shown, and the runs named suffice, in four of five."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.floor.simulate import compared
from unperturbed.analysis.floor.causes import find_causes
from unperturbed.analysis.floor.resolution import RUNS, resolution_of_total

TRIALS = 400


@pytest.mark.parametrize("runs", [5, 10, 20])
@pytest.mark.parametrize("shared", [0.0, 0.05])
def test_the_smallest_change_is_shown_in_four_of_five_campaigns(runs: int, shared: float) -> None:
    rng = np.random.default_rng(1)
    many = compared(rng, 400, 0.01, shared=shared)
    smallest = resolution_of_total(many, 0.05, 1).smallest[RUNS.index(runs)]
    shown = [compared(rng, runs, 0.01, smallest, shared=shared).p_corrected <= 0.05 for _ in range(TRIALS)]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("spread", [0.004, 0.01])
def test_the_runs_needed_accept_an_unchanged_program_in_four_of_five_campaigns(spread: float) -> None:
    rng = np.random.default_rng(2)
    needed = resolution_of_total(compared(rng, 400, spread), 0.05, 1).runs
    assert needed is not None

    def accepted(runs: int) -> float:
        return float(np.mean([compared(rng, runs, spread).verdict == "unperturbed" for _ in range(TRIALS)]))

    assert accepted(needed) >= 0.74
    assert accepted(max(3, round(0.6 * needed))) < 0.8


def test_totals_that_follow_the_load_are_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(8)
    load = rng.uniform(0, 4, 20)
    (cause,) = find_causes(
        {"time_s": 1 + 0.1 * load + 0.01 * rng.standard_normal(20)}, {"load": load, "order": range(20)}
    )
    assert (cause.total, cause.property) == ("time_s", "load")
    assert cause.rho > 0.9
    alarms = sum(
        bool(
            find_causes(
                {str(at): rng.standard_normal(20) for at in range(5)},
                {str(at): rng.standard_normal(20) for at in range(4)},
            )
        )
        for _ in range(300)
    )
    assert alarms <= 10
    assert find_causes({"same": [1.0] * 20}, {"load": load}) == ()
