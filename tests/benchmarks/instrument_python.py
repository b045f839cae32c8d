"""What counting a Python function costs, beside what CPython offers for that itself.

Nanoseconds an event, and instructions a start.

    python tests/benchmarks/instrument_python.py [--blocks 30] [--seed 1] [--quick] [--json FILE]

A function that returns its argument is called in a loop, in a process of its own for each way of counting, in random
order. With the hook, under the outside sampler: what it read must be the number of calls. What the hook adds to a
program's start is counted by callgrind, where there is one. Takes this interpreter and every python3.N in PATH.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from counting_cost import added_in_blocks, median_interval, run_observed
from numpy.typing import NDArray
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.runtime import build_preload, build_python_counter
from unperturbed.errors import RunError
from unperturbed.instrument.events import Event
from unperturbed.instrument.python import prepare_python_hook, python_environment

_CALLS, _ROUNDS = 100_000, 5
_MOST_DIFFERENT = 0.001
"""Of two runs' instructions: the path of their folder and their process's number differ."""

_PROGRAM = """
import itertools, sys, time
PREPARATION
def function(argument):
    BODY
    return argument

def calls(argument):
    for _ in range(argument):
        function(argument)

def best():
    taken = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        calls(CALLS)
        taken.append(time.perf_counter_ns() - begin)
    return min(taken) / CALLS

print(best())
"""
_PROFILED = """
def entered(frame, event, argument):
    pass
sys.setprofile(entered)
"""
_MONITORED = """
def entered(code, offset):
    pass
sys.monitoring.use_tool_id(3, "benchmark")
sys.monitoring.register_callback(3, sys.monitoring.events.PY_START, entered)
sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
"""
_NONE, _HOOK = "none again", "the hook: `-hit`"
_WAYS: Mapping[str, tuple[str, str]] = {
    _NONE: ("", "pass"),
    _HOOK: ("", "pass"),
    "a builtin is called": ("call = ''.isdigit", "call()"),
    "itertools.count is advanced": ("call = itertools.count().__next__", "call()"),
    "memoryview[0] += 1": ("view = memoryview(bytearray(8)).cast('Q')", "view[0] += 1"),
    "sys.monitoring, a Python callback": (_MONITORED, "pass"),
    "sys.setprofile, a Python callback": (_PROFILED, "pass"),
}
_JSON = ("-c", "import json")
_STARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "`pass`; a function of a module that is not loaded": (("-c", "pass"), ("nowhere.function",)),
    "`def add(a): return a`; that": (("-c", "def add(a): return a"), ("__main__.add",)),
    "`import json`; `json.decoder.JSONDecoder.decode`": (_JSON, ("json.decoder.JSONDecoder.decode",)),
    "`import json`; `json.*` and all methods in it": (_JSON, ("json.*", "json.*.*", "json.*.*.*")),
}
"""Program and what is counted in it → words behind the interpreter, targets."""


@functools.cache
def _interpreters() -> Mapping[str, str]:
    """Return version → interpreter."""
    found: dict[str, str] = {}
    for path in [sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 16)))]:
        question = "import sys; print('.'.join(map(str, sys.version_info[:3]))); print(sys.executable)"
        told = subprocess.run([path, "-c", question], capture_output=True, text=True, check=False)
        if told.returncode == 0:
            version, executable = told.stdout.split()
            found.setdefault(version, executable)
    return found


def _hook(
    command: Sequence[str], targets: Sequence[str], environment: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the variables with which a program counts."""
    hook = prepare_python_hook(
        command,
        {target: Event("python", target) for target in targets},
        environment=environment,
        folder=folder,
        library=build_python_counter("gcc"),
        cache=folder / "hooks",
    )
    return python_environment(environment, hook)


def _instructions(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Return the instructions of a whole run, as callgrind counts them."""
    simulated = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *command]
    said = subprocess.run(simulated, env=environment, cwd=folder, capture_output=True, text=True, check=True).stderr
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise RunError(f"callgrind told no count:\n{said}")
    return int(found[1])


def _starts() -> dict[tuple[str, str], tuple[int, int]]:
    """Return the instructions of a start without the hook.

    And what the hook adds in its first run, by version and what is counted.
    """
    found = {}
    environment = {"PATH": os.defpath, "LD_PRELOAD": str(build_preload("gcc")), "PYTHONHASHSEED": "0"}
    for version, python in _interpreters().items():
        for case, (words, targets) in _STARTS.items():
            with tempfile.TemporaryDirectory() as name:
                folder, command = Path(name), [python, *words]
                subprocess.run(command, env=environment, cwd=folder, check=True)  # Python keeps what it compiles itself
                plain = _instructions(command, environment, folder)
                hooked = {**environment, **_hook(command, targets, environment, folder)}
                first, second = (_instructions(command, hooked, folder) for _ in range(2))
                if abs(first - second) > _MOST_DIFFERENT * first:
                    raise RunError(f"{version}, {case}: {first} instructions in the first run, {second} in the second")
                found[version, case] = (plain, first - plain)
    return found


def _run(python: str, way: str, folder: Path) -> float:
    """Return ns a call."""
    preparation, body = _WAYS[way]
    text = _PROGRAM.replace("PREPARATION", preparation).replace("BODY", body)
    script = folder / "script.py"
    script.write_text(text.replace("ROUNDS", str(_ROUNDS)).replace("CALLS", str(_CALLS)))
    environment = {
        "PATH": os.defpath,
        "UNPERTURBED_PRELOAD": str(build_preload("gcc")),
    }
    if way == _HOOK:
        environment |= _hook([python, str(script)], ["script.function"], environment, folder)
    printed, counted = run_observed([python, str(script)], folder, software=1, environment=environment)
    if way == _HOOK and counted != _CALLS * _ROUNDS:
        raise RunError(f"{python}: {_CALLS * _ROUNDS} calls, {counted} hits")
    return float(printed)


def _measure(blocks: int, seed: int) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return what an event adds to a call [ns], one value a block, by version and way."""
    cases = [
        (version, way)
        for version in _interpreters()
        for way in _WAYS
        if "monitoring" not in way or tuple(map(int, version.split("."))) >= (3, 12)
    ]
    with tempfile.TemporaryDirectory() as name:

        def of(case: tuple[str, str]) -> float:
            python = _interpreters()[case[0]]
            alone = _run(python, _NONE, Path(name))
            return _run(python, case[1], Path(name)) - alone

        return added_in_blocks(cases, of, blocks, seed)


def main() -> None:
    """Measure and report."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, blocks=(30, "blocks"), seed=(1, "of the order and the bootstrap"))
    before = host_state()
    added = _measure(5 if arguments.quick else arguments.blocks, arguments.seed)
    starts = _starts() if shutil.which("valgrind") else {}
    deliver(_section(added, starts, arguments.seed), arguments, before)


def _start_rows(starts: Mapping[tuple[str, str], tuple[int, int]]) -> list[list[str]]:
    return [
        [
            case,
            *(
                f"{added / 1e6:.2f} of {plain / 1e6:.1f}"
                for (_, other), (plain, added) in starts.items()
                if other == case
            ),
        ]
        for case in _STARTS
    ]


def _start_verdict(starts: Mapping[tuple[str, str], tuple[int, int]]) -> str:
    added = [both[1] / 1e6 for both in starts.values()]
    return f"The hook adds {min(added):.1f} to {max(added):.1f} million instructions to a program's start."


def _section(
    added: Mapping[tuple[str, str], NDArray[np.float64]], starts: Mapping[tuple[str, str], tuple[int, int]], seed: int
) -> Section:
    found = {case: median_interval(values, seed) for case, values in added.items()}
    versions = list(_interpreters())
    rows = []
    for way in _WAYS:
        cells = []
        for version in versions:
            middle, low, high = found.get((version, way), (0.0, 0.0, 0.0))
            cells.append(f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]" if (version, way) in found else "–")
        rows.append([way, *cells])
    hooks = [found[version, _HOOK][0] for version in versions]
    profilers = [found[version, "sys.setprofile, a Python callback"][0] for version in versions]
    return Section(
        script="instrument_python",
        title="What counting a Python function costs",
        method=(
            f"A function that returns its argument is called {_CALLS:,} times; best of {_ROUNDS} rounds of a "
            f"process, less that of a process without "
            f"counting; {len(next(iter(added.values())))} blocks in random order, medians of the differences "
            f"with 95 % bootstrap intervals. All run "
            "under the outside sampler, which read exactly as many hits as there were calls. A start's "
            "instructions are callgrind's, of the whole "
            "run of a program that does nothing else: those that the first run with the hook adds to a run "
            "without it; the second run has as many."
        ),
        tables=[
            Table("Added to each call [ns]", ["way of counting", *versions], rows),
            *(
                [
                    Table(
                        "Added to a start [million instructions]",
                        ["program; what is counted", *versions],
                        _start_rows(starts),
                    )
                ]
                if starts
                else []
            ),
        ],
        verdicts=[
            f"The hook adds {max(hooks):.1f} ns an event at most, sys.setprofile at least {min(profilers):.0f} ns.",
            *([_start_verdict(starts)] if starts else []),
        ],
        data={
            "added_ns": {f"{version}, {way}": values.tolist() for (version, way), values in added.items()},
            "start_instructions": {f"{version}, {case}": both for (version, case), both in starts.items()},
        },
    )


if __name__ == "__main__":
    main()
