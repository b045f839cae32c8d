"""Judgement of a campaign, on one host or on nodes: verdicts, totals, and the content of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np

from unperturbed.analysis.looks import Looks
from unperturbed.analysis.nodes.combine import Combined, apart, combine_nodes
from unperturbed.analysis.nodes.ranks import describe_ranks
from unperturbed.analysis.nodes.strata import Kind, StrataVerdicts, combine_strata
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.analysis.perturbation import Verdict
from unperturbed.analysis.report import ReportContent
from unperturbed.analysis.rewriting import Rewriting
from unperturbed.analysis.totals.verdict import TotalChange, combine_totals
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.campaign.session import in_effect
from unperturbed.harness.nodes.shares import difference_notes, done_runs, lacks, parts_of, reading, share_of, write_json
from unperturbed.harness.results.check import CheckOptions, check_runs
from unperturbed.harness.results.looks import check, look_at_stratum
from unperturbed.harness.results.multiplexed import beside_passes, check_multiplexed
from unperturbed.harness.results.recorded import (
    NODES_VERDICTS,
    Traces,
    disturbed_runs,
    pending_repetitions,
    read_rank_traces,
    read_thread_traces,
    read_traces,
)
from unperturbed.harness.results.reporting import content_of, extension_notes, write_results
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE


@dataclass(frozen=True)
class Judgement:
    """The verdicts of a campaign, with the report's content, totals and unfinished runs."""

    spec: CampaignSpec  # The spec, with the families that the campaign chose
    verdicts: CampaignVerdicts  # One verdict for each configuration
    content: ReportContent  # Content of the report
    totals: Sequence[Total]  # Counts of each software metric in whole runs
    failed: tuple[str, ...]  # Runs that failed in all attempts
    missing: tuple[str, ...]  # Planned runs that were not made yet
    extensions: int = 0  # How often runs were added to a campaign that had runs: each is a further look
    unwritten: str = ""  # Why the report and the verdicts could not be written into the folder

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
    """Compute the verdicts of a campaign; write its report if `write`, except with `method="paper"`."""
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        spec = in_effect(spec, manifest)
        states = manifest.runs()
        if not states:
            raise SpecError(
                f"{folder}: nothing to judge, because the campaign ended before its first run: run the spec again"
            )
        known = [state.run.id for state in manifest.runs("done")]
        for run in without:
            if run not in known:
                which = f"finished runs have numbers from {known[0]} to {known[-1]}" if known else "no run is finished"
                raise SpecError(f"--without {run}: no such finished run; {which}")
        options = CheckOptions(method, across, disturbed_runs(manifest), pending_repetitions(manifest))
        traces = read_traces(folder, manifest, without=without, watch=watch)
        verdicts = check(spec, beside_passes(traces), options, watch)
        if method == "runs":
            verdicts = replace(verdicts, multiplexing=check_multiplexed(spec, traces))
        if (fact := manifest.fact("rewriting")) is not None:
            verdicts = replace(verdicts, rewriting={name: Rewriting.from_dict(each) for name, each in fact.items()})
        if without:
            which = f"Run {without[0]} was" if len(without) == 1 else f"Runs {', '.join(without)} were"
            left_out = (
                f"{which} left out on request. Verdicts from selected runs are weaker evidence: "
                "mention the selection wherever you show the verdicts."
            )
            verdicts = replace(verdicts, notes=(left_out, *verdicts.notes))
        verdicts = judge_strata(folder, spec, verdicts, options)
        content = content_of(spec, verdicts, manifest)
        verdicts = replace(verdicts, notes=(*verdicts.notes, *extension_notes(manifest)))
        extensions = len(manifest.fact("extended") or ())
        native = manifest.fact("native") or {"seconds": 0.0, "user_s": 0.0, "system_s": 0.0}  # not of imported runs
        cpu_seconds = native["user_s"] + native["system_s"] or native["seconds"]
        totals = software_totals(spec, verdicts.traces, cpu_seconds=cpu_seconds)
    unwritten = ""
    if write and method == "runs":
        try:
            write_results(folder, content)
        except OSError as error:  # another user's campaign or a full disk: still return the verdict
            unwritten = f"{folder}: {error.strerror or error}"
    return Judgement(
        spec,
        verdicts,
        content,
        totals,
        failed=tuple(state.run.id for state in states if state.state == "failed"),
        missing=tuple(state.run.id for state in states if state.state in ("planned", "running")),
        extensions=extensions,
        unwritten=unwritten,
    )


def judge_strata(
    folder: Path, spec: CampaignSpec, verdicts: CampaignVerdicts, options: CheckOptions
) -> CampaignVerdicts:
    """Add verdicts on each MPI rank and on each thread that all runs have, and on all of a kind together."""
    if by_rank := read_rank_traces(folder, verdicts.traces):
        combined, notes = _judge_each("rank", by_rank, spec, options, verdicts.looks)
        baseline = [trace for by_name in verdicts.traces.values() for trace in by_name.get(BASELINE, ())]
        ranks = describe_ranks(combined, baseline, level=1 - 2 * spec.analysis.alpha, notes=notes)
        verdicts = replace(verdicts, ranks=ranks)
    if verdicts.verdicts:
        by_thread, left_out = read_thread_traces(folder, verdicts.traces)
        if by_thread or left_out:
            combined, notes = _judge_each("thread", by_thread, spec, options, verdicts.looks)
            threads = StrataVerdicts(kind="thread", combined=combined, notes=(*left_out, *notes))
            verdicts = replace(verdicts, threads=threads)
    return verdicts


def _judge_each(
    kind: Kind, strata: Mapping[str, Traces], spec: CampaignSpec, options: CheckOptions, looks: Looks | None
) -> tuple[tuple[Combined, ...], list[str]]:
    """Return the verdicts on each stratum and all together, by configuration, and why some have none."""
    if options.method == "paper":
        return (), [f"{kind.capitalize()}s have no verdicts of their own by the paper's rule: use `--method runs`."]
    found: dict[str, dict[str, Verdict]] = {}
    notes = []
    for stratum, traces in strata.items():
        try:
            judged = (
                check_runs(spec, traces, options).by_configuration
                if looks is None
                else look_at_stratum(spec, traces, options, looks.decided)
            )
        except DataError as error:  # a rank that waits most of the time has few intervals
            notes.append(f"There is no verdict on {stratum}: {error}.")
        else:
            for name, verdict in judged.items():
                found.setdefault(name, {})[stratum] = verdict
    return tuple(combine_strata(of_one) for of_one in found.values()), notes


@dataclass(frozen=True)
class Total:
    """Totals of one software metric over all runs with this metric."""

    name: str  # Name of the metric
    runs: int  # Number of runs with this metric
    counted: float | None  # Median of events per run; None for a gauge
    # least, most: Fewest and most events in a run; for a gauge, the smallest and largest sampled value.
    least: int
    most: int
    rate: float | None  # Events per second of the untouched program's CPU time; None for a gauge


def software_totals(spec: CampaignSpec, traces: Traces, *, cpu_seconds: float) -> Sequence[Total]:
    """Return the totals of each software metric that at least one run recorded, in the order of the spec."""
    every = [trace for by_configuration in traces.values() for runs in by_configuration.values() for trace in runs]
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
            totals.append(Total(name, len(counts), counted, min(counts), max(counts), counted / cpu_seconds))
    return tuple(totals)


@dataclass(frozen=True)
class NodesJudgement:
    """The verdicts of a campaign on nodes."""

    verdicts: NodeVerdicts  # Verdicts over nodes
    by_node: Mapping[str, Judgement]  # Judgement of each node with enough runs
    # failed, missing: Runs that failed in all attempts, and runs that were not made, as `NN/RUN`.
    failed: tuple[str, ...]
    missing: tuple[str, ...]


def judge_nodes(
    folder: Path, spec: CampaignSpec, *, notes: Sequence[str] = (), write: bool = True, watch: Watch = unwatched
) -> NodesJudgement:
    """Compute the verdicts over all nodes with enough runs; write a joint report and one report per node."""
    if spec.nodes is None:
        raise SpecError(f"{folder}: the campaign's spec has no `nodes`")
    judged: dict[str, Judgement] = {}
    said, failed, missing = list(notes), list[str](), list[str]()
    results: dict[str, str] = {}
    for part in parts_of(folder, spec.nodes.count):
        if not (part.folder / "campaign.sqlite").is_file():
            said.append(f"Part {part.name} was never started.")
            continue
        share = share_of(spec, part.number)
        with reading(part) as manifest:
            failed += [f"{part.name}/{state.run.id}" for state in manifest.runs("failed")]
            missing += [f"{part.name}/{state.run.id}" for state in manifest.runs("planned", "running")]
            lacking = lacks(share, done_runs(manifest))
            expected = manifest.fact("expected")
        node = part.label
        if lacking:
            if not any(f"Part {part.name} " in note for note in said):
                said.append(f"Part {part.name} ({node}) has too few finished runs for a verdict: {', '.join(lacking)}.")
            continue
        results[node] = expected["digest"] if expected else ""
        said += difference_notes(part)
        judged[node] = judge(part.folder, share, write=write, watch=watch)
    if not judged:
        raise SpecError(f"{folder}: no node has enough finished runs for a verdict. {' '.join(said)}".rstrip())
    if len(set(results.values())) > 1 and spec.program.result == "same":
        said.append("The program's results differ between nodes: the nodes did different work.")
    verdicts = NodeVerdicts(
        tuple(
            combine_nodes(by_node)
            for item in configurations(spec)
            if (
                by_node := {
                    node: verdict
                    for node, judgement in judged.items()
                    if (verdict := judgement.verdicts.by_configuration.get(item.name))
                }
            )
        ),
        apart(_baselines(judged)),
        tuple(said),
        tuple(item.name for item in configurations(spec) if item.sham_of is not None),
        _totals_over_nodes(spec, judged),
        _strata_of_nodes(judged),
    )
    if write:
        verdicts.write_html(folder / "report.html")
        write_json(folder / NODES_VERDICTS, verdicts.to_dict())
    return NodesJudgement(verdicts, judged, tuple(failed), tuple(missing))


def _strata_of_nodes(judged: Mapping[str, Judgement]) -> dict[Kind, tuple[Combined, ...]]:
    """Return the verdicts on the ranks and the threads of all nodes, `NODE/rank 0`, by configuration."""
    found: dict[Kind, dict[str, dict[str, Verdict]]] = {}
    for node, judgement in judged.items():
        for strata in judgement.verdicts.strata:
            for each in strata.combined:
                of_all = found.setdefault(strata.kind, {}).setdefault(each.configuration, {})
                of_all |= {f"{node}/{stratum}": verdict for stratum, verdict in each.by_node.items()}
    return {kind: tuple(map(combine_strata, of_kind.values())) for kind, of_kind in found.items()}


def _totals_over_nodes(spec: CampaignSpec, judged: Mapping[str, Judgement]) -> Mapping[str, tuple[TotalChange, ...]]:
    """Return the changes of totals over the judged nodes, by configuration."""
    changes = {}
    for item in configurations(spec):
        by_node = {node: judgement.verdicts.totals.get(item.name, ()) for node, judgement in judged.items()}
        if all(by_node.values()):
            changes[item.name] = combine_totals(by_node, alpha=spec.analysis.alpha)
    return changes


def _baselines(judged: Mapping[str, Judgement]) -> dict[str, dict[str, float]]:
    """Return the mean logarithm of each hardware metric's total in the baseline, by metric and node."""
    means: dict[str, dict[str, float]] = {}
    for node, judgement in judged.items():
        for by_configuration in judgement.verdicts.traces.values():
            runs = by_configuration.get(BASELINE, ())
            for metric in runs[0].names("hardware", "simulated") if runs else ():
                totals = [float(trace[metric].sum()) for trace in runs]
                if min(totals) > 0:
                    means.setdefault(f"total of {metric}", {}).setdefault(node, float(np.log(totals).mean()))
    return {name: by_node for name, by_node in means.items() if len(by_node) == len(judged)}
