"""The experiment of "Understanding Measurement Perturbation in Trace-based Data" again, and what this tool says of it.

    python experiments/perturbation/evaluate.py [--campaigns FOLDER] [--programs bzip2 chess]

Runs the campaigns of four programs into the folder, or takes what stands there; holds every step of a series, in which one software
metric is added at a time, against the baseline, by this tool's verdicts and by the paper's rule; writes docs/evidence/perturbation.md
and its figures. Table and figure numbers are the paper's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from figures import draw_all
from findings import findings
from series import PROGRAMS, Program, Series, Step, judge

from unperturbed.analysis.perturbation import Verdict

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "docs" / "evidence"


def campaign_of(program: Program, folder: Path) -> Path:
    """Run a program's campaign, or go on with it; return its folder."""
    campaign = folder / program.name
    command = ["-m", "unperturbed.harness.cli", "run", str(program.spec), "--campaign", str(campaign)]
    code = subprocess.run([sys.executable, *command], check=False).returncode
    if code not in (0, 4):  # a perturbed step is what is looked for
        raise SystemExit(f"{program.name}: the campaign ended with {code}")
    return campaign


def table_1(found: Sequence[Series]) -> list[str]:
    """Return the paper's table 1, for these programs."""
    lines = [
        "| program | in the place of | what | source | input | instructions an interval | intervals a run |",
        "|---|---|---|---|---|---:|---:|",
    ]
    for series in found:
        program, traces = series.program, series.baseline.traces
        length = np.median([np.median(trace["PAPI_TOT_INS"]) for trace in traces])
        counts = sorted(len(trace) for trace in traces)
        lines.append(
            f"| {program.name} | {program.stands_for} | {program.what} | {program.source} | {program.input} | {length:,.0f} | "
            f"{counts[0]:,} to {counts[-1]:,} |"
        )
    return lines


def step_tables(found: Sequence[Series]) -> list[str]:
    """Return every step of every series: what it adds, what changed, and the verdicts."""
    lines = []
    for series in found:
        shams = any(step.sham is not None for step in series.steps)
        baseline_runs = len(series.baseline.traces)
        lines += ["", f"**{series.program.name}** ({baseline_runs} baseline runs, {len(series.pairs)} pairs)", ""]
        lines.append(
            "| came in | increments a run | added, % | instructions, % | cycles, % | largest inner change | largest outer change | verdict | "
            "inner pairs perturbed, undecided | … the paper's rule, inner | … outer |"
            + (" its sham | … the same inner change | … the same outer change |" if shams else "")
        )
        lines.append("|---|---:|---:|---:|---:|---|---|---|---:|---:|---:|" + ("---|---:|---:|" if shams else ""))
        for step in series.steps:
            overhead = step.verdict.overhead
            inner, outer = (f"{label.replace('PAPI_', '')} {by:+.3f}" for label, by in (step.largest_inner, step.largest_outer))
            cells = [
                step.metric,
                f"{step.events:,}",
                f"{100 * step.increment_ratio:.4f}" if step.increment_ratio < 0.001 else f"{100 * step.increment_ratio:.2f}",
                _percent(overhead.instructions),
                _percent(overhead.cycles),
                inner,
                outer,
                f"**{step.verdict.verdict}**",
                f"{_count(step.inner, 'perturbed')}, {_count(step.inner, 'undecided')}",
                f"{_count(step.inner_as_paper, 'perturbed')} of {len(step.inner_as_paper.changes)}",
                f"{_count(step.outer_as_paper, 'perturbed')} of {len(step.outer_as_paper.changes)}",
                *(_sham(step) if shams else []),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def stability_lines(found: Sequence[Series]) -> list[str]:
    """Return what speaks against each baseline."""
    lines = []
    for series in found:
        said = series.baseline.stability().sentences()
        lines.append(f"- **{series.program.name}**: {' '.join(said) if said else 'nothing speaks against it.'}")
    return lines


def page(found: Sequence[Series], command: str) -> str:
    """Return the page of evidence."""
    missing = [program.name for program in PROGRAMS if program.name not in {series.program.name for series in found}]
    settings = found[0].spec
    return (
        (HERE / "page.md")
        .read_text()
        .format(
            table_1="\n".join(table_1(found)),
            steps="\n".join(step_tables(found)),
            stability="\n".join(stability_lines(found)),
            findings="\n".join(findings(found)),
            missing=f"Not recorded yet: {', '.join(missing)}.\n\n" if missing else "",
            hardware=", ".join(name.removeprefix("PAPI_") for name in settings.measure.hardware),
            baseline_runs=settings.campaign.baseline_runs,
            runs=settings.campaign.runs,
            tolerance=settings.analysis.tolerance,
            command=command,
        )
    )


def _sham(step: Step) -> list[str]:
    """Return the sham's verdict, and how it changes what the step changes most."""
    effects = [
        step.of_sham(check, label) for check, (label, _) in (("inner", step.largest_inner), ("outer", step.largest_outer))
    ]
    return [step.sham.verdict if step.sham else "–", *("–" if effect is None else f"{effect:+.3f}" for effect in effects)]


def _count(verdict: Verdict, name: str) -> int:
    return sum(change.verdict == name for change in verdict.changes)


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:+.2f}"


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--campaigns",
        type=Path,
        default=Path("campaigns/perturbation"),
        help="folder of the campaigns (campaigns/perturbation)",
    )
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="the programs to take (all)")
    arguments = parser.parse_args()
    found = []
    for program in PROGRAMS:
        if program.name in arguments.programs:
            found.append(judge(program, campaign_of(program, arguments.campaigns)))
            print(f"{program.name}: held {len(found[-1].steps)} steps against the baseline", file=sys.stderr)
    (EVIDENCE / "perturbation").mkdir(exist_ok=True)
    draw_all(EVIDENCE / "perturbation", found)
    chosen = "" if arguments.programs == names else f" --programs {' '.join(series.program.name for series in found)}"
    (EVIDENCE / "perturbation.md").write_text(page(found, f"python experiments/perturbation/evaluate.py{chosen}"))
    print(f"written: {EVIDENCE / 'perturbation.md'}")


if __name__ == "__main__":
    main()
