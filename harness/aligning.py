"""Two runs aligned: read, judged by their milestones, shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unperturbed.analysis.alignment import Alignment, ScoreSummary, WarpPath, milestone_scores, summarise_scores
from unperturbed.analysis.report import AlignmentExample
from unperturbed.collectors.trace import Trace

__all__ = ["alignment_json", "example_of", "judging_counters", "read_run", "scores_of"]


def read_run(path: Path) -> Trace:
    """Read a trace from its file, or from the folder of a run.

    Raises
    ------
    DataError
        There is none.
    """
    return Trace.read(path / "trace.parquet" if path.is_dir() and (path / "trace.parquet").is_file() else path)


def judging_counters(a: Trace, b: Trace, anchor: str | None) -> list[str]:
    """Return the software counters that both runs counted alike, but for the anchor; the rarest first, which says most where it happens."""
    names = [
        name
        for name in a.names("software")
        if name != anchor
        and name in b.metrics
        and a.metrics[name].semantics == "counter"
        and a[name].sum() == b[name].sum() > 0
    ]
    return sorted(names, key=lambda name: int(a[name].sum()))


def scores_of(path: WarpPath, a: Trace, b: Trace, *, anchor: str | None = None) -> dict[str, ScoreSummary]:
    """Judge a path by every software counter that both runs counted alike, but for the anchor, which would flatter it.

    Returns
    -------
    dict
        Counter's name to the summary of its scores, rarest counter first; without those that no path element holds.
    """
    names = [
        name
        for name in a.names("software")
        if name != anchor
        and name in b.metrics
        and a.metrics[name].semantics == "counter"
        and a[name].sum() == b[name].sum() > 0
    ]
    names.sort(key=lambda name: int(a[name].sum()))
    summaries = {name: summarise_scores(milestone_scores(path, a[name].cumsum(), b[name].cumsum())) for name in names}
    return {name: summary for name, summary in summaries.items() if summary.elements}


def example_of(
    path: WarpPath, a: Trace, b: Trace, *, on: Sequence[str], anchor: str | None, about: str = "Aligned"
) -> AlignmentExample:
    """Return what a page shows of an alignment.

    Parameters
    ----------
    path : of a and b; an `Alignment` shows its flat stretches too.
    on, anchor : what it was made by; the anchor judges nothing.
    about : what the sentence that describes it begins with.
    """
    judge = next(iter(judging_counters(a, b, anchor)), None)
    ways = f"on {', '.join(on)}" + (f", through the milestones of {anchor}" if anchor else "")
    judged = f" The scores say by how many intervals the path misses the milestones of {judge}." if judge else ""
    flat: list[tuple[int, int]] = []
    if isinstance(path, Alignment):
        flat = [(int(start), int(stop) + 1) for start, stop in path.warped.x_index[path.flat - (0, 1)]]
    return AlignmentExample(
        first=_name(a, "a"),
        second=_name(b, "b"),
        metric=on[0],
        x=a[on[0]],
        y=b[on[0]],
        x_index=path.x_index,
        y_index=path.y_index,
        milestone_scores=milestone_scores(path, a[judge].cumsum(), b[judge].cumsum()) if judge else (),
        description=f"{about} {ways}.{judged}",
        flat=flat,
    )


def alignment_json(alignment: Alignment, a: Trace, b: Trace, scores: dict[str, ScoreSummary]) -> dict[str, Any]:
    """Return all that is known of an alignment as JSON types."""
    return {
        "first": {"run": _name(a, "a"), "intervals": len(a)},
        "second": {"run": _name(b, "b"), "intervals": len(b)},
        "method": alignment.method,
        "on": dict(zip(alignment.on, alignment.scale or (), strict=True)),
        "penalty": alignment.penalty,
        "cost": alignment.cost,
        "anchor": alignment.anchor,
        "anchors": [list(cell) for cell in alignment.anchors],
        "flat_share": alignment.flat_share,
        "longest_flat": alignment.longest_flat,
        "evened": alignment.evened,
        "pace": alignment.pace,
        "warning": alignment.warning,
        "scores": {name: vars(summary) for name, summary in scores.items()},
        "x_index": alignment.x_index.tolist(),
        "y_index": alignment.y_index.tolist(),
    }


def _name(trace: Trace, otherwise: str) -> str:
    return str(trace.attributes.get("run", otherwise))
