"""A sweep and a search for a partition on a real Slurm of three nodes: one node lost, the coordinator killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.harness.nodes.forked import Forked
from tests.harness.nodes.slurm import Cluster, cluster, lacking
from tests.harness.nodes.test_here import done, states, wait_for, worker_of
from tests.harness.nodes.test_search_here import check_evidence, measured, plan_of
from tests.harness.nodes.test_search_here import start as start_search
from tests.harness.nodes.test_sweep_here import sweep_spec
from tests.harness.nodes.toy_search import write_search
from unperturbed.collectors.data import read_sweep, read_sweep_facts
from unperturbed.harness.nodes.shares import parts_of

pytestmark = pytest.mark.skipif(bool(lacking()), reason=f"not installed: {', '.join(lacking())}")


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def jobs(slurm: Cluster) -> dict[str, str]:
    """Return the state of each part's job."""
    return {name[-2:]: state for _, name, state, _ in slurm.jobs() if name.startswith("unperturbed")}


def test_a_sweep_goes_on_without_a_node_that_is_lost(slurm: Cluster, tmp_path: Path) -> None:
    spec = sweep_spec(tmp_path, engine="slurm", count=3, patience="1 s")
    campaign = tmp_path / "campaigns" / "swept"
    parts = parts_of(campaign, 3)

    def start() -> Forked:
        return Forked(tmp_path, "run", spec, environment=slurm.environment)

    first = start()
    wait_for(lambda: all(part.owner for part in parts))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    gone = str(parts[1].owner)
    worker = worker_of(parts[1], first.pid)
    slurm.kill(gone)
    os.kill(worker, signal.SIGKILL)  # as the node's power does
    slurm.ask("scontrol", "update", f"nodename={gone}", "state=down", "reason=test")
    (tmp_path / "open").touch()
    second = start()
    try:
        _, told = second.communicate(timeout=240)
    finally:
        slurm.start_node(gone)
        slurm.ask("scontrol", "update", f"nodename={gone}", "state=resume")
    assert second.returncode == 1, told  # points are missing
    assert f"giving up on part 02: its node {gone} is not in service" in " ".join(told.split())
    frame, facts = read_sweep(campaign)[0], read_sweep_facts(campaign)
    assert frame.height + len(facts["missing"]) == 16 and gone not in set(frame["node"])
    assert all(f"its node {gone} is not in service" in item["why"] for item in facts["missing"])
    # Once the node is back, the same command makes the rest.
    wait_for(lambda: slurm.ask("sinfo", "-h", "-n", gone, "-t", "idle", "-o", "%D").strip() != "")
    third = start()
    _, told = third.communicate(timeout=240)
    assert third.returncode == 0, told
    frame = read_sweep(campaign)[0]
    assert frame.height == 16 and set(frame["node"]) == {"node1", "node2", "node3"}
    assert frame.group_by("n", "way").agg(pl.col("node").n_unique())["node"].max() == 1
    assert {state for _, state, _ in states(campaign)} == {"done"} and not jobs(slurm)


@pytest.mark.long
def test_a_search_whose_coordinator_is_killed_goes_on_where_its_nodes_are(slurm: Cluster, tmp_path: Path) -> None:
    spec = write_search(tmp_path, {"engine": "slurm", "count": 3}, baseline_runs=15)
    campaign = tmp_path / "campaigns" / "toys-partition"
    first = start_search(spec, slurm.environment)
    wait_for(lambda: done(campaign) >= 20 or first.poll() is not None)  # three baselines, and more
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    working = jobs(slurm)
    assert len(working) == 3  # they make what was requested, and wait for more
    before = measured(campaign)
    second = start_search(spec, slurm.environment)
    out, told = second.communicate(timeout=280)
    assert second.returncode == 0, out + told
    after = measured(campaign)
    assert {run: after[run] for run in before} == before
    assert {(state, attempt) for _, state, attempt in states(campaign)} == {("done", 1)}
    plan = plan_of(campaign)
    check_evidence(campaign, plan, [1, 2])
    nodes = {one["outcome"]["node"] for one in plan["history"] if one["outcome"]}
    assert nodes == {"node1", "node2", "node3"}  # each metric alone, on a node each
    wait_for(lambda: not jobs(slurm))  # nobody waits for more
