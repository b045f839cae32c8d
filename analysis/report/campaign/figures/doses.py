"""Figure of responses to the dose: the worst response of each subset, with the line extended to dose 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unperturbed.analysis.doses.fit import FloatArray
from unperturbed.analysis.doses.response import DoseResponses, Response
from unperturbed.analysis.doses.response_text import named_with_check, response_name
from unperturbed.analysis.pages.chart import LEGEND_ON_TOP, Figure, axis, layout, plot_text, scatter, short
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView

_MOST = 6
_HEIGHT_PX = 320
_POINTS = 33


def response_figure(name: str, configuration: str, response: Response) -> Figure:
    """Draw the mean at each dose, the line to dose 0, its interval there, and what was observed without counting."""
    doses = list(response.means)
    along = np.linspace(0, doses[-1], _POINTS)
    bars = {
        "type": "data",
        "symmetric": False,
        "array": short([response.high - response.value]),
        "arrayminus": short([response.value - response.low]),
        "color": "@series-2",
        "thickness": 2,
        "width": 6,
    }
    data: list[dict[str, Any]] = [
        scatter(
            "lines",
            short(along),
            short(line_through(response, along)),
            name="line",
            line={"color": "@series-2", "dash": "dash"},
        ),
        scatter(
            "markers",
            doses,
            short(response.means.values()),
            name="mean of the runs",
            marker={"color": "@series-1", "size": 9},
        ),
        scatter(
            "markers",
            [0],
            short([response.value]),
            name="extrapolated",
            marker={"color": "@series-2", "size": 9, "symbol": "diamond"},
            error_y=bars,
        ),
    ]
    if response.without is not None:
        observed = {"color": "@series-3", "size": 11, "symbol": "circle-open", "line": {"width": 2}}
        data.append(scatter("markers", [0], short([response.without]), name="observed without", marker=observed))
    unit = "total of a run" if response.check == "total" else "Spearman's ρ"
    figure = layout(
        _HEIGHT_PX,
        margin={"l": 80, "r": 20, "t": 60, "b": 60},
        legend=LEGEND_ON_TOP,
        xaxis=axis("increments for each event", tickvals=[0, *doses], range=[-0.3, doses[-1] + 0.3]),
        yaxis=axis(unit),
    )
    text = (
        f"Response of {plot_text(response_name(response))} in {plot_text(configuration)}: the mean at each dose, and "
        "the line that gives the value at dose 0 with its interval. The table has the same numbers."
    )
    return Figure(name, data, figure, text)


def line_through(response: Response, doses: FloatArray) -> FloatArray:
    """Return the line of the fit at some doses; for a correlation it is straight on Fisher's scale."""
    known, means = np.array(list(response.means)), np.array(list(response.means.values()))
    if response.by_signals:  # the signals follow a line, and the coefficient does not
        return np.asarray(np.interp(doses, [0, *known], [response.value, *means]), np.float64)
    if response.check == "total":
        return np.asarray(np.polyval(np.polyfit(known, means, 1), doses), np.float64)
    return from_fisher(np.asarray(np.polyval(np.polyfit(known, fisher(means), 1), doses), np.float64))


def _block(view: ReportView) -> FigureBlock | None:
    drawn = [
        CaptionedFigure(
            response_figure(f"doses-{number}", name, worst),
            f"{name}: {named_with_check(worst)}, {worst.outcome}.",
        )
        for number, (name, worst) in enumerate(_worst(view.content.doses.values()))
    ]
    return FigureBlock(drawn)


def _worst(every: Iterable[DoseResponses]) -> list[tuple[str, Response]]:
    """Return the most serious response of each configuration, of the first few: a correlation, if there is one."""
    worst = []
    for found in list(every)[:_MOST]:
        pairs = [each for each in found.ranked if each.check != "total"]
        worst.append((found.configuration, (pairs or found.ranked)[0]))
    return worst


DOSES = ReportFigure("doses", "doses", _block)
