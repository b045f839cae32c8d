"""Kinds of anomaly: their base class and shared functions. Each module of this package defines one or more kinds.

The paper, section II-B, names three: desynchronisation, player crash, slow streaming. Missing event types, lost events
and slow phases are added here. The paper considers any distance above 0 an anomaly, but clean runs of real pipelines
differ too; so a kind measures the physical effect and compares it with the noise between references.

Kinds are classes in this package's modules and in entry points of other distributions, in the group
`unperturbed.anomaly_kinds`. A single call can use further ones: `diagnose(kinds=…)`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import ClassVar, Literal

from unperturbed.analysis.diagnosis.comparison import LogComparison
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.findings import Finding, Visible
from unperturbed.common.extensions import classes_in

_GROUP = "unperturbed.anomaly_kinds"

DistanceName = Literal["occurrence", "dropping", "temporal"]


class Kind(ABC):
    """Kind of anomaly; without arguments, an instance has the usual thresholds.

    Attributes
    ----------
    name : str
        Name that users read.
    distance : {"occurrence", "dropping", "temporal"} or None
        The paper's distance for this kind (section III), by which `--distance` selects kinds.
    rank : int, default 100
        Position in the search, lowest first; `--find` stops at the first kind found.
    needs_regular_events : bool, default True
        Whether the kind can only be found if event types recur in the references.
    counts_may_vary : bool, default False
        Whether the counts of recurring types may differ between references.
    """

    name: ClassVar[str]
    distance: ClassVar[DistanceName | None] = None
    rank: ClassVar[int] = 100
    needs_regular_events: ClassVar[bool] = True
    counts_may_vary: ClassVar[bool] = False

    @abstractmethod
    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the trace's anomaly of this kind; None if the trace does not differ from the references."""

    def cannot_tell(self, comparison: LogComparison) -> str:
        """Return why this kind cannot be found in these logs ("3 or more references …"); "" if it can."""
        del comparison
        return ""

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the smallest changes of this kind that would have been found, each with `least` or `reason`.

        Empty if they are unknown: then a clean verdict does not show what could have been missed. Every built-in kind
        returns at least one change.
        """
        del comparison
        return ()

    @property
    def is_fittable(self) -> bool:
        """Whether `calibrate` can fit this kind, which needs a dataclass with `strictness`, a factor of thresholds."""
        return is_dataclass(self) and any(field.name == "strictness" for field in fields(self))


def anomaly_kinds() -> dict[str, Kind]:
    """Return all kinds by name, with usual thresholds, in order of rank; other distributions may add kinds."""
    classes = classes_in(__name__, Kind, group=_GROUP)  # type: ignore[type-abstract]
    return {name: kind() for name, kind in sorted(classes.items(), key=lambda item: item[1].rank)}


def where_of(events: Iterable[EventType]) -> tuple[str, str]:
    """Return plugin and element of the first event type that has an element, or else of the first event type."""
    listed = sorted(events, key=lambda event: not event.element)  # stable
    return (listed[0].plugin, listed[0].element) if listed else ("", "")


def unnumbered(event: EventType) -> str:
    """Return a type's plugin and name; "#" replaces the numbers of threads and pads, whose order is arbitrary."""
    return re.sub(r"\d+", "#", f"{event.plugin} {event.name}")
