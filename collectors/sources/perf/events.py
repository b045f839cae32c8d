"""Events by perf's and libpfm4's names, and the kernel's generic event closest to each PAPI preset.

libpfm4 contains the vendors' event tables of most processors (`skl::INST_RETIRED:ANY`, `pfm::RETIRED_INSTRUCTIONS`);
PAPI also takes its native events from libpfm4. Here, libpfm4 only provides the encoding, and perf_event counts, even if
the installed PAPI is missing or older than the processor.
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
"""Prefix of a name that is searched in all PMUs of this host that libpfm4 knows."""
_LIBRARY = "libpfm.so.4"
_PERF_EVENT = 1  # of enum pfm_os_t
_KERNEL, _USER = 1, 8  # privilege levels, PFM_PLM0 and PFM_PLM3
_PRESENT = 1
_EXCLUDE_USER, _EXCLUDE_KERNEL = 1 << 4, 1 << 5
_MOST_PMUS = 1024
_FIRST_EVENT, _ATTRIBUTES = 3, 3  # indices into the numbers of pfm_pmu_info_t and pfm_event_info_t
_UNIT_MASK = 1  # of enum pfm_attr_t
_KERNELS = "perf"  # prefix of libpfm4's PMUs for the kernel's own events, which perf's names already include

_KINDS = {
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (32, 64)},
    **{"int": ctypes.c_int, "unsigned": ctypes.c_uint, "size_t": ctypes.c_size_t, "text": ctypes.c_char_p},
}


def _fields(declarations: str) -> list[tuple[str, Any]]:
    """Return the fields of a C structure in the form that ctypes expects; type `text` is a pointer to characters."""
    members = re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", declarations)
    return [(name, _KINDS[kind] * int(length) if length else _KINDS[kind]) for kind, name, length in members]


class _Attributes(ctypes.Structure):
    """Beginning of struct perf_event_attr, with room for the remaining fields (linux/perf_event.h)."""

    _fields_ = _fields(
        "uint32_t type; uint32_t size; uint64_t config; uint64_t skipped[3]; uint64_t flags; uint32_t wakeup; "
        "uint32_t breakpoint; uint64_t config1; uint64_t config2; uint64_t more[16];"
    )


class _Argument(ctypes.Structure):
    """ctypes mirror of pfm_perf_encode_arg_t, as in the manual page pfm_get_os_event_encoding(3)."""

    _fields_ = (
        ("attributes", ctypes.POINTER(_Attributes)),
        ("full_name", ctypes.POINTER(ctypes.c_char_p)),
        *_fields("size_t size; int index; int cpu; int flags; int unused;"),
    )


class _EventInfo(ctypes.Structure):
    """ctypes mirror of pfm_event_info_t (pfm_get_event_info(3))."""

    _fields_ = _fields(
        "text name; text description; text equivalent; size_t size; uint64_t code; int numbers[5]; unsigned flags;"
    )


class _AttributeInfo(ctypes.Structure):
    """Beginning of pfm_event_attr_info_t (pfm_get_event_attr_info(3)), with room for the remaining fields."""

    _fields_ = _fields(
        "text name; text description; text equivalent; size_t size; uint64_t code; int type; uint64_t more[8];"
    )


class _PmuInfo(ctypes.Structure):
    """ctypes mirror of pfm_pmu_info_t (pfm_get_pmu_info(3))."""

    _fields_ = _fields("text name; text description; size_t size; int numbers[7]; unsigned flags;")


def find_by_libpfm(name: str) -> PerfEvent:
    """Return the event with a libpfm4 name, `PMU::EVENT:UMASK:MODIFIER=VALUE`; by default, it counts in user space.

    The environment variables LIBPFM_FORCE_PMU and LIBPFM_ENCODE_INACTIVE make libpfm4 assume a different processor,
    whose tables can then be read on this host.
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
    whole = _text(full_name.value) or text  # leaks a few bytes of libpfm4's memory for each event
    user = not attributes.flags & _EXCLUDE_USER
    kernel = not attributes.flags & _EXCLUDE_KERNEL
    code = PerfCode(attributes.type, attributes.config, attributes.config1, attributes.config2, user, kernel)
    unit = preset_unit(text.rpartition("::")[2].partition(":")[0].upper())
    return PerfEvent(code, f"{described or 'native event'} ({whole})", unit)


def own_events() -> Iterator[tuple[str, PerfEvent]]:
    """Yield the names and events of this host's processor PMUs, with unit masks for events that need one."""
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
    known = f"libpfm4 knows these PMUs of this host: {there}" if there else "libpfm4 knows no PMU of this host"
    return f"the installed libpfm4 has no event {text} for this processor ({said}); {known}"


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise HostError("this event needs libpfm4, which is not installed (Debian package: libpfm4)") from None
    library.pfm_strerror.restype = ctypes.c_char_p
    library.pfm_get_os_event_encoding.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_event_info.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_event_attr_info.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.pfm_get_pmu_info.argtypes = (ctypes.c_int, ctypes.c_void_p)
    status = library.pfm_initialize()
    if status != 0:
        raise HostError(f"libpfm4 cannot be used: {library.pfm_strerror(status).decode(errors='replace')}")
    return library


PREFIX = "perf::"  # prefix of perf's names in a spec
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
        # Most processors count loads only: perf's L1-dcache-load-misses represents all data misses.
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
"""PAPI presets for which the kernel has a generic event, each with perf's name of that event."""


def describe(name: str, root: Path = Path("/")) -> PerfEvent:
    """Return the event of a metric: a PAPI preset, `perf::` with one of perf's names, or a libpfm4 name."""
    if name in NEAREST_GENERIC:
        return parse(NEAREST_GENERIC[name], root)
    if not name.startswith(PREFIX):
        if is_native(name) and not name.startswith(_SIMULATED) and ":::" not in name:  # PAPI's components use :::
            return find_by_libpfm(name)
        raise SpecError("the kernel has no generic event for this metric")
    try:
        return parse(name.removeprefix(PREFIX), root)
    except SpecError as error:
        meant = nearest(name.removeprefix(PREFIX), root)
        proposal = f"; did you mean {' or '.join(f'{PREFIX}{other}' for other in meant)}?" if meant else ""
        raise SpecError(f"{error}{proposal}") from None


def event(name: str, root: Path = Path("/")) -> Event | None:
    """Return the event that the runtime opens for a metric, or None if perf_event has no such event here."""
    try:
        return describe(name, root).code.as_event(name)
    except UnperturbedError:
        return None


def refusal(name: str, root: Path = Path("/")) -> str | None:
    """Return why perf_event has no event for a metric here, or None if it has one; only a trial shows if it counts."""
    try:
        describe(name, root)
    except UnperturbedError as error:
        return str(error)
    return None


def metric(name: str, root: Path = Path("/")) -> Metric:
    """Return the description of a metric read through perf_event; events that the kernel counts have kind `os`."""
    perf_event = describe(name, root)
    meaning = f"{PRESETS[name]} (the kernel's closest generic event)" if name in PRESETS else perf_event.meaning
    code = perf_event.code
    places = [place for place, counted in (("user", code.user), ("kernel", code.kernel)) if counted]
    # Two names of one event have the same component: they are correlated by construction.
    encoding = ":".join(f"{number:#x}" for number in (code.type, code.config, code.config1, code.config2))
    components = tuple(f"perf_event:{encoding}:{place}" for place in places)
    return Metric(
        name, perf_event.kind, unit=perf_event.unit, source="perf_event", meaning=meaning, components=components
    )
