"""Texts and tables that describe an alignment, for the terminal, pages and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import BAD, counted, number

if TYPE_CHECKING:
    from unperturbed.analysis.alignment.merging import MergedTrace
    from unperturbed.analysis.alignment.milestones import ScoreSummary
    from unperturbed.analysis.alignment.pairwise_alignment import PairwiseAlignment
    from unperturbed.analysis.alignment.traces import Alignment
    from unperturbed.collectors.data import Trace

_MATRIX_COLUMNS = 12


def run_name(trace: Trace, otherwise: str = "a run") -> str:
    """Return the name of the run from a trace's attributes."""
    return str(trace.attributes.get("run", otherwise))


def facts(alignment: Alignment) -> list[tuple[str, str]]:
    """Return how two runs were aligned, as pairs of name and value."""
    a, b = alignment.runs
    on = ", ".join(f"{name} (÷ {scale:.4g})" for name, scale in zip(alignment.on, alignment.scale or (), strict=True))
    pairs = [
        ("intervals", f"{len(a)} and {len(b)}"),
        ("aligned on", on),
        ("method", alignment.method),
        ("penalty", f"{alignment.penalty:.4g}"),
        ("cost", f"{alignment.cost:.6g}, {alignment.cost / len(alignment):.4g} per path element"),
    ]
    if alignment.method == "dtw":
        if alignment.anchor:
            pairs.append(("anchors", f"{len(alignment.anchors)} milestones of {alignment.anchor}"))
        guide = "" if alignment.pace == "time" else ", which also guides the path"
        flat = f"{alignment.flat_share:.0%} of the path, longest stretch {alignment.longest_flat} intervals"
        pairs += [("progress", f"{alignment.pace}{guide}"), ("flat", flat)]
    if len(alignment.moved):
        places = [f"{of_a}:{end_a} is {of_b}:{end_b} of the second run" for of_a, end_a, of_b, end_b in alignment.moved]
        pairs.append(("moved", "; ".join(places)))
    return pairs


def scores_table(scores: Mapping[str, ScoreSummary]) -> Table:
    """Return the table of scores, one row for each milestone."""
    heads = ("scored elements", "in the same interval", "within one interval", "largest, intervals")
    columns = [Column("milestone"), *(Column(head, "right") for head in heads)]
    rows = [
        (name, f"{summary.elements}", f"{summary.perfect:.1%}", f"{summary.within_one:.1%}", f"{summary.largest}")
        for name, summary in scores.items()
    ]
    return Table(columns, rows, "Scores: by how many intervals the path misses milestones")


def different_campaigns(a: Trace, b: Trace) -> str:
    """Return a warning if two runs belong to different campaigns, else ''."""
    names = [str(trace.attributes.get("campaign", "")) for trace in (a, b)]
    if names[0] == names[1]:
        return ""
    first, second = (name or "no campaign" for name in names)
    return (
        f"these runs are not from the same campaign ({first} and {second}): align runs only if both did the same work"
    )


def notes(alignment: Alignment) -> list[str]:
    """Return the reasons to distrust an alignment."""
    return [note for note in (different_campaigns(*alignment.runs), alignment.warning) if note]


def merge_table(merged: MergedTrace, rejected: tuple[str, ...] = ()) -> Table:
    """Return the table of a merged trace's sources, one row for each group of repetitions."""
    columns = [
        *(Column(head) for head in ("from", "run", "metrics")),
        *(Column(head, "right") for head in ("spread, median", "90 %")),
    ]
    rows = []
    for source in merged.sources:
        bad = source.configuration in rejected
        title = Cell(f"{source.title} {BAD} perturbed", "bad") if bad else source.title
        run = f"{source.run}, one of {source.repetitions}" + (" (reference)" if source.alignment is None else "")
        spread = ["–", "–"]
        if source.spread is not None:
            spread = [f"{value:.1f}" for value in np.quantile(source.spread, (0.5, 0.9)).tolist()]
        rows.append((title, run, ", ".join(source.metrics), *spread))
    return Table(columns, rows, "One trace with every metric")


def distances_table(pairs: PairwiseAlignment) -> Table:
    """Return the distance matrix or, for many series, the nearest and the furthest neighbour of each series."""
    if len(pairs.names) <= _MATRIX_COLUMNS:
        columns = [Column(""), *(Column(name, "right") for name in pairs.names)]
        rows = [
            [name, *(number(value, 4) for value in row)]
            for name, row in zip(pairs.names, pairs.distances.tolist(), strict=True)
        ]
        return Table(columns, rows, "Distances")
    others = pairs.distances + np.where(np.eye(len(pairs.names), dtype=bool), np.inf, 0.0)
    columns, rows = [Column("series")], [[name] for name in pairs.names]
    for head, chosen in (("nearest", others.argmin(axis=1)), ("furthest", pairs.distances.argmax(axis=1))):
        columns += [Column(head), Column("distance", "right")]
        for row, distances, other in zip(rows, pairs.distances, chosen.tolist(), strict=True):
            row.extend((pairs.names[other], number(float(distances[other]), 4)))
    return Table(columns, rows, "Nearest and furthest neighbour of each series")


def pairwise_headline(pairs: PairwiseAlignment) -> str:
    """Return the number of series and the range of their distances, in one line."""
    size = len(pairs.names)
    if size < 2:
        return f"{counted(size, 'series', 'series')}: no pair to compare"
    first, second = np.triu_indices(size, 1)
    values = pairs.distances[first, second]
    ends = [
        f"{number(float(values[at]), 4)} ({pairs.names[first[at]]} and {pairs.names[second[at]]})"
        for at in (int(values.argmin()), int(values.argmax()))
    ]
    return f"{size} series: distances from {' to '.join(ends)}"
