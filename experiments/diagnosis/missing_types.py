"""False alarms and power of the kind `missing event type`, on simulated logs and on recorded ones.

    python -m experiments.diagnosis.missing_types [--logs N] [--traces FOLDER]

A simulated run has 60 types that occur from once to 200 times on average, from run to run as its world says, beside
one that recurs. Recorded logs are the good ones of `record.py`: each against others of its pipeline and clip, drawn at
random. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.common.tables import markdown_table, right
from experiments.diagnosis.record import good_runs
from unperturbed.analysis.diagnosis import EventTrace, EventType, MissingType
from unperturbed.analysis.diagnosis.comparison import compare

REFERENCES = (3, 6, 10)
TYPES = 60
LOGS = 300
PLANTED = 15, 30, 60, 100
"""Times that a type occurs on average, of which one is taken away."""
_NAMES = tuple(EventType.from_name(name) for name in ("beat: on", *(f"part{number}: done" for number in range(TYPES))))
Random = np.random.Generator
Times = NDArray[np.float64]


def _anywhere(random: Random, count: float) -> Times:
    return random.random(random.poisson(count))


def _clumps(random: Random, count: float) -> Times:
    starts = random.random(random.poisson(count / 10))
    return np.minimum(1.0, np.repeat(starts, 10) + 0.005 * random.random(10 * len(starts)))


def _at_start(random: Random, count: float) -> Times:
    return 0.01 * random.random(round(count) if random.random() < 0.9 else 0)


WORLDS: Mapping[str, Callable[[Random, float], Times]] = {
    "at random": _anywhere,
    "at rates that differ (gamma, shape 4)": lambda random, count: _anywhere(random, count * random.gamma(4) / 4),
    "at rates that differ (gamma, shape 1)": lambda random, count: _anywhere(random, count * random.gamma(1)),
    "in clumps of ten": _clumps,
    "at the start, in nine runs of ten": _at_start,
    "throughout, in nine runs of ten": lambda random, count: _anywhere(random, count * (random.random() < 0.9)),
}
"""When the events of a type that occurs so many times on average come, as shares of the run."""


def run(world: str, seed: int, counts: Sequence[float]) -> EventTrace:
    """Return the log of a run in which each type occurs as often on average; in the last world only three may lack."""
    random = np.random.default_rng(seed)
    times = [np.linspace(0, 1, 301)]
    for number, count in enumerate(counts):
        rule = WORLDS["at random"] if world.endswith("ten") and "runs" in world and number > 2 else WORLDS[world]
        times.append(rule(random, count))
    ids = np.repeat(np.arange(len(times)), [len(each) for each in times]).astype(np.int32)
    at = np.round(1e9 * np.concatenate(times)).astype(np.int64)
    order = np.argsort(at, kind="stable")
    return EventTrace(at[order], ids[order], _NAMES[: len(times)], "ns", f"run-{seed}")


def simulated(world: str, references: int, seed: int, planted: float | None = None) -> bool:
    """Return whether a type is said to be missing; planted is how often the first occurs, which is then removed."""
    random = np.random.default_rng([seed, 1])
    counts = np.exp(random.uniform(0, np.log(200), TYPES))
    counts[0] = planted or counts[0]
    good = [run(world, 100 * seed + number, counts.tolist()) for number in range(1, references + 1)]
    trace = run(world, 100 * seed, counts.tolist())
    return _is_told(good, trace if planted is None else without(trace, _NAMES[1]), _NAMES[1] if planted else None)


def without(trace: EventTrace, event: EventType) -> EventTrace:
    """Return a trace without the events of a type."""
    kept = trace.events != trace.types.index(event)
    return EventTrace(trace.timestamps[kept], trace.events[kept], trace.types, trace.unit, trace.name, trace.reading)


def _is_told(good: Sequence[EventTrace], trace: EventTrace, event: EventType | None = None) -> bool:
    finding = MissingType().find(compare(good, trace))
    return finding is not None and (event is None or event in {carrier.event for carrier in finding.carriers})


def recorded(folder: Path, references: int) -> tuple[int, int, int, int]:
    """Return the good logs, those of which a type is said to be missing, the planted types, and those found.

    Planted is a type of every log's, drawn from those that the log itself states.
    """
    logs = alarms = planted = told = 0
    random = np.random.default_rng(references)
    for runs in good_runs(folder):
        for number, trace in enumerate(runs):
            others = [runs[place] for place in random.permutation(len(runs)) if place != number][:references]
            comparison = compare(others, trace)
            logs += 1
            alarms += MissingType().find(comparison) is not None
            (stated,) = MissingType().visible(comparison)
            fewest = _parts(others, comparison.types)
            least = 2.0 if stated.size is None else stated.size
            own = {trace.types[number] for number in np.unique(trace.events)}
            named = [event for event, parts in zip(comparison.types, fewest, strict=True) if parts >= least]
            named = [event for event in named if event in own]
            if named:
                event = named[int(random.integers(len(named)))]
                planted += 1
                told += _is_told(others, without(trace, event), event)
    return logs, alarms, planted, told


def _parts(references: Sequence[EventTrace], types: Sequence[EventType]) -> Times:
    """Return in which share of a hundred parts of its time each type occurs in the reference where it has fewest."""
    shares = []
    for reference in references:
        places = np.array([types.index(event) for event in reference.types])
        has = np.zeros((len(types), 100), dtype=bool)
        has[places[reference.events], reference.since_start * 100 // (reference.duration + 1)] = True
        shares.append(has.mean(axis=1))
    return np.asarray(np.min(shares, axis=0), np.float64)


def _shown(share: float, logs: int) -> str:
    return f"{share:.3f} ± {(share * (1 - share) / max(1, logs)) ** 0.5:.3f}"


def rows(logs: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: good runs called anomalous, then missing types found."""
    for planted in (None, *PLANTED):
        for world in list(WORLDS)[: None if planted is None else 3]:
            shares = [
                sum(simulated(world, count, seed, planted) for seed in range(logs)) / logs for count in REFERENCES
            ]
            what = "a good run" if planted is None else f"missing, {planted} times"
            yield what, world, *(_shown(share, logs) for share in shares)
    if folder.exists():
        each = [recorded(folder, count) for count in REFERENCES]
        yield "a good run", "recorded", *(_shown(alarms / count, count) for count, alarms, _, _ in each)
        yield "missing, as stated", "recorded", *(_shown(told / max(1, count), count) for *_, count, told in each)


def table(logs: int, folder: Path) -> list[str]:
    """Return the table in Markdown; its last two rows only where the folder is there."""
    heads = right(*(f"{count} references" for count in REFERENCES))
    return markdown_table(["log", "types occur", *heads], list(rows(logs, folder)))


def main() -> None:
    """Simulate, read what is recorded, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", type=int, default=LOGS, help=f"simulated logs of each cell ({LOGS})")
    parser.add_argument(
        "--traces", type=Path, default=Path("campaigns/diagnosis"), help="folder of the recorder (campaigns/diagnosis)"
    )
    arguments = parser.parse_args()
    print("\n".join(table(arguments.logs, arguments.traces)))


if __name__ == "__main__":
    main()
