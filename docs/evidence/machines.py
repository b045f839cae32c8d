"""The samplers, PAPI's versions and the counting of library calls on emulated processors of three kinds.

    python docs/evidence/machines.py

Boots ten machines one after another, two minutes of processor time, and writes `machines.md` beside this file. It needs
QEMU for arm64, riscv64 and x86-64 with a compiler for each (`tools/setup.sh machines`), and Debian's package servers at
its first run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.common.provenance import made_by
from tests.pmu import test_interposer, test_papi_versions
from tests.pmu.architectures import AMD64, ARM64, RISCV64, Architecture
from tests.pmu.cases import COMPILER, Result, build_program, no_servers, run_cases
from tests.pmu.machine import prepare_machine
from tests.pmu.machines import run_architecture
from tests.pmu.matrix import PERIOD, SAMPLERS, TEAM_WORK, WORK
from tests.pmu.packages import fetch_papi, fetch_tools
from unperturbed.collectors.records.counts import missed_overflows, skids
from unperturbed.collectors.runtime import build_observer, build_trials

MACHINES: dict[str, tuple[Architecture, str]] = {
    "arm64, Cortex-A57": (ARM64, ""),
    "arm64, Cortex-A57, Debian 13": (replace(ARM64, suite="trixie"), ""),
    "riscv64, rv64 with Sscofpmf": (RISCV64, ""),
    "riscv64, rv64 without Sscofpmf": (RISCV64, "rv64"),
    "x86-64, Skylake": (AMD64, "Skylake-Client"),
}

WHAT_IT_CANNOT_SHOW = """
- **Anything of time.** Every instruction takes the same time. There are no caches, no branch prediction and no
  execution out of order. Skid, and the cost of an interrupt or of reading a counter, are not those of a processor.
- **Most events.** Cycles and instructions count. Others are accepted and stay at zero, or are refused.
- **Modes on riscv64.** QEMU 7.2 counts in every mode. In a program that works in user space and in the kernel,
  `instructions:u` were {user:,}, `instructions:k` {kernel:,}, and `instructions:uk` {both:,}. So the counts of riscv64
  above also include what the kernel executes for the program.
- **One event in two modes, on riscv64.** In one group only the first counts: {together}.
- **The first overflow, on riscv64.** It is lost after a counter was started. The trace counts it as missed.
- **Instructions that end intervals.** On riscv64 the emulator interrupts in time, on arm64 only when the processor
  next enters the kernel.
- **x86-64.** QEMU emulates no PMU for it. The kernel's own events count there, and nothing else does.
""".strip()


def hardware(result: Result) -> list[int]:
    """Return what was counted between the first and the last record."""
    rows = result.sampled.rows["hardware"]
    return [int(value) for value in rows[-1] - rows[0]] if len(rows) else []


def surplus(result: Result, work: int) -> str:
    """Return how far instructions lie from the known work, or why they were not counted."""
    return f"{100 * (hardware(result)[1] / work - 1):+.2f} %" if len(result.sampled.rows) else "refused"


def overflows(result: Result) -> str:
    """Return length, skid and missed overflows of intervals that cycles end."""
    cycles = result.sampled.rows["hardware"][:, 0] if len(result.sampled.rows) else np.zeros(0, np.int64)
    if not len(cycles):
        return "refused"
    length, skid = np.median(np.diff(cycles)), np.median(skids(cycles, PERIOD))
    return f"{length:,.0f}; {skid:,.0f}; {int(missed_overflows(cycles, PERIOD).sum())}"


def threads(result: Result) -> str:
    """Return how far the instructions of each thread lie from the known work."""
    rows = result.sampled.rows
    if not len(rows):
        return "refused"
    each = [rows[rows["thread"] == thread]["hardware"][:, 1] for thread in (0, 1)]
    return ", ".join(f"{100 * ((values[-1] - values[0]) / TEAM_WORK - 1):+.2f} %" for values in each)


def samplers(found: Mapping[str, dict[str, Result]]) -> Iterator[str]:
    """Yield the table of the samplers."""
    yield "| | " + " | ".join(found) + " |"
    yield "|---|" + "---|" * len(found)
    kernels = [results["kernel"].stdout.split()[0] for results in found.values()]
    yield "| kernel | " + " | ".join(kernels) + " |"
    for sampler in SAMPLERS:
        for what, cells in (
            ("instructions beyond the known work", [surplus(r[f"perf_event-{sampler}"], WORK) for r in found.values()]),
            (
                "intervals of 10 M cycles: length; skid; missed",
                [overflows(r[f"overflow-{sampler}"]) for r in found.values()],
            ),
            (
                "records of the kernel's events (software events), interval 10 ms",
                [f"{len(r[f'software-{sampler}'].sampled.rows)}" for r in found.values()],
            ),
        ):
            yield f"| {sampler}: {what} | " + " | ".join(cells) + " |"
    yield "| inside: each of two threads | " + " | ".join(threads(r["team-inside"]) for r in found.values()) + " |"
    family = [surplus(r["team-outside"], 3 * TEAM_WORK) for r in found.values()]
    yield "| outside: two threads and a child | " + " | ".join(family) + " |"


def refusals(found: Mapping[str, dict[str, Result]]) -> Iterator[str]:
    """Yield the table of refusals, in the words that a user gets."""
    yield "| machine | asked for | message |"
    yield "|---|---|---|"
    for machine, results in found.items():
        for what, case in {
            "cycles, instructions": "perf_event-inside",
            "intervals of cycles": "overflow-inside",
            "PAPI_TOT_CYC": "papi-inside",
            "cycles, unprivileged, perf_event_paranoid = 3": "nobody-3-inside",
        }.items():
            records = results[case].sampled
            if not len(records.rows):
                name = f" (PAPI {records.papi_version})" if records.papi_version else ""
                yield f"| {machine} | {what}{name} | {records.message} |"


def versions(folder: Path) -> Iterator[str]:
    """Run PAPI's versions on arm64, and yield their table."""
    programs = {
        **{name: build_program(folder, f"{name}.c", runtime=True) for name in ("work", "team")},
        "observer": build_observer(COMPILER),
        "list": build_trials(COMPILER),
    }
    yield "| PAPI | Debian release | presets | inside | outside | outside, read by PAPI itself | chosen beside 7.0 |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for version, (suite, packages) in test_papi_versions.RELEASES.items():
        files = {**programs, **fetch_papi(suite, packages)}
        cases = test_papi_versions.cases_of(version)
        results = run_cases(prepare_machine(), files, cases, folder / f"papi-{version}", timeout_s=250)
        answers = [line.split("\t") for line in results["enumeration"].stdout.splitlines()]
        presets = sum((what, reason) == ("preset", "ok") for what, _, reason, *_ in answers)
        work = test_papi_versions.WORK
        cells = [surplus(results[case], work) for case in ("count-inside", "count-outside", "derived-outside")]
        chosen = results["found-inside"].sampled.papi_version
        yield f"| {version} | {suite} | {presets} | {' | '.join(cells)} | {chosen} |"


def calls(folder: Path) -> Iterator[str]:
    """Count library calls on both arm64 processors, and yield what a call costs."""
    yield "| processor | one counter | one exact counter | two counters | gdb's calls of malloc: counted, by hand |"
    yield "|---|---:|---:|---:|---|"
    files = {**test_interposer.compile_guest(folder), **fetch_tools()}
    files["/lib/aarch64-linux-gnu/libdebuginfod.so.1"] = no_servers(folder)
    for processor, compiler in test_interposer.PROCESSORS.items():
        run = test_interposer.cases_of(files, compiler)
        place = folder / processor.partition(",")[0]
        results = run_cases(prepare_machine(), run.files, run.cases, place, timeout_s=250, cpu=processor, processors=2)
        each = {
            name: test_interposer.instructions_of_a_call(results, name)
            for name in ("nothing", "plain", "exact", "twice")
        }
        cells = [f"{each[name] - each['nothing']:.2f}" for name in ("plain", "exact", "twice")]
        own = results["gdb-alone"].stdout.split()[-1]
        counted = test_interposer.counts(results["gdb"])[0]
        yield f"| {processor.partition(',')[0]} | {' | '.join(cells)} | {counted:,}, {int(own):,} |"


def page(folder: Path) -> str:
    """Run everything, and return the page."""
    made, found = made_by(), {}
    first = subprocess.run([ARM64.emulator, "--version"], capture_output=True, text=True, check=True).stdout
    emulator = first.splitlines()[0].removesuffix(")").replace(" emulator version", "").split(" (")[0]
    for number, (name, (architecture, cpu)) in enumerate(MACHINES.items()):
        print(name, file=sys.stderr)
        place = folder / str(number)
        place.mkdir()
        found[name] = run_architecture(architecture, place, cpu=cpu)
    riscv = found["riscv64, rv64 with Sscofpmf"]
    modes: dict[str, object] = {name: hardware(riscv[f"mode-{name}"])[0] for name in ("user", "kernel", "both")}
    modes["together"] = ", ".join(f"{count:,}" for count in hardware(riscv["modes-together"]))
    return "\n".join(
        [
            "# Other machines, by emulation",
            "",
            made,
            "",
            "This page lists the emulated processors on which the samplers, PAPI and the counting of library calls",
            f"were run, and how far their counts lie from a known number of instructions. {emulator} emulates",
            "all machines. They run kernels and libraries of Debian. The emulating host has no part in the counts.",
            "",
            "## The samplers",
            "",
            f"The program has {WORK:,} instructions; another has two threads and a child, each with {TEAM_WORK:,}.",
            "Length and skid of intervals are medians in cycles; then follows how many overflows have no record.",
            "",
            *samplers(found),
            "",
            "## What is refused, and why",
            "",
            *refusals(found),
            "",
            "Debian 13 has no PAPI for riscv64: this one, and its libpfm, are those of Debian 14. On arm64, Debian",
            "13's libpfm looks for the PMU by a name that this machine's kernel does not give it; perf_event counts.",
            "",
            "## PAPI's versions, on arm64",
            "",
            "Each version lies beside the guest's own, 7.0. Percentages are instructions beyond the known work, of a",
            f"shorter program ({test_papi_versions.WORK:,} instructions): what a start costs weighs more there.",
            "",
            *versions(folder),
            "",
            "## Calls of library functions, on arm64",
            "",
            "The instructions that counting adds to a call, and the calls of a program of the distribution, which a",
            "function written by hand counts as well. `tests/pmu/test_interposer.py` also passes arguments of every",
            "kind, structures, vectors and variable arguments. It tries `setjmp`, `vfork`, calls before any library is",
            "set up, exceptions and colliding threads.",
            "",
            *calls(folder),
            "",
            "`max` is the newest processor that QEMU emulates. It also refuses jumps to places that are not marked for",
            "them (BTI). The same library without its marks is killed there.",
            "",
            "## What an emulated PMU cannot show",
            "",
            WHAT_IT_CANNOT_SHOW.format(**modes),
            "",
        ]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        text = page(Path(name))
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)
