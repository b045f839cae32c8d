"""What a campaign on nodes shows in the terminal: it is run, judged and printed here."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.common.wording import counted
from unperturbed.harness.cli.folders import open_page
from unperturbed.harness.cli.running import show_measured
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.cli.terminal.progress import TerminalProgress
from unperturbed.harness.nodes.coordinate import cancel, run_on_nodes
from unperturbed.harness.nodes.status import read_status
from unperturbed.harness.spec.campaign_spec import CampaignSpec

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import VerdictName
    from unperturbed.harness.results.judge import NodesJudgement

_RUNS_FAILED, _NEGATIVE = 1, 4


def run_and_show_nodes(
    spec: CampaignSpec, folder: Path, arguments: argparse.Namespace, progress: TerminalProgress
) -> int:
    """Run what is left of a campaign on nodes, or cancel its jobs; print its verdicts."""
    if arguments.cancel:
        ended = cancel(spec, folder)
        print(f"{counted(ended, 'job')} cancelled; finished runs are kept, and `unperturbed run` resumes: {folder}")
        return 0
    try:
        notes = run_on_nodes(spec, folder, progress)
    finally:
        progress.end()
    if arguments.no_check:
        return show_measured(folder, read_status(folder).runs, arguments, progress, missing=notes)
    # Not loaded before: nodes would wait for it.
    from unperturbed.harness.cli.warming import warm_once
    from unperturbed.harness.results.judge import judge_nodes

    warm_once("alignment", progress.step)
    progress.step("checking and writing the report")
    try:
        judgement = judge_nodes(folder, spec, notes=notes, watch=progress.watch)
    finally:
        progress.end()
    code = show_nodes(spec, judgement, folder / "report.html", as_json=arguments.json, fail_on=arguments.fail_on)
    progress.result(code, campaign=str(folder), report=str(folder / "report.html"))
    if arguments.open:
        open_page(folder / "report.html")
    return code


def show_nodes(
    spec: CampaignSpec,
    judgement: NodesJudgement,
    report: Path | None,
    *,
    as_json: bool,
    fail_on: VerdictName | None = None,
) -> int:
    """Print the verdicts over nodes; return the exit code.

    `fail_on`: The mildest verdict that counts as failure; by default that of the spec.
    Result: 1 when runs of judged nodes failed or are missing, which outranks 4; 4 when a configuration has that verdict
    or a more serious one; else 0.
    """
    verdicts = judgement.verdicts
    if as_json:
        print(json.dumps(verdicts.to_dict(), indent=2, ensure_ascii=False))
    else:
        console = terminal() if sys.stdout.isatty() else terminal(width=1000)
        console.print(f"[bold]{escape(spec.name)}[/bold]: {escape(verdicts.headline())}", soft_wrap=True)
        for table in verdicts.tables():
            console.print(table.to_rich())
        for sentence in verdicts.sentences():
            console.print(f"[yellow]note:[/yellow] {escape(sentence)}", soft_wrap=True)
        from unperturbed.harness.cli.terminal.campaign import show_failures

        show_failures([f"run {run}" for run in judgement.failed], judgement.missing)
        if report is not None:
            print(f"report: {report}; of each node, nodes/NN/report.html")
    if judgement.failed or judgement.missing:
        return _RUNS_FAILED
    return _NEGATIVE if verdicts.at_least(fail_on or spec.analysis.fail_on) else 0
