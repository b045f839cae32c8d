"""What is run in the emulated machine: every case by name, with all that the tests must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.pmu.cases import Case
from unperturbed.collectors.records.file import OVERFLOW_SIGNAL, Setup
from unperturbed.collectors.sources import Event

MS = 1_000_000
INTERVAL_NS = 10 * MS
TURNS = 60_000_000
WORK = 4 * TURNS
"""Instructions of the measured program's loop, `work.c`; half a second of the machine's time."""
TEAM_TURNS = 10_000_000
TEAM_WORK = 4 * TEAM_TURNS
"""Instructions of each of the three loops of `team.c`."""
PERIOD = 10_000_000
"""Cycles after which an interval ends; the machine has 1,000 of them in a microsecond."""
SHORT_TURNS = 10_000_000
FEW_A_SECOND = 1000
"""Interrupts that the kernel lets an event make, where it shall throttle one."""
WRAPPING_TURNS = 600_000_000
"""More instructions than half the range of a counter of 32 bits, where the kernel has it wrap."""

CYCLES, INSTRUCTIONS = "PAPI_TOT_CYC", "PAPI_TOT_INS"
COUNTABLE = (
    *(CYCLES, INSTRUCTIONS, "PAPI_TOT_IIS", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_LD_INS", "PAPI_SR_INS", "PAPI_FP_INS"),
    *("PAPI_L1_DCM", "PAPI_L1_DCA", "PAPI_L1_DCR", "PAPI_L1_DCW", "PAPI_L1_ICM", "PAPI_L1_ICA", "PAPI_L2_DCM"),
    *("PAPI_L2_DCH", "PAPI_L2_DCR", "PAPI_L2_DCW", "PAPI_L2_LDM", "PAPI_L2_STM", "PAPI_VEC_INS"),
)
"""PAPI's presets of a Cortex-A57. The emulated one counts the first two, and accepts the others and leaves them at
zero."""
PROGRAMMABLE = COUNTABLE[1:8]
"""Seven presets that need a programmable counter; there are six, and one for cycles alone."""
ABSENT = "PAPI_L3_TCM"

HARDWARE = (Event("cycles", 0, 0), Event("instructions", 0, 1))
RAW = tuple(Event(f"r{code:02x}", 4, code) for code in (0x08, 0x11, 0x10, 0x12, 0x13, 0x04, 0x03, 0x16, 0x17))
"""Nine events by the processor's own numbers, the first instructions and the second cycles: more than there are
counters."""

SAMPLERS = ("inside", "outside")
SOURCES = ("papi", "perf_event")
LIBRARY = "/lib/aarch64-linux-gnu/libpapi.so.7.0"


def _setup(
    source: str, events: tuple[Event, ...], sampler: str, interval_ns: int = INTERVAL_NS, **options: Any
) -> Setup:
    return Setup(source, interval_ns, "monotonic", events, sampler=sampler, capacity=1024, **options)  # type: ignore[arg-type]


def papi(sampler: str, *names: str, **options: Any) -> Setup:
    return _setup("papi", tuple(map(Event, names)), sampler, **options)


def both(source: str, sampler: str, **options: Any) -> Setup:
    events = tuple(map(Event, (CYCLES, INSTRUCTIONS))) if source == "papi" else HARDWARE
    return _setup(source, events, sampler, **options)


def overflowing(source: str, sampler: str, period: int, *, event: int = 0, **options: Any) -> Setup:
    """Return a set-up whose intervals end after so many cycles (or, of event 1, instructions)."""
    events = tuple(map(Event, (CYCLES, INSTRUCTIONS))) if source == "papi" else HARDWARE
    ends = {"signal": OVERFLOW_SIGNAL, "interval_event": events[event].name}
    return Setup(source, period, "event", events, sampler=sampler, capacity=1024, **ends, **options)  # type: ignore[arg-type]


def command(sampler: str, turns: int, program: str = "work") -> str:
    return ("" if sampler == "inside" else "observer $RECORD ") + f"/bin/{program} {turns}"


def _counting_cases() -> dict[str, Case]:
    cases = {
        f"{source}-{sampler}": Case(command(sampler, TURNS), both(source, sampler))
        for source in SOURCES
        for sampler in SAMPLERS
    }
    for sampler in SAMPLERS:
        cases[f"reset-papi-{sampler}"] = Case(command(sampler, TURNS), both("papi", sampler, reset=True))
        cases[f"often-{sampler}"] = Case(command(sampler, TURNS), both("perf_event", sampler, interval_ns=MS))
        cases[f"multiplexed-{sampler}"] = Case(
            command(sampler, TURNS), _setup("perf_event", RAW, sampler, multiplex=True)
        )
    cases["reset-perf_event-inside"] = Case(command("inside", TURNS), both("perf_event", "inside", reset=True))
    cases["user-read"] = Case(
        command("inside", WRAPPING_TURNS),
        both("perf_event", "inside", interval_ns=100 * MS, user_read=True),
        before="echo 1 > /proc/sys/kernel/perf_user_access",
        after="echo 0 > /proc/sys/kernel/perf_user_access",
    )
    cases["user-read-forbidden"] = Case(command("inside", 1_000_000), both("perf_event", "inside", user_read=True))
    cases["reference"] = Case(f"reference 0:0,0:1 /bin/work {TURNS}")
    return cases


def _overflow_cases() -> dict[str, Case]:
    cases = {}
    slower = {
        "before": f"echo {FEW_A_SECOND} > /proc/sys/kernel/perf_event_max_sample_rate",
        "after": "echo 100000 > /proc/sys/kernel/perf_event_max_sample_rate",
    }
    for sampler in SAMPLERS:
        for source in SOURCES:
            cases[f"overflow-{source}-{sampler}"] = Case(command(sampler, TURNS), overflowing(source, sampler, PERIOD))
        often = overflowing("perf_event", sampler, PERIOD // 10)
        cases[f"overflow-often-{sampler}"] = Case(command(sampler, TURNS), often)
        throttled = overflowing("perf_event", sampler, PERIOD // 100)
        cases[f"overflow-throttled-{sampler}"] = Case(command(sampler, SHORT_TURNS), throttled, **slower)
    setup = overflowing("perf_event", "inside", PERIOD)
    cases["overflow-again"] = Case(command("inside", TURNS), setup)
    cases["overflow-nobody"] = Case(command("inside", SHORT_TURNS), setup, user="nobody", paranoid=2)
    cases["overflow-late"] = Case(
        command("inside", SHORT_TURNS), overflowing("perf_event", "inside", PERIOD // 10, event=1)
    )
    cases["overflow-user-read"] = Case(
        command("inside", SHORT_TURNS),
        overflowing("perf_event", "inside", PERIOD // 10, user_read=True),
        before="echo 1 > /proc/sys/kernel/perf_user_access",
        after="echo 0 > /proc/sys/kernel/perf_user_access",
    )
    for sampler in SAMPLERS:
        team = overflowing("papi", sampler, PERIOD // 5, software=3, threads=sampler == "inside")
        cases[f"overflow-team-{sampler}"] = Case(command(sampler, TEAM_TURNS, "team"), team)
    return cases


def _team_cases() -> dict[str, Case]:
    run = {sampler: command(sampler, TEAM_TURNS, "team") for sampler in SAMPLERS}
    return {
        "team-main-thread": Case(run["inside"], both("papi", "inside", software=3)),
        "team-threads-inside": Case(run["inside"], both("papi", "inside", software=3, threads=True)),
        "team-threads-outside": Case(run["outside"], both("papi", "outside", software=3)),
        "team-children": Case(run["outside"], both("papi", "outside", software=3, children=True)),
        "team-reference": Case(f"reference 0:0,0:1 /bin/team {TEAM_TURNS}"),
    }


def _refusal_cases() -> dict[str, Case]:
    cases = {"enumeration": Case("echo papi-enumerate | list")}
    cases["too-many-inside"] = Case(command("inside", 1_000_000), _setup("perf_event", RAW[:8], "inside"))
    cases["too-many-outside"] = Case(command("outside", 1_000_000), _setup("perf_event", RAW[:8], "outside"))
    for sampler in SAMPLERS:
        run = command(sampler, 1_000_000)
        for first in range(0, len(COUNTABLE), 6):
            cases[f"presets-{first}-{sampler}"] = Case(run, papi(sampler, *COUNTABLE[first : first + 6]))
        cases[f"absent-{sampler}"] = Case(run, papi(sampler, ABSENT))
        cases[f"six-and-cycles-{sampler}"] = Case(run, papi(sampler, CYCLES, *PROGRAMMABLE[:6]))
        cases[f"seven-{sampler}"] = Case(run, papi(sampler, *PROGRAMMABLE))
        for source in SOURCES:
            for level in (2, 3):
                name = f"nobody-{level}-{source}-{sampler}"
                cases[name] = Case(run, both(source, sampler), user="nobody", paranoid=level)
            cases[f"root-3-{source}-{sampler}"] = Case(run, both(source, sampler), paranoid=3)
        cases[f"no-library-{sampler}"] = Case(
            run, both("papi", sampler), before=f"mv {LIBRARY} /tmp/away", after=f"mv /tmp/away {LIBRARY}"
        )
    return cases


CASES: Mapping[str, Case] = {**_counting_cases(), **_overflow_cases(), **_team_cases(), **_refusal_cases()}
CASES_OF_ANOTHER: Mapping[str, Case] = {
    f"{source}-{sampler}": Case(command(sampler, 1_000_000), both(source, sampler))
    for source in SOURCES
    for sampler in SAMPLERS
}
