"""What the kernel and PAPI answer when events are tried: questions for `runtime/list.c`, its answers, and refusals in words that say what to do."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unperturbed.collectors.perf_names import GENERIC, PerfCode
from unperturbed.collectors.perf_sysfs import pmus
from unperturbed.collectors.runtime_build import build_list

__all__ = ["Answer", "Host", "KernelAnswers", "PapiAnswers", "ask_kernel", "ask_papi"]

_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_NO_PMU = "no PMU: the kernel offers no counters of the processor, as in most virtual machines"
_SECONDS = 20.0
_MOST_TOGETHER = 16
_FIT = (
    "instructions",
    "cycles",
    "branches",
    "branch-misses",
    "cache-references",
    "cache-misses",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "dTLB-loads",
    "dTLB-load-misses",
    "iTLB-load-misses",
)
_FIT_PRESETS = (  # as a rule one counter each; others may take several
    "PAPI_TOT_INS",
    "PAPI_TOT_CYC",
    "PAPI_BR_INS",
    "PAPI_BR_MSP",
    "PAPI_LD_INS",
    "PAPI_SR_INS",
    "PAPI_L1_ICM",
    "PAPI_L2_DCM",
    "PAPI_TLB_DM",
    "PAPI_TLB_IM",
)


@dataclass(frozen=True)
class Answer:
    """What came of one event: `reason` is `ok` or the library's own words, `code` its own number (or the number of events that fit)."""

    name: str
    reason: str
    code: int
    description: str = ""
    unit: str = ""

    @property
    def good(self) -> bool:
        """Tell whether the event can be counted."""
        return self.reason == "ok"


@dataclass(frozen=True)
class Host:
    """What decides how a refusal is said: the processor's PMUs, and perf_event_paranoid (empty where there is none)."""

    core_pmus: tuple[str, ...]
    paranoid: str

    @classmethod
    def read(cls, root: Path = Path("/")) -> Host:
        """Read both below `root`."""
        paranoid = root / "proc/sys/kernel/perf_event_paranoid"
        level = paranoid.read_text().strip() if paranoid.exists() else ""
        return cls(tuple(name for name, pmu in pmus(root).items() if pmu.core), level)

    def refusal(self, answer: Answer) -> str:
        """Return why the kernel refused an event and what to do; empty when it did not."""
        if answer.good:
            return ""
        if answer.code in _ABSENT:
            return "the processor has no such event" if self.core_pmus else _NO_PMU
        if answer.code in _REFUSED:
            return self.forbidden()
        if answer.code == errno.ENOSYS:
            return "the kernel has no perf_event_open, or a container hides it"
        return f"the kernel refuses it: {answer.reason}"

    def forbidden(self) -> str:
        """Return what forbids counting, and the command that allows it."""
        level = self.paranoid
        if level.removeprefix("-").isdigit() and int(level) <= 1:
            return f"not permitted although perf_event_paranoid is {level}: a container's seccomp profile or a security module forbids it"
        return f"not permitted: perf_event_paranoid is {level or 'unknown'}; allow counting with: sysctl kernel.perf_event_paranoid=1"


@dataclass(frozen=True)
class KernelAnswers:
    """What perf_event_open(2) answered, by metric name, and how many hardware events ran together."""

    events: Mapping[str, Answer]
    fit: Answer


@dataclass(frozen=True)
class PapiAnswers:
    """What PAPI answered.

    Attributes
    ----------
    version : of the library; empty when there is none.
    problem : why it could not be asked, or not to the end; empty when it was.
    presets, natives : as PAPI enumerates them, by name.
    named : other names that PAPI was asked for.
    components : each component that is off, with PAPI's own reason.
    fit : how many presets ran together; None when none can be counted.
    """

    version: str = ""
    problem: str = ""
    presets: Mapping[str, Answer] = field(default_factory=dict)
    natives: Mapping[str, Answer] = field(default_factory=dict)
    named: Mapping[str, Answer] = field(default_factory=dict)
    components: Mapping[str, str] = field(default_factory=dict)
    fit: Answer | None = None

    def refusal(self, answer: Answer | None, host: Host, kernel: KernelAnswers) -> str:
        """Return why PAPI does not count an event and what to do; empty when it does.

        A library that knows no processor as new as this one is told apart from a missing permission and from a missing PMU.
        """
        if answer is None:
            return self.problem or "this PAPI has no such event"
        if answer.good:
            return ""
        if "perf_event" in self.components and "disabled" in answer.reason:
            off = f"PAPI {self.version} has its perf_event component off ({self.components['perf_event']})"
            return f"{off}; {self._why_off(host, kernel)}"
        return f"PAPI {self.version}: {answer.reason}"

    def _why_off(self, host: Host, kernel: KernelAnswers) -> str:
        if "paranoid" in self.components["perf_event"]:  # PAPI reads the level itself, and gives up even where root may count
            return "allow counting with: sysctl kernel.perf_event_paranoid=1"
        if not host.core_pmus:
            return _NO_PMU
        if not kernel.fit.good and kernel.fit.code in _REFUSED:
            return host.forbidden()
        return "the kernel has counters, so this PAPI is older than the processor: source perf_event counts without it"


def ask_kernel(compiler: str, codes: Mapping[str, PerfCode]) -> KernelAnswers:
    """Open each event alone, then as many hardware events together as run all the time.

    Raises
    ------
    HostError
        No C compiler.
    """
    tries = [
        f"perf {code.type} {code.config} {code.config1} {code.config2} {code.user:d} {code.kernel:d} {name}"
        for name, code in codes.items()
    ]
    # Repeated, an event takes a further counter: the counters are filled on processors that have few of the events too.
    together = [GENERIC[name].code for name in (*_FIT, *("instructions",) * _MOST_TOGETHER)]
    fit = " ".join(f"{code.type} {code.config}" for code in together)
    answers, problem = _ask(compiler, [*tries, f"fit {fit}"])
    unanswered = Answer("", problem or "no answer", errno.EIO)
    events = {answer.name: answer for what, answer in answers if what == "perf"}
    return KernelAnswers(
        {name: events.get(name, unanswered) for name in codes},
        next((answer for what, answer in answers if what == "fit"), unanswered),
    )


def ask_papi(compiler: str, names: Sequence[str], library: str = "") -> PapiAnswers:
    """Let PAPI enumerate and try its events, try further names, and try how many presets run together.

    Parameters
    ----------
    compiler : C compiler for the program that asks.
    names : events that PAPI may know by a name that it does not enumerate.
    library : path of a PAPI library to prefer to the system's.

    Raises
    ------
    HostError
        No C compiler.
    """
    answers, problem = _ask(compiler, ["papi-enumerate", *(f"papi {name}" for name in names)], library)

    def of(what: str) -> dict[str, Answer]:
        return {answer.name: answer for kind, answer in answers if kind == what}

    version, loaded = next(iter(of("library").items()), ("", Answer("", problem or "no answer", -1)))
    if not loaded.good:
        return PapiAnswers(problem=loaded.reason)
    good = [name for name, answer in of("preset").items() if answer.good]
    together = [name for name in _FIT_PRESETS if name in good] + [name for name in good if name not in _FIT_PRESETS]
    fit = _ask(compiler, [f"papi-fit {' '.join(together[:_MOST_TOGETHER])}"], library)[0] if together else []
    return PapiAnswers(
        version,
        f"PAPI {version}: {problem}" if problem else "",
        of("preset"),
        of("native"),
        of("papi"),
        {name: answer.reason for name, answer in of("component").items() if not answer.good},
        next((answer for what, answer in fit if what == "papi-fit"), None),
    )


def _ask(compiler: str, questions: Sequence[str], library: str = "") -> tuple[list[tuple[str, Answer]], str]:
    """Run the listing program; return what it answered, and why it did not come to its end (a library may crash in it, or hang)."""
    program = build_list(compiler)
    environment = {**os.environ, "UNPERTURBED_PAPI": library}
    asked = "".join(f"{question}\n" for question in questions).encode()
    problem = ""
    try:
        done = subprocess.run([program], input=asked, capture_output=True, timeout=_SECONDS, check=False, env=environment)
        output = done.stdout
        if done.returncode:
            problem = f"asking ended by signal {-done.returncode}"
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        problem = f"no answer within {_SECONDS:g} s"
    answers = []
    for line in output.decode(errors="replace").splitlines():
        what, *fields = line.split("\t")
        if len(fields) == 5:
            name, reason, code, description, unit = fields
            answers.append((what, Answer(name, reason, int(code), description.strip(), unit)))
    return answers, problem
