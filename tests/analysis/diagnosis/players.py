"""Made-up players of two streams, with every kind of anomaly at any strength."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unperturbed.analysis.diagnosis import EventTrace

MS = 1_000_000
PERIODS_MS = {"video": 40.0, "audio": 26.0}
STEPS = ("receive", "decode", "wait", "show")


def play(
    seed: int,
    *,
    seconds: float = 4.0,
    lost: float = 0.0,
    stop_at: float | None = None,
    error: bool = False,
    pace: float = 1.0,
    offset_ms: float = 0.0,
    jitter_ms: float = 1.0,
    program: str = "player",
    unit: str = "ns",
) -> EventTrace:
    """Play for some seconds.

    Parameters
    ----------
    lost : share of the pictures that never arrive.
    stop_at : share of the clip at which it ends; with an error's events and a tidy end, or none.
    pace : by what all times are stretched.
    offset_ms : by how much the sound comes later.
    """
    random = np.random.default_rng(seed)
    events = [(index * 0.3, f"{program}:set up {index}") for index in range(40)]
    start = 500 + random.uniform(0, 80)
    end = start
    for stream, period in PERIODS_MS.items():
        count = round(seconds * 1000 / period)
        kept = random.random(count) >= (lost if stream == "video" else 0)
        shown = (
            start
            + np.arange(count) * period * pace
            + random.exponential(jitter_ms, count)
            + (offset_ms if stream == "audio" else 0)
        )
        for index in np.flatnonzero(kept):
            if stop_at is not None and index >= stop_at * count:
                break
            events += [(shown[index] + number * 0.05, f"{stream}:{step}") for number, step in enumerate(STEPS)]
            end = max(end, shown[index])
        if random.random() < 0.3:
            events.append((shown[3] + 0.5, f"{stream}:now and then"))
    if error:
        events += [(end + 1, f"{program}:error"), (end + 2, f"{program}:close")]
    elif stop_at is None:
        events += [(end + 200, f"{program}:{word}") for word in ("end of stream", "stop", "report", "close")]
    scale = {"ns": MS, "ms": 1, "ticks": MS}[unit]
    pairs = sorted((round(time * scale), name) for time, name in events)
    return EventTrace.from_pairs(pairs, unit=unit, name=f"run-{seed}")  # type: ignore[arg-type]


def references(count: int = 6, **how: object) -> list[EventTrace]:
    """Return clean runs."""
    make: Callable[..., EventTrace] = play
    return [make(1000 + seed, **how) for seed in range(count)]
