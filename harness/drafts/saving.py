"""Keep the spec of a command, and its piped input, beside the campaign; repeating the command continues it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, dropwhile, takewhile
from pathlib import Path
from typing import BinaryIO

from unperturbed.common.wording import duration
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.summary import HOME

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|bash|dash|sh|zsh|node|lua|php|Rscript|julia)[0-9.]*")
_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".mjs", ".lua", ".php", ".R", ".jl")
_NO_SCRIPT = re.compile(r"-[A-Za-z]*[ceEmpr]$|--(eval|print|require|import|loader|rcfile|init-file)$")
"""Options of interpreters after which the next word is code, a module or another file."""
_WORDS_OF_YAML = re.compile(r"true|false|yes|no|on|off|null", re.IGNORECASE)


def quoted(text: str) -> str:
    """Return a text as a YAML scalar: plain if every parser reads it as text, else in double quotes."""
    if _PLAIN.fullmatch(text) and not _WORDS_OF_YAML.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def quoted_list(items: Iterable[str]) -> str:
    """Return names as a YAML list on one line."""
    return f"[{', '.join(map(quoted, items))}]"


def without_placeholders(text: str) -> str:
    """Escape the parts of a text that a spec would read as placeholders."""
    return re.sub(r"(?<!\$)\{((?:parameters\.)?\w+)\}", r"{{\1}}", text)


def missing_script(words: Sequence[str]) -> str:
    """Return the missing script that an interpreter is to run, also after `env NAME=VALUE`; '' if there is none."""
    if Path(words[0]).name == "env":
        words = list(dropwhile(lambda word: "=" in word, words[1:]))
    if not words or not _INTERPRETER.fullmatch(Path(words[0]).name):
        return ""
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    script = next(iter(words[1 + len(options) :]), "")
    if any(map(_NO_SCRIPT.match, options)) or Path(script).suffix not in _SCRIPTS or Path(script).exists():
        return ""
    return script


def called(words: Sequence[str]) -> str:
    """Return the name of a command's program, or of the script that an interpreter runs."""
    name = Path(words[0]).name
    script = Path(next((word for word in words[1:] if not word.startswith("-")), ""))
    if _INTERPRETER.fullmatch(name) and script.suffix in _SCRIPTS and script.is_file():
        return script.stem
    return name


def campaign_name(text: str) -> str:
    """Return a name for a campaign and its folder, derived from a file's name."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")
    return kept[:48] or "program"


def commented(text: str) -> str:
    """Return the lines of a text as YAML comments."""
    return "".join(f"# {line}\n" if line else "#\n" for line in text.splitlines())


@dataclass(frozen=True)
class Saved:
    """Path of a spec, and the folder of its campaign."""

    spec: Path  # The YAML file
    campaign: Path  # The campaign's folder, which may not exist yet
    name: str  # The campaign's name
    known: bool  # Whether the spec already exists

    @property
    def stdin(self) -> Path:
        """Return the path of the copy of piped standard input, beside the spec."""
        return self.spec.with_suffix(".stdin")


def find_place(name: str, command: str, folder: Path | None) -> Saved:
    """Return the path of a command's spec, existing or new: beside the campaign's folder if the user gave one."""
    for place in _places(name, folder):
        if _is_of(place.spec, command):
            return Saved(place.spec, place.campaign, place.name, known=True)
        if not place.spec.exists() and not place.campaign.exists():
            return place
    raise SpecError(
        f"{folder} or {folder}.yaml already exists and does not belong to this command: choose a different folder with "
        "--campaign"
    )


def command_of(spec: Path) -> str:
    """Return the command, typed in this folder, that a spec was written for; '' if there is none."""
    try:
        first = spec.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return ""
    start = commented(_typed("")).rstrip("\n")
    return first.removeprefix(start) if first.startswith(start) else ""


def head_of(command: str, spec: Path) -> str:
    """Return the comment at the start of a command's spec."""
    return (
        f"{_typed(command)}\n\nThis is the spec of that command. To change the campaign, edit this file, change its "
        f"`name`, and type\n\n    unperturbed run {spec}\n\n`unperturbed schema` prints a JSON Schema for editors; "
        "docs/reference/spec.md describes every key."
    )


def save(place: Saved, text: str) -> None:
    """Write a new spec; raise SpecError if the file exists or cannot be written."""
    try:
        place.spec.parent.mkdir(parents=True, exist_ok=True)
        with place.spec.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SpecError(
            f"{place.spec}: cannot write the spec ({error.strerror}); choose a different folder with --campaign"
        ) from None


@dataclass(frozen=True)
class AskedRuns:
    """A number of runs that an option asks for, of a command that has a spec already."""

    option: str  # The option, such as `--runs`
    number: int  # The number that it asks for
    made: int  # Runs already made of the configuration that has the most


def set_runs(spec: Path, asked: Mapping[str, AskedRuns], *, writes: bool = True) -> tuple[str, list[str]]:
    """Return a command's spec with other numbers of runs, and one sentence on each change; nothing is written.

    Runs that are made count, so no number becomes smaller than theirs.

    `asked`: By the spec's key. `writes`: Whether the caller writes the spec.
    """
    text, notes = spec.read_text(encoding="utf-8"), []
    for key, runs in asked.items():
        line, typed = re.search(rf"^(  {key}: *)(\d+)", text, re.MULTILINE), f"{runs.option} {runs.number}"
        if line is None:
            notes.append(f"{typed}: {spec} has no `{key}`, because it has no software metrics")
            continue
        before = int(line[2])
        # A plan may end before all its runs are made; the number of a finished campaign stays.
        number = runs.number if runs.number >= before else min(before, max(runs.number, runs.made))
        kept = f"; {runs.made} runs are already made, and they count" if number > runs.number else ""
        if number == before:
            if kept:
                notes.append(f"{typed}: {spec} still has {key}: {before}{kept}")
            continue
        text = f"{text[: line.start()]}{line[1]}{number}{text[line.end() :]}"
        has = "has" if writes else "would have"
        notes.append(f"{typed}: {spec} {has} {key}: {number} now ({before} before){kept}")
    return text, notes


def _places(name: str, folder: Path | None) -> Iterator[Saved]:
    if folder is not None:
        yield Saved(folder.with_name(f"{folder.name}.yaml"), folder, name, known=False)
        return
    for number in count(1):
        numbered = name if number == 1 else f"{name}-{number}"
        yield Saved(HOME / f"{numbered}.yaml", HOME / numbered, numbered, known=False)


def _typed(command: str) -> str:
    return f"Typed in {Path.cwd()}: {command}"


def _is_of(spec: Path, command: str) -> bool:
    try:
        return spec.read_text(encoding="utf-8").startswith(commented(_typed(command)))
    except (OSError, UnicodeDecodeError):
        return False


_STDIN = 0
_NONE = "null"
_WAIT_S = 2.0  # A pipe that is silent for so long is not meant as input: services and editors leave idle pipes open
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Piped:
    """Standard input, saved to a file."""

    content: BinaryIO  # The whole input, in a temporary file that is removed when closed
    digest: str  # First digits of its SHA-256

    def keep(self, path: Path) -> None:
        """Write the content to a file."""
        self.content.seek(0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                while chunk := self.content.read(_CHUNK):
                    file.write(chunk)
        except OSError as error:
            raise SpecError(
                f"{path}: cannot write the piped input ({error.strerror}); choose a different folder with --campaign"
            ) from None


def choose_stdin(asked: str) -> Path | None:
    """Return the file for standard input: `asked`, or for '' the file that stdin comes from; None for `null`."""
    if asked == _NONE:
        return None
    if asked:
        path = Path(asked).absolute()
        if not path.is_file():
            raise SpecError(f"--input {asked}: no such file; `--input {_NONE}` gives the program no input")
        return path
    try:
        path = Path(f"/proc/self/fd/{_STDIN}").readlink()
    except OSError:
        return None
    return path if path.is_absolute() and path.is_file() else None


def spool_stdin(say: Callable[[str], None]) -> Piped | None:
    """Read standard input to its end if it is a pipe; return None if it is not, or if nothing arrives."""
    try:
        if not stat.S_ISFIFO(os.fstat(_STDIN).st_mode):
            return None
    except OSError:  # stdin is closed
        return None
    if not select.select([_STDIN], [], [], _WAIT_S)[0]:
        say(
            f"standard input is a pipe, but nothing arrived for {duration(_WAIT_S)}, so the program gets no input; "
            "give a file with --input FILE, or confirm with --input null"
        )
        return None
    content = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the result is used
    digest = hashlib.sha256()
    while chunk := os.read(_STDIN, _CHUNK):
        digest.update(chunk)
        content.write(chunk)
    return Piped(content, digest.hexdigest()[:12]) if content.tell() else None
