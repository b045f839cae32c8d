"""Thresholds, which the paper leaves open (section V), fitted from labelled traces: each kind's strictness.

Its threshold is multiplied by it. No clean trace may be called anomalous, and as many as can be of the kind's own.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from unperturbed.analysis.diagnosis.events import EventTrace
from unperturbed.analysis.diagnosis.kinds import Kind, anomaly_kinds
from unperturbed.analysis.diagnosis.reading import read_events
from unperturbed.analysis.diagnosis.verdict import checked_comparison
from unperturbed.errors import DataError

LABELS = "labels.csv"
_REFERENCE, _CLEAN = "reference", "clean"
_MARGIN = 1.2
"""A threshold exceeds what clean traces give by this factor at least."""
_LEAST = 1e-9
"""A strictness at which every measurement is reported."""


@dataclass(frozen=True, eq=False)
class LabelledTrace:
    """A trace that is known to be clean or not.

    Attributes
    ----------
    references : sequence of EventTrace
        Of the same pipeline.
    trace : EventTrace
        The trace to judge.
    label : str
        "clean", or the name of the kind of anomaly.
    """

    references: Sequence[EventTrace]
    trace: EventTrace
    label: str


@dataclass(frozen=True)
class FittedStrictness:
    """The fitted threshold of a kind.

    Attributes
    ----------
    kind : str
        Its name.
    strictness : float
        Factor of the kind's threshold; 1 leaves it unchanged.
    clean, own : int
        Number of labelled traces that are clean, and that have this anomaly.
    false_alarms, false_alarms_before : int
        Clean traces in which the kind is found, with the fit and without.
    found, found_before : int
        Traces with this anomaly in which it is found, with the fit and without.
    """

    kind: str
    strictness: float
    clean: int
    own: int
    false_alarms: int
    false_alarms_before: int
    found: int
    found_before: int


def calibrate(
    labelled: Iterable[LabelledTrace], kinds: Mapping[str, Kind] | None = None
) -> tuple[FittedStrictness, ...]:
    """Fit each kind's strictness.

    Parameters
    ----------
    labelled : iterable of LabelledTrace
        Iterated once.
    kinds : mapping of str to Kind, optional
        By name; `anomaly_kinds()` by default. A crash has nothing to fit.

    Returns
    -------
    tuple of FittedStrictness
        The strictness lies in the geometric middle between the clean trace that comes nearest to an anomaly and the
        least anomaly beyond all clean ones, and at least a fifth above that clean trace. Where no trace has the kind's
        label, it only ever becomes stricter.

    Raises
    ------
    DataError
        No clean trace; an unknown label; traces that do not fit together.
    """
    kinds = anomaly_kinds() if kinds is None else kinds
    fittable = {name: _with(kind, _LEAST) for name, kind in kinds.items() if kind.is_fittable}
    clean: dict[str, list[float]] = {name: [] for name in fittable}
    own: dict[str, list[float]] = {name: [] for name in fittable}
    for one in labelled:
        if one.label != _CLEAN and one.label not in kinds:
            raise DataError(
                f"{one.trace.name} is labelled {one.label!r}; use one of {', '.join((_REFERENCE, _CLEAN, *kinds))}"
            )
        comparison = checked_comparison(one.references, one.trace)
        for name, kind in fittable.items():
            if one.label in (_CLEAN, name):
                finding = kind.find(comparison)
                reached = finding.measured / finding.threshold * _LEAST if finding is not None else 0.0
                (clean if one.label == _CLEAN else own)[name].append(reached)
    if any(not ratios for ratios in clean.values()):
        raise DataError(
            "no trace is labelled clean: label at least one, since thresholds are fitted to keep clean traces clean"
        )
    return tuple(_fit(name, clean[name], own[name]) for name in fittable)


def _fit(kind: str, clean: Sequence[float], own: Sequence[float]) -> FittedStrictness:
    """Fit the strictness to how many times the threshold is reached, by clean traces and by those with the anomaly."""
    worst = max(clean)
    beyond = [reached for reached in own if reached > _MARGIN * worst]
    strictness = max(_MARGIN * worst, math.sqrt(worst * min(beyond)) if beyond and worst > 0 else 1.0)
    if not beyond:
        strictness = max(1.0, strictness)

    exceeding = [sum(one > limit for one in ratios) for ratios in (clean, own) for limit in (strictness, 1.0)]
    return FittedStrictness(kind, strictness, len(clean), len(own), *exceeding)


def with_strictness(strictness: Mapping[str, float], kinds: Mapping[str, Kind] | None = None) -> dict[str, Kind]:
    """Return kinds with other thresholds.

    Parameters
    ----------
    strictness : mapping of str to float
        By the kind's name; kinds that are not in it stay as they are.
    kinds : mapping of str to Kind, optional
        By name; `anomaly_kinds()` by default.

    Returns
    -------
    dict of str to Kind
        All kinds, by name.

    Raises
    ------
    DataError
        A kind that is unknown or has nothing to fit; a strictness that is not a positive number.
    """
    kinds = anomaly_kinds() if kinds is None else kinds
    changed = dict(kinds)
    for name, value in strictness.items():
        kind = kinds.get(name)
        if kind is None or not kind.is_fittable:
            fittable = ", ".join(one for one in kinds if kinds[one].is_fittable)
            raise DataError(f"{name!r} has no strictness; kinds that have one are {fittable}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise DataError(f"the strictness of {name} is {value!r}; give a positive number")
        changed[name] = _with(kind, float(value))
    return changed


def _with(kind: Kind, strictness: float) -> Kind:
    changed: Kind = replace(cast(Any, kind), strictness=strictness)
    return changed


def read_strictness(path: Path) -> dict[str, float]:
    """Read the file of `write_strictness`; DataError where it is something else."""
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot read thresholds: {error}") from error
    if not isinstance(written, dict):
        raise DataError(f"{path}: expected a mapping of kinds to numbers, as --calibrate writes it")
    return written


def write_strictness(path: Path, fitted: Iterable[FittedStrictness]) -> None:
    """Write fitted strictnesses to a file for `read_strictness`."""
    path.write_text(json.dumps({one.kind: one.strictness for one in fitted}, indent=2) + "\n")


def read_labelled(folder: Path, **reading: Any) -> Iterator[LabelledTrace]:
    """Read the labelled traces of a folder, one after the other.

    Parameters
    ----------
    folder : Path
        Holds labels.csv with the columns log (relative to the folder), group and label. Traces of a group are compared
        with the group's references; labels are "reference", "clean" and names of kinds.
    **reading : object
        Arguments of `read_events`.

    Yields
    ------
    LabelledTrace
        Every trace that is not a reference.

    Raises
    ------
    DataError
        No such file, a column that it lacks, a group without references; what `read_events` raises.
    """
    table = folder / LABELS
    if not table.is_file():
        raise DataError(f"{table} is missing; write it with the columns log, group and label")
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
