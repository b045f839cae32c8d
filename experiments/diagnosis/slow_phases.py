"""False alarms and power of the kind `slow phase`, on simulated logs of a server.

    python -m experiments.diagnosis.slow_phases [--logs N] [--traces FOLDER]

A server answers requests: it accepts, parses, queries and replies. Its machine is fast or slow for a whole run,
wanders, and is faster for a tenth of some runs, as in recorded logs of good runs. Prints two tables in
Markdown; with a folder of `record.py`, how many slow phases are found that are planted in its good logs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common.tables import markdown_table, right
from experiments.diagnosis.record import good_runs
from unperturbed.analysis.diagnosis import EventTrace, EventType, SlowPhase
from unperturbed.analysis.diagnosis.comparison import compare

_STEPS = {"parser: parse request": 1.65, "db: query begin": 1.26, "db: query end": 2.1}
"""Milliseconds that each step of a request takes."""
_REQUEST_MS = 5.0
_TAILS: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "light": lambda random, shape: np.exp(random.normal(0, 0.04, shape)),
    "log-normal": lambda random, shape: np.exp(random.normal(0, 0.5, shape)),
    "Pareto": lambda random, shape: 1 + 0.3 * random.pareto(1.3, shape),
    "two modes": lambda random, shape: np.where(random.random(shape) < 0.5, 0.3, 1.7),
}


@dataclass(frozen=True)
class Server:
    """What a run is like."""

    requests: int = 150  # Answered in a run
    steps: int = 3  # Of a request, each of a plugin of its own; 3 gives the plugins and times of recorded logs
    tail: str = "light"  # How much a step's time varies; one of `_TAILS`
    drift: float = 0.0  # Logarithm of the slowdown of every run from its beginning to its end
    memory: float = 0.6  # Share of a request's deviation in speed that the next one keeps; 1 is a random walk
    # bursts, burst_length: Share of runs that are faster for a while, and the share of the run that this lasts.
    bursts: float = 0.3
    burst_length: float = 0.1
    vary: float = 0.0  # By which share the number of requests may leave `requests`, from run to run
    hits: tuple[float, float] = (0.0, 0.0)  # Least and largest share of a run's requests that need no last step
    slow: float = 1.0  # By what a phase takes longer
    everything: bool = True  # Whether all steps are slower in the phase, or the last one alone

    def run(self, seed: int, phase: tuple[float, float] = (0, 0)) -> EventTrace:
        """Return the log of a run, slow between two shares of its requests."""
        random = np.random.default_rng(seed)
        own_count = np.random.default_rng([seed, 2])
        requests = round(self.requests * (1 + own_count.uniform(-self.vary, self.vary)))
        wandering = list(accumulate(random.normal(0, 0.04, requests), lambda old, new: self.memory * old + new))
        speed = random.choice([0.0, -0.5]) + random.normal(0, 0.03) + wandering
        speed += self.drift * np.linspace(0, 1, requests)
        if random.random() < self.bursts:
            start = int(random.integers(0, int((1 - self.burst_length) * requests)))
            speed[start : start + int(self.burst_length * requests)] -= 0.42
        own = self.steps == len(_STEPS)
        usual = np.array(list(_STEPS.values())) if own else np.full(self.steps, _REQUEST_MS / self.steps)
        names = list(_STEPS) if own else [f"part{step}: done" for step in range(self.steps)]
        times = usual * np.exp(speed)[:, None] * _TAILS[self.tail](random, (requests, self.steps))
        first, end = (round(share * requests) for share in phase)
        times[first:end, slice(None) if self.everything else -1] *= self.slow
        accepted = random.choice([0.002, 0.003], (requests, 1))
        replied = 0.001 * random.lognormal(2, 1, (requests, 1))
        events = np.tile(np.arange(1, self.steps + 3, dtype=np.int32), (requests, 1))
        needed = np.ones(events.shape, dtype=bool)
        needed[:, self.steps] = own_count.random(requests) >= own_count.uniform(*self.hits)
        types = ("server: start", "net: accept connection", *names, "net: reply sent")
        return EventTrace(
            np.round(1e6 * np.cumsum([0, *np.hstack((accepted, times, replied))[needed]])).astype(np.int64),
            np.insert(events[needed], 0, 0),
            tuple(EventType.from_name(name) for name in types),
            "ns",
            f"run-{seed}",
        )


SERVERS: Mapping[str, Server] = {
    "as recorded": Server(),
    "log-normal times, σ = 0.5": Server(tail="log-normal"),
    "Pareto times, α = 1.3": Server(tail="Pareto"),
    "times of two modes": Server(tail="two modes"),
    "every run drifts to twice the time": Server(drift=0.7),
    "every run is faster for a tenth": Server(bursts=1.0),
    "three runs of ten are faster for a third": Server(burst_length=1 / 3),
    "speed is a random walk": Server(memory=1.0),
    "one step": Server(steps=1),
    "30 steps": Server(steps=30),
    "60 requests": Server(requests=60),
    "1,000 requests": Server(requests=1000),
    "210 to 390 requests": Server(requests=300, vary=0.3),
    "a fifth to a half need no query": Server(requests=300, hits=(0.2, 0.5)),
    "both": Server(requests=300, vary=0.3, hits=(0.2, 0.5)),
}
REFERENCES = (3, 10)
PLANTED = (1.0, 1.5, 2.0, 2.7)
"""By how many times a third of a recorded log is made slower; 1 leaves it as it is."""
PHASES: tuple[tuple[str, float | None], ...] = (
    ("as recorded", 1.5),
    ("as recorded", 2.0),
    ("as recorded", None),
    ("log-normal times, σ = 0.5", 2.0),
    ("log-normal times, σ = 0.5", None),
    ("three runs of ten are faster for a third", 2.0),
    ("three runs of ten are faster for a third", None),
    *(
        (name, slow)
        for name in ("210 to 390 requests", "a fifth to a half need no query", "both")
        for slow in (1.5, 2.0, 2.7)
    ),
)
"""Servers and by how many times a phase is slower; None for the smallest change that a clean run states."""


def found(server: Server, references: int, seed: int, *, as_stated: bool = False) -> bool:
    """Return whether a run is said to have a slow phase; it lasts from a fifth to four fifths, anywhere.

    It is as slow as the server says, or by as much as the run would have stated as the smallest change without it.
    """
    random = np.random.default_rng([seed, 1])
    length = random.uniform(0.2, 0.8)
    start = random.uniform(0, 1 - length)
    good = [replace(server, slow=1.0).run(100 * seed + number) for number in range(1, references + 1)]
    if as_stated:
        stated = SlowPhase().visible(compare(good, server.run(100 * seed)))
        server = replace(server, slow=1 + (stated[0 if server.everything else 1].size or 0.0))
    return SlowPhase().find(compare(good, server.run(100 * seed, (start, start + length)))) is not None


def rate(server: Server, references: int, logs: int, *, as_stated: bool = False) -> float:
    """Return the share of logs that are said to have a slow phase."""
    return sum(found(server, references, seed, as_stated=as_stated) for seed in range(logs)) / logs


def _shown(share: float, logs: int) -> str:
    return f"{share:.3f} ± {(share * (1 - share) / logs) ** 0.5:.3f}"


def alarms(logs: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of false alarms."""
    for name, server in SERVERS.items():
        yield name, *(_shown(rate(server, count, logs), logs) for count in REFERENCES)


def power(logs: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of slow phases that are found."""
    for name, slow in PHASES:
        for what, everything in (("all of a request", True), ("the query alone", False)):
            server = replace(SERVERS[name], slow=slow or 1.0, everything=everything)
            rates = [rate(server, count, logs, as_stated=slow is None) for count in REFERENCES]
            times = f"{slow:g} times" if slow else "as stated"
            yield f"{name}: {what}, {times}", *(_shown(share, logs) for share in rates)


def slowed(trace: EventTrace, between: tuple[float, float], times: float) -> EventTrace:
    """Return a trace whose time passes so many times slower between two moments, in ticks since its first event."""
    edges = np.array([0.0, *between, trace.duration])
    longer = np.cumsum([0.0, *np.diff(edges) * (1.0, times, 1.0)])
    stamps = np.round(np.interp(trace.since_start, edges, longer)).astype(np.int64)
    return EventTrace(stamps, trace.events, trace.types, trace.unit, trace.name, trace.reading)


def recorded_table(folder: Path) -> list[str]:
    """Return how many good logs of `record.py` are said to have a slow phase, and of those in which one is planted.

    It is a third of what the first stream plays, anywhere.
    """
    said: dict[tuple[str, int], list[int]] = {}
    random = np.random.default_rng(0)
    for runs in good_runs(folder):
        pipeline = Path(runs[0].name).name.split("-")[0]
        for references in REFERENCES:
            counts = said.setdefault((pipeline, references), [0] * (1 + len(PLANTED)))
            for number, trace in enumerate(runs):
                others = [runs[place] for place in random.permutation(len(runs)) if place != number][:references]
                comparison = compare(others, trace)
                moments = comparison.moments(comparison.streams[0])
                first = int(random.integers(len(moments) * 2 // 3))
                between = float(moments[first]), float(moments[first + len(moments) // 3])
                counts[0] += 1
                for place, times in enumerate(PLANTED, 1):
                    counts[place] += SlowPhase().find(compare(others, slowed(trace, between, times))) is not None
    heads = right("references", "logs", "as recorded", *(f"{times:g} times" for times in PLANTED[1:]))
    return markdown_table(["pipeline", *heads], [(*group, *counts) for group, counts in said.items()])


def main() -> None:
    """Simulate and print both tables, each row when it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", type=int, default=400, help="simulated logs of each cell (400)")
    parser.add_argument("--traces", type=Path, help="folder of the recorder")
    arguments = parser.parse_args()
    if arguments.traces:
        print("\n".join(recorded_table(arguments.traces)))
        return
    logs = arguments.logs
    heads = right(*(f"{count} references" for count in REFERENCES))
    for head, rows in (("runs with a slow phase", power(logs)), ("good runs", alarms(logs))):
        print("\n".join(markdown_table([head, *heads], [])), flush=True)
        for row in rows:
            print(f"| {' | '.join(row)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
