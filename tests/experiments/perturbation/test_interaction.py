"""Interactions of metrics, and plans beside the best one, from verdicts whose truth is planted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.perturbation import interaction
from experiments.perturbation.interaction import METRICS, Subset, all_subsets, best_plan, interactions
from unperturbed.analysis.perturbation import Change, Verdict, VerdictName
from unperturbed.harness.spec.load import load_spec

A, B = METRICS[0], METRICS[1]


def _verdict(subset: Subset) -> Verdict:
    """A and B are harmless apart, and change L1_DCM together; the third metric takes that back."""
    spoilt = {A, B} <= subset and METRICS[2] not in subset
    name: VerdictName = "perturbed" if spoilt else "unperturbed"
    effect = -0.4 if spoilt else -0.02 * len(subset)
    observed = (0.9 + effect, 0.9 + effect, 0.9 + effect + 0.003)
    change = Change(
        check="outer",
        first="PAPI_L1_DCM",
        second="PAPI_L1_DCM",
        reference=(0.9, 0.9),
        observed=observed,
        reference_runs=("1", "2"),
        observed_runs=("3", "4", "5"),
        effect=effect,
        low=effect - 0.01,
        high=effect + 0.01,
        p=1.0,
        p_corrected=1.0,
        smallest_visible=0.05,
        tolerance=0.1,
        verdict=name,
    )
    return Verdict("-".join(sorted(subset)), "baseline", name, (change,))


@pytest.fixture(scope="module")
def verdicts() -> dict[Subset, Verdict]:
    return {frozenset(subset): _verdict(frozenset(subset)) for subset in all_subsets(METRICS)}


def test_two_metrics_that_perturb_only_together_are_found(verdicts: dict[Subset, Verdict]) -> None:
    assert len(verdicts) == 2 ** len(METRICS) - 1
    single = next(one for one in interactions(verdicts) if len(one.first | one.second) == 2)
    assert (single.first, single.second) == (frozenset((A,)), frozenset((B,)))
    assert single.excess == pytest.approx(-0.36)
    assert single.standard_error == pytest.approx(0.001 * 3**0.5)
    text = "\n".join(interaction.interaction_sentences(verdicts))
    assert f"Single metrics that perturb only together: {A} with {B}." in text
    assert "union is unperturbed" in text
    row = interaction.interaction_table(interactions(verdicts))[2]
    assert f"| {A} | {B} | outer L1_DCM | -0.020 (unperturbed) | -0.020 (unperturbed) | -0.400 (perturbed) |" in row
    assert "| 2 | 15 | 14 | 0 | 0 | 1 |" in interaction.verdict_table(verdicts)


def test_a_plan_stands_beside_the_fewest_valid_subsets(verdicts: dict[Subset, Verdict]) -> None:
    plan: dict[str, Any] = {
        "subsets": [{"metrics": [A, B]}, {"metrics": list(METRICS[2:])}],
        "unmeasurable": [],
        "undecided": [],
        "runs_used": 40,
    }
    table = interaction.plan_table(verdicts, {"first-fit": plan})
    assert table[2] == "| every subset | 6 | 1 | – | 215 |"  # all six together are unperturbed
    assert table[3] == "| first-fit | 6 | 2 | 1 of 2 | 40 |"
    assert interaction.plan_lines({"first-fit": plan})[0].startswith(f"- first-fit: {A}, {B}; ")


def test_the_best_plan_holds_the_most_metrics_in_the_fewest_subsets() -> None:
    a, b, c = (frozenset(name) for name in "abc")
    assert len(best_plan([a, b, c], a | b | c)) == 3
    assert set(best_plan([a, b, c, b | c], a | b | c)) == {a, b | c}
    assert best_plan([b | c], a | b | c) == (b | c,)  # neither is valid alone
    assert best_plan([a], frozenset()) == ()


def test_specs_of_all_subsets_and_of_figure_3_are_right(tmp_path: Path) -> None:
    subsets, figure = (load_spec(path) for path in interaction.write_specs(tmp_path))
    assert len(subsets.campaign.subsets) == 2 ** len(METRICS) - 1
    assert (subsets.campaign.baseline_runs, figure.campaign.baseline_runs) == (26, 26)
    assert not figure.campaign.subsets
    assert {"PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_TLB_DM"} <= set(figure.measure.hardware)
