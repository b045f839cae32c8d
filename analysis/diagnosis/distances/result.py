"""What the paper's distances have in common as results: a total, its normalised value, and a value for each plugin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from unperturbed.common.result import Result
from unperturbed.common.table import Column, Table

if TYPE_CHECKING:
    import polars as pl


def normalize(distance: float) -> float:
    """Return g(d) = d / (1 + d), from 0 to 1 (section III-D); 1 for an infinite distance.

    Raises
    ------
    ValueError
        A negative distance or NaN.
    """
    if not distance >= 0:
        raise ValueError(f"a distance is 0 or more, not {distance}")
    return 1.0 if math.isinf(distance) else distance / (1 + distance)


class EventDistance(Result):
    """A distance of two event traces; a subclass has `total`, `by_plugin` and the distance's name."""

    _page: ClassVar[str] = "unperturbed.analysis.diagnosis.page:render_distance"
    _called: ClassVar[str]

    @property
    def normalised(self) -> float:
        """The distance from 0 to 1; see `normalize`."""
        return normalize(self._values()[0])

    def _values(self) -> tuple[float, Mapping[str, float]]:
        """Return the distance, and that of each plugin's events."""
        raise NotImplementedError

    def headline(self) -> str:
        """Return name, value and normalised value in one line."""
        return f"{self._called} distance {self._values()[0]:.6g} (normalised {self.normalised:.4f})"

    def tables(self) -> list[Table]:
        """Return the distance of each plugin, the largest first."""
        by_plugin = self._values()[1]
        ranked = sorted(by_plugin.items(), key=lambda item: -item[1])
        rows = [(plugin or "no plugin", f"{value:.6g}") for plugin, value in ranked]
        return [Table([Column("plugin"), Column("distance", "right")], rows)] if rows else []

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each plugin."""
        import polars as pl  # noqa: PLC0415  slow to load

        by_plugin = self._values()[1]
        columns = {"plugin": list(by_plugin), "distance": [float(value) for value in by_plugin.values()]}
        return pl.DataFrame(columns, {"plugin": pl.String, "distance": pl.Float64})

    def to_dict(self) -> dict[str, Any]:
        """Return the distance as plain data, ready for JSON."""
        total, by_plugin = self._values()
        return {"distance": self._called, "value": total, "normalised": self.normalised, "by_plugin": dict(by_plugin)}
