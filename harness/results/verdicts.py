"""The verdicts of a campaign, their tables and their notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from unperturbed.analysis.perturbation import (
    SEVERITY,
    Stability,
    Verdict,
    VerdictName,
    verdict_table,
)
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.verdict import joint_verdict
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result
from unperturbed.common.wording import counted, listing
from unperturbed.harness.results.recorded import Traces

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table


@dataclass(frozen=True, repr=False)
class CampaignVerdicts(Framed, Result):
    """The verdicts of a campaign."""

    verdicts: tuple[Verdict, ...]  # One a checked configuration; passes are one family
    traces: Traces  # What they were made from
    notes: tuple[str, ...]  # What a reader must know besides, one sentence each
    stability: Mapping[str, Stability] = field(default_factory=dict)  # Of the baseline, by pass
    # The configurations among them that are shams: they show what layout and the no-ops do, and count nothing.
    shams: tuple[str, ...] = ()
    totals: Mapping[str, tuple[TotalChange, ...]] = field(default_factory=dict)  # Of each configuration

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return configurations whose verdict is this or more serious (`SEVERITY`); no shams, which count nothing."""
        return self._at_least(mildest, {verdict.configuration: verdict.verdict for verdict in self.verdicts})

    def totals_at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return configurations with a verdict on a total that is this or more serious; no shams."""
        return self._at_least(mildest, self.totals_verdicts)

    @property
    def totals_verdicts(self) -> Mapping[str, VerdictName]:
        """Return the joint verdict on the totals of each configuration."""
        return {name: joint_verdict(found) for name, found in self.totals.items()}

    def _at_least(self, mildest: VerdictName, verdicts: Mapping[str, VerdictName]) -> tuple[str, ...]:
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(name for name, verdict in verdicts.items() if verdict in serious and name not in self.shams)

    @property
    def steadiness(self) -> tuple[str, ...]:
        """Return how steady the baseline is; where nothing was checked, how many runs are advised too."""
        sentences: dict[str, None] = {}
        for found in self.stability.values():
            sentences |= dict.fromkeys(found.sentences())
            if found.steady:
                sentences[f"The baseline is steady over its {found.runs} runs: no drift, no outlier."] = None
            if not self.verdicts:  # of what was checked, the verdicts say how many runs would decide
                sentences[found.advice()] = None
        return tuple(sentences)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what speaks against the baseline, a sentence each."""
        return tuple(dict.fromkeys(said for found in self.stability.values() for said in found.sentences()))

    @property
    def simulated(self) -> bool:
        """Return whether a simulator counted hardware metrics of any run."""
        return any(
            metric.kind == "simulated"
            for by_configuration in self.traces.values()
            for runs in by_configuration.values()
            for metric in (runs[0].metrics.values() if runs else ())
        )

    _page: ClassVar[str] = "unperturbed.harness.results.verdicts:_page_of"

    def headline(self) -> str:
        """Return how many configurations have which verdict."""
        names = [verdict.verdict for verdict in self.verdicts]
        counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
        simulated = "; hardware metrics are simulated" if self.simulated else ""
        return f"{counted(len(names), 'configuration')}: {listing(counts)}{simulated}" if counts else "no verdict"

    def tables(self) -> tuple[Table, ...]:
        """Return one row a configuration."""
        return (verdict_table(self.verdicts, totals=self.totals_verdicts),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row a change of every configuration."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every check makes a frame

        return pl.concat([verdict.to_frame() for verdict in self.verdicts], how="diagonal_relaxed")

    def to_dict(self) -> dict[str, Any]:
        """Return verdicts and notes as JSON types."""
        return {
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "totals": {name: [change.to_dict() for change in found] for name, found in self.totals.items()},
            "steadiness": list(self.steadiness),
            "notes": list(self.notes),
        }

    def of(self, configuration: str) -> Verdict | None:
        """Return the verdict on one configuration."""
        return next((verdict for verdict in self.verdicts if verdict.configuration == configuration), None)


def _page_of(verdicts: CampaignVerdicts) -> str:
    """Return verdicts as an HTML document, without what only the campaign's manifest knows."""
    from unperturbed.analysis.report import CounterSource, ReportContent, render  # noqa: PLC0415  slow to load

    main = next(iter(verdicts.traces.values()), {})
    content = ReportContent(
        "verdicts",
        verdicts.verdicts,
        CounterSource("not recorded"),
        traces=main,
        notes=verdicts.notes,
        steadiness=verdicts.steadiness,
        doubts=verdicts.doubts,
        totals=verdicts.totals,
    )
    return render(content)
