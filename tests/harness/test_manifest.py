"""The manifest: what is done stays done, whatever happens to the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.errors import SpecError
from unperturbed.harness.manifest import Manifest, locked
from unperturbed.harness.plan import PlannedRun

RUNS = [PlannedRun(f"{number:04d}", "baseline", "main", number, 0, 17) for number in range(1, 5)]
HOST = {"load_1min": 0.5}


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(tmp_path / "campaign.sqlite")
    made.plan(RUNS)
    return made


def test_a_run_goes_from_planned_to_done(manifest: Manifest) -> None:
    manifest.start(RUNS[0], attempt=1, started="2026-01-01", host=HOST)
    assert [state.state for state in manifest.runs()] == ["running", "planned", "planned", "planned"]
    manifest.finish(RUNS[0], seconds=1.5, intervals=160, host={"load_1min": 0.7})
    (done,) = manifest.runs("done")
    assert done.run == RUNS[0]
    assert (done.seconds, done.intervals, done.attempt) == (1.5, 160, 1)
    assert (done.host_before, done.host_after) == (HOST, {"load_1min": 0.7})


def test_reopening_plans_again_what_was_interrupted_or_failed(manifest: Manifest) -> None:
    for run in RUNS[:3]:
        manifest.start(run, attempt=1, started="now", host=HOST)
    manifest.finish(RUNS[0], seconds=1, intervals=100, host=HOST)
    manifest.fail(RUNS[1], seconds=1, error="crashed", host=HOST, final=True)
    assert [state.state for state in manifest.runs()] == ["done", "failed", "running", "planned"]
    manifest.plan(RUNS)
    manifest.reopen()
    assert [state.state for state in manifest.runs()] == ["done", "planned", "planned", "planned"]
    assert [(failure.run, failure.attempt, failure.error) for failure in manifest.failures()] == [("0002", 1, "crashed")]


def test_facts_are_kept_as_they_are(manifest: Manifest) -> None:
    manifest.set_facts(a={"b": [1, 2.5, None, "ρ"]}, c=3)
    manifest.close()
    with Manifest(manifest.path) as again:
        assert again.fact("a") == {"b": [1, 2.5, None, "ρ"]}
        assert again.fact("nothing") is None
        again.clear()
        assert again.fact("c") is None
        assert again.runs() == []


def test_a_transaction_that_fails_leaves_nothing(manifest: Manifest) -> None:
    with pytest.raises(TypeError):
        manifest.set_facts(good=1, bad=object())
    assert manifest.fact("good") is None


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path):
        text = (
            "import sys; from pathlib import Path; from unperturbed.harness.manifest import locked\n"
            "with locked(Path(sys.argv[1])): print('got it')"
        )
        other = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=False)
        assert "got it" not in other.stdout
        assert "another process (pid " in other.stderr
    with locked(tmp_path):
        pass


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    import os

    with locked(tmp_path), pytest.raises(SpecError, match=f"pid {os.getpid()}"), locked(tmp_path):
        pass


def test_a_file_that_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "campaign.sqlite").write_text("some notes of mine, more than sixteen bytes long")
    with pytest.raises(SpecError, match="not a campaign's manifest"):
        Manifest(tmp_path / "campaign.sqlite")
