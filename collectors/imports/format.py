"""Class of import formats, and functions that all formats share: notes, intervals, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Kind, Metric, Trace
from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC
from unperturbed.common.wording import counted, did_you_mean, duration, first_of, listing
from unperturbed.errors import DataError

IntArray = NDArray[np.int64]

MOST = 2**62
"""Largest time or count: times, counts and their differences are int64, and 146 years of nanoseconds are enough."""
_MOST_INTERVALS = 10_000_000
EXACT = 2.0**53
"""Whole numbers up to this one are exact as float64."""
_WIDTHS = (32, 40, 48, 64)
"""Widths in bits of counters that begin again at 0: those of processors, and those of the kernel and of tools."""
_PLAUSIBLE = 10
"""An increase over a wrap-around is at most this many times the largest other one; else the counter was reset."""

_FEW_NOTES = 5
"""Metrics above which one note names all that are left out for one reason."""
_WHOLE = 0.95
"""The last interval is incomplete if it is shorter than this share of the median interval."""


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """File format of another tool, for import.

    Attributes
    ----------
    name : str
        Name of the format in `unperturbed import` and `--from`.
    title : str
        The tool or format in the sentence "this is TITLE": a noun phrase, with an article if necessary.
    suffixes : tuple of str
        Usual suffixes of file names, such as `.csv`.
    recognise : callable
        Takes the first 4,096 bytes of a file; returns whether the file has this format. The first format that
        recognises a file reads it: modules are asked by name, then entry points, recipes, and general formats.
    read : callable
        Takes the file's content, its path for messages, and the options; returns one `Trace` per run, and none if the
        file only describes others that are read with it. The trace's
        `attributes["notes"]` lists, in sentences, what the reader left out or scaled.
    options : mapping of str to str, optional
        Names of the options of `read`, each with its meaning in one line.
    general : bool, optional
        Whether many tools write files of this format, such as tables: general formats are asked last.
    is_table : bool, optional
        Whether the file is a table of numbers with names of columns, which commands such as `model` can read too.
    whole_runs : bool, optional
        Whether the files have totals of whole runs: each trace then has one interval, and its `attributes` the name of
        the `benchmark`, the totals `time_s` and `cpu_s` if there are any, and the `process` if several runs share one.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    recognise: Callable[[bytes], bool]
    read: Callable[[bytes, Path, Mapping[str, str]], list[Trace]]
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    general: bool = False
    is_table: bool = False
    whole_runs: bool = False

    def check_options(self, options: Mapping[str, str]) -> None:
        """Refuse options that the format does not have.

        Raises
        ------
        DataError
            The format does not have an option. The message suggests the option that was probably meant, or lists all.
        """
        for name in options:
            if name not in self.options:
                known = did_you_mean(name, self.options, limit=1) or (
                    f"its options are {listing(self.options)}" if self.options else "it has no options"
                )
                raise DataError(f"the format {self.name} has no option {name}=…; {known}")


def refuse(path: Path, what: str, line: int = 0) -> NoReturn:
    """Raise an error about a file: `FILE:LINE: WHAT`, without `LINE` if it concerns the whole file."""
    raise DataError(f"{path}:{line}: {what}" if line else f"{path}: {what}")


def decode(content: bytes, path: Path) -> str:
    """Decode a file's content as UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(path, "this line is not valid UTF-8", content.count(b"\n", 0, error.start) + 1)


def known_kind(name: str) -> Kind | None:
    """Return the kind of a metric by its name in perf (also with `_` for `-`), PAPI or this tool; None for others."""
    base = re.sub(r":[ukhGHpPIDWSe]+$", "", name)
    event = GENERIC.get(ALIASES.get(base, base)) or GENERIC.get(base.replace("_", "-"))
    if event is not None:
        return event.kind
    if name in OS_METRICS:
        return "os"
    return "hardware" if name in PRESETS or name.startswith(("PAPI_", "perf::")) else None


def common_options(options: Mapping[str, str], path: Path, name: str, choices: Sequence[str], default: str) -> str:
    """Return the value of an option, which must be one of the choices."""
    value = options.get(name, default)
    if value not in choices:
        there_are = listing(choices, "or")
        refuse(path, f"{name}={value}: {did_you_mean(value, choices, limit=1) or f'use {there_are}'}")
    return value


def interval_ns(text: str, path: Path, otherwise: str = "") -> int:
    """Return the interval length [ns] given by the option `interval=MS`."""
    try:
        length = round(float(text.removesuffix("ms")) * 1e6)
    except (ValueError, OverflowError):  # not a number, or infinite
        length = 0
    if length <= 0:
        refuse(path, f"interval={text}: give a length in ms, such as interval=20{otherwise}")
    return length


def from_ends(ends_ns: IntArray, first_begin_ns: int | None = None) -> tuple[IntArray, IntArray]:
    """Return the bounds of consecutive intervals from their ends; by default, the first has the median length.

    `first_begin_ns`: Beginning of the first interval, on the clock of `ends_ns`.
    """
    if first_begin_ns is None:
        usual = int(np.median(np.diff(ends_ns))) if len(ends_ns) > 1 else 0
        first_begin_ns = int(ends_ns[0]) - usual
    ends = ends_ns - first_begin_ns
    return np.concatenate((np.zeros(1, np.int64), ends[:-1])), ends


def check_intervals(count: int, path: Path) -> None:
    """Refuse too many intervals before memory is allocated for them: a single wrong time can imply billions."""
    if count > _MOST_INTERVALS:
        many = f"{count:,} intervals, more than {_MOST_INTERVALS:,}"
        refuse(path, f"the trace would have {many}: use longer intervals (interval=MS)")


def as_number(value: Any) -> float:
    """Return a number, also one written as text; whole numbers stay whole."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value) else float(value)


def as_numbers(values: Sequence[float]) -> NDArray[Any]:
    """Return numbers as an array: whole ones as int64 or uint64, which keep all digits, and others as float64."""
    if all(isinstance(value, int) for value in values):
        for whole in (np.int64, np.uint64):
            with suppress(OverflowError):
                return np.array(values, whole)
    return np.array(values, np.float64)


def sum_at(place: NDArray[Any], values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return for each of `size` places the sum of its values: exact for whole numbers whose sums fit 64 bits."""
    sums = np.bincount(place, values.astype(np.float64), size).astype(np.float64)
    if values.dtype.kind not in "iu" or not len(values):
        return sums
    largest = sums if values.min() >= 0 else np.bincount(place, np.abs(values.astype(np.float64)), size)
    if EXACT <= largest.max() < float(np.iinfo(values.dtype).max):
        exact = np.zeros(size, values.dtype)
        np.add.at(exact, place, values)
        return exact
    return sums


def sum_in_intervals(ends_ns: IntArray, times_ns: IntArray, counts: Sequence[float]) -> NDArray[Any]:
    """Return the sum of the counts in each interval; each interval includes its end."""
    place = np.minimum(np.searchsorted(ends_ns, times_ns, side="left"), len(ends_ns) - 1)
    return sum_at(place, as_numbers(counts), len(ends_ns))


def lacking(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are missing: the masked ones of whole numbers, and NaN."""
    missing: NDArray[np.bool_] = np.isnan(np.ma.getdata(values)) | np.ma.getmaskarray(values)
    return missing


@dataclass(frozen=True, slots=True)
class Increments:
    """Increases of a cumulative counter from each value to the next."""

    values: NDArray[Any]
    wrapped: Sequence[int]  # Indices of increases over a wrap-around
    bits: int  # Width of a counter that wrapped around
    decreases: int  # Index of the first value that is less than the one before; 0 if there is none
    rounded: bool  # The counter's values have more digits than float64 holds

    def note(self, name: str) -> list[str]:
        """Return a note if the counter wrapped around."""
        if not self.wrapped:
            return []
        times = counted(len(self.wrapped), "time")
        return [f"{name} wrapped around {times}: as a counter of {self.bits} bits, it began again at 0"]


def increments(values: NDArray[Any]) -> Increments:
    """Return a cumulative counter's increases; where a value is missing, those from and to it are missing."""
    absent = lacking(values)
    numbers = np.ma.getdata(values)
    if numbers.dtype.kind == "f":
        down = np.flatnonzero(numbers[1:] < numbers[:-1])
        rounded = bool((np.abs(numbers[~absent]) >= EXACT).any())
        return Increments(np.diff(numbers), (), 0, int(down[0]) + 1 if len(down) else 0, rounded)
    # Differences modulo 2**64 are right for both signs as long as they fit int64.
    steps = np.diff(numbers.view(np.uint64)).view(np.int64)
    unknown = absent[1:] | absent[:-1]
    down = np.flatnonzero((numbers[1:] < numbers[:-1]) & ~unknown)
    bits = 0
    if len(down):
        others = steps[(numbers[1:] >= numbers[:-1]) & ~unknown]
        usual = _PLAUSIBLE * int(others.max()) if len(others) else 0
        known = numbers[~absent]
        span = int(known.max()) - int(known.min())
        before, after = ([int(number) for number in numbers[down + side]] for side in (0, 1))
        for width in _WIDTHS:
            over = [late - early + 2**width for early, late in zip(before, after, strict=True)]
            if span < 2**width and all(0 <= step <= usual for step in over):
                bits = width
                steps[down] = over
                break
    result: NDArray[Any] = np.ma.MaskedArray(steps, unknown) if unknown.any() else steps
    if bits or not len(down):
        return Increments(result, down.tolist(), bits, 0, rounded=False)
    return Increments(result, (), 0, int(down[0]) + 1, rounded=False)


def without_part(trace: Trace) -> Trace:
    """Leave out a trace's last interval if the program's end made it shorter than the others; return the trace.

    Totals of whole runs contain it: `attributes["after_last"]` has its counts and its length.
    """
    if len(trace) < 3:
        return trace
    lengths = trace.end_ns - trace.begin_ns
    usual = float(np.median(lengths[:-1]))
    if lengths[-1] >= _WHOLE * usual:
        return trace
    length = f"{duration(lengths[-1] / 1e9)} long instead of {duration(usual / 1e9)}"
    left_out = f"the import leaves out the last interval, which is {length}, but totals contain it"
    counts = {
        name: trace[name][-1].item()
        for name, metric in trace.metrics.items()
        if metric.semantics == "counter" and np.isfinite(trace[name][-1])
    }
    after = {"counts": counts, "ns": int(lengths[-1])}
    return with_attributes(trace[:-1], notes=[*trace.attributes.get("notes", ()), left_out], after_last=after)


def with_attributes(trace: Trace, **attributes: Any) -> Trace:
    """Return a trace with additional attributes."""
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
    """Return the trace of a run; refuse data without intervals or metrics."""
    if not len(bounds[0]):
        refuse(path, "nothing to import: no interval has a count for every metric")
    if not metrics:
        refuse(path, "nothing to import: none of the events was counted")
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
    columns: Mapping[str, NDArray[Any]],
    bounds: tuple[IntArray, IntArray],
    path: Path,
    *,
    missing: str,
    notes: Sequence[str] = (),
) -> Trace:
    """Return the trace of a run with only the metrics and intervals that `leave_out_uncounted` keeps."""
    chosen, kept, more = leave_out_uncounted(columns, missing)
    columns = {name: column[kept] for name, column in chosen.items()}
    counted_metrics = [metric for metric in metrics if metric.name in chosen]
    return make_trace(counted_metrics, columns, (bounds[0][kept], bounds[1][kept]), path, notes=[*notes, *more])


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Convert counts to integers if all of them are whole numbers that fit int64."""
    values = np.ma.getdata(values)
    if values.dtype == np.uint64:
        return values.astype(np.float64 if (values >> np.uint64(63)).any() else np.int64)
    if values.dtype.kind != "f":
        return values
    with np.errstate(invalid="ignore"):
        integers = values.astype(np.int64)
    return integers if np.array_equal(integers, values) else values


def leave_out_uncounted(
    columns: Mapping[str, NDArray[Any]], what: str = "not counted"
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_], list[str]]:
    """Leave out metrics that are missing in more than half of the intervals, and then intervals that lack a count.

    Result: The kept metrics for all intervals, a mask of the kept intervals, and one note for each omission.
    """
    notes: list[str] = []
    absent = {name: lacking(values) for name, values in columns.items()}
    ever = {name: missing for name, missing in absent.items() if not missing.all()}
    never = [name for name in columns if name not in ever]
    notes += _each_or_all(never, [f"the import leaves out {name}, which was never counted" for name in never])
    if not ever:
        return {}, np.zeros(0, np.bool_), notes
    idle = np.logical_and.reduce(list(ever.values()))
    if idle.any():
        notes.append(_left_out(idle, "no event was counted"))
    chosen, kept = {}, ~idle
    rare: list[str] = []
    gaps: list[str] = []
    said: dict[str, str] = {}
    for name, missing in ever.items():
        unseen = missing & ~idle
        if 2 * unseen.sum() > (~idle).sum():
            of = counted(int((~idle).sum()), "interval")
            said[name] = f"the import leaves out {name}, which was {what} in {int(unseen.sum()):,} of {of}"
            rare.append(name)
            continue
        chosen[name] = columns[name]
        kept &= ~missing
        if unseen.any():
            said[name] = _left_out(unseen, f"{name} was {what}")
            gaps.append(name)
    if len(rare) + len(gaps) <= _FEW_NOTES:
        return chosen, kept, [*notes, *said.values()]
    if rare:
        notes.append(
            f"the import leaves out {first_of(rare)}, each of which was {what} in more than half of the intervals"
        )
    if gaps:
        notes.append(_left_out(~kept & ~idle, f"a metric was {what}: {first_of(gaps)}"))
    return chosen, kept, notes


def _each_or_all(names: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Return a note for each of a few metrics, or one for many."""
    many = [f"the import leaves out {first_of(names)}, which were never counted"]
    return many if len(names) > _FEW_NOTES else list(notes)


def _left_out(which: NDArray[np.bool_], why: str) -> str:
    count = int(which.sum())
    return f"the import leaves out {counted(count, 'interval')} in which {why}"
