"""Kinds of anomaly: what a kind is, and what kinds share. Each module here has one or more of them.

The paper, section II-B, names three: desynchronisation, player crash, slow streaming; missing event types, lost events
and slow phases are added here. It takes any distance above 0 for an anomaly, but clean runs of real pipelines are not
at distance 0 of each other; so a kind measures the physical effect and compares it with the references' own noise.

A kind is a class of a module here, one by an entry point of another distribution in the group
`unperturbed.anomaly_kinds`, or, to be used once, one that is given to `diagnose(kinds=…)`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import ClassVar, Literal

from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.findings import Finding, Visible
from unperturbed.common.extensions import classes_in

_GROUP = "unperturbed.anomaly_kinds"

DistanceName = Literal["occurrence", "dropping", "temporal"]


class Kind(ABC):
    """A kind of anomaly; made without arguments, it has its usual thresholds.

    Attributes
    ----------
    name : str
        What the user reads.
    distance : {"occurrence", "dropping", "temporal"} or None
        The paper's distance for it (section III): `--distance` selects kinds by it.
    rank : int, default 100
        Kinds are searched for in this order: `--find` stops at the first one.
    needs_regular_events : bool, default True
        It cannot be found where no event type recurs in the references.
    counts_may_vary : bool, default False
        Such types need not recur in about the same number in every reference.
    """

    name: ClassVar[str]
    distance: ClassVar[DistanceName | None] = None
    rank: ClassVar[int] = 100
    needs_regular_events: ClassVar[bool] = True
    counts_may_vary: ClassVar[bool] = False

    @abstractmethod
    def find(self, comparison: Comparison) -> Finding | None:
        """Return the anomaly of this kind; None where the trace is as the references are."""

    def cannot_tell(self, comparison: Comparison) -> str:
        """Return why the kind cannot be seen in these logs, as "3 references or more …"; empty where it can."""
        del comparison
        return ""

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return the smallest changes of this kind that would have been found, each with `least` or `reason`.

        Empty where this is not known: a clean verdict then says nothing of this kind, so every built-in kind returns
        one.
        """
        del comparison
        return ()

    @property
    def is_fittable(self) -> bool:
        """Whether `calibrate` can fit it: a dataclass with a field `strictness`, the factor of its threshold."""
        return is_dataclass(self) and any(field.name == "strictness" for field in fields(self))


def anomaly_kinds() -> dict[str, Kind]:
    """Return all kinds with their usual thresholds, by name, in order of rank; other distributions may add to them."""
    classes = classes_in(__name__, Kind, group=_GROUP)  # type: ignore[type-abstract]
    return {name: kind() for name, kind in sorted(classes.items(), key=lambda item: item[1].rank)}


def where_of(events: Iterable[EventType]) -> tuple[str, str]:
    """Return plugin and element of the first event that has an element, or else of the first."""
    listed = sorted(events, key=lambda event: not event.element)  # stable
    return (listed[0].plugin, listed[0].element) if listed else ("", "")


def unnumbered(event: EventType) -> str:
    """Return a type's plugin and name without numbers, which threads and pads get in any order."""
    return re.sub(r"\d+", "#", f"{event.plugin} {event.name}")
