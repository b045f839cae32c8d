"""Whether the baseline is steady itself."""

from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy import stats

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline
from unperturbed.analysis.perturbation.correlation import fisher
from unperturbed.analysis.perturbation.stability import (
    RunStatistics,
    Stability,
    advised_runs,
    find_drift,
    find_outliers,
)
from unperturbed.collectors.data import Trace


def columns(values, correlations=None, **least):
    values = np.asarray(values, float)
    return RunStatistics(
        tuple(f"column {at}" for at in range(values.shape[1])),
        values,
        values.shape[1] if correlations is None else correlations,
        **least,
    )


def test_drift_is_students_t_of_the_slope():
    rng = np.random.default_rng(1)
    values = rng.normal(0.5, 0.1, (12, 3))
    values[:, 1] += np.linspace(0, 0.5, 12)
    found = find_drift(columns(values, 0), range(12), alpha=0.05)
    line = stats.linregress(range(12), values[:, 1])
    assert [one.label for one in found] == ["column 1"]
    assert found[0].p_corrected == pytest.approx(3 * line.pvalue)
    assert (found[0].first, found[0].last) == pytest.approx((line.intercept, line.intercept + 11 * line.slope))


def test_a_run_apart_is_students_t_against_the_others():
    rng = np.random.default_rng(2)
    values = rng.normal(0.5, 0.1, (10, 4))
    values[6, 2] += 1.2
    found = find_outliers(columns(values, 0), [f"r{at}" for at in range(10)], alpha=0.05)
    others = np.delete(values[:, 2], 6).tolist()
    t = abs(values[6, 2] - fmean(others)) / (stdev(others) * np.sqrt(1 + 1 / 9))
    assert [(one.run, one.label) for one in found] == [("r6", "column 2")]
    assert found[0].p_corrected == pytest.approx(2 * stats.t.sf(t, 8) * 40)
    assert (found[0].value, found[0].others) == pytest.approx((values[6, 2], fmean(others)))


@pytest.mark.thorough
def test_steady_baselines_are_called_unsteady_as_rarely_as_said():
    rng = np.random.default_rng(3)
    drifts, aparts = 0, 0
    for _ in range(1500):
        values = columns(rng.normal(0.5, 0.1, (10, 20)))
        drifts += bool(find_drift(values, range(10), alpha=0.05))
        aparts += bool(find_outliers(values, [str(at) for at in range(10)], alpha=0.05))
    assert 0.03 < drifts / 1500 < 0.07
    assert 0.03 < aparts / 1500 < 0.07


def test_columns_without_variation_and_few_runs_say_nothing():
    same = columns(np.full((6, 2), 0.3))
    assert find_drift(same, range(6), alpha=0.05) == ()
    assert find_outliers(same, list("abcdef"), alpha=0.05) == ()
    few = columns(np.random.default_rng(4).normal(size=(3, 2)))
    assert find_drift(few, range(3), alpha=0.05) == ()
    assert find_outliers(few, list("abc"), alpha=0.05) == ()
    assert find_drift(columns(np.arange(6.0)[:, None]), [1.0] * 6, alpha=0.05) == ()


def test_the_advice_is_for_the_pair_that_needs_most():
    rng = np.random.default_rng(5)
    rho = 0.5 + rng.normal(0, 1, (10, 2)) * (0.01, 0.05)
    runs, widest = advised_runs(rho, ["quiet", "loud"], alpha=0.05, tolerance=0.1)
    assert widest == "loud"
    assert 3 < runs < 20
    assert advised_runs(rho, ["quiet", "loud"], alpha=0.05, tolerance=0.02)[0] > runs
    assert advised_runs(rho, ["quiet", "loud"], alpha=0.05, tolerance=0.0005) == (None, "quiet")
    assert advised_runs(np.full((6, 1), 0.5), ["same"], alpha=0.05, tolerance=0.1) == (3, "")


def test_totals_are_those_of_whole_runs():
    rng = np.random.default_rng(7)
    program = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.5), intervals=300, phi=0.3)
    whole = simulate.runs(program, rng, 8)
    cut = [trace[20:] for trace in whole]
    (name, *_) = whole[0].metrics
    values = {metric: np.array(whole[3][metric]) for metric in whole[3].metrics}
    values[name][:20] *= 10
    whole[3] = Trace.from_columns(
        list(whole[3].metrics.values()),
        values,
        begin_ns=whole[3].begin_ns,
        end_ns=whole[3].end_ns,
        attributes=whole[3].attributes,
    )
    said = f"the total of {name}"
    assert said not in str(Baseline(cut).stability().outliers)
    assert "Check this run, and leave it out" in str(Baseline(cut).stability(whole=whole).sentences())
    (outlier,) = (one for one in Baseline(cut).stability(whole=whole).outliers if one.label == said)
    totals = np.array([trace[name].sum() for trace in whole])
    assert outlier.value == pytest.approx(totals[3] / totals.mean())


def test_simulated_runs_of_equal_work_are_not_disturbed_by_the_host():
    rng = np.random.default_rng(6)
    program = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.5), intervals=1500, phi=0.3)
    runs = simulate.runs(program, rng, 9)
    runs.append(simulate.run(program, rng, correlation=simulate.equicorrelated(3, 0.0), name="odd"))
    for clock, said in (("work", "the size of the environment"), ("monotonic", "if something disturbed it")):
        simulated = [
            Trace.from_columns(
                [replace(metric, kind="simulated") for metric in run.metrics.values()],
                {name: run[name] for name in run.metrics},
                begin_ns=run.begin_ns,
                end_ns=run.end_ns,
                attributes={**run.attributes, "clock": clock},
            )
            for run in runs
        ]
        assert any("odd" in one and said in one for one in Baseline(simulated).stability().sentences())


def test_a_baseline_tells_how_steady_it_is():
    rng = np.random.default_rng(6)
    program = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.5), intervals=1500, phi=0.3)
    runs = simulate.runs(program, rng, 9)
    runs.append(simulate.run(program, rng, correlation=simulate.equicorrelated(3, 0.0), name="odd"))
    unsteady = Baseline(runs).stability({"baseline-3": "2.00 s stolen by other guests"})
    assert not unsteady.steady
    assert [one.run for one in unsteady.outliers] == ["odd"]
    assert unsteady.outliers[0].value < 0.2 < unsteady.outliers[0].others < 0.6
    said = unsteady.sentences()
    assert any(sentence.startswith("Baseline run odd is an outlier: ρ of H") for sentence in said)
    assert "Baseline run baseline-3 was made on a disturbed host: 2.00 s stolen by other guests." in said
    steady = Baseline(runs[:9]).stability()
    assert steady.steady
    assert steady.sentences() == ()
    assert steady.runs == 9
    assert steady.advised is None or steady.advised >= 3


def test_drift_is_told_in_the_order_in_which_runs_were_made():
    rng = np.random.default_rng(7)
    program = simulate.program(rng, correlation=simulate.equicorrelated(2, 0.5), intervals=1500, phi=0.3)
    runs = []
    for at, rho in enumerate(np.linspace(0.7, 0.2, 10)):
        one = simulate.run(program, rng, correlation=simulate.equicorrelated(2, rho), name=f"r{at}", run_effect=0.0)
        runs.append(replace(one, attributes={**one.attributes, "order": 10 - at}))
    found = Baseline(runs).stability()
    assert found.drift[0].label == "ρ of H0 and H1"
    assert found.drift[0].first < 0.35 < 0.55 < found.drift[0].last
    assert fisher(found.drift[0].last) > fisher(found.drift[0].first)
    assert found.sentences()[0].startswith("The baseline drifts: ρ of H0 and H1 changes from 0.")
    assert found.sentences()[0].endswith("Check what changed on the host during the campaign.")
    assert "do not depend on the host's load" in replace(found, repeatable=True).sentences()[0]


@pytest.mark.parametrize(
    ("level", "size", "spoken", "kind"),
    [
        (1.0, 1e-6, False, {"correlations": 0}),
        (1.0, 0.01, True, {"correlations": 0}),
        (0.5, 0.005, False, {"least_rho": 0.01}),
        (0.5, 0.05, True, {"least_rho": 0.01}),
        (2.5, 0.05, False, {"least_rho": 0.01}),  # near ρ = 1 a step on Fisher's scale is little of ρ
    ],
)
def test_of_what_hardly_moves_nothing_is_said(level, size, spoken, kind):
    """A deterministic simulation's totals vary by a millionth: any trend in that is significant, and none matters."""
    trend = level + size * np.linspace(0, 1, 10)[:, None]
    assert bool(find_drift(columns(trend, **kind), range(10), alpha=0.05)) == spoken
    apart = level + size * np.append(np.random.default_rng(8).normal(0, 0.05, 9), 1.0)[:, None]
    assert bool(find_outliers(columns(apart, **kind), list("abcdefghij"), alpha=0.05)) == spoken


def test_a_total_that_grows_in_every_run_points_to_state_between_runs():
    """As of a program that appends to its own file and reads it: a host makes no such line."""
    rng = np.random.default_rng(10)
    grown = np.linspace(0.736, 1.264, 10)[:, None]
    (drift,) = find_drift(columns(grown, 0), range(10), alpha=0.05)
    assert (drift.is_total, drift.grows_steadily) == (True, True)
    assert str(drift).startswith(f"{drift.label} changes from 74\u00a0% to 126\u00a0% of the mean, along a line")
    (said,) = Stability(10, (drift,), (), (), 10, "").sentences()
    assert "the program may keep state between runs, such as a file that grows" in said
    assert '`working_folder: "{scratch}"` in a spec' in said
    (falls,) = find_drift(columns(grown[::-1], 0), range(10), alpha=0.05)
    assert falls.grows_steadily
    order = rng.permutation(10)
    (shuffled,) = find_drift(columns(grown[order], 0), order.tolist(), alpha=0.05)
    assert shuffled.grows_steadily
    noisy = grown.copy()
    noisy[[4, 5]] = noisy[[5, 4]]
    (drift,) = find_drift(columns(noisy, 0), range(10), alpha=0.05)
    assert not drift.grows_steadily
    assert Stability(10, (drift,), (), (), 10, "").sentences()[0].endswith("on the host during the campaign.")


def test_columns_that_drift_together_are_told_in_one_sentence():
    rng = np.random.default_rng(9)
    values = np.linspace(0.1, 0.6, 10)[:, None] + rng.normal(0, 0.01, (10, 5))
    found = Stability(10, find_drift(columns(values), range(10), alpha=0.05), (), (), 10, "")
    (said,) = found.sentences()
    assert said.count(" changes from 0.") == 3
    assert "; and 2 more. " in said
