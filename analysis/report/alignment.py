"""Pages of alignments, warp paths, pairwise distances and merged traces; the alignment example in reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.alignment import Alignment, merge_text, milestone_scores, score_summaries
from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.pages.chart import (
    Figure,
    axis,
    bucket_means,
    bucket_width,
    layout,
    plot_text,
    scatter,
    shaded,
    short,
)
from unperturbed.analysis.pages.document import definitions, document, frame, page_header, section
from unperturbed.analysis.report.campaign.figures import CaptionedFigure, FigureBlock
from unperturbed.common.markup import Html, tag
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from unperturbed.analysis.alignment import MergedTrace, PairwiseAlignment, WarpPath
    from unperturbed.collectors.data import Trace

_CAPTIONS = {
    "alignment-path": "In horizontal and vertical segments, one run waits while the other continues.",
    "alignment-scores": "0 means that the aligned intervals contain the same milestone.",
}

_POINTS = 500
_WARP_LINES = 70
_LARGEST_SCORE = 12
"""Larger scores share one bar."""


@dataclass(frozen=True)
class AlignmentExample:
    """Alignment of two runs, as shown in a report.

    Attributes
    ----------
    first, second : str
        Names of the runs.
    metric : str
        The metric that the runs were aligned on.
    x, y : array_like, shape (n,) and (m,)
        Values of the metric in both runs.
    x_index, y_index : array_like
        Int, equal length: the warp path.
    milestone_scores : array_like
        Int, ≥ 0: number of intervals by which the path misses a milestone, one for each path step with a milestone;
        may be empty.
    description : str
        One sentence: how the runs were aligned and why these two are shown.
    flat : sequence of tuple of int
        (first interval, interval after the last) of each flat stretch of x, to be shaded.

    Raises
    ------
    DataError
        A series is empty or contains a NaN; the path's two sides differ in length or point outside the series.
    """

    first: str
    second: str
    metric: str
    x: ArrayLike
    y: ArrayLike
    x_index: ArrayLike
    y_index: ArrayLike
    milestone_scores: ArrayLike = ()
    description: str = ""
    flat: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        for name, dtype in (("x", float), ("y", float), ("x_index", int), ("y_index", int), ("milestone_scores", int)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=dtype))
        path_x, path_y = np.asarray(self.x_index), np.asarray(self.y_index)
        if path_x.shape != path_y.shape:
            raise DataError(
                f"alignment of {self.first} and {self.second}: the path has {path_x.size} steps in the first run, but "
                f"{path_y.size} in the second"
            )
        for side, series in ((self.first, np.asarray(self.x)), (self.second, np.asarray(self.y))):
            if not (series.size and np.isfinite(series).all()):
                raise DataError(
                    f"alignment of {self.first} and {self.second}: {side} "
                    f"{'contains a value that is not finite' if series.size else 'has no intervals'}"
                )
        for side, series, path in (("first", np.asarray(self.x), path_x), ("second", np.asarray(self.y), path_y)):
            if path.size and (path.min() < 0 or path.max() >= series.size):
                raise DataError(
                    f"alignment of {self.first} and {self.second}: the path points outside the {side} run, which has "
                    f"{counted(series.size, 'interval')}"
                )


def alignment_example(
    path: WarpPath, a: Trace, b: Trace, *, on: Sequence[str], anchor: str | None, about: str = "Aligned"
) -> AlignmentExample:
    """Return the alignment of two runs in the form that pages show.

    Parameters
    ----------
    path : WarpPath
        The path; the flat stretches of an `Alignment` are shaded.
    a, b : Trace
        The runs.
    on : sequence of str
        Metrics that the runs were aligned on; the first is drawn.
    anchor : str or None
        The counter that supplied the anchors; scores do not use it.
    about : str, default "Aligned"
        Beginning of the sentence that describes the alignment.

    Returns
    -------
    AlignmentExample
        With scores by the counter that has the most scored path steps.
    """
    scores = score_summaries(path, a, b, anchor=anchor)
    counter = max(scores, key=lambda name: scores[name].elements, default=None)
    ways = f"on {', '.join(on)}" + (f", through the milestones of {anchor}" if anchor else "")
    scored = f" The scores show by how many intervals the path misses the milestones of {counter}." if counter else ""
    flat: list[tuple[int, int]] = []
    if isinstance(path, Alignment):
        flat = [(int(start), int(stop) + 1) for start, stop in path.warped.x_index[path.flat - (0, 1)]]
    return AlignmentExample(
        first=merge_text.run_name(a, "a"),
        second=merge_text.run_name(b, "b"),
        metric=on[0],
        x=a[on[0]],
        y=b[on[0]],
        x_index=path.x_index,
        y_index=path.y_index,
        milestone_scores=milestone_scores(path, a[counter].cumsum(), b[counter].cumsum()) if counter else (),
        description=f"{about} {ways}.{scored}",
        flat=flat,
    )


def render_alignment(alignment: Alignment) -> str:
    """Return the page of an alignment: both signals, the warp path and the milestone scores."""
    example = alignment_example(alignment, *alignment.runs, on=alignment.on, anchor=alignment.anchor)
    warning = "; ".join(merge_text.notes(alignment))
    sections = [
        section("", "Both runs", alignment_block(example).to_html()),
        section("", "How the runs were aligned", definitions(merge_text.facts(alignment), "provenance")),
    ]
    if alignment.scores:
        sections.append(section("", "Milestone scores", merge_text.scores_table(alignment.scores).to_html()))
    return _page(
        f"Alignment of {example.first} and {example.second}",
        "Unperturbed: which intervals of two runs show the same work?",
        example.description,
        sections,
        warning,
    )


def render_path(path: WarpPath) -> str:
    """Return the page of a warp path."""
    sizes = int(path.x_index[-1]) + 1, int(path.y_index[-1]) + 1
    x, y = (np.zeros(size) for size in sizes)
    example = AlignmentExample("x", "y", "", x, y, path.x_index, path.y_index)
    shown = section("", "The warp path", frame(path_figure(example), _CAPTIONS["alignment-path"]))
    return _page("Alignment of two series", "Unperturbed: dynamic time warping", f"{path.headline()}.", [shown])


def render_pairwise(pairs: PairwiseAlignment) -> str:
    """Return the page of a pairwise alignment: a table with the distance of each pair."""
    shown = section("", "Distances", merge_text.distances_table(pairs).to_html(sortable=True))
    return _page("Alignment of all pairs", "Unperturbed: dynamic time warping", f"{pairs.headline()}.", [shown])


def render_merged(merged: MergedTrace) -> str:
    """Return the page of a merged trace: a table of its sources."""
    shown = section("", "Where the metrics come from", merge_text.merge_table(merged).to_html())
    return _page("Merged runs", "Unperturbed: one trace with every metric", f"{merged.headline()}.", [shown])


def _page(title: str, kicker: str, answer: str, sections: list[Html], warning: str = "") -> str:
    note = tag("p", warning, class_="note") if warning else None
    header = page_header(kicker, title, tag("p", answer, class_="answer"), note)
    return document(title, header, tag("main", sections))


def alignment_block(example: AlignmentExample) -> FigureBlock:
    """Return the figures of two aligned runs with their captions."""
    signals, *rest = alignment_figures(example)
    flat = " Shaded: flat stretches, which contain only noise." if example.flat else ""
    caption = (
        f"{plain_name(example.metric)} in {example.first} (top) and {example.second} (bottom), each scaled to the same "
        f"height. Thin lines connect aligned intervals; not all are drawn.{flat}"
    )
    beside = [CaptionedFigure(figure, _CAPTIONS[figure.name], half_width=True) for figure in rest]
    return FigureBlock([CaptionedFigure(signals, caption), *beside])


def alignment_figures(example: AlignmentExample) -> list[Figure]:
    """Draw the signals with warp lines, the warp path, and the milestone scores if there are any.

    After figures 4, 7 and 9 of Mytkowicz et al., "Aligning Traces for Performance Evaluation".
    """
    figures = [_signals(example), path_figure(example)]
    return [*figures, _scores(example)] if np.asarray(example.milestone_scores).size else figures


def _unit(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale a series to [0, 1], or to 0.5 if it is constant."""
    low, high = float(np.nanmin(series)), float(np.nanmax(series))
    return (series - low) / (high - low) if high > low else np.full(series.shape, 0.5)


def _signals(example: AlignmentExample) -> Figure:
    x, y = _unit(np.asarray(example.x, dtype=float)), _unit(np.asarray(example.y, dtype=float))
    path_x, path_y = np.asarray(example.x_index), np.asarray(example.y_index)
    step = max(1, path_x.size // _WARP_LINES)
    warp_x: list[float | None] = []
    warp_y: list[float | None] = []
    for i, j in zip(path_x[::step], path_y[::step], strict=True):
        warp_x += [int(i), int(j), None]
        warp_y += [*short([1.3 + x[i], y[j]], 3), None]
    thin = {"color": "@muted-line", "width": 1}
    data = [scatter("lines", warp_x, warp_y, name="aligned intervals", line=thin, hoverinfo="skip")]
    for name, series, offset, colour in ((example.first, x, 1.3, "@series-1"), (example.second, y, 0.0, "@series-2")):
        width = bucket_width(series.size, _POINTS)
        data.append(
            scatter(
                "lines",
                short(np.arange(0, series.size, width) + (width - 1) / 2, 5),
                short(bucket_means(series + offset, _POINTS), 3),
                name=plot_text(f"run {name}"),
                line={"color": colour, "width": 1.8},
                hovertemplate="interval %{x:.0f}",
            )
        )
    # Shade the stretches of the upper run that are flat except for noise.
    bands = [
        shaded((start, stop - 1), (1.25, 2.35), fillcolor="@muted-bar", opacity=0.35) for start, stop in example.flat
    ]
    figure = layout(360, margin={"l": 20, "r": 20, "t": 40, "b": 54}, shapes=bands)
    figure["xaxis"] = axis("interval")
    figure["yaxis"] = axis(visible=False, range=[-0.08, 2.45])
    return Figure(
        "alignment-signals",
        data,
        figure,
        f"{plain_name(example.metric)} of runs {example.first} and {example.second}, one above the other; lines "
        "connect aligned intervals.",
    )


def path_figure(example: AlignmentExample) -> Figure:
    """Draw the warp path."""
    path_x, path_y = np.asarray(example.x_index), np.asarray(example.y_index)
    step = max(1, path_x.size // 1500)
    ends = [np.asarray(example.x).size - 1, np.asarray(example.y).size - 1]
    dashes = {"color": "@muted-line", "width": 1.5, "dash": "dash"}
    said = "interval %{x} ↔ interval %{y}<extra></extra>"
    thick = {"color": "@series-1", "width": 2}
    along_x, along_y = path_x[::step].tolist(), path_y[::step].tolist()
    data = [
        scatter("lines", [0, ends[0]], [0, ends[1]], name="equal pace", line=dashes, hoverinfo="skip"),
        scatter("lines", along_x, along_y, name="warp path", line=thick, hovertemplate=said),
    ]
    figure = layout(330, margin={"l": 64, "r": 16, "t": 40, "b": 54})
    figure["xaxis"] = axis(plot_text(f"interval of {example.first}"), rangemode="tozero")
    figure["yaxis"] = axis(plot_text(f"interval of {example.second}"), rangemode="tozero")
    return Figure(
        "alignment-path",
        data,
        figure,
        "The warp path: the intervals of the second run that are aligned with each interval of the first. A straight "
        "diagonal means equal pace.",
    )


def score_shares(scores: NDArray[np.int64]) -> dict[int, float]:
    """Return the share of path steps with each milestone score; scores above the largest drawn share one entry."""
    clipped = np.minimum(np.asarray(scores, dtype=np.int64), _LARGEST_SCORE + 1)
    counts = np.bincount(clipped)
    return {score: float(count / clipped.size) for score, count in enumerate(counts)}


def _scores(example: AlignmentExample) -> Figure:
    shares = score_shares(np.asarray(example.milestone_scores))
    names = [f"{score}" if score <= _LARGEST_SCORE else f"> {_LARGEST_SCORE}" for score in shares]
    data = [
        {
            "type": "bar",
            "x": names,
            "y": short((100 * share for share in shares.values()), 3),
            "text": [f"{100 * share:.0f} %" if share >= 0.005 else "" for share in shares.values()],
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": ["@series-3", *["@muted-bar"] * (len(shares) - 1)]},
            "hovertemplate": "%{y:.1f} % of steps miss by %{x} intervals<extra></extra>",
        }
    ]
    figure = layout(330, margin={"l": 64, "r": 16, "t": 40, "b": 54}, showlegend=False)
    figure["xaxis"] = axis("intervals by which a step misses its milestone", type="category", showgrid=False)
    figure["yaxis"] = axis("share of steps with a milestone", ticksuffix=" %", rangemode="tozero")
    return Figure("alignment-scores", data, figure, "Milestone scores: by how many intervals steps miss milestones.")
