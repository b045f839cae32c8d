from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.metric_names import is_simulated, meaning, pair_name, plain_name
from unperturbed.analysis.perturbation.verdict import SEVERITY, Overhead, Verdict, ranked_changes
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.campaign.content import (
    ReportContent,
    changed_pairs,
    configuration_results,
    listed_changes,
)
from unperturbed.collectors.data import Metric


def test_verdicts_of_one_configuration_are_joined(content: ReportContent):
    heavy = content.verdicts[-1]
    inner = replace(heavy, verdict="perturbed", changes=heavy.of("inner"), overhead=Overhead(0.17, None, None))
    outer = replace(heavy, verdict="unperturbed", changes=heavy.of("outer"), overhead=Overhead(None, 0.1, None))
    (joined,) = configuration_results(replace(content, verdicts=(inner, outer)))
    assert joined.verdict == "perturbed"
    assert joined.changes == heavy.changes
    assert joined.overhead == Overhead(0.17, 0.1, None)
    assert joined.software == ("blocks", "compares", "moves")
    assert joined.excluded == heavy.excluded


def test_synthetic_campaign_has_every_verdict(content: ReportContent):
    assert {result.configuration: result.verdict for result in configuration_results(content)} == {
        "anchor": "unperturbed",
        "light": "unperturbed",
        "medium": "undecided",
        "heavy": "perturbed",
    }


def test_worst_is_perturbed_before_undecided_before_unperturbed(content: ReportContent):
    heavy = configuration_results(content)[-1]
    order = [change.verdict for change in ranked_changes(heavy.changes)]
    assert order == sorted(order, key=SEVERITY.index)
    perturbed = [abs(change.effect) for change in heavy.having("perturbed")]
    worst = heavy.worst()
    assert worst is not None
    assert abs(worst.effect) == max(perturbed)
    assert heavy.worst("inner") in heavy.of("inner")


def test_of_the_open_changes_the_one_with_most_room_weighs_most(content: ReportContent):
    medium = next(result for result in configuration_results(content) if result.configuration == "medium")
    worst = medium.worst("inner")
    assert worst is not None
    room = [max(abs(change.low), abs(change.high)) for change in medium.of("inner") if change.verdict == "undecided"]
    assert max(abs(worst.low), abs(worst.high)) == max(room)


def test_listed_changes_are_ranked_and_bounded(content: ReportContent):
    found = configuration_results(content)
    listed = listed_changes(found)
    assert len(listed) == sum(len(result.changes) for result in found)
    assert all(change in result.changes for result, change in listed)
    assert listed_changes(found, 7) == listed[:7]


def test_every_pair_appears_once(content: ReportContent):
    pairs = changed_pairs(configuration_results(content), "inner")
    assert len(pairs) == len(set(pairs)) == 21


def test_empty_verdict():
    empty = Verdict("only", "baseline", "undecided", ())
    (result,) = configuration_results(ReportContent("c", (empty,), source=None))  # type: ignore[arg-type]
    assert result.worst() is None
    assert result.check_verdict("inner") is None


@given(st.lists(st.floats(min_value=-0.999, max_value=0.999), min_size=1))
def test_mean_rho_lies_between_its_values(rhos):
    mean = mean_rho(rhos)
    assert min(rhos) - 1e-9 <= mean <= max(rhos) + 1e-9
    assert mean == pytest.approx(-mean_rho([-rho for rho in rhos]), abs=1e-9)


def test_mean_rho_on_fishers_scale():
    assert mean_rho([0.2, 0.8]) == pytest.approx(np.tanh((np.arctanh(0.2) + np.arctanh(0.8)) / 2))
    assert mean_rho([1.0, 1.0]) == pytest.approx(1.0, abs=1e-5)
    assert mean_rho([0.5, math.nan]) == pytest.approx(0.5)
    assert math.isnan(mean_rho([]))


def test_names_for_people():
    assert plain_name("PAPI_L1_DCM") == "L1-data misses"
    assert plain_name("my_counter") == "my_counter"
    assert pair_name("PAPI_L1_DCM", "PAPI_BR_MSP") == "L1-data misses – mispredicted branches"
    assert pair_name("PAPI_L1_DCM", "PAPI_L1_DCM") == "L1-data misses"


def test_what_is_computed_from_simulated_counts_is_simulated():
    assert is_simulated(Metric("PAPI_L1_DCM", "simulated", source="callgrind"))
    ipc = Metric("IPC", "derived", source="formula", components=("callgrind:Ir", "callgrind:D1mr"))
    assert is_simulated(ipc)
    assert not is_simulated(Metric("IPC", "derived", source="formula", components=("papi:PAPI_TOT_INS",)))
    assert "simulated, by formula" in meaning("IPC", {"IPC": ipc})
    hardware = Metric("PAPI_L1_DCM", "hardware", source="papi", meaning="level 1 misses")
    assert meaning("PAPI_L1_DCM", {"PAPI_L1_DCM": hardware}) == (
        "PAPI_L1_DCM: level 1 misses (events per interval; hardware, by papi)"
    )
    assert meaning("unknown", {}) == "unknown: unknown"
