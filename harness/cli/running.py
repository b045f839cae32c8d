"""Run a campaign, judge it and show what it showed: what `run` and `compare` do once they have a spec."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.common.wording import counted
from unperturbed.errors import HostError, MissingExtraError

if TYPE_CHECKING:
    from unperturbed.harness.campaign.manifest import State
    from unperturbed.harness.cli.terminal.progress import TerminalProgress
    from unperturbed.harness.results.verdicts import CampaignVerdicts
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_RUNS_FAILED = 1


def run_and_show(
    spec: CampaignSpec,
    folder: Path,
    arguments: argparse.Namespace,
    progress: TerminalProgress,
    *,
    drafted: Path | None = None,
) -> int:
    """Run what is left of a campaign; print its verdicts."""
    from unperturbed.common.extras import is_installed
    from unperturbed.harness.campaign.execution import run_campaign
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.campaign.traces import DamagedRunsError
    from unperturbed.harness.cli.folders import open_page
    from unperturbed.harness.cli.terminal.campaign import show_judgement
    from unperturbed.harness.cli.warming import warm_once
    from unperturbed.harness.results.judge import judge

    if arguments.no_check:
        return _only_measure(spec, folder, arguments, progress)
    if is_installed("analysis"):
        warm_once("alignment", progress.step)
    else:
        progress.note(
            "the libraries of the analyses are not installed here, so this measures and gives no verdict "
            "(--no-check: exit with 0 then; pip install 'unperturbed[analysis]': with verdicts)"
        )
    judgement, repaired = None, False
    while judgement is None:
        try:
            run_campaign(spec, folder, progress)
        finally:
            progress.end()
        progress.step("checking and writing the report")
        try:
            judgement = judge(folder, spec, watch=progress.watch)
        except MissingExtraError as error:
            raise HostError(
                f"every run is kept in {folder}; no verdict: {error}. "
                f"`unperturbed check {folder}` then judges them, here or on another host"
            ) from None
        except DamagedRunsError as error:
            if repaired:
                raise
            repaired = True  # what is damaged inside is only seen by reading it
            progress.note(f"{str(error).splitlines()[0]}; measured again")
            with Manifest(folder / "campaign.sqlite") as manifest:
                manifest.redo(error.runs)
        finally:
            progress.end()
    report = folder / "report.html"
    code = show_judgement(spec, judgement, report, as_json=arguments.json, fail_on=arguments.fail_on)
    if drafted is not None and not arguments.json:
        print(f"spec:   {drafted} (edit it to continue)")
        wanted = runs_that_decide(judgement.verdicts)
        if wanted is not None:
            keys = "baseline_runs" if spec.programs else "baseline_runs and runs"
            print(f"next:   set {keys} to {wanted} in it, then: unperturbed run {drafted}")
    progress.result(code, campaign=str(folder), report=str(report))
    if arguments.open:
        open_page(report)
    return code


def _only_measure(spec: CampaignSpec, folder: Path, arguments: argparse.Namespace, progress: TerminalProgress) -> int:
    """Run what is left of a campaign; return 1 when runs failed."""
    from unperturbed.harness.campaign.execution import run_campaign
    from unperturbed.harness.campaign.manifest import Manifest

    try:
        run_campaign(spec, folder, progress)
    finally:
        progress.end()
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        found = manifest.counts()
    return show_measured(folder, found, arguments, progress)


def show_measured(
    folder: Path,
    runs: Mapping[State, int],
    arguments: argparse.Namespace,
    progress: TerminalProgress,
    *,
    missing: Sequence[str] = (),
) -> int:
    """Print how many runs a campaign has, and how to judge them; return 1 when runs failed or are missing."""
    counts = {"done": runs.get("done", 0), "failed": runs.get("failed", 0)}
    code = _RUNS_FAILED if counts["failed"] or missing else 0
    if arguments.json:
        print(json.dumps({"campaign": str(folder), **counts}))
    else:
        failed = f", {counts['failed']} failed" if counts["failed"] else ""
        print(f"{counted(counts['done'], 'run')} done{failed}: {folder}")
        print(f"next:   unperturbed check {folder}    (here, or on another host with a copy of the folder)")
    progress.result(code, campaign=str(folder))
    return code


def runs_that_decide(checked: CampaignVerdicts) -> int | None:
    """Return how many runs a configuration would probably decide what more runs can; None where nothing is open."""
    from unperturbed.analysis.perturbation import OPEN

    # A verdict that is decided stays so, whatever else of it is open.
    changes = [change for verdict in checked.verdicts if verdict.verdict in OPEN for change in verdict.changes]
    return max((change.runs_to_decide for change in changes if change.runs_to_decide is not None), default=None)
