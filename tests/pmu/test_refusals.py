"""On an emulated PMU: what can be counted there, and how a sampler says that it cannot."""

from __future__ import annotations

import pytest

from tests.pmu.cases import Result
from tests.pmu.matrix import ABSENT, CASES, COUNTABLE, CYCLES, INSTRUCTIONS, PROGRAMMABLE, SAMPLERS, SOURCES
from unperturbed.collectors.records.file import Records
from unperturbed.collectors.sources import Event


def refused(result: Result, sampler: str) -> Records:
    """Return the records of a run that could not be sampled.

    The program itself is left alone inside; outside it is not started.
    """
    records = result.sampled
    assert (records.state, len(records.rows)) == ("failed", 0)
    assert result.status == (0 if sampler == "inside" else 127)
    return records


def test_papi_lists_the_presets_of_this_processor(results: dict[str, Result]) -> None:
    answers = [line.split("\t") for line in results["enumeration"].stdout.splitlines()]
    presets = {fields[1]: fields[2] for fields in answers if fields[0] == "preset"}
    assert len(presets) > 100
    assert {name for name, reason in presets.items() if reason == "ok"} == set(COUNTABLE)
    assert presets[ABSENT] == "Event does not exist"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_preset_can_be_sampled(results: dict[str, Result], sampler: str) -> None:
    seen: set[str] = set()
    for name, case in CASES.items():
        if name.startswith("presets-") and name.endswith(sampler) and case.setup:
            records = results[name].sampled
            assert (records.state, records.message) == ("finished", "")
            for event, count in zip(case.setup.events, records.rows["hardware"][-1], strict=True):
                assert (count > 4_000_000) == (event.name in {CYCLES, INSTRUCTIONS})
                seen.add(event.name)
    assert seen == set(COUNTABLE)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_six_presets_and_cycles_fit_and_a_seventh_is_refused_with_papis_reason(
    results: dict[str, Result], sampler: str
) -> None:
    fitting = results[f"six-and-cycles-{sampler}"].sampled
    assert (fitting.state, fitting.message) == ("finished", "")
    setup = CASES[f"six-and-cycles-{sampler}"].setup
    assert setup
    counts = dict(zip(setup.events, fitting.rows["hardware"][-1], strict=True))
    assert counts[Event(INSTRUCTIONS)] > 4_000_000
    message = refused(results[f"seven-{sampler}"], sampler).message
    assert PROGRAMMABLE[6] in message
    assert "Event exists, but cannot be counted due to hardware resource limits" in message


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("source", SOURCES)
def test_level_2_lets_everybody_count_and_level_3_nobody_without_capabilities(
    results: dict[str, Result], source: str, sampler: str
) -> None:
    allowed = results[f"nobody-2-{source}-{sampler}"].sampled
    assert (allowed.state, allowed.message) == ("finished", "")
    assert 4_000_000 < allowed.rows["hardware"][-1][1] - allowed.rows["hardware"][0][1] < 4_200_000
    refused(results[f"nobody-3-{source}-{sampler}"], sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_at_level_3_the_kernel_lets_root_count_and_papi_does_not(results: dict[str, Result], sampler: str) -> None:
    assert results[f"root-3-perf_event-{sampler}"].sampled.state == "finished"
    # PAPI 7.0 looks at the level, not at what the process may do.
    assert "paranoid" in refused(results[f"root-3-papi-{sampler}"], sampler).message


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_permission_library_pmu_and_event_are_told_apart(
    results: dict[str, Result], results_without_pmu: dict[str, Result], sampler: str
) -> None:
    permission = refused(results[f"nobody-3-papi-{sampler}"], sampler).message
    library = refused(results[f"no-library-{sampler}"], sampler).message
    pmu = refused(results_without_pmu[f"papi-{sampler}"], sampler).message
    event = refused(results[f"absent-{sampler}"], sampler).message
    assert "perf_event support disabled by Linux with paranoid=3" in permission
    assert library == "libpapi: not installed"
    assert "no PMU" in pmu
    assert event == f"{ABSENT}: Event does not exist"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_perf_event_tells_permission_from_a_missing_pmu(
    results: dict[str, Result], results_without_pmu: dict[str, Result], sampler: str
) -> None:
    assert "Permission denied" in refused(results[f"nobody-3-perf_event-{sampler}"], sampler).message
    assert "No such file or directory" in refused(results_without_pmu[f"perf_event-{sampler}"], sampler).message


def test_a_group_that_never_ran_is_not_taken_for_zeros(results: dict[str, Result]) -> None:
    # Its leader is disabled until the whole group is open, and so the kernel does not see at opening that eight do not
    # fit.
    rows = results["too-many-inside"].sampled.rows
    assert rows["enabled_ns"][-1] > 0
    assert rows["running_ns"][-1] == 0
    assert "Invalid argument" in refused(results["too-many-outside"], "outside").message


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_library_older_than_the_processor_is_told_apart_and_perf_event_counts(
    results_of_unknown_processor: dict[str, Result], sampler: str
) -> None:
    message = refused(results_of_unknown_processor[f"papi-{sampler}"], sampler).message
    assert "newer than this PAPI" in message
    assert "no PMU" not in message
    counted = results_of_unknown_processor[f"perf_event-{sampler}"].sampled
    assert counted.state == "finished"
    assert 4_000_000 < counted.rows["hardware"][-1][1] - counted.rows["hardware"][0][1] < 4_200_000
