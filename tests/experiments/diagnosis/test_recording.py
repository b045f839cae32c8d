"""The recording half of the diagnosis experiment: its plan, labels, command lines and table, and its measures.

GStreamer is not needed: it is run by `make validate`.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import shlex
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from experiments.diagnosis import pipelines, plan, playing, record, shown

FOLDER = Path(__file__).parents[3] / "experiments" / "diagnosis"
PERIOD_MS = 40.0
SOUND_MS = 20.0


def probe_line(sink: str, at_ms: float, due_ms: float, lasts_ms: float) -> str:
    """A line as probe.c writes it; the message is fakesink's, of GStreamer 1.22."""

    def clock(ms: float) -> str:
        seconds, rest = divmod(round(ms * 1e6), 10**9)
        return f"0:{seconds // 60:02}:{seconds % 60:02}.{rest:09}"

    return (
        f"{round((5e6 + at_ms) * 1e6)} chain   ******* ({sink}:sink) (1382400 bytes, dts: none, pts: {clock(due_ms)}, "
        "duration: "
        f"{clock(lasts_ms)}, offset: -1, offset_end: -1, flags: 00000000 , meta: none) 0x7f50640057e0"
    )


def play(
    frames: int,
    *,
    lost: frozenset[int] = frozenset(),
    holes: frozenset[int] = frozenset(),
    pace: float = 1.0,
    sound_pace: float = 1.0,
    sound_late_ms: float = 0.0,
    until: int | None = None,
) -> list[str]:
    """Lines of a clip that is played with something wrong."""
    last = frames if until is None else until
    pictures = [(pace * n * PERIOD_MS, "screen", n * PERIOD_MS, PERIOD_MS) for n in range(last) if n not in lost]
    pieces = [
        (sound_pace * n * SOUND_MS + sound_late_ms, "speaker", n * SOUND_MS, SOUND_MS)
        for n in range(2 * last)
        if n not in holes
    ]
    lines = [
        "4820600065817 event   ******* (speaker:sink) E (type: stream-start (10254), GstEventStreamStart) "
        "0x7f506c0051c0"
    ]
    lines += [probe_line(sink, at_ms, due_ms, lasts_ms) for at_ms, sink, due_ms, lasts_ms in sorted(pictures + pieces)]
    ends = [
        f"4823575813747 event   ******* ({sink}:sink) E (type: eos (28174), ) 0x7f5060002cf0"
        for sink in ("screen", "speaker")
    ]
    return lines + (ends if until is None else [])


def test_the_plan_has_the_papers_counts_and_references_apart() -> None:
    planned = plan.plan_traces(1)
    assert Counter(trace.role for trace in planned) == {"clean": 130, "anomalous": 170, "reference": 120}
    assert len({trace.name for trace in planned}) == len(planned)
    references = Counter((trace.pipeline.name, trace.clip.name) for trace in planned if trace.role == "reference")
    tested = Counter((trace.pipeline.name, trace.clip.name) for trace in planned if trace.role != "reference")
    assert len(references) == 12
    assert min(references.values()) >= 5
    assert references.keys() == tested.keys()


def test_every_way_to_disturb_goes_from_little_to_much_in_every_pipeline_it_fits() -> None:
    anomalous = [trace for trace in plan.plan_traces(1) if trace.role == "anomalous"]
    ways = {"sleep-time", "drop", "error-after", "cpu", "memory"}
    for pipeline in pipelines.PIPELINES:
        here = [trace for trace in anomalous if trace.pipeline == pipeline]
        assert {trace.change.name for trace in here} == (ways | {"offset"} if pipeline.audio_decoder else ways)
        assert {trace.clip.name for trace in here} == {clip.name for clip in pipelines.CLIPS}
        sleeps = {trace.strength for trace in here if trace.change.name == "sleep-time"}
        assert min(sleeps) < PERIOD_MS / 2 < PERIOD_MS < max(sleeps)
        for way in ways | {"offset"}:
            assert len({trace.strength for trace in here if trace.change.name == way}) != 1
    offsets = {trace.strength for trace in anomalous if trace.change.name == "offset"}
    early, late = shown.SOUND_EARLY_MS, shown.SOUND_LATE_MS
    assert min(offsets) < -early < max(offset for offset in offsets if offset < 0)
    assert min(offset for offset in offsets if offset > 0) < late < max(offsets)


def test_a_seed_gives_one_order_and_another_seed_another() -> None:
    first, again, other = (plan.plan_traces(seed) for seed in (1, 1, 2))
    assert first == again
    assert [trace.name for trace in first] != [trace.name for trace in other]
    assert sorted(trace.name for trace in first) == sorted(trace.name for trace in other)
    roles = [trace.role for trace in first]
    assert set(roles[:60]) == set(roles[-60:]) == {"reference", "clean", "anomalous"}


def test_every_label_is_whole_and_says_what_happens_in_that_pipeline() -> None:
    kinds = {shown.SLOW, shown.LOST, shown.DESYNCHRONISED, shown.CUT}
    for trace in plan.plan_traces(1):
        label = record.describe(trace)
        assert label["does"]
        if trace.role == "anomalous":
            assert label["kind"] in kinds
            assert label["change"] != "none"
            assert label["unit"]
        else:
            assert (label["kind"], label["change"], label["strength"]) == ("none", "none", 0.0)
    sleep = next(change for change in plan.CHANGES if (change.name, change.place) == ("sleep-time", "coded"))
    assert {pipeline.name: sleep.effect(pipeline)[0] for pipeline in pipelines.PIPELINES} == {
        "decode": "slow streaming",
        "avi": "desynchronisation",
        "ogg": "desynchronisation",
        "matroska": "lost events",
    }


def test_the_readme_holds_the_index_of_changes() -> None:
    assert plan.index() in (FOLDER / "README.md").read_text()


def test_a_changed_pipeline_differs_in_the_changed_value_alone() -> None:
    changed = 0
    for trace in plan.plan_traces(1):
        if not trace.change:
            continue
        settings = trace.change.settings(trace.strength, trace.clip)
        assert bool(settings) != trace.change.disturbs_host
        plain, other = (trace.pipeline.playing(Path("clip"), 1000, given) for given in ({}, settings))
        differing = [(before, after) for before, after in zip(plain, other, strict=True) if before != after]
        assert len(differing) == sum(map(len, settings.values()))
        for before, after in differing:
            assert before.split("=")[0] == after.split("=")[0]
        changed += bool(differing)
    assert changed == 134  # the others disturb the host


def test_what_is_set() -> None:
    clip = pipelines.CLIPS[0]
    settings = {
        (change.name, change.place): change.settings(strength, clip)
        for change in plan.CHANGES
        for strength in (1.0, 50.0, -60.0)
        if (change.name == "offset") == (strength < 0) and (change.name == "sleep-time") == (strength == 50)
    }
    assert settings["sleep-time", "coded"] == {"coded": {"sleep-time": "50000"}}  # identity takes microseconds
    assert settings["sleep-time", "both"] == {"picture": {"sleep-time": "50000"}, "sound": {"sleep-time": "32653"}}
    assert settings["error-after", "coded"] == {"coded": {"error-after": "74"}}  # of 75: the last picture
    assert settings["offset", ""] == {"screen": {"ts-offset": "60000000"}}  # the picture later: sound early
    assert settings["cpu", ""] == {}


def test_the_papers_pipeline() -> None:
    decode = pipelines.PIPELINES[0]
    elements = [part.split()[0] for part in shlex.join(decode.playing(Path("a.avi"), 512, {})).split(" '!' ")]
    assert elements == ["gst-launch-1.0", "avidemux", "identity", "avdec_mpeg4", "identity", "videoconvert", "fakesink"]
    assert "audiotestsrc" not in decode.making(pipelines.CLIPS[0], Path("a.avi"))
    assert "sync=false" in decode.playing(Path("a.avi"), 512, {})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="screen has no sleep-time to change"):
        pipelines.PIPELINES[1].playing(Path("clip"), 1000, {"screen": {"sleep-time": "1"}})


@pytest.mark.parametrize(
    ("played", "kinds"),
    [
        ({}, set()),
        ({"lost": frozenset(range(2, 75, 10))}, {"lost events"}),
        ({"lost": frozenset({30, 31, 32})}, {"lost events"}),
        ({"lost": frozenset({30, 31})}, set()),
        ({"lost": frozenset({72, 73, 74})}, {"lost events"}),
        ({"lost": frozenset({0, 1, 2})}, {"lost events"}),
        ({"holes": frozenset({30, 31})}, {"lost events"}),
        ({"holes": frozenset({30})}, set()),
        ({"holes": frozenset({148, 149})}, {"lost events"}),
        ({"pace": 1.2, "sound_pace": 1.2}, {"slow streaming"}),
        ({"pace": 1.2}, {"desynchronisation"}),
        ({"sound_late_ms": -44.0}, set()),
        ({"sound_late_ms": -46.0}, {"desynchronisation"}),
        ({"sound_late_ms": 124.0}, set()),
        ({"sound_late_ms": 126.0}, {"desynchronisation"}),
        ({"until": 40}, {"crash or truncation"}),
        ({"until": 72}, set()),
        ({"until": 71}, {"crash or truncation"}),
    ],
)
def test_what_a_viewer_notices(played: dict[str, object], kinds: set[str]) -> None:
    clip = pipelines.CLIPS[0]
    buffers, ended = shown.read_shown(play(clip.frames, **played))
    measured = shown.measure(buffers, ended, clip, ("screen", "speaker"))
    assert shown.noticed(measured).keys() == kinds
    assert measured.end_reached == ("until" not in played)
    assert shown.is_clean(measured) == (not kinds and not {"lost", "until"} & played.keys())


def test_what_is_measured() -> None:
    clip = pipelines.CLIPS[0]
    lines = play(
        clip.frames,
        lost=frozenset({10, 11, 50}),
        holes=frozenset({7, 8, 9}),
        pace=1.5,
        sound_pace=1.5,
        sound_late_ms=30,
    )
    measured = shown.measure(*shown.read_shown(lines), clip, ("screen", "speaker"))
    assert (measured.pictures_due, measured.pictures_shown, measured.lost_in_sequence) == (75, 72, 2)
    assert measured.pictures_lost_share == pytest.approx(3 / 75, abs=1e-4)
    assert measured.sound_lost_share == pytest.approx(3 / 150, abs=1e-4)
    assert measured.late_ms == pytest.approx(
        0.5 * 74 * PERIOD_MS, abs=0.1
    )  # the picture's, which ends before the sound
    assert (measured.sound_late_ms, measured.sound_early_ms, measured.missing_end_ms) == (30, 0, 0)
    silent = shown.measure(*shown.read_shown(line for line in lines if "screen" in line), clip, ("screen",))
    assert (silent.sound_lost_share, silent.sound_late_ms, silent.end_reached) == (0, 0, True)


def test_a_run_that_did_not_go_as_planned_is_recorded_again() -> None:
    planned = plan.plan_traces(1)
    clip = pipelines.CLIPS[0]
    whole, holed, cut = (
        shown.measure(*shown.read_shown(play(clip.frames, **wrong)), clip, ("screen", "speaker"))
        for wrong in ({}, {"lost": frozenset({7})}, {"until": 40})
    )
    plain = next(trace for trace in planned if trace.role == "clean")
    offset, error = (
        next(trace for trace in planned if trace.change and trace.change.name == name)
        for name in ("offset", "error-after")
    )
    went = record.went_as_planned
    assert [went(plain, 0, whole), went(plain, 0, holed), went(plain, 1, whole)] == [True, False, False]
    assert [went(offset, 0, holed), went(offset, 1, cut), went(error, 1, cut), went(error, -11, cut)] == [
        True,
        False,
        True,
        False,
    ]


def test_nothing_shown_is_a_crash() -> None:
    measured = shown.measure(*shown.read_shown([]), pipelines.CLIPS[0], ("screen", "speaker"))
    assert shown.noticed(measured)["crash or truncation"] == "the end was not reached, 3000 ms are missing"


def written(folder: Path, number: int) -> tuple[object, Path]:
    """The row of a planned trace, as after its recording."""
    trace = plan.plan_traces(1)[number]
    row = record.describe(trace) | {
        "lines": 3,
        "noticed": {"lost events": "3 pictures"},
        "command": ["gst-launch-1.0", "a b"],
    }
    file = folder / "traces" / f"{trace.name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(row))
    return trace, file


def test_the_table_holds_every_row(tmp_path: Path) -> None:
    names = sorted(written(tmp_path, number)[0].name for number in range(4))
    record.write_table(tmp_path)
    with (tmp_path / "traces.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert [row["name"] for row in rows] == names
    assert json.loads(rows[0]["command"]) == ["gst-launch-1.0", "a b"]
    assert json.loads(rows[0]["noticed"]) == {"lost events": "3 pictures"}
    assert not list(tmp_path.glob("part-*"))


def test_what_is_recorded_is_not_recorded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    studio = record.Studio(tmp_path, 0)
    planned = [written(tmp_path, number)[0] for number in range(3)]
    record.record_all(planned, studio)
    assert capsys.readouterr().out == "3 traces, 3 of them recorded already\n"
    assert len((tmp_path / "traces.csv").read_text().splitlines()) == 4
    assert not record.is_recorded(plan.plan_traces(1)[3], studio)


def test_a_trace_planned_otherwise_is_not_taken_for_recorded(tmp_path: Path) -> None:
    trace, file = written(tmp_path, 0)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"seed": -1}))
    with pytest.raises(
        ValueError, match=f"{trace.name}.json: seed is -1, now planned: {trace.seed}. Take another folder"
    ):
        record.is_recorded(trace, record.Studio(tmp_path, 0))


def test_a_log_is_packed_whole_and_its_lines_counted(tmp_path: Path) -> None:
    raw, packed = tmp_path / "log.part", tmp_path / "log.gz"
    raw.write_bytes(text := b"0:00:00.000000001  1 0x1 DEBUG GST_BUS gstbus.c:1:post: x\n" * 40_000)
    assert record.pack(raw, packed) == 40_000
    assert gzip.decompress(packed.read_bytes()) == text
    assert [file.name for file in tmp_path.iterdir()] == ["log.gz"]


@pytest.mark.parametrize("way", ["cpu", "memory"])
def test_stress_runs_and_nothing_is_left_of_it(way: str) -> None:
    processor = max(os.sched_getaffinity(0))
    with playing.stress(way, 3, 7, processor):
        running = stressing(way)
        assert len(running) == 4  # the one that waits, and three at work
        assert {tuple(os.sched_getaffinity(pid)) for pid in running} == {(processor,)}
    waited = time.monotonic()
    while stressing(way) and time.monotonic() - waited < 60:
        time.sleep(0.01)
    assert not stressing(way)


def stressing(way: str) -> list[int]:
    """Processes of this test's stress that are alive."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if f"stress.py\0{way}\0003\0007\0".encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_the_recorder_keeps_off_the_players_processor() -> None:
    before = os.sched_getaffinity(0)
    with playing.own_processors() as processor:
        assert processor == max(before)
        assert os.sched_getaffinity(0) == (before - {processor} or before)
    assert os.sched_getaffinity(0) == before


def test_the_probe_compiles_without_a_warning(tmp_path: Path) -> None:
    command = [
        "cc",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        str(tmp_path / "probe.so"),
        str(FOLDER / "probe.c"),
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")


def test_the_names_can_be_listed_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record.main([str(tmp_path / "none"), "--list", "--only", "avi-*-offset-*", "--take", "5"]) == 0
    names = capsys.readouterr().out.split()
    assert len(names) == 5
    assert all(name.startswith("avi-") and "-offset-" in name for name in names)
    assert not (tmp_path / "none").exists()


def test_without_gstreamer_it_says_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert record.main([str(tmp_path / "none")]) == 3
    assert capsys.readouterr().err == "missing: gst-launch-1.0, taskset, cc. Type: tools/setup.sh media\n"


def test_what_was_measured_is_told_by_change_and_strength() -> None:
    row = {
        **{
            "role": "anomalous",
            "pipeline": "avi",
            "change": "drop",
            "place": "picture",
            "strength": "0.1",
            "unit": "probability",
        },
        **{"noticed": '{"lost events": "x"}', "sound_lost_share": "0", "late_ms": "2", "lines": "50000"},
        **{"sound_early_ms": "1", "sound_late_ms": "0", "missing_end_ms": "0"},
    }
    rows = [row | {"pictures_lost_share": "0.10"}, row | {"pictures_lost_share": "0.25", "noticed": "{}"}]
    last = plan.measured(rows).splitlines()[-1]
    assert last == "| avi | drop picture | 0.1 probability | 2 | lost events 1 | 10–25 | 0 | 2 | 1 | 0 | 0 | 50000 |"
