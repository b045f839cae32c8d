"""Event types that never occur, on simulated logs: what is missed, what is explained otherwise, what is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.diagnosis.missing_types import WORLDS, run, simulated, without
from tests.analysis.diagnosis.players import play, references
from unperturbed.analysis.diagnosis import EventTrace, EventType, MissingType, diagnose
from unperturbed.analysis.diagnosis.comparison import compare
from unperturbed.analysis.diagnosis.kinds.missing_type import occupied

GOOD = references()
DECODED = "video:decode"
MISSING = "missing event type"


def taken(trace: EventTrace, *names: str) -> EventTrace:
    for name in names:
        trace = without(trace, next(kind for kind in trace.types if kind.name == name))
    return trace


def test_a_type_that_never_occurs_is_found() -> None:
    told = diagnose(GOOD, taken(play(7), DECODED))
    assert told.verdict == "anomalous"
    (found,) = told.findings
    assert (found.kind, found.plugin, found.carriers[0].event.name) == (MISSING, "video", DECODED)
    assert "never occurs, but 100 times or more in every reference" in found.summary
    assert (found.strength["missing_types"], found.carriers[0].change) == (1, -100)
    assert found.threshold < 0.2 < 0.8 < found.measured
    assert found.since == pytest.approx(540e6, abs=50e6)
    assert diagnose(GOOD, play(7)).verdict == "clean"


def test_what_chance_or_a_single_choice_takes_away_is_not_told() -> None:
    for name in ("player:set up 7", "player:report"):
        assert MissingType().find(compare(GOOD, taken(play(7), name))) is None
    some = play(7)
    in_all = {kind.name for one in GOOD for kind in one.types} - {kind.name for kind in some.types}
    assert in_all  # "now and then" is in some references alone
    assert MissingType().find(compare(GOOD, some)) is None


@pytest.mark.parametrize("how", [{"stop_at": 0.3}, {"stop_at": 0.5, "error": True}, {"seconds": 1.5}])
def test_a_crash_or_a_shorter_input_explains_types_that_are_missing(how: dict[str, float]) -> None:
    told = diagnose(GOOD, play(7, **how))  # type: ignore[arg-type]
    assert MISSING not in {one.kind for one in told.findings}
    (untold,) = [one for one in told.visible if one.kind == MISSING]
    assert untold.reason == "a crash or truncation would explain missing event types"


def test_a_type_of_the_part_that_was_not_reached_is_not_missing() -> None:
    def late(seed: int, until: float) -> EventTrace:
        random = np.random.default_rng(seed)
        early = [(round(1e6 * at), "work: early") for at in np.sort(random.random(random.integers(200, 400))) * 50]
        ends = [(round(1e6 * (50 + at)), "work: late") for at in np.sort(random.random(random.integers(200, 400))) * 50]
        return EventTrace.from_pairs([pair for pair in early + ends if pair[0] < until * 1e8], unit="ns")

    good = [late(seed, 1.0) for seed in range(4)]
    assert MissingType().find(compare(good, late(9, 0.45))) is None
    assert MissingType().find(compare(good, taken(late(9, 1.0), "work: early"))) is not None


def test_less_detail_explains_types_that_are_missing() -> None:
    def levelled(seed: int) -> EventTrace:
        trace = play(seed)
        levels = {"video:decode": "DEBUG", "audio:decode": "DEBUG"}
        types = tuple(EventType(one.name, one.plugin, level=levels.get(one.name, "INFO")) for one in trace.types)
        return EventTrace(trace.timestamps, trace.events, types, "ns")

    good = [levelled(seed) for seed in range(6)]
    told = diagnose(good, taken(levelled(9), "video:decode", "audio:decode"))
    (untold,) = [one for one in told.visible if one.kind == MISSING]
    assert "no events of level DEBUG" in untold.reason
    assert MISSING in {one.kind for one in diagnose(good, taken(levelled(9), "video:decode")).findings}


def test_the_same_under_another_number_is_not_missing() -> None:
    def numbered(seed: int, thread: int) -> EventTrace:
        trace = play(seed)
        types = [EventType.from_name(one.name.replace("decode", f"worker{thread} decodes")) for one in trace.types]
        return EventTrace(trace.timestamps, trace.events, tuple(types), "ns")

    assert MissingType().find(compare([numbered(seed, 3) for seed in range(4)], numbered(9, 4))) is None


def test_few_references_say_what_could_have_been_seen() -> None:
    sizes = []
    for count in (2, 3, 10):
        (stated,) = [one for one in diagnose(references(count), play(7)).visible if one.kind == MISSING]
        assert stated.size is not None
        sizes.append(stated.size)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < 0.25
    (untold,) = [one for one in diagnose(GOOD[:1], play(7)).visible if one.kind == MISSING]
    assert (untold.size, "2 or more references" in untold.reason) == (None, True)


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.thorough
def test_good_runs_are_seldom_said_to_lack_a_type(world: str, count: int) -> None:
    logs = 40
    allowed = 0.05 * logs + 3 * math.sqrt(0.05 * 0.95 * logs)
    assert sum(simulated(world, count, seed) for seed in range(logs)) <= allowed


def test_what_occurs_at_random_is_missed() -> None:
    assert sum(simulated("at random", 10, seed, 60) for seed in range(20)) >= 18


# Slow twins


def test_threshold_and_parts_against_slow_twins() -> None:
    counts = [150.0, 8.0, 90.0, 60.0]
    good = [run("at random", seed, counts) for seed in range(5)]
    comparison = compare(good, without(run("at random", 9, counts), good[0].types[1]))
    ((number, parts),) = occupied(comparison).items()
    assert comparison.types[number] == good[0].types[1]
    lacking = comparison.observed.trace
    present = [sum(int((one.events == place).sum()) for place in (0, 2, 3, 4)) for one in (*good, lacking)]
    for one, found in zip(good, parts, strict=True):
        end = math.ceil(min(1.0, present[-1] / min(present[:-1])) * len(one)) - 1
        until = min(one.since_start[end], lacking.duration / min(each.duration for each in good) * one.duration)
        mine = [at for at in one.since_start[one.events == 1].tolist() if at <= until]
        assert found == len({at * 100 // (one.duration + 1) for at in mine})
    squares = float(np.sum((parts - parts.mean()) ** 2)) / stats.chi2.ppf(0.05, 4)
    phi = squares / parts.mean()
    types = sum(all((one.events == place).any() for one in good) for place in range(len(counts) + 1))
    finding = MissingType().find(comparison)
    assert finding is not None
    assert finding.floor == 0
    total = 5 * finding.threshold * 100 * (np.log(phi) / (phi - 1) if phi > 1 else 1.0)
    # That a sixth Poisson run has no event, integrated over the rate's gamma distribution.
    none = stats.gamma(total + 0.5, scale=1 / 5).expect(lambda rate: np.exp(-rate))
    assert none == pytest.approx(0.05 / types, rel=1e-3)
