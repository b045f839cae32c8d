"""What campaigns on nodes cost, on a Slurm of three nodes on this host: python -m tests.benchmarks.nodes_on_slurm."""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.harness.nodes.slurm import Cluster, cluster

SPEC: dict[str, Any] = {
    "name": "short",
    "program": {"run": "sleep 0.01"},
    "measure": {"hardware": [], "os": ["minor_faults"], "software": {}, "interval": "2 ms"},
    "campaign": {"retries": 0},
}
STATUS_RUNS = 10_000
_LOOK_S = 0.005


@dataclass(frozen=True)
class Timed:
    """A command: seconds by the wall clock, and of the processor, without what Slurm's nodes spent."""

    wall: float
    processor: float


def _timed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Timed:
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "unperturbed.harness.cli", *command],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return Timed(time.perf_counter() - started, used.ru_utime + used.ru_stime)


def _processor(process: int) -> float:
    """Return the seconds of the processor that a process and its children have used."""
    used = psutil.Process(process).cpu_times()
    return float(used.user + used.system + used.children_user + used.children_system)


def _spec(folder: Path, runs: int, nodes: Mapping[str, Any] | None) -> Path:
    folder.mkdir()
    spec = {**SPEC, "campaign": {**SPEC["campaign"], "baseline_runs": runs}}
    if nodes is not None:
        spec["nodes"] = dict(nodes)
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    return folder


def _run(folder: Path, runs: int, environment: Mapping[str, str], nodes: Mapping[str, Any] | None) -> Timed:
    """Run a campaign of this many runs."""
    return _timed(["run", "spec.yaml", "--no-check", "--quiet"], _spec(folder, runs, nodes), environment)


def _between(manifest: Path) -> tuple[float, int]:
    """Return the seconds of a part between its first run's start and its last, without the runs, and its runs."""
    database = sqlite3.connect(f"file:{manifest}?mode=ro", uri=True)
    rows = database.execute("SELECT started, seconds, state, attempt FROM runs ORDER BY id").fetchall()
    database.close()
    assert {(state, attempt) for _, _, state, attempt in rows} == {("done", 1)}
    first, last = (datetime.fromisoformat(rows[at][0]) for at in (0, -1))
    return (last - first).total_seconds() - sum(row[1] for row in rows[:-1]), len(rows)


def _told(name: str, took: Timed, manifests: Sequence[Path]) -> None:
    """Print what a campaign took, and what each of its runs cost beside the program."""
    found = [_between(manifest) for manifest in manifests]
    made = sum(runs for _, runs in found)
    each = ", ".join(f"{1000 * seconds / runs:.1f}" for seconds, runs in found)
    print(f"{name}: {made} runs in {took.wall:.1f} s, none lost, none made twice; load {os.getloadavg()[0]:.1f}")
    print(f"  beside the program, ms a run of a part: {each}")
    print(f"  the command, and parts that are its own: {1000 * took.processor / made:.1f} ms of the processor a run")


def _first_runs(slurm: Cluster, folder: Path, times: int) -> None:
    """Print the time from `run` to the first run's start, and what it consists of."""
    rows, spent, worked = [], list[float](), list[float]()
    for at in range(times):
        place = _spec(folder / f"first{at}", 15, {"engine": "slurm", "count": 3})
        nodes = place / "campaigns/short/nodes"
        steps: Sequence[tuple[str, str]] = (
            ("submitted", "03/campaign.sqlite"),
            ("a job started", "*/job.log"),
            ("a part claimed", "*/owner.json"),
            ("the first run", "*/runs/0001"),
        )
        command = [sys.executable, "-m", "unperturbed.harness.cli", "run", "spec.yaml", "--no-check", "--quiet"]
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=place, env=slurm.environment, stdout=subprocess.DEVNULL)
        seen: dict[str, float] = {}
        while len(seen) < len(steps):
            for name, pattern in steps:
                if name not in seen and (found := next(nodes.glob(pattern), None)):
                    seen[name] = time.perf_counter() - began
                    if name == "submitted":
                        spent.append(_processor(process.pid))
                    elif name == "the first run":
                        worked.append(_processor(int((found.parents[1] / "campaign.lock").read_text())))
            assert process.poll() in (None, 0)
            time.sleep(_LOOK_S)
        assert process.wait() == 0
        rows.append([seen[name] for name, _ in steps])
    fastest = min(rows, key=lambda row: row[-1])
    print(f"from `run` to the first run's start, least of {times}, load {os.getloadavg()[0]:.1f}: {fastest[-1]:.2f} s")
    before = 0.0
    for (name, _), at in zip(steps, fastest, strict=True):
        print(f"  {name}: +{at - before:.2f} s")
        before = at
    print(
        f"  of the processor: {min(spent):.2f} s until the jobs are submitted, {min(worked):.2f} s of a node's process"
    )


def _status(slurm: Cluster, place: Path) -> None:
    """Print what `status` takes of ten thousand runs, a part of which is multiplied."""
    manifests = sorted((place / "campaigns/short/nodes").glob("*/campaign.sqlite"))
    for manifest in manifests:
        database = sqlite3.connect(manifest)
        (have,) = database.execute("SELECT count(*) FROM runs").fetchone()
        names = [row[1] for row in database.execute("PRAGMA table_info(runs)") if row[1] != "id"]
        columns = ", ".join(names)
        rows = database.execute(f"SELECT {columns} FROM runs").fetchall()
        wanted = -(-STATUS_RUNS // len(manifests))
        database.executemany(
            f"INSERT INTO runs (id, {columns}) VALUES ({', '.join('?' * (len(names) + 1))})",
            ((f"{number:04d}", *rows[number % have]) for number in range(have + 1, wanted + 1)),
        )
        database.commit()
        database.close()
    took = min((_timed(["status", "spec.yaml"], place, slurm.environment) for _ in range(3)), key=lambda one: one.wall)
    print(
        f"status of {wanted * len(manifests):,} runs, least of 3, load {os.getloadavg()[0]:.1f}: {took.wall:.2f} s, "
        f"{took.processor:.2f} s of the processor"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="of 10 ms, on three nodes")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as place, cluster(Path(place) / "slurm") as slurm:
        folder = Path(place)
        _first_runs(slurm, folder, 5)
        alone = _run(folder / "alone", runs // 3, slurm.environment, None)
        _told("one host, no nodes", alone, [folder / "alone/campaigns/short/campaign.sqlite"])
        here = _run(folder / "here", runs // 3, slurm.environment, {"engine": "here", "count": 1})
        _told("engine here, one part", here, [folder / "here/campaigns/short/nodes/01/campaign.sqlite"])
        three = _run(folder / "three", runs, slurm.environment, {"engine": "slurm", "count": 3})
        manifests = sorted((folder / "three/campaigns/short/nodes").glob("*/campaign.sqlite"))
        _told("engine slurm, three nodes", three, manifests)
        traces = len(list((folder / "three/campaigns/short/nodes").glob("*/runs/[0-9]*/trace.parquet")))
        assert traces - len(manifests) == runs or traces == runs, traces  # the pilots' beside
        _status(slurm, folder / "three")
        shutil.rmtree(folder / "three")


if __name__ == "__main__":
    main()
