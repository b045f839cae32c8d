"""From a campaign's folder to the content of its report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from unperturbed.analysis.alignment import align_as_paper
from unperturbed.analysis.partition import Plan
from unperturbed.analysis.report import (
    AlignmentExample,
    CounterSource,
    Headline,
    ReportContent,
    RunRow,
    Settings,
    to_json,
    write_report,
)
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError
from unperturbed.harness import host
from unperturbed.harness.aligning import example_of
from unperturbed.harness.check import Checked, Traces, align_on
from unperturbed.harness.manifest import Manifest, RunState
from unperturbed.harness.plan import configurations
from unperturbed.harness.sampling_notes import length_of_interval, sampling_notes
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import BASELINE, PILOT

__all__ = ["content_of", "partition_content", "write_results"]

_SOURCES = {"simulated": "simulated by callgrind", "papi": "PAPI", "perf_event": "perf_event", "none": "none"}


def write_results(folder: Path, content: ReportContent) -> None:
    """Write `report.html` and its twin for programs, `verdicts.json`."""
    aside = folder / ".verdicts.json"
    aside.write_text(json.dumps(to_json(content), indent=1, ensure_ascii=False))
    aside.replace(folder / "verdicts.json")
    write_report(folder / "report.html", content)


def content_of(campaign: Campaign, checked: Checked, manifest: Manifest) -> ReportContent:
    """Gather all that the report shows."""
    states = manifest.runs()
    main = next(iter(checked.traces.values()), {})
    return ReportContent(
        campaign=campaign.name,
        verdicts=checked.verdicts,
        source=_source(campaign, manifest),
        settings=_settings(campaign, manifest, main),
        headline=_headline(campaign, manifest, states),
        traces={item.name: main[item.name] for item in configurations(campaign) if item.name in main},
        software_by_configuration={item.name: item.software for item in configurations(campaign)},
        alignment=_alignment(campaign, main),
        runs=_rows(manifest, states),
        failures=tuple(
            f"Run {state.run.id} ({state.run.configuration}, {state.run.pass_name}) has no result after {state.attempt} attempts: {state.error}"
            for state in states
            if state.state == "failed"
        ),
        provenance=_provenance(campaign, manifest),
        spec_text=campaign.text,
        method=_METHOD,
        steadiness=checked.steadiness,
        notes=checked.notes
        + _notes(manifest, [trace for runs in checked.traces.values() for found in runs.values() for trace in found])
        + tuple(
            f"The campaign was extended from {step['runs']} runs by {step['by']} ({step['at']}): when that was done because of the verdicts then, "
            "α no longer holds exactly."
            for step in manifest.fact("extended") or []
        ),
    )


def partition_content(campaign: Campaign, plan: Plan, traces: Traces, manifest: Manifest) -> ReportContent:
    """Gather what a plan's page shows beside the plan: what was measured, where, by what, and every run.

    Parameters
    ----------
    campaign : the spec that was partitioned.
    plan : what was found.
    traces : of all finished runs; of the baseline and of each certified subset one a pass is kept, to describe their metrics.
    """
    states = manifest.runs()
    examples: dict[str, tuple[Trace, ...]] = {
        BASELINE: tuple(by_configuration[BASELINE][0] for by_configuration in traces.values() if BASELINE in by_configuration)
    }
    every = [trace for by_configuration in traces.values() for found in by_configuration.values() for trace in found]
    for subset in plan.subsets:
        examples[subset.name] = tuple(trace for trace in every if trace.attributes["run"] in subset.runs)[:1]
    return ReportContent(
        campaign=campaign.name,
        verdicts=(),
        source=_source(campaign, manifest),
        settings=_settings(campaign, manifest, examples),
        headline=_headline(campaign, manifest, states),
        traces=examples,
        runs=_rows(manifest, states),
        provenance=_provenance(campaign, manifest),
        spec_text=campaign.text,
        notes=_notes(manifest, every),
    )


def _notes(manifest: Manifest, traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return what a reader must know of how the runs were built, laid out and sampled, one sentence each."""
    laid_out: Mapping[str, Sequence[str]] = manifest.fact("layout_notes") or {}
    skipped: Mapping[str, str] = manifest.fact("skipped") or {}
    pilots = [manifest.fact(f"{PILOT}:{item['name']}") for item in manifest.fact("passes")]
    return (
        *(manifest.fact("probe_notes") or ()),
        *(f"{file} was compiled without counters: {why}" for file, why in skipped.items()),
        *dict.fromkeys(note for notes in laid_out.values() for note in notes),
        *(pilot["note"] for pilot in pilots if pilot and pilot["note"]),
        *sampling_notes(traces),
    )


_METHOD = (
    "Within a run: Spearman's ρ of each pair over the run's intervals, one value a run (paper, section 2.2).",
    "Across runs: each metric against itself after dynamic time warping; a run's value is its mean over the reference runs. Subsets are held "
    "against the anchor's runs and aligned through its milestones, the anchor itself against the pure baseline (section 2.3).",
    "Runs are compared on Fisher's scale, atanh ρ. Significance is Student's t with the spread of both kinds of run pooled; the interval is the "
    "wider of that one and Welch's, each bound at α, carried to the scale of ρ by Zou's method (2007).",
    "Perturbed: significant at α after Holm's correction over all pairs and metrics of one configuration, and not shown to lie within the "
    "tolerance. Unperturbed: every interval lies within it. Beside it the p-value for false discoveries (Benjamini and Hochberg), which decides "
    "nothing.",
    "Pairs with a software metric are held against a configuration that counts it among fewer others. Sham runs, where there are any, tell a "
    "change that comes with layout, or with the no-ops in place of the increments, from one by counting.",
)


def _source(campaign: Campaign, manifest: Manifest) -> CounterSource:
    names = list(dict.fromkeys(item["source"] for item in manifest.fact("passes")))
    reasons = "; ".join(f"{name}: {why}" for name, why in manifest.fact("reasons").items())
    refused = f" Sources that came first but could not be used: {reasons}" if reasons else ""
    return CounterSource(
        name=" and ".join(_SOURCES[name] for name in names),
        sentence=" ".join(_SENTENCES[name].format(place=_PLACES[campaign.measure.sampler]) for name in names) + refused,
        simulated="simulated" in names,
    )


_PLACES = {
    "inside": "inside the program, by a timer signal",
    "outside": "from outside the program, by an observer process",
}
_SENTENCES = {
    "simulated": "The hardware metrics were computed by callgrind for a stated machine, not counted by a processor.",
    "papi": "Counted by the processor, read through PAPI {place}.",
    "perf_event": "Counted by the processor or the kernel, read through perf_event {place}.",
    "none": "No hardware metric was asked for.",
}


def _settings(campaign: Campaign, manifest: Manifest, traces: Mapping[str, tuple[Trace, ...]]) -> Settings:
    names = [item["name"] for item in manifest.fact("passes")]
    interval = manifest.fact(f"{PILOT}:{names[0]}")["interval_ns"]
    baseline = traces.get(BASELINE, ())
    clock = str(baseline[0].attributes["clock"]) if baseline else ""
    return Settings(
        alpha=campaign.analysis.alpha,
        tolerance=campaign.analysis.tolerance,
        interval=length_of_interval(interval, clock),
        clock=clock,
        align_on=align_on(campaign, baseline[0]) if baseline else (),
        anchor=campaign.analysis.anchor,
        baseline_runs=campaign.campaign.baseline_runs,
        runs=campaign.campaign.runs,
    )


def _headline(campaign: Campaign, manifest: Manifest, states: list[RunState]) -> Headline:
    description = manifest.fact("description")
    program = campaign.program.debian or (campaign.program.source and Path(campaign.program.source).name)
    return Headline(
        program=str(program or shlex.split(campaign.program.run)[0]),
        command=campaign.program.run,
        started=manifest.fact("begun"),
        seconds=sum(state.seconds or 0.0 for state in states),
        host=f"{description['host']['name']}, {description['processor']['model']}, {description['host']['system']}",
        version=metadata.version("unperturbed"),
    )


def _rows(manifest: Manifest, states: list[RunState]) -> tuple[RunRow, ...]:
    failed: dict[str, list[RunRow]] = {}
    by_id = {state.run.id: state for state in states}
    for failure in manifest.failures():
        run = by_id[failure.run].run
        row = RunRow(
            run.id,
            run.configuration,
            run.repetition,
            failure.attempt,
            "failed",
            failure.seconds,
            None,
            run.pad_bytes,
            error=failure.error,
            layout=run.layout,
        )
        failed.setdefault(run.id, []).append(row)
    rows: list[RunRow] = []
    for state in states:
        rows += failed.get(state.run.id, [])
        if state.state == "failed":
            continue
        before, after = state.host_before or {}, state.host_after or {}
        rows.append(
            RunRow(
                state.run.id,
                state.run.configuration,
                state.run.repetition,
                max(1, state.attempt),
                state.state,
                state.seconds,
                state.intervals,
                state.run.pad_bytes,
                before.get("load_1min"),
                after.get("load_1min"),
                host.difference(before, after),
                before,
                after,
                layout=state.run.layout,
            )
        )
    return tuple(rows)


def _alignment(campaign: Campaign, traces: Mapping[str, tuple[Trace, ...]]) -> AlignmentExample | None:
    """Align two runs of the configuration that shows most: one whose runs hold a milestone beside the anchor, to judge the path by."""
    anchor = campaign.analysis.anchor
    candidates = [item for item in configurations(campaign) if len(traces.get(item.name, ())) > 1]
    if not candidates:
        return None
    chosen = max(candidates, key=lambda item: sum(name != anchor for name in item.software) > 0)
    first, second = traces[chosen.name][:2]
    through = anchor if anchor in chosen.software else None
    names = align_on(campaign, first)
    try:
        path = align_as_paper(first, second, on=names, anchor=through)  # as the verdicts do
    except DataError:  # the verdicts say so already, metric by metric; an example is not worth failing for
        return None
    return example_of(path, first, second, on=names, anchor=through, about=f"Two runs of {chosen.name}, aligned")


def _provenance(campaign: Campaign, manifest: Manifest) -> dict[str, dict[str, str]]:
    description: dict[str, dict[str, str]] = manifest.fact("description")
    expected, native = manifest.fact("expected"), manifest.fact("native")
    passes = manifest.fact("passes")
    groups = {
        "campaign": {
            "name": campaign.name,
            "spec": str(manifest.fact("spec_path")),
            "spec digest": campaign.digest,
            "seed": str(campaign.campaign.seed),
            "order": campaign.campaign.order,
            "begun": manifest.fact("begun"),
        },
        "program": {
            "identity": manifest.fact("program") or "not recorded",
            "result": f"exit code {expected['exit_code']}, sha256 {expected['digest']}",
            "untouched, unmeasured": f"{native['seconds']:.3f} s, {native['user_s']:.3f} s of processor time, {native['max_rss_kib'] / 1024:.0f} MiB",
            "inputs": ", ".join(f"{name} ({size:,} bytes)" for name, size in manifest.fact("inputs").items()) or "none",
        },
        "what is counted": {
            **{f"pass {item['name']}": f"{item['source']}: {', '.join(item['metrics'])}" for item in passes},
            **{f"simulated machine ({item['name']})": _machine(item["machine"]) for item in passes if item["machine"]},
        },
    }
    sites: Mapping[str, Mapping[str, Any]] = manifest.fact("sites") or {}
    if sites:
        groups["where software metrics are counted"] = {
            metric: f"{count} {'place' if count == 1 else 'places'} in the source"
            for found in sites.values()
            for metric, count in found.items()
        }
    return {**groups, **description}


def _machine(machine: Mapping[str, Mapping[str, int]]) -> str:
    return ", ".join(
        f"{name.upper()} {cache['size'] >> 10} KiB, {cache['ways']}-way, lines of {cache['line']} B"
        for name, cache in machine.items()
    )
