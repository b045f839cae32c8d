"""Verdicts on strata of a run, MPI ranks or threads: on each, and on all of one kind together.

A stratum has its own baseline, as a node has. Unlike nodes, the strata of a run are not independent: a change in one
may delay the others. So the verdict on all of them together is no mean over them: it is the verdict on the changes of
all as one family, corrected by Holm, which holds for any dependence. The sum over strata has a verdict of its own, that
of the campaign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from unperturbed.analysis.nodes.combine import Combined
from unperturbed.analysis.perturbation import SEVERITY, Verdict, VerdictName, combine, ranked_changes, verdict_cell
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import span
from unperturbed.errors import DataError

Kind = Literal["rank", "thread"]


@dataclass(frozen=True, kw_only=True)
class StrataVerdicts:
    """Verdicts on the strata of one kind."""

    kind: Kind
    combined: tuple[Combined, ...]  # One for each configuration; its nodes are the strata: `rank 0`, `worker#2`
    notes: tuple[str, ...] = ()

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations with this or a more serious verdict on all strata together."""
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(each.configuration for each in self.combined if each.these.verdict in serious)

    def tables(self) -> tuple[Table, ...]:
        """Return the verdicts by stratum."""
        return (verdicts_by_stratum(self.kind, self.combined),) if self.combined else ()

    def sentences(self) -> tuple[str, ...]:
        """Return notes on the tables, one sentence each."""
        return self.notes

    def to_dict(self) -> dict[str, Any]:
        """Return the verdicts as JSON types."""
        return {
            "verdicts": [by_stratum_to_dict(self.kind, each) for each in self.combined],
            "notes": list(self.sentences()),
        }


def combine_strata(verdicts: Mapping[str, Verdict]) -> Combined:
    """Combine the verdicts of several strata on one configuration: on each, and on all as one family of changes."""
    if not verdicts:
        raise DataError("no rank or thread to combine: give the verdict of at least one")
    first = next(iter(verdicts.values()))
    decided = decide([change for verdict in verdicts.values() for change in verdict.changes], alpha=first.alpha)
    lost = tuple((name, f"{why} ({stratum})") for stratum, verdict in verdicts.items() for name, why in verdict.lost)
    together = replace(
        first,
        verdict=combine((change.verdict for change in decided), lost=bool(lost)),
        changes=decided,
        excluded=(),
        lost=lost,
        notes=(),
    )
    return Combined(first.configuration, tuple(verdicts), dict(verdicts), together, None, {}, {})


def verdicts_by_stratum(kind: Kind, combined: Sequence[Combined]) -> Table:
    """Return a table with one row for each stratum and configuration, and one for all strata together."""
    rows: list[list[Cell | str]] = []
    for each in combined:
        for scope, verdict in (*each.by_node.items(), (f"all {kind}s", each.these)):
            ranked = ranked_changes(verdict.changes)
            change = ranked[0] if ranked else None
            rows.append(
                [
                    each.configuration,
                    scope,
                    verdict_cell(verdict.verdict),
                    "" if change is None else f"{change.check} ρ of {change.label}",
                    "" if change is None else f"{change.effect:+.3f}",
                    "" if change is None else span(change.low, change.high),
                ]
            )
    heads = [Column(head) for head in ("configuration", kind, "verdict", "most serious change")]
    return Table([*heads, Column("ρ", "right"), Column("interval", "right")], rows, f"Verdicts by {kind}")


def by_stratum_to_dict(kind: Kind, combined: Combined) -> dict[str, Any]:
    """Return the verdicts on one configuration by stratum as JSON types."""
    return {
        "configuration": combined.configuration,
        f"all_{kind}s": combined.these.verdict,
        f"by_{kind}": {stratum: verdict.to_dict() for stratum, verdict in combined.by_node.items()},
    }
