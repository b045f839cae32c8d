"""Runs on a disturbed host: time stolen by other guests, swapping, far more context switches than in the other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from unperturbed.harness.manifest import Manifest, RunState

__all__ = ["disturbances", "disturbed_runs"]

_STOLEN = 0.02
"""Share of a run's time that other guests of the machine may take."""

_SWITCHES = 5.0
"""Times the median rate of context switches that a run may have, and not fewer a second than `_SWITCHES_LEAST`."""
_SWITCHES_LEAST = 500.0


def disturbed_runs(manifest: Manifest) -> dict[str, str]:
    """Return the finished runs of a campaign that something disturbed, with what it was.

    Counts of a simulator do not depend on what else the host does, so that no simulated run is called disturbed.
    """
    sources = {item["name"]: item["source"] for item in manifest.fact("passes") or []}
    return disturbances([state for state in manifest.runs("done") if sources.get(state.run.pass_name) != "simulated"])


def disturbances(states: Sequence[RunState]) -> dict[str, str]:
    """Judge runs by the host's state before and after each; what a host does not tell is not judged."""
    rates = {state.run.id: rate for state in states if (rate := _rate(state, "context_switches")) is not None}
    usual = median(rates.values()) if rates else 0.0
    found = {}
    for state in states:
        said = []
        stolen = _rate(state, "steal_s")
        if stolen is not None and stolen > _STOLEN:
            said.append(f"{stolen:.0%} of its time stolen by other guests of the machine")
        swapped = _grown(state, "swap_used_mib")
        if swapped is not None and swapped > 0:
            said.append(f"{swapped:.0f} MiB swapped out meanwhile")
        switches = rates.get(state.run.id, 0.0)
        if switches > max(_SWITCHES * usual, _SWITCHES_LEAST):
            said.append(f"{switches:,.0f} context switches a second, where {usual:,.0f} are usual")
        if said:
            found[state.run.id] = ", ".join(said)
    return found


def _grown(state: RunState, name: str) -> float | None:
    before, after = _of(state.host_before, name), _of(state.host_after, name)
    return None if before is None or after is None else after - before


def _rate(state: RunState, name: str) -> float | None:
    grown = _grown(state, name)
    return None if grown is None or not state.seconds else grown / state.seconds


def _of(host: Mapping[str, Any] | None, name: str) -> float | None:
    value = (host or {}).get(name)
    return None if value is None else float(value)
