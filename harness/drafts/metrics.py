"""Metrics that can be counted in an unmodified program: hardware metrics, library calls, functions of a script."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors.listing import list_metrics
from unperturbed.collectors.passes import misspelt
from unperturbed.collectors.sources import CatalogueEntry, find_sources
from unperturbed.common.wording import counted
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.binaries.elf import read_binary
from unperturbed.instrument.binaries.interposition import find_function
from unperturbed.instrument.binaries.probes import needed_libraries
from unperturbed.instrument.events import parse_event

_REAL = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_BR_MSP")  # Four fit into one run on most processors
_SIMULATED = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_BR_MSP", "PAPI_LD_INS", "PAPI_SR_INS")
"""Without simulated cycles, which are computed from the other metrics and add no information."""
_KERNELS_OWN = ("perf::task-clock", "perf::page-faults", "perf::context-switches")
_CALLS = (
    "malloc calloc realloc read write fread fwrite fgets getline memcpy memmove strlen qsort "
    "pthread_mutex_lock _Znwm _ZdlPv"
)
"""Library functions that programs call for their work, the most informative first."""
_MOST_FUNCTIONS = 12
_FEW = 6  # A source with at most this many metrics is measured completely if the user chose none
_SYSTEM = ("libc.", "ld-linux", "linux-vdso", "libm.", "libpthread.", "libdl.", "libgcc_s.")
"""Prefixes of system libraries, whose own calls do not count as the program's."""


@dataclass(frozen=True)
class HardwareChoice:
    """Hardware metrics that this host can count."""

    names: tuple[str, ...]  # For `hardware:`
    simulated: bool  # Whether they are simulated: a run then takes 40 to 300 times as long as the program
    why: str  # Why these were chosen, as a clause for users


def choose_hardware(wanted: Sequence[str] = (), source: str = "", *, compiler: str = "gcc") -> HardwareChoice:
    """Return hardware metrics for a first campaign on this host."""
    listed = list_metrics(compiler).metrics
    ways = {metric.name: metric.best for metric in listed if metric.best.available}
    if wanted:
        known = {name for metric in listed for name in (metric.name, *metric.aliases)}
        if faults := misspelt(name for name in wanted if name not in known):
            raise SpecError("\n".join(f"in the options before --: {fault}" for fault in faults.values()))
        only_simulated = any(name in ways and ways[name].kind == "simulated" for name in wanted)
        simulates = source == "simulated" or (source in ("", "auto") and only_simulated)
        return HardwareChoice(tuple(wanted), simulates, "requested on the command line")
    if source in find_sources():  # the spec refuses unknown sources
        return _choose_of(source, listed)
    real = [name for name in _REAL if name in ways and ways[name].kind == "hardware"]
    if len(real) > 1:
        return HardwareChoice(tuple(real), False, "this processor counts them")
    simulated = [name for name in _SIMULATED if name in ways and ways[name].kind == "simulated"]
    if simulated:
        return HardwareChoice(
            tuple(simulated), True, "this host offers no processor counters, so valgrind simulates them"
        )
    of_kernel = [name for name in _KERNELS_OWN if name in ways]
    if len(of_kernel) > 1:
        return HardwareChoice(
            tuple(of_kernel), False, "the kernel counts them: this host has neither a usable PMU nor a working valgrind"
        )
    raise HostError(
        "this host cannot count any hardware metric: it has neither a usable PMU nor a working valgrind (apt-get "
        "install valgrind); for details, type `unperturbed doctor`"
    )


def _choose_of(source: str, listed: Sequence[CatalogueEntry]) -> HardwareChoice:
    """Return hardware metrics of one source: the usual metrics, or all metrics if the source has few."""
    ways = {entry.name: way for entry in listed for way in entry.ways if way.source == source and way.available}
    simulated = any(way.kind == "simulated" for way in ways.values())
    usual = [
        [name for name in names if name in ways and (ways[name].kind == "simulated") == simulated]
        for names in (_SIMULATED if simulated else _REAL, _KERNELS_OWN, ways)
    ]
    chosen = next((names for names in usual if 1 < len(names) <= _FEW), usual[-1])
    if not 0 < len(chosen) <= _FEW:
        many = (
            f"has {counted(len(ways), 'metric')}: choose some with --metrics; for a list"
            if ways
            else "counts nothing on this host; for the reason"
        )
        raise SpecError(f"--source {source}: the source {many}, type `unperturbed metrics --source {source}`")
    why = "valgrind simulates them" if simulated else f"the source {source} counts them"
    return HardwareChoice(tuple(chosen), simulated, why)


def choose_calls(program: Path, library_path: Sequence[Path] = ()) -> Mapping[str, str]:
    """Return the usual library functions whose calls preloading can count, keyed by metric name."""
    try:
        imported = set(read_binary(program).imported)
        # In a program that is mainly a shared library, such as python, the library makes the calls.
        for name, library in needed_libraries(program, library_path).items():
            if not name.startswith(_SYSTEM):
                imported |= set(read_binary(library).imported)
    except SpecError:
        return {}
    calls: dict[str, str] = {}
    for name in _CALLS.split():
        with suppress(SpecError):  # the calls cannot be intercepted
            if name in imported:
                find_function(parse_event({"preload": name}), program=program, library_path=library_path)
                calls[f"calls_{name.strip('_')}"] = name
    return calls


def functions_of_script(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the functions of the script in a command `python script.py`, by their names in `__main__`."""
    if len(words) < 2 or not Path(words[0]).name.startswith("python") or not words[1].endswith(".py"):
        return ()
    try:
        tree = ast.parse((folder / words[1]).read_bytes())
    except (OSError, SyntaxError, ValueError):  # the interpreter will report the error
        return ()
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            names += [
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return tuple(f"__main__.{name}" for name in names[:_MOST_FUNCTIONS])
