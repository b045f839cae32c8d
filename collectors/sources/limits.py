"""A simulated processor that counts as few events at once as a real one: passes, and turns of multiplexed events.

The simulator counts all events all the time. From its counts by slice, a few quanta of work, this module computes what
a processor with few counters would have counted.

Events take turns as in the Linux kernel (rotate_ctx in kernel/events/core.c): they form a ring, and the first of them
are counted, as many as there are counters. After each turn, the first event goes to the end of the ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Limits:
    """Counters of the simulated processor."""

    counters: int  # Number of events that are counted at once, beside those of `fixed`
    fixed: tuple[str, ...] = ("PAPI_TOT_INS", "PAPI_TOT_CYC")  # Metrics that have a counter of their own
    turn_ns: int = 4_000_000  # As in Linux: time after which events take turns; a simulated cycle takes 1 ns

    def fits(self, names: Collection[str]) -> bool:
        """Return whether these metrics can be counted all the time; each of them takes one counter."""
        return len(set(names).difference(self.fixed)) <= self.counters


@dataclass(frozen=True)
class Turns:
    """Lengths in slices, the shortest parts of a run that are counted one by one."""

    interval: int
    turn: int


@dataclass(frozen=True)
class Shared:
    """What a metric that shares its counter counted in each interval; all arrays of shape (intervals,)."""

    counts: NDArray[np.int64]
    enabled_ns: NDArray[np.int64]  # How long the interval was, in simulated time
    running_ns: NDArray[np.int64]  # For how much of it the metric had a counter


def divide(names: Sequence[str], limits: Limits, shared: Collection[str]) -> list[list[str]] | None:
    """Divide metrics into passes that fit the counters, by first fit; None if the shared ones do not fit.

    `shared`: Metrics that each pass counts. Fixed metrics are in each pass, too, because they cost no counter.
    """
    everywhere = [name for name in names if name in shared or name in limits.fixed]
    others = [name for name in names if name not in everywhere]
    room = limits.counters - len(set(everywhere).difference(limits.fixed))
    if room < (1 if others else 0):
        return None
    return [[*everywhere, *others[at : at + room]] for at in range(0, len(others), room)] if others else [everywhere]


def simulated_time(counts: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return how long each slice takes, in ns: one a cycle, or one an instruction where no cycles are simulated."""
    return counts["PAPI_TOT_CYC" if "PAPI_TOT_CYC" in counts else "PAPI_TOT_INS"]


def begins(slices: int, turns: Turns) -> NDArray[np.int64]:
    """Return the number of the first slice of each interval; the last interval may be shorter."""
    import numpy as np  # noqa: PLC0415  a self-counting process shall not load it

    return np.arange(0, slices, turns.interval)


def take_turns(
    counts: Mapping[str, NDArray[np.int64]], limits: Limits, turns: Turns, time_ns: NDArray[np.int64]
) -> Iterator[tuple[str, Shared]]:
    """Yield what each metric would have counted in each interval if all took turns on the counters.

    `counts`, `time_ns`: Counts of each metric in all slices, and how long each slice takes, shape (slices,).
    """
    import numpy as np  # noqa: PLC0415

    starts = begins(len(time_ns), turns)
    ring = [name for name in counts if name not in limits.fixed]
    turn = np.arange(len(time_ns)) // turns.turn
    for name, column in counts.items():
        place = ring.index(name) - turn if name in ring else None
        counted = np.ones(len(turn), np.bool_) if place is None else place % len(ring) < limits.counters
        yield (
            name,
            Shared(*(np.add.reduceat(values, starts) for values in (column * counted, time_ns, time_ns * counted))),
        )
