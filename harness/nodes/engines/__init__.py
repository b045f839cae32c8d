"""What starts the parts of a campaign on nodes: one class an engine, each in a module of its own."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from unperturbed.common.extensions import classes_in
from unperturbed.harness.nodes.shares import NodePart
from unperturbed.harness.spec.sections.nodes import ENGINE_GROUP, Nodes


@dataclass(frozen=True)
class Job:
    """What executes a part, or waits for a node."""

    id: str  # Its number: of Slurm's job, or of a process
    state: str  # In the engine's words, such as PENDING or RUNNING
    why: str = ""  # Why it waits; empty where it does not
    lost: bool = False  # Whether it waits for a node that is not in service


class Engine(ABC):
    """Starts the parts of one campaign and knows which of them are being executed.

    Whether a run is done comes from the part's manifest alone.

    Parameters
    ----------
    nodes : Nodes
        The key of the spec.
    folder : Path
        The campaign's folder.
    identity : str
        What tells the campaign from all others.
    """

    name: ClassVar[str]
    """The spec's word for it."""
    at_once: ClassVar[int | None] = None
    """How many parts it executes beside each other; None for all."""
    pause: ClassVar[float] = 0.2
    """Seconds between two looks at it."""

    def __init__(self, nodes: Nodes, folder: Path, identity: str) -> None:
        self.nodes, self.folder, self.identity = nodes, folder, identity

    @abstractmethod
    def check(self) -> None:
        """Raise HostError where it is not there."""

    @abstractmethod
    def submit(self, part: NodePart, *, avoid: Sequence[str]) -> str:
        """Start a part, or put it into a queue.

        Parameters
        ----------
        part : NodePart
            A part with an owner is executed on that node alone.
        avoid : sequence of str
            Nodes on which it must not be executed.

        Returns
        -------
        str
            Why it cannot be; empty where it was submitted.
        """

    @abstractmethod
    def jobs(self, parts: Sequence[NodePart]) -> Mapping[int, Job] | None:
        """Return what was submitted and is not over, by the part's number; None where that is unknown now."""

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the parts whose last job was taken from them: its node failed, or was needed for another's job.

        Such an end says nothing of the part, which is submitted again however often that happens.
        """
        return frozenset()

    @abstractmethod
    def cancel(self, parts: Sequence[NodePart]) -> int:
        """End what was submitted and is not over; return how many jobs that were."""


def engine_of(nodes: Nodes, folder: Path, identity: str) -> Engine:
    """Return the engine that a spec names."""
    known = classes_in(__name__, Engine, group=ENGINE_GROUP)  # type: ignore[type-abstract]  # found classes derive from it
    return known[nodes.engine](nodes, folder, identity)


def work_command(part: NodePart) -> tuple[str, ...]:
    """Return the command that a node executes."""
    return (sys.executable, "-m", "unperturbed.harness.cli", "work", str(part.folder))
