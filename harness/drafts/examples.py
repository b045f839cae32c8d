"""Small specs with their programs: each shows one kind of campaign, and runs as it is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.common.wording import did_you_mean
from unperturbed.errors import SpecError

_FOLDER = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Example:
    """An example."""

    help: str  # What it shows, a clause
    program: str  # The folder of its program


EXAMPLES: Mapping[str, Example] = {
    "verdicts": Example("subsets of software metrics in a C program: which of them perturb it?", "phases"),
    "sweep": Example("the same program over its parameters: a table of runs for `unperturbed model`", "phases"),
    "python": Example("functions of a Python program, counted as it is", "book"),
}
"""The examples by name."""


def write_example(name: str, folder: Path) -> Path:
    """Write an example's spec, and its program beside it."""
    example = EXAMPLES.get(name)
    if example is None:
        there = f"there are {', '.join(EXAMPLES)}"
        raise SpecError(f"no example {name!r}; {did_you_mean(name, EXAMPLES, limit=1) or there}")
    spec, program = folder / f"{name}.yaml", folder / example.program
    if spec.exists():
        raise SpecError(f"{spec} already exists; give another folder with --out, or remove it")
    if not program.exists():  # two examples may share a program
        shutil.copytree(_FOLDER / example.program, program, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(_FOLDER / spec.name, spec)
    return spec
