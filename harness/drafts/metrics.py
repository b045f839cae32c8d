"""Which metrics can be counted of a program as it is: hardware metrics, library functions, functions of a script."""

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

_REAL = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_BR_MSP")  # Four metrics fit one run on most processors
_SIMULATED = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_BR_MSP", "PAPI_LD_INS", "PAPI_SR_INS")
"""Simulated cycles are a formula of the others, and say nothing of their own."""
_KERNELS_OWN = ("perf::task-clock", "perf::page-faults", "perf::context-switches")
_CALLS = (
    "malloc calloc realloc read write fread fwrite fgets getline memcpy memmove strlen qsort "
    "pthread_mutex_lock _Znwm _ZdlPv"
)
"""Library functions that programs call for their work, those first whose counts say most."""
_MOST_FUNCTIONS = 12
_FEW = 6  # Metrics of a source that are all measured where none was chosen
_SYSTEM = ("libc.", "ld-linux", "linux-vdso", "libm.", "libpthread.", "libdl.", "libgcc_s.")
"""Libraries whose own calls are not the program's."""


@dataclass(frozen=True)
class HardwareChoice:
    """Hardware metrics that this host can count."""

    names: tuple[str, ...]  # For `hardware:`
    simulated: bool  # They are simulated: a run then takes 25 to 130 times as long as the program
    why: str  # Where they come from, a clause for people


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
    if source in find_sources():  # the spec refuses others
        return _choose_of(source, listed)
    real = [name for name in _REAL if name in ways and ways[name].kind == "hardware"]
    if len(real) > 1:
        return HardwareChoice(tuple(real), False, "this processor counts them")
    simulated = [name for name in _SIMULATED if name in ways and ways[name].kind == "simulated"]
    if simulated:
        return HardwareChoice(
            tuple(simulated), True, "this host offers no counters of its processor, so valgrind simulates them"
        )
    of_kernel = [name for name in _KERNELS_OWN if name in ways]
    if len(of_kernel) > 1:
        return HardwareChoice(tuple(of_kernel), False, "this host has no PMU and no valgrind: the kernel's own events")
    raise HostError(
        "this host cannot count anything for a program: it has no PMU, and valgrind is not installed (apt-get install "
        "valgrind); `unperturbed doctor` shows more"
    )


def _choose_of(source: str, listed: Sequence[CatalogueEntry]) -> HardwareChoice:
    """Return hardware metrics that one source counts: the usual ones, or all of a source that has few."""
    ways = {one.name: way for one in listed for way in one.ways if way.source == source and way.available}
    simulated = any(way.kind == "simulated" for way in ways.values())
    usual = [
        [name for name in names if name in ways and (ways[name].kind == "simulated") == simulated]
        for names in (_SIMULATED if simulated else _REAL, _KERNELS_OWN, ways)
    ]
    chosen = next((names for names in usual if 1 < len(names) <= _FEW), usual[-1])
    if not 0 < len(chosen) <= _FEW:
        many = f"has {counted(len(ways), 'metric')}: name some by --metrics" if ways else "counts nothing on this host"
        raise SpecError(f"--source {source}: the source {many}; `unperturbed metrics --source {source}` lists them")
    why = "valgrind simulates them" if simulated else f"the source {source} counts them"
    return HardwareChoice(tuple(chosen), simulated, why)


def choose_calls(program: Path, library_path: Sequence[Path] = ()) -> Mapping[str, str]:
    """Return the usual library functions whose calls can be counted by preloading: metric → function."""
    try:
        imported = set(read_binary(program).imported)
        # Of a program that is a library in the main, such as python, the library makes the calls.
        for name, library in needed_libraries(program, library_path).items():
            if not name.startswith(_SYSTEM):
                imported |= set(read_binary(library).imported)
    except SpecError:
        return {}
    found: dict[str, str] = {}
    for name in _CALLS.split():
        with suppress(SpecError):  # its calls cannot be intercepted
            if name in imported:
                find_function(parse_event({"preload": name}), program=program, library_path=library_path)
                found[f"calls_{name.strip('_')}"] = name
    return found


def functions_of_script(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the functions of a Python script that `python script.py` runs, by their names in `__main__`."""
    if len(words) < 2 or not Path(words[0]).name.startswith("python") or not words[1].endswith(".py"):
        return ()
    try:
        tree = ast.parse((folder / words[1]).read_bytes())
    except (OSError, SyntaxError, ValueError):  # the interpreter says what is wrong with it
        return ()
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return tuple(f"__main__.{name}" for name in found[:_MOST_FUNCTIONS])
