"""The record that a source of hardware counts is: how its events are named, planned, listed and read."""

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

NONE = "none"
"""The source of a run without hardware events; number 0 in its record file."""


@dataclass(frozen=True)
class Event:
    """A hardware event that a sampler reads itself.

    Attributes
    ----------
    name : str
        For messages; PAPI opens its events by it.
    type, config, config1, config2 : int, default 0
        As perf_event_open(2) takes them; a source of another kind may use them as it likes.
    kernel : bool, default False
        Count in the kernel.
    user : bool, default True
        Count in user space.
    follows : bool, default False
        Open it in the group of the last event before it that does not follow, even where events take turns.
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
        """Return what it counts, whatever it is called."""
        return self.type, self.config, self.config1, self.config2, self.user, self.kernel


@dataclass(frozen=True)
class Pass:
    """Events that one run counts.

    Attributes
    ----------
    name : str
        `main`, or what sets the pass apart (`page-cache`, `perf_event`, …).
    source : str
        The name of its source, or `none` when no hardware metric was requested.
    metrics : tuple of Metric
        The hardware (or simulated) metrics, in column order.
    events : tuple of Event, default ()
        What the sampler opens for them; none when simulated.
    machine : Machine, optional
        The simulated machine, when simulated.
    multiplexed : bool, default False
        The events take turns on the counters, and their counts are scaled.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    events: tuple[Event, ...] = ()
    machine: Machine | None = None
    multiplexed: bool = False


@dataclass(frozen=True)
class Request:
    """Constraints on a plan of passes.

    Attributes
    ----------
    machine : Machine
        Caches of the simulated machine.
    compiler : str
        C compiler for the sampler that tries events.
    shared : frozenset of str, optional
        Metrics that every pass holds (those that runs are aligned by).
    sampler : {"inside", "outside"}, default "inside"
        Where counts are read: in the program, or by an observer beside it.
    multiplex : bool, default False
        Metrics that do not fit together share the counters in turns instead of going to several passes.
    overflow : tuple of str and int, optional
        The metric whose counts end intervals, and how many do.
    together : tuple of frozenset of str, default ()
        Metrics that something is computed from interval by interval: each set is put into one pass where it fits.
    """

    machine: Machine
    compiler: str
    shared: frozenset[str] = frozenset()
    sampler: Literal["inside", "outside"] = "inside"
    multiplex: bool = False
    overflow: tuple[str, int] | None = None
    together: tuple[frozenset[str], ...] = ()


Planned = tuple[list[Pass], dict[str, str]]
"""Passes, and for each metric that none of them holds the reason."""


@dataclass(frozen=True)
class Answer:
    """The outcome of trying one event on this host.

    Attributes
    ----------
    name : str
        Of the event.
    reason : str
        `ok`, or the library's own words.
    code : int
        The library's own number of the error, or the number of events that fit.
    description : str, default ""
        What the event counts, as the library describes it.
    unit : str, default ""
        As the library gives it.
    """

    name: str
    reason: str
    code: int
    description: str = ""
    unit: str = ""

    @property
    def good(self) -> bool:
        """Tell whether the event can be counted."""
        return self.reason == "ok"


@dataclass(frozen=True, eq=False)
class Trials:
    """How a source finds out what this host can count.

    Attributes
    ----------
    root : Path
        Where sysfs, procfs and tracefs are looked for.
    compiler : str
        C compiler for the program that tries events.
    ask : callable
        Takes questions of `runtime/tools/trials.c` and the path of a PAPI library; returns kind and `Answer` of each,
        and why there are no more, empty when the program came to its end.
    """

    root: Path
    compiler: str
    ask: Callable[[Sequence[str], str], tuple[list[tuple[str, Answer]], str]]


@dataclass(frozen=True)
class SourceSupport:
    """How one source counts a metric, or why it cannot here.

    Attributes
    ----------
    source : str
        Its name.
    kind : Kind
        Of the metric when this source counts it.
    unit : str
        Of one count.
    meaning : str
        One line for people.
    problem : str, default ""
        Why the source cannot count it on this host; empty when it can.
    """

    source: str
    kind: Kind
    unit: str
    meaning: str
    problem: str = ""

    @property
    def available(self) -> bool:
        """Tell whether the source counts the metric on this host."""
        return not self.problem


@dataclass(frozen=True)
class CatalogueEntry:
    """A metric of the catalogue.

    Attributes
    ----------
    name : str
        As a spec has it.
    family : str
        The group that it is listed in, such as `PAPI preset`, `software event`, `simulator event`.
    ways : tuple of SourceSupport
        How each source counts it, the preferred first; never empty.
    aliases : tuple of str, default ()
        Other names of the same event.
    searched_only : bool, default False
        It is listed only where a pattern selects it, for there are thousands.
    """

    name: str
    family: str
    ways: tuple[SourceSupport, ...]
    aliases: tuple[str, ...] = ()
    searched_only: bool = False

    @property
    def best(self) -> SourceSupport:
        """Return the way that `source: auto` takes; when none works, the first."""
        return next((way for way in self.ways if way.available), self.ways[0])


@dataclass(frozen=True)
class SourceState:
    """A source on this host.

    Attributes
    ----------
    name : str
        The source's name.
    version : str, default ""
        Of the library behind it; empty when it has none.
    problem : str, default ""
        Why it counts nothing here; empty when it does.
    fits : int, optional
        How many hardware (or simulated) metrics one run held when it was tried; None when nothing could be tried, or
        nothing limits it.
    note : str, default ""
        One line on that number.
    """

    name: str
    version: str = ""
    problem: str = ""
    fits: int | None = None
    note: str = ""


@dataclass(frozen=True)
class SourceCatalogue:
    """The entry of a source in the catalogue of metrics.

    Attributes
    ----------
    state : SourceState
        Whether it counts here, and how much at once.
    entries : sequence of CatalogueEntry
        Each with this source's way alone; entries of one name are merged over the sources.
    tracepoints : mapping of str to int, optional
        Subsystem to the number of its tracepoints.
    tracepoint_problem : str, default ""
        Why tracepoints cannot be counted here; empty when they can.
    """

    state: SourceState
    entries: Sequence[CatalogueEntry] = ()
    tracepoints: Mapping[str, int] = field(default_factory=dict)
    tracepoint_problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of hardware counts.

    A module of `unperturbed.collectors.sources` that defines one is found by itself; another distribution adds one by
    an entry point of the group `unperturbed.sources`.

    Attributes
    ----------
    name : str
        As a spec's `source:` and a trace's metrics have it.
    title : str
        Its name in sentences.
    order : int
        Place among all sources for `source: auto`; the least is tried first.
    event : callable
        Takes a metric's name; returns the `Event` that the sampler opens, or None when the source knows no such name.
    metric : callable
        Takes a name that `event` knows; returns its `Metric`.
    catalogue : callable
        Takes `Trials`; returns the `SourceCatalogue` of this host.
    refusal : callable, optional
        Takes a name that `event` does not know; returns why, or None.
    leader : callable, optional
        Takes an `Event`; returns the one that must lead its group, or None where any may.
    sentence : str, default "Counted by {title} {place}."
        What the report says of the numbers; `{place}` becomes how they were read.
    prefix : str, default ""
        Before every name of its own, such as `perf::`.
    yields_to : tuple of str, default ()
        Prefixes of other sources: that it cannot count their names is not news worth a note.
    c_file : Path, optional
        C text that defines `c_name`; compiled into every sampler. In this project it includes
        `runtime/common/sources.h`; for another distribution that header is put before it. None where no sampler
        reads the source.
    c_name : str, default ""
        Of the source's `struct unperturbed_source` in C.
    number : int, default 0
        In record files; 0 takes one from the name.
    timed : bool, default False
        A record has how long each event was on a counter, so that multiplexed counts can be scaled.
    simulated : bool, default False
        Counts are those of a simulated machine.
    plan : callable, optional
        Takes names and a `Request`; returns `Planned`. Without it events are tried by opening them.
    columns : callable, optional
        Takes the pass, the source's own output file of the run and the number of intervals; yields each metric with its
        counts. Without it counts are those in the records.
    library : callable, optional
        Returns the library that the user chose, by its path or a name for the dynamic linker; empty for the system's.
    observer_library : callable, optional
        Returns the library that the observer loads, empty for the system's.
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
    columns: Callable[[Pass, Path, int], Iterator[tuple[Metric, NDArray[Any]]]] | None = None
    library: Callable[[], str] = str
    observer_library: Callable[[], str] = str

    def __post_init__(self) -> None:
        if self.number == 0:  # the high bit keeps it apart from those that are given
            object.__setattr__(self, "number", zlib.crc32(self.name.encode()) | 1 << 31)

    @property
    def sampled(self) -> bool:
        """Tell whether a sampler reads it: inside the program or from an observer."""
        return self.c_file is not None
