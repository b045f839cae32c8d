"""Unmeasured trial runs of a command, to find its duration, its output, the program that it becomes, and its calls.

A command is often a script that ends in `exec` (pyenv's `python3`, `zcat`). The sampler works only in the program that
a run starts, so the spec names the program that the process becomes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.scratch import scratch_folder
from unperturbed.common.wording import counted, duration
from unperturbed.errors import RunError, SpecError, UnperturbedError
from unperturbed.harness.campaign.pilot import AMPLE, times_as_much
from unperturbed.harness.campaign.run import Sampling, execute
from unperturbed.harness.drafts.command import CommandSpec, Trial, how_counted
from unperturbed.harness.program.process import Command, launch, program_command, time_of_starting
from unperturbed.harness.program.result import ProgramResult
from unperturbed.harness.program.software_metrics import find_software_metrics
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.instrument.binaries.interposition import find_function
from unperturbed.instrument.events.event import parse_event

_POLL_S = 0.002
_STILL_S = (10.0, 60.0)  # When to report that a program is still running; afterwards once per minute
_OF_SHELLS = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})  # Variables that shells set on their own
_LAUNCHER = "setpriv"
_EARLY = 100  # Number of first polls that read everything: a shell that starts another script stays the same program
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_ENTRIES = 2000  # Entries of the working folder to look at


@dataclass(frozen=True)
class Image:
    """Program that a process ran."""

    file: Path  # The executable, with links resolved
    words: tuple[str, ...]  # Its arguments, beginning with its name
    folder: Path  # Its working folder
    environment: Mapping[str, str]  # Its environment at the start

    @property
    def path(self) -> Path:
        """Return the executable's path as named, with links kept: Python finds its environment through the link."""
        named = self.words[0] if self.words else ""
        executable = shutil.which(named, path=self.environment.get("PATH", os.defpath)) if named else None
        here = Path(os.path.abspath(self.folder / executable)) if executable else self.file  # noqa: PTH100  keeps links
        return here if here.resolve() == self.file else self.file

    def changed_environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that a script set before it became this program."""
        return {
            name: value
            for name, value in self.environment.items()
            if before.get(name) != value and name not in _OF_SHELLS and name.isidentifier()
        }


@dataclass(frozen=True)
class Watched:
    """Observations of a process."""

    image: Image | None  # The last program that the process ran; None if it ended before the first poll


class Watch:
    """Thread that polls a process some hundred times per second, and reports if the process takes long."""

    def __init__(self, say: Callable[[str], None], limit_s: float) -> None:
        self._say, self._limit_s = say, limit_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._looks = 0
        self._last: Image | None = None

    def begin(self, pid: int) -> None:
        """Start to watch a process."""
        self._thread = threading.Thread(target=self._watch, args=(pid,), daemon=True)
        self._thread.start()

    def end(self) -> Watched:
        """Stop watching; return the observations."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        return Watched(self._last)

    def _watch(self, pid: int) -> None:
        begun = time.monotonic()
        next_s, later = _STILL_S
        while not self._over.wait(_POLL_S):
            self._look(pid)
            if time.monotonic() - begun >= next_s:
                self._say(
                    f"the unmeasured program is still running after {duration(next_s)}; it will be stopped after "
                    f"{duration(self._limit_s)} (to stop it now, press Ctrl-C)"
                )
                next_s, later = later, later + _STILL_S[1]

    def _look(self, pid: int) -> None:
        place = Path(f"/proc/{pid}")
        try:
            file = (place / "exe").readlink()
            if file.name != _LAUNCHER:
                self._looks += 1
                if self._last is None or self._last.file != file or self._looks < _EARLY or self._looks % 64 == 0:
                    image = Image(file, _words(place / "cmdline"), (place / "cwd").readlink(), _variables(place))
                    if (place / "exe").readlink() == file and image.words:
                        self._last = image
        except (OSError, ValueError, IndexError):  # the process ended, or became another program meanwhile
            return


def _words(cmdline: Path) -> tuple[str, ...]:
    return tuple(word.decode(errors="surrogateescape") for word in cmdline.read_bytes().split(b"\0")[:-1])


def _variables(process: Path) -> dict[str, str]:
    pairs = (entry.partition(b"=") for entry in (process / "environ").read_bytes().split(b"\0") if entry)
    return {name.decode(errors="replace"): value.decode(errors="surrogateescape") for name, _, value in pairs}


_INTERVAL_NS = 20_000_000
_CAPACITY = 1 << 17
_MOST = 3
_OFTEN = 100  # With fewer events, most intervals have none


def choose_counted(counts: Mapping[str, int]) -> tuple[tuple[str, ...], str]:
    """Return at most three metrics with frequent events, and a sentence on the metrics that are left out."""
    often = [name for name, count in counts.items() if count >= _OFTEN][:_MOST]
    # If no event is frequent, rarer events still show whether counting them disturbs the program.
    chosen = often or sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])[:_MOST]
    never = [name for name, count in counts.items() if not count]
    rarely = [f"{name}: {count}" for name, count in counts.items() if 0 < count < _OFTEN and name not in chosen]
    parts = [
        *([f"{', '.join(never)} (no events)"] if never else []),
        *([f"{', '.join(rarely)} (too few events)"] if rarely else []),
    ]
    return tuple(chosen), f"metrics left out: {'; '.join(parts)}" if parts else ""


def count_once(spec: CampaignSpec, scratch: Path, exit_code: int) -> Mapping[str, int] | None:
    """Run a program once in an empty folder; return each software metric's number of events, or None on failure."""
    folder = scratch / "counted"
    folder.mkdir()
    command = program_command(spec, scratch=scratch, build=None, inputs=scratch)
    try:
        metrics = find_software_metrics(spec, spec.measure.software, command)
        sampling = Sampling(Pass("main", NONE, ()), metrics, _INTERVAL_NS, "monotonic", _CAPACITY, whole=True)
        trace = execute(
            spec,
            folder,
            sampling,
            build=None,
            inputs=scratch,
            expected=ProgramResult(exit_code, "any"),
            pad_bytes=0,
            attributes={"run": "counted", "configuration": "counted"},
        )
    except UnperturbedError:  # this count is optional: the campaign itself reports what cannot be counted
        return None
    return {name: int(trace[name].sum()) for name in spec.measure.software}


_UNTRIED = "it does not run the program, and lists all calls that it may make: keep a few"
"""What the specs of `init` differ in from those of `run --`."""
_LONG_TRIAL_S = 60  # A program that takes longer runs only once, without a check that its output is repeatable
_KILLED = 128
_NOT_STARTED = (126, 127)  # Exit codes of shells and `env` for a program that is not executable, or missing
_MISSING = re.compile(r"No such file|can't open file")
_OWN_SHARE = 0.5  # A program that uses a smaller share of the CPU time leaves the work to its child processes
_BUSY_SHARE = 0.5  # A program whose CPU time is a smaller share of its duration mostly waits
_SHORT_S = 0.05  # Starting the process may be a large part of a shorter CPU time
_START_S = 5e-4  # The time that a start takes varies by about so much
_RESOLUTION_S = 1e-4  # Shorter times vary as much as they last


def try_command(
    spec: CommandSpec, say: Callable[[str], None] = lambda _: None, *, follow: bool = True, counting: bool = True
) -> CommandSpec:
    """Run the program twice without measuring (once if it takes long); return the spec with the observations.

    `follow`: If the process becomes another program (`exec`), return that program's spec; off if a tool starts the
    program.
    """
    with scratch_folder("trial") as place:
        before = _file_sizes(spec.folder)
        first = _run_once(spec, place, say)
        _require_files(spec, first)
        said: tuple[str, ...] = ()
        image = first.watched.image
        if follow and image is not None and image.file != Path(spec.words[0]).resolve():
            became = _becoming(spec, image, first.environment)
            second = _run_once(became, place, say)
            said = (f"{spec.name} executes (exec) another program, which is measured: {shlex.join(became.words)}",)
            if first.exit_code != second.exit_code:
                raise RunError(
                    f"{shlex.join(spec.words)} executes (exec) the program {shlex.join(became.words)}, which cannot be "
                    f"measured alone: started directly, the program ends with exit code {second.exit_code} instead of "
                    f"{first.exit_code}. {second.wrote} After --, give a command that starts the program directly and "
                    f"ends with exit code {first.exit_code}"
                )
            spec, first = became, second
        if counting:
            _require_calls(spec, place)
        runs = [first]
        if first.seconds < _LONG_TRIAL_S:
            left = _file_sizes(spec.folder)
            runs.append(_run_once(spec, place, say))
            _require_same_end(spec, first, runs[1], sorted(left.keys() - before.keys()))
            said += tuple(_grown(spec, left, _file_sizes(spec.folder)))
        if counting and not spec.choices.calls:
            spec, left_out = _with_calls_made(spec, first.exit_code, Path(place))
            said += left_out
        if spec.hardware.simulated and runs[-1].processor_s < _SHORT_S:
            runs = _without_starting(runs)
    last = runs[-1]
    seconds = max(run.seconds for run in runs)
    _require_length(spec, runs)
    trial = Trial(seconds, last.exit_code, len({run.digest for run in runs}) == 1, last.wrote, said)
    return replace(spec, trial=trial)


@dataclass(frozen=True)
class _Once:
    """One unmeasured run."""

    seconds: float
    processor_s: float
    exit_code: int
    digest: str
    wrote: str
    watched: Watched
    environment: Mapping[str, str]


def _without_starting(runs: Sequence[_Once]) -> list[_Once]:
    """Return the runs without the CPU time that starting any process takes: simulated counters do not see it."""
    with scratch_folder("starting") as place:
        starting = time_of_starting(place)
    cpu_s = 0.0 if starting is None else starting["cpu_s"]
    return [replace(run, processor_s=max(0.0, run.processor_s - cpu_s)) for run in runs]


def _parsed(spec: CommandSpec) -> CampaignSpec:
    return parse_spec(spec.text("trial"), f"{spec.name}.yaml", spec.folder)


def _run_once(spec: CommandSpec, scratch: Path, say: Callable[[str], None]) -> _Once:
    command = program_command(_parsed(spec), scratch=scratch, build=None, inputs=scratch)
    watch = Watch(say, spec.timeout_s)
    try:
        outcome = launch(
            Command(
                argv=list(command.words),
                folder=command.folder,
                environment=command.environment,
                stdin=command.stdin,
                stdout=scratch / "stdout",
                stderr=scratch / "stderr",
                timeout_s=spec.timeout_s,
            ),
            started_as=watch.begin,
        )
    finally:
        watched = watch.end()
    if outcome.timed_out:
        raise RunError(
            f"{spec.words[0]} did not end within {duration(spec.timeout_s)}; for a longer program, write a spec with a "
            f"longer `timeout` (`unperturbed init -- …` drafts a spec; {_UNTRIED})"
        )
    wrote = _last_lines(scratch / "stderr")
    if outcome.exit_code > _KILLED:
        raise RunError(
            f"{shlex.join(spec.words)} was killed by signal {outcome.exit_code - _KILLED} in an unmeasured run. {wrote}"
        )
    with (scratch / "stdout").open("rb") as printed:
        digest = hashlib.file_digest(printed, "sha256").hexdigest()
    used = outcome.user_s + outcome.system_s
    return _Once(outcome.seconds, used, outcome.exit_code, digest, wrote, watched, command.environment)


def _becoming(spec: CommandSpec, image: Image, before: Mapping[str, str]) -> CommandSpec:
    """Return the spec of the program that a command became."""
    scratch = before["HOME"]
    changed = {name: text for name, text in image.changed_environment(before).items() if scratch not in text}
    environment = {**spec.environment, **changed}
    words = (str(image.path), *image.words[1:])
    counted = how_counted(words, image.folder, environment, spec.choices)
    return replace(spec, words=words, folder=image.folder, environment=environment, **counted._asdict())


def _require_calls(spec: CommandSpec, place: Path) -> None:
    """Raise SpecError with the options `--count` whose functions cannot be counted in the program."""
    command, faults = program_command(_parsed(spec), scratch=place, build=None, inputs=place), []
    for name in spec.choices.calls:
        try:
            find_function(
                parse_event({"preload": name}), program=Path(spec.words[0]), library_path=command.library_path
            )
        except SpecError as error:
            faults.append(f"--count {name}: {error}")
    if faults:
        raise SpecError("\n".join(faults))


def _with_calls_made(spec: CommandSpec, exit_code: int, place: Path) -> tuple[CommandSpec, tuple[str, ...]]:
    """Run the program once and keep only the calls that it makes; also return a sentence on the omitted calls."""
    alone = replace(spec, trial=Trial(0.0, exit_code, same=False))
    counts = count_once(_parsed(alone), place, exit_code) if spec.calls else {}
    if counts is None:
        return replace(spec, calls=dict(list(spec.calls.items())[:_MOST])), ()
    chosen, said = choose_counted(counts)
    if not chosen:
        said = (
            "the program makes none of the calls that can be counted without building it, so there is nothing to "
            "compare and no verdict; count other calls with --count F,G, count the program's own functions with a spec "
            "(unperturbed init SOURCE-FOLDER), or compare two set-ups (unperturbed compare -- A -- B)"
        )
    return replace(spec, calls={name: spec.calls[name] for name in chosen}), (said,) if said else ()


def _require_same_end(spec: CommandSpec, first: _Once, second: _Once, made: Sequence[str]) -> None:
    """Refuse a program whose second run ends differently: it may find files that its first run left.

    `made`: Names of these files.
    """
    if first.exit_code == second.exit_code:
        return
    command = shlex.join(spec.words)
    others = f" and {counted(len(made) - 1, 'other file')}" if len(made) > 1 else ""
    remove = f" (it made {made[0]}{others}: remove what it made)" if made else ""
    raise RunError(
        f"{command}: the first unmeasured run ended with exit code {first.exit_code}, the second with "
        f"{second.exit_code}, but all runs must do the same work. If the first run left files that affect "
        f"the second{remove}, let each run start in an empty folder: write a spec (unperturbed init -- "
        f'{command}{spec.reads}; {_UNTRIED}), set `working_folder: "{{scratch}}"` in it, and run the spec. '
        f"{second.wrote}"
    )


def _file_sizes(folder: Path) -> Mapping[str, int]:
    """Return the size of each file directly in a folder, except those to which this process prints."""
    own = {(state.st_dev, state.st_ino) for state in map(os.fstat, (1, 2)) if stat.S_ISREG(state.st_mode)}
    sizes: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in islice(entries, _MOST_ENTRIES):
                with contextlib.suppress(OSError):  # it may be removed meanwhile
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) and (state.st_dev, state.st_ino) not in own:
                        sizes[entry.name] = state.st_size
    except OSError:
        return {}
    return sizes


def _grown(spec: CommandSpec, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence on files whose size one more run changed: the runs may do different work."""
    changed = [name for name in after if name in before and after[name] != before[name]]
    if not changed:
        return
    name = min(changed)
    others = f" ({counted(len(changed) - 1, 'other file')} changed too)" if len(changed) > 1 else ""
    yield (
        f"{name} in {spec.folder} has {before[name]:,} bytes after one run and {after[name]:,} bytes after another"
        f"{others}: if {Path(spec.words[0]).name} reads what earlier runs wrote, runs do different work, and totals "
        'grow or fall from run to run. To start each run in an empty folder, set `working_folder: "{scratch}"` in the '
        "spec"
    )


def _require_files(spec: CommandSpec, run: _Once) -> None:
    """Refuse a command that failed because a program or file is missing: its campaign would measure the failure."""
    if run.exit_code in _NOT_STARTED or (run.exit_code and _MISSING.search(run.wrote)):
        raise SpecError(
            f"{shlex.join(spec.words)} ended with exit code {run.exit_code} in an unmeasured run: a program or file is "
            f"missing or cannot be opened. {run.wrote}\nAfter --, give the program to measure, as you would type it. "
            "To measure a program that ends with this exit code on purpose, write a spec (unperturbed init -- …; "
            f"{_UNTRIED}) and set `exit_code: {run.exit_code}` in it"
        )


def _require_length(spec: CommandSpec, runs: Sequence[_Once]) -> None:
    """Refuse a program that is too short for enough intervals."""
    simulated, least_s = spec.hardware.simulated, spec.shortest_s
    run = max(runs, key=lambda run: run.processor_s if simulated else run.seconds)
    seconds = run.processor_s if simulated else run.seconds  # simulation sees only the program's own work
    if seconds >= least_s:
        return
    of_what, idle = " of CPU time" if simulated else "", ""
    if simulated and run.seconds >= least_s and run.processor_s < _BUSY_SHARE * run.seconds:
        idle = (
            f" It ran for {duration(run.seconds)} but mostly waited, perhaps for a processor: simulated counters see "
            "only its own work."
        )
    ended = f"it ended with exit code {run.exit_code}. {run.wrote} It " if run.exit_code else ""
    more = f"at least {times_as_much(_parsed(spec), AMPLE * least_s / max(seconds, _RESOLUTION_S))}"
    if simulated and seconds < _START_S:
        more = "much more work, because most of this time is the start of the process"
    raise RunError(
        f"{shlex.join(spec.words)}{':' if ended else ''} {ended}takes {duration(seconds)}{of_what}, which is too short "
        f"for enough intervals ({duration(least_s)}{of_what} or more): give the program {more}.{idle}"
    )


def _last_lines(path: Path) -> str:
    text = path.read_text(errors="replace").strip()[-500:]
    return f"The program wrote to standard error: {text}" if text else "The program wrote nothing to standard error."
