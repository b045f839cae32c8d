"""What a campaign would do: its passes, configurations, builds, runs and time, without building or running anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from unperturbed.common.wording import BAD, NOTE, counted, duration, visible
from unperturbed.harness.campaign.execution import CAMPAIGN, SWEEP, check_owner
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.host.doctor import examine
from unperturbed.harness.nodes.kinds import SWEEPS
from unperturbed.harness.nodes.shares import NODES
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import PILOT
from unperturbed.harness.studies.readiness import Readiness, check_spec

_COMMANDS = ("build", "prepare", "run")
"""The keys of `program:` that are commands, in the order in which they are executed."""


def show_plan(spec: CampaignSpec, folder: Path, *, as_json: bool) -> int:
    """Print the plan of a campaign; return 0, or what the campaign would be refused with.

    `folder`: The campaign's folder, which need not be there. What an earlier session left there is counted.
    """
    if (folder / "campaign.sqlite").is_file():
        with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
            check_owner(manifest, spec, _purpose(spec))
    ready = check_spec(spec, examine())
    done, seconds = _known(folder, spec)
    left = _seconds_left(ready, done, seconds)
    described = {
        "name": spec.name,
        "campaign": str(folder),
        "can_run": not ready.problems,
        "problems": [problem.finding.what for problem in ready.problems],
        "passes": [
            {"name": item.name, "source": item.source, "metrics": [metric.name for metric in item.metrics]}
            for item in ready.passes.passes
        ],
        "commands": _commands(spec),
        "builds": _builds(ready),
        "configurations": dict(ready.planned),
        "runs": ready.runs,
        "done": done,
        "seconds": left,
    }
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
    else:
        _show(ready, described)
        if spec.nodes is not None:
            count = counted(spec.nodes.count, "node")
            terminal().print(f"{count} ({spec.nodes.engine}) share these runs; the plan above is that of this host")
    return ready.exit_code


def _purpose(spec: CampaignSpec) -> str:
    if spec.nodes is not None:
        return SWEEPS.whole if spec.parameters else NODES
    return SWEEP if spec.parameters else CAMPAIGN


def _commands(spec: CampaignSpec) -> dict[str, str]:
    """Return every command that the campaign would execute, as the spec has it: its key → the command."""
    written: dict[str, str | None] = {f"program.{key}": getattr(spec.program, key) for key in _COMMANDS}
    for name, other in spec.programs.items():
        written |= {f"programs.{name}.{key}": getattr(other, key) for key in ("build", "run")}
    return {key: command for key, command in written.items() if command is not None}


def _builds(ready: Readiness) -> dict[str, list[str]]:
    """Return the metrics that are compiled into each build; none for a program that is not built here."""
    campaign = ready.spec
    if campaign.program.build is None:
        return {}
    compiled = {name for name, event in campaign.measure.software.items() if event.means == "compiled"}
    return {
        "reference": [],
        **{
            item.name: [name for name in item.inert or item.software if name in compiled]
            for item in ready.configurations
        },
    }


def _known(folder: Path, spec: CampaignSpec) -> tuple[int, Mapping[str, float]]:
    """Return how many runs are done, and the seconds of a run of each pass, by an earlier session of this spec."""
    if not (folder / "campaign.sqlite").is_file():
        return 0, {}
    with Manifest(folder / "campaign.sqlite") as manifest:
        if manifest.fact("spec_digest") != spec.digest:
            return 0, {}
        passes = [str(item["name"]) for item in manifest.fact("passes") or ()]
        facts = {name: manifest.fact(f"{PILOT}:{name}") for name in passes}
        return len(manifest.runs("done")), {name: fact["seconds"] for name, fact in facts.items() if fact}


def _seconds_left(ready: Readiness, done: int, seconds: Mapping[str, float]) -> float | None:
    if not seconds or not ready.runs:
        return None
    return max(ready.runs - done, 0) * sum(seconds.values()) / len(seconds)


def _show(ready: Readiness, described: Mapping[str, Any]) -> None:
    console = terminal()
    for key, command in described["commands"].items():
        console.print(f"command {escape(key)}: {escape(visible(command))}", soft_wrap=True)
    for item in described["passes"]:
        simulated = item["source"] == "simulated"
        source = "[bold yellow]simulated[/bold yellow] by callgrind" if simulated else item["source"]
        console.print(f"pass {item['name']}: {', '.join(item['metrics'])} — {source}", soft_wrap=True)
    for name, metrics in described["builds"].items():
        holds = f"with {', '.join(metrics)}" if metrics else "as it is"
        console.print(f"build {escape(name)}: {escape(holds)}", soft_wrap=True)
    if not described["builds"]:
        console.print("nothing is built")
    each = ", ".join(f"{name} {runs}" for name, runs in described["configurations"].items())
    done = f"; {described['done']} of them are done already" if described["done"] else ""
    console.print(f"[bold]{counted(described['runs'], 'run')}[/bold] ({escape(each)}){done}", soft_wrap=True)
    if described["seconds"] is not None:
        console.print(f"about [bold]{duration(described['seconds'], whole=True)}[/bold] to go")
    else:
        slow = any(item["source"] == "simulated" for item in described["passes"])
        each_run = (
            ("25 to 60 times as long as the program, because it is simulated") if slow else "as long as the program"
        )
        console.print(f"a run takes {each_run}; a pilot run will measure it")
    for problem in ready.problems:
        console.print(f"[bold red]{BAD}[/bold red] {escape(problem.finding.what)}", soft_wrap=True)
    if ready.no_verdict and not ready.problems:
        console.print(f"[yellow]{NOTE}[/yellow] {escape(ready.no_verdict)}", soft_wrap=True)
    console.print(f"campaign: {described['campaign']} (nothing was run or written)", soft_wrap=True)
