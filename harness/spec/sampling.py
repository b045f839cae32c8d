"""Rules on how `measure:` takes its samples: which settings go with which sampler, clock and source."""

from __future__ import annotations

from unperturbed.errors import SpecError
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.fields import EventFields
from unperturbed.harness.spec.models import Measure
from unperturbed.harness.spec.yamlpos import YamlPath
from unperturbed.instrument.events import EVENT_KEYS, parse_event

__all__ = ["check_sampling"]

_INSIDE_ONLY = {
    "signal": "the observer outside sends no signal",
    "alternate_stack": "the observer outside sends no signal",
    "reading": "the observer outside only reads: counters that it stopped and started would miss what the program does meanwhile",
    "threads": "the observer outside counts every thread",
}
_OUTSIDE_ONLY = {
    "children": "only the observer (sampler: outside) can count child processes",
    "observer_cpu": "only sampler: outside has an observer",
    "pin": "only sampler: outside has an observer",
}
_TAKEN_SIGNALS = (9, 19, 32, 33)
_UNSEEN_OUTSIDE = {"blocks_read": "bytes_read", "blocks_written": "bytes_written"}
_PROCESSOR_CLOCKS = ("process-cpu", "thread-cpu", "work")


def check_sampling(draft: Draft) -> None:
    """Note every fault of the sampler's settings that no field has by itself."""
    outside = draft.value("measure", "sampler") == "outside"
    for field, why in (_INSIDE_ONLY if outside else _OUTSIDE_ONLY).items():
        if draft.has("measure", field) and (
            field == "threads" or draft.value("measure", field) != Measure.model_fields[field].default
        ):
            draft.blame_key(("measure", field), f"`{field}` has no meaning here: {why}")
    if outside:
        _check_outside(draft)
    if draft.value("measure", "signal") in _TAKEN_SIGNALS:
        draft.blame(
            ("measure", "signal"),
            "this signal cannot be handled, or is the C library's own: take one from 34 on (real-time signals)",
        )
    _check_multiplexing(draft)
    _check_work(draft)
    _check_software(draft)


def _check_software(draft: Draft) -> None:
    """Check software metrics that are not compiled in against what carries them."""
    for path in draft.keys("measure", "software").values():
        event = draft.value(*path)
        kinds = set(event) if isinstance(event, dict) else set()
        _check_known_part(draft, path, event)
        if "probe" in kinds and draft.value("measure", "source") == "simulated":
            draft.blame_key(
                path,
                "the kernel's probes do not work in a simulated program: measure its real counters (source: perf_event), or compile the "
                "metric in",
            )
        if kinds & {"preload", "python"} and draft.value("program", "shell") is True and not draft.has("program", "build"):
            draft.blame_key(
                path,
                "a program that is not built here is found by its name: give the program itself in `run`, without `shell: true`",
            )


def _check_known_part(draft: Draft, path: YamlPath, event: object) -> None:
    """Check the rest of an event that has unknown keys: the model looks no further then."""
    known = {field.alias or name for name, field in EventFields.model_fields.items()}
    if not isinstance(event, dict) or known >= set(event) or set(EVENT_KEYS).isdisjoint(event):
        return
    try:
        parse_event({key: value for key, value in event.items() if key in known})
    except SpecError as error:
        draft.blame(path, str(error))


def _check_outside(draft: Draft) -> None:
    if draft.value("measure", "source") == "simulated":
        draft.blame(
            ("measure", "source"),
            "simulated counts need sampler: inside: the simulator ends its intervals from inside the program",
        )
    clock = draft.value("measure", "clock")
    if clock in _PROCESSOR_CLOCKS:
        draft.blame(("measure", "clock"), f"the observer outside ticks by wall-clock time (`monotonic`), not by `{clock}`")
    if draft.value("program", "shell") is True and draft.value("measure", "children") is not True:
        draft.blame_key(
            ("measure", "sampler"),
            "with `shell: true` the program is a child of the shell: set `children: true` to have it counted",
        )
    for path, name in draft.texts("measure", "os"):
        if name in _UNSEEN_OUTSIDE:
            draft.blame(path, f"the kernel does not tell another process about `{name}`; take `{_UNSEEN_OUTSIDE[name]}`")


def _check_multiplexing(draft: Draft) -> None:
    if draft.value("measure", "multiplex") is not True:
        return
    if draft.value("measure", "reading") == "reset":
        draft.blame_key(
            ("measure", "multiplex"), "counters that take turns cannot be reset at each sample: take `reading: read`"
        )
    if draft.value("measure", "threads") == "all" and draft.value("measure", "sampler") != "outside":
        draft.blame_key(
            ("measure", "multiplex"),
            "counts that are scaled in every thread by another share do not add up: take `threads: main`",
        )
    if draft.value("measure", "source") in ("papi", "simulated"):
        draft.blame(
            ("measure", "source"),
            "only perf_event tells how long each event that takes turns was counted: take perf_event or auto",
        )


def _check_work(draft: Draft) -> None:
    if draft.value("measure", "clock") != "work":
        return
    if draft.value("measure", "source") in ("papi", "perf_event"):
        draft.blame(("measure", "clock"), "only the simulator knows the work done: take `source: simulated`, or another clock")
    if not isinstance(draft.value("measure", "interval"), dict):
        draft.blame(
            ("measure", "interval"), "work is not measured in time: ask for a number of intervals, as in `{records: 200}`"
        )
