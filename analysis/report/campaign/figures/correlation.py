"""Figures of correlations: in the baseline, run by run, and against the overhead of each configuration.

They correspond to figures 3, 4, 6, 7 and 8 of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.metric_names import pair_name
from unperturbed.analysis.pages.chart import SERIES, Figure, axis, layout, plot_text, scatter, short
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.campaign.content import changed_pairs
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock, ReportFigure, ReportView
from unperturbed.common.markup import tag

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change, CheckName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult


SCALES = {"signed": "ρ with its sign, −1 to 1", "paper": "as in the paper: |ρ|, 0.3 to 1"}
"""The paper draws |ρ| in [0.3, 1] (section 3.3); this hides changes of sign, so it is only an option."""

_SCALE_LAYOUT: dict[str, dict[str, Any]] = {
    "signed": {"yaxis.range": [-1.05, 1.05], "yaxis.title.text": "Spearman's ρ"},
    "paper": {"yaxis.range": [0.3, 1.02], "yaxis.title.text": "|Spearman's ρ|"},
}
_COLOURED = len(SERIES)
_CLOSEST = 3
_DRAWN = 60
"""Maximum number of lines in a figure, so that they do not hide each other; the least serious are left out."""

_DASH = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def _coloured(results: Sequence[ConfigurationResult], check: CheckName) -> list[tuple[str, str]]:
    """Return the pairs to colour: those that are perturbed in any configuration, else the three most serious."""
    perturbed = _perturbed(results, check)
    ranked = changed_pairs(results, check)
    return [pair for pair in ranked if pair in perturbed][:_COLOURED] if perturbed else ranked[:_CLOSEST]


def _perturbed(results: Sequence[ConfigurationResult], check: CheckName) -> set[tuple[str, str]]:
    return {
        (change.first, change.second)
        for result in results
        for change in result.of(check)
        if change.verdict == "perturbed"
    }


def colour_key(results: Sequence[ConfigurationResult], check: CheckName) -> str:
    """Return sentences on the meaning of coloured and grey lines."""
    noun = "pair" if check == "inner" else "metric"
    whole = len(changed_pairs(results, check))
    others = f"other {noun}s" + (f" among the {_DRAWN} (of {whole}) that changed most" if whole > _DRAWN else "")
    count = len(_perturbed(results, check))
    if not count and whole <= _CLOSEST:
        return f"No {noun} was perturbed."
    grey = f"Grey: the {others}; point at a line for its name."
    if not count:
        return f"No {noun} was perturbed; the three {noun}s closest to perturbation are coloured. {grey}"
    if count > _COLOURED:
        return (
            f"Coloured: the {_COLOURED} {noun}s that changed most, of {count} perturbed in at least one configuration. "
            f"{grey}"
        )
    which = f"the only {noun}" if count == 1 else f"the {count} {noun}s"
    return f"Coloured: {which} perturbed in at least one configuration. {grey}"


def _style(pair: tuple[str, str], coloured: Sequence[tuple[str, str]], count: int) -> dict[str, Any]:
    """Return the style of a pair's line: coloured, dashed and in the legend, or grey and named only on hover."""
    if pair in coloured:
        place = coloured.index(pair)
        return {
            "mode": "lines+markers",
            "line": {"color": SERIES[place], "width": 2.6, "dash": _DASH[place]},
            "marker": {"color": SERIES[place], "size": 8},
            "showlegend": True,
            "opacity": 1,
        }
    return {
        "mode": "lines",
        "line": {"color": "@muted-line", "width": 1.3},
        "showlegend": False,
        "opacity": 0.9 if count < 20 else 0.6,
    }


def _lines(
    pairs: Sequence[tuple[str, str]],
    coloured: Sequence[tuple[str, str]],
    count: int,
    line: Callable[[tuple[str, str], str], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the line of each pair on each scale, with points from `line`; coloured lines come last, on top."""
    ordered = [pair for pair in pairs if pair not in coloured] + list(coloured)
    return [
        {"type": "scatter", "name": plot_text(pair_name(*pair)), "meta": scale}
        | line(pair, scale)
        | _style(pair, coloured, count)
        for scale in SCALES
        for pair in ordered
    ]


def _scaled(values: Sequence[float], scale: str) -> list[float | None]:
    return short((abs(value) if scale == "paper" else value for value in values), 3)


def _base(height: int, pairs: int, **settings: Any) -> dict[str, Any]:
    """Return a layout with the legend below, and room for its entries."""
    below = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom", "traceorder": "normal"}
    room = 24 * ((pairs + 1) // 2)
    return layout(
        height + room, margin={"l": 64, "r": 20, "t": settings.pop("top", 24), "b": 62 + room}, legend=below, **settings
    )


def baseline_by_run(results: Sequence[ConfigurationResult], baseline: str) -> Figure | None:
    """Draw ρ of each pair in each baseline run: figure 3 of Mytkowicz et al., section 3.3."""
    pairs: dict[tuple[str, str], Change] = {}
    for result in results:
        if result.references[:1] == (baseline,):
            for change in result.of("inner"):
                pairs.setdefault((change.first, change.second), change)
    if not pairs:
        return None
    coloured = [pair for pair in _coloured(results, "inner") if pair in pairs]
    drawn = [pair for pair in changed_pairs(results, "inner") if pair in pairs][:_DRAWN]
    longest = max(pairs.values(), key=lambda change: len(change.reference))

    def line(pair: tuple[str, str], scale: str) -> dict[str, Any]:
        shown = {"x": {"shared": 0}, "y": _scaled(pairs[pair].reference, scale), "hovertext": {"shared": 1}}
        return {**shown, "hovertemplate": "ρ = %{y:.2f} in run %{hovertext}"}

    runs = len(longest.reference)
    figure = _base(330, len(coloured))
    figure["xaxis"] = axis("baseline runs, in order of execution", range=[0.6, runs + 0.4], dtick=max(1, runs // 13))
    figure["yaxis"] = axis("Spearman's ρ")
    return Figure(
        "baseline-by-run",
        _lines(drawn, coloured, len(pairs), line),
        figure,
        f"Inner correlation of {len(drawn)} pairs of metrics in each of {runs} baseline runs.",
        group="scale",
        chosen="signed",
        choices=_SCALE_LAYOUT,
        shared=[list(range(1, runs + 1)), [plot_text(run) for run in longest.reference_runs]],
    )


def total_overheads(results: Sequence[ConfigurationResult]) -> tuple[str, dict[str, float]]:
    """Return the overhead of each configuration relative to the pure baseline: quantity, and configuration → ratio.

    The quantity is instructions if they were counted, else cycles, else time. If a configuration's reference is not the
    baseline (but the anchor), the reference's overhead is included.
    """
    for quantity in ("instructions", "cycles", "time"):
        own = {result.configuration: getattr(result.overhead, quantity) for result in results}
        known = {name: value for name, value in own.items() if value is not None and math.isfinite(value)}
        if known:
            references = {result.configuration: result.references[0] for result in results if result.references}
            return quantity, {name: _through(name, known, references) for name in known}
    return "instructions", {}


def _through(name: str, own: Mapping[str, float], references: Mapping[str, str]) -> float:
    factor, seen = 1.0, set()
    while name in own and name not in seen:
        seen.add(name)
        factor *= 1 + own[name]
        name = references.get(name, "")
    return factor - 1


def correlation_against_overhead(
    results: Sequence[ConfigurationResult], check: CheckName, baseline: str
) -> Figure | None:
    """Draw the mean ρ of each pair (inner) or metric (outer) against the overhead of each configuration.

    Figures 4 and 6 (inner), 7 and 8 (outer) of Mytkowicz et al., sections 3.4 and 3.5. There, each point has one
    software metric more than the point to its left. Here, configurations are ordered by overhead and need not contain
    each other's metrics.
    """
    quantity, added = total_overheads(results)
    pairs = changed_pairs(results, check)[:_DRAWN]
    if not added or not pairs:
        return None
    coloured = _coloured(results, check)
    points = {pair: _points(results, check, pair, added, baseline) for pair in pairs}

    def line(pair: tuple[str, str], scale: str) -> dict[str, Any]:
        return {
            "legendgroup": plot_text(pair_name(*pair)),
            "x": short((100 * x for x, _, _ in points[pair]), 3),
            "y": _scaled([mean_rho(rhos) for _, rhos, _ in points[pair]], scale),
            "hovertext": [plot_text(configuration) for _, _, configuration in points[pair]],
            "hovertemplate": "mean ρ = %{y:.2f} in %{hovertext} (%{x:+.2f} %)",
        }

    data = _lines(pairs, coloured, len(pairs), line)
    data += [
        _single_runs(points[pair], scale, pair, SERIES[place])
        for scale in SCALES
        for place, pair in enumerate(coloured)
    ]
    span = max(100 * max(added.values()), 0.1)
    figure = _base(360, len(coloured), top=86, shapes=_markers(added), annotations=_names(added, span, baseline))
    low = min(0.0, 100 * min(added.values()))
    figure["xaxis"] = axis(
        f"{quantity} added by the instrumentation", range=[low - 0.04 * span, 1.06 * span], ticksuffix=" %"
    )
    figure["yaxis"] = axis("Spearman's ρ")
    what = "pairs of metrics within a run" if check == "inner" else "metrics across aligned runs"
    return Figure(
        f"{check}-overhead",
        data,
        figure,
        f"Mean correlation of {len(pairs)} {what}, against the {quantity} that each configuration added.",
        group="scale",
        chosen="signed",
        choices=_SCALE_LAYOUT,
    )


_Point = tuple[float, Sequence[float], str]


def _points(
    results: Sequence[ConfigurationResult],
    check: CheckName,
    pair: tuple[str, str],
    added: Mapping[str, float],
    baseline: str,
) -> list[_Point]:
    """Return (overhead, ρ of each run, configuration) in ascending order of overhead, with 0 for the baseline."""
    points: list[_Point] = []
    for result in results:
        for change in result.of(check):
            if (change.first, change.second) == pair and result.configuration in added:
                points.append((added[result.configuration], change.observed, result.configuration))
                if result.references[:1] == (baseline,) and all(name != baseline for _, _, name in points):
                    points.append((0.0, change.reference, baseline))
    return sorted(points, key=lambda point: point[0])


def _single_runs(points: Sequence[_Point], scale: str, pair: tuple[str, str], colour: str) -> dict[str, Any]:
    """Return single runs as faint dots, which show the spread around the mean."""
    name = plot_text(pair_name(*pair))
    dots = [(100 * x, value) for x, rhos, _ in points for value in rhos]
    return scatter(
        "markers",
        short((x for x, _ in dots), 3),
        _scaled([value for _, value in dots], scale),
        name=name,
        legendgroup=name,
        showlegend=False,
        meta=scale,
        marker={"color": colour, "size": 5},
        opacity=0.45,
        hoverinfo="skip",
    )


def _markers(added: Mapping[str, float]) -> list[dict[str, Any]]:
    line = {"color": "@axis", "width": 1, "dash": "dot"}
    style = {"type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "below"}
    return [{**style, "x0": 100 * x, "x1": 100 * x} for x in sorted({0.0, *added.values()})]


def _names(added: Mapping[str, float], span: float, baseline: str) -> list[dict[str, Any]]:
    """Return labels with the names of configurations above their lines; close labels are at different heights."""
    names = sorted([(0.0, baseline), *((100 * x, name) for name, x in added.items())])
    arrow: dict[str, Any] = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": "@axis"}
    arrow["font"] = {"size": 12, "color": "@ink"}
    notes, step, before = [], 0, float("-inf")
    for x, name in names:
        step = (step + 1) % 4 if x - before < 0.13 * span else 0
        before = x
        right = x > 0.8 * span
        place = {"x": x, "xref": "x", "y": 1, "yref": "paper", "xanchor": "right" if right else "left"}
        notes.append({**arrow, **place, "text": plot_text(name, 24), "ax": 0, "ay": -14 - 17 * step})
    return notes


def _baseline_block(view: ReportView) -> FigureBlock | None:
    figure = baseline_by_run(view.results, view.baseline)
    if figure is None:
        return None
    steadiness = view.content.steadiness
    return FigureBlock(
        [CaptionedFigure(figure, f"{colour_key(view.results, 'inner')} After figure 3 of the paper.")],
        "Noise: the baseline, run by run",
        [
            tag("p", "Flat lines mean a quiet set-up. All movement here is noise, which hides smaller changes."),
            tag("ul", [tag("li", sentence) for sentence in steadiness]) if steadiness else "",
        ],
    )


def _overhead_block(view: ReportView, check: CheckName, where: str, text: str, more: str) -> FigureBlock | None:
    figure = correlation_against_overhead(view.results, check, view.baseline)
    if figure is None:
        return None
    captioned = CaptionedFigure(figure, f"{colour_key(view.results, check)} {more}")
    return FigureBlock([captioned], f"{where}, against the overhead of instrumentation", tag("p", text))


def _inner_block(view: ReportView) -> FigureBlock | None:
    text = (
        "A level line is an unperturbed correlation. A small overhead is not a guarantee: a few per cent can be enough "
        "to change a correlation."
    )
    more = (
        "Faint dots are single runs. Configurations need not contain each other's metrics, so lines only guide the "
        "eye. After figures 4 and 6 of the paper."
    )
    return _overhead_block(view, "inner", "Within a run", text, more)


def _outer_block(view: ReportView) -> FigureBlock | None:
    text = "Each metric is correlated with itself in the reference runs. Near ρ = 1, the runs can be treated as one."
    return _overhead_block(view, "outer", "Across aligned runs", text, "After figures 7 and 8 of the paper.")


BASELINE_BY_RUN = ReportFigure("baseline-by-run", "correlations", _baseline_block, place=10)
INNER = ReportFigure("inner-overhead", "correlations", _inner_block, place=20)
OUTER = ReportFigure("outer-overhead", "correlations", _outer_block, place=30)
