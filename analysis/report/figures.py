"""All figures of the page, by the element that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unperturbed.analysis.report.figures_alignment import alignment_figures
from unperturbed.analysis.report.figures_changes import forest
from unperturbed.analysis.report.figures_correlation import baseline_by_run, correlation_against_overhead
from unperturbed.analysis.report.figures_traces import BeforeAfter, before_after, selectable_metrics, trace_figures
from unperturbed.analysis.report.results import change_key

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation.verdict import Change
    from unperturbed.analysis.report.chart import Figure
    from unperturbed.analysis.report.content import ReportContent
    from unperturbed.analysis.report.results import Result

__all__ = ["Figures", "draw"]


@dataclass(frozen=True)
class Figures:
    """The page's figures; None or empty where the content has nothing for one."""

    forest: Figure | None
    traces: Mapping[str, Figure]
    before_after: BeforeAfter | None
    baseline: Figure | None
    inner: Figure | None
    outer: Figure | None
    alignment: Sequence[Figure]


def draw(content: ReportContent, found: Sequence[Result], listed: Sequence[tuple[Result, Change]]) -> Figures:
    """Draw every figure.

    Parameters
    ----------
    content : what to show.
    found : its results.
    listed : the changes that the page has details of; a point of the forest plot opens those by their number.
    """
    worst = before_after(content, found)
    metrics = selectable_metrics(content)
    first = worst.change.first if worst else next(iter(metrics), "")
    baseline = found[0].references[0] if found and found[0].references else ""
    return Figures(
        forest=forest(found, {change_key(result, change): number for number, (result, change) in enumerate(listed)}),
        traces=trace_figures(content, first),
        before_after=worst,
        baseline=baseline_by_run(found, baseline),
        inner=correlation_against_overhead(found, "inner", baseline),
        outer=correlation_against_overhead(found, "outer", baseline),
        alignment=alignment_figures(content.alignment) if content.alignment is not None else (),
    )
