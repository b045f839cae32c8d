"""Figures of the search for a partition: every measurement, and the number of runs compared with the forecast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.pages.chart import (
    LEGEND_ON_TOP,
    SERIES,
    Figure,
    axis,
    layout,
    plot_text,
    row_axis,
    row_bars,
    scatter,
)
from unperturbed.analysis.partition.plan_text import STAGES, measurement_verdict, new_runs
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    from unperturbed.analysis.partition import Measurement, Plan


_ROW_PX = 24
_FEW, _WIDE = 12, 150
"""Maximum number of runs for one tick per run, and for bars that are wide enough for an edge."""
_BASELINE = "fresh baseline"
_KINDS = {
    "unperturbed": ("✓", "@unperturbed-soft", "@unperturbed"),
    "undecided": ("?", "@undecided-soft", "@undecided"),
    "shifted": ("~", "@shifted-soft", "@shifted"),
    "perturbed": ("✗", "@perturbed-soft", "@perturbed"),
    _BASELINE: ("", "@muted-line", "@card"),
    "certified": ("✓", "@unperturbed", "@card"),
    "not certified": ("✗", "@perturbed", "@card"),
}
"""Result of a measurement → its sign, fill colour, and colour of sign and edge; measurements of the search are pale."""

_PARTS = {
    "search": ("together", "alone", "search", "improve"),
    "fresh baselines": ("baseline",),
    "certification": ("certify",),
    "builds without counting": ("rewriting",),
}


def steps_figure(plan: Plan, metrics: Sequence[str]) -> Figure | None:
    """Draw the search from left to right: one column per measurement, as wide as its runs, filled for its metrics."""
    if not plan.history:
        return None
    row_of = {metric: row for row, metric in enumerate(metrics, 1)}
    bars: dict[str, list[tuple[int, int, int, str]]] = {}
    for measurement, runs in zip(plan.history, new_runs(plan), strict=True):
        kind = measurement_verdict(measurement) or _BASELINE
        said = _hover_text(measurement, runs)
        rows = [row_of[metric] for metric in measurement.subset] or list(row_of.values())
        bars.setdefault(kind, []).extend((row, measurement.runs_used - runs, runs, said) for row in rows)
    narrow = plan.runs_used > _WIDE
    data = [_stages(plan), *(_bars(kind, bars[kind], narrow=narrow) for kind in _KINDS if kind in bars)]
    names = ["stage", *metrics]
    figure = _rows_layout(_ROW_PX * len(names) + 140, [plot_text(name, 40) for name in names], gap=0.14)
    figure["xaxis"] = axis("runs used so far", range=[0, plan.runs_used], **_ticks(plan.runs_used))
    return Figure(
        "search-steps",
        data,
        figure,
        "The search from left to right: one column per measurement, as wide as its number of runs, with metrics and "
        "verdict. The table of all measurements has the same data.",
    )


def _rows_layout(height: int, names: Sequence[str], gap: float) -> dict[str, Any]:
    """Return the layout of a bar chart whose rows have these names, the first on top."""
    return layout(
        height,
        margin={"l": 40, "r": 20, "t": 66, "b": 50},
        barmode="overlay",
        bargap=gap,
        uniformtext={"mode": "hide", "minsize": 10},
        legend=LEGEND_ON_TOP,
        yaxis=row_axis(names),
    )


def _hover_text(measurement: Measurement, runs: int) -> str:
    verdict = measurement_verdict(measurement)
    head = (
        f"{measurement.number}. {STAGES[measurement.stage]}, {counted(runs, 'run')}{f': {verdict}' if verdict else ''}"
    )
    held = f"<br>{plot_text(', '.join(measurement.subset), 90)}" if measurement.subset else ""
    carried = measurement.outcome.carried[:1] if measurement.outcome is not None else ()
    return "".join([head, held, *(f"<br>{plot_text(change, 90)}" for change in carried)])


def _bars(kind: str, bars: Sequence[tuple[int, int, int, str]], *, narrow: bool) -> dict[str, Any]:
    """Return all bars with one result; narrow bars have no edge, because the edge would cover them."""
    sign, ground, colour = _KINDS[kind]
    pale = ground.endswith("-soft")
    look: dict[str, Any] = {"marker": {"color": ground, "line": {"color": colour, "width": 1}}}
    if narrow:
        look = {"marker": {"color": colour if pale else ground, "line": {"width": 0}}, "opacity": 0.45 if pale else 1}
    return row_bars(
        [row for row, *_ in bars],
        [base for _, base, *_ in bars],
        [runs for *_, runs, _ in bars],
        name=f"{sign} {kind}".strip(),
        text=[sign] * len(bars),
        insidetextfont={"color": colour, "size": 12},
        hovertext=[said for *_, said in bars],
        hoverinfo="text",
        **look,
    )


def _stages(plan: Plan) -> dict[str, Any]:
    """Return the top row: one bar for each stretch of consecutive measurements with the same stage."""
    stretches = []
    for stage, group in groupby(zip(plan.history, new_runs(plan), strict=True), key=lambda pair: pair[0].stage):
        made = list(group)
        stretches.append((STAGES[stage], made[0][0].runs_used - made[0][1], sum(runs for _, runs in made)))
    return row_bars(
        [0] * len(stretches),
        [base for _, base, _ in stretches],
        [runs for *_, runs in stretches],
        showlegend=False,
        text=[name for name, *_ in stretches],
        insidetextfont={"color": "@ink", "size": 12},
        marker={"color": "@grid", "line": {"color": "@card", "width": 1}},
        hovertext=[f"{name}: {counted(runs, 'run')}" for name, _, runs in stretches],
        hoverinfo="text",
    )


def runs_figure(plan: Plan) -> Figure:
    """Draw the runs used, divided by purpose, below the predicted range."""
    predicted = plan.forecast
    used = dict.fromkeys(_PARTS, 0)
    for measurement, runs in zip(plan.history, new_runs(plan), strict=True):
        used[next(name for name, stages in _PARTS.items() if measurement.stage in stages)] += runs
    data = [
        row_bars(
            [0],
            [predicted.low],
            [max(predicted.high - predicted.low, 0)],
            name="predicted, from all metrics together to no two together",
            marker={"color": "@muted-line"},
            hovertemplate=f"predicted: {predicted.low:,} to {predicted.high:,} runs<extra></extra>",
        ),
        scatter(
            "markers",
            [predicted.expected],
            [0],
            name="predicted for about five together",
            marker={"symbol": "diamond", "size": 12, "color": "@ink"},
            hovertemplate="predicted if about five metrics can be measured together: %{x:,} runs<extra></extra>",
        ),
    ]
    base = 0
    if not plan.families:
        del used["builds without counting"]
    for colour, (name, runs) in zip(SERIES, used.items(), strict=False):
        data.append(
            row_bars(
                [1],
                [base],
                [runs],
                name=name,
                text=[f"{runs:,}" if runs else ""],
                insidetextfont={"color": "@card", "size": 13},
                marker={"color": colour},
                hovertemplate=f"{name}: {runs:,} runs<extra></extra>",
            )
        )
        base += runs
    most = max(predicted.high, plan.runs_used)
    figure = _rows_layout(210, ["predicted", "used"], gap=0.3)
    figure["xaxis"] = axis("runs", range=[0, 1.04 * most], **_ticks(most))
    return Figure(
        "search-runs",
        data,
        figure,
        f"Runs used, {plan.runs_used:,}, and runs predicted, {predicted.low:,} to {predicted.high:,}.",
    )


def _ticks(runs: int) -> dict[str, Any]:
    """Return the tick settings of an axis that counts runs: whole numbers only."""
    return {"tickformat": ",", **({"dtick": 1} if runs <= _FEW else {})}
