"""Ranks of MPI in a run: which processes are a rank's, and which only start ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING

from unperturbed.collectors.data.trace import Metric

if TYPE_CHECKING:
    from unperturbed.collectors.records.counted import Counted

LAUNCHERS = ("mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "hydra_", "srun")
"""Beginnings of the names of programs that start ranks and are none: `mpirun.mpich`, `hydra_pmi_proxy`."""

WAITS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("mpi_waits", "os", unit="calls", source="PMPI", meaning="calls of MPI that wait for another rank"),
            Metric("mpi_wait_ns", "os", unit="ns", source="PMPI", meaning="time in calls of MPI that wait for a rank"),
        )
    }
)
"""What is counted in each rank, in the order of the values in a record."""


def is_launcher(image: str) -> bool:
    """Return whether a program starts ranks, by its file name."""
    return image.startswith(LAUNCHERS)


def launcher_in(command: str) -> str:
    """Return the first program of a command, or of a shell's command in it, that starts ranks; '' if there is none."""
    words = re.split(r"[\s;&|()'\"]+", command)
    return next((name for word in words if is_launcher(name := PurePath(word).name)), "")


def by_rank(processes: Sequence[Counted]) -> tuple[list[list[Counted]], list[Counted]]:
    """Return the processes of a run in groups, each rank's first, and apart those that only start ranks.

    Without ranks, each process is a group of its own, and none is apart. A rank's group has its first process first; a
    process without a rank, such as a shell that starts the launcher, is a group of its own.
    """
    if all(process.rank is None for process in processes):
        return [[process] for process in processes], []
    groups: defaultdict[int, list[Counted]] = defaultdict(list)
    for process in processes:
        if process.rank is not None:
            groups[process.rank].append(process)
    others = [process for process in processes if process.rank is None]
    own = [[process] for process in others if not is_launcher(process.image)]
    return [*(groups[rank] for rank in sorted(groups)), *own], [one for one in others if is_launcher(one.image)]
