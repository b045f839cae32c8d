"""The doctor: a host as described by /proc and /sys (or a recorded tree of them), its checks, and their findings.

Other distributions add checks with entry points of the group `unperturbed.host_checks`, each naming a `HostCheck`.
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
    """Return a file's content without surrounding white space; None if the file cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:  # some files of sysfs exist but cannot be read: treat them as missing
        return None


def number(file: Path) -> int | None:
    """Return the integer in a file; None if there is none."""
    content = text(file)
    return int(content) if content is not None and re.fullmatch(r"-?\d+", content) else None


def cpu_list(listed: str) -> tuple[int, ...]:
    """Return the CPUs in a kernel's list such as `0-3,8`, in ascending order."""
    cpus: set[int] = set()
    for part in filter(None, listed.replace("\n", "").split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def ranges(cpus: Iterable[int]) -> str:
    """Format CPUs as the kernel lists them: the inverse of `cpu_list`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def field(file: Path, name: str) -> str | None:
    """Return a name's first value in a file with lines `name: value`."""
    match = re.search(rf"^{re.escape(name)}[ \t]*:(.*)$", text(file) or "", re.MULTILINE)
    return None if match is None else match[1].strip()


def own_cpus(root: Path) -> tuple[int, ...]:
    """Return the CPUs that this process, and therefore the measured program, may run on."""
    allowed = field(root / "proc/self/status", "Cpus_allowed_list")
    return cpu_list(allowed if allowed is not None else text(root / "sys/devices/system/cpu/online") or "0")


def find_tool(root: Path, name: str) -> Path | None:
    """Return the path of a program on the PATH, below a root; None if it is not installed."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        file = root / folder.lstrip("/") / name
        # Not Path.is_file, which raises where a folder on the way may not be entered.
        if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113
            return file
    return None


@dataclass(frozen=True)
class Host:
    """Host, and the layers between this process and the processor.

    Attributes
    ----------
    root : Path
        Folder that contains the host's /proc, /sys and programs: `REAL`, or a recorded tree.
    virtual_machine : bool
        Whether this kernel runs on a hypervisor.
    container : str or None
        Manager of this process's container (`docker`, `podman`, `kubernetes`, …); None without a container.
    user_namespace : bool
        Whether capabilities are only those of a user namespace, which do not allow counting.
    filtered : bool
        Whether a seccomp filter inspects every system call.
    may_count : bool
        Whether the process has CAP_PERFMON or CAP_SYS_ADMIN of the host itself.
    may_hurry : bool
        Whether the process has CAP_SYS_NICE, and therefore may have real-time priority.
    """

    root: Path
    virtual_machine: bool
    container: str | None
    user_namespace: bool
    filtered: bool
    may_count: bool
    may_hurry: bool


def detect_host(root: Path) -> Host:
    """Detect the virtual machine, container and capabilities of the process whose /proc and /sys are below a root."""
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
    # Other architectures have no such flag: only firmware may show a hypervisor.
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
"""`note`: has a cost, or is worth knowing. `bad`: prevents counting, or spoils measurements."""


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes
    ----------
    subject : str
        What was checked: a short name that stays the same between versions of this tool (`PMU`, `governor`, …).
    status : Status
        Whether the finding helps or harms measurements.
    what : str
        What was found, as one sentence.
    why : str
        The consequence for a measurement.
    mend : str, optional
        Command that fixes the problem; None if there is no problem, or no command can fix it.
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
        Group of findings in which the doctor shows this one.
    rank : int
        Position of the finding in its group.
    examine : callable
        `examine(host)` returns the finding, or None if the host has nothing to check. It changes nothing.
    """

    name: str
    heading: Heading
    rank: int
    examine: _Examine


def check(name: str, heading: Heading, *, rank: int) -> Callable[[_Examine], HostCheck]:
    """Return a decorator that turns a function of a host into a `HostCheck`."""
    return lambda examine: HostCheck(name, heading, rank, examine)


@dataclass(frozen=True)
class Examination:
    """Findings: what can be counted, and what causes noise."""

    counting: tuple[Finding, ...]
    noise: tuple[Finding, ...]


def examine(root: Path = REAL) -> Examination:
    """Examine a host without changing anything; on a live host, this takes about 1.5 s.

    On a recorded tree, libpapi's report, busy processes and pyperf's checks are left out.
    """
    host = detect_host(root)
    registered = records_in("unperturbed.harness.host.checks", HostCheck, group="unperturbed.host_checks")
    checks = sorted(registered.values(), key=lambda host_check: host_check.rank)

    def findings(heading: Heading) -> tuple[Finding, ...]:
        each = (host_check.examine(host) for host_check in checks if host_check.heading == heading)
        return tuple(finding for finding in each if finding is not None)

    noise = findings("noise")  # first, because the programs that other checks start cause load, too
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
"""pyperf's checks, each with the subject of the equivalent check here."""

_PYPERF_TUNE = "python -m pyperf system tune"


@dataclass(frozen=True)
class PyperfAnswer:
    """pyperf's report on a host."""

    # advice, errors: pyperf's advice and failed checks, in its own words.
    advice: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    problem: str = ""  # Why pyperf gave no answer; empty if it did


def ask_pyperf() -> PyperfAnswer:
    """Run pyperf's checks of this host, which change nothing."""
    command = [sys.executable, "-m", "pyperf", "system", "show"]
    try:
        shown = supervision.run(command, capture_output=True, text=True, timeout=_ANSWER_TIME_S)
    except subprocess.TimeoutExpired:
        return PyperfAnswer(problem=f"no answer within {_ANSWER_TIME_S} s")
    if shown.returncode not in _PYPERF_EXIT_CODES or "System state" not in shown.stdout:
        return PyperfAnswer(problem=(shown.stderr or shown.stdout).strip()[-200:] or f"exit code {shown.returncode}")
    return read_pyperf_answer(shown.stdout)


def read_pyperf_answer(output: str) -> PyperfAnswer:
    """Parse the output of `pyperf system show`: titles underlined with `=`, each followed by one line per item."""
    sections = dict(re.findall(r"^(.+)\n=+\n\n*((?:.+\n?)*)", output, re.MULTILINE))
    advice, errors = (tuple(sections.get(title, "").splitlines()) for title in ("Advices", "Errors"))
    return PyperfAnswer(advice, errors)


def pyperf_findings(answer: PyperfAnswer, others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Turn pyperf's report into findings, leaving out problems that are already among `others`."""
    if answer.problem:
        return (Finding("pyperf", "note", f"pyperf's checks could not run: {answer.problem}"),)
    reported = {finding.subject for finding in others if finding.status != "good"}
    new = [
        line
        for line in answer.advice
        if not any(line.startswith(check) and reported & {same} for check, same in _SAME_AS_PYPERF.items())
    ]
    if not new and not answer.errors:
        return (Finding("pyperf", "good", "pyperf's own checks found nothing else"),)
    return tuple(
        [Finding("pyperf", "note", line, "This is advice from pyperf's checks.", _mend_by_pyperf(line)) for line in new]
        + [Finding("pyperf", "note", line, "This check of pyperf failed.") for line in answer.errors]
    )


def _mend_by_pyperf(advice: str) -> str | None:
    if advice.startswith("Perf event: Set max sample rate"):
        return "sysctl kernel.perf_event_max_sample_rate=1"
    # pyperf has no command that changes the kernel's command line.
    return None if advice.startswith(("Linux scheduler", "Check nohz_full")) else _PYPERF_TUNE
