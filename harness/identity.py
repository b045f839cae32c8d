"""What tells one measured program from another: runs of two programs do not compare."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from pathlib import Path

from unperturbed.harness.sources import source_files
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.placeholders import PARAMETER, PLACEHOLDERS, substitute
from unperturbed.harness.spec.program import PROGRAM_PATH
from unperturbed.instrument.toolchain import file_digest

__all__ = ["program_identity"]

_DIGITS = 16


def program_identity(campaign: Campaign, source: Path | None) -> str:
    """Name what a campaign measures: the same for all its configurations, and another as soon as what the user wrote is another.

    It is made of the content of the source and of the input files, the commands (in these, the content of the files that they name), the
    compilers' names and the environment. What instrumentation adds is no part of it, nor where anything lies.

    Parameters
    ----------
    campaign : the spec.
    source : folder of the source; None for a program that is taken as it is.

    Returns
    -------
    str
        The program's name, and a digest.
    """
    program = campaign.program
    content = hashlib.sha256()
    for file in () if source is None else source_files(source):
        content.update(json.dumps([os.path.relpath(file, source), *_of_file(file)]).encode())
    run = program.run.split() if program.shell else shlex.split(program.run)
    if source is None:
        run[0] = shutil.which(run[0], path=PROGRAM_PATH) or run[0]
    told = [
        [_word(campaign, word) for word in run],
        program.shell,
        program.working_folder,
        None if program.stdin is None else _word(campaign, program.stdin),
        {name: _word(campaign, value) for name, value in program.environment.items()},
        [file_digest(campaign.folder / name) for name in program.inputs],
        [_word(campaign, word) for word in shlex.split(program.prepare or "")],
        [] if program.build is None else [_word(campaign, program.build), dict(program.compilers)],
    ]
    content.update(json.dumps(told, sort_keys=True).encode())
    name = program.debian or (Path(run[0]).name if source is None else source.resolve().name)
    return f"{name} {content.hexdigest()[:_DIGITS]}"


def _of_file(file: Path) -> list[str | bool]:
    """Return what a build may see of a file: where a link leads; else its content, and whether it can be executed."""
    if file.is_symlink():
        return [str(file.readlink())]
    return [file_digest(file), os.access(file, os.X_OK)] if file.is_file() else ["special"]


def _word(campaign: Campaign, text: str) -> str:
    """Return a word of a command; of a file, wherever it lies, the content."""
    names = (*PLACEHOLDERS, *(f"{PARAMETER}{name}" for name in campaign.parameters))
    known = {name: f"{{{name}}}" for name in names} | {"spec": str(campaign.folder)}
    word = substitute(text, known)
    named = word.startswith("/") and os.access(word, os.R_OK) and Path(word).is_file()
    return file_digest(word) if named else word
