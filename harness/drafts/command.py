"""The specs that command lines stand for: a program where and as the user runs it, or two set-ups that are compared."""

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

from unperturbed.errors import HostError, SpecError
from unperturbed.harness.drafts.metrics import HardwareChoice, choose_calls, choose_hardware, functions_of_script
from unperturbed.harness.drafts.saving import (
    called,
    campaign_name,
    choose_stdin,
    commented,
    quoted,
    quoted_list,
    without_placeholders,
)
from unperturbed.harness.spec.sections.campaign import MOST_RUNS
from unperturbed.harness.spec.sections.program import PROGRAM_PATH
from unperturbed.instrument.binaries.elf import read_binary

_PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "GOMAXPROCS", "MKL_NUM_THREADS")
"""Variables of the user's environment that programs need to run as they do; others are asked for by name."""
_SLOWDOWN, _LEAST_TIMEOUT_S = 100, 600
_LEAST_S, _LEAST_SIMULATED_S = 0.01, 0.005
"""Shorter programs have too few intervals of the least length for a correlation."""
_OF_SCRIPT = "__main__."
_CALLS = "calls"  # The configuration that counts calls
_MOST_SCRIPTS = 4


@dataclass(frozen=True)
class Choices:
    """Options that the user gave beside the command."""

    name: str = ""  # Of the campaign; '' for the program's
    hardware: tuple[str, ...] = ()  # Hardware metrics; none for a choice by what this host counts
    # Library functions whose calls are counted; none for a choice by what the program calls.
    calls: tuple[str, ...] = ()
    interval: str = ""  # As a spec has it (`20 ms`), or a number of intervals; '' for the default
    # source, sampler: As in a spec; '' for the default.
    source: str = ""
    sampler: str = ""
    # baseline_runs, runs: Numbers of runs; None for the defaults.
    baseline_runs: int | None = None
    runs: int | None = None
    environment: tuple[str, ...] = ()  # `NAME` passes a variable on, `NAME=VALUE` sets it
    stdin: str = ""  # The file that the program reads; `null` for none; '' for what standard input was redirected from
    until_decided: bool = False  # Make runs until every verdict is decided
    # at_most, max_hours: Limits; None for the defaults.
    at_most: int | None = None
    max_hours: float | None = None


@dataclass(frozen=True)
class Trial:
    """Observations in two unmeasured runs."""

    seconds: float  # That one took
    exit_code: int  # How it ended
    same: bool  # Whether both printed the same
    wrote: str = ""  # What the last one wrote to standard error, in one sentence
    said: tuple[str, ...] = ()  # What else the user must know, a sentence each

    def remarks(self) -> Iterator[str]:
        """Yield what is unusual and becomes part of the spec: a user may have meant otherwise."""
        yield from self.said
        if self.exit_code:
            yield f"the program ends with exit code {self.exit_code}: the spec takes that as a right run. {self.wrote}"
        if not self.same:
            yield "the program prints something else each time: its result is not compared (result: any in the spec)"


@dataclass(frozen=True)
class CommandSpec:
    """A drafted spec."""

    name: str  # Of the campaign
    words: tuple[str, ...]  # The program by its absolute path, and its arguments
    folder: Path  # Where it runs
    environment: Mapping[str, str]  # The variables that it gets
    stdin: Path | None  # The file that it reads
    hardware: HardwareChoice  # The metrics of every configuration
    calls: Mapping[str, str]  # Software metrics: name and library function
    choices: Choices  # What the user asked for
    static: bool = False  # Nothing can be preloaded
    threaded: bool = False  # It may start threads
    trial: Trial | None = field(default=None)  # What unmeasured runs showed

    def program_lines(self) -> Sequence[str]:
        """Return the keys of `program:`, a line each, without indentation."""
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
        """Return the command as `run:` has it."""
        return without_placeholders(shlex.join(self.words))

    @property
    def shortest_s(self) -> float:
        """Return how long the program must take for enough intervals: ten quanta of the simulator take 1 ms."""
        return _LEAST_SIMULATED_S if self.hardware.simulated else _LEAST_S

    @property
    def timeout_s(self) -> int:
        """Return when a run counts as hanging."""
        expected = 0.0 if self.trial is None else self.trial.seconds
        return max(_LEAST_TIMEOUT_S, 60 * round(_SLOWDOWN * expected / 60))

    def renamed(self, name: str) -> CommandSpec:
        """Return the same by another name."""
        return replace(self, name=name)

    def tried(self, say: Callable[[str], None] = lambda _: None) -> CommandSpec:
        """Return the same with what unmeasured runs showed; see `try_command`."""
        from unperturbed.harness.drafts.trial import try_command  # noqa: PLC0415  it makes such specs

        return try_command(self, say)

    @property
    def reads(self) -> str:
        """Return what standard input is, as a clause of the command that was typed; '' for nothing."""
        return f" < {shlex.quote(str(self.stdin))}" if self.stdin is not None and not self.choices.stdin else ""

    def reading(self, stdin: Path) -> CommandSpec:
        """Return the same with another standard input."""
        return replace(self, stdin=stdin)

    def remarks(self) -> tuple[str, ...]:
        """Return what the unmeasured runs showed that a user may not have meant."""
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
            lines.append("  result: any                 # it printed something else when it ran again")
        else:
            lines.append("  # result: any               # for a program that prints times or addresses")
        lines += [*programs, "", "measure:", self._interval_line()]
        if choices.source:
            lines.append(f"  source: {choices.source}")
        sampler = choices.sampler or ("outside" if self.static and not self.hardware.simulated else "")
        if sampler:
            lines.append(f"  sampler: {sampler}")
        if self.threaded and sampler != "outside" and not self.hardware.simulated:
            lines.append("  threads: all")
        lines += [f"  {line}" for line in measure]
        lines.append(f"  # {self.hardware.why}; `unperturbed metrics` lists what there is")
        lines.append(f"  hardware: {quoted_list(self.hardware.names)}")
        if self.calls:
            lines.append("  # calls, counted without building the program; docs/how-to/software.md has the other kinds")
            lines.append("  software:")
            lines += [
                f"    {name}: {{python: {{enter: {function}}}}}"
                if function.startswith(_OF_SCRIPT)
                else f"    {name}: {{preload: {function}}}"
                for name, function in self.calls.items()
            ]
        lines += ["", "campaign:"]
        lines.append(f"  baseline_runs: {choices.baseline_runs or 10}           # hardware metrics alone")
        if self.calls:
            if not choices.until_decided:
                lines.append(
                    f"  runs: {choices.runs or 10}                    # of each configuration with software metrics"
                )
            lines.append(f"  subsets: {{{_CALLS}: {quoted_list(self.calls)}}}   # counted together, in runs named so")
        if choices.until_decided:
            lines.append("  runs: until decided          # further runs for configurations whose verdict is open")
            lines.append(f"  at_most: {choices.at_most or MOST_RUNS}")
        if choices.max_hours is not None:
            lines.append(f"  max_hours: {choices.max_hours:g}")
        lines.append("  seed: 1")
        return "\n".join(lines) + "\n"

    def _interval_line(self) -> str:
        interval = self.choices.interval
        if not interval:
            return "  interval: {records: 200}    # a pilot run finds the length; `interval: 20 ms` would fix it"
        return f"  interval: {{records: {interval}}}" if interval.isdecimal() else f"  interval: {quoted(interval)}"


def describe_command(words: Sequence[str], choices: Choices = Choices()) -> CommandSpec:
    """Return the spec that a command line stands for, of a program that is there already."""
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
    """How a program can be counted, by its binary: functions whose calls can be, as `CommandSpec` has them."""

    calls: Mapping[str, str]
    static: bool
    threaded: bool


def how_counted(command: Sequence[str], folder: Path, environment: Mapping[str, str], choices: Choices) -> Counted:
    """Return how the program of a command can be counted."""
    program = Path(command[0])
    libraries = [Path(place) for place in environment.get("LD_LIBRARY_PATH", "").split(":") if place]
    calls: Mapping[str, str] = {f"calls_{name.strip('_')}": name for name in choices.calls} or {
        f"calls_{name.removeprefix(_OF_SCRIPT).replace('.', '_').strip('_')}": name
        for name in functions_of_script(command, folder)
    }
    calls = calls or choose_calls(program, libraries)
    try:
        binary = read_binary(program)
        return Counted(calls, not binary.interpreter, "pthread_create" in binary.imported)
    except SpecError:  # no ELF binary; the run itself says what is wrong with it
        return Counted(calls, static=False, threaded=False)


def _resolved(words: Sequence[str], search: str) -> list[str]:
    """Return a command with its program by its absolute path; of a script, its interpreter and the script."""
    found = shutil.which(words[0], path=search)
    if found is None:
        there = Path(words[0]).exists()
        what = "is not executable (chmod +x)" if there and "/" in words[0] else "is not a program here or on the PATH"
        raise SpecError(f"{words[0]}: this {what}; give the program to measure after --, as you would type it")
    command = [os.path.abspath(found), *words[1:]]  # noqa: PTH100  a link stays one: a virtual environment's Python
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
            raise SpecError(f"{command[0]}: its interpreter {' '.join(interpreter)!r} does not exist")
        command = [program, *interpreter[1:], *command]
    return command


def _environment(asked: Sequence[str]) -> dict[str, str]:
    found = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    if os.environ.get("PATH", PROGRAM_PATH) != PROGRAM_PATH:
        found["PATH"] = os.environ["PATH"]
    for text in asked:
        name, given, value = text.partition("=")
        if not given and name not in os.environ:
            raise SpecError(f"--env {name}: the environment has no such variable; give it as {name}=VALUE")
        found[name] = value if given else os.environ[name]
    return found


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SECOND = "B"  # The configuration of the second command; the first is the baseline, A
_GDB_PASSES_ON = signal.SIGURG  # Ignored where nobody handles it; gdb hands it on, and stops at real-time signals


@dataclass(frozen=True)
class Comparison:
    """A drafted spec of two set-ups."""

    # first, second: The program, and what it is compared with.
    first: CommandSpec
    second: CommandSpec
    other: str  # Name of the second's configuration
    # For each of the two, the program that it starts by another one and that is sampled; '' where it is its own.
    wrapped: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Return the campaign's name."""
        return self.first.name

    def renamed(self, name: str) -> Comparison:
        """Return the same by another name."""
        return replace(self, first=replace(self.first, name=name))

    def tried(self, say: Callable[[str], None] = lambda _: None) -> Comparison:
        """Return the same with what unmeasured runs of both showed; see `try_command`."""
        from unperturbed.harness.drafts.trial import try_command  # noqa: PLC0415  it makes such specs

        follow = not any(self.wrapped)
        return replace(
            self,
            first=try_command(self.first, say, follow=follow, counting=False),
            second=try_command(self.second, say, follow=follow, counting=False),
        )

    @property
    def reads(self) -> str:
        """Return what standard input is, as a clause of the command that was typed; '' for nothing."""
        return self.first.reads

    def reading(self, stdin: Path) -> Comparison:
        """Return the same with another standard input of both."""
        return replace(self, first=self.first.reading(stdin), second=self.second.reading(stdin))

    def remarks(self) -> tuple[str, ...]:
        """Return what the unmeasured runs of both showed that a user may not have meant."""
        named = ((self.first, "A"), (self.second, self.other))
        return tuple(f"{name}: {said}" for spec, name in named for said in spec.remarks())

    def text(self, head: str) -> str:
        """Return the spec as YAML."""
        first, second = self.first, self.second
        lines = [
            "",
            "# Measured alike, as often as the baseline (A), and compared with it.",
            "programs:",
            f"  {self.other}:",
        ]
        lines.append(f"    run: {quoted(second.run_line)}")
        if self.wrapped[1]:
            lines.append(f"    sampled: {quoted(self.wrapped[1])}")
        if second.folder != first.folder:  # a script went there before it became the program
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
        """Return what the tools that start the program ask of the sampler."""
        tools = [spec.words[0] for spec, inner in zip((self.first, self.second), self.wrapped, strict=True) if inner]
        if self.first.choices.sampler == "outside" or not any(Path(tool).name.startswith("gdb") for tool in tools):
            return []
        return [
            f"signal: {int(_GDB_PASSES_ON)}                  # SIGURG, which gdb passes on; it stops at the usual one"
        ]


def describe_comparison(first: Sequence[str], second: Sequence[str], choices: Choices) -> Comparison:
    """Return the spec of two commands; `env NAME=VALUE …` may begin both, and the second may start the first.

    Both may be the same: A against A shows what differs from run to run.
    """
    (own, words), (others_own, other_words) = _environment_of(first), _environment_of(second)
    drafted = [
        describe_command(
            given, replace(choices, environment=(*choices.environment, *(f"{k}={v}" for k, v in env.items())))
        )
        for given, env in ((words, own), (other_words, others_own))
    ]
    names = [Path(one.words[0]).name for one in drafted]
    wrapped = ["", ""]
    for at, (outer, inner) in enumerate(((words, other_words), (other_words, words))):
        if len(outer) > len(inner) and list(outer[-len(inner) :]) == list(inner):
            wrapped[at] = names[1 - at]
            drafted[at] = replace(drafted[at], words=(*drafted[at].words[: -len(inner)], *drafted[1 - at].words))
    if any(wrapped) and drafted[0].hardware.simulated:
        raise HostError(
            f"{names[wrapped.index(next(filter(None, wrapped)))]} starts the program, but valgrind, which simulates "
            "the counters here, follows only the program that it starts itself: to compare with a tool attached, use "
            "a host with hardware counters (`unperturbed doctor`), or the kernel's counters, which give totals and no "
            "verdict: --metrics perf::page-faults,perf::task-clock"
        )
    typed = [campaign_name(called(given)) for given in (words, other_words)]  # a script by its own name
    other = typed[1] if typed[1] != typed[0] else "second"
    both = choices.name or campaign_name(f"{typed[0]}-and-{other}")
    return Comparison(replace(drafted[0], name=both), drafted[1], _SECOND, (wrapped[0], wrapped[1]))


def describe_floor(words: Sequence[str], choices: Choices) -> Comparison:
    """Return the spec of a program that is measured against itself."""
    name = choices.name or campaign_name(f"{called(words)}-floor")
    return describe_comparison(words, words, replace(choices, name=name))


def _environment_of(words: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the variables that `env NAME=VALUE` sets at the beginning of a command, and the rest."""
    found: dict[str, str] = {}
    rest = list(words)
    if Path(rest[0]).name == "env":
        rest = rest[1:]
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
            found[match[1]] = match[2]
            rest = rest[1:]
    if not found or not rest or rest[0].startswith("-"):
        return {}, words
    return found, rest
