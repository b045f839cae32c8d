"""The page of traces: chosen metrics over time, one above the other, runs laid over one another."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.pages.chart import (
    SERIES,
    Figure,
    axis,
    bucket_means,
    bucket_width,
    label,
    layout,
    plot_text,
    short,
    stacked,
)
from unperturbed.analysis.pages.document import document, frame
from unperturbed.analysis.report.campaign.figures.before_after import TICKS, metric_title, mid_times, trace_name
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
    domains = stacked([_PANEL_PX] * len(metrics), _GAP_PX)
    height = _PANEL_PX * len(metrics) + _GAP_PX * (len(metrics) - 1) + 110
    legend = {"orientation": "h", "x": 0, "y": 1, "yanchor": "top", "yref": "container"}
    figure = layout(height, margin={"l": 72, "r": 16, "t": 60, "b": 50}, hovermode="x", legend=legend)
    clock = str(traces[0].attributes.get("clock", ""))
    longest = max((trace.end_ns[-1] / 1e9 for trace in traces if len(trace)), default=1.0)
    bottom = "" if len(metrics) == 1 else str(len(metrics))
    figure["xaxis"] = axis(
        f"seconds since the first record{f' ({plot_text(clock)} clock)' if clock else ''}",
        range=[0, longest],
        anchor=f"y{bottom}",
    )
    lines: list[dict[str, Any]] = []
    heads = []
    for row, (name, domain) in enumerate(zip(metrics, domains, strict=True), start=1):
        described = next(trace.metrics[name] for trace in traces if name in trace)
        heads.append(label(f"{metric_title(described)}, {plot_text(described.unit, 24)}", 0, domain[1]))
        figure[f"yaxis{'' if row == 1 else row}"] = axis(domain=domain, nticks=4, **TICKS)
        lines += [_line(trace, name, number, row) for number, trace in enumerate(traces) if name in trace]
    figure["annotations"] = heads
    said = f"{listing(metrics)} over time, in {counted(len(traces), 'run')}."
    times = [mid_times(trace, _POINTS) for trace in traces]
    return Figure("traces", lines, figure, said, shared=times)


def _line(trace: Trace, name: str, number: int, row: int) -> dict[str, Any]:
    """Return one run of one metric; the legend names the run once."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plot_text(f"run {trace_name(trace, 'run', number)}"),
        "legendgroup": str(number),
        "showlegend": row == 1,
        "x": {"shared": number},
        "y": short(bucket_means(trace[name], _POINTS)),
        "yaxis": "y" if row == 1 else f"y{row}",
        "line": {"color": SERIES[number], "width": 1.4},
        "hovertemplate": "%{y:.4s} at %{x:.2f} s",
    }
