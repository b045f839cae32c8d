"""Judge a campaign: compute its verdicts, what its software metrics counted, and everything that a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from unperturbed.analysis.report import ReportContent
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.results.check import CheckOptions, check
from unperturbed.harness.results.recorded import Traces, disturbed_runs, read_traces
from unperturbed.harness.results.reporting import content_of, write_results
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec


@dataclass(frozen=True)
class Judgement:
    """The verdicts of a campaign, and what belongs beside them."""

    verdicts: CampaignVerdicts  # One verdict a configuration
    content: ReportContent  # What the report shows
    totals: Sequence[Total]  # What each software metric counted in whole runs
    failed: tuple[str, ...]  # Runs that failed for good
    missing: tuple[str, ...]  # Runs that were planned and not made yet
    unwritten: str = ""  # Why report and verdicts could not be written into the folder

    @property
    def complete(self) -> bool:
        """Return whether every planned run has a result."""
        return not (self.failed or self.missing)


def judge(
    folder: Path,
    spec: CampaignSpec,
    *,
    method: Literal["runs", "paper"] = "runs",
    across: bool = False,
    without: Sequence[str] = (),
    write: bool = True,
    watch: Watch = unwatched,
) -> Judgement:
    """Compute the verdicts of a campaign; write its report unless the paper's rule was chosen.

    `method`: `paper` decides by the paper's own rule, and leaves the report on disk as it is.
    """
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        states = manifest.runs()
        if not states:
            raise SpecError(
                f"{folder}: the campaign ended before its first run, so there is nothing to judge; run its spec again"
            )
        known = [state.run.id for state in manifest.runs("done")]
        for run in without:
            if run not in known:
                raise SpecError(
                    f"--without {run}: the campaign has no finished run of that name; they are {known[0]} to "
                    f"{known[-1]}"
                )
        options = CheckOptions(method, across, disturbed_runs(manifest))
        verdicts = check(spec, read_traces(folder, manifest, without=without, watch=watch), options, watch)
        if without:
            left_out = (
                f"Left out on request: run {', '.join(without)}. Verdicts from selected runs are weaker evidence: "
                "mention the selection wherever you show them."
            )
            verdicts = replace(verdicts, notes=(left_out, *verdicts.notes))
        content = content_of(spec, verdicts, manifest)
        native = manifest.fact("native") or {"seconds": 0.0}  # of runs that were imported nothing is known but them
        totals = software_totals(spec, verdicts.traces, native_seconds=native["seconds"])
    unwritten = ""
    if write and method == "runs":
        try:
            write_results(folder, content)
        except OSError as error:  # another user's campaign, a full disk: who asks for a verdict still gets it
            unwritten = f"{folder}: {error.strerror or error}"
    return Judgement(
        verdicts,
        content,
        totals,
        failed=tuple(state.run.id for state in states if state.state == "failed"),
        missing=tuple(state.run.id for state in states if state.state in ("planned", "running")),
        unwritten=unwritten,
    )


@dataclass(frozen=True)
class Total:
    """One software metric over all runs that have it."""

    name: str  # Of the metric
    runs: int  # That have it
    counted: float | None  # Median of the events a run; None for a gauge
    # least, most: Events of the runs that had fewest and most; a gauge's least and greatest value at a sample.
    least: int
    most: int
    rate: float | None  # Events a second of the untouched program's time; None for a gauge


def software_totals(spec: CampaignSpec, traces: Traces, *, native_seconds: float) -> Sequence[Total]:
    """Return what each software metric counted, in the order of the spec; metrics without a run are left out.

    `native_seconds`: That the untouched program took. Runs themselves may be slowed down by a simulator.
    """
    every = [trace for by_configuration in traces.values() for found in by_configuration.values() for trace in found]
    totals = []
    for name, event in spec.measure.software.items():
        columns = [trace[name] for trace in every if name in trace.metrics and len(trace)]
        if not columns:
            continue
        if event.semantics == "gauge":
            least, most = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
            totals.append(Total(name, len(columns), None, least, most, None))
        else:
            counts = [int(column.sum()) for column in columns]
            counted = median(counts)
            totals.append(Total(name, len(counts), counted, min(counts), max(counts), counted / native_seconds))
    return tuple(totals)
