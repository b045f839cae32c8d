"""What `status`, `check` and `report` cost on a large campaign: CPU time, memory, the page's size and time to draw.

::

    python -m tests.benchmarks.large_campaign FOLDER [--runs 2000] [--metrics 20] [--configurations 20]
        [--intervals 180]

makes a campaign of generated traces in FOLDER, where there is none yet, and runs the commands on it. A program goes
through phases; one software metric in five spoils its configuration.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.analysis.report.browser import chromium_missing, open_report
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import PlannedRun

INTERVALS = 180
ANCHOR = "milestones"
_HOST = {"load_1min": 0.5, "steal_s": 0.0, "swap_used_mib": 0, "memory_available_mib": 8000}


def main() -> int:
    """Make the campaign, then judge and report it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--intervals", type=int, default=INTERVALS)
    arguments = parser.parse_args()
    if not (arguments.folder / "campaign.sqlite").exists():
        make(
            arguments.folder,
            arguments.runs,
            arguments.metrics,
            arguments.configurations,
            intervals=arguments.intervals,
        )
    for command in ("status", "check", "report"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", "unperturbed.harness.cli", command, str(arguments.folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{command}: exit code {done.returncode}, {seconds:.1f} s of CPU time, {after.ru_maxrss / 1e6:.2f} GB")
        if done.returncode not in (0, 4):
            print(done.stderr)
            return 1
    report = arguments.folder / "report.html"
    print(f"report.html: {report.stat().st_size / 1e6:.2f} MB, {_time_to_draw(report)}")
    return 0


def _time_to_draw(report: Path, times: int = 5) -> str:
    """Open the report some times in a new browser and say how long its page's thread worked until all figures stood."""
    problem = chromium_missing()
    if problem:
        return f"not opened: {problem}"
    seconds = []
    for _ in range(times):
        with open_report(report) as page:
            page.wait_drawn()
            seconds.append(page.busy_seconds())
    return f"drawn in {statistics.median(seconds):.2f} s of CPU time (median of {times}, least {min(seconds):.2f})"


def make(folder: Path, runs: int, metrics: int, configurations: int, *, intervals: int = INTERVALS) -> None:
    """Write a campaign of so many runs, hardware metrics and configurations, baseline and anchor among them."""
    names = [f"generated::metric_{number:02d}" for number in range(metrics)]
    subsets = {f"subset-{number:02d}": (f"calls_{number:02d}",) for number in range(1, configurations - 1)}
    each = runs // configurations
    (folder / "runs").mkdir(parents=True)
    spec = _spec(names, subsets, each)
    (folder / "spec.yaml").write_text(spec)
    chance = np.random.default_rng(1)
    program = _Program(chance, metrics, intervals)
    software = {"baseline": (), "anchor": (ANCHOR,), **{name: (ANCHOR, *held) for name, held in subsets.items()}}
    plan = [
        PlannedRun(f"{place * configurations + at:04d}", name, "main", place + 1, place, 0)
        for place in range(each)
        for at, name in enumerate(software)
    ]
    with Manifest(folder / "campaign.sqlite") as manifest:
        manifest.set_facts(**_facts(folder, spec, names))
        manifest.plan(plan)
        manifest._db.execute("PRAGMA synchronous = OFF")  # nobody resumes this one
        for order, run in enumerate(plan):
            place = list(software).index(run.configuration)
            trace = program.run(
                chance, run, order, names, software[run.configuration], spoilt=place > 1 and place % 5 == 0
            )
            (folder / "runs" / run.id).mkdir()
            trace.write(folder / "runs" / run.id / "trace.parquet")
            host = {
                "load_1min": 0.5,
                "steal_s": 0.0,
                "busy_s": 1.0 * order,
                "context_switches": 10 * order,
                "swap_used_mib": 0,
                "memory_available_mib": 8000,
            }
            manifest.start(run, attempt=1, started="2031-05-04T10:12:00+00:00", host=host)
            manifest.finish(run, seconds=4.0, intervals=len(trace), host=host | {"context_switches": 10 * order + 5})


class _Program:
    """The phases of a program: how its metrics go together."""

    def __init__(self, chance: np.random.Generator, metrics: int, intervals: int) -> None:
        self.intervals = intervals
        self.loadings = chance.normal(size=(3, metrics))

    def run(
        self,
        chance: np.random.Generator,
        run: PlannedRun,
        order: int,
        names: list[str],
        software: tuple[str, ...],
        *,
        spoilt: bool,
    ) -> Trace:
        n = self.intervals + int(chance.integers(-4, 5))
        at = np.linspace(0, 4, n)
        phases = np.stack(
            [np.sin(2 * np.pi * at), (at % 1 < 0.6).astype(float), np.exp(-((((at % 1) - 0.4) / 0.1) ** 2))]
        )
        values = phases.T @ self.loadings + 0.5 * chance.normal(size=(n, len(names)))
        if spoilt:
            values[:, :2] += chance.normal(size=(n, 2))
        columns = {name: np.maximum(0, 1e5 + 2e4 * values[:, k]).astype(np.int64) for k, name in enumerate(names)}
        described = [Metric(name, "hardware", source="generated", components=(f"generated:{name}",)) for name in names]
        for name in software:
            if name == ANCHOR:
                columns[name] = np.bincount(np.linspace(0, n - 1, 40).astype(int), minlength=n)
            else:
                columns[name] = chance.poisson(20 * (0.1 + phases[1]))
            described.append(Metric(name, "software", source="generated"))
        end = np.cumsum(np.full(n, 20_000_000)).astype(np.int64)
        return Trace.from_columns(
            described,
            columns,
            begin_ns=end - 20_000_000,
            end_ns=end,
            attributes={
                "run": run.id,
                "configuration": run.configuration,
                "order": order,
                "interval_ns": 20_000_000,
                "clock": "process-cpu",
                "host": "generated",
                "program": "generated",
                "source": "generated",
            },
        )


def _spec(names: list[str], subsets: dict[str, tuple[str, ...]], each: int) -> str:
    software = [ANCHOR, *(name for held in subsets.values() for name in held)]
    lines = [
        "name: large",
        "program: {source: ., run: '{build}/generated'}",
        "measure:",
        "  interval: 20 ms",
        f"  hardware: [{', '.join(names)}]",
        "  software:",
        *(f"    {name}: {{enter: {name}}}" for name in software),
        "campaign:",
        f"  baseline_runs: {each}",
        f"  runs: {each}",
        "  subsets:",
        *(f"    {name}: [{', '.join(held)}]" for name, held in subsets.items()),
        "  seed: 1",
        f"analysis: {{align_on: [{names[0]}, {names[1]}], anchor: {ANCHOR}}}",
    ]
    return "\n".join(lines) + "\n"


def _facts(folder: Path, spec: str, names: list[str]) -> dict[str, object]:
    return {
        "purpose": "a campaign",
        "spec_text": spec,
        "spec_path": str(folder / "spec.yaml"),
        "name": "large",
        "begun": "2031-05-04T10:12:00+00:00",
        "host": "generated",
        "description": {"host": {"name": "generated", "system": "Linux"}, "processor": {"model": "none"}},
        "reasons": {},
        "passes": [{"name": "main", "source": "perf_event", "metrics": names, "machine": None}],
        "program": "generated",
        "builds": {},
        "skipped": {},
        "inputs": {},
        "expected": {"exit_code": 0, "digest": "0", "run": "reference"},
        "native": {"exit_code": 0, "seconds": 1.0, "user_s": 1.0, "system_s": 0.0, "max_rss_kib": 1024},
        "pilot:main": {"interval_ns": 20_000_000, "intervals": 180, "seconds": 4.0, "note": ""},
    }


if __name__ == "__main__":
    raise SystemExit(main())
