"""Callgrind as a simulated PMU: formulas of metrics, the command line, and reading of dumps.

Simulated counts are those of a specified machine (two cache levels, a branch predictor), not of the host's processor;
every metric of this source has kind `simulated`, and a meaning that begins with "simulated".
"""

from __future__ import annotations

import mmap
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.covering import cover
from unperturbed.collectors.sources.limits import Limits, divide
from unperturbed.collectors.sources.source import (
    CatalogueEntry,
    Pass,
    Planned,
    Request,
    Source,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
)
from unperturbed.common import supervision
from unperturbed.common.wording import counted
from unperturbed.errors import HostError, RunError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "Ir": "instructions executed",
        "Dr": "data reads",
        "Dw": "data writes",
        "I1mr": "first-level instruction cache misses",
        "D1mr": "first-level data cache read misses",
        "D1mw": "first-level data cache write misses",
        "ILmr": "last-level instruction misses",
        "DLmr": "last-level data read misses",
        "DLmw": "last-level data write misses",
        "Bc": "conditional branches executed",
        "Bcm": "conditional branches mispredicted",
        "Bi": "indirect branches executed",
        "Bim": "indirect branches mispredicted",
    }
)

_L1_MISSES = {"I1mr": 1, "D1mr": 1, "D1mw": 1}
_LL_MISSES = {"ILmr": 1, "DLmr": 1, "DLmw": 1}

FORMULAS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "PAPI_TOT_INS": {"Ir": 1},
        # The cycle estimate of callgrind's viewer, KCachegrind: 1 cycle per instruction, 10 per mispredicted branch, 10
        # per first-level miss, 100 per last-level miss. It is computed from other events, so it never forms an inner
        # pair with them.
        "PAPI_TOT_CYC": {"Ir": 1, **dict.fromkeys(("Bcm", "Bim", *_L1_MISSES), 10), **dict.fromkeys(_LL_MISSES, 100)},
        "PAPI_LD_INS": {"Dr": 1},
        "PAPI_SR_INS": {"Dw": 1},
        "PAPI_LST_INS": {"Dr": 1, "Dw": 1},
        "PAPI_BR_INS": {"Bc": 1, "Bi": 1},
        "PAPI_BR_CN": {"Bc": 1},
        "PAPI_BR_MSP": {"Bcm": 1, "Bim": 1},
        "PAPI_BR_PRC": {"Bc": 1, "Bcm": -1},
        "PAPI_L1_ICM": {"I1mr": 1},
        "PAPI_L1_ICA": {"Ir": 1},
        "PAPI_L1_DCM": {"D1mr": 1, "D1mw": 1},
        "PAPI_L1_DCA": {"Dr": 1, "Dw": 1},
        "PAPI_L1_DCR": {"Dr": 1},
        "PAPI_L1_DCW": {"Dw": 1},
        "PAPI_L1_TCM": _L1_MISSES,
        "PAPI_L1_LDM": {"D1mr": 1},
        "PAPI_L1_STM": {"D1mw": 1},
        **{f"PAPI_L{level}_TCM": _LL_MISSES for level in (2, 3)},
        **{f"PAPI_L{level}_DCM": {"DLmr": 1, "DLmw": 1} for level in (2, 3)},
        **{f"PAPI_L{level}_ICM": {"ILmr": 1} for level in (2, 3)},
        **{f"PAPI_L{level}_LDM": {"DLmr": 1} for level in (2, 3)},
        **{f"PAPI_L{level}_STM": {"DLmw": 1} for level in (2, 3)},
        "PAPI_TLB_DM": {"D1mr": 1, "D1mw": 1},
        **{f"callgrind::{event}": {event: 1} for event in EVENTS},
    }
)
"""Each metric as a linear combination of callgrind's events. PAPI_TLB_DM needs a separate pass (`needs_page_cache`)."""

_DATA_CACHE_EVENTS = frozenset({"D1mr", "D1mw", "ILmr", "DLmr", "DLmw"})
_PAGE_BYTES, _TLB_ENTRIES, _TLB_WAYS = 4096, 64, 4


@dataclass(frozen=True)
class Cache:
    """Simulated cache: size in bytes, associativity, and line size in bytes."""

    size: int
    ways: int
    line: int

    def __str__(self) -> str:
        return f"{self.size},{self.ways},{self.line}"


@dataclass(frozen=True)
class Machine:
    """Machine that callgrind simulates; always specified, because autodetection can be wrong in virtual machines."""

    i1: Cache = Cache(32768, 8, 64)
    d1: Cache = Cache(32768, 8, 64)
    ll: Cache = Cache(1 << 20, 16, 64)
    limits: Limits | None = None  # Of the counters; None: all metrics are counted at once

    def with_page_cache(self) -> Machine:
        """Return a machine whose data cache acts as a data TLB: 64 entries, 4 ways, page-sized lines."""
        return replace(self, d1=Cache(_TLB_ENTRIES * _PAGE_BYTES, _TLB_WAYS, _PAGE_BYTES))


QUANTUM_BLOCKS = 100_000
"""Number of basic blocks after which valgrind checks for signals, by default: the unit of the work clock."""

_FINEST_QUANTUM = 20_000  # The sampler reserves 2,000 of these for itself


def needs_page_cache(name: str) -> bool:
    """Return whether a metric needs the pass whose data cache has page-sized lines."""
    return name == "PAPI_TLB_DM"


def fits_page_cache(name: str) -> bool:
    """Return whether a metric can be counted in the pass whose data cache has page-sized lines."""
    return needs_page_cache(name) or not _DATA_CACHE_EVENTS & set(FORMULAS[name])


def metric(name: str) -> Metric:
    """Return the description of a simulated metric."""
    if name not in FORMULAS:
        raise HostError(f"cannot simulate {name}: callgrind has no corresponding event")
    terms = [event if factor == 1 else f"{factor} {event}" for event, factor in FORMULAS[name].items()]
    formula = " + ".join(terms).replace("+ -1 ", "− ")
    place = "page:" if needs_page_cache(name) else ""
    # D1mr in the pass with page-sized lines is a different event from D1mr in the other pass.
    components = tuple(f"callgrind:{place}{event}" for event in FORMULAS[name])
    meaning = PRESETS.get(name) or EVENTS[name.removeprefix("callgrind::")]
    meaning = f"simulated: {meaning} ({formula})"
    return Metric(name, "simulated", preset_unit(name), source="callgrind", meaning=meaning, components=components)


def missing_tool() -> str | None:
    """Return why callgrind cannot be used on this host, or None if it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed (on Debian: apt-get install valgrind)"
    return None


def valgrind_command(
    machine: Machine, dumps: Path, quantum: int = QUANTUM_BLOCKS, *, separate: bool = False
) -> list[str]:
    """Return the valgrind command to put before the program's command; each process writes `<dumps>.<pid>`.

    Children are traced too: a script may start the program. The sampler reads the simulator's statistics from the log
    `valgrind.<pid>` in the same folder.

    `separate`: Each dump has a part for each thread.
    """
    # By its path, because the program's environment may have another PATH. With --vgdb, a killed valgrind would leave
    # pipes in the temporary folder. Valgrind reads `%%` in names of files as `%`.
    counts, log = (str(file).replace("%", "%%") for file in (dumps, log_of(dumps)))
    return [
        *(
            shutil.which("valgrind") or "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--vgdb=no",
            "--cache-sim=yes",
            "--branch-sim=yes",
        ),
        *(f"--I1={machine.i1}", f"--D1={machine.d1}", f"--LL={machine.ll}"),
        *("--dump-line=no", "--combine-dumps=yes", "--trace-children=yes", f"--callgrind-out-file={counts}.%p"),
        f"--log-file={log}%p",
        *([] if quantum == QUANTUM_BLOCKS else [f"--scheduling-quantum={quantum}"]),
        *(["--separate-threads=yes"] if separate else []),
    ]


@cache
def finest_quantum() -> int:
    """Return the smallest quantum of the installed valgrind in which the sampler's own blocks are few enough.

    Versions before 3.21 have a fixed quantum.
    """
    try:
        told = supervision.run(
            ["valgrind", "--tool=callgrind", "--help"], capture_output=True, text=True, errors="replace"
        )
    except OSError:
        return QUANTUM_BLOCKS
    return _FINEST_QUANTUM if "--scheduling-quantum=" in told.stdout else QUANTUM_BLOCKS


def log_of(dumps: Path) -> Path:
    """Return the path of the simulator's log, without the process id at the end."""
    return dumps.with_name("valgrind.")


def complaints(log: Path) -> str:
    """Return the simulator's messages about the program, lines `==pid== …` of its log, without the statistics."""
    with log.open("rb") as lines:
        lines.seek(max(0, log.stat().st_size - _LOG_BYTES))
        said = re.findall(rb"^==\d+==\s(.+)$", lines.read(), re.MULTILINE)
    return b"\n".join(said).decode(errors="replace").strip()


_LOG_BYTES = 1 << 16
_MOST = 1 << 56  # no program reaches this count; multiplied by a formula's factors, it fits 64 bits

_PART = re.compile(rb"^(desc: Trigger: Client Request: interval (\d+)|part: \d+|events: .*|totals: .*)$", re.MULTILINE)


def executable(dump: Path) -> str:
    """Return the file name of the program whose events a dump file contains."""
    with dump.open("rb") as lines:
        command = next((line for line in lines if line.startswith(b"cmd:")), b"cmd: ?")
    return Path([*command.decode(errors="replace").split(maxsplit=2), "?"][1]).name


def has_intervals(dump: Path) -> bool:
    """Return whether a sampler ended intervals of the last program that a process executed."""
    with dump.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(match.group(2) is not None for match in _PART.finditer(text))


def lifetime(dump: Path) -> tuple[int, int]:
    """Return the monotonic times at which a process without a sampler began and ended, from its files, in ns."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    end_ns = dump.stat().st_mtime_ns
    log = dump.with_name(log_of(dump.with_suffix("")).name + dump.suffix[1:])
    begin_ns = min(end_ns, log.stat().st_mtime_ns) if log.is_file() else end_ns
    return begin_ns - offset_ns, end_ns - offset_ns


def read_dumps(path: Path, intervals: int | None) -> dict[str, NDArray[np.int64]]:
    """Read each interval's events from a combined dump file: dump i is for interval i; dump 0 ends at record 0.

    `intervals`: None for all events of the process, as one interval.
    """
    if not path.is_file():
        raise RunError(f"callgrind did not write its dump file {path.name}: it was killed, or the disk is full")
    order: list[str] = []
    rows: dict[int, list[int]] = {}
    label: int | None = None
    damaged = RunError(f"{path}: callgrind's dump is damaged; did the measured program overwrite it?")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for match in _PART.finditer(text):
                line, number = match.group(1), match.group(2)
                if number is not None:
                    label = label if intervals is None else int(number)
                elif line.startswith(b"part:"):
                    label = None if intervals is not None else len(rows) + 1
                elif line.startswith(b"events:"):
                    order = line.decode().split()[1:]
                elif label is not None:
                    rows[label] = [int(value) for value in line.split()[1:]]
    except ValueError:  # also for an empty file, which cannot be mapped
        raise damaged from None
    if intervals is None:
        return _sums(order, rows.values(), damaged)
    missing = [number for number in range(1, intervals + 1) if number not in rows]
    if missing:
        raise RunError(
            f"callgrind's dump of interval {missing[0]} is missing (missing dumps: {len(missing)} of {intervals}): "
            "the program replaced itself with another program (exec), as a script may do to start the real program, or "
            "it was killed, or the disk is full. Measure the real program directly, not through a script"
        )
    import numpy as np  # noqa: PLC0415  a self-counting process shall not load it

    counts = np.zeros((intervals, len(order)), np.int64)
    for number in range(1, intervals + 1):
        row = rows[number]  # callgrind leaves trailing zeros out
        if len(row) > len(order) or not all(0 <= value < _MOST for value in row):
            raise damaged
        counts[number - 1, : len(row)] = row
    return {event: counts[:, column] for column, event in enumerate(order)}


_THREAD_PART = re.compile(
    rb"^(?:thread: (\d+)|desc: Trigger: (Client Request|dump)[: ]+interval (\d+)|part: \d+|events: (.*)|totals: (.*))$",
    re.MULTILINE,
)
_MAIN_THREAD = 1  # Valgrind's number of the main thread; it gives a thread the smallest number that is free


@dataclass
class _Separation:
    """Parts of a dump file, given to the threads of the record file whose intervals they end."""

    bounds: Mapping[int, Sequence[int]]  # Thread → number of the dump at each of its records, ascending

    def __post_init__(self) -> None:
        self.sums: dict[tuple[int, int], list[int]] = {}  # Thread and number of a dump → counts up to it
        self._own = {number: thread for thread, numbers in self.bounds.items() if thread for number in numbers}
        self._ends = {thread: frozenset(numbers) for thread, numbers in self.bounds.items()}
        self._owner = {_MAIN_THREAD: 0}
        self._pending: dict[int, list[int]] = {}

    def add(self, valgrind_thread: int, number: int, row: Sequence[int], *, alone: bool) -> None:
        """Add a part: the events of one of valgrind's threads since its last part.

        `alone`: The thread itself asked for it, at its beginning or end; otherwise the main thread did, for all.
        """
        waiting = self._pending.pop(valgrind_thread, [])
        counts = [a + b for a, b in zip_longest(waiting, row, fillvalue=0)]
        if alone and number in self._own:
            self._owner[valgrind_thread] = self._own[number]
        thread = self._owner.get(valgrind_thread)
        if thread is None or (number not in self._ends[thread] and number < self.bounds[thread][-1]):
            self._pending[valgrind_thread] = counts  # of a thread that has not begun, or within its interval
            return
        at = number if number in self._ends[thread] else self.bounds[thread][-1]  # the end of a thread is its own too
        self.sums[thread, at] = [a + b for a, b in zip_longest(self.sums.get((thread, at), []), counts, fillvalue=0)]


def thread_columns(
    collected: Pass, dumps: Path, bounds: Mapping[int, Sequence[int]]
) -> dict[int, dict[Metric, NDArray[np.int64]]]:
    """Return each thread's metrics over its own intervals, from dumps with a part for each thread.

    `bounds`: For each thread of the record file, the numbers of the dumps between which its intervals are.

    Instructions with which a thread begins, before its first record, belong to its first interval.
    """
    import numpy as np  # noqa: PLC0415

    if not dumps.is_file():
        raise RunError(f"callgrind did not write its dump file {dumps.name}: it was killed, or the disk is full")
    order, separation = _separate(dumps, bounds)
    found: dict[int, dict[Metric, NDArray[np.int64]]] = {}
    for thread, numbers in bounds.items():
        counts = np.zeros((len(numbers), len(order)), np.int64)
        for at, number in enumerate(numbers):
            row = separation.sums.get((thread, number), [])
            counts[at, : len(row)] = row
        if thread:
            counts[1] += counts[0]
        events = {event: counts[1:, column] for column, event in enumerate(order)}
        if absent := [event for event in EVENTS if event not in events]:
            raise RunError(f"{dumps}: callgrind's dump is damaged: event {absent[0]} is missing")
        found[thread] = {described: combine(described.name, events) for described in _wanted(collected)}
    return found


def _separate(path: Path, bounds: Mapping[int, Sequence[int]]) -> tuple[list[str], _Separation]:
    """Return the names of the events, and the parts of the dumps by thread."""
    order: list[str] = []
    separation = _Separation(bounds)
    thread, number, alone = _MAIN_THREAD, -1, False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        for match in _THREAD_PART.finditer(text):
            of_thread, trigger, interval, events, totals = match.groups()
            if of_thread is not None:
                thread = int(of_thread)
            elif interval is not None:
                number, alone = int(interval), trigger != b"dump"
            elif events is not None:
                order = events.decode().split()
            elif totals is None:
                number = -1  # a part begins
            elif number >= 0:
                row = [int(value) for value in totals.split()]
                if len(row) > len(order) or not all(0 <= value < _MOST for value in row):
                    raise RunError(f"{path}: callgrind's dump is damaged; did the measured program overwrite it?")
                separation.add(thread, number, row, alone=alone)
                number = -1
    return order, separation


def _sums(order: Sequence[str], rows: Iterable[Sequence[int]], damaged: RunError) -> dict[str, NDArray[np.int64]]:
    """Return the sum of each event over dumps, shape (1,)."""
    import numpy as np  # noqa: PLC0415

    sums = dict.fromkeys(order, 0)
    for row in rows:
        for event, value in zip(order, row, strict=False):  # callgrind leaves trailing zeros out
            sums[event] += value
    if not all(0 <= value < _MOST for value in sums.values()):
        raise damaged
    return {event: np.array([value], np.int64) for event, value in sums.items()}


def combine(name: str, events: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Compute a metric from callgrind's events, shape (intervals,)."""
    import numpy as np  # noqa: PLC0415

    terms = [factor * events[event] for event, factor in FORMULAS[name].items()]
    return np.asarray(np.sum(terms, axis=0), np.int64)


_ALWAYS = ("PAPI_TOT_INS", "PAPI_TOT_CYC")
"""Metrics of every run: callgrind counts all its events anyway, and these show the cost of the measurement."""


def columns(collected: Pass, dumps: Path, intervals: int | None) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each metric of a pass, and those of `_ALWAYS` that the pass can count, with the counts of each interval.

    `intervals`: None for all counts of the process, as one interval.
    """
    events = read_dumps(dumps, intervals)
    if absent := [event for event in EVENTS if event not in events]:
        raise RunError(f"{dumps}: callgrind's dump is damaged: event {absent[0]} is missing")
    for described in _wanted(collected):
        yield described, combine(described.name, events)


def _wanted(collected: Pass) -> list[Metric]:
    """Return the metrics of a pass, and those of `_ALWAYS` that the pass can count."""
    wanted = {described.name: described for described in collected.metrics}
    paged = any(map(needs_page_cache, wanted))
    for name in _ALWAYS:
        # With page-sized lines, the cycle estimate would be that of a different machine.
        if name not in wanted and (not paged or fits_page_cache(name)):
            wanted[name] = metric(name)
    return list(wanted.values())


def plan(names: Sequence[str], request: Request) -> Planned:
    """Divide metrics into passes: metrics that need a data cache with page-sized lines go to a separate pass."""
    if request.sampler == "outside":
        inside = "the simulator ends its intervals from inside the program: use `sampler: inside`"
        return [], dict.fromkeys(names, inside)
    if problem := missing_tool():
        return [], dict.fromkeys(names, problem)
    why = {name: "callgrind has no corresponding event" for name in names if name not in FORMULAS}
    possible = [name for name in names if name not in why]
    second, third = ([name for name in possible if name.startswith(f"PAPI_L{level}_")] for level in (2, 3))
    if second and third:
        problem = f"callgrind simulates only one last-level cache, and {second[0]} is requested too"
        why |= dict.fromkeys(third, f"{problem}: request only level 2 or only level 3")
        possible = [name for name in possible if name not in why]
    if request.machine.limits is not None and request.meet and not request.multiplex:
        passes = _meeting(possible, request.machine.limits, request)
    else:
        passes = _by_machine(possible, request)
    planned = {described.name for item in passes for described in item.metrics}
    counters = "" if request.machine.limits is None else counted(request.machine.limits.counters, "counter")
    why |= {
        name: f"the simulated processor has {counters}, which the metrics that each pass shares need: give it more"
        for name in possible
        if name not in planned
    }
    return passes, why


def _by_machine(names: Sequence[str], request: Request) -> list[Pass]:
    """Return a pass for each machine that metrics need, or several where it cannot count all of them at once."""
    passes = []
    paged = [name for name in names if fits_page_cache(name)] if any(map(needs_page_cache, names)) else []
    if (limits := request.machine.limits) is not None:
        paged = [name for name in paged if needs_page_cache(name) or name in (*request.shared, *limits.fixed)]
    # Metrics with the same meaning in both passes are counted in both; a pass with only such metrics is omitted.
    main = [name for name in names if not needs_page_cache(name)]
    if not set(main) <= set(paged):
        passes += _limited("simulated", main, request.machine, request)
    if paged:
        passes += _limited("page-cache", paged, request.machine.with_page_cache(), request)
    return passes


def _limited(name: str, metrics: Sequence[str], machine: Machine, request: Request) -> list[Pass]:
    """Return passes that the counters of the simulated machine can count; one pass if all are counted or take turns."""
    whole = Pass(name, "simulated", tuple(map(metric, metrics)), machine=machine)
    if machine.limits is None or machine.limits.fits(metrics):
        return [whole]
    if request.multiplex:
        return [replace(whole, multiplexed=True)]
    parts = divide(metrics, machine.limits, request.shared) or []
    return [replace(whole, metrics=tuple(map(metric, part))) for part in parts]


def _meeting(names: Sequence[str], limits: Limits, request: Request) -> list[Pass]:
    """Return the fewest passes, of either machine, in which the metrics meet that are to."""
    everywhere = {name for name in names if name in (*request.shared, *limits.fixed) and not needs_page_cache(name)}
    if not limits.fits(everywhere):
        return []
    # Of two machines, only one has what depends on the lines of the data cache.
    both = set(filter(fits_page_cache, everywhere)) if any(map(needs_page_cache, names)) else everywhere
    others = [name for name in names if name not in both]

    def beside(group: Collection[str]) -> set[str]:
        return both if any(map(needs_page_cache, group)) else everywhere

    def fits(group: frozenset[str]) -> bool:
        one_machine = not any(map(needs_page_cache, group)) or all(map(fits_page_cache, group))
        return one_machine and limits.fits({*group, *beside(group)})

    left = (wanted.difference(both) for wanted in (*request.meet, *request.together))
    sets = [wanted for wanted in left if wanted and wanted.issubset(others)]
    free = len(set(limits.fixed).intersection(others))
    room = limits.counters - len(both.difference(limits.fixed)) + free
    found = cover(others, sets, fits, largest=room, known=request.known)
    passes = []
    for group in found.groups or ((),):
        counting = {*group, *beside(group)}
        paged = any(map(needs_page_cache, group))
        passes.append(
            Pass(
                "page-cache" if paged else "simulated",
                "simulated",
                tuple(metric(name) for name in names if name in counting),
                machine=request.machine.with_page_cache() if paged else request.machine,
                division=found.sentence if len(found.groups) > 1 else "",
            )
        )
    return passes


def catalogue(_trials: Trials) -> SourceCatalogue:
    """Return every metric that callgrind simulates."""
    problem = missing_tool() or ""
    entries = []
    for name in FORMULAS:
        simulated = metric(name)
        way = SourceSupport("simulated", simulated.kind, simulated.unit, simulated.meaning, problem)
        entries.append(CatalogueEntry(name, "PAPI preset" if name in PRESETS else "simulator event", (way,)))
    # A run simulates one last-level cache, as level 2 or level 3.
    together = [name for name in FORMULAS if not needs_page_cache(name) and not name.startswith("PAPI_L3_")]
    note = "one last-level cache in each run, as level 2 or level 3; PAPI_TLB_DM needs a separate run"
    return SourceCatalogue(SourceState("simulated", "", problem, None if problem else len(together), note), entries)


CALLGRIND = Source(
    name="simulated",
    title="simulated by callgrind",
    sentence="Callgrind simulated the hardware metrics for a specified machine; no processor counted them.",
    order=30,
    event=lambda _name: None,  # the simulator counts all its events; the sampler opens none
    metric=metric,
    catalogue=catalogue,
    prefix="callgrind::",
    number=1,
    simulated=True,
    plan=plan,
    columns=columns,
    thread_columns=thread_columns,
)
