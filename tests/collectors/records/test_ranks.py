"""Groups of a run's processes by rank; commands that start ranks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.collectors.records.test_processes import process
from unperturbed.collectors.records.counted import Counted
from unperturbed.collectors.records.processes import of_rank
from unperturbed.collectors.records.ranks import LAUNCHERS, by_rank, launcher_in
from unperturbed.collectors.runtime import INCLUDE


def _of(image: str, rank: int | None = None, pid: int = 1) -> Counted:
    return replace(process([0, 10, 30], [[1, 2], [3, 4], [5, 6]], pid, image), rank=rank)


def test_processes_without_ranks_stay_as_they_are() -> None:
    found = [_of("mpirun"), _of("make", pid=2)]
    assert by_rank(found) == ([[found[0]], [found[1]]], [])


def test_ranks_come_first_and_launchers_apart() -> None:
    shell, mpirun, first, second, child = _of("sh"), _of("mpirun"), _of("a", 1), _of("a", 0, 2), _of("b", 1, 3)
    groups, launchers = by_rank([shell, mpirun, first, second, child])
    assert groups == [[second], [first, child], [shell]]
    assert launchers == [mpirun]
    joined = of_rank(groups[1], by_time=True)
    assert (joined.processes, joined.rank, int(joined.columns["blocks"].sum())) == (2, 1, 14)
    assert joined.summary(0)["rank"] == 1


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("mpirun -np 2 ./a", "mpirun"),
        ("/usr/bin/mpiexec.hydra -n 2 a", "mpiexec.hydra"),
        ("cd x; env A=1 srun a", "srun"),
        ("./a mpi", ""),
        ("", ""),
    ],
)
def test_a_command_that_starts_ranks(command: str, launcher: str) -> None:
    assert launcher_in(command) == launcher


def test_the_runtime_has_the_same_launchers() -> None:
    text = Path(INCLUDE / "record.c").read_text().partition("starts_ranks")[2].partition("};")[0]
    assert tuple(re.findall(r'"(\w+)"', text)) == LAUNCHERS
