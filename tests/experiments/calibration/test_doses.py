"""The error rates of the extrapolation to dose 0, on few simulated campaigns."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.calibration.doses import ALPHA, DEVIATIONS, DOSES, LEVEL, draw, judged
from unperturbed.analysis.doses.fit import fit_doses
from unperturbed.analysis.perturbation.correlation import fisher

CAMPAIGNS = 80


@pytest.mark.parametrize("kind", ["little", "as much as rounds"])
@pytest.mark.parametrize("rounds", [3, 8])
@pytest.mark.parametrize("deviation", [0.0, 1.0])
def test_the_interval_holds_the_value_without_counting(kind: str, rounds: int, deviation: float) -> None:
    rng = np.random.default_rng([1, rounds])
    truth = float(fisher(LEVEL))
    fits = [fit_doses(DOSES, draw(rng, rounds, kind, deviation)[0], alpha=ALPHA) for _ in range(CAMPAIGNS)]
    assert np.mean([(fit.low <= truth) & (truth <= fit.high) for fit in fits]) > 0.93


def shares(kind: str, rounds: int, deviation: float, *, with_none: bool) -> dict[str, float]:
    rng = np.random.default_rng([2, rounds])
    found = []
    for _ in range(CAMPAIGNS):
        values, without = draw(rng, rounds, kind, deviation)
        found.append([each.outcome for each in judged(values, without if with_none else None).responses])
    return {
        "any not linear": float(np.mean(["not linear" in each for each in found])),
        "corrected": float(np.mean([each.count("corrected") / len(each) for each in found])),
        "not linear": float(np.mean([each.count("not linear") / len(each) for each in found])),
    }


@pytest.mark.parametrize("with_none", [False, True])
def test_lines_are_corrected_and_curves_are_not(with_none: bool) -> None:
    line = shares("little", 8, 0.0, with_none=with_none)
    assert line["any not linear"] == 0
    assert line["corrected"] > 0.95
    at_tolerance = shares("as much as rounds", 8, 1.0, with_none=with_none)
    assert at_tolerance["any not linear"] < 0.1
    assert at_tolerance["corrected"] < 0.1
    assert shares("little", 8, 2.0, with_none=with_none)["not linear"] > 0.95


def test_a_parabola_deviates_at_dose_0_by_what_was_asked() -> None:
    rng = np.random.default_rng(3)
    values, without = draw(rng, 4000, "little", 2.0, metrics=1)
    fit = fit_doses(DOSES, values, without, alpha=ALPHA)
    assert fit.bend is not None
    assert fit.miss is not None
    assert float(fit.miss.mean[0]) == pytest.approx(float(fit.bend.mean[0]), abs=0.01)
    assert float(fisher(LEVEL) - fit.miss.mean[0]) == pytest.approx(float(fisher(LEVEL - 0.2)), abs=0.01)
    assert DEVIATIONS["line"] == 0
