"""`measure`: what is measured, how often and by which means, and rules on the sampler's settings and on metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from unperturbed.collectors.sources import find_sources
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.common.expressions.metrics import MetricExpression, parse_metric_expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.model import (
    ADDED_LATER,
    AS_MAPPING,
    AS_TEXT,
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
    SoftwareMetric,
    check_metrics,
    means_of,
)
from unperturbed.harness.spec.sections.program import DEFAULT_TIMEOUT
from unperturbed.harness.spec.text import MetricName, Text
from unperturbed.harness.spec.yaml import YamlPath
from unperturbed.instrument.events import event_keys, parse_event

SHORTEST_INTERVAL_NS = 1_000_000
_LAST_STANDARD_SIGNAL = 31

DEFAULT_RECORDS = 200
"""Intervals of a run where a spec leaves their length open: enough for steady rank correlations (30 are the least)."""

HardwareMetric = Annotated[
    Text, WithJsonSchema({"anyOf": [{"enum": list(PRESETS)}, {"type": "string", "pattern": NATIVE_PATTERN}]})
]
OsMetric = Annotated[Text, WithJsonSchema({"enum": list(OS_METRICS)})]


class Records(Section):
    """A number of intervals, instead of their length."""

    records: Annotated[int, Because("a rank correlation over fewer intervals is too uncertain")] = Field(
        ge=30, le=10_000_000, examples=[3000]
    )
    """Number of intervals of a run. A pilot run finds their length for this host and source."""


def _to_interval(value: Duration | WorkInterval | Records) -> Interval:
    if isinstance(value, WorkInterval):
        return value
    if isinstance(value, Records):
        return Interval(records=value.records)
    if value.ns < SHORTEST_INTERVAL_NS:
        raise ValueError(
            f"an interval of {value} is too short, the minimum is 1 ms: each sample takes the program some 10 us"
        )
    return Interval(nanoseconds=value.ns)


_TextOrRecords = Annotated[
    Annotated[IntervalText, Tag(AS_TEXT)] | Annotated[Records, Tag(AS_MAPPING)], Discriminator(text_or_mapping)
]
IntervalValue = Annotated[Interval, reading(_TextOrRecords, _to_interval)]


Derived = Annotated[MetricExpression, reading(Text, parse_metric_expression)]


if TYPE_CHECKING:
    SourceName = str
else:  # one of another distribution is found by its entry point
    SourceName = Literal[("auto", *find_sources())]


class Measure(Section):
    """What is measured, how often, and by which means."""

    interval: IntervalValue | None = Field(
        default=None,
        examples=["20 ms", {"records": 3000}, "2 M instructions"],
        json_schema_extra={"default": {"records": DEFAULT_RECORDS}},
    )
    """Length of an interval, at least 1 ms; or `{records: N}`: a pilot run finds the length that gives N intervals per
    run; or counts of a hardware metric (`2 M instructions`): its overflow ends an interval. A sweep counts whole runs
    and has no intervals."""
    clock: Literal["auto", "monotonic", "process-cpu", "thread-cpu", "work"] = Field(default="auto")
    """Clock that ends intervals: wall-clock time (`monotonic`), CPU time of the process or of the sampled thread
    (`process-cpu`, `thread-cpu`: they tick with the kernel's jiffy, 1 to 10 ms), or work done (`work`: quanta of
    100,000 basic blocks of the simulator, the same in every run). `auto` takes work when counts are simulated,
    wall-clock time otherwise. With `work`, an interval given in time is as long as what the pilot run does in it."""
    sampler: Literal["inside", "outside"] = Field(default="inside")
    """Where samples are taken: by a timer signal inside the program, or by an observer process outside it. For the
    observer the program executes no instruction at a sample."""
    threads: Annotated[Literal["main", "all"], ADDED_LATER] = Field(default="main")
    """Inside: whose hardware counters are read. `main`: the main thread's. `all`: those of all threads, by a sampler in
    each. The observer outside always counts all threads."""
    children: Annotated[bool, ADDED_LATER] = Field(default=False)
    """Outside: count hardware events of the program's child processes too; `os` counters stay the program's own."""
    reading: Annotated[Literal["read", "reset"], ADDED_LATER] = Field(default="read")
    """How the inside sampler takes its counts. `read`: it reads counters that keep running. `reset`: it stops, reads,
    resets and starts them at each sample, as the paper does."""
    multiplex: Annotated[bool, ADDED_LATER] = Field(default=False)
    """Let metrics that do not fit the counters together take turns in one run. Their counts are then scaled, and the
    trace states from which share of the time. By default, such metrics are counted in several passes."""
    signal: Annotated[int | None, ADDED_LATER, Because("these are the numbers of Linux's signals")] = Field(
        default=None, ge=1, le=64
    )
    """Number of the inside sampler's signal. By default a real-time signal, and SIGURG where counts end intervals."""
    alternate_stack: Annotated[bool, ADDED_LATER] = Field(default=False)
    """Inside: handle the signal on the program's alternate signal stack, if it has one."""
    observer_cpu: Annotated[int | None, ADDED_LATER] = Field(default=None, ge=0, le=4095)
    """Outside: processor for the observer; the program gets the others. By default the last one."""
    pin: Annotated[bool, ADDED_LATER] = Field(default=True)
    """Outside: keep observer and program on processors of their own, if there are at least two."""
    source: SourceName = Field(default="auto")
    """Where hardware metrics come from. `auto` takes for each metric the first source that can count it on this host,
    and reports which one, and why."""
    hardware: Annotated[tuple[HardwareMetric, ...], ListOf] = Field(
        default=(), examples=[["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM"]]
    )
    """Hardware metrics: PAPI presets, or names of a source's own (`perf::page-faults`). The baseline runs measure these
    and `os` alone."""
    os: Annotated[tuple[OsMetric, ...], ListOf] = Field(default=())
    """Counters that the operating system keeps for the program."""
    software: Annotated[Mapping[MetricName, SoftwareMetric], Frozen] = Field(
        default_factory=empty, examples=[{"blocks": {"enter": "compress_block"}}]
    )
    """Software metrics: a name, and the event that it counts. Most are compiled into the program; `probe`, `preload`
    and `python` count in an unmodified program."""
    derived: Annotated[Mapping[MetricName, Derived], Frozen] = Field(
        default_factory=empty,
        examples=[{"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"}, {"retiring": "perf-metric:tma_retiring"}],
    )
    """Metrics computed from others interval by interval, with + - * /, parentheses, `min(a, b)`, `max(a, b)` and `a if
    b > c else d`. Division by zero gives no value in that interval. A name that is no identifier needs single quotes.
    `perf-metric:NAME` is a metric of perf's own tables."""
    simulator: Simulator = Field(default_factory=Machine)
    """Caches of the simulated source."""

    @property
    def interval_event(self) -> str:
        """Return the hardware metric whose counts end intervals; empty where time or the simulator does."""
        return self.interval.event(self.hardware) if isinstance(self.interval, WorkInterval) else ""


_INSIDE_ONLY = {
    "signal": "the observer outside sends no signal",
    "alternate_stack": "the observer outside sends no signal",
    "reading": "the observer outside only reads: stopped counters would miss what the program does meanwhile",
    "threads": "the observer outside counts every thread",
}
_OUTSIDE_ONLY = {
    "children": "only the observer (sampler: outside) can count child processes",
    "observer_cpu": "only sampler: outside has an observer",
    "pin": "only sampler: outside has an observer",
}
_UNSEEN_OUTSIDE = {"blocks_read": "bytes_read", "blocks_written": "bytes_written"}
_CONFLICTS: tuple[tuple[Mapping[str, Collection[Any]], str, str], ...] = (
    (
        {"signal": (9, 19, 32, 33)},
        "signal",
        "this signal cannot be handled, or belongs to the C library: use one from 34 on (real-time signals)",
    ),
    (
        {"sampler": ["outside"], "source": ["simulated"]},
        "source",
        "simulated counts need sampler: inside: the simulator ends its intervals from inside the program",
    ),
    (
        {"sampler": ["outside"], "clock": ("process-cpu", "thread-cpu", "work")},
        "clock",
        "the observer outside ticks by wall-clock time (`monotonic`), not by `{}`",
    ),
    (
        {"multiplex": [True], "reading": ["reset"]},
        "multiplex",
        "counters that take turns cannot be reset at each sample: use `reading: read`",
    ),
    (
        {"multiplex": [True], "sampler": ["inside"], "threads": ["all"]},
        "multiplex",
        "counts that are scaled in every thread by another share do not add up: use `threads: main`",
    ),
    (
        {"multiplex": [True], "source": [name for name, source in find_sources().items() if not source.timed]},
        "source",
        "only perf_event reports how long each event that takes turns was counted: use perf_event or auto",
    ),
    (
        {"clock": ["work"], "source": [name for name, source in find_sources().items() if not source.simulated]},
        "clock",
        "only the simulator knows the work done: use `source: simulated`, or another clock",
    ),
)
"""Settings whose values exclude each other, the one that is reported, and the message, with `{}` for its value."""


def _check(draft: Draft) -> None:
    check_metrics(draft)
    given = {name: draft.value("measure", name) for name in Measure.model_fields if draft.has("measure", name)}
    settings = {name: field.default for name, field in Measure.model_fields.items()} | given
    for field, why in (_INSIDE_ONLY if settings["sampler"] == "outside" else _OUTSIDE_ONLY).items():
        if field in given and (field == "threads" or given[field] != Measure.model_fields[field].default):
            draft.report_key(("measure", field), f"`{field}` has no meaning here: {why}")
    for conflict, field, message in _CONFLICTS:
        if all(settings[name] in values for name, values in conflict.items()):
            report = draft.report_key if given[field] is True else draft.report
            report(("measure", field), message.format(settings[field]))
    if settings["sampler"] == "outside":
        _check_outside(draft)
    _check_interval(draft, settings["clock"])
    for path in draft.keys("measure", "software").values():
        _check_event(draft, path, draft.value(*path))


def _check_outside(draft: Draft) -> None:
    if draft.value("program", "shell") is True and draft.value("measure", "children") is not True:
        draft.report_key(
            ("measure", "sampler"),
            "with `shell: true` the program is a child of the shell: set `children: true` to have it counted",
        )
    for path, name in draft.texts("measure", "os"):
        if name in _UNSEEN_OUTSIDE:
            what = f"the kernel does not report `{name}` to another process; use `{_UNSEEN_OUTSIDE[name]}`"
            draft.report(path, what)


def _check_interval(draft: Draft, clock: object) -> None:
    path = ("measure", "interval")
    interval = draft.value(*path)
    if clock == "work" and interval is not None and not isinstance(interval, dict):
        draft.report(path, "work is not measured in time: ask for a number of intervals, as in `{records: 200}`")
    try:
        length = parse_interval(interval)
        if isinstance(length, WorkInterval):
            _check_work(draft, length)
            return
        timeout = parse_duration(
            draft.value("program", "timeout") if draft.has("program", "timeout") else DEFAULT_TIMEOUT
        )
    except ValueError:
        return  # one is not given, or its own check has a message
    if length >= timeout:
        draft.report(path, f"an interval of {length} is not shorter than the timeout of a run, {timeout}")


def _check_work(draft: Draft, interval: WorkInterval) -> None:
    """Check an interval that counts of an event shall end."""
    path = ("measure", "interval")
    listed = [name for _, name in draft.texts("measure", "hardware")]
    event = interval.event(listed)
    if interval.unit in TIMES or interval.unit.removesuffix(":u") in TIMES:
        draft.report(path, f"{interval.unit} counts time: write a length, as in `20 ms`, with `clock: thread-cpu`")
    elif not event:
        counters = COUNTED_BY.get(interval.unit)
        meant = "" if counters else draft.did_you_mean(interval.unit, listed)
        advice = meant or f"add {' or '.join(counters or (interval.unit,))} to `hardware`"
        it = "them" if counters else "it"
        draft.report(path, f"{interval.unit} cannot end intervals, as no metric counts {it}: {advice}")
    if draft.value("measure", "source") == "simulated":
        draft.report(
            path,
            "no counter of the simulator overflows: for intervals of equal work there, write `clock: work` and "
            "`interval: {records: 200}`",
        )
    elif draft.has("measure", "clock") and draft.value("measure", "clock") != "auto":
        draft.report_key(("measure", "clock"), "`clock` has no effect here: counts end the intervals, not time")
    if draft.value("measure", "multiplex") is True:
        draft.report_key(
            ("measure", "multiplex"),
            f"the counter of {interval.unit} ends the intervals and cannot be shared in turns: leave multiplex out",
        )
    number = draft.value("measure", "signal")
    if isinstance(number, int) and number > _LAST_STANDARD_SIGNAL:
        draft.report(
            ("measure", "signal"),
            "real-time signals queue up while the program blocks them, until the kernel kills it: where counts end "
            f"intervals, use one up to {_LAST_STANDARD_SIGNAL}, or leave `signal` out",
        )


def _check_event(draft: Draft, path: YamlPath, event: object) -> None:
    """Check a software metric against what counts it, if that is not compiled in."""
    _check_known_part(draft, path, event)
    means = means_of(event)
    if "kernel" in means and draft.value("measure", "source") == "simulated":
        draft.report_key(
            path,
            "kernel probes do not work in a simulated program: measure its real counters (source: perf_event), "
            "or compile the metric in",
        )
    if means & PRELOADED and draft.value("program", "shell") is True and not draft.has("program", "build"):
        draft.report_key(
            path, "a program that is not built here is found by its name: give it in `run`, without `shell: true`"
        )


def _check_known_part(draft: Draft, path: YamlPath, event: object) -> None:
    """Check the rest of an event that has unknown keys: the model looks no further then."""
    known = {field.alias or name for name, field in EventFields.model_fields.items()}
    if not isinstance(event, dict) or known >= set(event) or set(event_keys()).isdisjoint(event):
        return
    try:
        parse_event({key: value for key, value in event.items() if key in known})
    except SpecError as error:
        draft.report(path, str(error))


MEASURE = SpecKey("measure", Measure, "What is measured of it, and how often.", _check, required=True)
