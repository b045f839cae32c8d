"""PAPI's names: what the sampler opens for each, and what it means.

The library is the one that UNPERTURBED_PAPI names, else the newest of the system's. Where none is installed, the one
inside the wheel of python-papi serves the observer (PAPI 6.0, built for x86-64); it cannot be loaded into a program
that is not Python.
"""

from __future__ import annotations

import os
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.perf.libpfm import ANY
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, parse
from unperturbed.collectors.sources.source import Event
from unperturbed.errors import HostError, UnperturbedError

LIBRARY_VARIABLE = "UNPERTURBED_PAPI"
"""Names the library that is loaded, where several are installed."""
_PERF = "perf::"
_LONGEST = 255
"""Bytes of a path in a record file."""

_GENERIC = {name.upper(): known for name, known in GENERIC.items()}
_ALIASES = {alias.upper(): name.upper() for alias, name in ALIASES.items()}


def chosen_library() -> str:
    """Return the PAPI library that the environment variable UNPERTURBED_PAPI names, '' without it.

    Result: An absolute path, or a name that the dynamic linker looks for, such as `libpapi.so.7.0`.
    """
    named = os.environ.get(LIBRARY_VARIABLE, "")
    if "/" not in named:
        return named
    path = Path(named).absolute()
    if not path.is_file():
        raise HostError(f"{LIBRARY_VARIABLE} is {named}: there is no such file; name a PAPI library, or unset it")
    if len(os.fsencode(path)) > _LONGEST:
        raise HostError(
            f"{LIBRARY_VARIABLE} is {path}: the path has more than {_LONGEST} bytes; make a shorter link to it"
        )
    return str(path)


def observer_library() -> str:
    """Return the PAPI library that the observer loads: the chosen one, or where the system has none the wheel's."""
    chosen = chosen_library()
    return chosen if chosen or find_library("papi") is not None else wheel_library()


def wheel_library() -> str:
    """Return the path of the PAPI library in python-papi's wheel, '' without that; nothing of it is imported."""
    found = find_spec("pypapi")
    folders = found.submodule_search_locations if found is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("_papi*.so")]
    return str(files[0]) if files else ""


def event(name: str) -> Event | None:
    """Return the event to add to the event set: PAPI takes presets and native names as they are.

    Result: Where it counts is told by perf's names alone: what the kernel does is counted in the kernel, as perf does,
    where PAPI would look in user space and count nothing. None for names that are not PAPI's.
    """
    if name.startswith(("callgrind::", ANY)):
        return None
    if not name.startswith(_PERF):
        return Event(name)
    try:
        code = parse(name.removeprefix(_PERF)).code
    except UnperturbedError:  # a name that is libpfm's own
        return Event(name)
    return Event(name, kernel=code.kernel, user=code.user)


def metric(name: str) -> Metric:
    """Return the description of a metric read through PAPI; perf's software events are of kind `os`."""
    event_name = name.removeprefix(_PERF).partition(":")[0].upper()
    generic = _GENERIC.get(_ALIASES.get(event_name, event_name)) if name.startswith(_PERF) else None
    by_kernel = name.startswith(_PERF) and (
        event_name.startswith("PERF_COUNT_SW_") or (generic is not None and generic.kind == "os")
    )
    if event_name.startswith("PERF_COUNT_SW_") and event_name.endswith("_CLOCK"):
        unit = "ns"
    elif generic is not None:
        unit = generic.unit
    else:
        unit = preset_unit(event_name)
    return Metric(
        name, "os" if by_kernel else "hardware", unit=unit, source="papi", meaning=PRESETS.get(name, "native event")
    )
