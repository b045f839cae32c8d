"""Which source counts which metric on this host, and how many passes that takes.

A pass is what one run can hold: metrics of one source (and, simulated, of one machine). What fits is found by trying: the runtime opens the
events in a small program of its own, and what it cannot open, or what does not run all the time, is left to the next source.
Adding a source means one module that turns names into events and metrics, one opener in the C runtime, and one entry in `_CANDIDATES`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors import papi, perf_event, simulated
from unperturbed.collectors.record import Event, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime_build import build_probe
from unperturbed.collectors.simulated import Machine
from unperturbed.collectors.trace import Metric
from unperturbed.errors import HostError

__all__ = ["Pass", "Passes", "plan_passes"]


_UNKNOWN = "knows no such event"


@dataclass(frozen=True)
class Pass:
    """What one run counts.

    Attributes
    ----------
    name : `main`, or what sets the pass apart (`page-cache`, `perf_event`, …).
    source : `simulated`, `perf_event`, `papi`, or `none` when no hardware metric was asked for.
    metrics : the hardware (or simulated) metrics, in column order.
    events : what the runtime opens for them; none when simulated.
    machine : the simulated machine, when simulated.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    events: tuple[Event, ...] = ()
    machine: Machine | None = None


@dataclass(frozen=True)
class Passes:
    """The passes of a campaign, and for each source that was passed over, why."""

    passes: tuple[Pass, ...]
    reasons: Mapping[str, str]


def plan_passes(names: Sequence[str], *, source: str, machine: Machine, compiler: str) -> Passes:
    """Assign each hardware metric to the first source that can count it here.

    Parameters
    ----------
    names : PAPI presets or native names.
    source : `auto`, or the one source that is allowed.
    machine : caches of the simulated machine.
    compiler : C compiler for the probe.

    Raises
    ------
    HostError
        A metric that nothing here can count, with every source's reason.
    """
    if not names:
        return Passes((Pass("main", "none", ()),), {})
    left = list(names)
    reasons: dict[str, str] = {}
    refused: dict[str, list[str]] = {name: [] for name in names}
    passes: list[Pass] = []
    for candidate, probe in _CANDIDATES.items():
        if source not in ("auto", candidate) or not left:
            continue
        counted, why = probe(left, machine, compiler)
        passes += counted
        taken = {metric.name for item in counted for metric in item.metrics}
        for name in left:
            if name not in taken:
                refused[name].append(f"{candidate}: {why[name]}")
        if why and not taken:
            reasons[candidate] = _commonest(why.values())
        left = [name for name in left if name not in taken]
    if left:
        lines = [f"{name} cannot be counted on this host ({'; '.join(refused[name])})" for name in left]
        raise HostError("\n".join([*lines, *_hints(" ".join(lines))]))
    return Passes(tuple(_named(passes)), {name: ". ".join([why, *_hints(why)]) for name, why in reasons.items()})


def _commonest(reasons: Iterable[str]) -> str:
    """Return the reason that tells most about a source: that of most metrics, whatever metric each names."""
    kinds: dict[str, list[str]] = {}
    telling = [reason for reason in reasons if reason != _UNKNOWN]
    for reason in telling or [_UNKNOWN]:
        kinds.setdefault(re.sub(r"\bPAPI_\w+", "", reason), []).append(reason)
    return max(kinds.values(), key=len)[0]


def _named(passes: Sequence[Pass]) -> list[Pass]:
    """Put the fullest pass first, call it `main`, and keep the names of the rest apart."""
    named: list[Pass] = []
    for index, item in enumerate(sorted(passes, key=lambda item: -len(item.metrics))):
        name = "main" if index == 0 else item.name
        if name in {other.name for other in named}:
            name = f"{name}-{index}"
        named.append(Pass(name, item.source, item.metrics, item.events, item.machine))
    return named


_Counted = tuple[list[Pass], dict[str, str]]


def _opened(
    names: Sequence[str], source: str, describe: Callable[[str], Metric], find: Callable[[str], Event | None], compiler: str
) -> _Counted:
    """Find what a counter library opens: all at once if it can, else as many as fit, in further passes the rest."""
    why: dict[str, str] = {}
    possible: list[Event] = []
    for name in names:
        event = find(name)
        if event is None:
            why[name] = _UNKNOWN
        else:
            possible.append(event)
    if possible and (problem := _trial(source, possible[:1], compiler)) and len(possible) > 1 and _same_everywhere(problem):
        return [], {**why, **{event.name: problem for event in possible}}
    groups: list[list[Event]] = []
    for event in possible:
        if problem := _trial(source, [event], compiler):
            why[event.name] = problem
            continue
        for group in groups:
            if _trial(source, [*group, event], compiler) is None:
                group.append(event)
                break
        else:
            groups.append([event])
    return [Pass(source, source, tuple(describe(event.name) for event in group), tuple(group)) for group in groups], why


def _same_everywhere(problem: str) -> bool:
    """Tell whether a refusal concerns the source as a whole, so that its other events need not be tried."""
    return "not installed" in problem or "PAPI_library_init" in problem


def _trial(source: str, events: Sequence[Event], compiler: str) -> str | None:
    """Open the events in a small program; return why they cannot be counted together, or None."""
    setup = Setup(source, 1_000_000, "monotonic", tuple(events), capacity=1024)
    with tempfile.TemporaryDirectory(prefix="unperturbed-probe-") as folder:
        file = Path(folder) / "record"
        create_record_file(file, setup)
        subprocess.run([build_probe(compiler)], env={"UNPERTURBED_RECORD": str(file)}, check=True)
        records = read_record_file(file, setup)
    if records.state != "finished":
        return records.message
    last = records.rows[-1]
    if 0 < int(last["running_ns"]) < int(last["enabled_ns"]):
        return "the events do not fit the counters together: they would be multiplexed"
    return None


def _hints(text: str) -> list[str]:
    """Return what the bare reasons of the counter libraries mean on this host, and what to do."""
    hints = []
    if "Permission denied" in text or "Operation not permitted" in text:
        paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
        level = paranoid.read_text().strip() if paranoid.exists() else "unknown"
        hints.append(f"perf_event_paranoid is {level}; allow counting with: sysctl kernel.perf_event_paranoid=1")
    if "No such file or directory" in text or "not supported" in text or "is disabled" in text:
        hints.append("The processor offers no such counter here: no PMU, as in most virtual machines, or an event it lacks.")
    return hints


def _papi(names: Sequence[str], _machine: Machine, compiler: str) -> _Counted:
    return _opened(names, "papi", papi.metric, papi.event, compiler)


def _perf_event(names: Sequence[str], _machine: Machine, compiler: str) -> _Counted:
    return _opened(names, "perf_event", perf_event.metric, perf_event.event, compiler)


def _simulated(names: Sequence[str], machine: Machine, _compiler: str) -> _Counted:
    if problem := simulated.missing_tool():
        return [], dict.fromkeys(names, problem)
    why = {name: "no event of callgrind stands for it" for name in names if name not in simulated.FORMULAS}
    possible = [name for name in names if name not in why]
    levels = (
        [name for name in possible if name.startswith("PAPI_L2_")],
        [name for name in possible if name.startswith("PAPI_L3_")],
    )
    if all(levels):
        problem = f"only one last-level cache is simulated, and {levels[0][0]} is asked for too: ask for one of the two levels"
        why |= dict.fromkeys(levels[1], problem)
        possible = [name for name in possible if name not in why]
    passes = []
    paged = (
        [name for name in possible if simulated.fits_page_cache(name)] if any(map(simulated.needs_page_cache, possible)) else []
    )
    # What means the same in both is counted in both; a pass that would count nothing else is not made.
    main = [name for name in possible if not simulated.needs_page_cache(name)]
    if not set(main) <= set(paged):
        passes.append(Pass("simulated", "simulated", tuple(map(simulated.metric, main)), machine=machine))
    if paged:
        passes.append(Pass("page-cache", "simulated", tuple(map(simulated.metric, paged)), machine=machine.with_page_cache()))
    return passes, why


_CANDIDATES: Mapping[str, Callable[[Sequence[str], Machine, str], _Counted]] = {
    "papi": _papi,
    "perf_event": _perf_event,
    "simulated": _simulated,
}
