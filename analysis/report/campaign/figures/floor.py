"""Figure of the noise floor: the smallest visible change of each total and correlation, by the number of runs."""

from __future__ import annotations

from typing import Any

from unperturbed.analysis.floor.noise_floor import NoiseFloor
from unperturbed.analysis.floor.resolution import RUNS, Resolution
from unperturbed.analysis.floor.resolution_text import LEAST_RELATIVE, LEAST_RHO, change_text, is_time, name_of
from unperturbed.analysis.pages.chart import LEGEND_ON_TOP, Figure, axis, layout, plot_text, scatter, short
from unperturbed.analysis.report.campaign.figures import ReportFigure, ReportView
from unperturbed.common.wording import duration

_COLOURS = ("@series-1", "@series-3", "@series-2")
_HEIGHT_PX = 420


def floor_figure(floor: NoiseFloor) -> Figure:
    """Draw the smallest visible change by the number of runs: totals on the left, correlations on the right."""
    totals = [resolution for resolution in floor.resolutions if resolution.is_total]
    correlations = [resolution for resolution in floor.resolutions if not resolution.is_total]
    data = [*_lines(totals, "", floor), *_lines(correlations, "2", floor)]
    tolerances = [
        {
            "type": "line",
            "x0": RUNS[0],
            "x1": RUNS[-1],
            "y0": tolerance * scale,
            "y1": tolerance * scale,
            "xref": f"x{suffix}",
            "yref": f"y{suffix}",
            "line": {"color": "@axis", "width": 1, "dash": "dash"},
        }
        for resolutions, suffix, scale in ((totals, "", 100), (correlations, "2", 1))
        for tolerance in sorted({resolution.tolerance for resolution in resolutions if resolution.tolerance})
    ]
    runs: dict[str, Any] = {"type": "log", "tickvals": list(RUNS), "ticktext": [str(count) for count in RUNS]}
    figure = layout(
        _HEIGHT_PX,
        margin={"l": 70, "r": 20, "t": 60, "b": 60},
        legend=LEGEND_ON_TOP,
        shapes=tolerances,
        xaxis=axis("runs in each group", domain=[0, 0.44], **runs),
        yaxis=axis("smallest visible change of a total (%)", type="log", dtick="D2", tickformat="~g"),
        xaxis2=axis("runs in each group", domain=[0.56, 1], anchor="y2", **runs),
        yaxis2=axis("smallest visible change of ρ", type="log", dtick="D2", tickformat="~g", anchor="x2"),
    )
    text = (
        "Each line falls with the number of runs: it is the smallest change of a total (left) or correlation (right) "
        "that this number of runs shows. The table contains the same numbers."
    )
    return Figure("floor", data, figure, text)


def _lines(resolutions: list[Resolution], suffix: str, floor: NoiseFloor) -> list[dict[str, Any]]:
    """Return a line for each resolution; lines of one group share a colour and a legend entry."""
    groups: dict[str, list[Resolution]] = {}
    for resolution in resolutions:
        groups.setdefault(
            "times" if is_time(resolution) else "counts" if resolution.is_total else resolution.kind, []
        ).append(resolution)
    lines = []
    for (group, members), colour in zip(groups.items(), (*_COLOURS, *_COLOURS), strict=False):
        for at, resolution in enumerate(members):
            unit = " %" if resolution.is_total else ""
            scale, least = (100, LEAST_RELATIVE) if resolution.is_total else (1, LEAST_RHO)
            lines.append(
                scatter(
                    "lines+markers",
                    list(RUNS),
                    short([scale * max(change, least) for change in resolution.smallest], 3),
                    name=group,
                    legendgroup=f"{group}{suffix}",
                    showlegend=at == 0,
                    line={"color": colour, "width": 1.5},
                    marker={"color": colour, "size": 5},
                    xaxis=f"x{suffix}",
                    yaxis=f"y{suffix}",
                    hovertext=[
                        f"{plot_text(name_of(resolution))}<br>{runs} runs in each group: "
                        f"{change_text(resolution, change)}{unit}<br>"
                        f"{duration(floor.seconds_for(runs), whole=True)}"
                        for runs, change in zip(RUNS, resolution.smallest, strict=True)
                    ],
                    hovertemplate="%{hovertext}<extra></extra>",
                )
            )
    return lines


def _block(view: ReportView) -> Figure | None:
    floor = view.content.floor
    return floor_figure(floor) if floor is not None and floor.resolutions else None


FLOOR = ReportFigure(
    "floor-lines",
    "floor",
    _block,
    caption="Dashed lines are tolerances. Changes below 0.01 % (totals) or 0.001 (ρ) are drawn at these values, "
    "because a logarithmic axis has no 0.",
)
