"""False alarms of the bootstrap that serves for few baseline runs."""

import numpy as np

from tests.analysis import simulate
from unperturbed.analysis.perturbation import inner_by_bootstrap


def test_false_alarms_of_a_program_whose_runs_are_alike():
    rng = np.random.default_rng(4)
    program = simulate.program(rng, correlation=simulate.equicorrelated(2, 0.5), intervals=400, phi=0.5, run_effect=0.0)
    found = [inner_by_bootstrap(*simulate.runs(program, rng, 2)).changes[0].p <= 0.05 for _ in range(60)]
    assert 0.0 < np.mean(found) < 0.17
