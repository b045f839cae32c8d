"""HTML page of a choice of metrics: the dendrogram, the R² of each choice, and a table of all metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.choice import answer_text
from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    SERIES,
    Figure,
    axis,
    layout,
    plot_text,
    row_axis,
    scatter,
    shaded,
    short,
)
from unperturbed.analysis.pages.document import document, frame, navigation, page_header, section
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.markup import Html, tag
from unperturbed.common.wording import number

if TYPE_CHECKING:
    from typing import Any

    from unperturbed.analysis.choice.held_back import Step
    from unperturbed.analysis.choice.metric_choice import MetricChoice

hierarchy = LazyLibrary("scipy.cluster.hierarchy")

_ROW_PX = 24
_LOWEST = -0.1  # Lower R² is drawn here
_RHO_TICKS = (1, 0.9, 0.8, 0.6, 0.4, 0.2, 0)


def render_choice(choice: MetricChoice) -> str:
    """Return a choice of metrics as one HTML document."""
    said = choice.headline()
    title = "Which metrics predict the rest?"
    header = page_header(
        "Unperturbed: which metrics are worth their runs?",
        title,
        tag("p", f"{said[0].upper()}{said[1:]}.", class_="answer"),
        [tag("p", sentence) for sentence in answer_text.sentences(choice)],
    )
    sections = [
        ("clusters", "Redundant metrics", _clusters(choice)),
        ("choices", "The best k metrics", _choices(choice)),
        ("metrics", "Metric by metric", [answer_text.metrics_table(choice).to_html(sortable=True)]),
    ]
    return document(
        title,
        navigation([(identity, heading) for identity, heading, _ in sections]),
        header,
        tag("main", [section(identity, heading, *content) for identity, heading, content in sections]),
    )


def _clusters(choice: MetricChoice) -> list[Html]:
    caption = (
        "Two metrics or groups are joined at the mean of 1 − |ρ| over their pairs. ρ is Spearman's coefficient over "
        "the intervals of a run, averaged over runs on Fisher's scale. Joins in the shaded band make one cluster: "
        f"ρ² is {number(choice.target)} or more."
    )
    content = [frame(dendrogram(choice), caption)]
    if choice.tree.clusters:
        content.append(answer_text.clusters_table(choice).to_html())
    else:
        content.append(tag("p", "No two metrics are redundant."))
    return content


def _choices(choice: MetricChoice) -> list[Html]:
    caption = (
        "Each point is a metric that the best k do not measure, with its R² in runs held back; the line joins the "
        "medians. The dashed line is the target."
    )
    return [
        frame(predictions_figure(choice), caption),
        tag("div", answer_text.steps_table(choice).to_html(sortable=True), class_="tall"),
    ]


def dendrogram(choice: MetricChoice) -> Figure:
    """Draw the tree of all metrics from left to right: a row for each metric, and a bracket for each join."""
    tree = choice.tree
    drawn = hierarchy.dendrogram(tree.joins, no_plot=True, labels=list(tree.metrics))
    recommended = choice.recommended
    measured = recommended.chosen if recommended is not None else choice.metrics
    rows = [plot_text(name, 40) for name in drawn["ivl"]]
    data = []
    for joined, colour in ((True, SERIES[0]), (False, "@axis")):
        x: list[float | None] = []
        y: list[float | None] = []
        # Plotly's y is scipy's place of a leaf: 5, 15, 25, …; its x the distance at which branches join.
        for places, distances in zip(drawn["icoord"], drawn["dcoord"], strict=True):
            if (max(distances) <= tree.cut) == joined:
                x += [*short(distances, 4), None]
                y += [*((place - 5) / 10 for place in places), None]
        name = "one cluster" if joined else "apart"
        if x:
            data.append(scatter("lines", x, y, name=name, line={"color": colour, "width": 2}, hoverinfo="skip"))
    data.append(
        scatter(
            "markers",
            [0 for name in drawn["ivl"] if name in measured],
            [row for row, name in enumerate(drawn["ivl"]) if name in measured],
            name="measured by the choice",
            marker={"symbol": "diamond", "size": 10, "color": SERIES[1]},
            hovertext=[plot_text(name) for name in drawn["ivl"] if name in measured],
            hoverinfo="text",
        )
    )
    figure = layout(
        _ROW_PX * len(rows) + 120,
        margin={"l": 40, "r": 20, "t": 40, "b": 50},
        shapes=[shaded((0, tree.cut), (0, 1), xref="x", yref="y domain", fillcolor="@band")],
        legend=LEGEND_ON_TOP,
    )
    ticks = {"tickvals": [1 - rho for rho in _RHO_TICKS], "ticktext": [number(rho) for rho in _RHO_TICKS]}
    figure["xaxis"] = axis("|ρ| at which metrics are joined", range=[-0.02, 1.02], **ticks)
    figure["yaxis"] = row_axis(rows)
    said = "; ".join(", ".join(cluster.metrics) for cluster in tree.clusters) or "none"
    return Figure("choice-tree", data, figure, f"Dendrogram of the metrics. Redundant metrics: {said}.")


def predictions_figure(choice: MetricChoice) -> Figure:
    """Draw the R² of each metric that the best k metrics predict, for each k."""
    points = [(len(step.chosen), each) for step in choice.steps for each in step.predictions]
    target = choice.target
    data: list[dict[str, Any]] = []
    for name, shown, look in (
        ("predicted", True, {"symbol": "circle", "color": "@unperturbed", "size": 8}),
        ("not shown to be predicted", False, {"symbol": "x", "color": "@perturbed", "size": 8}),
    ):
        those = [(size, each) for size, each in points if each.is_predicted(target) is shown]
        if those:
            data.append(
                scatter(
                    "markers",
                    [size for size, _ in those],
                    short([max(each.r2, _LOWEST) for _, each in those], 3),
                    name=name,
                    marker=look,
                    hovertext=[plot_text(f"{each.metric}: {answer_text.prediction_text(each)}") for _, each in those],
                    hoverinfo="text",
                )
            )
    sizes = [len(step.chosen) for step in choice.steps]
    data.append(
        scatter(
            "lines",
            sizes,
            short([max(_median(step), _LOWEST) for step in choice.steps], 3),
            name="median",
            line={"color": "@axis", "width": 2},
            hoverinfo="skip",
        )
    )
    line = {"color": "@ink", "width": 1, "dash": "dash"}
    shapes = [{"type": "line", "x0": 0, "x1": 1, "xref": "x domain", "y0": target, "y1": target, "line": line}]
    figure = layout(360, legend=LEGEND_ON_TOP, shapes=shapes, margin={"l": 64, "r": 20, "t": 40, "b": 50})
    figure["xaxis"] = axis(
        "metrics measured", range=[0.5, max(sizes) + 0.5], **({"dtick": 1} if max(sizes) < 20 else {})
    )
    figure["yaxis"] = axis("R² in runs held back", range=[_LOWEST - 0.05, 1.05])
    return Figure(
        "choice-predictions",
        data,
        figure,
        "R² of each metric that the best k metrics predict, in runs held back, for each k. The table has the lowest.",
    )


def _median(step: Step) -> float:
    values = sorted(each.r2 for each in step.predictions)
    return values[len(values) // 2]
