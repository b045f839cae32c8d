"""Software metrics of a configuration: their counters in a run, their sites, and their cost.

The sites are searched once, before any run, so that a misspelt function is reported early, with its line in the spec.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.kernel_probes import measure_hit_cost, register_probes
from unperturbed.collectors.records.assemble import milestone
from unperturbed.collectors.records.file import Probe
from unperturbed.collectors.runtime import build_interposer, build_python_counter
from unperturbed.collectors.runtime.jvm import build_jvm_counter
from unperturbed.common.scratch import scratch_folder
from unperturbed.common.user_cache import user_cache
from unperturbed.common.wording import counted
from unperturbed.errors import SpecError
from unperturbed.harness.program.build import build_configuration, check_compilers, find_source
from unperturbed.harness.program.process import ProgramCommand, program_command
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.instrument.binaries.interposition import Interposed, find_function, interposer_source
from unperturbed.instrument.binaries.probes import HIT_COSTS, HIT_NS, ProbeSite, find_probes
from unperturbed.instrument.events import DEFAULT_MAX_RATE, Event, Means
from unperturbed.instrument.finding.site_log import SiteReport, count_records, read_sites
from unperturbed.instrument.java import JavaSites, counts_methods, find_java_sites, java_machine, load_option
from unperturbed.instrument.python import PythonSites, find_python_sites, prepare_python_hook, python_environment

_MICROSECOND_NS = 1000
_PROGRESS_S = 2.0


@dataclass(frozen=True)
class SoftwareMetrics:
    """The software metrics of one configuration, and the counters of metrics that are not compiled in."""

    # In the order of their numbers; None for a metric of the build that this configuration does not count.
    metrics: tuple[Metric | None, ...] = ()
    probes: tuple[Probe, ...] = ()  # Kernel probes, which exist as long as this process
    sites: tuple[ProbeSite, ...] = ()  # Sites of the kernel probes
    preload: tuple[Path, ...] = ()  # Libraries to preload into the program
    python_hook: Path | None = None  # Import hook that counts in a Python program, or None
    java_option: str = ""  # Option that loads the counters into a Java virtual machine; '' for none

    @property
    def within(self) -> bool:
        """Tell whether any metric counts inside the program, so that the program needs the sampler's runtime."""
        return any(metric is None or metric.source != "kernel probe" for metric in self.metrics)

    @property
    def compiled(self) -> bool:
        """Tell whether only compiled-in code counts, which also counts in runs without a sampler."""
        return not self.probes and not self.preload and self.python_hook is None and not self.java_option

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a program's command with the option that loads the counters, if the program is `java`.

        An option, and not JAVA_TOOL_OPTIONS: that variable makes the machine write to stderr, and other Java programs
        that the program starts would count too.
        """
        return [words[0], self.java_option, *words[1:]] if self.java_option else list(words)

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables to add to (or replace in) the program's environment."""
        return {} if self.python_hook is None else python_environment(own, self.python_hook)


def find_software_metrics(
    spec: CampaignSpec, software: Mapping[str, Event], command: ProgramCommand, *, idle: Collection[str] = ()
) -> SoftwareMetrics:
    """Find the sites of a configuration's software metrics and set up their counters.

    `software`: Events by name. `idle`: Those compiled into the build that this configuration does not count.
    """
    metrics = tuple(
        None if name in idle else milestone(name, event.means, semantics=event.semantics)
        for name, event in software.items()
    )
    located: dict[int, Any] = {}
    faults = []
    finders = {"kernel": probe_sites, "preload": interposed, "python": python_sites, "jvm": java_sites}
    for number, (name, event) in enumerate(software.items()):
        try:
            located[number] = finders[event.means](spec, name, event, command) if event.means in finders else None
        except SpecError as error:
            faults.append(str(error))
    if faults:
        raise SpecError("\n".join(faults))
    sites = tuple(replace(site, number=number) for number in _of(software, "kernel") for site in located[number])
    compiler = spec.program.compilers["cc"]
    functions = {number: located[number] for number in _of(software, "preload")}
    preload = [build_interposer(compiler, interposer_source(functions))] if functions else []
    hook = None
    if _of(software, "python"):
        hook = prepare_python_hook(
            command.words,
            software,
            environment=command.environment,
            folder=command.folder,
            library=build_python_counter(compiler),
            cache=user_cache() / "python",
        )
    option = _java_option(software, command, compiler)
    return SoftwareMetrics(metrics, register_probes(sites, compiler=compiler), sites, tuple(preload), hook, option)


def _java_option(software: Mapping[str, Event], command: ProgramCommand, compiler: str) -> str:
    """Return the option that loads the counters into a Java virtual machine; '' if no metric is counted there."""
    if not _of(software, "jvm"):
        return ""
    machine = java_machine(command.words, environment=command.environment, folder=command.folder)
    library = build_jvm_counter(compiler, machine.home, machine.include, methods=counts_methods(software))
    return load_option(library, software)


def _of(software: Mapping[str, Event], means: Means) -> list[int]:
    """Return the numbers of the metrics that are counted by the given means."""
    return [number for number, event in enumerate(software.values()) if event.means == means]


def probe_sites(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> tuple[ProbeSite, ...]:
    """Return the kernel-probe sites of one metric."""
    with with_metric_position(spec, name):
        return find_probes(
            name, event, program=_binary(command), search_path=command.search_path, library_path=command.library_path
        )


def interposed(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> Interposed:
    """Return the library function whose calls one metric counts."""
    with with_metric_position(spec, name):
        return find_function(event, program=_binary(command), library_path=command.library_path)


def python_sites(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> PythonSites:
    """Return the functions of a Python program that one metric counts."""
    command.folder.mkdir(parents=True, exist_ok=True)
    with with_metric_position(spec, name):
        return find_python_sites(command.words, name, event, environment=command.environment, folder=command.folder)


def java_sites(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> JavaSites:
    """Return what one metric of a Java virtual machine counts."""
    command.folder.mkdir(parents=True, exist_ok=True)
    with with_metric_position(spec, name):
        return find_java_sites(command.words, name, event, environment=command.environment, folder=command.folder)


def _binary(command: ProgramCommand) -> Path:
    """Return the binary of the measured program."""
    if command.binary is None:
        raise SpecError(f"cannot find events in the program {command.words[0]}: there is no such executable file")
    return command.binary


@contextmanager
def with_metric_position(spec: CampaignSpec, name: str) -> Iterator[None]:
    """Prefix the message of a SpecError with a metric's position in the spec."""
    try:
        yield
    except SpecError as error:
        fault = str(error)
        metric = "" if fault.startswith("software metric") else f"software metric {name!r}: "
        raise SpecError(f"{metric_position(spec, name)}: {metric}{fault}") from None


def hit_rates(spec: CampaignSpec, software_metrics: SoftwareMetrics, trace: Trace) -> dict[str, dict[str, float]]:
    """Return, by metric, the hits per second of the program's own time (`rate`) and the cost of a hit here (`ns`)."""
    cost = measure_hit_cost(spec.program.compilers["cc"])
    counted = {
        site.metric: max(cost.ns(other.hit) for other in software_metrics.sites if other.metric == site.metric)
        for site in software_metrics.sites
    }
    hits = {name: int(trace[name].sum()) for name in counted}
    spent = sum(hits[name] * ns for name, ns in counted.items()) / 1e9
    # The hits made the run longer; assume that the program takes at least a tenth of the run without hits.
    seconds = max(trace.attributes["wall_seconds"] - spent, trace.attributes["wall_seconds"] / 10)
    return {name: {"rate": hits[name] / seconds, "ns": ns} for name, ns in counted.items()}


def check_hit_rates(spec: CampaignSpec, rates: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence with each probe's hit rate and cost; reject probes that are hit too often."""
    for name, measured in rates.items():
        event = spec.measure.software[name]
        rate, share = measured["rate"], measured["rate"] * measured["ns"] / 1e9
        cost = f"at {measured['ns'] / 1e3:.2g} us each on this host, {share:.2%} of the program's time"
        hit = f"{rate:,.0f} hits per second {cost}"
        allowed = _allowed(event, measured["ns"])
        if rate > allowed:
            raise SpecError(
                f"{metric_position(spec, name)}: {name} is hit too often for a kernel probe: {hit}. The limit is "
                f"{allowed:,} per second: use a rarer event, compile the counter in, or raise the limit with "
                f"`max_rate: {_rounded_up(rate)}`"
            )
        yield f"The kernel counts {name} with breakpoints: {hit}."


def _allowed(event: Event, ns: float) -> int:
    """Return the allowed hits per second: the spec's limit, or else as many as take at most 1 % of the time."""
    if event.max_rate != DEFAULT_MAX_RATE:
        return event.max_rate
    return min(DEFAULT_MAX_RATE, int(DEFAULT_MAX_RATE * _MICROSECOND_NS / ns))


def _rounded_up(rate: float) -> int:
    """Return a round number at least 20 % above a rate, to allow for faster runs."""
    step = int("1" + "0" * (len(str(int(rate))) - 1))
    return (int(1.2 * rate) // step + 1) * step


@dataclass(frozen=True)
class Place:
    """A position in a file."""

    file: str  # The file
    line: int  # The line; 0 if there is none, as in a binary
    text: str  # The source text at this position, or a remark on it


@dataclass(frozen=True)
class MetricSites:
    """Sites and cost of one software metric."""

    name: str
    event: Event
    sites: tuple[Place, ...]  # Positions where the metric counts
    # Positions where the event may happen uncounted, and why; a position without a file means the whole program.
    uncounted: tuple[Place, ...]
    # Predicted instructions per event; None if a number of instructions does not describe the cost.
    instructions: float | None
    cost: str  # The predicted cost in words
    # The error, with the position in the spec and similar names; empty if the metric has a site.
    fault: str = ""


@dataclass(frozen=True)
class SpecSites:
    """All software metrics of a spec; `skipped` maps source files compiled without counters to the reason."""

    metrics: tuple[MetricSites, ...]
    skipped: Mapping[str, str]


def find_all_sites(spec: CampaignSpec, step: Callable[[str], None]) -> SpecSites:
    """Build a program with all its software metrics, without running the program, and find where each metric counts."""
    software = spec.measure.software
    if not software:
        raise SpecError(f"{spec.path}: the spec has no software metrics: add some under `measure: software:`")
    check_compilers(spec.program)
    source = find_source(spec.program, spec.folder)
    # In the cache: /tmp is often too small for a source tree, and may be mounted noexec.
    with scratch_folder("sites", user_cache()) as folder:
        tree = None
        report = SiteReport([])
        faults: Mapping[str, str] = {}
        if source is not None and spec.program.build is not None:
            step("building with all software metrics")
            with _progress_of_build(folder / "00" / "toolchain", step):
                built = build_configuration(spec.program, source, folder / "00", software, spec_folder=spec.folder)
            tree = built.folder
            report = read_sites(folder / "00" / "toolchain")
            shared = f": {built.why_no_source}"  # told once, with the first metric
            faults = {
                name: message.removesuffix(shared) if at and built.why_no_source else message
                for at, (name, message) in enumerate(built.missing.items())
            }
        command = program_command(spec, scratch=folder, build=tree, inputs=folder)
        metric_sites = tuple(
            _compiled(spec, name, event, report, tree, faults)
            if event.means == "compiled"
            else _sourceless(spec, name, event, command, tree)
            for name, event in software.items()
        )
        skipped = {_shown_in(file, tree): reason.replace(f"{tree}/", "") for file, reason in report.skipped.items()}
        return SpecSites(metric_sites, skipped)


@contextmanager
def _progress_of_build(toolchain: Path, step: Callable[[str], None]) -> Iterator[None]:
    """Report every few seconds how many sources a build has compiled."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_PROGRESS_S):
            step(f"{counted(count_records(toolchain), 'source')} compiled")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _compiled(
    spec: CampaignSpec, name: str, event: Event, report: SiteReport, tree: Path | None, faults: Mapping[str, str]
) -> MetricSites:
    sites, uncounted = (
        tuple(Place(_shown_in(site.file, tree), site.line, site.text) for site in by_metric.get(name, ()))
        for by_metric in (report.sites, report.uncounted)
    )
    instructions, cost = _predicted(spec.measure.compiled_event(name))
    if name == spec.measure.interval_metric:
        instructions, cost = _COST_OF_ENDING
    fault = f"{metric_position(spec, name)}: {faults[name]}" if name in faults else ""
    return MetricSites(name, event, sites, uncounted, instructions, cost, fault)


def _sourceless(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand, tree: Path | None) -> MetricSites:
    """Find the sites of a metric that is not compiled in."""
    try:
        if event.means == "kernel":
            probes = probe_sites(spec, name, event, command)
            mixed = len({site.hit for site in probes}) > 1
            places = tuple(
                Place(_shown_in(str(site.path), tree), 0, site.text + (f": {HIT_COSTS[site.hit]}" if mixed else ""))
                for site in probes
            )
            dearest = max(probes, key=lambda site: HIT_NS[site.hit])
            return MetricSites(name, event, places, (), None, HIT_COSTS[dearest.hit])
        if event.means == "python":
            report = python_sites(spec, name, event, command)
            places = tuple(Place(site.file, site.line, site.text) for site in report.sites)
            uncounted = tuple(Place("", 0, why) for why in report.uncounted)
            return MetricSites(
                name, event, places, uncounted, None, f"about 5 ns per entry, in Python {report.version}"
            )
        if event.means == "jvm":
            found = java_sites(spec, name, event, command)
            places = tuple(Place(_shown_in(site.file, tree), site.line, site.text) for site in found.sites)
            uncounted = tuple(Place("", 0, why) for why in found.uncounted)
            return MetricSites(name, event, places, uncounted, None, _COST_IN_JAVA[event.kind, event.threads])
        function = interposed(spec, name, event, command)
    except SpecError as error:
        return MetricSites(name, event, (), (), None, "", str(error))
    text = "; ".join([f"calls of {function.function}", *function.notes])
    uncounted = tuple(Place("", 0, why) for why in function.uncounted)
    places = (Place(_shown_in(str(function.library), tree), 0, text),)
    return MetricSites(name, event, places, uncounted, *_COST_OF_CALLS[platform.machine() == "aarch64", event.threads])


def _shown_in(file: str, tree: Path | None) -> str:
    """Return a file's path relative to the program's source folder."""
    path = Path(file)
    return str(path.relative_to(tree)) if tree is not None and path.is_relative_to(tree) else file


def _predicted(event: Event) -> tuple[float | None, str]:
    """Return the instructions per event, and the cost in words."""
    if event.kind == "gauge":
        return 0.0, "no added instruction: the sampler reads the variable at each sample"
    if event.kind == "within":
        return (
            None,
            "20 instructions per call, and a reading of the counters at its entry and at its end",
        )
    volatile = None, "a volatile addition (about 3 to 5 instructions)"
    count, words = _COST_OF_EVENTS.get((platform.machine(), event.threads), volatile)
    if event.add is not None:
        return None, f"{words}, plus the instructions to compute `{event.add}`"
    return count, words


_COST_OF_ENDING = (3.0, "3 instructions per event, and 4 in a library, because its events end intervals")

_COST_IN_JAVA = {
    ("jvm", "plain"): "one addition per entry in compiled code, and two calls in interpreted code",
    ("jvm", "exact"): "one atomic addition per entry in compiled code, and two calls in interpreted code",
    ("jvm_event", "plain"): "one atomic addition per event, in a call from the machine",
}
"""Cost in a Java virtual machine, by kind and `threads` (docs/how-to/software.md)."""

_COST_OF_CALLS = {
    (False, "plain"): (5.0, "5 instructions per call"),
    (False, "exact"): (5.0, "5 instructions per call (one of them locked)"),
    (True, "plain"): (15.0, "15 instructions per call"),
    (True, "exact"): (16.0, "16 instructions per call (including an exclusive pair; 14 with atomic additions)"),
}
"""Cost of counting a library call, by whether the machine is AArch64 and by `threads` (docs/evidence/machines.md)."""

_COST_OF_EVENTS: Mapping[tuple[str, str], tuple[float | None, str]] = {
    ("x86_64", "plain"): (1.0, "1 instruction per event"),
    ("x86_64", "each"): (1.0, "1 instruction per event, and 2 in a library"),
    ("x86_64", "exact"): (
        1.0,
        "1 locked instruction per event (about 5 to 10 ns, more with contention between threads)",
    ),
}
