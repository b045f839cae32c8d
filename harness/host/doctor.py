"""The doctor: the checks of a host, which are found in `checks`, and their findings.

A check is a function in a module of `checks`, made a record by `check`. Another distribution adds one by an entry point
of the group `unperturbed.host_checks`, which names such a record.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from unperturbed.common import supervision
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
    host = detect_host(root)
    found = records_in("unperturbed.harness.host.checks", HostCheck, group="unperturbed.host_checks")
    checks = sorted(found.values(), key=lambda one: one.rank)

    def findings(heading: Heading) -> tuple[Finding, ...]:
        each = (one.examine(host) for one in checks if one.heading == heading)
        return tuple(finding for finding in each if finding is not None)

    noise = findings("noise")  # first, as the programs that other checks start are work too
    counting = findings("counting")
    return Examination(counting, (*noise, *pyperf_findings(ask_pyperf(), noise)) if root == REAL else noise)


_ANSWER_TIME_S = 20
_PYPERF_EXIT_CODES = (0, 1, 2)
"""Ready; checks that failed; advice."""

_SAME_AS_PYPERF: Mapping[str, str] = MappingProxyType(
    {
        "CPU scaling governor": "governor",
        "Turbo Boost": "turbo",
        "Linux scheduler": "isolation",
        "ASLR": "layout",
        "Power supply": "power",
    }
)
"""Checks of pyperf's, each with the subject here that says the same."""

_PYPERF_TUNE = "python -m pyperf system tune"


@dataclass(frozen=True)
class PyperfAnswer:
    """What pyperf reports about a host."""

    # advice, errors: Its advice, and the checks that failed, in its own words.
    advice: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    problem: str = ""  # Why it gave no answer; empty when it did


def ask_pyperf() -> PyperfAnswer:
    """Have pyperf look at this host; it changes nothing."""
    command = [sys.executable, "-m", "pyperf", "system", "show"]
    try:
        shown = supervision.run(command, capture_output=True, text=True, timeout=_ANSWER_TIME_S)
    except subprocess.TimeoutExpired:
        return PyperfAnswer(problem=f"no answer within {_ANSWER_TIME_S} s")
    if shown.returncode not in _PYPERF_EXIT_CODES or "System state" not in shown.stdout:
        return PyperfAnswer(problem=(shown.stderr or shown.stdout).strip()[-200:] or f"exit code {shown.returncode}")
    return read_pyperf_answer(shown.stdout)


def read_pyperf_answer(output: str) -> PyperfAnswer:
    """Parse what `pyperf system show` prints: titles underlined by `=`, below them one line an item."""
    sections: dict[str, list[str]] = {}
    lines = output.splitlines()
    section: list[str] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and set(following) == {"="}:
            section = sections.setdefault(line, [])
        elif not line:
            section = section if not section else []
        elif set(line) != {"="}:
            section.append(line)
    return PyperfAnswer(tuple(sections.get("Advices", ())), tuple(sections.get("Errors", ())))


def pyperf_findings(answer: PyperfAnswer, others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Turn pyperf's words into findings; faults among `others` are not repeated."""
    if answer.problem:
        return (Finding("pyperf", "note", f"pyperf's checks could not be made: {answer.problem}"),)
    reported = {finding.subject for finding in others if finding.status != "good"}
    new = [
        line
        for line in answer.advice
        if not any(line.startswith(check) and reported & {same} for check, same in _SAME_AS_PYPERF.items())
    ]
    if not new and not answer.errors:
        return (Finding("pyperf", "good", "pyperf's own checks have nothing to add"),)
    return tuple(
        [Finding("pyperf", "note", line, "Advice of pyperf's checks.", _mend_by_pyperf(line)) for line in new]
        + [Finding("pyperf", "note", line, "A check of pyperf's that failed.") for line in answer.errors]
    )


def _mend_by_pyperf(advice: str) -> str | None:
    if advice.startswith("Perf event: Set max sample rate"):
        return "sysctl kernel.perf_event_max_sample_rate=1"
    # What pyperf wants on the kernel's command line, no command of its own changes.
    return None if advice.startswith(("Linux scheduler", "Check nohz_full")) else _PYPERF_TUNE
