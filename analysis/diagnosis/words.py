"""A diagnosis in words: the verdict, times and amounts, as the terminal and the page both say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis.findings import Diagnosis, Finding

__all__ = ["against", "say_amount", "say_change", "say_time"]


def against(diagnosis: Diagnosis) -> str:
    """Return "against 3 references"."""
    return f"against {len(diagnosis.references)} reference" + ("s" if len(diagnosis.references) > 1 else "")


def say_time(ticks: float, unit: str) -> str:
    """Return a time in seconds or milliseconds; in ticks where the unit is unknown."""
    if unit not in TICKS_A_SECOND:
        return f"{ticks:.6g} ticks"
    seconds = ticks / TICKS_A_SECOND[unit]
    return f"{seconds * 1e3:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def say_amount(finding: Finding, value: float, unit: str) -> str:
    """Return a value of what a finding measures: a time, a share or a number.

    Parameters
    ----------
    finding : Finding
    value : float
        In the finding's unit.
    unit : str
        Of the diagnosis' ticks.
    """
    if finding.is_time:
        return say_time(value, unit)
    return f"{value:.1%}" if finding.unit.startswith("of ") else f"{value:.4g}"


def say_change(finding: Finding, change: float, unit: str) -> str:
    """Return how much an event type changed that carries a finding, with its sign: a delay, or occurrences."""
    if finding.is_time:
        return f"{'+' if change >= 0 else ''}{say_time(change, unit)}"
    return f"{change:+.0f}"
