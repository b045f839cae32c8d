"""A campaign whose parts are processes of this host: stopped anywhere, resumed, cancelled, judged over nodes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import unperturbed as up
from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.errors import SpecError
from unperturbed.harness.nodes.shares import NodePart
from unperturbed.harness.nodes.status import read_status

QUICK: dict[str, Any] = {
    "name": "quick",
    # Runs wait while the gate is closed, and last for many intervals: no test depends on how fast anything is.
    "program": {"run": "sh -c 'while [ ! -e {spec}/open ]; do sleep 0.02; done; sleep 0.25'"},
    "measure": {"hardware": [], "os": ["minor_faults"], "software": {}, "interval": "20 ms"},
    "campaign": {"baseline_runs": 12, "runs": 4, "retries": 0},
    "nodes": {"engine": "here", "count": 2},
}


def quick_spec(folder: Path, **nodes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    spec = {**QUICK, "nodes": {**QUICK["nodes"], **nodes}}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "spec.yaml"


def start(spec: Path, *options: str) -> Forked:
    return Forked(spec.parent, "run", spec, *options)


def states(campaign: Path) -> list[tuple[str, str, int]]:
    """Return part and run, state and attempt of every run of every part."""
    found = []
    for manifest in sorted(campaign.glob("nodes/*/campaign.sqlite")):
        database = sqlite3.connect(f"file:{manifest}?mode=ro", uri=True)
        try:
            rows = database.execute("SELECT id, state, attempt FROM runs ORDER BY id").fetchall()
        except sqlite3.OperationalError:  # the tables are being made
            rows = []
        finally:
            database.close()
        found += [(f"{manifest.parent.name}/{run}", state, attempt) for run, state, attempt in rows]
    return found


def done(campaign: Path) -> int:
    return sum(state == "done" for _, state, _ in states(campaign))


def wait_for(what: Callable[[], bool], seconds: float = 120, *, pause: float = 0.02) -> None:
    until = time.monotonic() + seconds
    while not what():  # a limit for what never happens
        assert time.monotonic() < until, "it did not happen"
        time.sleep(pause)


def worker_of(part: NodePart, coordinator: int) -> int:
    """Return the process that works on a part, once its lock names it: before, it names who made the part."""
    lock = part.folder / "campaign.lock"
    wait_for(lambda: part.owner is not None and lock.read_text() not in {"", str(coordinator)})
    return int(lock.read_text())


def test_a_coordinator_that_is_killed_or_interrupted_leaves_the_parts_working(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path)
    campaign, gate = tmp_path / "campaigns" / "quick", tmp_path / "open"
    first = start(spec, "--no-check")
    wait_for((campaign / "nodes/01/owner.json").exists)
    second = start(spec, "--no-check")
    assert second.wait(60) == 2 and "another process" in second.communicate()[1]
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    gate.touch()
    wait_for(lambda: done(campaign) == 6)  # part 01 goes on by itself, and nobody starts part 02
    gate.unlink()
    third = start(spec, "--no-check")
    wait_for((campaign / "nodes/02/owner.json").exists)
    third.send_signal(signal.SIGINT)
    assert third.wait(60) == 130
    assert "the submitted parts continue without this command" in " ".join(third.communicate()[1].split())
    assert [part.node for part in read_status(campaign).parts] == ["part-01", "part-02"]
    # On a busy host, the part that goes on may still be before its first run.
    wait_for(lambda: [part.phase for part in read_status(campaign).parts] == ["done", "running"])
    gate.touch()
    last = unperturbed(tmp_path, "run", spec, "--no-check")
    assert last.returncode == 0, last.stderr
    # Nothing was run twice, and nothing is lost.
    assert len(states(campaign)) == 12 and {entry[1:] for entry in states(campaign)} == {("done", 1)}
    shown = json.loads(unperturbed(tmp_path, "status", spec, "--json").stdout)
    assert (shown["planned"], shown["runs"], len(shown["parts"])) == (12, {"done": 12}, 2)
    assert "12 of 12" in unperturbed(tmp_path, "list").stdout


def test_cancelled_jobs_end_and_the_campaign_resumes(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path)
    campaign = tmp_path / "campaigns" / "quick"
    running = start(spec, "--no-check")
    wait_for((campaign / "nodes/01/owner.json").exists)
    worker = psutil.Process(json.loads((campaign / "nodes/01/job.json").read_text())["pid"])
    assert read_status(campaign).parts[1].waits == "no job works on this part yet; `unperturbed run` is still running"
    cancelled = unperturbed(tmp_path, "run", spec, "--cancel")
    assert (cancelled.returncode, cancelled.stdout.startswith("1 job cancelled")) == (0, True)
    assert running.wait(60) == 1 and "the jobs were cancelled" in running.communicate()[1]
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    part = read_status(campaign).parts[0]
    assert part.phase == "not begun" and "repeat `unperturbed run`" in part.waits
    (tmp_path / "open").touch()
    assert unperturbed(tmp_path, "run", spec, "--no-check").returncode == 0
    assert {entry[1] for entry in states(campaign)} == {"done"} and len(states(campaign)) == 12


def test_a_part_that_cannot_be_made_is_given_up_and_told(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path)
    (tmp_path / "open").touch()
    assert unperturbed(tmp_path, "run", spec, "--no-check").returncode == 0
    campaign = tmp_path / "campaigns" / "quick"
    spec.write_text(spec.read_text().replace("baseline_runs: 12", "baseline_runs: 14"))
    facts = json.loads((campaign / "nodes/facts.json").read_text())
    facts["facts"]["processor model"] = "another"
    (campaign / "nodes/facts.json").write_text(json.dumps(facts))
    shown = unperturbed(tmp_path, "run", spec, "--no-check")
    assert shown.returncode == 1  # as where a verdict is given: runs are missing
    assert "giving up on part 01: node part-01 differs from the first node, part-01: processor model" in " ".join(
        shown.stderr.split()
    )
    assert len(states(campaign)) == 12
    part = unperturbed(tmp_path, "work", campaign / "nodes" / "01")
    assert part.returncode == 3 and "differs from" in part.stderr
    assert unperturbed(tmp_path, "work", tmp_path).returncode == 2
    # Another campaign must not take the folder, whose own manifest has no run.
    plain = yaml.safe_load(spec.read_text())
    del plain["nodes"]
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(plain))
    refused = unperturbed(tmp_path, "run", "plain.yaml")
    assert refused.returncode == 2 and "contains a campaign on nodes" in refused.stderr


def test_runs_that_fail_end_the_command_and_the_part_with_1(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path, count=1)
    text = spec.read_text().replace("sleep 0.25'", "sleep 0.25; test ! -e {spec}/broken'")
    spec.write_text(text.replace("baseline_runs: 12", "baseline_runs: 5"))
    campaign = tmp_path / "campaigns" / "quick"
    part = campaign / "nodes" / "01"
    (tmp_path / "open").touch()
    assert unperturbed(tmp_path, "run", spec, "--no-check").returncode == 0
    spec.write_text(spec.read_text().replace("baseline_runs: 5", "baseline_runs: 7"))
    (tmp_path / "broken").touch()
    failed = unperturbed(tmp_path, "run", spec, "--no-check")
    assert failed.returncode == 1 and "submitted again" not in failed.stderr, failed.stderr
    assert json.loads((part / "outcome.json").read_text())["exit_code"] == 1
    assert "given up" not in failed.stderr
    node = {"UNPERTURBED_NODE": "part-01"}
    assert unperturbed(tmp_path, "work", part, environment=node).returncode == 1
    (tmp_path / "broken").unlink()
    assert unperturbed(tmp_path, "work", part, environment=node).returncode == 0
    assert json.loads((part / "outcome.json").read_text())["exit_code"] == 0
    assert {state for _, state, _ in states(campaign)} == {"done"} and len(states(campaign)) == 7


def test_parts_are_judged_together(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        campaign__baseline_runs=10,
        campaign__runs=4,
        analysis__anchor=None,
        measure__software={"steps": {"loop": "walk"}},
        nodes={"engine": "here", "count": 2},
    )
    shown = unperturbed(tmp_path, "run", spec, "--json")
    assert shown.returncode in (0, 4), shown.stderr
    campaign = tmp_path / "campaigns" / "phases"
    (steps,) = json.loads(shown.stdout)["nodes"]
    assert set(steps["by_node"]) == {"part-01", "part-02"} and steps["type_of_node"] is None
    assert shown.stderr.count("building steps") == 1
    assert sorted(path.name for path in (campaign / "builds").iterdir()) == ["00", "01", "02"]
    assert not (campaign / "nodes/01/builds").exists()
    page = (campaign / "report.html").read_text()
    assert "these nodes" in page and "nodes-0" in page and (campaign / "nodes/02/report.html").is_file()
    assert "Totals of a run" in page and "mean over the nodes" in page
    assert json.loads((campaign / "nodes.json").read_text()) == json.loads(shown.stdout)
    again = unperturbed(tmp_path, "check", campaign, "--json", "--no-write")
    assert json.loads(again.stdout)["nodes"] == [steps] and again.returncode == shown.returncode
    part = unperturbed(tmp_path, "check", campaign / "nodes" / "01", "--json", "--no-write")
    assert json.loads(part.stdout)["verdicts"][0]["verdict"] == steps["by_node"]["part-01"]
    merged = unperturbed(tmp_path, "merge", campaign)
    assert merged.returncode == 2 and "use `check` or `report` for all nodes together" in merged.stderr
    with pytest.raises(SpecError, match=r"`unperturbed check --json .*phases` prints .* writes them to .*nodes\.json"):
        up.check(campaign)
    (single,) = up.check(campaign / "nodes" / "01").verdicts
    assert single.verdict == steps["by_node"]["part-01"]
