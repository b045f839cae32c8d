"""How long a search may go on: its settings, and the limits on runs and hours that are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Limits", "Settings", "Stop"]


class Stop(Exception):  # noqa: N818  no error: the search ends here, and what was found is kept
    """The next measurement would go over a limit. It never leaves this package."""


@dataclass(frozen=True)
class Settings:
    """How a search measures.

    Attributes
    ----------
    repetitions : of each candidate at first, in each pass; at least 3.
    max_repetitions : of a candidate that is undecided, and of a certification.
    alpha : the chance that the plan holds any invalid certificate is at most this; see `certify`.
    max_runs : limit on all runs, never exceeded; None for none.
    max_hours : nothing is begun that would probably take longer than this altogether, by the time that runs took so far; None for none.
    seconds_per_run : expected, for the forecast and until runs have been timed; None when unknown.
    seed : of what is drawn by a strategy.

    Raises
    ------
    ValueError
        A number is out of range.
    """

    repetitions: int = 3
    max_repetitions: int = 20
    alpha: float = 0.05
    max_runs: int | None = None
    max_hours: float | None = None
    seconds_per_run: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.repetitions < 3:
            raise ValueError(f"repetitions is {self.repetitions}: at least 3 are needed to see how runs vary")
        if self.max_repetitions < self.repetitions:
            raise ValueError(
                f"max_repetitions is {self.max_repetitions}, and every candidate is run {self.repetitions} times: give at least that"
            )
        if not 0 < self.alpha < 0.5:
            raise ValueError(f"alpha is {self.alpha}: give a level between 0 and 0.5, such as 0.05")
        for name in ("max_runs", "max_hours", "seconds_per_run"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}: give a positive number, or None")


class Limits:
    """Counts runs and hours, and stops before a limit would be exceeded.

    Parameters
    ----------
    settings : with the limits.
    clock : seconds, monotone.

    Attributes
    ----------
    runs : made so far.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings, self._clock, self._began = settings, clock, clock()
        self.runs = 0

    @property
    def any(self) -> bool:
        """Return whether there is a limit at all."""
        return self._settings.max_runs is not None or self._settings.max_hours is not None

    @property
    def hours(self) -> float:
        """Return the hours since the search began."""
        return (self._clock() - self._began) / 3600

    def require(self, runs: int, reserve: int = 0) -> None:
        """Ask for runs, with `reserve` more kept back, though never more than half of what there is.

        Raises
        ------
        Stop
            They would go over a limit.
        """
        most, hours = self._settings.max_runs, self._settings.max_hours
        if most is not None and self.runs + runs + min(reserve, most // 2) > most:
            kept = f", and {min(reserve, most // 2)} are kept for certification" if reserve else ""
            raise Stop(f"max_runs is {most}: {self.runs} runs are made, the next subset needs {runs}{kept}")
        if hours is not None and self.hours + self._hours_of(runs) + min(self._hours_of(reserve), hours / 2) > hours:
            raise Stop(
                f"max_hours is {hours:g}: {self.hours:.2f} h have passed, and the next {runs} runs would probably go over it"
            )

    def _hours_of(self, runs: int) -> float:
        # What the user expects counts as one run that was timed, so that one odd first run does not end a search.
        expected = self._settings.seconds_per_run
        timed = self.runs + (expected is not None)
        return runs * (self.hours + (expected or 0.0) / 3600) / timed if timed else 0.0
