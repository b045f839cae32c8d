"""Where and when the campaigns behind a page of evidence ran: host, dates, load of the host, version of this tool."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.host.state import describe

MANIFEST = "campaign.sqlite"

_CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Provenance:
    """Where and when one campaign ran."""

    host: str  # Processor, kernel and virtual machine
    # first, last: Day on which its first and its last run began, ISO 8601.
    first: str
    last: str
    loads: tuple[float, ...]  # Load average of the last minute before each run. The campaign's own runs are part of it.
    version: str  # Of this tool


def provenance_of(campaign: Path) -> Provenance:
    """Read where and when a campaign ran."""
    with Manifest(campaign / MANIFEST, read_only=True) as manifest:
        description = manifest.required_fact("description")
        done = manifest.runs("done")
    days = sorted(str(run.started)[:10] for run in done)
    return Provenance(
        host=_host_of(description),
        first=days[0],
        last=days[-1],
        loads=tuple(float(run.host_before["load_1min"]) for run in done if run.host_before),
        version=str(description["packages"]["unperturbed"]),
    )


def made_by() -> str:
    """Return the line that each page of evidence has: command, commit, date, version, host and load.

    Call it before the measurement: the load of the last minute is then that of other work.
    `tools/checks/evidence.py` looks for this line.

    Result: One sentence. The commit ends in `-dirty` if tracked code differs from it.
    """
    description = describe(())
    return (
        f"Made by `{_command()}` at commit {_commit()} on {date.today().isoformat()} with version "
        f"{description['packages']['unperturbed']} on {_host_of(description)}, {os.cpu_count()} processors, at a load "
        f"average of {os.getloadavg()[0]:.1f} before it began."
    )


def _command() -> str:
    """Return the command that started this process, as it is typed in the checkout."""
    spec = sys.modules["__main__"].__spec__
    script = ["-m", spec.name] if spec else [os.path.relpath(sys.argv[0], _CHECKOUT)]
    return shlex.join(["python", *script, *sys.argv[1:]])


def _commit() -> str:
    """Return the commit that is checked out, marked if code differs from it; pages and data may differ."""
    head = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.c", "*.h", "*.yaml")
    return f"{head}-dirty" if head and changed else head or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _host_of(description: Mapping[str, Mapping[str, str]]) -> str:
    host = description["host"]
    machine = host.get("virtual machine", "unknown")
    inside = "" if machine in ("none", "unknown") else f", virtual machine ({machine})"
    return f"{description['processor']['model']}, {' '.join(host['kernel'].split()[:2])}{inside}"


def recorded(campaigns: Iterable[Path]) -> str:
    """Return the sentences that a page of evidence says of its campaigns: host, date, load, version.

    Result: One sentence for each host and version; empty without a campaign.
    """
    provenances = [provenance_of(folder) for folder in campaigns if (folder / MANIFEST).exists()]
    sentences = []
    for host, version in dict.fromkeys((provenance.host, provenance.version) for provenance in provenances):
        alike = [provenance for provenance in provenances if (provenance.host, provenance.version) == (host, version)]
        first, last = min(provenance.first for provenance in alike), max(provenance.last for provenance in alike)
        when = f"on {first}" if first == last else f"from {first} to {last}"
        loads = [load for provenance in alike for load in provenance.loads]
        load = f", at a load average of {np.median(loads):.1f} (at most {max(loads):.1f})" if loads else ""
        sentences.append(f"Recorded {when} with version {version} on {host}{load}.")
    return " ".join(sentences)
