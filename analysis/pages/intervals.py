"""Changes with their intervals against the band of the tolerance, as every forest plot draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from unperturbed.analysis.pages.chart import MARKER, short
from unperturbed.analysis.perturbation import VERDICT_SIGNS

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change

_LARGEST = 2.0
"""No ρ changes by more."""

Rows: TypeAlias = "Sequence[tuple[int, Change]]"
"""Changes, each with its row in the figure."""


def interval_of(change: Change) -> tuple[float, float]:
    """Return the ends of the interval that can be drawn; what is unknown has no bar."""
    if not math.isfinite(change.effect):
        return 0.0, 0.0
    low, high = (change.effect if math.isnan(end) else end for end in (change.low, change.high))
    return max(low, -_LARGEST), min(high, _LARGEST)


def interval_points(
    rows: Rows, name: Callable[[int, Change], str], *, more: str = ""
) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Yield one Plotly trace for each verdict that occurs, with the changes that it shows."""
    for verdict, marker in MARKER.items():
        drawn = [(row, change) for row, change in rows if change.verdict == verdict]
        if not drawn:
            continue
        changes = [change for _, change in drawn]
        yield (
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{VERDICT_SIGNS[verdict]} {verdict}",
                "x": short([change.effect for change in changes], 3),
                "y": [row for row, _ in drawn],
                "marker": dict(marker),
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": short((interval_of(change)[1] - change.effect for change in changes), 3),
                    "arrayminus": short((change.effect - interval_of(change)[0] for change in changes), 3),
                    "color": f"@{verdict}",
                    "thickness": 2,
                    "width": 4,
                },
                "hovertext": [name(row, change) for row, change in drawn],
                "hovertemplate": f"%{{hovertext}}<br>change %{{x:+.2f}}<extra>{verdict}{more}</extra>",
            },
            drawn,
        )


def tolerance_band(tolerance: float, suffix: str = "") -> dict[str, Any]:
    """Return the band of the tolerance, for the axes with this suffix."""
    return {
        "type": "rect",
        "xref": f"x{suffix}",
        "yref": f"y{suffix} domain",
        "x0": -tolerance,
        "x1": tolerance,
        "y0": 0,
        "y1": 1,
        "fillcolor": "@band",
        "line": {"width": 0},
        "layer": "below",
    }
