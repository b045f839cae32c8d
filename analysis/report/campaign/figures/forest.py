"""Forest plot of correlations: all changes with confidence intervals, and a band that marks the tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.metric_names import pair_name
from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    Figure,
    axis,
    interval_of,
    interval_points,
    label,
    layout,
    plot_text,
    stacked,
    tolerance_band,
)
from unperturbed.analysis.pages.document import choice
from unperturbed.analysis.perturbation import VERDICT_SIGNS, ranked_changes
from unperturbed.analysis.report.campaign.content import ChangeKey, change_key
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView
from unperturbed.common.markup import tag
from unperturbed.common.wording import number

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change, CheckName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult


FOREST_ROWS = 100
"""Maximum number of changes of each check in a figure; less serious changes are only in the table."""

ALIGNED_ON = "† The runs were aligned by this metric, which inflates its correlation across runs."

_CHECKS: tuple[tuple[CheckName, str, str], ...] = (
    ("inner", "", "Within a run: pairs of metrics (inner)"),
    ("outer", "2", "Across aligned runs: each metric with itself (outer)"),
)
_ROW_PX = 19


def forest(
    results: Sequence[ConfigurationResult], index: Mapping[ChangeKey, int], name: str = "forest"
) -> Figure | None:
    """Draw the changes of one configuration at a time, the most serious on top; `index` has their numbers."""
    shown = [result for result in results if result.changes]
    if not shown:
        return None
    rows = [max(min(len(result.of(check)), FOREST_ROWS) for result in shown) for check, _, _ in _CHECKS]
    present = [(spec, count) for spec, count in zip(_CHECKS, rows, strict=True) if count]
    heights = [count * _ROW_PX + 12 for _, count in present]
    domains = stacked(heights, 62)
    figure = layout(
        int(sum(heights) + 62 * (len(heights) - 1) + 138),
        margin={"l": 40, "r": 20, "t": 84, "b": 60},
        shapes=[tolerance_band(shown[0].tolerance, spec[1]) for spec, _ in present],
        annotations=[
            label(f"<b>{spec[2]}</b>", 0, high) for (spec, _), (_, high) in zip(present, domains, strict=True)
        ],
        legend=LEGEND_ON_TOP,
    )
    ends = [end for result in shown for change in result.changes for end in interval_of(change)]
    span = max(1.08 * max(map(abs, ends)), 2 * shown[0].tolerance)
    title = f"change of ρ; shaded: tolerance ±{number(shown[0].tolerance)}"
    for (spec, _), domain in zip(present, domains, strict=True):
        suffix = spec[1]
        last = spec is present[-1][0]
        figure[f"xaxis{suffix}"] = axis(
            title if last else "", range=[-span, span], anchor=f"y{suffix}", zeroline=True, zerolinecolor="@axis"
        )
        figure[f"yaxis{suffix}"] = axis(
            domain=domain, anchor=f"x{suffix}", showgrid=False, tickfont={"size": 12}, automargin="width"
        )
    data: list[dict[str, Any]] = []
    choices: dict[str, dict[str, Any]] = {}
    for result in shown:
        patch: dict[str, Any] = {}
        for (check, suffix, _), count in present:
            ranked = ranked_changes(result.of(check))[:FOREST_ROWS]
            data += _points(result, ranked, suffix, index)
            patch[f"yaxis{suffix}.tickvals"] = list(range(len(ranked)))
            patch[f"yaxis{suffix}.ticktext"] = [_row_name(change) for change in ranked]
            patch[f"yaxis{suffix}.range"] = [count - 0.4, -0.6]
        choices[result.configuration] = patch
    chosen = max(shown, key=lambda result: tuple(len(result.having(verdict)) for verdict in VERDICT_SIGNS))
    return Figure(
        name,
        data,
        figure,
        "Forest plot: one row for each change of a correlation, with its confidence interval; the shaded band is the "
        "tolerance. The table of all changes has the same numbers.",
        group=f"{name}-configuration",
        chosen=chosen.configuration,
        choices=choices,
    )


def _row_name(change: Change) -> str:
    return f"{plot_text(pair_name(change.first, change.second), 56)}{' †' if change.aligned_on else ''}"


def _points(
    result: ConfigurationResult, ranked: Sequence[Change], suffix: str, index: Mapping[ChangeKey, int]
) -> list[dict[str, Any]]:
    """Return one Plotly trace for each verdict among the changes."""
    drawn = interval_points(list(enumerate(ranked)), lambda _, change: _row_name(change), more="; click for details")
    return [
        {
            **points,
            "legendgroup": rows[0][1].verdict,
            "showlegend": not suffix or not result.of("inner"),
            "meta": result.configuration,
            "xaxis": f"x{suffix}",
            "yaxis": f"y{suffix}",
            "customdata": [index.get(change_key(result, change), -1) for _, change in rows],
        }
        for points, rows in drawn
    ]


def _block(view: ReportView) -> FigureBlock | None:
    figure = forest(view.results, view.change_numbers)
    if figure is None:
        return None
    longest = max(len(result.of(check)) for result in view.results for check in ("inner", "outer"))
    left_out = (
        (f"The figure shows the {FOREST_ROWS} most serious of {longest} changes. ") if longest > FOREST_ROWS else ""
    )
    aligned = any(change.aligned_on for result in view.results for change in result.changes)
    flattered = ALIGNED_ON if aligned else ""
    explained = tag(
        "p",
        "A change is ",
        tag("b", "unperturbed"),
        " when its whole confidence interval (the bar) lies inside the shaded band, ",
        tag("b", "perturbed"),
        " when the change is shown to lie beyond the band, ",
        tag("b", "shifted"),
        " when a change is shown and the bar crosses an edge of the band, and otherwise ",
        tag("b", "undecided"),
        ": the bar is too wide to decide, and more runs would shorten it.",
    )
    control = choice("forest-configuration", "Configuration", [(name, name) for name in figure.choices], figure.chosen)
    return FigureBlock(
        [CaptionedFigure(figure, f"{left_out}{flattered}".strip() or None)],
        "How certain are the changes? All changes with confidence intervals",
        [explained, control],
    )


FOREST = ReportFigure("forest", "changes", _block)
