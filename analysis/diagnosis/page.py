"""HTML page of a diagnosis: verdict, timelines of trace and references, event types behind anomalies, noise floor."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.diagnosis import finding_text
from unperturbed.analysis.pages.chart import SERIES, Figure, axis, label, layout, plot_text, short, stacked
from unperturbed.analysis.pages.document import definitions, document, frame, navigation, page_header
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.diagnosis import Diagnosis, Finding, LogComparison
    from unperturbed.analysis.diagnosis.distances.counts import EventDistance

    Floats = NDArray[np.float64]

_PLACES = (
    ("picture", "Timelines"),
    ("carriers", "Event types"),
    ("noise", "Noise floor"),
    ("reading", "Lines left out"),
    ("references", "References"),
)

_BINS = 120
_AROUND = 5
"""Number of neighbouring intervals whose counts are summed before comparison."""
_MARK = {"yref": "paper", "y0": 0, "y1": 1, "line": {"color": "@ink", "width": 1.5, "dash": "dot"}}
"""Vertical line that marks a finding across all panels."""
_LANES = 9
_LANE_HEIGHT = 46
_HALF = 0.44
"""Maximum height of one of a lane's two timelines, as a share of the lane's height."""
_DELAYS = 6
"""Maximum number of streams whose delays are drawn: the number of colours."""


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as one self-contained HTML document."""
    name = PurePath(diagnosis.trace).name or "trace"
    header = page_header(
        "Unperturbed: what is wrong with this trace?",
        name,
        tag("p", f"The trace is {finding_text.verdict_text(diagnosis)}.", class_="answer"),
        [_finding(finding, diagnosis.unit) for finding in diagnosis.findings],
        [] if diagnosis.findings or not diagnosis.visible else finding_text.visible_table(diagnosis).to_html(),
    )
    sections = [section(diagnosis) for section in (_picture, _carriers, _noise, _reading, _references)]
    title, main = f"{name}: {diagnosis.verdict}", tag("main", sections)
    return document(title, navigation(_PLACES), header, main)


def render_distance(distance: EventDistance) -> str:
    """Return one of the paper's distances as an HTML page, with its value for each plugin."""
    header = tag(
        "header",
        tag("p", "Unperturbed: how far apart are two event traces?", class_="kicker"),
        tag("h1", "Distance between two event traces"),
        tag("p", f"{distance.headline()}.", class_="answer"),
    )
    tables = [table.to_html(sortable=True) for table in distance.tables()]
    section = tag("section", tag("h2", "By plugin"), tables)
    return document(distance.headline(), header, tag("main", section))


def _section(identity: str, *content: Html | list[Html] | None) -> Html:
    return tag("section", tag("h2", dict(_PLACES)[identity]), *content, id=identity)


def _finding(finding: Finding, unit: str) -> Html:
    facts = definitions(finding_text.facts(finding, unit), "facts")
    return tag("div", tag("h3", f"{finding.kind}: {finding.summary}"), facts)


def _picture(diagnosis: Diagnosis) -> Html:
    several = "the median of the references" if len(diagnosis.references) > 1 else "the reference"
    caption = (
        f"Each lane shows event counts in short intervals: {several} upward, the trace downward. Heights are square "
        "roots of counts, scaled to the highest of each lane. Colours mark where the trace has fewer or more events "
        "than the references have around that time, so late events appear first as missing and later as added. "
        "Lower panel: the delay with which each stream reaches the same point; shading: the range of the references."
    )
    return _section("picture", frame(timelines(diagnosis), caption))


def _carriers(diagnosis: Diagnosis) -> Html:
    tables = [
        finding_text.carriers_table(finding, diagnosis.unit).to_html()
        for finding in diagnosis.findings
        if finding.carriers
    ]
    return _section("carriers", tables or tag("p", "No anomaly was found, so no event types are listed."))


def _noise(diagnosis: Diagnosis) -> Html:
    comparison = diagnosis.comparison
    if len(comparison.references) == 1:
        advice = "One reference does not show how much clean runs differ. Give several references, ideally six."
        return _section("noise", tag("p", advice))
    varying, table = finding_text.noise_table(comparison)
    count = f"The counts of {varying:,} of {len(comparison.types):,} event types differ between references."
    listed = tag("div", table.to_html(), class_="tall") if varying else None
    return _section("noise", tag("p", count), listed)


def _reading(diagnosis: Diagnosis) -> Html:
    comparison = diagnosis.comparison
    traces = [run.trace for run in (comparison.observed, *comparison.references)]
    bad = [
        tag("li", f"{trace.name}, line {line.number}: {line.text}")
        for trace in traces
        if trace.reading is not None
        for line in trace.reading.first_bad_lines[:3]
    ]
    listed = [tag("h3", "First bad lines"), tag("ul", bad)] if bad else None
    return _section("reading", finding_text.reading_table(traces).to_html(), listed)


def _references(diagnosis: Diagnosis) -> Html:
    listed = [tag("li", name or "a reference") for name in diagnosis.references]
    looked = tag("p", f"Anomalies searched for: {', '.join(diagnosis.kinds)}.") if diagnosis.kinds else None
    distances = finding_text.distances_table(diagnosis.distances).to_html() if diagnosis.distances else None
    notes = [tag("p", note, class_="note") for note in diagnosis.notes]
    return _section("references", tag("ul", listed), looked, distances, notes)


def timelines(diagnosis: Diagnosis) -> Figure:
    """Draw a lane for each stream and plugin (references upward, trace downward), and the delays of streams."""
    comparison = diagnosis.comparison
    tick = 1 / (comparison.ticks_a_second or 1)
    unit = "s" if comparison.ticks_a_second else "ticks"
    lanes = lanes_of(comparison)
    longest = max(run.trace.duration for run in (*comparison.references, comparison.observed))
    edges = np.linspace(0, max(1, longest), _BINS + 1)
    data = _lane_bars(comparison, lanes, edges, tick, unit)
    curves, in_ms = _delay_curves(diagnosis, tick, unit)
    heights = [_LANE_HEIGHT * len(lanes), *([150.0] if curves else [])]
    panels = stacked(heights, 48)
    marks = [(finding.kind, finding.since * tick) for finding in diagnosis.findings if finding.since is not None]
    top, bottom = 56 + 18 * len(marks), 54
    names = []
    for place, (kind, at) in enumerate(marks):
        side = "left" if at < longest * tick / 2 else "right"
        text = plot_text(f"{kind}, from {at:.4g} {unit} on")
        names.append(label(text, at, 1, xref="x", yshift=2 + 18 * place, xanchor=side))
    figure = layout(
        round(sum(heights) + 48 * (len(heights) - 1) + top + bottom),
        margin={"l": 150, "r": 20, "t": top, "b": bottom},
        barmode="overlay",
        bargap=0,
        shapes=[{"type": "line", "x0": at, "x1": at, **_MARK} for _, at in marks],
        annotations=names,
    )
    # The legend is above the names of the findings.
    figure["legend"] |= {"y": 1 + (8 + 18 * len(marks)) / (figure["height"] - top - bottom)}
    time_range, anchor = [0, edges[-1] * tick], "y2" if curves else "y"
    figure["xaxis"] = axis(f"time since the first event, {unit}", range=time_range, anchor=anchor)
    figure["yaxis"] = axis(
        domain=panels[0],
        range=[len(lanes) - 0.5, -0.5],
        tickmode="array",
        tickvals=list(range(len(lanes))),
        ticktext=[plot_text(name or "no plugin", 20) for name, _ in lanes],
        fixedrange=True,
        showgrid=False,
    )
    if curves:
        delay = f"delay, {'ms' if in_ms else unit}"
        figure["yaxis2"] = axis(delay, domain=panels[1], zeroline=True, zerolinecolor="@axis")
    return Figure(
        "diagnosis-timelines",
        [*data, *curves],
        figure,
        f"Events of the references and of the trace over time, in {len(lanes)} lanes, with missing and added events "
        "marked. Below them, the delay of each stream. The tables list the numbers.",
    )


def lanes_of(comparison: LogComparison) -> list[tuple[str, list[int]]]:
    """Return name and type numbers of each lane: all streams, then the plugins that differ most or log most."""
    types = comparison.types
    lanes: dict[str, list[int]] = {}
    for stream in comparison.streams:
        first = types[stream.numbers[0]]
        if stream.name != first.plugin:  # a sink: the events that its base class logs for it
            sink = (first.plugin, stream.name)
            lanes[stream.name] = [number for number, kind in enumerate(types) if (kind.plugin, kind.element) == sink]
    plugins: dict[str, list[int]] = {}
    for number, kind in enumerate(types):
        plugins.setdefault(kind.plugin, []).append(number)
    amounts = comparison.observed.counts + comparison.highest

    def weight(name: str) -> tuple[float, int]:
        return float(np.abs(comparison.excess[plugins[name]]).sum()), int(amounts[plugins[name]].sum())

    ranked = sorted(plugins, key=weight, reverse=True)
    return [*lanes.items(), *((name, plugins[name]) for name in ranked)][:_LANES]


def differences(here: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """Return the numbers of missing and of added events in each interval, relative to the references' median.

    `here` has shape (intervals,), `theirs` (references, intervals). An interval differs if the sum over five neighbours
    is outside the references' range by more than the width of that range; with one reference, by more than its square
    root. The sums tolerate small shifts in time.
    """

    def around(counts: Floats) -> Floats:
        return np.convolve(counts, np.ones(_AROUND), mode="same")

    sums = np.array([around(counts) for counts in theirs])
    low, high = sums.min(axis=0), sums.max(axis=0)
    slack = high - low if len(theirs) > 1 else np.sqrt(low)
    usual = np.median(theirs, axis=0)
    fewer, more = around(here) < low - slack, around(here) > high + slack
    return np.where(fewer, np.maximum(0, usual - here), 0), np.where(more, np.maximum(0, here - usual), 0)


def _lane_bars(
    comparison: LogComparison, lanes: list[tuple[str, list[int]]], edges: Floats, tick: float, unit: str
) -> list[dict[str, Any]]:
    middles, width = (edges[:-1] + edges[1:]) / 2 * tick, float(edges[1] - edges[0]) * tick
    looks = {"references": "@series-1", "trace": "@muted-bar", "missing": "@perturbed", "added": "@series-5"}
    bars: dict[str, dict[str, list[Any]]] = {name: {"x": [], "y": [], "base": [], "customdata": []} for name in looks}
    runs = (*comparison.references, comparison.observed)
    for lane, (_, numbers) in enumerate(lanes):
        times = [np.concatenate([run.times(number) for number in numbers]) for run in runs]
        counts = np.array([np.histogram(run_times, edges)[0] for run_times in times], dtype=np.float64)
        theirs, here = counts[:-1], counts[-1]
        usual = np.median(theirs, axis=0)
        missing, added = differences(here, theirs)
        # The square root keeps a steady stream visible beside a burst at the start.
        most = np.sqrt(max(1.0, (here + missing).max(), usual.max())) / _HALF
        for name, low, high, count, sign in (
            ("references", 0 * usual, usual, usual, -1),
            ("trace", 0 * here, here, here, 1),
            ("missing", here, here + missing, missing, 1),
            ("added", here - added, here, added, 1),
        ):
            drawn = high > low
            bars[name]["x"] += short(middles[drawn], 5)
            bars[name]["base"] += short(lane + sign * np.sqrt(low[drawn]) / most)
            bars[name]["y"] += short(sign * (np.sqrt(high[drawn]) - np.sqrt(low[drawn])) / most)
            bars[name]["customdata"] += short(count[drawn])
    return [
        {
            "type": "bar",
            "name": name,
            **bars[name],
            "width": width,
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": f"{name}: %{{customdata}} events within {width:.3g} {unit}, at %{{x}} {unit}"
            "<extra></extra>",
        }
        for name, colour in looks.items()
    ]


def _delay_curves(diagnosis: Diagnosis, tick: float, unit: str) -> tuple[list[dict[str, Any]], bool]:
    """Return curves of the streams' delays with the references' ranges, and whether they are in ms."""
    comparison = diagnosis.comparison
    reached = min((finding.strength.get("end_reached_share", 1.0) for finding in diagnosis.findings), default=1.0)
    curves = []
    for stream in comparison.streams[:_DELAYS]:
        delays = comparison.delays(stream, reached=reached) * tick
        if np.isfinite(delays).all():
            late = np.median(delays, axis=0)
            curves.append((stream.name, comparison.moments(stream) * tick, late, late - delays))
    in_ms = unit == "s" and all(np.abs(late).max() < 1 for _, _, late, _ in curves)
    scale, shown_unit = (1e3, "ms") if in_ms else (1.0, unit)
    drawn: list[dict[str, Any]] = []
    for place, (name, moments, late, ranges) in enumerate(curves):
        low, high = ranges.min(axis=0) * scale, ranges.max(axis=0) * scale
        style = {"type": "scatter", "mode": "lines", "yaxis": "y2"}
        around = {
            "name": "range of the references' delays",
            "showlegend": place == 0,
            "legendgroup": "range",
            "x": short([*moments, *moments[::-1]], 5),
            "y": short([*high, *low[::-1]]),
            "fill": "toself",
            "fillcolor": "@band",
            "line": {"width": 0, "color": "@band"},
            "hoverinfo": "skip",
        }
        line = {
            "name": plot_text(f"delay of {name or 'no plugin'}", 32),
            "x": short(moments, 5),
            "y": short(late * scale),
            "line": {"color": SERIES[place], "width": 2},
            "hovertemplate": f"delay %{{y}} {shown_unit} at %{{x}} {unit}",
        }
        drawn += [style | around, style | line]
    return drawn, in_ms
