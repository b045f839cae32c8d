"""Campaigns with another end than verdicts: sweeps over parameters, searches for a partition, and readiness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.studies.node_makers import NODE_MAKERS
    from unperturbed.harness.studies.partition import Search, partition_campaign
    from unperturbed.harness.studies.readiness import Readiness, check_spec
    from unperturbed.harness.studies.search_on_nodes.coordinator import partition_on_nodes
    from unperturbed.harness.studies.sweep.nodes import run_sweep_on_nodes
    from unperturbed.harness.studies.sweep.runs import run_sweep
    from unperturbed.harness.studies.sweep.table import SweepTable, read_table

__all__ = [
    "NODE_MAKERS",
    "Readiness",
    "Search",
    "SweepTable",
    "check_spec",
    "partition_campaign",
    "partition_on_nodes",
    "read_table",
    "run_sweep",
    "run_sweep_on_nodes",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "node_makers": ("NODE_MAKERS",),
        "partition": ("Search", "partition_campaign"),
        "search_on_nodes.coordinator": ("partition_on_nodes",),
        "readiness": ("Readiness", "check_spec"),
        "sweep.nodes": ("run_sweep_on_nodes",),
        "sweep.runs": ("run_sweep",),
        "sweep.table": ("SweepTable", "read_table"),
    },
)
