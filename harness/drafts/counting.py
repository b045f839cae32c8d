"""Which calls a program really makes: a run of its own counts them, before a first campaign chooses what it counts.

A library function that a binary names need not be called with this input: gzip names malloc and calls it never.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.source import NONE
from unperturbed.errors import UnperturbedError
from unperturbed.harness.campaign.run import ProgramResult, Sampling, execute
from unperturbed.harness.program.process import program_command
from unperturbed.harness.program.software_metrics import find_software_metrics
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_INTERVAL_NS = 20_000_000
_CAPACITY = 1 << 17
MOST = 3
_OFTEN = 100
"""Rarer events leave most intervals without any."""
_MOST_FUNCTIONS = 12


@dataclass(frozen=True)
class Chosen:
    """What a first campaign counts."""

    metrics: tuple[str, ...]  # Names of software metrics, at most three
    said: str = ""  # What was left out and why, one sentence; empty where nothing was


def choose_counted(counts: Mapping[str, int]) -> Chosen:
    """Return the metrics that are worth counting: those that happen often, in the order of the candidates."""
    often = [name for name, count in counts.items() if count >= _OFTEN][:MOST]
    # Where nothing happens often, what happens at all still asks whether counting it disturbs.
    chosen = often or sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])[:MOST]
    never = [name for name, count in counts.items() if not count]
    rarely = [f"{name} ({count})" for name, count in counts.items() if 0 < count < _OFTEN and name not in chosen]
    parts = [
        *([f"never happens: {', '.join(never)}"] if never else []),
        *([f"rarely happens: {', '.join(rarely)}"] if rarely else []),
    ]
    return Chosen(tuple(chosen), f"not counted, as it {'; '.join(parts)}" if parts else "")


def count_once(spec: CampaignSpec, scratch: Path, exit_code: int) -> Mapping[str, int] | None:
    """Run a program once and return how often each software metric of its spec happened; None where that fails.

    `scratch`: An empty folder.
    """
    folder = scratch / "counted"
    folder.mkdir()
    command = program_command(spec, scratch=scratch, build=None, inputs=scratch)
    try:
        metrics = find_software_metrics(spec, spec.measure.software, command)
        sampling = Sampling(Pass("main", NONE, ()), metrics, _INTERVAL_NS, "monotonic", _CAPACITY, whole=True)
        trace = execute(
            spec,
            folder,
            sampling,
            build=None,
            inputs=scratch,
            expected=ProgramResult(exit_code, "any"),
            pad_bytes=0,
            attributes={"run": "counted", "configuration": "counted"},
        )
    except UnperturbedError:  # counting is a help: a campaign says in its own words what cannot be counted
        return None
    return {name: int(trace[name].sum()) for name in spec.measure.software}


def functions_of_script(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the functions of a Python script that `python script.py` runs, by their names in `__main__`."""
    if len(words) < 2 or not Path(words[0]).name.startswith("python") or not words[1].endswith(".py"):
        return ()
    try:
        tree = ast.parse((folder / words[1]).read_bytes())
    except (OSError, SyntaxError, ValueError):  # the interpreter says what is wrong with it
        return ()
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return tuple(f"__main__.{name}" for name in found[:_MOST_FUNCTIONS])
