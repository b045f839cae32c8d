"""The catalogue of this host, with the real kernel and the real PAPI.

Refusals of other hosts by what these answer there.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.collectors.sources.processors import ALDER_LAKE, SAPPHIRE_RAPIDS, processor
from unperturbed.collectors import listing as planning
from unperturbed.collectors.listing import Listing, list_metrics, nearest
from unperturbed.collectors.runtime import build_trials
from unperturbed.collectors.sources import Answer, CatalogueEntry, Trials, source_names
from unperturbed.collectors.sources import callgrind as simulated
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS, PRESETS, is_native
from unperturbed.collectors.sources.papi import PapiAnswers, ask_papi
from unperturbed.collectors.sources.perf.listing import Host, KernelAnswers, ask_kernel
from unperturbed.collectors.sources.perf.names import GENERIC, PerfCode, parse
from unperturbed.collectors.sources.perf.tables import read_tables


@pytest.fixture(scope="module")
def listing() -> Listing:
    return list_metrics()


def by_name(listing: Listing) -> dict[str, CatalogueEntry]:
    return {metric.name: metric for metric in listing.metrics}


def ask(*questions: str) -> list[list[str]]:
    """Ask the listing program itself."""
    asked = "".join(f"{question}\n" for question in questions)
    output = subprocess.run([build_trials("gcc")], input=asked, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in output.splitlines()]


def test_every_metric_is_there_once_with_unit_and_meaning(listing: Listing) -> None:
    names = [metric.name for metric in listing.metrics]
    assert len(names) == len(set(names))
    assert {*PRESETS, *(f"perf::{name}" for name in GENERIC), *simulated.FORMULAS, *OS_METRICS} <= set(names)
    for metric in listing.metrics:
        assert metric.ways, metric.name
        assert metric.family
        for way in metric.ways:
            assert way.source in source_names()
            assert way.unit
            assert way.meaning
            assert way.available != bool(way.problem)


def test_a_spec_can_name_every_metric(listing: Listing) -> None:
    for metric in listing.metrics:
        assert metric.name in PRESETS or metric.name in OS_METRICS or is_native(metric.name)


def test_simulated_is_never_shown_as_hardware(listing: Listing) -> None:
    ways = [way for metric in listing.metrics for way in metric.ways if way.source == "simulated"]
    assert len(ways) == len(simulated.FORMULAS)
    for way in ways:
        assert way.kind == "simulated"
        assert way.meaning.startswith("simulated")
        assert way.available == (shutil.which("valgrind") is not None)


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_perf_counts_what_is_said_to_be_available(listing: Listing) -> None:
    """perf asks for less or more than one event of this list may (kernel, guests).

    So the kernel's own and one of the processor's are compared.
    """
    metrics = by_name(listing)
    for name in ("page-faults", "context-switches", "task-clock", "instructions", "LLC-loads"):
        result = subprocess.run(
            ["perf", "stat", "-x,", "-e", name, "true"], capture_output=True, text=True, check=False
        )
        counted = not result.stderr.startswith("<not ")
        assert metrics[f"perf::{name}"].best.available == counted, result.stderr


def test_the_operating_systems_counters_are_those_that_runs_record(listing: Listing) -> None:
    metrics = by_name(listing)
    for group in OS_GROUPS:
        for name in group.metrics:
            assert metrics[name].best.source == group.source
            assert metrics[name].best.kind == "os"
    assert metrics["user_time_us"].best.unit == "us"
    assert metrics["minor_faults"].best.available


def test_what_one_run_holds(listing: Listing) -> None:
    states = {state.name: state for state in listing.sources}
    assert tuple(states) == source_names()
    assert states["simulated"].fits == (36 if shutil.which("valgrind") else None)
    for state in (states["papi"], states["perf_event"]):
        assert state.fits is None or 1 <= state.fits <= 16
        assert state.note or state.problem
    opened = any(
        way.available
        for m in listing.metrics
        for way in m.ways
        if way.source == "perf_event" and m.family == "hardware event"
    )
    assert (states["perf_event"].fits is not None) == opened


def test_tracepoints_are_counted_by_subsystem_until_some_are_asked_for(listing: Listing) -> None:
    assert not [metric for metric in listing.metrics if metric.family == "tracepoint"]
    if not listing.tracepoints:
        assert listing.tracepoint_problem
        pytest.skip(listing.tracepoint_problem)
    chosen = list_metrics(pattern="sched:*")
    assert len(chosen.metrics) == listing.tracepoints["sched"]
    assert {metric.family for metric in chosen.metrics} == {"tracepoint"}
    switch = by_name(chosen)["perf::sched:sched_switch"].best
    assert (switch.kind, switch.source, switch.problem) == ("os", "perf_event", listing.tracepoint_problem)


@pytest.mark.parametrize(
    ("pattern", "expected", "unexpected"),
    [
        ("PERF::l1-DCACHE-*", {"perf::L1-dcache-loads"}, {"perf::L1-icache-loads"}),
        ("l1-dcache-load*", {"perf::L1-dcache-load-misses"}, {"perf::L1-dcache-stores"}),
        ("tot_ins", {"PAPI_TOT_INS"}, {"PAPI_TOT_CYC"}),
        ("mispredicted", {"PAPI_BR_MSP", "perf::branch-misses", "callgrind::Bcm"}, {"PAPI_TOT_INS"}),
        ("perf::cs", {"perf::context-switches"}, {"perf::cycles"}),
        ("D1m?", {"callgrind::D1mr", "callgrind::D1mw"}, {"PAPI_L1_DCM"}),
    ],
)
def test_a_pattern_selects(pattern: str, expected: set[str], unexpected: set[str]) -> None:
    names = set(by_name(list_metrics(pattern=pattern)))
    assert expected <= names
    assert not unexpected & names


def test_a_source_selects() -> None:
    chosen = list_metrics(source="simulated")
    assert {metric.name for metric in chosen.metrics} == set(simulated.FORMULAS)
    assert {way.source for metric in chosen.metrics for way in metric.ways} == {"simulated"}
    assert [state.name for state in chosen.sources] == ["simulated"]
    assert not chosen.tracepoints
    assert not list_metrics(pattern="minor_faults", source="papi").metrics


def test_names_near_a_pattern_that_selects_nothing(listing: Listing) -> None:
    assert "PAPI_TOT_INS" in nearest("papi_tot_isn", listing)
    assert nearest("cycels*", listing)[0] == "perf::cycles"
    assert nearest("%%%%", listing) == ()


def test_events_of_another_hosts_pmus(tmp_path: Path) -> None:
    devices = tmp_path / "sys/bus/event_source/devices"
    for name, text in {
        "cpu/type": "4",
        "cpu/events/topdown": "event=0x9c,core=?",
        "cpu/events/loads": "event=0xd0",
        "cpu/format/event": "config:0-7",
        "cpu/format/core": "config:16-23",
        "uncore_imc/type": "14",
        "uncore_imc/cpumask": "0",
        "uncore_imc/events/reads": "event=0x4",
        "uncore_imc/format/event": "config:0-7",
    }.items():
        file = devices / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    there = list_metrics(root=tmp_path)
    metrics = by_name(there)
    assert "needs a number for `core`" in metrics["perf::cpu/topdown/"].best.problem
    assert (
        metrics["perf::uncore_imc/reads/"].best.problem
        == "the event's PMU counts for a whole processor or package, not for one program"
    )
    assert metrics["perf::cpu/loads/"].family == "PMU event"
    assert metrics["bytes_read"].best.problem == "this kernel has no /proc/self/io"
    assert there.tracepoints == {}
    assert "not mounted" in there.tracepoint_problem


def test_the_program_answers_one_line_a_question() -> None:
    faults, unknown, misread, led, leaderless, misled, fit, strange = ask(
        "perf 1 2 0 0 1 1 perf::page-faults",
        "perf 1 999 0 0 1 1 a name",
        "perf x",
        "perf-led 3 1 2 0 0 1 1 perf::page-faults",
        "perf-led 999 1 2 0 0 1 1 perf::page-faults",
        "perf-led x",
        "fit 1 2 1 3 1 0",
        "sing",
    )
    assert faults == ["perf", "perf::page-faults", "ok", "0", "", ""]
    assert unknown[:2] == ["perf", "a name"]
    assert int(unknown[3]) in (errno.ENOENT, errno.EINVAL)
    assert misread[2] == misled[2] == "not understood"
    assert led == faults
    assert leaderless[2] == unknown[2], "an event is not counted without its leader"
    assert fit == ["fit", "perf_event", "ok", "3", "all that were tried", ""]
    assert strange == ["question", "sing", "not understood", str(errno.EINVAL), "", ""]


def test_a_topdown_event_is_tried_behind_its_leader(tmp_path: Path) -> None:
    root = processor(tmp_path, SAPPHIRE_RAPIDS)
    asked: list[str] = []

    def ask(questions: Sequence[str], _library: str) -> tuple[list[tuple[str, Answer]], str]:
        asked.extend(questions)
        return [], "not asked"

    names = ["cpu/topdown-retiring/", "cpu/slots/"]
    ask_kernel(Trials(root, "gcc", ask), {name: parse(name, root).code for name in names})
    assert asked[:2] == ["perf-led 1024 4 32768 0 0 1 0 cpu/topdown-retiring/", "perf 4 1024 0 0 1 0 cpu/slots/"]


def test_a_group_holds_no_more_events_than_a_record() -> None:
    (fit,) = ask(f"fit {'1 2 ' * 20}")
    assert fit[2:4] == ["ok", "16"]


def test_the_kernel_is_asked_with_all_that_an_event_has() -> None:
    answers = ask_kernel(
        planning.trials_on_this_host("gcc"),
        {"user": PerfCode(1, 2), "both": PerfCode(1, 2, kernel=True), "odd": PerfCode(1, 2**64 - 1)},
    )
    assert answers.events["user"].good
    assert answers.events["both"].good
    assert not answers.events["odd"].good


def test_every_preset_of_this_papi_is_in_the_catalogue() -> None:
    library = ask_papi(planning.trials_on_this_host("gcc"), [])
    if not library.version:
        pytest.skip(library.problem)
    assert library.version.count(".") == 2
    assert len(library.presets) > 90
    assert set(library.presets) >= {"PAPI_TOT_INS", "PAPI_L1_DCM"}
    assert library.presets["PAPI_TOT_INS"].description
    if library.version.startswith(("6.", "7.0", "7.1")):
        assert set(library.presets) <= set(PRESETS)


FUNCTIONS = [
    "num_components",
    "get_component_info",
    "enum_event",
    "enum_cmp_event",
    "event_code_to_name",
    "event_name_to_code",
    "get_event_info",
    "create_eventset",
    "destroy_eventset",
    "cleanup_eventset",
    "add_named_event",
    "start",
    "stop",
    "get_opt",
    "strerror",
]


def broken_library(folder: Path, body: str) -> str:
    """Build a library that has PAPI's functions, the first of which does what `body` says."""
    source = folder / "broken.c"
    others = "\n".join(f"int PAPI_{name}(void) {{ return -1; }}" for name in FUNCTIONS)
    source.write_text(
        f"#include <unistd.h>\n#include <stdlib.h>\nint PAPI_library_init(int v) {{ {body} return -1; }}\n{others}\n"
    )
    library = folder / "libbroken.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_a_library_that_crashes_takes_nothing_with_it(tmp_path: Path) -> None:
    library = ask_papi(planning.trials_on_this_host("gcc"), [], broken_library(tmp_path, "abort();"))
    assert library == PapiAnswers(problem="the program that tries events was ended by signal 6")


def test_a_library_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_SECONDS", 0.2)
    assert (
        ask_papi(planning.trials_on_this_host("gcc"), [], broken_library(tmp_path, "pause();")).problem
        == "the program that tries events did not finish within 0.2 s"
    )


NO_PMU = Host((), "2")
LOCKED = Host(("cpu",), "3")
OPEN = Host(("cpu",), "1")


def test_refusals_of_the_kernel_say_what_to_do() -> None:
    absent, forbidden = (
        Answer("x", "No such file or directory", errno.ENOENT),
        Answer("x", "Permission denied", errno.EACCES),
    )
    assert NO_PMU.refusal(Answer("x", "ok", 0)) == ""
    assert NO_PMU.refusal(absent).startswith("no PMU")
    assert OPEN.refusal(absent) == "the processor has no such event"
    assert "perf_event_paranoid is 3; allow counting with: sysctl kernel.perf_event_paranoid=1" in LOCKED.refusal(
        forbidden
    )
    assert "although perf_event_paranoid is 1: a container" in OPEN.refusal(forbidden)
    assert "although perf_event_paranoid is -1" in Host(("cpu",), "-1").refusal(forbidden)
    assert "is unknown" in Host(("cpu",), "").refusal(forbidden)
    assert "blocks it" in OPEN.refusal(Answer("x", "Function not implemented", errno.ENOSYS))
    invalid = Answer("x", "Invalid argument", errno.EINVAL)
    assert OPEN.refusal(invalid) == "the kernel refuses this event: Invalid argument"


def test_an_old_papi_a_missing_permission_and_a_missing_pmu_are_told_apart() -> None:
    disabled = Answer("PAPI_TOT_INS", "Component containing event is disabled", -25)
    counting, forbidden = (
        KernelAnswers({}, Answer("", "ok", 6)),
        KernelAnswers({}, Answer("", "Permission denied", errno.EACCES)),
    )

    def off(why: str) -> PapiAnswers:
        return PapiAnswers("7.0.0", components={"perf_event": why})

    unknown = off("Error libpfm4 no default PMU found")
    assert "older than the processor" in unknown.refusal(disabled, OPEN, counting)
    assert "perf_event_paranoid is 3" in unknown.refusal(disabled, LOCKED, forbidden)
    assert "no PMU" in unknown.refusal(disabled, NO_PMU, forbidden)
    # What PAPI 7.0 says on the emulated arm64 machine, to root, whom the kernel lets count.
    paranoid = off("perf_event support disabled by Linux with paranoid=3").refusal(disabled, LOCKED, counting)
    assert paranoid.endswith("allow counting with: sysctl kernel.perf_event_paranoid=1")
    assert PapiAnswers(problem="libpapi is not installed").refusal(None, OPEN, counting) == "libpapi is not installed"
    assert PapiAnswers("7.0.0").refusal(None, OPEN, counting) == "this version of PAPI has no such event"
    assert (
        PapiAnswers("7.0.0").refusal(Answer("x", "Event does not exist", -7), OPEN, counting)
        == "PAPI 7.0.0: Event does not exist"
    )


def test_a_hybrid_processor_is_listed_by_the_kind_of_core_that_is_meant(tmp_path: Path) -> None:
    metrics = by_name(list_metrics(root=processor(tmp_path, ALDER_LAKE, cpus="16-19"), source="perf_event"))
    assert metrics["perf::cycles"].best.meaning == "cycles of the processor, on cpu_atom"
    assert "(event=0x00,umask=0x80)" in metrics["perf::cpu_core/topdown-retiring/"].best.meaning
    assert "(event=0xc2,umask=0x0)" in metrics["perf::cpu_atom/topdown-retiring/"].best.meaning
    assert "perf::cpu_atom/slots/" not in metrics


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_metrics_of_perfs_tables_are_listed_with_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_CPUID", "GenuineIntel-6-8F-8")
    read_tables.cache_clear()
    try:
        level_1 = list_metrics(pattern="TopdownL1")
        if level_1.perf_metric_problem:
            pytest.skip(level_1.perf_metric_problem)
        names = {metric.name for metric in level_1.perf_metrics}
        assert {"tma_retiring", "tma_frontend_bound", "tma_backend_bound", "tma_bad_speculation"} <= names
        assert all("TopdownL1" in metric.groups for metric in level_1.perf_metrics if metric.name == "tma_retiring")
        assert not level_1.metrics
        assert "tma_retiring" in nearest("tma_retirin", list_metrics())
        assert not list_metrics(source="papi").perf_metrics
    finally:
        read_tables.cache_clear()
