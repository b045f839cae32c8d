"""The doctor: the checks of a host, which are found in `checks`, and their findings.

A check is a function in a module of `checks`, made a record by `check`. Another distribution adds one by an entry point
of the group `unperturbed.host_checks`, which names such a record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unperturbed.common.extensions import records_in
from unperturbed.harness.host.kernel_files import REAL, Host, detect_host

Status = Literal["good", "note", "bad"]
"""`note`: it costs something, or is worth knowing. `bad`: it prevents counting, or spoils measurements."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    subject : str
        What was looked at: a short name that stays the same between versions of this tool (`PMU`, `governor`, …).
    status : Status
        Whether it helps or harms measurements.
    what : str
        What was found, one sentence.
    why : str
        What that means for a measurement.
    mend : str, optional
        The command that mends it; None when nothing needs mending, or no command can.
    """

    subject: str
    status: Status
    what: str
    why: str = ""
    mend: str | None = None


Heading = Literal["counting", "noise"]
"""`counting`: what can be counted. `noise`: what disturbs measurements."""

_Examine = Callable[[Host], Finding | None]


@dataclass(frozen=True)
class HostCheck:
    """One check of a host.

    Attributes
    ----------
    name : str
        The subject of its finding.
    heading : Heading
        Where the finding is shown.
    rank : int
        The doctor shows the findings below a heading in this order.
    examine : callable
        `examine(host)` returns the finding, or None when the host has nothing to check. It changes nothing.
    """

    name: str
    heading: Heading
    rank: int
    examine: _Examine


def check(name: str, heading: Heading, *, rank: int) -> Callable[[_Examine], HostCheck]:
    """Make a function of a host a check; see `HostCheck`."""
    return lambda examine: HostCheck(name, heading, rank, examine)


@dataclass(frozen=True)
class Examination:
    """The findings: what can be counted, and what is noisy."""

    counting: tuple[Finding, ...]
    noise: tuple[Finding, ...]


def examine(root: Path = REAL) -> Examination:
    """Look at a host; nothing is changed.

    `root`: Folder below which its /proc, /sys and programs lie. On a recorded tree, what only a living host can answer
    (libpapi's own words, busy processes, pyperf's checks) is left out.

    Notes
    -----
    Takes about 1.5 s on a living host: half a second of it watches what else is running.
    """
    from unperturbed.harness.host.pyperf import ask_pyperf, pyperf_findings  # noqa: PLC0415  it uses `Finding`

    host = detect_host(root)
    found = records_in("unperturbed.harness.host.checks", HostCheck, group="unperturbed.host_checks")
    checks = sorted(found.values(), key=lambda one: one.rank)

    def findings(heading: Heading) -> tuple[Finding, ...]:
        each = (one.examine(host) for one in checks if one.heading == heading)
        return tuple(finding for finding in each if finding is not None)

    noise = findings("noise")  # first, as the programs that other checks start are work too
    counting = findings("counting")
    return Examination(counting, (*noise, *pyperf_findings(ask_pyperf(), noise)) if root == REAL else noise)
