"""What holds of every search, whatever the program: on simulated programs with noise, drawn at random."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.partition import exact
from tests.analysis.partition.simulated import FastJudge, Oracle, Program, program
from unperturbed.analysis.partition import STRATEGIES, Measurement, Plan, SearchSettings, SubsetOutcome, search
from unperturbed.analysis.partition.certify import Certificate, best_choice

SMALL = {"hardware": 4, "touched": 2, "spread": (0.02, 0.06)}


@st.composite
def cases(draw):
    of = program(
        np.random.default_rng(draw(st.integers(0, 10**6))),
        metrics=draw(st.integers(3, 8)),
        changed=draw(st.sampled_from([(0.15, 0.35), (0.08, 0.14)])),
        **SMALL,
    )
    limit = draw(st.none() | st.integers(1, 150))
    chosen = SearchSettings(
        max_repetitions=draw(st.sampled_from([5, 12])), max_runs=limit, seed=draw(st.integers(0, 99))
    )
    return of, draw(st.integers(0, 10**6)), chosen, draw(st.sampled_from(sorted(STRATEGIES))), draw(st.booleans())


class Recorded:
    """Answers from what was recorded, and makes runs only beyond that; a judge round a judge, as a campaign is round
    its runs.

    `interrupt_at` raises in the middle of that measurement, before it is recorded.
    """

    def __init__(self, judge: FastJudge, answers: list[tuple], interrupt_at: int | None = None) -> None:
        self.judge, self.answers, self.interrupt_at = judge, answers, interrupt_at
        self.runs_per_repetition, self.baseline_runs = judge.runs_per_repetition, judge.baseline_runs
        self.at = 0
        self.repetitions_to_certify = judge.repetitions_to_certify

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        if repetitions:
            self._next(("explore", subset, repetitions))
        return self.judge.explore(subset, repetitions)

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        self._next(("certify", subset, repetitions))
        return self.judge.certify(subset, repetitions, level)

    def renew_baseline(self) -> None:
        self._next(("baseline", (), self.baseline_runs))
        self.judge.renew_baseline()

    def _next(self, asked: tuple) -> None:
        if self.at < len(self.answers):
            assert self.answers[self.at] == asked, "the search went another way"
        else:
            if len(self.answers) == self.interrupt_at:
                raise KeyboardInterrupt
            self.answers.append(asked)
        self.at += 1


def run(case, answers: list[tuple] | None = None, interrupt_at: int | None = None) -> Plan:
    of, seed, chosen, strategy, fresh = case
    judge = FastJudge(of, seed, references=10, fresh=fresh)
    return search(
        of.metrics, Recorded(judge, [] if answers is None else answers, interrupt_at), chosen, strategy=strategy
    )


@settings(max_examples=40)
@given(cases())
@pytest.mark.thorough
def test_every_metric_is_in_exactly_one_place(case):
    plan = run(case)
    places = [metric for each in (*plan.subsets, *plan.undecided) for metric in each.metrics]
    places += [each.metric for each in plan.unmeasurable]
    assert Counter(places) == Counter(case[0].metrics)


@settings(max_examples=40)
@given(cases())
@pytest.mark.thorough
def test_a_certified_subset_was_run_afresh_and_shown_unperturbed_at_its_level(case):
    plan = run(case)
    for subset in plan.subsets:
        certifying = [each for each in plan.history if each.stage == "certify" and each.subset == subset.metrics]
        assert any(
            each.outcome.verdict == "unperturbed"
            and each.level == subset.level
            and each.repetitions == subset.repetitions
            for each in certifying
        )
        assert subset.repetitions >= 3
    left = plan.alpha
    for each in plan.history:
        if each.stage == "certify":
            assert each.level == left / 2
            left -= 0 if each.outcome.unperturbed else each.level


@settings(max_examples=40)
@given(cases())
@pytest.mark.thorough
def test_max_runs_is_never_exceeded_and_runs_are_counted_as_made(case):
    answers: list[tuple] = []
    plan = run(case, answers)
    assert plan.runs_used == sum(repetitions for _, _, repetitions in answers)
    limit = case[2].max_runs
    assert limit is None or plan.runs_used <= limit
    assert plan.complete or plan.stopped.startswith("`max_runs`")


@settings(max_examples=40)
@given(cases())
@pytest.mark.thorough
def test_a_subset_is_begun_once_and_gets_at_most_the_repetitions_allowed(case):
    explored: dict[tuple[str, ...], list[Measurement]] = {}
    for each in run(case).history:
        if each.stage not in ("certify", "baseline"):
            explored.setdefault(each.subset, []).append(each)
    for measurements in explored.values():
        assert measurements[0].repetitions == 3
        # Only what is not shown yet gets more, and never more than the most.
        assert all(not each.outcome.unperturbed for each in measurements[:-1])
        assert all(each.repetitions <= each.outcome.repetitions <= 24 for each in measurements)


@settings(max_examples=15)
@given(cases(), st.data())
@pytest.mark.thorough
def test_interrupted_anywhere_and_started_again_it_goes_the_same_way_and_makes_no_run_twice(case, data):
    whole: list[tuple] = []
    uninterrupted = run(case, whole)
    at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
    answers: list[tuple] = []
    stopped = run(case, answers, interrupt_at=at)
    assert stopped.stopped == "interrupted" or len(whole) == 0
    assert answers == whole[:at]
    resumed = run(case, answers)
    assert answers == whole
    assert {**resumed.to_json(), "hours": 0} == {**uninterrupted.to_json(), "hours": 0}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.thorough
def test_found_subsets_are_valid_and_no_fewer_than_possible(strategy):
    """Against brute force, with a judge that knows the truth."""
    ratios = []
    for seed in range(25):
        of = program(np.random.default_rng(seed), metrics=8)
        plan = search(of.metrics, Oracle(of), SearchSettings(), strategy=strategy)
        valid = exact.validity(of)
        unmeasurable = {each.metric for each in plan.unmeasurable}
        fewest = exact.fewest(valid, sum(1 << at for at, metric in enumerate(of.metrics) if metric not in unmeasurable))
        assert all(of.is_valid(subset.metrics) for subset in plan.subsets)
        assert not plan.undecided
        assert not any(of.is_valid((metric,)) for metric in unmeasurable)
        assert len(plan.subsets) >= fewest
        ratios.append(len(plan.subsets) / fewest)
    assert np.mean(ratios) <= 1.15


@pytest.mark.thorough
def test_a_search_with_noise_finds_nearly_as_few_as_possible_and_certifies_nothing_invalid():
    ratios, invalid, certified = [], 0, 0
    for seed in range(12):
        of = program(np.random.default_rng([5, seed]), metrics=8)
        plan = search(of.metrics, FastJudge(of, seed), SearchSettings())
        valid = exact.validity(of)
        measurable = [of.metrics[at] for at in range(8) if valid[1 << at]]
        left = len(set(measurable) - {metric for subset in plan.subsets for metric in subset.metrics})
        ratios.append((len(plan.subsets) + left) / exact.fewest(valid, exact.measurable(valid)))
        invalid += sum(not of.is_valid(subset.metrics) for subset in plan.subsets)
        certified += len(plan.subsets)
    assert np.mean(ratios) <= 1.25
    assert invalid == 0 < certified


def naive_fewest(of: Program, metrics: tuple[str, ...]) -> int:
    """The fewest valid subsets that make up the metrics, over all partitions of them."""
    if not metrics:
        return 0
    first, rest = metrics[0], metrics[1:]
    best = 99
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            if of.is_valid((first, *others)):
                best = min(best, 1 + naive_fewest(of, tuple(one for one in rest if one not in others)))
    return best


def test_the_exact_number_of_subsets_is_that_of_all_partitions():
    for seed in range(20):
        of = program(np.random.default_rng(seed), metrics=6)
        valid = exact.validity(of)
        mask = exact.measurable(valid)
        assert exact.fewest(valid, mask) == naive_fewest(of, tuple(of.metrics[at] for at in range(6) if mask >> at & 1))


@given(
    st.lists(
        st.sets(st.sampled_from("abcdefg"), min_size=1).map(lambda each: tuple(sorted(each))), unique=True, max_size=7
    )
)
def test_the_choice_among_certificates_is_the_best_of_all(subsets):
    chosen = best_choice([Certificate(subset, SubsetOutcome("unperturbed", 3), 0.025) for subset in subsets])
    disjoint = [
        choice
        for size in range(len(subsets) + 1)
        for choice in combinations(subsets, size)
        if len(set("".join(map("".join, choice)))) == sum(map(len, choice))
    ]
    best = max((sum(map(len, choice)), -len(choice)) for choice in disjoint)
    assert (sum(len(each.subset) for each in chosen), -len(chosen)) == best
    assert tuple(each.subset for each in chosen) in disjoint
