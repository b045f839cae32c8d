"""Access to the traces of finished runs: single traces, checked against the manifest, or one lazy table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.collectors.data import INTERVAL_COLUMNS, Trace
from unperturbed.collectors.data.files import is_whole_parquet, read_parquet_head, try_parquet_files
from unperturbed.collectors.data.trace import METADATA_KEY
from unperturbed.common.wording import listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest, RunState

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.harness.campaign.progress import Progress

_NAMED = 5


class DamagedRunsError(SpecError):
    """Traces of finished runs are missing or damaged, or belong to other runs."""

    def __init__(self, folder: Path, faults: Mapping[str, str], *, imported: bool) -> None:
        self.runs = tuple(faults)  # Ids of the runs
        lines = list(faults.values())
        if len(lines) > _NAMED:
            lines[_NAMED:] = [f"and {len(lines) - _NAMED} more"]
        these = "this run" if len(self.runs) == 1 else "these runs"
        again = "import the files again" if imported else f"repeat `unperturbed run` to make {these} again"
        without = " ".join(f"--without {run}" for run in self.runs[:_NAMED])
        advice = f"{again}, or use `unperturbed check {folder} {without}` to leave {these} out; nothing else is lost"
        super().__init__("\n".join([*lines, advice]))


def trace_file(folder: Path, run: str) -> Path:
    """Return the path of a run's trace in a campaign's folder."""
    return folder / "runs" / run / "trace.parquet"


def read_run(folder: Path, state: RunState, *, campaign: str | None = None) -> Trace:
    """Read the trace of a finished run; `campaign` is the manifest's fact `id`, None in early versions."""
    path = trace_file(folder, state.run.id)
    if not path.is_file():
        raise DataError(f"{path} is missing, although its run is finished")
    trace = Trace.read(path)
    require_own(trace.attributes, state, campaign, path)
    return trace


def require_own(attributes: Mapping[str, Any], state: RunState, campaign: str | None, path: Path) -> None:
    """Reject a trace if its run, configuration or campaign differs from the manifest's."""
    expected = {"run": state.run.id, "configuration": state.run.configuration, "campaign_id": campaign}
    for name, value in expected.items():
        actual = attributes.get(name)
        if None not in (actual, value) and actual != value:
            recorded = " of ".join(
                f"{what} {attributes.get(key)}"
                for key, what in (("run", "run"), ("configuration", "configuration"), ("campaign", "a campaign named"))
            )
            raise DataError(f"{path} is the trace of {recorded}, not the trace that this folder's manifest expects")


def reopen_lost(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """Plan finished runs again if their traces are missing or truncated; check only the ends of the files."""
    lost = [state.run.id for state in manifest.runs("done", hosts=False) if is_lost(folder, state)]
    manifest.redo(lost)
    if lost:
        what = "the trace of 1 run is" if len(lost) == 1 else f"the traces of {len(lost)} runs are"
        these = "this run" if len(lost) == 1 else "these runs"
        progress.note(f"{what} lost; measuring {these} again: {listing(lost)}")


def is_lost(folder: Path, state: RunState) -> bool:
    """Return whether the trace of a finished run is missing or truncated."""
    return not is_whole_parquet(trace_file(folder, state.run.id))


FACTS = ("run", "configuration", "pass", "repetition", "interval", "start", "duration")
"""The columns before the intervals' bounds and the metrics; `start` and `duration` are in seconds."""


def scan_intervals(folder: Path, runs: Sequence[RunState], *, campaign: str | None = None) -> pl.LazyFrame:
    """Return the intervals of a campaign's runs as a lazy frame; check the metadata of each file now.

    Result: One row per interval, runs in the given order. Columns: `FACTS`, `begin_ns`, `end_ns`, `overruns`, then one
    column per metric, null in runs without the metric.
    """
    import polars as pl  # noqa: PLC0415  slow to load, and not every use of a campaign needs it

    paths = [trace_file(folder, state.run.id) for state in runs]
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise DataError(f"{folder}: the path is not valid UTF-8; rename the folder") from None
    facts = pl.LazyFrame(
        {
            "path": [str(path) for path in paths],
            "order": range(len(paths)),
            "run": [state.run.id for state in runs],
            "configuration": [state.run.configuration for state in runs],
            "pass": [state.run.pass_name for state in runs],
            "repetition": [state.run.repetition for state in runs],
        },
        schema_overrides={"order": pl.UInt32, "repetition": pl.Int64},
    )
    # Files with the same schema are one scan: a hundred scans of one file each take three times as long.
    alike: defaultdict[tuple[tuple[str, str], ...], list[Path]] = defaultdict(list)
    try_parquet_files(paths)
    for path, state in zip(paths, runs, strict=True):
        schema, metadata = read_parquet_head(path)
        _require_trace(schema, metadata, state, campaign, path)
        alike[tuple((name, str(kind)) for name, kind in schema.items())].append(path)
    scans = [
        pl.scan_parquet(same, glob=False, include_file_paths="path").with_columns(
            interval=pl.int_range(pl.len(), dtype=pl.UInt32).over("path")
        )
        for same in alike.values()
    ]
    if not scans:
        return pl.LazyFrame(schema=[*FACTS, *INTERVAL_COLUMNS])
    metrics = dict.fromkeys(name for schema in alike for name, _ in schema if name not in INTERVAL_COLUMNS)
    joined = pl.concat(scans, how="diagonal_relaxed") if len(scans) > 1 else scans[0]
    timed = joined.join(facts, on="path", how="left", maintain_order="left").with_columns(
        start=pl.col("begin_ns") / 1e9, duration=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9
    )
    ordered = timed if len(scans) == 1 else timed.sort("order", maintain_order=True)
    return ordered.select(*FACTS, *INTERVAL_COLUMNS, *metrics)


def _require_trace(
    schema: Mapping[str, object], metadata: Mapping[str, str], state: RunState, campaign: str | None, path: Path
) -> None:
    """Reject a Parquet file that is not a trace, or is the trace of another run."""
    try:
        attributes = json.loads(metadata[METADATA_KEY])["attributes"]
        lacking = not isinstance(attributes, dict) or any(name not in schema for name in INTERVAL_COLUMNS)
    except (KeyError, TypeError, ValueError, RecursionError):
        lacking = True
    if lacking:
        raise DataError(f"{path} is a Parquet file, but not a trace of this tool")
    require_own(attributes, state, campaign, path)


def read_threads(run: Path) -> list[Trace]:
    """Return the traces of a run's threads that have roles, by number.

    `run`: The run's folder, or a file in it.
    """
    folder = (run if run.is_dir() else run.parent) / "threads"
    traces = [Trace.read(file) for file in sorted(folder.glob("*.parquet"))]
    if not traces or "role" not in traces[0].attributes:
        raise SpecError(
            f"{run}: the threads of this run have no traces with roles: measure a program that starts threads, with "
            "`threads: each` under `measure` in the spec"
        )
    return traces


def tidy_traces(traces: Sequence[Trace]) -> pl.DataFrame:
    """Return traces as one frame with the columns of `scan_intervals`, filled from the traces' attributes."""
    import polars as pl  # noqa: PLC0415

    frames = []
    for trace in traces:
        known = {name: pl.lit(trace.attributes.get(name)).alias(name) for name in FACTS[:4]}
        begin, end = pl.col("begin_ns"), pl.col("end_ns")
        frame = trace.to_polars().with_row_index("interval")
        times = (begin / 1e9).alias("start"), ((end - begin) / 1e9).alias("duration")
        frames.append(frame.select(*known.values(), "interval", *times, pl.all().exclude("interval")))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=[*FACTS, *INTERVAL_COLUMNS])
