"""Callgrind as a simulated PMU, on real programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, compile_program, sample
from unperturbed.collectors.passes import plan_passes
from unperturbed.collectors.records.assemble import assemble, milestone
from unperturbed.collectors.records.file import Mark, Records, Setup
from unperturbed.collectors.sources import callgrind as simulated
from unperturbed.collectors.sources.callgrind import Cache, Machine, combine, valgrind_command
from unperturbed.collectors.sources.dumps import log_of, read_dumps
from unperturbed.errors import HostError, RunError

WALK = (
    COUNTED
    + """
#include <stdlib.h>
int main(void) {
    enum { N = 1 << 22 };
    volatile char *p = malloc(N);
    unsigned state = 1, sum = 0;
    for (int phase = 0; phase < 8; phase++) {
        COUNT(0);
        for (int i = 0; i < 300000; i++) {
            state = state * 1664525u + 1013904223u;
            if (phase % 2) { p[state % N]++; COUNT(1); } else sum += state & 4 ? 3 : state;
        }
    }
    return (int)(sum & 1) & (int)p[0] & 0;
}
"""
)


Measured = tuple[Records, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("walk"), WALK)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Measured:
    """Measure the program once on the default machine."""
    return _measure(tmp_path_factory.mktemp("measured"), program, Machine())


def _measure(folder: Path, program: Path, machine: Machine, interval_ns: int = 20_000_000) -> Measured:
    command = [*valgrind_command(machine, folder / "dumps"), str(program)]
    records, done = sample(folder, command, Setup("simulated", interval_ns, "process-cpu", software=2))
    assert done.returncode == 0, done.stderr
    assert records.state == "finished", records.message
    return records, read_dumps(folder / f"dumps.{records.owner}", len(records.rows) - 1)


def test_intervals_add_up_and_the_handler_is_left_out(tmp_path: Path, program: Path, measured: Measured) -> None:
    records, events = measured
    assert len(records.rows) > 5
    fine_records, fine = _measure(tmp_path, program, Machine(), interval_ns=4_000_000)
    assert len(fine_records.rows) > len(records.rows)
    # More samples, the same program: of a sample, only the way into the handler and out of it is counted.
    total, finer = int(events["Ir"].sum()), int(fine["Ir"].sum())
    assert 0 <= finer - total <= 10 * (len(fine_records.rows) - len(records.rows))
    assert int(events["Bc"].sum()) == int(fine["Bc"].sum())
    assert int(records.rows["software"][-1][1]) == 4 * 300_000
    assert int(events["D1mw"].sum() + events["D1mr"].sum()) > 1_000_000


def test_phases_are_seen_interval_by_interval(measured: Measured) -> None:
    records, events = measured
    walks = np.diff(records.rows["software"][:, 1])
    misses = combine("PAPI_L1_DCM", events)
    assert np.corrcoef(walks, misses)[0, 1] > 0.9


def test_the_page_cache_counts_pages(tmp_path: Path, program: Path, measured: Measured) -> None:
    _, lines = measured
    _, pages = _measure(tmp_path, program, Machine().with_page_cache())
    # 4 MiB at random: nearly every access misses a 32 KiB cache, and about 15 in 16 a TLB of 64 pages (1,024 are
    # walked).
    share = combine("PAPI_TLB_DM", pages).sum() / (4 * 300_000)
    assert 0.9 < share < 1.0
    assert combine("PAPI_L1_DCM", lines).sum() > combine("PAPI_TLB_DM", pages).sum()


def test_a_larger_last_level_misses_less(tmp_path: Path, program: Path, measured: Measured) -> None:
    _, small = measured
    _, large = _measure(tmp_path, program, Machine(ll=Cache(8 << 20, 16, 64)))
    assert combine("PAPI_L2_TCM", large).sum() < combine("PAPI_L2_TCM", small).sum() / 5


def test_a_metric_is_the_stated_sum_of_events() -> None:
    events = {name: np.array([10**index, 2]) for index, name in enumerate(simulated.EVENTS)}
    for name, formula in simulated.FORMULAS.items():
        expected = sum(factor * events[event] for event, factor in formula.items())
        np.testing.assert_array_equal(combine(name, events), expected)
    assert list(combine("PAPI_BR_PRC", {**events, "Bc": np.array([9]), "Bcm": np.array([4])})) == [5]


def test_metrics_say_that_they_are_simulated_and_what_they_share() -> None:
    cycles, misses, pages = map(simulated.metric, ("PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_TLB_DM"))
    for metric in (cycles, misses, pages):
        assert metric.kind == "simulated"
        assert metric.meaning.startswith("simulated: ")
    assert set(misses.components) <= set(cycles.components)
    assert not set(pages.components) & set(misses.components)
    with pytest.raises(HostError, match="cannot simulate PAPI_FP_OPS"):
        simulated.metric("PAPI_FP_OPS")


def test_a_dump_cut_short_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "dumps.1"
    part = "part: {0}\ndesc: Trigger: Client Request: interval {0}\nevents: Ir Dr\ntotals: {1}\n"
    file.write_text(part.format(0, "5 1") + part.format(1, "7"))  # trailing zeros are left out
    assert {name: list(column) for name, column in read_dumps(file, 1).items()} == {"Ir": [7], "Dr": [0]}
    with pytest.raises(RunError, match="dump of interval 2 is missing"):
        read_dumps(file, 2)
    with pytest.raises(RunError, match="did not write its dump file"):
        read_dumps(tmp_path / "dumps.2", 1)


def test_totals_do_not_depend_on_the_run(tmp_path: Path, program: Path, measured: Measured) -> None:
    totals = [int(events["Ir"].sum()) for _, events in (measured, _measure(tmp_path, program, Machine()))]
    assert abs(totals[0] - totals[1]) < 200


def test_passes_on_this_host() -> None:
    machine = Machine()
    found = plan_passes(
        ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_TLB_DM"],
        source="simulated",
        machine=machine,
        compiler="gcc",
    )
    assert [item.name for item in found.passes] == ["main", "page-cache"]
    assert [metric.name for metric in found.passes[0].metrics] == ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP"]
    assert [metric.name for metric in found.passes[1].metrics] == ["PAPI_TOT_INS", "PAPI_BR_MSP", "PAPI_TLB_DM"]
    assert found.passes[1].machine == machine.with_page_cache()


def test_a_metric_that_nothing_counts_gives_every_reason() -> None:
    with pytest.raises(HostError) as caught:
        plan_passes(["PAPI_SHADOW"], source="auto", machine=Machine(), compiler="gcc")
    for source in ("papi: ", "perf_event: ", "simulated: "):
        assert source in str(caught.value)
    with pytest.raises(HostError, match="only one last-level cache"):
        plan_passes(["PAPI_L2_TCM", "PAPI_L3_TCM"], source="simulated", machine=Machine(), compiler="gcc")


def test_no_valgrind_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt-get install valgrind"):
        plan_passes(["PAPI_TOT_INS"], source="simulated", machine=Machine(), compiler="gcc")


def test_an_unknown_compiler_is_a_host_error() -> None:
    with pytest.raises(HostError, match="no C compiler 'nocc'"):
        plan_passes(["PAPI_TOT_INS"], source="papi", machine=Machine(), compiler="nocc")


def test_callgrind_takes_the_whole_command_line(tmp_path: Path) -> None:
    command = [*valgrind_command(Machine(), tmp_path / "dumps"), "true"]
    subprocess.run(command, check=True)
    assert list(tmp_path.glob("dumps.*"))


def test_intervals_of_cpu_time_do_not_shrink_under_load(tmp_path: Path, program: Path, measured: Measured) -> None:
    """A wall-clock timer would tick as often while the program gets a third of its processor."""
    quiet, _ = measured
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})  # the burners' too, and the program's
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        records, _ = _measure(tmp_path, program, Machine())
    finally:
        os.sched_setaffinity(0, processors)
        for burner in burners:
            burner.kill()
            burner.wait()
    lengths_ms = np.diff(records.rows["cpu_ns"])[:-1] / 1e6
    # Asked: 20 ms. The kernel ticks every jiffy, callgrind looks for signals every 100,000 basic blocks.
    longest = max(
        40, 3 * np.median(np.diff(quiet.rows["cpu_ns"])[:-1] / 1e6)
    )  # on a host where these blocks take long by themselves
    assert 12 < np.median(lengths_ms) < longest
    assert len(lengths_ms) < 1.5 * records.rows["cpu_ns"][-1] / 20e6


def test_a_pass_that_would_count_nothing_of_its_own_is_not_made() -> None:
    found = plan_passes(["PAPI_TOT_INS", "PAPI_TLB_DM"], source="simulated", machine=Machine(), compiler="gcc")
    assert [(item.name, [metric.name for metric in item.metrics]) for item in found.passes] == [
        ("main", ["PAPI_TOT_INS", "PAPI_TLB_DM"])
    ]


def test_no_cycle_estimate_is_made_of_page_misses(tmp_path: Path, program: Path) -> None:
    """Whatever the pass is called: its data cache is a TLB, so a cycle estimate from it would be another machine's."""
    (collected,) = plan_passes(["PAPI_TLB_DM"], source="simulated", machine=Machine(), compiler="gcc").passes
    assert collected.name == "main"
    assert collected.machine is not None
    records, _ = _measure(tmp_path, program, collected.machine)
    trace = assemble(
        records,
        collected,
        software=[milestone("a"), milestone("b")],
        os_metrics=[],
        derived={},
        dumps=tmp_path / "dumps",
        attributes={},
    )
    assert trace.names("simulated") == ("PAPI_TLB_DM", "PAPI_TOT_INS")


@pytest.mark.parametrize(
    ("work", "uneven"), [("busy(12000000);", False), ("for (int i = 0; i < 100000; i++) write(fd, &fd, 1);", True)]
)
def test_work_that_system_calls_cut_short_is_told(tmp_path: Path, work: str, uneven: bool) -> None:
    text = f"""{BUSY}
#include <fcntl.h>
#include <unistd.h>
int main(void) {{ int fd = open("/dev/null", O_WRONLY); busy(10); {work} return fd < 0; }}
"""
    program = compile_program(tmp_path, text, "-Wno-unused-result")
    command = [*valgrind_command(Machine(), tmp_path / "dumps"), str(program)]
    records, done = sample(tmp_path, command, Setup("simulated", 1, "work"))
    assert (done.returncode, records.state) == (0, "finished")
    assert (Mark.UNEVEN in records.marks) == uneven


def test_system_calls_take_no_quantum_from_an_interval(tmp_path: Path) -> None:
    """Each call takes the tick that waits; valgrind's statistics tell how many quanta have ended."""
    text = f"""{BUSY}
#include <fcntl.h>
#include <unistd.h>
int main(void) {{
    int fd = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 5000; i++) {{ busy(1000 + i % 7); write(fd, &fd, 1); }}
    return fd < 0;
}}
"""
    program = compile_program(tmp_path, text, "-Wno-unused-result")
    runs = []
    for run in range(2):
        folder = tmp_path / str(run)
        folder.mkdir()
        command = [*valgrind_command(Machine(), folder / "dumps"), str(program)]
        log = {"UNPERTURBED_LOG": str(log_of(folder / "dumps"))}
        records, done = sample(folder, command, Setup("simulated", 2, "work"), log)
        assert (done.returncode, records.state) == (0, "finished")
        assert Mark.UNEVEN not in records.marks
        runs.append(read_dumps(next(folder.glob("dumps.*")), len(records.rows) - 1)["Ir"])
    assert len(runs[0]) == len(runs[1]) > 20, runs
    within = np.abs(runs[0] - runs[1])[:-1] / np.median(runs[0])
    assert np.mean(within) < 0.02
    assert runs[0][:-1].max() < 1.15 * runs[0][:-1].min()


@pytest.mark.parametrize(
    ("work", "median", "most"),
    [
        ("busy(12000000);", 0.001, 0.01),
        ("for (int i = 0; i < 2500; i++) { busy(1000 + i % 7); write(fd, &fd, 1); }", 0.1, 0.3),
        ("for (int i = 0; i < 60000; i++) { busy(40 + i % 7); write(fd, &fd, 1); }", 0.25, 0.5),
    ],
    ids=["no call", "a call in 1,000 blocks", "a call in 40 blocks"],
)
def test_ticks_of_a_busy_host_move_no_interval(tmp_path: Path, work: str, median: float, most: float) -> None:
    """Ticks come at other moments beside busy processes, and system calls take them: the ends stay where they are."""
    text = f"""{BUSY}
#include <fcntl.h>
#include <unistd.h>
int main(void) {{ int fd = open("/dev/null", O_WRONLY); {work} return fd < 0; }}
"""
    program = compile_program(tmp_path, text, "-Wno-unused-result")
    ends = []
    for neighbours in (0, 4):
        folder = tmp_path / str(neighbours)
        folder.mkdir()
        command = [*valgrind_command(Machine(), folder / "dumps"), str(program)]
        log = {"UNPERTURBED_LOG": str(log_of(folder / "dumps"))}
        beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)]
        try:
            records, done = sample(folder, command, Setup("simulated", 1, "work"), log)
        finally:
            for process in beside:
                process.kill()
                process.wait()
        assert done.returncode == 0
        ends.append(np.cumsum(read_dumps(next(folder.glob("dumps.*")), len(records.rows) - 1)["Ir"])[:-1])
    common = min(map(len, ends))
    calls = "write" in work  # Such a run may end just before or after an interval's end
    assert max(map(len, ends)) <= common + calls
    assert common > 20
    apart = np.abs(ends[0][:common] - ends[1][:common]) / (ends[0][-1] / len(ends[0]))
    assert np.median(apart) < median
    assert apart.max() < most


def test_a_quantum_of_the_smallest_blocks_counts(tmp_path: Path) -> None:
    """A loop of two instructions is one block a turn and ends every quantum at one place.

    In the shortest time there can be.
    """
    text = 'int main(void) { for (long i = 0; i < 15000000; i++) __asm__ volatile(""); return 0; }'
    program = compile_program(tmp_path, text)
    records, done = sample(
        tmp_path, [*valgrind_command(Machine(), tmp_path / "dumps"), str(program)], Setup("simulated", 1, "work")
    )
    assert done.returncode == 0
    assert len(records.rows) in range(149, 154)


def test_valgrind_writes_into_folders_whose_names_have_percent_signs(tmp_path: Path) -> None:
    folder = tmp_path / "100%p %q{HOME} %%"
    folder.mkdir()
    done = subprocess.run([*valgrind_command(Machine(), folder / "dumps"), "true"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name.split(".")[0] for file in folder.iterdir()) == ["dumps", "valgrind"]
