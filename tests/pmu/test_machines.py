"""The samplers on emulated riscv64, which has a PMU, and on emulated x86-64, which has none.

QEMU 7.2 gives riscv64 counters of cycles and instructions that interrupt as they overflow. They count in every mode,
whatever was asked: the kernel's instructions are among the program's. Only emulators that are installed are tested;
kernels and libraries are fetched.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.pmu.architectures import AMD64, RISCV64
from tests.pmu.cases import Case, Result
from tests.pmu.machine import prepare_machine
from tests.pmu.machines import is_installed, run_architecture
from tests.pmu.matrix import PERIOD, SAMPLERS, SHORT_TURNS, TEAM_WORK, TURNS, WORK, command
from tests.pmu.test_counts import counted, whole
from tests.pmu.test_instrument import run_instrumented
from tests.pmu.test_refusals import refused
from unperturbed.collectors.records.counts import missed_overflows, skids
from unperturbed.collectors.records.file import Mark, Setup
from unperturbed.collectors.sources import Event

pytestmark = pytest.mark.long

KERNELS_SHARE = 0.02
"""At most so much of what riscv64 counts is the kernel's, in a program that hardly calls it."""


def booted(architecture, tmp_path_factory: pytest.TempPathFactory, **options) -> dict[str, Result]:  # type: ignore[no-untyped-def]
    if not is_installed(architecture):
        pytest.skip(f"needs {architecture.emulator_package} and {architecture.compiler_packages}")
    return run_architecture(architecture, tmp_path_factory.mktemp(architecture.name), **options)


@pytest.fixture(scope="module")
def riscv(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    return booted(RISCV64, tmp_path_factory)


@pytest.fixture(scope="module")
def simple_riscv(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return what a processor left whose counters neither interrupt nor know modes."""
    events = (Event("cycles:uk", 0, 0, kernel=True), Event("instructions:uk", 0, 1, kernel=True))
    more = {
        f"uk-{sampler}": Case(
            command(sampler, TURNS), Setup("perf_event", 10_000_000, "monotonic", events, sampler=sampler, capacity=256)
        )
        for sampler in SAMPLERS
    }
    only = ("settled", *(f"{case}-{sampler}" for case in ("perf_event", "overflow") for sampler in SAMPLERS))
    return booted(RISCV64, tmp_path_factory, cpu="rv64", only=only, more=more)


@pytest.fixture(scope="module")
def amd(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return what an x86-64 left whose model PAPI knows, with counters that it does not have."""
    cases = ("software", "perf_event", "overflow", "papi", "nobody-3")
    only = ("kernel", *(f"{case}-{sampler}" for case in cases for sampler in SAMPLERS))
    return booted(AMD64, tmp_path_factory, cpu="Skylake-Client", only=only)


@pytest.mark.parametrize("case", [*(f"perf_event-{sampler}" for sampler in SAMPLERS), "reset"])
def test_riscv_counts_the_known_work(riscv: dict[str, Result], case: str) -> None:
    records = whole(riscv[case])
    cycles, instructions = counted(records)
    assert WORK < instructions < WORK * (1 + KERNELS_SHARE)
    assert cycles == pytest.approx(instructions, rel=0.002), "the clock's nanoseconds, one an instruction"
    intervals = np.diff(records.rows["hardware"][:, 0])[1:-1]
    assert len(intervals) > 20
    assert np.median(intervals) == pytest.approx(10_000_000, rel=0.005)


def test_riscv_counts_what_perf_event_alone_counts(riscv: dict[str, Result]) -> None:
    cycles, instructions, enabled, running = map(int, riscv["reference"].stdout.split())
    assert running == enabled > 0
    assert (cycles, instructions) == pytest.approx(counted(whole(riscv["perf_event-inside"])), rel=0.005)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("case", "period", "column"), [("", PERIOD, 0), ("-instructions", PERIOD // 10, 1)])
def test_riscv_ends_intervals_by_work(
    riscv: dict[str, Result], case: str, period: int, column: int, sampler: str
) -> None:
    """The emulator loses the first overflow after a counter was started; the record says how many are missing."""
    counts = whole(riscv[f"overflow{case}-{sampler}"]).rows["hardware"][:, column]
    missed = missed_overflows(counts, period)
    assert missed[0] <= 2
    assert missed[1:].sum() <= 1
    assert np.median(np.diff(counts)) == pytest.approx(period, rel=0.001)
    if sampler == "inside":
        assert np.median(skids(counts, period)) < period / 50


def test_riscv_tells_that_the_kernel_throttled(riscv: dict[str, Result]) -> None:
    assert Mark.THROTTLED in riscv["overflow-throttled-inside"].sampled.marks


def test_riscv_counts_threads_and_children(riscv: dict[str, Result]) -> None:
    threads = whole(riscv["team-inside"])
    assert threads.threads == 2
    for thread in (0, 1):
        rows = threads.rows[threads.rows["thread"] == thread]["hardware"]
        assert rows[-1][1] - rows[0][1] == pytest.approx(TEAM_WORK, rel=KERNELS_SHARE)
    children = whole(riscv["team-outside"])
    assert list(children.rows["software"][-1]) == [100, 100, 100]
    assert counted(children)[1] == pytest.approx(3 * TEAM_WORK, rel=KERNELS_SHARE)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_riscv_refuses_for_the_right_reason(riscv: dict[str, Result], sampler: str) -> None:
    assert counted(whole(riscv[f"nobody-2-{sampler}"]))[1] == pytest.approx(4 * SHORT_TURNS, rel=KERNELS_SHARE)
    assert "Permission denied" in refused(riscv[f"nobody-3-{sampler}"], sampler).message
    papi = refused(riscv[f"papi-{sampler}"], sampler)
    assert papi.papi_version == "7.2"
    assert "libpfm4 no default PMU found" in papi.message  # libpfm has no table of a RISC-V processor
    assert "does not know its events" in papi.message


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_counters_that_know_no_mode_are_told_apart_and_count_in_both(
    simple_riscv: dict[str, Result], sampler: str
) -> None:
    message = refused(simple_riscv[f"perf_event-{sampler}"], sampler).message
    assert message.endswith("(this PMU cannot leave the kernel out; count in both with the modifier :uk)")
    assert counted(whole(simple_riscv[f"uk-{sampler}"]))[1] == pytest.approx(WORK, rel=KERNELS_SHARE)
    message = refused(simple_riscv[f"overflow-{sampler}"], sampler).message
    assert "cycles cannot end intervals here, as the kernel cannot interrupt" in message


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_x86_has_no_pmu_and_that_is_the_reason(amd: dict[str, Result], sampler: str) -> None:
    assert "cpu" not in amd["kernel"].stdout.split()
    for case in (f"perf_event-{sampler}", f"overflow-{sampler}"):
        assert "No such file or directory" in refused(amd[case], sampler).message
    assert "this host has no PMU that the kernel can use" in refused(amd[f"papi-{sampler}"], sampler).message
    assert "Permission denied" in refused(amd[f"nobody-3-{sampler}"], sampler).message


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("machine", "nanoseconds"), [("amd", 2), ("riscv", 1)])
def test_the_kernels_own_events_count_everywhere(
    request: pytest.FixtureRequest, machine: str, nanoseconds: int, sampler: str
) -> None:
    records = whole(request.getfixturevalue(machine)[f"software-{sampler}"])
    faults, _, clock = records.rows["hardware"][-1] - records.rows["hardware"][0]
    assert clock == pytest.approx(nanoseconds * WORK, rel=0.01)
    assert 1 <= faults < 100
    assert np.median(np.diff(records.rows["hardware"][:, 2])) == pytest.approx(10_000_000, rel=0.01)


def test_instrumented_builds_count_on_riscv(tmp_path: Path) -> None:
    """By the additions in C that any compiler knows: increments in assembly are for x86-64 and AArch64."""
    if not is_installed(RISCV64):
        pytest.skip(f"needs {RISCV64.emulator_package} and {RISCV64.compiler_packages}")
    left = run_instrumented(prepare_machine(RISCV64), tmp_path, {"plain": "-O0", "fast": "-O2"}, shams=False)
    assert len(left) == 4
    for found in left.values():
        assert found.records.state == "finished"
        assert list(found.records.rows["software"][-1]) == found.own
