"""Where a spec's software metrics count, what they cannot see, and what an event costs, before anything is run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.common.scratch import scratch_folder
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import SpecError
from unperturbed.harness.program.build import build_configuration, check_compilers, find_source
from unperturbed.harness.program.process import ProgramCommand, program_command
from unperturbed.harness.program.software_metrics import interposed, probe_sites, python_sites
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import metric_position
from unperturbed.instrument.binaries.probes import HIT_COSTS, HIT_NS
from unperturbed.instrument.events import Event
from unperturbed.instrument.finding.site_log import SiteReport, read_sites
from unperturbed.instrument.missing import missing_metrics


@dataclass(frozen=True)
class Place:
    """A place in a file."""

    file: str  # The file
    line: int  # 0 where there is none, as in a binary
    text: str  # What is written there, or what is to be known of it


@dataclass(frozen=True)
class MetricSites:
    """One software metric."""

    name: str
    event: Event
    sites: tuple[Place, ...]  # Where it counts
    # Where its event may happen uncounted, and why; a place without a file holds for all of the program.
    uncounted: tuple[Place, ...]
    # Predicted instructions that one event adds to the program; None where instructions do not tell the cost.
    instructions: float | None
    cost: str  # The prediction in words
    # What is wrong, with the place in the spec and the nearest names; empty when the metric counts somewhere.
    fault: str = ""


@dataclass(frozen=True)
class SpecSites:
    """All software metrics of a spec; `skipped` maps sources that are compiled without counters to the reason."""

    metrics: tuple[MetricSites, ...]
    skipped: Mapping[str, str]


def find_all_sites(spec: CampaignSpec, step: Callable[[str], None], *, at_point: CampaignSpec) -> SpecSites:
    """Build a spec's program with all its software metrics at once, and find where each counts.

    Nothing is run but the build.
    """
    software = spec.measure.software
    if not software:
        raise SpecError(
            f"{spec.path}: the spec has no software metrics (measure: software:), so there is nothing to look for"
        )
    check_compilers(spec.program)
    source = find_source(spec.program, spec.folder)
    # In the cache, not in /tmp: that is often too small for a source tree, and may forbid running what lies in it.
    with scratch_folder("sites", user_cache()) as folder:
        tree = None
        report = SiteReport([])
        if source is not None and spec.program.build is not None:
            step("building with every software metric")
            tree = build_configuration(spec.program, source, folder / "00", software, spec_folder=spec.folder).folder
            report = read_sites(folder / "00" / "toolchain")
        command = program_command(at_point, scratch=folder, build=tree, inputs=folder)
        faults = missing_metrics(report, software)
        found = []
        for name, event in software.items():
            if event.means == "compiled":
                found.append(_compiled(spec, name, event, report, tree, faults))
            else:
                found.append(_sourceless(spec, name, event, command, tree))
        skipped = {_shown(file, tree): reason.replace(f"{tree}/", "") for file, reason in report.skipped.items()}
        return SpecSites(tuple(found), skipped)


def _compiled(
    spec: CampaignSpec, name: str, event: Event, report: SiteReport, tree: Path | None, faults: Mapping[str, str]
) -> MetricSites:
    sites, uncounted = (
        tuple(Place(_shown(site.file, tree), site.line, site.text) for site in found.get(name, ()))
        for found in (report.sites, report.uncounted)
    )
    instructions, cost = _predicted(event)
    fault = f"{metric_position(spec, name)}: {faults[name]}" if name in faults else ""
    return MetricSites(name, event, sites, uncounted, instructions, cost, fault)


def _sourceless(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand, tree: Path | None) -> MetricSites:
    """Find where a metric counts that is not compiled in."""
    try:
        if event.means == "kernel":
            probes = probe_sites(spec, name, event, command)
            mixed = len({site.hit for site in probes}) > 1
            places = tuple(
                Place(_shown(str(site.path), tree), 0, site.text + (f": {HIT_COSTS[site.hit]}" if mixed else ""))
                for site in probes
            )
            dearest = max(probes, key=lambda site: HIT_NS[site.hit])
            return MetricSites(name, event, places, (), None, HIT_COSTS[dearest.hit])
        if event.means == "python":
            return _python(spec, name, event, command)
        function = interposed(spec, name, event, command)
    except SpecError as error:
        return MetricSites(name, event, (), (), None, "", str(error))
    text = "; ".join([f"calls of {function.function}", *function.notes])
    uncounted = tuple(Place("", 0, why) for why in function.uncounted)
    places = (Place(_shown(str(function.library), tree), 0, text),)
    return MetricSites(name, event, places, uncounted, *_CALLS[platform.machine() == "aarch64", event.threads])


def _python(spec: CampaignSpec, name: str, event: Event, command: ProgramCommand) -> MetricSites:
    found = python_sites(spec, name, event, command)
    places = tuple(Place(site.file, site.line, site.text) for site in found.sites[name])
    uncounted = tuple(Place("", 0, why) for why in found.uncounted[name])
    return MetricSites(name, event, places, uncounted, None, f"about 5 ns per entry, in Python {found.version}")


def _shown(file: str, tree: Path | None) -> str:
    """Return a file as seen from the program's source folder."""
    path = Path(file)
    return str(path.relative_to(tree)) if tree is not None and path.is_relative_to(tree) else file


def _predicted(event: Event) -> tuple[float | None, str]:
    """Return the instructions that one event adds, and the same in words."""
    if event.kind == "gauge":
        return 0.0, "no instruction: the variable is read at each sample"
    machine = platform.machine()
    number, exact = _INSTRUCTIONS.get(machine, (None, None))
    count = exact if event.threads == "exact" else number
    words = _WORDS.get((machine, event.threads), "a volatile addition (some 3 to 5 instructions)")
    if event.add is not None:
        return None, f"{words}, and what it takes to compute `{event.add}`"
    return count, words


_CALLS = {
    (False, "plain"): (2.0, "2 instructions per call"),
    (False, "exact"): (2.0, "2 instructions per call (one of them locked)"),
    (True, "plain"): (10.0, "10 instructions per call"),
    (True, "exact"): (11.0, "11 instructions per call (a pair of them exclusive; 9 with atomic additions)"),
}
"""What counting adds to a call of a library's function, elsewhere and on AArch64 (docs/evidence/machines.md)."""

_INSTRUCTIONS: Mapping[str, tuple[float, float]] = {"x86_64": (1.0, 1.0)}
_WORDS = {
    ("x86_64", "plain"): "1 instruction per event",
    ("x86_64", "exact"): "1 locked instruction per event (some 5 to 10 ns, and more where threads collide)",
}


def unplaced(metrics: Sequence[MetricSites]) -> str:
    """Return the faults of all metrics, a line each; empty when every metric counts somewhere."""
    return "\n".join(metric.fault for metric in metrics if metric.fault)
