"""The measured program: source, builds, layouts, command, launch, and its software metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.program.build import build_configuration, check_compilers, find_source
    from unperturbed.harness.program.layouts import AS_BUILT, layout_notes, make_layout, put_in_place
    from unperturbed.harness.program.process import Command, Outcome, cannot_preload, launch, program_command
    from unperturbed.harness.program.sites import MetricSites, Place, SpecSites, find_all_sites, unplaced
    from unperturbed.harness.program.software_metrics import (
        SoftwareMetrics,
        check_hit_rates,
        find_software_metrics,
        hit_rates,
    )
    from unperturbed.harness.program.sources import program_identity

__all__ = [
    "AS_BUILT",
    "Command",
    "MetricSites",
    "Outcome",
    "Place",
    "SoftwareMetrics",
    "SpecSites",
    "build_configuration",
    "cannot_preload",
    "check_compilers",
    "check_hit_rates",
    "find_all_sites",
    "find_software_metrics",
    "find_source",
    "hit_rates",
    "launch",
    "layout_notes",
    "make_layout",
    "program_command",
    "program_identity",
    "put_in_place",
    "unplaced",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "build": ("build_configuration", "check_compilers", "find_source"),
        "layouts": ("AS_BUILT", "layout_notes", "make_layout", "put_in_place"),
        "process": ("Command", "Outcome", "cannot_preload", "launch", "program_command"),
        "sites": ("MetricSites", "Place", "SpecSites", "find_all_sites", "unplaced"),
        "sources": ("program_identity",),
        "software_metrics": ("SoftwareMetrics", "check_hit_rates", "find_software_metrics", "hit_rates"),
    },
)
