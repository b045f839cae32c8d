"""Specs drafted from command lines: one program as the user runs it, or two set-ups to compare."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS, finest_quantum
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.drafts.metrics import HardwareChoice, choose_calls, choose_hardware, functions_of_script
from unperturbed.harness.drafts.saving import (
    called,
    campaign_name,
    choose_stdin,
    commented,
    missing_script,
    quoted,
    quoted_list,
    without_placeholders,
)
from unperturbed.harness.spec.sections.campaign import MOST_RUNS
from unperturbed.harness.spec.sections.program import PROGRAM_PATH
from unperturbed.instrument.binaries.elf import read_binary

_PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "GOMAXPROCS", "MKL_NUM_THREADS")
"""Environment variables that are always passed on to the program; users pass others on with `--env`."""
_SLOWDOWN, _LEAST_TIMEOUT_S = 400, 600
"""Simulated runs of a drafted spec may take so many times as long as the program, and at least so many seconds."""
_LEAST_S, _LEAST_SIMULATED_S = 0.01, 0.005
"""Minimum durations: a shorter program has too few intervals for a correlation, even at the shortest interval. The
simulator's is for its usual quantum."""
_OF_SCRIPT = "__main__."
_CALLS = "calls"  # The configuration that counts calls
_MOST_SCRIPTS = 4


@dataclass(frozen=True)
class Choices:
    """Options that the user gave in addition to the command."""

    name: str = ""  # Name of the campaign; '' for the program's name
    hardware: tuple[str, ...] = ()  # Hardware metrics; empty to choose metrics that this host can count
    # Library functions to count calls of; empty to choose functions that the program calls.
    calls: tuple[str, ...] = ()
    interval: str = ""  # As in a spec (`20 ms`), or a number of intervals; '' for the default
    # source, sampler: As in a spec; '' for the default.
    source: str = ""
    sampler: str = ""
    # baseline_runs, runs: Numbers of runs; None for the defaults.
    baseline_runs: int | None = None
    runs: int | None = None
    environment: tuple[str, ...] = ()  # `NAME` passes a variable on, `NAME=VALUE` sets it
    stdin: str = ""  # File for standard input; `null` for none; '' for the file that stdin is redirected from
    until_decided: bool = False  # Make further runs until every verdict is decided
    # at_most, max_hours: Limits; None for the defaults.
    at_most: int | None = None
    max_hours: float | None = None


@dataclass(frozen=True)
class Trial:
    """Observations from two unmeasured runs."""

    seconds: float  # Duration of the longer run
    exit_code: int  # Exit code of the last run
    same: bool  # Whether both runs printed the same
    wrote: str = ""  # What the last run wrote to standard error, as one sentence
    said: tuple[str, ...] = ()  # Further notes for the user, one sentence each

    def remarks(self) -> Iterator[str]:
        """Yield a sentence on each unusual observation that enters the spec, because the user may not intend it."""
        yield from self.said
        if self.exit_code:
            yield (
                f"the program ends with exit code {self.exit_code}, and the spec expects this code. {self.wrote} If it "
                "fails because of files that an earlier run left, remove them, and let each run start in an empty "
                'folder (`working_folder: "{scratch}"` in the spec)'
            )
        if not self.same:
            yield "the program's output differs between runs, so it is not compared (`result: any` in the spec)"


@dataclass(frozen=True)
class CommandSpec:
    """Drafted spec of one command."""

    name: str  # Name of the campaign
    words: tuple[str, ...]  # The program's absolute path, and its arguments
    folder: Path  # The program's working folder
    environment: Mapping[str, str]  # The program's environment variables
    stdin: Path | None  # File for standard input
    hardware: HardwareChoice  # The metrics of every configuration
    calls: Mapping[str, str]  # Software metrics: name and library function
    choices: Choices  # The user's options
    static: bool = False  # Whether the program is linked statically: nothing can be preloaded
    trial: Trial | None = field(default=None)  # Observations from unmeasured runs

    def program_lines(self) -> Sequence[str]:
        """Return the lines of the section `program:`, without indentation."""
        lines = [f"run: {quoted(self.run_line)}"]
        lines.append(f"working_folder: {quoted(without_placeholders(str(self.folder)))}")
        if self.stdin is not None:
            lines.append(f"stdin: {quoted(without_placeholders(str(self.stdin)))}")
        if self.environment:
            lines.append("environment:")
            lines += [f"  {name}: {quoted(without_placeholders(value))}" for name, value in self.environment.items()]
        return lines

    @property
    def run_line(self) -> str:
        """Return the command as the value of `run:`."""
        return without_placeholders(shlex.join(self.words))

    @property
    def shortest_s(self) -> float:
        """Return the minimum duration for enough intervals; with the simulator, 30 of its finest quanta must fit."""
        if self.hardware.simulated:
            return _LEAST_SIMULATED_S * finest_quantum() / QUANTUM_BLOCKS
        return _LEAST_S

    @property
    def timeout_s(self) -> int:
        """Return the time limit of a run, after which it counts as hanging."""
        expected = 0.0 if self.trial is None else self.trial.seconds
        return max(_LEAST_TIMEOUT_S, 60 * round(_SLOWDOWN * expected / 60))

    def renamed(self, name: str) -> CommandSpec:
        """Return the spec with a different name."""
        return replace(self, name=name)

    def after_trial(self, say: Callable[[str], None] = lambda _: None) -> CommandSpec:
        """Return the spec with the observations from unmeasured runs; see `try_command`."""
        from unperturbed.harness.drafts.trial import try_command  # noqa: PLC0415  it imports this module

        return try_command(self, say)

    @property
    def reads(self) -> str:
        """Return the redirection of standard input in the typed command (` < FILE`); '' if there is none."""
        return f" < {shlex.quote(str(self.stdin))}" if self.stdin is not None and not self.choices.stdin else ""

    def reading(self, stdin: Path) -> CommandSpec:
        """Return the spec with a different standard input."""
        return replace(self, stdin=stdin)

    def remarks(self) -> tuple[str, ...]:
        """Return sentences on what the unmeasured runs showed and the user may not intend."""
        return () if self.trial is None else tuple(self.trial.remarks())

    def text(self, head: str, *, programs: Sequence[str] = (), sampled: str = "", measure: Sequence[str] = ()) -> str:
        """Return the spec as YAML."""
        choices, trial = self.choices, self.trial
        lines = [
            commented(head),
            f"name: {quoted(self.name)}",
            "",
            "program:",
            *(f"  {line}" for line in self.program_lines()),
        ]
        if sampled:
            lines.append(f"  sampled: {quoted(sampled)}")
        lines.append(f"  timeout: {self.timeout_s // 60} min")
        if trial is not None and trial.exit_code:
            lines.append(f"  exit_code: {trial.exit_code}")
        if trial is not None and not trial.same:
            lines.append("  result: any                 # its output differed between two runs")
        else:
            lines.append("  # result: any               # for a program that prints times or addresses")
        lines += [*programs, "", "measure:", self._interval_line()]
        if choices.source:
            lines.append(f"  source: {choices.source}")
        lines += self._sampler_lines()
        lines += [f"  {line}" for line in measure]
        lines.append(f"  # {self.hardware.why}; `unperturbed metrics` lists all metrics")
        lines.append(f"  hardware: {quoted_list(self.hardware.names)}")
        if self.calls:
            lines.append("  # calls, counted without building the program; docs/how-to/software.md has further kinds")
            lines.append("  software:")
            lines += [
                f"    {name}: {{python: {{enter: {function}}}}}"
                if function.startswith(_OF_SCRIPT)
                else f"    {name}: {{preload: {function}}}"
                for name, function in self.calls.items()
            ]
        lines += ["", "campaign:"]
        lines.append(f"  baseline_runs: {_runs(choices.baseline_runs)}           # with hardware metrics only")
        if self.calls:
            if not choices.until_decided:
                lines.append(
                    f"  runs: {_runs(choices.runs)}                    # of each configuration with software metrics"
                )
            lines.append(f"  subsets: {{{_CALLS}: {quoted_list(self.calls)}}}   # counted together in the same runs")
        if choices.until_decided:
            lines.append("  runs: until decided          # further runs for configurations whose verdict is open")
            lines.append(f"  at_most: {MOST_RUNS if choices.at_most is None else choices.at_most}")
        if choices.max_hours is not None:
            lines.append(f"  max_hours: {choices.max_hours:g}")
        lines.append("  seed: 1")
        return "\n".join(lines) + "\n"

    def _sampler_lines(self) -> Iterator[str]:
        """Yield the lines on the sampler."""
        sampler = self.choices.sampler or ("outside" if self.static and not self.hardware.simulated else "")
        if sampler:
            yield f"  sampler: {sampler}"

    def _interval_line(self) -> str:
        interval = self.choices.interval
        if not interval:
            return "  interval: {records: 200}    # a pilot run determines the length; `interval: 20 ms` sets it"
        return f"  interval: {{records: {interval}}}" if interval.isdecimal() else f"  interval: {quoted(interval)}"


def _runs(given: int | None) -> int:
    """Return the number of runs that the user gave, or the default."""
    return 10 if given is None else given


def describe_command(words: Sequence[str], choices: Choices = Choices()) -> CommandSpec:
    """Return the spec of a command line that runs an existing program."""
    if script := missing_script(words):
        raise SpecError(f"{script}: no such file; give the program to measure after --, as you would type it")
    command = _resolved(words, os.environ.get("PATH", PROGRAM_PATH))
    environment = _environment(choices.environment)
    return CommandSpec(
        campaign_name(choices.name or called(words)),
        tuple(command),
        Path.cwd(),
        environment,
        choose_stdin(choices.stdin),
        choose_hardware(choices.hardware, choices.source),
        choices=choices,
        **how_counted(command, Path.cwd(), environment, choices)._asdict(),
    )


class Counted(NamedTuple):
    """Ways to count in a program, found in its binary; the fields are as in `CommandSpec`."""

    calls: Mapping[str, str]
    static: bool


def how_counted(command: Sequence[str], folder: Path, environment: Mapping[str, str], choices: Choices) -> Counted:
    """Return the ways to count in a command's program."""
    program = Path(command[0])
    libraries = [Path(place) for place in environment.get("LD_LIBRARY_PATH", "").split(":") if place]
    calls: Mapping[str, str] = {f"calls_{name.strip('_')}": name for name in choices.calls} or {
        f"calls_{name.removeprefix(_OF_SCRIPT).replace('.', '_').strip('_')}": name
        for name in functions_of_script(command, folder)
    }
    calls = calls or choose_calls(program, libraries)
    try:
        return Counted(calls, not read_binary(program).interpreter)
    except SpecError:  # no ELF binary; the run itself will report the error
        return Counted(calls, static=False)


def _resolved(words: Sequence[str], search: str) -> list[str]:
    """Return a command with the absolute path of its program; for a script, put its interpreter first."""
    executable = shutil.which(words[0], path=search)
    if executable is None:
        path = Path(words[0])
        what = "is not executable (chmod +x)" if path.exists() else "does not exist"
        if "/" not in words[0]:
            here = f" (write ./{words[0]} for the one in this folder)" if path.is_file() else ""
            what = f"is not a program on the PATH{here}"
        raise SpecError(f"{words[0]} {what}; after --, give the program to measure, as you would type it")
    command = [os.path.abspath(executable), *words[1:]]  # noqa: PTH100  keeps links, such as a virtual environment's Python
    for _ in range(_MOST_SCRIPTS):
        with Path(command[0]).open("rb") as file:
            begin = file.read(256)
        if not begin.startswith(b"#!"):
            break
        interpreter = begin[2:].split(b"\n", maxsplit=1)[0].decode(errors="replace").split(maxsplit=1)
        if interpreter and Path(interpreter[0]).name == "env" and len(interpreter) > 1:
            interpreter = [part for part in shlex.split(interpreter[1]) if part != "-S"]
        program = shutil.which(interpreter[0], path=search) if interpreter else None
        if program is None:
            raise SpecError(
                f"{command[0]}: its interpreter {' '.join(interpreter)!r} cannot be found; install it, or correct the "
                "first line of the script"
            )
        command = [program, *interpreter[1:], *command]
    return command


def _environment(asked: Sequence[str]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    if os.environ.get("PATH", PROGRAM_PATH) != PROGRAM_PATH:
        environment["PATH"] = os.environ["PATH"]
    for text in asked:
        name, given, value = text.partition("=")
        if not given and name not in os.environ:
            raise SpecError(f"--env {name}: the variable is not set in the environment; use --env {name}=VALUE")
        environment[name] = value if given else os.environ[name]
    return environment


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SECOND = "B"  # The configuration of the second command; the first is the baseline, A
_GDB_PASSES_ON = signal.SIGURG  # Ignored unless handled; gdb passes it on, but stops at real-time signals


@dataclass(frozen=True)
class ComparisonSpec:
    """Drafted spec that compares two set-ups."""

    # first, second: The baseline's command, and the command to compare with it.
    first: CommandSpec
    second: CommandSpec
    other: str  # Name of the second's configuration
    # For each command, the sampled program that another tool in the command starts; '' if no other tool does.
    wrapped: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Return the campaign's name."""
        return self.first.name

    def renamed(self, name: str) -> ComparisonSpec:
        """Return the spec with a different name."""
        return replace(self, first=replace(self.first, name=name))

    def after_trial(self, say: Callable[[str], None] = lambda _: None) -> ComparisonSpec:
        """Return the spec with the observations from unmeasured runs of both commands; see `try_command`."""
        from unperturbed.harness.drafts.trial import try_command  # noqa: PLC0415  it imports this module

        follow = not any(self.wrapped)
        return replace(
            self,
            first=try_command(self.first, say, follow=follow, counting=False),
            second=try_command(self.second, say, follow=follow, counting=False),
        )

    @property
    def reads(self) -> str:
        """Return the redirection of standard input in the typed command (` < FILE`); '' if there is none."""
        return self.first.reads

    def reading(self, stdin: Path) -> ComparisonSpec:
        """Return the spec with a different standard input for both commands."""
        return replace(self, first=self.first.reading(stdin), second=self.second.reading(stdin))

    def remarks(self) -> tuple[str, ...]:
        """Return sentences on what both commands' unmeasured runs showed and the user may not intend."""
        named = ((self.first, "A"), (self.second, self.other))
        return tuple(f"{name}: {said}" for spec, name in named for said in spec.remarks())

    def text(self, head: str) -> str:
        """Return the spec as YAML."""
        first, second = self.first, self.second
        lines = [
            "",
            "# Measured like the baseline (A), in as many runs, and compared with it.",
            "programs:",
            f"  {self.other}:",
        ]
        lines.append(f"    run: {quoted(second.run_line)}")
        if self.wrapped[1]:
            lines.append(f"    sampled: {quoted(self.wrapped[1])}")
        if second.folder != first.folder:  # a script changed to this folder before it became the program
            lines.append(f"    working_folder: {quoted(without_placeholders(str(second.folder)))}")
        changed = {name: value for name, value in second.environment.items() if first.environment.get(name) != value}
        if changed:
            lines.append("    environment:")
            lines += [f"      {name}: {quoted(without_placeholders(value))}" for name, value in changed.items()]
        if first.trial is not None and second.trial is not None:
            if second.trial.exit_code != first.trial.exit_code:
                lines.append(f"    exit_code: {second.trial.exit_code}")
            if second.trial.same != first.trial.same:
                lines.append(f"    result: {'same' if second.trial.same else 'any'}")
        return replace(first, calls={}).text(
            head, programs=lines, sampled=self.wrapped[0], measure=self._measured_otherwise()
        )

    def _measured_otherwise(self) -> list[str]:
        """Return the lines of `measure:` required by tools that start the program."""
        tools = [spec.words[0] for spec, inner in zip((self.first, self.second), self.wrapped, strict=True) if inner]
        if self.first.choices.sampler == "outside" or not any(Path(tool).name.startswith("gdb") for tool in tools):
            return []
        return [
            f"signal: {int(_GDB_PASSES_ON)}                  # SIGURG: gdb passes it on, but stops at the default one"
        ]


def describe_comparison(first: Sequence[str], second: Sequence[str], choices: Choices) -> ComparisonSpec:
    """Return the spec of two commands; each may begin with `env NAME=VALUE …`, and one may start the other.

    Both may be the same: comparing A with A shows what differs between runs.
    """
    (own, words), (others_own, other_words) = _environment_of(first), _environment_of(second)
    drafted = [
        describe_command(
            given, replace(choices, environment=(*choices.environment, *(f"{k}={v}" for k, v in env.items())))
        )
        for given, env in ((words, own), (other_words, others_own))
    ]
    names = [Path(draft.words[0]).name for draft in drafted]
    wrapped = ["", ""]
    for at, (outer, inner) in enumerate(((words, other_words), (other_words, words))):
        if len(outer) > len(inner) and list(outer[-len(inner) :]) == list(inner):
            wrapped[at] = names[1 - at]
            drafted[at] = replace(drafted[at], words=(*drafted[at].words[: -len(inner)], *drafted[1 - at].words))
    if any(wrapped) and drafted[0].hardware.simulated:
        raise HostError(
            f"{names[wrapped.index(next(filter(None, wrapped)))]} starts the program, but valgrind, which simulates "
            "the counters on this host, measures only a program that valgrind itself starts; to measure a program that "
            "a tool starts, use a host with hardware counters (see `unperturbed doctor`), or the kernel's counters "
            "(--metrics perf::page-faults,perf::task-clock), which give totals but no verdict"
        )
    typed = [campaign_name(called(given)) for given in (words, other_words)]  # a script is named after its file
    other = typed[1] if typed[1] != typed[0] else "second"
    both = choices.name or campaign_name(f"{typed[0]}-and-{other}")
    return ComparisonSpec(replace(drafted[0], name=both), drafted[1], _SECOND, (wrapped[0], wrapped[1]))


def describe_floor(words: Sequence[str], choices: Choices) -> ComparisonSpec:
    """Return the spec that measures a program against itself."""
    name = choices.name or campaign_name(f"{called(words)}-floor")
    return describe_comparison(words, words, replace(choices, name=name))


def _environment_of(words: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the variables that `env NAME=VALUE` sets at the start of a command, and the rest of the command."""
    variables: dict[str, str] = {}
    rest = list(words)
    if Path(rest[0]).name == "env":
        rest = rest[1:]
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
            variables[match[1]] = match[2]
            rest = rest[1:]
    if not variables or not rest or rest[0].startswith("-"):
        return {}, words
    return variables, rest
