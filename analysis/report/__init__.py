"""Reports: the page of a campaign and its JSON twin, and pages that show several analyses.

Diagnosis, structure and causal models have their pages in rooms of their own; what all pages share stands in
`analysis.pages`. Pages of other analyses are loaded when they are asked for, as `unperturbed run` needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.pages.document import render_result, write_page
from unperturbed.analysis.report.alignment import AlignmentExample, alignment_example, render_alignment
from unperturbed.analysis.report.campaign.comparison import render_comparison
from unperturbed.analysis.report.campaign.content import (
    CounterSource,
    Headline,
    ReportContent,
    ReportSettings,
    RunRow,
    to_json,
)
from unperturbed.analysis.report.campaign.page import render, write_report
from unperturbed.analysis.report.partition import render_partition, write_partition
from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.analysis.causal.html.page import render_model
    from unperturbed.analysis.diagnosis.page import render_diagnosis
    from unperturbed.analysis.report.nodes import render_nodes
    from unperturbed.analysis.report.traces import render_traces
    from unperturbed.analysis.structure.page import render_structure

__all__ = [
    "AlignmentExample",
    "CounterSource",
    "Headline",
    "ReportContent",
    "ReportSettings",
    "RunRow",
    "alignment_example",
    "render",
    "render_alignment",
    "render_comparison",
    "render_diagnosis",
    "render_model",
    "render_nodes",
    "render_partition",
    "render_result",
    "render_structure",
    "render_traces",
    "to_json",
    "write_page",
    "write_partition",
    "write_report",
]

# `unperturbed run` needs no page of another analysis.
__getattr__, __dir__ = lazy_names(
    __name__, former={"unperturbed.analysis.report.campaign.content": "Settings=ReportSettings"}
)
