"""The sample output on the page of the noise floor is that of the command, as far as a table of today has its form."""

from __future__ import annotations

import numpy as np
import pytest

from docs.tutorials.samples import PAGE, written
from tests.analysis.floor.simulate import compared
from unperturbed.analysis.floor.noise_floor import measure_floor
from unperturbed.analysis.floor.resolution_text import floor_table


def test_the_sample_is_replaced_and_nothing_else() -> None:
    floor = measure_floor([], {"B": [compared(np.random.default_rng(1), 10, 0.01)]}, alpha=0.05)
    printed = f"{floor_table(floor, shown=(3, 10, 20, 100)).to_text(80)}\n    \nB: 20 runs suffice\n"
    page = PAGE.read_text()
    new = written(page, printed)
    assert "cycles, %" in new and "B: 20 runs suffice" not in new
    before, after = (text.split("<!-- sample")[0] for text in (page, new))
    assert before == after
    assert page[page.index("| column | meaning |") :] == new[new.index("| column | meaning |") :]
    with pytest.raises(SystemExit, match="has no place"):
        written("no block", printed)
