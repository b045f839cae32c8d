"""What the doctor asks others on this host: libpapi, pyperf, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.host.doctor_trees import (
    BOARD,
    SERVER,
    plant,
)
from unperturbed.collectors.sources.papi import wheel_library
from unperturbed.errors import HostError
from unperturbed.harness.host.checks.counting import core_pmus
from unperturbed.harness.host.checks.load import BusyProcess, busy_processes, neighbours
from unperturbed.harness.host.checks.tools import PapiVerdict, ask, papi, papi_version, versions
from unperturbed.harness.host.doctor import (
    REAL,
    Finding,
    PyperfAnswer,
    ask_pyperf,
    examine,
    pyperf_findings,
    read_pyperf_answer,
)


def test_libpapi_answers_for_itself() -> None:
    if papi_version(REAL) is None:
        pytest.skip("no libpapi is installed")
    verdict = ask()
    assert verdict.error == ""
    if core_pmus(REAL):
        return
    # Where there is no PMU, some builds of libpapi switch the component off and say why; others leave it on, with
    # nothing to offer; others list the presets of a processor that they know by its model.
    finding = papi(REAL, verdict)
    assert finding.status == "note"
    if verdict.disabled:
        assert verdict.disabled in finding.what
    elif verdict.presets == 0:
        assert "offers no presets on this host" in finding.what
    else:
        assert "no PMU can count them" in finding.what


@pytest.mark.parametrize(
    ("verdict", "status", "said"),
    [
        (
            PapiVerdict("PAPI_library_init: Version mismatch"),
            "bad",
            "cannot be used: PAPI_library_init: Version mismatch",
        ),
        (PapiVerdict(disabled="Unknown libpfm4 related error"), "bad", "Unknown libpfm4 related error"),
        (PapiVerdict(presets=0, counters=6), "bad", "offers no presets on this host"),
        (PapiVerdict(presets=31, counters=6), "good", "libpapi 7.0.0: 31 presets, 6 counters"),
    ],
)
def test_what_libpapi_may_say(tmp_path: Path, verdict: PapiVerdict, status: str, said: str) -> None:
    finding = papi(plant(tmp_path, SERVER), verdict)
    assert finding.status == status
    assert said in finding.what


def test_presets_without_a_pmu_promise_nothing(tmp_path: Path) -> None:
    finding = papi(tmp_path, PapiVerdict(presets=27, counters=6), bundled=True)
    assert finding.status == "note"
    assert "27 presets for this processor, but no PMU" in finding.what


def test_the_library_in_a_wheel_serves_where_the_system_has_none(tmp_path: Path) -> None:
    finding = papi(plant(tmp_path, BOARD), PapiVerdict(presets=21, counters=6), bundled=True)
    assert finding == Finding("libpapi", "good", "python-papi's libpapi (no system library): 21 presets, 6 counters")
    assert "none.so: cannot open shared object file" in ask(str(tmp_path / "none.so")).error


def test_of_several_libraries_the_newest_is_named_and_how_to_take_another(tmp_path: Path) -> None:
    folder = "usr/lib/x86_64-linux-gnu"
    files = {f"{folder}/libpapi.so.{version}": "" for version in ("6.0", "6.0.0.1", "7.2", "7.2.0.0")}
    finding = papi(plant(tmp_path, {**SERVER, **files}), PapiVerdict(presets=31, counters=6, version=(7, 2, 0)))
    assert finding.what == "libpapi 7.2.0: 31 presets, 6 counters"
    assert finding.why == (
        "PAPI 6.0 and 7.0 are also installed: UNPERTURBED_PAPI=libpapi.so.7.0 selects version 7.0 instead of the "
        "newest."
    )


def test_the_library_that_was_chosen_is_asked_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = wheel_library()
    if not library:
        pytest.skip("python-papi has wheels for x86-64 and Python 3.11 to 3.13 only")
    monkeypatch.setenv("UNPERTURBED_PAPI", library)
    found = {finding.subject: finding for finding in examine(REAL).counting}
    assert found["libpapi"].what.startswith(f"libpapi 6.0.0 ({library}, from UNPERTURBED_PAPI) ")
    assert f"PAPI 6.0.0 ({library})" in versions()
    monkeypatch.setenv("UNPERTURBED_PAPI", str(tmp_path / "none.so"))
    with pytest.raises(HostError, match=r"UNPERTURBED_PAPI is .*/none\.so: no such file"):
        versions()
    no_papi = next(Path("/").glob("lib/*-linux-*/libm.so.6"))
    monkeypatch.setenv("UNPERTURBED_PAPI", str(no_papi))
    assert "the library is not PAPI" in {finding.subject: finding for finding in examine(REAL).counting}["libpapi"].what


PYPERF = """Show the system configuration

System state
============

CPU: use 4 logical CPUs: 0-3

Advices
=======

Perf event: Set max sample rate to 1
Linux scheduler: Use isolcpus=<cpu list> kernel parameter to isolate CPUs
CPU scaling governor: Use CPU scaling governor 'performance'
Turbo Boost (MSR): Disable Turbo Boost on CPU 0-3 to get more reliable CPU frequency

Errors
======

CPU Frequency: Unable to read CPU frequency

Run "python -m pyperf system tune" to tune the system configuration to run benchmarks
"""


def test_what_pyperf_says_is_read_and_not_said_twice() -> None:
    answer = read_pyperf_answer(PYPERF)
    assert len(answer.advice) == 4
    assert answer.errors == ("CPU Frequency: Unable to read CPU frequency",)
    known = [
        Finding("governor", "note", "powersave"),
        Finding("isolation", "note", "none"),
        Finding("turbo", "good", "off"),
    ]
    found = pyperf_findings(answer, known)
    assert [(finding.what.partition(":")[0], finding.mend) for finding in found] == [
        ("Perf event", "sysctl kernel.perf_event_max_sample_rate=1"),
        ("Turbo Boost (MSR)", "python -m pyperf system tune"),
        ("CPU Frequency", None),
    ]
    assert pyperf_findings(PyperfAnswer(), [])[0].status == "good"
    assert "no answer" in pyperf_findings(PyperfAnswer(problem="no answer within 20 s"), [])[0].what


def test_pyperf_answers_here() -> None:
    answer = ask_pyperf()
    assert answer.problem == ""
    # Whatever it advises stands in a line of its own, with the name of the check before it.
    assert all(": " in line for line in answer.advice)


def test_a_busy_process_is_seen_and_this_one_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            seen: dict[int, BusyProcess] = {}
            for _ in range(50):  # on a crowded host it may wait for its turn
                seen |= {process.pid: process for process in busy_processes(0.2)}
                if busy.pid in seen:
                    break
        finally:
            busy.kill()
    assert busy.pid in seen
    assert not {os.getpid(), os.getppid()} & set(seen)
    found = neighbours([seen[busy.pid]])
    assert found.mend == f"kill -STOP {busy.pid}    # after the campaign: kill -CONT {busy.pid}"


def test_only_processes_of_this_user_are_to_be_stopped() -> None:
    others, own = BusyProcess(961, "worker", 0.5), BusyProcess(70, "mine", 0.4, own=True)
    alone = neighbours([others])
    assert alone.mend is None
    assert alone.why.endswith("Wait for them to end.")
    both = neighbours([others, own])
    assert both.mend == "kill -STOP 70    # after the campaign: kill -CONT 70"
    assert "worker [961] 50%, mine [70] 40%" in both.what


def test_busy_processes_are_weighed() -> None:
    assert neighbours([]).status == "good"
    some = [BusyProcess(10 + number, f"job{number}", 0.15) for number in range(6)]
    assert neighbours(some).status == "note"
    assert "and 1 more" in neighbours(some).what
    assert neighbours([*some, BusyProcess(9, "kworker", 0.9, kernel=True)]).status == "bad"
    # The kernel's threads cannot be held.
    assert neighbours([BusyProcess(9, "kworker", 0.9, kernel=True)]).mend is None
