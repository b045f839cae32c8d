"""Each tutorial is followed as a reader would: its files are written, its commands run, its outputs compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.tutorials import AFTER, PAGES, blocks, follow, is_printed

_LONG = ("campaign", "subsets")  # a minute of processor time each


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in _LONG else []) for name in PAGES if name not in AFTER],
)
def test_a_tutorial_can_be_followed(name: str, tmp_path: Path) -> None:
    for page in (name, *(later for later, first in AFTER.items() if first == name)):
        assert blocks(PAGES[page])
        follow(PAGES[page], tmp_path)


def test_outputs_are_compared() -> None:
    assert is_printed("run 1 of …", "run 7 of 20: baseline")
    assert not is_printed("run 1 of …", "no run")
