"""Traces over time: their page, and the lines and panels that the report uses too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.metric_names import is_simulated, plain_name
from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    SERIES,
    Figure,
    axis,
    bucket_means,
    bucket_width,
    label,
    layout,
    plot_text,
    scatter,
    shaded,
    short,
    stacked,
)
from unperturbed.analysis.pages.document import document, frame
from unperturbed.common.markup import tag
from unperturbed.common.wording import counted, listing
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric, Trace

TICKS: dict[str, Any] = {"tickformat": ",", "exponentformat": "SI"}
"""Settings of an axis that shows counts."""

_POINTS = 600
_METRICS = 12
_PANEL_PX, _GAP_PX = 130, 34


def render_traces(traces: Sequence[Trace], metrics: Sequence[str], title: str) -> str:
    """Return a page with metrics over time.

    Parameters
    ----------
    traces : sequence of Trace
        Only the first six are drawn, because more lines would hide each other.
    metrics : sequence of str
        At most twelve, each in its own panel; a panel omits runs that did not collect its metric.
    title : str
        Title of the page.

    Returns
    -------
    str
        A document without references to other files.

    Raises
    ------
    DataError
        No run has one of the metrics, or there are none or too many metrics.
    """
    drawn = traces[: len(SERIES)]
    if not 0 < len(metrics) <= _METRICS:
        raise DataError(f"cannot plot {counted(len(metrics), 'metric')}: name 1 to {_METRICS} metrics")
    for name in metrics:
        if not any(name in trace for trace in drawn):
            known = dict.fromkeys(metric for trace in drawn for metric in trace)
            raise DataError(f"no plotted run has metric {name!r}: use {listing(known, 'or')}")
    width = bucket_width(max(map(len, drawn)), _POINTS)
    merged = f" Each point is the mean of {width} neighbouring intervals." if width > 1 else ""
    left_out = (
        f" The first {len(drawn)} of {counted(len(traces), 'run')} are drawn." if len(drawn) < len(traces) else ""
    )
    body = tag(
        "main",
        tag("h1", title),
        frame(_figure(drawn, metrics), f"Values of each interval, one line per run.{merged}{left_out}"),
    )
    return document(title, body)


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
            showlegend=row == 1,  # list each run once
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


def run_line(trace: Trace, configuration: str, run: int, name: str, points: int, **settings: Any) -> dict[str, Any]:
    """Return the line of one metric in one run; all metrics of a run share its times."""
    return scatter(
        "lines",
        {"shared": run},
        short(bucket_means(trace[name], points)),
        name=plot_text(f"run {trace_name(trace, configuration, run)}"),
        legendgroup=str(run),
        hovertemplate="%{y:.4s} at %{x:.2f} s",
        **settings,
    )


def panels_over_time(
    heads: Sequence[str],
    heights: Sequence[int],
    gap: int,
    traces: Sequence[Trace],
    longest: float,
    ticks: Sequence[int],
) -> dict[str, Any]:
    """Return the layout of stacked panels with a common time axis; `heights` and `gap` in pixels."""
    domains = stacked(heights, gap)
    figure = layout(
        int(sum(heights) + gap * (len(heights) - 1) + 110),
        margin={"l": 72, "r": 16, "t": 60, "b": 50},
        hovermode="x",
        legend=LEGEND_ON_TOP,
        annotations=[label(head, 0, high) for head, (_, high) in zip(heads, domains, strict=True)],
    )
    clock = str(traces[0].attributes.get("clock", ""))
    time = f"seconds since the first record{f' ({plot_text(clock)} clock)' if clock else ''}"
    figure["xaxis"] = axis(time, range=[0, longest], anchor=f"y{len(domains) if len(domains) > 1 else ''}")
    for row, (domain, count) in enumerate(zip(domains, ticks, strict=True), start=1):
        figure[f"yaxis{row if row > 1 else ''}"] = axis(domain=domain, nticks=count, **TICKS)
    return figure


def warm_up_band(traces: Sequence[Trace], intervals: int, suffix: str = "", height: str = "") -> list[dict[str, Any]]:
    """Return the shaded band of the first intervals of runs, over a panel or, by default, over the whole figure."""
    ends = [float(trace.end_ns[intervals - 1]) / 1e9 for trace in traces if len(trace) >= intervals > 0]
    if not ends:
        return []
    longest = max(ends)
    return [shaded((0, longest), (0, 1), xref=f"x{suffix}", yref=height or "paper", fillcolor="@band")]


def longest_seconds(traces: Iterable[Trace]) -> float:
    """Return the duration of the longest run in seconds; 1 if no run has an interval."""
    return max((float(trace.end_ns[-1]) / 1e9 for trace in traces if len(trace)), default=1.0)


def trace_name(trace: Trace, configuration: str, place: int) -> str:
    """Return the name of a trace's run."""
    return str(trace.attributes.get("run", f"{configuration} {place + 1}"))


def mid_times(trace: Trace, points: int) -> list[float | None]:
    """Return the midpoint of each interval in seconds, reduced to at most `points` values."""
    middle = (trace.begin_ns + trace.end_ns) / 2e9
    return short(bucket_means(middle, points), 5)


def metric_title(metric: Metric) -> str:
    """Return a metric's plain name, safe for Plotly and marked if the metric is simulated."""
    return f"{plot_text(plain_name(metric.name), 40)}{' (simulated)' if is_simulated(metric) else ''}"
