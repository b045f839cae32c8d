"""Warm-up of a campaign's runs: found in every campaign, and left out of the checks if the spec asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unperturbed.analysis.warm_up import Starts, find_starts
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import counted, listing
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE

_WARM_UP = 0.5  # Largest share of a run that a warm-up usually has
_USUAL = 0.75  # Share of the baseline's runs that must have a warm-up for a note about it
_FEW = 0.2  # Share of a configuration's runs that may never become steady, so that the others are cut


@dataclass(frozen=True)
class WarmUp:
    """The warm-up of a campaign's runs."""

    traces: Traces  # The runs to check: without their warm-up if the spec asks for it
    # Number of intervals of warm-up in the first pass, by configuration; only configurations that have one.
    intervals: Mapping[str, int]
    is_left_out: bool  # Whether the runs to check lack their warm-up
    notes: tuple[str, ...]  # Sentences for the reader

    def to_dict(self) -> dict[str, Any]:
        """Return the number of intervals by configuration, and whether they were left out, as JSON types."""
        return {"intervals": dict(self.intervals), "left_out": self.is_left_out}


def find_warm_up(spec: CampaignSpec, traces: Traces) -> WarmUp:
    """Find the warm-up of every configuration in each pass, and leave it out if the spec asks for it.

    All runs of a configuration lose the same number of intervals in a pass, as many as its longest warm-up has. If one
    configuration is not steady, no run loses any.
    """
    wanted, left_out = spec.measure.after == "steady", False
    kept: dict[str, Mapping[str, tuple[Trace, ...]]] = {}
    notes: dict[str, None] = {}
    intervals: dict[str, int] = {}
    for pass_name, by_configuration in traces.items():
        starts = {name: find_starts(runs, _metrics(spec, runs[0])) for name, runs in by_configuration.items() if runs}
        unsteady = [name for name, each in starts.items() if _is_unsteady(each)]
        cut = {name: 0 if unsteady else each.longest for name, each in starts.items()}
        if not kept:
            intervals = {name: begins for name, begins in cut.items() if begins}
        if wanted:
            left_out |= any(cut.values())
            notes |= dict.fromkeys(_left_out(starts, unsteady))
            kept[pass_name] = {
                name: tuple(trace[cut.get(name, 0) :] for trace in runs) for name, runs in by_configuration.items()
            }
            continue
        kept[pass_name] = by_configuration
        if not unsteady and BASELINE in starts:
            notes |= dict.fromkeys(_found(spec, starts[BASELINE]))
    return WarmUp(kept, intervals, left_out, tuple(notes))


def without_warm_up(spec: CampaignSpec, runs: Sequence[Trace]) -> list[Trace]:
    """Return runs of one configuration as the spec wants them checked: without their warm-up, if it asks for that."""
    if spec.measure.after == "start" or not runs:
        return list(runs)
    starts = find_starts(runs, _metrics(spec, runs[0]))
    return [trace[0 if _is_unsteady(starts) else starts.longest :] for trace in runs]


def _is_unsteady(starts: Starts) -> bool:
    return starts.never > _FEW * len(starts.runs)


def _metrics(spec: CampaignSpec, trace: Trace) -> list[str]:
    return list(trace if spec.imported is not None else trace.names("hardware", "simulated"))


def _found(spec: CampaignSpec, baseline: Starts) -> Iterator[str]:
    """Yield a note if the start of most baseline runs differs from the rest."""
    if baseline.warm_up < _USUAL * len(baseline.runs):
        return
    share = baseline.longest / max(start.intervals for start in baseline.runs)
    how = "`after: steady` under `measure`" if spec.imported is None else "`unperturbed import` with `--after steady`"
    advice = f"; {how} leaves the start out"
    if share > _WARM_UP:
        advice = ": so long a start is probably a phase of the program, and no warm-up"
    yield (
        f"The start of the baseline's runs differs from the rest: their first {counted(baseline.longest, 'interval')} "
        f"({100 * share:.0f} %). Correlations cover whole runs{advice}."
    )


def _left_out(starts: Mapping[str, Starts], unsteady: list[str]) -> Iterator[str]:
    """Yield notes on what was left out, and on runs that are never steady."""
    never = listing(
        f"{each.never} of {counted(len(each.runs), 'run')} of {name}" for name, each in starts.items() if each.never
    )
    if unsteady:
        yield (
            f"`after: steady` left nothing out: {never} never became steady, because phases differ until the end, or "
            "the steady part is shorter than 40 % of the run."
        )
        return
    begins = [each.longest for each in starts.values()]
    if not any(begins):
        yield "`after: steady` left nothing out: no run's start differs from the rest."
        return
    most = max(start.intervals for each in starts.values() for start in each.runs)
    span = str(begins[0]) if len(set(begins)) == 1 else f"{min(begins)} to {max(begins)}"
    yield (
        f"The first {span} intervals of each run, of at most {most:,}, are left out of correlations as warm-up "
        "(`after: steady`); totals are those of whole runs."
    )
    if never:
        yield f"{never} never became steady, and lost as many intervals as the others."
