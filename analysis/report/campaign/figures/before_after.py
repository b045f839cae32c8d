"""Figure of the most serious change: a pair's signals in a reference run and a checked run (the paper's figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.pages.chart import (
    Figure,
    axis,
    bucket_means,
    label,
    layout,
    plot_text,
    scatter,
    short,
    stacked,
)
from unperturbed.analysis.perturbation import change_sentence
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.campaign.content import listed_changes
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView
from unperturbed.analysis.report.traces import TICKS, metric_title, mid_times, trace_name, warm_up_band
from unperturbed.common.markup import tag
from unperturbed.common.wording import correlation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.perturbation import Change
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportContent
    from unperturbed.collectors.data import Metric, Trace

_BEFORE_AFTER_POINTS = 400

_Run = tuple[str, "Trace", float]
"""Name of a run, its trace, and ρ of the pair in this run."""


@dataclass(frozen=True)
class WorstPair:
    """A change to show, with a run of each side and the software metric that the checked run adds ('' for none)."""

    result: ConfigurationResult
    change: Change
    good: _Run
    spoilt: _Run
    software: str


def worst_pair(content: ReportContent, results: Sequence[ConfigurationResult]) -> WorstPair | None:
    """Return the most serious inner change among those with traces of both sides.

    The chosen runs are those with ρ closest to the mean of their configuration. If several software metrics were added,
    the one with the most events is chosen.
    """
    runs = {
        trace_name(trace, configuration, place): trace
        for configuration, traces in content.traces.items()
        for place, trace in enumerate(traces)
    }
    for result, change in listed_changes(results):
        if change.check != "inner":
            continue
        good = _typical(runs, change.reference_runs, change.reference, change)
        spoilt = _typical(runs, change.observed_runs, change.observed, change)
        if good is not None and spoilt is not None:
            new = [name for name in spoilt[1].names("software") if name not in good[1].metrics]
            software = max(new, key=lambda name: float(np.sum(spoilt[1][name])), default="")
            return WorstPair(result, change, good, spoilt, software)
    return None


def _typical(runs: Mapping[str, Trace], names: Sequence[str], rhos: Sequence[float], change: Change) -> _Run | None:
    """Return the run (name, trace, ρ) with ρ closest to the mean, among the runs with a trace."""
    centre = mean_rho(rhos)
    at_hand = [
        (abs(value - centre), name, value)
        for name, value in zip(names, rhos, strict=False)
        if name in runs
        and len(runs[name])
        and change.first in runs[name].metrics
        and change.second in runs[name].metrics
    ]
    if not at_hand:
        return None
    _, name, value = min(at_hand)
    return name, runs[name], value


_COLUMNS = ((0.0, 0.47), (0.53, 1.0))


def before_after(pair: WorstPair, described: Mapping[str, Metric], warm_up: Mapping[str, int] | None = None) -> Figure:
    """Draw both signals: the reference run on the left, the checked run on the right, the new software metric below.

    `warm_up`: Number of intervals to shade at the start of runs, by configuration.

    Figure 5 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data".
    """
    change, good, spoilt = pair.change, pair.good, pair.spoilt
    rows = [change.first, change.second, *([pair.software] if pair.software else [])]
    heights = [120, 120, 90][: len(rows)]
    domains = stacked(heights, 40)
    longest = max(float(trace.end_ns[-1]) / 1e9 for _, trace, _ in (good, spoilt))
    figure = layout(
        sum(heights) + 40 * (len(rows) - 1) + 140, margin={"l": 72, "r": 16, "t": 80, "b": 50}, showlegend=False
    )
    sides = [
        (f"Reference ({plot_text(pair.result.references[0], 24)})", good),
        (f"Checked ({plot_text(pair.result.configuration, 24)})", spoilt),
    ]
    notes = [
        label(
            f"<b>{head}</b><br>{plot_text(name, 36)}, ρ = {correlation(value)}",
            column[0],
            1,
            yshift=24,
            font={"size": 14, "color": "@ink"},
        )
        for column, (head, (name, _, value)) in zip(_COLUMNS, sides, strict=True)
    ]
    data, muted = [], {"size": 12, "color": "@muted"}
    starts = [(warm_up or {}).get(name, 0) for name in (pair.result.references[0], pair.result.configuration)]
    bands: list[dict[str, Any]] = []
    for row, (name, domain) in enumerate(zip(rows, domains, strict=True)):
        top = max(_top(trace[name]) for _, trace, _ in (good, spoilt) if name in trace.metrics)
        notes.append(label(metric_title(described[name]), 0, domain[1], font=muted))
        last = row == len(rows) - 1
        for side, (run, trace, _) in enumerate((good, spoilt)):
            suffix = "" if row == side == 0 else str(2 * row + side + 1)
            title = "seconds" if last else ""
            figure[f"xaxis{suffix}"] = axis(
                title, domain=_COLUMNS[side], anchor=f"y{suffix}", range=[0, longest], showticklabels=last
            )
            figure[f"yaxis{suffix}"] = axis(
                domain=domain, anchor=f"x{suffix}", range=[0, 1.06 * top], nticks=4, showticklabels=side == 0, **TICKS
            )
            if name not in trace.metrics:
                middle = sum(_COLUMNS[side]) / 2, sum(domain) / 2
                notes.append(
                    label("not collected in this run", *middle, xanchor="center", yanchor="middle", font=muted)
                )
            bands += warm_up_band([trace], starts[side], suffix, f"y{suffix} domain")
            colour = "@series-1" if side == 0 else f"@{change.verdict}"
            data.append(_before_after_line(run, trace, name, suffix, colour))
    figure["annotations"], figure["shapes"] = notes, bands
    said = (
        f"Signals of {plain_name(change.first)} and {plain_name(change.second)} over time, in a reference run and in "
        "a checked run."
    )
    return Figure("before-after", data, figure, said)


def _top(values: NDArray[Any]) -> float:
    """Return the largest drawn value; 1 if no value is above 0."""
    drawn = bucket_means(values, _BEFORE_AFTER_POINTS)
    return float(max(drawn[np.isfinite(drawn)], default=0.0)) or 1.0


def _before_after_line(run: str, trace: Trace, name: str, suffix: str, colour: str) -> dict[str, Any]:
    """Return the line of a signal, empty if the run lacks the metric: Plotly does not draw an axis without a line."""
    held = name in trace.metrics
    return scatter(
        "lines",
        mid_times(trace, _BEFORE_AFTER_POINTS) if held else [],
        short(bucket_means(trace[name], _BEFORE_AFTER_POINTS)) if held else [],
        name=plot_text(run),
        xaxis=f"x{suffix}",
        yaxis=f"y{suffix}",
        line={"color": colour, "width": 1.4},
        hovertemplate="%{y:.4s} at %{x:.2f} s<extra></extra>",
    )


def _block(view: ReportView) -> FigureBlock | None:
    shown = worst_pair(view.content, view.results)
    if shown is None:
        return None
    change = shown.change
    pair = f"{plain_name(change.first)} and {plain_name(change.second)}"
    if change.verdict == "perturbed":
        heading = f"The worst pair, before and after: {pair}"
    else:
        heading = f"The pair with the largest possible change: {pair} ({change.verdict})"
    software = (
        f"Bottom right: the software metric {shown.software} that was added (of several, the one with the "
        "most events). "
        if shown.software
        else ""
    )
    caption = (
        f"Left: a run of the reference. Right: a run of {shown.result.configuration}. Each is the run whose ρ is "
        f"closest to the mean. {software}The panels show the value of each interval, on the same scale left and "
        "right. A perturbation is visible where the two upper signals move together differently on the right than on "
        "the left. After figure 5 of the paper."
    )
    text = tag("p", f"{change_sentence(change, shown.result.bound_alpha)}.")
    return FigureBlock(
        [CaptionedFigure(before_after(shown, view.described, view.content.warm_up), caption)], heading, text
    )


BEFORE_AFTER = ReportFigure("before-after", "signals", _block, place=10)
