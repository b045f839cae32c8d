"""Stretches of a run against its others, on simulated logs of a server: what is found, what is not, what is told."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.diagnosis.slow_phases import SERVERS, Server, rate
from tests.analysis.diagnosis.players import MS
from unperturbed.analysis.diagnosis import EventTrace, SlowPhase, diagnose
from unperturbed.analysis.diagnosis.comparison import compare
from unperturbed.analysis.diagnosis.kinds.slow_phase import STRETCHES, _contrasts, added_time
from unperturbed.errors import DataError
from unperturbed.harness.cli import main

SERVER = SERVERS["as recorded"]
GOOD = [SERVER.run(seed) for seed in range(1, 4)]
SLOW = replace(SERVER, slow=2.7, everything=False)


def test_a_slow_second_part_is_found_though_good_runs_differ_as_much_as_a_whole() -> None:
    levels = [one.duration for one in GOOD]
    assert max(levels) > 1.4 * min(levels)
    told = diagnose(GOOD, SLOW.run(7, (0.4, 1.0)))
    assert told.verdict == "anomalous"
    (phase,) = [one for one in told.findings if one.kind == "slow phase"]
    assert phase.strength["ratio"] == pytest.approx(2.7, rel=0.1)
    assert (phase.strength["from_share"], phase.strength["to_share"]) == (0.4, 1.0)
    assert "db: query end takes 2." in phase.summary
    assert (phase.plugin, phase.carriers[0].event.name) == ("db", "db: query end")
    assert phase.floor is not None
    assert phase.floor < phase.threshold < phase.measured
    assert diagnose(GOOD, SERVER.run(7)).verdict == "clean"


def test_since_when_and_how_much_longer() -> None:
    trace = SLOW.run(8, (0.3, 0.6))
    (phase,) = diagnose(GOOD, trace, kinds=[SlowPhase()]).findings
    starts = trace.since_start[trace.events == trace.types.index(GOOD[0].types[3])]
    assert phase.since == pytest.approx(starts[45], abs=5 * MS)
    usual = SERVER.run(8)
    assert phase.carriers[0].change == pytest.approx(trace.duration - usual.duration, rel=0.15)


@pytest.mark.parametrize("name", list(SERVERS))
@pytest.mark.thorough
def test_good_runs_are_seldom_said_to_have_a_slow_phase(name: str) -> None:
    logs = 20
    allowed = 0.05 * logs + 3 * math.sqrt(0.05 * 0.95 * logs)
    assert rate(SERVERS[name], 3, logs) * logs <= allowed


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("references", [3, 10])
@pytest.mark.thorough
def test_twice_the_time_is_found_wherever_it_begins(references: int, everything: bool) -> None:
    assert rate(replace(SERVER, slow=2.0, everything=everything), references, 30) >= 0.9


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("name", ["210 to 390 requests", "a fifth to a half need no query", "both"])
@pytest.mark.thorough
def test_twice_the_time_is_found_though_counts_vary_from_run_to_run(name: str, everything: bool) -> None:
    assert rate(replace(SERVERS[name], slow=2.0, everything=everything), 6, 20) >= 0.9


def test_a_slow_phase_is_found_where_nothing_is_steady_and_nothing_else_is_claimed() -> None:
    server = SERVERS["both"]
    good = [server.run(seed) for seed in range(1, 7)]
    told = diagnose(good, replace(server, slow=2.7).run(9, (0.3, 0.7)))
    assert (told.verdict, [one.kind for one in told.findings]) == ("anomalous", ["slow phase"])
    assert any("lost events and delays cannot be found" in note for note in told.notes)
    untold = {one.kind for one in diagnose(good, server.run(9)).visible if one.size is None}
    assert untold >= {"lost events", "desynchronisation", "slow streaming"}
    assert "slow phase" not in untold


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.thorough
def test_a_change_of_the_stated_size_is_found(everything: bool) -> None:
    assert rate(replace(SERVER, everything=everything), 5, 30, as_stated=True) >= 0.9


def test_a_run_that_is_slow_as_a_whole_has_no_slow_phase() -> None:
    whole = EventTrace(GOOD[0].timestamps * 3, GOOD[0].events, GOOD[0].types, "ns")
    assert SlowPhase().find(compare([*GOOD[1:], SERVER.run(9)], whole)) is None


def test_what_slows_every_reference_is_no_anomaly() -> None:
    drifting = Server(slow=3.0)
    good, trace = [drifting.run(seed, (0.2, 0.5)) for seed in range(1, 4)], drifting.run(5, (0.2, 0.5))
    assert SlowPhase().find(compare(good, trace)) is None
    assert SlowPhase().find(compare(good, drifting.run(5, (0.6, 0.9)))) is not None


def test_a_fast_stretch_makes_the_others_no_slow_phase() -> None:
    fast = replace(SERVER, slow=0.3)
    assert SlowPhase().find(compare(GOOD, fast.run(6, (0.3, 0.6)))) is None


def test_events_of_another_thread_in_between_are_no_slow_phase() -> None:
    # They take over waits of the query, from the middle of the run on, and nothing takes longer.
    def with_ticks(trace: EventTrace, from_share: float) -> EventTrace:
        pairs = [(int(at), trace.types[event].name) for at, event in zip(trace.timestamps, trace.events, strict=True)]
        queries = [at for at, name in pairs if name == "db: query begin"]
        ticks = [(at + 10_000, "timer: tick") for at in queries[round(from_share * len(queries)) :]]
        early = [(at - 10_000, "timer: tick") for at in queries[: round(from_share * len(queries))]]
        return EventTrace.from_pairs(sorted([*pairs, *ticks, *early]), unit="ns")

    good = [with_ticks(one, 0.0) for one in GOOD]
    assert SlowPhase().find(compare(good, with_ticks(SERVER.run(7), 0.5))) is None


def test_too_few_references_or_events_cannot_tell() -> None:
    few = Server(requests=50)
    for given, trace, reason in (
        (GOOD[:2], SLOW.run(7, (0.4, 1.0)), "3 or more references"),
        ([few.run(seed) for seed in range(1, 4)], few.run(9), "at least 60 times"),
    ):
        told = diagnose(given, trace)
        assert "slow phase" not in told.kinds
        (untold,) = [one for one in told.visible if one.kind == "slow phase"]
        assert untold.size is None
        assert reason in untold.reason


def test_a_log_without_regular_events_tells_of_every_kind_but_a_crash_that_it_cannot_be_seen() -> None:
    short = [EventTrace.from_pairs([(0, "a:x"), (5, "a:y"), (9, "a:z")], unit="ms") for _ in range(3)]
    untold = {one.kind for one in diagnose(short, short[0]).visible if one.size is None}
    assert untold >= {"lost events", "desynchronisation", "slow streaming", "slow phase"}
    assert "crash or truncation" not in untold


# What a clean verdict states


def test_a_clean_verdict_states_what_could_have_been_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean = diagnose(GOOD, SERVER.run(7))
    known = [
        "crash or truncation",
        "missing event type",
        "lost events",
        "desynchronisation",
        "slow streaming",
        "slow phase",
    ]
    assert [one.kind for one in clean.visible if one.kind in known] == [*known, "slow phase"]
    assert all(
        one.size is not None and (one.reason or one.least is not None) for one in clean.visible if one.kind in known
    )
    told = {one["kind"]: one for one in json.loads(json.dumps(clean.to_dict()))["visible"]}
    assert told["lost events"]["size"] == pytest.approx(1 / 150)
    paths = []
    for number, trace in enumerate([*GOOD, SERVER.run(7)]):
        paths.append(tmp_path / f"{number}.log")
        lines = zip(trace.timestamps.tolist(), trace.events.tolist(), strict=True)
        paths[-1].write_text("".join(f"{at} {trace.types[event].name}\n" for at, event in lines))
    page = tmp_path / "page.html"
    assert main(["diagnose", "--unit", "ns", *map(str, paths), "--html", str(page)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "Smallest change that would have been found: crash or truncation early end",
        "lost events loss in 3 event types of a stream (all if it has fewer): 0.7% of a stream's events "
        "(references differ by up to 0.0%; changes below 0.5% never count)",
        "lasting offset between two streams: 3",
        "slowdown of everything in a stretch of a fifth of the run or more",
    ):
        assert text in shown
    assert "Smallest changes that would have been found" in page.read_text()


# Names and times


def test_a_stream_without_a_plugin_has_a_name_in_every_message() -> None:
    def beats(seed: int, kept: float) -> EventTrace:
        random = np.random.default_rng(seed)
        pairs = [
            (20_000 * at + place, name)
            for at in range(200)
            for place, name in enumerate(("work begins", "work ends"))
            if at % 2 or random.random() < kept
        ]
        return EventTrace.from_pairs(pairs, unit="us", name=f"beats-{seed}")

    (lost, *_) = diagnose([beats(seed, 1.0) for seed in range(3)], beats(5, 0.5)).findings
    assert "of  " not in lost.summary
    assert re.search(r"of the stream that contains work \w+ are lost", lost.summary)


def test_a_log_with_all_events_at_one_time_is_refused() -> None:
    at_once = EventTrace.from_pairs([(5, "alpha"), (5, "beta")] * 300, unit="ticks", name="once.log")
    with pytest.raises(DataError, match=r"once\.log: all 600 events have the same timestamp, 5 ticks"):
        diagnose(at_once, at_once)
    with pytest.raises(DataError, match="all 600 events have the same timestamp"):
        diagnose([GOOD[0]], EventTrace(at_once.timestamps, at_once.events, at_once.types, "ns", "once.log"))


# Slow twins


def test_contrasts_against_a_slow_twin() -> None:
    blocks = np.random.default_rng(4).normal(size=(2, 20))
    for row, found in zip(blocks, _contrasts(blocks), strict=True):
        for (first, end), value in zip(STRETCHES, found, strict=True):
            rest = [*row[:first], *row[end:]]
            assert value == pytest.approx(np.median(row[first:end]) - np.quantile(rest, 0.75))
    assert min(end - first for first, end in STRETCHES) == 4
    assert max(end - first for first, end in STRETCHES) == 16


def test_waits_against_a_slow_twin() -> None:
    comparison = compare(GOOD, SLOW.run(3, (0.5, 0.8)))
    trace, observed = comparison.observed.trace, comparison.observed
    times = trace.since_start.tolist()
    waits = [0, *(after - before for before, after in pairwise(times))]
    names = [trace.types[event] for event in trace.events.tolist()]
    start, end = times[200], times[500]
    added = added_time(comparison, (start, end))
    for number, kind in enumerate(comparison.types):
        mine = [(at, wait) for at, wait, name in zip(times, waits, names, strict=True) if name == kind]
        assert observed.waits(number).tolist() == [wait for _, wait in mine]
        inside = [wait for at, wait in mine if start < at <= end]
        outside = [wait for at, wait in mine if not start < at <= end]
        counts, sums = observed.waits_between(start, end)
        assert (counts[number], sums[number]) == (len(inside), sum(inside))
        if inside and outside and kind.name != "server: start":
            expected = max(0.0, sum(inside) - len(inside) * float(np.mean(outside)))
            assert added[number] == pytest.approx(expected, abs=1)
