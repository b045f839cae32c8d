"""The layer of traces: pooling, passes, levels, what is refused; and a whole partition by traces."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis import simulate
from tests.analysis.partition.traced import traced_program
from unperturbed.analysis.partition import Cost, Reference, SearchSettings, TraceJudge, partition, search
from unperturbed.analysis.partition.evaluation import by_cost
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

NAMES = ("H0", "H1", "H2")
MATRIX = simulate.equicorrelated(3, 0.5)
CHANGED = simulate.with_pair(MATRIX, (0, 1), -0.1)
TOLERANCE = 0.25


class Campaign:
    """Runs of a program that metric `loud` perturbs; every other metric leaves it alone."""

    def __init__(self, seed: int = 1, passes: tuple[str, ...] = (), loud_in: str = "") -> None:
        self.rng = np.random.default_rng(seed)
        self.program = simulate.program(
            self.rng, correlation=MATRIX, intervals=300, phi=0.3, shared=0.3, run_effect=0.02
        )
        self.passes, self.loud_in = passes, loud_in
        self.made = 0
        self.calls: list[tuple[tuple[str, ...], int]] = []

    def __call__(self, subset: tuple[str, ...], repetitions: int) -> list[Trace]:
        self.calls.append((subset, repetitions))
        return [self.run(subset, name) for name in self.passes or ("",) for _ in range(repetitions)]

    def run(self, subset: tuple[str, ...], name: str = "") -> Trace:
        self.made += 1
        loud = "loud" in subset and name == self.loud_in
        made = simulate.run(
            self.program,
            self.rng,
            correlation=CHANGED if loud else MATRIX,
            work=1 + 0.01 * len(subset),
            name=f"run-{self.made}",
            configuration="+".join(subset) or "baseline",
        )
        counted = {metric: np.full(len(made), 2) for metric in subset}
        return Trace.from_columns(
            [*made.metrics.values(), *(Metric(metric, "software", source="simulation") for metric in subset)],
            {**made.columns, **counted},
            begin_ns=made.begin_ns,
            end_ns=made.end_ns,
            attributes={**made.attributes, "pass": name},
        )

    def baseline(self, name: str = "", runs: int = 8, **options: float) -> Reference:
        traces = [self.run((), name) for _ in range(runs)]
        baseline = Baseline(traces, metrics=NAMES, **{"tolerance": TOLERANCE, **options})  # type: ignore[arg-type]
        return Reference(baseline, align_on=("H0",), anchor=simulate.MILESTONE)


@pytest.fixture(scope="module")
def campaign():
    return Campaign()


@pytest.fixture(scope="module")
def reference(campaign):
    return campaign.baseline()


def test_runs_of_a_subset_are_pooled_in_the_search_and_not_in_a_certification(campaign, reference):
    judge = TraceJudge(campaign, reference)
    first = judge.explore(("a",), 3)
    second = judge.explore(("a",), 2)
    assert (first.repetitions, second.repetitions) == (3, 5)
    assert second.runs[:3] == first.runs
    certified = judge.certify(("a",), 4, 0.025)
    assert certified.repetitions == 4
    assert not set(certified.runs) & set(second.runs)
    assert judge.explore(("a",), 0).runs == second.runs + certified.runs


def test_runs_from_before_a_search_count_in_it_and_not_in_a_certification(campaign, reference):
    before = campaign(("a", "b"), 5)
    judge = TraceJudge(campaign, reference, explored={("a", "b"): before})
    calls = len(campaign.calls)
    plan = search(("a", "b"), judge, SearchSettings(repetitions=3), explored=[("a", "b")])
    assert [(each.stage, each.subset) for each in plan.history] == [("certify", ("a", "b"))]
    (subset,) = plan.subsets
    assert campaign.calls[calls:] == [(("a", "b"), subset.repetitions)]
    assert not {trace.attributes["run"] for trace in before} & set(subset.runs)
    with pytest.raises(DataError, match="explored returned runs that were used before"):
        TraceJudge(campaign, reference, explored={("a",): reference.baseline.traces})


def test_inner_and_outer_changes_are_judged_together(campaign, reference):
    outcome = TraceJudge(campaign, reference).explore(("a", "b"), 3)
    assert outcome.verdict == "unperturbed"
    assert {change.check for change in outcome.evidence.changes} == {"inner", "outer"}
    assert outcome.evidence.configuration == "a + b"
    assert outcome.carried == ()


@pytest.mark.parametrize("perturbs", [False, True])
def test_runs_of_a_perturbed_anchor_are_no_reference(perturbs):
    campaign = Campaign(seed=5)
    runs = [
        replace(trace, columns={**trace.columns, "H1": np.sort(trace["H1"]) if perturbs else trace["H1"]})
        for trace in campaign((), 8)
    ]
    anchor = Baseline(runs, metrics=NAMES, tolerance=0.1, name="anchor")
    both = replace(campaign.baseline(tolerance=0.1), outer=anchor)
    assert both.anchor_perturbs is perturbs
    inner, outer = both.check(campaign(("a",), 3), 0.05)
    assert (inner.reference, outer.reference) == ("baseline", "baseline" if perturbs else "anchor")
    assert both.runs == 16


def test_a_perturbed_subset_says_what_shows_it(campaign, reference):
    outcome = TraceJudge(campaign, reference).explore(("a", "loud"), 3)
    assert outcome.verdict == "perturbed"
    assert outcome.carried[0].startswith("inner H0 – H1 -0.")
    assert outcome.repetitions_to_accept is None


def test_a_certification_is_made_at_its_level_and_leaves_the_baseline_as_it_was(campaign, reference):
    judge = TraceJudge(campaign, reference)
    searched = judge.explore(("a",), 3)
    certified = judge.certify(("a",), 3, 0.001)
    assert searched.evidence.alpha == 0.05
    assert certified.evidence.alpha == 0.001
    assert reference.baseline.alpha == 0.05

    def width(outcome):
        return np.mean([change.high - change.low for change in outcome.evidence.changes])

    assert width(certified) > 1.5 * width(searched)


def test_cost_is_what_was_added_and_what_was_counted(campaign, reference):
    cost = TraceJudge(campaign, reference).explore(("a", "b"), 3).cost
    assert cost.instructions == pytest.approx(0.02, abs=0.005)
    assert cost.cycles is None
    assert cost.events == pytest.approx(4 * len(campaign.run(("a", "b"))), rel=0.1)


def test_a_subset_is_unperturbed_only_if_it_is_in_every_pass():
    campaign = Campaign(passes=("main", "caches"), loud_in="caches")
    judge = TraceJudge(campaign, {name: campaign.baseline(name) for name in campaign.passes})
    assert judge.runs_per_repetition == 2
    quiet, loud = judge.explore(("a",), 3), judge.explore(("loud",), 3)
    assert (quiet.verdict, loud.verdict) == ("unperturbed", "perturbed")
    assert len(quiet.runs) == 6
    assert len(quiet.evidence.changes) == 2 * 6


def test_a_metric_that_stops_varying_keeps_a_subset_from_being_unperturbed(campaign, reference):
    def stuck(subset, repetitions):
        return [
            replace(trace, columns={**trace.columns, "H2": np.zeros(len(trace), np.int64)})
            for trace in campaign(subset, repetitions)
        ]

    judge = TraceJudge(stuck, reference)
    outcome = judge.explore(("a",), 3)
    assert outcome.verdict == "undecided"
    assert outcome.repetitions_to_accept is None
    assert any("H2: zero in every interval" in each for each in outcome.carried)
    assert judge.repetitions_to_certify(("a",), 0.025, 20) is None


def test_a_fresh_baseline_is_what_certificates_are_held_against(campaign, reference):
    judge = TraceJudge(campaign, reference, fresh_baseline=campaign.baseline)
    assert judge.baseline_runs == 8
    judge.explore(("a",), 3)
    judge.renew_baseline()
    certified = judge.certify(("a",), 3, 0.025)
    assert not set(certified.evidence.changes[0].reference_runs) & set(reference.baseline.runs)
    assert judge.explore(("a",), 0).evidence.changes[0].reference_runs == reference.baseline.runs


def test_too_few_runs_are_refused(campaign, reference):
    judge = TraceJudge(lambda subset, repetitions: campaign(subset, repetitions)[1:], reference)
    with pytest.raises(DataError, match=r"measure\(\(a\), 3\) returned 2 traces instead of 3 traces: return 3 runs$"):
        judge.explore(("a",), 3)


def test_a_missing_pass_is_refused():
    campaign = Campaign(passes=("main",))
    judge = TraceJudge(campaign, {name: campaign.baseline(name) for name in ("main", "caches")})
    with pytest.raises(
        DataError, match="3 traces of pass main instead of 3 traces of pass main, 3 traces of pass caches: return 3"
    ):
        judge.explore(("a",), 3)


def test_runs_that_were_given_before_are_refused(campaign, reference):
    once = campaign(("a",), 3)
    judge = TraceJudge(lambda subset, repetitions: once, reference)
    judge.explore(("a",), 3)
    with pytest.raises(DataError, match=r"returned runs that were used before \(.*\): make fresh runs each time"):
        judge.certify(("a",), 3, 0.025)


def test_runs_that_are_given_twice_at_once_are_refused(campaign, reference):
    judge = TraceJudge(lambda subset, repetitions: campaign(subset, 1) * repetitions, reference)
    with pytest.raises(DataError, match=r"returned runs more than once \(.*\): make fresh runs each time"):
        judge.explore(("a",), 3)


def test_runs_from_anywhere_need_no_names(campaign):
    def nameless(subset, repetitions):
        attributes = ("run", "order")
        made = campaign(subset, repetitions)
        return [
            replace(run, attributes={key: run.attributes[key] for key in run.attributes.keys() - attributes})
            for run in made
        ]

    def baseline():
        return Baseline(nameless((), 8), tolerance=TOLERANCE)

    plan = partition(("a", "b"), nameless, baseline(), fresh_baseline=baseline)
    assert [subset.metrics for subset in plan.subsets] == [("a", "b")]


def test_baselines_of_different_tolerance_are_refused(campaign):
    baselines = {"main": campaign.baseline(), "caches": campaign.baseline(tolerance=0.3)}
    with pytest.raises(DataError, match=r"tolerances 0\.25, 0\.3"):
        TraceJudge(campaign, baselines)
    with pytest.raises(DataError, match="no pass has a baseline"):
        TraceJudge(campaign, {})


def test_a_fresh_baseline_of_another_kind_is_refused(campaign, reference):
    judge = TraceJudge(campaign, reference, fresh_baseline=lambda: campaign.baseline(tolerance=0.3))
    with pytest.raises(DataError, match="differs from the first in its passes or tolerance"):
        judge.renew_baseline()


def test_costs_are_compared_by_what_is_known_of_all():
    known = Cost(instructions=0.1, time=0.1, events=10)
    dear = Cost(instructions=None, time=0.2, events=1)
    assert by_cost({"a": known, "b": dear}, ["a", "b"]) == ("b", "a")
    assert by_cost({"a": known, "b": Cost(events=20)}, ["a", "b"]) == ("b", "a")
    assert by_cost({"a": known, "b": Cost()}, ["a", "b"]) == ("a", "b")
    assert by_cost({"a": known, "b": replace(known, instructions=0.05)}, ["a", "b"]) == ("a", "b")


def test_a_plain_baseline_is_enough(campaign):
    plain = campaign.baseline().baseline
    plan = partition(("a", "b"), campaign, plain, max_repetitions=6)
    assert [subset.metrics for subset in plan.subsets] == [("a", "b")]
    assert plan.tolerance == TOLERANCE


def test_a_partition_by_traces_puts_apart_what_perturbs_and_certifies_the_rest():
    campaign = Campaign(seed=2)
    reference = campaign.baseline(runs=10)
    before = campaign.made
    plan = partition(("a", "loud", "b", "c"), campaign, reference)
    assert [subset.metrics for subset in plan.subsets] == [("a", "b", "c")]
    assert [each.metric for each in plan.unmeasurable] == ["loud"]
    assert plan.runs_used == campaign.made - before
    certificate = plan.subsets[0]
    assert certificate.verdict.verdict == "unperturbed"
    searched = {run for each in plan.history if each.stage != "certify" for run in each.outcome.runs}
    assert len(certificate.runs) == certificate.repetitions
    assert not searched & set(certificate.runs)
    read = json.loads(json.dumps(plan.to_json()))
    assert read["subsets"][0]["verdict"]["changes"][0]["verdict"] == "unperturbed"
    assert read["unmeasurable"][0]["verdict"]["verdict"] == "perturbed"


@pytest.mark.thorough
def test_a_partition_by_recorded_traces_goes_on_where_it_was_interrupted():
    class Recorded:
        """As a campaign's folder: runs are kept by subset and number, and made only where there are none."""

        def __init__(self) -> None:
            self.campaign = Campaign(seed=3)
            self.reference = self.campaign.baseline()
            self.kept: dict[tuple[tuple[str, ...], int], list[Trace]] = {}
            self.stop_after = 10**9

        def measure(self):
            had: dict[tuple[str, ...], int] = {}

            def one(subset, repetitions):
                number = had[subset] = had.get(subset, 0) + 1
                if (subset, number) not in self.kept:
                    if len(self.kept) == self.stop_after:
                        raise KeyboardInterrupt
                    self.kept[subset, number] = self.campaign(subset, repetitions)
                return self.kept[subset, number]

            return one

        def partition(self):
            return partition(("a", "loud", "b"), self.measure(), self.reference, strategy="halving")

    uninterrupted = Recorded()
    whole = uninterrupted.partition()
    for stop_after in range(len(uninterrupted.kept)):
        recorded = Recorded()
        recorded.stop_after = stop_after
        stopped = recorded.partition()
        assert stopped.stopped == "interrupted"
        recorded.stop_after = 10**9
        resumed = recorded.partition()
        assert {**resumed.to_json(), "hours": 0} == {**whole.to_json(), "hours": 0}
        assert recorded.campaign.made == uninterrupted.campaign.made


@pytest.mark.thorough
def test_traces_of_a_program_with_interactions_are_partitioned_validly():
    work = traced_program(
        [3, 1], intervals=1000, metrics=4, hardware=4, pressures=1, conflicts=2, touched=1, rho=(0.0, 0.4)
    )
    plan = partition(work.of.metrics, work, work.baseline(12, tolerance=0.12), strategy="halving")
    assert plan.subsets
    assert all(work.of.is_valid(subset.metrics, 0.12) for subset in plan.subsets)
