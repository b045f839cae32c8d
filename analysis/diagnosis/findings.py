"""Result of a diagnosis: findings of anomalies, the paper's distances and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.diagnosis import finding_text
from unperturbed.analysis.diagnosis.comparison import LogComparison
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.common.result import Result
from unperturbed.common.table import Table

if TYPE_CHECKING:
    import polars as pl

Verdict = Literal["clean", "anomalous", "undecided"]

_CARRIERS = 20
CERTAIN_FACTOR = 4.0
"""With one reference, a difference is certain from this multiple of the difference assumed between clean runs."""


@dataclass(frozen=True)
class Carrier:
    """Event type that contributes to an anomaly.

    Attributes
    ----------
    event : EventType
        The type.
    share : float
        Its share of the contributions of all event types, from 0 to 1.
    change : float
        Occurrences more (+) or fewer (−) than in the nearest reference; for delays, added or saved ticks.
    """

    event: EventType
    share: float
    change: float


class _Measured:
    """Base of results with a unit: "ticks …" for times, "of …" for shares."""

    unit: str

    @property
    def is_time(self) -> bool:
        """Whether the numbers are times."""
        return self.unit.startswith("ticks")

    @property
    def amount_of(self) -> str:
        """Words that follow the number in a text: "late", "of a stream's events"."""
        return self.unit.removeprefix("ticks").strip()


@dataclass(frozen=True)
class Finding(_Measured):
    """Anomaly found in a trace.

    Attributes
    ----------
    kind : str
        Name of the kind of anomaly.
    summary : str
        One line: what is wrong, and by how much.
    strength : mapping of str to float
        Physical quantities, such as {"lost_events": 22, "lost_share": 0.29}; times in ticks of the diagnosis' unit.
    since : int or None
        Start of the anomaly, in ticks since the trace's first event; None if unknown.
    plugin, element : str
        Where most of the anomaly is; empty if unknown.
    carriers : tuple of Carrier
        Event types that contribute, the largest share first.
    measured, threshold : float
        The measurement, and the value from which it is an anomaly; both in `unit`.
    unit : str
        "ticks …" for times; "of …" for shares.
    floor : float or None
        Noise floor: the maximum of the same measurement between references. None with one reference.
    confidence : {"full", "weaker"}
        "weaker" with one reference, which does not show how much clean runs differ.
    certain_from : float, default 0
        Value from which `measured` makes the trace anomalous by itself; 0 means the threshold. It exceeds the threshold
        with one reference: between the two, the trace is undecided.
    carries_time : bool, default False
        Whether each carrier's change is a time although `measured` is not.
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
        """Plugin and element as text: "plugin basesink, element speaker"."""
        named = {"plugin": self.plugin, "element": self.element}
        return ", ".join(f"{what} {name}" for what, name in named.items() if name)

    @property
    def decides(self) -> bool:
        """Whether this finding alone makes the trace anomalous; with one reference, only large differences do."""
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
    """Smallest change that would have been found, for one kind of anomaly.

    Attributes
    ----------
    kind : str
        Name of the kind of anomaly.
    change : str
        The change: "share of a stream's events that is lost".
    size : float or None
        The smallest change; None if this kind could not be searched for.
    unit : str
        "ticks …" for times, "of …" for shares, as in `Finding.unit`. Empty if `size` is None.
    floor : float or None
        The largest difference between references, in `unit`; `size` depends on it. None with one reference.
    least : float or None
        The smallest change that counts, in `unit`, however little references differ.
    reason : str
        What else `size` depends on; if `size` is None, why this kind could not be searched for.
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
    """One of the paper's distances, from the first reference to the trace and to each of the other references.

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
        The maximum over the other references. None with one reference.
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
        """Whether the trace's distance exceeds the other references' or, with one reference, 0, as in the paper."""
        return self.value > (self.floor or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the distance as plain data, ready for JSON."""
        by_plugin, floors = dict(self.by_plugin), dict(self.floor_by_plugin)
        return vars(self) | {"by_plugin": by_plugin, "floor_by_plugin": floors, "exceeds": self.exceeds}


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """Diagnosis of a trace: verdict, findings and what they are based on.

    Attributes
    ----------
    verdict : {"clean", "anomalous", "undecided"}
        Whether the trace differs from its references by more than they differ from each other.
    findings : tuple of Finding
        The anomalies, in the order of their kinds.
    notes : tuple of str
        Why the trace is undecided, and other facts that the user should know.
    references : tuple of str
        Names of the references.
    trace : str
        Name of the trace.
    unit : str
        Unit of a tick.
    kinds : tuple of str
        Kinds that were searched for.
    visible : tuple of Visible
        For kinds that were not found: the smallest change that would have been found, or why none can be stated.
    distances : tuple of PaperDistance
        The requested distances.
    comparison : LogComparison
        The numbers behind the findings: counts, each stream's times in the references (`usual`) and in the trace
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
    comparison: LogComparison = field(compare=False)
    visible: tuple[Visible, ...] = ()

    def headline(self) -> str:
        """Return the verdict and the kinds that were found, in one line."""
        return finding_text.headline(self)

    def tables(self) -> list[Table]:
        """Return tables of findings, their event types, the paper's distances, and the smallest detectable changes."""
        carried = [finding_text.carriers_table(finding, self.unit) for finding in self.findings if finding.carriers]
        findings = [finding_text.findings_table(self)] if self.findings else []
        distances = [finding_text.distances_table(self.distances)] if self.distances else []
        return [*findings, *carried, *distances, *([finding_text.visible_table(self)] if self.visible else [])]

    def to_frame(self) -> pl.DataFrame:
        """Return a data frame with one row for each finding; it is empty for a clean trace."""
        import polars as pl  # noqa: PLC0415  slow to load

        place = ("kind", "summary", "since", "plugin", "element")
        measured = ("measured", "threshold", "unit", "floor", "confidence")
        numbers = dict.fromkeys(("measured", "threshold", "floor"), pl.Float64)
        columns = {**dict.fromkeys(place + measured, pl.String), **numbers, "since": pl.Int64, "decides": pl.Boolean}
        return pl.DataFrame(
            [[getattr(finding, name) for name in columns] for finding in self.findings], columns, orient="row"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis without the comparison as plain data, ready for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "comparison"}
        return values | {
            name: [entry.to_dict() for entry in values[name]] for name in ("findings", "distances", "visible")
        }


def carriers_of(comparison: LogComparison, weights: ArrayLike, changes: ArrayLike | None = None) -> tuple[Carrier, ...]:
    """Return the event types that contribute most to an anomaly, with their shares.

    Parameters
    ----------
    comparison : LogComparison
        The trace and its references.
    weights : array_like of float, shape (types,)
        Each type's contribution, 0 or more.
    changes : array_like of float, shape (types,), optional
        `Carrier.change` of each type; by default the occurrences beyond what the references allow.

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
