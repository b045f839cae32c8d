"""Charts for Plotly: figures, axes, named colours, safe text and short numbers.

Colours have names such as `@perturbed`, which the page's script looks up in the stylesheet when it draws. So page and
figures share one palette, in light and dark mode, on screen and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unperturbed.analysis.perturbation import VERDICT_SIGNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.perturbation import Change, VerdictName


SERIES = tuple(f"@series-{number}" for number in range(1, 7))
"""Colours that are distinct for colour-blind readers too: the palette of Okabe and Ito, adapted to each background."""

MARKER: dict[VerdictName, dict[str, Any]] = {
    "perturbed": {"symbol": "x", "color": "@perturbed", "size": 9},
    "shifted": {"symbol": "diamond", "color": "@shifted", "size": 9},
    "undecided": {
        "symbol": "circle-open",
        "color": "@undecided",
        "size": 9,
        "line": {"width": 2, "color": "@undecided"},
    },
    "unperturbed": {"symbol": "circle", "color": "@unperturbed", "size": 8},
}
"""Marker of each verdict: a shape in addition to the colour."""


@dataclass(frozen=True)
class Figure:
    """A figure for Plotly, with names for colours."""

    name: str  # Id of the figure's element
    # Plotly's traces. A trace with `meta` is drawn only while that choice is selected; `{"shared": i}` as a trace's
    # `x` or `hovertext` means `shared[i]`.
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]  # Plotly's layout
    description: str  # Text for readers who cannot see the figure
    group: str = ""  # Name of the control for the choice; empty if there is none
    chosen: str = ""  # The initial choice
    # Choice → changes of the layout, with Plotly's dotted keys.
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shared: Sequence[Sequence[float | str | None]] = ()  # Lists that several traces use

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON types, without name and description."""
        return {name: value for name, value in vars(self).items() if name not in ("name", "description")}


def plot_text(text: str, most: int = 64) -> str:
    """Return text with Plotly's HTML escaped (for titles, names, tick labels), cut to `most` characters."""
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "%\u200b{")


def axis(title: str = "", **settings: Any) -> dict[str, Any]:
    """Return an axis in the page's style."""
    style: dict[str, Any] = {
        "gridcolor": "@grid",
        "linecolor": "@axis",
        "zeroline": False,
        "tickcolor": "@axis",
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
    }
    return {**style, **settings}


def layout(height: int, **settings: Any) -> dict[str, Any]:
    """Return a layout in the page's style."""
    style: dict[str, Any] = {
        "height": height,
        "margin": {"l": 64, "r": 20, "t": 30, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "size": 13, "family": "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"},
        "hoverlabel": {
            "bgcolor": "@card",
            "bordercolor": "@axis",
            "font": {"color": "@ink"},
            "align": "left",
            "namelength": -1,
        },
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
        "dragmode": "zoom",
        "hovermode": "closest",
    }
    return {**style, **settings}


LEGEND_ON_TOP = {"orientation": "h", "x": 0, "y": 1, "yanchor": "top", "yref": "container"}
"""Legend above all panels of a figure."""


def scatter(mode: str, x: Any, y: Any, **settings: Any) -> dict[str, Any]:
    """Return a Plotly trace of points (mode `markers`), lines (`lines`), or both (`lines+markers`)."""
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **settings}


def row_bars(y: Sequence[int], base: Sequence[int], x: Sequence[int], **settings: Any) -> dict[str, Any]:
    """Return horizontal bars with rows `y`, starts `base` and lengths `x`; texts are centred in the bars."""
    inside = {"textposition": "inside", "insidetextanchor": "middle", "textangle": 0} if "text" in settings else {}
    return {"type": "bar", "orientation": "h", "y": y, "base": base, "x": x, **inside, **settings}


def label(text: str, x: float, y: float, **settings: Any) -> dict[str, Any]:
    """Return a text annotation without an arrow, at paper coordinates (0 to 1)."""
    style: dict[str, Any] = {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 13, "color": "@ink"},
        "align": "left",
    }
    return {**style, **settings}


def stacked(heights: Sequence[float], gap: float) -> list[tuple[float, float]]:
    """Return the domain (low, high) of each stacked panel, the first on top; `heights` and `gap` in pixels."""
    whole = sum(heights) + gap * (len(heights) - 1)
    domains, top = [], whole
    for height in heights:
        domains.append((max(0.0, (top - height) / whole), top / whole))
        top -= height + gap
    return domains


def bucket_means(values: NDArray[Any], points: int) -> NDArray[np.float64]:
    """Reduce a long series to at most `points` points, each the mean of an equal number of neighbours."""
    series = np.asarray(values, dtype=np.float64)
    width = bucket_width(series.size, points)
    if width == 1:
        return series
    edges = np.arange(0, series.size, width)
    return np.asarray(np.add.reduceat(series, edges) / np.diff(np.append(edges, series.size)))


def bucket_width(size: int, points: int) -> int:
    """Return the number of neighbouring values to average into one point."""
    return max(1, math.ceil(size / points))


def short(values: Iterable[float], digits: int = 4) -> list[float | None]:
    """Round to `digits` significant digits for JSON: whole numbers without a point, None for NaN and infinity."""
    return [_short(float(value), digits) for value in values]


def _short(value: float, digits: int) -> float | None:
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


_LARGEST = 2.0
"""The largest possible change of ρ."""

Rows: TypeAlias = "Sequence[tuple[int, Change]]"
"""Changes with their rows in the figure."""


def interval_of(change: Change) -> tuple[float, float]:
    """Return the ends of a change's interval for drawing; an unknown end is replaced by the change itself."""
    if not math.isfinite(change.effect):
        return 0.0, 0.0
    low, high = (change.effect if math.isnan(end) else end for end in (change.low, change.high))
    return max(low, -_LARGEST), min(high, _LARGEST)


def interval_points(
    rows: Rows, name: Callable[[int, Change], str], *, more: str = ""
) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Yield one Plotly trace for each verdict among the changes, with the rows that it shows."""
    for verdict, marker in MARKER.items():
        drawn = [(row, change) for row, change in rows if change.verdict == verdict]
        if not drawn:
            continue
        changes = [change for _, change in drawn]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": short((interval_of(change)[1] - change.effect for change in changes), 3),
            "arrayminus": short((change.effect - interval_of(change)[0] for change in changes), 3),
            "color": f"@{verdict}",
            "thickness": 2,
            "width": 4,
        }
        points = scatter(
            "markers",
            short([change.effect for change in changes], 3),
            [row for row, _ in drawn],
            name=f"{VERDICT_SIGNS[verdict]} {verdict}",
            marker=dict(marker),
            error_x=bars,
            hovertext=[name(row, change) for row, change in drawn],
            hovertemplate=f"%{{hovertext}}<br>change %{{x:+.2f}}<extra>{verdict}{more}</extra>",
        )
        yield points, drawn


def tolerance_band(tolerance: float, suffix: str = "") -> dict[str, Any]:
    """Return the shaded band of the tolerance, for the axes with this suffix."""
    return shaded((-tolerance, tolerance), (0, 1), xref=f"x{suffix}", yref=f"y{suffix} domain", fillcolor="@band")


def shaded(x: tuple[float, float], y: tuple[float, float], **settings: Any) -> dict[str, Any]:
    """Return a rectangle without an edge, behind all data."""
    ends = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
    return {"type": "rect", **ends, "line": {"width": 0}, "layer": "below", **settings}


def row_axis(names: Sequence[str], room: float = 0.5, **settings: Any) -> dict[str, Any]:
    """Return a vertical axis whose rows have these names, the first on top, with some room below the last."""
    places, ends = list(range(len(names))), [len(names) - room, room - 1]
    return axis(tickvals=places, ticktext=list(names), range=ends, showgrid=False, automargin="width", **settings)
