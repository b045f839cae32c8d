"""A campaign on a real Slurm of three nodes, and what happens to its jobs there."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.nodes.forked import Forked
from tests.harness.nodes.slurm import Cluster, cluster, lacking
from tests.harness.nodes.test_here import done, quick_spec, states, worker_of
from tests.harness.nodes.test_here import wait_for as wait_for_soon
from unperturbed.harness.nodes.shares import NodePart, parts_of

pytestmark = pytest.mark.skipif(bool(lacking()), reason=f"not installed: {', '.join(lacking())}")


wait_for = partial(wait_for_soon, pause=0.2)
"""To ask Slurm takes its daemons and a command of its own some time of a processor, which the nodes need."""


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of each test's own: what one does to its daemons must not reach the next."""
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


class Running:
    """A campaign of three parts, whose runs wait until its gate is open."""

    def __init__(self, slurm: Cluster, folder: Path, **nodes: object) -> None:
        self.slurm, self.folder = slurm, folder
        spec = quick_spec(folder, engine="slurm", count=3, **nodes)
        self.spec = spec
        spec.write_text(spec.read_text().replace("baseline_runs: 12", "baseline_runs: 15"))
        self.campaign = folder / "campaigns" / "quick"
        self.parts = parts_of(self.campaign, 3)

    def start(self, *options: str) -> Forked:
        return Forked(self.folder, "run", self.spec, *options, environment=self.slurm.environment)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*options)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.wait(), out, " ".join(err.split()))

    def status(self) -> list[dict[str, object]]:
        shown = Forked(self.folder, "status", self.campaign, "--json", environment=self.slurm.environment)
        found: list[dict[str, object]] = json.loads(shown.communicate()[0])["parts"]
        return found

    def open_gate(self) -> None:
        (self.folder / "open").touch()

    def wait_for_owners(self) -> None:
        wait_for(lambda: all(part.owner for part in self.parts))

    def job_of(self, part: NodePart) -> str:
        """Return the number of the part's job, once it runs."""
        found: list[str] = []

        def runs() -> bool:
            found[:] = [
                job for job, name, state, _ in self.slurm.jobs() if name.endswith(part.name) and state == "RUNNING"
            ]
            return bool(found)

        wait_for(runs)
        return found[0]

    def is_whole(self) -> None:
        """Nothing was run twice, no run is lost, no job is left."""
        found = states(self.campaign)
        assert len(found) == 15 and {state for _, state, _ in found} == {"done"}
        assert all(
            (self.campaign / "nodes" / run.replace("/", "/runs/") / "trace.parquet").is_file() for run, _, _ in found
        )
        assert not [job for job in self.slurm.jobs() if job[1].startswith("unperturbed")]


def test_a_campaign_on_three_nodes(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path, constraint="typea", extra=["--comment=x"], time="10:00")
    # A job of the user's other work that failed must not matter.
    slurm.ask("sbatch", "--output=/dev/null", "--wrap=exit 3")
    running.open_gate()
    done_first = running.run("--no-check")
    assert done_first.returncode == 0, done_first.stderr
    running.is_whole()
    assert {entry[2] for entry in states(running.campaign)} == {1}
    assert {part.owner for part in running.parts} == {"node1", "node2", "node3"}
    assert running.run("--no-check").returncode == 0  # and again: nothing is left to be done
    assert "no node" not in running.run("--cancel").stderr


def test_jobs_that_are_lost_in_every_way_are_submitted_again_to_their_node(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path)
    watching = running.start("--no-check")
    running.wait_for_owners()
    owners = {part.name: part.owner for part in running.parts}
    first, second, third = running.parts
    cancelled = running.job_of(first)
    slurm.ask("scancel", cancelled)  # by hand
    wait_for(lambda: running.job_of(first) != cancelled)
    failed = running.job_of(second)
    node = str(owners["02"])
    slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")  # the node fails …
    wait_for(lambda: not any(job == failed for job, *_ in slurm.jobs()))
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")  # … and is repaired
    wait_for(lambda: running.job_of(second) != failed)
    for _ in range(4):  # more often than a part may fail by itself
        preempted = running.job_of(third)
        urgent = slurm.ask(
            "sbatch",
            "--parsable",
            "--partition=urgent",
            "--exclusive",
            f"--nodelist={owners['03']}",
            "--output=/dev/null",
            "--wrap=true",
        ).strip()
        assert urgent
        wait_for(lambda preempted=preempted: running.job_of(third) != preempted)
    survivor = running.job_of(first)
    slurm.kill("slurmctld")
    slurm.start_controller()
    slurm.kill(str(owners["01"]))
    slurm.start_node(str(owners["01"]))
    wait_for(lambda: len(slurm.jobs()) == 3)
    assert running.job_of(first) == survivor
    running.open_gate()
    _, told = watching.communicate(timeout=240)
    assert watching.returncode == 0, told
    assert "the part is submitted again" in " ".join(told.split())
    running.is_whole()
    assert {part.name: part.owner for part in running.parts} == owners


def test_cancel_leaves_no_job_and_the_campaign_resumes(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path)
    watching = running.start("--no-check")
    running.wait_for_owners()
    assert {(part["phase"], str(part["waits"]).split()[-1]) for part in running.status()} == {("running", "yet")}
    cancelled = running.run("--cancel")
    assert (cancelled.returncode, cancelled.stdout.startswith("3 jobs cancelled")) == (0, True)
    watching.communicate(timeout=60)
    assert watching.returncode == 1
    wait_for(lambda: not [job for job in slurm.jobs() if job[1].startswith("unperturbed")])
    running.open_gate()
    assert running.run("--no-check").returncode == 0
    running.is_whole()


def test_a_node_that_never_comes_back(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path, patience="1 s")
    watching = running.start("--no-check")
    running.wait_for_owners()
    gone = str(running.parts[1].owner)
    lost = running.job_of(running.parts[1])
    worker = worker_of(running.parts[1], watching.pid)
    slurm.kill(gone)
    slurm.ask("scontrol", "update", f"nodename={gone}", "state=down", "reason=test")
    # As the node's power does. Slurm knows already: what ends on a node in service counts as a failure of the part.
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: watching.poll() is not None or any(n.endswith("02") and j != lost for j, n, *_ in slurm.jobs()))
    assert watching.poll() is None, watching.communicate()[1]
    running.open_gate()
    try:
        _, told = watching.communicate(timeout=240)
    finally:
        slurm.start_node(gone)
        slurm.ask("scontrol", "update", f"nodename={gone}", "state=resume")
    assert watching.returncode == 1, told  # runs are missing
    assert f"giving up on part 02: its node {gone} is not in service" in " ".join(told.split())
    assert done(running.campaign) == 10
    # Once the node is back, the same command makes the rest.
    wait_for(lambda: slurm.ask("sinfo", "-h", "-n", gone, "-t", "idle", "-o", "%D").strip() != "")
    assert running.run("--no-check").returncode == 0
    running.is_whole()


@pytest.mark.long
def test_a_coordinator_that_is_killed_at_twenty_moments(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path)
    chance = random.Random(1)
    for _ in range(20):
        watching = running.start("--no-check")
        with contextlib.suppress(subprocess.TimeoutExpired):
            watching.wait(chance.uniform(0.2, 4.0))
        assert watching.poll() is None, watching.communicate()[1]
        os.killpg(watching.pid, signal.SIGKILL)
        watching.communicate()
        names = [name for _, name, *_ in slurm.jobs() if name.startswith("unperturbed")]
        assert len(names) == len(set(names))  # no part was submitted twice
    running.open_gate()
    last = running.run("--no-check")
    assert last.returncode == 0, last.stderr
    running.is_whole()
    assert {attempt for *_, attempt in states(running.campaign)} == {1}


def test_an_option_that_sbatch_refuses_is_told(slurm: Cluster, tmp_path: Path) -> None:
    refused = Running(slurm, tmp_path, partition="nowhere").run("--no-check")
    assert refused.returncode == 1
    assert "sbatch refused the job: " in refused.stderr and "invalid partition" in refused.stderr
    assert "no node has enough finished runs for a verdict" in refused.stderr


def test_without_slurm_the_message_says_where_to_type_the_command(tmp_path: Path, slurm: Cluster) -> None:
    running = Running(slurm, tmp_path)
    (tmp_path / "empty").mkdir()
    slurm_path = slurm.environment["PATH"]
    slurm.environment["PATH"] = str(tmp_path / "empty")
    try:
        told = running.run("--no-check")
    finally:
        slurm.environment["PATH"] = slurm_path
    assert told.returncode == 3 and "`engine: slurm` needs sbatch, squeue, scancel" in told.stderr


@pytest.mark.long
def test_a_requeued_job_and_one_that_meets_its_time_limit(slurm: Cluster, tmp_path: Path) -> None:
    running = Running(slurm, tmp_path, time="1")
    watching = running.start("--no-check")
    running.wait_for_owners()
    owners = {part.name: part.owner for part in running.parts}
    slurm.ask("scontrol", "requeue", running.job_of(running.parts[0]))
    limited = running.job_of(running.parts[1])
    wait_for(lambda: running.job_of(running.parts[1]) != limited, 180)  # Slurm looks at limits every 30 s
    running.open_gate()
    _, told = watching.communicate(timeout=240)
    assert watching.returncode == 0, told
    running.is_whole()
    assert {part.name: part.owner for part in running.parts} == owners
