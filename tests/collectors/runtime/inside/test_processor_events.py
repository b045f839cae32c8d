"""Topdown events, metrics of perf's tables and libpfm4's names on this processor, beside what perf itself counts.

The whole of it waits for a host whose processor counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import Build, run
from unperturbed.collectors.listing import trials_on_this_host
from unperturbed.collectors.passes import plan_passes
from unperturbed.collectors.records.file import Mark, Records, Setup
from unperturbed.collectors.sources import Event, Pass
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.collectors.sources.perf.events import describe, refusal
from unperturbed.collectors.sources.perf.listing import ask_kernel
from unperturbed.collectors.sources.perf.sysfs import own_core, pmus
from unperturbed.collectors.sources.perf.tables import read_tables
from unperturbed.collectors.sources.perf.translation import translate
from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.errors import SpecError

pytestmark = pytest.mark.processor

LEVEL_1 = tuple(f"perf::topdown-{part}" for part in ("retiring", "bad-spec", "fe-bound", "be-bound"))
PROGRAM = """
#include <stdlib.h>
int main(void) {
    volatile unsigned *table = malloc(64 << 20), at = 1, sum = 0;
    for (long turn = 0; turn < 60000000; turn++) {
        at = at * 1664525u + 1013904223u;
        if (turn % 8 == 0) sum += table[at >> 8 & 0xffffff];
        if (at & 0x10000) sum ^= at;
    }
    return sum == 1;
}
"""


@pytest.fixture(autouse=True)
def _counting() -> None:
    cores = [pmu for pmu in pmus().values() if pmu.core]
    if not cores:
        pytest.skip("this host's processor has no PMU that the kernel offers")
    if len(cores) > 1 and own_core() is None:
        pytest.skip("a hybrid processor: confine the tests to one kind of core with taskset")


def planned(*names: str, multiplex: bool = False) -> Pass:
    found = plan_passes(names, source="perf_event", machine=Machine(), compiler="gcc", multiplex=multiplex)
    assert len(found.passes) == 1
    return found.passes[0]


def counted(build: Build, events: tuple[Event, ...], **options: object) -> Records:
    setup = Setup("perf_event", 5_000_000, "monotonic", events, **options)  # type: ignore[arg-type]
    records, done = run(build(PROGRAM), setup)
    assert (done.returncode, records.state, records.message) == (0, "finished", "")
    return records


def totals(records: Records, events: tuple[Event, ...]) -> dict[str, float]:
    gained = records.rows["hardware"][-1].astype(float) - records.rows["hardware"][0]
    return {event.name: float(count) for event, count in zip(events, gained[: len(events)], strict=True)}


def by_perf(program: Path, events: str) -> dict[str, float]:
    """Count by perf itself, in user space."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("needs perf")
    done = subprocess.run(
        [perf, "stat", "-x;", "-e", events, str(program)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    fields = [line.split(";") for line in done.stderr.splitlines() if line.count(";") > 3]
    return {field[2]: float(field[0]) for field in fields}


@pytest.fixture
def topdown() -> Pass:
    if why := refusal("perf::slots"):
        pytest.skip(why)
    return planned("perf::instructions", *LEVEL_1)


@pytest.mark.parametrize("user_read", [False, True])
def test_the_parts_are_all_slots_whoever_reads_them(build: Build, topdown: Pass, *, user_read: bool) -> None:
    assert topdown.events[0].name == "perf::slots"
    records = counted(build, topdown.events, user_read=user_read)
    counts = totals(records, topdown.events)
    assert sum(counts[name] for name in LEVEL_1) == pytest.approx(counts["perf::slots"], rel=0.03)
    assert (np.diff(records.rows["hardware"], axis=0) >= 0).all(), "a count never goes back"
    if user_read:
        assert not records.marks & Mark.USER_READ, "their register is not a count"


def test_shares_are_those_that_perf_counts(build: Build, topdown: Pass) -> None:
    counts = totals(counted(build, topdown.events), topdown.events)
    group = "{slots:u," + ",".join(f"{name.removeprefix('perf::')}:u" for name in LEVEL_1) + "}"
    perfs = by_perf(build(PROGRAM), group)
    for name in LEVEL_1:
        share = perfs[f"{name.removeprefix('perf::')}:u"] / perfs["slots:u"]
        assert counts[name] / counts["perf::slots"] == pytest.approx(share, abs=0.05), name


def test_topdown_events_that_take_turns_follow_their_leader(topdown: Pass) -> None:
    many = tuple(f"perf::cpu{'_core' if own_core() else ''}/event=0xc4,umask={mask}/" for mask in (*range(0, 128, 8),))
    found = plan_passes(
        (*many[:8], *LEVEL_1), source="perf_event", machine=Machine(), compiler="gcc", multiplex=True
    ).passes
    held = next(item for item in found if LEVEL_1[0] in {metric.name for metric in item.metrics})
    assert held.events[0].counted == topdown.events[0].counted


def test_metrics_of_perfs_tables_can_be_opened_and_retiring_is_a_share(build: Build) -> None:
    tables = read_tables()
    if tables.problem:
        pytest.skip(tables.problem)
    names, formulas = dict[str, None](), dict[str, str]()
    for metric in tables.metrics:
        try:
            found = translate(metric.asked, tables)
        except SpecError:
            continue
        names |= dict.fromkeys(found.events)
        formulas.setdefault(metric.name, found.formula)
    assert formulas
    answers = ask_kernel(trials_on_this_host("gcc"), {name: describe(name).code for name in names}).events
    refused = {name: answer.reason for name, answer in answers.items() if not answer.good}
    assert len(refused) < 0.1 * len(names), refused
    name = next((name for name in ("tma_retiring", "retiring") if name in formulas), None)
    if name is None:
        pytest.skip("perf's tables of this processor have no share of retiring")
    formula = parse_metric_expression(formulas[name])
    events = planned(*formula.names).events
    counts = totals(counted(build, events), events)
    (share,) = formula.evaluate({event: np.array([count]) for event, count in counts.items()})
    assert 0.05 < share < 1


def test_libpfms_instructions_are_the_kernels(build: Build) -> None:
    name = next((name for name in ("pfm::RETIRED_INSTRUCTIONS", "pfm::INST_RETIRED:ANY_P") if not refusal(name)), None)
    if name is None:
        pytest.skip("libpfm4 is missing, or knows no such event of this processor")
    events = planned(name, "perf::instructions").events
    counts = totals(counted(build, events), events)
    assert counts[name] == pytest.approx(counts["perf::instructions"], rel=0.01)
