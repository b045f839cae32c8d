"""Where and when the campaigns behind a page of evidence ran: host, dates, load of the host, version of this tool."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from unperturbed.harness.campaign import Manifest
from unperturbed.harness.host.state import describe

MANIFEST = "campaign.sqlite"


@dataclass(frozen=True)
class Provenance:
    """Where and when one campaign ran.

    Attributes
    ----------
    host : str
        Processor, kernel and virtual machine.
    first, last : str
        Day on which its first and its last run began, ISO 8601.
    loads : tuple of float
        Load average of the last minute before each run. The campaign's own runs are part of it.
    version : str
        Of this tool.
    """

    host: str
    first: str
    last: str
    loads: tuple[float, ...]
    version: str


def provenance_of(campaign: Path) -> Provenance:
    """Read where and when a campaign ran.

    Parameters
    ----------
    campaign : Path
        The campaign's folder; some run has ended.

    Returns
    -------
    Provenance
        Of its runs that are done.
    """
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


def made_here(command: str = "") -> str:
    """Return the sentence that a page of evidence says of what this process measured: when, with what, and where.

    Parameters
    ----------
    command : str, default ""
        What made it, for the page's reader to type.

    Returns
    -------
    str
        One sentence: command, date, version, commit, host, load. The load is that of the last minute; before a
        measurement it is other work's.
    """
    description = describe(())
    return (
        f"Made {f'by `{command}` ' if command else ''}on {date.today().isoformat()} with version "
        f"{description['packages']['unperturbed']} at commit {checkout_commit()} on {_host_of(description)}, at a load "
        f"average of {os.getloadavg()[0]:.1f} before it began."
    )


def checkout_commit() -> str:
    """Return the commit that is checked out, and whether code differs from it; `unknown` outside a checkout.

    Returns
    -------
    str
        Abbreviated. Changes of what evaluations write themselves, `docs` and data, do not count.
    """
    found = _git("rev-parse", "--short", "HEAD")
    if not found:
        return "unknown"
    changed = _git("status", "--porcelain", "--", *(f":(top)*.{kind}" for kind in ("py", "c", "h", "yaml")))
    return f"{found} (with changes)" if changed else found


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def _host_of(description: Mapping[str, Mapping[str, str]]) -> str:
    host = description["host"]
    machine = host.get("virtual machine", "unknown")
    inside = "" if machine in ("none", "unknown") else f", virtual machine ({machine})"
    return f"{description['processor']['model']}, {' '.join(host['kernel'].split()[:2])}{inside}"


def recorded(campaigns: Iterable[Path]) -> str:
    """Return the sentences that a page of evidence says of its campaigns: host, date, load, version.

    Parameters
    ----------
    campaigns : iterable of Path
        Folders of campaigns. Those that do not exist are passed over.

    Returns
    -------
    str
        One sentence for each host and version; empty without a campaign.
    """
    found = [provenance_of(folder) for folder in campaigns if (folder / MANIFEST).exists()]
    sentences = []
    for host, version in dict.fromkeys((one.host, one.version) for one in found):
        alike = [one for one in found if (one.host, one.version) == (host, version)]
        first, last = min(one.first for one in alike), max(one.last for one in alike)
        when = f"on {first}" if first == last else f"from {first} to {last}"
        loads = [load for one in alike for load in one.loads]
        load = f", at a load average of {np.median(loads):.1f} (at most {max(loads):.1f})" if loads else ""
        sentences.append(f"Recorded {when} with version {version} on {host}{load}.")
    return " ".join(sentences)
