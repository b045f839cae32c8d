"""Callgrind as a simulated PMU: the machine, formulas of metrics, and the command line.

Simulated counts are those of a specified machine (two cache levels, a branch predictor), not of the host's processor;
every metric of this source has kind `simulated`, and a meaning that begins with "simulated".
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.covering import cover
from unperturbed.collectors.sources.dumps import log_of, read_dumps, read_thread_dumps
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
        "--fair-sched=try",  # threads take turns in one order
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
    yield from _columns(collected, dumps, read_dumps(dumps, intervals))


def thread_columns(
    collected: Pass, dumps: Path, bounds: Mapping[int, Sequence[int]]
) -> dict[int, dict[Metric, NDArray[np.int64]]]:
    """Return each thread's metrics over its own intervals, from dumps with a part for each thread.

    `bounds`: For each thread of the record file, the numbers of the dumps between which its intervals are.
    """
    counted_by = read_thread_dumps(dumps, bounds)
    return {thread: dict(_columns(collected, dumps, events)) for thread, events in counted_by.items()}


def _columns(
    collected: Pass, dumps: Path, events: Mapping[str, NDArray[np.int64]]
) -> Iterator[tuple[Metric, NDArray[np.int64]]]:
    """Yield each metric of a pass, computed from events that a file of dumps has."""
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
