"""Exported runs, each with its configuration and pass, all with the columns of the whole campaign."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import counts_after_last
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.traces import read_run, scan_intervals, tidy_traces
from unperturbed.harness.results.recorded import recorded_campaign

if TYPE_CHECKING:
    import polars as pl


_LARGE = 2.0**62


@dataclass(frozen=True)
class Slice:
    """Named range of a run's intervals."""

    track: str  # Name of the slice's track, such as `phases`. The slices of one track do not overlap.
    name: str  # The slice's name
    # first, stop: The slice's first interval, and the interval after its last.
    first: int
    stop: int


@dataclass(frozen=True, eq=False)
class ExportedRun:
    """Exported run: its trace, its configuration and pass, and its slices."""

    trace: Trace  # The run's intervals
    id: str  # The run's id; a name derived from the file's if the run does not belong to a campaign
    # configuration, pass_name: The run's configuration and pass; empty if the run does not belong to a campaign.
    configuration: str = ""
    pass_name: str = ""
    repetition: int | None = None  # Repetition of this configuration and pass, from 1
    seconds: float | None = None  # Wall time of the program, including simulation
    started: str | None = None  # Start time, ISO 8601
    slices: tuple[Slice, ...] = ()  # Named ranges of intervals, ordered by track and time

    @property
    def title(self) -> str:
        """Title of the run: its configuration and its id."""
        return f"{self.configuration} {self.id}".strip()

    @property
    def time_s(self) -> float | None:
        """Wall time of the program without a simulator [s]; None if it is not known."""
        facts = self.trace.attributes
        known = facts.get("time_s")
        # A run of a campaign has `cpu_s`, and no `time_s` if the spec gives its length (`duration`).
        if (
            known is None
            and "cpu_s" not in facts
            and not any(metric.kind == "simulated" for metric in self.trace.metrics.values())
        ):
            known = self.seconds
        return known if isinstance(known, (int, float)) and math.isfinite(known) and known >= 0 else None

    def bounds(self, span: Slice) -> tuple[int, int]:
        """Return a slice's begin and end [ns] on the trace's time axis."""
        return int(self.trace.begin_ns[span.first]), int(self.trace.end_ns[span.stop - 1])

    def totals(self) -> dict[str, int | float]:
        """Return the totals of the run's counters; gauges and formulas over intervals have no total."""
        totals: dict[str, int | float] = {}
        left_out = counts_after_last(self.trace)
        for name, metric in self.trace.metrics.items():
            if metric.semantics == "counter" and metric.kind != "derived":
                column = self.trace[name]
                total = float(column.sum(dtype=float))
                if column.dtype.kind == "i":
                    # Python's integers do not wrap.
                    totals[name] = int(column.sum()) if abs(total) < _LARGE else sum(map(int, column))
                else:
                    totals[name] = total
                totals[name] += left_out.get(name, 0)
        return totals


@dataclass(frozen=True, eq=False)
class ExportedRuns:
    """Runs of one campaign, or one run."""

    name: str  # The campaign's name, or the run's
    runs: tuple[ExportedRun, ...]  # In the order of the plan
    metrics: Mapping[str, Metric]  # The metrics of all runs of the campaign, including runs that are not in `runs`
    table: pl.LazyFrame  # The intervals of all runs of the campaign, including runs that are not in `runs`
    aligned_to: str = ""  # The reference run that all others were aligned to; empty if each run has its own time axis

    def __iter__(self) -> Iterator[ExportedRun]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def to_frame(self) -> pl.DataFrame:
        """Return the runs' intervals, with the columns of `up.load(folder).frame()` whichever runs are selected."""
        import polars as pl  # noqa: PLC0415  slow to load

        return self.table.filter(pl.col("run").is_in([run.id for run in self.runs])).collect()


def single_run(trace: Trace, name: str) -> ExportedRuns:
    """Return a trace as exported runs with a single run."""
    facts = trace.attributes
    own: Mapping[str, Any] = {"run": "merged"} if "merged" in facts else facts
    run = ExportedRun(
        trace,
        str(own.get("run") or name),
        str(own.get("configuration") or ""),
        str(own.get("pass") or ""),
        own.get("repetition"),
        own.get("wall_seconds"),
    )
    placed = replace(trace, attributes={**facts, "run": run.id})
    return ExportedRuns(str(facts.get("campaign") or name), (run,), trace.metrics, tidy_traces([placed]).lazy())


def read_runs(folder: Path, *, configurations: Sequence[str] = (), ids: Sequence[str] = ()) -> ExportedRuns:
    """Read the finished runs of a campaign, or only those with the given configurations and ids."""
    spec = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        states, identity = manifest.runs("done"), manifest.fact("id")
    runs = [_read(folder, state, identity) for state in states]
    if not runs:
        raise SpecError(f"{folder}: nothing to export: no run of this campaign has finished")
    _require_known(folder, "--configuration", configurations, [run.configuration for run in runs])
    _require_known(folder, "--run", ids, [run.id for run in runs])
    chosen = [
        run
        for run in runs
        if (not configurations or run.configuration in configurations) and (not ids or run.id in ids)
    ]
    if not chosen:
        raise SpecError(
            f"{folder}: no run matches both --configuration {listing(configurations, 'or')} and --run "
            f"{listing(ids, 'or')}; leave out one of these options"
        )
    metrics: dict[str, Metric] = {}
    for run in runs:
        metrics |= {name: metric for name, metric in run.trace.metrics.items() if name not in metrics}
    return ExportedRuns(spec.name, tuple(chosen), metrics, scan_intervals(folder, states))


def _read(folder: Path, state: RunState, identity: str | None) -> ExportedRun:
    trace, planned = read_run(folder, state, campaign=identity), state.run
    seconds = trace.attributes.get("wall_seconds", state.seconds)
    return ExportedRun(
        trace, planned.id, planned.configuration, planned.pass_name, planned.repetition, seconds, state.started
    )


def _require_known(folder: Path, option: str, asked: Sequence[str], known: Sequence[str]) -> None:
    there = dict.fromkeys(known)
    for name in asked:
        if name not in there:
            meant = did_you_mean(name, there) or f"use {listing(there, 'or')}"
            raise SpecError(f"{option} {name} matches no finished run in {folder}; {meant}")
