"""The report: one self-contained HTML page that says what measuring changed, and its JSON twin.

::

    content     what the report shows, as frozen data that the harness fills
    results     the verdicts joined by configuration, counted and ranked
    words       sentences in plain language          names      plain names of metrics
    chart       what figures are made of             figures*   every figure, as Plotly's JSON
    markup      HTML that escapes                    sections_* the page's sections
    page        render, write_report                 alignment_page   two runs, aligned
    partition_page   a plan, its evidence, its search (sections_, figures_, words_partition)
    diagnosis_page   an event trace beside its references (figures_diagnosis)
    structure_page   what a run is made of, and how a second one differs (figures_structure)
    model_page  what causes what (model_graph, layered, figures_model, model.js)
    document    one self-contained HTML file         report.css, report.js

plotly.js is read when a page is rendered, not when this package is imported; what pages of other analyses need is loaded when they are asked for,
as `unperturbed run` needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.report.alignment_page import render_alignment
from unperturbed.analysis.report.content import (
    AlignmentExample,
    CounterSource,
    Headline,
    ReportContent,
    RunRow,
    Settings,
    to_json,
)
from unperturbed.analysis.report.document import write_page
from unperturbed.analysis.report.page import render, write_report
from unperturbed.analysis.report.partition_page import render_partition, write_partition

if TYPE_CHECKING:
    from unperturbed.analysis.report.diagnosis_page import render_diagnosis
    from unperturbed.analysis.report.model_page import render_model
    from unperturbed.analysis.report.structure_page import render_structure

__all__ = [
    "AlignmentExample",
    "CounterSource",
    "Headline",
    "ReportContent",
    "RunRow",
    "Settings",
    "render",
    "render_alignment",
    "render_diagnosis",
    "render_model",
    "render_partition",
    "render_structure",
    "to_json",
    "write_page",
    "write_partition",
    "write_report",
]

_LOADED_WHEN_ASKED_FOR = {
    "render_diagnosis": "diagnosis_page",
    "render_model": "model_page",
    "render_structure": "structure_page",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LOADED_WHEN_ASKED_FOR[name]}"), name)
