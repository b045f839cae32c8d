"""The inner check with as little as one baseline run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.analysis import simulate
from unperturbed.analysis.perturbation import inner_by_bootstrap
from unperturbed.errors import DataError


@pytest.fixture(scope="module")
def program():
    return simulate.program(
        np.random.default_rng(1), correlation=simulate.equicorrelated(3, 0.6), intervals=1500, phi=0.5, run_effect=0.0
    )


def test_one_baseline_run_gives_a_verdict_that_says_it_is_weaker(program):
    rng = np.random.default_rng(2)
    reference = simulate.run(program, rng, name="b")
    same = inner_by_bootstrap(reference, simulate.runs(program, rng, 3, configuration="same"), tolerance=0.3)
    other = inner_by_bootstrap(
        reference, simulate.runs(program, rng, 2, configuration="other", correlation=simulate.equicorrelated(3, 0.1))
    )
    assert (same.verdict, other.verdict) == ("unperturbed", "perturbed")
    assert same.method == "bootstrap"
    assert same.notes[0].startswith("one baseline run: the variation between runs was estimated within runs")
    assert other.configuration == "other"
    assert all(change.runs_to_decide is None for change in other.changes)


def test_it_is_the_same_with_the_same_seed(program):
    rng = np.random.default_rng(3)
    runs = simulate.runs(program, rng, 3)
    first, second, third = (inner_by_bootstrap(runs[:2], runs[2], seed=seed) for seed in (5, 5, 6))
    assert first == second
    assert first.changes[0].standard_error != third.changes[0].standard_error
    assert first.notes[0].startswith("2 baseline runs:")


def test_runs_that_cannot_be_compared_are_refused(program):
    rng = np.random.default_rng(5)
    one, two = simulate.runs(program, rng, 2)
    with pytest.raises(DataError, match="program is another"):
        inner_by_bootstrap(one, replace(two, attributes={**two.attributes, "program": "another"}))
    with pytest.raises(DataError, match=r"must vary, and they must not count the same events\): measure more hardware"):
        inner_by_bootstrap(one, two, metrics=["H0"])
    with pytest.raises(DataError, match="not count the same events; `focus` must name at least one of them"):
        inner_by_bootstrap(one, two, focus=["MILESTONE"])
    with pytest.raises(DataError, match="there is no baseline run: give at least one"):
        inner_by_bootstrap([], two)


def _with(trace, **columns):
    """Return a trace with other values of some metrics."""
    return replace(trace, columns={**trace.columns, **columns})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [30, 300])
def test_metrics_that_hardly_vary_or_move_together_have_finite_intervals(n):
    rng = np.random.default_rng(7)
    made = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.6), intervals=n, run_effect=0.0)
    runs = []
    for run in simulate.runs(made, rng, 4):
        rare = np.zeros(len(run), np.int64)
        rare[n // 3] = 1
        twin = run.columns["H1"]
        runs.append(_with(run, H0=rare, H2=twin))
    found = inner_by_bootstrap(runs[:2], runs[2:], metrics=["H0", "H1", "H2"])
    assert len(found.changes) == 3
    for change in found.changes:
        assert np.isfinite([change.low, change.high, change.p, change.p_beyond, change.smallest_visible]).all()


@pytest.mark.filterwarnings("error")
def test_a_pair_without_an_estimate_is_lost(program, monkeypatch):
    rng = np.random.default_rng(8)
    runs = simulate.runs(program, rng, 3)

    def unknown(ranks, first, second, rng):
        return np.where(np.arange(len(first)) < unknown.count, np.nan, 0.1)

    monkeypatch.setattr("unperturbed.analysis.perturbation.bootstrap.bootstrap_error", unknown)
    unknown.count = 1
    found = inner_by_bootstrap(runs[:1], runs[1:], metrics=["H0", "H1", "H2"], tolerance=1.0)
    assert found.verdict == "undecided"
    assert [change.verdict for change in found.changes] == ["unperturbed"] * 2
    assert found.lost == (("H0 – H1", found.lost[0][1]),)
    assert "cannot be estimated" in found.lost[0][1]
    unknown.count = 3
    none = inner_by_bootstrap(runs[:1], runs[1:], metrics=["H0", "H1", "H2"])
    assert (none.verdict, none.changes, len(none.lost)) == ("undecided", (), 3)
