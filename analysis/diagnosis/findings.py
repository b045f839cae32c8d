"""What a diagnosis says: findings of anomalies, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.events import EventType

__all__ = ["DECIDES_ALONE", "Carrier", "Diagnosis", "Finding", "PaperDistance", "Verdict", "carriers_of"]

Verdict = Literal["clean", "anomalous", "undecided"]

_CARRIERS = 20
DECIDES_ALONE = 4.0
"""Times what clean runs are guessed to differ by, from which on a difference from a single reference is an anomaly."""


@dataclass(frozen=True)
class Carrier:
    """An event type that carries an anomaly.

    Attributes
    ----------
    event : EventType
    share : float
        Of what all event types carry together, from 0 to 1.
    change : float
        Occurrences more (+) or fewer (−) than in the nearest reference; of a delay, ticks.
    """

    event: EventType
    share: float
    change: float


@dataclass(frozen=True)
class Finding:
    """An anomaly.

    Attributes
    ----------
    kind : str
    summary : str
        What, how strong, in one line.
    strength : mapping of str to float
        Physical numbers, as {"lost_events": 22, "lost_share": 0.29}; times in ticks of the diagnosis' unit.
    since : int or None
        From when on: ticks since the trace's first event.
    plugin, element : str
        Where most of it is; empty where it cannot be told.
    carriers : tuple of Carrier
        Event types by their share, the largest first.
    measured, threshold : float
        What the verdict stands on, and from when on it is an anomaly; both in `unit`.
    unit : str
        "ticks …" for times; "of …" for shares.
    floor : float or None
        The most that the same measurement gives between references. None with one reference.
    confidence : {"full", "weaker"}
        "weaker" with one reference: how much clean runs vary is not known then.
    certain_from : float
        From when on `measured` makes the trace anomalous by itself; 0 for the threshold. More with one reference: below, the trace is undecided.
    """

    kind: str
    summary: str
    strength: Mapping[str, float]
    since: int | None
    plugin: str
    element: str
    carriers: tuple[Carrier, ...]
    measured: float
    threshold: float
    unit: str
    floor: float | None
    confidence: Literal["full", "weaker"]
    certain_from: float = 0.0

    @property
    def is_time(self) -> bool:
        """Whether `measured`, `threshold` and `floor` are times."""
        return self.unit.startswith("ticks")

    @property
    def where(self) -> str:
        """Plugin and element in words: "plugin basesink, element speaker"."""
        return ", ".join(f"{what} {name}" for what, name in (("plugin", self.plugin), ("element", self.element)) if name)

    @property
    def amount_of(self) -> str:
        """What is measured, behind the number: "late", "of a stream's events"."""
        return self.unit.removeprefix("ticks").strip()

    @property
    def decides(self) -> bool:
        """Whether this alone makes a trace anomalous; with one reference only what is plain does."""
        return self.measured >= max(self.threshold, self.certain_from)

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        told = {key: value for key, value in vars(self).items() if key != "carriers"}
        listed = [
            {
                "event": one.event.name,
                "plugin": one.event.plugin,
                "element": one.event.element,
                "share": one.share,
                "change": one.change,
            }
            for one in self.carriers
        ]
        return told | {"decides": self.decides, "strength": dict(self.strength), "carriers": listed}


@dataclass(frozen=True)
class PaperDistance:
    """One of the paper's distances from the first reference, beside those of the other references from it.

    Attributes
    ----------
    name : str
    value : float
    normalised : float
        d/(1 + d), section III-D.
    by_plugin : mapping of str to float
    floor : float or None
        The most of another reference. None with one reference.
    floor_by_plugin : mapping of str to float
    """

    name: str
    value: float
    normalised: float
    by_plugin: Mapping[str, float]
    floor: float | None = None
    floor_by_plugin: Mapping[str, float] = field(default_factory=dict)

    @property
    def exceeds(self) -> bool:
        """Whether it is more than between references; with one, more than nothing, as the paper asks."""
        return self.value > (self.floor or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        return {
            **vars(self),
            "by_plugin": dict(self.by_plugin),
            "floor_by_plugin": dict(self.floor_by_plugin),
            "exceeds": self.exceeds,
        }


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a trace.

    Attributes
    ----------
    verdict : {"clean", "anomalous", "undecided"}
    findings : tuple of Finding
        In the order of their kinds.
    notes : tuple of str
        Why nothing could be decided, and what else should be known.
    references : tuple of str
    trace : str
    unit : str
        Of ticks.
    kinds : tuple of str
        Kinds that were looked for.
    distances : tuple of PaperDistance
        Those that were asked for.
    comparison : Comparison
        What this stands on: counts, and each stream's way in the references (`usual`), in the trace (`moments`) and between (`delays`), as
        a picture of both would show them.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    references: tuple[str, ...]
    trace: str
    unit: str
    kinds: tuple[str, ...]
    distances: tuple[PaperDistance, ...]
    comparison: Comparison = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write; all but the comparison."""
        return {
            **{name: value for name, value in vars(self).items() if name != "comparison"},
            "findings": [one.to_json() for one in self.findings],
            "distances": [one.to_json() for one in self.distances],
        }


def carriers_of(comparison: Comparison, weights: ArrayLike, changes: ArrayLike | None = None) -> tuple[Carrier, ...]:
    """Return the event types that carry most, by their share.

    Parameters
    ----------
    comparison : Comparison
    weights : shape (types,)
        How much each type carries, 0 or more.
    changes : shape (types,), optional
        What is told of each; by default occurrences more or fewer than the references allow.
    """
    amounts = np.asarray(weights, dtype=np.float64)
    told = np.asarray(comparison.excess if changes is None else changes, dtype=np.float64)
    total = amounts.sum()
    order: Sequence[int] = np.argsort(-amounts, kind="stable")[:_CARRIERS].tolist()
    return tuple(
        Carrier(comparison.types[number], float(amounts[number] / total), float(told[number]))
        for number in order
        if amounts[number] > 0
    )
