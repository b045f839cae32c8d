"""PAPI 6.0, 7.1 and 7.2 on an emulated PMU, beside 7.0: each counts the same, and which one is loaded can be chosen.

The guest's own, 7.0, is its release's; the others come from the releases before and after it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.pmu.architectures import ARM64
from tests.pmu.cases import Case, Result, run_cases
from tests.pmu.machine import Machine
from tests.pmu.matrix import (
    ABSENT,
    COUNTABLE,
    CYCLES,
    INSTRUCTIONS,
    PERIOD,
    SAMPLERS,
    SHORT_TURNS,
    TEAM_TURNS,
    TEAM_WORK,
    both,
    command,
    overflowing,
    papi,
)
from tests.pmu.packages import fetch_papi
from tests.pmu.test_counts import counted, whole
from tests.pmu.test_refusals import refused
from unperturbed.collectors.records.counts import missed_overflows

pytestmark = pytest.mark.long  # what the sources of other releases offer changes, and must not stop a change of ours

RELEASES = {
    "6.0": ("bullseye", ("libpfm4",)),
    "7.1": ("trixie", ("libc6", "libgcc-s1")),
    "7.2": ("forky", ("libc6", "libgcc-s1", "libpfm4")),
}
"""The Debian release that has this PAPI, and what it needs of that. (Trixie's libpfm knows the PMU by the name that
trixie's kernel gives it, which is another than the guest's.)"""
GUESTS_OWN = "7.0"
WORK = 4 * SHORT_TURNS
DERIVED = "PAPI_L2_DCH"
"""A preset that PAPI computes from two events, so that it must read all itself."""


def cases_of(version: str) -> dict[str, Case]:
    chosen = {"papi": f"{ARM64.libraries}/libpapi.so.{version}"}
    cases = {"enumeration": Case(f"export UNPERTURBED_PAPI={chosen['papi']}; echo papi-enumerate | list")}
    for sampler in SAMPLERS:
        run = command(sampler, SHORT_TURNS)
        cases |= {
            f"count-{sampler}": Case(run, both("papi", sampler, **chosen)),
            f"reset-{sampler}": Case(run, both("papi", sampler, reset=True, **chosen)),
            f"overflow-{sampler}": Case(run, overflowing("papi", sampler, PERIOD // 10, **chosen)),
            f"derived-{sampler}": Case(run, papi(sampler, CYCLES, INSTRUCTIONS, DERIVED, **chosen)),
            f"absent-{sampler}": Case(run, papi(sampler, ABSENT, **chosen)),
            f"level-3-{sampler}": Case(run, both("papi", sampler, **chosen), paranoid=3),
            f"nobody-2-{sampler}": Case(run, both("papi", sampler, **chosen), user="nobody", paranoid=2),
            f"nobody-3-{sampler}": Case(run, both("papi", sampler, **chosen), user="nobody", paranoid=3),
            f"found-{sampler}": Case(run, both("papi", sampler)),
            f"by-name-{sampler}": Case(run, both("papi", sampler, papi=f"libpapi.so.{version}")),
            f"own-{sampler}": Case(run, both("papi", sampler, papi=f"libpapi.so.{GUESTS_OWN}")),
            f"gone-{sampler}": Case(run, both("papi", sampler, papi="/lib/libpapi.so.9")),
        }
    team = {sampler: command(sampler, TEAM_TURNS, "team") for sampler in SAMPLERS}
    events = papi("inside", CYCLES, INSTRUCTIONS, DERIVED).events
    cases["threads"] = Case(team["inside"], papi("inside", CYCLES, INSTRUCTIONS, threads=True, software=3, **chosen))
    cases["children"] = Case(
        team["outside"], papi("outside", *(event.name for event in events), children=True, software=3, **chosen)
    )
    return cases


@pytest.fixture(scope="module", params=RELEASES)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def results(
    version: str, machine: Machine, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    files = {**programs, **fetch_papi(*RELEASES[version])}
    return run_cases(machine, files, cases_of(version), tmp_path_factory.mktemp("papi"), timeout_s=120)


def test_it_offers_the_presets_of_this_processor(results: dict[str, Result], version: str) -> None:
    answers = [line.split("\t") for line in results["enumeration"].stdout.splitlines()]
    assert answers[0][:3] == ["library", f"{version}.0", "ok"]
    assert {name for what, name, reason, *_ in answers if (what, reason) == ("preset", "ok")} == set(COUNTABLE)
    native = {name for what, name, reason, *_ in answers if (what, reason) == ("native", "ok")}
    assert {"arm_ac57::INST_RETIRED", "perf::PAGE-FAULTS"} <= native


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("case", ["count", "reset", "derived", "nobody-2", "by-name"])
def test_it_counts_the_known_work(results: dict[str, Result], version: str, case: str, sampler: str) -> None:
    records = whole(results[f"{case}-{sampler}"])
    assert records.papi_version == version
    assert len(records.rows) >= 8
    cycles, instructions = counted(records)
    assert instructions == pytest.approx(WORK, rel=0.005)
    assert cycles == pytest.approx(2 * WORK, rel=0.005)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_its_counters_end_intervals(results: dict[str, Result], version: str, sampler: str) -> None:
    records = whole(results[f"overflow-{sampler}"])
    assert records.papi_version == version
    cycles = records.rows["hardware"][:, 0]
    assert not missed_overflows(cycles, PERIOD // 10).any()
    assert np.abs(np.diff(cycles)[1:-1] - PERIOD // 10).max() < PERIOD / 1000


def test_threads_and_children_count_as_asked(results: dict[str, Result]) -> None:
    threads = whole(results["threads"])
    assert threads.threads == 2
    for thread in (0, 1):
        rows = threads.rows[threads.rows["thread"] == thread]
        assert rows["hardware"][-1][1] - rows["hardware"][0][1] == pytest.approx(TEAM_WORK, rel=0.01)
    children = whole(results["children"])
    assert list(children.rows["software"][-1]) == [100, 100, 100]
    assert counted(children)[1] == pytest.approx(3 * TEAM_WORK, rel=0.01)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_it_gives_the_same_reasons(results: dict[str, Result], sampler: str) -> None:
    assert refused(results[f"absent-{sampler}"], sampler).message == f"{ABSENT}: Event does not exist"
    for name in ("level-3", "nobody-3"):  # it looks at the level, not at what the process may do
        assert "disabled by Linux with paranoid=3" in refused(results[f"{name}-{sampler}"], sampler).message


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_of_several_the_newest_is_loaded_or_the_one_that_was_chosen(
    results: dict[str, Result], version: str, sampler: str
) -> None:
    assert whole(results[f"found-{sampler}"]).papi_version == max(version, GUESTS_OWN)
    assert whole(results[f"own-{sampler}"]).papi_version == GUESTS_OWN
    assert refused(results[f"gone-{sampler}"], sampler).message.startswith("libpapi: /lib/libpapi.so.9: cannot open")
