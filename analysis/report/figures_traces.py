"""Figures of signals over time: each configuration's traces, and the worst pair before and after (figure 5 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.report.chart import (
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
from unperturbed.analysis.report.names import described_metrics, is_simulated, plain_name
from unperturbed.analysis.report.results import mean_rho, ranked_changes
from unperturbed.analysis.report.words import rho

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.perturbation.verdict import Change
    from unperturbed.analysis.report.content import ReportContent
    from unperturbed.analysis.report.results import Result
    from unperturbed.collectors.trace import Metric, Trace

__all__ = ["BeforeAfter", "before_after", "neighbours", "selectable_metrics", "trace_figures", "trace_name"]

RUNS_SHOWN = 3
"""Runs of a configuration that are drawn over one another: more hide each other."""

SOFTWARE_SHOWN = 6
_POINT_BUDGET = 40_000
"""Points in all figures of this kind together: some 280 kB of the page."""

_BEFORE_AFTER_POINTS = 400
_TICKS = {"tickformat": ",", "exponentformat": "SI"}
_HARDWARE_PX, _SOFTWARE_PX, _GAP_PX = 170, 76, 40


def trace_name(trace: Trace, configuration: str, place: int) -> str:
    """Return the run that a trace is of."""
    return str(trace.attributes.get("run", f"{configuration} {place + 1}"))


def selectable_metrics(content: ReportContent) -> list[str]:
    """Return the metrics that a reader can choose to look at over time: all but the software metrics."""
    return [name for name, metric in described_metrics(content).items() if metric.kind != "software"]


def neighbours(content: ReportContent) -> int:
    """Return how many neighbouring intervals make one point of the figures over time."""
    longest = max((len(trace) for traces in content.traces.values() for trace in traces), default=1)
    return bucket_width(max(longest, 1), _points(content))


def _points(content: ReportContent) -> int:
    series = sum(
        len(trace.metrics) + 1 for traces in content.traces.values() for trace in traces[:RUNS_SHOWN]
    )  # one more for the time
    return min(600, max(60, _POINT_BUDGET // max(series, 1)))


def _seconds(trace: Trace, points: int) -> list[float | None]:
    middle = (trace.begin_ns + trace.end_ns) / 2e9
    return short(bucket_means(middle, points), 5)


def trace_figures(content: ReportContent, first_choice: str) -> dict[str, Figure]:
    """Draw each configuration's traces: the chosen metric on top, its software metrics beneath, runs overlaid.

    Parameters
    ----------
    content : what to show.
    first_choice : the metric shown first.

    Returns
    -------
    dict
        Configuration to figure. All have the same scale for a metric, so that configurations can be compared by eye.
    """
    metrics = selectable_metrics(content)
    described = described_metrics(content)
    points = _points(content)
    ranges = {name: _range(content, name, points) for name in metrics}
    longest = max((trace.end_ns[-1] / 1e9 for traces in content.traces.values() for trace in traces if len(trace)), default=1.0)
    chosen = first_choice if first_choice in metrics else next(iter(metrics), "")
    figures = {}
    for place, (configuration, traces) in enumerate(content.traces.items()):
        if not traces:
            continue
        software = [name for name, metric in traces[0].metrics.items() if metric.kind == "software"][:SOFTWARE_SHOWN]
        figures[configuration] = Figure(
            f"traces-{place}",
            list(_run_lines(configuration, traces, metrics, software, points)),
            _panels(software, longest, str(traces[0].attributes.get("clock", ""))),
            f"Signals of configuration {configuration} over time: the chosen metric, then its software metrics.",
            group="trace-metric",
            chosen=chosen,
            choices={
                name: {"annotations[0].text": f"<b>{_per_interval(described[name])}</b>", "yaxis.range": ranges[name]}
                for name in metrics
            },
            shared=[_seconds(trace, points) for trace in traces[:RUNS_SHOWN]],
        )
    return figures


def _named(metric: Metric) -> str:
    return f"{plot_text(plain_name(metric.name), 40)}{' (simulated)' if is_simulated(metric) else ''}"


def _per_interval(metric: Metric) -> str:
    unit = plot_text(metric.unit, 24)
    return f"{_named(metric)}, {unit} an interval" if metric.semantics == "counter" else f"{_named(metric)}, {unit}"


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
        stepped = {"line": {"color": SERIES[run], "width": 1.2, "shape": "hvh"}}
        common = {
            "type": "scatter",
            "mode": "lines",
            "name": plot_text(f"run {trace_name(trace, configuration, run)}"),
            "legendgroup": str(run),
            "x": {"shared": run},
            "line": {"color": SERIES[run], "width": 1.6 if run == 0 else 1.2},
            "opacity": 1 if run == 0 else 0.75,
            "hovertemplate": "%{y:.4s} at %{x:.2f} s",
        }
        lines += [
            {**common, "y": short(bucket_means(trace[name], points)), "meta": name} for name in metrics if name in trace.metrics
        ]
        lines += [
            {**common, "y": short(bucket_means(trace[name], points)), "yaxis": f"y{row}", "showlegend": False, **stepped}
            for row, name in enumerate(software, start=2)
            if name in trace.metrics
        ]
    return lines


def _panels(software: Sequence[str], longest: float, clock: str) -> dict[str, Any]:
    heights = [_HARDWARE_PX, *[_SOFTWARE_PX] * len(software)]
    domains = stacked(heights, _GAP_PX)
    figure = layout(
        int(sum(heights) + _GAP_PX * len(software) + 110),
        margin={"l": 72, "r": 16, "t": 60, "b": 50},
        hovermode="x",
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "top", "yref": "container"},
    )
    names = ["", *(f"software metric <b>{plot_text(name)}</b>, events an interval" for name in software)]
    figure["annotations"] = [label(text, 0, high) for text, (_, high) in zip(names, domains, strict=True)]
    time = f"seconds since the first record{f' ({plot_text(clock)} clock)' if clock else ''}"
    bottom = "" if len(domains) == 1 else str(len(domains))
    figure["xaxis"] = axis(time, range=[0, longest], anchor=f"y{bottom}")
    for row, domain in enumerate(domains, start=1):
        own = {"rangemode": "tozero"} if row > 1 else {}
        figure[f"yaxis{'' if row == 1 else row}"] = axis(domain=domain, nticks=5 if row == 1 else 3, **_TICKS, **own)
    return figure


_Run = tuple[str, "Trace", float]
"""A run's name, its trace, its ρ of the pair."""


@dataclass(frozen=True)
class BeforeAfter:
    """The figure of one change's signals before and after, and what it shows; `software` is empty where none came in."""

    result: Result
    change: Change
    software: str
    figure: Figure


def before_after(content: ReportContent, found: Sequence[Result]) -> BeforeAfter | None:
    """Draw the two signals of the worst pair, reference left and checked run right, and the software metric that came in.

    Notes
    -----
    Figure 5 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data". The runs are those whose
    ρ lies nearest to the mean of their configuration; of several software metrics the one with the most events is shown.
    None when the traces of the pair's runs are not at hand.
    """
    runs = {
        trace_name(trace, configuration, place): trace
        for configuration, traces in content.traces.items()
        for place, trace in enumerate(traces)
    }
    pairs = [(result, change) for result in found for change in result.of("inner")]
    order = ranked_changes(change for _, change in pairs)
    for change in order:
        result = next(result for result, other in pairs if other is change)
        good = _typical(runs, change.reference_runs, change.reference, change)
        spoilt = _typical(runs, change.observed_runs, change.observed, change)
        if good is not None and spoilt is not None:
            new = [name for name in spoilt[1].names("software") if name not in good[1].metrics]
            software = max(new, key=lambda name: float(np.sum(spoilt[1][name])), default="")
            figure = _before_after_figure(content, change, result, good, spoilt, software)
            return BeforeAfter(result, change, software, figure)
    return None


def _typical(runs: Mapping[str, Trace], names: Sequence[str], rhos: Sequence[float], change: Change) -> _Run | None:
    """Return the run (name, trace, ρ) whose ρ lies nearest to the mean, among those whose trace is at hand."""
    centre = mean_rho(rhos)
    at_hand = [
        (abs(value - centre), name, value)
        for name, value in zip(names, rhos, strict=False)
        if name in runs and len(runs[name]) and change.first in runs[name].metrics and change.second in runs[name].metrics
    ]
    if not at_hand:
        return None
    _, name, value = min(at_hand)
    return name, runs[name], value


_COLUMNS = ((0.0, 0.47), (0.53, 1.0))


def _before_after_figure(
    content: ReportContent, change: Change, result: Result, good: _Run, spoilt: _Run, software: str
) -> Figure:
    described = described_metrics(content)
    rows = [change.first, change.second, *([software] if software else [])]
    heights = [120, 120, 90][: len(rows)]
    domains = stacked(heights, 40)
    longest = max(float(trace.end_ns[-1]) / 1e9 for _, trace, _ in (good, spoilt))
    figure = layout(sum(heights) + 40 * (len(rows) - 1) + 140, margin={"l": 72, "r": 16, "t": 80, "b": 50}, showlegend=False)
    sides = [
        (f"Reference ({plot_text(result.references[0], 24)})", good),
        (f"Checked ({plot_text(result.configuration, 24)})", spoilt),
    ]
    notes = [
        label(
            f"<b>{head}</b><br>{plot_text(name, 36)}, ρ = {rho(value)}",
            column[0],
            1,
            yshift=24,
            font={"size": 14, "color": "@ink"},
        )
        for column, (head, (name, _, value)) in zip(_COLUMNS, sides, strict=True)
    ]
    data = []
    for row, (name, domain) in enumerate(zip(rows, domains, strict=True)):
        top = max(_top(trace[name]) for _, trace, _ in (good, spoilt) if name in trace.metrics)
        notes.append(label(_named(described[name]), 0, domain[1], font={"size": 12, "color": "@muted"}))
        last = row == len(rows) - 1
        for side, (run, trace, _) in enumerate((good, spoilt)):
            suffix = "" if row == side == 0 else str(2 * row + side + 1)
            title = "seconds" if last else ""
            figure[f"xaxis{suffix}"] = axis(
                title, domain=_COLUMNS[side], anchor=f"y{suffix}", range=[0, longest], showticklabels=last
            )
            figure[f"yaxis{suffix}"] = axis(
                domain=domain, anchor=f"x{suffix}", range=[0, 1.06 * top], nticks=4, showticklabels=side == 0, **_TICKS
            )
            if name not in trace.metrics:
                notes.append(_not_collected(_COLUMNS[side], domain))
            colour = "@series-1" if side == 0 else f"@{change.verdict}"
            data.append(_before_after_line(run, trace, name, suffix, colour))
    figure["annotations"] = notes
    said = f"Signals of {plain_name(change.first)} and {plain_name(change.second)} over time, in a reference run and in a checked run."
    return Figure("before-after", data, figure, said)


def _top(values: NDArray[Any]) -> float:
    """Return the largest value that is drawn, 1 where there is none above 0."""
    drawn = bucket_means(values, _BEFORE_AFTER_POINTS)
    return float(max(drawn[np.isfinite(drawn)], default=0.0)) or 1.0


def _before_after_line(run: str, trace: Trace, name: str, suffix: str, colour: str) -> dict[str, Any]:
    """Return one signal; an empty one where the run lacks the metric, because an axis without a trace is not drawn."""
    held = name in trace.metrics
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plot_text(run),
        "x": _seconds(trace, _BEFORE_AFTER_POINTS) if held else [],
        "y": short(bucket_means(trace[name], _BEFORE_AFTER_POINTS)) if held else [],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "line": {"color": colour, "width": 1.4},
        "hovertemplate": "%{y:.4s} at %{x:.2f} s<extra></extra>",
    }


def _not_collected(column: tuple[float, float], domain: tuple[float, float]) -> dict[str, Any]:
    centre = sum(column) / 2
    return label(
        "not collected in this run",
        centre,
        sum(domain) / 2,
        xanchor="center",
        yanchor="middle",
        font={"size": 12, "color": "@muted"},
    )
