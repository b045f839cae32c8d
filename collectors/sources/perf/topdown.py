"""Topdown events of Intel's processors, which the kernel counts only in a group that their PMU's `slots` leads.

From Ice Lake on, a fixed counter holds the issue slots (`slots`) and one register their division among retiring, bad
speculation, front end and back end (`topdown-retiring`, …; from Sapphire Rapids on, four more). They take no general
counter. Efficiency cores of hybrid processors have events of the same names that are ordinary events: what counts is an
event's code, and that its PMU has `slots` (arch/x86/events/intel/core.c; tools/perf/Documentation/topdown.txt).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from unperturbed.collectors.sources.perf.sysfs import Pmu, encode, pmus
from unperturbed.collectors.sources.source import Event
from unperturbed.errors import HostError

SLOTS = "slots"
NAMES = frozenset(
    {
        SLOTS,
        "topdown-retiring",
        "topdown-bad-spec",
        "topdown-fe-bound",
        "topdown-be-bound",
        "topdown-heavy-ops",
        "topdown-br-mispredict",
        "topdown-fetch-lat",
        "topdown-mem-bound",
    }
)
"""The kernel's names of these events."""

_METRICS = frozenset(umask << 8 for umask in range(0x80, 0x88))
"""Codes of the events that divide the slots: event 0, unit masks from 0x80 on."""


def leader(event: Event, root: Path = Path("/")) -> Event | None:
    """Return the event that must lead the group of another one, or None where any may.

    Result: `slots` of the same PMU, counted in the same mode: they share a counter.
    """
    if event.config not in _METRICS or event.config1 or event.config2:
        return None
    for number, name, config in _slots(root):
        if number == event.type:
            mode = {(True, False): "", (False, True): ":k"}.get((event.user, event.kernel), ":uk")
            return Event(name + mode, type=number, config=config, user=event.user, kernel=event.kernel)
    return None


def absence(name: str, root: Path = Path("/")) -> HostError | None:
    """Return why no PMU has a topdown event of the kernel's; None for other names."""
    if name not in NAMES:
        return None
    cores = [pmu.name for pmu in pmus(root).values() if pmu.core]
    if not cores:
        return HostError("this host has no PMU of a processor's cores, so no topdown events")
    several = len(cores) > 1
    whose = f"the PMU{'s' if several else ''} {' and '.join(cores)} of this processor {'have' if several else 'has'}"
    if any(_has_slots(pmu) for pmu in pmus(root).values()):
        return HostError(
            f"{whose} no topdown event {name}: those of the second level came with Sapphire Rapids and "
            "Alder Lake, on performance cores alone"
        )
    return HostError(
        f"{whose} no topdown events (slots, topdown-retiring, …): Intel's processors have them from Ice Lake on; "
        "perf's own metrics may say the same (`unperturbed metrics frontend_bound`)"
    )


def _has_slots(pmu: Pmu) -> bool:
    return pmu.core and SLOTS in pmu.events


@cache
def _slots(root: Path) -> tuple[tuple[int, str, int], ...]:
    """Return number, spec's name of `slots` and its code for each PMU that has it."""
    holders = [pmu for pmu in pmus(root).values() if _has_slots(pmu)]
    alone = len(holders) == 1
    return tuple(
        (pmu.type, f"perf::{SLOTS}" if alone else f"perf::{pmu.name}/{SLOTS}/", encode(pmu, SLOTS)[0])
        for pmu in holders
    )
