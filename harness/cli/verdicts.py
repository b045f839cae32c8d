"""Terminal output of a campaign's verdicts, for one host or for nodes, and the resulting exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.text import Text

from unperturbed.analysis.doses.response_text import dose_sentences
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.analysis.perturbation import VerdictName, verdict_cell, verdict_table
from unperturbed.analysis.perturbation.verdict_text import anchor_notes, cause_legend, cause_table, decisive_change
from unperturbed.analysis.report import to_json
from unperturbed.analysis.totals.total_text import total_table, totals_sentence
from unperturbed.common.scratch import write_whole
from unperturbed.common.table import Column, Table, style_of
from unperturbed.common.wording import listing, percent
from unperturbed.harness.campaign.plan import ALL, Configuration, find_sham, judged_configurations, ready_builds
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import print_note, terminal
from unperturbed.harness.results.judge import Judgement, NodesJudgement, Total
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE, MULTIPLEXED
from unperturbed.harness.studies.benchmarks import BenchmarkVerdicts

_RUNS_FAILED, _NEGATIVE = 1, 4
_MOST_PAIRS = 15  # Of a baseline that nothing is compared with; the report has all
_NOTABLE = 1e-3  # Share of the instructions that a build must add without counting to be named


def show_judgement(
    spec: CampaignSpec,
    judgement: Judgement,
    report: Path | None,
    *,
    as_json: bool,
    fail_on: VerdictName | None = None,
    further: Sequence[str] = (),
) -> int:
    """Print the verdicts of a campaign; return the exit code.

    `further`: Lines below the report's path. If set-ups are compared, a sentence on each is the end.
    Result: 1 if runs failed or are missing (takes precedence over 4); 4 if a configuration has the verdict `fail_on`
    (default: the spec's) or a more serious verdict; else 0.
    """
    if as_json:
        print_json(to_json(judgement.content))
    else:
        show_verdicts(spec, judgement.verdicts)
        show_totals(judgement.totals)
        show_failures(judgement.content.failures, judgement.missing)
        if report is not None and not judgement.unwritten:
            print(f"report: {report}")
        for line in further:
            print(line)
        _show_differences(spec, judgement.verdicts)
    if judgement.unwritten:
        print(f"unperturbed: cannot write report.html and verdicts.json: {judgement.unwritten}", file=sys.stderr)
    if not judgement.complete:
        return _RUNS_FAILED
    return _NEGATIVE if _fails(spec, judgement.verdicts, fail_on) else 0


def _fails(spec: CampaignSpec, verdicts: CampaignVerdicts | NodeVerdicts, asked: VerdictName | None) -> bool:
    """Tell whether the verdict on any configuration's correlations or totals makes the command fail."""
    of_spec = spec.analysis.fail_on
    mildest, of_totals = asked or of_spec.correlations, of_spec.totals
    return bool(
        (mildest != "never" and verdicts.at_least(mildest))
        or (of_totals != "never" and verdicts.totals_at_least(of_totals))
    )


def show_nodes(
    spec: CampaignSpec,
    judgement: NodesJudgement,
    report: Path | None,
    *,
    as_json: bool,
    fail_on: VerdictName | None = None,
) -> int:
    """Print the verdicts over nodes; return an exit code as `show_judgement` does, for the judged nodes only."""
    verdicts = judgement.verdicts
    if as_json:
        print_json(verdicts.to_dict())
    else:
        console = terminal(whole_rows=True)
        console.say(f"[bold]{escape(spec.name)}[/bold]: {escape(verdicts.headline())}")
        for table in verdicts.tables():
            console.print(table.to_rich())
        for sentence in verdicts.sentences():
            print_note(console, sentence)
        show_failures([f"run {run}" for run in judgement.failed], judgement.missing)
        if report is not None:
            print(f"report: {report}; report of each node: nodes/NN/report.html")
    if judgement.failed or judgement.missing:
        return _RUNS_FAILED
    return _NEGATIVE if _fails(spec, verdicts, fail_on) else 0


def show_benchmarks(
    verdicts: BenchmarkVerdicts, out: Path | None, *, as_json: bool, fail_on: VerdictName | None = None
) -> int:
    """Print, and write into a folder, the verdicts on totals of another harness; return the exit code."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "verdicts.json", json.dumps(verdicts.to_dict(), indent=1, ensure_ascii=False))
        verdicts.write_html(out / "report.html")
    if as_json:
        print_json(verdicts.to_dict())
    else:
        console = terminal(whole_rows=True)
        for table in verdicts.tables():
            console.print(table.to_rich(console.width), crop=False)
        for note in verdicts.notes:
            print_note(console, note)
        if out is not None:
            print(f"report: {out / 'report.html'}")
        for sentence in verdicts.sentences():
            console.say(escape(sentence))
        console.say(f"[bold]{escape(verdicts.headline())}[/bold]")
    return _NEGATIVE if verdicts.at_least(fail_on or "perturbed") else 0


def show_verdicts(spec: CampaignSpec, checked: CampaignVerdicts) -> None:
    """Print a table of verdicts, each configuration's most serious change, the baseline's steadiness, and notes."""
    console = terminal()
    comparing = _is_comparison(spec, checked)
    if checked.verdicts:
        heading = "verdicts per set-up" if comparing else "verdicts per configuration"
        if comparing:
            console.say(f"baseline (A): {escape(spec.program.run)}")
        table = verdict_table(checked.verdicts, f"{spec.name}: {heading}", totals=checked.totals_verdicts)
        console.print(table.to_rich())
        if checked.counting:
            console.print(cause_table(checked.verdicts, checked.counting).to_rich())
            console.say(cause_legend(checked.verdicts))
        builds = checked.rewriting if checked.counting else {}
        of_builds = (sentence for name, each in builds.items() for sentence in each.sentences(name))
        of_doses = (sentence for responses in checked.doses.values() for sentence in dose_sentences(responses))
        for sentence in (*of_builds, *of_doses):
            console.say(escape(sentence))
        over = f" (over {len(checked.traces)} passes)" if len(checked.traces) > 1 else ""
        console.say(
            f"Correlations are counted{over}: ✓ unperturbed; ✗ changed by more than {spec.analysis.tolerance:g}; ~ "
            "changed, perhaps by less than that; ? undecided."
        )
        console.say(_kinds_of_rho(checked))
        if checked.verdicts[0].method == "paper":
            console.print(
                "By the paper's rule, a correlation is perturbed if it deviates more than in any baseline run. The "
                "rule's error rate is unknown."
            )
    _show_configurations(spec, checked, comparing=comparing)
    if checked.simulated:
        console.say(
            "Hardware metrics are [bold yellow]simulated[/bold yellow], not counted by a processor, and do not include "
            "the loading of the program and its libraries."
        )
    for table in (table for part in checked.parts for table in part.tables()):
        console.print(table.to_rich(console.width), crop=False)
    _show_correlations(checked.correlations)
    if comparing and checked.totals:
        which = "B" if set(checked.totals) == {"B"} else "each set-up"
        caption = f"Totals of a run, and how much {which} differs (a ratio of geometric means)"
        table = total_table(checked.totals, caption)
        console.print(table.to_rich(console.width), crop=False)
    for sentence in checked.steadiness:
        if " is steady over its " in sentence:
            console.say(sentence)
        else:
            print_note(console, sentence)
    of_parts = (note for part in checked.parts for note in part.sentences())
    for note in (*anchor_notes(checked.verdicts), *checked.notes, *of_parts):
        print_note(console, note)


def _show_correlations(tables: Sequence[Table]) -> None:
    """Print the correlations of a baseline that nothing is compared with; of many pairs, only how many there are."""
    console = terminal()
    for table in tables:
        if len(table.rows) <= _MOST_PAIRS:
            console.print(table.to_rich(console.width), crop=False)
        else:
            console.say(f"The report has the baseline's correlations of {len(table.rows)} pairs.")


def _is_comparison(spec: CampaignSpec, checked: CampaignVerdicts) -> bool:
    """Return whether all verdicts are on other set-ups of the program."""
    return bool(spec.programs) and {verdict.configuration for verdict in checked.verdicts} <= set(spec.programs)


def _show_differences(spec: CampaignSpec, checked: CampaignVerdicts) -> None:
    """Print how each set-up differs, one sentence each: totals, then correlations."""
    if not _is_comparison(spec, checked):
        return
    first = "A" if set(checked.totals) == {"B"} else "the baseline"
    for name, changes in checked.totals.items():
        verdict = checked.by_configuration.get(name)
        sentence = totals_sentence(
            name,
            changes,
            first,
            None if verdict is None else verdict.verdict,
            advice=checked.looks is None,
        )
        terminal().say(escape(sentence))


def _show_configurations(spec: CampaignSpec, checked: CampaignVerdicts, *, comparing: bool) -> None:
    """Print what each configuration is, and its most serious change."""
    console = terminal()
    for item in judged_configurations(spec):
        if item.name == BASELINE:
            continue
        console.say(f"{item.name} {escape(describe_configuration(item, spec))}{_of_its_build(item, spec, checked)}")
        verdict = checked.by_configuration.get(item.name)
        if verdict is not None and verdict.verdict != "unperturbed":
            shown = verdict_cell(verdict.verdict)
            said = decisive_change(verdict, advice=checked.looks is None)
            console.say(Text(f"  {shown.text}", style_of(shown)), f": {escape(said)}", sep="")
        alone = checked.counting.get(item.name)
        if alone is not None and alone.verdict != "unperturbed":
            shown = verdict_cell(alone.verdict)
            said = decisive_change(alone, advice=False)
            console.say(Text(f"  counting {shown.text}", style_of(shown)), f": {escape(said)}", sep="")
        moved = checked.totals_verdicts.get(item.name, "unperturbed")
        if moved != "unperturbed" and not comparing:
            shown = verdict_cell(moved)
            said = totals_sentence(item.name, checked.totals[item.name], "the baseline", advice=checked.looks is None)
            console.say(Text(f"  totals {shown.text}", style_of(shown)), f": {escape(said)}", sep="")


def _of_its_build(item: Configuration, spec: CampaignSpec, checked: CampaignVerdicts) -> str:
    """Return what a configuration's build adds without counting; '' if it has a build of its own, or adds nothing."""
    name = find_sham(ready_builds(spec), item)
    if name not in checked.rewriting or item.sham_of is not None:
        return ""
    added = checked.rewriting[name].after / checked.rewriting[name].before - 1
    return "" if abs(added) < _NOTABLE else f"; without counting, its build executes {percent(added)} instructions"


def _kinds_of_rho(checked: CampaignVerdicts) -> str:
    """Return one line with the kinds of ρ that were compared, each with its meaning."""
    known = {change.check for verdict in checked.verdicts for change in verdict.changes}
    meanings = {
        "inner": "inner, of two metrics within a run",
        "outer": "outer, of one metric in two aligned runs",
        "software": "software, like inner but with a software metric",
        "across": "across, of two metrics in two aligned runs",
    }
    return f"Spearman's ρ: {'; '.join(meaning for kind, meaning in meanings.items() if kind in known) or 'none'}."


def describe_configuration(item: Configuration, spec: CampaignSpec) -> str:
    """Return what a configuration is, after its name: its metrics, whose sham it is, or its difference."""
    if item.program:
        other = spec.programs[item.program]
        if other.of(spec.program) == spec.program:
            return "is the same program again"
        return f"is a different set-up of the program ({other.difference()})"
    ending = spec.measure.interval_metric
    but = f" but {ending}, whose events end intervals" if ending else ""
    if item.sham_of == ALL:
        inert = [name for name in item.inert if name != ending]
        return f"has a no-op at every site of {listing(inert)}, and counts nothing{but}"
    if item.sham_of is not None:
        return (
            f"is the sham of {item.sham_of}: the same code, which counts nothing{but}"
            if but
            else (f"is the sham of {item.sham_of}: the same code without counting")
        )
    if not item.software:
        takes_turns = item.name == MULTIPLEXED and spec.campaign.multiplexed
        return f"lets its metrics take turns, with {spec.measure.estimate} counts" if takes_turns else "was imported"
    return f"counts {', '.join(item.software)}"


def show_totals(totals: Sequence[Total]) -> None:
    """Print a table with one row per software metric: its events in a run, and its rate per second."""
    if not totals:
        return
    columns = (Column("metric"), *(Column(head, "right") for head in ("runs", "median", "range", "per second")))
    rows = []
    for total in totals:
        spread = f"{total.least:,} … {total.most:,}" if total.least != total.most else "always"
        if total.counted is None or total.rate is None:
            values = ["gauge", spread if total.least != total.most else f"{total.least:,}", ""]
        else:
            values = [
                f"{total.counted:,.0f}",
                spread,
                f"{total.rate:,.0f}" if total.rate >= 10 else f"{total.rate:.2g}",
            ]
        rows.append([total.name, str(total.runs), *values])
    table = Table(columns, rows, "Software metrics: events per run, and per second of the untouched program's CPU time")
    terminal().print(table.to_rich())


def show_failures(failures: Sequence[str], missing: Sequence[str]) -> None:
    """Print the runs that failed in all attempts, and the runs that are missing."""
    console = terminal(stderr=True)
    for failure in failures:
        console.say(f"[red]failed:[/red] {escape(failure)}")
    if missing:
        console.say(f"[red]missing:[/red] runs {', '.join(missing)}; repeat the run command to execute them")
