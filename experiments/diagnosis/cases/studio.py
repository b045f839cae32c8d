"""Recording for the further cases: they are not in the plan of `record.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from experiments.common.evaluation import EVIDENCE
from experiments.diagnosis.pipelines import Clip, Pipeline, Settings
from experiments.diagnosis.playing import build_probe, missing_tools, own_processors, play
from experiments.diagnosis.record import Studio, pack, write_whole
from unperturbed.analysis.diagnosis import EventTrace, read_events

PAGE = EVIDENCE / "diagnosis_cases.md"
PAPERS = ("level", "function", "word")
"""What tells events apart in the paper's data preparation, section IV-B."""


@dataclass(frozen=True)
class Take:
    """A run to record."""

    name: str  # Of its log; unique in the folder
    pipeline: Pipeline  # What plays
    clip: Clip  # What is played
    settings: Settings = field(default_factory=dict)  # What is changed, by place


def record_takes(folder: Path, takes: Iterable[Take]) -> None:
    """Record each take that the folder does not hold, one after the other.

    A take with an error fails by it; any other that fails ends the recording.
    """
    wanted = list(takes)
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    waiting = [take for take in wanted if not log_of(folder, take.name).exists()]
    if waiting and (missing := missing_tools()):
        raise SystemExit(f"missing: {', '.join(missing)}. Type: tools/setup.sh media")
    with own_processors() as processor:
        studio = Studio(folder.absolute(), processor)
        build_probe(studio.probe)
        for number, take in enumerate(waiting, 1):
            clip = clip_of(folder, take, processor)
            block = -(-clip.stat().st_size // take.clip.frames)
            raw = folder / "log.part"
            command = take.pipeline.playing(clip.absolute(), block, take.settings)
            played = play(command, processor, registry=studio.registry, probe=studio.probe, log=raw.absolute())
            if played.exit_code and not _errs(take.settings):
                raise SystemExit(f"{take.name}: the player failed: {played.printed}")
            write_whole(
                folder / "traces" / f"{take.name}.json",
                json.dumps({"duration_s": played.duration_s, "shown": len(played.shown), "command": command}),
            )
            lines = pack(raw, log_of(folder, take.name))
            print(f"{number}/{len(waiting)} {take.name}: {lines} lines", file=sys.stderr, flush=True)


def clip_of(folder: Path, take: Take, processor: int) -> Path:
    """Return the clip of a take, which is made when it is not there; clips of one name may have several sizes."""
    place = folder.absolute() / f"{take.clip.frames}x{take.clip.height}"
    place.mkdir(exist_ok=True)
    return Studio(place, processor).clip(take.pipeline, take.clip)


def log_of(folder: Path, name: str) -> Path:
    """Return the log of a take."""
    return folder / "traces" / f"{name}.log.gz"


def read_take(folder: Path, name: str, identity: tuple[str, ...] = PAPERS) -> EventTrace:
    """Read the log of a take."""
    return read_events(log_of(folder, name), identity=identity)


def _errs(settings: Mapping[str, Mapping[str, str]]) -> bool:
    return any("error-after" in values for values in settings.values())
