"""Figures of two aligned runs, an example of how runs are compared."""

from __future__ import annotations

from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.report.alignment import CAPTIONS, alignment_figures
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView


def _block(view: ReportView) -> FigureBlock | None:
    example = view.content.alignment
    if example is None:
        return None
    signals, *rest = alignment_figures(example)
    caption = (
        f"{plain_name(example.metric)} in {example.first} (top) and {example.second} (bottom), each scaled to the same "
        "height; thin lines join intervals that were aligned (not all are drawn)."
    )
    return FigureBlock(
        [
            CaptionedFigure(signals, caption),
            *(CaptionedFigure(figure, CAPTIONS[figure.name], half_width=True) for figure in rest),
        ]
    )


ALIGNMENT = ReportFigure("alignment", "alignment", _block)
