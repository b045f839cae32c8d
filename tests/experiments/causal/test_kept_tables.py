"""Tables of sweeps that the repository keeps: small, and the page's sections are what today's learner makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.causal import evaluate
from experiments.common.evaluation import EVIDENCE
from unperturbed.collectors.data import read_sweep_facts

KEPT = [part for part in evaluate.PARTS if evaluate.stored(part)]


def test_what_needs_no_processor_is_kept() -> None:
    assert {part.name for part in KEPT} >= {part.name for part in evaluate.PARTS if not part.needs}
    assert set(evaluate.sections_of(EVIDENCE / "causal.md")) >= {part.name for part in KEPT}


def test_tables_are_small_and_say_what_they_are() -> None:
    tables = sorted(evaluate.STORED.rglob("*.parquet"))
    assert {path.parent for path in tables} == {
        part.within(evaluate.STORED) / name for part in KEPT for name in part.specs
    }
    for table in tables:
        assert table.stat().st_size <= evaluate.LARGEST
        assert {"name", "host", "begun"} <= set(read_sweep_facts(table.parent))


@pytest.mark.long
@pytest.mark.parametrize("part", KEPT, ids=lambda part: part.name)
def test_a_section_is_what_the_learner_makes_of_its_tables(part: evaluate.Part, tmp_path: Path) -> None:
    (tmp_path / "causal").mkdir()
    made = evaluate.evaluated(part, evaluate.STORED, tmp_path, "Made.")
    written = evaluate.sections_of(EVIDENCE / "causal.md")[part.name]
    # Last digits may differ with libraries; which edges there are, and which claims hold, may not.
    sections = (text.rpartition("Made")[0] for text in (made, written))
    words = [re.sub(r"[−-]?\d[\d.,e+−-]*", "#", text) for text in sections]
    assert words[0] == words[1]
