"""Keep the spec of a command, and what was piped in, beside its campaign: the command typed again goes on with it."""

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
from itertools import count
from pathlib import Path
from typing import BinaryIO

from unperturbed.common.scratch import write_whole
from unperturbed.common.wording import duration
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.summary import HOME

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|bash|dash|sh|zsh|node|lua|php|Rscript|julia)[0-9.]*")
_SCRIPTS = (".py", ".pl", ".rb", ".sh", ".js", ".mjs", ".lua", ".php", ".R", ".jl")
_WORDS_OF_YAML = re.compile(r"true|false|yes|no|on|off|null", re.IGNORECASE)


def quoted(text: str) -> str:
    """Return a text as YAML: plain where any reader takes it for text, in double quotes else."""
    if _PLAIN.fullmatch(text) and not _WORDS_OF_YAML.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def quoted_list(items: Iterable[str]) -> str:
    """Return names as a YAML list in one line."""
    return f"[{', '.join(map(quoted, items))}]"


def without_placeholders(text: str) -> str:
    """Return a text in which nothing in braces is a placeholder of the spec."""
    return re.sub(r"(?<!\$)\{((?:parameters\.)?\w+)\}", r"{{\1}}", text)


def called(words: Sequence[str]) -> str:
    """Return what a command is called by: its program, or the script that an interpreter runs."""
    name = Path(words[0]).name
    script = Path(next((word for word in words[1:] if not word.startswith("-")), ""))
    if _INTERPRETER.fullmatch(name) and script.suffix in _SCRIPTS and script.is_file():
        return script.stem
    return name


def campaign_name(text: str) -> str:
    """Return a name for a campaign and its folder, made from a file's name."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")
    return kept[:48] or "program"


def commented(text: str) -> str:
    """Return lines as comments."""
    return "".join(f"# {line}\n" if line else "#\n" for line in text.splitlines())


@dataclass(frozen=True)
class Saved:
    """A spec on disk, and the folder of its campaign."""

    spec: Path  # The YAML file
    campaign: Path  # The campaign's folder, which may not be there yet
    name: str  # The campaign's name
    known: bool  # The spec was there already

    @property
    def stdin(self) -> Path:
        """Return where a copy of piped standard input is kept, beside the spec."""
        return self.spec.with_suffix(".stdin")


def find_place(name: str, command: str, folder: Path | None) -> Saved:
    """Return where the spec of a command is, or is to be; beside the campaign's folder where the user chose one."""
    for place in _places(name, folder):
        if _is_of(place.spec, command):
            return Saved(place.spec, place.campaign, place.name, known=True)
        if not place.spec.exists() and not place.campaign.exists():
            return place
    raise SpecError(f"{folder} or its spec {folder}.yaml already exists for another command: choose another folder")


def head_of(command: str, spec: Path) -> str:
    """Return the comment with which the spec of a command begins."""
    return (
        f"{_typed(command)}\n\nIt is the spec of that command. To change it, edit it, give it another name, and "
        f"type\n\n    unperturbed run {spec}\n\n`unperturbed schema` gives editors every key of a spec; "
        "docs/reference/spec.md describes them."
    )


def save(place: Saved, text: str) -> None:
    """Write a spec where there is none."""
    try:
        place.spec.parent.mkdir(parents=True, exist_ok=True)
        with place.spec.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SpecError(
            f"{place.spec}: cannot write the spec there ({error.strerror}); choose another place with --campaign"
        ) from None


def set_runs(spec: Path, wanted: Mapping[str, int], *, write: bool = True) -> tuple[str, list[str]]:
    """Ask for more runs in a spec written for a command; return its text, and a sentence on each change."""
    text, notes = spec.read_text(encoding="utf-8"), []
    for key, number in wanted.items():
        line = re.search(rf"^(  {key}: *)(\d+)", text, re.MULTILINE)
        if line is None:
            notes.append(f"{spec} has no `{key}`, as nothing in it is counted by software")
            continue
        if int(line[2]) >= number:
            if int(line[2]) > number:
                notes.append(
                    f"{spec} asks for {key}: {line[2]} already, and options can only increase it: edit the spec"
                )
            continue
        text = f"{text[: line.start()]}{line[1]}{number}{text[line.end() :]}"
        notes.append(f"{key} {'is' if write else 'would be'} {number} in {spec} now ({line[2]} before)")
    if write:
        write_whole(spec, text)
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
_WAIT_S = 2.0  # A pipe in which nothing arrives so long was not meant: services and editors leave an idle one open
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Piped:
    """Standard input, saved to a file."""

    content: BinaryIO  # All of it, in a file that is gone when it is closed
    digest: str  # Begin of its sha256

    def keep(self, path: Path) -> None:
        """Write it into a file."""
        self.content.seek(0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                while chunk := self.content.read(_CHUNK):
                    file.write(chunk)
        except OSError as error:
            raise SpecError(f"{path}: cannot keep the piped input there ({error.strerror})") from None


def choose_stdin(asked: str) -> Path | None:
    """Return the file that is read: `asked`, or by '' what stdin was redirected from; None for none (`null`)."""
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
    """Return what is piped into this process, as far as it is; None where standard input is not a pipe, or idle."""
    try:
        if not stat.S_ISFIFO(os.fstat(_STDIN).st_mode):
            return None
    except OSError:  # it is closed
        return None
    if not select.select([_STDIN], [], [], _WAIT_S)[0]:
        say(
            f"standard input is a pipe, in which nothing arrived for {duration(_WAIT_S)}: the program gets no input; "
            "give it a file with --input FILE, or use --input null"
        )
        return None
    content = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as what is returned
    digest = hashlib.sha256()
    while chunk := os.read(_STDIN, _CHUNK):
        digest.update(chunk)
        content.write(chunk)
    return Piped(content, digest.hexdigest()[:12]) if content.tell() else None
