"""The plan of a search as files: the evidence, the page, and a spec that measures the certified subsets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from unperturbed.analysis.partition import CertifiedSubset, Plan
from unperturbed.analysis.partition.plan_text import validity
from unperturbed.analysis.report import ReportContent, write_partition
from unperturbed.common.scratch import write_whole
from unperturbed.common.wording import percent
from unperturbed.harness.campaign.plan import carried_metrics
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import DEFAULT_RUNS


def write_plan(spec: CampaignSpec, folder: Path, plan: Plan, content: ReportContent, notes: Sequence[str]) -> None:
    """Write `plan.json`, `plan.yaml` and `partition.html` into the folder of a search."""
    write_whole(folder / "plan.json", json.dumps(plan.to_json(), indent=1, ensure_ascii=False))
    write_whole(folder / "plan.yaml", plan_text(spec, plan))
    write_partition(folder / "partition.html", replace(content, notes=(*notes, *content.notes)), plan)


def plan_text(spec: CampaignSpec, plan: Plan) -> str:
    """Return the plan as YAML: the spec with the certified subsets, without metrics that have no certificate.

    Relative paths become absolute, because the plan is in a different folder than the spec.
    """
    document: dict[str, Any] = yaml.safe_load(spec.text)
    document["name"] = f"{spec.name}-plan"  # its own campaign, beside the spec's
    design = document.setdefault("campaign", {})
    if plan.kind == "hardware":
        _put_passes(document, spec, plan)
    else:
        _put_subsets(document, spec, plan)
    # With fewer runs than its certification, a subset would be undecided. On nodes, `runs` is a total, and each node
    # judges its share.
    shares = 1 if spec.nodes is None else spec.nodes.count
    runs = DEFAULT_RUNS if spec.campaign.until_decided else spec.campaign.most_runs
    for key in ("at_most", *(["doses"] if plan.kind == "software" else [])):
        design.pop(key, None)
    design["runs"] = max([runs, *(shares * subset.repetitions for subset in plan.subsets)])
    _name_from_the_root(document["program"], spec.folder)
    what = "A certified plan" if plan.subsets else "Result of a search"
    hardware = " --hardware" if plan.kind == "hardware" else ""
    beside = ", beside its build without counting," if plan.families else ""
    head = [
        f"# {what}: `unperturbed partition {spec.path.name}{hardware}`, {datetime.now(UTC).date().isoformat()}, "
        f"strategy {plan.strategy}, seed {plan.seed}, {plan.runs_used} runs.",
        f"# The chance that any of these subsets changes a correlation by more than {plan.tolerance:g}{beside} is at "
        f"most {plan.alpha:g} (tolerance and α of the spec).",
        f"# {validity(plan)}",
        "# plan.json contains all the evidence.",
    ]
    head += [f"#   {each.name}: {_evidence(each)}" for each in (*plan.subsets, *plan.families)]
    head += [
        f"# Left out, not measurable at this interval: {entry.metric} ({entry.reason}). Suggestion: {entry.advice}"
        for entry in plan.unmeasurable
    ]
    head += [f"# Left out, undecided: {', '.join(group.metrics)} ({group.reason})" for group in plan.undecided]
    if not plan.complete:
        head.append(f"# The search was not finished: {plan.stopped}.")
    if not plan.subsets:
        counted = ", with the metrics that every pass counts" if hardware else ""
        head.append(f"# No subset is certified: the plan contains only the baseline{counted}.")
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join(line.replace("\n", " ") for line in head) + f"\n\n{body}"


def _put_subsets(document: dict[str, Any], spec: CampaignSpec, plan: Plan) -> None:
    """Put the certified subsets and their families into a spec's document, without the metrics of none."""
    held = {metric for subset in plan.subsets for metric in subset.metrics}
    carried = carried_metrics(spec)
    software = document["measure"]["software"]
    left_out = [name for name in software if name not in held and name not in carried]
    document["measure"]["software"] = {name: event for name, event in software.items() if name not in left_out}
    design = document["campaign"]
    design["subsets"] = {subset.name: list(subset.metrics) for subset in plan.subsets}
    families = {each.name: [metric for metric in each.metrics if metric in held] for each in plan.families}
    design.pop("families", None)
    if any(families.values()):
        design["families"] = {name: metrics for name, metrics in families.items() if metrics}


def _put_passes(document: dict[str, Any], spec: CampaignSpec, plan: Plan) -> None:
    """Put the certified subsets as passes into a spec's document, without what needs a metric of none."""
    measure, analysis = document["measure"], document.get("analysis") or {}
    left_out = {each.metric for each in plan.unmeasurable} | {name for each in plan.undecided for name in each.metrics}
    measure["hardware"] = [name for name in spec.measure.hardware if name not in left_out]
    measure["passes"] = [list(subset.metrics) for subset in plan.subsets]
    if not plan.subsets:
        del measure["passes"]
    gone = left_out | {name for name, each in spec.measure.derived.items() if left_out.intersection(each.names)}
    for section, key in ((measure, "derived"), (analysis, "totals")):
        if isinstance(section.get(key), dict):
            section[key] = {name: value for name, value in section[key].items() if name not in gone}


def _evidence(subset: CertifiedSubset) -> str:
    """Return a sentence on a subset's certifying runs and its largest possible change."""
    runs = f"runs {subset.runs[0]} to {subset.runs[-1]}" if len(subset.runs) > 1 else f"run {subset.runs[0]}"
    where = f" on {subset.node}" if subset.node else ""
    sentence = (
        f"certified by {subset.repetitions} fresh runs per pass{where} ({runs}), each bound at {subset.level:.3g}"
    )
    if subset.verdict is not None and subset.verdict.changes:
        widest = max(subset.verdict.changes, key=lambda change: max(-change.low, change.high))
        sentence += (
            f"; largest possible change: {widest.label} ({widest.check}), within {widest.low:+.3f} … {widest.high:+.3f}"
        )
    if subset.cost.instructions is not None:
        sentence += f"; instructions {percent(subset.cost.instructions)}"
    return sentence


def _name_from_the_root(program: dict[str, Any], folder: Path) -> None:
    """Make the paths of the program's files absolute, in place."""
    if program.get("source") is not None:
        program["source"] = str((folder / program["source"]).resolve())
    inputs = program.get("inputs")
    if inputs:
        listed = [inputs] if isinstance(inputs, str) else inputs
        program["inputs"] = [str((folder / name).resolve()) for name in listed]
    for name in ("build", "prepare", "run", "stdin", "working_folder"):
        if isinstance(program.get(name), str):
            program[name] = program[name].replace("{spec}", str(folder))
