"""The guess at how many runs will do, beside what runs do."""

from __future__ import annotations

import numpy as np
import pytest

from unperturbed.analysis.partition.judging import (
    ObservedChanges,
    chance_to_show,
    repetitions_to_accept,
    repetitions_to_certify,
)
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher

LEVEL, TOLERANCE = 0.025, 0.1


def seen(
    rho: list[float], change: list[float], spread: float, references: int = 20, repetitions: int = 6
) -> ObservedChanges:
    before = fisher(rho)
    effect = fisher(np.array(rho) + change) - before
    error = np.full(len(rho), spread * np.sqrt(1 / references + 1 / repetitions))
    return ObservedChanges(before, effect, error, references, repetitions)


@pytest.mark.parametrize(("spread", "repetitions"), [(0.04, 4), (0.06, 6), (0.06, 12), (0.08, 20)])
@pytest.mark.parametrize("change", [0.0, 0.04])
def test_the_chance_is_that_of_real_comparisons(spread, repetitions, change):
    rho, rng = np.array([0.2, 0.4, -0.3, 0.0]), np.random.default_rng(1)
    changes = np.array([change, 0, -change / 2, 0])
    shown = 0
    for _ in range(1500):
        before = from_fisher(fisher(rho) + spread * rng.standard_normal((20, 4)))
        after = from_fisher(fisher(rho + changes) + spread * rng.standard_normal((repetitions, 4)))
        compared = compare_runs(before, after, intervals=3000, alpha=LEVEL)
        shown += bool(((compared.low > -TOLERANCE) & (compared.high < TOLERANCE)).all())
    guess = chance_to_show(
        seen(list(rho), list(changes), spread), level=LEVEL, tolerance=TOLERANCE, maximum=20, benefit=0
    )[repetitions - 1]
    assert abs(guess - shown / 1500) < 0.12


def test_more_repetitions_are_needed_for_larger_changes_and_spreads_and_smaller_levels():
    def needed(change: float, spread: float, level: float = LEVEL) -> int | None:
        return repetitions_to_certify(seen([0.3], [change], spread), level=level, tolerance=TOLERANCE, maximum=40)

    assert needed(0, 0.05) < needed(0.04, 0.05) < needed(0.04, 0.07)
    assert needed(0.04, 0.05) < needed(0.04, 0.05, 0.003)


def test_what_lies_beyond_the_tolerance_is_out_of_reach():
    beyond = seen([0.3, 0.1], [0.2, 0], 0.03)
    assert repetitions_to_accept(beyond, level=LEVEL, tolerance=TOLERANCE) is None
    assert repetitions_to_certify(beyond, level=LEVEL, tolerance=TOLERANCE, maximum=40) is None


@pytest.mark.filterwarnings("error")
def test_runs_that_are_all_equal_need_no_more_than_two():
    for change, needed in ((0.0, 2), (0.0999, 2), (0.2, None)):
        equal = seen([0.3], [change], 0.0)
        assert repetitions_to_certify(equal, level=LEVEL, tolerance=TOLERANCE, maximum=40) == needed


def test_more_runs_than_were_made_are_asked_for():
    assert repetitions_to_accept(seen([0.3], [0.0], 0.01, repetitions=9), level=LEVEL, tolerance=TOLERANCE) == 10


def test_the_largest_of_many_unchanged_pairs_does_not_put_a_good_subset_out_of_reach():
    """66 pairs that did not change, seen in three runs: the largest change is the noise of the luckless one."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        before = from_fisher(0.04 * rng.standard_normal((20, 66)))
        after = from_fisher(0.04 * rng.standard_normal((3, 66)))
        compared = compare_runs(before, after, intervals=3000, alpha=0.05)
        found = ObservedChanges(
            compared.reference_mean, compared.observed_mean - compared.reference_mean, compared.standard_error, 20, 3
        )
        wanted = repetitions_to_accept(found, level=0.05, tolerance=TOLERANCE)
        assert wanted is not None
        assert wanted <= 20
