"""The traces that are recorded: references, further clean traces, and anomalous ones, in an order drawn once.

    python -m experiments.diagnosis.plan             the index of labels, for README.md
    python -m experiments.diagnosis.plan FOLDER      what the sinks of the traces in FOLDER showed

A trace is anomalous by a change that is put into its pipeline. The label says what the change does *in that pipeline*:
the paper calls sleep-time a desynchronisation in section IV and slow streaming in section V; both are right, of
different pipelines, as it holds up one stream of two, or the only one.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from experiments.common.tables import markdown_table
from experiments.diagnosis.pipelines import CLIPS, FRAME_MS, PIPELINES, SAMPLE_RATE, Clip, Pipeline
from experiments.diagnosis.shown import CUT, DESYNCHRONISED, LOST, SLOW

MP3_MS = 1000 * 1152 / SAMPLE_RATE
"""What a buffer of MP3 sound plays."""


@dataclass(frozen=True)
class Change:
    """One way to disturb a pipeline."""

    name: str  # What is changed
    place: str  # Where it acts; "" when the host is disturbed
    unit: str  # Of its strengths
    # one_stream, two_streams: How often each strength is recorded, in pipelines of one and of two streams; clips take
    # turns.
    one_stream: dict[float, int]
    two_streams: dict[float, int]
    pipelines: tuple[str, ...] = ("decode", "avi", "ogg", "matroska")  # The pipelines that it is put into

    @property
    def disturbs_host(self) -> bool:
        """Return whether the host is disturbed, not the pipeline."""
        return self.name in ("cpu", "memory")

    def strengths(self, pipeline: Pipeline) -> dict[float, int]:
        """Return strength → traces, in a pipeline."""
        if pipeline.name not in self.pipelines:
            return {}
        return self.two_streams if pipeline.audio_decoder else self.one_stream

    def settings(self, strength: float, clip: Clip) -> dict[str, dict[str, str]]:
        """Return what is set at which place; empty when it is the host that is disturbed."""
        match self.name:
            case "sleep-time" if self.place == "both":
                sound_share = MP3_MS / FRAME_MS
                return {
                    "picture": {"sleep-time": f"{strength * 1000:.0f}"},
                    "sound": {"sleep-time": f"{strength * 1000 * sound_share:.0f}"},
                }
            case "sleep-time":
                return {self.place: {"sleep-time": f"{strength * 1000:.0f}"}}
            case "drop":
                return {self.place: {"drop-probability": f"{strength:g}"}}
            case "error-after":
                return {self.place: {"error-after": f"{min(round(strength * clip.frames), clip.frames - 1)}"}}
            case "offset":
                delayed = "speaker" if strength > 0 else "screen"
                return {delayed: {"ts-offset": f"{abs(strength) * 1e6:.0f}"}}
            case _:
                return {}

    def effect(self, pipeline: Pipeline) -> tuple[str, str]:
        """Return the kind of anomaly that the change is in a pipeline, and in words what it does there."""
        name = "stress" if self.disturbs_host else self.name
        how = "one stream" if not pipeline.audio_decoder else "late dropped" if pipeline.drops_late else "late shown"
        effects = (
            EFFECTS[key]
            for key in (
                (name, self.place, pipeline.name),
                (name, self.place, how),
                (name, self.place),
                (name, how),
                (name,),
            )
            if key in EFFECTS
        )
        return next(effects)


EFFECTS = {
    ("sleep-time", "both"): (
        SLOW,
        "each picture waits, and each piece of sound in proportion: beyond their periods both fall behind together; "
        "nothing is lost",
    ),
    ("sleep-time", "source", "late shown"): (
        SLOW,
        "the source waits at each block: when that takes longer than playing it, both streams starve and fall behind "
        "together",
    ),
    ("sleep-time", "source", "late dropped"): (
        LOST,
        "the source waits at each block: when that takes longer than playing it, pictures come late and are dropped; "
        "the sound is late too",
    ),
    ("sleep-time", "one stream"): (SLOW, "each picture waits: the only stream is decoded slower, and nothing is lost"),
    ("sleep-time", "late shown"): (
        DESYNCHRONISED,
        "each picture waits: beyond its period the picture falls ever further behind the sound, which goes on",
    ),
    ("sleep-time", "late dropped"): (
        LOST,
        "each picture waits: beyond its period pictures come late and are dropped, so that sound and picture stay "
        "together",
    ),
    ("drop", "coded", "avi"): (
        LOST,
        "coded pictures are dropped, which AVI does not time: those after them come earlier, ahead of the sound, and "
        "are spoilt",
    ),
    ("drop", "coded"): (LOST, "coded pictures are dropped: they are missing, and what is decoded from them is spoilt"),
    ("drop", "picture"): (LOST, "decoded pictures are dropped: they are missing, and nothing else changes"),
    ("drop", "sound"): (LOST, "pieces of the decoded sound are dropped: the sound has holes, the picture is whole"),
    ("error-after",): (CUT, "an element reports an error: the player ends at once, and what was to come is not shown"),
    ("offset",): (
        DESYNCHRONISED,
        "one sink shows all later by a constant: sound late (+) or early (-); nothing is lost, nothing slower",
    ),
    ("stress", "one stream"): (
        SLOW,
        "the player gets less of its processor: the only stream is decoded slower, and nothing is lost",
    ),
    ("stress", "late shown"): (
        DESYNCHRONISED,
        "the player gets less of its processor: the picture, which needs more of it, falls behind the sound",
    ),
    ("stress", "late dropped"): (LOST, "the player gets less of its processor: pictures come late and are dropped"),
}
"""Change, place where that matters, and the pipeline or how it plays → kind of anomaly, and what happens."""

CHANGES = (
    Change(
        "sleep-time", "coded", "ms a picture", {2: 2, 5: 2, 30: 2, 45: 2, 60: 2, 90: 2}, {20: 1, 50: 1, 60: 1, 80: 1}
    ),
    Change("sleep-time", "picture", "ms a picture", {}, {5: 1, 30: 1, 45: 1, 55: 1, 70: 1}),
    Change("sleep-time", "source", "ms a block", {}, {10: 1, 40: 1, 60: 1, 80: 1}, ("ogg", "matroska")),
    Change("sleep-time", "both", "ms a picture", {}, {20: 1, 50: 1, 60: 1, 80: 1}, ("avi",)),
    Change("drop", "coded", "probability", {0.02: 1, 0.1: 1, 0.3: 1}, {0.02: 1, 0.1: 1, 0.3: 1}),
    Change("drop", "picture", "probability", {0.01: 2, 0.05: 2, 0.3: 2, 0.5: 1}, {0.01: 1, 0.1: 1, 0.3: 1, 0.5: 1}),
    Change("drop", "sound", "probability", {}, {0.01: 1, 0.1: 1}),
    Change(
        "error-after", "coded", "share of the clip", {0.1: 2, 0.5: 2, 0.9: 2, 1.0: 1}, {0.1: 1, 0.5: 1, 0.9: 1, 1.0: 1}
    ),
    Change("error-after", "picture", "share of the clip", {}, {0.3: 1}),
    Change("cpu", "", "busy processes", {1: 1, 8: 1, 32: 2, 64: 2}, {1: 1, 8: 1, 32: 1, 64: 1}),
    Change("memory", "", "busy processes", {1: 1, 8: 1, 32: 2, 64: 2}, {1: 1, 8: 1, 32: 1, 64: 1}),
    Change("offset", "", "ms", {}, {-400: 1, -150: 1, -60: 1, -20: 1, 60: 1, 150: 1, 250: 1, 500: 1}),
)


REFERENCES = 10
"""For each clip in each pipeline. oggdemux begins in ways that are seen in one clean run of five to ten: five are too
few."""
CLEAN = 130
"""As many normal traces as in the paper's table III; its 170 abnormal ones are in `CHANGES`."""


@dataclass(frozen=True)
class PlannedTrace:
    """One trace to record."""

    name: str  # Of its files; unique
    role: Literal["reference", "clean", "anomalous"]  # What it is for
    pipeline: Pipeline  # What plays
    clip: Clip  # What is played
    change: Change | None  # What is changed in the pipeline
    strength: float  # How much; 0 when nothing is changed
    # Of what is random in a disturbance of the host. What `identity` drops is drawn by GLib, which takes no seed.
    seed: int


def plan_traces(seed: int) -> list[PlannedTrace]:
    """Return every trace in the order of recording: shuffled, so that drift is not a property of a label."""
    cells = list(product(PIPELINES, CLIPS))
    planned = [_plain("reference", *cell, number, seed) for cell in cells for number in range(REFERENCES)]
    planned += [_plain("clean", *cells[index % len(cells)], index // len(cells), seed) for index in range(CLEAN)]
    for pipeline in PIPELINES:
        wanted = [
            (change, strength, number)
            for change in CHANGES
            for strength, traces in change.strengths(pipeline).items()
            for number in range(traces)
        ]
        for turn, (change, strength, number) in enumerate(wanted):
            clip = CLIPS[turn % len(CLIPS)]
            where = f"-{change.place}" if change.place else ""
            name = f"{pipeline.name}-{clip.name}-{change.name}{where}-{strength:g}-{number}"
            planned.append(PlannedTrace(name, "anomalous", pipeline, clip, change, strength, _drawn(seed, name)))
    random.Random(seed).shuffle(planned)
    return planned


def _plain(role: Literal["reference", "clean"], pipeline: Pipeline, clip: Clip, number: int, seed: int) -> PlannedTrace:
    name = f"{pipeline.name}-{clip.name}-{role}-{number}"
    return PlannedTrace(name, role, pipeline, clip, None, 0.0, _drawn(seed, name))


def _drawn(seed: int, name: str) -> int:
    """Return a trace's own seed, whatever else is in the plan."""
    return random.Random(f"{seed} {name}").getrandbits(32)


def index() -> str:
    """Return the list of each change's effects, and where; one that does the same in several pipelines has one item."""
    places: dict[tuple[str, str, str, str], list[str]] = {}
    for change in CHANGES:
        for pipeline in PIPELINES:
            if strengths := change.strengths(pipeline):
                listed = ", ".join(f"{strength:g}" for strength in sorted(strengths))
                key = (f"{change.name} {change.place}".strip(), f"{listed} {change.unit}", *change.effect(pipeline))
                places.setdefault(key, []).append(f"{pipeline.name} ({sum(strengths.values())})")
    return "\n".join(
        f"- **{change}**, {strengths}, in {', '.join(where)}: *{kind}*.\n  {does[0].upper()}{does[1:]}."
        for (change, strengths, kind, does), where in places.items()
    )


_NOTICED = {
    "pictures lost %": ("pictures_lost_share", 100),
    "sound lost %": ("sound_lost_share", 100),
    "late ms": ("late_ms", 1),
    "sound early ms": ("sound_early_ms", 1),
    "sound late ms": ("sound_late_ms", 1),
    "end missing ms": ("missing_end_ms", 1),
    "lines": ("lines", 1),
}
"""Heads of the table of what was noticed → columns of traces.csv, and by what these are multiplied."""


def measured(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the table of what was noticed: a row for each pipeline, change and strength; ranges over its traces."""
    groups = defaultdict(list)
    for row in rows:
        change = row["change"] if row["role"] == "anomalous" else row["role"]
        groups[row["pipeline"], change, row["place"], float(row["strength"]), row["unit"]].append(row)
    lines = []
    for (pipeline, change, place, strength, unit), group in sorted(groups.items()):
        kinds = Counter(kind for row in group for kind in json.loads(row["noticed"]))
        lines.append(
            (
                pipeline,
                f"{change} {place}".strip(),
                f"{strength:g} {unit}" if unit else "",
                str(len(group)),
                "; ".join(f"{kind} {times}" for kind, times in sorted(kinds.items())),
                *(_range([scale * float(row[column]) for row in group]) for column, scale in _NOTICED.values()),
            )
        )
    return "\n".join(markdown_table(("pipeline", "change", "strength", "traces", "noticed", *_NOTICED), lines))


def _range(values: Sequence[float]) -> str:
    """Return the least and the most of some values, or the one value, in whole numbers."""
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least}–{most}"


def main() -> None:
    """Print the index, or what was measured in a folder."""
    if len(sys.argv) == 1:
        print(index())
        return
    with (Path(sys.argv[1]) / "traces.csv").open(newline="") as table:
        print(measured(csv.DictReader(table)))


if __name__ == "__main__":
    main()
