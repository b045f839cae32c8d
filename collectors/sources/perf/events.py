"""Events by perf's names and libpfm4's, and the kernel's generic event that is nearest to a PAPI preset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, is_native
from unperturbed.collectors.sources.perf import libpfm
from unperturbed.collectors.sources.perf import names as perf_names
from unperturbed.collectors.sources.perf.names import PerfEvent
from unperturbed.collectors.sources.source import Event
from unperturbed.errors import SpecError, UnperturbedError

PREFIX = "perf::"
"""Before every name of perf's in a spec."""

_OTHERS = ("callgrind::",)
"""Before names that are neither perf's nor libpfm4's; PAPI's components have `:::` in theirs."""

NEAREST_GENERIC: Mapping[str, str] = MappingProxyType(
    {
        "PAPI_TOT_CYC": "cycles",
        "PAPI_TOT_INS": "instructions",
        "PAPI_BR_INS": "branches",
        "PAPI_BR_MSP": "branch-misses",
        "PAPI_REF_CYC": "ref-cycles",
        "PAPI_L1_LDM": "L1-dcache-load-misses",
        "PAPI_L1_STM": "L1-dcache-store-misses",
        # Most processors count loads only: what perf calls L1-dcache-load-misses stands for all data misses.
        "PAPI_L1_DCM": "L1-dcache-load-misses",
        "PAPI_L1_DCR": "L1-dcache-loads",
        "PAPI_L1_ICM": "L1-icache-load-misses",
        "PAPI_L3_TCM": "cache-misses",
        "PAPI_L3_TCA": "cache-references",
        "PAPI_L3_LDM": "LLC-load-misses",
        "PAPI_TLB_DM": "dTLB-load-misses",
        "PAPI_TLB_IM": "iTLB-load-misses",
    }
)
"""PAPI presets that the kernel has a generic event for, by perf's name of it."""


def describe(name: str, root: Path = Path("/")) -> PerfEvent:
    """Return the arguments of perf_event_open(2) for a metric, and its meaning.

    `name`: A PAPI preset, `perf::` and one of perf's names, or a name of libpfm4's (`skl::INST_RETIRED:ANY`,
    `pfm::INST_RETIRED:ANY`).
    """
    if name in NEAREST_GENERIC:
        return perf_names.parse(NEAREST_GENERIC[name], root)
    if not name.startswith(PREFIX):
        if is_native(name) and not name.startswith(_OTHERS) and ":::" not in name:
            return libpfm.find(name)
        raise SpecError("the kernel has no generic event for it")
    try:
        return perf_names.parse(name.removeprefix(PREFIX), root)
    except SpecError as error:
        meant = perf_names.nearest(name.removeprefix(PREFIX), root)
        proposal = f"; did you mean {' or '.join(f'{PREFIX}{other}' for other in meant)}?" if meant else ""
        raise SpecError(f"{error}{proposal}") from None


def event(name: str, root: Path = Path("/")) -> Event | None:
    """Return what the runtime opens for a metric, or None when perf_event has no such event here."""
    try:
        return describe(name, root).code.as_event(name)
    except UnperturbedError:
        return None


def refusal(name: str, root: Path = Path("/")) -> str | None:
    """Return why perf_event has no such event here, or None when it has; only trying shows whether it counts."""
    try:
        describe(name, root)
    except UnperturbedError as error:
        return str(error)
    return None


def metric(name: str, root: Path = Path("/")) -> Metric:
    """Return the description of a metric read through perf_event. What the kernel itself counts is of kind `os`."""
    found = describe(name, root)
    meaning = f"{PRESETS[name]} (the kernel's nearest generic event)" if name in PRESETS else found.meaning
    code = found.code
    places = [place for place, counted in (("user", code.user), ("kernel", code.kernel)) if counted]
    # Two names of one event share it: they are correlated by construction.
    encoding = ":".join(f"{number:#x}" for number in (code.type, code.config, code.config1, code.config2))
    components = tuple(f"perf_event:{encoding}:{place}" for place in places)
    return Metric(name, found.kind, unit=found.unit, source="perf_event", meaning=meaning, components=components)
