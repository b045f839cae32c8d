"""The result of a diagnosis: findings of anomalies, the paper's distances and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.diagnosis import describe
from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.common.result import Result
from unperturbed.common.table import Table

if TYPE_CHECKING:
    import polars as pl

Verdict = Literal["clean", "anomalous", "undecided"]

_CARRIERS = 20
CERTAIN_FACTOR = 4.0
"""Multiple of the assumed difference of clean runs from which on a difference from a single reference is an anomaly."""


@dataclass(frozen=True)
class Carrier:
    """An event type that carries an anomaly.

    Attributes
    ----------
    event : EventType
        The type.
    share : float
        Of what all event types carry together, from 0 to 1.
    change : float
        Occurrences more (+) or fewer (−) than in the nearest reference; of a delay, ticks.
    """

    event: EventType
    share: float
    change: float


class _Measured:
    """Numbers in a unit: "ticks …" for times, "of …" for shares."""

    unit: str

    @property
    def is_time(self) -> bool:
        """Whether its numbers are times."""
        return self.unit.startswith("ticks")

    @property
    def amount_of(self) -> str:
        """The measured quantity, written behind the number: "late", "of a stream's events"."""
        return self.unit.removeprefix("ticks").strip()


@dataclass(frozen=True)
class Finding(_Measured):
    """An anomaly.

    Attributes
    ----------
    kind : str
        Name of the kind of anomaly.
    summary : str
        What, how strong, in one line.
    strength : mapping of str to float
        Physical numbers, as {"lost_events": 22, "lost_share": 0.29}; times in ticks of the diagnosis' unit.
    since : int or None
        From when on: ticks since the trace's first event.
    plugin, element : str
        Where most of it is; empty where this is not known.
    carriers : tuple of Carrier
        Event types by their share, the largest first.
    measured, threshold : float
        The measurement, and the value from which on it is an anomaly; both in `unit`.
    unit : str
        "ticks …" for times; "of …" for shares.
    floor : float or None
        The noise floor: the maximum of the same measurement between references. None with one reference.
    confidence : {"full", "weaker"}
        "weaker" with one reference: how much clean runs vary is not known then.
    certain_from : float, default 0
        From when on `measured` makes the trace anomalous by itself; 0 for the threshold. More with one reference:
        below, the trace is undecided.
    carries_time : bool, default False
        Whether the change of each carrier is a time, though `measured` is none.
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
    carries_time: bool = False

    @property
    def where(self) -> str:
        """Plugin and element in words: "plugin basesink, element speaker"."""
        named = {"plugin": self.plugin, "element": self.element}
        return ", ".join(f"{what} {name}" for what, name in named.items() if name)

    @property
    def decides(self) -> bool:
        """Whether this alone makes a trace anomalous; with one reference only large differences do."""
        return self.measured >= max(self.threshold, self.certain_from)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data, ready for JSON."""
        values = {key: value for key, value in vars(self).items() if key != "carriers"}
        listed = []
        for carrier in self.carriers:
            event = {"event": carrier.event.name, "plugin": carrier.event.plugin, "element": carrier.event.element}
            listed.append({**event, "share": carrier.share, "change": carrier.change})
        return values | {"decides": self.decides, "strength": dict(self.strength), "carriers": listed}


@dataclass(frozen=True)
class Visible(_Measured):
    """The smallest change of a kind that would have been found.

    Attributes
    ----------
    kind : str
        Name of the kind of anomaly.
    change : str
        What changes: "share of a stream's events that is lost".
    size : float or None
        The smallest change; None where this kind could not be looked for.
    unit : str
        As of `Finding.unit`: "ticks …" for times, "of …" for shares. Empty where `size` is None.
    floor : float or None
        What the size follows from, in `unit`: the largest difference between references. None with one reference.
    least : float or None
        The same: the smallest change that counts, however little references differ.
    reason : str
        What else it follows from; where `size` is None, why nothing can be told.
    """

    kind: str
    change: str
    size: float | None
    unit: str
    floor: float | None
    least: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class PaperDistance:
    """One of the paper's distances from the first reference, of the trace and of the other references.

    Attributes
    ----------
    name : str
        "dropping", "occurrence", "temporal" or "mannila".
    value : float
        Distance of the trace.
    normalised : float
        d/(1 + d), section III-D.
    by_plugin : mapping of str to float
        Distance of each plugin's events.
    floor : float or None
        The maximum of the other references. None with one reference.
    floor_by_plugin : mapping of str to float
        The same for each plugin.
    """

    name: str
    value: float
    normalised: float
    by_plugin: Mapping[str, float]
    floor: float | None = None
    floor_by_plugin: Mapping[str, float] = field(default_factory=dict)

    @property
    def exceeds(self) -> bool:
        """Whether it is more than between references; with one, more than 0, as in the paper."""
        return self.value > (self.floor or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the distance as plain data, ready for JSON."""
        by_plugin, floors = dict(self.by_plugin), dict(self.floor_by_plugin)
        return vars(self) | {"by_plugin": by_plugin, "floor_by_plugin": floors, "exceeds": self.exceeds}


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """The diagnosis of a trace.

    Attributes
    ----------
    verdict : {"clean", "anomalous", "undecided"}
        Whether the trace differs from its references by more than they differ from each other.
    findings : tuple of Finding
        In the order of their kinds.
    notes : tuple of str
        Why nothing could be decided, and what else should be known.
    references : tuple of str
        Names of the references.
    trace : str
        Name of the trace.
    unit : str
        Of ticks.
    kinds : tuple of str
        Kinds that were looked for.
    visible : tuple of Visible
        For kinds that were not found: the smallest change that would have been, or why nothing can be told.
    distances : tuple of PaperDistance
        Those that were requested.
    comparison : Comparison
        The numbers behind the findings: counts, and each stream's times in the references (`usual`) and in the trace
        (`moments`), and the delays between them (`delays`).
    """

    _page: ClassVar[str] = "unperturbed.analysis.diagnosis.page:render_diagnosis"

    verdict: Verdict
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    references: tuple[str, ...]
    trace: str
    unit: str
    kinds: tuple[str, ...]
    distances: tuple[PaperDistance, ...]
    comparison: Comparison = field(compare=False)
    visible: tuple[Visible, ...] = ()

    def headline(self) -> str:
        """Return the verdict and the kinds that were found, in one line."""
        return describe.headline(self)

    def tables(self) -> list[Table]:
        """Return the findings, event types that carry each, the paper's distances, and what could have been seen."""
        carried = [describe.carriers_table(one, self.unit) for one in self.findings if one.carriers]
        findings = [describe.findings_table(self)] if self.findings else []
        distances = [describe.distances_table(self.distances)] if self.distances else []
        return [*findings, *carried, *distances, *([describe.visible_table(self)] if self.visible else [])]

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each finding; none for a clean trace."""
        import polars as pl  # noqa: PLC0415  slow to load

        place = ("kind", "summary", "since", "plugin", "element")
        measured = ("measured", "threshold", "unit", "floor", "confidence")
        numbers = dict.fromkeys(("measured", "threshold", "floor"), pl.Float64)
        columns = {**dict.fromkeys(place + measured, pl.String), **numbers, "since": pl.Int64, "decides": pl.Boolean}
        return pl.DataFrame([[getattr(one, name) for name in columns] for one in self.findings], columns, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis without the comparison as plain data, ready for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "comparison"}
        return values | {name: [one.to_dict() for one in values[name]] for name in ("findings", "distances", "visible")}


def carriers_of(comparison: Comparison, weights: ArrayLike, changes: ArrayLike | None = None) -> tuple[Carrier, ...]:
    """Return the event types that carry most, by their share.

    Parameters
    ----------
    comparison : Comparison
        The trace and its references.
    weights : array_like of float, shape (types,)
        How much each type carries, 0 or more.
    changes : array_like of float, shape (types,), optional
        `Carrier.change` of each; by default the occurrences beyond what the references allow.

    Returns
    -------
    tuple of Carrier
        At most 20, the largest share first.
    """
    amounts = np.asarray(weights, dtype=np.float64)
    changed = np.asarray(comparison.excess if changes is None else changes, dtype=np.float64)
    total = amounts.sum()
    order: Sequence[int] = np.argsort(-amounts, kind="stable")[:_CARRIERS].tolist()
    return tuple(
        Carrier(comparison.types[number], float(amounts[number] / total), float(changed[number]))
        for number in order
        if amounts[number] > 0
    )
