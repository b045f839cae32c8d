"""What the harness costs outside the measured program, a run: launching, checking the result, reading dumps, writing
the trace, the manifest.

    python -m tests.benchmarks.harness_overhead [--runs 20]

Runs a small campaign on the program of tests/harness/phases and takes, for each run, the time from its start to the
start of the next, less the time that the measured process itself was there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.harness.phases_campaign import write_spec
from unperturbed.harness.campaign.execution import run_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.campaign.progress import Estimate
from unperturbed.harness.spec.load import load_spec


class Watch:
    """Notes when each run begins."""

    def __init__(self) -> None:
        self.begins: list[tuple[str, float]] = []

    def step(self, what: str) -> None:
        """Ignore the preparation."""

    def note(self, what: str) -> None:
        """Ignore what is to be known before."""

    def planned(self, estimate: Estimate) -> None:
        """Ignore the plan."""

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Note the time."""
        self.begins.append((run.id, time.monotonic()))

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Stop: a failed run says nothing about the cost of a good one."""
        raise SystemExit(f"run {run.id} failed: {error}")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = write_spec(
            folder,
            program__run="{build}/phases 60",
            measure__interval="8 ms",
            campaign__baseline_runs=runs,
            campaign__subsets={"steps": ["steps"]},
        )
        watch = Watch()
        run_campaign(load_spec(spec), folder / "campaign", watch)
        watch.begins.append(("end", time.monotonic()))
        with Manifest(folder / "campaign" / "campaign.sqlite") as manifest:
            measured = {state.run.id: state.seconds or 0.0 for state in manifest.runs("done")}
    took = [
        (later - begin) - measured[run]
        for (run, begin), (_, later) in zip(watch.begins[:-1], watch.begins[1:], strict=True)
    ]
    milliseconds = sorted(1000 * value for value in took)
    print(f"harness overhead a run, {len(milliseconds)} runs: ", end="")
    print(
        f"median {statistics.median(milliseconds):.0f} ms, 90 % below "
        f"{milliseconds[int(0.9 * len(milliseconds))]:.0f} ms, bound 150 ms"
    )
    print(f"the measured process itself: median {1000 * statistics.median(measured.values()):.0f} ms")


if __name__ == "__main__":
    main()
