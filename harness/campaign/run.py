"""One run: prepares the environment, launches the program under its sampler, checks the result, writes the trace."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import PROGRAM_CLOCK
from unperturbed.collectors.records.assemble import assemble_processes, region_metric
from unperturbed.collectors.records.file import (
    CHOOSE_PROCESSOR,
    NO_PINNING,
    OVERFLOW_SIGNAL,
    SIGNAL,
    Records,
    Setup,
    create_record_file,
    further_record_files,
    read_record_file,
)
from unperturbed.collectors.records.processes import is_sampled_to_the_end
from unperturbed.collectors.records.ranks import launcher_in
from unperturbed.collectors.records.roles import threads_file
from unperturbed.collectors.records.window import within
from unperturbed.collectors.runtime import build_mpi, build_observer, build_preload
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS, valgrind_command
from unperturbed.collectors.sources.dumps import log_of
from unperturbed.collectors.sources.limits import Turns
from unperturbed.collectors.sources.source import NONE
from unperturbed.errors import RunError
from unperturbed.harness.campaign.plan import PAD_BYTES
from unperturbed.harness.program.attach import watch, window_of, within_records
from unperturbed.harness.program.process import (
    Command,
    ProcessOutcome,
    ServiceCommands,
    ServiceRun,
    cannot_preload,
    cannot_sample,
    check_program,
    how_it_ended,
    launch,
    program_command,
)
from unperturbed.harness.program.result import (
    ProgramResult,
    check_end,
    check_outcome,
    check_service,
    last_stderr,
    outlived,
    result_digest,
    simulator_logs,
)
from unperturbed.harness.program.service import serve
from unperturbed.harness.program.software_metrics import SoftwareMetrics
from unperturbed.harness.program.threads import write_thread_traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.text import find_placeholders

_NO_END = ", or give a program that does not end by itself, such as a server, a `load` or a `duration` in a spec"
_OR_DURATION = ", or stop the load earlier by `duration`"
_SIMULATED_TIMES = 50  # A simulated service gets this many times the time to become ready
_SETTLES, _LONGEST_SETTLE_S = 1.5, 10.0  # Idle time before and after a service's load, in intervals
_WHOLE_LOAD_NS, _WHOLE_LOAD_RECORDS = 50_000_000, 1 << 16
"""Intervals of a service's run that is counted as a whole: the last record before its load and the first one after it
bound the count."""
_EARLY_PARTS = 32  # A round shifts the ends of intervals by less than this fraction (1/32) of an interval
_POINTER_BYTES = 8
_STACK_STEP = 4096  # Stacks that differ by a multiple of this use the same sets in usual first-level caches


@dataclass(frozen=True)
class Sampling:
    """Measurement settings of one run."""

    collected: Pass  # The hardware metrics, and their source
    software_metrics: SoftwareMetrics  # The software metrics, and the means that count those not compiled in
    # Length of an interval; in quanta of the simulator on the work clock; in counts of `event` or `metric` if set.
    interval_ns: int
    clock: str
    capacity: int  # Maximum number of records
    timeout_s: float | None = None  # Time limit; the spec's limit by default
    # Count only the whole run: the trace has one interval, from the program's first record to its end.
    whole: bool = False
    event: str = ""  # The hardware metric that ends intervals by its counts
    metric: str = ""  # The software metric that ends intervals by its events, on the program's clock
    quantum: int = QUANTUM_BLOCKS  # Basic blocks of a quantum of work
    turn: int = 0  # Quanta after which metrics take turns on a simulated processor's counters; 0: all are counted

    @property
    def slice(self) -> int:
        """Return the length of the parts that are recorded: an interval, or less if metrics take turns within it."""
        return math.gcd(self.interval_ns, self.turn)

    @property
    def turns(self) -> Turns | None:
        """Return the lengths of an interval and of a turn in slices; None if no simulated metrics take turns."""
        return Turns(self.interval_ns // self.slice, self.turn // self.slice) if self.turn else None


def run_plain(
    spec: CampaignSpec,
    folder: Path,
    *,
    build: Path | None,
    inputs: Path,
    pad_bytes: int = 0,
    before: Sequence[str] = (),
) -> tuple[ProgramResult, ProcessOutcome]:
    """Run the untouched program once, unmeasured; every measured run must give the same result.

    `before`: Words put before the program's command, such as those of a profiler.
    """
    command = _command(spec, folder, build=build, inputs=inputs)
    if command.window is None:
        check_program(spec, command, build)
    command = replace(command, argv=[*before, *command.argv])
    if before:
        command = replace(command, service=_patient(command.service))
    if pad_bytes:
        command = replace(command, environment={**command.environment, "UNPERTURBED_PAD": "x" * pad_bytes})
    outcome = _launch(command, folder)
    shown = f"The command was: {shlex.join(command.argv)}"
    if outcome.still_running:
        raise RunError(f"{outlived(outcome)}. {shown}")
    if outcome.timed_out:
        what, advice = ("load", _OR_DURATION) if spec.program.load else ("program", "" if outcome.service else _NO_END)
        raise RunError(
            f"the {what} did not end within its timeout of {spec.program.timeout.seconds:g} s, even without "
            f"measurement; raise `timeout` (simulated runs take 40 to 300 times as long as this run){advice}. {shown}"
        )
    check_service(outcome, folder)
    if outcome.exit_code != spec.program.exit_code:
        raise RunError(
            f"the program {how_it_ended(outcome.exit_code)} in a run without measurement; expected exit code "
            f"{spec.program.exit_code}. "
            f"{last_stderr(folder)} {shown}"
        )
    return ProgramResult(outcome.exit_code, result_digest(spec, command)), outcome


def time_native(
    spec: CampaignSpec, folder: Path, *, build: Path | None, inputs: Path, expected: ProgramResult, pad_bytes: int
) -> dict[str, float]:
    """Time a configuration's build without a sampler; return the minimum wall-clock and CPU time of several runs.

    Needed for each simulated run, because its own duration is that of the simulator. Compiled-in counters count as in a
    sampled run.
    """
    plain = _command(spec, folder, build=build, inputs=inputs)
    command = replace(plain, environment=_padded(plain.argv, plain.environment, pad_bytes))
    outcomes = []
    for _ in range(spec.campaign.native_runs):
        outcomes.append(_launch(command, folder))
        check_outcome(spec, command, outcomes[-1], expected)
        shutil.rmtree(folder)
        folder.mkdir()
        plain.folder.mkdir(parents=True, exist_ok=True)
    least = min(outcomes, key=lambda outcome: outcome.user_s + outcome.system_s)
    return {
        "time_s": min(outcome.seconds for outcome in outcomes),
        "cpu_s": least.user_s + least.system_s,
        "system_s": least.system_s,
    }


def execute(
    spec: CampaignSpec,
    folder: Path,
    sampling: Sampling,
    *,
    build: Path | None,
    inputs: Path,
    expected: ProgramResult,
    pad_bytes: int,
    attributes: Mapping[str, Any],
) -> Trace:
    """Run the program once with its sampler, inside or outside of the program, and write the run's trace.

    `folder`: The run's empty folder, for trace.parquet, stdout, stderr and meta.json.
    `build`: The configuration's build; None for a program that is not built here and loads the sampler by LD_PRELOAD.
    """
    if spec.program.is_service and sampling.whole:
        # Records bound the load within the service's life.
        sampling = replace(sampling, interval_ns=_WHOLE_LOAD_NS, capacity=max(sampling.capacity, _WHOLE_LOAD_RECORDS))
    command, setup = _sampled_command(spec, folder, sampling, build=build, inputs=inputs, pad_bytes=pad_bytes)
    outcome = _launch(command, folder)
    ended_ns = time.monotonic_ns()
    records = read_record_file(folder / "record", setup)
    further = [read_record_file(file, setup, grows=True) for file in further_record_files(folder / "record")]
    service = outcome.service
    load = None if service is None or command.window is not None else (service.began_ns, service.ended_ns)
    if records.wall_ns and service is None:
        # Use the program's times, without those of the observer.
        outcome = replace(
            outcome, seconds=records.wall_ns / 1e9, user_s=records.user_us / 1e6, system_s=records.system_us / 1e6
        )
    elif records.wall_ns and command.window is not None:
        outcome = within_records(outcome, records.wall_ns / 1e9, records.user_us / 1e6)
    elif records.state == "failed" and spec.measure.sampler == "outside":
        raise RunError(f"the observer could not {'start' if command.window is None else 'count'}: {records.message}")
    check_outcome(spec, command, outcome, expected)
    if sampling.clock in ("monotonic", PROGRAM_CLOCK) and not sampling.whole and service is None and not further:
        check_end(records, ended_ns, setup, wrapped=spec.program.sampled is not None)
    times = {
        "time_s": outcome.seconds,
        "cpu_s": outcome.user_s + outcome.system_s,
        "system_s": outcome.system_s,
    }
    if command.window is not None or (spec.program.is_service and spec.program.load is None):
        del times["time_s"]  # it is the spec's `duration`
    software, regions = _counted_software(spec, sampling)
    trace, processes = assemble_processes(
        records,
        sampling.collected,
        software=software,
        os_metrics=spec.measure.os,
        derived=spec.measure.derived,
        dumps=folder / "dumps",
        attributes={
            **(times if sampling.collected.machine is None else {}),
            **attributes,
            "exit_code": outcome.exit_code,
            "pass": sampling.collected.name,
            "source": sampling.collected.source,
            "clock": sampling.clock,
            "sampler": spec.measure.sampler,
            "interval_ns": sampling.interval_ns,
            **({"interval_event": sampling.event} if sampling.event else {}),
            **({"interval_metric": sampling.metric} if sampling.metric else {}),
            **({"quantum_blocks": sampling.quantum} if sampling.quantum != QUANTUM_BLOCKS else {}),
            **({"turn_quanta": sampling.turn} if sampling.turn else {}),
            "environment_pad_bytes": pad_bytes,
            "seconds": outcome.seconds,
            **({} if service is None else _service_facts(service)),
            **(_uncounted(spec, sampling, outcome, [records, *further]) if service is None else {}),
        },
        whole=sampling.whole,
        further=further,
        window=load,
        turns=sampling.turns,
        each_thread=setup.each,
        regions=regions,
    )
    if regions and sampling.collected.machine is not None and trace.attributes["made_threads"]:
        raise RunError(
            f"{', '.join(regions)}: the program started threads, and the simulator cannot separate what others count "
            "while one of them is within a function: count entries by `enter`, or use `source: papi` or `perf_event`"
        )
    if spec.measure.threads == "main" and sampling.collected.machine is not None and trace.attributes["made_threads"]:
        raise RunError(
            "`threads: main`: the simulator counts all threads of a process, and the program started some: remove "
            "`threads` under `measure`, or count by `source: papi` or `perf_event`"
        )
    if processes:
        (folder / "processes").mkdir()
        for number, alone in enumerate(processes):
            alone.write(folder / "processes" / f"{number:03d}.parquet")
    if setup.each or (setup.threads and sampling.collected.machine is None):  # simulated threads are counted together
        by_file = {folder / "record": records if load is None else within(records, load)}
        by_file |= {
            file: other
            for file, other in zip(further_record_files(folder / "record"), further, strict=True)
            if is_sampled_to_the_end(folder / "dumps", other)
        }
        trace = write_thread_traces(
            trace,
            by_file,
            sampling.collected,
            software,
            folder,
            each=setup.each,
            whole=load is None,
        )
    trace.write(folder / "trace.parquet")
    (folder / "meta.json").write_text(
        json.dumps({"command": list(command.argv), "outcome": asdict(outcome), **trace.attributes}, indent=1)
    )
    _tidy(folder)
    return trace


def _counted_software(spec: CampaignSpec, sampling: Sampling) -> tuple[tuple[Metric | None, ...], dict[str, str]]:
    """Return a run's software metrics, and those that count a hardware metric of this pass within a function."""
    counted = {metric.name: metric for metric in sampling.collected.metrics}
    software: list[Metric | None] = []
    regions = {}
    for metric in sampling.software_metrics.metrics:
        event = None if metric is None else spec.measure.software[metric.name]
        if metric is None or event is None or event.of is None:
            software.append(metric)
        elif event.of in counted:
            software.append(region_metric(metric.name, event.target, counted[event.of]))
            regions[metric.name] = event.of
        else:  # another pass counts what it needs
            software.append(None)
    return tuple(software), regions


def _region_events(spec: CampaignSpec, sampling: Sampling) -> dict[int, int]:
    """Return, for the index of each metric that counts within a function, the index of its event in this pass."""
    software, regions = _counted_software(spec, sampling)
    names = [metric.name for metric in sampling.collected.metrics]
    return {
        number: names.index(regions[metric.name])
        for number, metric in enumerate(software)
        if metric is not None and metric.name in regions
    }


def _service_facts(service: ServiceRun) -> dict[str, Any]:
    """Return facts about a service's run, for the trace's attributes."""
    facts: dict[str, Any] = {"ready_s": service.ready_s, "requests": service.requests}
    return {name: value for name, value in facts.items() if value is not None}


def _patient(service: ServiceCommands | None) -> ServiceCommands | None:
    """Give a service more time to become ready, as a simulator needs."""
    return service and replace(service, ready_timeout_s=_SIMULATED_TIMES * service.ready_timeout_s)


def _sampled_command(
    spec: CampaignSpec, folder: Path, sampling: Sampling, *, build: Path | None, inputs: Path, pad_bytes: int
) -> tuple[Command, Setup]:
    """Create the record file; return the command with its sampler, and the sampler's settings."""
    software_metrics = sampling.software_metrics
    compiler = spec.program.compilers["cc"]
    inside = spec.measure.sampler == "inside"
    # A build by another compiler than the wrapper (cargo, javac) has no sampler linked in.
    linked = build is not None and bool({"cc", "cxx"} & set(find_placeholders(spec.program.build or "")))
    preloaded = (not linked and (inside or software_metrics.within)) or bool(software_metrics.java_option)
    sampled = spec.program.sampled or Path(shlex.split(spec.program.run)[0]).name
    setup = replace(_setup(spec, sampling, sampled if preloaded else ""), early_blocks=_early(sampling, pad_bytes))
    record = folder / "record"
    create_record_file(record, setup)
    extra = {"UNPERTURBED_RECORD": str(record)}
    libraries = [*([build_preload(compiler)] if preloaded else []), *software_metrics.preload]
    if setup.waits:
        libraries.append(build_mpi(compiler))
    if libraries:
        # The observer passes the libraries on to the program without loading them itself.
        extra["LD_PRELOAD" if inside else "UNPERTURBED_PRELOAD"] = ":".join(map(str, libraries))
    prefix: list[str] = []
    plain = _command(spec, folder, build=build, inputs=inputs)
    if plain.window is not None:
        prefix = [str(build_observer(compiler, attached=True)), str(record), *plain.window.arguments]
    elif not inside:
        prefix = [str(build_observer(compiler)), str(record)]
    elif sampling.collected.machine is not None:
        machine, each = sampling.collected.machine, setup.each
        prefix = valgrind_command(machine, folder / "dumps", sampling.quantum, separate=each)
        extra["UNPERTURBED_LOG"] = str(log_of(folder / "dumps"))
    limit = spec.program.timeout.seconds
    words = software_metrics.command(plain.argv)
    program = None
    if (preloaded or inside) and (build is not None or (sampled == Path(plain.argv[0]).name and not setup.waits)):
        program = shutil.which(plain.argv[0], path=plain.environment["PATH"])
    if program is not None and preloaded and (reason := cannot_preload(program)) is not None:
        advice = "use `sampler: outside` with metrics that need no sampler in the program, such as `probe`"
        raise RunError(f"{program} {reason}; {advice}")
    if program is not None and inside and (reason := cannot_sample(program)) is not None:
        raise RunError(f"{program} {reason}; use `sampler: outside`, with counters that are not simulated")
    service = plain.service
    if service is not None:
        # On a clock of time, one interval before the load and one after it, at least
        timed = sampling.clock == "monotonic" and not sampling.event
        settle_s = min(_LONGEST_SETTLE_S, _SETTLES * sampling.interval_ns / 1e9) if timed else 0.0
        service = replace(service, observed=not inside, settle_s=settle_s)
        if inside and sampling.collected.machine is not None:
            service = _patient(service)
    environment = {**plain.environment, **software_metrics.environment(plain.environment), **extra}
    command = replace(
        plain,
        argv=[*prefix, *words],
        environment=_padded(words, environment, pad_bytes),
        timeout_s=limit if sampling.timeout_s is None else min(sampling.timeout_s, limit),
        service=service,
    )
    return command, setup


def _early(sampling: Sampling, pad_bytes: int) -> int:
    """Return by how many basic blocks to shorten the first interval of work, by a different fraction in each round.

    Otherwise all runs would be cut at exactly the same positions. If intervals are almost equal, the little work that
    counting adds would then shift a run relative to these positions and change the order of the intervals.
    """
    if sampling.clock != "work" or sampling.whole:
        return 0
    return pad_bytes * sampling.slice * sampling.quantum // (_EARLY_PARTS * PAD_BYTES)


def _padded(words: Sequence[str], environment: Mapping[str, str], pad_bytes: int) -> dict[str, str]:
    """Return the environment with padding, so that the stack has the same position in all configurations of a round.

    Above a program's stack, the kernel puts its arguments and variables, its path again, and a pointer to each argument
    and variable. Configurations differ in the paths of their builds and in the loaded libraries. Texts and pointers are
    each aligned to 16 bytes: with an even number of pointers, only the texts need padding.
    """
    padded = {**environment, "UNPERTURBED_PAD": ""}
    if (len(words) + len(padded)) % 2:
        padded["UNPERTURBED_EVEN"] = ""
    texts = [*words[:1], *words, *(f"{name}={value}" for name, value in padded.items())]
    used = sum(len(os.fsencode(text)) + 1 for text in texts) + _POINTER_BYTES * (len(texts) - 1)
    return {**padded, "UNPERTURBED_PAD": "x" * (-used % _STACK_STEP + pad_bytes)}


def _setup(spec: CampaignSpec, sampling: Sampling, program: str) -> Setup:
    """Return the sampler's settings; `program` is the name of the program that a preloaded runtime samples."""
    measure = spec.measure
    source = None if sampling.collected.source == NONE else find_source(sampling.collected.source)
    hardware = source is not None and source.sampled
    inside = measure.sampler == "inside"
    library = "" if source is None else source.library() if inside else source.observer_library()
    return Setup(
        sampling.collected.source,
        sampling.slice,
        "event" if sampling.event else sampling.clock,
        sampling.collected.events,
        measure.os,
        len(sampling.software_metrics.metrics),
        sampling.capacity * (sampling.interval_ns // sampling.slice),
        program,
        sampler=measure.sampler,
        threads=(measure.samples_all_threads and (hardware or sampling.clock == "work")) or measure.threads == "each",
        each=measure.threads == "each",
        children=measure.counts_children,
        reset=hardware and measure.reading == "reset",
        multiplex=sampling.collected.multiplexed and hardware,
        user_read=inside and hardware and measure.reading == "read",
        alternate_stack=measure.alternate_stack,
        signal=measure.signal or (OVERFLOW_SIGNAL if sampling.event else SIGNAL),
        attached=spec.program.attach is not None,
        papi=library,
        waits=inside and bool(launcher_in(spec.program.run)),
        observer_cpu=(CHOOSE_PROCESSOR if measure.observer_cpu is None else measure.observer_cpu)
        if measure.pin
        else NO_PINNING,
        probes=sampling.software_metrics.probes,
        interval_event=sampling.event,
        regions=_region_events(spec, sampling),
        quantum_blocks=sampling.quantum,
    )


def _command(spec: CampaignSpec, folder: Path, *, build: Path | None, inputs: Path) -> Command:
    """Return the program's command without a sampler, with a scratch folder inside the run's folder."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    program = program_command(spec, scratch=scratch, build=build, inputs=inputs)
    window = window_of(spec, scratch)
    if program.folder.is_relative_to(scratch):
        program.folder.mkdir(parents=True, exist_ok=True)
    return Command(
        argv=program.words if window is None else (),
        folder=program.folder,
        environment=program.environment,
        stdin=program.stdin,
        stdout=folder / "stdout",
        stderr=folder / "stderr",
        timeout_s=spec.program.timeout.seconds,
        first_only=spec.measure.processes == "first",
        service=program.service,
        window=window,
    )


def _uncounted(
    spec: CampaignSpec, sampling: Sampling, outcome: ProcessOutcome, processes: Sequence[Records]
) -> dict[str, float]:
    """Return the share of CPU time that processes without a sampler used, if all are to be counted, from inside."""
    simulated = sampling.collected.machine is not None
    of_ranks = any(process.rank is not None for process in processes)  # what starts them is left out on purpose
    if not spec.measure.counts_children or spec.measure.sampler == "outside" or simulated or of_ranks:
        return {}
    used_s = outcome.user_s + outcome.system_s
    counted_ns: dict[int, int] = {}
    for process in processes:
        stamps = process.rows["monotonic_ns"]
        lasted_ns = int(stamps[-1] - stamps[0]) if len(stamps) else 0
        # An exec does not begin the CPU time again. One that was killed used its processor at most all the time.
        counted_ns[process.owner] = process.cpu_ns or counted_ns.get(process.owner, 0) + lasted_ns
    without_s = used_s - sum(counted_ns.values()) / 1e9
    return {"uncounted_share": max(0.0, without_s / used_s)} if used_s else {}


def _launch(command: Command, folder: Path) -> ProcessOutcome:
    if not command.folder.is_dir():
        raise RunError(
            f"`working_folder`: {command.folder} is not a folder: create it, or use `{{scratch}}`, which is a new "
            "folder for each run"
        )
    if command.stdin is not None and not command.stdin.is_file():
        raise RunError(f"`stdin`: {command.stdin} is not a file: give the path of a file")
    folder.mkdir(parents=True, exist_ok=True)
    if command.window is not None:
        return watch(command, command.window)
    return launch(command) if command.service is None else serve(command, command.service)


def _tidy(folder: Path) -> None:
    """Remove the raw records and the program's scratch files."""
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    records = [folder / "record", *further_record_files(folder / "record")]
    notes = [threads_file(record) for record in records]
    for file in [*records, *notes, *folder.glob("dumps.*"), *simulator_logs(folder)]:
        file.unlink(missing_ok=True)
