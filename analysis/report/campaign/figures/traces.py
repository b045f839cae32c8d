"""Figures of each configuration's traces: a metric that the reader chooses, software metrics below, runs overlaid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.pages.chart import SERIES, Figure, bucket_means, bucket_width, plot_text
from unperturbed.analysis.pages.document import choice
from unperturbed.analysis.report.campaign.content import described_metrics
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView
from unperturbed.analysis.report.campaign.figures.before_after import worst_pair
from unperturbed.analysis.report.traces import (
    longest_seconds,
    metric_title,
    mid_times,
    panels_over_time,
    run_line,
    warm_up_band,
)
from unperturbed.common.markup import tag
from unperturbed.common.wording import counted, listing

if TYPE_CHECKING:
    from unperturbed.analysis.report.campaign.content import ReportContent
    from unperturbed.collectors.data import Metric, Trace


RUNS_SHOWN = 3
"""Maximum number of overlaid runs in a configuration's figure, so that they do not hide each other."""

SOFTWARE_SHOWN = 6
_POINT_BUDGET = 40_000
"""Maximum number of points in all these figures together: about 280 kB of the page."""

_HARDWARE_PX, _SOFTWARE_PX, _GAP_PX = 170, 76, 40


def selectable_metrics(content: ReportContent) -> list[str]:
    """Return the metrics that a reader can choose: all except software metrics."""
    return [name for name, metric in described_metrics(content).items() if metric.kind != "software"]


def neighbours(content: ReportContent) -> int:
    """Return the number of neighbouring intervals that are averaged into one point."""
    longest = max((len(trace) for traces in content.traces.values() for trace in traces), default=1)
    return bucket_width(max(longest, 1), _points(content))


def _points(content: ReportContent) -> int:
    series = sum(
        len(trace.metrics) + 1 for traces in content.traces.values() for trace in traces[:RUNS_SHOWN]
    )  # one more series for the time
    return min(600, max(60, _POINT_BUDGET // max(series, 1)))


def trace_figures(content: ReportContent, first_choice: str) -> dict[str, Figure]:
    """Draw the overlaid runs of each configuration: the chosen metric, on a common scale, and software metrics."""
    metrics = selectable_metrics(content)
    described = described_metrics(content)
    points = _points(content)
    ranges = {name: _range(content, name, points) for name in metrics}
    longest = longest_seconds(trace for traces in content.traces.values() for trace in traces)
    chosen = first_choice if first_choice in metrics else next(iter(metrics), "")
    figures = {}
    for place, (configuration, traces) in enumerate(content.traces.items()):
        if not traces:
            continue
        software = [name for name, metric in traces[0].metrics.items() if metric.kind == "software"][:SOFTWARE_SHOWN]
        figures[configuration] = Figure(
            f"traces-{place}",
            list(_run_lines(configuration, traces, metrics, software, points)),
            _panels(software, longest, traces, content.warm_up.get(configuration, 0)),
            f"Signals of configuration {configuration} over time: the chosen metric, then its software metrics.",
            group="trace-metric",
            chosen=chosen,
            choices={
                name: {"annotations[0].text": f"<b>{_per_interval(described[name])}</b>", "yaxis.range": ranges[name]}
                for name in metrics
            },
            shared=[mid_times(trace, points) for trace in traces[:RUNS_SHOWN]],
        )
    return figures


def _per_interval(metric: Metric) -> str:
    unit = plot_text(metric.unit, 24)
    return (
        f"{metric_title(metric)}, {unit} per interval"
        if metric.semantics == "counter"
        else f"{metric_title(metric)}, {unit}"
    )


def _range(content: ReportContent, name: str, points: int) -> list[float]:
    drawn = [
        bucket_means(trace[name], points)
        for traces in content.traces.values()
        for trace in traces[:RUNS_SHOWN]
        if name in trace.metrics and len(trace)
    ]
    values = np.concatenate(drawn) if drawn else np.zeros(1)
    values = values[np.isfinite(values)]
    if not values.size:
        return [0.0, 1.0]
    low, high = min(0.0, float(values.min())), float(values.max())
    room = 0.06 * ((high - low) or 1.0)
    return [low - (room if low < 0 else 0), high + room]


def _run_lines(
    configuration: str, traces: Sequence[Trace], metrics: Sequence[str], software: Sequence[str], points: int
) -> list[dict[str, Any]]:
    lines = []
    for run, trace in enumerate(traces[:RUNS_SHOWN]):
        line = partial(run_line, trace, configuration, run, points=points, opacity=1 if run == 0 else 0.75)
        smooth = {"color": SERIES[run], "width": 1.6 if run == 0 else 1.2}
        stepped = {"color": SERIES[run], "width": 1.2, "shape": "hvh"}
        lines += [line(name, line=smooth, meta=name) for name in metrics if name in trace.metrics]
        lines += [
            line(name, line=stepped, yaxis=f"y{row}", showlegend=False)
            for row, name in enumerate(software, start=2)
            if name in trace.metrics
        ]
    return lines


def _panels(software: Sequence[str], longest: float, traces: Sequence[Trace], warm_up: int) -> dict[str, Any]:
    heads = ["", *(f"software metric <b>{plot_text(name)}</b>, events per interval" for name in software)]
    heights, ticks = [_HARDWARE_PX, *[_SOFTWARE_PX] * len(software)], [5, *[3] * len(software)]
    figure = panels_over_time(heads, heights, _GAP_PX, traces, longest, ticks)
    for row in range(2, len(heads) + 1):
        figure[f"yaxis{row}"]["rangemode"] = "tozero"
    figure["shapes"] = warm_up_band(traces[:RUNS_SHOWN], warm_up)
    return figure


def _block(view: ReportView) -> FigureBlock | None:
    content = view.content
    worst = worst_pair(content, view.results)
    metrics = selectable_metrics(content)
    figures = trace_figures(content, worst.change.first if worst else next(iter(metrics), ""))
    if not figures:
        return None
    mean = neighbours(content)
    merged = f" Each point is the mean of {mean} neighbouring intervals, to keep the page small." if mean > 1 else ""
    explained = (
        "The same metric in every configuration, on the same scale, with its runs overlaid; software metrics below. "
        f"Runs of one configuration should look alike.{merged}{_shading(content)}"
    )
    plain = {name: plain_name(name) for name in metrics}
    options = [(name, name if said == name else f"{said} ({name})") for name, said in plain.items()]
    chosen = next(iter(figures.values())).chosen
    return FigureBlock(
        [
            CaptionedFigure(figure, title=[configuration, tag("small", f" {_extent(content.traces[configuration])}")])
            for configuration, figure in figures.items()
        ],
        "Signals of each configuration",
        [tag("p", explained), choice("trace-metric", "Metric", options, chosen)],
    )


def _shading(content: ReportContent) -> str:
    if not content.warm_up:
        return ""
    treated = "correlations leave it out" if content.warm_up_left_out else "correlations include it"
    whose = f" of {listing(content.warm_up)}" if len(content.warm_up) < len(content.traces) else ""
    return f" Shaded is the start{whose}, which differs from the rest; {treated}."


def _extent(traces: Sequence[Trace]) -> str:
    """Return the numbers of a configuration's runs and software metrics that are drawn, as text."""
    runs, software = len(traces), len(traces[0].names("software"))
    parts = [f"{RUNS_SHOWN} of {counted(runs, 'run')} shown" if runs > RUNS_SHOWN else counted(runs, "run")]
    if software > SOFTWARE_SHOWN:
        parts.append(f"the first {SOFTWARE_SHOWN} of {software} software metrics")
    return ", ".join(parts)


TRACES = ReportFigure("traces", "signals", _block, place=20)
