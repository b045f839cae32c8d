"""Text of a partition: headline, tables, purposes of measurements, and costs of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from unperturbed.analysis.perturbation import verdict_cell
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted, listing, number, percent

if TYPE_CHECKING:
    from unperturbed.analysis.partition import CertifiedSubset, Cost, Measurement, Plan


STAGES = {
    "rewriting": "without counting",
    "together": "all together",
    "alone": "alone",
    "search": "search",
    "improve": "fewer subsets?",
    "baseline": "fresh baseline",
    "certify": "certify",
}
"""Purpose of a measurement, as reports show it."""

TOO_CLOSE = "but so close to the tolerance that a certificate would need too many runs"
"""Why the search goes on although a candidate is unperturbed."""

CostKind = Literal["instructions", "cycles", "time", "events"]
_KINDS: tuple[CostKind, ...] = ("instructions", "cycles", "time", "events")
_MOST_NAMED = 4


def validity(plan: Plan) -> str:
    """Return what a plan's certificates are valid for, in two sentences: the second is about builds."""
    said = "Certificates are valid for this program, input, interval and host."
    if plan.kind == "hardware":
        return (
            f"{said} They are about the metrics that every pass counts: a metric that one pass counts is compared with "
            "nothing."
        )
    if not plan.one_build:
        return (
            f"{said} Each certificate applies to one build only: another build of the same metrics has other "
            "addresses, and its verdict may differ."
        )
    if plan.unmeasurable or plan.undecided:
        return (
            f"{said} The plan's campaign makes builds without the sites of the metrics left out, so verdicts may "
            "differ."
        )
    return f"{said} The plan's campaign runs the same code."


def plan_headline(plan: Plan) -> str:
    """Return one sentence on the metrics that can be measured together, and on those that are left out."""
    held = sum(len(subset.metrics) for subset in plan.subsets)
    undecided = [metric for each in plan.undecided for metric in each.metrics]
    whole = held + len(plan.unmeasurable) + len(undecided)
    metrics = counted(whole, f"{plan.kind} metric")
    is_one = len(plan.subsets) == 1
    in_subsets = "in one subset" if is_one else f"in {len(plan.subsets)} subsets"
    what = "the program" if not plan.families else "its build" if is_one else "their builds"
    if not held:
        lead = f"No subset of the {metrics} is certified to leave the program unperturbed"
    elif held == whole:
        which = f"The one {plan.kind} metric" if whole == 1 else f"All {metrics}"
        lead = f"{which} can be measured, {in_subsets} certified to leave {what} unperturbed"
    else:
        lead = f"{held} of {metrics} can be measured, {in_subsets} certified to leave {what} unperturbed"
    rest = []
    if plan.unmeasurable:
        rest.append(f"{_named([each.metric for each in plan.unmeasurable])} cannot be measured at this interval")
    if undecided:
        rest.append(f"{_named(undecided)} {'is' if len(undecided) == 1 else 'are'} undecided")
    return f"{'; '.join([lead, *rest])}."


def _named(metrics: Sequence[str]) -> str:
    return listing(metrics) if len(metrics) <= _MOST_NAMED else f"{len(metrics)} metrics"


def plan_table(plan: Plan) -> Table:
    """Return a table with one row for each certified subset: metrics, runs, overhead and largest change.

    Parameters
    ----------
    plan : Plan
        Result of a search.

    Returns
    -------
    Table
        The largest subset first; no rows if none is certified.
    """
    on_nodes = any(subset.node for subset in plan.subsets)
    columns = (
        Column("subset"),
        Column("metrics"),
        Column("runs", "right", "certifying runs"),
        *([Column("node", meaning="node that made the certifying runs")] if on_nodes else []),
        Column("instructions", "right", "instructions that measuring the subset adds to a run"),
        Column("largest change", "right", "change of a correlation with the farthest bound, and its interval"),
    )
    rows = [
        [
            subset.name,
            ", ".join(subset.metrics),
            str(len(subset.runs)),
            *([subset.node] if on_nodes else []),
            "" if subset.cost.instructions is None else percent(subset.cost.instructions),
            _largest_change(subset),
        ]
        for subset in plan.subsets
    ]
    what = "their build, without counting," if plan.families else "the program"
    return Table(columns, rows, f"Subsets certified to leave {what} unperturbed")


def families_table(plan: Plan) -> Table:
    """Return a table with one row for each build that leaves the program alone without counting."""
    columns = (
        Column("build"),
        Column("metrics", meaning="metrics whose sites the build has"),
        Column("runs", "right", "certifying runs, which count nothing"),
        Column("instructions", "right", "instructions that the sites add to a run of the untouched program"),
        Column("largest change", "right", "change of a correlation with the farthest bound, and its interval"),
    )
    rows = [
        [
            family.name,
            ", ".join(family.metrics),
            str(len(family.runs)),
            "" if family.cost.instructions is None else percent(family.cost.instructions),
            _largest_change(family),
        ]
        for family in plan.families
    ]
    return Table(columns, rows, "Builds certified to leave the program unperturbed without counting")


def _largest_change(subset: CertifiedSubset) -> str:
    changes = subset.verdict.changes if subset.verdict is not None else ()
    if not changes:
        return ""
    widest = max(changes, key=lambda change: max(-change.low, change.high))
    return f"{widest.effect:+.3f} ({widest.low:+.3f} … {widest.high:+.3f})"


def left_out_table(plan: Plan) -> Table:
    """Return a table with one row for each metric or subset without a certificate: reason and suggestion."""
    rows: list[list[Cell | str]] = [
        [each.metric, verdict_cell("perturbed"), each.reason, each.advice] for each in plan.unmeasurable
    ]
    rows += [[", ".join(each.metrics), verdict_cell("undecided"), each.reason, ""] for each in plan.undecided]
    columns = (Column("metrics"), Column("verdict"), Column("reason"), Column("suggestion"))
    return Table(columns, rows, "Metrics left out, and why")


def forecast_words(plan: Plan) -> str:
    """Return a sentence on the number of runs, and on the numbers that were predicted."""
    predicted = plan.forecast
    return (
        f"The search made {counted(plan.runs_used, 'run')} after the first baseline. The prediction was "
        f"{counted(predicted.low, 'run')} if one subset holds all metrics, {predicted.expected:,} if each subset holds "
        f"about five, and {predicted.high:,} if each metric needs a subset of its own."
        + (f" A limit stops the search after {counted(predicted.limit, 'run')}." if predicted.limit is not None else "")
    )


def alone_costs(plan: Plan) -> dict[str, Cost]:
    """Return the cost of each metric that was measured alone, from its last measurement."""
    return {
        each.subset[0]: each.outcome.cost for each in plan.history if each.outcome is not None and len(each.subset) == 1
    }


def cost_kind(plan: Plan) -> CostKind | None:
    """Return the kind of cost that most metrics and subsets have; None if there are no costs."""
    costs = [*alone_costs(plan).values(), *(subset.cost for subset in plan.subsets)]
    known = {kind: sum(getattr(cost, kind) is not None for cost in costs) for kind in _KINDS}
    best = max(_KINDS, key=lambda kind: known[kind])
    return best if known[best] else None


def cost_words(cost: Cost | None, kind: CostKind | None) -> str:
    """Format the overhead of measuring: `+1.2 %`, events as a number, `–` if unknown."""
    value = None if cost is None or kind is None else getattr(cost, kind)
    if value is None:
        return "–"
    return number(value, 3) if kind == "events" else percent(value)


def ordered_metrics(plan: Plan) -> list[str]:
    """Return all metrics: by subset, then unmeasurable, then undecided ones; in each group, the most costly first."""
    costs, kind = alone_costs(plan), cost_kind(plan)

    def by_cost(metrics: Sequence[str]) -> list[str]:
        known = {metric: getattr(costs[metric], kind) for metric in metrics if kind is not None and metric in costs}
        return sorted(metrics, key=lambda metric: -(known.get(metric) or 0.0))

    ordered = [metric for subset in plan.subsets for metric in by_cost(subset.metrics)]
    ordered += by_cost([each.metric for each in plan.unmeasurable])
    return ordered + [metric for each in plan.undecided for metric in by_cost(each.metrics)]


def new_runs(plan: Plan) -> list[int]:
    """Return the number of runs of each measurement in the history."""
    before = [0, *(each.runs_used for each in plan.history)]
    return [after - earlier for earlier, after in pairwise(before)]


def measurement_verdict(measurement: Measurement) -> str:
    """Return the result of a measurement: a verdict, or whether a subset was certified."""
    if measurement.outcome is None:
        return ""
    if measurement.stage != "certify":
        return measurement.outcome.verdict
    return "certified" if measurement.outcome.unperturbed else "not certified"
