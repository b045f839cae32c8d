"""Which metrics share a run: real events of this host tried under both samplers.

The packing over a described set of counters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collectors.sources.processors import SAPPHIRE_RAPIDS, ZEN_4, processor
from unperturbed.collectors import passes
from unperturbed.collectors.passes import Passes, plan_passes
from unperturbed.collectors.sources import Event, Request, find_sources
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.collectors.sources.perf import events as perf_events
from unperturbed.collectors.sources.perf import sysfs
from unperturbed.errors import HostError

KERNEL = ("perf::task-clock", "perf::page-faults", "perf::context-switches")


def plan(names: Sequence[str], source: str = "perf_event", **kwargs: Any) -> Passes:
    return plan_passes(names, source=source, machine=Machine(), compiler="gcc", **kwargs)


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_the_kernels_events_fit_one_run_under_either_sampler(sampler: Any) -> None:
    found = plan(KERNEL, sampler=sampler).passes
    assert [tuple(metric.name for metric in item.metrics) for item in found] == [KERNEL]
    assert not found[0].multiplexed


def test_events_that_need_no_counter_fill_a_record_and_go_to_further_passes() -> None:
    kinds = ("page-faults", "cs", "migrations", "minor-faults", "major-faults", "alignment-faults")
    asked = [f"perf::{kind}{mode}" for kind in kinds for mode in (":u", ":k", ":uk")]
    try:
        found = plan(asked)
    except HostError as error:
        pytest.skip(f"not all may be counted here: {error}")
    assert [len(item.metrics) for item in found.passes] == [16, 2]


def test_a_name_that_perf_does_not_know_is_refused_with_the_nearest() -> None:
    with pytest.raises(HostError, match="perf::page-faults"):
        plan(["perf::page-falts"])


def test_a_killed_trial_says_nothing_about_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    real = passes.build_empty_program
    programs = iter([killed])
    monkeypatch.setattr(passes, "build_empty_program", lambda compiler: next(programs, None) or real(compiler))
    assert len(plan(KERNEL[:1]).passes) == 1
    monkeypatch.setattr(passes, "build_empty_program", lambda _compiler: killed)
    with pytest.raises(HostError, match="the sampler did not start"):
        plan(KERNEL[:1])


def counters(number: int, pinned: dict[str, int] | None = None) -> Callable[..., str | None]:
    """Return a trial by a processor with so many counters, on which an event takes one, or as many as `pinned` says."""

    def trial(source: str, events: Sequence[Event], request: Request, *, multiplexed: bool = False) -> str | None:
        wanted = [(pinned or {}).get(event.name, 1) for event in events]
        if max(wanted) > number:
            return "it needs more counters than there are"
        return None if multiplexed or sum(wanted) <= number else "the events do not fit the counters together"

    return trial


EVENTS = tuple(f"perf::r{index:x}" for index in range(1, 20))


def names(found: Passes) -> list[list[str]]:
    return [[metric.name for metric in item.metrics] for item in found.passes]


def test_what_does_not_fit_goes_to_further_passes_that_share_what_runs_are_aligned_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "_trial", counters(4))
    found = plan(("perf::instructions", "perf::cycles", *EVENTS[:5]), shared=["perf::instructions", "perf::cycles"])
    assert names(found) == [
        ["perf::instructions", "perf::cycles", *EVENTS[:2]],
        ["perf::instructions", "perf::cycles", *EVENTS[2:4]],
        ["perf::instructions", "perf::cycles", EVENTS[4]],
    ]
    assert len({item.name for item in found.passes}) == 3


def test_an_event_that_leaves_no_room_for_the_shared_ones_is_refused_with_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passes, "_trial", counters(4, {EVENTS[0]: 4}))
    with pytest.raises(
        HostError, match=r"perf::r1 cannot be counted.*with perf::instructions, which every pass shares"
    ):
        plan(("perf::instructions", EVENTS[0]), shared=["perf::instructions"])


def test_events_take_turns_only_when_asked_and_only_through_perf_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_trial", counters(4))
    found = plan(EVENTS[:6], multiplex=True)
    assert names(found) == [list(EVENTS[:6])]
    assert found.passes[0].multiplexed
    assert not plan(EVENTS[:4], multiplex=True).passes[0].multiplexed
    presets = ["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_L1_DCM"]
    found = plan(presets, "auto", multiplex=True)
    assert [(item.source, item.multiplexed) for item in found.passes] == [("perf_event", True)]
    assert "which reports how long each event was counted" in found.reasons["papi"]


def test_a_later_source_gets_the_shared_metrics_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_trial", counters(8))
    found = plan(("PAPI_TOT_INS", "PAPI_L1_DCM", "perf::r1"), "auto", shared=["PAPI_TOT_INS"])
    by_source = {item.source: [metric.name for metric in item.metrics] for item in found.passes}
    assert by_source["papi"] == ["PAPI_TOT_INS", "PAPI_L1_DCM", "perf::r1"]
    sources = find_sources()
    known = sources["papi"].event

    def no_raw_events(name: str) -> Event | None:
        return None if name == "perf::r1" else known(name)

    changed = {**sources, "papi": replace(sources["papi"], event=no_raw_events)}
    monkeypatch.setattr(passes, "find_sources", lambda: changed)
    found = plan(("PAPI_TOT_INS", "PAPI_L1_DCM", "perf::r1"), "auto", shared=["PAPI_TOT_INS"])
    by_source = {item.source: [metric.name for metric in item.metrics] for item in found.passes}
    assert by_source == {"papi": ["PAPI_TOT_INS", "PAPI_L1_DCM"], "perf_event": ["PAPI_TOT_INS", "perf::r1"]}


def test_what_is_computed_together_has_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_trial", counters(8))
    sources = find_sources()
    known = sources["papi"].event

    def no_raw_events(name: str) -> Event | None:
        return None if name.startswith("perf::r") else known(name)

    changed = {**sources, "papi": replace(sources["papi"], event=no_raw_events)}
    monkeypatch.setattr(passes, "find_sources", lambda: changed)
    asked = ("PAPI_TOT_INS", "PAPI_BR_INS", "PAPI_L1_DCM", "perf::r1")

    def by_source(*together: frozenset[str]) -> dict[str, list[str]]:
        found = plan(asked, "auto", together=together)
        return {item.source: [metric.name for metric in item.metrics] for item in found.passes}

    alone = {"papi": ["PAPI_TOT_INS", "PAPI_BR_INS", "PAPI_L1_DCM"], "perf_event": ["perf::r1"]}
    assert by_source() == by_source(frozenset({"PAPI_TOT_INS", "PAPI_BR_INS"})) == alone
    assert by_source(frozenset({"PAPI_TOT_INS", "perf::r1"})) == {
        "papi": ["PAPI_BR_INS", "PAPI_L1_DCM"],
        "perf_event": ["PAPI_TOT_INS", "perf::r1"],
    }
    asked = ("PAPI_TOT_INS", "PAPI_FP_OPS", "perf::r1")
    assert by_source(frozenset({"PAPI_FP_OPS", "perf::r1"})) == {
        "papi": ["PAPI_TOT_INS", "PAPI_FP_OPS"],
        "perf_event": ["perf::r1"],
    }, "what no single source counts is counted by several"


def test_pairs_meet_in_the_fewest_passes_that_trials_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    fit = counters(4, {EVENTS[0]: 2})

    def trial(source: str, events: Sequence[Event], request: Request, *, multiplexed: bool = False) -> str | None:
        asked.append(tuple(event.name for event in events))
        return fit(source, events, request)

    monkeypatch.setattr(passes, "_trial", trial)
    shared = "perf::instructions"
    pairs = list(map(frozenset, combinations(EVENTS[:6], 2)))
    found = plan((shared, *EVENTS[:6]), shared=[shared], meet=pairs)
    held = [set(each) for each in names(found)]
    assert all(shared in each for each in held)
    assert all(any(pair <= each for each in held) for pair in pairs)
    # The first event takes two of three counters, so it meets the others one by one; any other three fit together.
    assert len(held) == 5 + 4
    assert found.division == "9 passes, the fewest possible (by greedy search)"
    groups = [each for each in asked if len(each) > 1]
    assert len(set(groups)) == len(groups), "no group is tried twice"
    again = plan((shared, *EVENTS[:6]), shared=[shared], meet=pairs, known=map(frozenset, names(found)))
    assert names(again) == names(found)


def test_a_pair_that_needs_more_counters_than_there_are_leaves_both_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_trial", counters(4, {EVENTS[0]: 3, EVENTS[1]: 2}))
    found = plan(EVENTS[:4], meet=[frozenset(EVENTS[:2]), frozenset(EVENTS[1:4])])
    assert names(found) == [list(EVENTS[1:4]), [EVENTS[0]]]
    with pytest.raises(
        HostError, match=r"perf::r1 cannot be counted.*with perf::r3, perf::r4, which every pass shares"
    ):
        plan(EVENTS[:4], shared=EVENTS[2:4], meet=[frozenset(EVENTS[:2])])


@given(
    room=st.integers(1, 6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    shared=st.sets(st.integers(0, 11), max_size=2),
)
def test_every_metric_that_fits_is_in_a_pass_that_fits(room: int, sizes: list[int], shared: set[int]) -> None:
    pinned = dict(zip(EVENTS, sizes, strict=False))
    asked = EVENTS[: len(sizes)]
    common = {asked[index] for index in shared if index < len(asked)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_trial", counters(room, pinned))
        try:
            found = names(plan(asked, shared=common))
        except HostError:
            largest = max(sizes) + sum(pinned[name] for name in common)
            assert largest > room, "it was refused though everything fits"
            return
    assert {name for held in found for name in held} == set(asked)
    for held in found:
        assert sum(pinned[name] for name in held) <= room
        assert len(set(held)) == len(held)
    fitting = [name for name in asked if name in common]
    if sum(pinned[name] for name in fitting) <= room:
        assert all(set(fitting) <= set(held) for held in found)


def test_what_was_passed_over_is_said_in_one_line_without_the_libraries_words() -> None:
    no_pmu = {
        "papi": "PAPI_TOT_INS: Event does not exist (this host has no PMU that the kernel can use)",
        "perf_event": "perf_event_open of PAPI_TOT_INS: No such file or directory",
    }
    assert passes.Passes((), no_pmu).passed_over == (
        "not used: papi, perf_event (this host has no such hardware counter: it has no PMU, like most virtual "
        "machines, or lacks the event)."
    )
    refused = passes.Passes((), {"papi": "perf_event support disabled by Linux with paranoid=3"}).passed_over
    assert "allow counting with: sysctl kernel.perf_event_paranoid=1" in refused
    assert passes.Passes((), {"papi": "libpapi: x"}).passed_over == "not used: papi (libpapi: x)."
    assert passes.Passes((), {}).passed_over == ""


def intel(root: Path, monkeypatch: pytest.MonkeyPatch, *, room: int = 4) -> list[list[Event]]:
    """Have perf_event plan for a Sapphire Rapids whose kernel holds to its rules; return what it was asked to open.

    The rules are those of arch/x86/events/intel/core.c: topdown events take no counter, and `slots` leads their group.
    """
    processor(root, SAPPHIRE_RAPIDS)
    perf = replace(
        find_sources()["perf_event"],
        event=partial(perf_events.event, root=root),
        metric=partial(perf_events.metric, root=root),
        refusal=partial(perf_events.refusal, root=root),
        leader=partial(sysfs.leader, root=root),
    )
    monkeypatch.setattr(passes, "find_sources", lambda: {"perf_event": perf})
    opened: list[list[Event]] = []

    def is_slots(event: Event) -> bool:
        return event.config == 0x400

    def is_topdown(event: Event) -> bool:
        return event.config & 0xFF == 0 and event.config >= 0x8000

    def trial(source: str, events: Sequence[Event], request: Request, *, multiplexed: bool = False) -> str | None:
        opened.append(list(events))
        lead: Event | None = None
        for event in events:
            if not (event.follows if multiplexed else lead is not None):
                lead = event
            if is_topdown(event) and not (lead and is_slots(lead) and lead.user == event.user):
                return "perf_event_open: Invalid argument"
        general = sum(not is_topdown(event) and not is_slots(event) for event in events)
        return None if multiplexed or general <= room else "the events do not fit the counters together"

    monkeypatch.setattr(passes, "_trial", trial)
    return opened


def test_slots_leads_topdown_events_and_is_added_where_nobody_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intel(tmp_path, monkeypatch)
    found = plan(["perf::instructions", "perf::topdown-retiring", "perf::topdown-bad-spec"])
    assert names(found) == [["perf::slots", "perf::topdown-retiring", "perf::topdown-bad-spec", "perf::instructions"]]
    assert [event.name for event in found.passes[0].events] == names(found)[0]
    found = plan(["perf::instructions", "perf::topdown-retiring", "perf::cpu/slots/"])
    assert names(found) == [["perf::cpu/slots/", "perf::topdown-retiring", "perf::instructions"]], "its name is kept"


def test_a_topdown_group_is_whole_in_one_pass_and_takes_no_counter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intel(tmp_path, monkeypatch)
    group = [f"perf::topdown-{part}" for part in ("retiring", "bad-spec", "fe-bound", "be-bound")]
    mixed = [*EVENTS[:3], group[0], *EVENTS[3:6], *group[1:], "perf::slots"]
    found = plan(mixed)
    assert len(found.passes) == 2
    (whole,) = [held for held in names(found) if group[0] in held]
    assert whole[0] == "perf::slots"
    assert set(group) < set(whole)
    assert len(whole) == 1 + len(group) + 4
    assert {name for held in names(found) for name in held} == set(mixed)


def test_a_processor_without_topdown_events_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    intel(tmp_path, monkeypatch)
    perf = passes.find_sources()["perf_event"]
    amd = processor(tmp_path / "amd", ZEN_4)
    changed = replace(perf, event=partial(perf_events.event, root=amd), refusal=partial(perf_events.refusal, root=amd))
    monkeypatch.setattr(passes, "find_sources", lambda: {"perf_event": changed})
    with pytest.raises(HostError) as caught:
        plan(["perf::slots", "perf::topdown-retiring", "perf::instructions"])
    assert str(caught.value) == (
        "perf::slots, perf::topdown-retiring cannot be counted on this host (perf_event: the PMU cpu of this processor "
        "has no topdown events (slots, topdown-retiring, …): Intel's processors have them from Ice Lake on; perf's own "
        "metrics may provide the same (`unperturbed metrics frontend_bound`))"
    )


def test_topdown_events_of_user_space_and_of_the_kernel_have_a_run_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intel(tmp_path, monkeypatch)
    found = plan(["perf::topdown-retiring", "perf::topdown-retiring:k"])
    assert names(found) == [
        ["perf::slots", "perf::topdown-retiring"],
        ["perf::slots:k", "perf::topdown-retiring:k"],
    ]


def test_topdown_events_follow_their_leader_even_where_events_take_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intel(tmp_path, monkeypatch)
    found = plan([*EVENTS[:6], "perf::topdown-retiring", "perf::topdown-retiring:k"], multiplex=True)
    (turns,) = found.passes
    assert turns.multiplexed
    assert [(event.name, event.follows) for event in turns.events[:4]] == [
        ("perf::slots", False),
        ("perf::topdown-retiring", True),
        ("perf::slots:k", False),
        ("perf::topdown-retiring:k", True),
    ]
    assert not any(event.follows for event in turns.events[4:])


def test_an_event_that_follows_is_opened_in_the_group_before_it() -> None:
    """With real events of this kernel: a follower of a group that cannot be opened is refused with it."""
    lead, follower = Event("perf::page-faults", 1, 2, kernel=True), Event("perf::cs", 1, 3, kernel=True, follows=True)
    request = Request(Machine(), "gcc")
    assert passes._trial("perf_event", [lead, follower], request, multiplexed=True) is None
    broken = replace(follower, config=999)
    assert "perf_event_open of perf::cs" in str(passes._trial("perf_event", [lead, broken], request, multiplexed=True))


def test_metrics_that_something_is_computed_from_share_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_trial", counters(3))
    pairs = [frozenset({EVENTS[0], EVENTS[5]}), frozenset({EVENTS[1], EVENTS[4]}), frozenset({EVENTS[0], EVENTS[1]})]
    held = [set(found) for found in names(plan(EVENTS[:6], together=pairs))]
    assert all(any(pair <= one for one in held) for pair in pairs)
    assert set().union(*held) == set(EVENTS[:6])
    too_large = frozenset(EVENTS[:4])
    assert {name for found in names(plan(EVENTS[:4], together=[too_large])) for name in found} == too_large
