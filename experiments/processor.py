"""Everything that needs a processor's counters, recorded and evaluated by one command: `make validate-processor`.

    python -m experiments.processor [--folder FOLDER] [--hours 2.5] [--only NAME …] [--again NAME …] [--list] [--anyway]

Stops before it begins where the processor does not count, and before each part where other programs are busy. What is
done is noted in the folder: the same command goes on with the next part. Each part writes its page of docs/evidence.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from unperturbed.common.scratch import write_whole
from unperturbed.harness.host.doctor import Examination, examine

GOOD, FAILED, HOST_CANNOT, INTERRUPTED = 0, 1, 3, 130
COUNTING, QUIET = ("PMU", "permission"), ("processes", "quota")
"""What the doctor must find good: for everything, and before each part."""
_STATE = "done.json"


@dataclass(frozen=True)
class Part:
    """One part."""

    name: str  # For `--only`
    what: str  # What it records, for the list
    minutes: int  # Estimated duration
    commands: tuple[str, ...]  # Its commands, of this interpreter; `{folder}` is the folder of its campaigns
    pages: tuple[str, ...] = ()  # Pages of docs/evidence that it writes


PARTS = (
    Part(
        "counters",
        "reads of counters in user space (x86's rdpmc) beside read(2), intervals by work, topdown events beside perf's",
        2,
        ("-m pytest -n 0 -q tests/collectors -m processor",),
    ),
    Part(
        "perturbation",
        "four programs, their software metrics added one by one",
        25,
        ("-m experiments.perturbation.evaluate --processor --campaigns {folder}",),
        ("perturbation_processor.md",),
    ),
    Part(
        "layouts",
        "three steps and their shams of each program, in 32 layouts",
        45,
        ("-m experiments.perturbation.layouts --processor --campaigns {folder}",),
        ("perturbation_layouts_processor.md",),
    ),
    Part(
        "alignment",
        "a rule engine and a ray tracer, aligned by milestones",
        15,
        ("-m experiments.alignment.evaluate --processor --pairs 9 --campaigns {folder}",),
        ("alignment_processor.md",),
    ),
    Part(
        "causal",
        "LU decomposition and JPEG 2000 over their parameters",
        30,
        ("-m experiments.causal.evaluate --only lu_processor jpeg --campaigns {folder}",),
        ("causal.md",),
    ),
    Part(
        "samplers",
        "what a record costs, and how even the intervals are",
        15,
        (
            "tests/benchmarks/sampler_instructions.py --markdown",
            "tests/benchmarks/sampler_overhead.py --markdown",
            "tests/benchmarks/sampler_intervals.py --markdown",
        ),
        ("samplers.md",),
    ),
    Part(
        "own_perturbation",
        "the samplers under the tool's own check",
        8,
        ("docs/evidence/own_perturbation.py --runs 20 --seed 1",),
        ("own_perturbation.md",),
    ),
)


def unfit(examination: Examination, subjects: Sequence[str]) -> list[str]:
    """Return why a host is not fit, a line each."""
    findings = [finding for finding in (*examination.counting, *examination.noise) if finding.subject in subjects]
    return [
        f"{finding.subject}: {finding.what}" + (f"\n    mend it: {finding.mend}" if finding.mend else "")
        for finding in findings
        if finding.status == "bad" or (finding.status == "note" and finding.subject in QUIET)
    ]


class Record:
    """What has been done, in a file of the folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _STATE
        self._done: dict[str, dict[str, str | float]] = (
            json.loads(self._path.read_text()) if self._path.exists() else {}
        )

    @property
    def done(self) -> Mapping[str, Mapping[str, str | float]]:
        """Return each part that is done: when it ended, and its seconds."""
        return self._done

    def add(self, name: str, seconds: float) -> None:
        """Note that a part is done."""
        self._done[name] = {"ended": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": round(seconds, 1)}
        self._keep()

    def forget(self, names: Sequence[str]) -> None:
        """Have parts done again. Their campaigns go on from where they stand."""
        for name in names:
            self._done.pop(name, None)
        self._keep()

    def _keep(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(self._done, indent=2))


def run_parts(
    parts: Sequence[Part],
    folder: Path,
    *,
    hours: float,
    anyway: bool = False,
    look: Callable[[], Examination] = examine,
) -> int:
    """Run what is not done yet.

    `hours`: A part that would end later, by its estimate, is left to the next call.
    `anyway`: Run beside other programs, and without a processor's counters: for a trial.
    Result: Exit code: 0 when all is done, 1 when a part failed or was left, 3 when the host is not fit.
    """
    record, begun = Record(folder), time.monotonic()
    failed = []
    if not anyway and (reasons := unfit(look(), COUNTING)):
        print("This host's processor does not count, so nothing was begun.", *reasons, sep="\n  ")
        return HOST_CANNOT
    left = [part for part in parts if part.name not in record.done]
    for at, part in enumerate(left):
        used = (time.monotonic() - begun) / 3600
        if used + part.minutes / 60 > hours:
            names = ", ".join(remaining.name for remaining in left[at:])
            print(f"{used:.1f} hours are used. Left: {names}. The same command goes on with them.")
            return FAILED
        if not anyway and (reasons := unfit(look(), QUIET)):
            print(f"This host is busy, so {part.name} was not begun.", *reasons, sep="\n  ")
            print("The same command goes on when it is quiet; --anyway goes on now.")
            return HOST_CANNOT
        print(f"{part.name}: {part.what}, some {part.minutes} min", flush=True)
        started = time.monotonic()
        log = folder / f"{part.name}.log"
        if not _ran(part, folder, log):
            failed.append(part.name)
            print(f"  failed: see {log}")
            continue
        record.add(part.name, time.monotonic() - started)
        pages = f": docs/evidence/{', '.join(part.pages)}" if part.pages else ""
        print(f"  done in {(time.monotonic() - started) / 60:.0f} min{pages}")
    return FAILED if failed else GOOD


def _ran(part: Part, folder: Path, log: Path) -> bool:
    """Run a part's commands one after the other, and return whether all succeeded."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        for text in part.commands:
            command = [sys.executable, *shlex.split(text.format(folder=shlex.quote(str(folder / part.name))))]
            output.write(f"$ {shlex.join(command)}\n")
            output.flush()
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.wait()  # the terminal interrupts it too: a campaign notes where it stands
                raise
            if code != GOOD:
                return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("campaigns/processor"), help="(campaigns/processor)")
    parser.add_argument("--hours", type=float, default=2.5, help="begin nothing that would end later (2.5)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these parts alone")
    parser.add_argument("--again", nargs="+", choices=names, default=[], metavar="NAME", help="though they are done")
    parser.add_argument("--list", action="store_true", help="show the parts and what is done, and run nothing")
    parser.add_argument("--anyway", action="store_true", help="on a busy host, or one that does not count: a trial")
    options = parser.parse_args(arguments)
    folder: Path = options.folder.resolve()
    chosen = [part for part in PARTS if not options.only or part.name in options.only]
    if options.list:
        done = Record(folder).done
        print(f"{'part':18} estimate  {'recorded on this host':25}  what")
        for part in chosen:
            ended = done.get(part.name, {}).get("ended", "not yet")
            print(f"{part.name:18} {part.minutes:4} min  {ended:25}  {part.what}")
        return GOOD
    Record(folder).forget(options.again)
    try:
        return run_parts(chosen, folder, hours=options.hours, anyway=options.anyway)
    except KeyboardInterrupt:
        print("Stopped. The same command goes on; a campaign goes on with its next run.")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
