"""Thresholds fitted from labelled traces.

The paper leaves thresholds open ("we will surely gain to adapt the threshold value", section V). Here each kind that measures has one number to
fit, its strictness, by which its threshold is multiplied: no clean trace may be called anomalous, and as many as can be of its own.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unperturbed.analysis.diagnosis.comparable import compared
from unperturbed.analysis.diagnosis.events import EventTrace
from unperturbed.analysis.diagnosis.kinds import KINDS, Desynchronisation, Kind, LostEvents, SlowStreaming
from unperturbed.analysis.diagnosis.reading import read_events
from unperturbed.errors import DataError

__all__ = ["Fitted", "LabelledTrace", "calibrate", "read_labelled", "with_strictness"]

LABELS = "labels.csv"
_REFERENCE, _CLEAN = "reference", "clean"
_MARGIN = 1.2
"""By how much at least a threshold stays above what clean traces give."""

Fittable = LostEvents | Desynchronisation | SlowStreaming


@dataclass(frozen=True, eq=False)
class LabelledTrace:
    """A trace that is known to be clean or not.

    Attributes
    ----------
    references : sequence of EventTrace
        Of the same pipeline.
    trace : EventTrace
    label : str
        "clean", or the name of the kind of anomaly.
    """

    references: Sequence[EventTrace]
    trace: EventTrace
    label: str


@dataclass(frozen=True)
class Fitted:
    """What was fitted for a kind.

    Attributes
    ----------
    kind : str
    strictness : float
        1 leaves the threshold as it is.
    clean, own : int
        Labelled traces that are clean, and that have this anomaly.
    false_alarms, false_alarms_before : int
        Clean traces that are called so, with the fit and without.
    found, found_before : int
        Traces with this anomaly that are called so.
    """

    kind: str
    strictness: float
    clean: int
    own: int
    false_alarms: int
    false_alarms_before: int
    found: int
    found_before: int


def calibrate(labelled: Iterable[LabelledTrace], kinds: Mapping[str, Kind] = KINDS) -> tuple[Fitted, ...]:
    """Fit each kind's strictness.

    Parameters
    ----------
    labelled : iterable of LabelledTrace
        Gone through once.
    kinds : mapping of str to Kind
        By name. A crash has nothing to fit.

    Returns
    -------
    tuple of Fitted
        The strictness lies in the geometric middle between the clean trace that comes nearest to an anomaly and the least anomaly beyond
        all clean ones, and at least a fifth above that clean trace. Where no trace has the kind's label, it only ever becomes stricter.

    Raises
    ------
    DataError
        No clean trace; an unknown label; traces that do not fit together.
    """
    fittable = {name: replace(kind, strictness=1e-9) for name, kind in kinds.items() if isinstance(kind, Fittable)}
    clean: dict[str, list[float]] = {name: [] for name in fittable}
    own: dict[str, list[float]] = {name: [] for name in fittable}
    for one in labelled:
        if one.label != _CLEAN and one.label not in kinds:
            raise DataError(f"{one.trace.name} is labelled {one.label!r}; labels are {', '.join((_REFERENCE, _CLEAN, *kinds))}")
        comparison = compared(one.references, one.trace)
        for name, kind in fittable.items():
            if one.label in (_CLEAN, name):
                found = kind.find(comparison)
                reached = found.measured / found.threshold * kind.strictness if found is not None else 0.0
                (clean if one.label == _CLEAN else own)[name].append(reached)
    if any(not ratios for ratios in clean.values()):
        raise DataError("no trace is labelled clean: thresholds are fitted so that clean traces stay clean")
    return tuple(_fit(name, clean[name], own[name]) for name in fittable)


def _fit(kind: str, clean: Sequence[float], own: Sequence[float]) -> Fitted:
    """Fit the strictness to how many times the threshold is reached, by clean traces and by those with the anomaly."""
    worst = max(clean)
    beyond = [reached for reached in own if reached > _MARGIN * worst]
    strictness = max(_MARGIN * worst, math.sqrt(worst * min(beyond)) if beyond and worst > 0 else 1.0)
    if not beyond:
        strictness = max(1.0, strictness)

    def exceeding(ratios: Sequence[float], limit: float) -> int:
        return sum(reached > limit for reached in ratios)

    return Fitted(
        kind,
        strictness,
        len(clean),
        len(own),
        exceeding(clean, strictness),
        exceeding(clean, 1.0),
        exceeding(own, strictness),
        exceeding(own, 1.0),
    )


def with_strictness(strictness: Mapping[str, float], kinds: Mapping[str, Kind] = KINDS) -> dict[str, Kind]:
    """Return kinds with other thresholds.

    Parameters
    ----------
    strictness : mapping of str to float
        By the kind's name; kinds that are not in it stay as they are.
    kinds : mapping of str to Kind

    Raises
    ------
    DataError
        A kind that is unknown or has nothing to fit; a strictness that is no positive number.
    """
    changed = dict(kinds)
    for name, value in strictness.items():
        kind = kinds.get(name)
        if not isinstance(kind, Fittable):
            raise DataError(f"there is no strictness of {name!r}; it can be set of {', '.join(_fittable(kinds))}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise DataError(f"the strictness of {name} is {value!r}; a positive number is needed")
        changed[name] = replace(kind, strictness=float(value))
    return changed


def _fittable(kinds: Mapping[str, Kind]) -> list[str]:
    return [name for name, kind in kinds.items() if isinstance(kind, Fittable)]


def read_strictness(path: Path) -> dict[str, float]:
    """Read what `write_strictness` wrote; DataError where it is something else."""
    try:
        told = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: no thresholds can be read: {error}") from error
    if not isinstance(told, dict):
        raise DataError(f"{path}: a mapping of kinds to numbers is needed, as --calibrate writes it")
    return told


def write_strictness(path: Path, fitted: Iterable[Fitted]) -> None:
    """Write what was fitted, for `read_strictness`."""
    path.write_text(json.dumps({one.kind: one.strictness for one in fitted}, indent=2) + "\n")


def read_labelled(folder: Path, **reading: Any) -> Iterator[LabelledTrace]:
    """Read the labelled traces of a folder, one after the other.

    Parameters
    ----------
    folder : Path
        Holds labels.csv with the columns log (relative to the folder), group and label. Traces of a group are compared with the group's
        references; labels are "reference", "clean" and names of kinds.
    **reading
        Arguments of `read_events`.

    Raises
    ------
    DataError
        No such file, a column that it lacks, a group without references; what `read_events` raises.
    """
    table = folder / LABELS
    if not table.is_file():
        raise DataError(f"{table} is needed, with the columns log, group and label")
    with table.open(newline="") as lines:
        rows = csv.DictReader(lines)
        if lacking := {"log", "group", "label"} - set(rows.fieldnames or ()):
            raise DataError(f"{table} has no column {', '.join(sorted(lacking))}")
        groups: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(row["group"], []).append(row)
    for group, members in groups.items():
        references = [read_events(folder / row["log"], **reading) for row in members if row["label"] == _REFERENCE]
        if not references:
            raise DataError(f"{table}: the group {group!r} has no reference")
        for row in members:
            if row["label"] != _REFERENCE:
                yield LabelledTrace(references, read_events(folder / row["log"], **reading), row["label"])
