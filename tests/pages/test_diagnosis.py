"""The page of a diagnosis: as text, and as Chromium shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from tests.analysis.report.campaign.test_page import Document
from unperturbed.analysis.diagnosis import Diagnosis, EventTrace, diagnose, read_events
from unperturbed.analysis.diagnosis.page import differences, lanes_of, timelines
from unperturbed.analysis.report import render_diagnosis, write_page
from unperturbed.harness.cli import main

PLAYING = Path(__file__).parents[1] / "analysis" / "diagnosis" / "data" / "playing"
EVIL = "</script><img src=x onerror=alert(1)>\"'&%{y}\u202e"


def _read(name: str) -> EventTrace:
    return read_events(PLAYING / f"{name}.log.gz", identity=("level", "function", "object", "word"))


@pytest.fixture(scope="module")
def references() -> list[EventTrace]:
    return [_read(f"reference-{number}") for number in range(3)]


@pytest.fixture(scope="module")
def late(references: list[EventTrace]) -> Diagnosis:
    return diagnose(references, _read("offset-500"))


def _text(page: str) -> str:
    return " ".join("".join(Document(page).text).split())


def _beats(plugin: str, start: int = 0, step: int = 100, beats: int = 60) -> EventTrace:
    return EventTrace.from_pairs(
        [(start * (at > 0) + step * at, f"{plugin}:beat:now") for at in range(beats)], name="beats"
    )


def test_the_verdict_stands_first_then_picture_carriers_noise_reading_and_references(late: Diagnosis) -> None:
    page = render_diagnosis(late)
    text = _text(page)
    assert "The trace is anomalous: desynchronisation, against 3 references." in text
    assert "speaker is late relative to screen" in text
    places = [page.index(f'id="{name}"') for name in ("picture", "carriers", "noise", "reading", "references")]
    assert places == sorted(places)
    assert page.index('class="answer"') < places[0]
    assert late.findings[0].carriers[0].event.name in text
    assert all(name in text for name in late.references)


def test_the_command_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    logs = [str(PLAYING / f"{name}.log.gz") for name in ("reference-0", "reference-1", "drop-picture-0.3")]
    assert main(["diagnose", *logs, "--html", str(path)]) == 4
    assert "The trace is anomalous: lost events, against 2 references." in _text(path.read_text())
    assert path.stat().st_size < 1_500_000


def test_missing_and_added_events_are_counted_beyond_what_references_allow() -> None:
    theirs = np.array([[4.0] * 12 + [0] * 8, [4.0] * 11 + [5] + [0] * 8])
    here = np.array([4.0] * 5 + [0, 4, 5, 3] + [4] * 3 + [0] * 6 + [9, 0])
    missing, added = differences(here, theirs)
    assert np.flatnonzero(missing).tolist() == [5], "one event earlier or later is not a difference"
    assert missing[5] == 4
    assert np.flatnonzero(added).tolist() == [18]
    assert added[18] == 9


def test_what_a_lane_marks_is_where_it_differs(late: Diagnosis) -> None:
    figure = timelines(late)
    lanes = [name for name, _ in lanes_of(late.comparison)]
    assert {"speaker", "screen"} <= set(lanes)
    bars = {trace["name"]: trace for trace in figure.data if trace["type"] == "bar"}
    ends = [one.trace.duration / 1e9 for one in late.comparison.references]
    lane = lanes.index("speaker")
    added = bars["added"]
    told = [
        (at, much)
        for at, base, much in zip(added["x"], added["base"], added["customdata"], strict=True)
        if int(base) == lane
    ]
    a_buffer = 9
    before = [much for at, much in told if at < min(ends) - 0.1]
    assert sum(before) <= a_buffer, (
        "a late stream adds what comes after the references' end; one of 140 buffers came out of turn"
    )
    assert len(told) > 10
    (mark,) = figure.layout["shapes"]
    assert mark["x0"] == pytest.approx(late.findings[0].since / 1e9)  # type: ignore[operator]
    assert sum(len(trace["x"]) for trace in figure.data) < 6000


def test_clean_undecided_and_without_a_unit(references: list[EventTrace]) -> None:
    clean = _text(render_diagnosis(diagnose(references, _read("clean-2"))))
    assert "The trace is clean, against 3 references." in clean
    assert "so no event types are listed" in clean
    lone = diagnose(_beats("a"), _beats("a", step=130))
    assert lone.verdict == "undecided"
    text = _text(render_diagnosis(lone))
    assert "The trace is undecided: perhaps slow streaming, against 1 reference." in text
    assert "One reference does not show" in text
    assert " ticks" in text
    assert timelines(lone).layout["xaxis"]["title"]["text"].endswith("ticks")


def test_names_of_events_never_leave_their_place() -> None:
    evil = diagnose([_beats(EVIL), _beats(EVIL)], _beats(EVIL, step=300))
    usual = diagnose([_beats("a"), _beats("a")], _beats("a", step=300))
    hostile, plain = Document(render_diagnosis(evil)), Document(render_diagnosis(usual))
    assert not hostile.all("img")
    assert len(hostile.all("script")) == len(plain.all("script"))
    assert "onerror=alert(1)" in "".join(hostile.text)


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_chromium_draws_it_asks_for_nothing_and_nothing_overlaps(late: Diagnosis, tmp_path: Path) -> None:
    path = tmp_path / "diagnosis.html"
    write_page(path, render_diagnosis(late))
    with open_report(path) as page:
        page.wait_drawn()
        assert page.requests() == [path.resolve().as_uri()]
        assert page.drawn()["diagnosis-timelines"] > 100
        for width in (1400, 900):
            page.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
            )
            page.wait(
                "return [...document.querySelectorAll('.chart svg')]"
                ".every((s) => s.getBoundingClientRect().right <= innerWidth)"
            )
            assert page.js("return document.documentElement.scrollWidth") == width
            overlapping = page.js(
                "const seen = [...document.querySelectorAll('.chart .xtick text, .chart .ytick text, .chart "
                ".legendtext, "
                ".chart .annotation-text')].map((t) => [t.textContent, t.getBoundingClientRect()]);"
                "return seen.flatMap(([a, r], i) => seen.slice(i + 1).filter(([, s]) => r.left < s.right - 1 && "
                "s.left < r.right - 1 && "
                "r.top < s.bottom - 2 && s.top < r.bottom - 2).map(([b]) => `${a} / ${b}`))"
            )
            assert overlapping == []
        assert page.console() == []
