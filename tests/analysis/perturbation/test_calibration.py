"""The verdicts' error rates on simulated campaigns, small and seeded; `docs/evidence/calibration.py` is the long study."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline

ALPHA = 0.05
NAMES = tuple(f"H{at}" for at in range(4))


def most(campaigns, share=ALPHA):
    """A count that is exceeded once in a thousand times when the true share is α."""
    return stats.binom.ppf(0.999, campaigns, share)


def test_inner_false_alarms_and_acceptance():
    rng = np.random.default_rng(20)
    campaigns = 250
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.5), intervals=120, phi=0.8, run_effect=0.1)
    significant = alarms = 0
    for _ in range(campaigns):
        verdict = Baseline(simulate.runs(program, rng, 8), metrics=NAMES).inner(simulate.runs(program, rng, 3))
        significant += min(change.p_corrected for change in verdict.changes) <= ALPHA
        alarms += verdict.verdict == "perturbed"
    assert ALPHA / 5 * campaigns <= significant <= most(campaigns)
    assert alarms <= significant


def test_outer_false_alarms():
    rng = np.random.default_rng(21)
    campaigns = 120
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.2), intervals=80, phi=0.8, shared=0.8)
    significant = 0
    for _ in range(campaigns):
        baseline = Baseline(simulate.runs(program, rng, 6), metrics=NAMES)
        verdict = baseline.outer(simulate.runs(program, rng, 3), align_on=("H3",), anchor=simulate.MILESTONE)
        significant += min(change.p_corrected for change in verdict.changes) <= ALPHA
    assert ALPHA / 5 * campaigns <= significant <= most(campaigns)


def test_power_against_a_planted_change():
    rng = np.random.default_rng(22)
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.7), intervals=400, phi=0.7)
    perturbed = simulate.with_pair(program.correlation, (0, 1), 0.4)
    found = other = 0
    for _ in range(40):
        baseline = Baseline(simulate.runs(program, rng, 10), metrics=NAMES)
        verdict = baseline.inner(simulate.runs(program, rng, 3, correlation=perturbed))
        found += verdict.changes[0].verdict == "perturbed"
        other += any(change.verdict == "perturbed" for change in verdict.changes[1:])
    assert found >= 36
    assert other <= most(40)


def test_a_planted_change_beyond_the_tolerance_is_rarely_accepted():
    # The planted change is a little over the tolerance (about 0.11); the checked runs also vary more than the baseline's.
    rng = np.random.default_rng(23)
    campaigns = 200
    program = simulate.program(rng, correlation=simulate.equicorrelated(2, 0.6), intervals=300, phi=0.5)
    perturbed = simulate.with_pair(program.correlation, (0, 1), 0.46)
    accepted, changes = 0, []
    for _ in range(campaigns):
        baseline = Baseline(simulate.runs(program, rng, 6), metrics=NAMES[:2])
        change = baseline.inner(simulate.runs(program, rng, 3, correlation=perturbed, run_effect=0.1)).changes[0]
        accepted += change.verdict == "unperturbed"
        changes.append(change.effect)
    assert -0.16 < np.mean(changes) < -0.1
    assert accepted <= most(campaigns)


def test_simulated_runs_have_the_correlation_that_was_asked_for():
    rng = np.random.default_rng(24)
    program = simulate.program(
        rng, correlation=simulate.equicorrelated(2, 0.5), intervals=3000, phi=0.3, run_effect=0, jitter=0
    )
    baseline = Baseline(simulate.runs(program, rng, 20), metrics=NAMES[:2])
    assert baseline.correlations.mean() == pytest.approx(0.5, abs=0.02)


def test_the_long_study_can_be_imported_and_writes_its_page(tmp_path, monkeypatch):
    path = Path(__file__).parents[3] / "docs" / "evidence" / "calibration.py"
    spec = importlib.util.spec_from_file_location("calibration", path)
    study = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "calibration", study)
    spec.loader.exec_module(study)
    rows = list(study.spread_table(2000, seed=1))
    assert len(rows) == 2 + 3 * 2 * 3
    pooled, welch = (float(cell) for cell in rows[2 + 6 + 0].split("|")[4:6])  # k = 10, r = 3, equal spread
    assert pooled <= 0.3
    assert welch >= 0
