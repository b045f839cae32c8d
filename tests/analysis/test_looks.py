"""Looks at a growing campaign: their numbers of runs, and levels that add up to α."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

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
    if alpha <= 0.1:  # above, with looks after 10 and 15 runs, the second has less than the first
        assert list(levels) == sorted(levels)


def test_the_function_is_that_of_lan_and_demets() -> None:
    # Table 1 of Lan and DeMets (1983) has α*₁(t) = 2 − 2Φ(z_{α/2} / √t).
    for fraction in (0.2, 0.4, 0.6, 0.8):
        expected = 2 - 2 * norm.cdf(norm.ppf(1 - 0.05 / 2) / fraction**0.5)
        assert spent_alpha(0.05, fraction) == pytest.approx(expected, rel=1e-9)
    assert spent_alpha(0.05, 1.0) == 0.05
