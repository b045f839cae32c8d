from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.analysis.perturbation import naive
from unperturbed.analysis.multiple_testing import benjamini_hochberg, holm, holm_of_intervals
from unperturbed.analysis.perturbation import Change, Overhead, Verdict, combine_checks
from unperturbed.analysis.perturbation.decide import classify_change, decide
from unperturbed.errors import DataError


def change(p=0.5, low=-0.2, high=0.2, check="inner", first="A", second="B", p_beyond=0.5, tolerance=0.1):
    return Change(
        check=check,
        first=first,
        second=second,
        reference=(0.5, 0.52, 0.48, 0.51, 0.49),
        observed=(0.45, 0.46, 0.44),
        reference_runs=tuple("abcde"),
        observed_runs=tuple("fgh"),
        effect=(low + high) / 2,
        low=low,
        high=high,
        p=p,
        p_corrected=p,
        smallest_visible=float("inf"),
        tolerance=tolerance,
        verdict="undecided",
        p_beyond=p_beyond,
        standard_error=0.05,
    )


def check(*changes, verdict="undecided", excluded=(), alpha=0.05):
    return Verdict("c", "baseline", verdict, changes, excluded, Overhead(time=0.1), alpha, 0.1)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_equals_the_step_down_procedure(p):
    assert holm(p).tolist() == pytest.approx(naive.holm(p))


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_false_discovery_view_equals_scipys(p):
    assert benjamini_hochberg(p).tolist() == pytest.approx(stats.false_discovery_control(p).tolist())


def test_the_false_discovery_view_finds_what_the_family_wise_one_leaves_open():
    found = decide([change(p=p, low=0.05, high=0.3) for p in (0.004, 0.01, 0.02, 0.03, 0.9)], alpha=0.05)
    assert [one.verdict for one in found] == ["shifted", "shifted", "undecided", "undecided", "undecided"]
    assert [one.p_discovery <= 0.05 for one in found] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("p", "p_beyond", "low", "high", "verdict"),
    [
        (0.9, 0.99, -0.05, 0.05, "unperturbed"),
        (0.001, 0.99, 0.02, 0.06, "unperturbed"),  # a change is shown, and shown to be negligible
        (0.001, 0.01, 0.12, 0.2, "perturbed"),
        (0.05, 0.05, -0.3, -0.11, "perturbed"),
        (0.001, 0.4, 0.02, 0.2, "shifted"),  # a change, perhaps within the tolerance
        (0.001, 0.9, -0.11, -0.03, "shifted"),
        (0.001, 0.8, 0.03, 0.12, "shifted"),
        (0.001, 0.06, 0.11, 0.2, "shifted"),  # beyond by itself, not in its family
        (0.001, 0.01, 0.09, 0.3, "shifted"),  # the spread changed, so that the interval reaches into the tolerance
        (0.2, 0.9, -0.2, 0.05, "undecided"),  # not significant alone is never unperturbed
        (0.9, 0.99, -0.1, 0.05, "undecided"),  # the tolerance itself is not inside
        (0.001, 0.01, -0.1, 0.4, "undecided"),  # the spread changed, the mean may not have
        (0.06, 0.01, 0.12, 0.4, "undecided"),  # what is not shown to differ is not shown to differ by much
    ],
)
def test_the_four_verdicts(p, p_beyond, low, high, verdict):
    assert classify_change(p, p_beyond, low, high, alpha=0.05, tolerance=0.1) == verdict


@pytest.mark.parametrize(
    ("p", "low", "high", "verdict"),
    [
        (0.001, 0.001, 0.01, "perturbed"),
        (0.06, 0.001, 0.01, "undecided"),
        (0.001, -0.001, 0.01, "undecided"),
    ],
)
def test_without_a_tolerance_every_change_that_is_shown_is_perturbed(p, low, high, verdict):
    assert classify_change(p, p, low, high, alpha=0.05, tolerance=0) == verdict
    family = [change(p=p, low=low, high=high, p_beyond=p, tolerance=0.0), *[change(tolerance=0.0)] * 2]
    found = decide(family, alpha=0.05)
    assert [one.p_beyond_corrected for one in found] == [one.p_corrected for one in found]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_of_interval_hypotheses_the_likely_ones_leave_the_family(p):
    kept = [each / 0.5 for each in p if each <= 0.5]
    expected = iter(naive.holm(kept))
    assert holm_of_intervals(p).tolist() == pytest.approx([next(expected) if each <= 0.5 else 1.0 for each in p])


def test_decide_corrects_over_the_family_and_says_what_would_decide():
    alone = decide([change(p=0.02, low=0.12, high=0.3, p_beyond=0.02)], alpha=0.05)
    assert alone[0].verdict == "perturbed"
    assert alone[0].runs_to_decide is None
    shifted = decide([change(p=0.02, low=0.05, high=0.3, p_beyond=0.2)], alpha=0.05)
    assert shifted[0].verdict == "shifted"
    assert shifted[0].is_open
    together = decide([change(p=0.02, low=0.05, high=0.3), change(), change()], alpha=0.05)
    assert together[0].p_corrected == pytest.approx(0.06)
    assert together[0].verdict == "undecided"
    assert together[0].runs_to_decide > 3
    assert together[0].smallest_visible > alone[0].smallest_visible
    assert decide([], alpha=0.05) == ()


def test_both_checks_are_corrected_together():
    inner = check(*decide([change(p=0.03, low=0.05, high=0.3)], alpha=0.05), verdict="perturbed")
    outer = check(*decide([change(check="outer", second="A")], alpha=0.05), excluded=(("C", "constant"),))
    both = combine_checks("c", inner, outer)
    assert [one.p_corrected for one in both.changes] == pytest.approx([0.06, 0.5])
    assert both.verdict == "undecided"
    assert both.excluded == (("C", "constant"),)
    assert both.overhead.time == 0.1
    assert both.of("outer") == both.changes[1:]
    small = replace(inner, changes=(replace(inner.changes[0], p=0.01),))
    assert combine_checks("c", small, outer).verdict == "shifted"
    beyond = replace(inner, changes=(replace(inner.changes[0], p=0.01, p_beyond=0.005, low=0.12),))
    assert combine_checks("c", beyond, outer).verdict == "perturbed"


def test_unperturbed_needs_every_change_of_both_checks():
    good = check(*decide([change(low=-0.05, high=0.05)], alpha=0.05), verdict="unperturbed")
    assert combine_checks("c", good, good).verdict == "unperturbed"
    # A metric that stopped varying could not be compared: the check was undecided though none of its changes is.
    stopped = (("C", "constant in every interval of run 3"),)
    lost = replace(good, verdict="undecided", excluded=stopped, lost=stopped)
    assert combine_checks("c", good, lost).verdict == "undecided"
    assert combine_checks("c", good, lost).lost == stopped
    # With one hardware metric there is no pair, and the other check decides alone; nothing at all decides nothing.
    assert combine_checks("c", check(), good).verdict == "unperturbed"
    assert combine_checks("c", check(), check()).verdict == "undecided"


def test_passes_are_one_family():
    one = check(*decide([change(p=0.02, low=0.05, high=0.3)], alpha=0.05), verdict="perturbed")
    two = check(*decide([change(p=0.03, low=0.05, high=0.3, first="C")], alpha=0.05), verdict="perturbed")
    three = check(*decide([change(first="D")], alpha=0.05))
    joined = combine_checks("c", one, two, three)
    assert [found.p_corrected for found in joined.changes] == pytest.approx([0.06, 0.06, 0.5])
    assert joined.verdict == "undecided"
    assert joined.runs_to_decide == max(found.runs_to_decide for found in joined.changes)
    assert joined.smallest_visible == max(found.smallest_visible for found in joined.changes)


def test_no_count_of_runs_is_promised_where_one_change_is_out_of_reach():
    some = decide([change(p=0.06), replace(change(p=0.06), more_runs_help=False)], alpha=0.05)
    assert some[0].runs_to_decide is not None
    assert check(*some).runs_to_decide is None


def test_checks_made_differently_are_not_joined():
    with pytest.raises(DataError, match="use one baseline for both"):
        combine_checks("c", check(), check(alpha=0.01))
    with pytest.raises(DataError, match="one check has method runs, another has paper"):
        combine_checks("c", check(), replace(check(), method="paper"))
