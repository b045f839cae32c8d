"""The noise floor of a program on a host: the resolutions of all totals and correlations, and what runs cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.floor import describe
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
"""Probability of the range in which the true noise lies."""


@dataclass(frozen=True, repr=False)
class NoiseFloor(Framed, Result):
    """The noise floor of a program on a host: what runs can show, and what they cost."""

    resolutions: tuple[Resolution, ...]  # Totals, then correlations
    alpha: float  # Level of each family of tests
    seconds: float | None = None  # Wall-clock time of one run, measured; None where unknown

    def seconds_for(self, runs: int) -> float | None:
        """Return how long runs of both sides take."""
        return None if self.seconds is None else 2 * runs * self.seconds

    @property
    def runs(self) -> int | None:
        """Return the runs that suffice for every tolerance but those of times; None where some cannot be reached."""
        wanted = [found.runs for found in self.resolutions if not describe.is_time(found)]
        return None if not wanted or None in wanted else max(count for count in wanted if count is not None)

    @property
    def doubt(self) -> tuple[float, float]:
        """Return the factors between which the true noise lies with probability 90 %, if runs are independent."""
        freedom = min((found.freedom for found in self.resolutions if math.isfinite(found.freedom)), default=1.0)
        ends = (special.chdtri(freedom, 1 - end) for end in ((1 + _KNOWN) / 2, (1 - _KNOWN) / 2))
        low, high = (math.sqrt(freedom / end) for end in ends)
        return low, high

    def headline(self) -> str:
        """Return how many runs suffice for the tolerances, and what limits them."""
        return describe.headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return one row for each total and correlation, the noisiest first."""
        return (describe.floor_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each total or correlation and number of runs."""
        import polars as pl  # noqa: PLC0415  slow to load

        rows = [
            {
                "kind": found.kind,
                "first": found.metrics[0],
                "second": found.metrics[-1],
                "runs": runs,
                "smallest": smallest,
                "tolerance": found.tolerance,
                "seconds": self.seconds_for(runs),
            }
            for found in self.resolutions
            for runs, smallest in zip(RUNS, found.smallest, strict=True)
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
            "resolutions": [asdict(found) for found in self.resolutions],
        }


def measure_floor(
    verdicts: Sequence[Verdict],
    totals: Mapping[str, Sequence[TotalChange]],
    *,
    alpha: float,
    seconds: float | None = None,
) -> NoiseFloor:
    """Return the noise floor that the comparisons of one or more configurations show.

    Several comparisons of the same total or correlation give the root mean square of their standard errors.
    """
    found: dict[tuple[str, tuple[str, ...]], list[Resolution]] = {}
    for changes in totals.values():
        for change in changes:
            if math.isfinite(change.high):
                made = resolution_of_total(change, alpha, len(changes))
                found.setdefault((made.kind, made.metrics), []).append(made)
    for verdict in verdicts:
        for correlation in verdict.changes:
            if correlation.more_runs_help:
                made = resolution_of_correlation(correlation, alpha, len(verdict.changes))
                found.setdefault((made.kind, made.metrics), []).append(made)
    return NoiseFloor(tuple(_joined(each) for each in found.values()), alpha, seconds)


def _joined(each: Sequence[Resolution]) -> Resolution:
    """Return the resolution of several comparisons: the one in the middle, by what ten runs show."""
    return sorted(each, key=lambda one: one.smallest[RUNS.index(10)])[len(each) // 2]
