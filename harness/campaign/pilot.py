"""The trial runs before the plan: the pilot, which chooses the interval, and the rehearsal of probes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from unperturbed.analysis.perturbation import MINIMUM_INTERVALS
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import counted
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import Configuration
from unperturbed.harness.campaign.preparation import make_empty_folder
from unperturbed.harness.campaign.progress import Progress, describe_interval
from unperturbed.harness.campaign.requirements import shows_perturbation
from unperturbed.harness.campaign.run import Sampling, TimedOutError
from unperturbed.harness.campaign.session import Session, build_configurations, execute_in, shared_builds
from unperturbed.harness.program.software_metrics import SoftwareMetrics, check_hit_rates, hit_rates
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.harness.spec.quantities import Interval, WorkInterval
from unperturbed.harness.spec.sections.campaign import BASELINE, PILOT
from unperturbed.harness.spec.sections.measure import SHORTEST_INTERVAL_NS

_CLOCK_MONOTONIC_COARSE = 6
_PILOT_CAPACITY = 1 << 17
_PILOT_INTERVAL_NS = 20_000_000
_REHEARSAL_TIMES, _REHEARSAL_SLACK_S = 20, 10
"""With probes, a program is stopped after so many times the duration of the pilot and so many seconds more."""
_FEWER = 0.75  # A run by work with a smaller share of the requested records gets a note
_JIFFIES = 2  # An interval of CPU time is at least two of the kernel's jiffies: below, its length is mostly rounding


def _clock(spec: CampaignSpec, source: str) -> str:
    """Choose the interval's clock: work in a simulator, where intervals of time differ from run to run."""
    if spec.measure.clock != "auto":
        return spec.measure.clock
    return "work" if source == "simulated" else "monotonic"


def pilots(session: Session, manifest: Manifest, progress: Progress) -> dict[str, Sampling]:
    """Run the baseline once a pass: it chooses the interval (003, section 3.2) and the record file's size."""
    samplings = {}
    for name, collected in session.passes.items():
        clock = _clock(session.spec, collected.source)
        event = session.spec.measure.interval_event
        fact = f"{PILOT}:{name}"
        if manifest.fact(fact) is None:
            progress.step("pilot run" if len(session.passes) == 1 else f"pilot run ({name})")
            interval = session.spec.measure.interval or Interval()
            length = 1 if clock == "work" else interval.nanoseconds or _PILOT_INTERVAL_NS
            if isinstance(interval, WorkInterval):
                length = interval.counts
            first = Sampling(collected, SoftwareMetrics(), length, clock, _PILOT_CAPACITY, event=event)
            started = time.monotonic()
            trace = _try(session, first, BASELINE)
            seconds = time.monotonic() - started
            interval_ns, note = first.interval_ns, _coarse(first.interval_ns, clock)
            if clock == "work":
                interval_ns, note = _quanta(interval, trace)
            elif interval.records is not None:
                interval_ns, note = _interval_for(interval.records, len(trace) * first.interval_ns, clock)
            if shows_perturbation(session.passes.values()):
                said = describe_interval(interval_ns, clock, event)
                shortest = interval.records is not None or (not event and interval_ns <= SHORTEST_INTERVAL_NS)
                if clock == "work":
                    shortest = interval_ns == 1
                _check_length(round(len(trace) * first.interval_ns / interval_ns), said, shortest=shortest)
            manifest.set_facts(
                **{
                    fact: {
                        "interval_ns": interval_ns,
                        "intervals": len(trace),
                        "first_interval_ns": first.interval_ns,
                        "seconds": seconds,
                        "note": note,
                    }
                }
            )
        found = manifest.fact(fact)
        expected = found["intervals"] * found["first_interval_ns"] / found["interval_ns"]
        capacity = int(4 * expected * session.slowness) + 4096
        samplings[name] = Sampling(collected, SoftwareMetrics(), found["interval_ns"], clock, capacity, event=event)
    return samplings


def rehearse(session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress) -> None:
    """Run each configuration with kernel probes once, record their cost, and refuse those that are hit too often."""
    notes: dict[str, None] = {}
    # Configurations that this session does not need were rehearsed by an earlier one.
    for name in session.configurations:
        built, fact = session.built.get(name), f"probes:{name}"
        rates = manifest.fact(fact)
        if rates is None and built is not None and built.software_metrics.probes:
            progress.step(f"rehearsing the probes of {name}")
            trace = _rehearse(session, next(iter(samplings.values())), name, built.software_metrics, manifest)
            rates = hit_rates(session.spec, built.software_metrics, trace)
            manifest.set_facts(**{fact: rates})
        if rates is not None:
            notes |= dict.fromkeys(check_hit_rates(session.spec, rates))
    manifest.set_facts(probe_notes=list(notes))


def _try(session: Session, sampling: Sampling, name: str) -> Trace:
    folder = make_empty_folder(session.folder / "runs" / "0000")
    return execute_in(session, sampling, name, folder, pad_bytes=0, run=PILOT, order=0)


def _rehearse(
    session: Session, sampling: Sampling, name: str, software_metrics: SoftwareMetrics, manifest: Manifest
) -> Trace:
    """Run a configuration once with its probes, for no longer than probes could be let pass."""
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
            f"{metric_position(session.spec, probed[0])}: {' and '.join(probed)}: hit far too often for kernel "
            f"probes: with them the program had not ended after {limit:.0f} s, and without them it takes {alone:.1f} "
            "s. Use rarer events, or compile them in"
        ) from None


def _check_length(intervals: int, interval: str, *, shortest: bool) -> None:
    """Refuse a run too short for a verdict; an interval chosen by the number of records is the `shortest`."""
    if intervals < MINIMUM_INTERVALS:
        more = f"give the program {math.ceil(1.1 * MINIMUM_INTERVALS / max(intervals, 1))} times as much work"
        raise RunError(
            f"the pilot run has {counted(intervals, 'interval')} of {interval}, but at least {MINIMUM_INTERVALS} are "
            f"needed: {more if shortest else f'use a shorter interval, or {more}'}"
        )


def _quanta(interval: Interval, trace: Trace) -> tuple[int, str]:
    """Return the length of an interval of work, in quanta, from a pilot run by single quanta; and a note.

    A length in time becomes the work that the simulated program does in it on this host.
    """
    if interval.records is None:
        asked = interval.nanoseconds / (int(trace.end_ns[-1]) / len(trace)) if interval.nanoseconds else 1.0
        return max(1, round(asked)), ""
    quanta = max(1, round(len(trace) / interval.records))
    if len(trace) > _FEWER * interval.records:
        return quanta, ""
    return quanta, (
        f"{interval.records} records were requested; an interval holds at least {describe_interval(1, 'work')}, which "
        f"gives {len(trace)}. Give the program {interval.records / len(trace):.2g} times as much work to get them."
    )


def _jiffy_ns() -> int:
    return round(time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9)


def _coarse(interval_ns: int, clock: str) -> str:
    """Warn of an interval that its clock cannot keep; empty when it can."""
    if clock not in ("process-cpu", "thread-cpu") or interval_ns >= _JIFFIES * _jiffy_ns():
        return ""
    return (
        f"Intervals of {interval_ns / 1e6:g} ms were requested on the clock {clock}, which ticks every "
        f"{_jiffy_ns() / 1e6:g} ms here: they are as long as a tick or two. clock: monotonic keeps them."
    )


def _interval_for(records: int, duration_ns: int, clock: str) -> tuple[int, str]:
    """Return the interval that gives about this number of records, and a note when the clock is too coarse for it."""
    exact = round(duration_ns / records, -5)  # a tenth of a millisecond
    if clock == "monotonic":
        return max(100_000, int(exact)), ""
    # No multiple of the jiffy is asked for: a timer of 15 ms on ticks of 4 ms fires after 12 or 16, and 15 on average.
    jiffy = _jiffy_ns()
    shortest = _JIFFIES * jiffy
    if exact >= shortest:
        return int(exact), ""
    return shortest, (
        f"{records} records were requested; CPU time ticks every {jiffy / 1e6:g} ms here, so the shortest "
        f"interval is {shortest / 1e6:g} ms and gives about {duration_ns // shortest}. A longer input gives more."
    )


def with_configuration(
    session: Session,
    configuration: Configuration,
    samplings: Mapping[str, Sampling],
    manifest: Manifest,
    progress: Progress,
) -> Session:
    """Build one more configuration, or keep its build, and rehearse its probes; return a session that has it."""
    if (home := manifest.fact("shared")) is None:
        builds = build_configurations(session.spec, session.folder, [configuration], manifest, progress)
    else:
        builds = shared_builds(Path(home), [configuration], manifest)
    session = session.holding(configuration, builds[configuration.name])
    rehearse(session, samplings, manifest, progress)
    return session
