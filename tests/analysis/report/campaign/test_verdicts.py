from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.report.synthetic import make_change
from unperturbed.analysis.looks import Looks
from unperturbed.analysis.perturbation import verdict_text
from unperturbed.analysis.perturbation.verdict import Overhead
from unperturbed.analysis.report.campaign import verdicts
from unperturbed.analysis.report.campaign.content import (
    ConfigurationResult,
    CounterSource,
    ReportContent,
    ReportSettings,
)
from unperturbed.analysis.report.campaign.setups import setups_sentence
from unperturbed.analysis.totals import TotalChange
from unperturbed.common import wording

RUNS = (tuple(f"b{i}" for i in range(10)), tuple(f"c{i}" for i in range(5)))
BEFORE = [0.37, 0.38, 0.39, 0.38, 0.37, 0.38, 0.39, 0.38, 0.37, 0.39]


def change(after: float, verdict: str, check: str = "inner", **settings):
    second = "PAPI_BR_MSP" if check == "inner" else "PAPI_L1_DCM"
    observed = [after + d for d in (-0.01, 0.0, 0.01, 0.0, 0.0)]
    made = make_change(check, "PAPI_L1_DCM", second, BEFORE, observed, RUNS, force=verdict)  # type: ignore[arg-type]
    return replace(made, **settings)


def result(
    *changes, verdict="perturbed", name="heavy", software=("blocks", "compares", "moves")
) -> ConfigurationResult:
    return ConfigurationResult(
        name, ("baseline",), verdict, changes, (), Overhead(0.17, None, 0.2), software, 0.05, 0.1
    )


def content(**settings) -> ReportContent:
    return ReportContent("c", (), CounterSource("papi"), ReportSettings(anchor="blocks", runs=5, **settings))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (1234567.0, "1,230,000"),
        (0.05, "0.05"),
        (0.012345, "0.0123"),
        (-2.5, "−2.5"),
        (90.0, "90"),
        (99.96, "100"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
    ],
)
def test_number_keeps_three_digits(value, said):
    assert wording.number(value) == said


@given(st.floats(min_value=-1e12, max_value=1e12))
def test_number_says_what_it_was_given_within_its_digits(value):
    said = wording.number(value, 3).replace("−", "-").replace(",", "")
    assert math.isclose(float(said), value, rel_tol=0.0051, abs_tol=1e-300)


@pytest.mark.parametrize(
    ("value", "said"), [(-0.001, "0.00"), (0.004, "0.00"), (-0.126, "−0.13"), (0.05, "+0.05"), (float("nan"), "–")]
)
def test_signed(value, said):
    assert wording.signed(value) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (0.172, "+17\u00a0%"),
        (0.04, "+4.0\u00a0%"),
        (-0.0043, "−0.43\u00a0%"),
        (0.0, "0\u00a0%"),
        (None, "not measured"),
        (float("nan"), "not measured"),
    ],
)
def test_percent(ratio, said):
    assert wording.percent(ratio) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.42, "0.42 s"), (4.0, "4.0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (None, "–")]
)
def test_duration(seconds, said):
    assert wording.duration(seconds) == said


@pytest.mark.parametrize(("p", "said"), [(0.0001, "< 0.001"), (0.0312, "0.031"), (1.0, "1"), (float("nan"), "–")])
def test_p(p, said):
    assert wording.p_value(p) == said


@pytest.mark.parametrize(
    ("items", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_listing(items, said):
    assert wording.listing(items) == said


def test_a_fallen_pair_in_words():
    said = verdict_text.change_sentence(replace(change(0.25, "perturbed"), low=-0.16, high=-0.1), 0.05)
    assert said == (
        "L1-data misses and mispredicted branches: ρ fell from 0.38 to 0.25; 90\u00a0% confidence interval of the "
        "change (uncorrected) "
        "−0.16\u00a0…\u00a0−0.10; tolerance ±0.10"
    )


def test_a_level_metric_across_runs_in_words():
    said = verdict_text.change_sentence(change(0.38, "unperturbed", "outer"), 0.025)
    assert said.startswith("L1-data misses, compared across runs: ρ stayed at 0.38; 95\u00a0% confidence interval")


def test_campaign_sentence_names_every_configuration_once():
    found = [
        result(change(0.2, "perturbed")),
        result(change(0.38, "unperturbed"), verdict="unperturbed", name="anchor"),
        result(change(0.38, "unperturbed"), verdict="unperturbed", name="light"),
        result(change(0.33, "undecided"), verdict="undecided", name="medium"),
    ]
    assert verdicts.campaign_sentence(found) == (
        "Measuring changed how metrics move together in at least 1 of 4 configurations: heavy is perturbed; "
        "anchor and light are unperturbed and medium is undecided."
    )
    assert verdicts.campaign_sentence(found[1:3]).startswith("All 2 configurations are unperturbed")
    assert verdicts.campaign_sentence(found[1:2]).startswith("anchor is unperturbed: measuring did not")
    assert verdicts.campaign_sentence(found[1:]) == (
        "No correlation was shown to change, but medium remained undecided; anchor and light are unperturbed."
    )
    assert verdicts.campaign_sentence(found[3:]) == "No correlation was shown to change, but medium remained undecided."
    assert (
        verdicts.campaign_sentence(found[:1])
        == "heavy is perturbed: measuring changed how the program's metrics move together."
    )
    assert verdicts.campaign_sentence([]).startswith("No verdict")


def test_the_headline_promises_no_more_than_the_advice():
    near = result(change(0.33, "shifted", runs_to_decide=14), verdict="shifted", name="medium")
    far = result(change(0.33, "shifted", runs_to_decide=94), verdict="shifted", name="medium")
    assert verdicts.campaign_sentence([near]) == (
        "No correlation was shown to change by more than the tolerance, but medium is shifted: correlations changed, "
        "and more runs would probably show whether by more."
    )
    assert verdicts.campaign_sentence([far, replace(near, configuration="heavy")]) == (
        "No correlation was shown to change by more than the tolerance, but medium and heavy are shifted: correlations "
        "changed, and these runs do not show whether by more."
    )
    assert "and more runs would probably show whether they differ by more" in setups_sentence([near])
    assert "and these runs do not show whether they differ by more" in setups_sentence([far])


def test_campaign_sentence_of_many_configurations_names_a_few():
    many = [result(change(0.38, "unperturbed"), verdict="unperturbed", name=f"fine-{number}") for number in range(16)]
    assert verdicts.campaign_sentence([result(change(0.2, "perturbed")), *many]) == (
        "Measuring changed how metrics move together in 1 of 17 configurations: heavy is perturbed; 16 others are "
        "unperturbed."
    )
    bad = [result(change(0.2, "perturbed"), name=f"bad-{number}") for number in range(8)]
    said = verdicts.campaign_sentence([*bad, *many])
    assert "bad-0, bad-1, bad-2, bad-3, bad-4, bad-5 and 2 more are perturbed; 16 others are unperturbed" in said


def test_check_sentence_counts():
    mixed = result(change(0.2, "perturbed"), change(0.3, "undecided"), change(0.38, "unperturbed"))
    assert verdicts.check_sentence(mixed, "inner") == "3 pairs: 1 perturbed, 1 undecided and 1 unperturbed"
    assert verdicts.check_sentence(mixed, "outer") == "not checked"
    assert verdicts.check_sentence(result(change(0.38, "unperturbed", "outer")), "outer") == "all 1 metric unperturbed"


def test_what_a_verdict_means_depends_on_the_check():
    inner = result(change(0.2, "perturbed"), change(0.38, "unperturbed", "outer"))
    outer = result(change(0.38, "unperturbed"), change(0.2, "perturbed", "outer"))
    both = result(change(0.2, "perturbed"), change(0.2, "perturbed", "outer"))
    said = [verdicts.result_sentence(one) for one in (inner, outer, both)]
    assert "Within its runs" in said[0]
    assert "interval by interval" in said[1]
    assert "either within a run or across runs" in said[2]


def test_advice_for_a_perturbed_subset_names_its_own_metrics_and_not_the_anchor():
    said = " ".join(verdicts.advice(result(change(0.2, "perturbed")), content()))
    assert "Collect compares and moves in separate runs" in said
    assert "blocks" not in said
    assert "from the baseline runs" in said


def test_advice_for_a_single_metric_and_for_the_anchor():
    alone = verdicts.advice(result(change(0.2, "perturbed"), software=("blocks", "compares")), content())
    assert any("compares perturbs by itself" in said for said in alone)
    anchor = verdicts.advice(result(change(0.2, "perturbed"), software=("blocks",), name="anchor"), content())
    assert any("cheaper anchor than blocks" in said for said in anchor)


def test_advice_when_only_the_comparison_across_runs_is_spoilt():
    said = verdicts.advice(result(change(0.38, "unperturbed"), change(0.2, "perturbed", "outer")), content())
    assert any("use each run by itself, but do not merge it" in one for one in said)


def test_advice_for_the_undecided_says_how_many_runs():
    judged = tuple(f"c{i}" for i in range(16))  # of a spec whose `runs` is 5: it was lowered after the runs
    open_changes = [
        change(0.33, "undecided", runs_to_decide=14, observed_runs=judged),
        change(0.33, "undecided", runs_to_decide=9, observed_runs=judged),
    ]
    said = verdicts.advice(result(*open_changes, verdict="undecided"), content())
    assert said == ("About 14 runs per configuration (now 16) would probably decide all 2 open changes.",)
    beyond = [*open_changes, change(0.33, "undecided", runs_to_decide=None)]
    said = verdicts.advice(result(*beyond, verdict="undecided"), content())
    assert "decide 2 of 3 open changes" in said[0]
    assert said[1].startswith("The chance that 60 runs decide 1 further change is below 80 %: make each run longer")
    far = result(*beyond[2:], *beyond[2:], verdict="undecided")
    (only,) = verdicts.advice(far, content())
    assert only.startswith("The chance that 60 runs decide 2 changes is below 80 % for each: make each run longer")
    alone = [change(0.33, "undecided", runs_to_decide=14)]
    assert verdicts.advice(result(*alone, verdict="undecided"), content())[0].endswith("decide the open change.")


def test_advice_for_the_unperturbed_is_to_go_ahead():
    assert verdicts.advice(result(verdict="unperturbed"), content()) == ("Nothing: use the numbers of these runs.",)


def test_the_headline_names_configurations_whose_totals_changed():
    calls = result(change(0.38, "unperturbed"), verdict="unperturbed", name="calls")
    runs = (("1", "2"), ("3", "4"))
    changed = TotalChange("PAPI_BR_MSP", (1.0, 1.1), (1.0, 1.2), *runs, 0.07, 0.06, 0.08, verdict="perturbed")
    said = verdicts.campaign_sentence([calls], replace(content(), totals={"calls": (changed,)}))
    assert said.startswith("calls is unperturbed: measuring did not change how")
    assert said.endswith(" Totals changed by more than the tolerance in calls.")
    both = replace(content(), totals={"calls": (changed,), "loops": (changed,)})
    said = verdicts.campaign_sentence([calls, replace(calls, configuration="loops")], both)
    assert said.endswith(" Totals changed by more than the tolerance in calls and loops.")


def test_advice_for_unperturbed_correlations_names_totals_that_changed():
    def total(metric: str, verdict: str) -> TotalChange:
        runs = (("1", "2"), ("3", "4"))
        return TotalChange(metric, (1.0, 1.1), (1.0, 1.2), *runs, 0.07, 0.06, 0.08, verdict=verdict)  # type: ignore[arg-type]

    changed = (total("PAPI_BR_MSP", "perturbed"), total("PAPI_TOT_INS", "shifted"), total("time_s", "undecided"))
    calls = result(verdict="unperturbed", name="calls")
    said = verdicts.advice(calls, replace(content(), totals={"calls": changed}))
    assert said == (
        "The correlations of calls are those of the program: use them.",
        "Take totals from the baseline runs, not from those of calls: mispredicted branches changed by more than the "
        "tolerance.",
        "These runs do not show whether instructions differ by more than the tolerance: do not rely on this total of "
        "calls.",
    )
    other = replace(calls, configuration="B", setup="run: ./b")
    said = verdicts.advice(other, replace(content(), totals={"B": changed[:1]}))
    assert said == (
        "The correlations of B are valid for A too.",
        "Totals of B and A are not the same: mispredicted branches differ by more than the tolerance.",
    )
    times = replace(content(), totals={"calls": changed[2:]})  # as in the verdict on all totals
    assert verdicts.advice(calls, times) == ("Nothing: use the numbers of these runs.",)
    open_ = result(change(0.33, "undecided", runs_to_decide=14), verdict="undecided", name="calls")
    assert verdicts.advice(open_, replace(content(), totals={"calls": changed}))[1].startswith("Take totals from")


def test_overhead_that_was_not_measured_says_so():
    assert verdict_text.overhead_words(Overhead(0.17, None, 0.2)) == [
        ("instructions", "+17\u00a0%"),
        ("cycles", "not measured"),
        ("time", "+20\u00a0%"),
    ]


def test_a_card_leaves_out_overhead_that_was_not_measured():
    card = str(verdicts._card(0, result(verdict="unperturbed"), content()))
    assert "instructions" in card
    assert "not measured" not in card


def test_a_campaign_until_decided_is_given_no_number_of_runs():
    open_ = result(change(0.33, "undecided", runs_to_decide=14), verdict="undecided", name="light")
    going, ended = Looks((5, 10, 20), (5,), {}), Looks((5, 10, 20), (5, 10, 20), {})
    said = verdicts.advice(open_, replace(content(), looks=going))
    assert said == ("Let the campaign go on: it makes at most 20 runs of each configuration.",)
    (said,) = verdicts.advice(open_, replace(content(), looks=ended))
    assert "another one with a larger `at_most` (--max-runs) than 20 may decide more" in said
    (said,) = verdicts.advice(open_, replace(content(), looks=replace(ended, decided={"light": 5})))
    assert said.startswith("More runs alone cannot decide this")
