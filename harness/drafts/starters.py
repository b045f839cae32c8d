"""Specs to start from: a draft to complete, guessed from a folder of source code, and examples that run unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError
from unperturbed.harness.drafts.folders import called_functions, find_build
from unperturbed.harness.drafts.metrics import choose_hardware
from unperturbed.harness.drafts.saving import commented, quoted, quoted_list


def describe_source(folder: Path, spec: Path, name: str) -> str:
    """Return a draft spec (YAML) of a program in a folder of source code; `spec` is the path it will have."""
    build = find_build(folder)
    hardware = choose_hardware()
    here = spec.absolute().parent
    source = folder.absolute()
    named = str(source.relative_to(here)) if source != here and source.is_relative_to(here) else str(source)
    functions = called_functions(folder)
    head = (
        f"A campaign on {folder.resolve().name}: which metrics does measuring change? Complete this spec, then type\n\n"
        f"    unperturbed sites {spec.name}     where each software metric counts\n"
        f"    unperturbed run {spec.name}\n\n"
        "`unperturbed schema` prints a JSON Schema for editors; docs/reference/spec.md describes every key."
    )
    lines = [
        commented(head),
        f"name: {quoted(name)}",
        "",
        "program:",
        f"  source: {quoted(named)}       # copied for each build, never written to",
        f"  # guessed from {build.by}; {{cc}} and {{cxx}} are the compilers that add the counters",
        f"  build: {quoted(build.command)}",
        f"  run: {quoted('{build}/' + build.program)}       # add arguments, or stdin: FILE",
        *(["  shell: true"] if build.shell else []),
        "  # inputs: [corpus.txt]       # copied into {inputs}",
        "  # result: any                # for a program that prints times or addresses",
        "",
        "measure:",
        "  interval: {records: 200}     # a pilot run determines the length; `interval: 20 ms` sets it",
        f"  # {hardware.why}; `unperturbed metrics` lists all metrics",
        f"  hardware: {quoted_list(hardware.names)}",
        "  # Choose what to count in the program. Functions that its source calls at most places:",
        "  # software:",
        *(f"  #   {name}_entered: {{enter: {name}}}" for name in functions or ["function"]),
        "",
        "campaign:",
        "  baseline_runs: 10            # with hardware metrics only",
        "  runs: 5                      # of each configuration with software metrics",
        "  seed: 1",
        "",
        "# analysis:",
        "#   # a counter with a few hundred events per run, to align runs by",
        f"#   anchor: {(functions or ['function'])[0]}_entered",
    ]
    return "\n".join(lines) + "\n"


_EXAMPLES_FOLDER = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Example:
    """Example spec with its program."""

    help: str  # What the example shows, as a clause
    program: str  # The folder of its program


EXAMPLES: Mapping[str, Example] = {
    "verdicts": Example("subsets of software metrics in a C program: which of them perturb it?", "phases"),
    "sweep": Example("the same program with varied parameters: a table of runs for `unperturbed model`", "phases"),
    "python": Example("functions of a Python program, counted without changing the program", "book"),
}


def write_example(name: str, folder: Path) -> Path:
    """Write an example's spec, and its program beside it."""
    example = EXAMPLES.get(name)
    if example is None:
        there = f"use {listing(EXAMPLES, 'or')}"
        raise SpecError(f"no example {name!r}; {did_you_mean(name, EXAMPLES, limit=1) or there}")
    spec, program = folder / f"{name}.yaml", folder / example.program
    if spec.exists():
        raise SpecError(f"{spec} already exists: remove it, or give a different folder with --out")
    if not program.exists():  # two examples may share a program
        shutil.copytree(_EXAMPLES_FOLDER / example.program, program, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(_EXAMPLES_FOLDER / spec.name, spec)
    return spec
