"""Options of commands that measure a program without a spec, and the spec written from these options."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.common.wording import listing
from unperturbed.errors import SpecError, UnperturbedError
from unperturbed.harness.campaign.summary import HOME

if TYPE_CHECKING:
    from unperturbed.harness.cli.terminal import TerminalProgress
    from unperturbed.harness.drafts.command import Choices, CommandSpec, ComparisonSpec
    from unperturbed.harness.drafts.saving import Saved
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_DEFAULTS: dict[str, object] = {
    "metrics": "",
    "count": "",
    "interval": "",
    "runs": None,
    "baseline_runs": None,
    "source": "",
    "sampler": "",
    "env": [],
    "input": "",
    "name": "",
    "until": "",
    "max_runs": None,
    "max_hours": None,
}

_RUNS = ("runs", "baseline_runs")
_OPTIONS = {"baseline_runs": "--baseline-runs", "runs": "--runs", "at_most": "--max-runs", "max_hours": "--max-hours"}
"""Keys of a spec, and the options that set them."""


@dataclass(frozen=True)
class Drafted:
    """Spec of a program given after `--`."""

    spec: Path  # Path of the spec
    campaign: Path  # The campaign's folder
    text: str = ""  # The spec's text if it is not written to disk, else ''
    new: bool = False  # This process wrote the spec

    def load(self) -> CampaignSpec:
        """Return the validated spec."""
        from unperturbed.harness.spec.load import load_spec, parse_spec

        if not self.text:
            return load_spec(self.spec)
        with _faults_of_options(self.text):
            return parse_spec(self.text, str(self.spec), self.spec.absolute().parent)

    @contextmanager
    def removed_unless_run(self) -> Iterator[None]:
        """Remove a new spec and its campaign if an error occurs before the first run, to free the name.

        A failure of the program keeps the output of its trial runs, which the message names; a wrong spec does not.
        """
        try:
            yield
        except UnperturbedError as error:
            runs = {folder.name for folder in self.campaign.glob("runs/*")}
            if isinstance(error, SpecError):
                runs = {name for name in runs if name.isdecimal() and int(name)}
            if self.new and not runs:
                shutil.rmtree(self.campaign, ignore_errors=True)
                for written in (self.spec, self.spec.with_suffix(".stdin")):
                    written.unlink(missing_ok=True)
            raise


@contextmanager
def _faults_of_options(text: str) -> Iterator[None]:
    """Report errors without line numbers of a spec: the user typed options, and no spec has been written yet."""
    from unperturbed.harness.spec.yaml import InvalidSpec

    try:
        yield
    except InvalidSpec as error:
        messages = [diagnostic.message for diagnostic in error.diagnostics]
        for key, option in _options(comparing=_compares(text)).items():
            messages = [message.replace(f"`{key}`", option) for message in messages]
        raise SpecError("\n".join(f"in the options before --: {message}" for message in messages)) from None


def _compares(text: str) -> bool:
    """Return whether a drafted spec compares set-ups: `baseline_runs` is then the number of runs of each."""
    return "\nprograms:" in text


def _options(*, comparing: bool) -> Mapping[str, str]:
    """Return the options of `run` or of `compare`, by the keys of a spec that they set."""
    return _OPTIONS | ({"baseline_runs": "--runs"} if comparing else {})


def refuse_program_options(arguments: argparse.Namespace, advice: str = "") -> None:
    """Reject options that apply only to a program after `--`, because no such program is given."""
    given = [f"--{name.replace('_', '-')}" for name, unset in _DEFAULTS.items() if getattr(arguments, name) != unset]
    if given:
        raise SpecError(f"{', '.join(given)} can be used only with a program after --{advice}")


def spec_of_program(arguments: argparse.Namespace, progress: TerminalProgress) -> Drafted | None:
    """Return the spec of the program after `--`, writing it if it does not exist; None if the user gave a spec."""
    if not arguments.program:
        if arguments.spec is None:
            raise SpecError(
                "give a spec (unperturbed run SPEC) or a program after -- (unperturbed run -- ./program its arguments)"
            )
        refuse_program_options(arguments, f"; with a spec, edit {arguments.spec} instead")
        return None
    if arguments.spec is not None:
        raise SpecError(
            f"{arguments.spec} cannot be combined with a program after --: give a spec or a program, not both"
        )
    from unperturbed.harness.drafts.command import describe_command

    return draft(
        lambda choices: describe_command(arguments.program, choices), typed("run", arguments), arguments, progress
    )


def _choices(arguments: argparse.Namespace) -> Choices:
    from unperturbed.collectors.sources.catalogue import PERF_WORDS
    from unperturbed.harness.drafts.command import Choices

    if arguments.until and (arguments.runs, arguments.baseline_runs) != (None, None):
        raise SpecError("--until decided chooses the numbers of runs: remove --runs and --baseline-runs")
    if arguments.max_runs is not None and not arguments.until:
        raise SpecError("--max-runs needs --until decided; to set the number of runs, use --runs")
    return Choices(
        arguments.name,
        tuple(PERF_WORDS.get(name, name) for name in filter(None, arguments.metrics.split(","))),
        tuple(filter(None, arguments.count.split(","))),
        arguments.interval,
        arguments.source,
        arguments.sampler,
        arguments.baseline_runs,
        arguments.runs,
        tuple(arguments.env),
        arguments.input,
        arguments.until == "decided",
        arguments.max_runs,
        arguments.max_hours,
    )


def draft(
    describe: Callable[[Choices], CommandSpec | ComparisonSpec],
    command: str,
    arguments: argparse.Namespace,
    progress: TerminalProgress,
) -> Drafted:
    """Return the spec of a command, writing it if it does not exist and this is not a dry run."""
    from unperturbed.harness.drafts.saving import find_place, head_of, save, spool_stdin

    choices = _choices(arguments)
    for option in _given_to_programs(arguments):
        progress.note(
            f"the program gets {option}, which follows --; type it before the first -- to give it to this command"
        )
    for name, meant in zip(filter(None, arguments.metrics.split(",")), choices.hardware, strict=True):
        if name != meant:
            progress.note(f"perf's event {name} is counted as {meant}")
    spec = describe(choices)
    piped = None if arguments.input else spool_stdin(progress.note)
    command += f" < (piped, sha256 {piped.digest})" if piped is not None else spec.reads
    place, first = find_place(spec.name, command, arguments.campaign), spec.name
    spec = spec.renamed(place.name)
    if place.known:
        progress.step(f"continuing the campaign of {place.spec}")
        return _continued(place, arguments, progress)
    beside = _why_beside(first, place, command) if place.name != first and arguments.campaign is None else ""
    if arguments.dry_run:
        drafted = Drafted(place.spec, place.campaign, spec.text(head_of(command, place.spec)))
        drafted.load()
        if beside:
            progress.note(beside)
        return drafted
    if piped is not None:
        piped.keep(place.stdin)
        spec = spec.reading(place.stdin.absolute())
        progress.note(f"standard input is a pipe: its content is copied to {place.stdin}, which every run reads")
    try:
        text = spec.text(head_of(command, place.spec))
        Drafted(place.spec, place.campaign, text).load()  # before anything runs
        progress.step("running the program without measuring")
        with _faults_of_options(text):
            completed = spec.after_trial(progress.note)
    except BaseException:
        if piped is not None:
            place.stdin.unlink()
        raise
    for remark in completed.remarks():
        progress.note(remark)
    if beside:  # only now, as a faulty option or program leaves no campaign
        progress.note(beside)
    save(place, completed.text(head_of(command, place.spec)))
    progress.step(f"the spec of this command is {place.spec}")
    return Drafted(place.spec, place.campaign, new=True)


def _given_to_programs(arguments: argparse.Namespace) -> list[str]:
    """Return this command's options that are among the words of a program, and not given otherwise."""
    own = {f"--{name.replace('_', '-')}" for name, value in vars(arguments).items() if not value}
    return [word for word in dict.fromkeys(arguments.program) if word in own]


def _why_beside(name: str, place: Saved, command: str) -> str:
    """Return a note on a campaign that cannot have its first name, because another campaign has it."""
    from unperturbed.harness.drafts.saving import command_of

    known = HOME / name
    other = different_options(command, command_of(HOME / f"{name}.yaml"))
    new = (
        f"{known} was measured {other}, so this is a new campaign, in {place.campaign}, and its verdicts keep all of α."
        if other
        else f"{known} belongs to a different command, so this campaign is written to {place.campaign}."
    )
    return (
        f"{new} To continue the campaign in {known} instead, edit {known}.yaml if needed, and type `unperturbed run "
        f"{known}.yaml`"
    )


def different_options(command: str, other: str) -> str:
    """Return how the options of another command for the same program differ: `without --until decided`; '' if not so.

    Each option has a value, as `typed` writes it.
    """
    here, there = command.partition(" -- "), other.partition(" -- ")
    if not there[1] or here[2] != there[2] or here[0].split()[:2] != there[0].split()[:2]:
        return ""
    own, others = (_pairs(shlex.split(text)[2:]) for text in (here[0], there[0]))
    added = [option for option in own if option not in others]
    removed = [option for option in others if option not in own]
    return listing(([f"without {listing(added)}"] if added else []) + ([f"with {listing(removed)}"] if removed else []))


def _pairs(words: Sequence[str]) -> list[str]:
    """Return options with their values."""
    return [shlex.join(pair) for pair in zip(words[::2], words[1::2], strict=False)]


def _continued(place: Saved, arguments: argparse.Namespace, progress: TerminalProgress) -> Drafted:
    """Return the existing spec of a command with the numbers of runs that the options ask for."""
    from unperturbed.common.scratch import write_whole
    from unperturbed.harness.drafts.saving import AskedRuns, set_runs

    comparing = _compares(place.spec.read_text(encoding="utf-8"))
    options = _options(comparing=comparing)
    wanted = {key: number for key in _RUNS if (number := getattr(arguments, key)) is not None}
    made = _runs_made(place.campaign, comparing=comparing) if wanted else {}
    asked = {key: AskedRuns(options[key], number, made[key]) for key, number in wanted.items()}
    text, notes = set_runs(place.spec, asked, writes=not arguments.dry_run)
    if notes:
        Drafted(place.spec, place.campaign, text).load()  # before it is written
    for note in notes:
        progress.note(note)
    if arguments.dry_run:
        return Drafted(place.spec, place.campaign, text)
    if notes:
        write_whole(place.spec, text)
    return Drafted(place.spec, place.campaign)


def _runs_made(campaign: Path, *, comparing: bool) -> Mapping[str, int]:
    """Return how many runs the largest configuration of each key has that sets a number of runs.

    `comparing`: Whether `baseline_runs` is the number of all configurations.
    """
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.spec.sections.campaign import BASELINE

    made: Counter[tuple[str, str]] = Counter()
    if (campaign / "campaign.sqlite").is_file():
        with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
            made.update((each.run.configuration, each.run.pass_name) for each in manifest.runs("done", hosts=False))
    most = dict.fromkeys(_RUNS, 0)
    for (configuration, _), count in made.items():
        key = "baseline_runs" if comparing or configuration == BASELINE else "runs"
        most[key] = max(most[key], count)
    return most


def typed(name_of_command: str, arguments: argparse.Namespace) -> str:
    """Return the command line that identifies a spec, without the numbers of runs, which the user may change."""
    words = ["unperturbed", name_of_command]
    for name, unset in _DEFAULTS.items():
        value = getattr(arguments, name)
        if value != unset and name not in _RUNS:
            for choice in value if isinstance(value, list) else [value]:
                words += [f"--{name.replace('_', '-')}", str(choice)]
    return shlex.join([*words, "--", *arguments.program])
