"""Record the traces of the diagnosis experiment: `python -m experiments.diagnosis.record FOLDER`.

Makes the clips, then plays and records what the plan holds and the folder does not. Can be stopped at any time and
started again. README.md says what is in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from experiments.diagnosis.pipelines import Clip, Pipeline
from experiments.diagnosis.plan import PlannedTrace, plan_traces
from experiments.diagnosis.playing import Played, build_probe, environment, missing_tools, own_processors, play, stress
from experiments.diagnosis.shown import Measured, is_clean, measure, noticed, read_shown

DONE, HOST_CANNOT, INTERRUPTED = 0, 3, 130
ATTEMPTS = 5
"""How often a trace is tried when it does not go as planned."""
LISTS = ("noticed", "command")
"""Columns that are JSON in the table."""


class NotAsPlannedError(RuntimeError):
    """The host disturbs the player, so that no clean trace can be had, or the player fails."""


@dataclass(frozen=True)
class Studio:
    """Where traces are recorded."""

    folder: Path  # The campaign's: clips/, traces/ with a log and a row for each trace, traces.csv
    processor: int  # The processor that the player and the stress run on

    def row_file(self, trace: PlannedTrace) -> Path:
        """Return the file of a trace's row."""
        return self.folder / "traces" / f"{trace.name}.json"

    def log_file(self, trace: PlannedTrace) -> Path:
        """Return the file of a trace's log."""
        return self.folder / "traces" / f"{trace.name}.log.gz"

    @property
    def registry(self) -> Path:
        """Return where GStreamer keeps what plugins there are."""
        return self.folder / "registry.bin"

    @property
    def probe(self) -> Path:
        """Return the compiled probe."""
        return self.folder / "probe.so"

    def clip(self, pipeline: Pipeline, clip: Clip) -> Path:
        """Return a clip's file, which is made when it is not there."""
        file = self.folder / "clips" / f"{pipeline.name}-{clip.name}{pipeline.suffix}"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            part = file.with_name(f"part-{file.name}")
            subprocess.run(pipeline.making(clip, part), env=environment(self.registry), check=True)
            part.rename(file)
        return file


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the campaign's folder; made when it is not there")
    parser.add_argument("--seed", type=int, default=1, help="of the order and of what is random (1)")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="only traces whose name matches, as a shell does"
    )
    parser.add_argument("--take", type=int, metavar="N", help="only the first N of these, in the order of recording")
    parser.add_argument("--list", action="store_true", help="print the names, record nothing")
    chosen = parser.parse_args(arguments)
    planned = [trace for trace in plan_traces(chosen.seed) if fnmatch(trace.name, chosen.only)][: chosen.take]
    if chosen.list:
        print(*(trace.name for trace in planned), sep="\n")
        return DONE
    if missing := missing_tools():
        print(f"missing: {', '.join(missing)}. Type: tools/setup.sh media", file=sys.stderr)
        return HOST_CANNOT
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was started is ended
    try:
        with own_processors() as processor:
            record_all(planned, Studio(chosen.folder.absolute(), processor))
    except NotAsPlannedError as error:
        print(error, file=sys.stderr)
        return HOST_CANNOT
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    return DONE


def record_all(planned: Sequence[PlannedTrace], studio: Studio) -> None:
    """Record each trace that the folder does not hold, and write the table of all that it holds."""
    (studio.folder / "traces").mkdir(parents=True, exist_ok=True)
    build_probe(studio.probe)
    waiting = [trace for trace in planned if not is_recorded(trace, studio)]
    print(f"{len(planned)} traces, {len(planned) - len(waiting)} of them recorded already", flush=True)
    started = time.monotonic()
    try:
        for number, trace in enumerate(waiting, 1):
            row = record(trace, studio)
            left_min = (time.monotonic() - started) / number * (len(waiting) - number) / 60
            found = "; ".join(row["noticed"].values()) or "nothing is noticed"
            print(
                f"{number}/{len(waiting)} {trace.name}: {found} ({row['lines']} lines; {left_min:.0f} min left)",
                flush=True,
            )
    finally:
        write_table(studio.folder)


def is_recorded(trace: PlannedTrace, studio: Studio) -> bool:
    """Return whether the folder holds a trace; its row is written last.

    Raises
    ------
    ValueError : it holds one of this name that was planned otherwise.
    """
    file = studio.row_file(trace)
    if not file.exists():
        return False
    row = json.loads(file.read_text())
    for key, value in describe(trace).items():
        if row.get(key) != value:
            raise ValueError(
                f"{file}: {key} is {row.get(key)!r}, now planned: {value!r}. Take another folder, or remove the file."
            )
    return True


def record(trace: PlannedTrace, studio: Studio) -> dict[str, Any]:
    """Record one trace and return its row."""
    raw = studio.folder / "log.part"
    attempt = 0
    while True:
        attempt += 1
        played, command = play_trace(trace, studio, raw)
        shown, ended = read_shown(played.shown)
        if played.exit_code:
            ended.clear()  # a demuxer that meets an error sends the sinks an end, of what it has read
        measured = measure(shown, ended, trace.clip, trace.pipeline.sinks)
        found = noticed(measured)
        if went_as_planned(trace, played.exit_code, measured):
            break
        if attempt == ATTEMPTS:
            raise NotAsPlannedError(
                f"{trace.name}: {ATTEMPTS} times not as planned; last: {measured}, {played.printed}"
            )
    row = describe(trace) | {
        "log": str(studio.log_file(trace).relative_to(studio.folder)),
        "lines": pack(raw, studio.log_file(trace)),
        "attempt": attempt,
        **run_facts(played),
        **asdict(measured),
        "noticed": found,
        "command": command,
    }
    write_whole(studio.row_file(trace), json.dumps(row, indent=1))
    return row


def went_as_planned(trace: PlannedTrace, exit_code: int, measured: Measured) -> bool:
    """Return whether a run is the trace that was planned.

    One in which nothing was changed is clean (`shown.is_clean`); and the player fails by the change alone: in one run
    of some hundreds GStreamer 1.22 fails of itself at the start ("couldn't read header packet"), before anything is
    shown.
    """
    if trace.change is None:
        return exit_code == 0 and is_clean(measured)
    return exit_code == 0 or (exit_code == 1 and trace.change.name == "error-after")


def play_trace(trace: PlannedTrace, studio: Studio, log: Path) -> tuple[Played, list[str]]:
    """Play a trace's pipeline under its change; return the run and its command."""
    clip = studio.clip(trace.pipeline, trace.clip)
    settings = trace.change.settings(trace.strength, trace.clip) if trace.change else {}
    command = trace.pipeline.playing(clip, -(-clip.stat().st_size // trace.clip.frames), settings)
    disturbed: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if trace.change and trace.change.disturbs_host:
        disturbed = stress(trace.change.name, round(trace.strength), trace.seed, studio.processor)
    with disturbed:
        played = play(command, studio.processor, registry=studio.registry, probe=studio.probe, log=log)
    return played, command


def describe(trace: PlannedTrace) -> dict[str, Any]:
    """Return what is known of a trace before it is recorded."""
    kind, does = trace.change.effect(trace.pipeline) if trace.change else ("none", "nothing is changed")
    return {
        "name": trace.name,
        "role": trace.role,
        "pipeline": trace.pipeline.name,
        "clip": trace.clip.name,
        "seed": trace.seed,
        "change": trace.change.name if trace.change else "none",
        "place": trace.change.place if trace.change else "",
        "strength": trace.strength,
        "unit": trace.change.unit if trace.change else "",
        "kind": kind,
        "does": does,
    }


def run_facts(played: Played) -> dict[str, Any]:
    """Return what is known of the run itself, and of the host meanwhile."""
    return {
        "duration_s": played.duration_s,
        "exit_code": played.exit_code,
        "others_share": played.others_share,
        "load": round(os.getloadavg()[0], 2),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }


def pack(raw: Path, packed: Path) -> int:
    """Compress a log into its place and remove the raw one; return its lines."""
    part = packed.with_name(f"part-{packed.name}")
    with raw.open("rb") as source, gzip.GzipFile(part, "wb", compresslevel=6, mtime=0) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    with raw.open("rb") as source:
        lines = sum(block.count(b"\n") for block in iter(lambda: source.read(1 << 20), b""))
    part.rename(packed)
    raw.unlink()
    return lines


def write_table(folder: Path) -> None:
    """Write traces.csv: a row for each trace that the folder holds, by name."""
    rows = [json.loads(file.read_text()) for file in sorted((folder / "traces").glob("*.json"))]
    part = folder / "part-traces.csv"
    with part.open("w", newline="") as target:
        table = csv.DictWriter(target, list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(in_cells(row) for row in rows)
    part.rename(folder / "traces.csv")


def in_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for the table: what is not a single value is written as JSON."""
    return {key: json.dumps(value) if key in LISTS else value for key, value in row.items()}


def write_whole(file: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    part = file.with_name(f"part-{file.name}.tmp")
    part.write_text(text)
    part.rename(file)


if __name__ == "__main__":
    sys.exit(main())
