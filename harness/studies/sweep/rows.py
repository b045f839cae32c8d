"""The rows of a sweep as manifests hold them: which are complete, from which runs, and which are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unperturbed.collectors.data import Metric
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.plan import FURTHER_NATIVE, NATIVE
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.parameters import TIME_COLUMNS, Value


@dataclass(frozen=True)
class Missing:
    """A row that is missing from a sweep's table."""

    # point, repetition: Which row, both counted from 1.
    point: int
    repetition: int
    parameters: Mapping[str, Value]  # The point's values
    why: str  # The reason
    failed: bool  # Whether a run of it failed; otherwise its runs were not all made


@dataclass(frozen=True)
class Recorded:
    """What one manifest holds of a sweep: that of the sweep, or that of one node's part of it."""

    # Of each complete row, by point and repetition: the run of each step.
    rows: Mapping[tuple[int, int], Mapping[str, str]]
    totals: Mapping[str, Mapping[str, Any]]  # What each run gave
    missing: tuple[Missing, ...]  # The rows that are not complete
    metrics: Mapping[str, Metric]  # What was measured
    starting: Mapping[str, float] | None  # Least time of starting a program that does nothing
    node: str = ""  # The node that measured it; empty where there is but one host


def read_recorded(
    spec: CampaignSpec,
    manifest: Manifest,
    steps: Collection[str],
    points: Sequence[Mapping[str, Value]],
    own: Collection[int],
    *,
    node: str = "",
    lost: str = "",
) -> Recorded:
    """Read what a manifest holds of a sweep.

    `steps`: Names of what is run for each row; empty where no run was planned.
    `points`: The points of the sweep, in the order of their numbers.
    """
    runs: dict[tuple[int, int], dict[str, RunState]] = defaultdict(dict)
    for state in manifest.runs():
        if state.run.point in own:
            runs[state.run.point, state.run.repetition][state.run.pass_name] = state
    whole = {
        row: {step: runs[row][step].run.id for step in steps if _is_done(runs[row].get(step))}
        for row in sorted(runs)
        if steps and all(_is_done(runs[row].get(step)) or _can_wait(step, runs[row].get(step)) for step in steps)
    }
    wanted = [(point, number) for point in own for number in range(1, spec.campaign.repetitions + 1)]
    metrics = {
        entry["name"]: Metric(**{**entry, "components": tuple(entry["components"])})
        for step in steps
        for entry in manifest.fact(f"columns:{step}") or ()
    }
    missing = tuple(_missing(row, runs.get(row, {}), points, node, lost) for row in wanted if row not in whole)
    return Recorded(whole, manifest.totals(), missing, metrics, manifest.fact("starting"), node)


def _is_done(state: RunState | None) -> bool:
    return state is not None and state.state == "done"


def _can_wait(step: str, state: RunState | None) -> bool:
    """Return whether a row is complete without a run that is still to be made: it would only be timed once more."""
    return step.startswith(FURTHER_NATIVE) and (state is None or state.state != "failed")


def _missing(
    row: tuple[int, int], runs: Mapping[str, RunState], points: Sequence[Mapping[str, Value]], node: str, lost: str
) -> Missing:
    failed = [state for state in runs.values() if state.state == "failed"]
    why = (
        f"run {failed[0].run.id} ({failed[0].run.pass_name}{node and f', {node}'}): {failed[0].error}"
        if failed
        else lost or "its runs were not all made"
    )
    return Missing(row[0], row[1], points[row[0] - 1], why, bool(failed))


def count_native_runs(row: Mapping[str, str]) -> int:
    """Return how many runs of the untouched program a row has its times from."""
    return sum(step == NATIVE or step.startswith(FURTHER_NATIVE) for step in row)


def totals_of_row(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the runs of a row gave together; of times, the least."""
    together = {name: value for each in given for name, value in each.items()}
    return together | {name: min(each[name] for each in given if name in each) for name in TIME_COLUMNS}
