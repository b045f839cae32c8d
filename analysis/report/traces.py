"""The page of traces: chosen metrics over time, one above the other, runs laid over one another."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from unperturbed.analysis.pages.chart import SERIES, Figure, bucket_width, plot_text
from unperturbed.analysis.pages.document import document, frame
from unperturbed.analysis.report.campaign.figures.before_after import (
    longest_seconds,
    metric_title,
    mid_times,
    panels_over_time,
    run_line,
)
from unperturbed.common.markup import tag
from unperturbed.common.wording import counted, listing
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.collectors.data import Trace

_POINTS = 600
_METRICS = 12
_PANEL_PX, _GAP_PX = 130, 34


def render_traces(traces: Sequence[Trace], metrics: Sequence[str], title: str) -> str:
    """Return a page with metrics over time.

    Parameters
    ----------
    traces : sequence of Trace
        The first six are drawn: more hide each other.
    metrics : sequence of str
        A panel each, twelve at most; a run that has not collected one is left out there.
    title : str
        What the runs are.

    Returns
    -------
    str
        A document without references to other files.

    Raises
    ------
    DataError
        No run has one of the metrics, or there are too many.
    """
    drawn = traces[: len(SERIES)]
    if not 0 < len(metrics) <= _METRICS:
        raise DataError(f"{counted(len(metrics), 'metric')} to plot: name 1 to {_METRICS}")
    for name in metrics:
        if not any(name in trace for trace in drawn):
            known = dict.fromkeys(one for trace in drawn for one in trace)
            raise DataError(f"no run to plot has a metric {name!r}; they have {listing(known)}")
    width = bucket_width(max(map(len, drawn)), _POINTS)
    merged = f" Each point is the mean of {width} neighbouring intervals." if width > 1 else ""
    left_out = (
        f" The first {len(drawn)} of {counted(len(traces), 'run')} are drawn." if len(drawn) < len(traces) else ""
    )
    body = tag(
        "main",
        tag("h1", title),
        frame(_figure(drawn, metrics), f"What each interval holds, run by run.{merged}{left_out}"),
    )
    return document(title, body, version=metadata.version("unperturbed"))


def _figure(traces: Sequence[Trace], metrics: Sequence[str]) -> Figure:
    described = [next(trace.metrics[name] for trace in traces if name in trace) for name in metrics]
    heads = [f"{metric_title(metric)}, {plot_text(metric.unit, 24)}" for metric in described]
    heights, ticks = [_PANEL_PX] * len(metrics), [4] * len(metrics)
    figure = panels_over_time(heads, heights, _GAP_PX, traces, longest_seconds(traces), ticks)
    lines = [
        run_line(
            trace,
            "run",
            number,
            name,
            _POINTS,
            showlegend=row == 1,  # the legend names the run once
            yaxis="y" if row == 1 else f"y{row}",
            line={"color": SERIES[number], "width": 1.4},
        )
        for row, name in enumerate(metrics, start=1)
        for number, trace in enumerate(traces)
        if name in trace
    ]
    said = f"{listing(metrics)} over time, in {counted(len(traces), 'run')}."
    times = [mid_times(trace, _POINTS) for trace in traces]
    return Figure("traces", lines, figure, said, shared=times)
