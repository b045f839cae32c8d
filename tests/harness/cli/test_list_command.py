"""`unperturbed list`: campaigns below a folder and where they stand."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.campaign.manifest import Manifest, locked
from unperturbed.harness.campaign.plan import PlannedRun


def _campaign(folder: Path, states: str, **facts: str) -> Path:
    """Make a campaign's folder by its manifest: d is a run that is done, f one that failed, p one that is planned."""
    folder.mkdir(parents=True)
    with Manifest(folder / "campaign.sqlite") as manifest:
        manifest.set_facts(name=folder.name, begun="2026-01-02T03:04:05+00:00", **facts)
        runs = [PlannedRun(f"{number:04d}", "baseline", "main", number, 0, 0) for number in range(1, len(states) + 1)]
        manifest.plan(runs)
        for run, state in zip(runs, states, strict=True):
            if state != "p":
                manifest.start(run, attempt=1, started="", host={})
            if state == "d":
                manifest.finish(run, seconds=1.0, intervals=9, host={})
            elif state == "f":
                manifest.fail(run, seconds=1.0, error="no", host={}, final=True)
    return folder


def test_where_campaigns_stand(tmp_path: Path) -> None:
    done = _campaign(tmp_path / "campaigns" / "done", "ddd")
    verdicts = [{"verdict": "unperturbed"}, {"verdict": "perturbed"}, {"verdict": "unperturbed"}]
    (done / "verdicts.json").write_text(json.dumps({"verdicts": verdicts}))
    _campaign(tmp_path / "campaigns" / "failed", "dfd")
    _campaign(tmp_path / "campaigns" / "deep" / "stopped", "dpp", purpose="a sweep")
    _campaign(tmp_path / "campaigns" / "empty", "")
    busy = _campaign(tmp_path / "campaigns" / "busy", "dp")
    broken = tmp_path / "campaigns" / "broken"
    broken.mkdir()
    (broken / "campaign.sqlite").write_text("not a database, whatever it is called" * 100)
    before = sorted(tmp_path.rglob("*"))
    with locked(busy):
        shown = unperturbed(tmp_path, "list", "--json")
        table = unperturbed(tmp_path, "list").stdout
    assert shown.returncode == 0
    found = {one["name"]: one for one in json.loads(shown.stdout)}
    assert {name: one["phase"] for name, one in found.items()} == {
        "done": "done",
        "failed": "failed",
        "stopped": "stopped",
        "empty": "not begun",
        "busy": "running",
        "broken": "unreadable",
    }
    assert found["done"]["verdicts"] == {"unperturbed": 2, "perturbed": 1}
    assert (found["stopped"]["runs"], found["stopped"]["planned"]) == ({"done": 1, "planned": 2}, 3)
    rows = {line.split()[0].removeprefix("campaigns/"): line for line in table.splitlines() if "campaigns/" in line}
    assert "3 of 3" in rows["done"] and "2 unperturbed, 1 perturbed" in rows["done"]
    assert "2 of 3, 1 failed" in rows["failed"]
    assert "(sweep)" in rows["deep/stopped"] and "2026-01-02 03:04" in rows["deep/stopped"]
    assert "not a database" in rows["broken"]
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "campaign.lock") == before


def test_one_campaign_and_none(tmp_path: Path) -> None:
    one = _campaign(tmp_path / "one", "d")
    assert [found["name"] for found in json.loads(unperturbed(tmp_path, "list", one, "--json").stdout)] == ["one"]
    (tmp_path / "nothing").mkdir()
    none = unperturbed(tmp_path, "list", "nothing")
    assert (none.returncode, "no campaign in" in none.stdout) == (0, True)
    missing = unperturbed(tmp_path, "list", "nowhere")
    assert (missing.returncode, "no such folder" in missing.stderr) == (2, True)
