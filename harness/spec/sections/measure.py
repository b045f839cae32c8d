"""Section `measure`: metrics, intervals and settings of the sampler, and rules on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from unperturbed.collectors.sources import find_sources
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.common.expressions.metrics import MetricExpression, parse_metric_expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.model import (
    ADDED_LATER,
    AS_CHOICE,
    AS_EVENTS,
    AS_MAPPING,
    AS_TEXT,
    MAY_CHANGE,
    Because,
    Draft,
    Frozen,
    ListOf,
    Section,
    SpecKey,
    empty,
    reading,
    text_or_mapping,
)
from unperturbed.harness.spec.quantities import (
    COUNTED_BY,
    TIMES,
    Duration,
    EventInterval,
    Interval,
    IntervalText,
    Simulator,
    WorkInterval,
    parse_duration,
    parse_interval,
)
from unperturbed.harness.spec.sections._metrics import (
    NATIVE_PATTERN,
    PRELOADED,
    EventFields,
    Metrics,
    SoftwareMetric,
    check_jvm,
    check_metrics,
    means_of,
)
from unperturbed.harness.spec.sections.program import DEFAULT_TIMEOUT
from unperturbed.harness.spec.text import MetricName, Text, Texts
from unperturbed.harness.spec.yaml import YamlPath
from unperturbed.instrument.events import Event, event_keys, parse_event

SHORTEST_INTERVAL_NS = 1_000_000
_LAST_STANDARD_SIGNAL = 31

DEFAULT_RECORDS = 200
"""Default number of intervals in a run: enough for stable rank correlations (the minimum is 30)."""

HardwareMetric = Annotated[
    Text, WithJsonSchema({"anyOf": [{"enum": list(PRESETS)}, {"type": "string", "pattern": NATIVE_PATTERN}]})
]
OsMetric = Annotated[Text, WithJsonSchema({"enum": list(OS_METRICS)})]


class Records(Section):
    """Number of intervals, instead of their length."""

    records: Annotated[int, Because("a rank correlation over fewer intervals is too uncertain")] = Field(
        ge=30, le=10_000_000, examples=[3000]
    )
    """Number of intervals in a run. A pilot run finds the length that gives about so many here."""


class Events(Section):
    """Events of a software metric that end an interval, instead of a time."""

    every: int = Field(ge=1, le=10**15, examples=[1000])
    """Number of events in an interval."""
    of: MetricName = Field(examples=["blocks"])
    """The software metric whose events end intervals. Its counter must be compiled in, and add 1 for each event."""


def _to_interval(value: Duration | WorkInterval | Records | Events) -> Interval:
    if isinstance(value, WorkInterval):
        return value
    if isinstance(value, Events):
        return EventInterval(every=value.every, of=value.of)
    if isinstance(value, Records):
        return Interval(records=value.records)
    if value.ns < SHORTEST_INTERVAL_NS:
        raise ValueError(
            f"an interval of {value} is too short: the minimum is 1 ms, because a sample costs the program about 10 us"
        )
    return Interval(nanoseconds=value.ns)


def _choose_interval(value: Any) -> str:
    """Return the tag of an interval's form: a text, a number of intervals, or a number of events."""
    return AS_EVENTS if isinstance(value, dict) and {"every", "of"}.intersection(value) else text_or_mapping(value)


_IntervalForms = Annotated[
    Annotated[IntervalText, Tag(AS_TEXT)] | Annotated[Records, Tag(AS_MAPPING)] | Annotated[Events, Tag(AS_EVENTS)],
    Discriminator(_choose_interval),
]
IntervalValue = Annotated[Interval, reading(_IntervalForms, _to_interval)]


Derived = Annotated[MetricExpression, reading(Text, parse_metric_expression)]


if TYPE_CHECKING:
    SourceName = str
else:  # entry points of other distributions add names
    SourceName = Literal[("auto", *find_sources())]


Estimate = Literal["scaled", "interpolated", "cleaned", "smoothed"]


class Turns(Section):
    """How metrics share counters."""

    estimate: Estimate = Field(default="scaled")
    """How the counts of an interval are estimated from the time in which a metric had a counter. `scaled`: divided by
    the share of that time, as perf and PAPI do; there is no value without any. `interpolated`: rates change linearly
    between the intervals in which the metric had one. `cleaned`: outliers become the median, missing counts the mean of
    the five nearest. `smoothed`: the rates of all metrics are a random walk, whose covariance is estimated from the
    run."""


_TurnsOrNot = Annotated[
    Annotated[bool, Tag(AS_CHOICE)] | Annotated[Turns, Tag(AS_MAPPING)],
    Discriminator(lambda value: AS_MAPPING if isinstance(value, dict) else AS_CHOICE),
]


class Measure(Section):
    """What is measured, how, and how often."""

    interval: IntervalValue | None = Field(
        default=None,
        examples=["20 ms", {"records": 3000}, "2 M instructions", {"every": 1000, "of": "blocks"}],
        json_schema_extra={"default": {"records": DEFAULT_RECORDS}},
    )
    """Length of an interval: a time of at least 1 ms, a number of intervals, counts of a hardware metric, or events of
    a software metric. With `{records: N}`, a pilot run finds the length that divides a run into about N intervals. If
    counts are simulated, a length is a whole number of quanta, so that a run of few quanta can have a quarter fewer or
    half more; a note shows a difference of more than 10 %. With counts (`2 M instructions`), the counter's overflow
    ends an interval. With `{every: N, of: METRIC}`, the program itself ends an interval at each N-th event of a
    software metric in its main thread: interval i holds the same events in every run. Every configuration then counts
    this metric, the baseline too. A sweep counts whole runs, without intervals."""
    after: Annotated[Literal["start", "steady"], ADDED_LATER, MAY_CHANGE] = Field(default="start")
    """Intervals whose correlations are judged. `start`: all. `steady`: those after the warm-up, which is found in each
    configuration: the start that differs from the rest of its runs. Totals are always those of whole runs."""
    clock: Literal["auto", "monotonic", "process-cpu", "thread-cpu", "work"] = Field(default="auto")
    """Clock that ends intervals. `monotonic`: wall-clock time. `process-cpu`, `thread-cpu`: CPU time of the process or
    of the sampled thread, with the resolution of the kernel's jiffy, 1 to 10 ms. `work`: work done, in quanta of
    100,000 basic blocks of the simulator, the same in every run. `auto`: `work` if counts are simulated, otherwise
    `monotonic`. If `auto` means `work`, an interval given in time becomes the work that the pilot run does in it."""
    sampler: Literal["inside", "outside"] = Field(default="inside")
    """Where samples are taken. `inside`: in the program, by a timer signal. `outside`: by an observer process; the
    program itself executes no instruction for a sample."""
    threads: Annotated[Literal["auto", "main", "all", "each"], ADDED_LATER] = Field(default="auto")
    """For `sampler: inside`: threads whose hardware counters are read. `all`: all threads, also those that libraries
    start, with a sampler in each. `main`: only the main thread. `auto`: `all`, but `main` with `multiplex`. `each`: all
    threads one by one. Each thread then has a role, and in the run's folder a trace of its own with its hardware and
    software metrics; software metrics count in variables of each thread, which is exact. `sampler: outside` and
    simulated counters always count all threads: with the latter, `main` is refused for a program that starts threads,
    and `each` also separates them."""
    processes: Annotated[Literal["all", "first"], ADDED_LATER] = Field(default="all")
    """Processes that are counted. `all`: the program's first process and all processes that it starts, directly or not;
    a run lasts until all have ended. Their counts are added, and each has a trace of its own (`sampler: inside`).
    `first`: the first process alone; a run ends with it, and the others are killed."""
    children: Annotated[bool, ADDED_LATER] = Field(default=False)
    """The older way to write `processes: all` for `sampler: outside`: it has no effect any more."""
    reading: Annotated[Literal["read", "reset"], ADDED_LATER] = Field(default="read")
    """How `sampler: inside` reads counters. `read`: counters keep running. `reset`: each sample stops, reads, resets
    and restarts the counters, as in the original paper."""
    multiplex: Annotated[_TurnsOrNot, ADDED_LATER] = Field(default=False, examples=[{"estimate": "smoothed"}])
    """Let metrics that do not fit the hardware counters together take turns in one run. Their counts are then
    estimated, and the trace states the share of the time that each was counted. By default, several passes count such
    metrics. `true` means `{estimate: scaled}`."""
    signal: Annotated[int | None, ADDED_LATER, Because("Linux numbers its signals from 1 to 64")] = Field(
        default=None, ge=1, le=64
    )
    """For `sampler: inside`: number of the sampler's signal. By default a real-time signal, or SIGURG if counts end
    intervals."""
    alternate_stack: Annotated[bool, ADDED_LATER] = Field(default=False)
    """For `sampler: inside`: handle the signal on the program's alternate signal stack, if the program has one."""
    observer_cpu: Annotated[int | None, ADDED_LATER] = Field(default=None, ge=0, le=4095)
    """For `sampler: outside`: processor for the observer; the program gets the others. By default, the last one."""
    pin: Annotated[bool, ADDED_LATER] = Field(default=True)
    """For `sampler: outside`: keep observer and program on separate processors, if the host has at least two."""
    source: SourceName = Field(default="auto")
    """Source of the hardware metrics. For each metric, `auto` takes the first source that can count the metric on this
    host, and reports the choice and the reason."""
    hardware: Annotated[tuple[HardwareMetric, ...], ListOf] = Field(
        default=(), examples=[["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM"]]
    )
    """Hardware metrics: PAPI presets, or events with a source's prefix (`perf::page-faults`). Baseline runs measure
    only metrics under `hardware` and `os`."""
    passes: Annotated[tuple[Texts, ...], ListOf, ADDED_LATER] = Field(
        default=(), examples=[[["PAPI_L1_DCM", "PAPI_BR_MSP"], ["PAPI_LD_INS", "PAPI_SR_INS"]]]
    )
    """Hardware metrics of each pass, beside those that every pass counts: instructions, cycles, and the metrics that
    runs are aligned on. `unperturbed partition --hardware` writes them. By default, the passes are found on each
    host."""
    os: Annotated[tuple[OsMetric, ...], ListOf] = Field(default=())
    """Counters that the operating system keeps for the program."""
    software: Annotated[Mapping[MetricName, SoftwareMetric], Frozen] = Field(
        default_factory=empty, examples=[{"blocks": {"enter": "compress_block"}}]
    )
    """Software metrics: each has a name and counts an event. Most are compiled into the program; `probe`, `preload`,
    `python` and `jvm` count in an unmodified program."""
    derived: Annotated[Mapping[MetricName, Derived], Frozen] = Field(
        default_factory=empty,
        examples=[{"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"}, {"retiring": "perf-metric:tma_retiring"}],
    )
    """Metrics computed from others, interval by interval, with + - * /, parentheses, `min(a, b)`, `max(a, b)` and `a if
    b > c else d`. In an interval with a division by zero, the metric has no value. Put a name in single quotes if it is
    not an identifier. `perf-metric:NAME` is a metric from perf's own tables."""
    simulator: Simulator = Field(default_factory=Machine)
    """The simulated machine: its caches, and how many metrics it counts at once."""

    @property
    def estimate(self) -> Estimate:
        """Return how counts of metrics that take turns are estimated."""
        return self.multiplex.estimate if isinstance(self.multiplex, Turns) else "scaled"

    @property
    def samples_all_threads(self) -> bool:
        """Return whether each thread has a sampler of its own."""
        chosen = self.threads in ("all", "each") or (self.threads == "auto" and not self.multiplex)
        return chosen and self.sampler == "inside"

    def compiled_event(self, metric: str) -> Event:
        """Return what a software metric counts, as the instrumenting compiler compiles it in."""
        event = self.software[metric]
        return replace(event, threads="each") if self.threads == "each" and event.means == "compiled" else event

    @property
    def counts_children(self) -> bool:
        """Return whether processes that the program starts are counted."""
        return self.processes == "all" and not (self.multiplex and self.sampler == "inside")

    @property
    def interval_event(self) -> str:
        """Return the hardware metric whose counts end intervals; '' if time or the simulator ends them."""
        return self.interval.event(self.hardware) if isinstance(self.interval, WorkInterval) else ""

    @property
    def interval_metric(self) -> str:
        """Return the software metric whose events end intervals; '' if anything else ends them."""
        return self.interval.of if isinstance(self.interval, EventInterval) else ""


_INSIDE_ONLY = {
    "signal": "`sampler: outside` sends no signal",
    "alternate_stack": "`sampler: outside` sends no signal",
    "reading": "`sampler: outside` only reads counters, because stopped counters would miss events",
    "threads": "`sampler: outside` counts all threads",
}
_OUTSIDE_ONLY = {
    "observer_cpu": "only `sampler: outside` has an observer process",
    "pin": "only `sampler: outside` has an observer process",
}
_UNSEEN_OUTSIDE = {"blocks_read": "bytes_read", "blocks_written": "bytes_written"}
_CONFLICTS: tuple[tuple[Mapping[str, Collection[Any]], str, str], ...] = (
    (
        {"signal": (9, 19, 32, 33)},
        "signal",
        "a program cannot handle this signal, or the C library uses it: use a real-time signal, 34 to 64",
    ),
    (
        {"sampler": ["outside"], "source": ["simulated"]},
        "source",
        "simulated counts need `sampler: inside`, because the simulator ends its intervals from inside the program",
    ),
    (
        {"sampler": ["outside"], "clock": ("process-cpu", "thread-cpu", "work")},
        "clock",
        "`sampler: outside` takes samples by wall-clock time: use `clock: monotonic` instead of `{}`",
    ),
    (
        {"multiplex": [True], "reading": ["reset"]},
        "multiplex",
        "multiplexed counters cannot be reset at each sample: use `reading: read`",
    ),
    (
        {"multiplex": [True], "sampler": ["inside"], "threads": ["all", "each"]},
        "multiplex",
        "multiplexed counts of several threads cannot be added, because each thread scales them differently: use "
        "`threads: main`",
    ),
    (
        {
            "multiplex": [True],
            "source": [name for name, source in find_sources().items() if not (source.timed or source.simulated)],
        },
        "source",
        "only perf_event reports how long it counted each multiplexed event: use `source: perf_event` or `auto`",
    ),
    (
        {"clock": ["work"], "source": [name for name, source in find_sources().items() if not source.simulated]},
        "clock",
        "only the simulator can measure work: use `source: simulated`, or another clock",
    ),
)
"""Conflicts: settings with values that exclude each other, the setting to report, and the message (`{}`: its value)."""


def _check(draft: Draft) -> None:
    check_metrics(draft)
    given = {name: draft.value("measure", name) for name in Measure.model_fields if draft.has("measure", name)}
    settings = {name: field.default for name, field in Measure.model_fields.items()} | given
    settings["multiplex"] = settings["multiplex"] is True or isinstance(settings["multiplex"], dict)
    for field, why in (_INSIDE_ONLY if settings["sampler"] == "outside" else _OUTSIDE_ONLY).items():
        if field in given and (field == "threads" or given[field] != Measure.model_fields[field].default):
            draft.report_key(("measure", field), f"`{field}` has no meaning here: {why}")
    for conflict, field, message in _CONFLICTS:
        if all(settings[name] in values for name, values in conflict.items()):
            report = draft.report_key if field == "multiplex" or given[field] is True else draft.report
            report(("measure", field), message.format(settings[field]))
    if settings["sampler"] == "outside":
        _check_outside(draft)
    if settings["after"] == "steady" and draft.has("campaign", "doses"):
        draft.report_key(
            ("measure", "after"),
            "`doses` extrapolates whole runs: leave out `after: steady`, or `doses` under `campaign`",
        )
    if settings["multiplex"] is True and settings["source"] == "simulated":
        _check_turns(draft, settings["clock"])
    _check_passes(draft)
    _check_interval(draft, settings["clock"])
    for path in draft.keys("measure", "software").values():
        _check_event(draft, path, draft.value(*path))
    _check_regions(draft, settings)
    if settings["threads"] == "each" and settings["sampler"] == "inside":
        _check_each(draft)
    check_jvm(draft)


def _check_passes(draft: Draft) -> None:
    """Check the metrics of each pass."""
    path = ("measure", "passes")
    value, listed = draft.value(*path), [name for _, name in draft.texts("measure", "hardware")]
    for other, why in {
        ("measure", "multiplex"): "with `multiplex`, all metrics share each run",
        ("analysis", "together"): "`together` finds passes in which metrics meet",
        ("campaign", "multiplexed"): "`multiplexed` finds the passes that it compares with",
    }.items():
        if value and draft.value(*other):
            draft.report_key(path, f"{why}: remove `passes` or `{other[-1]}`")
    for at, names in enumerate(value if isinstance(value, list) else ()):
        if names == []:
            draft.report((*path, at), "the pass has no metric of its own: remove the empty list")
        for place, name in draft.distinct_texts(*path, at):
            if name not in listed:
                hint = draft.did_you_mean(name, listed) or f"add it to `hardware`, or remove it from `{path[-1]}`"
                draft.report(place, f"`{name}` is not listed under `hardware`; {hint}")


def _check_each(draft: Draft) -> None:
    """Check what threads one by one cannot have."""
    for path in draft.keys("measure", "software").values():
        event = draft.value(*path)
        means = means_of(event)
        if isinstance(event, dict) and "gauge" in event:
            draft.report(path, "`threads: each`: a variable has one value for all threads: use `threads: all`")
        elif means and means != {"compiled"}:
            draft.report(
                path, "`threads: each`: only events that are compiled in are counted by thread: use `threads: all`"
            )
    for other, why in {
        ("campaign", "doses"): "places with several increments count all threads together",
        ("parameters",): "a sweep counts whole runs of all threads together",
    }.items():
        if draft.has(*other):
            draft.report(("measure", "threads"), f"`threads: each` does not work with `{other[-1]}`: {why}")


_WITHOUT_REGIONS: tuple[tuple[str, Collection[Any], str], ...] = (
    ("sampler", ["outside"], "an observer cannot read counters at a function's entry: use `sampler: inside`"),
    ("threads", ["each"], "what several threads count in a function is one number: use `threads: all`"),
    ("multiplex", [True], "a count that takes turns is known for whole intervals only: remove `multiplex`"),
    ("reading", ["reset"], "counters that are reset at each sample have no difference: use `reading: read`"),
)
_ADD = "add it there"
_NO_REGIONS_IN: Mapping[tuple[str, ...], str] = {
    ("campaign", "doses"): "a function has one entry, and not several increments: remove `doses`",
    ("campaign", "multiplexed"): "a count that takes turns is known for whole intervals only: remove `multiplexed`",
    ("parameters",): "a sweep counts hardware and software metrics in runs of their own: remove the metric",
}


def _check_regions(draft: Draft, settings: Mapping[str, Any]) -> None:
    """Check that metrics which count a hardware metric within a function, if there are any, can do so."""
    listed = [name for _, name in draft.texts("measure", "hardware")]
    events = {name: draft.value(*path) for name, path in draft.keys("measure", "software").items()}
    names = [name for name, event in events.items() if isinstance(event, dict) and "within" in event]
    for name in names:
        counted = events[name].get("of")
        if isinstance(counted, str) and counted not in listed:
            meant = draft.did_you_mean(counted, listed)
            draft.report(("measure", "software", name, "of"), f"`{counted}` is not under `hardware`: {meant or _ADD}")
        for other in (("measure", "interval", "of"), ("analysis", "anchor")):
            if draft.text(*other) == name:
                draft.report(
                    other, f"`{name}` counts within a function and has no events: use `enter` of this function"
                )
    for name in names[:1]:
        for field, values, why in _WITHOUT_REGIONS:
            if settings[field] in values:
                draft.report_key(("measure", field), f"`{name}` counts within a function, but {why}")
        for key, why in _NO_REGIONS_IN.items():
            if draft.has(*key) and draft.value(*key) not in (False, None):
                draft.report_key(key, f"`{name}` counts within a function, but {why}")


def _check_outside(draft: Draft) -> None:
    if draft.value("program", "shell") is True and draft.value("measure", "processes") == "first":
        draft.report_key(
            ("measure", "processes"),
            "with `shell: true`, the first process is the shell, and the program is its child: remove `processes`",
        )
    for path, name in draft.texts("measure", "os"):
        if name in _UNSEEN_OUTSIDE:
            what = f"the kernel does not report `{name}` to other processes: use `{_UNSEEN_OUTSIDE[name]}`"
            draft.report(path, what)


def _check_turns(draft: Draft, clock: object) -> None:
    """Check a simulated processor whose metrics take turns on its counters."""
    if not draft.has("measure", "simulator", "counters"):
        draft.report_key(
            ("measure", "multiplex"),
            "the simulator counts all metrics at once: to try how they share counters, add `counters: 4` under "
            "`simulator`, or remove `multiplex`",
        )
    interval = draft.value("measure", "interval")
    if clock not in ("auto", "work") or (isinstance(interval, dict) and "of" in interval):
        draft.report_key(
            ("measure", "multiplex"),
            "simulated metrics take turns after quanta of work: leave out `clock`, and give `interval` as a time or a "
            "number of intervals",
        )


def _check_interval(draft: Draft, clock: object) -> None:
    path = ("measure", "interval")
    interval = draft.value(*path)
    if isinstance(interval, dict) and "of" in interval:
        _check_events(draft, interval["of"])
        return
    if clock == "work" and interval is not None and not isinstance(interval, dict):
        draft.report(
            path,
            "`clock: work` needs a number of intervals instead of their length: write `{records: 200}`, for example",
        )
    try:
        length = parse_interval(interval)
        if isinstance(length, WorkInterval):
            _check_work(draft, length)
            return
        timeout = parse_duration(
            draft.value("program", "timeout") if draft.has("program", "timeout") else DEFAULT_TIMEOUT
        )
    except ValueError:
        return  # a value is missing, or its own check reports it
    if length >= timeout:
        draft.report(path, f"an interval ({length}) must be shorter than the timeout of a run ({timeout})")


def _check_work(draft: Draft, interval: WorkInterval) -> None:
    """Check an interval that ends after an event has occurred a given number of times."""
    path = ("measure", "interval")
    listed = [name for _, name in draft.texts("measure", "hardware")]
    event = interval.event(listed)
    if interval.unit in TIMES or interval.unit.removesuffix(":u") in TIMES:
        draft.report(path, f"`{interval.unit}` counts time: write a time, as in `20 ms`, with `clock: thread-cpu`")
    elif not event:
        counters = COUNTED_BY.get(interval.unit)
        meant = "" if counters else draft.did_you_mean(interval.unit, listed)
        advice = meant or f"add {' or '.join(f'`{counter}`' for counter in counters or (interval.unit,))} to `hardware`"
        it = "them" if counters else "it"
        draft.report(path, f"`{interval.unit}` cannot end intervals, because no metric counts {it}: {advice}")
    if draft.value("measure", "source") == "simulated":
        draft.report(
            path,
            "with `source: simulated`, an interval cannot end after a number of events: for intervals that contain "
            "equal work, write `clock: work` and `interval: {records: 200}`",
        )
    elif draft.has("measure", "clock") and draft.value("measure", "clock") != "auto":
        draft.report_key(
            ("measure", "clock"),
            "`clock` has no effect, because `interval` is a number of events and not a time: remove `clock`",
        )
    if draft.value("measure", "multiplex"):
        draft.report_key(
            ("measure", "multiplex"),
            f"the counter of `{interval.unit}` ends the intervals and cannot be multiplexed: remove `multiplex`",
        )
    number = draft.value("measure", "signal")
    if isinstance(number, int) and number > _LAST_STANDARD_SIGNAL:
        draft.report(
            ("measure", "signal"),
            "`interval` is a number of events, and real-time signals would queue up while the program blocks them, "
            f"until the kernel kills the program: use a signal up to {_LAST_STANDARD_SIGNAL}, or remove `signal`",
        )


def _check_events(draft: Draft, name: object) -> None:
    """Check an interval that ends after a number of events of a software metric."""
    path = ("measure", "interval", "of")
    metrics = Metrics.named_in(draft)
    if isinstance(name, str) and metrics.measured.get(name) != "software":
        draft.report(path, metrics.not_software(draft, name))
    elif isinstance(name, str):
        means, event = means_of(draft.value("measure", "software", name)), draft.value("measure", "software", name)
        if means and means != {"compiled"}:
            draft.report(path, f"`{name}` is not compiled into the program, so its events cannot end intervals: {_USE}")
        elif isinstance(event, dict) and "gauge" in event:
            draft.report(path, f"`{name}` is a variable's value and has no events that could end intervals: {_USE}")
        elif isinstance(event, dict) and "add" in event:
            draft.report(
                path,
                f"`{name}` adds `{event['add']}` for each event, so intervals could not have equal counts: use a "
                "metric of the same event without `add`",
            )
    if draft.value("measure", "sampler") == "outside":
        draft.report_key(
            ("measure", "sampler"),
            "`sampler: outside` cannot end intervals at the program's own events: use `sampler: inside`, or another "
            "`interval`",
        )
    for field, default in {"clock": "auto", "signal": None, "alternate_stack": False}.items():
        if draft.has("measure", field) and draft.value("measure", field) != default:
            draft.report_key(
                ("measure", field),
                f"`{field}` has no effect, because the program's own events end intervals, without a timer or a "
                f"signal: remove `{field}`",
            )


_USE = "use a metric that counts events in code that is compiled here, such as `{enter: FUNCTION}`"


def _check_event(draft: Draft, path: YamlPath, event: object) -> None:
    """Check that a software metric that is not compiled in can be counted with these settings."""
    _check_known_part(draft, path, event)
    means = means_of(event)
    if "kernel" in means and draft.value("measure", "source") == "simulated":
        draft.report_key(
            path,
            "kernel probes do not work in a simulated program: use real counters (`source: perf_event`), or a metric "
            "that is compiled in",
        )
    if means & PRELOADED - {"jvm"} and draft.value("program", "shell") is True and not draft.has("program", "build"):
        draft.report_key(
            path,
            "without `build`, `preload` and `python` find the program by its name in `run`, which `shell: true` does "
            "not allow: remove `shell: true`",
        )


def _check_known_part(draft: Draft, path: YamlPath, event: object) -> None:
    """Parse the known keys of an event that also has unknown keys: the pydantic model rejects it without parsing."""
    known = {field.alias or name for name, field in EventFields.model_fields.items()}
    if not isinstance(event, dict) or known >= set(event) or set(event_keys()).isdisjoint(event):
        return
    try:
        parse_event({key: value for key, value in event.items() if key in known})
    except SpecError as error:
        draft.report(path, str(error))


MEASURE = SpecKey("measure", Measure, "What is measured, and how often.", _check, required=True)
