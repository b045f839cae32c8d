"""Events by perf's names and libpfm4's, and the kernel's generic event that is nearest to a PAPI preset.

libpfm4 has the vendors' tables of most processors, by the processors' own names of events (`skl::INST_RETIRED:ANY`,
`pfm::RETIRED_INSTRUCTIONS`); PAPI takes its native names from it too. Here it is asked for an encoding alone, and
perf_event counts: also where the installed PAPI is missing or older than the processor.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, is_native, preset_unit
from unperturbed.collectors.sources.perf.names import PerfCode, PerfEvent, nearest, parse
from unperturbed.collectors.sources.source import Event
from unperturbed.errors import HostError, SpecError, UnperturbedError

ANY = "pfm::"
"""Before a name that is looked for in all PMUs of this host that libpfm4 knows."""
_LIBRARY = "libpfm.so.4"
_PERF_EVENT = 1  # of enum pfm_os_t
_KERNEL, _USER = 1, 8  # privilege levels, PFM_PLM0 and PFM_PLM3
_PRESENT = 1
_EXCLUDE_USER, _EXCLUDE_KERNEL = 1 << 4, 1 << 5
_MOST_PMUS = 1024
_FIRST_EVENT, _ATTRIBUTES = 3, 3  # of the numbers in pfm_pmu_info_t and pfm_event_info_t
_UNIT_MASK = 1  # of enum pfm_attr_t
_KERNELS = "perf"  # begin of PMUs by which libpfm4 names the kernel's own events; perf's names have these

_KINDS = {
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (32, 64)},
    **{"int": ctypes.c_int, "unsigned": ctypes.c_uint, "size_t": ctypes.c_size_t, "text": ctypes.c_char_p},
}


def _fields(declarations: str) -> list[tuple[str, Any]]:
    """Return the fields of a C structure as ctypes takes them; `text` is a pointer to characters."""
    found = re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", declarations)
    return [(name, _KINDS[kind] * int(length) if length else _KINDS[kind]) for kind, name, length in found]


class _Attributes(ctypes.Structure):
    """The begin of struct perf_event_attr, and room for what follows (linux/perf_event.h)."""

    _fields_ = _fields(
        "uint32_t type; uint32_t size; uint64_t config; uint64_t skipped[3]; uint64_t flags; uint32_t wakeup; "
        "uint32_t breakpoint; uint64_t config1; uint64_t config2; uint64_t more[16];"
    )


class _Argument(ctypes.Structure):
    """pfm_perf_encode_arg_t, as the manual page pfm_get_os_event_encoding(3) gives it."""

    _fields_ = (
        ("attributes", ctypes.POINTER(_Attributes)),
        ("full_name", ctypes.POINTER(ctypes.c_char_p)),
        *_fields("size_t size; int index; int cpu; int flags; int unused;"),
    )


class _EventInfo(ctypes.Structure):
    """pfm_event_info_t (pfm_get_event_info(3))."""

    _fields_ = _fields(
        "text name; text description; text equivalent; size_t size; uint64_t code; int numbers[5]; unsigned flags;"
    )


class _AttributeInfo(ctypes.Structure):
    """The begin of pfm_event_attr_info_t (pfm_get_event_attr_info(3)), and room for what follows."""

    _fields_ = _fields(
        "text name; text description; text equivalent; size_t size; uint64_t code; int type; uint64_t more[8];"
    )


class _PmuInfo(ctypes.Structure):
    """pfm_pmu_info_t (pfm_get_pmu_info(3))."""

    _fields_ = _fields("text name; text description; size_t size; int numbers[7]; unsigned flags;")


def find_by_libpfm(name: str) -> PerfEvent:
    """Return the event of a name of libpfm4's, `PMU::EVENT:UMASK:MODIFIER=VALUE`; without `:u` or `:k`, in user space.

    LIBPFM_FORCE_PMU and LIBPFM_ENCODE_INACTIVE in the environment have libpfm4 take another processor for this one;
    its tables can be read so without that processor.
    """
    library = _library()
    attributes = _Attributes(size=ctypes.sizeof(_Attributes))
    full_name = ctypes.c_char_p()
    argument = _Argument(
        attributes=ctypes.pointer(attributes), full_name=ctypes.pointer(full_name), size=ctypes.sizeof(_Argument)
    )
    text = name.removeprefix(ANY)
    status = library.pfm_get_os_event_encoding(text.encode(), _USER, _PERF_EVENT, ctypes.byref(argument))
    if status != 0:
        raise SpecError(_refusal(library, text, status))
    info = _EventInfo(size=ctypes.sizeof(_EventInfo))
    known = library.pfm_get_event_info(argument.index, _PERF_EVENT, ctypes.byref(info)) == 0
    described = _text(info.description) if known else ""
    whole = _text(full_name.value) or text  # libpfm4's memory: a few bytes an event
    user = not attributes.flags & _EXCLUDE_USER
    kernel = not attributes.flags & _EXCLUDE_KERNEL
    code = PerfCode(attributes.type, attributes.config, attributes.config1, attributes.config2, user, kernel)
    unit = preset_unit(text.rpartition("::")[2].partition(":")[0].upper())
    return PerfEvent(code, f"{described or 'native event'} ({whole})", unit)


def own_events() -> Iterator[tuple[str, PerfEvent]]:
    """Yield the names and events of the processors' own PMUs of this host, with their unit masks if they need one."""
    try:
        library = _library()
    except HostError:
        return
    for pmu in _pmus(library):
        number = -1 if _text(pmu.name).startswith(_KERNELS) else pmu.numbers[_FIRST_EVENT]
        while number >= 0:
            info = _EventInfo(size=ctypes.sizeof(_EventInfo))
            if library.pfm_get_event_info(number, _PERF_EVENT, ctypes.byref(info)) == 0:
                yield from _with_masks(library, f"{_text(pmu.name)}::{_text(info.name)}", number, info)
            number = library.pfm_get_event_next(number)


def _with_masks(library: ctypes.CDLL, name: str, number: int, info: _EventInfo) -> Iterator[tuple[str, PerfEvent]]:
    with suppress(SpecError):
        yield name, find_by_libpfm(name)
        return
    for index in range(info.numbers[_ATTRIBUTES]):
        attribute = _AttributeInfo()
        status = library.pfm_get_event_attr_info(number, index, _PERF_EVENT, ctypes.byref(attribute))
        if status == 0 and attribute.type == _UNIT_MASK:
            masked = f"{name}:{_text(attribute.name)}"
            with suppress(SpecError):  # a mask that needs another one
                yield masked, find_by_libpfm(masked)


def _pmus(library: ctypes.CDLL) -> Iterator[_PmuInfo]:
    for number in range(_MOST_PMUS):
        info = _PmuInfo(size=ctypes.sizeof(_PmuInfo))
        if library.pfm_get_pmu_info(number, ctypes.byref(info)) == 0 and info.flags & _PRESENT:
            yield info


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _refusal(library: ctypes.CDLL, text: str, status: int) -> str:
    said = library.pfm_strerror(status).decode(errors="replace")
    there = ", ".join(_text(info.name) for info in _pmus(library))
    known = f"the PMUs that it knows here are {there}" if there else "it knows no PMU of this host, or is older than it"
    return f"the installed libpfm4 has no event {text} for this processor ({said}); {known}"


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise HostError("libpfm4, which names processors' own events, is not installed (in Debian: libpfm4)") from None
    library.pfm_strerror.restype = ctypes.c_char_p
    library.pfm_get_os_event_encoding.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_event_info.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_event_attr_info.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_pmu_info.argtypes = (ctypes.c_int, ctypes.c_void_p)
    status = library.pfm_initialize()
    if status != 0:
        raise HostError(f"libpfm4 cannot be used: {library.pfm_strerror(status).decode(errors='replace')}")
    return library


PREFIX = "perf::"  # before every name of perf's in a spec
_SIMULATED = "callgrind::"

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
    """Return the event of a metric: a PAPI preset, `perf::` and one of perf's names, or a name of libpfm4's."""
    if name in NEAREST_GENERIC:
        return parse(NEAREST_GENERIC[name], root)
    if not name.startswith(PREFIX):
        if is_native(name) and not name.startswith(_SIMULATED) and ":::" not in name:  # as PAPI's components have
            return find_by_libpfm(name)
        raise SpecError("the kernel has no generic event for it")
    try:
        return parse(name.removeprefix(PREFIX), root)
    except SpecError as error:
        meant = nearest(name.removeprefix(PREFIX), root)
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
