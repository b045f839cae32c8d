"""Words of the command line: registered names, suggestions for mistyped ones, what other tools call things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class RegisteredNames:
    """Choices of an option that extensions add to, looked up when help or a value needs them."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())


_OWN_PROGRAM = "run -- ./program its arguments"

_FOREIGN = {
    **dict.fromkeys(
        ("stat", "record", "measure", "exec", "bench", "benchmark", "perf", "profile", "time", "hyperfine"),
        _OWN_PROGRAM,
    ),
    **dict.fromkeys(("trace", "start", "resume", "continue", "go"), "run SPEC"),
    **dict.fromkeys(("ls", "campaigns", "show", "history", "log"), "list"),
    **dict.fromkeys(("new", "create", "template", "example", "examples", "quickstart", "clone"), "init"),
    **dict.fromkeys(("verdict", "verdicts", "judge", "verify"), "check CAMPAIGN"),
    **dict.fromkeys(("validate", "lint"), "check SPEC"),
    **dict.fromkeys(("html", "open", "view", "plot", "annotate"), "report CAMPAIGN"),
    **dict.fromkeys(("convert", "save", "csv", "dump", "script"), "export CAMPAIGN -o FILE"),
    **dict.fromkeys(("events", "counters", "avail", "papi_avail"), "metrics"),
    **dict.fromkeys(("env", "host", "system", "info", "tune"), "doctor"),
    **dict.fromkeys(("diff", "ab", "versus", "vs"), "compare -- A -- B"),
    **dict.fromkeys(("split", "search", "subsets"), "partition SPEC"),
    **dict.fromkeys(("phases", "words"), "structure TRACE"),
    **dict.fromkeys(("causal", "learn"), "model TABLE"),
    **dict.fromkeys(("gcc", "clang", "compile"), "cc --metrics FILE -- gcc …"),
    **dict.fromkeys(("completions", "complete"), "completion bash"),
    **dict.fromkeys(("clean", "purge", "warm"), "cache"),
    "version": "--version",
    "man": "manual",
}
"""Words of perf, git, hyperfine, asv, PAPI and others, and what is typed here in their place."""

_OPTION_OF = {
    **dict.fromkeys(("--folder", "--dir", "--directory", "--output-dir", "--workdir"), "--campaign"),
    **dict.fromkeys(("--iterations", "--repeat", "--repetitions", "-r", "-n", "--count"), "--runs"),
    **dict.fromkeys(("-e", "--event", "--events", "--metric"), "--metrics"),
    **dict.fromkeys(("--silent", "-q"), "--quiet"),
    **dict.fromkeys(("--no-run", "--plan"), "--dry-run"),
    **dict.fromkeys(("-I", "--period"), "--interval"),
    **dict.fromkeys(("-o", "--out", "--output", "--file"), "--out"),
}
"""Options of other tools, and what they are called here."""

_ALIKE = 75
"""How alike an option is to what was typed: `--output` and `--out`."""


def unknown_command(word: str, known: Iterable[str]) -> str:
    """Return the message for a word that is not a command."""
    from unperturbed.common.wording import did_you_mean

    names = set(known)
    meant = _FOREIGN.get(word.casefold())
    path = Path(word)
    if meant is not None and (meant.startswith("-") or meant.split()[0] in names):
        advice = f"here it is `unperturbed {meant}`"
    elif word.endswith((".yaml", ".yml")):
        advice = f"to run a spec, type `unperturbed run {word}`"
    elif (path / "campaign.sqlite").is_file():
        advice = f"to judge this campaign again, type `unperturbed check {word}`"
    elif path.is_file():
        advice = f"to measure a program, type `unperturbed run -- {word}`"
    else:
        advice = did_you_mean(word, names, limit=2)
    return f"there is no command {word!r}; {advice or '`unperturbed help` lists them'}"


def unknown_option(word: str, known: Iterable[str]) -> str:
    """Return the message for an option that a command does not have."""
    from unperturbed.common.wording import did_you_mean

    name = word.partition("=")[0]
    options = [option for option in known if option.startswith("--")]
    meant = _OPTION_OF.get(name)
    if meant == "--out" and meant not in options:  # what keeps everything it writes in one folder
        meant = "--campaign"
    if meant in options and (name != "--output" or meant != "--out"):
        return f"there is no option {name}; here it is {meant}"
    advice = did_you_mean(name, options, limit=1, cutoff=_ALIKE) if name.startswith("--") else ""
    return f"there is no option {name}{f'; {advice}' if advice else ''}"
