"""The evaluation half of the diagnosis experiment: tables of verdicts, and one cell of made-up logs from end to end."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from experiments.diagnosis import evaluate


def log(seed: int, *, kept: float = 1.0) -> str:
    """A log in GStreamer's form: 300 pictures through three elements; the decoder gets a share of them."""
    drawn = random.Random(seed)
    lines = ["0:00:00.000000001  7 0x55 DEBUG  pipeline pipe.c:1:set_up:<pipeline0> begin\n"]
    for picture in range(300):
        for place, element in enumerate(("demux", "decoder", "sink")):
            if element == "demux" or drawn.random() < kept:
                at = 40_000_000 * picture + 1_000_000 * place + drawn.randrange(200_000)
                clock = f"0:00:{at // 10**9:02d}.{at % 10**9:09d}"
                lines.append(f"{clock}  7 0x55 DEBUG  {element} {element}.c:9:chain:<{element}0> buffer\n")
    lines.append("0:00:13.000000000  7 0x55 DEBUG  pipeline pipe.c:2:tear_down:<pipeline0> end\n")
    return "".join(lines)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Four references, two clean traces, one that loses half of its pictures and one without anything to notice."""
    (tmp_path / "traces").mkdir()
    plan: list[tuple[str, str, float, dict[str, str]]] = [(f"r{n}", "reference", 1.0, {}) for n in range(4)]
    plan += [("c0", "clean", 1.0, {}), ("c1", "clean", 1.0, {}), ("lost", "anomalous", 0.5, {"lost events": "many"})]
    plan += [("quiet", "anomalous", 1.0, {})]
    for seed, (name, role, kept, noticed) in enumerate(plan):
        target = tmp_path / "traces" / f"{name}.log.gz"
        target.write_bytes(gzip.compress(log(seed, kept=kept).encode()))
        row: dict[str, Any] = {
            "name": name,
            "role": role,
            "pipeline": "decode",
            "clip": "ball",
            "change": "drop",
            "place": "coded",
            "strength": 1 - kept,
            "unit": "probability",
            "log": f"traces/{name}.log.gz",
            "noticed": noticed,
        }
        (tmp_path / "traces" / f"{name}.json").write_text(json.dumps(row))
    return tmp_path


def test_a_cell_is_diagnosed_and_told(recorded: Path) -> None:
    said: list[str] = []
    found = evaluate.diagnose_all(recorded, evaluate.read_rows(recorded), said.append)
    by_name = {one.row["name"]: one for one in found}
    assert sorted(by_name) == ["c0", "c1", "lost", "quiet"]
    assert {name: one.verdict for name, one in by_name.items()} == {
        "c0": "clean",
        "c1": "clean",
        "lost": "anomalous",
        "quiet": "clean",
    }
    assert by_name["lost"].named_rightly
    assert by_name["lost"].lcs > 200 > by_name["c0"].lcs
    assert said == ["decode, ball: 1 of 1"]
    page = evaluate.page(found, 4, 1.0, "Made by hand.")
    assert (
        "**0 of 2 clean traces are called anomalous. Of 1 noticeable anomalies 1 are found, and the kind of 1 is named "
        "rightly: at least one of the kinds that a viewer notices is\namong those named" in page
    )
    assert "| drop coded | 0.5 probability | 1 | 1 | 1 | 1 | 1 |" in page
    assert "| lost events, noticeable | 1 | 0 | 0 | 1 | 0 | 0 | 1 | 0 | 0 | 0 |" in page
    assert "… slow streaming | … slow phase |" in page
    assert "Made by hand. The evaluation took 1 s" in page
    assert "## Told wrongly\n\nNone." in page
    assert "{" not in page


def test_the_best_threshold_errs_least() -> None:
    assert evaluate.best_threshold([1, 2, 3, 9], [4, 5, 6, 7]) == 3
    assert evaluate.best_threshold([1, 2], [1, 2]) in (1, 2)


def test_what_is_told_wrongly_is_listed() -> None:
    def told(role: str, noticed: dict[str, str], verdict: str, *kinds: str) -> Any:
        row = {"name": "x", "role": role, "noticed": noticed, "load": 3.1}
        row |= {"late_ms": 165.3, "sound_late_ms": 0.6, "sound_early_ms": 29.0}
        return evaluate.Diagnosed(row, verdict, kinds, (0, 0), 0, 0.0)

    right = [told("clean", {}, "clean"), told("anomalous", {"lost events": ""}, "anomalous", "lost events")]
    assert evaluate.missed(right) == ["None."]
    alarm, misnamed = (
        told("clean", {}, "anomalous", "lost events"),
        told("anomalous", {"lost events": ""}, "anomalous", "slow streaming"),
    )
    assert evaluate.missed([alarm, misnamed]) == [
        "- `x`: nothing changed (at the sinks 165 ms late, sound and picture 29 ms apart; load 3); called anomalous: "
        "lost events.",
        "- `x`: lost events; called anomalous: slow streaming.",
    ]
