"""Figures of a run's structure: a metric over the run, and below it a strip that is coloured by the words it is made of."""

from __future__ import annotations

from collections.abc import Sequence
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
from unperturbed.analysis.structure.words import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.structure import Adequacy, Span

__all__ = ["StripRow", "adequacy_figure", "strips", "word_colours"]

_POINTS = 1500
_SIGNAL_PX, _STRIP_PX, _GAP_PX = 150, 34, 34
_NO_WORD = "@perturbed"
_FURTHER = "@muted-bar"
"""Colour of words beyond those that have one of their own."""


@dataclass(frozen=True, eq=False)
class StripRow:
    """A run as it is drawn.

    Attributes
    ----------
    title : str
    signal : float64, shape (elements,)
        What is drawn above the strip. Empty: nothing is.
    signal_name : str
    spans : sequence of Span
    """

    title: str
    signal: NDArray[np.float64]
    signal_name: str
    spans: Sequence[Span]


def word_colours(shares: Sequence[float]) -> list[str]:
    """Return a colour for each word: its own for those that take the largest shares of the run, one for all others."""
    order = sorted(range(len(shares)), key=lambda number: -shares[number])
    colours = [_FURTHER] * len(shares)
    for colour, number in zip(SERIES, order, strict=False):
        colours[number] = colour
    return colours


def strips(rows: Sequence[StripRow], words: Sequence[str], colours: Sequence[str], element: str) -> Figure:
    """Draw runs one below another, each a signal over a strip of its segments.

    Parameters
    ----------
    rows : the runs.
    words : letters of each word; colours : of each.
    element : what a place on the horizontal axis is: "interval", "access".
    """
    heights: list[float] = []
    for row in rows:
        heights += [float(_SIGNAL_PX), float(_STRIP_PX)] if len(row.signal) else [float(_STRIP_PX)]
    panels = stacked(heights, _GAP_PX)
    top, bottom = 60, 54
    figure = layout(
        round(sum(heights) + _GAP_PX * (len(heights) - 1) + top + bottom),
        margin={"l": 64, "r": 20, "t": top, "b": bottom},
        barmode="overlay",
        bargap=0,
        annotations=[],
    )
    longest = max((row.spans[-1].stop for row in rows if row.spans), default=1)
    data: list[dict[str, Any]] = []
    told: set[int] = set()
    panel = 0
    for row in rows:
        said = f"{row.title}: {row.signal_name}" if len(row.signal) else row.title
        above = {"yshift": 1, "font": {"size": 12, "color": "@ink"}}
        figure["annotations"].append(label(plot_text(said, 120), 0, panels[panel][1], **above))
        if len(row.signal):
            data.append(_signal(row, panel + 1, element))
            figure[_axis_name("yaxis", panel + 1)] = axis(domain=panels[panel], rangemode="tozero")
            panel += 1
        data += _bars(row, panel + 1, words, colours, element, told)
        figure[_axis_name("yaxis", panel + 1)] = axis(domain=panels[panel], visible=False, range=[-0.5, 0.5], fixedrange=True)
        panel += 1
    figure["xaxis"] = axis(element, range=[0, longest], anchor=f"y{panel}" if panel > 1 else "y")
    figure["legend"] |= {"y": 1 + 18 / max(1.0, sum(heights)), "traceorder": "normal"}
    return Figure(
        "structure-strips",
        data,
        figure,
        f"{' and '.join(row.title for row in rows)}: below each signal a strip, coloured by the word that describes each stretch. "
        "The tables hold the numbers.",
    )


def _axis_name(kind: str, number: int) -> str:
    return kind if number == 1 else f"{kind}{number}"


def _signal(row: StripRow, panel: int, element: str) -> dict[str, Any]:
    width = bucket_width(row.signal.size, _POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plot_text(row.signal_name),
        "showlegend": False,
        "yaxis": "y" if panel == 1 else f"y{panel}",
        "x": short(np.arange(0, row.signal.size, width) + width / 2, 6),
        "y": short(bucket_means(row.signal, _POINTS)),
        "line": {"color": "@ink", "width": 1},
        "hovertemplate": f"%{{y}} at {element} %{{x:.0f}}<extra></extra>",
    }


def _bars(
    row: StripRow, panel: int, words: Sequence[str], colours: Sequence[str], element: str, told: set[int]
) -> list[dict[str, Any]]:
    """Return a set of bars for each word of a run; a word is in the legend once."""
    bars = []
    for word in [*range(len(words)), -1]:
        mine = [span for span in row.spans if span.word == word]
        if not mine:
            continue
        own = word < 0 or colours[word] != _FURTHER
        key = word if own else len(words)
        name = "no word" if word < 0 else words[word] if own else "further words"
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plot_text(name, 24),
                "legendgroup": f"{key}",
                "showlegend": key not in told,
                "yaxis": "y" if panel == 1 else f"y{panel}",
                "base": [span.first for span in mine],
                "x": [span.stop - span.first for span in mine],
                "y": [0] * len(mine),
                "width": 1,
                "customdata": [span.edits for span in mine],
                "marker": {"color": _NO_WORD if word < 0 else colours[word], "line": {"width": 0.5, "color": "@card"}},
                "hovertemplate": (
                    f"{plot_text(name if word < 0 else words[word])}: %{{x}} {plural(element)} from %{{base}} on, "
                    "%{customdata} edits<extra></extra>"
                ),
            }
        )
        told.add(key)
    return bars


def adequacy_figure(adequacy: Adequacy, what: str, name: str = "") -> Figure | None:
    """Draw J beside the costs that its bound was made from; nothing where the bound was given."""
    if not len(adequacy.null_costs):
        return None
    counts, edges = np.histogram(adequacy.null_costs, min(40, max(5, len(adequacy.null_costs) // 5)))
    middles = (edges[:-1] + edges[1:]) / 2
    figure = layout(
        230,
        margin={"l": 64, "r": 16, "t": 40, "b": 54},
        showlegend=False,
        bargap=0.05,
        shapes=[
            {
                "type": "line",
                "x0": at,
                "x1": at,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": colour, "width": 2, "dash": dash},
            }
            for at, colour, dash in ((adequacy.cost, "@series-1", "solid"), (adequacy.bound, "@ink", "dot"))
        ],
        annotations=[
            label("J", adequacy.cost, 1, xref="x", xanchor="right", xshift=-3),
            label("a(L)", adequacy.bound, 1, xref="x", xshift=3),
        ],
    )
    figure["xaxis"] = axis("insertions and deletions", rangemode="tozero")
    figure["yaxis"] = axis(what)
    bars = {
        "type": "bar",
        "x": short(middles),
        "y": counts.tolist(),
        "marker": {"color": "@muted-bar"},
        "hovertemplate": "%{y}, around %{x}<extra></extra>",
    }
    return Figure(
        name or "structure-adequacy",
        [bars],
        figure,
        f"J is {adequacy.cost:g}, the bound a(L) {adequacy.bound:g}; bars show {what}.",
    )
