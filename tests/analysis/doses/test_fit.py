"""Extrapolation to dose 0: against polynomials by least squares, round by round, and Student's t."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unperturbed.analysis.doses.fit import fit_doses, line_weights
from unperturbed.analysis.perturbation.rounds import MOST_SHARED

DOSES = (1, 2, 4)


def campaign(seed: int, *, rounds: int = 7, m: int = 3, own: float = 0.3) -> np.ndarray:
    """Draw values at the doses 0, 1, 2 and 4, which fall along a line and differ between rounds."""
    rng = np.random.default_rng(seed)
    doses = np.array([0, *DOSES])[None, :, None]
    return 0.9 - 0.1 * doses + rng.normal(0, 0.2, (rounds, 1, m)) + rng.normal(0, own, (rounds, 4, m))


def test_the_weights_are_those_of_lagrange_and_of_the_line() -> None:
    assert line_weights(DOSES) == pytest.approx([1, 0.5, -0.5])
    assert line_weights(DOSES, 2) == pytest.approx([8 / 3, -2, 1 / 3])
    assert line_weights((1, 2, 3, 4, 8)).sum() == pytest.approx(1)


@pytest.mark.parametrize("doses", [(1, 2, 4), (1, 3, 4, 8), (2, 1, 5)])
def test_each_round_is_a_polynomial_by_least_squares(doses: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    values, without = rng.normal(0, 1, (6, len(doses), 2)), rng.normal(0, 1, (6, 2))
    fit = fit_doses(doses, values, without, alpha=0.05)
    assert fit.bend is not None
    assert fit.miss is not None
    for metric in range(2):
        lines = [np.polyval(np.polyfit(doses, row[:, metric], 1), 0) for row in values]
        parabolas = [np.polyval(np.polyfit(doses, row[:, metric], 2), 0) for row in values]
        assert fit.value.mean[metric] == pytest.approx(np.mean(lines))
        assert fit.bend.mean[metric] == pytest.approx(np.mean(np.subtract(parabolas, lines)))
        assert fit.miss.mean[metric] == pytest.approx(np.mean(without[:, metric] - lines))
        ends = [
            bound for each in (lines, parabolas) for bound in stats.t.interval(0.95, 5, np.mean(each), stats.sem(each))
        ]
        assert (fit.low[metric], fit.high[metric]) == pytest.approx((min(ends), max(ends)))


def test_p_values_are_those_of_the_t_test() -> None:
    drawn = campaign(3)
    fit = fit_doses(DOSES, drawn[:, 1:], drawn[:, 0], alpha=0.05)
    assert fit.miss is fit.deviation
    lines = drawn[:, 1:].transpose(0, 2, 1) @ line_weights(DOSES)
    expected = stats.ttest_rel(drawn[:, 0], lines)
    assert fit.miss is not None
    assert fit.miss.p() == pytest.approx(expected.pvalue)
    nothing = np.zeros(3)
    assert fit.miss.p_beyond(nothing, nothing) == pytest.approx(expected.pvalue)
    assert (fit.miss.p_beyond(nothing + 0.1, nothing + 0.1) > expected.pvalue).all()


def test_without_a_third_dose_nothing_shows_whether_the_response_is_a_line() -> None:
    drawn = campaign(4)
    assert fit_doses((1, 2), drawn[:, 1:3], alpha=0.05).deviation is None
    assert fit_doses((1, 2), drawn[:, 1:3], drawn[:, 0], alpha=0.05).deviation is not None


def test_rounds_that_agree_exactly_do_not_leave_an_interval_of_no_length() -> None:
    rng = np.random.default_rng(5)
    lines = 0.5 + rng.normal(0, 0.2, (6, 1, 1)) - 0.1 * np.array(DOSES)[None, :, None]
    fit = fit_doses(DOSES, lines, alpha=0.05)
    assert fit.bend is not None
    assert fit.bend.mean == pytest.approx([0], abs=1e-12)
    between = float(np.var(lines[:, 0, 0], ddof=1))
    weights = line_weights(DOSES, 2) - line_weights(DOSES)
    assert fit.bend.error**2 * 6 == pytest.approx([MOST_SHARED * between * weights @ weights])
