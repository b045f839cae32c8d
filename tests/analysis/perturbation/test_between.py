"""Two single runs, held beside each other as runs of the baseline are."""

from dataclasses import replace

import numpy as np
import pytest

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline
from unperturbed.analysis.perturbation.compare_outer import compare_with_one_run
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError


def related(rng, runs, of_run, of_both):
    """Fisher's z of runs, by the model of `compare_outer`, around a correlation of .75."""
    b, e = rng.normal(0, of_run, runs), np.triu(rng.normal(0, of_both, (runs, runs)), 1)
    z = np.arctanh(0.75) + b[:, None] + b[None, :] + e + e.T
    np.fill_diagonal(z, 0)
    return z


@pytest.mark.parametrize("k", [6, 10])
@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize(("of_run", "of_both"), [(0.1, 0.1), (0.15, 0.02), (0.02, 0.15)])
def test_false_alarms_are_as_rare_as_said(k, r, of_run, of_both):
    rng = np.random.default_rng([k, r, round(100 * of_run)])
    trials = 1500
    z = np.stack([related(rng, k + 1 + r, of_run, of_both) for _ in range(trials)], axis=2)
    alarms = (compare_with_one_run(z[:k, :k], z[k, k + 1 :], intervals=165, alpha=0.05).p <= 0.05).sum()
    assert alarms / trials < 0.07
    # With few runs the parts of the variance are hard to tell apart, and a part cannot be less than nothing: then it is
    # rarer.
    assert alarms / trials > (0.025 if k == 10 else 0)


@pytest.mark.parametrize("r", [1, 3])
def test_a_fall_by_the_tolerance_is_rarely_accepted_or_called_perturbed(r):
    rng = np.random.default_rng([11, r])
    trials, k, fall = 1500, 10, 0.1
    z = np.stack([related(rng, k + 1 + r, 0.1, 0.05) for _ in range(trials)], axis=2)
    fallen = z[k, k + 1 :] - np.arctanh(0.75) + np.arctanh(0.75 - fall)
    compared = compare_with_one_run(z[:k, :k], fallen, intervals=165, alpha=0.05)
    assert ((compared.low > -fall) & (compared.high < fall)).mean() < 0.05
    assert ((compared.p_beyond(fall) <= 0.05) & (compared.high < -fall)).mean() < 0.05


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(8)
    program = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.3), intervals=300, shared=0.9)
    return (
        simulate.runs(program, rng, 8),
        simulate.runs(program, rng, 2, configuration="one"),
        simulate.runs(program, rng, 2, configuration="other", shared=0.1),
    )


def test_runs_that_align_as_baseline_runs_do_and_runs_that_do_not(runs):
    traces, like, unlike = runs
    baseline = Baseline(traces)
    good = baseline.outer(like[0], against=like[1], align_on=("H0",), anchor=simulate.MILESTONE)
    bad = baseline.outer(unlike[0], against=like[0], align_on=("H0",), anchor=simulate.MILESTONE)
    assert good.verdict != "perturbed"
    assert bad.verdict == "perturbed"
    assert min(change.effect for change in bad.changes) < -0.3
    assert max(abs(change.effect) for change in good.changes) < 0.15
    assert bad.notes == ("compared only with run one-0",)
    assert all(change.runs_to_decide is None for change in good.changes)


def test_a_baseline_run_may_be_the_one_and_is_then_no_part_of_what_is_usual(runs):
    traces, like, _ = runs
    against = Baseline(traces).outer(like[0], against=traces[2], align_on=("H0",))
    without = Baseline([trace for trace in traces if trace is not traces[2]]).outer(
        like[0], against=traces[2], align_on=("H0",)
    )
    assert [change.p for change in against.changes] == pytest.approx([change.p for change in without.changes])


def test_the_one_run_must_fit_too(runs):
    traces, like, _ = runs
    other = simulate.run(simulate.program(np.random.default_rng(9), correlation=np.eye(3)), np.random.default_rng(9))
    other = replace(other, attributes={**other.attributes, "host": "another"})
    with pytest.raises(DataError, match="host is another"):
        Baseline(traces).outer(like[0], against=other, align_on=("H0",))


def test_an_outer_correlation_without_spread_is_compared_by_the_error_within_a_run():
    # Z is 1 in the same six intervals of every run: its outer correlation is 1 in all of them.
    program = np.random.default_rng(4).standard_normal((100, 2))

    def with_event(where, configuration, seed):
        rng = np.random.default_rng(seed)
        ends = 10_000_000 * np.arange(1, 101)
        for number in range(6):
            x, y = (program + 0.3 * rng.standard_normal((100, 2))).T
            yield Trace.from_columns(
                [Metric(name, "hardware") for name in "XYZ"],
                {"X": x, "Y": y, "Z": np.arange(100) // 6 == where},
                begin_ns=ends - 10_000_000,
                end_ns=ends,
                attributes={"run": f"{configuration}-{number}", "configuration": configuration},
            )

    baseline = Baseline(tuple(with_event(1, "baseline", 1)))
    for where, verdict in ((1, "unperturbed"), (9, "perturbed")):
        found = baseline.outer(tuple(with_event(where, "checked", 2)), against=baseline.traces[0])
        change = found.changes[2]
        assert change.first == "Z"
        assert np.isfinite([change.effect, change.low, change.high, change.p, change.standard_error]).all()
        assert "within a run" in change.note
        assert change.verdict == verdict


def test_a_checked_run_that_is_given_twice_is_refused(runs):
    traces, like, _ = runs
    with pytest.raises(DataError, match=r"checked: runs are given more than once \(one-0\): give each run once"):
        Baseline(traces).inner([like[0], *like])
