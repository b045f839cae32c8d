"""Outcomes of responses, the pairing of runs by their rounds, and their wording."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from unperturbed.analysis.doses.response import (
    FISHER,
    RATIO,
    DoseResponses,
    Response,
    decide_responses,
    responses_of_totals,
    responses_of_values,
)
from unperturbed.analysis.doses.response_text import dose_sentences, response_name, response_table
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.verdict import VerdictName
from unperturbed.analysis.report.campaign.figures.doses import line_through, response_figure
from unperturbed.analysis.totals import TotalChange
from unperturbed.collectors.data import Metric, Trace

DOSES = (1, 2, 4)


def outcomes(
    by_dose: dict[int, float],
    *,
    spread: float = 0.003,
    tolerance: float = 0.1,
    verdict: VerdictName = "perturbed",
    with_none: bool = True,
    rounds: int = 8,
) -> DoseResponses:
    """Judge a correlation whose ρ is known at each dose."""
    rng = np.random.default_rng(1)
    levels = fisher(np.array([by_dose[dose] for dose in (0, *DOSES)]))
    values = levels[None, :, None] + rng.normal(0, 0.05, (rounds, 1, 1)) + rng.normal(0, spread, (rounds, 4, 1))
    found = responses_of_values(
        DOSES, values[:, 1:], values[:, 0] if with_none else None, [(tolerance, verdict)], FISHER, alpha=0.05
    )
    named = [replace(each, check="inner", first="a", second="b", by_signals=not with_none) for each in found]
    return decide_responses("steps", named, alpha=0.05)


LINE = {dose: float(from_fisher(np.array([0.9 - 0.1 * dose]))[0]) for dose in (0, 1, 2, 4)}
CURVE = {0: 0.9, 1: 0.5, 2: 0.2, 4: 0.1}
SLIGHT = {0: LINE[0] + 0.01, 1: LINE[1], 2: LINE[2], 4: LINE[4]}


def test_a_line_is_corrected_to_its_value_without_counting() -> None:
    for with_none in (False, True):
        found = outcomes(LINE, with_none=with_none)
        (response,) = found.responses
        assert found.outcome == response.outcome == "corrected"
        assert response.low < LINE[0] < response.high
        assert response.value == pytest.approx(LINE[0], abs=0.05)
        assert (response.without is None) == (not with_none)
        assert list(response.means) == list(DOSES)


def test_a_curve_is_not_linear_however_it_is_seen() -> None:
    for with_none in (False, True):
        assert outcomes(CURVE, with_none=with_none).outcome == "not linear"


def test_a_small_deviation_that_is_shown_but_within_the_tolerance_is_corrected() -> None:
    (response,) = outcomes(SLIGHT, spread=0.0005).responses
    assert response.p < 0.01
    assert response.outcome == "corrected"
    (exactly,) = outcomes(SLIGHT, spread=0.0005, tolerance=0.0).responses
    assert exactly.outcome == "not linear"


def test_what_counting_leaves_unperturbed_needs_no_correction() -> None:
    assert outcomes(CURVE, verdict="unperturbed").outcome == "not needed"


def test_noise_decides_nothing() -> None:
    assert outcomes(LINE, spread=0.2).outcome == "undecided"
    assert decide_responses("steps", [], alpha=0.05).responses == ()


def run(block: int, instructions: float, seconds: float) -> Trace:
    return Trace.from_columns(
        [Metric("ins", "simulated")],
        {"ins": np.array([instructions, instructions], np.float64)},
        begin_ns=np.array([0, 1]),
        end_ns=np.array([1, 2]),
        attributes={"block": block, "environment_pad_bytes": 10 * block, "layout": 0, "time_s": seconds},
    )


def change(metric: str, verdict: VerdictName = "perturbed") -> TotalChange:
    return TotalChange(metric, (1.0,), (1.0,), ("1",), ("2",), 0.1, 0.1, 0.1, verdict=verdict, tolerance=0.01)


def test_totals_are_extrapolated_as_they_are_in_the_rounds_that_have_every_dose() -> None:
    rng = np.random.default_rng(3)
    of_rounds = rng.normal(1000, 20, 9)
    runs = {
        dose: [run(block, of_rounds[block] + 100 * dose, rng.uniform(1, 2)) for block in rng.permutation(9)]
        for dose in (0, *DOSES)
    }
    runs[2] = [each for each in runs[2] if each.attributes["block"] != 4]
    ready = runs.pop(0)
    found = responses_of_totals(runs, ready, [change("ins"), change("time_s")], alpha=0.05)
    decided = decide_responses("steps", found, alpha=0.05)
    total, seconds = decided.responses
    assert total.rounds == 8
    assert total.value == pytest.approx(2 * np.delete(of_rounds, 4).mean())
    assert total.without == pytest.approx(total.value)
    assert total.outcome == "corrected"
    assert total.deviation == pytest.approx(0, abs=1e-9)
    assert seconds.outcome == "undecided"
    assert decided.ranked == [total, seconds]
    assert decided.outcome == "corrected"  # times that nothing decides do not count
    assert responses_of_totals({dose: each[:2] for dose, each in runs.items()}, (), [change("ins")], alpha=0.05) == []


def test_a_ratio_of_totals_is_held_against_its_tolerance() -> None:
    below, above = RATIO.reach(np.array([200.0]), np.array([0.25]))
    assert (below, above) == pytest.approx((40, 50))
    below, above = FISHER.reach(fisher(np.array([0.95])), np.array([0.1]))
    assert from_fisher(fisher(np.array([0.95])) - below) == pytest.approx([0.85])
    assert from_fisher(fisher(np.array([0.95])) + above) == pytest.approx([1])


def of(outcome: str, **changes: object) -> Response:
    (response,) = outcomes(CURVE if outcome == "not linear" else LINE).responses
    return replace(response, **changes)  # type: ignore[arg-type]


def test_sentences_and_table_name_the_most_serious_response() -> None:
    found = DoseResponses(
        "steps",
        (
            of("corrected"),
            of("not linear"),
            of("corrected", check="total", first="PAPI_TOT_INS", second="PAPI_TOT_INS"),
        ),
        0.05,
    )
    first, second = dose_sentences(found)
    assert first == (
        "steps at 1, 2 and 4 increments: not linear. Of 3 correlations and totals, 1 not linear and 2 corrected."
    )
    assert second.startswith("No correction is possible: a – b (inner): 0.5")
    assert "observed without, " in second
    assert second.endswith(" off the line.")
    table = response_table(found)
    assert [row[0] for row in table.rows] == ["a – b", "total of instructions", "a – b"]
    assert "95 % interval" in [column.head for column in table.columns]
    assert response_name(found.responses[2]) == "total of instructions"
    json.dumps(found.to_dict())


def test_the_figure_draws_the_line_of_the_fit() -> None:
    response = of("corrected")
    assert line_through(response, np.array([0.0])) == pytest.approx([response.value])
    figure = response_figure("doses-0", "steps", response)
    line, means, extrapolated, observed = figure.data
    assert line["y"][0] == pytest.approx(response.value, abs=1e-3)
    assert means["x"] == list(DOSES)
    assert extrapolated["error_y"]["array"][0] == pytest.approx(response.high - response.value, abs=1e-3)
    assert observed["name"] == "observed without"
