"""Noise floor of a program on a host: smallest visible changes of totals and correlations, and how long runs take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.floor import resolution_text
from unperturbed.analysis.floor.resolution import RUNS, Resolution, resolution_of_correlation, resolution_of_total
from unperturbed.analysis.totals import TotalChange
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.analysis.perturbation import Verdict
    from unperturbed.common.table import Table

special = LazyLibrary("scipy.special")

_KNOWN = 0.9
"""Probability that the true noise lies between the factors of `NoiseFloor.doubt`."""


@dataclass(frozen=True, repr=False)
class NoiseFloor(Framed, Result):
    """Noise floor of a program on a host: the changes that runs can show, and how long runs take."""

    resolutions: tuple[Resolution, ...]  # Totals, then correlations
    alpha: float  # Level of each family of tests
    seconds: float | None = None  # Measured wall-clock time of one run; None if unknown

    def seconds_for(self, runs: int) -> float | None:
        """Return the seconds that `runs` runs in each group take; None if unknown."""
        return None if self.seconds is None else 2 * runs * self.seconds

    @property
    def runs(self) -> int | None:
        """Return how many runs in each group suffice for all tolerances except those of times; None if none suffice."""
        wanted = [resolution.runs for resolution in self.resolutions if not resolution_text.is_time(resolution)]
        return None if not wanted or None in wanted else max(count for count in wanted if count is not None)

    @property
    def doubt(self) -> tuple[float, float]:
        """Return the factors of the measured noise between which the true noise lies (90 %, for independent runs)."""
        freedom = min(
            (resolution.freedom for resolution in self.resolutions if math.isfinite(resolution.freedom)), default=1.0
        )
        ends = (special.chdtri(freedom, 1 - end) for end in ((1 + _KNOWN) / 2, (1 - _KNOWN) / 2))
        low, high = (math.sqrt(freedom / end) for end in ends)
        return low, high

    def headline(self) -> str:
        """Return how many runs suffice for the tolerances, and which total or correlation needs the most."""
        return resolution_text.headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return a table with one row for each total and correlation, sorted by runs needed."""
        return (resolution_text.floor_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each combination of a total or correlation and a number of runs."""
        import polars as pl  # noqa: PLC0415  slow to load

        rows = [
            {
                "kind": resolution.kind,
                "first": resolution.metrics[0],
                "second": resolution.metrics[-1],
                "runs": runs,
                "smallest": smallest,
                "tolerance": resolution.tolerance,
                "seconds": self.seconds_for(runs),
            }
            for resolution in self.resolutions
            for runs, smallest in zip(RUNS, resolution.smallest, strict=True)
        ]
        return pl.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the floor as JSON types."""
        low, high = self.doubt
        return {
            "runs": list(RUNS),
            "seconds": [self.seconds_for(runs) for runs in RUNS],
            "seconds_per_run": self.seconds,
            "enough_runs": self.runs,
            "noise_known_within": [low, high],
            "resolutions": [asdict(resolution) for resolution in self.resolutions],
        }


def measure_floor(
    verdicts: Sequence[Verdict],
    totals: Mapping[str, Sequence[TotalChange]],
    *,
    alpha: float,
    seconds: float | None = None,
) -> NoiseFloor:
    """Return the noise floor, computed from the comparisons of one or more configurations.

    Of several comparisons of the same total or correlation, the middle one counts; see `_joined`.
    """
    resolutions: dict[tuple[str, tuple[str, ...]], list[Resolution]] = {}
    for changes in totals.values():
        for change in changes:
            if math.isfinite(change.high):
                made = resolution_of_total(change, alpha, len(changes))
                resolutions.setdefault((made.kind, made.metrics), []).append(made)
    for verdict in verdicts:
        for correlation in verdict.changes:
            if correlation.more_runs_help:
                made = resolution_of_correlation(correlation, alpha, len(verdict.changes), simulated=verdict.simulated)
                resolutions.setdefault((made.kind, made.metrics), []).append(made)
    return NoiseFloor(tuple(_joined(each) for each in resolutions.values()), alpha, seconds)


def _joined(each: Sequence[Resolution]) -> Resolution:
    """Sort resolutions by the smallest change that ten runs show, and return the middle one."""
    return sorted(each, key=lambda resolution: resolution.smallest[RUNS.index(10)])[len(each) // 2]
