"""Result of a campaign on nodes: verdicts over nodes, and notes for the reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from unperturbed.analysis.nodes.combine import FEWEST_FOR_TYPE, Combined, change_key
from unperturbed.analysis.nodes.strata import Kind, by_stratum_to_dict, verdicts_by_stratum
from unperturbed.analysis.perturbation import SEVERITY, VerdictName, ranked_changes, verdict_cell
from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.total_text import total_table, undecided_totals
from unperturbed.analysis.totals.verdict import joint_verdict
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted, listing, p_value, percent, span

if TYPE_CHECKING:
    import polars as pl


_FRAME_FIELDS = ("check", "first", "second", "effect", "low", "high", "p", "verdict")


@dataclass(frozen=True, repr=False)
class NodeVerdicts(Framed, Result):
    """Verdicts of a campaign on nodes."""

    combined: tuple[Combined, ...]  # One for each configuration
    # Nodes with a baseline that differs from those of the other nodes, and the differing quantities.
    apart: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # Missing parts, differences between nodes; one sentence each
    shams: tuple[str, ...] = ()  # Configurations that count nothing
    # The mean change of each total over the nodes, by configuration.
    totals: Mapping[str, tuple[TotalChange, ...]] = field(default_factory=dict)
    # On the MPI ranks, and on the threads, of all nodes: NODE/rank 0, NODE/worker#2.
    strata: Mapping[Kind, tuple[Combined, ...]] = field(default_factory=dict)

    _page: ClassVar[str] = "unperturbed.analysis.report:render_nodes"

    def headline(self) -> str:
        """Return one line with the number of configurations for each verdict on these nodes."""
        names = [combined.these.verdict for combined in self.combined]
        counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
        nodes = max((len(combined.nodes) for combined in self.combined), default=0)
        return f"{counted(len(names), 'configuration')} on {counted(nodes, 'node')}: {listing(counts) or 'no verdict'}"

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations with this or a more serious verdict on these nodes, without shams."""
        return self._serious(mildest, {combined.configuration: combined.these.verdict for combined in self.combined})

    def totals_at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations with this or a more serious verdict on totals, without shams."""
        return self._serious(mildest, {name: joint_verdict(changes) for name, changes in self.totals.items()})

    def _serious(self, mildest: VerdictName, verdicts: Mapping[str, VerdictName]) -> tuple[str, ...]:
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(name for name, verdict in verdicts.items() if verdict in serious and name not in self.shams)

    def sentences(self) -> tuple[str, ...]:
        """Return notes on the tables, one sentence each."""
        notes = list(self.notes)
        few = {len(combined.nodes) for combined in self.combined if combined.type is None}
        if few:
            notes.append(
                f"These verdicts are for {counted(max(few), 'node')} only. With {FEWEST_FOR_TYPE} or more nodes, the "
                "report also has verdicts for this type of node."
            )
        for combined in self.combined:
            for node, verdict in combined.hangs_on.items():
                notes.append(f"{combined.configuration}: without {node}, the verdict would be {verdict}.")
        for name, changes in self.totals.items():
            reach = [change for change in changes if (change.runs_to_decide or MOST_RUNS + 1) <= MOST_RUNS]
            notes += [f"{name}: {said}." for said in undecided_totals(reach, advice=True)]
        notes += [
            f"The baseline of {node} differs from those of the other nodes: {what}. The runs of {node} are included."
            for node, what in self.apart.items()
        ]
        return tuple(notes)

    def tables(self) -> tuple[Table, ...]:
        """Return the verdicts on all configurations, then the most serious change of each by node, then totals."""
        totals = (total_table(self.totals, "Totals: mean over the nodes"),) if self.totals else ()
        return (
            self._verdicts(),
            *(verdicts_by_stratum(kind, combined) for kind, combined in self.strata.items() if combined),
            *(_by_node(combined) for combined in self.combined if combined.these.changes),
            *totals,
        )

    def _verdicts(self) -> Table:
        rows: list[list[Cell | str]] = []
        for combined in self.combined:
            cells = [verdict_cell(combined.by_node[node].verdict).text for node in combined.nodes]
            rows.append(
                [
                    combined.configuration,
                    verdict_cell(combined.these.verdict),
                    verdict_cell(combined.type.verdict) if combined.type is not None else "too few nodes",
                    *([self._of_totals(combined.configuration)] if self.totals else []),
                    "; ".join(f"{counted(cells.count(cell), 'node')} {cell}" for cell in dict.fromkeys(cells)),
                ]
            )
        of_totals = ("totals of a run",) if self.totals else ()
        heads = ("configuration", "these nodes", "this type of node", *of_totals, "node by node")
        return Table([Column(head) for head in heads], rows, "Verdicts over nodes")

    def _of_totals(self, configuration: str) -> Cell | str:
        changes = self.totals.get(configuration, ())
        return verdict_cell(joint_verdict(changes)) if changes else "not compared"

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each change: on each node, on these nodes, and on their type."""
        import polars as pl  # noqa: PLC0415  slow to load

        rows = []
        for combined in self.combined:
            for scope, verdict in combined.scopes().items():
                rows += [
                    {"configuration": combined.configuration, "scope": scope}
                    | {name: getattr(change, name) for name in _FRAME_FIELDS}
                    for change in verdict.changes
                ]
        return pl.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all verdicts, totals and notes as JSON types."""
        return {
            "nodes": [_as_dict(combined) for combined in self.combined],
            "totals": {name: [change.to_dict() for change in changes] for name, changes in self.totals.items()},
            "apart": dict(self.apart),
            "ranks": [by_stratum_to_dict("rank", combined) for combined in self.strata.get("rank", ())],
            "threads": [by_stratum_to_dict("thread", combined) for combined in self.strata.get("thread", ())],
            "notes": list(self.sentences()),
        }


def _as_dict(combined: Combined) -> dict[str, Any]:
    return {
        "configuration": combined.configuration,
        "these_nodes": combined.these.to_dict(),
        "type_of_node": None if combined.type is None else combined.type.to_dict(),
        "by_node": {node: verdict.verdict for node, verdict in combined.by_node.items()},
        "heterogeneity": [
            {"check": key[0], "first": key[1], "second": key[2], "q": spread.q, "p": spread.p, "i2": spread.i2}
            for key, spread in combined.heterogeneity.items()
        ],
        "verdict_without": dict(combined.hangs_on),
    }


def _by_node(combined: Combined) -> Table:
    """Return a table of the most serious change: one row for each node, and the summaries over nodes."""
    change = ranked_changes(combined.these.changes)[0]
    rows: list[list[Cell | str]] = [
        [scope, f"{scoped.effect:+.3f}", span(scoped.low, scoped.high), verdict_cell(scoped.verdict)]
        for scope, scoped in combined.scopes_of(change)
    ]
    heads = [Column("node"), Column("change of ρ", "right"), Column("interval", "right"), Column("verdict")]
    spread = combined.heterogeneity.get(change_key(change))
    varies = (
        f"; between nodes: I² {percent(spread.i2)}, Q {spread.q:.3g}, p {p_value(spread.p)}"
        if spread is not None
        else ""
    )
    return Table(heads, rows, f"{combined.configuration}: {change.check} ρ of {change.label}{varies}")
