import json
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis import simulate
from tests.analysis.perturbation import naive
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError


@pytest.fixture(scope="module")
def program():
    return simulate.program(
        np.random.default_rng(0), correlation=simulate.equicorrelated(4, 0.5), intervals=80, phi=0.5
    )


@pytest.fixture(scope="module")
def baseline_runs(program):
    return simulate.runs(program, np.random.default_rng(1), 6)


def changed(trace, *, metrics=None, columns=None, attributes=None, length=None):
    """The same run with some metrics, columns or attributes replaced, or cut short."""
    described = {**trace.metrics, **(metrics or {})}
    values = {**trace.columns, **(columns or {})}
    upto = slice(length)
    return Trace.from_columns(
        [metric for metric in described.values() if metric is not None],
        {name: column[upto] for name, column in values.items()},
        begin_ns=trace.begin_ns[upto],
        end_ns=trace.end_ns[upto],
        attributes={**trace.attributes, **(attributes or {})},
    )


def test_correlations_are_spearmans_run_by_pair(baseline_runs):
    baseline = Baseline(baseline_runs)
    assert baseline.metrics == ("H0", "H1", "H2", "H3", "PAPI_TOT_INS")
    assert baseline.runs == tuple(f"baseline-{number}" for number in range(6))
    assert len(baseline.pairs) == 10
    assert baseline.correlations.shape == (6, 10)
    for run, trace in enumerate(baseline_runs):
        for pair, (first, second) in enumerate(baseline.pairs):
            assert baseline.correlations[run, pair] == pytest.approx(naive.spearman(trace[first], trace[second]))


def test_inner_verdict_equals_the_textbook(program, baseline_runs):
    checked = simulate.runs(program, np.random.default_rng(2), 3, configuration="counted")
    baseline = Baseline(baseline_runs, name="pure")
    verdict = baseline.inner(checked)
    assert (verdict.configuration, verdict.reference) == ("counted", "pure")
    assert [(change.first, change.second) for change in verdict.changes] == list(baseline.pairs)
    corrected = naive.holm([change.p for change in verdict.changes])
    for change, p in zip(verdict.changes, corrected, strict=True):
        assert change.check == "inner"
        assert change.observed == pytest.approx(
            [naive.spearman(run[change.first], run[change.second]) for run in checked]
        )
        assert change.observed_runs == ("counted-0", "counted-1", "counted-2")
        expected = naive.compare(change.reference, change.observed, 0.05, baseline.tolerance)
        found = change.effect, change.low, change.high, change.p, change.p_beyond
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert change.p_corrected == pytest.approx(p)
        assert not change.aligned_on
    assert json.loads(json.dumps(verdict.to_json(), allow_nan=False))["configuration"] == "counted"


def test_one_run_can_be_checked_alone(program, baseline_runs):
    verdict = Baseline(baseline_runs).inner(simulate.run(program, np.random.default_rng(3)))
    assert all(len(change.observed) == 1 for change in verdict.changes)
    assert verdict.verdict == "undecided"


def test_a_planted_change_is_found_and_named(program, baseline_runs):
    rng = np.random.default_rng(4)
    cut_off = simulate.with_pair(program.correlation, (0, 2), 0.05)
    long = replace(program, profile=np.tile(program.profile, (6, 1)))
    verdict = Baseline(simulate.runs(long, rng, 10)).inner(
        simulate.runs(long, rng, 4, correlation=cut_off, configuration="spoilt")
    )
    found = [change.label for change in verdict.changes if change.verdict == "perturbed"]
    assert found == ["H0 – H2"]
    assert verdict.verdict == "perturbed"
    assert verdict.changes[1].effect == pytest.approx(-0.45, abs=0.1)
    assert verdict.changes[1].high < -0.1


def test_pairs_that_share_an_event_and_metrics_of_other_kinds_are_left_out(baseline_runs):
    extra = {
        "IPC": Metric("IPC", "derived", semantics="gauge", components=("simulation:PAPI_TOT_INS", "simulation:H0")),
        "PER_CALL": Metric("PER_CALL", "derived", components=("simulation:H0", "instrumentation:call")),
        "CALLS": Metric("CALLS", "software", source="instrumentation"),
        "SWITCHES": Metric("SWITCHES", "os", source="getrusage"),
    }
    rng = np.random.default_rng(5)
    traces = [
        changed(run, metrics=extra, columns={name: rng.random(len(run)) for name in extra}) for run in baseline_runs
    ]
    baseline = Baseline(traces)
    assert baseline.metrics == ("H0", "H1", "H2", "H3", "PAPI_TOT_INS", "IPC")
    assert ("PAPI_TOT_INS", "IPC") not in baseline.pairs
    assert ("H0", "IPC") not in baseline.pairs
    assert ("H1", "IPC") in baseline.pairs
    excluded = dict(baseline.excluded)
    assert excluded["PAPI_TOT_INS – IPC"] == "correlated by construction"
    assert "derived from metrics other than the hardware and simulated metrics" in excluded["PER_CALL"]
    assert "CALLS" not in excluded
    asked = Baseline(traces, metrics=["H0", "SWITCHES", "CALLS", "H1"])
    assert asked.metrics == ("H0", "SWITCHES", "CALLS", "H1")
    kept = [replace(run, metrics={name: run.metrics[name] for name in ("SWITCHES", "CALLS")}) for run in traces]
    assert Baseline(kept).metrics == ("SWITCHES",)


def test_a_focus_compares_only_what_holds_one_of_its_metrics(program, baseline_runs):
    baseline = Baseline(baseline_runs, metrics=["H0", "H1", "H2"], focus=["H2"])
    assert baseline.pairs == (("H0", "H2"), ("H1", "H2"))
    checked = simulate.runs(program, np.random.default_rng(11), 3)
    everything = Baseline(baseline_runs, metrics=["H0", "H1", "H2"])
    assert baseline.inner(checked).changes[0].p == pytest.approx(everything.inner(checked).changes[1].p)
    outer = baseline.outer(checked, align_on=("H0",))
    assert [change.first for change in outer.changes] == ["H2"]
    assert outer.changes[0].p == pytest.approx(everything.outer(checked, align_on=("H0",)).changes[2].p)


def test_metrics_that_do_not_vary_are_excluded_by_name(baseline_runs):
    zero, flat = np.zeros(200, int), np.full(200, 7)
    traces = [changed(run, columns={"H1": zero[: len(run)]}) for run in baseline_runs]
    traces[3] = changed(traces[3], columns={"H2": flat[: len(traces[3])]})
    baseline = Baseline(traces)
    assert baseline.metrics == ("H0", "H3", "PAPI_TOT_INS")
    excluded = dict(baseline.excluded)
    assert excluded["H1"] == "zero in every interval of run baseline-0"
    assert excluded["H2"] == "constant in every interval of run baseline-3"
    assert np.isfinite(baseline.correlations).all()


def test_a_metric_that_varies_in_few_intervals_is_not_compared_beside_others(baseline_runs):
    def bursts(run, lengths):
        ones = np.zeros(len(run), int)
        for at in range(lengths):
            ones[at * 13] = 9 + at
        return changed(run, columns={"H1": ones})

    baseline = Baseline([bursts(run, 2) for run in baseline_runs])
    assert baseline.metrics == ("H0", "H2", "H3", "PAPI_TOT_INS")
    assert ("H1", "one value in all intervals of each run but at most 2") in baseline.excluded
    assert "H1" in Baseline([bursts(run, 6) for run in baseline_runs]).metrics
    one = [bursts(run, 2 + 4 * (at == 2)) for at, run in enumerate(baseline_runs)]
    assert "H1" in Baseline(one).metrics
    alone = Baseline([bursts(run, 2) for run in baseline_runs], metrics=["H1"])
    assert alone.metrics == ("H1",)


def test_a_derived_metric_alone_has_neither_pair_nor_total(baseline_runs):
    ratio = Metric("IPC", "derived", components=("simulation:H0",))
    runs = [changed(run, metrics={"IPC": ratio}, columns={"IPC": run["H0"] / 7}) for run in baseline_runs]
    stability = Baseline(runs, metrics=["IPC"]).stability()
    assert (stability.runs, stability.drift, stability.outliers) == (len(runs), (), ())


def test_a_metric_that_stops_varying_is_named_and_prevents_unperturbed(program, baseline_runs):
    rng = np.random.default_rng(6)
    checked = simulate.runs(program, rng, 3)
    checked[1] = changed(checked[1], columns={"H1": np.zeros(len(checked[1]), int)})
    baseline = Baseline(baseline_runs, tolerance=1.9)
    assert baseline.inner([checked[0], checked[2]]).verdict == "unperturbed"
    verdict = baseline.inner(checked)
    assert ("H1", "zero in every interval of run baseline-1") in verdict.excluded
    assert not [change for change in verdict.changes if "H1" in (change.first, change.second)]
    assert {change.verdict for change in verdict.changes} == {"unperturbed"}
    assert verdict.verdict == "undecided"


def test_metrics_that_follow_each_other_exactly_are_compared_without_nonsense(program, baseline_runs):
    def twin(run):
        return changed(run, metrics={"TWIN": Metric("TWIN", "hardware")}, columns={"TWIN": run["H0"] * 3 + 1})

    baseline = Baseline([twin(run) for run in baseline_runs], metrics=["H0", "TWIN"])
    assert baseline.correlations == pytest.approx(np.ones((6, 1)), abs=1e-12)
    rng = np.random.default_rng(7)
    same = baseline.inner([twin(run) for run in simulate.runs(program, rng, 3)])
    assert same.verdict == "unperturbed"
    assert "all reference runs have the same coefficient" in same.changes[0].note
    broken = [changed(twin(run), columns={"TWIN": run["H1"]}) for run in simulate.runs(program, rng, 3)]
    verdict = baseline.inner(broken)
    assert verdict.verdict == "perturbed"
    assert 0 < verdict.changes[0].p < 0.01


REFUSED = {
    "too few runs": (lambda runs: runs[:4], "4 runs, but at least 5"),
    "a run twice": (lambda runs: [*runs[:5], runs[0]], r"runs are given more than once \(baseline-0\)"),
    "identical runs": (
        lambda runs: [changed(runs[0], attributes={"run": str(number)}) for number in range(5)],
        "identical in every metric and interval.*vary the program.s layout in memory",
    ),
    "another interval": (lambda runs: [*runs[:5], changed(runs[5], attributes={"interval_ns": 5})], "interval .* is 5"),
    "another host": (lambda runs: [*runs[:5], changed(runs[5], attributes={"host": "other"})], "host is other"),
    "few intervals": (
        lambda runs: [*runs[:5], changed(runs[5], length=29)],
        "run baseline-5 has 29 intervals.*`unperturbed check CAMPAIGN --without baseline-5` checks the other runs",
    ),
    "few intervals in several runs": (
        lambda runs: [*runs[:3], *(changed(run, length=29) for run in runs[3:6])],
        "run baseline-3 has 29 intervals.*; 2 other runs of 6 have too few as well",
    ),
    "no intervals": (lambda runs: [*runs[:5], changed(runs[5], length=0)], "run baseline-5 has 0 intervals"),
    "other metrics": (
        lambda runs: [*runs[:5], changed(runs[5], metrics={"X": Metric("X", "os")}, columns={"X": runs[5]["H0"]})],
        "runs baseline-5 and baseline-0 have different metrics .in only one of the two: X",
    ),
    "another source": (
        lambda runs: [*runs[:5], changed(runs[5], metrics={"H0": Metric("H0", "simulated", source="callgrind")})],
        "'H0' has the kind simulated, but in the baseline it has the kind hardware: measure",
    ),
    "not finite": (
        lambda runs: [*runs[:5], changed(runs[5], columns={"H2": np.where(np.arange(len(runs[5])) == 9, np.nan, 1.5)})],
        "run baseline-5: metric 'H2' is nan in interval 9",
    ),
    "nothing varies": (
        lambda runs: [changed(run, columns={f"H{at}": np.ones(len(run)) for at in range(4)}) for run in runs],
        "no metric varies .H0 is constant",
    ),
    "software only": (
        lambda runs: [
            changed(run, metrics={name: None for name in run.metrics if name != "MILESTONE"}) for run in runs
        ],
        "none of the metrics can be compared .MILESTONE",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_baseline_that_cannot_be_trusted_is_refused(case, baseline_runs):
    spoil, message = REFUSED[case]
    metrics = ["H0", "H1", "H2", "H3"] if case == "nothing varies" else None
    with pytest.raises(DataError, match=message):
        Baseline(spoil(baseline_runs), metrics=metrics)


def test_checked_runs_that_do_not_fit_are_refused(program, baseline_runs):
    baseline = Baseline(baseline_runs)
    good = simulate.run(program, np.random.default_rng(8), name="good")
    cases = {
        "give at least one": [],
        "run baseline-2 belongs to baseline, and a run cannot be checked against itself": [baseline_runs[2]],
        "2 configurations .a, b.": [changed(good, attributes={"configuration": name}) for name in "ab"],
        "run good lacks metric 'H3'": [changed(good, metrics={"H3": None})],
        "host is None, the baseline's is simulated": [changed(good, attributes={"host": None})],
        "run good has 12 intervals": [changed(good, length=12)],
        "metric 'H1' is inf in interval 0": [changed(good, columns={"H1": np.full(len(good), np.inf)})],
    }
    for message, checked in cases.items():
        with pytest.raises(DataError, match=message):
            baseline.inner(checked)
        with pytest.raises(DataError, match=message):
            baseline.outer(checked, align_on=("H0",))


def test_wrong_arguments_are_refused(baseline_runs):
    for alpha in (0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="`alpha` is"):
            Baseline(baseline_runs, alpha=alpha)
    for tolerance in (-0.1, 2):
        with pytest.raises(ValueError, match=f"`tolerance` is {tolerance}: use a change of ρ from 0 to below 2"):
            Baseline(baseline_runs, tolerance=tolerance)
    with pytest.raises(DataError, match="no metric 'H9'"):
        Baseline(baseline_runs, metrics=["H9"])


def test_runs_without_a_name_are_named_by_position(program):
    rng = np.random.default_rng(9)
    nameless = [
        Trace.from_columns(run.metrics.values(), run.columns, begin_ns=run.begin_ns, end_ns=run.end_ns)
        for run in simulate.runs(program, rng, 7)
    ]
    verdict = Baseline(nameless[:5]).inner(nameless[5:])
    assert verdict.configuration == "checked"
    assert verdict.changes[0].reference_runs == tuple(f"baseline {number}" for number in range(1, 6))
    assert verdict.changes[0].observed_runs == ("checked 1", "checked 2")


def test_a_single_metric_has_no_pair_and_no_verdict(program, baseline_runs):
    verdict = Baseline(baseline_runs, metrics=["H0"]).inner(simulate.run(program, np.random.default_rng(10)))
    assert verdict.changes == ()
    assert verdict.verdict == "undecided"
