"""What tools that observe a program change in it: totals and correlations of the program alone, tool by tool.

    python -m experiments.profilers.evaluate [--campaigns FOLDER]

Writes docs/evidence/profilers.md. It needs root, perf, strace, gdb, heaptrack and uftrace.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.perturbation import VERDICT_SIGNS, Baseline, Verdict, ranked_changes
from unperturbed.analysis.totals import TotalChange
from unperturbed.common.wording import percent
from unperturbed.harness.library import Campaign

SPEC = Path(__file__).parent / "tools.yaml"
NULL = "nothing"  # The set-up that is the baseline once more
TOTALS = {
    "time_s": "wall-clock time",
    "perf::task-clock": "CPU time",
    "perf::page-faults": "page faults",
    "perf::context-switches": "context switches",
    "perf::raw_syscalls:sys_enter": "system calls",
}


def totals_table(campaign: Campaign, commands: Mapping[str, str]) -> list[str]:
    """Return how each tool changes the totals of the program, with intervals and verdicts."""
    rows = []
    for name, changes in campaign.check().totals.items():
        by_metric = {change.metric: change for change in changes}
        rows.append([f"`{commands[name]}`", *(_cell(by_metric[metric]) for metric in TOTALS)])
    return markdown_table(["tool", *right(*TOTALS.values())], rows)


def _cell(change: TotalChange) -> str:
    said = "equal" if change.equal else f"{percent(change.change)} ({change.interval})"
    return f"{said} {VERDICT_SIGNS[change.verdict]}"


def correlations_table(campaign: Campaign, commands: Mapping[str, str]) -> tuple[list[str], dict[str, Verdict]]:
    """Return how each tool changes the correlations within a run, and the verdicts."""
    baseline = Baseline(campaign["baseline"])
    verdicts = {name: baseline.inner(campaign[name]) for name in commands}
    rows = []
    for name, verdict in verdicts.items():
        most = ranked_changes(verdict.changes)[0]
        beyond = sum(change.verdict == "perturbed" for change in verdict.changes)
        largest = f"{most.label} {most.effect:+.2f} ({most.low:+.2f} … {most.high:+.2f})".replace("perf::", "")
        verdict_said = f"{VERDICT_SIGNS[verdict.verdict]} {verdict.verdict}"
        rows.append([f"`{commands[name]}`", verdict_said, f"{beyond} of {len(verdict.changes)}", largest])
    return markdown_table(["tool", "verdict", *right("perturbed"), "largest change"], rows), verdicts


def headline(campaign: Campaign, verdicts: Mapping[str, Verdict]) -> str:
    """Return how many tools change the program's CPU time and correlations."""
    totals = campaign.check().totals
    tools = [name for name in verdicts if name != NULL]
    times = [next(each for each in totals[name] if each.metric == "perf::task-clock").verdict for name in tools]
    changed = [name for name in tools if verdicts[name].verdict == "perturbed"]
    return (
        f"Of {len(tools)} tools, {times.count('perturbed')} change the program's CPU time by more than the tolerance, "
        f"and {times.count('undecided')} are undecided there; {len(changed)} change a correlation."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, write the page."""
    options = evaluation_parser(__doc__, "profilers").parse_args(arguments)
    made, folder = made_by(), options.campaigns / "tools"
    run_campaign(SPEC, folder)
    campaign = Campaign(folder)
    spec = yaml.safe_load(SPEC.read_text())
    program = spec["program"]["run"]
    commands = {
        name: change["run"].removesuffix(program).replace("{scratch}/", "").strip() if "run" in change else NULL
        for name, change in spec["programs"].items()
    }
    correlations, verdicts = correlations_table(campaign, commands)
    page = fill_page(
        Path(__file__).parent / "page.md",
        headline=headline(campaign, verdicts),
        totals=totals_table(campaign, commands),
        correlations=correlations,
        recorded=recorded([folder]),
        made=made,
    )
    (EVIDENCE / "profilers.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
