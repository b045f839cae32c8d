"""Counters that a program reads of its own processor in user space, beside the kernel's reading of the same ones.

The whole of it waits for a host whose processor counts; the emulated machine of `tests/pmu` has the same of arm64.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import Build, run
from unperturbed.collectors.records.file import OVERFLOW_SIGNAL, Mark, Records, Setup
from unperturbed.collectors.sources import Event

pytestmark = pytest.mark.processor

INSTRUCTIONS, CYCLES = Event("perf::instructions", 0, 1), Event("perf::cycles", 0, 0)
TURNS = 40_000_000
INTERVAL_NS = 1_000_000
PROGRAM = (
    "int main(void) { for (long turn = 0; turn < "
    + str(TURNS)
    + '; turn++) __asm__ volatile("nop\\nnop\\nnop\\nnop\\nnop\\nnop"); return 0; }'
)
LEAST = 7 * TURNS
"""Six no-ops and at least the jump back."""


@pytest.fixture(autouse=True)
def _counting() -> None:
    devices = Path("/sys/bus/event_source/devices")
    if not any((devices / name).exists() for name in ("cpu", "cpu_core")):
        pytest.skip("this host's processor has no PMU that the kernel offers")


def counted(build: Build, **options: object) -> Records:
    setup = Setup("perf_event", INTERVAL_NS, "monotonic", (INSTRUCTIONS, CYCLES), **options)  # type: ignore[arg-type]
    records, done = run(build(PROGRAM), setup)
    assert (done.returncode, records.state, records.message) == (0, "finished", "")
    return records


def total(records: Records) -> np.ndarray:
    return records.rows["hardware"][-1] - records.rows["hardware"][0]


def test_user_space_reads_what_the_kernel_reads(build: Build) -> None:
    by_kernel, by_program = counted(build), counted(build, user_read=True)
    assert not by_kernel.marks & Mark.USER_READ
    if not by_program.marks & Mark.USER_READ:
        pytest.skip("the kernel forbids reading counters in user space (/sys/bus/event_source/devices/cpu*/rdpmc is 0)")
    for records in (by_kernel, by_program):
        assert (np.diff(records.rows["hardware"], axis=0) >= 0).all(), "a counter never goes back"
        assert total(records)[0] >= LEAST
    assert total(by_program)[0] == pytest.approx(total(by_kernel)[0], rel=0.005)


def test_a_reading_in_user_space_is_faster(build: Build) -> None:
    by_kernel, by_program = counted(build), counted(build, user_read=True)
    if not by_program.marks & Mark.USER_READ:
        pytest.skip("the kernel forbids reading counters in user space")
    assert np.median(by_program.rows["read_ns"]) < np.median(by_kernel.rows["read_ns"])


def test_instructions_end_intervals(build: Build) -> None:
    period = 1_000_000
    events = (INSTRUCTIONS, CYCLES)
    setup = Setup("perf_event", period, "event", events, signal=OVERFLOW_SIGNAL, interval_event=INSTRUCTIONS.name)
    records, done = run(build(PROGRAM), setup)
    assert (done.returncode, records.state, records.message) == (0, "finished", "")
    lengths = np.diff(records.rows["hardware"][:, 0].astype(np.int64))[:-1]
    assert len(lengths) >= 0.9 * LEAST / period
    assert np.median(np.abs(lengths - period)) < period / 100
