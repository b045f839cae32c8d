"""Cost of metrics of a Java virtual machine: nanoseconds per entry of a method, and what starting the program takes.

python -m tests.benchmarks.instrument_jvm
"""

from __future__ import annotations

import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.common.provenance import made_by
from unperturbed.collectors.records.file import Setup, create_record_file
from unperturbed.collectors.runtime import build_observer, build_preload
from unperturbed.collectors.runtime.jvm import build_jvm_counter
from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.java import counts_methods, java_machine, load_option

ROUNDS = 15
PATH = "/usr/local/bin:/usr/bin:/bin"
STEPS = """
public class Steps {
    static long step(long x) { return 31 * x + 7; }
    static long loop(long n) { long s = 1; for (long i = 0; i < n; i++) s = step(s); return s; }
    public static void main(String[] arguments) {
        long n = Long.parseLong(arguments[0]);
        for (int i = 0; i < 20; i++) loop(n / 20);
        long begin = System.nanoTime();
        long sum = loop(n);
        System.out.println((double) (System.nanoTime() - begin) / n + " " + sum);
    }
}
"""


def counted(**targets: object) -> dict[str, Event]:
    return {name: parse_event(target) for name, target in targets.items()}  # type: ignore[arg-type]


def command(folder: Path, words: Sequence[str], software: Mapping[str, Event]) -> tuple[list[str], dict[str, str]]:
    """Return a command of `java` under the sampler outside, with an interval that never ends, and its environment."""
    environment = {"PATH": PATH, "HOME": str(folder)}
    machine = java_machine(["java", *words], environment=environment, folder=folder)
    library = build_jvm_counter("gcc", machine.home, machine.include, methods=counts_methods(software))
    setup = Setup("none", 1_000_000_000, "monotonic", software=len(software), sampler="outside", program="java")
    record = folder / "record"
    create_record_file(record, setup)
    option = [load_option(library, software)] if software else []
    more = {"UNPERTURBED_RECORD": str(record), "UNPERTURBED_PRELOAD": str(build_preload("gcc"))}
    return [str(build_observer("gcc")), str(record), "java", *option, *words], {**environment, **more}


def per_entry(folder: Path, mode: str, entries: int, software: Mapping[str, Event]) -> float:
    """Return the nanoseconds of an iteration of a loop that calls the method."""
    words, environment = command(folder, [mode, "-cp", str(folder), "Steps", str(entries)], software)
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def whole(folder: Path, software: Mapping[str, Event]) -> tuple[float, float]:
    """Return the wall-clock and the CPU milliseconds of a program that does almost nothing."""
    words, environment = command(folder, ["-cp", str(folder), "Steps", "20"], software)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, env=environment, cwd=folder, capture_output=True, check=True)
    elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * elapsed, 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


STEP = {"enter": "Steps.step"}
WAYS: Mapping[str, Mapping[str, Event]] = {
    "nothing": {},
    "`plain`": counted(a={"jvm": STEP}),
    "`exact`": counted(a={"jvm": STEP, "threads": "exact"}),
}
STARTS: Mapping[str, Mapping[str, Event]] = {
    "nothing": {},
    "`collections`": counted(a={"jvm": {"event": "collections"}}),
    "`compilations`": counted(a={"jvm": {"event": "compilations"}}),
    "`classes`": counted(a={"jvm": {"event": "classes"}}),
    "a method of the program": counted(a={"jvm": STEP}),
    "a method of the Java library": counted(a={"jvm": {"enter": "java.util.HashMap.resize"}}),
    "every method of the program and the library": counted(a={"jvm": {"enter": "*.*"}}),
}


def main() -> None:
    print(made_by())
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()
    print(f"{shown[1]}; Linux {platform.release()}, {platform.machine()}; medians of {ROUNDS} runs in turn\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Steps.java").write_text(STEPS)
        subprocess.run(["javac", "Steps.java"], cwd=folder, check=True)
        print("| counted | ns per call, compiled | ns per call, interpreted (`-Xint`) |\n|---|---:|---:|")
        modes = {"-Xmixed": 100_000_000, "-Xint": 2_000_000}
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):
            for way, software in WAYS.items():
                for mode, entries in modes.items():
                    times.setdefault((way, mode), []).append(per_entry(folder, mode, entries, software))
        for way in WAYS:
            print(f"| {way} | {' | '.join(f'{statistics.median(times[way, mode]):.3g}' for mode in modes)} |")
        print("\n| counted | wall-clock time of a short program, ms | CPU time, ms |\n|---|---:|---:|")
        starts: dict[str, list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for way, software in STARTS.items():
                starts.setdefault(way, []).append(whole(folder, software))
        for way, pairs in starts.items():
            medians = [statistics.median(values) for values in zip(*pairs, strict=True)]
            print(f"| {way} | {medians[0]:.0f} | {medians[1]:.0f} |")


if __name__ == "__main__":
    main()
