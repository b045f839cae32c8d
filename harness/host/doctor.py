"""The doctor: a host by its files of /proc and /sys, or by a recorded tree of them, its checks, and their findings.

Another distribution adds a check by an entry point of the group `unperturbed.host_checks` that names a `HostCheck`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unperturbed.common import supervision
from unperturbed.common.extensions import records_in

REAL = Path("/")  # This host itself; any other root is a recorded tree

# Numbers of include/uapi/linux/capability.h.
_CAP_SYS_ADMIN = 21
_CAP_SYS_NICE = 23
_CAP_PERFMON = 38

_ALL_USERS = 4294967295  # Length of the only range in the user map of a host's own namespace

_MANAGERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)


def text(file: Path) -> str | None:
    """Return a file's content without white space at its ends; None when it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:  # some files of sysfs exist and cannot be read: the same as none for who asks
        return None


def number(file: Path) -> int | None:
    """Return the whole number in a file; None when there is none."""
    content = text(file)
    return int(content) if content is not None and re.fullmatch(r"-?\d+", content) else None


def cpu_list(listed: str) -> tuple[int, ...]:
    """Return the processors of a kernel's list such as `0-3,8`, in ascending order."""
    found: set[int] = set()
    for part in filter(None, listed.replace("\n", "").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def ranges(cpus: Iterable[int]) -> str:
    """Write processors as the kernel lists them: the inverse of `cpu_list`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def field(file: Path, name: str) -> str | None:
    """Return the first value of a name in a file with lines `name: value`."""
    found = re.search(rf"^{re.escape(name)}[ \t]*:(.*)$", text(file) or "", re.MULTILINE)
    return None if found is None else found[1].strip()


def own_cpus(root: Path) -> tuple[int, ...]:
    """Return the processors that this process, and so the measured program, may run on."""
    allowed = field(root / "proc/self/status", "Cpus_allowed_list")
    return cpu_list(allowed if allowed is not None else text(root / "sys/devices/system/cpu/online") or "0")


def find_tool(root: Path, name: str) -> Path | None:
    """Return where a program is on the PATH below a root; None when it is not installed."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        file = root / folder.lstrip("/") / name
        # Not Path.is_file, which raises where a folder on the way may not be entered.
        if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113
            return file
    return None


@dataclass(frozen=True)
class Host:
    """A host, and what is between this process and its processor.

    Attributes
    ----------
    root : Path
        Folder below which its /proc, /sys and programs lie: `REAL`, or a recorded tree.
    virtual_machine : bool
        Whether a hypervisor runs below this kernel.
    container : str or None
        What manages the container that this process is in (`docker`, `podman`, `kubernetes`, …); None outside of one.
    user_namespace : bool
        Whether rights are those of a user namespace, which the kernel's counters do not honour.
    filtered : bool
        Whether a seccomp filter inspects every system call.
    may_count : bool
        Whether the process has CAP_PERFMON or CAP_SYS_ADMIN of the host itself.
    may_hurry : bool
        Whether it has CAP_SYS_NICE, and so may have real-time priority.
    """

    root: Path
    virtual_machine: bool
    container: str | None
    user_namespace: bool
    filtered: bool
    may_count: bool
    may_hurry: bool


def detect_host(root: Path) -> Host:
    """Detect virtual machine, container and rights of the process whose /proc and /sys are below a root."""
    status = root / "proc/self/status"
    capabilities = int(field(status, "CapEff") or "0", 16)
    user_map = (text(root / "proc/self/uid_map") or "").split()
    nested = bool(user_map) and user_map[-1] != str(_ALL_USERS)

    def has(*wanted: int) -> bool:
        return not nested and any(capabilities >> capability & 1 for capability in wanted)

    return Host(
        root=root,
        virtual_machine=_virtual_machine(root),
        container=_container(root),
        user_namespace=nested,
        filtered=field(status, "Seccomp") == "2",
        may_count=has(_CAP_PERFMON, _CAP_SYS_ADMIN),
        may_hurry=has(_CAP_SYS_NICE),
    )


def _virtual_machine(root: Path) -> bool:
    flags = field(root / "proc/cpuinfo", "flags")
    if flags is not None:
        return "hypervisor" in flags.split()
    # Other architectures have no such flag: firmware says it, or nobody does.
    vendor = text(root / "sys/class/dmi/id/sys_vendor") or ""
    hypervisor = (root / "sys/hypervisor/type").exists() or (root / "proc/device-tree/hypervisor").exists()
    return hypervisor or bool(re.match(r"QEMU|VMware|Xen|Amazon EC2|Microsoft|innotek|Parallels|Google", vendor))


def _container(root: Path) -> str | None:
    if (root / "run/.containerenv").exists():
        return "podman"
    groups = " ".join(text(root / "proc" / process / "cgroup") or "" for process in ("1", "self"))
    for trace, manager in _MANAGERS:
        if trace in groups:
            return manager
    return "docker" if (root / ".dockerenv").exists() else None


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


Heading = Literal["counting", "noise"]  # `counting`: what can be counted. `noise`: what disturbs measurements
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
    """Look at a host, which takes about 1.5 s on a living one; nothing is changed.

    On a recorded tree, libpapi's own words, busy processes and pyperf's checks are left out.
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
_PYPERF_EXIT_CODES = (0, 1, 2)  # Ready; checks that failed; advice

_SAME_AS_PYPERF: Mapping[str, str] = {
    "CPU scaling governor": "governor",
    "Turbo Boost": "turbo",
    "Linux scheduler": "isolation",
    "ASLR": "layout",
    "Power supply": "power",
}
"""Checks of pyperf's, each with the subject here that says the same."""

_PYPERF_TUNE = "python -m pyperf system tune"


@dataclass(frozen=True)
class PyperfAnswer:
    """The report of pyperf about a host."""

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
    sections = dict(re.findall(r"^(.+)\n=+\n\n*((?:.+\n?)*)", output, re.MULTILINE))
    advice, errors = (tuple(sections.get(title, "").splitlines()) for title in ("Advices", "Errors"))
    return PyperfAnswer(advice, errors)


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
