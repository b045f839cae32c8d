"""Trial runs before the plan: the pilot, which determines the interval, and the rehearsal of kernel probes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unperturbed.analysis.perturbation import MINIMUM_INTERVALS
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import PROGRAM_CLOCK, WORK_CLOCKS
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS, finest_quantum
from unperturbed.collectors.sources.limits import Limits, simulated_time
from unperturbed.common.wording import counted, number
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import Configuration
from unperturbed.harness.campaign.preparation import make_empty_folder
from unperturbed.harness.campaign.progress import Progress, describe_interval
from unperturbed.harness.campaign.requirements import shows_perturbation
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import (
    Session,
    build_configurations,
    execute_in,
    families_of,
    shared_builds,
)
from unperturbed.harness.program.result import TimedOutError
from unperturbed.harness.program.software_metrics import SoftwareMetrics, check_hit_rates, hit_rates
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.harness.spec.quantities import EventInterval, Interval, WorkInterval
from unperturbed.harness.spec.sections.campaign import BASELINE, PILOT
from unperturbed.harness.spec.sections.measure import DEFAULT_RECORDS, SHORTEST_INTERVAL_NS

_CLOCK_MONOTONIC_COARSE = 6
_PILOT_CAPACITY = 1 << 17
_LASTING_THREADS = 16
_PILOT_INTERVAL_NS = 20_000_000
_REHEARSAL_TIMES, _REHEARSAL_SLACK_S = 20, 10
"""Time limit of a rehearsal: this multiple of the pilot's duration, plus this many seconds."""
AMPLE = 1.1  # A finer quantum, or the work that a message asks for, gives this many times the wanted intervals
_FEWER = 0.75  # With intervals of work, a smaller share of the requested records than this gives a note
_UNLIKE = 0.1  # … and so is a number of intervals that differs from the requested one by more than this share
_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".lua", ".php", ".R", ".jl", ".awk")  # Arguments that are no input
_JIFFIES = 2  # Minimum interval of CPU time in jiffies: the length of a shorter interval is mostly rounding


def _clock(spec: CampaignSpec, source: str) -> str:
    """Choose the interval's clock: `work` in a simulator, because equal times contain different work in each run."""
    if spec.measure.interval_metric:
        return PROGRAM_CLOCK
    if spec.measure.clock != "auto":
        return spec.measure.clock
    return "work" if source == "simulated" else "monotonic"


def pilots(session: Session, manifest: Manifest, progress: Progress, *, checked: bool = True) -> dict[str, Sampling]:
    """Run the baseline once per pass, to determine the interval (003, section 3.2) and the record file's size.

    Other programs (`programs:`) run once too, because a verdict on them needs as many intervals.

    `checked`: The runs get a verdict: reject a program with too few intervals for one, instead of printing a note.
    """
    samplings: dict[str, Sampling] = {}
    event, metric = session.spec.measure.interval_event, session.spec.measure.interval_metric
    for name, collected in session.passes.items():
        clock, fact = _clock(session.spec, collected.source), f"{PILOT}:{name}"
        first = Sampling(collected, SoftwareMetrics(), 1, clock, _PILOT_CAPACITY, event=event, metric=metric)
        if manifest.fact(fact) is None:
            progress.step("pilot run" if len(session.passes) == 1 else f"pilot run ({name})")
            # Runs of a pass in which metrics take turns are compared with those of other passes, interval by interval.
            like = next(iter(samplings.values()), None) if session.spec.campaign.multiplexed else None
            manifest.set_facts(**{fact: _pilot(session, first, like, progress, checked=checked)})
        pilot = manifest.fact(fact)
        expected = pilot["intervals"] * pilot["first_interval_ns"] / pilot["interval_ns"]
        # Every thread writes records; of thousands, most last an interval or less.
        threads = pilot.get("threads", 1)
        capacity = int(4 * expected * session.slowness * min(threads, _LASTING_THREADS)) + 4096 + 4 * threads
        samplings[name] = replace(
            first,
            interval_ns=pilot["interval_ns"],
            capacity=capacity,
            quantum=pilot.get("quantum", QUANTUM_BLOCKS),
            turn=pilot.get("turn", 0),
        )
    return samplings


def _pilot(
    session: Session, first: Sampling, like: Sampling | None, progress: Progress, *, checked: bool
) -> dict[str, Any]:
    """Run the baseline once; return what the pilot run shows.

    `first`: Settings without the length of an interval. `like`: The settings of a pass with the same intervals.
    """
    interval = session.spec.measure.interval or Interval()
    length = 1 if first.clock == "work" else interval.nanoseconds or _PILOT_INTERVAL_NS
    if isinstance(interval, WorkInterval):
        length = interval.counts
    elif isinstance(interval, EventInterval):
        length = interval.every
    first = replace(first, software_metrics=session.built[BASELINE].software_metrics, interval_ns=length)
    if like is not None:
        first = replace(first, quantum=like.quantum)
    started = time.monotonic()
    trace = _try(session, first, BASELINE)
    finer = _finer_quantum(interval, trace) if first.clock == "work" and like is None else None
    if finer is not None:
        first, started = replace(first, quantum=finer), time.monotonic()
        trace = _try(session, first, BASELINE)
    seconds = time.monotonic() - started
    interval_ns, note = first.interval_ns, _coarse(first.interval_ns, first.clock)
    if like is not None:
        interval_ns, note = like.interval_ns, ""
    elif first.clock == "work":
        interval_ns, note = _quanta(session.spec, interval, trace, first.quantum)
    elif interval.records is not None:
        interval_ns, note = _interval_for(interval.records, len(trace) * first.interval_ns, first.clock)
    if shows_perturbation(session.passes.values()):
        for why in _too_short_programs(session, first, trace, interval, interval_ns, progress):
            if checked:
                raise RunError(why)
            progress.note(why)
    limits = first.collected.limits
    return {
        "interval_ns": interval_ns,
        "intervals": len(trace),
        "first_interval_ns": first.interval_ns,
        "seconds": seconds,
        "note": note,
        "quantum": first.quantum,
        **({} if limits is None else {"turn": _turn(limits, trace)}),
        "threads": trace.attributes.get("sampled_threads", 1),
    }


def rehearse(session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress) -> None:
    """Run each configuration with kernel probes once, and record the probes' cost; reject probes hit too often."""
    notes: dict[str, None] = {}
    # An earlier session rehearsed the configurations that this session does not need.
    for name in session.configurations:
        built, fact = session.built.get(name), f"probes:{name}"
        rates = manifest.fact(fact)
        if rates is None and built is not None and built.software_metrics.probes:
            progress.step(f"trial run with the kernel probes of {name}")
            trace = _rehearse(session, next(iter(samplings.values())), name, built.software_metrics, manifest)
            rates = hit_rates(session.spec, built.software_metrics, trace)
            manifest.set_facts(**{fact: rates})
        if rates is not None:
            notes |= dict.fromkeys(check_hit_rates(session.spec, rates))
    manifest.set_facts(probe_notes=list(notes))


def _turn(limits: Limits, trace: Trace) -> int:
    """Return after how many quanta simulated metrics take turns, from a pilot run with intervals of one quantum."""
    time_ns = simulated_time({name: trace[name] for name in trace.metrics})
    return max(1, round(limits.turn_ns * len(trace) / int(time_ns.sum())))


def _try(session: Session, sampling: Sampling, name: str) -> Trace:
    folder = make_empty_folder(session.folder / "runs" / "0000")
    return execute_in(session, sampling, name, folder, pad_bytes=0, run=PILOT, order=0)


def _rehearse(
    session: Session, sampling: Sampling, name: str, software_metrics: SoftwareMetrics, manifest: Manifest
) -> Trace:
    """Run a configuration once with its probes; stop when the probes are certainly too expensive."""
    alone = manifest.fact(f"{PILOT}:{sampling.collected.name}")["seconds"]
    limit = _REHEARSAL_SLACK_S + _REHEARSAL_TIMES * alone
    first = replace(
        sampling, software_metrics=software_metrics, capacity=max(sampling.capacity, _PILOT_CAPACITY), timeout_s=limit
    )
    try:
        return _try(session, first, name)
    except TimedOutError:
        if limit >= session.spec.program.timeout.seconds:
            raise
        probed = list(dict.fromkeys(site.metric for site in software_metrics.sites))
        raise SpecError(
            f"{metric_position(session.spec, probed[0])}: {' and '.join(probed)}: the events are too frequent for "
            f"kernel probes: with probes, the program did not end within {limit:.0f} s; without probes, it ends after "
            f"{alone:.1f} s. Use rarer events, or compile the counters into the program"
        ) from None


def _is_input(path: Path) -> bool:
    """Return whether an argument is a file, but no script."""
    if not path.is_file() or path.suffix in _SCRIPTS:
        return False
    try:
        with path.open("rb") as file:
            return file.read(2) != b"#!"
    except OSError:  # only the program's user may read it
        return True


def times_as_much(spec: CampaignSpec, ratio: float) -> str:
    """Return "1.6 times as much work", with an example if the program reads an input; round up to two digits."""
    digit = 10.0 ** (math.floor(math.log10(ratio)) - 1)
    times = number(math.ceil(round(ratio / digit, 6)) * digit, 2)
    program = spec.program
    if program.is_service:
        more = "more requests in `load`" if program.load is not None else "a longer `duration`"
        return f"{times} times as much work ({more})"
    words = [word.replace("{spec}", str(spec.folder)) for word in program.run.split()[1:]]
    folder = spec.folder / program.working_folder
    files = any(_is_input(folder / word) for word in words)
    reads = program.inputs or program.stdin or "{inputs}" in f"{program.prepare} {program.run}" or files
    return f"{times} times as much work{f' (for example, an input {times} times as large)' if reads else ''}"


def _events(trace: Trace) -> int | None:
    """Return the number of events in a run's main thread that end its intervals; None if time or work does.

    Events of other threads are counted too, but end no interval of this trace.
    """
    name = trace.attributes.get("interval_metric")
    return None if name is None else min(int(trace[name].sum()), len(trace) * int(trace.attributes["interval_ns"]))


def _too_short_programs(
    session: Session, first: Sampling, trace: Trace, interval: Interval, interval_ns: int, progress: Progress
) -> Iterator[str]:
    """Yield why a program has too few intervals for a verdict: the baseline, then each other one, which runs once.

    `first`, `trace`: Sampling and trace of the baseline's pilot run. `interval_ns`: The interval of the campaign.
    """
    said = describe_interval(interval_ns, first.clock, first.event or first.metric, first.quantum)
    at_least = (
        interval_ns == 1 if first.clock in WORK_CLOCKS else not first.event and interval_ns <= SHORTEST_INTERVAL_NS
    )
    # The default interval of times already fits the baseline.
    shortest = at_least or (interval.records is not None and first.clock not in WORK_CLOCKS)
    intervals = round(len(trace) * first.interval_ns / interval_ns)
    if why := _too_short(session.spec, intervals, said, shortest=shortest, events=_events(trace)):
        yield why
    for name in (name for name in session.spec.programs if name in session.built):
        progress.step(f"pilot run of {name}")
        trace = _try(session, replace(first, software_metrics=session.built[name].software_metrics), name)
        spec, intervals = session.spec.of_program(name), round(len(trace) * first.interval_ns / interval_ns)
        if why := _too_short(spec, intervals, said, shortest=at_least, events=_events(trace), name=name):
            yield why


def _too_short(
    spec: CampaignSpec, intervals: int, interval: str, *, shortest: bool, events: int | None, name: str = ""
) -> str:
    """Return why a run has too few intervals for a verdict, else ''.

    `shortest`: The interval cannot be shorter. `events`: Number of the run's events that end intervals; None if time
    or work does.
    `name`: Name of the other program that ran; '' for the baseline's.
    """
    if intervals >= MINIMUM_INTERVALS:
        return ""
    more = f"give {name or 'the program'} {times_as_much(spec, AMPLE * MINIMUM_INTERVALS / max(intervals, 1))}"
    shorter = "use a shorter interval"
    if events is not None:
        every = max(1, events // DEFAULT_RECORDS)
        happened = f"the run has {counted(events, 'event')} of {spec.measure.interval_metric}"
        shorter = f"use `every: {every}`, which would give about {counted(events // every, 'interval')} ({happened})"
        if events < AMPLE * MINIMUM_INTERVALS:
            shorter = f"use a metric with more events in the main thread ({happened})"
    if not shortest or events is not None:
        more = f"{shorter}, or {more}"
    return (
        f"the pilot run{f' of {name}' if name else ''} has {counted(intervals, 'interval')} of {interval}, but a "
        f"verdict needs at least {MINIMUM_INTERVALS}: {more}"
    )


def _finer_quantum(interval: Interval, trace: Trace) -> int | None:
    """Return a finer quantum if the default one gives a pilot run too few intervals and valgrind offers another."""
    wanted = interval.records or MINIMUM_INTERVALS
    if len(trace) > _FEWER * wanted or (finest := finest_quantum()) == QUANTUM_BLOCKS:
        return None
    return max(finest, int(QUANTUM_BLOCKS * len(trace) / (AMPLE * wanted)) // 1000 * 1000)


_WHERE = "`interval` in the spec, --interval of a program after --"
"""Where a user sets the interval."""


def _quanta(spec: CampaignSpec, interval: Interval, trace: Trace, quantum: int) -> tuple[int, str]:
    """Return the length of a work interval in quanta, and a note, from a pilot run with intervals of one quantum.

    An interval given as a time becomes the work that the simulated program does in that time on this host.
    """
    if interval.records is None:
        asked = interval.nanoseconds / (int(trace.end_ns[-1]) / len(trace)) if interval.nanoseconds else 1.0
        return max(1, round(asked)), ""
    quanta = max(1, round(len(trace) / interval.records))
    if len(trace) > _FEWER * interval.records:
        asked = spec.measure.interval is not None  # nobody asked for the default number
        return quanta, _other_number(interval.records, len(trace), quanta, quantum) if asked else ""
    shortest = describe_interval(1, "work", quantum=quantum)
    more = times_as_much(spec, interval.records / len(trace))
    if interval.records == DEFAULT_RECORDS:
        return quanta, (
            f"A run has {len(trace)} intervals of {shortest}, the shortest. Verdicts need {MINIMUM_INTERVALS}; the "
            f"usual {interval.records} show smaller changes: give the program {more}."
        )
    return quanta, (
        f"{interval.records} intervals are requested ({_WHERE}), but the shortest interval of {shortest} gives only "
        f"{len(trace)}. Give the program {more}."
    )


def _other_number(records: int, available: int, quanta: int, quantum: int) -> str:
    """Return a note if whole quanta divide a run into clearly more or fewer intervals than requested; '' if not.

    `available`: Number of quanta in the pilot run.
    """
    intervals = round(available / quanta)
    if abs(intervals / records - 1) <= _UNLIKE:
        return ""
    other = quanta - 1 if intervals < records else quanta + 1
    length = describe_interval(1, "work", quantum=quantum)
    why = f"an interval is at least one quantum of {length}"
    if other:
        near = sorted((intervals, round(available / other)))
        why = f"an interval is a whole number of quanta of {length}, so the nearest numbers are {near[0]} and {near[1]}"
    return f"{records} intervals are requested ({_WHERE}), but a run has about {intervals}: {why}."


def _jiffy_ns() -> int:
    return round(time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9)


def _coarse(interval_ns: int, clock: str) -> str:
    """Return a note on an interval that is too short for its clock; empty if the interval is long enough."""
    if clock not in ("process-cpu", "thread-cpu") or interval_ns >= _JIFFIES * _jiffy_ns():
        return ""
    return (
        f"Intervals of {interval_ns / 1e6:g} ms are requested ({_WHERE}), but the clock `{clock}` ticks only every "
        f"{_jiffy_ns() / 1e6:g} ms here: intervals last one or two ticks. Use `clock: monotonic` for short intervals."
    )


def _interval_for(records: int, duration_ns: int, clock: str) -> tuple[int, str]:
    """Return the interval that gives about this many records, and a note if the clock is too coarse."""
    exact = round(duration_ns / records, -5)  # a tenth of a millisecond
    if clock == "monotonic":
        return max(100_000, int(exact)), ""
    # Not rounded to jiffies: a timer of 15 ms on ticks of 4 ms fires after 12 or 16 ms, and after 15 ms on average.
    jiffy = _jiffy_ns()
    shortest = _JIFFIES * jiffy
    if exact >= shortest:
        return int(exact), ""
    return shortest, (
        f"{records} intervals are requested ({_WHERE}), but the clock of CPU time ticks only every {jiffy / 1e6:g} ms "
        f"here: the shortest interval, {shortest / 1e6:g} ms, gives about {duration_ns // shortest}. A longer input "
        "gives more."
    )


def with_configuration(
    session: Session,
    configuration: Configuration,
    samplings: Mapping[str, Sampling],
    manifest: Manifest,
    progress: Progress,
) -> Session:
    """Build a configuration unless already built, and rehearse its probes; return the extended session."""
    if (home := manifest.fact("shared")) is None:
        builds = build_configurations(session.spec, session.folder, [configuration], manifest, progress)
    else:
        builds = shared_builds(Path(home), [configuration], manifest)
    session = replace(session, families=families_of(manifest))
    session = session.with_build(configuration, builds[configuration.name])
    rehearse(session, samplings, manifest, progress)
    return session
