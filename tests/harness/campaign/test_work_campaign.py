"""A campaign whose intervals end by counts of an event: the kernel's page faults, which every host can count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Trace
from unperturbed.collectors.listing import list_metrics
from unperturbed.harness.spec.load import load_spec

_PROGRAM = """
#include <stdio.h>
#include <sys/mman.h>
long step(long i) { return i * 7 % 13; }
int main(void) {
    long sum = 0;
    for (int i = 0; i < 20000; i++) {
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        page[0] = 1;
        munmap(page, 4096);
        if (i / 1000 % 2)
            sum += step(i);
    }
    printf("%ld\\n", sum);
    return 0;
}
"""
_SPEC = """
name: faults
program:
  source: .
  build: "{cc} -O1 -o {build}/faults faults.c"
  run: "{build}/faults"
measure:
  interval: 500 perf::page-faults
  hardware: ["perf::page-faults", "perf::task-clock"]
  software: {steps: {enter: step}}
campaign: {baseline_runs: 5, runs: 3}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faults.c").write_text(_PROGRAM)
    (tmp_path / "spec.yaml").write_text(_SPEC)
    return tmp_path


def test_runs_need_no_alignment_and_the_report_says_by_what_intervals_ended(folder: Path) -> None:
    done = unperturbed(folder, "run", folder / "spec.yaml")
    assert done.returncode == 0, done.stderr
    campaign = folder / "campaigns" / "faults"
    runs = [Trace.read(file) for file in sorted(campaign.glob("runs/000[1-8]/trace.parquet"))]
    assert len(runs) == 8
    for trace in runs:
        assert set(trace["perf::page-faults"][1:-1]) == {500}
        assert (trace.attributes["interval_event"], trace.attributes["interval_ns"]) == ("perf::page-faults", 500)
        assert (trace.attributes["skid_median"], trace.attributes["missed_ticks"]) == (0, 0)
        assert trace.overview().caption.endswith(
            "each interval ends after 500 counts of perf::page-faults, median skid 0"
        )
    steps = [np.cumsum(trace["steps"]) for trace in runs if "steps" in trace]
    assert len(steps) == 3
    assert {counts[-1] for counts in steps} == {10_000}
    # The kernel maps a file's pages one by one or several at once, so the faults at the program's start vary in number.
    # The program takes at least one fault per step, so its steps shift by no more than that, and by as much as at the
    # first end among them. Totals do not show it where a run's end has a fault less.
    shifts = np.ptp(np.stack(steps), axis=0)
    totals = [trace["perf::page-faults"].sum() for trace in runs if "steps" in trace]
    at_first = shifts[np.flatnonzero(steps[0])[0]]
    assert shifts.max() <= max(at_first, np.ptp(totals))
    assert at_first <= np.ptp(totals) + 1
    report = (campaign / "report.html").read_text()
    assert "500 perf::page-faults" in report
    assert (
        "every 500 counts of perf::page-faults. The median skid, from the overflow to the reading of the counters, is "
        "0 counts" in report
    )
    assert "when perf::page-faults overflows" in report
    assert up.load(campaign).spec.measure.interval_event == "perf::page-faults"


def test_another_number_of_counts_is_another_campaign(folder: Path) -> None:
    """The same spec with intervals of another unit is not the same measurement."""
    digests = set()
    for interval in ("500 perf::page-faults", "600 perf::page-faults", "20 ms", "{records: 200}"):
        (folder / "spec.yaml").write_text(_SPEC.replace("500 perf::page-faults", interval))
        digests.add(load_spec(folder / "spec.yaml").digest)
    assert len(digests) == 4


def test_what_would_be_simulated_is_refused_at_its_place(folder: Path) -> None:
    """Which metrics only the simulator counts differs with the host's processor."""
    listed = list_metrics(pattern="PAPI_").metrics
    simulated = next(
        item.name for item in listed if {way.source for way in item.ways if way.available} == {"simulated"}
    )
    text = _SPEC.replace("500 perf::page-faults", f"2 M {simulated}").replace('"perf::page-faults"', simulated)
    (folder / "spec.yaml").write_text(text)
    done = unperturbed(folder, "run", folder / "spec.yaml")
    assert done.returncode == 2, done.stderr
    said = f"spec.yaml:8:13: `interval` is a number of {simulated}, but {simulated} would be simulated here, and"
    assert f"{said} the simulator cannot end an interval after a given number of events" in done.stderr
    assert not (folder / "campaigns" / "faults" / "runs").exists()
