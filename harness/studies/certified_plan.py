"""A certified plan as a spec that `unperturbed run` takes, with the evidence for each subset beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from unperturbed.analysis.partition import CertifiedSubset, Plan
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_SPEC_FOLDER = "{spec}"


def plan_text(campaign: CampaignSpec, plan: Plan) -> str:
    """Return the plan as YAML.

    It is the spec that was partitioned with other subsets, and without the metrics that have no certificate. Files that
    it names relative to itself are named from the root, as the plan lies elsewhere.
    """
    spec: dict[str, Any] = yaml.safe_load(campaign.text)
    held = {metric for subset in plan.subsets for metric in subset.metrics}
    anchor = campaign.analysis.anchor
    software = spec["measure"]["software"]
    left_out = [name for name in software if name not in held and name != anchor]
    spec["measure"]["software"] = {name: event for name, event in software.items() if name not in left_out}
    spec["name"] = f"{campaign.name}-plan"  # a campaign of its own, beside the spec's
    design = spec.setdefault("campaign", {})
    design["subsets"] = {subset.name: list(subset.metrics) for subset in plan.subsets}
    # Fewer runs than certified a subset would leave the same subset undecided.
    # On nodes, `runs` is a total, and each node judges its share.
    shares = 1 if campaign.nodes is None else campaign.nodes.count
    design["runs"] = max([campaign.campaign.runs, *(shares * subset.repetitions for subset in plan.subsets)])
    _name_from_the_root(spec["program"], campaign.folder)
    what = "A certified plan" if plan.subsets else "What a search found"
    head = [
        f"# {what}: `unperturbed partition {campaign.path.name}`, {datetime.now(UTC).date().isoformat()}, strategy "
        f"{plan.strategy}, "
        f"seed {plan.seed}, {plan.runs_used} runs.",
        f"# The chance that any of these subsets changes a correlation by more than {plan.tolerance:g} is at most "
        f"{plan.alpha:g} (tolerance and α of the spec).",
        "# A certificate holds for this program, input, interval and host. plan.json has all the evidence.",
    ]
    head += [f"#   {subset.name}: {_evidence(subset)}" for subset in plan.subsets]
    head += [
        f"# Left out, cannot be measured at this interval: {one.metric} ({one.reason}). Suggestion: {one.advice}"
        for one in plan.unmeasurable
    ]
    head += [f"# Left out, undecided: {', '.join(one.metrics)} ({one.reason})" for one in plan.undecided]
    if not plan.complete:
        head.append(f"# The search was not finished: {plan.stopped}.")
    if not plan.subsets:
        head.append("# No subset is certified: nothing but the baseline is left of the plan.")
    body = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=120)
    return (
        "\n".join(" ".join(line.split()) if len(line) < 3 else line.replace("\n", " ") for line in head) + f"\n\n{body}"
    )


def _evidence(subset: CertifiedSubset) -> str:
    """Return by which runs a subset was certified, and how near its changes came to the tolerance."""
    runs = f"runs {subset.runs[0]} to {subset.runs[-1]}" if len(subset.runs) > 1 else f"run {subset.runs[0]}"
    where = f" on {subset.node}" if subset.node else ""
    sentence = (
        f"certified by {subset.repetitions} fresh runs per pass{where} ({runs}), each bound at {subset.level:.3g}"
    )
    if subset.verdict is not None and subset.verdict.changes:
        widest = max(subset.verdict.changes, key=lambda change: max(-change.low, change.high))
        sentence += f"; farthest: {widest.label} ({widest.check}), change within {widest.low:+.3f} … {widest.high:+.3f}"
    if subset.cost.instructions is not None:
        sentence += f"; instructions {subset.cost.instructions:+.2%}"
    return sentence


def _name_from_the_root(program: dict[str, Any], folder: Path) -> None:
    """Name the program's files from the root, in place."""
    if program.get("source") is not None:
        program["source"] = str((folder / program["source"]).resolve())
    inputs = program.get("inputs")
    if inputs:
        listed = [inputs] if isinstance(inputs, str) else inputs
        program["inputs"] = [str((folder / name).resolve()) for name in listed]
    for name in ("build", "prepare", "run", "stdin", "working_folder"):
        if isinstance(program.get(name), str):
            program[name] = program[name].replace(_SPEC_FOLDER, str(folder))
