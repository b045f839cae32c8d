"""Looks at a growing campaign: their numbers of runs, and levels that add up to α."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.looks_compared import confidence_sequence
from unperturbed.analysis.looks import FIRST_LOOK, look_levels, plan_looks, spent_alpha


@given(st.integers(3, 1000))
def test_looks_end_at_the_most_runs(most: int) -> None:
    looks = plan_looks(most)
    assert looks[0] == (FIRST_LOOK if most >= 1.5 * FIRST_LOOK else most)
    assert looks[-1] == most
    assert len(looks) <= 6
    assert all(later >= 1.4 * earlier for earlier, later in pairwise(looks))


@given(st.integers(10, 1000), st.floats(0.001, 0.2))
def test_the_levels_add_up_to_alpha(most: int, alpha: float) -> None:
    looks = plan_looks(most)
    levels = look_levels(alpha, looks)
    assert sum(levels) == pytest.approx(alpha)
    assert min(levels) > 0
    assert list(levels) == sorted(levels)


def test_the_function_is_that_of_kim_and_demets() -> None:
    # Kim and DeMets (1987): α*₂(t) = α t^(3/2).
    assert [spent_alpha(0.05, fraction) for fraction in (0.25, 0.64, 1.0)] == pytest.approx([0.00625, 0.0256, 0.05])


def test_a_confidence_sequence_holds_at_all_counts_at_once() -> None:
    counts = np.arange(3, 200)
    values = np.random.default_rng(1).standard_normal((4000, 199))
    sums, squares = np.cumsum(values, axis=1)[:, counts - 1], np.cumsum(values**2, axis=1)[:, counts - 1]
    mean = sums / counts
    spread = np.sqrt((squares - counts * mean**2) / (counts - 1))
    missed = (np.abs(mean) > confidence_sequence(counts, 0.1) * spread).any(axis=1)
    assert 0.02 < missed.mean() < 0.1 + 3 * 0.005
