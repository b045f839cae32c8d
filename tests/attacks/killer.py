"""Kill everything: the harness at each crash point and at random, its programs, observers, compilers and watcher.

::

    python -m tests.attacks.killer --kills 1000 --seed 1

Small campaigns of real counters of the kernel, built from source, run again and again until they are done. After each
kill nothing may live that was started, no run that was done may have changed, and none may be made again; when a
campaign is done, it must hold every run, and no file that one without kills does not leave.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attacks.points import POINTS, Point, arm
from tests.harness.phases_campaign import write_spec

__all__ = ["KINDS", "LOADED", "Killed", "attack_campaigns"]

KINDS = ("harness", "program", "observer", "compiler", "watcher", "SIGTERM", "SIGHUP", "SIGINT")
"""What is killed at a random moment: the harness, by SIGKILL or another signal, or one of its processes."""

_ENDS_S = 20.0
_LONGEST_S = 300.0
_SEARCH_S = 10.0
_KILLS_A_CAMPAIGN = 60
_POINTS_SHARE = 0.4
_FEW = 20
_BASELINE, _RUNS = 12, 8
_SOON = 0.2
"""Of the time that a campaign takes: how long the harness lives at most before a kill. Later kills lose more time."""
_OFTEN = (
    "a change of the manifest is half made", "a run's folder is made", "a run starts", "a record file is made",
    "a process is started", "a program runs", "a program is waited for", "what is left of a program is ended",
    "a record file is read", "a result is checked", "a trace is assembled", "a trace is written",
    "a file reaches the disk", "a file appears", "a run's folder is tidied", "a run is done",
)  # fmt: skip
"""Points of each run; the others are passed once or twice in a campaign's life."""
_TRIES = 3
"""A point is tried in a campaign of each kind: not each links layouts."""

_COMPILERS = ("cc1", "as", "ld", "collect2", "make", "gcc", "cc", "sh", "collect2", "lto-wrapper")
LOADED = (
    "unperturbed.harness.cli", "unperturbed.harness.cli.running", "unperturbed.harness.cli.campaigns.run",
    "unperturbed.harness.cli.verdicts", "unperturbed.harness.campaign.execution",
    "unperturbed.harness.results.recorded", "unperturbed.harness.results.judge", "unperturbed.harness.studies.partition.software",
    "unperturbed.analysis.alignment.dtw.kernels", "unperturbed.analysis.report", "elftools.elf.elffile", "numba", "yaml",
    "llvmlite.binding", "scipy.stats", "polars",
)  # fmt: skip
_NUMBERS = re.compile(r"(toolchain/(?:sites|links)/)[^/]*")
"""Names of notes, which differ from build to build: times, processes, digests."""

_ASIDE = re.compile(r"(^|/)\.[^/]*\.\d+$|-journal$|-wal$|(^|/)record$|(^|/)(vgdb-pipe|unperturbed-)[^/]*$")
"""Files on their way to a name, and what a run needs only while it runs."""


@dataclass
class Killed:
    """What the kills did.

    Attributes
    ----------
    kills : how many processes were killed, by kind; `at a point` for crash points.
    points : crash points that were hit, each with before or after.
    campaigns : how many were finished in spite of it.
    runs : how many runs these hold.
    faults : sentences on what was lost, repeated, or left.
    """

    kills: Counter[str] = field(default_factory=Counter)
    points: set[tuple[str, str]] = field(default_factory=set)
    campaigns: int = 0
    runs: int = 0
    faults: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        """Note a fault, and show it at once."""
        self.faults.append(fault)
        print(f"  {fault}", flush=True)


class _Campaign:
    """A campaign under attack, and what is known of its finished runs."""

    def __init__(self, above: Path, number: int, sampler: str, layouts: str, *, own_cache: bool = True) -> None:
        baseline, runs = (_BASELINE, _RUNS) if own_cache else (5, 3)
        self.folder = above / f"campaign-{number}"
        self.spec = write_spec(
            self.folder,
            measure__source="perf_event",
            measure__hardware=["perf::task-clock", "perf::page-faults"],
            measure__derived=None,
            measure__os=None,
            measure__interval="2 ms",
            measure__sampler=sampler,
            analysis__align_on=["perf::task-clock"],
            program__run="{build}/phases 60",
            campaign__baseline_runs=baseline,
            campaign__runs=runs,
            campaign__retries=3,
            campaign__layouts=layouts,
        )
        self.place = self.folder / "campaigns" / "phases"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.done: dict[str, tuple[object, ...]] = {}
        self.number, self.sampler, self.layouts, self.own_cache = number, sampler, layouts, own_cache
        self.planned = baseline + max(5, runs) + runs
        """Runs: baseline, anchor, subset."""

    def start(self, point: tuple[Point, str, int] | None, told: int) -> int:
        """Start the command in a process of its own; return its number."""
        process = os.fork()
        if process:
            return process
        try:
            self._become(point, told)
        except KeyboardInterrupt:  # it was interrupted before there was a command
            os._exit(130)
        try:
            code = importlib.import_module("unperturbed.harness.cli").main(["run", str(self.spec)])
        except BaseException:  # noqa: BLE001  a traceback of the command is what is looked for
            import traceback

            traceback.print_exc()
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _become(self, point: tuple[Point, str, int] | None, told: int) -> None:
        os.setsid()
        os.chdir(self.folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        said = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(nothing, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.environ["TMPDIR"] = str(self.temporary)
        if self.own_cache:
            os.environ["XDG_CACHE_HOME"] = str(self.folder.parent / "cache")
        tempfile.tempdir = None
        if point is not None:
            arm(point[0], point[1], max(1, point[2]), lambda: os.write(told, b"!"))  # type: ignore[arg-type]

    def may_have(self, kind: str) -> bool:
        """Return whether there may be such a process: nothing is built for a campaign that has runs."""
        return not (kind == "observer" and self.sampler == "inside") and not (kind == "compiler" and self.done)

    def rows(self) -> dict[str, tuple[object, ...]]:
        """Return the finished runs: what the manifest says of each, and a digest of its trace."""
        file = self.place / "campaign.sqlite"
        if not file.exists():
            return {}
        with contextlib.closing(sqlite3.connect(file)) as database:
            try:
                found = database.execute(
                    "SELECT id, configuration, attempt, started, seconds, intervals FROM runs WHERE state = 'done'"
                ).fetchall()
            except sqlite3.OperationalError:  # there are no tables yet
                return {}
        return {row[0]: (*row, self._digest(row[0])) for row in found}

    def _digest(self, run: str) -> str:
        try:
            return hashlib.sha256((self.place / "runs" / run / "trace.parquet").read_bytes()).hexdigest()
        except OSError as error:
            return f"no trace: {error.strerror}"

    def compare(self) -> Iterator[str]:
        """Yield what a kill did to runs that were done before it."""
        rows = self.rows()
        for run, known in self.done.items():
            if run not in rows:
                yield f"run {run} was done and is not any more"
            elif rows[run] != known:
                yield f"run {run} was done and was made again or changed: {known} -> {rows[run]}"
        for run, row in rows.items():
            if str(row[-1]).startswith("no trace"):
                yield f"run {run} is done and has {row[-1]}"
        self.done = rows

    def files(self) -> set[str]:
        """Return what the campaign left, failed attempts apart."""
        names = {str(path.relative_to(self.place)) for path in self.place.rglob("*") if not path.is_dir()}
        return {_NUMBERS.sub(r"\1#", name) for name in names if "-failed-" not in name}

    def left(self) -> list[str]:
        """Return temporary files, here and in the cache; a failed attempt keeps what it recorded, for the user."""
        found = [*self.temporary.iterdir(), *self.place.rglob("*"), *(self.folder.parent / "cache").rglob("*")]
        return [
            str(path)
            for path in found
            if path.parent == self.temporary or (_ASIDE.search(str(path)) and "-failed-" not in str(path))
        ]

    def processes(self) -> dict[int, str]:
        """Return the processes that have to do with this campaign, but for zombies."""
        found = {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                place = Path(entry.path)
                words = (place / "cmdline").read_bytes()
                if not words:
                    continue  # the kernel's own, and zombies
                about = words + os.fsencode((place / "cwd").readlink()) + (place / "environ").read_bytes()
                state = (place / "stat").read_text().rpartition(")")[2].split()[0]
                name = f"/{self.folder.name}/"
                if (
                    os.fsencode(name) in about + b"/"
                    and os.fsencode(str(self.folder.parent)) in about
                    and state not in "ZX"
                ):
                    found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
        return found


def attack_campaigns(kills: int, seed: int, *, minutes: float = 1e9, points: Sequence[Point] = POINTS) -> Killed:
    """Kill so often, or so long; half of the kills at crash points, each point first of all."""
    for name in LOADED:
        importlib.import_module(name)
    killed, chance, began = Killed(), random.Random(seed), time.monotonic()
    pending = [(point, when, 1 - _TRIES) for point in points for when in ("before", "after")]
    with tempfile.TemporaryDirectory(prefix="attack-") as above, contextlib.suppress(KeyboardInterrupt):
        number, expected, length = 0, {}, {}
        while killed.kills.total() < kills and time.monotonic() - began < 60 * minutes:
            sampler, layouts = (("inside", "fixed"), ("outside", "fixed"), ("inside", "varied"))[number % 3]
            campaign = _Campaign(Path(above), number, sampler, layouts, own_cache=kills >= _FEW)
            number += 1
            kind = (sampler, layouts)
            if (
                kills >= _FEW and kind not in expected
            ):  # one without a kill, to know what it leaves and how long it takes
                if not expected:  # the first of all compiles kernels, which takes its time once
                    _finish(campaign, killed, first=True)
                    campaign = _Campaign(Path(above), number, sampler, layouts)
                    number += 1
                started = time.monotonic()
                _finish(campaign, killed, first=True)
                expected[kind], length[kind] = campaign.files(), time.monotonic() - started
                campaign = _Campaign(Path(above), number, sampler, layouts)
                number += 1
            _attack(campaign, killed, chance, pending, length.get(kind, 2.0), kills)
            _finish(campaign, killed)
            for name in sorted(campaign.files() ^ expected[kind]) if kind in expected else ():
                if not re.match(r"builds/.*\.(log|gcda)$|runs/.*/scratch", name):
                    killed.note(
                        f"campaign {campaign.number} ({kind}): the file {name} is there, or not, unlike without kills"
                    )
    return killed


def _attack(
    campaign: _Campaign, killed: Killed, chance: random.Random, pending: list[Any], length: float, kills: int
) -> None:
    """Kill a campaign until it is done, or has been killed often."""
    for turn in range(_KILLS_A_CAMPAIGN):
        if killed.kills.total() >= kills:
            return
        hear, told = os.pipe()
        point = _next(pending, campaign, first=turn == 0)
        if point is None and chance.random() < _POINTS_SHARE:
            drawn = chance.choice([point for point in POINTS if not campaign.done or point.what in _OFTEN])
            left = max(1, min(8, campaign.planned - len(campaign.done))) if drawn.what in _OFTEN else 1
            point = (drawn, chance.choice(("before", "after")), chance.randint(1, left))
        process = campaign.start(point, told)
        os.close(told)
        kind = "at a point"
        killed_one = False
        if point is None:
            kind = chance.choice([kind for kind in KINDS if campaign.may_have(kind)])
            time.sleep(chance.uniform(0, _SOON * length))
            killed_one = _kill(campaign, process, kind, chance)
        elif point[0].what == "a run has failed":
            _kill(campaign, process, "program", chance, again=lambda: bool(campaign.rows()))
        code = _wait(process, campaign, killed)
        hit = bool(os.read(hear, 1)) if point is not None else False
        os.close(hear)
        _check(campaign, killed, code)
        if point is not None and hit:
            killed.points.add((point[0].what, point[1]))
        elif point is not None and point[2] <= 0:
            pending.append((point[0], point[1], point[2] + 1))  # in a campaign of another kind
        if hit or killed_one:
            killed.kills[kind] += 1
            if killed.kills.total() % 10 == 0:
                done = f"{killed.kills.total()} kills, {len(killed.points)} points, {killed.campaigns} campaigns"
                print(f"  {done}, {len(killed.faults)} faults", flush=True)
        if code in (0, 4):
            return


def _next(pending: list[Any], campaign: _Campaign, *, first: bool) -> Any:
    """Take the next point that was not tried yet; one that was missed begins a campaign of the kind that it needs."""
    for place, (point, _, number) in enumerate(pending):
        if number == 1 - _TRIES or (first and ("layout" not in point.what or campaign.layouts == "varied")):
            if "compiled" in point.what:
                shutil.rmtree(campaign.folder.parent / "cache", ignore_errors=True)
            return pending.pop(place)
    return None


def _kill(
    campaign: _Campaign, process: int, kind: str, chance: random.Random, *, again: Callable[[], bool] = lambda: True
) -> bool:
    """Kill what is to be killed, as soon as there is one of it; return whether there was one."""
    if kind == "harness" or kind.startswith("SIG"):
        if _ended(process):
            return False
        os.kill(process, signal.SIGKILL if kind == "harness" else getattr(signal, kind))
        return True
    deadline = time.monotonic() + _SEARCH_S
    while time.monotonic() < deadline and not _ended(process):
        found = [one for one in _family(process) if _is(kind, _words(one), campaign)]
        if found and again():
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
                return True
        time.sleep(0.005)
    return False


def _is(kind: str, words: str, campaign: _Campaign) -> bool:
    first = words.split(" ", 1)[0]
    if kind == "program":
        return "/phases " in words and str(campaign.place) in first
    if kind == "observer":
        return Path(first).name.endswith("observer")
    if kind == "watcher":
        return " -I -S -c" in words
    return Path(first).name in _COMPILERS or "gcc" in Path(first).name


def _family(process: int) -> list[int]:
    """Return a process's children, and theirs."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for child in map(int, words):
            found += [child, *_family(child)]
    return found


def _words(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wait(process: int, campaign: _Campaign, killed: Killed) -> int:
    deadline = time.monotonic() + _LONGEST_S
    while not _ended(process):
        if time.monotonic() > deadline:
            killed.note(f"campaign {campaign.number}: the command did not end in {_LONGEST_S:.0f} s")
            os.kill(process, signal.SIGKILL)
        time.sleep(0.002)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def _check(campaign: _Campaign, killed: Killed, code: int) -> None:
    deadline, alive = time.monotonic() + _ENDS_S, campaign.processes()
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = campaign.processes()
    faults = [f"the process {words!r} lives on" for words in alive.values()]
    for process in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    faults += campaign.compare()
    said = (campaign.folder / "said").read_text(errors="replace") if (campaign.folder / "said").exists() else ""
    if "Traceback" in said:
        faults.append(f"a traceback: {said[-1500:]}")
    if code >= 0 and code not in (0, 1, 2, 3, 4, 130):
        faults.append(f"exit code {code}: {said[-500:]}")
    if code in (2, 3):
        faults.append(f"exit code {code} after a kill: {said[-500:]}")
    for fault in faults:
        killed.note(f"campaign {campaign.number}: {fault}")


def _finish(campaign: _Campaign, killed: Killed, *, first: bool = False) -> None:
    """Run a campaign to its end, and look at what it holds."""
    for _ in range(4):  # a program that was killed too often has failed, and is tried again
        code = _wait(campaign.start(None, 1), campaign, killed)
        _check(campaign, killed, code)
        if code in (0, 4):
            break
    else:
        said = (campaign.folder / "said").read_text(errors="replace")
        killed.note(f"campaign {campaign.number} does not come to its end: {code}, {said[-1500:]}")
    if len(campaign.done) < campaign.planned:
        killed.note(f"campaign {campaign.number} has {len(campaign.done)} runs of at least {campaign.planned}")
    for path in campaign.left():
        killed.note(f"campaign {campaign.number} left {path}")
    if not first:
        killed.campaigns += 1
        killed.runs += len(campaign.done)


def main() -> int:
    """Kill, and return 1 when anything was lost, repeated or left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    killed = attack_campaigns(asked.kills, asked.seed, minutes=asked.minutes)
    for kind, count in sorted(killed.kills.items()):
        print(f"{kind:<12} {count:>6} kills")
    print(f"crash points hit: {len(killed.points)} of {2 * len(POINTS)}")
    for point in POINTS:
        for when in ("before", "after"):
            if (point.what, when) not in killed.points:
                print(f"    not hit: {when} {point.what}")
    print(f"{killed.campaigns} campaigns with {killed.runs} runs were finished")
    for fault, count in Counter(killed.faults).items():
        print(f"    {count} times: {fault}")
    print(f"{killed.kills.total()} kills, seed {asked.seed}: {len(killed.faults) or 'no'} faults")
    return 1 if killed.faults else 0


if __name__ == "__main__":
    sys.exit(main())
