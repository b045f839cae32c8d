"""The spec that a comparison of two command lines stands for: the first is the program, the second another set-up."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unperturbed.errors import HostError, SpecError
from unperturbed.harness.drafts.command import Choices, CommandSpec, describe_command
from unperturbed.harness.drafts.trial import try_command
from unperturbed.harness.drafts.wording import called, campaign_name, quoted, without_placeholders

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SECOND = "B"
"""The configuration of the second command; the first is the baseline, A."""
_PASSED_ON = signal.SIGURG
"""Ignored where nobody handles it; gdb hands it on, and stops at real-time signals."""


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
        return [f"signal: {int(_PASSED_ON)}                  # SIGURG, which gdb passes on; it stops at the usual one"]


def describe_comparison(first: Sequence[str], second: Sequence[str], choices: Choices) -> Comparison:
    """Return the spec of two commands, of which the second may be the first started by another tool.

    `first`, `second`: Programs and their arguments. `env NAME=VALUE …` at the beginning sets variables.
    """
    if list(first) == list(second):
        raise SpecError("both commands are the same, and there is nothing to compare")
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
            f"{names[wrapped.index(next(filter(None, wrapped)))]} starts the program, and valgrind, which simulates "
            "the counters here, looks at the program that it starts alone: comparing with a tool attached takes a host "
            "with counters of its processor (`unperturbed doctor`), or the kernel's own, which give totals and no "
            "verdict: --metrics perf::page-faults,perf::task-clock"
        )
    typed = [campaign_name(called(given)) for given in (words, other_words)]  # a script by its own name
    other = typed[1] if typed[1] != typed[0] else "second"
    both = choices.name or campaign_name(f"{typed[0]}-and-{other}")
    return Comparison(replace(drafted[0], name=both), drafted[1], _SECOND, (wrapped[0], wrapped[1]))


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
