"""Everything before the first planned run: what the host counts, input, the untouched program's result, the pilot, the rehearsal of probes."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unperturbed.analysis.perturbation import MINIMUM_INTERVALS
from unperturbed.collectors.passes import Pass, Passes
from unperturbed.collectors.trace import Trace
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness import host
from unperturbed.harness.build import check_compilers, find_source
from unperturbed.harness.identity import program_identity
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.milestones import Milestones, hit_rates, judge_rates
from unperturbed.harness.plan import Configuration, configurations, shamless
from unperturbed.harness.progress import Progress
from unperturbed.harness.requirements import (
    check_budget,
    check_clock,
    check_probes,
    check_processor,
    check_sampled_program,
    no_verdict,
    plan_counting,
    shows_perturbation,
)
from unperturbed.harness.run import Result, Sampling, TimedOutError, run_plain
from unperturbed.harness.sampling_notes import length_of_interval
from unperturbed.harness.session import UNTOUCHED, Session, build_configurations, execute_in
from unperturbed.harness.spec import Campaign, Interval
from unperturbed.harness.spec.fields import SHORTEST_INTERVAL_NS
from unperturbed.harness.spec.models import BASELINE, PILOT, REFERENCE
from unperturbed.harness.spec.placeholders import substitute
from unperturbed.harness.spec.where import at_metric

__all__ = ["Ground", "fresh", "lay_ground", "meet_host", "pilots", "prepare", "rehearse", "with_configuration"]

_CLOCK_MONOTONIC_COARSE = 6
_PILOT_CAPACITY = 1 << 17
_PILOT_INTERVAL_NS = 20_000_000
_REHEARSAL_TIMES, _REHEARSAL_SLACK_S = 20, 10
"""With its probes the program may take this many times as long as the pilot, and so many seconds more: then it is stopped."""
_JIFFIES = 2
"""An interval of processor time is at least two of the kernel's jiffies: below, its length is mostly rounding."""


def prepare(campaign: Campaign, folder: Path, manifest: Manifest, progress: Progress) -> Session:
    """Do all that comes before the pilot; what an earlier session did is kept.

    Raises
    ------
    SpecError, HostError, RunError
        As `run_campaign` says.
    """
    passes, here = meet_host(campaign, manifest, progress)
    check_clock(campaign, passes)
    check_probes(campaign, passes)
    check_budget(campaign, len(passes.passes))
    if why := no_verdict(campaign, passes):
        progress.note(why)
    wanted = configurations(campaign)
    if without := shamless(campaign):
        progress.note(f"no sham of {' and '.join(without)}: nothing is compiled in there that could be left out")
    ground = lay_ground(campaign, folder, manifest, progress)
    expected = _reference(campaign, folder, ground.builds[REFERENCE], ground.inputs, manifest, progress)
    named = {item.name: item for item in passes.passes}
    session = Session(campaign, folder, named, {}, ground.inputs, expected, here, ground.program)
    for item in wanted:
        session = session.holding(item, ground.builds[item.name])
    return session


def meet_host(campaign: Campaign, manifest: Manifest, progress: Progress) -> tuple[Passes, str]:
    """Find out what this host counts; return the passes, and the host's fingerprint.

    Raises
    ------
    SpecError, HostError
        As `run_campaign` says.
    """
    check_compilers(campaign.program)
    check_sampled_program(campaign)
    description = host.describe(tuple(campaign.program.compilers.values()))
    here = host.fingerprint(description)
    if (begun := manifest.fact("host")) not in (None, here):
        raise HostError(
            f"this campaign was begun on another host or kernel ({begun}; this is {here}): counts of two hosts do not compare"
        )
    manifest.set_facts(host=here, description=description)
    progress.step("finding out what this host can count")
    passes = plan_counting(campaign)
    check_processor(campaign)
    manifest.set_facts(reasons=dict(passes.reasons), passes=[_pass_facts(item) for item in passes.passes])
    return passes, here


@dataclass(frozen=True)
class Ground:
    """What all runs stand on: builds by configuration, the untouched one among them; the folder of the input; what the program is called."""

    builds: Mapping[str, Path | None]
    inputs: Path
    program: str | None


def lay_ground(campaign: Campaign, folder: Path, manifest: Manifest, progress: Progress) -> Ground:
    """Build every configuration and make the input; what an earlier session did is kept.

    Raises
    ------
    SpecError, HostError, RunError
        As `run_campaign` says.
    """
    identity = _identity(campaign, manifest)
    builds = build_configurations(campaign, folder, [UNTOUCHED, *configurations(campaign)], manifest, progress)
    return Ground(builds, _inputs(campaign, folder, builds[REFERENCE], manifest, progress), identity)


def with_configuration(
    session: Session, configuration: Configuration, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress
) -> Session:
    """Return a session that can run one more configuration: it is built, what counts in it is found, its probes are rehearsed.

    What an earlier session did is kept: the manifest knows the build by the configuration's name.

    Raises
    ------
    SpecError, HostError, RunError
        As `run_campaign` says; or the name was given to other metrics before.
    """
    builds = build_configurations(session.campaign, session.folder, [configuration], manifest, progress)
    session = session.holding(configuration, builds[configuration.name])
    rehearse(session, samplings, manifest, progress)
    return session


def _identity(campaign: Campaign, manifest: Manifest) -> str | None:
    """Return what the traces call the program; None in a campaign with runs of before traces said so.

    Before the first run is done the program may still change: what was found of it is then found anew.

    Raises
    ------
    SpecError
        It has changed since runs were made.
    """
    begun, now = manifest.fact("program"), program_identity(campaign, find_source(campaign.program, campaign.folder))
    if begun == now:
        return now
    if manifest.runs("done"):
        if begun is None:
            return None
        raise SpecError(
            f"the program is another than when this campaign was begun (it was {begun}, it is {now}): its source, its input or a file "
            "that its command names has changed, and runs of two programs do not compare. Choose another folder with --campaign, or put the "
            "program back"
        )
    if begun is not None:
        pilots_of = [f"{PILOT}:{item['name']}" for item in manifest.fact("passes")]
        rehearsals = [f"probes:{item.name}" for item in configurations(campaign)]
        manifest.set_facts(**dict.fromkeys(["expected", "native", "inputs", *pilots_of, *rehearsals]))
    manifest.set_facts(program=now)
    return now


def _pass_facts(item: Pass) -> dict[str, Any]:
    return {
        "name": item.name,
        "source": item.source,
        "metrics": [metric.name for metric in item.metrics],
        "machine": asdict(item.machine) if item.machine else None,
        "multiplexed": item.multiplexed,
    }


def _inputs(campaign: Campaign, folder: Path, build_folder: Path | None, manifest: Manifest, progress: Progress) -> Path:
    """Copy the spec's input files and have `prepare` make the others, once."""
    inputs = folder / "inputs"
    if manifest.fact("inputs") is not None and inputs.is_dir():
        return inputs
    shutil.rmtree(inputs, ignore_errors=True)
    inputs.mkdir()
    for name in campaign.program.inputs:
        shutil.copy2(campaign.folder / name, inputs / Path(name).name)
    if campaign.program.prepare is not None:
        progress.step("preparing the input")
        known = {"python": sys.executable, "inputs": str(inputs), "spec": str(campaign.folder)}
        if build_folder is not None:
            known |= {"source": str(build_folder), "build": str(build_folder)}
        argv = [substitute(word, known) for word in shlex.split(campaign.program.prepare)]
        try:
            made = subprocess.run(
                argv, cwd=build_folder or campaign.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
        except OSError as error:
            raise RunError(f"prepare cannot be run: {argv[0]}: {error.strerror}") from None
        if made.returncode != 0:
            raise RunError(
                f"prepare failed with exit code {made.returncode}: {shlex.join(argv)}\n{(made.stderr or made.stdout).strip()[-2000:]}"
            )
    manifest.set_facts(inputs={file.name: file.stat().st_size for file in sorted(inputs.iterdir())})
    return inputs


def _reference(
    campaign: Campaign, folder: Path, build_folder: Path | None, inputs: Path, manifest: Manifest, progress: Progress
) -> Result:
    """Run the untouched program once: the result that every measured run must give."""
    known = manifest.fact("expected")
    if known is not None:
        return Result(known["exit_code"], known["digest"])
    progress.step("running the untouched program")
    result, outcome = run_plain(campaign, fresh(folder / "runs" / REFERENCE), build=build_folder, inputs=inputs)
    wanted = campaign.program.output_digest
    if wanted is not None and wanted.removeprefix("sha256:") != result.digest:
        raise RunError(
            f"the untouched program's result has sha256 {result.digest}, the spec's output_digest is {wanted}: "
            "the input, the compiler or the program differs from what the spec was written for"
        )
    manifest.set_facts(expected=asdict(result), native=asdict(outcome))
    return result


def _clock(campaign: Campaign, source: str) -> str:
    """Choose the interval's clock: processor time when simulated, since wall-clock intervals of a slowed program move with the load."""
    if campaign.measure.clock != "auto":
        return campaign.measure.clock
    return "process-cpu" if source == "simulated" else "monotonic"


def pilots(session: Session, manifest: Manifest, progress: Progress) -> dict[str, Sampling]:
    """Run the baseline once a pass: to choose the interval (003, section 3.2), to size the record file, to know how long a run takes."""
    samplings = {}
    for name, collected in session.passes.items():
        clock = _clock(session.campaign, collected.source)
        fact = f"{PILOT}:{name}"
        if manifest.fact(fact) is None:
            progress.step("pilot run" if len(session.passes) == 1 else f"pilot run ({name})")
            asked = session.campaign.measure.interval or Interval()
            length = 1 if clock == "work" else asked.nanoseconds or _PILOT_INTERVAL_NS
            first = Sampling(collected, Milestones(), length, clock, _PILOT_CAPACITY)
            started = time.monotonic()
            trace = execute_in(
                session, first, BASELINE, fresh(session.folder / "runs" / "0000"), pad_bytes=0, run=PILOT, order=0
            )
            seconds = time.monotonic() - started
            interval_ns, note = first.interval_ns, _coarse(first.interval_ns, clock)
            if asked.records is not None:
                interval_ns, note = _interval_for(asked.records, len(trace) * first.interval_ns, clock)
            if shows_perturbation(session.passes.values()):
                _check_length(round(len(trace) * first.interval_ns / interval_ns), interval_ns, clock, asked.records)
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
        samplings[name] = Sampling(collected, Milestones(), found["interval_ns"], clock, int(4 * expected) + 4096)
    return samplings


def rehearse(session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress) -> None:
    """Run each configuration that has probes of the kernel once; note what they cost, and refuse those that are hit too often.

    Raises
    ------
    SpecError
        A probe is hit more often than its `max_rate`.
    """
    notes: dict[str, None] = {}
    for name, built in session.built.items():
        milestones = built.milestones
        if not milestones.probes:
            continue
        fact = f"probes:{name}"
        if manifest.fact(fact) is None:
            progress.step(f"rehearsing the probes of {name}")
            trace = _rehearse(session, next(iter(samplings.values())), name, milestones, manifest)
            manifest.set_facts(**{fact: hit_rates(session.campaign, milestones, trace)})
        notes |= dict.fromkeys(judge_rates(session.campaign, manifest.fact(fact)))
    manifest.set_facts(probe_notes=list(notes))


def _rehearse(session: Session, sampling: Sampling, name: str, milestones: Milestones, manifest: Manifest) -> Trace:
    """Run a configuration once with its probes, for no longer than probes could be let pass."""
    alone = manifest.fact(f"{PILOT}:{sampling.collected.name}")["seconds"]
    limit = _REHEARSAL_SLACK_S + _REHEARSAL_TIMES * alone
    first = replace(sampling, milestones=milestones, capacity=max(sampling.capacity, _PILOT_CAPACITY), timeout_s=limit)
    try:
        return execute_in(session, first, name, fresh(session.folder / "runs" / "0000"), pad_bytes=0, run=PILOT, order=0)
    except TimedOutError:
        if limit >= session.campaign.program.timeout.seconds:
            raise
        probed = list(dict.fromkeys(site.metric for site in milestones.sites))
        raise SpecError(
            f"{at_metric(session.campaign, probed[0])}: {' and '.join(probed)}: hit far too often for probes of the kernel: with them the program "
            f"had not ended after {limit:.0f} s, and without them it takes {alone:.1f} s. Take rarer events, or compile them in"
        ) from None


def _check_length(intervals: int, interval_ns: int, clock: str, records: int | None) -> None:
    """Refuse now a run that is too short to be judged later. An interval that was chosen by the number of records is the shortest there is."""
    if intervals < MINIMUM_INTERVALS:
        shortest = records is not None or interval_ns <= SHORTEST_INTERVAL_NS
        raise RunError(
            f"the pilot run has {intervals} intervals of {length_of_interval(interval_ns, clock)}, and at least {MINIMUM_INTERVALS} are needed: "
            f"{'give the program more work' if shortest else 'use a shorter interval, or give the program more work'}"
        )


def _jiffy_ns() -> int:
    return round(time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9)


def _coarse(interval_ns: int, clock: str) -> str:
    """Warn of an interval that its clock cannot keep; empty when it can."""
    if clock not in ("process-cpu", "thread-cpu") or interval_ns >= _JIFFIES * _jiffy_ns():
        return ""
    return (
        f"Intervals of {interval_ns / 1e6:g} ms were asked for on the clock {clock}, which ticks every {_jiffy_ns() / 1e6:g} ms here: "
        "they are as long as a tick or two. clock: monotonic keeps them."
    )


def _interval_for(records: int, duration_ns: int, clock: str) -> tuple[int, str]:
    """Return the interval that gives about so many records, and a note when the clock is too coarse for it."""
    if clock == "work":
        return max(1, round(duration_ns / records)), ""  # quanta: the simulator has no smaller unit
    exact = round(duration_ns / records, -5)  # a tenth of a millisecond
    if clock == "monotonic":
        return max(100_000, int(exact)), ""
    # No multiple of the jiffy is asked for: a timer of 15 ms on ticks of 4 ms fires after 12 or 16, and 15 on average.
    jiffy = _jiffy_ns()
    shortest = _JIFFIES * jiffy
    if exact >= shortest:
        return int(exact), ""
    return shortest, (
        f"{records} records were asked for; processor time ticks every {jiffy / 1e6:g} ms here, so the shortest interval is "
        f"{shortest / 1e6:g} ms and gives about {duration_ns // shortest}. A longer input gives more."
    )


def fresh(folder: Path) -> Path:
    """Return a new, empty folder: what an interrupted attempt left in it is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
