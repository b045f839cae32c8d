"""What a configuration's software metrics need of its runs: kernel probes, preloaded libraries, environment variables.

Found once, before any run, so that a misspelt function is met at once and at its line of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.kernel_probes import measure_hit_cost, register_probes
from unperturbed.collectors.records.assemble import milestone
from unperturbed.collectors.records.file import Probe
from unperturbed.collectors.runtime import build_interposer, build_python_counter
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import SpecError
from unperturbed.harness.program.process import ProgramCommand
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.instrument.binaries.interposition import Interposed, find_function, interposer_source
from unperturbed.instrument.binaries.probes import ProbeSite, find_probes
from unperturbed.instrument.events import DEFAULT_MAX_RATE, Event, Means
from unperturbed.instrument.python import (
    PythonSites,
    find_python_sites,
    prepare_python_hook,
    python_environment,
)

_MICROSECOND_NS = 1000


@dataclass(frozen=True)
class SoftwareMetrics:
    """The software metrics of one configuration, and what counts those that are not compiled in."""

    metrics: tuple[Metric, ...] = ()  # In the order of their numbers
    probes: tuple[Probe, ...] = ()  # Of the kernel; they are there as long as this process is
    sites: tuple[ProbeSite, ...] = ()  # Where they are
    preload: tuple[Path, ...] = ()  # Libraries that the program is started with
    python_hook: Path | None = None  # What counts in a Python program, None when nothing does

    @property
    def within(self) -> bool:
        """Tell whether anything counts inside the program, where the sampler's runtime has to be."""
        return any(metric.source != "kernel probe" for metric in self.metrics)

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that a run's program gets beside (or in place of) its own."""
        return {} if self.python_hook is None else python_environment(own, self.python_hook)


def find_software_metrics(
    spec: CampaignSpec, software: Mapping[str, Event], command: ProgramCommand
) -> SoftwareMetrics:
    """Find and set up what counts the software metrics of a configuration.

    `software`: Name → event, in the order of their numbers.
    """
    metrics = tuple(milestone(name, event.means, semantics=event.semantics) for name, event in software.items())
    found: dict[int, Any] = {}
    faults = []
    finders = {"kernel": probe_sites, "preload": interposed, "python": python_sites}
    for number, (name, event) in enumerate(software.items()):
        try:
            found[number] = finders[event.means](spec, name, event, command) if event.means in finders else None
        except SpecError as error:
            faults.append(str(error))
    if faults:
        raise SpecError("\n".join(faults))
    sites = tuple(replace(site, number=number) for number in _of(software, "kernel") for site in found[number])
    compiler = spec.program.compilers["cc"]
    functions = {number: found[number] for number in _of(software, "preload")}
    preload = [build_interposer(compiler, interposer_source(functions))] if functions else []
    hook = _python_hook(compiler, software, command) if _of(software, "python") else None
    return SoftwareMetrics(metrics, register_probes(sites, compiler=compiler), sites, tuple(preload), hook)


def _python_hook(compiler: str, software: Mapping[str, Event], command: ProgramCommand) -> Path:
    return prepare_python_hook(
        command.words,
        software,
        environment=command.environment,
        folder=command.folder,
        library=build_python_counter(compiler),
        cache=user_cache() / "python",
    )


def _of(software: Mapping[str, Event], means: Means) -> list[int]:
    """Return the numbers of the metrics that are counted by one means."""
    return [number for number, event in enumerate(software.values()) if event.means == means]


def probe_sites(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> tuple[ProbeSite, ...]:
    """Return the places of one metric that the kernel counts."""
    with with_metric_position(spec, name):
        return find_probes(
            {name: event},
            program=_binary(command),
            search_path=command.search_path,
            library_path=command.library_path,
        )


def interposed(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> Interposed:
    """Return the library function whose calls one metric counts."""
    with with_metric_position(spec, name):
        return find_function(event, program=_binary(command), library_path=command.library_path)


def python_sites(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> PythonSites:
    """Return the functions of a Python program that one metric counts."""
    command.folder.mkdir(parents=True, exist_ok=True)
    with with_metric_position(spec, name):
        return find_python_sites(command.words, {name: event}, environment=command.environment, folder=command.folder)


def _binary(command: ProgramCommand) -> Path:
    """Return the binary of the measured program."""
    if command.binary is None:
        raise SpecError(f"the program {command.words[0]} is not there, so nothing can be looked for in it")
    return command.binary


@contextmanager
def with_metric_position(spec: CampaignSpec, name: str) -> Iterator[None]:
    """Prefix a fault with a metric's position in the spec."""
    try:
        yield
    except SpecError as error:
        fault = str(error)
        metric = "" if fault.startswith("software metric") else f"software metric {name!r}: "
        raise SpecError(f"{metric_position(spec, name)}: {metric}{fault}") from None


def hit_rates(spec: CampaignSpec, software_metrics: SoftwareMetrics, trace: Trace) -> dict[str, dict[str, float]]:
    """Return how often the probes of a configuration were hit in a run, and what a hit costs on this host.

    Result: By metric `rate`, hits a second of the program's time without them, and `ns`, a hit's cost.
    """
    cost = measure_hit_cost(spec.program.compilers["cc"])
    found = {}
    counted = {
        site.metric: max(cost.ns(other.hit) for other in software_metrics.sites if other.metric == site.metric)
        for site in software_metrics.sites
    }
    hits = {name: int(trace[name].sum()) for name in counted}
    spent = sum(hits[name] * ns for name, ns in counted.items()) / 1e9
    # The hits themselves made the run longer; what the program would take without them is at least a tenth of it.
    seconds = max(trace.attributes["wall_seconds"] - spent, trace.attributes["wall_seconds"] / 10)
    for name, ns in counted.items():
        found[name] = {"rate": hits[name] / seconds, "ns": ns}
    return found


def check_hit_rates(spec: CampaignSpec, rates: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each probe: how often it is hit, and what that costs."""
    for name, found in rates.items():
        event = spec.measure.software[name]
        rate, share = found["rate"], found["rate"] * found["ns"] / 1e9
        cost = f"{found['ns'] / 1e3:.2g} us each on this host: {share:.2%} of the program's time"
        hit = f"{rate:,.0f} hits per second, {cost}"
        allowed = _allowed(event, found["ns"])
        if rate > allowed:
            raise SpecError(
                f"{metric_position(spec, name)}: {name} is hit too often for a probe of the kernel: {hit}. At most "
                f"{allowed:,} per second are allowed; take a rarer event, compile it in, or ask for it: "
                f"max_rate: {_rounded_up(rate)}"
            )
        yield f"The kernel counts {name} by a breakpoint: {hit}."


def _allowed(event: Event, ns: float) -> int:
    """Return the hits a second that are allowed: as requested, else as many as take one hundredth of the time."""
    return (
        event.max_rate
        if event.max_rate != DEFAULT_MAX_RATE
        else min(DEFAULT_MAX_RATE, int(DEFAULT_MAX_RATE * _MICROSECOND_NS / ns))
    )


def _rounded_up(rate: float) -> int:
    """Return a round number above a rate, with room for a run that goes faster."""
    step = int("1" + "0" * (len(str(int(rate))) - 1))
    return (int(1.2 * rate) // step + 1) * step
