"""All checks of a host, in the order in which they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors import papi
from unperturbed.harness.doctor import counting, frequency, load, settings, tools
from unperturbed.harness.doctor.findings import Finding
from unperturbed.harness.doctor.pyperf_advice import ask_pyperf, pyperf_findings
from unperturbed.harness.doctor.reading import REAL
from unperturbed.harness.doctor.surroundings import surroundings

__all__ = ["Examination", "examine"]


@dataclass(frozen=True)
class Examination:
    """What can be counted, and what is noisy."""

    counting: tuple[Finding, ...]
    noise: tuple[Finding, ...]


def examine(root: Path = REAL) -> Examination:
    """Look at a host; nothing is changed.

    Parameters
    ----------
    root : folder below which its /proc, /sys and programs lie. On a recorded tree, what only a living host can answer (libpapi's own words,
        busy processes, pyperf's checks) is left out.

    Notes
    -----
    Takes about 1.5 s on a living host: half a second of it watches what else is running.
    """
    around = surroundings(root)
    # Watched first: the checks themselves are work.
    busy = load.busy_processes() if root == REAL else None
    bundled = papi.bundled_library() if root == REAL else ""
    papi_there = bool(bundled) or tools.papi_version(root) is not None
    counted = (
        counting.pmu(root, around),
        counting.permission(root, around),
        counting.container(around),
        tools.papi(root, tools.ask(bundled) if root == REAL and papi_there else None, bundled=bool(bundled)),
        tools.papi_age(root),
        tools.valgrind(root),
        tools.setpriv(root),
        counting.user_reads(root),
        counting.watchdog(root),
        counting.tracepoints(root),
        counting.uprobes(root, around),
        counting.realtime(root, around),
        counting.observer_cpu(root),
    )
    noisy = (
        frequency.governor(root, around),
        frequency.turbo(root),
        settings.smt(root),
        load.load(root),
        None if busy is None else load.neighbours(busy),
        load.quota(root, around),
        load.steal(root),
        frequency.temperature(root),
        frequency.throttling(root),
        frequency.power(root),
        load.swap(root),
        settings.isolation(root),
        settings.memory_nodes(root),
        settings.huge_pages(root),
        settings.layout(root),
        settings.clock(root),
    )
    known = tuple(finding for finding in noisy if finding is not None)
    return Examination(
        tuple(finding for finding in counted if finding is not None),
        (*known, *pyperf_findings(ask_pyperf(), known)) if root == REAL else known,
    )
