"""One build for all configurations: what is left of the changes, and what comparing within a layout saves.

    python -m experiments.perturbation.one_build [--campaigns FOLDER] [--programs bzip2 chess]

Runs the steps of `layouts.py` again, with `builds: one`: every configuration runs the same build in the same layouts,
and is compared with this build without counting, and with the untouched program. Writes docs/evidence/one_build.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import HERE, PROGRAMS, Program, runs_by_configuration
from experiments.perturbation.variants import write_variant
from unperturbed.analysis.perturbation import Baseline, Verdict
from unperturbed.analysis.perturbation.rounds import find_partners, shared_variance
from unperturbed.collectors.data import Trace
from unperturbed.common.table import Column
from unperturbed.harness.campaign.plan import ALL

RUNS = 8
"""Of each configuration, each in a layout of its own."""


@dataclass(frozen=True)
class Step:
    """A configuration of one build, compared in three ways; by the inner check."""

    program: str
    metric: str  # The software metric that came in last
    rewriting: Verdict  # The build without counting against the untouched program
    counting: Verdict  # This configuration against the build without counting, within layouts
    both: Verdict  # This configuration against the untouched program
    apart: Verdict  # As `counting`, of runs as if they shared no layout
    shared: float  # Share of the variance between runs that a layout explains, in `counting`
    instructions: tuple[int, int]  # Largest difference to the build without counting in a layout; events counted


def steps_of(program: Program, spec: Path, campaign: Path) -> Iterator[Step]:
    """Judge each step of a program against the untouched program and against the build without counting."""
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
        f"Of {pairs} correlations in {len(steps)} steps, {both} are perturbed against the untouched program, and "
        f"{counting} by the counting alone."
    )


def _kinds(steps: Sequence[Step]) -> tuple[list[Verdict], list[Verdict]]:
    return [step.both for step in steps], [step.counting for step in steps]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, evaluate, write the page."""
    parser = evaluation_parser(__doc__, "perturbation-one-build")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="the programs to take (all)")
    options, made = parser.parse_args(arguments), made_by()
    campaigns: Path = options.campaigns.resolve()
    steps: list[Step] = []
    chosen = [program for program in PROGRAMS if program.name in options.programs]
    for program in chosen:
        spec = write_variant(campaigns / "specs", program, layouts=True)
        settings = yaml.safe_load(spec.read_text())
        settings["campaign"] |= {"builds": "one", "sham": True, "baseline_runs": RUNS, "runs": RUNS}
        spec.write_text(yaml.safe_dump(settings, sort_keys=False))
        run_campaign(spec, campaigns / program.name)
        steps += steps_of(program, spec, campaigns / program.name)
        print(f"{program.name}: evaluated", file=sys.stderr)
    page = fill_page(
        HERE / "page_one_build.md",
        headline=headline(steps),
        table=table(steps),
        runs=RUNS,
        programs=", ".join(program.name for program in chosen),
        recorded=recorded(campaigns / program.name for program in chosen),
        made=made,
    )
    (EVIDENCE / "one_build.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
