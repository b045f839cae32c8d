import numpy as np
import pytest

from tests.analysis import simulate
from tests.analysis.perturbation import naive
from unperturbed.analysis.alignment import align_as_paper
from unperturbed.analysis.alignment.prepared_runs import align_prepared
from unperturbed.analysis.perturbation import Baseline, combine_checks, outer_correlations
from unperturbed.analysis.perturbation.baseline import OUTER_RUNS
from unperturbed.analysis.perturbation.outer import OuterSettings, checked_outer_z
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

NAMES = ("H0", "H1", "H2")


@pytest.fixture(scope="module")
def program():
    correlation = simulate.equicorrelated(3, 0.2)
    return simulate.program(np.random.default_rng(0), correlation=correlation, intervals=60, shared=0.9)


@pytest.fixture(scope="module")
def baseline(program):
    return Baseline(simulate.runs(program, np.random.default_rng(1), 5), metrics=NAMES)


def test_equals_the_naive_correlation_after_alignment(program):
    first, second = simulate.runs(program, np.random.default_rng(2), 2)
    for anchor in (None, simulate.MILESTONE):
        path = align_as_paper(first, second, on=("H0",), anchor=anchor)
        expected = [naive.outer(path, first[name], second[name]) for name in NAMES]
        assert outer_correlations(first, second, NAMES, align_on=("H0",), anchor=anchor) == pytest.approx(expected)


def test_the_literal_reading_correlates_over_path_elements(program):
    first, second = simulate.runs(program, np.random.default_rng(3), 2)
    path = align_as_paper(first, second, on=("H0",))
    expected = [naive.spearman(first[name][path.x_index], second[name][path.y_index]) for name in NAMES]
    literal = outer_correlations(first, second, NAMES, align_on=("H0",), literal=True)
    assert literal == pytest.approx(expected)
    assert not np.allclose(literal, outer_correlations(first, second, NAMES, align_on=("H0",)))


def test_a_run_aligned_with_itself_correlates_perfectly(program):
    run = simulate.run(program, np.random.default_rng(4))
    assert outer_correlations(run, run, NAMES, align_on=("H1",)) == pytest.approx(np.ones(3))


def test_every_run_is_held_against_the_baseline_runs_in_the_same_way(program, baseline):
    checked = simulate.runs(program, np.random.default_rng(5), 2, configuration="counted")
    verdict = baseline.outer(checked, align_on=("H0",), anchor=simulate.MILESTONE)
    runs = baseline.traces

    def pair(reference, run):
        path = align_as_paper(reference, run, on=("H0",), anchor=simulate.MILESTONE)
        return [naive.fisher(naive.outer(path, reference[name], run[name])) for name in NAMES]

    def against(run, references):
        return [naive.from_fisher(mean) for mean in np.mean([pair(reference, run) for reference in references], axis=0)]

    expected_reference = [against(run, [other for other in runs if other is not run]) for run in runs]
    expected_observed = [against(run, runs) for run in checked]
    matrix = [[pair(first, second) for second in runs] for first in runs]
    assert [(change.first, change.second, change.check) for change in verdict.changes] == [
        (n, n, "outer") for n in NAMES
    ]
    for at, change in enumerate(verdict.changes):
        assert change.reference == pytest.approx([row[at] for row in expected_reference])
        assert change.observed == pytest.approx([row[at] for row in expected_observed])
        of_pairs = naive.pair_variance([[cell[at] for cell in row] for row in matrix])
        expected = naive.compare_outer(change.reference, change.observed, of_pairs, 0.05, baseline.tolerance)
        found = change.effect, change.low, change.high, change.p, change.p_beyond
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert change.aligned_on == (change.first == "H0")
        assert change.label == NAMES[at]


def test_a_metric_that_shares_events_with_the_aligning_one_is_noted(program):
    def with_ipc(run):
        ipc = Metric("IPC", "derived", semantics="gauge", components=("simulation:H0", "simulation:H1"))
        described = [*run.metrics.values(), ipc]
        columns = {**run.columns, "IPC": run["H0"] / run["H1"]}
        return Trace.from_columns(
            described, columns, begin_ns=run.begin_ns, end_ns=run.end_ns, attributes=run.attributes
        )

    runs = [with_ipc(run) for run in simulate.runs(program, np.random.default_rng(6), 7)]
    verdict = Baseline(runs[:5]).outer(runs[5:])
    notes = {change.first: change.note for change in verdict.changes}
    assert "shares events with IPC, on which the runs were aligned" in notes["H0"]
    assert "shares" not in notes["H2"]
    assert [change.first for change in verdict.changes if change.aligned_on] == ["IPC"]


def test_alignment_of_the_baseline_is_done_once(program, baseline, monkeypatch):
    from unperturbed.analysis.perturbation import outer

    aligned = []
    monkeypatch.setattr(outer, "align_prepared", lambda *runs: (aligned.append(runs), align_prepared(*runs))[1])
    run = simulate.run(program, np.random.default_rng(7))
    fresh = Baseline(baseline.traces, metrics=NAMES)
    fresh.outer(run, align_on=("H0",))
    assert len(aligned) == 10 + 5
    fresh.outer(run, align_on=("H0",))
    assert len(aligned) == 10 + 5 + 5
    fresh.outer(run, align_on=("H1",))
    assert len(aligned) == 20 + 15


def test_a_lost_correspondence_is_perturbed(program, baseline):
    rng = np.random.default_rng(8)
    spoilt = simulate.runs(program, rng, 4, shared=0.2, configuration="spoilt")
    verdict = baseline.outer(spoilt, align_on=("H0",), anchor=simulate.MILESTONE)
    assert verdict.verdict == "perturbed"
    assert all(change.effect < -0.1 for change in verdict.changes if not change.aligned_on)
    assert combine_checks("spoilt", baseline.inner(spoilt), verdict).verdict == "perturbed"


def test_runs_that_did_other_work_cannot_be_anchored(program, baseline):
    longer = simulate.program(np.random.default_rng(9), correlation=program.correlation, intervals=80)
    with pytest.raises(DataError, match="MILESTONE occurred 12 times in one run and 16 times in the other"):
        baseline.outer(simulate.run(longer, np.random.default_rng(10)), align_on=("H0",), anchor=simulate.MILESTONE)


def test_a_metric_that_aligning_flattens_is_left_out_with_the_reason(program, baseline):
    rng = np.random.default_rng(11)
    run = simulate.run(program, rng)
    # One event, in an interval that shares its partner with many others: after alignment nothing is left of it but a
    # constant.
    flat = {**run.columns, "H2": np.zeros(len(run), int)}
    stopped = Trace.from_columns(
        run.metrics.values(), flat, begin_ns=run.begin_ns, end_ns=run.end_ns, attributes=run.attributes
    )
    verdict = baseline.outer([stopped], align_on=("H0",))
    assert [change.first for change in verdict.changes] == ["H0", "H1"]
    assert verdict.excluded == (("H2", "zero in every interval of run run"),)
    assert verdict.verdict != "unperturbed"


@pytest.mark.parametrize("intervals", [60, 1500], ids=["few", "many"])
@pytest.mark.parametrize("levels", [4, 10_000], ids=["ties", "no ties"])
def test_the_compiled_correlation_equals_the_one_of_whole_matrices(intervals, levels):
    chance = np.random.default_rng(intervals + levels)
    sizes = intervals, intervals + 11
    names = ("a", "b", "flat", "still")

    def trace(n):
        columns = {name: chance.integers(0, levels, n) for name in names[:2]}
        columns |= {"flat": np.full(n, 3), "still": np.r_[np.zeros(n - 1, int), 1] if n == sizes[1] else np.arange(n)}
        return Trace.from_columns(
            [Metric(name, "hardware") for name in names], columns, begin_ns=np.arange(n), end_ns=np.arange(n) + 1
        )

    first, second = (trace(size) for size in sizes)
    settings = OuterSettings(tuple((name, name) for name in names), ("a", "b"))
    for one, other in ((first, second), (second, first)):
        path = settings.align(one, other)
        expected = settings.correlate(path, one.values(names).astype(float), other.values(names).astype(float))
        found = checked_outer_z([one], [other], settings)[0, 0]
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert np.isnan(found).tolist() == [False, False, True, False]


def test_runs_are_aligned_to_forty_of_a_large_baseline_evenly_over_its_order(program):
    runs = simulate.runs(program, np.random.default_rng(8), 90)
    large = Baseline(runs, metrics=NAMES)
    assert len(large.outer_runs) == OUTER_RUNS
    assert (large.outer_runs[0], large.outer_runs[-1]) == (large.runs[0], large.runs[-1])
    steps = np.diff([large.runs.index(run) for run in large.outer_runs])
    assert set(steps.tolist()) <= {2, 3}
    verdict = large.outer(simulate.runs(program, np.random.default_rng(9), 3, configuration="c"), align_on=("H0",))
    assert {change.reference_runs for change in verdict.changes} == {large.outer_runs}
    assert all(len(change.reference) == OUTER_RUNS for change in verdict.changes)
    checked = simulate.runs(program, np.random.default_rng(9), 3, configuration="c")
    alone = large.outer(checked, align_on=("H0",), against=simulate.run(program, np.random.default_rng(10)))
    assert len(alone.changes[0].reference) == OUTER_RUNS
