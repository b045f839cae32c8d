"""Class of sources of hardware counts: how a source's events are named, planned, listed and read."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unperturbed.collectors.data.trace import Kind, Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.collectors.sources.callgrind import Machine
    from unperturbed.collectors.sources.limits import Limits

NONE = "none"
"""Source of a run without hardware events; its number in record files is 0."""


@dataclass(frozen=True)
class Event:
    """Hardware event that a sampler opens and reads.

    Attributes
    ----------
    name : str
        The name for messages; PAPI opens events by name.
    type, config, config1, config2 : int, default 0
        The arguments of perf_event_open(2); other sources may use them freely.
    kernel : bool, default False
        Whether to count in the kernel.
    user : bool, default True
        Whether to count in user space.
    follows : bool, default False
        Whether to open the event in the group of the last previous event without `follows`, even if multiplexed.
    """

    name: str
    type: int = 0
    config: int = 0
    kernel: bool = False
    config1: int = 0
    config2: int = 0
    user: bool = True
    follows: bool = False

    @property
    def counted(self) -> tuple[int, int, int, int, bool, bool]:
        """Return what the event counts, regardless of its name."""
        return self.type, self.config, self.config1, self.config2, self.user, self.kernel


@dataclass(frozen=True)
class Pass:
    """Metrics that one run counts together.

    Attributes
    ----------
    name : str
        `main`, or a name that distinguishes the pass (`page-cache`, `perf_event`, …).
    source : str
        The name of the source, or `none` if no hardware metric was requested.
    metrics : tuple of Metric
        The hardware or simulated metrics, in column order.
    events : tuple of Event, default ()
        The events that the sampler opens for the metrics; empty if simulated.
    machine : Machine, optional
        The simulated machine, if simulated.
    multiplexed : bool, default False
        Whether the events are multiplexed, and their counts estimated.
    estimate : str, default "scaled"
        How counts of multiplexed events are estimated: a name of `collectors.records.estimates.METHODS`.
    division : str, default ""
        How passes in which metrics meet were found, and whether they are the fewest; empty if nothing had to meet.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    events: tuple[Event, ...] = ()
    machine: Machine | None = None
    multiplexed: bool = False
    estimate: str = "scaled"
    division: str = ""

    @property
    def limits(self) -> Limits | None:
        """Return the counters on which simulated metrics take turns; None if they do not."""
        return self.machine.limits if self.multiplexed and self.machine is not None else None


@dataclass(frozen=True)
class Request:
    """Constraints on a plan of passes.

    Attributes
    ----------
    machine : Machine
        The simulated machine.
    compiler : str
        C compiler for the sampler that tries events.
    shared : frozenset of str, optional
        Metrics in every pass (runs are aligned by these).
    sampler : {"inside", "outside"}, default "inside"
        Where counts are read: inside the program, or by an observer process.
    multiplex : bool, default False
        Whether metrics that do not fit together are multiplexed in one pass instead of being divided into passes.
    overflow : tuple of str and int, optional
        The metric whose counts end intervals, and the number of counts in an interval.
    together : tuple of frozenset of str, default ()
        Sets of metrics that a derived metric is computed from: each set is put into one pass if it fits.
    meet : tuple of frozenset of str, default ()
        Sets of metrics each of which must be in some pass, in as few passes as possible; usually pairs.
    known : tuple of frozenset of str, default ()
        Metrics of each pass of an earlier plan for `meet`: it is taken again if it suffices.
    """

    machine: Machine
    compiler: str
    shared: frozenset[str] = frozenset()
    sampler: Literal["inside", "outside"] = "inside"
    multiplex: bool = False
    overflow: tuple[str, int] | None = None
    together: tuple[frozenset[str], ...] = ()
    meet: tuple[frozenset[str], ...] = ()
    known: tuple[frozenset[str], ...] = ()


Planned = tuple[list[Pass], dict[str, str]]
"""Planned passes, and for each metric in no pass, the reason."""


@dataclass(frozen=True)
class Answer:
    """Result of trying one event on this host.

    Attributes
    ----------
    name : str
        The event's name.
    reason : str
        `ok`, or the library's error message.
    code : int
        The library's error number, or the number of events that fit.
    description : str, default ""
        The library's description of the event.
    unit : str, default ""
        The unit that the library reports.
    """

    name: str
    reason: str
    code: int
    description: str = ""
    unit: str = ""

    @property
    def good(self) -> bool:
        """Return whether the event can be counted."""
        return self.reason == "ok"


@dataclass(frozen=True, eq=False)
class Trials:
    """Means for a source to find out what this host can count.

    Attributes
    ----------
    root : Path
        The folder that contains `sys` and `proc`.
    compiler : str
        C compiler for the program that tries events.
    ask : callable
        Takes questions for `runtime/tools/trials.c` and the path of a PAPI library; returns kind and `Answer` of each
        question, and why further answers are missing, empty if the program finished.
    """

    root: Path
    compiler: str
    ask: Callable[[Sequence[str], str], tuple[list[tuple[str, Answer]], str]]


@dataclass(frozen=True)
class SourceSupport:
    """How a source counts a metric, or why the source cannot count it on this host.

    Attributes
    ----------
    source : str
        The source's name.
    kind : Kind
        The metric's kind if this source counts it.
    unit : str
        The unit of the counts.
    meaning : str
        A description in one line.
    problem : str, default ""
        Why the source cannot count the metric on this host; empty if it can.
    """

    source: str
    kind: Kind
    unit: str
    meaning: str
    problem: str = ""

    @property
    def available(self) -> bool:
        """Return whether the source can count the metric on this host."""
        return not self.problem


@dataclass(frozen=True)
class CatalogueEntry:
    """Metric in the catalogue.

    Attributes
    ----------
    name : str
        The metric's name in a spec.
    family : str
        The group under which the metric is listed, such as `PAPI preset`, `software event`, `simulator event`.
    ways : tuple of SourceSupport
        How each source counts the metric, the preferred source first; never empty.
    aliases : tuple of str, default ()
        Other names of the same event.
    searched_only : bool, default False
        Whether the metric is listed only if a pattern selects it, because there are thousands like it.
    """

    name: str
    family: str
    ways: tuple[SourceSupport, ...]
    aliases: tuple[str, ...] = ()
    searched_only: bool = False

    @property
    def best(self) -> SourceSupport:
        """Return the entry of the source that `source: auto` uses; if none can count the metric, the first entry."""
        return next((way for way in self.ways if way.available), self.ways[0])


@dataclass(frozen=True)
class SourceState:
    """State of a source on this host.

    Attributes
    ----------
    name : str
        The source's name.
    version : str, default ""
        The version of the source's library; empty if it has none.
    problem : str, default ""
        Why the source can count nothing on this host; empty if it can.
    fits : int, optional
        How many hardware or simulated metrics fit one run, by trial; None if nothing could be tried or there is no
        limit.
    note : str, default ""
        One line about `fits`.
    """

    name: str
    version: str = ""
    problem: str = ""
    fits: int | None = None
    note: str = ""


@dataclass(frozen=True)
class SourceCatalogue:
    """A source's part of the catalogue of metrics.

    Attributes
    ----------
    state : SourceState
        Whether the source can count on this host, and how many metrics at once.
    entries : sequence of CatalogueEntry
        Entries with this source's support only; entries of the same name are merged across sources.
    tracepoints : mapping of str to int, optional
        Number of tracepoints of each subsystem.
    tracepoint_problem : str, default ""
        Why tracepoints cannot be counted on this host; empty if they can.
    """

    state: SourceState
    entries: Sequence[CatalogueEntry] = ()
    tracepoints: Mapping[str, int] = field(default_factory=dict)
    tracepoint_problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Source of hardware counts.

    Sources defined by modules of `unperturbed.collectors.sources` are found automatically; other packages add sources
    through entry points of the group `unperturbed.sources`.

    Attributes
    ----------
    name : str
        The source's name in a spec's `source:` and in metrics of traces.
    title : str
        The source's name in sentences.
    order : int
        The rank among all sources for `source: auto`; the source with the smallest is tried first.
    event : callable
        Takes a metric's name; returns the `Event` that the sampler opens, or None if the source does not know the name.
    metric : callable
        Takes a name that `event` knows; returns its `Metric`.
    catalogue : callable
        Takes `Trials`; returns the `SourceCatalogue` of this host.
    refusal : callable, optional
        Takes a name that `event` does not know; returns the reason, or None.
    leader : callable, optional
        Takes an `Event`; returns the event that must lead its group, or None if no leader is required.
    sentence : str, default "Counted by {title} {place}."
        The report's sentence about the counts; `{place}` is replaced by how they were read.
    prefix : str, default ""
        The prefix of all the source's own names, such as `perf::`.
    yields_to : tuple of str, default ()
        Prefixes of other sources: no note is written if this source cannot count their names.
    c_file : Path, optional
        The C file that defines `c_name`; compiled into every sampler. In this project, the file includes
        `runtime/common/sources.h`; for another package, that header is put before the file. None if no sampler reads
        the source.
    c_name : str, default ""
        The name of the source's `struct unperturbed_source` in C.
    number : int, default 0
        The source's number in record files; if 0, it is computed from the name.
    timed : bool, default False
        Whether records contain how long each event was on a counter, which allows multiplexed counts to be scaled.
    simulated : bool, default False
        Whether counts are those of a simulated machine.
    plan : callable, optional
        Takes names and a `Request`; returns `Planned`. By default, events are tried by opening them.
    columns : callable, optional
        Takes the pass, the source's output file of the run, and the number of intervals; yields each metric with its
        counts. By default, counts are taken from the records.
    thread_columns : callable, optional
        Takes the pass, the output file, and for each thread the numbers of the dumps that bound its intervals; returns
        each thread's metrics with their counts. By default, counts are taken from the records.
    library : callable, optional
        Returns the library that the user chose, as a path or a name for the dynamic linker; empty for the system's.
    observer_library : callable, optional
        Returns the library that the observer loads; empty for the system's.
    """

    name: str
    title: str
    order: int
    event: Callable[[str], Event | None]
    metric: Callable[[str], Metric]
    catalogue: Callable[[Trials], SourceCatalogue]
    refusal: Callable[[str], str | None] = lambda _name: None
    leader: Callable[[Event], Event | None] = lambda _event: None
    sentence: str = "Counted by {title} {place}."
    prefix: str = ""
    yields_to: tuple[str, ...] = ()
    c_file: Path | None = None
    c_name: str = ""
    number: int = 0
    timed: bool = False
    simulated: bool = False
    plan: Callable[[Sequence[str], Request], Planned] | None = None
    columns: Callable[[Pass, Path, int | None], Iterator[tuple[Metric, NDArray[Any]]]] | None = None
    thread_columns: (
        Callable[[Pass, Path, Mapping[int, Sequence[int]]], dict[int, dict[Metric, NDArray[Any]]]] | None
    ) = None
    library: Callable[[], str] = str
    observer_library: Callable[[], str] = str

    def __post_init__(self) -> None:
        if self.number == 0:  # the high bit distinguishes it from explicit numbers
            object.__setattr__(self, "number", zlib.crc32(self.name.encode()) | 1 << 31)

    @property
    def sampled(self) -> bool:
        """Return whether a sampler reads this source, inside the program or from an observer."""
        return self.c_file is not None
