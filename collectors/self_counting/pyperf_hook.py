"""A hook for pyperf: `python -m pyperf … --hook unperturbed` records counters of each worker in its JSON.

pyperf makes one hook for a worker's warm-up and one for its values, and calls `__enter__` and `__exit__` around each
value, outside of what it times. Each value of `pyperf command` has a process of its own, and that process a hook: what
those have counted goes to the worker's hook, because pyperf itself keeps only the last one's metadata.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyperf._hooks import HookBase, HookError

from unperturbed.collectors.self_counting.metrics import choose
from unperturbed.collectors.self_counting.process import ProcessCounters, ThreadCounters
from unperturbed.errors import HostError, UnperturbedError

METRICS_VARIABLE = "UNPERTURBED_METRICS"
"""Names what to count, separated by commas; pyperf hands it on to its workers by `--inherit-environ`."""

DEFAULT_METRICS = (
    "PAPI_TOT_INS",
    "PAPI_TOT_CYC",
    "PAPI_BR_MSP",
    "PAPI_L1_DCM",
    "perf::task-clock",
    "perf::page-faults",
    "perf::context-switches",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "user_time_us",
    "system_time_us",
)
"""What is counted, as far as the host has it, when nothing is named."""

_PREFIX = "unperturbed_"
_TALLIES_VARIABLE = "UNPERTURBED_PYPERF_TALLIES"
_EMPTY_PAIRS = 15
_WORKER = "PAPI and perf_event: the worker's main thread; the operating system's counters: the whole worker"
_COMMAND = "the command, all that it starts and waits for, and the thread that starts it"


@dataclass
class Tally:
    """What was counted between `__enter__` and `__exit__`, and how."""

    scope: str  # Whose events these are
    sources: dict[str, list[str]] = field(default_factory=dict)  # Each source, and the metrics that it counted
    refused: dict[str, str] = field(default_factory=dict)  # Metrics that could not be counted, each with the reason
    # What a pair with nothing in between counts (median), where that is not zero.
    empty: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # Sum of each metric over all pairs
    # pairs, unread: Of `__enter__` and `__exit__`; those of them that could not be read, and are in no total.
    pairs: int = 0
    unread: int = 0
    # enabled_ns, running_ns: How long perf_event's counters were wanted, and counted.
    enabled_ns: int = 0
    running_ns: int = 0
    # CPU time of the worker's other threads meanwhile, which no counter of its main thread holds.
    other_threads_ns: int = 0

    def add(self, other: Tally) -> None:
        """Add what another process counted in the same way."""
        self.sources, self.refused, self.empty = other.sources, other.refused, other.empty
        for name, value in other.totals.items():
            self.totals[name] = self.totals.get(name, 0) + value
        self.pairs += other.pairs
        self.unread += other.unread
        self.enabled_ns += other.enabled_ns
        self.running_ns += other.running_ns

    def metadata(self) -> dict[str, int | str]:
        """Return the entries for pyperf's metadata, which takes numbers and single lines that are not empty."""
        entries: dict[str, int | str] = {**self.totals, "pairs": self.pairs, "scope": self.scope}
        entries["counted_by"] = "; ".join(f"{source}: {', '.join(names)}" for source, names in self.sources.items())
        entries["not_counted"] = _grouped(self.refused)
        entries["empty_pair"] = ", ".join(f"{name} {value}" for name, value in self.empty.items())
        if "perf_event" in self.sources:
            entries |= {"enabled_ns": self.enabled_ns, "running_ns": self.running_ns}
        if not self.sources.keys().isdisjoint(("papi", "perf_event")):
            entries["multiplexed"] = self._multiplexed()
        if self.scope == _WORKER:
            entries["other_threads_ns"] = self.other_threads_ns
        if self.unread:
            entries["unread_pairs"] = self.unread
        return {_PREFIX + name: value for name, value in entries.items() if value != ""}

    def _multiplexed(self) -> str:
        if self.running_ns >= self.enabled_ns:
            return "no"
        return f"yes: counted {self.running_ns / self.enabled_ns:.1%} of the time; the totals are not scaled up"


def _grouped(refused: Mapping[str, str]) -> str:
    """Return one line of all that was refused, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in refused.items():
        names.setdefault(reason, []).append(name)
    return " ".join("; ".join(f"{', '.join(alike)} ({reason})" for reason, alike in names.items()).split())


class UnperturbedHook(HookBase):  # type: ignore[misc]  # pyperf has no types
    """Counts what a pyperf worker, or the command that it measures, does between `__enter__` and `__exit__`.

    Notes
    -----
    A pair of calls costs some 10 µs, none of it inside the time that pyperf takes. What the hook and pyperf do between
    their reading and the benchmark's first instruction is in the counts: `unperturbed_empty_pair` says how much of that
    is the hook's.
    """

    def __init__(self) -> None:
        super().__init__()
        # Taken out, so that the measured command does not see it.
        report_to = os.environ.pop(_TALLIES_VARIABLE, None)
        self._report_to = None if report_to is None else Path(report_to)
        if self._report_to is None:
            _check_passed_on()
        counts_commands = "pyperf._command" in sys.modules
        try:
            self._counting = _Counting(_wanted(), children=counts_commands or self._report_to is not None)
        except UnperturbedError as error:
            raise HookError(str(error)) from None
        self._tallies: int | None = None
        if counts_commands and self._report_to is None:
            # Opened only to meet mistakes here, where pyperf shows them. What it counts is not the command alone.
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
        """Stop counting, and enter what was counted."""
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
        # The hook of the warm-up left entries for the same worker.
        for name in [name for name in metadata if name.startswith(_PREFIX)]:
            del metadata[name]
        metadata.update(tally.metadata())


class _Counting:
    """The opened counters of this process.

    Those of the thread start last and stop first, for reading the others is work that they would count.
    """

    def __init__(self, names: Sequence[str], *, children: bool) -> None:
        self._chosen = choose(names, children=children)
        self._scope = _COMMAND if children else _WORKER
        self._inward: tuple[ProcessCounters | ThreadCounters, ...] = (*self._chosen.process, *self._chosen.thread)
        self._outward = self._inward[::-1]
        if not self._inward:
            raise HostError(
                f"nothing of what {METRICS_VARIABLE} names can be counted here: {_grouped(self._chosen.refused)}"
            )
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
        """Return what a pair with nothing in between counts; all totals are zero again."""
        self._pairs = self._other_threads_ns = 0
        seen = []
        for _ in range(_EMPTY_PAIRS):
            self.begin()
            self.end()
            seen.append(self._totals())
            for counters in self._inward:
                counters.clear()
        return {name: round(statistics.median(pair[name] for pair in seen)) for name in seen[0]}


def _wanted() -> tuple[str, ...]:
    named = [name.strip() for name in os.environ.get(METRICS_VARIABLE, "").split(",")]
    return tuple(dict.fromkeys(name for name in named if name)) or DEFAULT_METRICS


def _check_passed_on() -> None:
    """Refuse to count the defaults when the user named metrics to pyperf, and pyperf kept that from its worker."""
    if METRICS_VARIABLE in os.environ:
        return
    try:
        environment = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    except OSError:  # the parent is somebody else's: then it is not pyperf
        return
    if any(entry.startswith(f"{METRICS_VARIABLE}=".encode()) for entry in environment.split(b"\0")):
        raise HookError(
            f"{METRICS_VARIABLE} is set, but pyperf does not hand it on to its workers: add "
            f"--inherit-environ={METRICS_VARIABLE}"
        )
