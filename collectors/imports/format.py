"""The record that an import format is, and what the readers of all formats share: notes, intervals, faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Kind, Metric, Trace
from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC
from unperturbed.common.wording import counted, did_you_mean, duration, listing
from unperturbed.errors import DataError

IntArray = NDArray[np.int64]

TIMES = (".enabled_ns", ".running_ns")
"""Ends of the names of columns that say how long a scaled count was wanted and counted: no metrics to check."""

MOST = 2**62
"""Times, counts and their differences are int64: 146 years of nanoseconds are enough."""
_MOST_INTERVALS = 10_000_000

_WHOLE = 0.95
"""The last interval is a part of one where it is shorter than this share of the usual one."""


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """A file format of another tool that traces are read from.

    Attributes
    ----------
    name : str
        What `unperturbed import` and `--from` call it.
    title : str
        The tool or the format as it stands in "this is TITLE": a noun phrase, with its article where it has one.
    suffixes : tuple of str
        Usual ends of file names, as `.csv`.
    recognise : callable
        Takes the first 4,096 bytes of a file; returns whether it is of this format.
    read : callable
        Takes the file's content, its path for messages, and the options; returns a `Trace` a run. What the reader left
        out or scaled is a list of sentences in the trace's `attributes["notes"]`.
    options : mapping of str to str, optional
        Names of the options that `read` understands, each with its meaning in one line.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    recognise: Callable[[bytes], bool]
    read: Callable[[bytes, Path, Mapping[str, str]], list[Trace]]
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def check_options(self, options: Mapping[str, str]) -> None:
        """Refuse options that the format does not have.

        Raises
        ------
        DataError
            The message names the option that was meant, or all that there are.
        """
        for name in options:
            if name not in self.options:
                known = did_you_mean(name, self.options, limit=1) or (
                    f"it has {listing(self.options)}" if self.options else "it has none"
                )
                raise DataError(f"the format {self.name} has no option {name}=…; {known}")


def refuse(path: Path, what: str, line: int = 0) -> NoReturn:
    """Raise the error of a file: `FILE:LINE: WHAT`; without a line where the whole file is meant."""
    raise DataError(f"{path}:{line}: {what}" if line else f"{path}: {what}")


def decode(content: bytes, path: Path) -> str:
    """Return the text of a file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(path, "this line is not text (UTF-8)", content.count(b"\n", 0, error.start) + 1)


def known_kind(name: str) -> Kind | None:
    """Return where counts of a name come from, by perf's, PAPI's and this tool's names; None for other names."""
    base = re.sub(r":[ukhGHpPIDWSe]+$", "", name)
    event = GENERIC.get(ALIASES.get(base, base))
    if event is not None:
        return event.kind
    if name in OS_METRICS:
        return "os"
    return "hardware" if name in PRESETS or name.startswith(("PAPI_", "perf::")) else None


def common_options(options: Mapping[str, str], path: Path, name: str, choices: Sequence[str], default: str) -> str:
    """Return the value of an option that is one of some words."""
    value = options.get(name, default)
    if value not in choices:
        there_are = listing(choices, "or")
        refuse(path, f"{name}={value}: {did_you_mean(value, choices, limit=1) or f'give {there_are}'}")
    return value


def interval_ns(text: str, path: Path, otherwise: str = "") -> int:
    """Return the length of intervals [ns] that the option `interval=MS` gives."""
    try:
        length = round(float(text.removesuffix("ms")) * 1e6)
    except (ValueError, OverflowError):  # not a number, or infinite
        length = 0
    if length <= 0:
        refuse(path, f"interval={text}: give a length in ms, as interval=20{otherwise}")
    return length


def from_ends(ends_ns: IntArray, first_begin_ns: int | None = None) -> tuple[IntArray, IntArray]:
    """Return bounds of consecutive intervals, the first from 0 on; it is by default as long as the others usually are.

    `first_begin_ns`: When it began, on the clock of the ends.
    """
    if first_begin_ns is None:
        usual = int(np.median(np.diff(ends_ns))) if len(ends_ns) > 1 else 0
        first_begin_ns = int(ends_ns[0]) - usual
    ends = ends_ns - first_begin_ns
    return np.concatenate((np.zeros(1, np.int64), ends[:-1])), ends


def check_intervals(count: int, path: Path) -> None:
    """Refuse more intervals than memory holds, before they are made: one wrong time is enough to ask for them."""
    if count > _MOST_INTERVALS:
        many = f"{count:,} intervals, more than {_MOST_INTERVALS:,}"
        refuse(path, f"it would have {many}: give longer ones (interval=MS)")


def sum_in_intervals(ends_ns: IntArray, times_ns: IntArray, counts: Sequence[float]) -> NDArray[Any]:
    """Return the sum of the counts in each interval; each interval includes its end."""
    place = np.minimum(np.searchsorted(ends_ns, times_ns, side="left"), len(ends_ns) - 1)
    return np.bincount(place, np.array(counts, np.float64), len(ends_ns))


def without_part(trace: Trace) -> Trace:
    """Return a trace without its last interval where that is shorter than the others: the program ended in it."""
    if len(trace) < 3:
        return trace
    lengths = trace.end_ns - trace.begin_ns
    usual = float(np.median(lengths[:-1]))
    if lengths[-1] >= _WHOLE * usual:
        return trace
    left_out = f"the last interval lasted {duration(lengths[-1] / 1e9)} of {duration(usual / 1e9)} and is left out"
    return with_attributes(trace[:-1], notes=[*trace.attributes.get("notes", ()), left_out])


def with_attributes(trace: Trace, **attributes: Any) -> Trace:
    """Return a trace with more attributes."""
    return replace(trace, attributes={**trace.attributes, **attributes})


def make_trace(
    metrics: Sequence[Metric],
    columns: Mapping[str, NDArray[Any]],
    bounds: tuple[IntArray, IntArray],
    path: Path,
    *,
    notes: Sequence[str] = (),
    attributes: Mapping[str, Any] = MappingProxyType({}),
) -> Trace:
    """Return the trace of a run, refusing what cannot be one."""
    if not len(bounds[0]):
        refuse(path, "no interval has a count for every metric, so nothing is left to import")
    if not metrics:
        refuse(path, "none of the events was counted")
    try:
        return Trace.from_columns(
            metrics,
            {name: _whole(values) for name, values in columns.items()},
            begin_ns=bounds[0],
            end_ns=bounds[1],
            attributes={"clock": "monotonic", **attributes, "notes": list(notes)},
        )
    except DataError as error:
        refuse(path, str(error))


def make_counted_trace(
    metrics: Sequence[Metric],
    columns: Mapping[str, NDArray[np.float64]],
    bounds: tuple[IntArray, IntArray],
    path: Path,
    *,
    missing: str,
    notes: Sequence[str] = (),
) -> Trace:
    """Return the trace of a run without the metrics and intervals that `leave_out_uncounted` leaves out."""
    chosen, kept, more = leave_out_uncounted(columns, missing)
    columns = {name: column[kept] for name, column in chosen.items()}
    counted_metrics = [metric for metric in metrics if metric.name in chosen]
    return make_trace(counted_metrics, columns, (bounds[0][kept], bounds[1][kept]), path, notes=[*notes, *more])


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return counts as integers where all of them are whole."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(invalid="ignore"):
        integers = values.astype(np.int64)
    return integers if np.array_equal(integers, values) else values


def leave_out_uncounted(
    columns: Mapping[str, NDArray[np.float64]], what: str = "not counted"
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_], list[str]]:
    """Leave out metrics without counts (NaN) in more than half of the intervals; then, intervals without all counts.

    Result: The metrics that are kept, for all intervals; the intervals in which all of them were counted; and what was
    left out, a sentence each.
    """
    notes: list[str] = []
    ever = {name: np.isnan(values) for name, values in columns.items() if not np.isnan(values).all()}
    notes += [f"{name} was never counted and is left out" for name in columns if name not in ever]
    if not ever:
        return {}, np.zeros(0, np.bool_), notes
    idle = np.logical_and.reduce(list(ever.values()))
    if idle.any():
        notes.append(_left_out(idle, "nothing was counted"))
    chosen, kept = {}, ~idle
    for name, missing in ever.items():
        lacking = missing & ~idle
        if 2 * lacking.sum() > (~idle).sum():
            of = counted(int((~idle).sum()), "interval")
            notes.append(f"{name} was {what} in {int(lacking.sum()):,} of {of} and is left out")
            continue
        chosen[name] = columns[name]
        kept &= ~missing
        if lacking.any():
            notes.append(_left_out(lacking, f"{name} was {what}"))
    return chosen, kept, notes


def _left_out(which: NDArray[np.bool_], why: str) -> str:
    count = int(which.sum())
    return f"{counted(count, 'interval')} in which {why} {'is' if count == 1 else 'are'} left out"
