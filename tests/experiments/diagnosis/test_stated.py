"""What a clean verdict says that it would have found is found."""

from __future__ import annotations

import math

import numpy as np

from tests.analysis.diagnosis.players import MS, play, references
from unperturbed.analysis.diagnosis import EventTrace, diagnose


def test_what_is_stated_is_found_in_a_player() -> None:
    given = references()
    found = {"lost events": 0, "desynchronisation": 0, "slow streaming": 0}
    runs = 20
    for seed in range(runs):
        clean = diagnose(given, play(seed))
        sizes = {one.kind: one.size for one in clean.visible}
        trace = play(seed)
        video = [number for number, kind in enumerate(trace.types) if kind.plugin == "video"]
        shown = len(
            trace.timestamps[trace.events == trace.types.index(next(k for k in trace.types if k.name == "video:show"))]
        )
        lost = math.ceil((sizes["lost events"] or 0) * shown)
        changed = {
            "lost events": _without(trace, video, lost),
            "desynchronisation": play(seed, offset_ms=1.1 * (sizes["desynchronisation"] or 0) / MS),
            "slow streaming": play(seed, pace=1 + 1.1 * (sizes["slow streaming"] or 0) / MS / 4000),
        }
        for kind, one in changed.items():
            found[kind] += kind in {each.kind for each in diagnose(given, one).findings}
    assert min(found.values()) >= 0.95 * runs, found


def _without(trace: EventTrace, numbers: list[int], lost: int) -> EventTrace:
    """Return a trace without some events of each of the types, from the middle on."""
    kept = np.ones(len(trace), dtype=bool)
    for number in numbers:
        places = np.flatnonzero(trace.events == number)
        if len(places) > 10:
            kept[places[len(places) // 2 : len(places) // 2 + lost]] = False
    return EventTrace(trace.timestamps[kept], trace.events[kept], trace.types, trace.unit)
