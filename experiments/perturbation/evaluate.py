"""The experiment of "Understanding Measurement Perturbation in Trace-based Data" again, judged by this tool.

    python -m experiments.perturbation.evaluate [--campaigns FOLDER] [--programs bzip2 chess] [--processor]

Runs the campaigns of four programs into the folder, or continues them; compares every step of a series, in which one
software metric is added at a time, with the baseline, by this tool's verdicts and by the paper's rule; writes
docs/evidence/perturbation.md and its figures, and every change to experiments/perturbation/tables. Table and figure
numbers are the paper's.

--processor the same with longer runs and a processor's own counters, beside the simulator's table:
docs/evidence/perturbation_processor.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.common.evaluation import EVIDENCE, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.figures import draw_all
from experiments.perturbation.findings import agreement, findings, write_changes
from experiments.perturbation.programs import missing_sentence, programs_parser
from experiments.perturbation.series import PROGRAMS, Series, Step, judge, require_processor
from experiments.perturbation.variants import COUNTERS, write_variant
from unperturbed.analysis.perturbation import Verdict
from unperturbed.common.table import Column

HERE = Path(__file__).parent


def table_1(all_series: Sequence[Series], *, processor: bool = False) -> list[str]:
    """Return the paper's table 1, for these programs and the input of their runs."""
    rows = []
    for series in all_series:
        program, traces = series.program, series.baseline.traces
        length = np.median([np.median(trace["PAPI_TOT_INS"]) for trace in traces])
        counts = sorted(len(trace) for trace in traces)
        intervals = f"{counts[0]:,} to {counts[-1]:,}"
        given = program.long_input if processor else program.input
        described = (program.name, program.stands_for, program.what, program.source, given)
        rows.append((*described, f"{length:,.0f}", intervals))
    heads = ("program", "in the place of", "what", "source", "input")
    return markdown_table([*heads, *right("instructions an interval", "intervals a run")], rows)


def step_tables(all_series: Sequence[Series]) -> list[str]:
    """Return every step of every series: what it adds, what changed, and the verdicts."""
    lines = []
    for series in all_series:
        baseline_runs = len(series.baseline.traces)
        lines += ["", f"**{series.program.name}** ({baseline_runs} baseline runs, {len(series.pairs)} pairs)", ""]
        columns: list[Column | str] = [
            "came in",
            *right("increments a run", "increments, %", "executed, %", "cycles, %"),
            "largest inner change",
            "largest outer change",
            "verdict",
            *right("inner pairs perturbed, undecided", "outer metrics perturbed, undecided"),
            *right("the paper's rule, inner", "… outer"),
        ]
        shams = any(step.sham is not None for step in series.steps)
        if shams:
            columns += ["its sham", *right("… the same inner change", "… the same outer change")]
        rows = [[*_cells(step), *(_sham_cells(step) if shams else ())] for step in series.steps]
        lines += markdown_table(columns, rows)
    return lines


def _cells(step: Step) -> list[str]:
    overhead = step.verdict.overhead
    increments = 100 * step.increment_ratio
    return [
        step.metric,
        f"{step.events:,}",
        f"{increments:.4f}" if increments < 0.1 else f"{increments:.2f}",
        _percent(overhead.instructions),
        _percent(overhead.cycles),
        *(f"{label.replace('PAPI_', '')} {by:+.3f}" for label, by in (step.largest_inner, step.largest_outer)),
        f"**{step.verdict.verdict}**",
        *(f"{_count(check, 'perturbed')}, {_count(check, 'undecided')}" for check in (step.inner, step.outer)),
        f"{_count(step.inner_as_paper, 'perturbed')} of {len(step.inner_as_paper.changes)}",
        f"{_count(step.outer_as_paper, 'perturbed')} of {len(step.outer_as_paper.changes)}",
    ]


def _sham_cells(step: Step) -> list[str]:
    """Return the sham's verdict, and how it changes what the step changes most."""
    effects = (step.of_sham("inner", step.largest_inner[0]), step.of_sham("outer", step.largest_outer[0]))
    verdict = step.sham.verdict if step.sham else "–"
    return [verdict, *("–" if effect is None else f"{effect:+.3f}" for effect in effects)]


def stability_lines(all_series: Sequence[Series]) -> list[str]:
    """Return the reasons to doubt each baseline."""
    lines = []
    for series in all_series:
        doubts = " ".join(series.baseline.stability().sentences())
        lines.append(f"- **{series.program.name}**: {doubts or 'nothing speaks against it.'}")
    return lines


def page(all_series: Sequence[Series], made: str, *, processor: bool = False, campaigns: Path = Path()) -> str:
    """Return the page of evidence."""
    missing = missing_sentence(series.program.name for series in all_series)
    settings = all_series[0].spec
    return fill_page(
        HERE / ("page_processor.md" if processor else "page.md"),
        agreement=agreement(all_series) if processor else "",
        recorded=recorded(campaigns / series.program.name for series in all_series),
        table_1=table_1(all_series, processor=processor),
        steps=step_tables(all_series),
        stability=stability_lines(all_series),
        findings=findings(all_series),
        missing=f"{missing.strip()}\n\n" if missing else "",
        hardware=", ".join(name.removeprefix("PAPI_") for name in settings.measure.hardware),
        baseline_runs=settings.campaign.baseline_runs,
        runs=settings.campaign.runs,
        tolerance=settings.analysis.tolerance,
        made=made,
    )


def _count(verdict: Verdict, name: str) -> int:
    return sum(change.verdict == name for change in verdict.changes)


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:+.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    names = [program.name for program in PROGRAMS]
    parser = programs_parser(__doc__, "perturbation", names)
    parser.add_argument("--processor", action="store_true", help="longer runs, counted by this host's processor")
    options, made = parser.parse_args(arguments), made_by()
    campaigns: Path = options.campaigns.resolve() / ("processor" if options.processor else "")
    all_series = []
    for program in PROGRAMS:
        if program.name in options.programs:
            counters = COUNTERS if options.processor else None
            spec = write_variant(campaigns / "specs", program, counters=counters) if counters else program.spec
            run_campaign(spec, campaigns / program.name)
            all_series.append(judge(program, campaigns / program.name, spec))
            print(f"{program.name}: compared {len(all_series[-1].steps)} steps with the baseline", file=sys.stderr)
    if options.processor:
        require_processor(series.baseline.traces[0] for series in all_series)
    name = "perturbation_processor" if options.processor else "perturbation"
    (EVIDENCE / name).mkdir(exist_ok=True)
    draw_all(EVIDENCE / name, all_series)
    if options.programs == names:
        write_changes(all_series, processor=options.processor)
    written = page(all_series, made, processor=options.processor, campaigns=campaigns)
    (EVIDENCE / f"{name}.md").write_text(written)
    print(f"written: {EVIDENCE / f'{name}.md'}")


if __name__ == "__main__":
    main()
