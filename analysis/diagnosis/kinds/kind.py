"""What a kind of anomaly is, and what kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Literal

from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.findings import Finding

__all__ = ["DistanceName", "Kind", "confidence_of", "how_far", "where_of"]

DistanceName = Literal["occurrence", "dropping", "temporal"]


class Kind(ABC):
    """A kind of anomaly.

    Attributes
    ----------
    name : str
        What the user reads.
    distance : {"occurrence", "dropping", "temporal"}
        The paper's distance for it (section III): `--find` goes in the order of these.
    """

    name: ClassVar[str]
    distance: ClassVar[DistanceName]

    @abstractmethod
    def find(self, comparison: Comparison) -> Finding | None:
        """Return what is found; None when the trace is as the references are."""


def how_far(comparison: Comparison) -> float:
    """Return the share of its way that the stream that got furthest played; 0 where there is none."""
    return max(comparison.played.values(), default=0.0)


def where_of(events: Iterable[EventType]) -> tuple[str, str]:
    """Return plugin and element of the first event that has an element, or else of the first."""
    listed = sorted(events, key=lambda event: not event.element)  # stable
    return (listed[0].plugin, listed[0].element) if listed else ("", "")


def confidence_of(comparison: Comparison) -> Literal["full", "weaker"]:
    """Return how much a finding can be relied on: with one reference, how much clean runs vary is not known."""
    return "full" if len(comparison.references) > 1 else "weaker"
