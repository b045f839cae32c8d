"""Measures of what reached the screen and the speaker, apart from the log, and whether a viewer would notice.

The sinks tell each buffer that they show (`fakesink silent=false`), and probe.c writes it down with the time. From
times of arrival and times of presentation follow pictures and sound lost, how late they were, and how far apart.

The limits are conventions of this experiment, except that of sound against picture, which is ITU-R BT.1359-1's
threshold of detectability. They are stated before anything is diagnosed, and the same for every pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from experiments.diagnosis.pipelines import FRAME_MS, Clip

SLOW, LOST, DESYNCHRONISED, CUT = "slow streaming", "lost events", "desynchronisation", "crash or truncation"
"""The kinds of anomaly, as the tool calls them."""

SOUND_EARLY_MS, SOUND_LATE_MS = 45.0, 125.0
"""ITU-R BT.1359-1: an offset of sound against picture is detected from 45 ms early or 125 ms late on."""
HELD_MS = 500.0
"""An offset counts when it is held for so long: the median over so many pictures."""
LATE_MS = 200.0
"""Slow: picture and sound alike come later than the clip's pace by so much, five pictures' time."""
LOST_PICTURES_SHARE, LOST_IN_SEQUENCE, LOST_SOUND_SHARE = 0.05, 3, 0.01
"""Lost: a picture in twenty, or three in sequence (120 ms), or a hundredth of the sound."""
CUT_MS = 3 * FRAME_MS
"""Cut: the end did not reach the sinks, and the last three pictures or as much sound is missing."""

_TIME = r"(\d+):(\d+):(\d+)\.(\d{9})"
_BUFFER = re.compile(rf"(\d+) chain .*?\((screen|speaker):sink\).*? pts: {_TIME}, duration: (?:{_TIME}|none)")
_END = re.compile(r"\d+ event .*?\((screen|speaker):sink\) E \(type: eos ")


@dataclass(frozen=True)
class Shown:
    """One buffer at a sink."""

    arrival_ms: float  # When it was shown (CLOCK_MONOTONIC)
    due_ms: float  # Its presentation time in the clip
    lasts_ms: float  # How long it plays

    @property
    def lateness_ms(self) -> float:
        """How late it is, up to a constant that all buffers of a run share."""
        return self.arrival_ms - self.due_ms


@dataclass(frozen=True)
class Measured:
    """What was shown of a clip. Times in milliseconds."""

    end_reached: bool  # Whether the end of the clip reached every sink, without an error
    # pictures_due, pictures_shown: Of the whole clip.
    pictures_due: int
    pictures_shown: int
    # Share of the pictures that is missing until the clip's end, or the last shown where it was not reached.
    pictures_lost_share: float
    lost_in_sequence: int  # Most pictures that are missing in sequence
    sound_lost_share: float  # Share of the sound that is missing
    missing_end_ms: float  # The clip's rest after the last picture or sound shown
    # The most that the stream that was less late came after the clip's pace, from its first buffer on; the picture's,
    # without sound.
    late_ms: float
    # sound_late_ms, sound_early_ms: The largest offsets of sound against picture that lasted; 0 without sound.
    sound_late_ms: float
    sound_early_ms: float


def read_shown(lines: Iterable[str]) -> tuple[dict[str, list[Shown]], set[str]]:
    """Return what each sink showed, in order, by lines of the probe, and the sinks that the end of the clip reached."""
    shown: dict[str, list[Shown]] = {"screen": [], "speaker": []}
    ended = set()
    for line in lines:
        if match := _BUFFER.match(line):
            parts = match.groups()
            shown[parts[1]].append(Shown(int(parts[0]) / 1e6, _milliseconds(parts[2:6]), _milliseconds(parts[6:])))
        elif match := _END.match(line):
            ended.add(match[1])
    return shown, ended


def measure(shown: Mapping[str, Sequence[Shown]], ended: Set[str], clip: Clip, sinks: Collection[str]) -> Measured:
    """Compare what was shown, as `read_shown` returns it, with what was due at the pipeline's sinks."""
    clip_ms = clip.frames * FRAME_MS
    pictures, sound = shown["screen"], shown["speaker"]
    streams = [shown[sink] for sink in sinks]
    ends = [stream[-1].due_ms + stream[-1].lasts_ms if stream else 0.0 for stream in streams]
    numbers = [round(picture.due_ms / FRAME_MS) for picture in pictures]
    whole = ended >= set(sinks)
    due_until = clip.frames if whole or not numbers else numbers[-1] + 1
    gaps = [later - earlier - 1 for earlier, later in pairwise([-1, *numbers, due_until])]
    offsets = _held(_offsets(pictures, sound))
    return Measured(
        end_reached=whole,
        pictures_due=clip.frames,
        pictures_shown=len(pictures),
        pictures_lost_share=round(1 - len(pictures) / due_until, 4),
        lost_in_sequence=max(gaps),
        sound_lost_share=round(_sound_lost(sound, clip_ms if whole else 0.0), 4) if "speaker" in sinks else 0.0,
        missing_end_ms=round(max(0.0, *(clip_ms - end for end in ends)), 1),
        late_ms=round(min(_late(stream) for stream in streams), 1),
        sound_late_ms=round(max(0.0, *offsets), 1) if offsets else 0.0,
        sound_early_ms=round(max(0.0, *(-offset for offset in offsets)), 1) if offsets else 0.0,
    )


def measure_run(lines: Iterable[str], exit_code: int, clip: Clip, sinks: Collection[str]) -> Measured:
    """Return what a player showed that wrote these lines of the probe and ended with this code."""
    shown, ended = read_shown(lines)
    if exit_code:
        ended.clear()  # a demuxer that meets an error sends the sinks an end, of what it has read
    return measure(shown, ended, clip, sinks)


def noticed(measured: Measured) -> dict[str, str]:
    """Return by kind of anomaly the criterion by which a viewer notices it; empty when nothing is noticed."""
    faults = {}
    if not measured.end_reached and measured.missing_end_ms > CUT_MS:
        faults[CUT] = f"the end was not reached, {measured.missing_end_ms:.0f} ms are missing"
    if measured.sound_early_ms > SOUND_EARLY_MS:
        faults[DESYNCHRONISED] = f"sound {measured.sound_early_ms:.0f} ms early"
    if measured.sound_late_ms > SOUND_LATE_MS:
        faults[DESYNCHRONISED] = f"sound {measured.sound_late_ms:.0f} ms late"
    if measured.late_ms > LATE_MS:
        faults[SLOW] = f"{measured.late_ms:.0f} ms late"
    if measured.pictures_lost_share > LOST_PICTURES_SHARE:
        faults[LOST] = f"{measured.pictures_lost_share:.0%} of the pictures lost"
    elif measured.lost_in_sequence >= LOST_IN_SEQUENCE:
        faults[LOST] = f"{measured.lost_in_sequence} pictures lost in sequence"
    elif measured.sound_lost_share > LOST_SOUND_SHARE:
        faults[LOST] = f"{measured.sound_lost_share:.0%} of the sound lost"
    return faults


def is_clean(measured: Measured) -> bool:
    """Return whether a run in which nothing was changed went as it should: nothing to notice, and no picture lost."""
    return not noticed(measured) and measured.pictures_shown == measured.pictures_due


def _milliseconds(parts: Sequence[str | None]) -> float:
    """Return H, M, S and nanoseconds as milliseconds; 0 of a time that is missing."""
    hours, minutes, seconds, nanoseconds = (int(part or 0) for part in parts)
    return 1000.0 * (3600 * hours + 60 * minutes + seconds) + nanoseconds / 1e6


def _late(buffers: Sequence[Shown]) -> float:
    """Return the most that a buffer came after its time, counted from the first."""
    return max((buffer.lateness_ms - buffers[0].lateness_ms for buffer in buffers), default=0.0)


def _sound_lost(sound: Sequence[Shown], until_ms: float) -> float:
    """Return the share of the sound that is missing before the last that was played, and before a time."""
    if not sound:
        return 1.0
    end_ms = max(until_ms, sound[-1].due_ms + sound[-1].lasts_ms)
    return max(0.0, 1 - sum(buffer.lasts_ms for buffer in sound) / end_ms)


def _offsets(pictures: Sequence[Shown], sound: Sequence[Shown]) -> list[float]:
    """Return for each picture by how much the sound of the same moment came later, if there is any within 100 ms."""
    offsets, index = [], 0
    for picture in pictures:
        while index + 1 < len(sound) and abs(sound[index + 1].due_ms - picture.due_ms) <= abs(
            sound[index].due_ms - picture.due_ms
        ):
            index += 1
        if sound and abs(sound[index].due_ms - picture.due_ms) <= 100:
            offsets.append(sound[index].lateness_ms - picture.lateness_ms)
    return offsets


def _held(offsets: Sequence[float]) -> list[float]:
    """Return the medians over every stretch of HELD_MS."""
    width = round(HELD_MS / FRAME_MS)
    return [median(offsets[start : start + width]) for start in range(len(offsets) - width + 1)]
