from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.perturbation import naive
from unperturbed.analysis.perturbation import Change, Overhead, Verdict, combine_checks, holm
from unperturbed.analysis.perturbation.decide import decide, name_verdict
from unperturbed.errors import DataError


def change(p=0.5, low=-0.2, high=0.2, check="inner", first="A", second="B"):
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
        tolerance=0.1,
        verdict="undecided",
        standard_error=0.05,
    )


def check(*changes, verdict="undecided", excluded=(), alpha=0.05):
    return Verdict("c", "baseline", verdict, changes, excluded, Overhead(time=0.1), alpha, 0.1)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_equals_the_step_down_procedure(p):
    assert holm(p).tolist() == pytest.approx(naive.holm(p))


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(
    ("p", "low", "high", "verdict"),
    [
        (0.9, -0.05, 0.05, "unperturbed"),
        (0.001, 0.02, 0.06, "unperturbed"),  # significant, and shown to be small
        (0.001, 0.02, 0.2, "perturbed"),
        (0.05, -0.3, -0.01, "perturbed"),
        (0.2, -0.2, 0.05, "undecided"),  # not significant alone is never unperturbed
        (0.9, -0.1, 0.05, "undecided"),  # the tolerance itself is not inside
        (0.001, -0.1, 0.4, "undecided"),  # the spread changed, the mean may not have
    ],
)
def test_the_three_verdicts(p, low, high, verdict):
    assert name_verdict(p, low, high, alpha=0.05, tolerance=0.1) == verdict


def test_decide_corrects_over_the_family_and_says_what_would_decide():
    alone = decide([change(p=0.02, low=0.05, high=0.3)], alpha=0.05)
    assert alone[0].verdict == "perturbed"
    assert alone[0].runs_to_decide is None
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
    assert combine_checks("c", small, outer).verdict == "perturbed"


def test_unperturbed_needs_every_change_of_both_checks():
    good = check(*decide([change(low=-0.05, high=0.05)], alpha=0.05), verdict="unperturbed")
    assert combine_checks("c", good, good).verdict == "unperturbed"
    # A metric that stopped varying could not be compared: the check was undecided though none of its changes is.
    lost = replace(good, verdict="undecided", excluded=(("C", "constant in every interval of run 3"),))
    assert combine_checks("c", good, lost).verdict == "undecided"
    assert combine_checks("c", check(), good).verdict == "undecided"


def test_checks_made_differently_are_not_joined():
    with pytest.raises(DataError, match="make both with one baseline"):
        combine_checks("c", check(), check(alpha=0.01))
