"""The traces that are recorded: references, further clean traces, and anomalous ones, in an order drawn once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import Literal

from experiments.diagnosis.changes import CHANGES, Change
from experiments.diagnosis.pipelines import CLIPS, PIPELINES, Clip, Pipeline

REFERENCES = 10
"""For each clip in each pipeline. oggdemux begins in ways that are seen in one clean run of five to ten: five are too
few."""
CLEAN = 130
"""As many normal traces as in the paper's table III; its 170 abnormal ones are in `changes.CHANGES`."""


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
