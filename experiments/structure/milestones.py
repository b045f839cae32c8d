"""A run's phases by its milestones, and how well classes of its intervals agree with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure import StructuralSequence, indel_distance
from unperturbed.collectors.data import Trace

Labels: TypeAlias = NDArray[np.int64]

UNKNOWN = -1


@dataclass(frozen=True)
class Program:
    """A program whose phases are known by milestones."""

    name: str  # Also of its spec
    milestones: Mapping[str, str]  # From a software metric to the phase that begins where it counts
    words: tuple[tuple[str, ...], ...]  # Order of the phases in the program's text

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases; their numbers are positions here."""
        return tuple(self.milestones.values())

    def numbers(self, word: Sequence[str]) -> tuple[int, ...]:
        """Return phases as numbers."""
        return tuple(self.phases.index(phase) for phase in word)


PHASES = Program(
    "phases",
    {"chases": "chase", "computations": "compute", "sorts": "sort", "streams": "stream"},
    (("chase", "compute", "sort", "compute", "stream"), ("sort", "chase", "sort", "stream")),
)
BLOCKSORT = Program(
    "blocksort",
    {"blocks": "deal", "buckets": "compare", "ranks": "break ties", "fronts": "move to front", "codes": "code"},
    (("deal", "compare", "break ties", "move to front", "code"),),
)


@dataclass(frozen=True, eq=False)
class Truth:
    """A run's phases by its milestones."""

    # (intervals,): Phase that an interval lies in as a whole; −1 where a milestone falls into it, and before the
    # first one.
    labels: Labels
    begins: Labels  # (k,): Intervals in which a phase begins, in order
    order: Labels  # (k,): The phases that begin there


def truth_of(trace: Trace, program: Program) -> Truth:
    """Return the phases of a run by its milestones; several in one interval have the order of the program's text."""
    counts = np.column_stack([trace[name] for name in program.milestones])
    labels = np.full(len(trace), UNKNOWN, np.int64)
    begins: list[int] = []
    order: list[int] = []
    for interval, row in enumerate(counts):
        phases = np.flatnonzero(row)
        if not len(phases):
            labels[interval] = order[-1] if order else UNKNOWN
            continue
        begins += [interval] * len(phases)
        order += phases.tolist()
    return Truth(labels, np.array(begins, np.int64), np.array(order, np.int64))


@dataclass(frozen=True)
class Scores:
    """How classes agree with milestones."""

    classes: int  # How many were found
    whole: int  # Intervals that lie in one phase as a whole
    # Share of these whose class belongs to their phase. A class belongs to the phase that most of its whole intervals
    # lie in.
    right: float
    rand: float  # Adjusted Rand index of classes and phases, of these intervals
    borders: int  # Milestones
    met: float  # Share of these with a change of class at one end of the interval they fall into
    off: int  # Intervals by which the change nearest to a milestone is off, at most
    spurious: int  # Changes from one phase's class to another's that are not closer than an interval to any milestone
    # phases, edits: Phases that the run went through, and insertions and deletions between these and the phases of
    # its classes.
    phases: int
    edits: int


def score(sequence: StructuralSequence, truth: Truth) -> Scores:
    """Compare classes with milestones, from the first milestone on."""
    classes = sequence.labels.astype(np.int64)
    whole = truth.labels != UNKNOWN
    phase_of = phases_of_classes(classes[whole], truth.labels[whole], int(classes.max()) + 1)
    first = int(truth.begins[0])
    labels = phase_of[classes]
    changes = np.flatnonzero(np.diff(labels)) + 1
    # A phase that begins within interval i is seen from i or from i + 1 on.
    off = [
        int(np.minimum(np.abs(changes - at), np.abs(changes - at - 1)).min(initial=len(labels)))
        for at in truth.begins[1:]
    ]
    nearest = [
        int(np.minimum(np.abs(at - truth.begins), np.abs(at - truth.begins - 1)).min())
        for at in changes
        if at > first + 1
    ]
    order = [int(phase) for phase, _ in groupby(truth.order.tolist())]
    return Scores(
        classes=len(sequence.classes),
        whole=int(whole.sum()),
        right=float(np.mean(labels[whole] == truth.labels[whole])),
        rand=adjusted_rand_index(classes[whole], truth.labels[whole]),
        borders=len(off),
        met=float(np.mean(np.array(off) == 0)),
        off=max(off),
        spurious=sum(distance > 0 for distance in nearest),
        phases=len(order),
        edits=indel_distance([int(phase) for phase, _ in groupby(labels[first + 1 :].tolist())], order),
    )


def phases_of_classes(classes: Labels, phases: Labels, count: int) -> Labels:
    """Return the phase of each class, and last of outliers: shape (count,)."""
    table = np.zeros((count, int(phases.max()) + 1), np.int64)
    np.add.at(table, (classes, phases), 1)
    belongs: Labels = table.argmax(axis=1)
    return belongs


def adjusted_rand_index(partition: Labels, other: Labels) -> float:
    """Return the similarity of two partitions: 1 for the same one, 0 as by chance (Hubert and Arabie, 1985)."""
    table = np.zeros((int(partition.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (partition, other), 1)
    together, rows, columns = (
        float((counts * (counts - 1) / 2).sum()) for counts in (table, table.sum(axis=1), table.sum(axis=0))
    )
    expected = rows * columns / (len(partition) * (len(partition) - 1) / 2)
    most = (rows + columns) / 2
    return (together - expected) / (most - expected) if most > expected else 1.0
