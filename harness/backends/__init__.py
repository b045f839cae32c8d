"""Where the planned runs of a campaign are executed: one class a back end, each in a module of its own.

A campaign hands its back end *parts*. A part is one node's share of the runs, in a folder with a manifest of its own: a
node executes its runs one after another, so that nothing else measures beside them, and whoever waits for it learns
from the manifest alone which runs are done. A campaign on one host is a single part.

Another distribution adds a back end by an entry point of the group `unperturbed.backends`, which names such a class::

    [project.entry-points."unperturbed.backends"]
    mine = "my_package.mine:Mine"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from unperturbed.common.extensions import classes_in
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError

__all__ = ["Backend", "Part", "backends", "execute_part", "execute_parts"]

GROUP = "unperturbed.backends"


class Part(Protocol):
    """One node's share of a campaign's planned runs."""

    @property
    def folder(self) -> Path:
        """The folder that holds the part: its manifest, builds, inputs and runs."""

    def pending(self) -> Iterator[str]:
        """Yield the numbers of the runs to be made, in the order of the plan.

        Each is chosen after the runs before it are over: there may be no time left, or no use.

        Raises
        ------
        RunError
            The campaign's time is over.
        """

    def execute(self, run: str) -> None:
        """Make one run, again when it fails, as often as the spec allows; the manifest records each attempt."""

    def unfinished(self) -> Sequence[str]:
        """Return the runs that the manifest does not call done or failed."""


class Backend(ABC):
    """Executes the parts of a campaign.

    The methods are called in this order, once each: `prepare`, `submit`, `watch`; `cancel` after any of them, if it was
    interrupted or raised an error.
    """

    name: ClassVar[str]
    """What the back end is chosen by."""

    def prepare(self, parts: Sequence[Part]) -> None:  # noqa: B027  not every back end has something to check
        """Make sure that the parts can be executed, before any is: that a scheduler answers, that nodes match.

        Parameters
        ----------
        parts : sequence of Part
            What is going to be submitted.

        Raises
        ------
        HostError
            They cannot.
        """

    @abstractmethod
    def submit(self, parts: Sequence[Part]) -> None:
        """Start the parts, or put them into a queue.

        Parameters
        ----------
        parts : sequence of Part
            One a node. A part belongs to the process of its campaign, which holds the campaign's lock.
        """

    @abstractmethod
    def watch(self) -> None:
        """Wait until nothing that was submitted is executed any more.

        Runs may be unfinished then, when a node was lost: the same campaign submits them again.
        """

    @abstractmethod
    def cancel(self) -> None:
        """End what was submitted and is not over. Finished runs are kept."""


def backends() -> dict[str, type[Backend]]:
    """Return the back ends, by name."""
    return classes_in(__name__, Backend, group=GROUP)  # type: ignore[type-abstract]  # found classes derive from it


def execute_parts(parts: Sequence[Part], backend: str) -> None:
    """Execute the parts of a campaign by the back end of a name; return when all are over.

    Parameters
    ----------
    parts : sequence of Part
        The parts.
    backend : str
        The back end's name.

    Raises
    ------
    SpecError
        There is no back end of that name.
    HostError, RunError
        As the back end and the parts raise them.
    """
    known = backends()
    if backend not in known:
        meant = did_you_mean(backend, known) or f"there are {listing(known)}"
        raise SpecError(f"there is no back end {backend!r}; {meant}")
    engine = known[backend]()
    try:
        engine.prepare(parts)
        engine.submit(parts)
        engine.watch()
    except BaseException:
        engine.cancel()
        raise


def execute_part(part: Part) -> None:
    """Make the runs of one part in this process, one after another."""
    for run in part.pending():
        part.execute(run)
