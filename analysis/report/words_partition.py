"""The partition's sentences and numbers: what was found, why something was measured, what a metric costs. No markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from unperturbed.analysis.report.words import listing, number, percent, plural

if TYPE_CHECKING:
    from unperturbed.analysis.partition import Cost, Measurement, Plan

__all__ = [
    "STAGES",
    "CostKind",
    "alone_costs",
    "cost_kind",
    "cost_words",
    "forecast_words",
    "measurement_verdict",
    "new_runs",
    "ordered_metrics",
    "plan_sentence",
]

STAGES = {
    "together": "all together",
    "alone": "alone",
    "search": "search",
    "improve": "fewer subsets?",
    "baseline": "fresh baseline",
    "certify": "certify",
}
"""Why something is measured, as a reader is told."""

CostKind = Literal["instructions", "cycles", "time", "events"]
_KINDS: tuple[CostKind, ...] = ("instructions", "cycles", "time", "events")
_MOST_NAMED = 4


def plan_sentence(plan: Plan) -> str:
    """Say in one sentence which metrics can be measured together, and what becomes of the others."""
    held = sum(len(subset.metrics) for subset in plan.subsets)
    undecided = [metric for each in plan.undecided for metric in each.metrics]
    whole = held + len(plan.unmeasurable) + len(undecided)
    metrics = plural(whole, "software metric")
    in_subsets = "in one subset" if len(plan.subsets) == 1 else f"in {len(plan.subsets)} subsets"
    if not held:
        lead = f"No subset of the {metrics} is certified to leave the program unperturbed"
    elif held == whole:
        which = "The one software metric" if whole == 1 else f"All {metrics}"
        lead = f"{which} can be measured, {in_subsets} certified to leave the program unperturbed"
    else:
        lead = f"{held} of {metrics} can be measured, {in_subsets} certified to leave the program unperturbed"
    rest = []
    if plan.unmeasurable:
        rest.append(f"{_named([each.metric for each in plan.unmeasurable])} cannot be measured at this interval")
    if undecided:
        rest.append(f"{_named(undecided)} {'is' if len(undecided) == 1 else 'are'} undecided")
    return f"{'; '.join([lead, *rest])}."


def _named(metrics: Sequence[str]) -> str:
    return listing(metrics) if len(metrics) <= _MOST_NAMED else f"{len(metrics)} metrics"


def forecast_words(plan: Plan) -> str:
    """Say how many runs were used, and what had been predicted."""
    predicted = plan.forecast
    return (
        f"{plural(plan.runs_used, 'run')} after the first baseline; predicted were {predicted.low:,} if all metrics went together, "
        f"{predicted.expected:,} if about five did, {predicted.high:,} if no two did."
    )


def alone_costs(plan: Plan) -> dict[str, Cost]:
    """Return what each metric cost that was measured alone, by its last runs."""
    return {each.subset[0]: each.outcome.cost for each in plan.history if each.outcome is not None and len(each.subset) == 1}


def cost_kind(costs: Sequence[Cost]) -> CostKind | None:
    """Return the kind of cost that is known of most, the earlier one of equals; None where nothing is known."""
    known = {kind: sum(getattr(cost, kind) is not None for cost in costs) for kind in _KINDS}
    best = max(_KINDS, key=lambda kind: known[kind])
    return best if known[best] else None


def cost_words(cost: Cost | None, kind: CostKind | None) -> str:
    """Write what measuring added: `+1.2 %`, events as a number, `–` where it is unknown."""
    value = None if cost is None or kind is None else getattr(cost, kind)
    if value is None:
        return "–"
    return number(value, 3) if kind == "events" else percent(value)


def ordered_metrics(plan: Plan, costs: Mapping[str, Cost], kind: CostKind | None) -> list[str]:
    """Return every metric: subset by subset, the costly ones of each first, then what cannot be measured, then what is undecided."""

    def by_cost(metrics: Sequence[str]) -> list[str]:
        known = {metric: getattr(costs[metric], kind) for metric in metrics if kind is not None and metric in costs}
        return sorted(metrics, key=lambda metric: -(known.get(metric) or 0.0))

    found = [metric for subset in plan.subsets for metric in by_cost(subset.metrics)]
    found += by_cost([each.metric for each in plan.unmeasurable])
    return found + [metric for each in plan.undecided for metric in by_cost(each.metrics)]


def new_runs(plan: Plan) -> list[int]:
    """Return the runs that each measurement of the history took."""
    before = [0, *(each.runs_used for each in plan.history)]
    return [after - earlier for earlier, after in pairwise(before)]


def measurement_verdict(measurement: Measurement) -> str:
    """Name what a measurement found: a verdict, or whether it certified."""
    if measurement.outcome is None:
        return ""
    if measurement.stage != "certify":
        return measurement.outcome.verdict
    return "certified" if measurement.outcome.unperturbed else "not certified"
