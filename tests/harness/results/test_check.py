"""Checks of several passes: notes on those that lack a metric of `align_on`, and the pairs that each compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.simulate import equicorrelated, program
from tests.analysis.simulate import run as simulated_run
from tests.harness.phases_campaign import write_spec
from unperturbed.analysis.perturbation.stability import OutlierRun, Stability
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.results.check import CheckOptions, check_runs
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.load import load_spec

METRICS = ("PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS")


def _runs(
    names: tuple[str, ...], count: int = 6, configuration: str = "baseline", *, ends: Sequence[int] = ()
) -> dict[str, tuple[Trace, ...]]:
    """Return runs of a simulated program that count these metrics; `ends`: Intervals where alone the first varies."""
    same = program(np.random.default_rng(1), correlation=equicorrelated(3, 0.6), run_effect=0.02)
    seed = 1 if configuration == "baseline" else 2
    made = [simulated_run(same, np.random.default_rng([seed, at])) for at in range(count)]
    software = [] if configuration == "baseline" else [Metric(configuration, "software")]
    return {
        configuration: tuple(
            Trace.from_columns(
                [Metric(name, "hardware", source="simulation") for name in names] + software,
                {name: trace[f"H{METRICS.index(name)}"] for name in names}
                | ({names[0]: np.isin(np.arange(len(trace)), np.r_[tuple(ends)]) * (7 + at)} if ends else {})
                | {each.name: np.ones(len(trace), np.int64) for each in software},
                begin_ns=trace.begin_ns,
                end_ns=trace.end_ns,
                attributes={**trace.attributes, "run": f"{configuration}-{at}", "configuration": configuration},
            )
            for at, trace in enumerate(made)
        )
    }


def test_the_note_names_only_metrics_of_align_on_that_the_pass_lacks(tmp_path: Path) -> None:
    spec = load_spec(
        write_spec(
            tmp_path,
            analysis__anchor=None,
            analysis__align_on=list(METRICS[:2]),
            measure__software={"steps": {"loop": "walk"}},
            measure__hardware=list(METRICS),
            measure__derived={},
        )
    )
    notes = check_runs(spec, {"first": _runs(METRICS[:2]), "second": _runs(METRICS[1:])}).notes
    assert [note for note in notes if "aligned on" in note] == [
        "Pass 'second' does not count PAPI_L1_DCM, so its runs are aligned on PAPI_BR_MSP."
    ]
    notes = check_runs(spec, {"first": _runs(METRICS[:2]), "second": _runs(METRICS[2:])}).notes
    assert "Pass 'second' does not count PAPI_L1_DCM, PAPI_BR_MSP, so its runs are aligned on PAPI_SR_INS." in notes


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ((0, 5), "`PAPI_L1_DCM` has one value in all intervals of each run but at most 2, often the "),
        ((0,), "`PAPI_L1_DCM` has one value in all intervals of each run but at most 1, often the "),
        (tuple(range(20)), None),
        ((), None),
    ],
)
def test_a_metric_that_varies_in_few_intervals_is_named(
    tmp_path: Path, ends: Sequence[int], sentence: str | None
) -> None:
    settings = {
        "measure__hardware": list(METRICS),
        "measure__derived": {},
        "measure__software": {"steps": {"loop": "walk"}},
    }
    spec = load_spec(write_spec(tmp_path, analysis__anchor=None, analysis__align_on=None, **settings))
    notes = check_runs(spec, {"main": _runs(METRICS, ends=ends)}).notes
    said = [note for note in notes if "one value in all intervals" in note]
    assert len(said) == (sentence is not None)
    if sentence:
        assert said[0].startswith(sentence) and said[0].endswith(
            "every correlation of this metric rests on these few, so none is compared."
        )


def test_runs_that_are_aligned_on_few_intervals_have_a_note(tmp_path: Path) -> None:
    settings = {"measure__hardware": list(METRICS), "measure__derived": {}}
    spec = load_spec(write_spec(tmp_path, analysis__align_on=list(METRICS[:1]), **settings))
    note = "Runs are aligned on PAPI_L1_DCM alone, so outer ρ rests on the few intervals in which it varies: name "
    assert [each.startswith(note) for each in check_runs(spec, {"main": _runs(METRICS, ends=(0,))}).notes].count(True)
    four = check_runs(spec, {"main": _runs(METRICS, 4, ends=(0,))}).notes
    assert any(each.endswith("rests on these few, so rely on none.") for each in four)


@pytest.mark.parametrize("perturbs", [False, True])
def test_subsets_are_compared_with_the_baseline_if_the_anchor_is_perturbed(tmp_path: Path, *, perturbs: bool) -> None:
    settings = {"measure__hardware": list(METRICS), "measure__derived": {}, "analysis__align_on": [METRICS[0]]}
    spec = load_spec(write_spec(tmp_path, **settings))

    def counting(configuration: str, *software: str) -> tuple[Trace, ...]:
        """Return runs of one program, whose last metric is in reverse if counting the anchor changes the program."""
        return tuple(
            replace(
                trace,
                metrics={**trace.metrics, **{name: Metric(name, "software") for name in software}},
                columns={
                    METRICS[0]: 10**9 * when + trace[METRICS[0]],
                    METRICS[1]: trace[METRICS[1]],
                    METRICS[2]: 10**9 * (when if not (perturbs and software) else 60 - when) + trace[METRICS[2]],
                    **{name: (when % 7 == at).astype(np.int64) for at, name in enumerate(software)},
                },
            )
            for trace in (each[:60] for each in _runs(METRICS, configuration=configuration)[configuration])
            for when in (np.arange(60),)
        )

    traces = {
        "baseline": counting("baseline"),
        "anchor": counting("anchor", "rounds"),
        "steps": counting("steps", "rounds", "steps"),
    }
    found = check_runs(spec, {"main": traces})
    (steps,) = (verdict for verdict in found.verdicts if verdict.configuration == "steps")
    outer = {change.against for change in steps.changes if change.check == "outer"}
    assert outer == {"baseline" if perturbs else "anchor"}
    assert any("so subsets are compared with the baseline" in note for note in found.notes) is perturbs
    assert any("`sham: true` shows which; if it is the counting" in note for note in found.notes) is perturbs
    literal = check_runs(spec, {"main": traces}, CheckOptions(method="paper"))
    (steps,) = (verdict for verdict in literal.verdicts if verdict.configuration == "steps")
    assert {change.against for change in steps.changes if change.check == "outer"} == {"anchor"}


@pytest.mark.parametrize("runs", [6, 4])
def test_each_pair_is_compared_once_in_the_first_pass_where_it_meets(tmp_path: Path, runs: int) -> None:
    spec = load_spec(
        write_spec(
            tmp_path,
            analysis__anchor=None,
            analysis__align_on=None,
            measure__software={"steps": {"loop": "walk"}},
            measure__hardware=list(METRICS),
            measure__derived={},
        )
    )
    first, second, third = METRICS
    traces = {
        name: {**_runs(names, runs), "steps": _runs(names, 3, "steps")["steps"]}
        for name, names in {
            "one": (first, second),
            "two": (second, third),
            "three": (first, third),
            "four": (third, second),
        }.items()
    }
    (verdict,) = check_runs(spec, traces).verdicts
    compared = [(change.check, change.first, change.second) for change in verdict.changes]
    inner = [("inner", *pair) for pair in ((first, second), (second, third), (first, third))]
    assert [each for each in compared if each[0] == "inner"] == inner
    outer = [("outer", name, name) for name in METRICS] if runs == 6 else []
    assert sorted(each for each in compared if each[0] == "outer") == sorted(outer)


def test_steadiness_names_the_pass_where_passes_differ() -> None:
    outlier = OutlierRun("0015", "the total of steps", 1.01, 1.0, 0.01, is_total=True)
    steady, odd = Stability(5, (), (), (), 5, "a – b"), Stability(5, (), (outlier,), (), 172, "c – d")
    said = CampaignVerdicts((), {}, (), {"main": steady, "second": odd}).steadiness
    assert said[0].startswith("Pass second: Baseline run 0015 is an outlier: the total of steps is 101.0")
    assert said[1] == "The baseline of pass main is steady over its 5 runs: no drift, no outlier."
    assert "about 172 runs per configuration" in said[2]
    assert len(said) == 3
    alike = CampaignVerdicts((), {}, (), {"main": steady, "second": steady}).steadiness
    assert alike[0] == "The baseline is steady over its 5 runs: no drift, no outlier."
    assert len(alike) == 2
