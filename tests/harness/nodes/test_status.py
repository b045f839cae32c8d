"""`unperturbed status`: where a campaign stands, seen from another terminal."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.harness.command_server import run_command
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest, locked
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.campaign.summary import read_summary
from unperturbed.harness.nodes.shares import NodePart, reading
from unperturbed.harness.nodes.status import read_status


def _campaign(folder: Path, states: str, **facts: Any) -> Path:
    """Make a campaign: d is a run that is done, r one that runs, f one that failed, p one that is planned."""
    folder.mkdir(parents=True)
    with Manifest(folder / "campaign.sqlite") as manifest:
        manifest.set_facts(name=folder.name, begun="2026-01-02T03:04:05+00:00", **facts)
        runs = [PlannedRun(f"{at:04d}", "baseline", "main", at, 0, 0) for at in range(1, len(states) + 1)]
        manifest.plan(runs)
        ago = (datetime.now(UTC) - timedelta(seconds=3)).isoformat(timespec="seconds")
        for run, state in zip(runs, states, strict=True):
            if state != "p":
                manifest.start(run, attempt=1, started=ago, host={})
            if state == "d":
                manifest.finish(run, seconds=10.0, intervals=9, host={})
            elif state == "f":
                manifest.fail(run, seconds=1.0, error="exit code 7", host={}, final=True)
    return folder


def _files(folder: Path) -> dict[str, str]:
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def test_a_running_campaign_is_shown_and_not_touched(tmp_path: Path) -> None:
    folder = _campaign(
        tmp_path / "busy", "ddfrpp", description={"host": {"name": "box", "system": "x"}, "processor": {"model": "y"}}
    )
    with locked(folder):
        before = _files(folder)
        status = read_status(folder)
        shown = run_command(tmp_path, ["status", str(folder), "--json"])
        text = run_command(tmp_path, ["status", str(folder)]).stdout
        assert _files(folder) == before
    (part,) = status.parts
    assert (part.node, part.phase, part.runs) == (
        "box",
        "running",
        {"done": 2, "failed": 1, "running": 1, "planned": 2},
    )
    assert part.current is not None and part.current.run == "0004" and 2 <= part.current.seconds < 60
    assert part.seconds_left is not None and 30 - 60 < part.seconds_left <= 28
    assert part.failures == ("run 0003 (baseline 3): exit code 7",)
    told = json.loads(shown.stdout)
    assert (told["planned"], told["parts"][0]["current"]["run"], told["runs"]["done"]) == (6, "0004", 2)
    assert "now:    run 0004 (baseline, main)" in text and "failed: run 0003 (baseline 3): exit code 7" in text


def test_why_a_campaign_waits(tmp_path: Path) -> None:
    stopped = _campaign(tmp_path / "stopped one", "dp", spec_path="/specs/a.yaml", **{"pilot:main": None})
    (part,) = read_status(stopped).parts
    assert part.phase == "stopped" and part.seconds_left == 10
    assert f"unperturbed run /specs/a.yaml --campaign '{stopped}'" in part.waits
    interrupted = _campaign(tmp_path / "interrupted", "ddrppp")
    assert read_status(interrupted).parts[0].runs == read_summary(interrupted).runs == {"done": 2, "planned": 4}
    failed = read_status(_campaign(tmp_path / "failed", "dff")).parts[0]
    assert failed.waits == "2 runs failed; repeat the command to retry" and len(failed.failures) == 2
    done = read_status(_campaign(tmp_path / "done", "dd")).parts[0]
    assert (done.phase, done.waits, done.seconds_left) == ("done", "", 0)
    pilot = {"interval_ns": 1, "intervals": 9, "seconds": 4.0, "note": ""}
    early = read_status(_campaign(tmp_path / "early", "pp", **{"pilot:main": pilot})).parts[0]
    assert early.seconds_left == 8
    unknown = _campaign(tmp_path / "unknown", "pp")
    assert read_status(unknown).seconds_left is None
    empty = _campaign(tmp_path / "empty", "")
    with locked(empty):
        assert "preparation is not finished" in read_status(empty).parts[0].waits


def test_a_folder_without_a_campaign_and_one_left_in_the_middle_of_a_write(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="contains no campaign"):
        read_status(tmp_path)
    folder = _campaign(tmp_path / "killed", "dp")
    # A writer that is killed leaves its journal; a reader cannot roll it back, and must not.
    database = sqlite3.connect(folder / "campaign.sqlite", isolation_level=None)
    database.execute("PRAGMA cache_spill = 1")
    database.execute("PRAGMA cache_size = 1")
    database.execute("BEGIN")
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
    database.execute(f"CREATE TABLE more AS {rows} SELECT i, hex(randomblob(99)) AS t FROM n")
    journal = (folder / "campaign.sqlite-journal").read_bytes()
    spilt = (folder / "campaign.sqlite").read_bytes()
    database.execute("ROLLBACK")
    database.close()
    (folder / "campaign.sqlite").write_bytes(spilt)
    (folder / "campaign.sqlite-journal").write_bytes(journal)
    shown = run_command(tmp_path, ["status", str(folder)])
    assert shown.returncode == 2 and "a process was killed while it wrote the manifest" in shown.stderr
    assert (folder / "campaign.sqlite-journal").read_bytes() == journal
    with reading(NodePart(1, folder)) as manifest:  # who coordinates rolls it back
        assert manifest.counts() == {"done": 1, "planned": 1}
    assert not (folder / "campaign.sqlite-journal").exists()


def test_ten_thousand_runs(tmp_path: Path) -> None:
    folder = _campaign(tmp_path / "many", "")
    with Manifest(folder / "campaign.sqlite") as manifest:
        manifest.plan(PlannedRun(f"{at:04d}", "baseline", "main", at, 0, 0) for at in range(1, 10_001))
    database = sqlite3.connect(folder / "campaign.sqlite")
    database.execute("UPDATE runs SET state = 'done', seconds = 2 WHERE CAST(id AS INTEGER) <= 9000")
    database.execute("UPDATE runs SET state = 'failed', error = 'no' WHERE CAST(id AS INTEGER) = 9001")
    database.commit()
    database.close()
    status = read_status(folder)
    assert status.runs == {"done": 9000, "failed": 1, "planned": 999} and status.seconds_left == 1998
