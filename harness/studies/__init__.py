"""Campaigns with another end than verdicts: sweeps over parameters, searches for a partition, and readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.studies.partition import Search, partition_campaign
    from unperturbed.harness.studies.readiness import Readiness, check_spec
    from unperturbed.harness.studies.sweep.plan import at_a_point, count_points, points
    from unperturbed.harness.studies.sweep.runs import run_sweep
    from unperturbed.harness.studies.sweep.table import SweepTable, read_table

__all__ = [
    "Readiness",
    "Search",
    "SweepTable",
    "at_a_point",
    "check_spec",
    "count_points",
    "partition_campaign",
    "points",
    "read_table",
    "run_sweep",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "partition": ("Search", "partition_campaign"),
        "readiness": ("Readiness", "check_spec"),
        "sweep.plan": ("at_a_point", "count_points", "points"),
        "sweep.runs": ("run_sweep",),
        "sweep.table": ("SweepTable", "read_table"),
    },
)
