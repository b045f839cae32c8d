"""HTML page of a run's structure: its words over time, the words, their adequacy, and how a second run differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

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
from unperturbed.analysis.pages.document import document, frame, navigation, page_header
from unperturbed.analysis.structure import phase_text
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.structure import Adequacy, Composition, Span, StructuralComparison

    Signal = tuple[str, NDArray[np.float64]]

_POINTS = 1500
_SIGNAL_PX, _STRIP_PX, _GAP_PX = 150, 34, 34
_NO_WORD = "@perturbed"
_FURTHER = "@muted-bar"
"""Colour of the words that do not have a colour of their own."""


def render_structure(
    composition: Composition,
    comparison: StructuralComparison | None = None,
    *,
    signals: Sequence[Signal] = (),
) -> str:
    """Return a run's structure as one self-contained HTML document.

    Parameters
    ----------
    composition : Composition
        The run.
    comparison : StructuralComparison, optional
        Comparison of a second run with this run.
    signals : sequence of tuple
        Name and values, shape (elements,), of a metric of each run, drawn above the run's strip; empty if there are no
        numbers to draw.

    Returns
    -------
    str
        The document.
    """
    name = composition.sequence.name or "run"
    title = name if comparison is None else f"{name} against {comparison.second.sequence.name or 'second run'}"
    header = page_header(
        "Unperturbed: which phases recur in this run?",
        title,
        tag("p", composition.headline(), class_="answer"),
        tag("p", comparison.headline(), class_="answer") if comparison is not None else None,
    )
    if composition.dictionary.words:
        words = phase_text.words_table(composition, comparison).to_html()
    else:
        words = tag(
            "p", "No word shortens the description of this sequence: nothing in it recurs more often than by chance."
        )
    sections = [
        _section("strips", "Over time", _strips(composition, comparison, signals)),
        _section("words", "Words", [words]),
    ]
    # If only one order is possible, the header describes the run completely.
    if not composition.sequence.is_plain:
        if comparison is not None and comparison.unmatched:
            stretches = tag("div", phase_text.unmatched_table(comparison).to_html(), class_="tall")
            sections.append(_section("unmatched", "Stretches that no word describes", [stretches]))
        adequacy = _adequacy(composition.dictionary.adequacy, "shuffled sequences")
        sections.append(_section("adequacy", "Is the model adequate?", adequacy))
        if comparison is not None:
            source = "draws of the first run's segments"
            further = _adequacy(comparison.adequacy, source, "structure-adequacy-second")
            sections.append(_section("difference", "Do the words describe the second run?", further))
    sections.append(_section("classes", "Classes", [phase_text.classes_table(composition, comparison).to_html()]))
    return document(
        f"{title}: structure",
        navigation([(identity, heading) for identity, heading, _ in sections]),
        header,
        tag("main", [markup for _, _, markup in sections]),
    )


def render_comparison(comparison: StructuralComparison) -> str:
    """Return the first run's structure, and how the second run differs, as one HTML document."""
    return render_structure(comparison.first, comparison)


def _section(identity: str, heading: str, content: list[Html]) -> tuple[str, str, Html]:
    return identity, heading, tag("section", tag("h2", heading), content, id=identity)


def _strips(composition: Composition, comparison: StructuralComparison | None, signals: Sequence[Signal]) -> list[Html]:
    runs = [(composition.sequence.name or "run", composition.spans)]
    if comparison is not None:
        runs.append((comparison.second.sequence.name or "second run", comparison.spans))
    drawn = [*signals, *[("", np.empty(0))] * len(runs)]
    rows = [StripRow(*run, *signal) for run, signal in zip(runs, drawn, strict=False)]
    uses = [use for use in composition.uses if use.letters]
    words = [phase_text.shorten_word(use.letters) for use in uses]
    element = composition.sequence.element
    caption = (
        f"The strip below each signal shows the words of {rows[0].title} in colour, and stretches that no word "
        "describes in red. The words with the largest shares of the run have colours of their own. Point at a stretch "
        f"to see its word, its {phase_text.plural(element)} and its edits."
    )
    return [frame(strips(rows, words, word_colours([use.share for use in uses]), element), caption)]


def _adequacy(adequacy: Adequacy, source: str, name: str = "") -> list[Html]:
    figure = adequacy_figure(adequacy, source, name)
    drawn = [frame(figure, f"Solid line: J. Dotted line: a(L). Bars: J of {source}.")] if figure is not None else []
    return [tag("p", phase_text.adequacy_sentence(adequacy, source)), *drawn]


@dataclass(frozen=True, eq=False)
class StripRow:
    """Run to draw: a strip of its segments below a metric."""

    title: str  # Name of the run
    spans: Sequence[Span]  # Segments of the strip
    signal_name: str  # Name of the metric
    signal: NDArray[np.float64]  # (elements,): Values of the metric; empty for none


def word_colours(shares: Sequence[float]) -> list[str]:
    """Return a colour for each word: one of its own if its share of the run is among the largest, else a common one."""
    return [SERIES[rank - 1] if rank else _FURTHER for rank in phase_text.word_series(shares)]


def strips(rows: Sequence[StripRow], words: Sequence[str], colours: Sequence[str], element: str) -> Figure:
    """Draw runs below each other, each as a signal above a strip of its segments."""
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
    in_legend: set[int] = set()
    axes = zip(["", *map(str, range(2, len(panels) + 1))], panels, strict=True)  # Plotly's first axis has no number
    for row in rows:
        number, place = next(axes)
        heading = f"{row.title}: {row.signal_name}" if len(row.signal) else row.title
        above = {"yshift": 1, "font": {"size": 12, "color": "@ink"}}
        figure["annotations"].append(label(plot_text(heading, 120), 0, place[1], **above))
        if len(row.signal):
            data.append(_signal(row, f"y{number}", element))
            figure[f"yaxis{number}"] = axis(domain=place, rangemode="tozero")
            number, place = next(axes)
        data += _bars(row, f"y{number}", words, colours, element, in_legend)
        figure[f"yaxis{number}"] = axis(domain=place, visible=False, range=[-0.5, 0.5], fixedrange=True)
    figure["xaxis"] = axis(element, range=[0, longest], anchor=f"y{number}")
    figure["legend"] |= {"y": 1 + 18 / max(1.0, sum(heights)), "traceorder": "normal"}
    return Figure(
        "structure-strips",
        data,
        figure,
        f"{' and '.join(row.title for row in rows)}: below each signal, a strip coloured by the word that describes "
        "each stretch. The tables list the numbers.",
    )


def _signal(row: StripRow, axis_name: str, element: str) -> dict[str, Any]:
    width = bucket_width(row.signal.size, _POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plot_text(row.signal_name),
        "showlegend": False,
        "yaxis": axis_name,
        "x": short(np.arange(0, row.signal.size, width) + width / 2, 6),
        "y": short(bucket_means(row.signal, _POINTS)),
        "line": {"color": "@ink", "width": 1},
        "hovertemplate": f"%{{y}} at {element} %{{x:.0f}}<extra></extra>",
    }


def _bars(
    row: StripRow, axis_name: str, words: Sequence[str], colours: Sequence[str], element: str, in_legend: set[int]
) -> list[dict[str, Any]]:
    """Return a set of bars for each word of a run; each word is in the legend once."""
    bars = []
    for word in [*range(len(words)), -1]:
        own = [span for span in row.spans if span.word == word]
        if not own:
            continue
        is_named = word < 0 or colours[word] != _FURTHER
        key = word if is_named else len(words)
        name = "no word" if word < 0 else words[word] if is_named else "further words"
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plot_text(name, 24),
                "legendgroup": f"{key}",
                "showlegend": key not in in_legend,
                "yaxis": axis_name,
                "base": [span.first for span in own],
                "x": [span.stop - span.first for span in own],
                "y": [0] * len(own),
                "width": 1,
                "customdata": [span.edits for span in own],
                "marker": {"color": _NO_WORD if word < 0 else colours[word], "line": {"width": 0.5, "color": "@card"}},
                "hovertemplate": (
                    f"{plot_text(name if word < 0 else words[word])}: %{{x}} {phase_text.plural(element)} from "
                    "%{base} on, %{customdata} edits<extra></extra>"
                ),
            }
        )
        in_legend.add(key)
    return bars


def adequacy_figure(adequacy: Adequacy, source: str, name: str = "") -> Figure | None:
    """Draw the cost J, its bound, and the costs that gave the bound; return None if the user set the bound."""
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
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}
            for at, line in (
                (adequacy.cost, {"color": "@series-1", "width": 2, "dash": "solid"}),
                (adequacy.bound, {"color": "@ink", "width": 2, "dash": "dot"}),
            )
        ],
        annotations=[
            label("J", adequacy.cost, 1, xref="x", xanchor="right", xshift=-3),
            label("a(L)", adequacy.bound, 1, xref="x", xshift=3),
        ],
    )
    figure["xaxis"] = axis("insertions and deletions", rangemode="tozero")
    figure["yaxis"] = axis(source)
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
        f"J is {adequacy.cost:g}, and its bound a(L) is {adequacy.bound:g}; bars show the J of {source}.",
    )
