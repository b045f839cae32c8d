"""The measured program's command: its words and its environment, with every placeholder filled in."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.placeholders import substitute
from unperturbed.harness.spec.program import PROGRAM_PATH

__all__ = ["ProgramCommand", "program_command"]


@dataclass(frozen=True)
class ProgramCommand:
    """The command of one run, before any sampler stands in front of it.

    Attributes
    ----------
    words : the program and its arguments; with `shell: true` those of /bin/sh.
    environment : the whole environment. folder : where it runs. stdin : file, or None for nothing.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    stdin: Path | None

    @property
    def binary(self) -> Path | None:
        """Return the file that is executed; None when there is none (it may be built or made later)."""
        found = shutil.which(self.words[0], path=self.environment["PATH"])
        return None if found is None else Path(found)

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Return the folders in which programs are looked for."""
        return tuple(Path(folder) for folder in self.environment["PATH"].split(":") if folder)

    @property
    def library_path(self) -> tuple[Path, ...]:
        """Return the folders of LD_LIBRARY_PATH, where libraries are looked for before all others."""
        return tuple(Path(folder) for folder in self.environment.get("LD_LIBRARY_PATH", "").split(":") if folder)


def program_command(campaign: Campaign, *, scratch: Path, build: Path | None, inputs: Path) -> ProgramCommand:
    """Return the command that runs the program; of a sweep, at the point where the campaign is (`Campaign.at_point`).

    Parameters
    ----------
    scratch : folder of the run alone. build : folder of the configuration's build, None when nothing is built.
    inputs : folder of the input files.
    """
    program = campaign.program
    known = {"scratch": str(scratch), "inputs": str(inputs), "spec": str(campaign.folder), **campaign.point}
    if build is not None:
        known |= {"build": str(build), "source": str(build)}
    words = (
        ("/bin/sh", "-c", substitute(program.run, known))
        if program.shell
        else tuple(substitute(word, known) for word in shlex.split(program.run))
    )
    environment = {
        "PATH": PROGRAM_PATH,
        "HOME": str(scratch),
        "LC_ALL": "C",
        **{name: substitute(value, known) for name, value in program.environment.items()},
    }
    stdin = None if program.stdin is None else Path(substitute(program.stdin, known))
    return ProgramCommand(words, environment, Path(substitute(program.working_folder, known)), stdin)
