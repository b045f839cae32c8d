"""Two runs aligned: read, judged by their milestones, shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unperturbed.analysis.alignment import Alignment, ScoreSummary, WarpPath, milestone_scores, scores_of
from unperturbed.analysis.report import AlignmentExample
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["alignment_json", "different_campaigns", "example_of", "read_run"]


def read_run(path: Path) -> Trace:
    """Read a trace from its file, or from the folder of a run.

    Raises
    ------
    DataError
        There is none.
    """
    if path.is_dir():
        if not (path / "trace.parquet").is_file():
            raise DataError(f"{path} is no run's folder (no trace.parquet in it); runs are in a campaign's folder runs/")
        path /= "trace.parquet"
    return Trace.read(path)


def different_campaigns(a: Trace, b: Trace) -> str:
    """Return a sentence when two runs are of different campaigns, '' otherwise: whether both did the same work is not known then."""
    names = [str(trace.attributes.get("campaign", "")) for trace in (a, b)]
    if names[0] == names[1]:
        return ""
    first, second = (name or "none" for name in names)
    return f"these runs are of different campaigns ({first} and {second}): aligning them makes sense only if both did the same work"


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
    scores = scores_of(path, a, b, anchor=anchor)
    judge = max(scores, key=lambda name: scores[name].elements, default=None)
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
        "contradicted": alignment.contradicted,
        "warning": "; ".join(filter(None, (different_campaigns(a, b), alignment.warning))),
        "scores": {name: vars(summary) for name, summary in scores.items()},
        "x_index": alignment.x_index.tolist(),
        "y_index": alignment.y_index.tolist(),
    }


def _name(trace: Trace, otherwise: str) -> str:
    return str(trace.attributes.get("run", otherwise))
