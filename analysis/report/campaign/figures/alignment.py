"""Figures of two aligned runs, as an example of how runs are compared."""

from __future__ import annotations

from unperturbed.analysis.report.alignment import alignment_block
from unperturbed.analysis.report.campaign.figures import FigureBlock, ReportFigure, ReportView


def _block(view: ReportView) -> FigureBlock | None:
    return alignment_block(view.content.alignment) if view.content.alignment else None


ALIGNMENT = ReportFigure("alignment", "alignment", _block)
