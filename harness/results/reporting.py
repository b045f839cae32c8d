"""Content of a campaign's report."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
    ReportSettings,
    RunRow,
    alignment_example,
    to_json,
    write_report,
)
from unperturbed.collectors.data import Trace
from unperturbed.collectors.passes import passes_table
from unperturbed.collectors.records.notes import sampling_notes
from unperturbed.collectors.sources import find_source
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.scratch import write_whole
from unperturbed.common.table import Table
from unperturbed.common.wording import counted, first_of, listing
from unperturbed.errors import DataError
from unperturbed.harness.campaign.manifest import Failure, Manifest, RunState
from unperturbed.harness.campaign.plan import judged_configurations
from unperturbed.harness.campaign.progress import describe_interval
from unperturbed.harness.host import state as host
from unperturbed.harness.results.check import align_on
from unperturbed.harness.results.floor import floor_of
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec, Imported
from unperturbed.harness.spec.sections.campaign import BASELINE, PILOT


def write_results(folder: Path, content: ReportContent) -> None:
    """Write `report.html`, and `verdicts.json`, which has the same content for other programs."""
    write_whole(folder / "verdicts.json", json.dumps(to_json(content), indent=1, ensure_ascii=False))
    write_report(folder / "report.html", content)


def content_of(spec: CampaignSpec, checked: CampaignVerdicts, manifest: Manifest) -> ReportContent:
    """Collect the content of a campaign's report."""
    states = manifest.runs()
    main = next(iter(checked.traces.values()), {})
    planned = judged_configurations(spec)
    return replace(
        _measured(spec, manifest, states, {item.name: main[item.name] for item in planned if item.name in main}),
        verdicts=checked.verdicts,
        software_by_configuration={item.name: item.software for item in planned},
        alignment=_alignment(spec, _checked_runs(checked)),
        warm_up={} if checked.warm_up is None else checked.warm_up.intervals,
        warm_up_left_out=checked.warm_up is not None and checked.warm_up.is_left_out,
        failures=_failures(states),
        method=_METHOD,
        steadiness=checked.steadiness,
        doubts=checked.doubts,
        setups=_setups(spec),
        totals=checked.totals,
        floor=floor_of(spec, checked, states),
        looks=checked.looks,
        counting=checked.counting,
        rewriting=checked.rewriting,
        doses=checked.doses,
        ranks=checked.ranks,
        multiplexing=checked.multiplexing,
        threads=checked.threads,
        correlations=checked.correlations,
        passes=_passes(spec, manifest),
        notes=checked.notes
        + _notes(
            manifest, [trace for runs in checked.traces.values() for recorded in runs.values() for trace in recorded]
        )
        + extension_notes(manifest),
    )


def _setups(spec: CampaignSpec) -> dict[str, str]:
    """Return a description of each set-up: its difference from the baseline, or the files of imported runs."""
    if spec.imported is None:
        return {name: other.difference() for name, other in spec.programs.items()}
    files = spec.imported.files
    _, *others = spec.imported.configurations
    return {
        name: first_of([str(each["file"]) for each in files if each["configuration"] == name], 3) for name in others
    }


def _failures(states: Iterable[RunState]) -> tuple[str, ...]:
    """Return a sentence for the failed runs of each configuration and pass that have one reason."""
    runs: defaultdict[tuple[str, str, int, str], list[str]] = defaultdict(list)
    for state in states:
        if state.state == "failed":
            runs[state.run.configuration, state.run.pass_name, state.attempt, state.error].append(state.run.id)
    return tuple(
        f"{'Runs' if len(names) > 1 else 'Run'} {first_of(names)} ({configuration}, {pass_name}) "
        f"{'have' if len(names) > 1 else 'has'} no result after {counted(attempts, 'attempt')}: {error}"
        for (configuration, pass_name, attempts, error), names in runs.items()
    )


def _passes(spec: CampaignSpec, manifest: Manifest) -> Table | None:
    passes = manifest.fact("passes") or ()
    division = "; ".join(dict.fromkeys(filter(None, (item.get("division") for item in passes))))
    return passes_table({item["name"]: item["metrics"] for item in passes}, spec.measure.hardware, division)


def _checked_runs(checked: CampaignVerdicts) -> Mapping[str, tuple[Trace, ...]]:
    """Return the runs of the first pass by configuration, as they were checked."""
    return next(iter((checked.traces if checked.warm_up is None else checked.warm_up.traces).values()), {})


def extension_notes(manifest: Manifest) -> tuple[str, ...]:
    """Return a sentence on each extension of a campaign with a fixed number of runs."""
    return tuple(
        f"The campaign was extended by {step['by']} runs, from {step['runs']} ({step['at']}). Its earlier "
        "verdicts spent all of α. If they were the reason to extend it, the error probability exceeds α: see "
        "“May I add runs?” in docs/explanation/verdicts.md."
        for step in manifest.fact("extended") or []
    )


def partition_content(spec: CampaignSpec, plan: Plan, traces: Traces, manifest: Manifest) -> ReportContent:
    """Collect the content of a plan's page besides the plan; keep only example traces that describe the metrics."""
    baseline = (runs[BASELINE][0] for runs in traces.values() if BASELINE in runs)
    examples: dict[str, tuple[Trace, ...]] = {BASELINE: tuple(baseline)}
    every = [
        trace for by_configuration in traces.values() for recorded in by_configuration.values() for trace in recorded
    ]
    for subset in plan.subsets:
        examples[subset.name] = tuple(trace for trace in every if trace.attributes["run"] in subset.runs)[:1]
    return replace(_measured(spec, manifest, manifest.runs(), examples), notes=_notes(manifest, every))


def _measured(
    spec: CampaignSpec, manifest: Manifest, states: list[RunState], traces: Mapping[str, tuple[Trace, ...]]
) -> ReportContent:
    """Return the content shared by reports and plan pages: source, settings, headline, runs and provenance."""
    return ReportContent(
        campaign=spec.name,
        verdicts=(),
        source=_source(spec, manifest),
        settings=_settings(spec, manifest, traces),
        headline=_headline(spec, manifest, states),
        traces=traces,
        runs=_rows(manifest, states),
        provenance=_provenance(spec, manifest),
        spec_text=spec.text,
    )


def _notes(manifest: Manifest, traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return notes on builds, layouts and sampling of the runs, one sentence each."""
    laid_out: Mapping[str, Sequence[str]] = manifest.fact("layout_notes") or {}
    skipped: Mapping[str, str] = manifest.fact("skipped") or {}
    why_not = (manifest.fact("one_build") or {"why_not": ""})["why_not"]
    why_split = (manifest.fact("chosen_families") or {"note": ""})["note"]
    pilots = [manifest.fact(f"{PILOT}:{item['name']}") for item in manifest.fact("passes")]
    return (
        *(manifest.fact("probe_notes") or ()),
        *filter(None, [why_not, why_split]),
        *(f"{file} was compiled without counters: {why}" for file, why in skipped.items()),
        *dict.fromkeys(note for notes in laid_out.values() for note in notes),
        *dict.fromkeys(pilot["note"] for pilot in pilots if pilot and pilot["note"]),
        *sampling_notes(traces),
    )


_METHOD = (
    "Within a run: Spearman's ρ of each pair over the run's intervals gives one value per run (paper, section 2.2).",
    "Across runs: each metric is correlated with the same metric of other runs after dynamic time warping. A run's "
    "value is the mean over the reference runs, or over 40 evenly chosen ones if there are more. Subsets are compared "
    "with the anchor's runs and aligned through its milestones; the anchor is compared with the pure baseline, and so "
    "are subsets if it is perturbed (section 2.3).",
    "Runs are compared on Fisher's scale, atanh ρ. Significance is Student's t with the pooled spread of both groups. "
    "The confidence interval is the wider of Student's and Welch's, with each bound at α, converted to ρ by Zou's "
    "method (2007).",
    "Perturbed: significant at α after Holm's correction over all pairs and metrics of one configuration, and not "
    "shown to be within the tolerance. Unperturbed: every confidence interval is within the tolerance. The p-value for "
    "false discoveries (Benjamini and Hochberg) is only informative.",
    "Pairs with a software metric are compared with a configuration that counts this metric with fewer others. Sham "
    "runs, if any, separate changes caused by layout, or by the no-ops that replace the increments, from changes "
    "caused by counting.",
)


def _source(spec: CampaignSpec, manifest: Manifest) -> CounterSource:
    if spec.imported is not None:
        return imported_source(spec.imported)
    names = list(dict.fromkeys(item["source"] for item in manifest.fact("passes")))
    reasons = "; ".join(f"{name}: {why}" for name, why in manifest.fact("reasons").items())
    refused = f" These preferred sources could not be used: {reasons}" if reasons else ""
    sources = [find_source(name) for name in names if name != NONE]
    place = _PLACES[spec.measure.sampler]
    if spec.measure.interval_event:
        place = f"{place.partition(',')[0]}, when {spec.measure.interval_event} overflows"
    if spec.measure.interval_metric:
        place = f"{place.partition(',')[0]}, at events of {spec.measure.interval_metric}"
    sentences = [source.sentence.format(title=source.title, place=place) for source in sources]
    return CounterSource(
        name=" and ".join(source.title for source in sources) or NONE,
        sentence=(" ".join(sentences) or "No hardware metric was requested.") + refused,
        simulated=any(source.simulated for source in sources),
    )


_PLACES = {
    "inside": "inside the program, by a timer signal",
    "outside": "from outside the program, by an observer process",
}


def _settings(spec: CampaignSpec, manifest: Manifest, traces: Mapping[str, tuple[Trace, ...]]) -> ReportSettings:
    names = [item["name"] for item in manifest.fact("passes")]
    pilot = manifest.fact(f"{PILOT}:{names[0]}")
    baseline = traces.get(BASELINE, ())
    clock = str(baseline[0].attributes["clock"]) if baseline else ""
    design = spec.campaign
    programs_alone = spec.programs and not spec.measure.software
    return ReportSettings(
        alpha=spec.analysis.alpha,
        tolerance=spec.analysis.tolerance,
        interval=describe_interval(
            pilot["interval_ns"],
            clock,
            spec.measure.interval_event or spec.measure.interval_metric,
            pilot.get("quantum", QUANTUM_BLOCKS),
        ),
        clock=clock,
        align_on=align_on(spec, baseline[0]) if baseline else (),
        anchor=spec.analysis.anchor,
        baseline_runs=design.most_baseline_runs,
        runs=design.most_baseline_runs if programs_alone else design.most_runs,
    )


def _headline(spec: CampaignSpec, manifest: Manifest, states: list[RunState]) -> Headline:
    if spec.imported is not None:
        return imported_headline(spec.imported, manifest)
    description = manifest.required_fact("description")
    program = spec.program.debian or (spec.program.source and Path(spec.program.source).name)
    return Headline(
        program=str(program or shlex.split(spec.program.run)[0]),
        command=_of_program(spec, _command(manifest, states)),
        started=manifest.fact("begun"),
        seconds=sum(state.seconds or 0.0 for state in states),
        host=f"{description['host']['name']}, {description['processor']['model']}, {description['host']['system']}",
        version=metadata.version("unperturbed"),
    )


def _of_program(spec: CampaignSpec, words: Sequence[str]) -> str:
    """Return the program's part of a run's command line, as `run` of the spec has it: without the sampler's words."""
    if not words:
        return spec.program.run
    return words[-1] if spec.program.shell else shlex.join(words[-len(shlex.split(spec.program.run)) :])


def _command(manifest: Manifest, states: Sequence[RunState]) -> list[str]:
    """Return the command line of the first finished run, preferably of the baseline."""
    done = sorted(
        (state for state in states if state.state == "done"),
        key=lambda finished: finished.run.configuration != BASELINE,
    )
    for state in done[:1]:
        path = manifest.path.parent / "runs" / state.run.id / "meta.json"
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            return [str(word) for word in json.loads(path.read_text())["command"]]
    return []


def _rows(manifest: Manifest, states: list[RunState]) -> tuple[RunRow, ...]:
    """Return one row for each attempt, run by run, failed attempts first."""
    failures: defaultdict[str, list[Failure]] = defaultdict(list)
    for failure in manifest.failures():
        failures[failure.run].append(failure)
    rows: list[RunRow] = []
    for state in states:
        run, before, after = state.run, state.host_before or {}, state.host_after or {}
        row = RunRow(run.id, run.configuration, run.repetition, max(1, state.attempt), state.state, layout=run.layout)
        row = replace(row, seconds=state.seconds, intervals=state.intervals, environment_pad_bytes=run.pad_bytes)
        rows += [
            replace(
                row, attempt=failed.attempt, state="failed", seconds=failed.seconds, intervals=None, error=failed.error
            )
            for failed in failures[run.id]
        ]
        if state.state != "failed":
            row = replace(row, load_before=before.get("load_1min"), load_after=after.get("load_1min"))
            said = host.difference(before, after)
            rows.append(replace(row, host=said, host_before=before, host_after=after))
    return tuple(rows)


def _alignment(spec: CampaignSpec, traces: Mapping[str, tuple[Trace, ...]]) -> AlignmentExample | None:
    """Align two runs as an example, preferably of a configuration with another milestone besides the anchor."""
    anchor = spec.analysis.anchor
    candidates = [item for item in judged_configurations(spec) if len(traces.get(item.name, ())) > 1]
    if not candidates:
        return None
    chosen = max(candidates, key=lambda item: sum(name != anchor for name in item.software) > 0)
    first, second = traces[chosen.name][:2]
    through = anchor if anchor in chosen.software else None
    names = align_on(spec, first)
    try:
        path = align_as_paper(first, second, on=names, anchor=through)  # as the verdicts do
    except DataError:  # the verdicts report this already; a missing example is no reason to fail
        return None
    return alignment_example(path, first, second, on=names, anchor=through, about=f"Two runs of {chosen.name}, aligned")


def _provenance(spec: CampaignSpec, manifest: Manifest) -> Mapping[str, Mapping[str, str]]:
    if spec.imported is not None:
        return imported_provenance(spec, spec.imported, manifest)
    description: dict[str, dict[str, str]] = manifest.required_fact("description")
    expected, native = manifest.required_fact("expected"), manifest.required_fact("native")
    passes = manifest.required_fact("passes")
    groups = {
        "campaign": {
            "name": spec.name,
            "spec": str(manifest.fact("spec_path")),
            "spec digest": spec.digest,
            "seed": str(spec.campaign.seed),
            "order": spec.campaign.order,
            "begun": manifest.fact("begun"),
        },
        "program": {
            "started by": shlex.join(_command(manifest, manifest.runs())) or spec.program.run,
            "identity": manifest.fact("program") or "not recorded",
            "result": f"exit code {expected['exit_code']}, {_described(expected['digest'])}",
            "untouched, unmeasured": (
                f"{native['seconds']:.3f} s, {native['user_s']:.3f} s of CPU time, "
                # The kernel counts the harness's own memory too: the program's process was a copy of it before exec.
                f"at most {native['max_rss_kib'] / 1024:.0f} MiB of memory"
            ),
            "inputs": ", ".join(f"{name} ({size:,} bytes)" for name, size in manifest.required_fact("inputs").items())
            or "none",
        },
        "what is counted": {
            **{f"pass {item['name']}": f"{item['source']}: {', '.join(item['metrics'])}" for item in passes},
            **{f"simulated machine ({item['name']})": _machine(item["machine"]) for item in passes if item["machine"]},
        },
    }
    if sites := manifest.fact("sites"):
        groups["where software metrics are counted"] = {
            metric: f"{counted(count, 'site')} in the source"
            for counts in sites.values()
            for metric, count in counts.items()
        }
    return {**groups, **description}


def _described(digest: str) -> str:
    """Describe the result of a program by its digest, which is a text if there is nothing to compare."""
    if digest == "any":
        return "not compared"
    return f"sha256 {digest}" if len(digest) == _DIGEST_SIGNS else digest


_DIGEST_SIGNS = 64


def _machine(machine: Mapping[str, Any]) -> str:
    caches = (
        f"{name.upper()} {machine[name]['size'] >> 10} KiB, {machine[name]['ways']}-way, "
        f"lines of {machine[name]['line']} B"
        for name in ("i1", "d1", "ll")
    )
    if (limits := machine.get("limits")) is None:
        return ", ".join(caches)
    fixed = f", and one each for {listing(limits['fixed'])}" if limits["fixed"] else ""
    return f"{', '.join(caches)}; {counted(limits['counters'], 'counter')}{fixed}"


_HOW_COUNTED = {
    "hardware": "counted by the processor",
    "simulated": "simulated, not counted by a processor",
    "os": "reported by the operating system or other software",
    "software": "counted by software",
    "derived": "computed from other metrics",
}


def imported_source(imported: Imported) -> CounterSource:
    """Return the source of imported metrics, in words."""
    by_kind: dict[str, list[str]] = {}
    for name, kind in imported.metrics.items():
        by_kind.setdefault(kind, []).append(name)
    parts = [
        f"{listing(names)} {'is' if len(names) == 1 else 'are'} {_HOW_COUNTED[kind]}" for kind, names in by_kind.items()
    ]
    return CounterSource(
        name=f"imported from {imported.title}",
        sentence=f"Imported from {imported.title}. By files and names, {'; '.join(parts)}.",
        simulated="simulated" in by_kind,
    )


def imported_headline(imported: Imported, manifest: Manifest) -> Headline:
    """Return the headline of an imported campaign, without program and host."""
    return Headline(
        program=f"imported from {imported.title}",
        command=imported.command,
        started=manifest.fact("begun"),
        seconds=sum(state.seconds or 0.0 for state in manifest.runs()),
        version=metadata.version("unperturbed"),
    )


def imported_provenance(spec: CampaignSpec, imported: Imported, manifest: Manifest) -> dict[str, Mapping[str, str]]:
    """Return the provenance of an imported campaign: the import, its options, and each file with its checksum."""
    return {
        "campaign": {
            "name": spec.name,
            "record": str(spec.path),
            "record digest": spec.digest,
            "imported": manifest.fact("begun"),
            "by": imported.command or "the library",
        },
        "what was imported": {
            "format": f"{imported.title} ({imported.format})",
            **({"options": ", ".join(map("=".join, imported.options.items()))} if imported.options else {}),
            "program and host": "not recorded",
            "metrics": ", ".join(f"{name} ({kind})" for name, kind in imported.metrics.items()),
        },
        "files (sha256)": {str(file["file"]): f"{file['configuration']}, {file['sha256']}" for file in imported.files},
    }
