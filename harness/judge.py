"""A campaign's runs judged: verdicts in the terminal or as JSON, the report on disk, the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from unperturbed.analysis.report import ReportContent, to_json
from unperturbed.collectors.table import TABLE
from unperturbed.errors import SpecError
from unperturbed.harness.campaign import CAMPAIGN, SWEEP
from unperturbed.harness.check import Checked, HowChecked, check, read_traces
from unperturbed.harness.disturbance import disturbed_runs
from unperturbed.harness.manifest import Manifest, RunState
from unperturbed.harness.progress import Progress
from unperturbed.harness.reporting import content_of, write_results
from unperturbed.harness.spec import Campaign, parse_spec
from unperturbed.harness.totals import software_totals

__all__ = ["judge", "recorded_campaign", "write_report_of"]

_RUNS_FAILED = 1
_NEGATIVE = 4


def recorded_campaign(folder: Path) -> Campaign:
    """Return the spec that a campaign was run from, as its manifest recorded it.

    Raises
    ------
    SpecError
        The folder holds no campaign.
    """
    manifest_path = folder / "campaign.sqlite"
    if folder.is_file():
        raise SpecError(f"{folder} is a file; name the campaign's folder (of a spec's campaign, commonly campaigns/<its name>)")
    if not manifest_path.is_file():
        raise SpecError(
            f"{folder} holds no campaign (no campaign.sqlite); make one with: unperturbed run SPEC --campaign {folder}"
        )
    with Manifest(manifest_path) as manifest:
        text, path = manifest.fact("spec_text"), manifest.fact("spec_path")
        purpose = manifest.fact("purpose") or CAMPAIGN
    if text is None:
        raise SpecError(f"{folder} holds a campaign that never began; run its spec again")
    if purpose == SWEEP:
        raise SpecError(f"{folder} holds {purpose}, which gives no verdict: its table is {folder / TABLE}")
    if purpose != CAMPAIGN:
        raise SpecError(
            f"{folder} holds {purpose}, whose runs are judged as it goes; run its plan.yaml for a campaign that can be checked"
        )
    return parse_spec(text, path, Path(path).parent, recorded=True)


def judge(
    folder: Path,
    campaign: Campaign,
    *,
    as_json: bool,
    progress: Progress | None = None,
    method: Literal["runs", "paper"] = "runs",
    across: bool = False,
    without: Sequence[str] = (),
) -> int:
    """Check a campaign, show the verdicts, write the report; return the exit code.

    Judged by the paper's rule (`method`), the report on disk stays as it is. `across` checks each metric against each other one across runs
    too. `without` names runs to leave out.

    1 when runs failed or are missing, which outranks 4; 4 when a configuration is perturbed; else 0.
    """
    from unperturbed.harness.terminal import show_failures, show_totals, show_verdicts  # noqa: PLC0415  rich is slow to load

    if progress is not None:
        progress.step("checking and writing the report")
    with Manifest(folder / "campaign.sqlite") as manifest:
        how = HowChecked(method, across, disturbed_runs(manifest))
        checked, content, incomplete = _judged(folder, campaign, manifest, how, without)
        native_seconds = manifest.fact("native")["seconds"]
    if method == "runs":
        write_results(folder, content)
    if as_json:
        print(json.dumps(to_json(content), indent=2, ensure_ascii=False))
    else:
        show_verdicts(campaign, checked)
        show_totals(software_totals(campaign, checked.traces, native_seconds=native_seconds))
        show_failures(content.failures, [state.run.id for state in incomplete if state.state != "failed"])
        if method == "runs":
            print(f"report: {folder / 'report.html'}")
    if incomplete:
        return _RUNS_FAILED
    return _NEGATIVE if checked.perturbed else 0


def write_report_of(folder: Path, campaign: Campaign) -> Path:
    """Write the report again; return its path."""
    with Manifest(folder / "campaign.sqlite") as manifest:
        write_results(folder, _judged(folder, campaign, manifest, HowChecked(disturbed=disturbed_runs(manifest)))[1])
    return folder / "report.html"


def _judged(
    folder: Path, campaign: Campaign, manifest: Manifest, how: HowChecked, without: Sequence[str] = ()
) -> tuple[Checked, ReportContent, list[RunState]]:
    if not manifest.runs():
        raise SpecError(f"{folder}: the campaign ended before its first run, so there is nothing to judge; run its spec again")
    known = [state.run.id for state in manifest.runs("done")]
    for run in without:
        if run not in known:
            raise SpecError(
                f"--without {run}: the campaign has no finished run of that name; they are {known[0]} to {known[-1]}"
            )
    checked = check(campaign, read_traces(folder, manifest, without=without), how)
    if without:
        left_out = f"Left out on request: run {', '.join(without)}. Verdicts from chosen runs are worth less: say so where you show them."
        checked = replace(checked, notes=(left_out, *checked.notes))
    return checked, content_of(campaign, checked, manifest), manifest.runs("planned", "running", "failed")
