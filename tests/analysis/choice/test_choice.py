"""Which metrics predict the rest: beside slow twins, on mixtures whose sources are known, and on pure noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.analysis.choice import naive
from unperturbed.analysis.choice.clusters import join
from unperturbed.analysis.choice.held_back import judge_choices, predict
from unperturbed.analysis.choice.metric_choice import Cost, MetricChoice, choose_metrics
from unperturbed.analysis.choice.moments import FloatArray, Moments, rescale
from unperturbed.analysis.choice.search import backward_subsets, best_subset, choose, explained, forward_order
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.errors import DataError

COST = Cost(10, 3.0)
SOURCES = ("a", "b", "c")
MIXTURES = {"2a+b": (2, 1, 0), "3b+c": (0, 3, 1), "a+4c": (1, 0, 4), "a+b+c": (1, 1, 1), "5a": (5, 0, 0)}


def _signals(chance: np.random.Generator, intervals: int, metrics: int) -> FloatArray:
    """Return positive, autocorrelated rates."""
    steps = chance.gamma(2, 500, (intervals + 4, metrics))
    return np.asarray(np.stack([steps[at : at + intervals] for at in range(5)]).mean(axis=0), np.float64)


def _noise(chance: np.random.Generator, metrics: int, *, runs: int = 8, intervals: int = 150) -> dict[str, FloatArray]:
    return {f"{run:04d}": chance.poisson(100, (intervals, metrics)).astype(float) for run in range(runs)}


def _mixtures(chance: np.random.Generator, runs: int = 8, intervals: int = 150) -> dict[str, FloatArray]:
    made = {}
    for run in range(runs):
        sources = chance.poisson(_signals(chance, intervals, 3))
        mixed = chance.poisson(sources @ np.array(list(MIXTURES.values())).T)
        made[f"{run:04d}"] = np.column_stack([mixed, sources, chance.poisson(50, intervals)]).astype(float)
    return made


def _choice(runs: Mapping[str, FloatArray], **how: object) -> MetricChoice:
    names = [*MIXTURES, *SOURCES, "noise"]
    return choose_metrics(runs, names, **{"target": 0.95, "cost": COST, **how})  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 4))
def test_the_error_in_a_run_held_back_is_that_of_a_fit_to_all_rows(seed: int, metrics: int, size: int) -> None:
    chance = np.random.default_rng(seed)
    mix = chance.normal(size=(metrics, metrics))
    runs = [_signals(chance, int(chance.integers(30, 60)), metrics) @ mix for _ in range(4)]
    size = min(size, metrics - 1)
    steps, from_others = judge_choices(Moments.of(runs), [f"m{at}" for at in range(metrics)], size, 0.9)
    for metric in range(metrics):
        others = [at for at in range(metrics) if at != metric]
        for run, r2 in enumerate(from_others[metric].runs):
            assert 1 - r2 == pytest.approx(naive.unexplained(runs, run, others, metric), rel=1e-4, abs=1e-6)
    for run in range(len(runs)):
        _, _, correlations = Moments.of(runs).fitted(run)
        chosen = choose(correlations, size, 0.9)[-1].chosen
        for each in steps[size - 1].predictions:
            metric = int(each.metric[1:])
            if metric not in chosen:
                expected = naive.unexplained(runs, run, chosen, metric)
                assert 1 - each.runs[run] == pytest.approx(expected, rel=1e-4, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(1, 4))
def test_searches_find_what_trying_every_subset_finds(seed: int, metrics: int, size: int) -> None:
    chance = np.random.default_rng(seed)
    rows = _signals(chance, 60, metrics) @ chance.normal(size=(metrics, metrics))
    correlations, size = np.corrcoef(rows.T), min(size, metrics - 1)
    assert explained(correlations, best_subset(correlations, size)) == pytest.approx(naive.best(rows, size))
    order = forward_order(correlations, size)
    for at in range(size):  # several metrics may add the same
        assert naive.explained(rows, order[: at + 1]) == pytest.approx(naive.most_added(rows, order[:at]))
    backward = backward_subsets(correlations)
    for at in range(1, metrics):
        assert set(backward[at]) < set(backward[at + 1])
        assert naive.r2(rows, backward[at]).min() == pytest.approx(naive.best_removal(rows, backward[at + 1]))
    target = 0.8
    found = choose(correlations, size, target)[-1]
    others = [order, list(backward[size]), list(best_subset(correlations, size))]
    assert (naive.r2(rows, found.chosen) >= target).sum() == max(
        (naive.r2(rows, one) >= target).sum() for one in others
    )


def test_exact_twins_are_chosen_once_and_predicted() -> None:
    chance = np.random.default_rng(3)
    runs = [_signals(chance, 80, 2) for _ in range(6)]
    doubled = [np.column_stack([run, run, run.sum(axis=1)]) for run in runs]
    steps, from_others = judge_choices(Moments.of(doubled), list("abcds"), 4, 0.9)
    assert {each.metric for each in steps[1].predictions if each.is_predicted(0.999)} == set("abcds") - set(
        steps[1].chosen
    )
    assert all(each.r2 > 0.999 for each in from_others)


def test_near_twins_may_replace_each_other_from_run_to_run() -> None:
    chance = np.random.default_rng(7)
    runs = []
    for _ in range(8):
        signals = _signals(chance, 80, 2)
        twins = signals[:, [0, 0]] + 5 * chance.normal(size=(80, 2))
        runs.append(np.column_stack([twins, signals[:, 1]]))
    steps, _ = judge_choices(Moments.of(runs), ["one", "other", "apart"], 2, 0.9)
    (other,) = steps[1].predictions
    assert steps[1].agreeing < 8
    assert other.metric in ("one", "other")
    assert min(other.runs) > 0.99


def test_the_sources_of_mixtures_are_found() -> None:
    found = _choice(_mixtures(np.random.default_rng(1)))
    assert found.enough is found.recommended is not None
    assert set(found.enough.chosen) == {*SOURCES, "noise"}
    assert found.unpredicted == ("noise",)
    assert found.headline() == (
        "4 of 9 metrics predict the rest to R² 0.95 in runs held back: a, b, c and noise; noise is predicted by none"
    )
    assert [set(cluster.metrics) for cluster in found.tree.clusters] == [{"5a", "a"}]
    assert found.tree.nearest("5a")[0] == "a"
    with_roots = _choice(_mixtures(np.random.default_rng(1)), scale="sqrt")
    assert with_roots.enough is not None
    assert len(with_roots.enough.chosen) == 4
    assert with_roots.unpredicted == ("noise",)


@pytest.mark.thorough
def test_noise_is_predicted_by_none() -> None:
    chance, values = np.random.default_rng(2), []
    for _ in range(20):
        found = choose_metrics(_noise(chance, 10), [f"n{at}" for at in range(10)], target=0.5, cost=COST)
        assert found.recommended is found.enough is None
        assert len(found.unpredicted) == 10
        values += [each.r2 for step in found.steps for each in step.predictions]
        values += [each.r2 for each in found.from_others]
    assert "none of the 10 metrics is predicted by the others to R² 0.5" in found.headline()
    # The fit of up to nine coefficients to 1,050 intervals costs as much as it seems to explain there.
    assert -0.03 < np.mean(values) < 0
    assert max(values) < 0.05


@pytest.mark.thorough
def test_noise_that_is_slow_is_predicted_by_none() -> None:
    """Neighbouring intervals are alike, so a fit that saw some intervals of a run would predict the others."""
    chance, values = np.random.default_rng(4), []
    for _ in range(10):
        runs = {f"{run}": np.cumsum(chance.normal(size=(200, 8)), axis=0) for run in range(8)}
        found = choose_metrics(runs, [f"n{at}" for at in range(8)], target=0.5, cost=COST)
        values += [each.r2 for each in found.from_others]
        assert len(found.unpredicted) == 8
    assert np.median(values) < 0.1


def test_the_interval_of_r2_is_students_over_the_runs() -> None:
    chance = np.random.default_rng(5)
    covered = 0
    for _ in range(1000):
        found = predict("m", chance.gamma(8, 0.2 / 8, 8))
        covered += found.low <= 0.8 <= found.high
    assert 0.92 < covered / 1000 < 0.97
    r2 = np.array([0.9, 0.8, 0.85])
    found = predict("m", 1 - r2)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 2, r2.mean(), stats.sem(r2)))
    assert predict("m", np.array([0.0, 0.01])).high == 1


def test_correlations_are_combined_over_runs_on_fishers_scale() -> None:
    chance = np.random.default_rng(6)
    runs = [chance.normal(size=(60, 3)) @ chance.normal(size=(3, 3)) for _ in range(7)]
    tree = join(runs, ["x", "y", "z"], 0.9)
    z = fisher([stats.spearmanr(run[:, 0], run[:, 2]).statistic for run in runs])
    found = tree.correlation("z", "x")
    low, high = stats.t.interval(0.95, 6, z.mean(), stats.sem(z))
    expected = from_fisher([z.mean(), low, high])
    assert (found.rho, found.low, found.high) == pytest.approx(tuple(expected))
    assert tree.cut == pytest.approx(1 - np.sqrt(0.9))


def test_a_time_is_spent_on_the_metrics_that_give_the_most() -> None:
    runs = _mixtures(np.random.default_rng(1))
    cost = Cost(10, 3.0, at_once=2)
    assert (cost.passes(list("abc")), cost.time(list("abc"))) == (2, 60.0)
    found = _choice(runs, cost=cost, hours=31 / 3600)
    assert found.recommended is not None
    assert len(found.recommended.chosen) == 2
    assert found.headline() == (
        "2 of 9 metrics that fit the time predict 1 of the other 7 to R² 0.95 in runs held back: 3b+c and 5a; not "
        "shown: 2a+b, a+4c, a+b+c, b, c and noise"
    )
    wider = _choice(runs, cost=replace(cost, at_once=3), hours=31 / 3600)
    assert wider.headline().startswith("3 of 9 metrics that fit the time predict 5 of the other 6 to R² 0.95")
    enough = _choice(runs, cost=cost, hours=1)
    assert enough.recommended is enough.enough
    with pytest.raises(DataError, match=r"10 runs of one pass take 30 s, more than 18 s: give at least 0\.01 hours"):
        _choice(runs, cost=cost, hours=0.005)
    with pytest.raises(DataError, match="does not know how long its runs took"):
        _choice(runs, cost=Cost(10, None), hours=1)


def test_the_result_as_frame_dictionary_and_tables() -> None:
    found = _choice(_mixtures(np.random.default_rng(1)), simulated=["a"], notes=["A note."])
    frame = found.to_frame()
    assert frame.filter(pl.col("size") == 4)["predicted"].all()
    assert frame.columns == ["size", "chosen", "metric", "r2", "low", "high", "predicted"]
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["enough"], told["unpredicted"], told["simulated"]) == (4, ["noise"], ["a"])
    assert [len(step["chosen"]) for step in told["steps"]] == list(range(1, 9))
    assert told["notes"] == ["A note."]
    steps, metrics, clusters = found.tables()
    assert len(steps.rows) == 8
    assert [len(metrics.rows), len(clusters.rows)] == [9, 1]
    assert "<table" in found._repr_html_()


def test_runs_that_cannot_be_used_are_refused_and_metrics_left_out() -> None:
    runs = _mixtures(np.random.default_rng(1), runs=5)
    for values in runs.values():
        values[:, 0] = 0
    next(iter(runs.values()))[7, 1] = np.nan
    found = _choice(runs)
    assert found.excluded == (
        ("2a+b", "zero in every interval of run 0000"),
        ("3b+c", "without a value in an interval of run 0000"),
    )
    with pytest.raises(DataError, match="4 runs, but at least 5 are needed"):
        _choice(dict(list(runs.items())[:4]))
    with pytest.raises(DataError, match="run 0000 has 20 intervals, but at least 30 are needed"):
        _choice({name: values[:20] for name, values in runs.items()})
    with pytest.raises(DataError, match="there is one metric to choose from: "):
        choose_metrics({name: values[:, [0, 2]] for name, values in runs.items()}, "xy", target=0.9, cost=COST)
    short = _choice({name: values[:40] for name, values in _mixtures(np.random.default_rng(1)).items()})
    assert len(short.steps) == 4
    assert short.notes == ("Choices of more than 4 metrics need longer runs: 10 intervals for each chosen metric.",)


def test_negative_values_keep_their_scale() -> None:
    values = np.array([[4.0, -1.0], [9.0, 4.0]])
    assert rescale(values, "sqrt").tolist() == [[2.0, -1.0], [3.0, 4.0]]
    assert rescale(values, "count") is values


def test_cycles_that_are_a_formula_are_said_to_be_predicted() -> None:
    runs = {name: values[:, :3] for name, values in _noise(np.random.default_rng(6), 9).items()}
    names = ["PAPI_TOT_CYC", "a", "b"]
    for simulated in ((), names):
        choice = choose_metrics(runs, names, target=0.95, cost=COST, simulated=simulated)
        assert any("PAPI_TOT_CYC is simulated" in note for note in choice.notes) == bool(simulated)


def test_metrics_that_vary_at_the_ends_alone_are_named() -> None:
    runs = _noise(np.random.default_rng(5), 9)
    for values in runs.values():
        values[1:-1, 2:4] = 50
    choice = _choice(runs)
    (note,) = (note for note in choice.notes if "one value" in note)
    assert note.startswith("`a+4c` and `a+b+c` have one value in all intervals of each run but at most 2, often")
