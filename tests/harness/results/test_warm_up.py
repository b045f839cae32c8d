"""Warm-up in the check of a campaign: named where it is, left out on request, and no part of totals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.phases_campaign import write_spec
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.campaign.plan import judged_configurations
from unperturbed.harness.results.check import check_runs
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.results.warm_up import without_warm_up
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec

METRICS = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP")
INTERVALS = 200
_NEVER = -66


def _spec(folder: Path, **changes: Any) -> CampaignSpec:
    settings: dict[str, Any] = {
        "analysis__anchor": None,
        "analysis__align_on": ["PAPI_TOT_INS"],
        "measure__software": {"steps": {"loop": "walk"}},
        "measure__hardware": list(METRICS),
        "measure__derived": {},
    }
    return load_spec(write_spec(folder, **settings, **changes))


def _run(seed: int, configuration: str, begin: int, *, more: float = 0.0) -> Trace:
    """Return a run in which all metrics are high before interval `begin`, and two correlate after it unless `more`.

    `begin`: With `_NEVER`, each third of the run has a level of its own.
    """
    rng = np.random.default_rng(seed)
    shared, own = rng.standard_normal((2, INTERVALS, 1))
    signals = np.hstack([shared, shared if not more else own, own]) + 0.6 * rng.standard_normal((INTERVALS, 3))
    signals[: abs(begin)] += 12.0
    if begin == _NEVER:
        signals[2 * abs(begin) :] += 24.0
    counts = (1000 + 20 * signals).astype(np.int64)
    bounds = np.arange(INTERVALS + 1) * 1_000_000
    attributes = {"run": f"{configuration}-{seed}", "configuration": configuration, "repetition": seed % 100}
    columns = dict(zip(METRICS, counts.T, strict=True)) | {"steps": rng.integers(1, 9, INTERVALS)}
    described = [Metric(name, "hardware") for name in METRICS]
    if configuration != "baseline":
        described.append(Metric("steps", "software"))
    return Trace.from_columns(described, columns, begin_ns=bounds[:-1], end_ns=bounds[1:], attributes=attributes)


def _checked(spec: CampaignSpec, begins: Sequence[int], *, more: float = 0.0) -> CampaignVerdicts:
    names = [item.name for item in judged_configurations(spec)]
    runs = {
        name: tuple(_run(100 * place + at, name, begin, more=more * (place > 0)) for at, begin in enumerate(begins, 1))
        for place, name in enumerate(names)
    }
    return check_runs(spec, {"main": runs})


def test_a_start_that_differs_is_named_and_kept(tmp_path: Path) -> None:
    checked = _checked(_spec(tmp_path), [60] * 8)
    assert checked.warm_up is not None
    found = checked.warm_up.to_dict()
    assert list(found["intervals"]) == ["baseline", "steps"]
    assert all(60 <= intervals <= 66 for intervals in found["intervals"].values())
    assert not found["left_out"]
    assert (
        f"The start of the baseline's runs differs from the rest: their first {found['intervals']['baseline']} "
        "intervals (32 %). Correlations cover whole runs; `after: steady` under `measure` leaves the start out."
        in checked.notes
    )
    assert checked.to_dict()["warm_up"] == checked.warm_up.to_dict()


def test_without_a_start_that_differs_there_is_no_note(tmp_path: Path) -> None:
    checked = _checked(_spec(tmp_path), [0] * 8)
    assert not any("start" in note for note in checked.notes)
    assert checked.warm_up is not None
    assert checked.warm_up.intervals == {}


def test_left_out_on_request_it_uncovers_what_it_hid(tmp_path: Path) -> None:
    whole, steady = (_checked(_spec(tmp_path, **how), [60] * 8, more=1.0) for how in ({}, {"measure__after": "steady"}))
    of_pair = [
        next(
            change
            for change in checked.verdicts[0].changes
            if change.check == "inner" and {change.first, change.second} == {"PAPI_TOT_INS", "PAPI_L1_DCM"}
        )
        for checked in (whole, steady)
    ]
    assert of_pair[1].effect < of_pair[0].effect - 0.2
    assert steady.verdicts[0].verdict == "perturbed"
    assert steady.totals == whole.totals
    assert steady.verdicts[0].overhead == whole.verdicts[0].overhead
    assert steady.traces == whole.traces
    assert any(
        "intervals of each run, of at most 200, are left out of correlations as warm-up (`after: steady`); totals are "
        "those of whole runs." in note
        for note in steady.notes
    )


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        ([0] * 8, "`after: steady` left nothing out: no run's start differs from the rest."),
        ([60, 60, 60, 60, 60, 60, 60, 0], "intervals of each run, of at most 200, are left out"),
        ([60, 60, 60, 60, 60, 60, 60, _NEVER], "1 of 8 runs of baseline and 1 of 8 runs of steps never became steady"),
        (
            [60, 60, 60, 60, _NEVER, _NEVER, _NEVER, _NEVER],
            "`after: steady` left nothing out: 4 of 8 runs of baseline and 4 of 8",
        ),
    ],
)
def test_a_note_says_what_was_left_out(tmp_path: Path, begins: list[int], said: str) -> None:
    checked = _checked(_spec(tmp_path, measure__after="steady"), begins)
    assert any(said in note for note in checked.notes), checked.notes


def test_runs_of_a_search_are_cut_alike(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    runs = [_run(at, "baseline", begin) for at, begin in enumerate((60, 60, 50))]
    assert without_warm_up(spec, runs) == runs
    steady = spec.model_copy(update={"measure": spec.measure.model_copy(update={"after": "steady"})})
    lengths = {len(run) for run in without_warm_up(steady, runs)}
    assert len(lengths) == 1
    assert 134 <= lengths.pop() <= 140
    assert without_warm_up(steady, []) == []
    unsteady = [runs[0], _run(7, "baseline", _NEVER)]
    assert without_warm_up(steady, unsteady) == unsteady


def test_the_setting_may_change_in_a_finished_campaign(tmp_path: Path) -> None:
    assert _spec(tmp_path).digest == _spec(tmp_path, measure__after="steady").digest
