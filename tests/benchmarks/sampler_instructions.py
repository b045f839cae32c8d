"""Instructions that each sampler adds to the program.

A record by the inside sampler's handler, none by the outside one; and the interrupts instead.

    python tests/benchmarks/sampler_instructions.py [--deliveries 41] [--quick] [--json FILE] [--markdown]

Counted twice: by callgrind, and natively by stepping the program through its handler, which sees the clock's code in
the kernel's vDSO too.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampler_program import EIGHT_EVENTS, METRICS, THREE_EVENTS, UNITS, build_program, environment
from sampler_report import Section, Table, deliver, host_state, parse_arguments
from sampler_stepping import step_handlers

from unperturbed.collectors.records.file import SIGNAL, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import Event
from unperturbed.errors import RunError

BOUND = 300
_SITES = (4, 16, 64)
"""Sites in each unit: one a metric in the whole program, one a metric and unit, four a metric and unit."""
_READS = ("syscall", "read", "__read", "__libc_read", "__GI___libc_read")
_LIBRARIES = ("libpapi", "libpfm")
_HANDLER = "on_plain_tick"
_READERS = ("read_events", "read_group", "read_as_asked")
"""The runtime's functions that call the counter library once a record; which of them depends on what the compiler
inlined."""
_REPEATS = 5
_ENDLESS = "1000000000"

Place = tuple[str, str]
"""An object (its file's name) and a function in it."""


def _is_counter_library(place: Place) -> bool:
    binary, function = place
    return function in _READS or binary.startswith(_LIBRARIES)


def _setup(interval_ns: int, events: tuple[Event, ...], **kwargs: Any) -> Setup:
    return Setup(
        "perf_event" if events else "none", interval_ns, "monotonic", events=events, software=METRICS, **kwargs
    )


def _run(folder: Path, command: list[str], setup: Setup) -> Records:
    record = folder / "record"
    create_record_file(record, setup)
    observer = [build_observer("gcc"), record] if setup.sampler == "outside" else []
    given = environment(record) | {"LD_BIND_NOW": "1"}  # else the first record's count holds the dynamic linker's
    done = subprocess.run([*map(str, observer), *command], env=given, capture_output=True, text=True, check=False)
    records = read_record_file(record, setup)
    if records.state != "finished":
        raise RunError(f"a run ended in state {records.state}: {records.message or done.stderr}")
    return records


def _callgrind(folder: Path) -> list[str]:
    return [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        "--compress-strings=no",
        f"--callgrind-out-file={folder / 'dump'}",
    ]


@dataclass(frozen=True)
class _Costs:
    """Callgrind's file: each function's own instructions.

    For each (caller, callee) the calls and what they cost with all they called.
    """

    own: Counter[Place]
    calls: Counter[tuple[Place, Place]]
    called: Counter[tuple[Place, Place]]


def _read_costs(dump: str) -> _Costs:
    costs = _Costs(Counter(), Counter(), Counter())
    here: Place = ("", "")
    there: Place = ("", "")
    inclusive = False
    for line in dump.splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            here = (Path(value).name, "")
        elif key == "fn":
            here = there = (here[0], value)
        elif key == "cob":
            there = (Path(value).name, "")
        elif key == "cfn":
            there = (there[0], value)
        elif key == "calls":
            costs.calls[here, there] += int(value.split()[0])
            inclusive = True
        elif match := re.match(r"[+\-*\d]+ (\d+)$", line):
            if inclusive:
                costs.called[here, there] += int(match[1])
                there = here  # a call within the same object names none
            else:
                costs.own[here] += int(match[1])
            inclusive = False
    return costs


def _total(folder: Path) -> int:
    return int(re.search(r"^summary: (\d+)", (folder / "dump").read_text(), re.MULTILINE)[1])  # type: ignore[index]


def inside_by_callgrind(folder: Path, program: Path, turns: int) -> dict[str, Any]:
    """Return the handler's instructions a record as callgrind counts them."""
    records = _run(folder, [*_callgrind(folder), str(program), str(turns)], _setup(5_000_000, EIGHT_EVENTS))
    handled = len(records.rows) - 2 - records.unread  # the first and the last are written outside the handler
    if records.unread or records.nested or handled < 5:
        raise RunError(
            f"{len(records.rows)} records under callgrind, {records.unread} without counts, {records.nested} ticks "
            "nested"
        )
    costs = _read_costs((folder / "dump").read_text())
    handler = sum(cost for (_, function), cost in costs.own.items() if function == _HANDLER)
    handler += sum(cost for ((_, caller), _), cost in costs.called.items() if caller == _HANDLER)
    reads = [edge for edge in costs.calls if edge[0][1] in _READERS and _is_counter_library(edge[1])]
    library = sum(costs.called[edge] for edge in reads) / sum(costs.calls[edge] for edge in reads)
    return {"records": handled, "handler": handler / handled - library, "library": library}


def inside_by_stepping(folder: Path, program: Path, deliveries: int) -> dict[str, Any]:
    """Return the instructions from the handler's first to the return to the program, each record's for itself."""
    setup = _setup(20_000_000, EIGHT_EVENTS)
    create_record_file(folder / "record", setup)
    given = environment(folder / "record") | {"LD_BIND_NOW": "1"}
    found = step_handlers([str(program), _ENDLESS], given, SIGNAL, deliveries)
    whole = [sum(profile.values()) for profile in found]
    library = [sum(cost for place, cost in profile.items() if _is_counter_library(place)) for profile in found]
    clock = [sum(cost for (binary, _), cost in profile.items() if binary == "[vdso]") for profile in found]
    own = [a - b - c for a, b, c in zip(whole, library, clock, strict=True)]
    typical = sorted(found, key=lambda profile: sum(profile.values()))[len(found) // 2]
    return {
        "records": len(found),
        "handler": statistics.median(own),
        "handler_range": [min(own), max(own)],
        "library": statistics.median(library),
        "clock": statistics.median(clock),
        "whole": statistics.median(whole),
        "profile": {" ".join(place): cost for place, cost in typical.most_common()},
    }


def outside_by_callgrind(folder: Path, program: Path, turns: int) -> dict[str, Any]:
    """Return what the program executes under an observer at two intervals, and with no sampler at all."""
    command = [*_callgrind(folder), str(program), str(turns)]
    totals: list[list[int]] = [[], []]
    records: list[list[int]] = [[], []]
    for _ in range(_REPEATS):  # a process's number may have a digit more in one of them
        for way, interval_ns in enumerate((200_000, 10_000_000)):
            found = _run(folder, command, _setup(interval_ns, THREE_EVENTS, sampler="outside"))
            totals[way].append(_total(folder))
            records[way].append(len(found.rows))
    subprocess.run(command, env=environment() | {"LD_BIND_NOW": "1"}, capture_output=True, check=True)
    alone = _total(folder)
    _run(folder, command, _setup(3600_000_000_000, EIGHT_EVENTS))
    return {
        "instructions": totals,
        "records": records,
        "a_record": (min(totals[0]) - min(totals[1])) / (statistics.median(records[0]) - statistics.median(records[1])),
        "spread": max(max(same) - min(same) for same in totals),
        "set_up": min(totals[1]) - alone,
        "inside_set_up": _total(folder) - alone,
    }


def interrupts(folder: Path, program: Path, turns: int) -> list[dict[str, Any]]:
    """Return the interrupts a record that the other processors took while the observer read, by its way of reading."""
    ways: dict[str, dict[str, Any]] = {
        "one group of three events": {"events": THREE_EVENTS},
        "three events apart (multiplexed)": {"events": THREE_EVENTS, "multiplex": True},
        "software counters alone": {"events": ()},
    }
    found = []
    for interval_ms in (10, 1):
        for name, given in ways.items():
            records = _run(
                folder, [str(program), str(turns)], _setup(interval_ms * 1_000_000, sampler="outside", **given)
            )
            share = records.interrupts / len(records.rows)
            found.append({"reading": name, "interval_ms": interval_ms, "records": len(records.rows), "a_record": share})
    return found


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments(__doc__.splitlines()[0] if __doc__ else "", deliveries=(41, "records stepped through"))
    before = host_state()
    deliveries = 7 if arguments.quick else arguments.deliveries
    turns = 60 if arguments.quick else 300
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inside = []
        for sites in _SITES:
            program = build_program(folder, sites=sites)
            by_callgrind = inside_by_callgrind(folder, program, turns)
            by_stepping = inside_by_stepping(folder, program, deliveries)
            inside.append({"sites": sites * UNITS, "callgrind": by_callgrind, "stepping": by_stepping})
        program = build_program(folder)
        outside = outside_by_callgrind(folder, program, turns // 6)
        interrupted = interrupts(folder, program, 40 * turns)
    deliver(_section(inside, outside, interrupted), arguments, before)


def _section(inside: list[dict[str, Any]], outside: dict[str, Any], interrupted: list[dict[str, Any]]) -> Section:
    first = inside[0]
    least = first["callgrind"]["handler"]
    holds = "holds" if least <= BOUND else "does not hold"
    profile = first["stepping"]["profile"]
    return Section(
        script="sampler_instructions",
        title="Instructions a record",
        method=(
            f"Eight of the kernel's software events in one group and {METRICS} software metrics in {UNITS} "
            "translation units. Inside: user "
            "instructions of the signal handler a record, by callgrind (which has no vDSO: clock_gettime is a system "
            "call there) and natively, "
            f"stepped one by one, median of {first['stepping']['records']} records. The counter library is the C "
            "library's call of read(2) here. "
            "Outside: all user instructions of the program under callgrind, at two intervals and without a sampler."
        ),
        tables=[
            Table(
                "Inside: instructions a record",
                [
                    "sites",
                    "handler, callgrind",
                    "handler, stepped",
                    "counter library",
                    "clock (vDSO)",
                    "whole, stepped",
                ],
                [
                    [
                        str(row["sites"]),
                        f"{row['callgrind']['handler']:.0f}",
                        f"{row['stepping']['handler']:.0f}",
                        f"{row['stepping']['library']:.0f}",
                        f"{row['stepping']['clock']:.0f}",
                        f"{row['stepping']['whole']:.0f}",
                    ]
                    for row in inside
                ],
            ),
            Table(
                f"Inside: where they go, {first['sites']} sites, one record stepped through",
                ["function", "instructions"],
                [[place, str(cost)] for place, cost in profile.items()],
            ),
            Table(
                "Instructions of the program under callgrind",
                ["sampler", "set-up, once", "a record"],
                [
                    ["outside", f"{outside['set_up']:,}", f"{outside['a_record']:.2f}"],
                    ["inside", f"{outside['inside_set_up']:,}", f"{least:.0f} + {first['callgrind']['library']:.0f}"],
                ],
            ),
            Table(
                "Outside: function call interrupts on the program's processors, a record",
                ["reading", "interval", "records", "interrupts a record"],
                [
                    [row["reading"], f"{row['interval_ms']} ms", str(row["records"]), f"{row['a_record']:.2f}"]
                    for row in interrupted
                ],
            ),
        ],
        verdicts=[
            f"The bound of {BOUND} instructions a record beyond the counter library, 8 hardware and {METRICS} "
            "software counters: "
            f"{least:.0f} by callgrind; it {holds}.",
            "Every further site costs "
            f"{(inside[-1]['callgrind']['handler'] - least) / (inside[-1]['sites'] - first['sites']):.1f} "
            "instructions.",
            f"The outside sampler adds {abs(outside['a_record']):.2f} instructions a record: "
            f"{min(outside['instructions'][0]):,} with "
            f"{statistics.median(outside['records'][0]):.0f} records, {min(outside['instructions'][1]):,} with "
            f"{statistics.median(outside['records'][1]):.0f}; {_REPEATS} equal runs differ by {outside['spread']} "
            "among themselves.",
        ],
        data={"inside": inside, "outside": outside, "interrupts": interrupted},
    )


if __name__ == "__main__":
    main()
