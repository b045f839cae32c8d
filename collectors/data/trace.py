"""Trace: one row for each interval, one column for each metric, with descriptions of the metrics.

`collectors.data` is the only part of `collectors` that `analysis` imports.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from unperturbed.collectors.data.files import Shape, encode_parquet, misfit, read_parquet_file
from unperturbed.common.frames import to_library
from unperturbed.common.scratch import whole_file
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted, did_you_mean, duration, first_of, listing, number
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

Kind = Literal["hardware", "simulated", "software", "os", "derived"]
Semantics = Literal["counter", "gauge"]

INTERVAL_COLUMNS = ("begin_ns", "end_ns", "overruns")
"""Columns of every trace besides its metrics: the bounds of intervals [ns since the first record], and missed ticks."""

PROGRAM_CLOCK = "program"
"""Clock of runs whose intervals end at the program's own events, the same in each run."""

WORK_CLOCKS = ("work", PROGRAM_CLOCK)
"""Clocks of runs whose intervals hold equal work."""

SCALING = (".enabled_ns", ".running_ns", ".counted")
"""Suffixes of the columns from which the count of a multiplexed event was estimated: two times, and what it counted."""

METADATA_KEY = "unperturbed"
_FORMAT = 1
_NUMBERS = "order seconds time_s cpu_s wall_seconds missed_ticks unread_ticks sampled_threads skid_median skid_p99"
_ATTRIBUTES: Mapping[str, Shape] = {**dict.fromkeys(_NUMBERS.split(), float), "implausible": [str], "notes": [str]}
"""Optional attributes of a trace that the tool uses in computations, with their types."""

_FILE = "trace.parquet"  # in a run's folder


@dataclass(frozen=True)
class Metric:
    """Description of one column of a trace.

    Attributes
    ----------
    name : str
        The metric's name in the spec.
    kind : Kind
        The origin of the values. `simulated` values are never shown as hardware counts.
    unit : str, default "events"
        The unit of each interval's value.
    semantics : Semantics, default "counter"
        A counter's row is the number of events in the interval; a gauge's row is the value at the interval's end.
    source : str, default ""
        The source of the values (`callgrind`, `papi`, `perf_event`, `getrusage`, `instrumentation`, `formula`).
    meaning : str, default ""
        A description in one line.
    components : tuple of str, default ()
        Elementary events that the value is computed from. Two metrics with a common component are correlated by
        construction, so they never form an inner pair.
    scaled : bool, default False
        The event was multiplexed: its count was extrapolated from the fraction of time that it was counted.
    """

    name: str
    kind: Kind
    unit: str = "events"
    semantics: Semantics = "counter"
    source: str = ""
    meaning: str = ""
    components: tuple[str, ...] = ()
    scaled: bool = False

    def __post_init__(self) -> None:
        for word, value, known in (("kind", self.kind, Kind), ("semantics", self.semantics, Semantics)):
            if value not in get_args(known):
                names = ", ".join(get_args(known))
                raise DataError(f"metric {self.name!r}: `{word}` is {value!r}, which is not one of {names}")
        texts = (self.name, self.unit, self.source, self.meaning, *self.components)
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.scaled, bool):
            fields = "`name`, `unit`, `source`, `meaning` and the elements of `components`"
            raise DataError(f"metric {self.name!r}: {fields} must be strings, and `scaled` must be a boolean")
        if self.name in INTERVAL_COLUMNS:
            raise DataError(f"metric {self.name!r}: every trace has a column with this name; choose another name")
        if not self.components:
            object.__setattr__(self, "components", (f"{self.source}:{self.name}",))


class UnknownMetricError(DataError, KeyError):
    """Error for a metric that a trace does not have: also a KeyError, as for any mapping."""

    __str__ = Exception.__str__


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Metrics of one run, interval by interval.

    A trace behaves like a table: `trace["x"]` is a column, `trace[["x", "y"]]` a trace of these metrics, `trace[10:20]`
    a trace of these intervals; `len` is the number of intervals; `in` and iteration use metric names. NumPy accepts
    a trace as a matrix; polars, pandas, pyarrow and DuckDB accept it as a table (`__arrow_c_stream__`).

    Attributes
    ----------
    metrics : mapping of str to Metric
        Descriptions of the metrics by name, read-only, in column order.
    begin_ns, end_ns : array of int64, shape (intervals,)
        Bounds of each interval, in ns since the first record, on the run's clock (`attributes["clock"]`): wall-clock
        time, or the process's CPU time.
    overruns : array of int64, shape (intervals,)
        Timer ticks missed in each interval.
    attributes : mapping of str to object, optional
        Facts about the whole run (configuration, source, clock, seed, …); JSON types only.
    """

    metrics: Mapping[str, Metric]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    overruns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_columns(
        cls,
        metrics: Iterable[Metric],
        columns: Mapping[str, Sequence[float] | NDArray[Any]],
        *,
        begin_ns: Sequence[int] | NDArray[np.int64],
        end_ns: Sequence[int] | NDArray[np.int64],
        overruns: Sequence[int] | NDArray[np.int64] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Trace:
        """Make a trace from one sequence for each metric.

        Parameters
        ----------
        metrics : iterable of Metric
            Descriptions of the metrics, in column order.
        columns : mapping of str to sequence of float or array
            One sequence for each metric, all of equal length; integers become int64, all other numbers float64.
        begin_ns, end_ns : sequence of int or array of int64
            Bounds of the intervals, in ns since the first record.
        overruns : sequence of int or array of int64, optional
            Missed ticks in each interval; 0 by default.
        attributes : mapping of str to object, optional
            Facts about the run; JSON types only.

        Raises
        ------
        DataError
            A column is missing or has a different length, two metrics share a name, or an interval ends before its
            begin.
        """
        import numpy as np  # noqa: PLC0415  a self-counting process uses metrics, but shall not load NumPy

        described = tuple(metrics)
        named = {metric.name: metric for metric in described}
        if len(named) != len(described):
            names = [metric.name for metric in described]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise DataError(
                f"several metrics have the same name ({', '.join(twice)}): give each metric a different name"
            )
        begin = np.asarray(begin_ns, dtype=np.int64)
        end = np.asarray(end_ns, dtype=np.int64)
        missed = np.zeros(len(begin), np.int64) if overruns is None else np.asarray(overruns, dtype=np.int64)
        if not len(begin) == len(end) == len(missed):
            times = f"{counted(len(begin), 'begin time')}, {counted(len(end), 'end time')}"
            given = f"{times} and {counted(len(missed), 'overrun value')}"
            raise DataError(f"the trace has {given}: give one of each for every interval")
        backwards = np.flatnonzero(end < begin)
        if len(backwards):
            raise DataError(f"interval {backwards[0]} (counted from 0) ends before it begins")
        arrays: dict[str, NDArray[Any]] = {}
        for name in named:
            if name not in columns:
                raise DataError(f"metric {name!r} has no column: give its values in `columns`")
            column = np.asarray(columns[name])
            if column.shape != begin.shape:
                shapes = f"has shape {column.shape}, expected {begin.shape}"
                raise DataError(f"the column of metric {name!r} {shapes}: give one value for every interval")
            if column.dtype == np.uint64 and len(column) and int(column.max()) > np.iinfo(np.int64).max:
                raise DataError(
                    f"the column of metric {name!r} has the number {int(column.max()):,}, which does not fit int64: "
                    "give counts of the intervals, not values since the beginning"
                )
            arrays[name] = column.astype(np.int64 if np.issubdtype(column.dtype, np.integer) else np.float64)
        facts = MappingProxyType(dict(attributes or {}))
        return cls(MappingProxyType(named), begin, end, missed, MappingProxyType(arrays), facts)

    def __len__(self) -> int:
        return len(self.begin_ns)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the metrics, in column order."""
        return iter(self.metrics)

    def __contains__(self, name: object) -> bool:
        return name in self.metrics

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice | list[str] | tuple[str, ...]) -> Trace: ...
    def __getitem__(self, key: str | slice | list[str] | tuple[str, ...]) -> NDArray[Any] | Trace:
        """Return one metric's column, shape (intervals,); or a trace of the selected intervals or metrics.

        Raises
        ------
        DataError
            The trace has no such metric (then also a KeyError), or the key is not a name, list of names or slice.
        """
        if isinstance(key, str):
            if key not in self.columns:
                known = did_you_mean(key, self.metrics) or f"the trace has {listing(self.metrics) or 'no metrics'}"
                raise UnknownMetricError(f"the trace has no metric {key!r}; {known}")
            return self.columns[key]
        if isinstance(key, slice):
            bounds = {name: getattr(self, name)[key] for name in INTERVAL_COLUMNS}
            columns = {name: column[key] for name, column in self.columns.items()}
            return replace(self, **bounds, columns=MappingProxyType(columns))
        if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
            columns = {name: self[name] for name in key}
            metrics = {name: self.metrics[name] for name in key}
            return replace(self, metrics=MappingProxyType(metrics), columns=MappingProxyType(columns))
        raise DataError(f"index a trace by a metric's name, a list of names or a slice of intervals, not {key!r}")

    def __eq__(self, other: object) -> bool:
        """Return whether metrics, intervals, all values (NaN equals NaN) and attributes are equal."""
        import numpy as np  # noqa: PLC0415

        if not isinstance(other, Trace):
            return NotImplemented
        return (
            list(self.metrics.items()) == list(other.metrics.items())
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in INTERVAL_COLUMNS)
            and all(
                column.dtype == other.columns[name].dtype
                and np.array_equal(column, other.columns[name], equal_nan=column.dtype.kind == "f")
                for name, column in self.columns.items()
            )
            and dict(self.attributes) == dict(other.attributes)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all metrics as a matrix of shape (intervals, metrics), for NumPy."""
        import numpy as np  # noqa: PLC0415

        if copy is False:
            raise ValueError("a matrix of the trace's columns is always a copy: leave out `copy=False`")
        matrix = np.column_stack(list(self.columns.values())) if self.columns else np.empty((len(self), 0))
        return matrix if dtype is None else matrix.astype(dtype)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.metrics)

    def __dataframe__(self, *arguments: Any, **options: Any) -> Any:
        """Return the table through pyarrow's data frame interchange protocol, for older libraries."""
        return to_library(self.to_polars(), "pyarrow").__dataframe__(*arguments, **options)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow stream, for data frame libraries."""
        return self.to_polars().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        known = [f"{key} {self.attributes[key]}" for key in ("configuration", "pass", "run") if key in self.attributes]
        seconds = (self.end_ns[-1] - self.begin_ns[0]) / 1e9 if len(self) else 0.0
        simulated = sum(metric.kind == "simulated" for metric in self.metrics.values())
        heading = f"{counted(len(self), 'interval')} in {duration(seconds)}, {counted(len(self.metrics), 'metric')}"
        heading += f" ({simulated} simulated)" if simulated else ""
        return f"<Trace{' of ' + ', '.join(known) if known else ''}: {heading}: {first_of(list(self.metrics))}>"

    def _repr_html_(self) -> str:
        return self.overview().to_html()

    def overview(self) -> Table:
        """Return a table of the metrics, each with its total and its smallest, median and largest interval value."""
        import numpy as np  # noqa: PLC0415

        columns = (
            Column("metric"),
            Column("kind"),
            Column("unit"),
            Column("total", "right", "sum of a counter over all intervals"),
            *(Column(name, "right", "of the values in all intervals") for name in ("least", "median", "most")),
        )
        rows = []
        for name, metric in self.metrics.items():
            values = self.columns[name]
            usual = (np.nanmin(values), np.nanmedian(values), np.nanmax(values)) if len(values) else (None,) * 3
            total = np.nansum(values) if metric.semantics == "counter" else None
            rows.append([name, metric.kind, metric.unit, *(number(value) for value in (total, *usual))])
        title, facts = repr(self)[1:-1], self.attributes
        if facts.get("interval_event"):  # how exactly the event's counts ended the intervals
            title += f"; each interval ends after {facts['interval_ns']:,} counts of {facts['interval_event']}, "
            title += f"median skid {facts['skid_median']:,.0f}"
        if facts.get("interval_metric"):
            title += f"; each interval ends after {facts['interval_ns']:,} events of {facts['interval_metric']}"
        return Table(columns, rows, title)

    def values(self, names: Iterable[str]) -> NDArray[np.float64]:
        """Return the named metrics as a float64 array of shape (intervals, metrics)."""
        import numpy as np  # noqa: PLC0415

        if isinstance(names, str):
            raise DataError(f"`values` needs a list of names, not the string {names!r}: write `values([{names!r}])`")
        return np.column_stack([self[name].astype(np.float64) for name in names])

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """Return the names of the metrics of the given kinds, or of all metrics, in column order."""
        return tuple(name for name, metric in self.metrics.items() if not kinds or metric.kind in kinds)

    def to_polars(self) -> pl.DataFrame:
        """Return a polars DataFrame: `begin_ns`, `end_ns`, `overruns`, then one column for each metric."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every user of a trace needs it

        return pl.DataFrame({name: getattr(self, name) for name in INTERVAL_COLUMNS} | dict(self.columns))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a Parquet file, replacing the file atomically."""
        metrics = [asdict(metric) for metric in self.metrics.values()]
        described = {"format": _FORMAT, "metrics": metrics, "attributes": dict(self.attributes)}
        content = encode_parquet(self.to_polars(), METADATA_KEY, {**described, "digest": self._digest()})
        with whole_file(path) as file:
            file.write(content)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace from a file that `write` wrote.

        Parameters
        ----------
        path : path-like
            The file, or a run's folder that contains `trace.parquet`.

        Returns
        -------
        Trace
            The trace, one row for each interval.

        Raises
        ------
        DataError
            The file is missing, is not a Parquet file, is damaged, or does not contain a trace.
        """
        source = Path(path)
        if (source / _FILE).is_file():
            source /= _FILE
        if not source.is_file():
            no_run = f"not a run's folder (it has no {_FILE}); a campaign's runs are in its folder runs/"
            raise DataError(f"{source}: {no_run if source.is_dir() else 'no such trace file'}")
        frame, metadata = read_parquet_file(source)
        text = metadata.get(METADATA_KEY)
        if text is None:
            raise DataError(
                f"{source}: not a trace file that unperturbed wrote (the file's metadata does not describe metrics)"
            )
        try:
            metrics, attributes, digest = _parse_description(text)
            bounds = {name: _complete(frame, name) for name in INTERVAL_COLUMNS}
            columns = {metric.name: _complete(frame, metric.name) for metric in metrics}
            trace = cls.from_columns(metrics, columns, **bounds, attributes=attributes)
        except DataError as error:
            raise DataError(f"{source}: {error}") from None
        if digest not in (None, trace._digest()):
            raise DataError(f"{source}: the file is damaged: its values have changed since it was written")
        return trace

    def _digest(self) -> str:
        """Return a digest of all values: Parquet pages have no checksum, and a changed byte may change a count."""
        content = hashlib.blake2b(digest_size=16)
        for name in INTERVAL_COLUMNS:
            content.update(getattr(self, name).tobytes())
        for column in self.columns.values():
            content.update(column.tobytes())
        return content.hexdigest()


def _parse_description(text: str) -> tuple[list[Metric], dict[str, Any], str | None]:
    """Return the metrics, attributes and digest from a file's metadata."""
    try:
        described = json.loads(text)
        written, entries, attributes = described["format"], described["metrics"], dict(described["attributes"])
        if written > _FORMAT:
            raise DataError(f"written by a newer version of unperturbed (format {written}); update unperturbed")
        known = {name: shape for name, shape in _ATTRIBUTES.items() if attributes.get(name) is not None}
        fault = misfit({name: attributes[name] for name in known}, known, "attributes")
        if fault:
            raise DataError(fault)
        metrics = [Metric(**{**entry, "components": tuple(entry["components"])}) for entry in entries]
        return metrics, attributes, described.get("digest")  # early versions wrote no digest
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"cannot read the description of the metrics in the file's metadata ({error!r})") from None


def _complete(frame: pl.DataFrame, name: str) -> NDArray[Any]:
    """Return a numeric column; refuse missing values."""
    if name not in frame.columns:
        raise DataError(f"no column {name!r}")
    column = frame[name]
    if name in INTERVAL_COLUMNS and not column.dtype.is_integer():
        raise DataError(f"column {name!r} must contain integers, not {column.dtype}")
    if not column.dtype.is_numeric():
        raise DataError(f"column {name!r} must contain numbers, not {column.dtype}")
    if column.null_count():
        raise DataError(f"column {name!r} has no value in row {column.is_null().arg_max()} (counted from 0)")
    return column.to_numpy()


def counts_after_last(trace: Trace) -> Mapping[str, float]:
    """Return the counts of a last interval that an import left out, by metric: totals contain them."""
    counts: Mapping[str, float] = trace.attributes.get("after_last", {}).get("counts", {})
    return counts


def require_traces(values: Iterable[object]) -> None:
    """Refuse values that are not traces."""
    for value in values:
        if not isinstance(value, Trace):
            raise TypeError(
                f"expected a Trace, not {type(value).__name__} {value!r:.60}: `Trace.read(folder_of_a_run)` "
                "reads a trace, and `load(campaign)[configuration]` contains the traces of a configuration"
            )
