"""Open predictions judged by runs that had no part in choosing, on mixtures whose R² is known."""

from __future__ import annotations

import numpy as np
import pytest

from unperturbed.analysis.choice.fresh_runs import decide_by, next_look, open_step
from unperturbed.analysis.choice.metric_choice import Cost, MetricChoice, choose_metrics

NAMES = ("source", "mixed", "apart")


def _runs(count: int, *, seed: int, noise: float, vary: float = 0.0) -> list[np.ndarray]:
    """Return runs in which `source` explains 1 / (1 + noise²) of `mixed`; `vary` changes the noise from run to run."""
    chance = np.random.default_rng(seed)
    runs = []
    for _ in range(count):
        source, apart = chance.normal(100, 10, size=(2, 200))
        own = noise * (1 + vary * chance.uniform(-1, 1))
        runs.append(np.column_stack([source, source + 10 * own * chance.normal(size=200), apart]))
    return runs


def _choice(pilot: list[np.ndarray], target: float) -> MetricChoice:
    named = {f"{at:04d}": run for at, run in enumerate(pilot, 1)}
    return choose_metrics(named, NAMES, target=target, cost=Cost(5, 1.0))


def _fresh(runs: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [dict(zip(NAMES, run.T, strict=True)) for run in runs]


@pytest.mark.parametrize(("target", "shown"), [(0.77, True), (0.83, False)])
def test_further_runs_decide_what_the_pilot_left_open(target: float, shown: bool) -> None:
    pilot = _runs(5, seed=4, noise=0.5, vary=0.6)  # R² 0.8 on average
    choice = _choice(pilot, target)
    step = open_step(choice)
    assert step is not None
    (before,) = step.predictions
    assert before.is_open(target)
    fresh = _fresh(_runs(64, seed=5, noise=0.5))
    decided = decide_by(choice, pilot, fresh)
    (after,) = decided.steps[len(step.chosen) - 1].predictions
    assert len(after.runs) == 64
    assert after.is_predicted(target) == shown
    assert not after.is_open(target)
    assert open_step(decided) is None


def test_a_look_counts_complete_numbers_of_runs_at_a_level_of_its_own() -> None:
    assert [next_look(runs) for runs in (0, 3, 4, 7, 8, 31)] == [4, 4, 8, 8, 16, 32]
    pilot, target = _runs(5, seed=4, noise=0.5, vary=0.6), 0.8
    choice = _choice(pilot, target)
    place = len(open_step(choice).chosen) - 1  # type: ignore[union-attr]
    fresh = _fresh(_runs(9, seed=6, noise=0.5, vary=0.3))
    few = decide_by(choice, pilot, fresh[:3])
    assert few.steps == choice.steps
    first, second = (decide_by(choice, pilot, fresh[:count]).steps[place].predictions[0] for count in (7, 9))
    assert (len(first.runs), len(second.runs)) == (4, 8)
    assert second.runs[:4] == first.runs
    # α / 2 at the first look, α / 4 at the second: Student's quantiles for 3 and 7 degrees of freedom.
    for each, quantile in ((first, 4.1765), (second, 3.3353)):
        reach = quantile * np.std(each.runs, ddof=1) / np.sqrt(len(each.runs))
        assert each.r2 - each.low == pytest.approx(reach, rel=1e-3)


def test_a_run_that_lacks_a_metric_is_no_evidence_on_it() -> None:
    pilot = _runs(5, seed=4, noise=0.5, vary=0.6)
    choice = _choice(pilot, 0.8)
    fresh = [{name: run[name] for name in ("source", "apart")} for run in _fresh(_runs(8, seed=5, noise=0.5))]
    assert decide_by(choice, pilot, fresh).steps == choice.steps


def test_fresh_r2_is_that_of_a_plain_regression() -> None:
    pilot, further = _runs(5, seed=4, noise=0.5, vary=0.6), _runs(4, seed=5, noise=0.5)
    choice = _choice(pilot, 0.8)
    step = open_step(choice)
    assert step is not None
    decided = decide_by(choice, pilot, _fresh(further)).steps[len(step.chosen) - 1].predictions[0]
    chosen, at = [NAMES.index(name) for name in step.chosen], NAMES.index(decided.metric)
    every = np.concatenate(pilot)
    design = np.column_stack([np.ones(len(every)), every[:, chosen]])
    fit, *_ = np.linalg.lstsq(design, every[:, at], rcond=None)
    for run, r2 in zip(further, decided.runs, strict=True):
        left = run[:, at] - np.column_stack([np.ones(len(run)), run[:, chosen]]) @ fit
        assert r2 == pytest.approx(1 - np.mean(left**2) / run[:, at].var(), abs=1e-9)
