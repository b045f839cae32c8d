"""Run a campaign and show its verdicts, or show its plan: the common part of `run` and `compare`."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from unperturbed.common.wording import BAD, NOTE, counted, duration, listing, visible
from unperturbed.errors import HostError, MissingExtraError, SpecError
from unperturbed.harness.cli.paths import open_page
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import describe_passes, print_note, terminal
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from unperturbed.harness.campaign.manifest import State
    from unperturbed.harness.campaign.progress import Progress
    from unperturbed.harness.cli.terminal import TerminalProgress
    from unperturbed.harness.results.judge import Judgement
    from unperturbed.harness.results.verdicts import CampaignVerdicts
    from unperturbed.harness.spec.campaign_spec import CampaignSpec
    from unperturbed.harness.studies.readiness import Readiness

_RUNS_FAILED = 1
_COMMANDS = ("build", "prepare", "run")
"""The keys of `program:` that are commands, in the order of their execution."""


def run_and_show(
    spec: CampaignSpec,
    folder: Path,
    arguments: argparse.Namespace,
    progress: TerminalProgress,
    *,
    drafted: Path | None = None,
) -> int:
    """Execute the remaining runs of a campaign; print its verdicts."""
    from unperturbed.common.extras import is_installed
    from unperturbed.harness.campaign.execution import run_campaign
    from unperturbed.harness.campaign.manifest import Manifest

    if arguments.no_check:
        if spec.campaign.until_decided:
            raise SpecError("`runs: until decided` needs verdicts: give a number of runs, or remove --no-check")
        with progress:
            run_campaign(spec, folder, progress, checked=False)
        with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
            counts = manifest.counts()
        return _show_measured(folder, counts, arguments, progress)
    if is_installed("analysis"):
        warm_once("alignment", progress.step)
    else:
        progress.note(
            "the analysis libraries are not installed: measuring without a verdict. To get verdicts, type pip install "
            "'unperturbed[analysis]'; to end with exit code 0 without verdicts, add --no-check"
        )
    from unperturbed.harness.cli.verdicts import show_judgement

    judgement = run_and_judge(spec, folder, progress)
    spec = judgement.spec
    report = folder / "report.html"
    further = [] if drafted is None else [f"spec:   {drafted} (edit it to continue)"]
    steps = [*_repeat(judgement, typed=drafted is not None), *_changed_totals(spec, judgement.verdicts)]
    if advice := decide_open_changes(spec, judgement, drafted or arguments.spec, drafted=drafted is not None):
        steps.append(advice)
    further += [f"next:   {step}" for step in steps]
    code = show_judgement(spec, judgement, report, as_json=arguments.json, fail_on=arguments.fail_on, further=further)
    return _end(code, folder, report, arguments, progress)


def _runner(spec: CampaignSpec) -> Callable[[CampaignSpec, Path, Progress], None]:
    """Return the function that makes the runs of a campaign."""
    if spec.campaign.until_decided:
        from unperturbed.harness.studies.until_decided import run_until_decided

        return run_until_decided
    from unperturbed.harness.campaign.execution import run_campaign

    return run_campaign


def run_and_judge(spec: CampaignSpec, folder: Path, progress: TerminalProgress) -> Judgement:
    """Run what is left of a campaign and judge it; if judging finds damaged runs, measure them again once."""
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.campaign.traces import DamagedRunsError
    from unperturbed.harness.results.judge import judge

    repaired = False
    while True:
        with progress:
            _runner(spec)(spec, folder, progress)
        progress.step("judging the runs and writing the report")
        try:
            with progress:
                return judge(folder, spec, watch=progress.watch)
        except MissingExtraError as error:
            raise HostError(
                f"no verdict: {error}. Every run is kept in {folder}: judge the runs later with `unperturbed check "
                f"{folder}`, here or on another host"
            ) from None
        except DamagedRunsError as error:
            if repaired:
                raise
            repaired = True
            progress.note(f"{str(error).splitlines()[0]}; repeating the damaged runs")
            with Manifest(folder / "campaign.sqlite") as manifest:
                manifest.redo(error.runs)


def run_and_show_nodes(
    spec: CampaignSpec, folder: Path, arguments: argparse.Namespace, progress: TerminalProgress
) -> int:
    """Execute the remaining runs of a campaign on nodes; print its verdicts."""
    from unperturbed.harness.nodes.coordinate import run_on_nodes
    from unperturbed.harness.nodes.status import read_status

    with progress:
        notes = run_on_nodes(spec, folder, progress, checked=not arguments.no_check)
    if arguments.no_check:
        return _show_measured(folder, read_status(folder).runs, arguments, progress, missing=notes)
    # Imported only now: nodes would wait for the import.
    from unperturbed.harness.cli.verdicts import show_nodes
    from unperturbed.harness.results.judge import judge_nodes

    warm_once("alignment", progress.step)
    progress.step("judging the runs and writing the report")
    with progress:
        judgement = judge_nodes(folder, spec, notes=notes, watch=progress.watch)
    report = folder / "report.html"
    code = show_nodes(spec, judgement, report, as_json=arguments.json, fail_on=arguments.fail_on)
    return _end(code, folder, report, arguments, progress)


def cancel_jobs(spec: CampaignSpec, folder: Path, command: str) -> int:
    """Cancel the jobs of a campaign or search on nodes; the subcommand `command` resumes the work."""
    from unperturbed.harness.nodes.coordinate import cancel

    if spec.nodes is None:
        what = "campaigns" if command == "run" else "searches"
        raise SpecError(f"--cancel is for {what} on nodes (`nodes:` in the spec); on one host, press Ctrl-C instead")
    ended = cancel(spec, folder)
    print(f"{counted(ended, 'job')} cancelled; finished runs are kept in {folder}; resume with `unperturbed {command}`")
    return 0


def _end(code: int, folder: Path, report: Path, arguments: argparse.Namespace, progress: TerminalProgress) -> int:
    progress.result(code, campaign=str(folder), report=str(report))
    if arguments.open:
        open_page(report)
    return code


def _show_measured(
    folder: Path,
    runs: Mapping[State, int],
    arguments: argparse.Namespace,
    progress: TerminalProgress,
    *,
    missing: Sequence[str] = (),
) -> int:
    """Print how many runs a campaign has and how to judge them; return 1 if runs failed or are missing."""
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


def _repeat(judgement: Judgement, *, typed: bool) -> Iterator[str]:
    """Yield how to make the runs that failed or are missing, which is the remedy before any other."""
    if judgement.complete:
        return
    again = "type the command again" if typed else "run the spec again"
    few = any(verdict.method == "bootstrap" for verdict in judgement.verdicts.verdicts)
    why = ", because too few baseline runs are left for a full check" if few else ""
    if judgement.failed:
        yield f"see above why {counted(len(judgement.failed), 'run')} failed, then {again}: it repeats them{why}"
    else:
        yield f"{again}: it makes {counted(len(judgement.missing), 'missing run')}{why}"


def _changed_totals(spec: CampaignSpec, checked: CampaignVerdicts) -> Iterator[str]:
    """Yield what to do about the totals of each configuration that changed beyond the tolerance.

    Set-ups may differ: that is the answer, and nothing is to be done.
    """
    from unperturbed.analysis.totals.total_text import totals_advice

    for name in checked.totals_at_least("perturbed"):
        changed = [change for change in checked.totals[name] if change.verdict == "perturbed"]
        for sentence in () if name in spec.programs else totals_advice(name, changed, "baseline"):
            yield f"{sentence[0].lower()}{sentence[1:].removesuffix('.')}"


def decide_open_changes(spec: CampaignSpec, judgement: Judgement, path: Path, *, drafted: bool = True) -> str:
    """Return how to decide all changes that are open in the output of `run`; '' if none is.

    `path`: The spec. `drafted`: Whether a command wrote it, which can be typed again.
    """
    from unperturbed.analysis.perturbation import OPEN
    from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS
    from unperturbed.harness.campaign.plan import configurations

    checked = judgement.verdicts
    correlations, totals, times = _open_changes(spec, checked)
    needed = {**correlations, **totals, **{name: runs for name, runs in times.items() if runs <= MOST_RUNS}}
    if not needed or spec.campaign.until_decided:
        return ""
    undecided = {verdict.verdict for verdict in checked.verdicts} | {*checked.totals_verdicts.values()}
    pending = bool(undecided & {*OPEN})
    until = "--until decided" if drafted else "`runs: until decided` and another name"
    if never := [name for name, runs in needed.items() if runs > MOST_RUNS]:
        keys = listing(
            (["`tolerance`"] if correlations.keys() & {*never} else [])
            + (["tolerance under `totals`"] if totals.keys() & {*never} else [])
        )
        # The numbers of runs are those of a power of 80 %: fewer decide many of these changes.
        first = f"decide as much as possible with {until}, " if pending else ""
        attached = spec.program.attach is not None
        longer = "choose a longer `duration`" if attached else "give the program more work per run"
        work = f"{first}{longer}{',' if pending else ''} or set a wider {keys} in the spec"
        return (
            f"{work}: the chance that {MOST_RUNS} runs per configuration decide {listing(never)} is below 80 %"
            f"{' for each' if len(never) > 1 else ''}"
        )
    wanted = max(needed.values())
    done = [row.seconds for row in judgement.content.runs if row.state == "done" and row.seconds is not None]
    planned = sum(max(item.runs, wanted) for item in configurations(spec)) * max(len(checked.traces), 1)
    lasts = f" (about {duration((planned - len(done)) * sum(done) / len(done), whole=True)})" if done else ""
    parts = _parts(correlations, totals, times)
    how = (
        f"type the command again with `{_run_options(spec, wanted)}` before --{parts}"
        if drafted
        else f"set {'baseline_runs' if spec.programs else 'baseline_runs and runs'} to {wanted}{parts} in this spec, "
        f"then: unperturbed run {path}"
    )
    once = f"add runs once, with a chance of up to 2 α of a wrong verdict: {how}{lasts}"
    if far := [name for name in times if name not in needed]:
        once += f"; {listing(far)} may stay undecided"
    if not pending:
        only_times = not correlations and not totals
        open_ = "; only times are open. To decide them too" if only_times else ". To decide the open changes too"
        keys = "baseline_runs" if spec.programs else "baseline_runs and runs"
        further = f"give a copy of the spec another name, set {keys} to {wanted}{parts}, and run it. {_SPENT}"
        return f"the verdicts are decided{open_}, {further if judgement.extensions else once}"
    again = (
        "type the command again with --until decided before --, without a number of runs"
        if drafted
        else "give a copy of the spec another name and `runs: until decided`, and run it"
    )
    anew = f"{again}: it measures anew, with up to {MOST_RUNS} runs per configuration, and keeps α"
    return f"{anew}. {_SPENT}" if judgement.extensions else f"{anew}, because its looks share α. Or {once}"


_SPENT = "Runs were added to this campaign already: with further ones, the chance of a wrong verdict grows again"


def _run_options(spec: CampaignSpec, wanted: float) -> str:
    """Return the options of a command without a spec that give each configuration a number of runs."""
    return f"--runs {wanted}" if spec.programs else f"--baseline-runs {wanted} --runs {wanted}"


_Needed = Mapping[str, float]  # Runs that would decide, by what they would decide; infinite: out of reach


def _open_changes(spec: CampaignSpec, checked: CampaignVerdicts) -> tuple[_Needed, _Needed, _Needed]:
    """Return the runs that open correlations, totals and times need, by what the output's sentences name."""
    from unperturbed.analysis.perturbation import OPEN
    from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS
    from unperturbed.analysis.totals.total_text import name_of_total
    from unperturbed.analysis.totals.verdict import TIMES

    correlations: dict[str, float] = {}
    for verdict in checked.verdicts:
        if verdict.method == "bootstrap":  # with enough runs, another method decides
            continue
        needed = [change.runs_to_decide or math.inf for change in verdict.changes if change.is_open]
        near = [runs for runs in needed if runs <= MOST_RUNS]
        if near:
            correlations[f"correlations of {verdict.configuration}"] = max(near)
        if len(near) < len(needed):
            far = counted(len(needed) - len(near), "correlation")
            correlations[f"{far} of {verdict.configuration}"] = math.inf
    totals: dict[str, float] = {}
    times: dict[str, float] = {}
    for name, joint in checked.totals_verdicts.items():
        if joint == "unperturbed" and not spec.programs:  # no sentence names its totals
            continue
        for change in checked.totals[name]:
            if change.verdict in OPEN:
                kind = times if change.metric in TIMES else totals
                kind[f"{name_of_total(change)} of {name}"] = change.runs_to_decide or math.inf
    return correlations, totals, times


def _parts(*kinds: _Needed) -> str:
    """Return what correlations, totals and times need, in parentheses; '' if all need the same."""
    from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS

    names = ("correlations", "totals", "times")
    near = {
        name: max((runs for runs in kind.values() if runs <= MOST_RUNS), default=0)
        for name, kind in zip(names, kinds, strict=True)
    }
    needed = {name: runs for name, runs in near.items() if runs}
    same = len({*needed.values()}) < 2
    return "" if same else f" ({listing(f'{name} need {runs}' for name, runs in needed.items())})"


def show_plan(spec: CampaignSpec, folder: Path, *, as_json: bool) -> int:
    """Print the plan of a campaign; return 0, or the exit code with which `run` would refuse the campaign."""
    from unperturbed.harness.host.doctor import examine
    from unperturbed.harness.results.floor import known_floor
    from unperturbed.harness.studies.readiness import check_spec

    done, ended, seconds, passes = _earlier_session(folder, spec)
    ready = check_spec(spec, examine(), passes)
    floor = known_floor(spec, folder)
    if not seconds and floor is not None and floor.seconds is not None:
        seconds = [floor.seconds]
    left = None
    if seconds and ready.runs:
        left = max(ready.runs - done, 0) * sum(seconds) / len(seconds)
    described = {
        "name": spec.name,
        "campaign": str(folder),
        "can_run": not ready.problems,
        "problems": [problem.finding.what for problem in ready.problems],
        "passes": describe_passes(ready.passes),
        "division": ready.passes.division,
        "never_together": ready.never_together,
        "commands": _commands(spec),
        "builds": _builds(ready),
        "configurations": dict(ready.planned),
        "runs": ready.runs,
        "done": done,
        "seconds": left,
        "floor": None if floor is None else floor._asdict() | {"campaign": str(floor.campaign)},
    }
    if as_json:
        print_json(described)
    else:
        _print_plan(ready, described)
        extends = ended and ready.runs is not None and ready.runs > done
        if extends and not spec.campaign.until_decided and not spec.parameters:
            console = terminal()
            print_note(
                console,
                "further runs extend the campaign. Verdicts that you have seen spent all of α: see “May I add runs?” "
                "in docs/explanation/verdicts.md",
            )
    return ready.exit_code


def _earlier_session(folder: Path, spec: CampaignSpec) -> tuple[int, bool, list[float], list[dict[str, Any]]]:
    """Return how many runs of a spec are done in a folder, whether none is left, the pilots' seconds and the passes."""
    from unperturbed.harness.campaign.execution import CAMPAIGN, SWEEP, check_owner
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.nodes.shares import SWEEPS, VERDICTS
    from unperturbed.harness.spec.sections.campaign import PILOT

    if not (folder / "campaign.sqlite").is_file():
        return 0, False, [], []
    if spec.nodes is not None:
        purpose = (SWEEPS if spec.parameters else VERDICTS).whole
    else:
        purpose = SWEEP if spec.parameters else CAMPAIGN
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        check_owner(manifest, spec, purpose)
        if manifest.fact("spec_digest") != spec.digest:
            return 0, False, [], []
        passes = manifest.fact("passes") or []
        pilots = [manifest.fact(f"{PILOT}:{item['name']}") for item in passes]
        counts = manifest.counts()
        done = counts.get("done", 0)
        return done, counts.keys() == {"done"}, [pilot["seconds"] for pilot in pilots if pilot], passes


def _commands(spec: CampaignSpec) -> dict[str, str]:
    """Return the commands that the campaign would execute, as written in the spec, by their keys."""
    written: dict[str, str | None] = {f"program.{key}": getattr(spec.program, key) for key in _COMMANDS}
    for name, other in spec.programs.items():
        written |= {f"programs.{name}.{key}": getattr(other, key) for key in ("build", "run")}
    return {key: command for key, command in written.items() if command is not None}


def _builds(ready: Readiness) -> dict[str, list[str]]:
    """Return the metrics compiled into each build; empty if the spec does not build the program."""
    from unperturbed.harness.campaign.plan import counted_in, ready_builds

    spec = ready.spec
    if spec.program.build is None:
        return {}
    compiled = {name for name, event in spec.measure.software.items() if event.means == "compiled"}
    builds = {item.name: [name for name in counted_in(spec, item) if name in compiled] for item in ready.configurations}
    if spec.builds == "one":
        alone = {item.name for item in ready.configurations if not (item.inert or item.software)}
        builds = {name: metrics for name, metrics in builds.items() if not metrics or name in alone}
        builds |= {item.name: list(item.inert) for item in ready_builds(spec)}
    return {"reference": [], **builds}


def _print_passes(ready: Readiness, described: Mapping[str, Any]) -> None:
    from unperturbed.collectors.passes import passes_table

    console = terminal()
    for item in described["passes"]:
        simulated = item["source"] == "simulated"
        source = "[bold yellow]simulated[/bold yellow] by callgrind" if simulated else item["source"]
        console.say(f"pass {item['name']}: {', '.join(item['metrics'])} — {source}")
    held = {item["name"]: item["metrics"] for item in described["passes"]}
    table = passes_table(held, ready.spec.measure.hardware)
    if table is not None and ready.spec.analysis.together:
        console.print(table.to_rich(), crop=False)
    if described["division"]:
        console.say(f"metrics meet in {described['division']}")
    if described["never_together"]:
        console.say(f"[yellow]{NOTE}[/yellow] {escape(described['never_together'])}")


def _print_plan(ready: Readiness, described: Mapping[str, Any]) -> None:
    from unperturbed.collectors.records.notes import ends_at_events
    from unperturbed.harness.spec.quantities import EventInterval
    from unperturbed.harness.spec.sections.campaign import READY

    console = terminal()
    for key, command in described["commands"].items():
        console.say(f"command {escape(key)}: {escape(visible(command))}")
    _print_passes(ready, described)
    for name, metrics in described["builds"].items():
        holds = f"with {', '.join(metrics)}" if metrics else "without software metrics"
        console.say(f"build {escape(name)}: {escape(holds)}")
    if READY in described["builds"] and len(ready.spec.campaign.subsets) > 1:
        console.print(f"build {READY} is split if it executes too many instructions without counting")
    if not described["builds"]:
        console.print("nothing is built")
    each = ", ".join(f"{name} {runs}" for name, runs in described["configurations"].items())
    done = f"; {described['done']} runs are already done" if described["done"] else ""
    if isinstance(interval := ready.spec.measure.interval, EventInterval):
        console.say(escape(ends_at_events(interval.of, interval.every)))
    at_most = "at most " if ready.spec.campaign.until_decided else ""
    console.say(f"{at_most}[bold]{counted(described['runs'], 'run')}[/bold] ({escape(each)}){done}")
    if described["seconds"] is not None:
        console.print(f"{at_most or 'about '}[bold]{duration(described['seconds'], whole=True)}[/bold] to go")
    else:
        slow = any(item["source"] == "simulated" for item in described["passes"])
        each_run = "40 to 300 times as long as the program, due to simulation" if slow else "as long as the program"
        console.print(f"a run takes {each_run}; a pilot run will measure the exact time")
    if (floor := described["floor"]) is not None:
        enough = (
            "at least one tolerance needs more than 1,000 runs of each configuration"
            if floor["enough_runs"] is None
            else f"{counted(floor['enough_runs'], 'run')} of each configuration probably show that an unchanged "
            "program stays within every tolerance of a count or a correlation; `unperturbed floor` of that folder "
            "shows what needs most"
        )
        console.say(f"noise floor, from {escape(floor['campaign'])}: {enough}")
    for problem in ready.problems:
        console.say(f"[bold red]{BAD}[/bold red] {escape(problem.finding.what)}")
    if ready.no_verdict and not ready.problems:
        console.say(f"[yellow]{NOTE}[/yellow] {escape(ready.no_verdict)}")
    console.say(f"campaign: {described['campaign']} (nothing was run or written)")
    if (nodes := ready.spec.nodes) is not None:
        count = counted(nodes.count, "node")
        console.print(f"{count} ({nodes.engine}) share these runs; the plan above is for this host")
