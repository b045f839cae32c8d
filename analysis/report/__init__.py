"""Reports: one self-contained HTML page for each kind of result, and the JSON twin of a campaign's report.

::

    document, chart    what every page shares: its frame and its parts, figures; report.css, report.js
    campaign           a campaign's verdicts: content, joined results, sections; `figures` holds one module a figure
    partition          a plan of what can be measured together
    alignment, diagnosis, model, structure    pages of the other analyses

plotly.js stands in `plotly/`, its basic bundle (scatter, bar, pie) as `tools/update_plotly.py` takes it from npm. What
pages of other analyses need is loaded when they are asked for, as `unperturbed run` needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.report.alignment import AlignmentExample, alignment_example, render_alignment
from unperturbed.analysis.report.campaign.comparison import render_comparison
from unperturbed.analysis.report.campaign.content import (
    CounterSource,
    Headline,
    ReportContent,
    RunRow,
    Settings,
    to_json,
)
from unperturbed.analysis.report.campaign.page import render, write_report
from unperturbed.analysis.report.document import render_result, write_page
from unperturbed.analysis.report.partition.page import render_partition, write_partition
from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.analysis.report.diagnosis import render_diagnosis
    from unperturbed.analysis.report.model.page import render_model
    from unperturbed.analysis.report.nodes import render_nodes
    from unperturbed.analysis.report.structure import render_structure
    from unperturbed.analysis.report.traces import render_traces

__all__ = [
    "AlignmentExample",
    "CounterSource",
    "Headline",
    "ReportContent",
    "RunRow",
    "Settings",
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
__getattr__, __dir__ = lazy_names(__name__)
