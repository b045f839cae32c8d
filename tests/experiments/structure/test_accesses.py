"""Accesses that lackey prints become page faults with their stages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from experiments.structure.accesses import STAGES, START, faults_of, parse_accesses, read_path, record

PROGRAM = """
static char pages[8 << 12] __attribute__((aligned(4096)));
void first(void) { for (int page = 0; page < 6; page++) pages[page << 12]++; }
void second(void) { for (int page = 7; page > 1; page--) pages[page << 12]++; }
int main(void) { for (int time = 0; time < 3; time++) { first(); second(); } return 0; }
"""
LINES = b"==7== Lackey, an example\n\nI  00401000,3\n L 1ffefff7e0,8\n S 00005008,4\n M 00005010,4\nI  00402000,1\n"


@pytest.mark.parametrize("length", [1, 7, 30, 500])
def test_what_lackey_prints_is_parsed_however_it_is_cut(length: int) -> None:
    chunks = [LINES[first : first + length] for first in range(0, len(LINES), length)]
    events = np.concatenate(list(parse_accesses(chunks, {0x402000: 1, 0x5008: 0})))
    assert events.tolist() == [0x1FFEFFF7E0, 0x5008, 0x5010, -2]


def naive_faults(pages: list[int], frames: int) -> list[int]:
    memory: list[int] = []
    faults = []
    for page in pages:
        if page in memory:
            memory.remove(page)
        else:
            faults.append(page)
        memory = [*memory, page][-frames:]
    return faults


@pytest.mark.parametrize("frames", [1, 3, 10])
def test_the_least_recently_used_page_leaves(frames: int) -> None:
    pages = np.random.default_rng(frames).integers(0, 8, 500)
    found = faults_of([pages[:200] << 12, pages[200:] << 12], frames, ())
    assert [page for page, _ in found] == naive_faults(pages.tolist(), frames)


def test_faults_have_the_stage_whose_function_was_entered_last() -> None:
    events = np.array([1, -2, 2, -1, 3, 1]) << np.array([12, 0, 12, 0, 12, 12])
    assert list(faults_of([events], 2, ("a", "b"))) == [(1, START), (2, "b"), (3, "a"), (1, "a")]


def test_a_real_program_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    flags = ["-O0", "-fno-pie", "-no-pie", "-o", program, tmp_path / "program.c"]
    subprocess.run(["gcc", *flags], check=True)
    faults = list(record([program], {"first": "one", "second": "two"}, 5))
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    array = next(int(line.split()[0], 16) >> 12 for line in symbols.splitlines() if line.endswith(" pages"))
    found = {
        name: [page - array for page, stage in faults if stage == name and 0 <= page - array < 8]
        for name in ("one", "two")
    }
    # The stack takes one of five frames, so that four pages are left of what the loop before went through.
    assert found == {"one": [0, 1, 2, 3, 4, 5] + 2 * [0, 1, 4, 5], "two": 3 * [7, 6, 3, 2]}
    with pytest.raises(SystemExit, match="has no function third"):
        list(record([program], {"third": "three"}, 5))


def test_the_kept_path_is_of_the_stages() -> None:
    path = read_path()
    assert set(path.stages) == {START, *STAGES.values()}
    assert path.recorded.startswith("Made by `python -m experiments.structure.accesses --frames ")
