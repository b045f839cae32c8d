"""Pyperf's own checks of this host (`python -m pyperf system show`), and the findings from them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unperturbed.common import supervision
from unperturbed.harness.host.doctor import Finding

_ANSWER_TIME_S = 20
_EXIT_CODES = (0, 1, 2)
"""Ready; checks that failed; advice."""

_SAME: Mapping[str, str] = MappingProxyType(
    {
        "CPU scaling governor": "governor",
        "Turbo Boost": "turbo",
        "Linux scheduler": "isolation",
        "ASLR": "layout",
        "Power supply": "power",
    }
)
"""Checks of pyperf's, each with the subject here that says the same."""

_TUNE = "python -m pyperf system tune"


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
    if shown.returncode not in _EXIT_CODES or "System state" not in shown.stdout:
        return PyperfAnswer(problem=(shown.stderr or shown.stdout).strip()[-200:] or f"exit code {shown.returncode}")
    return read_answer(shown.stdout)


def read_answer(output: str) -> PyperfAnswer:
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
        if not any(line.startswith(check) and reported & {same} for check, same in _SAME.items())
    ]
    if not new and not answer.errors:
        return (Finding("pyperf", "good", "pyperf's own checks have nothing to add"),)
    return tuple(
        [Finding("pyperf", "note", line, "Advice of pyperf's checks.", _mend(line)) for line in new]
        + [Finding("pyperf", "note", line, "A check of pyperf's that failed.") for line in answer.errors]
    )


def _mend(advice: str) -> str | None:
    if advice.startswith("Perf event: Set max sample rate"):
        return "sysctl kernel.perf_event_max_sample_rate=1"
    # What pyperf wants on the kernel's command line, no command of its own changes.
    return None if advice.startswith(("Linux scheduler", "Check nohz_full")) else _TUNE
