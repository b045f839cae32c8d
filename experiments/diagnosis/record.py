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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from experiments.common.evaluation import EVIDENCE
from experiments.diagnosis.pipelines import Clip, Pipeline, Settings
from experiments.diagnosis.plan import PlannedTrace, plan_traces
from experiments.diagnosis.playing import Played, build_probe, environment, missing_tools, own_processors, play, stress
from experiments.diagnosis.shown import Measured, is_clean, measure_run, noticed
from unperturbed.analysis.diagnosis import EventTrace, read_events

DONE, HOST_CANNOT, INTERRUPTED = 0, 3, 130
ATTEMPTS = 5
"""How often a trace is tried when it does not go as planned."""
LISTS = ("noticed", "command")
"""Columns that are JSON in the table."""
PAGE = EVIDENCE / "diagnosis_cases.md"
"""Where the further cases are."""
PAPERS = ("level", "function", "word")
"""What tells events apart in the paper's data preparation, section IV-B."""
WITH_OBJECTS = ("level", "function", "object", "word")
"""What tells events apart for the diagnosis: without the object two sinks are one."""


class NotAsPlannedError(RuntimeError):
    """The host disturbs the player, so that no clean trace can be had, or the player fails."""


@dataclass(frozen=True)
class Studio:
    """Where traces are recorded."""

    folder: Path  # The campaign's: clips/, traces/ with a log and a row for each trace, traces.csv
    processor: int  # The processor that the player and the stress run on

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path) -> Iterator[Studio]:
        """Yield a folder's studio, with a processor of its own."""
        with own_processors() as processor:
            yield cls(folder.absolute(), processor)

    def row_file(self, name: str) -> Path:
        """Return the file of a trace's row."""
        return self.folder / "traces" / f"{name}.json"

    @property
    def registry(self) -> Path:
        """Return where GStreamer keeps what plugins there are."""
        return self.folder / "registry.bin"

    def build(self) -> None:
        """Make the folder of the traces, and compile the probe."""
        (self.folder / "traces").mkdir(parents=True, exist_ok=True)
        build_probe(self.folder / "probe.so")

    def play(self, command: Sequence[str], *, level: str = "*:5", before: Sequence[str] = ()) -> Played:
        """Run the player, as `playing.play` does; its log is the file `log.part`."""
        probe, log = self.folder / "probe.so", self.folder / "log.part"
        return play(command, self.processor, registry=self.registry, probe=probe, log=log, level=level, before=before)

    def command(self, pipeline: Pipeline, clip: Clip, settings: Settings) -> list[str]:
        """Return the command that plays a clip, read in blocks of about a picture."""
        file = self.clip(pipeline, clip)
        return pipeline.playing(file, -(-file.stat().st_size // clip.frames), settings)

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
        with Studio.opened(chosen.folder) as studio:
            record_all(planned, studio)
    except NotAsPlannedError as error:
        print(error, file=sys.stderr)
        return HOST_CANNOT
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    return DONE


def record_all(planned: Sequence[PlannedTrace], studio: Studio) -> None:
    """Record each trace that the folder does not hold, and write the table of all that it holds."""
    studio.build()
    waiting = [trace for trace in planned if not is_recorded(trace, studio)]
    print(f"{len(planned)} traces, {len(planned) - len(waiting)} of them recorded already", flush=True)
    started = time.monotonic()
    try:
        for number, trace in enumerate(waiting, 1):
            row = record(trace, studio)
            left_min = (time.monotonic() - started) / number * (len(waiting) - number) / 60
            said = "; ".join(row["noticed"].values()) or "nothing is noticed"
            print(
                f"{number}/{len(waiting)} {trace.name}: {said} ({row['lines']} lines; {left_min:.0f} min left)",
                flush=True,
            )
    finally:
        write_table(studio.folder)


def is_recorded(trace: PlannedTrace, studio: Studio) -> bool:
    """Return whether the folder holds a trace; ValueError where one of its name was planned otherwise."""
    file = studio.row_file(trace.name)
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
    settings = trace.change.settings(trace.strength, trace.clip) if trace.change else {}
    command = studio.command(trace.pipeline, trace.clip, settings)
    disturbed = trace.change.name if trace.change and trace.change.disturbs_host else ""
    for attempt in range(1, ATTEMPTS + 1):  # noqa: B007  it is part of the row
        with stress(disturbed, round(trace.strength), trace.seed, studio.processor):
            played = studio.play(command)
        measured = measure_run(played.shown, played.exit_code, trace.clip, trace.pipeline.sinks)
        if went_as_planned(trace, played.exit_code, measured):
            break
    else:
        raise NotAsPlannedError(f"{trace.name}: {ATTEMPTS} times not as planned; last: {measured}, {played.printed}")
    log = log_of(studio.folder, trace.name)
    row = describe(trace) | {
        "log": str(log.relative_to(studio.folder)),
        "lines": pack(studio.folder / "log.part", log),
        "attempt": attempt,
        "duration_s": played.duration_s,
        "exit_code": played.exit_code,
        "others_share": played.others_share,
        "load": round(os.getloadavg()[0], 2),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%S"),
        **asdict(measured),
        "noticed": noticed(measured),
        "command": command,
    }
    write_whole(studio.row_file(trace.name), json.dumps(row, indent=1))
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
        for row in rows:
            table.writerow({key: json.dumps(value) if key in LISTS else value for key, value in row.items()})
    part.rename(folder / "traces.csv")


def write_whole(file: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    part = file.with_name(f"part-{file.name}.tmp")
    part.write_text(text)
    part.rename(file)


@dataclass(frozen=True)
class Take:
    """A run to record for a further case, which is not in the plan."""

    name: str  # Of its log; unique in the folder
    pipeline: Pipeline  # What plays
    clip: Clip  # What is played
    settings: Settings = field(default_factory=dict)  # What is changed, by place


def record_takes(folder: Path, takes: Sequence[Take]) -> None:
    """Record each take that the folder does not hold, one after the other; clips of one name may have several sizes.

    A take with an error fails by it; any other that fails ends the recording.
    """
    waiting = [take for take in takes if not log_of(folder, take.name).exists()]
    if waiting and (missing := missing_tools()):
        raise SystemExit(f"missing: {', '.join(missing)}. Type: tools/setup.sh media")
    with Studio.opened(folder) as studio:
        studio.build()
        for number, take in enumerate(waiting, 1):
            clips = studio.folder / f"{take.clip.frames}x{take.clip.height}"
            clips.mkdir(exist_ok=True)
            command = Studio(clips, studio.processor).command(take.pipeline, take.clip, take.settings)
            played = studio.play(command)
            if played.exit_code and not any("error-after" in values for values in take.settings.values()):
                raise SystemExit(f"{take.name}: the player failed: {played.printed}")
            row = {"duration_s": played.duration_s, "shown": len(played.shown), "command": command}
            write_whole(studio.row_file(take.name), json.dumps(row))
            lines = pack(studio.folder / "log.part", log_of(folder, take.name))
            print(f"{number}/{len(waiting)} {take.name}: {lines} lines", file=sys.stderr, flush=True)


def log_of(folder: Path, name: str) -> Path:
    """Return the log of a trace."""
    return folder / "traces" / f"{name}.log.gz"


def read_take(folder: Path, name: str, identity: tuple[str, ...] = PAPERS) -> EventTrace:
    """Read the log of a take."""
    return read_events(log_of(folder, name), identity=identity)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the recorder's rows."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("traces/*.json"))]


def good_runs(folder: Path) -> Iterator[list[EventTrace]]:
    """Yield the runs in which nothing was changed, references and clean ones, of each pipeline and clip."""
    cells = defaultdict(list)
    for row in read_rows(folder):
        if row["role"] in ("reference", "clean"):
            cells[row["pipeline"], row["clip"]].append(folder / row["log"])
    for logs in cells.values():
        yield [read_events(log, identity=WITH_OBJECTS) for log in logs]


if __name__ == "__main__":
    sys.exit(main())
