"""What the manifest knows of a sweep beyond other campaigns: the point of each run, and what whole runs gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun

RUNS = [PlannedRun(f"{number:06d}", "baseline", "main", 1, 0, 17, point=number) for number in range(1, 5)]
HOST = {"load_1min": 0.5}


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(tmp_path / "campaign.sqlite")
    made.plan(RUNS)
    return made


def _done(manifest: Manifest, run: PlannedRun, **totals: float) -> None:
    manifest.start(run, attempt=1, started="now", host=HOST)
    manifest.finish(run, seconds=1, intervals=1, host=HOST, totals=totals)


def test_runs_know_their_points(manifest: Manifest) -> None:
    assert [state.run for state in manifest.runs()] == RUNS


def test_totals_are_there_with_the_run_that_is_done_and_survive(manifest: Manifest) -> None:
    assert manifest.totals() == {}
    _done(manifest, RUNS[1], time_s=0.25, PAPI_TOT_INS=2**62)
    _done(manifest, RUNS[2], time_s=0.5)
    manifest.close()
    with Manifest(manifest.path) as again:
        assert again.totals() == {"000002": {"time_s": 0.25, "PAPI_TOT_INS": 2**62}, "000003": {"time_s": 0.5}}
        assert again.totals("000003", "000004") == {"000003": {"time_s": 0.5}}
        assert [state.run.id for state in again.runs("done")] == ["000002", "000003"]
        again.clear()
        assert (again.totals(), again.runs()) == ({}, [])


def test_only_runs_that_were_never_begun_are_forgotten(manifest: Manifest) -> None:
    _done(manifest, RUNS[0])
    manifest.start(RUNS[1], attempt=1, started="now", host=HOST)
    manifest.reopen()
    manifest.forget_runs(run.id for run in RUNS[:3])
    assert [state.run.id for state in manifest.runs()] == ["000001", "000002", "000004"]
