"""Hook for pyperf: `python -m pyperf … --hook unperturbed` records counters of each worker in pyperf's JSON.

pyperf creates one hook for a worker's warm-up and one for its values, and calls `__enter__` and `__exit__` around each
value, outside the timed part. Each value of `pyperf command` is measured in a separate process with its own hook: the
counts of these hooks go to the worker's hook, because pyperf keeps only the last hook's metadata.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyperf._hooks import HookBase, HookError

from unperturbed.collectors.runtime import load_counters
from unperturbed.collectors.self_counting.process import ProcessCounters, ThreadCounters
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS, PRESETS, is_native
from unperturbed.collectors.sources.perf.events import PREFIX, describe
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, PerfCode
from unperturbed.collectors.sources.perf.sysfs import leader
from unperturbed.common.wording import did_you_mean
from unperturbed.errors import HostError, SpecError, UnperturbedError

_NO_ROOM = "too few counters to count this event together with the events listed before it"
_SIMULATED = "callgrind::"


@dataclass(frozen=True)
class Chosen:
    """Opened counters of the requested metrics, and the metrics that this process cannot count."""

    thread: tuple[ThreadCounters, ...]  # Opened counters of the calling thread
    process: tuple[ProcessCounters, ...]  # Opened counters of the operating system
    refused: Mapping[str, str]  # Each metric that cannot be counted, and why


def choose(names: Sequence[str], *, compiler: str = "cc", children: bool = False) -> Chosen:
    """Open the operating-system counters, and each other metric with PAPI or else perf_event.

    Nothing is multiplexed: if the metrics do not all fit the counters, those named first are counted.
    `children`: Also count processes that this thread starts; PAPI is then not used.
    """
    for name in names:
        if name.startswith(PREFIX):
            with suppress(HostError):  # the name may be valid on another host
                describe(name)
        elif name not in PRESETS and name not in OS_METRICS and not is_native(name):
            known = [*PRESETS, *OS_METRICS, *(PREFIX + event for event in (*GENERIC, *ALIASES))]
            advice = did_you_mean(name, known) or "`unperturbed metrics` lists all metrics"
            raise SpecError(f"unknown metric {name!r}; {advice}")
    left = [name for name in names if name not in OS_METRICS]
    if left:
        load_counters(compiler)
    why: dict[str, list[str]] = {name: [] for name in names}
    thread: list[ThreadCounters] = []
    for source, candidates in (("papi", _papi), ("perf_event", _perf_event)):
        events, refused = candidates(left, children)
        opened, more = _as_many_as_fit(events, source, compiler=compiler, children=children)
        thread += opened
        for name, reason in {**refused, **more}.items():
            why[name].append(f"{source}: {reason}")
        left = [name for name in left if not any(name in counters.totals for counters in opened)]
    process, closed = _process([name for name in names if name in OS_METRICS], children=children)
    return Chosen(tuple(thread), process, {name: "; ".join(why[name]) for name in left} | closed)


_Candidates = tuple[dict[str, PerfCode], dict[str, str]]


def _papi(names: Sequence[str], children: bool) -> _Candidates:
    """Return the events that PAPI shall try; `perf::` names go to perf_event, which records how long it counted."""
    own = [name for name in names if not name.startswith((PREFIX, _SIMULATED))]
    if children:
        return {}, dict.fromkeys(own, "not used, because it cannot count other processes")
    return dict.fromkeys(own, PerfCode(0, 0)), {}


def _perf_event(names: Sequence[str], _children: bool) -> _Candidates:
    events: dict[str, PerfCode] = {}
    refused: dict[str, str] = {}
    for name in names:
        if name.startswith(_SIMULATED):
            refused[name] = "it has no simulated events; use a campaign"
            continue
        try:
            code = describe(name).code
        except UnperturbedError as error:
            refused[name] = str(error)
            continue
        if leader(code.as_event(name)) is None:
            events[name] = code
        else:
            refused[name] = "a topdown event must be in a group led by perf::slots; use a campaign"
    return events, refused


def _as_many_as_fit(
    events: Mapping[str, PerfCode], source: str, *, compiler: str, children: bool
) -> tuple[list[ThreadCounters], dict[str, str]]:
    """Open as many events together as fit, in their order; return why the rest cannot be counted."""

    def attempt(some: Mapping[str, PerfCode], *, keep: bool = False) -> tuple[list[ThreadCounters], str]:
        counters = ThreadCounters(some, source, compiler=compiler, children=children)
        try:
            counters.open()
        except HostError as error:
            return [], str(error)
        runs = counters.runs()
        if keep and runs:
            return [counters], ""
        counters.close()
        return [], "" if runs else _NO_ROOM

    if not events:
        return [], {}
    opened, reason = attempt(events, keep=True)
    if opened:
        return opened, {}
    if reason.startswith(("libpapi: ", "PAPI_library_init: ")):  # not about an event
        return [], dict.fromkeys(events, reason)
    kept: dict[str, PerfCode] = {}
    refused: dict[str, str] = {}
    for name, code in events.items():
        _, reason = attempt({name: code})
        if not reason and kept and attempt({**kept, name: code})[1]:
            reason = _NO_ROOM
        if reason:
            refused[name] = reason.removeprefix(f"{name}: ").replace(f" of {name}", "")
        else:
            kept[name] = code
    if not kept:
        return [], refused
    opened, reason = attempt(kept, keep=True)
    return opened, refused if opened else {**refused, **dict.fromkeys(kept, reason)}


def _process(names: Sequence[str], *, children: bool) -> tuple[tuple[ProcessCounters, ...], dict[str, str]]:
    """Open the operating-system counters group by group: an unreadable file in /proc affects only its group."""
    opened = []
    closed: dict[str, str] = {}
    for group in OS_GROUPS:
        wanted = [name for name in names if name in group.metrics]
        if not wanted:
            continue
        if children and group.source == "schedstat":
            closed |= dict.fromkeys(wanted, f"{group.source}: it counts only the main thread, not other processes")
            continue
        counters = ProcessCounters(group, wanted, children=children)
        try:
            counters.open()
            opened.append(counters)
        except HostError as error:
            closed |= dict.fromkeys(wanted, f"{group.source}: {error}")
    return tuple(opened), closed


METRICS_VARIABLE = "UNPERTURBED_METRICS"
"""Variable with the metrics to count, separated by commas; `pyperf --inherit-environ` passes it on to the workers."""

DEFAULT_METRICS = (
    *("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_MSP", "PAPI_L1_DCM"),
    *("perf::task-clock", "perf::page-faults", "perf::context-switches"),
    *("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "user_time_us", "system_time_us"),
)
"""Default metrics; metrics that the host cannot count are left out."""

_PREFIX = "unperturbed_"
_TALLIES_VARIABLE = "UNPERTURBED_PYPERF_TALLIES"
_EMPTY_PAIRS = 15
_WORKER = "PAPI and perf_event: the worker's main thread; the operating system's counters: the whole worker"
_COMMAND = "the command, all processes that it starts and waits for, and the thread that starts the command"


@dataclass
class Tally:
    """Counts between `__enter__` and `__exit__`, and their source."""

    scope: str  # The threads or processes whose events are counted
    sources: dict[str, list[str]] = field(default_factory=dict)  # Each source, and the metrics that it counted
    refused: dict[str, str] = field(default_factory=dict)  # Metrics that could not be counted, each with the reason
    # Nonzero counts of an empty pair, with nothing between `__enter__` and `__exit__` (median).
    empty: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # Sum of each metric over all pairs
    # pairs, unread: Number of pairs of `__enter__` and `__exit__`, and of those that could not be read, not in totals.
    pairs: int = 0
    unread: int = 0
    # enabled_ns, running_ns: How long perf_event's events were enabled, and how long they were counted.
    enabled_ns: int = 0
    running_ns: int = 0
    # CPU time of the worker's other threads during the pairs, not included in the counts of its main thread.
    other_threads_ns: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another process with the same counters."""
        self.sources, self.refused, self.empty = other.sources, other.refused, other.empty
        for name, value in other.totals.items():
            self.totals[name] = self.totals.get(name, 0) + value
        self.pairs += other.pairs
        self.unread += other.unread
        self.enabled_ns += other.enabled_ns
        self.running_ns += other.running_ns

    def metadata(self) -> dict[str, int | str]:
        """Return the entries for pyperf's metadata, which accepts numbers and nonempty single lines."""
        entries: dict[str, int | str] = {**self.totals, "pairs": self.pairs, "scope": self.scope}
        entries["counted_by"] = "; ".join(f"{source}: {', '.join(names)}" for source, names in self.sources.items())
        entries["not_counted"] = _grouped(self.refused)
        entries["empty_pair"] = ", ".join(f"{name} {value}" for name, value in self.empty.items())
        if "perf_event" in self.sources:
            entries |= {"enabled_ns": self.enabled_ns, "running_ns": self.running_ns}
        if not self.sources.keys().isdisjoint(("papi", "perf_event")):
            share = self.running_ns / self.enabled_ns if self.running_ns < self.enabled_ns else 1
            partly = f"yes: counted {share:.1%} of the time; the totals are not scaled up"
            entries["multiplexed"] = "no" if share == 1 else partly
        if self.scope == _WORKER:
            entries["other_threads_ns"] = self.other_threads_ns
        if self.unread:
            entries["unread_pairs"] = self.unread
        return {_PREFIX + name: value for name, value in entries.items() if value != ""}


def _grouped(refused: Mapping[str, str]) -> str:
    """Return one line with all refused metrics, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in refused.items():
        names.setdefault(reason, []).append(name)
    return " ".join("; ".join(f"{', '.join(alike)} ({reason})" for reason, alike in names.items()).split())


class UnperturbedHook(HookBase):  # type: ignore[misc]  # pyperf has no types
    """pyperf hook that counts events of a worker, or of the measured command, between `__enter__` and `__exit__`.

    A pair of calls takes about 10 µs, outside the time that pyperf measures. `unperturbed_empty_pair` is the hook's own
    contribution to the counts.
    """

    def __init__(self) -> None:
        super().__init__()
        # Remove the variable: the measured command must not see it.
        report_to = os.environ.pop(_TALLIES_VARIABLE, None)
        self._report_to = None if report_to is None else Path(report_to)
        if self._report_to is None:
            _check_passed_on()
        counts_commands = "pyperf._command" in sys.modules
        named = (name.strip() for name in os.environ.get(METRICS_VARIABLE, "").split(","))
        wanted = tuple(dict.fromkeys(filter(None, named)))
        try:
            children = counts_commands or self._report_to is not None
            self._counting = _Counting(wanted or DEFAULT_METRICS, children=children)
        except UnperturbedError as error:
            raise HookError(str(error)) from None
        self._tallies: int | None = None
        if counts_commands and self._report_to is None:
            # Opened only to find errors here, where pyperf shows them: these counters count more than the command.
            self._counting.close()
            self._tallies = os.memfd_create("unperturbed-tallies")
            os.environ[_TALLIES_VARIABLE] = f"/proc/{os.getpid()}/fd/{self._tallies}"

    def __enter__(self) -> None:
        if self._tallies is None:
            self._counting.begin()

    def __exit__(self, *_: object) -> None:
        if self._tallies is None:
            self._counting.end()

    def teardown(self, metadata: MutableMapping[str, Any]) -> None:
        """Stop counting, and add the counts to pyperf's metadata."""
        if self._tallies is None:
            self._counting.close()
            tally = self._counting.tally()
        else:
            del os.environ[_TALLIES_VARIABLE]
            tally = Tally(_COMMAND)
            with os.fdopen(self._tallies) as file:
                file.seek(0)
                for line in file:
                    tally.add(Tally(**json.loads(line)))
        if self._report_to is not None:
            with self._report_to.open("a") as file:
                file.write(json.dumps(asdict(tally)) + "\n")
            return
        # The warm-up's hook added entries for the same worker.
        for name in [name for name in metadata if name.startswith(_PREFIX)]:
            del metadata[name]
        metadata.update(tally.metadata())


class _Counting:
    """Opened counters of this process; thread counters start last and stop first, so as not to count other readings."""

    def __init__(self, names: Sequence[str], *, children: bool) -> None:
        self._chosen = choose(names, children=children)
        self._scope = _COMMAND if children else _WORKER
        self._inward: tuple[ProcessCounters | ThreadCounters, ...] = (*self._chosen.process, *self._chosen.thread)
        self._outward = self._inward[::-1]
        if not self._inward:
            refused = _grouped(self._chosen.refused)
            raise HostError(f"none of the metrics in {METRICS_VARIABLE} can be counted here: {refused}")
        self._empty = self._empty_pair()
        self._pairs = self._other_threads_ns = 0

    def begin(self) -> None:
        self._others_before_ns = time.process_time_ns() - time.thread_time_ns()
        for counters in self._inward:
            counters.begin()

    def end(self) -> None:
        for counters in self._outward:
            counters.end()
        self._other_threads_ns += max(0, time.process_time_ns() - time.thread_time_ns() - self._others_before_ns)
        self._pairs += 1

    def close(self) -> None:
        for counters in self._inward:
            counters.close()

    def tally(self) -> Tally:
        timed = [counters for counters in self._chosen.thread if counters.source == "perf_event"]
        return Tally(
            scope=self._scope,
            sources={counters.source: list(counters.totals) for counters in self._outward},
            refused=dict(self._chosen.refused),
            empty={name: value for name, value in self._empty.items() if value},
            totals=self._totals(),
            pairs=self._pairs,
            unread=sum(counters.unread for counters in self._chosen.thread),
            enabled_ns=sum(counters.enabled_ns for counters in timed),
            running_ns=sum(counters.running_ns for counters in timed),
            other_threads_ns=self._other_threads_ns,
        )

    def _totals(self) -> dict[str, int]:
        return {name: total for counters in self._outward for name, total in counters.totals.items()}

    def _empty_pair(self) -> dict[str, int]:
        """Return the median counts of readings without work between them, and reset all totals to zero."""
        self._pairs = self._other_threads_ns = 0
        seen = []
        for _ in range(_EMPTY_PAIRS):
            self.begin()
            self.end()
            seen.append(self._totals())
            for counters in self._inward:
                counters.clear()
        return {name: round(statistics.median(pair[name] for pair in seen)) for name in seen[0]}


def _check_passed_on() -> None:
    """Raise an error if the user set METRICS_VARIABLE, but pyperf did not pass it on to this worker."""
    if METRICS_VARIABLE in os.environ:
        return
    try:
        environment = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:  # another user's process, therefore not pyperf
        return
    if any(entry.startswith(f"{METRICS_VARIABLE}=".encode()) for entry in environment.split(b"\0")):
        lost = f"{METRICS_VARIABLE} is set, but pyperf does not pass it on to its workers"
        raise HookError(f"{lost}: add --inherit-environ={METRICS_VARIABLE} to the command")
