"""A search for a partition over two parts of this host: killed, resumed without one of them, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.nodes.test_here import done, states, wait_for
from tests.harness.nodes.toy_search import environment, write_search
from tests.harness.phases_campaign import unperturbed
from tests.harness.results.schema_faults import file_faults
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.summary import is_locked
from unperturbed.harness.nodes.shares import Requests, parts_of, read_requests


def start(spec: Path, base: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "unperturbed.harness.cli", "partition", str(spec)]
    return subprocess.Popen(
        command,
        cwd=spec.parent,
        env=environment(spec.parent, base),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def measured(campaign: Path) -> dict[str, int]:
    """Return when each planned run's trace was written."""
    return {
        str(path.relative_to(campaign)): path.stat().st_mtime_ns
        for path in campaign.glob("nodes/*/runs/*/trace.parquet")
        if path.parent.name != "0000"
    }


def plan_of(campaign: Path) -> dict[str, Any]:
    assert file_faults(campaign / "plan.json") == []
    plan: dict[str, Any] = json.loads((campaign / "plan.json").read_text())
    return {name: value for name, value in plan.items() if name != "hours"}


def check_evidence(campaign: Path, plan: dict[str, Any], sizes: list[int]) -> None:
    """Every subset was measured on one node, beside that node's baseline, and certified by runs of its own."""
    owners = {part.owner: part.name for part in parts_of(campaign, 9) if part.owner}
    for one in plan["history"]:
        if one["outcome"]:
            assert {run.split("/")[0] for run in one["outcome"]["runs"]} == {owners[one["outcome"]["node"]]}
    searched = {
        run for one in plan["history"] if one["stage"] != "certify" and one["outcome"] for run in one["outcome"]["runs"]
    }
    for subset in plan["subsets"]:
        assert subset["runs"] and not searched & set(subset["runs"])
        assert {run.split("/")[0] for run in subset["runs"]} == {owners[subset["node"]]}
    assert sorted(len(subset["metrics"]) for subset in plan["subsets"]) == sizes


@pytest.mark.long
def test_a_search_that_was_killed_goes_on_without_a_lost_node_and_repeats_no_run(tmp_path: Path) -> None:
    spec = write_search(tmp_path, {"engine": "here", "count": 2}, metrics=2, most=1)
    campaign = tmp_path / "campaigns" / "toys-partition"
    first = start(spec)
    wait_for(lambda: done(campaign) >= 19 or first.poll() is not None)  # both baselines, all together, each alone
    os.killpg(first.pid, signal.SIGKILL)
    assert first.communicate()[1]
    wait_for(
        lambda: not any(is_locked(part.folder) for part in parts_of(campaign, 2))
    )  # the part at work ends by itself
    before = measured(campaign)
    assert len(before) >= 19
    second = parts_of(campaign, 2)[1]
    owner = second.folder / "owner.json"
    owner.write_text(json.dumps({"node": "gone"}))  # what is left there is for a node that does not come back
    resumed = start(spec)
    out, told = resumed.communicate(timeout=280)
    said = " ".join((out + told).split())
    assert resumed.returncode == 0, said
    assert "giving up on part 02: the part belongs to node gone" in said
    assert "Part 02 ended early" in said and "on part-01" in said
    after = measured(campaign)
    assert {run: after[run] for run in before} == before
    assert {(state, attempt) for _, state, attempt in states(campaign)} == {("done", 1)}
    plan = plan_of(campaign)
    check_evidence(campaign, plan, [1, 1])
    assert {subset["node"] for subset in plan["subsets"]} == {"part-01"}
    assert "gone" in {one["outcome"]["node"] for one in plan["history"] if one["outcome"]}  # what it measured counts
    assert "node part-01" in (campaign / "partition.html").read_text().replace("<dt>Node</dt><dd>", "node ")
    shown = json.loads(unperturbed(tmp_path, "status", campaign, "--json", environment=environment(tmp_path)).stdout)
    assert (shown["purpose"], len(shown["parts"])) == ("a search for a partition on nodes", 2)
    # By the same outcomes the search goes the same way.
    again = start(spec)
    assert again.communicate(timeout=280) and again.returncode == 0
    assert measured(campaign) == after and plan_of(campaign) == plan
    refused = unperturbed(tmp_path, "run", "spec.yaml", "--campaign", campaign, environment=environment(tmp_path))
    assert refused.returncode == 2 and "contains a search for a partition on nodes" in refused.stderr


@pytest.mark.long
def test_a_run_that_fails_ends_the_search_and_the_next_tries_it_again(tmp_path: Path) -> None:
    spec = write_search(tmp_path, {"engine": "here", "count": 2}, retries=0)
    campaign = tmp_path / "campaigns" / "toys-partition"
    running = start(spec)
    wait_for(
        lambda: done(campaign) >= 11 or running.poll() is not None
    )  # both baselines, and a run of the first candidate
    (tmp_path / "fail").touch()
    out, told = running.communicate(timeout=280)
    said = " ".join((out + told).split())
    assert running.returncode == 1, said
    assert "(part-01), which the search needs, failed: the program ended with exit code 1" in said
    assert plan_of(campaign)["stopped"].startswith("run 01/") and not plan_of(campaign)["subsets"]
    before = measured(campaign)
    (tmp_path / "fail").unlink()
    again = start(spec)
    out, told = again.communicate(timeout=280)
    assert again.returncode == 0, out + told
    check_evidence(campaign, plan_of(campaign), [1, 2])
    after = measured(campaign)
    assert {run: after[run] for run in before} == before


def test_cancel_ends_the_jobs_of_a_search(tmp_path: Path) -> None:
    spec = write_search(tmp_path, {"engine": "here", "count": 2})
    campaign = tmp_path / "campaigns" / "toys-partition"
    running = start(spec)
    wait_for((campaign / "nodes/01/job.json").exists)
    worker = psutil.Process(json.loads((campaign / "nodes/01/job.json").read_text())["pid"])
    cancelled = unperturbed(tmp_path, "partition", spec, "--cancel", environment=environment(tmp_path))
    assert cancelled.returncode == 0, cancelled.stderr
    assert running.wait(60) == 1 and "the jobs were cancelled" in " ".join(running.communicate()[1].split())
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert read_requests(parts_of(campaign, 2)[0]).session == ""  # nobody waits for more


@pytest.mark.parametrize(
    ("nodes", "design", "said"),
    [({"stage": "/tmp"}, {}, "remove `stage`"), ({}, {"layouts": "varied"}, "remove `layouts: varied`")],
)
def test_what_needs_all_builds_before_the_first_run_is_refused(
    tmp_path: Path, nodes: dict[str, Any], design: dict[str, Any], said: str
) -> None:
    spec = write_search(tmp_path, {"engine": "here", "count": 2, **nodes}, **design)
    refused = unperturbed(tmp_path, "partition", spec, environment=environment(tmp_path))
    assert refused.returncode == 2
    assert said in " ".join(refused.stderr.split())
    assert "building" not in refused.stderr


def test_requests_add_up_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    part = parts_of(tmp_path, 1)[0]
    part.folder.mkdir(parents=True)
    assert read_requests(part) == Requests()
    known = Requests("here", {"candidate-001": {"software": ["a"], "build": None}}, ({"baseline": 5}, {"baseline": 2}))
    known.write(part)
    assert read_requests(part) == known and known.totals == {"baseline": 7}
    for text in ("{", '{"session": "x"}', '{"session": "x", "configurations": 3, "batches": []}'):
        (part.folder / "requests.json").write_text(text)
        with pytest.raises(SpecError, match="damaged"):
            read_requests(part)
