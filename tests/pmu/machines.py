"""What is run on the emulated machine of every architecture: the samplers, and PAPI where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.pmu.architectures import RISCV64, Architecture
from tests.pmu.cases import Case, Result, build_program, run_cases
from tests.pmu.machine import prepare_machine
from tests.pmu.matrix import (
    CYCLES,
    INSTRUCTIONS,
    INTERVAL_NS,
    PERIOD,
    SAMPLERS,
    SHORT_TURNS,
    TEAM_TURNS,
    TURNS,
    both,
    command,
    overflowing,
    papi,
)
from tests.pmu.packages import fetch_papi
from unperturbed.collectors.records.file import Setup
from unperturbed.collectors.runtime import build_observer, build_trials
from unperturbed.collectors.sources import Event

__all__ = ["MODES", "ROUNDS", "cases_of", "is_installed", "run_architecture"]

SOFTWARE = (Event("page-faults", 1, 2), Event("context-switches", 1, 3), Event("task-clock", 1, 1))
ROUNDS = 5
"""Of `rounds.c`, which works in user space and in the kernel."""
MODES = {
    "user": Event("instructions:u", 0, 1),
    "kernel": Event("instructions:k", 0, 1, kernel=True, user=False),
    "both": Event("instructions", 0, 1, kernel=True),
}
_PAPI_OF = {RISCV64.name: ("forky", ("libc6", "libgcc-s1", "libpfm4"))}
"""Where PAPI comes from if the guest's release has none, and what it needs of that release."""
_FEW_A_SECOND = 1000
_SLOWER = f"echo {_FEW_A_SECOND} > /proc/sys/kernel/perf_event_max_sample_rate"
_FASTER = "echo 100000 > /proc/sys/kernel/perf_event_max_sample_rate"


def cases_of() -> dict[str, Case]:
    """Return all cases by name; they are the same on every machine."""
    cases = {"settled": Case("sleep 3")}  # a kernel that has just started goes on with its own work for a second
    for sampler in SAMPLERS:
        run, short = command(sampler, TURNS), command(sampler, SHORT_TURNS)
        team, inside = command(sampler, TEAM_TURNS, "team"), sampler == "inside"
        cases |= {
            f"software-{sampler}": Case(
                run, Setup("perf_event", INTERVAL_NS, "monotonic", SOFTWARE, sampler=sampler, capacity=1024)
            ),
            f"perf_event-{sampler}": Case(run, both("perf_event", sampler)),
            f"overflow-{sampler}": Case(run, overflowing("perf_event", sampler, PERIOD)),
            f"overflow-instructions-{sampler}": Case(short, overflowing("perf_event", sampler, PERIOD // 10, event=1)),
            f"overflow-throttled-{sampler}": Case(
                short, overflowing("perf_event", sampler, PERIOD // 100), before=_SLOWER, after=_FASTER
            ),
            f"team-{sampler}": Case(team, both("perf_event", sampler, software=3, threads=inside, children=not inside)),
            f"nobody-2-{sampler}": Case(short, both("perf_event", sampler), user="nobody", paranoid=2),
            f"nobody-3-{sampler}": Case(short, both("perf_event", sampler), user="nobody", paranoid=3),
            f"papi-{sampler}": Case(run, papi(sampler, CYCLES, INSTRUCTIONS)),
        }
    for mode, event in MODES.items():
        setup = Setup("perf_event", INTERVAL_NS, "monotonic", (event,), capacity=1024)
        cases[f"mode-{mode}"] = Case(f"/bin/rounds {ROUNDS}", setup)
    together = Setup("perf_event", INTERVAL_NS, "monotonic", tuple(MODES.values()), capacity=1024)
    cases["modes-together"] = Case(f"/bin/rounds {ROUNDS}", together)
    cases["reset"] = Case(command("inside", TURNS), both("perf_event", "inside", reset=True))
    cases["reference"] = Case(f"reference 0:0,0:1 /bin/work {TURNS}")
    cases["enumeration"] = Case("echo papi-enumerate | list")
    cases["kernel"] = Case("uname -r; ls /sys/bus/event_source/devices")
    return cases


def is_installed(architecture: Architecture) -> bool:
    """Tell whether the emulator and the compiler of an architecture are on this host."""
    return bool(shutil.which(architecture.emulator) and shutil.which(architecture.compiler))


def run_architecture(
    architecture: Architecture,
    folder: Path,
    *,
    cpu: str = "",
    pmu: bool = True,
    only: tuple[str, ...] = (),
    more: Mapping[str, Case] | None = None,
    timeout_s: float = 250,
) -> dict[str, Result]:
    """Build the programs, boot the machine of an architecture, run the cases and return what each left.

    Parameters
    ----------
    architecture : Architecture
        Of the machine.
    folder : Path
        For programs and record files.
    cpu, pmu, timeout_s
        As `Machine.run` takes them.
    only : tuple of str, default ()
        Names of the cases that are run; empty for all.
    more : mapping of str to Case, optional
        Further cases.
    """
    programs = {
        name: build_program(folder, f"{name}.c", runtime=name != "reference", architecture=architecture)
        for name in ("work", "team", "rounds", "reference")
    }
    programs["observer"] = build_observer(architecture.compiler)
    programs["list"] = build_trials(architecture.compiler)
    if architecture.name in _PAPI_OF:
        programs |= fetch_papi(*_PAPI_OF[architecture.name], architecture)
    cases = {name: case for name, case in cases_of().items() if not only or name in only} | {**(more or {})}
    machine = prepare_machine(architecture)
    return run_cases(machine, programs, cases, folder / "records", timeout_s=timeout_s, cpu=cpu, pmu=pmu)
