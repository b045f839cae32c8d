"""What the search does with a judge that answers by a script."""

from __future__ import annotations

import json

import pytest

from tests.analysis.partition.scripted import Scripted
from unperturbed.analysis.partition import STRATEGIES, Measurement, Plan, SearchSettings, search
from unperturbed.analysis.partition.certify import Certification
from unperturbed.analysis.partition.evaluation import CandidateEvaluator, Limits


def found(plan: Plan) -> set[str]:
    return {"".join(subset.metrics) for subset in plan.subsets}


def explored(judge: Scripted) -> list[str]:
    return [name for what, name, _ in judge.asked if what == "explore"]


def at_most(size: int):
    return lambda name: "unperturbed" if len(name) <= size else "perturbed"


def test_metrics_that_fit_together_take_one_candidate_and_one_certificate():
    judge = Scripted()
    plan = search("abcd", judge, SearchSettings())
    assert judge.asked == [("explore", "abcd", 3), ("certify", "abcd", 4)]
    assert [(subset.name, subset.metrics, subset.level) for subset in plan.subsets] == [
        ("subset-1", tuple("abcd"), 0.025)
    ]
    assert plan.complete
    assert plan.runs_used == judge.made == 7


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subsets_that_no_run_can_count_are_never_measured(strategy):
    judge = Scripted()
    plan = search("abcdefg", judge, SearchSettings(), strategy=strategy, fits=lambda subset: len(subset) <= 3)
    assert max(len(name) for _, name, _ in judge.asked) == 3
    assert len(plan.subsets) == 3
    assert plan.complete


def test_first_fit_takes_the_most_costly_metric_first():
    judge = Scripted(at_most(2), costs={"a": 0.01, "b": 0.03, "c": 0.02, "d": 0.04})
    search("abcd", judge, SearchSettings(), strategy="first-fit")
    assert explored(judge)[:9] == ["abcd", "a", "b", "c", "d", "bd", "bcd", "abd", "ac"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_fills_subsets_as_far_as_they_go(strategy):
    plan = search("abcdef", Scripted(at_most(3)), SearchSettings(), strategy=strategy)
    assert sorted(len(subset.metrics) for subset in plan.subsets) == [3, 3]
    assert plan.strategy == strategy


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_metric_that_perturbs_alone_is_unmeasurable_and_the_others_are_not_lost(strategy):
    judge = Scripted(lambda name: "perturbed" if "c" in name else "unperturbed")
    plan = search("abcd", judge, SearchSettings(), strategy=strategy)
    assert found(plan) == {"abd"}
    assert [each.metric for each in plan.unmeasurable] == ["c"]
    assert "perturbs the program when measured alone, in 3 repetitions: inner A – B" in plan.unmeasurable[0].reason
    assert "longer interval" in plan.unmeasurable[0].advice
    assert not any("c" in name and len(name) == 2 for name in explored(judge)) or strategy == "halving"


@pytest.mark.parametrize("strategy", ["first-fit", "restarts", "halving"])
def test_a_union_is_found_though_its_parts_perturb(strategy):
    """a and b change what c changes back: {a, b} is perturbed, {a, b, c} is not, and {a, b, c, d} is again."""
    perturbed = {"ab", "ac", "abcd", "abd", "acd", "bcd"}
    plan = search(
        "abcd",
        Scripted(lambda name: "perturbed" if name in perturbed else "unperturbed"),
        SearchSettings(),
        strategy=strategy,
    )
    assert len(plan.subsets) == 2
    assert not found(plan) & perturbed


def test_the_union_of_all_is_not_concluded_to_be_perturbed_from_a_part():
    plan = search("abc", Scripted({"ab": "perturbed", "a": "perturbed"}), SearchSettings())
    assert found(plan) == {"abc"}


def test_nothing_is_concluded_to_be_unperturbed_from_its_union():
    judge = Scripted({"abc": "unperturbed"}, certificates={"abc": ["undecided", "undecided"]})
    plan = search("abc", judge, SearchSettings())
    assert {name for what, name, _ in judge.asked if what == "certify"} >= found(plan)
    assert "abc" not in found(plan)


def test_an_undecided_subset_gets_more_runs_doubled_at_most():
    judge = Scripted(settled={"ab": 14})
    plan = search("ab", judge, SearchSettings(max_repetitions=20))
    assert [repetitions for what, name, repetitions in judge.asked if what == "explore"] == [3, 3, 6, 2]
    assert found(plan) == {"ab"}


def test_a_subset_that_needs_too_many_runs_gets_none_and_the_next_is_tried():
    judge = Scripted(settled={"ab": 30})
    plan = search("ab", judge, SearchSettings(max_repetitions=20))
    assert judge.asked[0] == ("explore", "ab", 3)
    assert explored(judge).count("ab") == 1
    assert found(plan) == {"a", "b"}


def test_a_metric_that_stays_undecided_alone_is_reported_so():
    judge = Scripted(settled={"a": 99, "ab": 99, "abc": 99, "ac": 99})
    plan = search("abc", judge, SearchSettings(max_repetitions=12))
    assert found(plan) == {"bc"}
    assert [each.metrics for each in plan.undecided] == [("a",)]
    assert "measured alone, undecided after 12 repetitions" in plan.undecided[0].reason
    assert judge.pool["a"] == 12


def test_a_metric_that_is_shifted_alone_is_not_given_up_as_perturbing_alone():
    """A change of −.07 [−.11, −.03] at a tolerance of .1: it is shown, and may lie within."""
    plan = search(
        "abc", Scripted({"a": "shifted", "ab": "perturbed", "ac": "perturbed", "abc": "perturbed"}), SearchSettings()
    )
    assert found(plan) == {"bc"}
    assert plan.unmeasurable == ()
    (left,) = plan.undecided
    assert left.metrics == ("a",)
    assert "measured alone, shifted after" in left.reason


def test_no_subset_is_explored_again_once_it_is_settled():
    judge = Scripted(at_most(2))
    search("abcdefg", judge, SearchSettings(), strategy="restarts")
    assert len(explored(judge)) == len(set(explored(judge)))


def test_a_certificate_needs_the_fresh_runs_to_show_it():
    judge = Scripted(
        certificates={"ab": ["undecided", "undecided"], "a": ["unperturbed"], "b": ["perturbed", "perturbed"]}
    )
    plan = search("ab", judge, SearchSettings())
    assert found(plan) == {"a"}
    assert [each.metrics for each in plan.undecided] == [("b",)]
    assert "not certified" in plan.undecided[0].reason


def test_each_failure_halves_the_level_and_a_success_gives_it_back():
    judge = Scripted(at_most(1), certificates={"b": ["undecided", "unperturbed"]})
    plan = search("abc", judge, SearchSettings(alpha=0.08))
    levels = [(each.subset[0], each.level) for each in plan.history if each.stage == "certify"]
    assert levels == [("a", 0.04), ("b", 0.04), ("c", 0.02), ("b", 0.02)]
    assert {subset.metrics[0]: subset.level for subset in plan.subsets} == {"a": 0.04, "b": 0.02, "c": 0.02}


def test_what_is_left_of_a_failed_subset_joins_what_is_certified():
    """{a, b} and {c, d, e} are found; {c, d, e} fails; its part {c, d} goes with {a, b}, though c and d each do not."""
    good = {"ab", "cd", "cde", "abcd"}
    judge = Scripted(
        lambda name: "unperturbed" if len(name) == 1 or name in good else "perturbed",
        certificates={"cde": ["undecided", "undecided"]},
    )
    plan = search("abcde", judge, SearchSettings())
    assert found(plan) == {"abcd", "e"}
    assert [name for what, name, _ in judge.asked if what == "certify"] == ["cde", "ab", "cde", "abcd", "e"]


def test_a_certificate_stands_while_a_union_with_it_is_tried():
    good = {"ab", "cd", "cde", "abcd"}
    judge = Scripted(
        lambda name: "unperturbed" if len(name) == 1 or name in good else "perturbed",
        certificates={"cde": ["undecided"] * 2, "abcd": ["undecided"] * 2},
    )
    assert found(search("abcde", judge, SearchSettings())) == {"ab", "cd", "e"}


def test_max_runs_is_kept_and_what_was_found_is_certified():
    judge = Scripted(at_most(2), passes=2)
    plan = search("abcdef", judge, SearchSettings(max_runs=70))
    assert judge.made == plan.runs_used <= 70
    assert plan.subsets
    assert not plan.complete
    assert plan.stopped.startswith("`max_runs` is 70")
    assert all(each.reason for each in plan.undecided)


def test_what_was_accepted_before_is_certified_where_a_limit_allows_no_further_search():
    """{a, b, c} is found and fails twice; then five runs are left, enough to certify {a, b}, and not to look for
    more."""
    judge = Scripted(
        lambda name: "unperturbed" if name in ("a", "b", "c", "d", "ab", "abc") else "perturbed",
        certificates={"abc": ["undecided"] * 2},
    )
    free = search("abcd", judge, SearchSettings())
    assert found(free) == {"ab", "c", "d"}
    before = next(each.runs_used for each in free.history if each.stage == "certify")
    judge = Scripted(
        lambda name: "unperturbed" if name in ("a", "b", "c", "d", "ab", "abc") else "perturbed",
        certificates={"abc": ["undecided"] * 2},
    )
    plan = search("abcd", judge, SearchSettings(max_runs=before + 13))
    assert ("a", "b") in [subset.metrics for subset in plan.subsets]
    assert not plan.complete
    assert judge.made <= before + 13


def test_a_limit_that_allows_nothing_gives_a_plan_without_certificates():
    judge = Scripted()
    plan = search("ab", judge, SearchSettings(max_runs=2))
    assert judge.made == 0
    assert not plan.subsets
    assert {metric for each in plan.undecided for metric in each.metrics} == {"a", "b"}
    assert not plan.complete


def test_max_hours_is_kept_by_the_time_that_runs_took():
    now = [0.0]

    class Slow(Scripted):
        def _make(self, what, name, repetitions):
            super()._make(what, name, repetitions)
            now[0] += 60 * repetitions

    judge = Slow(at_most(2))
    plan = search("abcdef", judge, SearchSettings(max_hours=1), clock=lambda: now[0])
    assert now[0] <= 3600
    assert plan.hours == now[0] / 3600
    assert plan.stopped.startswith("`max_hours` is 1")
    assert plan.subsets


class Uneven(Scripted):
    """Four metrics together are cheaper to certify, each, than one alone; so they are tried first."""

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        return 8 if len(subset) == 4 else 3


def test_what_is_too_much_to_certify_does_not_keep_a_smaller_subset_from_its_runs():
    settings = SearchSettings(max_runs=11)
    limits = Limits(settings, lambda: 0.0)
    evaluator = CandidateEvaluator("abcde", Uneven(), settings, limits, lambda _: None)
    certification = Certification(evaluator, STRATEGIES["first-fit"])
    assert evaluator.accepts("abcd")
    assert evaluator.accepts("e")
    certification.run([tuple("abcd"), ("e",)])
    assert [each.subset for each in certification.certificates.values()] == [("e",)]
    assert certification.pending == [tuple("abcd")]
    said = "`max_runs` is 11: the search has made 6 runs, and the next measurement needs 8 more"
    assert certification.stopped == said


def test_interrupted_gives_the_best_plan_so_far():
    judge = Scripted(at_most(2))

    def interrupt(done: Measurement) -> None:
        if done.stage == "certify":
            raise KeyboardInterrupt

    plan = search("abcd", judge, SearchSettings(), observer=interrupt)
    assert (plan.complete, plan.stopped) == (False, "interrupted")
    assert not plan.subsets
    assert {each.metrics for each in plan.undecided} == {("a", "b"), ("c", "d")}
    assert "unperturbed in the search, but not certified; interrupted" in plan.undecided[0].reason


def test_fresh_baselines_are_made_for_each_round_and_counted():
    judge = Scripted(certificates={"ab": ["undecided", "unperturbed"]}, baseline_runs=10)
    plan = search("ab", judge, SearchSettings())
    assert [what for what, _, _ in judge.asked] == ["explore", "baseline", "certify", "baseline", "certify"]
    assert plan.runs_used == judge.made == 31
    assert [each.stage for each in plan.history] == ["together", "baseline", "certify", "baseline", "certify"]


def test_the_observer_hears_of_every_measurement_in_order():
    heard: list[Measurement] = []
    plan = search("abcd", Scripted(at_most(2)), SearchSettings(), observer=heard.append)
    assert tuple(heard) == plan.history
    assert [each.number for each in heard] == list(range(1, len(heard) + 1))
    assert heard[-1].runs_used == plan.runs_used


def test_an_unperturbed_candidate_that_no_certificate_can_follow_says_so():
    """The log said *unperturbed*, and went on to other candidates without a reason."""

    class Close(Scripted):
        def repetitions_to_certify(self, subset, level, maximum):
            return None if len(subset) > 2 else 4

    plan = search("abcd", Close(), SearchSettings())
    assert {each.outcome.verdict for each in plan.history if each.outcome} == {"unperturbed"}
    assert all(each.certifiable == (len(each.subset) < 3) for each in plan.history)
    assert not plan.to_json()["history"][0]["certifiable"]


def test_a_plan_is_plain_json():
    judge = Scripted(
        lambda name: "perturbed" if len(name) > 2 or "d" in name else "unperturbed",
        certificates={"c": ["perturbed"] * 2},
    )
    plan = search("abcd", judge, SearchSettings(seed=7), tolerance=0.1)
    read = json.loads(json.dumps(plan.to_json()))
    assert read == plan.to_json()
    assert read["seed"] == 7
    assert read["tolerance"] == 0.1
    assert {metric for each in read["subsets"] for metric in each["metrics"]} == {"a", "b"}
    assert len(read["history"]) == len(plan.history)


def test_a_strategy_of_ones_own_is_a_small_class():
    class EachAlone:
        name = "each-alone"

        def search(self, evaluator, metrics):
            return [(metric,) for metric in metrics if evaluator.accepts((metric,))]

        def candidates(self, metrics, subsets):
            return metrics

    plan = search("abc", Scripted({"abc": "perturbed"}), SearchSettings(), strategy=EachAlone())
    assert found(plan) == {"a", "b", "c"}
    assert plan.strategy == "each-alone"


@pytest.mark.parametrize(
    ("metrics", "options", "said"),
    [
        ("", {}, "give at least one"),
        ("aba", {}, "each only once"),
        ("ab", {"strategy": "best"}, "unknown strategy 'best': use first-fit"),
    ],
)
def test_wrong_arguments_are_refused(metrics, options, said):
    with pytest.raises(ValueError, match=said):
        search(metrics, Scripted(), SearchSettings(), **options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repetitions", 2),
        ("max_repetitions", 2),
        ("alpha", 0.6),
        ("max_runs", 0),
        ("max_hours", -1),
        ("seconds_per_run", 0),
    ],
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        SearchSettings(**{field: value})
