"""Forest plot of totals: each change with its confidence interval, in units of its tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    MARKER,
    Figure,
    axis,
    layout,
    plot_text,
    row_axis,
    scatter,
    short,
    tolerance_band,
)
from unperturbed.analysis.perturbation import VERDICT_SIGNS
from unperturbed.analysis.report.campaign.figures import FigureBlock, ReportFigure, ReportView
from unperturbed.analysis.totals.compare import effect_of
from unperturbed.analysis.totals.total_text import name_of_total
from unperturbed.common.wording import percent

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import VerdictName
    from unperturbed.analysis.totals import TotalChange

_MOST = 60
_FARTHEST = 5.0
"""Largest change in the figure, in units of the tolerance; larger changes are drawn at the edge."""
BEYOND = "An arrow marks an interval that goes on beyond the axis."
_ROW_PX = 19

_Row = tuple[str, "TotalChange"]


def total_forest(rows: Sequence[_Row]) -> Figure:
    """Draw changes of totals in the given order, each in its own row."""
    names = [f"{plot_text(name, 24)}: {plot_text(name_of_total(change), 40)}" for name, change in rows]
    data: list[dict[str, Any]] = []
    for verdict, marker in MARKER.items():
        drawn = [(at, change) for at, (_, change) in enumerate(rows) if change.verdict == verdict]
        if not drawn:
            continue
        middles = [_scaled(change.change, change) for _, change in drawn]
        ends = [(_scaled(change.low, change), _scaled(change.high, change)) for _, change in drawn]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": short((high - middle for (_, high), middle in zip(ends, middles, strict=True)), 3),
            "arrayminus": short((middle - low for (low, _), middle in zip(ends, middles, strict=True)), 3),
            "color": f"@{verdict}",
            "thickness": 2,
            "width": 4,
        }
        data.append(
            scatter(
                "markers",
                short(middles, 3),
                [at for at, _ in drawn],
                name=f"{VERDICT_SIGNS[verdict]} {verdict}",
                marker=dict(marker),
                legendgroup=verdict,
                error_x=bars,
                hovertext=[f"{names[at]}<br>{percent(change.change)} ({change.interval})" for at, change in drawn],
                hovertemplate=f"%{{hovertext}}<extra>{verdict}</extra>",
            )
        )
        data += _arrows(verdict, [(at, ends[place]) for place, (at, _) in enumerate(drawn)])
    span = max(1.6, 1.05 * max(abs(_scaled(end, total)) for _, total in rows for end in (total.low, total.high)))
    figure = layout(
        len(rows) * _ROW_PX + 150,
        margin={"l": 40, "r": 20, "t": 50, "b": 60},
        shapes=[tolerance_band(1)],
        legend=LEGEND_ON_TOP,
        xaxis=axis(
            "change of the total, in units of its tolerance", range=[-span, span], zeroline=True, zerolinecolor="@axis"
        ),
        yaxis=row_axis(names),
    )
    text = (
        "Forest plot: one row for each change of a total, with its confidence interval; the shaded band is the "
        "tolerance. Arrows mark intervals that go on beyond the axis. The table has the same numbers."
    )
    return Figure("totals", data, figure, text)


def _arrows(verdict: VerdictName, ends: Sequence[tuple[int, tuple[float, float]]]) -> list[dict[str, Any]]:
    """Return arrows at the figure's edges for the rows whose interval goes on there.

    `ends`: Row, and both ends of its interval.
    """
    edges = [(-_FARTHEST, "left", at) for at, (low, _) in ends if low <= -_FARTHEST]
    edges += [(_FARTHEST, "right", at) for at, (_, high) in ends if high >= _FARTHEST]
    if not edges:
        return []
    marker = {"symbol": [f"triangle-{side}" for _, side, _ in edges], "color": f"@{verdict}", "size": 11}
    places, rows = [place for place, _, _ in edges], [at for _, _, at in edges]
    return [scatter("markers", places, rows, marker=marker, legendgroup=verdict, showlegend=False, hoverinfo="skip")]


def _scaled(value: float, change: TotalChange) -> float:
    """Return a relative change in units of its tolerance, on a log scale, limited to the figure's edges."""
    unit = math.log1p(change.tolerance) or math.log1p(0.01)
    if math.isnan(value):
        return 0.0
    return max(-_FARTHEST, min(_FARTHEST, effect_of(value) / unit))


def _block(view: ReportView) -> FigureBlock | Figure | None:
    totals = view.content.totals
    rows = [(name, change) for name, changes in totals.items() for change in changes]
    return total_forest(rows[:_MOST]) if rows else None


TOTALS = ReportFigure(
    "totals-forest",
    "totals",
    _block,
    caption=f"At most {_MOST} changes are drawn. The shaded band is the tolerance; a change of more than five "
    f"tolerances is drawn at the edge. {BEYOND}",
)
