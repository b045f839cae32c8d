"""Reports: a campaign's page and its JSON export, and the pages of alignments, partitions, nodes and traces.

The pages of diagnosis, structure and causal models are in those packages; `analysis.pages` has the parts that all pages
share. Pages of other analyses are loaded on first use, because `unperturbed run` does not need them.
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
    from unperturbed.analysis.report.campaign.content import ReportView
    from unperturbed.analysis.report.campaign.figures import ReportFigure
    from unperturbed.analysis.report.nodes import render_nodes
    from unperturbed.analysis.report.traces import render_traces
    from unperturbed.analysis.structure.page import render_structure

__all__ = [
    "AlignmentExample",
    "CounterSource",
    "Headline",
    "ReportContent",
    "ReportFigure",
    "ReportSettings",
    "ReportView",
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

# Load on first use: `unperturbed run` does not need the pages of other analyses.
__getattr__, __dir__ = lazy_names(
    __name__, former={"unperturbed.analysis.report.campaign.content": "Settings=ReportSettings"}
)
