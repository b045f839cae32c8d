"""Traces of the kernel: is a disturbed player told from a good one by what the kernel saw of it alone?

    python -m experiments.diagnosis.cases.kernel [--traces 3]        (as root: it writes to tracefs)

Kamdem Kengne et al., section II-A: on an ST40 the traces are the operating system's, of KProbes: "interrupts, context
switches, function calls, system calls"; GSTapps of section V has such events. Here they are ftrace's: context switches
and wake-ups of the player's threads, and their system calls. The player writes no log of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from experiments.common.evaluation import put_section
from experiments.common.provenance import made_by
from experiments.common.tables import markdown_table, right
from experiments.diagnosis.pipelines import PIPELINES, Clip, Settings
from experiments.diagnosis.playing import stress
from experiments.diagnosis.record import PAGE, Studio, log_of, write_whole
from experiments.diagnosis.shown import is_clean, measure_run, noticed
from unperturbed.analysis.diagnosis import diagnose, read_events

TRACEFS = Path("/sys/kernel/tracing")
EVENTS = ("sched/sched_switch", "sched/sched_wakeup", "syscalls")
BUFFER_KB = 16_384
"""Of each processor."""
REFERENCES, ATTEMPTS = 6, 5
PIPELINE, CLIP = PIPELINES[1], Clip("ball", "ticks", 250)
"""Two streams in time, every picture shown. In 3 s, as in the plan, four events of five are of the start."""


@dataclass(frozen=True)
class Case:
    """What is changed."""

    settings: Settings  # Properties in the pipeline, by place
    stress: str = ""  # "cpu" or "memory" for stress of the player's processor; "" without
    processes: int = 0  # Of the stress


CASES: Mapping[str, Case] = {
    "nothing": Case({}),
    "cpu, 8 busy processes": Case({}, "cpu", 8),
    "cpu, 32 busy processes": Case({}, "cpu", 32),
    "memory, 32 busy processes": Case({}, "memory", 32),
    "sleep-time coded, 60 ms": Case({"coded": {"sleep-time": "60000"}}),
    "drop picture, 0.3": Case({"picture": {"drop-probability": "0.3"}}),
    "error-after coded, half of the clip": Case({"coded": {"error-after": f"{CLIP.frames // 2}"}}),
    "offset, 500 ms": Case({"speaker": {"ts-offset": "500000000"}}),
}


@contextlib.contextmanager
def tracing() -> Iterator[Path]:
    """Make an instance of ftrace for the events, and remove it."""
    instance = TRACEFS / "instances" / "unperturbed"
    instance.mkdir()
    try:
        for file, text in (
            ("options/event-fork", "1"),
            ("trace_clock", "mono"),
            ("buffer_size_kb", str(BUFFER_KB)),
            ("set_event_pid", "1"),  # until the player writes its own: else all processes are traced
            *((f"events/{event}/enable", "1") for event in EVENTS),
        ):
            (instance / file).write_text(text)
        yield instance
    finally:
        instance.rmdir()


def record_one(studio: Studio, case: Case, seed: int, log: Path) -> tuple[dict[str, str], bool]:
    """Record a run; return what a viewer would notice of it, and whether it went as a good run does."""
    command = studio.command(PIPELINE, CLIP, case.settings)
    with tracing() as instance, stress(case.stress, case.processes, seed, studio.processor):
        follow = ("sh", "-c", f'echo $$ > {instance / "set_event_pid"}; exec "$@"', "sh")
        played = studio.play(command, level="0", before=follow)
        (instance / "tracing_on").write_text("0")
        trace = (instance / "trace").read_bytes()
    measured = measure_run(played.shown, played.exit_code, CLIP, PIPELINE.sinks)
    log.write_bytes(gzip.compress(trace, 6, mtime=0))
    return noticed(measured), played.exit_code == 0 and is_clean(measured)


def record(folder: Path, traces: int) -> None:
    """Record what the folder does not hold; cases take turns."""
    with Studio.opened(folder) as studio:
        studio.build()
        for number in range(REFERENCES + traces):
            for label, case in CASES.items():
                name, plain = name_of(label, number), label == "nothing"
                row = studio.row_file(name)
                if (number >= traces and not plain) or row.exists():
                    continue
                for _ in range(ATTEMPTS):
                    noticed, went_well = record_one(studio, case, number, log_of(folder, name))
                    if went_well or not plain:
                        break
                else:
                    raise SystemExit(f"{name}: {ATTEMPTS} times not clean; last: {noticed}")
                write_whole(row, json.dumps({"noticed": noticed}))
                print(f"{name}: {'; '.join(noticed.values()) or 'nothing is noticed'}", file=sys.stderr, flush=True)


def name_of(label: str, number: int) -> str:
    """Return the name of a run's trace."""
    return f"{label.replace(',', '').replace(' ', '-')}-{number}"


def rows(folder: Path, traces: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each case."""
    references = [read_events(log_of(folder, name_of("nothing", number))) for number in range(REFERENCES)]
    for label in CASES:
        first = REFERENCES if label == "nothing" else 0
        names = [name_of(label, number) for number in range(first, first + traces)]
        runs = [read_events(log_of(folder, name)) for name in names]
        diagnoses = [diagnose(references, run) for run in runs]
        seen = [json.loads((folder / "traces" / f"{name}.json").read_text())["noticed"] for name in names]
        lost = sum(trace.reading.lost_events for trace in (*references, *runs) if trace.reading)
        if lost:
            raise SystemExit(f"{label}: ftrace lost {lost} events; give it larger buffers")
        kinds = sorted({finding.kind for diagnosis in diagnoses for finding in diagnosis.findings})
        verdicts = [diagnosis.verdict for diagnosis in diagnoses]
        yield (
            label,
            f"{median(map(len, runs)):,.0f}",
            ", ".join(sorted({kind for kinds_seen in seen for kind in kinds_seen})) or "–",
            f"{sum(bool(kinds_seen) for kinds_seen in seen)} of {traces}",
            f"{verdicts.count('anomalous')} of {traces}",
            f"{verdicts.count('undecided')}",
            ", ".join(kinds) or "–",
        )


def _called(table: Sequence[Sequence[str]], wanted: Callable[[Sequence[str]], bool]) -> str:
    """Return how many runs of the rows are called anomalous."""
    counts = [[int(part) for part in row[4].split(" of ")] for row in table if wanted(row)]
    return f"{sum(called for called, _ in counts)} of {sum(of for _, of in counts)}"


def section(table: Sequence[Sequence[str]], references: int, made: str) -> list[str]:
    """Return the section of the page."""
    heads = right("events", "noticed", "called anomalous", "undecided")
    return [
        "## Traces of the kernel",
        "",
        f"The pipeline `{PIPELINE.name}` plays {CLIP.seconds:g} s with its own log turned off. ftrace records of its "
        f"threads {', '.join(f'`{event}`' for event in EVENTS)}; the file `trace` of tracefs is diagnosed against "
        f"{references} references, as `unperturbed diagnose` does. Each picture and each piece of sound is a write(2) "
        "of the probe that measures the sinks, as a player's are to its devices. What a viewer notices is measured at "
        "the sinks, by the limits of [the experiment](diagnosis.md).",
        "",
        *markdown_table(["what was changed", heads[0], "a viewer notices", *heads[1:], "kinds"], table),
        "",
        f"Anomalous are {_called(table, lambda row: bool(CASES[row[0]].stress))} runs on a stressed processor, though "
        f"a viewer need notice nothing of it, {_called(table, lambda row: row[2] != '–')} with something noticeable, "
        f"and {_called(table, lambda row: row[0] == 'nothing')} good ones. Rely on the verdict, not on the kind: the "
        "events name no element, so that the streams compared are `kernel` and `syscalls`.",
        "",
        "**What changed on this section, and why.** Since 28 November 2026 references and runs are recorded on a host "
        "that does nothing else. Beside other work (a load average of 7.6 before the recording) 8 of 9 runs on a "
        "stressed processor were called anomalous, 7 of 12 with something noticeable, and no run with an offset "
        "between its two sinks.",
        "",
        made,
    ]


def main() -> None:
    """Record, diagnose, and write the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    folder = Path("campaigns/diagnosis_cases/kernel")
    parser.add_argument("--folder", type=Path, default=folder, help=f"folder of the traces ({folder})")
    parser.add_argument("--traces", type=int, default=3, help="runs of each case (3)")
    chosen = parser.parse_args()
    if not (TRACEFS / "instances").is_dir():
        raise SystemExit(f"{TRACEFS} cannot be read: be root, and mount it: mount -t tracefs nodev {TRACEFS}")
    made = made_by()
    record(chosen.folder, chosen.traces)
    put_section(PAGE, "kernel", section(list(rows(chosen.folder, chosen.traces)), REFERENCES, made))
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
