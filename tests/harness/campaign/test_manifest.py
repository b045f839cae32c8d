"""The manifest: what is done stays done, whatever happens to the process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest, locked
from unperturbed.harness.campaign.plan import PlannedRun

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


def test_a_finish_that_waits_is_on_disk_with_the_next_change_and_at_the_end(manifest: Manifest) -> None:
    def seen() -> list[str]:
        with Manifest(manifest.path, read_only=True) as other:
            return [state.state for state in other.runs()]

    for at in (0, 1, 2):
        manifest.start(RUNS[at], attempt=1, started="now", host=HOST)
    manifest.finish(RUNS[0], seconds=1, intervals=100, host=HOST, waits=True)
    assert manifest.runs()[0].state == "done" and seen()[0] == "running"
    manifest.start(RUNS[3], attempt=1, started="now", host=HOST)
    assert seen() == ["done", "running", "running", "running"]
    manifest.finish(RUNS[1], seconds=1, intervals=100, host=HOST, totals={"x": 1}, waits=True)
    assert seen()[1] == "running"
    manifest.settle()
    manifest.settle()
    assert seen()[1] == "done" and manifest.totals("0002") == {"0002": {"x": 1}}
    manifest.finish(RUNS[2], seconds=1, intervals=100, host=HOST, waits=True)
    manifest.close()
    manifest.settle()
    assert seen() == ["done", "done", "done", "running"]


def test_a_finish_that_waits_outlives_the_next_change_that_fails(manifest: Manifest) -> None:
    manifest.start(RUNS[0], attempt=1, started="now", host=HOST)
    manifest.finish(RUNS[0], seconds=1, intervals=100, host=HOST, waits=True)
    with pytest.raises(TypeError):
        manifest.start(RUNS[1], attempt=1, started="now", host={"no JSON": object()})
    manifest.close()
    with Manifest(manifest.path, read_only=True) as other:
        assert [state.state for state in other.runs()] == ["done", "planned", "planned", "planned"]


def test_reopening_plans_again_what_was_interrupted_or_failed(manifest: Manifest) -> None:
    for run in RUNS[:3]:
        manifest.start(run, attempt=1, started="now", host=HOST)
    manifest.finish(RUNS[0], seconds=1, intervals=100, host=HOST)
    manifest.fail(RUNS[1], seconds=1, error="crashed", host=HOST, final=True)
    assert [state.state for state in manifest.runs()] == ["done", "failed", "running", "planned"]
    manifest.plan(RUNS)
    manifest.reopen()
    assert [state.state for state in manifest.runs()] == ["done", "planned", "planned", "planned"]
    assert [(failure.run, failure.attempt, failure.error) for failure in manifest.failures()] == [
        ("0002", 1, "crashed")
    ]


def test_a_disk_that_is_full_is_said_and_changes_nothing(manifest: Manifest) -> None:
    (pages,) = manifest._db.execute("PRAGMA page_count").fetchone()
    manifest._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        manifest.set_facts(small=1, large="x" * 100_000)
    assert manifest.fact("small") is None
    manifest._db.execute(f"PRAGMA max_page_count = {pages + 100}")
    manifest.set_facts(small=1)
    assert manifest.fact("small") == 1


def test_facts_are_kept_as_they_are(manifest: Manifest) -> None:
    manifest.set_facts(a={"b": [1, 2.5, None, "ρ"]}, c=3)
    manifest.close()
    with Manifest(manifest.path) as again:
        assert again.fact("a") == {"b": [1, 2.5, None, "ρ"]}
        assert again.fact("nothing") is None
        again.clear()
        assert again.fact("c") is None
        assert again.runs() == []


def test_the_layout_of_a_run_is_kept(manifest: Manifest) -> None:
    manifest.plan([replace(RUNS[0], id="0005", layout=3)])
    assert [state.run.layout for state in manifest.runs()] == [0, 0, 0, 0, 3]


def test_runs_that_were_never_begun_can_be_taken_out_of_the_plan(manifest: Manifest) -> None:
    manifest.plan([replace(run, id=f"1{run.id[1:]}", configuration="sham-light") for run in RUNS])
    states = manifest.runs()
    manifest.start(states[4].run, attempt=1, started="now", host=HOST)
    manifest.finish(states[4].run, seconds=1, intervals=100, host=HOST)
    manifest.start(states[5].run, attempt=1, started="now", host=HOST)
    manifest.fail(states[5].run, seconds=1, error="crashed", host=HOST, final=False)
    manifest.forget(["sham-light"])
    assert [state.run.id for state in manifest.runs()] == ["0001", "0002", "0003", "0004", "1001", "1002"]


@pytest.mark.parametrize("writable", [True, False])
def test_a_campaign_of_before_there_were_layouts_is_read_and_goes_on(tmp_path: Path, writable: bool) -> None:
    path = tmp_path / "campaign.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(BEFORE_LAYOUTS)
    database.close()
    if not writable:
        path.chmod(0o444)
        tmp_path.chmod(0o555)
    try:
        with Manifest(path) as manifest:
            (done,) = manifest.runs("done")
            assert done.run == PlannedRun("0001", "baseline", "main", 1, 0, 17)
            assert (done.seconds, done.intervals, done.host_before) == (1.5, 160, {"load_1min": 0.5})
            if writable or os.geteuid() == 0:
                manifest.plan([PlannedRun("0002", "baseline", "main", 2, 1, 18, layout=2)])
                assert [state.run.layout for state in manifest.runs()] == [0, 2]
    finally:
        tmp_path.chmod(0o755)


BEFORE_LAYOUTS = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
    id TEXT PRIMARY KEY, configuration TEXT NOT NULL, pass TEXT NOT NULL, repetition INTEGER NOT NULL,
    block INTEGER NOT NULL,
    pad_bytes INTEGER NOT NULL, state TEXT NOT NULL CHECK (state IN ('planned', 'running', 'done', 'failed')),
    attempt INTEGER NOT NULL DEFAULT 0, started TEXT, seconds REAL, intervals INTEGER, error TEXT NOT NULL DEFAULT '',
    host_before TEXT, host_after TEXT
);
CREATE TABLE failures (
    run TEXT NOT NULL REFERENCES runs (id), attempt INTEGER NOT NULL, started TEXT, seconds REAL, error TEXT NOT NULL,
    PRIMARY KEY (run, attempt)
);
INSERT INTO runs VALUES
    ('0001', 'baseline', 'main', 1, 0, 17, 'done', 1, 'then', 1.5, 160, '', '{"load_1min": 0.5}', NULL);
"""


def test_a_transaction_that_fails_leaves_nothing(manifest: Manifest) -> None:
    with pytest.raises(TypeError):
        manifest.set_facts(good=1, bad=object())
    assert manifest.fact("good") is None


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path):
        text = (
            "import sys; from pathlib import Path; from unperturbed.harness.campaign.manifest import locked\n"
            "with locked(Path(sys.argv[1])): print('got it')"
        )
        other = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=False)
        assert "got it" not in other.stdout
        assert "another process (pid " in other.stderr
    with locked(tmp_path):
        pass


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(SpecError, match=f"pid {os.getpid()}"), locked(tmp_path):
        pass


def test_a_file_that_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "campaign.sqlite").write_text("some notes of mine, more than sixteen bytes long")
    with pytest.raises(SpecError, match="not a campaign's manifest"):
        Manifest(tmp_path / "campaign.sqlite")


def test_facts_that_are_missing_or_of_another_shape_are_damage(tmp_path: Path) -> None:
    native = {"exit_code": 0, "seconds": float("nan"), "user_s": 0.0, "system_s": 0.0, "max_rss_kib": 0}
    with Manifest(tmp_path / "campaign.sqlite") as manifest:
        manifest.set_facts(passes=[{"name": 3}], native=native)
        for name in ("passes", "native"):
            with pytest.raises(SpecError, match=f"manifest is damaged: in the table `facts`, the entry .{name}."):
                manifest.fact(name)
        with pytest.raises(SpecError, match="in the table `facts`, the entry 'description' is missing"):
            manifest.required_fact("description")
