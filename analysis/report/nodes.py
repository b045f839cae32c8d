"""The page of a campaign on several nodes: verdicts over all nodes, and a forest plot for each configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import pair_name
from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    Figure,
    axis,
    interval_of,
    interval_points,
    layout,
    plot_text,
    row_axis,
    tolerance_band,
)
from unperturbed.analysis.pages.document import document, frame, page_header, section
from unperturbed.analysis.perturbation import Change, ranked_changes
from unperturbed.analysis.report.campaign.figures.totals import BEYOND, total_forest
from unperturbed.analysis.totals.total_text import totals_sentence
from unperturbed.common.markup import Html, tag
from unperturbed.common.wording import number

if TYPE_CHECKING:
    from unperturbed.analysis.nodes.combine import Combined
    from unperturbed.analysis.nodes.verdicts import NodeVerdicts
    from unperturbed.common.table import Table

_ROW_PX = 22
_MOST_CHANGES = 12
"""Maximum number of changes in a configuration's figure, the most serious first."""

_Row = tuple[int, Change]


def render_nodes(verdicts: NodeVerdicts) -> str:
    """Return the verdicts over all nodes as one HTML document.

    Parameters
    ----------
    verdicts : NodeVerdicts
        The verdicts.
    """
    first, *rest = verdicts.tables()
    of_totals = [rest.pop()] if verdicts.totals else []
    said = [tag("p", sentence) for sentence in verdicts.sentences()]
    header = page_header("Unperturbed: do the verdicts hold on every node?", verdicts.headline(), said)
    body = tag(
        "main",
        header,
        tag("section", first.to_html(sortable=True)),
        [_section(combined, at) for at, combined in enumerate(verdicts.combined) if combined.these.changes],
        section("", "The most serious change, node by node", [table.to_html() for table in rest]) if rest else None,
        [_totals_section(verdicts, table) for table in of_totals],
    )
    return document(verdicts.headline(), body)


def _totals_section(verdicts: NodeVerdicts, table: Table) -> Html:
    said = [tag("li", totals_sentence(name, changes, "the baseline")) for name, changes in verdicts.totals.items()]
    rows = [(name, change) for name, changes in verdicts.totals.items() for change in changes]
    return section(
        "",
        "Totals of a run",
        tag(
            "p",
            "The mean change over the nodes, each with the same weight. The page of each node has the totals of that "
            "node.",
        ),
        tag("ul", said),
        frame(total_forest(rows), BEYOND),
        table.to_html(sortable=True),
    )


def _section(combined: Combined, at: int) -> Html:
    """Return the section of one configuration: its forest plot, and how to read the plot."""
    scopes = "these nodes" if combined.type is None else "these nodes and this type of node"
    said = (
        f"Each bar is the confidence interval of a change: one row per node, then {scopes}. The shaded band is the "
        "tolerance."
    )
    return section("", combined.configuration, tag("p", said), frame(forest_of_nodes(combined, f"nodes-{at}")))


def forest_of_nodes(combined: Combined, name: str) -> Figure:
    """Draw the changes of a configuration (at least one): a row for each node, and the summaries below."""
    rows, labels = _rows(combined)
    tolerance = combined.these.tolerance
    ends = [abs(end) for _, change in rows for end in interval_of(change)]
    span = max(1.08 * min(max(ends), 2.0), 2 * tolerance)
    figure = layout(
        _ROW_PX * len(labels) + 110,
        margin={"l": 40, "r": 20, "t": 40, "b": 50},
        shapes=[tolerance_band(tolerance)],
        legend=LEGEND_ON_TOP,
    )
    title = f"change of ρ; shaded: tolerance ±{number(tolerance)}"
    figure["xaxis"] = axis(title, range=[-span, span], zeroline=True, zerolinecolor="@axis")
    figure["yaxis"] = row_axis(labels, room=0.4)
    return Figure(
        name,
        [points for points, _ in interval_points(rows, lambda row, _: labels[row])],
        figure,
        f"Forest plot of {combined.configuration}: changes with confidence intervals, on each node and over all nodes; "
        "the shaded band is the tolerance.",
    )


def _rows(combined: Combined) -> tuple[list[_Row], list[str]]:
    """Return the changes to draw, each with its row number, and the labels of all rows from the top."""
    rows: list[_Row] = []
    labels: list[str] = []
    for change in ranked_changes(combined.these.changes)[:_MOST_CHANGES]:
        title = plot_text(f"{pair_name(change.first, change.second)} ({change.check})", 56)
        labels.append(f"<b>{title}</b>")
        for scope, scoped in combined.scopes_of(change):
            rows.append((len(labels), scoped))
            labels.append(plot_text(scope, 40))
    return rows, labels
