"""What a hit of a kernel's probe costs, beside an increment that is compiled in: nanoseconds an event.

    python tests/benchmarks/instrument_probes.py [--blocks 30] [--seed 1] [--quick] [--json FILE]

Each function is called with and without a probe in turn, in random order, in a process of its own under the outside
sampler. The number of hits that the kernel counted must be the number of calls.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from counting_cost import median_interval
from numpy.typing import NDArray
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.kernel_probes import register_probes
from unperturbed.collectors.records.file import Probe, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, build_observer, runtime_files
from unperturbed.errors import HostError, RunError
from unperturbed.instrument.binaries.probes import find_probes
from unperturbed.instrument.events import Event

_INTERVAL_NS = 1_000_000_000
"""Longer than a run: nothing is read while it lasts."""

_PROGRAM = """
#include "unperturbed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static uint64_t counts[1] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[1] = {0};
static struct unperturbed_table table = {0, counts, metric, 1, 1};
static void __attribute__((constructor)) enrol(void) { unperturbed_register(&table); }
#define FUNCTION(name, ...) static __attribute__((noinline, noclone, used)) void name(void) { __VA_ARGS__ __asm__ volatile("" ::: "memory"); }
#define FIRST(name, first) \\
    __asm__(".p2align 6\\n.type " #name ", %function\\n" #name ":\\n" first "\\nret\\n.size " #name ", .-" #name "\\n"); \\
    extern void name(void)
FUNCTION(plain,)
FUNCTION(increment, COUNT)
FIRST(begins_with_push, "push %rbp\\npop %rbp");
FIRST(begins_with_nop, "nop");
FIRST(begins_with_mov, "mov %edi, %eax");
FIRST(begins_with_endbr, "endbr64");
FIRST(begins_with_long_nop, ".byte 0x0f, 0x1f, 0x44, 0, 0");
STATIC_PROBES
int main(int count, char **argument)
{
    static const struct { const char *name; void (*function)(void); } all[] = {
        {"plain", plain}, {"increment", increment}, {"begins_with_push", begins_with_push}, {"begins_with_nop", begins_with_nop},
        {"begins_with_mov", begins_with_mov}, {"begins_with_endbr", begins_with_endbr}, {"begins_with_long_nop", begins_with_long_nop}, MORE};
    struct timespec begin, end;
    for (unsigned i = 0; count > 2 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, argument[1]))
            continue;
        long calls = atol(argument[2]);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (long call = 0; call < calls; call++)
            all[i].function();
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%lld\\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
        fflush(stdout);
        return count > 3 && getchar() != '\\n';
    }
    return 2;
}
"""
_COUNT = {"x86_64": '__asm__ volatile("incq %0" : "+m"(counts[0]));'}
_STATIC_PROBES = """
#include <sys/sdt.h>
FUNCTION(static_probe, DTRACE_PROBE(shop, sold);)
FUNCTION(static_probe_with_arguments, DTRACE_PROBE2(shop, lost, counts[0], metric[0]);)
"""


@dataclass(frozen=True)
class Case:
    """A function that is called: which, what a reader is told, and the target of its probe ('' for none)."""

    function: str
    meaning: str
    target: str = ""


def _cases(has_static_probes: bool) -> list[Case]:
    cases = [
        Case("increment", "increment compiled in (`enter`)"),
        Case("begins_with_push", "uprobe on a push, as most functions begin", "uprobe"),
        Case("begins_with_nop", "uprobe on a nop", "uprobe"),
        Case("begins_with_long_nop", "uprobe on a nop of five bytes", "uprobe"),
        Case("begins_with_mov", "uprobe on another instruction (mov)", "uprobe"),
        Case("begins_with_endbr", "uprobe on endbr64, as functions begin with -fcf-protection", "uprobe"),
    ]
    if has_static_probes:
        cases += [
            Case("static_probe", "static probe (usdt)", "shop:sold"),
            Case("static_probe_with_arguments", "static probe with two arguments", "shop:lost"),
        ]
    return cases


def _build(folder: Path) -> tuple[Path, bool]:
    found = subprocess.run(["gcc", "-E", "-include", "sys/sdt.h", "-xc", "/dev/null"], capture_output=True, check=False)
    has_static_probes = found.returncode == 0
    more = (
        '{"static_probe", static_probe}, {"static_probe_with_arguments", static_probe_with_arguments}'
        if has_static_probes
        else "{0, 0}"
    )
    text = _PROGRAM.replace("STATIC_PROBES", _STATIC_PROBES if has_static_probes else "").replace("MORE", more)
    text = text.replace("COUNT)", f"{_COUNT.get(os.uname().machine, '(*(volatile uint64_t *)counts)++;')})")
    (folder / "program.c").write_text(text)
    sources = [BOUNDS[0], folder / "program.c", *runtime_files(), BOUNDS[1]]
    command = ["gcc", "-std=gnu11", "-O2", "-DUNPERTURBED_EXECUTABLE", f"-I{INCLUDE}", *map(str, sources)]
    subprocess.run([*command, "-o", str(folder / "program"), "-ldl", "-lrt", "-lpthread"], check=True)
    return folder / "program", has_static_probes


def _register(program: Path, cases: Sequence[Case]) -> tuple[dict[str, Probe], dict[str, str]]:
    """Register a probe for each case that has one; return them, and the class of each site, by function."""
    events = {
        case.function: Event("uprobe", f"{program}:{case.function}")
        if case.target == "uprobe"
        else Event("usdt", f"{program}:{case.target}")
        for case in cases
        if case.target
    }
    sites = [
        site
        for number, (name, event) in enumerate(events.items())
        for site in find_probes(name, event, number=number, program=program)
    ]
    probes = register_probes(sites)
    return dict(zip(events, probes, strict=True)), {site.metric: site.hit for site in sites}


def _run(program: Path, function: str, calls: int, probe: Probe | None, folder: Path) -> float:
    """Return ns a call; with a probe, its hits are compared with the calls."""
    setup = Setup(
        "none",
        _INTERVAL_NS,
        "monotonic",
        software=2,
        capacity=64,
        sampler="outside",
        probes=(Probe(1, probe.tracepoint, probe.name),) if probe else (),
    )
    record = folder / "record"
    create_record_file(record, setup)
    command = [str(build_observer("gcc")), str(record), str(program), function, str(calls)]
    done = subprocess.run(command, env={"UNPERTURBED_RECORD": str(record)}, capture_output=True, text=True, check=True)
    hits = int(read_record_file(record, setup).rows["software"][-1][1])
    if probe and hits != calls:
        raise RunError(f"{function}: {calls} calls, {hits} hits")
    return int(done.stdout) / calls


def _calls(hit: str | None) -> int:
    """How often a function is called in a run: for some 20 ms."""
    return {None: 10_000_000, "cheap": 30_000}.get(hit, 2_000)


def _measure(
    program: Path, cases: Sequence[Case], blocks: int, seed: int
) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, str]]:
    """Return what an event adds to a call [ns], one value a block, by function, and the class of each probe's site."""
    chance = random.Random(seed)
    probes, hits = _register(program, cases)
    (stranger,) = (case for case in cases if case.function == "begins_with_mov")
    added: dict[str, list[float]] = {function: [] for function in (*(case.function for case in cases), "stranger")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for block in range(blocks):
            order = list(cases)
            chance.shuffle(order)
            for case in order:
                probe = probes.get(case.function)
                # An increment has no twin without it but the function that does nothing.
                alone = _run(program, case.function if probe else "plain", _calls(None), None, folder)
                added[case.function].append(
                    _run(program, case.function, _calls(hits.get(case.function)), probe, folder) - alone
                )
            added["stranger"].append(_beside_another(program, stranger.function, probes[stranger.function], folder))
            print(f"\rblock {block + 1} of {blocks}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {function: np.array(values) for function, values in added.items()}, hits


def _beside_another(program: Path, function: str, probe: Probe, folder: Path) -> float:
    """Return what a call takes longer in a process that nobody probes, while another of the same binary is probed [ns]."""
    alone = _run(program, function, _calls(None), None, folder)
    setup = Setup(
        "none",
        _INTERVAL_NS,
        "monotonic",
        software=2,
        capacity=64,
        sampler="outside",
        probes=(Probe(1, probe.tracepoint, probe.name),),
    )
    create_record_file(folder / "other", setup)
    command = [str(build_observer("gcc")), str(folder / "other"), str(program), function, "3", "and wait"]
    environment = {"UNPERTURBED_RECORD": str(folder / "other")}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as probed:
        assert probed.stdout is not None
        probed.stdout.readline()
        beside = _run(program, function, _calls(None), None, folder)
        probed.communicate(b"\n")
    return beside - alone


def main() -> None:
    """Measure and report."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, blocks=(30, "blocks"), seed=(1, "of the order and the bootstrap"))
    if os.uname().machine != "x86_64":
        raise HostError("the functions of this benchmark are written for x86-64")
    before = host_state()
    blocks = 5 if arguments.quick else arguments.blocks
    with tempfile.TemporaryDirectory() as name:
        program, has_static_probes = _build(Path(name))
        cases = _cases(has_static_probes)
        added, hits = _measure(program, cases, blocks, arguments.seed)
    deliver(_section(cases, added, hits, arguments.seed), arguments, before)


def _section(
    cases: Sequence[Case], added: Mapping[str, NDArray[np.float64]], hits: Mapping[str, str], seed: int
) -> Section:
    found = {function: median_interval(values, seed) for function, values in added.items()}
    rows = []
    for case in cases:
        middle, low, high = found[case.function]
        rate = f"{1e7 / middle:,.0f}" if case.target else "–"
        rows.append([case.meaning, hits.get(case.function, "–"), f"{middle:,.1f}", f"[{low:,.1f}, {high:,.1f}]", rate])
    middle, low, high = found["stranger"]
    return Section(
        script="instrument_probes",
        title="What a hit of a kernel's probe costs",
        method=(
            "A function is called in a loop, with and without its probe, each time in a process of its own "
            "under the outside sampler; "
            f"{len(added['increment'])} blocks in random order, medians of the pairs' differences with 95 % "
            f"bootstrap intervals. The increment is "
            "held against a function without it. In every run the kernel's count was the number of calls. Class: cheap where "
            "the kernel emulates the instruction at the probe, dear where it single-steps it."
        ),
        tables=[
            Table(
                "Added to each event",
                ["event", "class", "ns", "95 %", "events a second that take 1 % of the time"],
                rows,
            )
        ],
        verdicts=[
            f"Another process of the same binary, meanwhile: {middle:+.2f} ns a call [{low:+.2f}, "
            f"{high:+.2f}]. The kernel puts its breakpoint "
            "into the measured processes alone."
        ],
        data={"added_ns": {function: values.tolist() for function, values in added.items()}, "class": dict(hits)},
    )


if __name__ == "__main__":
    main()
