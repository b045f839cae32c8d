"""The further cases of the diagnosis experiment, without GStreamer and tracefs: what they compute and would play."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.common.evaluation import EVIDENCE
from experiments.diagnosis import evaluate
from experiments.diagnosis.cases import kernel, ordering, pictures, theta
from unperturbed.analysis.diagnosis import EventTrace


def beats(count: int, rare: int = 1) -> EventTrace:
    """A trace of an event that recurs, and of one that is rare."""
    return EventTrace.from_pairs(sorted([(10 * n, "often") for n in range(count)] + [(5, "rarely")] * rare))


def test_triples_in_order_are_counted() -> None:
    assert ordering.ordered([[1.0, 2.0], [3.0]], [[2.0, 3.0], [3.0]]) == (3, 5)


def test_the_section_on_ordering_has_the_papers_values() -> None:
    traces = {label: [beats(20 + n), beats(21 + n)] for n, label in enumerate(ordering.SETTINGS)}
    text = "\n".join(ordering.section(traces, "Made by hand."))
    assert "131,525; 132,090; –" in text or "131,525; 132,091; –" in text
    assert text.count("of 8 |") == 2 * len(ordering.DISTANCES)
    assert text.endswith("Made by hand.")


def test_theta_separates_where_every_lossy_pair_has_a_lower_ratio_than_all_clean_pairs() -> None:
    clean, lossy = (beats(100), beats(99)), (beats(100), beats(50))
    assert theta.lowest([clean]) == pytest.approx(0.99)
    assert theta.highest([lossy, (beats(100), beats(70))]) == pytest.approx(0.7)
    assert theta.shown(0.99, 0.7) == "0.700 ≤ θ < 0.990"
    assert theta.shown(0.5, 0.7) == "none: 0.700 ≥ 0.500"
    rare = (beats(100, 1), beats(99, 2))
    assert (theta.lowest([rare]), theta.lowest([rare], 50)) == (0.5, 0.99)


def test_the_row_of_a_length_counts_what_the_papers_theta_calls_anomalous() -> None:
    by_loss = {0.0: [beats(100), beats(100)], **{loss: [beats(20), beats(20)] for loss in theta.LOSSES}}
    every, often = theta.rows({4: by_loss})
    assert every[-1] == "0 / 4 / 4 / 4"
    assert (every[0], every[2], often[2], often[-1]) == ("4", "all", "100 times or more", "")


def test_each_change_of_the_picture_changes_one_thing_of_a_player() -> None:
    for player in pictures.PLAYERS:
        plain = pictures.PLAYERS[player].playing(Path("a.avi"), 0, "fakesink")
        for change, values in pictures.CHANGES.items():
            changed = pictures.look_of(player, change)
            assert all(getattr(changed, name) == value for name, value in values.items())
            command = changed.playing(Path("a.avi"), 0, "fakesink")
            assert (command != plain) == (set(values) != {"coded"})
    names = {pictures.name_of(p, c, n) for p in pictures.PLAYERS for c in ("", *pictures.CHANGES) for n in range(2)}
    assert len(names) == 2 * 2 * (1 + len(pictures.CHANGES))


def test_psnr() -> None:
    black = np.zeros((2, 4, 4), np.uint8)
    assert pictures.psnr(black, black) == np.inf
    assert pictures.psnr(black, black + np.uint8(255)) == 0
    assert pictures.psnr(black, (black + np.uint8(51))[:1]) == pytest.approx(20 * np.log10(5))


def test_the_cases_of_the_kernel_have_names_and_effects_of_their_own() -> None:
    assert len({kernel.name_of(label, 0) for label in kernel.CASES}) == len(kernel.CASES)
    plain = kernel.PIPELINE.playing(Path("a.avi"), 1000, {})
    for label, case in kernel.CASES.items():
        changed = kernel.PIPELINE.playing(Path("a.avi"), 1000, case.settings)
        assert (changed == plain) == (label == "nothing" or bool(case.stress)), label


def test_when_traces_were_recorded_and_by_which_gstreamer(tmp_path: Path) -> None:
    line = "0:00:00.0001 7 0x5 INFO GST_INIT gst.c:576:init_pre: Initializing GStreamer Core Library version 1.22.0\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(line.encode()))
    row = {"log": "a.log.gz", "ended_at": "2026-11-26T20:00:00", "load": 1.0, "attempt": 1}
    later = row | {"ended_at": "2026-11-27T01:00:00", "load": 3.0, "attempt": 2}
    assert evaluate.recorded(tmp_path, [row, later]) == (
        "Recorded from 2026-11-26 to 2026-11-27 by GStreamer 1.22.0, at a load average of 2.0 (at most 3.0; the stress "
        "of the experiment is part of it); 1 traces took more than one attempt."
    )


def cells(page: Path, first: str) -> list[str]:
    """The cells of the row of a page's table that begins with a cell."""
    return next(line for line in page.read_text().splitlines() if line.startswith(f"| {first} |")).split(" | ")


def test_other_pages_quote_the_figures_of_the_evidence() -> None:
    docs = EVIDENCE.parent
    distances, evidence = docs / "explanation" / "diagnosis_distances.md", EVIDENCE / "diagnosis_cases.md"
    for name in ("d3 by gaps (`gaps`)", "of it in time", "d3 of definition 4 (`paper`)", "Mannila's (`mannila`)"):
        assert [cell.removesuffix(" |") for cell in cells(distances, name)[1:4]] == [
            cell.removesuffix(" |") for cell in cells(evidence, name)[1:4]
        ], name
    blocks = re.search(
        r"the ([\d,]+) events of the first reference in ([\d,]+) timestamped blocks", evidence.read_text()
    )
    assert blocks
    assert " ".join(distances.read_text().split()).count(f"the {blocks[1]} events of a run above in {blocks[2]} ") == 1
    clean = r"(\d+) of (\d+) clean (?:runs|traces)"
    tutorial, page = (
        re.search(clean, path.read_text()) for path in (docs / "tutorials/diagnosis.md", EVIDENCE / "diagnosis.md")
    )
    assert tutorial
    assert page
    assert tutorial.groups() == page.groups()
