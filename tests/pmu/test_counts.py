"""On an emulated PMU, what the samplers record is what the program did.

By known work, and by perf_event's own count of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.pmu.cases import Result
from tests.pmu.matrix import INTERVAL_NS, MS, SAMPLERS, SOURCES, TEAM_WORK, WORK, WRAPPING_TURNS
from unperturbed.collectors.records.file import Mark, Records

EVERY_WAY = [f"{source}-{sampler}" for source in SOURCES for sampler in SAMPLERS]
RESET = ["reset-papi-inside", "reset-perf_event-inside", "reset-papi-outside"]
OFTEN = [f"often-{sampler}" for sampler in SAMPLERS]


def whole(result: Result) -> Records:
    """Return the records of a run in which nothing was missed."""
    records = result.sampled
    assert (result.status, result.stderr) == (0, "")
    assert (records.state, records.message, records.unread, records.nested, records.lost) == ("finished", "", 0, 0, 0)
    return records


def counted(records: Records) -> tuple[int, int]:
    """Return cycles and instructions from the first record to the last."""
    cycles, instructions = (records.rows["hardware"][-1] - records.rows["hardware"][0])[:2]
    return int(cycles), int(instructions)


def reference(results: Mapping[str, Result], name: str = "reference") -> tuple[int, int]:
    """Return cycles and instructions as perf_event alone counted them, with nothing of the project in between."""
    assert results[name].status == 0, results[name].stderr
    cycles, instructions, enabled, running = map(int, results[name].stdout.split())
    assert running == enabled > 0
    return cycles, instructions


@pytest.mark.parametrize("name", EVERY_WAY)
def test_cycles_and_instructions_of_every_interval(results: dict[str, Result], name: str) -> None:
    rows = whole(results[name]).rows
    intervals = np.diff(rows["monotonic_ns"])[1:-1]
    assert len(intervals) > 45
    assert np.abs(intervals / INTERVAL_NS - 1).max() < 0.01
    # A clock of 1 GHz and two nanoseconds an instruction; what is missing of the whole interval was spent in the kernel
    # or beside the program.
    cycles, instructions = np.diff(rows["hardware"], axis=0)[1:-1].T
    assert np.median(cycles) == pytest.approx(9_950_000, rel=0.005)
    assert np.median(instructions) == pytest.approx(4_975_000, rel=0.005)
    assert 9_500_000 < min(cycles) <= max(cycles) < 10_100_000
    assert cycles / instructions == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("name", [*EVERY_WAY, *RESET, *OFTEN])
def test_records_equal_what_perf_event_counts_alone(results: dict[str, Result], name: str) -> None:
    cycles, instructions = reference(results)
    assert WORK < instructions < 1.001 * WORK
    assert counted(whole(results[name])) == pytest.approx((cycles, instructions), rel=0.01)


def test_an_outside_record_costs_the_program_no_instruction(results: dict[str, Result]) -> None:
    seldom, often = whole(results["perf_event-outside"]), whole(results["often-outside"])
    more = len(often.rows) - len(seldom.rows)
    assert more > 400
    assert abs(counted(often)[1] - counted(seldom)[1]) < more


def test_an_inside_record_costs_the_program_few_instructions(results: dict[str, Result]) -> None:
    seldom, often = whole(results["perf_event-inside"]), whole(results["often-inside"])
    more = len(often.rows) - len(seldom.rows)
    assert more > 400
    assert 0 < counted(often)[1] - counted(seldom)[1] < 600 * more


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_events_that_take_turns_say_how_long_each_ran(results: dict[str, Result], sampler: str) -> None:
    cycles, instructions = reference(results)
    rows = whole(results[f"multiplexed-{sampler}"]).rows
    counts = rows["hardware"][-1] - rows["hardware"][0]
    enabled, running = (rows["times"][-1] - rows["times"][0]).T
    assert enabled == pytest.approx(480 * MS, rel=0.05)
    assert (running < 0.9 * enabled).all()
    assert (running > 0.3 * enabled).all()
    estimates = counts * enabled / running
    assert estimates[0] == pytest.approx(instructions, rel=0.03)
    assert estimates[1] == pytest.approx(cycles, rel=0.03)


def test_counters_read_in_user_space_survive_their_wrap(results: dict[str, Result]) -> None:
    records = whole(results["user-read"])
    assert records.marks & Mark.USER_READ
    work = 4 * WRAPPING_TURNS
    assert work > 1 << 31
    cycles, instructions = counted(records)
    assert instructions == pytest.approx(work, rel=0.001)
    assert cycles == pytest.approx(2 * work, rel=0.001)
    assert (np.diff(records.rows["hardware"], axis=0)[:-1] > 0).all()
    # Two registers against one system call.
    assert np.median(records.rows["read_ns"]) < np.median(results["perf_event-inside"].sampled.rows["read_ns"]) / 4


def test_without_permission_to_read_in_user_space_the_kernel_is_asked(results: dict[str, Result]) -> None:
    records = whole(results["user-read-forbidden"])
    assert not records.marks & Mark.USER_READ
    assert counted(records)[1] == pytest.approx(4_000_000, rel=0.01)


@pytest.mark.parametrize(
    ("name", "members", "software"),
    [
        ("team-main-thread", 1, [100, 100, 0]),
        ("team-threads-outside", 2, [100, 100, 0]),
        ("team-children", 3, [100, 100, 100]),
    ],
)
def test_threads_and_children_count_as_asked(
    results: dict[str, Result], name: str, members: int, software: list[int]
) -> None:
    records = whole(results[name])
    assert counted(records)[1] == pytest.approx(members * TEAM_WORK, rel=0.01)
    assert list(records.rows["software"][-1]) == software


def test_a_child_and_a_thread_are_in_perf_events_own_count(results: dict[str, Result]) -> None:
    _, instructions = reference(results, "team-reference")
    assert counted(whole(results["team-children"]))[1] == pytest.approx(instructions, rel=0.01)


def test_every_thread_has_its_own_sampler_inside(results: dict[str, Result]) -> None:
    records = whole(results["team-threads-inside"])
    assert records.threads == 2
    for thread in (0, 1):
        rows = records.rows[records.rows["thread"] == thread]
        gained = rows["hardware"][-1] - rows["hardware"][0]
        assert gained[1] == pytest.approx(TEAM_WORK, rel=0.01)
