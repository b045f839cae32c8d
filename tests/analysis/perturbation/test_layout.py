"""What a change comes from, told by sham runs."""

import numpy as np
import pytest

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline
from unperturbed.analysis.perturbation.decide import origin_of_change, with_origins

PLAIN, CHANGED = simulate.equicorrelated(3, 0.6), simulate.with_pair(simulate.equicorrelated(3, 0.6), (0, 1), 0.1)


@pytest.mark.parametrize(
    ("layout", "counting", "origin"),
    [
        ("perturbed", "unperturbed", "layout"),
        ("perturbed", "undecided", "layout"),
        ("unperturbed", "perturbed", "counting"),
        ("undecided", "perturbed", "counting"),
        ("perturbed", "perturbed", "both"),
        ("unperturbed", "unperturbed", "unclear"),
        ("undecided", "undecided", "unclear"),
    ],
)
def test_what_was_shown_is_named(layout, counting, origin):
    assert origin_of_change(layout, counting) == origin


@pytest.mark.parametrize(("of_sham", "origin"), [(CHANGED, "layout"), (PLAIN, "counting")])
def test_a_change_that_the_sham_shows_too_is_layout(of_sham, origin):
    rng = np.random.default_rng(6)
    program = simulate.program(rng, correlation=PLAIN, intervals=1500, phi=0.3)
    baseline = Baseline(simulate.runs(program, rng, 10))
    counting = simulate.runs(program, rng, 5, configuration="all", correlation=CHANGED)
    sham = simulate.runs(program, rng, 5, configuration="sham", correlation=of_sham)
    verdict = with_origins(baseline.inner(counting), baseline.inner(sham), Baseline(sham).inner(counting))
    perturbed = [change for change in verdict.changes if change.verdict == "perturbed"]
    assert [(change.first, change.second, change.origin) for change in perturbed] == [("H0", "H1", origin)]
    assert all(change.origin is None for change in verdict.changes if change.verdict != "perturbed")
