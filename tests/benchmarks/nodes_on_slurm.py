"""What campaigns on nodes cost, on a Slurm of three nodes on this host: python -m tests.benchmarks.nodes_on_slurm."""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.harness.nodes.slurm import cluster

SPEC: dict[str, Any] = {
    "name": "short",
    "program": {"run": "sleep 0.01"},
    "measure": {"hardware": [], "os": ["minor_faults"], "software": {}, "interval": "2 ms"},
    "campaign": {"retries": 0},
}


def _run(folder: Path, runs: int, environment: Mapping[str, str], nodes: Mapping[str, Any] | None) -> float:
    """Run a campaign of this many runs; return the seconds."""
    folder.mkdir()
    spec = {**SPEC, "campaign": {**SPEC["campaign"], "baseline_runs": runs}}
    if nodes is not None:
        spec["nodes"] = dict(nodes)
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    started = time.perf_counter()
    command = [sys.executable, "-m", "unperturbed.harness.cli", "run", "spec.yaml", "--no-check", "--quiet"]
    subprocess.run(command, cwd=folder, env=dict(environment), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _between(manifest: Path) -> tuple[float, int]:
    """Return the seconds of a part between its first run's start and its last, without the runs, and its runs."""
    database = sqlite3.connect(f"file:{manifest}?mode=ro", uri=True)
    rows = database.execute("SELECT started, seconds, state, attempt FROM runs ORDER BY id").fetchall()
    database.close()
    assert {(state, attempt) for _, _, state, attempt in rows} == {("done", 1)}
    first, last = (datetime.fromisoformat(rows[at][0]) for at in (0, -1))
    return (last - first).total_seconds() - sum(row[1] for row in rows[:-1]), len(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=999)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as place, cluster(Path(place) / "slurm") as slurm:
        folder = Path(place)
        alone = _run(folder / "alone", runs // 3, slurm.environment, None)
        seconds, made = _between(folder / "alone/campaigns/short/campaign.sqlite")
        print(
            f"one host, no nodes: {made} runs in {alone:.1f} s; {1000 * seconds / made:.1f} ms a run beside the program"
        )
        here = _run(folder / "here", runs // 3, slurm.environment, {"engine": "here", "count": 1})
        seconds, made = _between(folder / "here/campaigns/short/nodes/01/campaign.sqlite")
        print(
            f"engine here, one part: {made} runs in {here:.1f} s; {1000 * seconds / made:.1f} ms a run beside the "
            "program"
        )
        began = time.time()
        took = _run(folder / "three", runs, slurm.environment, {"engine": "slurm", "count": 3})
        manifests = sorted((folder / "three/campaigns/short/nodes").glob("*/campaign.sqlite"))
        found = [_between(manifest) for manifest in manifests]
        claimed = min((manifest.parent / "owner.json").stat().st_mtime for manifest in manifests) - began
        print(
            f"engine slurm, three nodes: {sum(made for _, made in found)} runs in {took:.1f} s, none lost, none twice"
        )
        for manifest, (seconds, made) in zip(manifests, found, strict=True):
            print(f"  part {manifest.parent.name}: {1000 * seconds / made:.1f} ms a run beside the program")
        print(f"  from `run` to the first part claimed by its node: {claimed:.1f} s")
        shown = time.perf_counter()
        command = [sys.executable, "-m", "unperturbed.harness.cli", "status", "spec.yaml"]
        subprocess.run(command, cwd=folder / "three", env=slurm.environment, check=True)
        print(f"  status: {time.perf_counter() - shown:.2f} s")


if __name__ == "__main__":
    main()
