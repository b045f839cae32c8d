"""Fit of each kind's strictness, a factor of its threshold, to labelled traces; the paper (section V) leaves it open.

No clean trace may be called anomalous, and as many traces with the kind's own label as possible should be.
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
"""Minimum ratio of a threshold to the largest measurement of clean traces."""
_LEAST = 1e-9
"""Strictness at which every measurement is reported."""


@dataclass(frozen=True, eq=False)
class LabelledTrace:
    """Trace that is known to be clean or to have a certain anomaly.

    Attributes
    ----------
    references : sequence of EventTrace
        Good runs of the same pipeline.
    trace : EventTrace
        The trace to diagnose.
    label : str
        "clean", or the name of the trace's kind of anomaly.
    """

    references: Sequence[EventTrace]
    trace: EventTrace
    label: str


@dataclass(frozen=True)
class FittedStrictness:
    """Fitted strictness of one kind of anomaly.

    Attributes
    ----------
    kind : str
        Name of the kind.
    strictness : float
        Factor of the kind's threshold; 1 leaves it unchanged.
    clean, own : int
        Numbers of labelled traces that are clean, and that have this anomaly.
    false_alarms, false_alarms_before : int
        Clean traces in which the kind is found, with and without the fit.
    found, found_before : int
        Traces with this anomaly in which it is found, with and without the fit.
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
    """Fit each kind's strictness to labelled traces.

    Parameters
    ----------
    labelled : iterable of LabelledTrace
        Labelled traces; iterated once.
    kinds : mapping of str to Kind, optional
        Kinds by name; `anomaly_kinds()` by default. A crash has no threshold to fit.

    Returns
    -------
    tuple of FittedStrictness
        Each strictness is the geometric mean of the largest measurement of a clean trace and the smallest measurement
        of an anomaly beyond all clean traces, and exceeds that clean trace by at least a fifth. Without a trace that
        has the kind's label, the kind can only become stricter.

    Raises
    ------
    DataError
        No clean trace; an unknown label; traces that are not comparable.
    """
    kinds = anomaly_kinds() if kinds is None else kinds
    fittable = {name: _with(kind, _LEAST) for name, kind in kinds.items() if kind.is_fittable}
    clean: dict[str, list[float]] = {name: [] for name in fittable}
    own: dict[str, list[float]] = {name: [] for name in fittable}
    for example in labelled:
        if example.label != _CLEAN and example.label not in kinds:
            raise DataError(
                f"{example.trace.name} has the unknown label {example.label!r}: use one of "
                f"{', '.join((_REFERENCE, _CLEAN, *kinds))}"
            )
        comparison = checked_comparison(example.references, example.trace)
        for name, kind in fittable.items():
            if example.label in (_CLEAN, name):
                finding = kind.find(comparison)
                reached = finding.measured / finding.threshold * _LEAST if finding is not None else 0.0
                (clean if example.label == _CLEAN else own)[name].append(reached)
    if any(not ratios for ratios in clean.values()):
        raise DataError(
            f"no trace has the label `{_CLEAN}`: label at least one trace `{_CLEAN}`, because thresholds are fitted so "
            "that clean traces raise no false alarm"
        )
    return tuple(_fit(name, clean[name], own[name]) for name in fittable)


def _fit(kind: str, clean: Sequence[float], own: Sequence[float]) -> FittedStrictness:
    """Fit the strictness to measurements, in units of the threshold, of clean traces and of traces with the anomaly."""
    worst = max(clean)
    beyond = [reached for reached in own if reached > _MARGIN * worst]
    strictness = max(_MARGIN * worst, math.sqrt(worst * min(beyond)) if beyond and worst > 0 else 1.0)
    if not beyond:
        strictness = max(1.0, strictness)

    exceeding = [sum(ratio > limit for ratio in ratios) for ratios in (clean, own) for limit in (strictness, 1.0)]
    return FittedStrictness(kind, strictness, len(clean), len(own), *exceeding)


def with_strictness(strictness: Mapping[str, float], kinds: Mapping[str, Kind] | None = None) -> dict[str, Kind]:
    """Return kinds with changed thresholds.

    Parameters
    ----------
    strictness : mapping of str to float
        Factors by name of kind; other kinds stay unchanged.
    kinds : mapping of str to Kind, optional
        Kinds by name; `anomaly_kinds()` by default.

    Returns
    -------
    dict of str to Kind
        All kinds, by name.

    Raises
    ------
    DataError
        A kind that is unknown or has no strictness; a strictness that is not a positive number.
    """
    kinds = anomaly_kinds() if kinds is None else kinds
    changed = dict(kinds)
    for name, value in strictness.items():
        kind = kinds.get(name)
        if kind is None or not kind.is_fittable:
            fittable = ", ".join(kind_name for kind_name in kinds if kinds[kind_name].is_fittable)
            raise DataError(f"{name!r} is not a kind of anomaly whose strictness can be set: use one of {fittable}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise DataError(f"the strictness of {name!r} is {value!r}: use a finite number above 0")
        changed[name] = _with(kind, float(value))
    return changed


def _with(kind: Kind, strictness: float) -> Kind:
    changed: Kind = replace(cast(Any, kind), strictness=strictness)
    return changed


def read_strictness(path: Path) -> dict[str, float]:
    """Read a file that `write_strictness` wrote; raise DataError if it is a different kind of file."""
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot read thresholds: {error}") from error
    if not isinstance(written, dict):
        raise DataError(
            f"{path}: expected a JSON object that maps kinds of anomalies to numbers, as `--calibrate` writes it"
        )
    return written


def write_strictness(path: Path, fitted: Iterable[FittedStrictness]) -> None:
    """Write fitted strictnesses to a file for `read_strictness`."""
    path.write_text(json.dumps({fit.kind: fit.strictness for fit in fitted}, indent=2) + "\n")


def read_labelled(folder: Path, **reading: Any) -> Iterator[LabelledTrace]:
    """Read the labelled traces of a folder, one at a time.

    Parameters
    ----------
    folder : Path
        Folder with labels.csv, whose columns are log (a path relative to the folder), group and label. Traces of a
        group are compared with the group's references; labels are "reference", "clean" and names of kinds.
    **reading : object
        Arguments of `read_events`.

    Yields
    ------
    LabelledTrace
        Every trace that is not a reference.

    Raises
    ------
    DataError
        A missing file or column, a group without references, or an error of `read_events`.
    """
    table = folder / LABELS
    if not table.is_file():
        raise DataError(f"{table} is missing: write it with the columns `log`, `group` and `label`")
    with table.open(newline="") as lines:
        rows = csv.DictReader(lines)
        if lacking := {"log", "group", "label"} - set(rows.fieldnames or ()):
            raise DataError(
                f"{table} has no column {', '.join(sorted(lacking))}: the columns `log`, `group` and `label` are "
                "required"
            )
        groups: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(row["group"], []).append(row)
    for group, members in groups.items():
        references = [read_events(folder / row["log"], **reading) for row in members if row["label"] == _REFERENCE]
        if not references:
            raise DataError(f"{table}: group {group!r} has no reference: label at least one of its logs `{_REFERENCE}`")
        for row in members:
            if row["label"] != _REFERENCE:
                yield LabelledTrace(references, read_events(folder / row["log"], **reading), row["label"])
