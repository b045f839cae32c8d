"""The verdicts of a campaign, with tables and notes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from unperturbed.analysis.doses.response import DoseResponses
from unperturbed.analysis.doses.response_text import response_table
from unperturbed.analysis.multiplexing import MultiplexingVerdicts
from unperturbed.analysis.nodes.ranks import RankVerdicts
from unperturbed.analysis.nodes.strata import StrataVerdicts
from unperturbed.analysis.perturbation import (
    SEVERITY,
    Stability,
    Verdict,
    VerdictName,
    verdict_table,
)
from unperturbed.analysis.perturbation.verdict_text import cause_table
from unperturbed.analysis.rewriting import Rewriting
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.verdict import joint_verdict
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result
from unperturbed.common.wording import counted, did_you_mean, listing
from unperturbed.errors import DataError
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.results.warm_up import WarmUp

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.analysis.looks import Looks
    from unperturbed.common.table import Table


@dataclass(frozen=True, repr=False)
class CampaignVerdicts(Framed, Result):
    """The verdicts of a campaign, with their traces and notes."""

    verdicts: tuple[Verdict, ...]  # One for each checked configuration; all passes are one family
    traces: Traces  # The judged traces
    notes: tuple[str, ...]  # Remarks for the reader, one sentence each
    stability: Mapping[str, Stability] = field(default_factory=dict)  # Stability of the baseline, by pass
    # Names of the shams, which count nothing and show the effect of layout and no-ops.
    shams: tuple[str, ...] = ()
    totals: Mapping[str, tuple[TotalChange, ...]] = field(default_factory=dict)  # Changes of totals, by configuration
    looks: Looks | None = None  # For a campaign that runs until decided
    # Verdict on the counting alone: each configuration against the same build without counting (`builds: one`).
    counting: Mapping[str, Verdict] = field(default_factory=dict)
    # The instructions that each build without counting adds, by its name (`builds: one`).
    rewriting: Mapping[str, Rewriting] = field(default_factory=dict)
    doses: Mapping[str, DoseResponses] = field(default_factory=dict)  # Responses of each subset (`doses`)
    warm_up: WarmUp | None = None  # The start of the runs; None if no run has a trace
    ranks: RankVerdicts | None = None  # On each MPI rank; None if the runs have no ranks
    threads: StrataVerdicts | None = None  # On each thread; None without `threads: each`
    # Which metrics may be multiplexed; None unless the campaign has `multiplexed`.
    multiplexing: MultiplexingVerdicts | None = None
    correlations: tuple[Table, ...] = ()  # Of the baseline in each pass, if no configuration is compared with it

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations, except shams, with this verdict or a more serious one (`SEVERITY`)."""
        of_runs = self._at_least(mildest, {verdict.configuration: verdict.verdict for verdict in self.verdicts})
        of_strata = (name for each in self.strata for name in each.at_least(mildest) if name not in self.shams)
        return tuple(dict.fromkeys((*of_runs, *of_strata)))

    def totals_at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations, except shams, whose totals have this verdict or a more serious one."""
        return self._at_least(mildest, self.totals_verdicts)

    @property
    def totals_verdicts(self) -> Mapping[str, VerdictName]:
        """Return the joint verdict on the totals of each configuration."""
        return {name: joint_verdict(changes) for name, changes in self.totals.items()}

    def _at_least(self, mildest: VerdictName, verdicts: Mapping[str, VerdictName]) -> tuple[str, ...]:
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(name for name, verdict in verdicts.items() if verdict in serious and name not in self.shams)

    @property
    def steadiness(self) -> tuple[str, ...]:
        """Return sentences on the baseline's steadiness; if nothing was checked, also advice on the number of runs."""
        sentences = dict.fromkeys(self.doubts)
        several = len(self.stability) > 1 and bool(sentences)
        for name, stability in self.stability.items():
            if stability.steady:
                of = f" of pass {name}" if several else ""
                sentences[f"The baseline{of} is steady over its {stability.runs} runs: no drift, no outlier."] = None
        if self.stability and not self.verdicts:  # verdicts include the number of runs that would decide
            most = max(self.stability.values(), key=lambda each: math.inf if each.advised is None else each.advised)
            sentences[most.advice()] = None
        return tuple(sentences)

    @property
    def strata(self) -> tuple[StrataVerdicts, ...]:
        """Return the verdicts by MPI rank and by thread, as far as there are any."""
        return tuple(each for each in (self.ranks, self.threads) if each is not None)

    @property
    def parts(self) -> tuple[StrataVerdicts | MultiplexingVerdicts, ...]:
        """Return what has tables of its own: the verdicts by rank and by thread, and those on multiplexed metrics."""
        return (*self.strata, *(() if self.multiplexing is None else (self.multiplexing,)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return doubts about the baseline, one sentence each."""
        several = len(self.stability) > 1
        said = ((name, one) for name, stability in self.stability.items() for one in stability.sentences())
        return tuple(dict.fromkeys(f"Pass {name}: {one}" if several else one for name, one in said))

    @property
    def simulated(self) -> bool:
        """Return whether hardware metrics of any run were simulated."""
        return any(
            metric.kind == "simulated"
            for by_configuration in self.traces.values()
            for runs in by_configuration.values()
            for metric in (runs[0].metrics.values() if runs else ())
        )

    _page: ClassVar[str] = "unperturbed.harness.results.verdicts:_page_of"

    def headline(self) -> str:
        """Return a line with the number of configurations for each verdict, and those whose totals are perturbed."""
        of = f"{counted(len(self.verdicts), 'configuration')}: " if self.verdicts else ""
        return of + self.counts()

    def counts(self) -> str:
        """Return the number of configurations for each verdict, and those whose totals are perturbed."""
        names = [verdict.verdict for verdict in self.verdicts]
        counts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
        changed = self.totals_at_least("perturbed")
        totals = f"; totals of {listing(changed)} perturbed" if changed else ""
        simulated = "; hardware metrics are simulated" if self.simulated else ""
        return (listing(counts) or "no verdict") + totals + simulated

    def tables(self) -> tuple[Table, ...]:
        """Return a table with one row per configuration; for one build, another with the cause of changes."""
        causes = (cause_table(self.verdicts, self.counting),) if self.counting else ()
        added = (rewriting.table(name) for name, rewriting in self.rewriting.items())
        responses = (response_table(each) for each in self.doses.values())
        of_parts = (table for each in self.parts for table in each.tables())
        verdicts = verdict_table(self.verdicts, totals=self.totals_verdicts)
        return (verdicts, *causes, *added, *responses, *of_parts, *self.correlations)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each change of each configuration."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every check makes a frame

        return pl.concat([verdict.to_frame() for verdict in self.verdicts], how="diagonal_relaxed")

    def to_dict(self) -> dict[str, Any]:
        """Return verdicts, totals and notes as JSON types."""
        return {
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "totals": {name: [change.to_dict() for change in changes] for name, changes in self.totals.items()},
            "counting": {name: verdict.to_dict() for name, verdict in self.counting.items()},
            "rewriting": {name: rewriting.to_dict() for name, rewriting in self.rewriting.items()},
            "doses": {name: responses.to_dict() for name, responses in self.doses.items()},
            "warm_up": None if self.warm_up is None else self.warm_up.to_dict(),
            "ranks": None if self.ranks is None else self.ranks.to_dict(),
            "multiplexing": None if self.multiplexing is None else self.multiplexing.to_dict(),
            "threads": None if self.threads is None else self.threads.to_dict(),
            "steadiness": list(self.steadiness),
            "notes": list(self.notes),
        }

    @property
    def by_configuration(self) -> Mapping[str, Verdict]:
        """Return the verdicts by the names of their configurations."""
        return {verdict.configuration: verdict for verdict in self.verdicts}

    def of(self, configuration: str) -> Verdict:
        """Return the verdict on one configuration; raise DataError if there is none."""
        known = self.by_configuration
        if configuration not in known:
            judged = f"verdicts exist for {listing(known)}" if known else "the campaign has no verdict"
            raise DataError(f"no verdict on {configuration!r}; " + (did_you_mean(configuration, known) or judged))
        return known[configuration]


def _page_of(verdicts: CampaignVerdicts) -> str:
    """Return verdicts as an HTML page, without facts that only the campaign's manifest contains."""
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
        counting=verdicts.counting,
        rewriting=verdicts.rewriting,
        doses=verdicts.doses,
        warm_up={} if verdicts.warm_up is None else verdicts.warm_up.intervals,
        warm_up_left_out=verdicts.warm_up is not None and verdicts.warm_up.is_left_out,
        ranks=verdicts.ranks,
        multiplexing=verdicts.multiplexing,
        threads=verdicts.threads,
        correlations=verdicts.correlations,
    )
    return render(content)
