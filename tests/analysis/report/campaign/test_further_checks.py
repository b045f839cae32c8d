"""What the page shows where more was checked than pairs of hardware metrics and metrics across runs."""

from dataclasses import replace

import pytest

from tests.analysis.report.synthetic import make_change, make_content
from tests.analysis.report.unpacking import unpacked
from unperturbed.analysis.report.campaign.content import to_json
from unperturbed.analysis.report.campaign.page import render

RUNS = (tuple("abcde"), tuple("fghij"))


@pytest.fixture(scope="module")
def content():
    made = make_content(runs=5)
    moved = make_change(
        "software", "swaps", "PAPI_L1_DCM", [0.8, 0.81, 0.79, 0.8, 0.82], [0.3, 0.31, 0.29, 0.3, 0.32], RUNS
    )
    across = make_change(
        "across", "PAPI_BR_MSP", "PAPI_L1_DCM", [0.5, 0.51, 0.5, 0.49, 0.5], [0.5, 0.5, 0.51, 0.5, 0.49], RUNS
    )
    moved = replace(moved, against="light", p_discovery=0.0123, origin="layout")
    heavy = replace(made.verdicts[-1], changes=(*made.verdicts[-1].changes, moved, across))
    return replace(
        made, verdicts=(*made.verdicts[:-1], heavy), steadiness=("The baseline drifts: ρ of A and B goes up.",)
    )


def test_further_checks_have_matrices_of_their_own(content):
    page = render(content)
    assert "Within a run: pairs with a software metric" in page
    assert "Across aligned runs: pairs of different metrics" in page
    plain = render(make_content())
    assert "pairs with a software metric" not in plain
    assert "pairs of different metrics" not in plain


def test_a_card_counts_them_and_the_filter_knows_them(content):
    page = render(content)
    assert "With software metrics" in page
    assert '<option value="software">software</option>' in page
    assert '<option value="across">across</option>' in page


def test_details_say_against_what_and_where_it_comes_from(content):
    page = unpacked(render(content))
    assert (
        "the layout of the code, or the no-ops that replace the increments: the sham build, which does "
        "not count, shows the change too" in page
    )
    assert "p, false discoveries" in page
    assert "0.012" in page


def test_the_baseline_says_how_steady_it_is(content):
    assert "The baseline drifts: ρ of A and B goes up." in render(content)
    assert to_json(content)["steadiness"] == ["The baseline drifts: ρ of A and B goes up."]
