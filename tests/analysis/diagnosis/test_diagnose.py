"""Kinds of anomaly on made-up players and on real logs, false alarms, bad input, and a kind of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.diagnosis.players import MS, play, references
from unperturbed.analysis.diagnosis import (
    EventTrace,
    Kind,
    LabelledTrace,
    anomaly_kinds,
    calibrate,
    diagnose,
    read_events,
    with_strictness,
)
from unperturbed.analysis.diagnosis.comparison import compare, fill
from unperturbed.analysis.diagnosis.events import Reading
from unperturbed.errors import DataError

KINDS = anomaly_kinds()
CRASH, LOST, APART = "crash or truncation", "lost events", "desynchronisation"
SLOW, PHASE = "slow streaming", "slow phase"
REFERENCES = references()


def test_the_kinds_stand_in_the_papers_order() -> None:
    assert {name: KINDS[name].distance for name in (CRASH, LOST, APART, SLOW, PHASE)} == {
        CRASH: "dropping",
        LOST: "occurrence",
        APART: "occurrence",
        SLOW: "temporal",
        PHASE: "temporal",
    }
    assert [name for name in KINDS if name in (CRASH, LOST, APART, SLOW, PHASE)] == [CRASH, LOST, APART, SLOW, PHASE]


@pytest.mark.thorough
def test_clean_runs_are_clean() -> None:
    said = [diagnose(REFERENCES, play(seed)) for seed in range(60)]
    assert [one.findings for one in said if one.verdict != "clean"] == []


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.thorough
def test_two_references_are_enough_for_clean_runs(count: int) -> None:
    said = [diagnose(references(count), play(seed)).verdict for seed in range(40)]
    assert said == ["clean"] * 40


@pytest.mark.parametrize("lost", [0.03, 0.1, 0.4])
def test_lost_events(lost: float) -> None:
    for seed in (1, 2, 5):
        trace = play(seed, lost=lost)
        missing = 100 - sum(trace.types[event].name == "video:show" for event in trace.events)
        found = diagnose(REFERENCES, trace).findings
        assert [one.kind for one in found] == [LOST]
        assert found[0].strength["lost_events"] == pytest.approx(missing)
        assert found[0].plugin == "video"
        assert {carrier.event.plugin for carrier in found[0].carriers} == {"video"}
        assert sum(carrier.share for carrier in found[0].carriers) == pytest.approx(1)


@pytest.mark.parametrize("stop_at", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("error", [True, False])
def test_a_crash(stop_at: float, error: bool) -> None:
    trace = play(3, stop_at=stop_at, error=error)
    found = diagnose(REFERENCES, trace).findings
    assert [one.kind for one in found] == [CRASH]
    assert found[0].strength["end_reached_share"] == pytest.approx(stop_at, abs=0.02)
    assert abs(found[0].since - trace.duration) < 100 * MS
    if error:
        assert found[0].plugin == "player"
        assert "player:error" in {carrier.event.name for carrier in found[0].carriers}


def test_a_log_that_is_cut_off_is_a_truncation_even_if_nothing_marks_the_end() -> None:
    def headless(trace: EventTrace) -> EventTrace:
        marks = {"player:end of stream", "player:stop", "player:report", "player:close"}
        pairs = zip(trace.timestamps.tolist(), trace.events.tolist(), strict=True)
        return EventTrace.from_pairs(
            [(time, trace.types[event].name) for time, event in pairs if trace.types[event].name not in marks],
            unit="ns",
        )

    whole = [headless(one) for one in REFERENCES]
    assert diagnose(whole, headless(play(5))).verdict == "clean"
    cut = headless(play(5))
    found = diagnose(whole, cut.between(0, int(cut.timestamps[-1]) - 2000 * MS)).findings
    assert [one.kind for one in found] == [CRASH]
    assert found[0].strength["end_reached_share"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("pace", [1.05, 1.3, 3.0])
def test_slow_streaming(pace: float) -> None:
    found = diagnose(REFERENCES, play(4, pace=pace)).findings
    assert [one.kind for one in found] == [SLOW]
    assert found[0].strength["delay"] == pytest.approx((pace - 1) * 4000 * MS, rel=0.05)
    assert found[0].floor is not None
    assert found[0].floor < found[0].threshold < found[0].measured


@pytest.mark.parametrize("offset_ms", [-400, -60, 60, 150])
def test_desynchronisation(offset_ms: float) -> None:
    found = diagnose(REFERENCES, play(6, offset_ms=offset_ms)).findings
    assert [one.kind for one in found] == [APART]
    assert found[0].strength["offset"] == pytest.approx(abs(offset_ms) * MS, rel=0.05)
    assert found[0].plugin == ("audio" if offset_ms > 0 else "video")


def test_lost_events_are_no_delay() -> None:
    assert [one.kind for one in diagnose(REFERENCES, play(2, lost=0.5)).findings] == [LOST]


# Logs of gst-launch-1.0 1.22 playing a clip of 75 pictures and 116 pieces of sound: what sinks, `identity` and errors
# say, messages cut off
PLAYING = Path(__file__).parent / "data" / "playing"


@pytest.fixture(scope="module")
def logs() -> dict[str, EventTrace]:
    identity = ("level", "function", "object", "word")
    return {
        path.name.removesuffix(".log.gz"): read_events(path, identity=identity) for path in sorted(PLAYING.iterdir())
    }


def of_reference(logs: dict[str, EventTrace]) -> list[EventTrace]:
    return [log for name, log in logs.items() if name.startswith("reference")]


def test_real_clean_logs_are_clean(logs: dict[str, EventTrace]) -> None:
    given = of_reference(logs)
    assert diagnose(given, logs["clean-2"]).verdict == "clean"
    for left_out in given:
        assert diagnose([one for one in given if one is not left_out], left_out).verdict == "clean"


@pytest.mark.parametrize("count", [1, 3])
def test_real_anomalies(logs: dict[str, EventTrace], count: int) -> None:
    given = of_reference(logs)[:count]
    (lost,) = diagnose(given, logs["drop-picture-0.3"]).findings
    assert (lost.kind, lost.strength["lost_events"], lost.element) == (LOST, pytest.approx(22), "picture")
    (crash,) = diagnose(given, logs["error-after-coded-0.9"]).findings
    assert (crash.kind, crash.plugin, crash.element) == (CRASH, "identity", "coded")
    assert crash.strength["end_reached_share"] == pytest.approx(0.9, abs=0.01)
    (late,) = diagnose(given, logs["offset-500"]).findings
    assert (late.kind, late.element) == (APART, "speaker")
    assert late.strength["offset"] == pytest.approx(500 * MS, rel=0.01)


def test_a_real_log_that_stops_early_or_before_anything_is_played(logs: dict[str, EventTrace]) -> None:
    whole = logs["clean-2"]
    start = int(whole.timestamps[0])
    for share in (0.02, 0.3, 0.95):
        (crash,) = diagnose(of_reference(logs), whole.between(start, start + round(share * whole.duration))).findings
        assert crash.kind == CRASH
        assert crash.strength["end_reached_share"] == pytest.approx(max(0, share - 0.02), abs=0.1)


def test_streams_are_sinks_where_the_log_tells_them_apart_and_plugins_elsewhere(logs: dict[str, EventTrace]) -> None:
    assert {stream.name for stream in compare(of_reference(logs), logs["clean-2"]).streams} == {"screen", "speaker"}
    papers = [read_events(PLAYING / f"{name}.log.gz") for name in ("reference-0", "reference-1", "clean-2")]
    assert "basesink" in {stream.name for stream in compare(papers[:2], papers[2]).streams}
    assert diagnose(papers[:2], papers[2]).verdict == "clean"
    with pytest.raises(DataError, match=r"name elements, but those of .* do not: .* the same `identity`"):
        diagnose(papers[0], logs["clean-2"])


def test_two_anomalies_at_once() -> None:
    kinds = [one.kind for one in diagnose(REFERENCES, play(7, lost=0.2, offset_ms=500)).findings]
    assert kinds == [LOST, APART]
    assert [one.kind for one in diagnose(REFERENCES, play(7, lost=0.2, offset_ms=500), first_only=True).findings] == [
        LOST
    ]


def test_one_reference_decides_only_what_is_plain() -> None:
    assert diagnose(REFERENCES[0], play(1)).verdict == "clean"
    small = diagnose(REFERENCES[0], play(4, pace=1.4))
    assert (small.verdict, [one.kind for one in small.findings]) == ("undecided", [SLOW])
    assert any("one reference" in note for note in small.notes)
    large = diagnose(REFERENCES[0], play(4, pace=3))
    assert large.verdict == "anomalous"
    assert large.findings[0].confidence == "weaker"


def test_time_of_an_unknown_unit() -> None:
    bare = references(unit="ticks")
    assert diagnose(bare, play(1, unit="ticks")).verdict == "clean"
    assert [one.kind for one in diagnose(bare, play(1, unit="ticks", pace=1.5)).findings] == [SLOW]


def test_json_holds_everything() -> None:
    told = json.loads(
        json.dumps(
            diagnose(
                REFERENCES, play(1, lost=0.3), distances=("dropping", "occurrence", "temporal", "mannila")
            ).to_dict()
        )
    )
    assert told["verdict"] == "anomalous"
    assert told["findings"][0]["carriers"][0]["event"].startswith("video:")
    assert [one["name"] for one in told["distances"]] == ["dropping", "occurrence", "temporal", "mannila"]
    assert told["distances"][2]["exceeds"]


def test_a_picture_can_be_drawn_of_what_the_diagnosis_stands_on() -> None:
    comparison = diagnose(REFERENCES, play(6, offset_ms=150)).comparison
    late = {stream.name: comparison.moments(stream) - comparison.usual(stream) for stream in comparison.streams}
    assert np.median(late["audio"] - late["video"]) == pytest.approx(150 * MS, rel=0.05)
    for stream in comparison.streams:
        np.testing.assert_allclose(np.median(comparison.delays(stream), axis=0), late[stream.name], atol=60 * MS)


def test_the_papers_rule_takes_any_distance_for_an_anomaly() -> None:
    same = diagnose(REFERENCES[0], REFERENCES[0], distances=("temporal",), method="paper")
    assert (same.verdict, same.distances[0].value) == ("clean", 0)
    assert diagnose(REFERENCES, play(1), distances=("temporal",), method="paper").verdict == "anomalous"


def test_the_documented_kind_of_ones_own_works() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "diagnosis.md").read_text()
    (code,) = (block for block in re.findall(r"(?s)```python\n(.*?)```", page) if "class Stall" in block)
    names: dict[str, Any] = {}
    exec(code.rpartition("\n\ndiagnose(")[0], names)
    stall: Kind = names["Stall"]()
    trace = play(1)
    held = trace.timestamps + np.where(np.arange(len(trace)) >= 600, 3000 * MS, 0)
    stalled = EventTrace(held, trace.events, trace.types, "ns")
    (found,) = diagnose(REFERENCES, stalled, kinds=[stall]).findings
    assert found.kind == "stall"
    assert found.strength["time"] > 3000 * MS
    assert found.since == trace.since_start[599]
    assert "stall" in {one.kind for one in diagnose(REFERENCES, stalled, kinds=[*KINDS.values(), stall]).findings}
    assert diagnose(REFERENCES, trace, kinds=[stall]).verdict == "clean"


def test_bad_input() -> None:
    nothing = EventTrace.from_pairs([], unit="ns", name="nothing.log")
    with pytest.raises(DataError, match=r"nothing\.log has no events"):
        diagnose(REFERENCES, nothing)
    with pytest.raises(DataError, match="only one event"):
        diagnose(EventTrace.from_pairs([(1, "a:b")], unit="ns"), REFERENCES[0])
    with pytest.raises(DataError, match=r"in ns and .* in ms"):
        diagnose(REFERENCES, play(1, unit="ms"))
    with pytest.raises(ValueError, match="at least one reference"):
        diagnose([], play(1))
    with pytest.raises(ValueError, match=r"unknown distance .*: use dropping, occurrence, temporal, mannila"):
        diagnose(REFERENCES, play(1), distances=["manhattan"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="needs at least one distance in `distances`"):
        diagnose(REFERENCES, play(1), method="paper")


def test_another_program_is_said_to_be_one() -> None:
    with pytest.raises(DataError, match=r"different pipelines or programs.*only the first has editor"):
        diagnose(REFERENCES, play(1, program="editor"))
    with pytest.raises(DataError, match="different pipelines"):
        diagnose([*REFERENCES, play(1, program="editor")], play(2))


def logged(trace: EventTrace, levels: dict[str, int]) -> EventTrace:
    reading = Reading(trace.name, "gstreamer", len(trace), levels=levels, regular_levels=("DEBUG", "LOG"))
    return EventTrace(trace.timestamps, trace.events, trace.types, trace.unit, trace.name, reading)


def test_a_log_with_too_little_detail_is_undecided_unless_it_crashed() -> None:
    coarse = [logged(one, {"INFO": 900}) for one in REFERENCES]
    told = diagnose(coarse, logged(play(1, pace=2), {"INFO": 900}))
    assert told.verdict == "undecided"
    assert CRASH in told.kinds
    assert not {LOST, APART, SLOW, PHASE} & set(told.kinds)  # other kinds may need no regular events
    assert any("GST_DEBUG" in note for note in told.notes)
    assert diagnose(coarse, logged(play(1, stop_at=0.5), {"INFO": 900})).verdict == "anomalous"
    with pytest.raises(DataError, match="events of level DEBUG"):
        diagnose([logged(one, {"DEBUG": 900}) for one in REFERENCES], coarse[0])


def test_too_few_events_to_decide() -> None:
    short = [EventTrace.from_pairs([(0, "a:x"), (5, "a:y"), (9, "a:z")], unit="ms") for _ in range(3)]
    assert diagnose(short, short[0]).verdict == "undecided"


def test_missing_times_go_into_the_largest_gaps() -> None:
    times = np.array([0, 10, 20, 60, 70, 90], dtype=np.int64)
    np.testing.assert_allclose(fill(times, 4), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    np.testing.assert_allclose(fill(times, 0), times)
    for missing in range(1, 40):
        filled = fill(times, missing)
        assert len(filled) == len(times) + missing
        assert set(times.tolist()) <= set(np.round(filled, 6).tolist())
        assert (np.diff(filled) > 0).all()


def test_the_noise_floor_is_what_references_give_among_themselves() -> None:
    comparison = compare(REFERENCES, play(1, lost=0.5))
    assert comparison.noise_floor(lambda one: float(one.observed.trace.duration)) == max(
        one.duration for one in REFERENCES
    )
    assert compare(REFERENCES[:1], play(1)).noise_floor(lambda _: 1.0) is None


def labelled(seed: int, label: str, **how: float) -> LabelledTrace:
    return LabelledTrace(REFERENCES, play(seed, **how), label)


def test_thresholds_are_fitted_from_labelled_traces() -> None:
    clean = [labelled(seed, "clean") for seed in range(5)]
    faint = [labelled(seed, APART, offset_ms=20) for seed in range(5)]
    fitted = {one.kind: one for one in calibrate([*clean, *faint, labelled(9, CRASH, stop_at=0.5)])}
    assert list(fitted) == [name for name, kind in KINDS.items() if kind.is_fittable]
    assert set(fitted) >= {LOST, APART, SLOW, PHASE}
    assert (fitted[APART].found_before, fitted[APART].found, fitted[APART].false_alarms) == (0, 5, 0)
    kinds = with_strictness({name: one.strictness for name, one in fitted.items()})
    assert [one.kind for one in diagnose(REFERENCES, faint[0].trace, kinds=kinds.values()).findings] == [APART]
    assert diagnose(REFERENCES, play(77), kinds=kinds.values()).verdict == "clean"


def test_thresholds_become_stricter_where_clean_traces_ask_for_it() -> None:
    noisy = [labelled(seed, "clean", pace=1 + 0.02 * seed) for seed in range(5)]
    slow = {one.kind: one for one in calibrate(noisy)}[SLOW]
    assert slow.strictness > 1
    assert (slow.false_alarms_before > 0, slow.false_alarms) == (True, 0)


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(DataError, match="no trace has the label `clean`"):
        calibrate([labelled(1, SLOW, pace=2)])
    with pytest.raises(DataError, match="has the unknown label 'odd'"):
        calibrate([labelled(1, "odd")])
    with pytest.raises(DataError, match="'crash or truncation' is not a kind of anomaly whose strictness can be set"):
        with_strictness({CRASH: 2.0})
    with pytest.raises(DataError, match="a finite number above 0"):
        with_strictness({SLOW: -1.0})


def _moved(trace: EventTrace, move: Callable[[int], int | None]) -> EventTrace:
    """Return a trace with other times; None leaves an event out."""
    pairs = (
        (move(time), trace.types[event].name)
        for time, event in zip(trace.since_start.tolist(), trace.events.tolist(), strict=True)
    )
    return EventTrace.from_pairs(
        sorted((time, name) for time, name in pairs if time is not None), unit="ns", name=trace.name
    )


def test_a_stall_that_is_made_up_for_is_told_as_such() -> None:
    begin, resumed = 1500 * MS, 2400 * MS
    stalled = _moved(play(3), lambda time: max(time, resumed) if time >= begin else time)
    (found,) = [one for one in diagnose(REFERENCES, stalled).findings if one.kind in (CRASH, LOST, APART, SLOW, PHASE)]
    assert found.kind == SLOW
    assert "catches up" in found.summary
    assert found.since == pytest.approx(begin, abs=100 * MS)
    assert found.strength["delay"] == pytest.approx(resumed - begin, rel=0.15)
    assert found.strength["delay_at_the_end"] < 100 * MS
    assert sum(carrier.change for carrier in found.carriers) == pytest.approx(resumed - begin, rel=0.15)


def test_media_that_are_shorter_are_no_loss() -> None:
    half = 2540 * MS  # what is played begins after about 540 ms
    end = play(3).duration - 300 * MS

    def cut(time: int) -> int | None:
        return time if time < half else time - (end - half) if time >= end else None

    (found,) = diagnose(REFERENCES, _moved(play(3), cut)).findings
    assert found.kind == CRASH
    assert "ends normally" in found.summary
    assert found.strength["end_reached_share"] == pytest.approx(0.5, abs=0.06)


def test_other_parts_that_go_on_working_are_another_pipeline() -> None:
    def renamed(trace: EventTrace, old: str, new: str) -> EventTrace:
        pairs = zip(trace.timestamps.tolist(), trace.events.tolist(), strict=True)
        named = [(time, trace.types[event].name) for time, event in pairs]
        return EventTrace.from_pairs(
            [(time, re.sub(f"^{old}:", f"{new}:", name)) for time, name in named], unit="ns", name=new
        )

    other = renamed(play(2), "audio", "text")
    with pytest.raises(
        DataError, match=r"different pipelines or programs: .*only the first has text; .*only the other has audio"
    ):
        diagnose(REFERENCES, other)
    with pytest.raises(DataError, match="different pipelines or programs"):
        diagnose([*REFERENCES[:2], other], play(1))


def test_the_same_in_another_unit_is_seen() -> None:
    thousandth = _moved(play(2), lambda time: time // 1000)
    with pytest.raises(DataError, match="check its unit of time"):
        diagnose(REFERENCES, thousandth)


def test_one_reference_leaves_a_small_loss_undecided() -> None:
    few, many = (diagnose(REFERENCES[0], play(1, lost=lost)) for lost in (0.05, 0.4))
    assert (few.verdict, [one.kind for one in few.findings]) == ("undecided", [LOST])
    assert (many.verdict, [one.kind for one in many.findings]) == ("anomalous", [LOST])


def test_a_diagnosis_is_a_result(tmp_path: Path) -> None:
    late = diagnose(REFERENCES, play(1, pace=2), distances=["dropping"])
    assert late.headline().endswith(f"slow streaming, against {len(REFERENCES)} references")
    assert repr(late) == f"<Diagnosis: {late.headline()}>"
    assert late.summary().startswith(late.headline())
    assert late.to_frame()["kind"].to_list() == [one.kind for one in late.findings]
    assert [table.caption for table in late.tables()][1:] == [
        "Event types that contribute to: slow streaming",
        "The paper's distances",
        "Smallest changes that would have been found",
    ]
    assert "The trace is anomalous: slow streaming" in late.write_html(tmp_path / "page.html").read_text()
    clean = diagnose(REFERENCES, REFERENCES[0])
    assert [table.caption for table in clean.tables()] == ["Smallest changes that would have been found"]
    assert len(clean.to_frame()) == 0
