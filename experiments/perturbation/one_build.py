"""One build for all configurations: what is left of the changes, and what comparing within a layout saves.

    python -m experiments.perturbation.one_build [--campaigns FOLDER] [--programs bzip2 chess] [--series]

Runs the steps of `layouts.py` again, with `builds: one`: every configuration runs the same build in the same layouts,
and is compared with this build without counting, and with the baseline. With --series, runs those of
`evaluate.py`, by one build and by separate builds. Writes a section of docs/evidence/one_build.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from experiments.common.evaluation import EVIDENCE, put_section
from experiments.common.provenance import MANIFEST
from experiments.common.tables import markdown_table, right
from experiments.perturbation.programs import Evaluation, programs_parser
from experiments.perturbation.series import Program, baseline_of, judge_runs, runs_by_configuration
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.analysis.perturbation.rounds import find_partners, shared_variance
from unperturbed.collectors.data import Trace
from unperturbed.common.table import Column
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import ALL, configurations
from unperturbed.harness.campaign.session import family_of
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.campaign import READY

PAGE = EVIDENCE / "one_build.md"
SERIES = "series"
"""Folder with the campaigns of the paper's experiment, and name of their section."""

RUNS = 8
"""Of each configuration, each in a layout of its own."""


@dataclass(frozen=True)
class Step:
    """A configuration of one build, compared in three ways; by the inner check."""

    program: str
    metric: str  # The software metric that came in last
    rewriting: Verdict  # The build without counting against the baseline
    counting: Verdict  # This configuration against the build without counting, within layouts
    both: Verdict  # This configuration against the baseline
    apart: Verdict  # As `counting`, of runs as if they shared no layout
    shared: float  # Share of the variance between runs that a layout explains, in `counting`
    instructions: tuple[int, int]  # Largest difference to the build without counting in a layout; events counted


def steps_of(program: Program, spec: Path, campaign: Path) -> Iterator[Step]:
    """Judge each step of a program against the baseline and against the build without counting."""
    settings = yaml.safe_load(spec.read_text())
    metrics, subsets = settings["measure"]["hardware"], settings["campaign"]["subsets"]
    runs, shams = runs_by_configuration(campaign)
    ready = _by_round(shams[ALL])
    untouched, without = Baseline(runs["baseline"], metrics=metrics), Baseline(ready, metrics=metrics)
    rewriting = untouched.inner(ready)
    for name, software in subsets.items():
        counted = _by_round(runs[name])
        counting = without.inner(counted)
        partners = find_partners(ready, counted)
        assert partners is not None
        before, after = (
            np.array([getattr(change, side) for change in counting.changes], np.float64).T
            for side in ("reference", "observed")
        )
        pairs = zip(counted, (ready[at] for at in partners), strict=True)
        yield Step(
            program.name,
            software[-1],
            rewriting,
            counting,
            untouched.inner(counted),
            without.inner([_in_no_round(trace) for trace in counted]),
            shared_variance(before, after, partners),
            (
                max(abs(_total(one, "PAPI_TOT_INS") - _total(other, "PAPI_TOT_INS")) for one, other in pairs),
                sum(_total(counted[0], metric) for metric in software),
            ),
        )


def _by_round(traces: Sequence[Trace]) -> list[Trace]:
    return sorted(traces, key=lambda trace: int(trace.attributes["block"]))


def _in_no_round(trace: Trace) -> Trace:
    """Return a run that shares its round with no other."""
    return replace(trace, attributes={**trace.attributes, "block": None})


def _total(trace: Trace, metric: str) -> int:
    return int(trace[metric].sum())


def _perturbed(verdict: Verdict) -> str:
    return str(sum(change.verdict == "perturbed" for change in verdict.changes))


def _width(verdict: Verdict) -> float:
    return float(np.median([change.high - change.low for change in verdict.changes]))


def table(steps: Sequence[Step]) -> list[str]:
    """Return the table of all steps."""
    columns: tuple[Column | str, ...] = (
        *("program", "counted up to"),
        *right("pairs", "perturbed by the rewriting", "by the counting", "by both", "variance that a layout explains"),
        *right("interval within layouts", "interval of independent runs", "runs that independent ones would need"),
        *right("instructions that differ in a layout", "events counted"),
    )
    rows = [
        [
            step.program,
            step.metric,
            str(len(step.counting.changes)),
            _perturbed(step.rewriting),
            _perturbed(step.counting),
            _perturbed(step.both),
            f"{100 * step.shared:.0f} %",
            f"{_width(step.counting):.4f}",
            f"{_width(step.apart):.4f}",
            f"{RUNS * (_width(step.apart) / _width(step.counting)) ** 2:.0f}",
            f"{step.instructions[0]:,}",
            f"{step.instructions[1]:,}",
        ]
        for step in steps
    ]
    return markdown_table(columns, rows)


def headline(steps: Sequence[Step]) -> str:
    """Return how many perturbed changes there are, and how many are due to counting."""
    both, counting = (sum(int(_perturbed(verdict)) for verdict in each) for each in _kinds(steps))
    pairs = sum(len(step.counting.changes) for step in steps)
    return (
        f"Of {pairs} correlations in {len(steps)} steps, {both} are perturbed against the baseline, and "
        f"{counting} by the counting alone."
    )


def _kinds(steps: Sequence[Step]) -> tuple[list[Verdict], list[Verdict]]:
    return [step.both for step in steps], [step.counting for step in steps]


def ready_of_steps(spec: CampaignSpec, campaign: Path) -> dict[str, list[Trace]]:
    """Return for each step the runs of the build that it shares with others, without counting."""
    _, shams = runs_by_configuration(campaign)
    with Manifest(campaign / MANIFEST, read_only=True) as manifest:
        families = manifest.required_fact("one_build")["families"]
    runs = {name: [trace for trace in shams[ALL] if trace.attributes["configuration"] == name] for name in families}
    return {item.name: runs[family_of(spec, item, families)] for item in configurations(spec) if item.software}


def changes_in_series(program: Program, spec_path: Path, one: Path, separate: Path) -> pl.DataFrame:
    """Return a row for each change of each step, by one build in three ways and by separate builds in two.

    `one`, `separate`: The campaigns.

    Result: `program`, `step`, `events` (that the step counts), `check`, `first`, `second`; and of each way its verdict
    (`WAY`) and change of ρ (`WAY_effect`): `rewriting`, `counting` and `both` as in `Step`, `separate` (a build of the
    step against the baseline) and `sham` (the sham of that build against it).
    """
    spec = load_spec(spec_path)
    (runs, _), (builds, their_shams) = runs_by_configuration(one), runs_by_configuration(separate)
    untouched, untouched_again = baseline_of(spec, runs["baseline"]), baseline_of(spec, builds["baseline"])
    align_on, readied = tuple(spec.analysis.align_on), ready_of_steps(spec, one)
    rows = []
    for name, software in spec.campaign.subsets.items():
        ready = baseline_of(spec, readied[name])
        checks = {
            "rewriting": judge_runs(untouched, READY, ready.traces, align_on),
            "counting": judge_runs(ready, name, runs[name], align_on),
            "both": judge_runs(untouched, name, runs[name], align_on),
            "separate": judge_runs(untouched_again, name, builds[name], align_on),
            "sham": judge_runs(untouched_again, name, their_shams[name], align_on),
        }
        events = sum(_total(runs[name][0], metric) for metric in software)
        for changes in zip(*(verdict.changes for verdict in checks.values()), strict=True):
            ((check, first, second),) = {(change.check, change.first, change.second) for change in changes}
            row: dict[str, Any] = {"program": program.name, "step": software[-1], "events": events}
            row |= {"check": check, "first": first, "second": second}
            for way, change in zip(checks, changes, strict=True):
                row |= {way: change.verdict, f"{way}_effect": change.effect}
            rows.append(row)
    return pl.DataFrame(rows)


def _number(changes: pl.DataFrame, way: str, *others: str) -> int:
    """Return how many changes are perturbed in all of these ways."""
    return len(changes.filter(*(pl.col(each) == "perturbed" for each in (way, *others))))


def _undecided(changes: pl.DataFrame, way: str) -> int:
    return int((changes[way] == "undecided").sum())


def series_table(changes: pl.DataFrame) -> list[str]:
    """Return a row for each step: perturbed changes by separate builds and by one build."""
    columns: tuple[Column | str, ...] = (
        *("program", "came in"),
        *right("events counted", "perturbed, separate builds", "… in the sham too", "one build: by the counting"),
        *right("by the rewriting", "by both", "undecided, separate builds", "… by the counting"),
        "largest change by the counting",
    )
    rows = []
    for (program, step), group in changes.group_by(["program", "step"], maintain_order=True):
        largest = group.row(int(group["counting_effect"].abs().arg_max() or 0), named=True)
        rows.append(
            [
                program,
                step,
                f"{group['events'][0]:,}",
                _number(group, "separate"),
                _number(group, "separate", "sham"),
                _number(group, "counting"),
                _number(group, "rewriting"),
                _number(group, "both"),
                _undecided(group, "separate"),
                _undecided(group, "counting"),
                f"{_label(largest)} {largest['counting_effect']:+.3f}",
            ]
        )
    return markdown_table(columns, rows)


def counting_table(changes: pl.DataFrame) -> list[str]:
    """Return a row for each change that the counting perturbs, with the same change in the other ways."""
    chosen = changes.filter(pl.col("counting") == "perturbed")
    heads = ("program", "came in", "check", "correlation")
    rows = [
        [
            *(row[name] for name in ("program", "step", "check")),
            _label(row),
            *(_marked(row, way) for way in ("counting", "rewriting", "both", "separate", "sham")),
        ]
        for row in chosen.iter_rows(named=True)
    ]
    columns = right("by the counting", "by the rewriting", "by both", "separate builds", "… in the sham")
    return markdown_table([*heads, *columns], rows)


def _label(row: Mapping[str, Any]) -> str:
    metrics = dict.fromkeys((row["first"], row["second"]))
    return " – ".join(name.removeprefix("PAPI_") for name in metrics)


def _marked(row: Mapping[str, Any], way: str) -> str:
    """Return a change of ρ, in bold where it is perturbed."""
    change = f"{row[f'{way}_effect']:+.3f}"
    return f"**{change}**" if row[way] == "perturbed" else change


def series_headline(changes: pl.DataFrame) -> str:
    """Return how many perturbed changes separate builds show, and how many one build leaves."""
    separate, shown = _number(changes, "separate"), _number(changes, "separate", "sham")
    steps = len(changes.select("program", "step").unique())
    return (
        f"By separate builds, {separate} of {len(changes):,} changes in {steps} steps are perturbed, {shown} of them "
        f"in the step's sham too. By one build, {_number(changes, 'both')} are perturbed against the baseline, "
        f"{_number(changes, 'rewriting')} by the rewriting alone, and {_number(changes, 'counting')} by the counting. "
        f"Of the latter, {_number(changes, 'counting', 'separate')} are among the {separate}, and "
        f"{_number(changes, 'counting', 'separate', 'sham')} among the {shown}."
    )


def series_programs(changes: pl.DataFrame) -> list[str]:
    """Return a line for each program: perturbed changes of all its steps."""
    lines = []
    for (program,), group in changes.group_by(["program"], maintain_order=True):
        lines.append(
            f"- **{program}**: {_number(group, 'separate')} by separate builds ({_number(group, 'separate', 'sham')} "
            f"in shams too); by one build {_number(group, 'counting')} by the counting and {_number(group, 'both')} by "
            f"both. The rewriting perturbs {_number(group, 'rewriting')} of {len(group)}."
        )
    return lines


def one_build_in_layouts(settings: dict[str, Any]) -> None:
    """Change a spec in varied layouts so that it makes one build."""
    settings["campaign"] |= {"builds": "one", "sham": True, "baseline_runs": RUNS, "runs": RUNS}


def one_build(settings: dict[str, Any]) -> None:
    """Change a spec so that it makes one build."""
    settings["campaign"] |= {"builds": "one", "sham": True}


def separate_builds(_settings: dict[str, Any]) -> None:
    """Leave a spec as it is: each configuration is a build."""


BUILDS = {"one": one_build, "separate": separate_builds}
"""The ways to build the steps of the paper's experiment."""


def write_layouts(asked: Evaluation) -> None:
    """Run the steps in varied layouts, and write their section."""
    steps = [step for found in asked.run(one_build_in_layouts, layouts=True) for step in steps_of(*found)]
    section = asked.fill("page_one_build.md", headline=headline(steps), table=table(steps), runs=RUNS)
    put_section(PAGE, "layouts", section.splitlines())


def write_series(asked: Evaluation) -> None:
    """Run the steps of the paper's experiment, and write their section."""
    found, folders = [], []
    both_ways = (asked.run(change, layouts=False, under=f"{SERIES}/{way}") for way, change in BUILDS.items())
    for (program, spec, one), (_, _, separate) in zip(*both_ways, strict=True):
        found.append(changes_in_series(program, spec, one, separate))
        folders += [one, separate]
    changes = pl.concat(found)
    section = asked.fill(
        "page_one_build_series.md",
        folders,
        headline=series_headline(changes),
        by_program=series_programs(changes),
        table=series_table(changes),
        counting=counting_table(changes),
    )
    put_section(PAGE, SERIES, section.splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, evaluate, write a section of the page."""
    parser = programs_parser(__doc__, "perturbation-one-build")
    parser.add_argument(
        "--series", action="store_true", help="the steps of evaluate.py in place of those of layouts.py"
    )
    asked = Evaluation.of(parser, arguments)
    (write_series if asked.options.series else write_layouts)(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
