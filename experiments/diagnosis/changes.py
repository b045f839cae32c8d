"""The changes that are put into a pipeline: at what strengths, and what each does there.

A label says what a change does *in that pipeline*. The paper calls sleep-time a desynchronisation in section IV and
slow streaming in section V; both are right, of different pipelines: it holds up one stream of two, or the only one.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.diagnosis.pipelines import FRAME_MS, SAMPLE_RATE, Clip, Pipeline
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
