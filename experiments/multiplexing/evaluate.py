"""Metrics that take turns on four counters, beside the truth: errors of totals, intervals and correlations.

    python -m experiments.multiplexing.evaluate [--campaigns FOLDER] [--programs bzip2 chess network redcode]

Runs each program with intervals of one quantum, in which the simulator counts all metrics. From these counts it
computes what four counters would have shown, for several lengths of turns and intervals, and what each estimate makes
of it. Five runs that take turns are compared with five others that count all, as by `campaign: {multiplexed: true}`.
Writes docs/evidence/multiplexing.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.stats import rankdata

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.perturbation.series import PROGRAMS, Program
from experiments.perturbation.variants import write_variant
from unperturbed.analysis.multiplexing import Counted, judge_multiplexed
from unperturbed.analysis.perturbation.comparable import MINIMUM_INTERVALS
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import SCALING
from unperturbed.collectors.records.estimates import METHODS, Observed
from unperturbed.collectors.sources.limits import Limits, Turns, take_turns
from unperturbed.common.table import Column
from unperturbed.harness.results.multiplexed import lengthened
from unperturbed.harness.spec.sections.campaign import MULTIPLEXED

HARDWARE = (
    *("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_LD_INS", "PAPI_SR_INS", "PAPI_BR_CN", "PAPI_BR_MSP", "PAPI_L1_LDM"),
    *("PAPI_L1_STM", "PAPI_L1_ICM", "PAPI_L2_LDM", "PAPI_L2_STM", "PAPI_L2_ICM"),
)
LIMITS = Limits(4)
LENGTHS = (Turns(1, 1), Turns(4, 1), Turns(16, 1), Turns(16, 4))
RUNS = 5
CLOSE, RIGHT = 0.1, 0.02  # Errors of a correlation, and of a total, that are small enough


@dataclass(frozen=True)
class Errors:
    """Errors of one estimate; of metrics that take turns, over all runs."""

    totals: NDArray[np.float64]  # Relative, shape (runs, metrics)
    intervals: NDArray[np.float64]  # Root mean square over the mean, shape (runs, metrics)
    correlations: NDArray[np.float64]  # Absolute, shape (runs, pairs)
    missing: float  # Share of the counts of intervals that the estimate does not give
    kept: int | None  # Metrics that may be multiplexed, by the verdicts of a campaign; None with too few intervals


def observe(trace: Trace, turns: Turns) -> tuple[Observed, NDArray[np.float64]]:
    """Return what four counters show, and all that there was, each of shape (intervals, metrics)."""
    counts = {name: trace[name].astype(np.int64) for name in HARDWARE}
    shared = dict(take_turns(counts, LIMITS, turns, counts["PAPI_TOT_CYC"]))
    shown = (
        np.stack([getattr(shared[name], field) for name in HARDWARE], axis=1).astype(np.float64)
        for field in ("counts", "enabled_ns", "running_ns")
    )
    starts = np.arange(0, len(trace), turns.interval)
    truth = np.stack([np.add.reduceat(counts[name], starts) for name in HARDWARE], axis=1)
    return Observed(*shown), truth.astype(np.float64)


def judge(traces: Sequence[Trace], others: Sequence[Trace], turns: Turns) -> dict[str, Errors]:
    """Return the errors of each estimate; `others` are the runs with which those that take turns are compared."""
    turning = np.array([name not in LIMITS.fixed for name in HARDWARE])
    first, second = np.triu_indices(len(HARDWARE), 1)
    pairs = turning[first] | turning[second]
    found: dict[str, list[tuple[Any, Any, Any, float]]] = {name: [] for name in METHODS}
    for trace in traces:
        observed, truth = observe(trace, turns)
        correlations = _correlations(truth)[first, second][pairs]
        for name, method in METHODS.items():
            made = method(observed)
            there = np.isfinite(made)
            # perf scales the whole run's count; the other estimates are of each interval.
            totals = (
                observed.counts.sum(axis=0) * observed.enabled_ns.sum(axis=0) / observed.running_ns.sum(axis=0)
                if name == "scaled"
                else made.sum(axis=0)
            )
            wrong = np.sqrt(np.nanmean((made - truth) ** 2, axis=0)) / truth.mean(axis=0)
            found[name].append(
                (
                    (totals / truth.sum(axis=0) - 1)[turning],
                    wrong[turning],
                    np.abs(_correlations(made)[first, second][pairs] - correlations),
                    float(1 - there[:, turning].mean()),
                )
            )
    made_of: dict[str, Errors] = {}
    for name, runs in found.items():
        totals, intervals, correlations, missing = zip(*runs, strict=True)
        errors = np.stack(totals), np.stack(intervals), np.stack(correlations), float(np.mean(missing))
        made_of[name] = Errors(*errors, count_kept(traces, others, turns, name))
    return made_of


def count_kept(traces: Sequence[Trace], others: Sequence[Trace], turns: Turns, estimate: str) -> int | None:
    """Return how many metrics may be multiplexed."""
    reference = [lengthened(trace[list(HARDWARE)], turns.interval) for trace in others]
    if min(map(len, reference)) < MINIMUM_INTERVALS:
        return None
    shared = []
    for trace in traces:
        observed, _ = observe(trace, turns)
        longer = lengthened(trace[list(HARDWARE)], turns.interval)
        made = METHODS[estimate](observed)[: len(longer)]
        metrics = [replace(longer.metrics[name], scaled=name not in LIMITS.fixed) for name in HARDWARE]
        columns = {name: made[:, at] for at, name in enumerate(HARDWARE)}
        for at, name in enumerate(HARDWARE):
            for suffix, times in zip(SCALING, (observed.enabled_ns, observed.running_ns), strict=False):
                metrics.append(Metric(f"{name}{suffix}", "os"))
                columns[f"{name}{suffix}"] = times[: len(longer), at]
        facts = {**longer.attributes, "configuration": MULTIPLEXED}
        shared.append(
            Trace.from_columns(metrics, columns, begin_ns=longer.begin_ns, end_ns=longer.end_ns, attributes=facts)
        )
    judged = judge_multiplexed(
        [Counted(reference, shared, HARDWARE)],
        interval="",
        estimate=estimate,
        alpha=0.05,
        tolerance=CLOSE,
        totals={"default": 0.01},
    )
    return len(judged.kept)


def _correlations(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's correlations of all pairs of columns, each over the rows that have both."""
    size = values.shape[1]
    made = np.eye(size)
    for first in range(size):
        for second in range(first):
            both = np.isfinite(values[:, first]) & np.isfinite(values[:, second])
            ranks = [rankdata(values[both, column]) for column in (first, second)]
            with np.errstate(invalid="ignore", divide="ignore"):
                made[first, second] = made[second, first] = np.corrcoef(ranks)[0, 1]
    return made


Result = tuple[str, Turns, int, Mapping[str, Errors]]
"""A program, lengths, the number of intervals of a run, and the errors of each estimate."""


def results_of(program: str, traces: Sequence[Trace]) -> Iterator[Result]:
    """Yield the errors for each length of intervals and turns."""
    for turns in LENGTHS:
        yield program, turns, -(-len(traces[0]) // turns.interval), judge(traces[:RUNS], traces[RUNS:], turns)


def table(results: Sequence[Result]) -> list[str]:
    """Return the table of all errors."""
    columns: tuple[Column | str, ...] = (
        "program",
        *right("interval", "turn", "intervals"),
        "estimate",
        *right("missing", "totals: median error", "largest", "within 2 %", "intervals: error over mean"),
        *right("correlations: median error", "largest", "within 0.1", "may be multiplexed"),
    )
    rows = []
    for program, turns, intervals, by_method in results:
        for name, errors in by_method.items():
            rows.append(
                [
                    *(program, turns.interval, turns.turn, intervals, name, f"{errors.missing:.0%}"),
                    *(f"{np.median(np.abs(errors.totals)):.1%}", f"{np.max(np.abs(errors.totals)):.0%}"),
                    f"{np.mean(np.abs(errors.totals) <= RIGHT):.0%}",
                    f"{np.nanmedian(errors.intervals):.2f}",
                    *(f"{np.nanmedian(errors.correlations):.3f}", f"{np.nanmax(errors.correlations):.2f}"),
                    f"{np.mean(errors.correlations <= CLOSE):.0%}",
                    "–" if errors.kept is None else errors.kept,
                ]
            )
    return markdown_table(columns, rows)


def summary(results: Sequence[Result]) -> list[str]:
    """Return how many totals and correlations each estimate gives well, over all programs and lengths."""
    rows = []
    for name in METHODS:
        totals = np.concatenate([np.abs(by_method[name].totals).ravel() for *_, by_method in results])
        close = np.concatenate([by_method[name].correlations.ravel() for *_, by_method in results])
        kept = [by_method[name].kept for *_, by_method in results]
        most = max(number for number in kept if number is not None)
        rows.append([name, f"{np.mean(totals <= RIGHT):.0%}", f"{np.mean(close <= CLOSE):.0%}", f"{most} of 10"])
    heads = right("totals within 2 %", "correlations within 0.1", "metrics that may be multiplexed, at most")
    return markdown_table(["estimate", *heads], rows)


def write_spec(folder: Path, program: Program) -> Path:
    """Write a program's spec with a baseline alone, and intervals of one quantum."""
    spec = yaml.safe_load(write_variant(folder, program).read_text())
    spec["measure"] |= {"hardware": list(HARDWARE), "interval": {"records": 10_000_000}}
    del spec["measure"]["software"]
    spec["campaign"] = {"baseline_runs": 2 * RUNS, "seed": 1}
    spec.pop("analysis", None)
    path = folder / f"{program.name}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False))
    return path


def runs_that_count_all(program: Program, campaigns: Path) -> list[Trace]:
    """Return a program's runs, without the pilot; run what is missing."""
    folder = campaigns / program.name
    run_campaign(write_spec(campaigns / "specs", program), folder)
    files = sorted(folder.glob("runs/0*/trace.parquet"))
    return [Trace.read(file) for file in files if file.parent.name != "0000"][: 2 * RUNS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the page."""
    parser = evaluation_parser(__doc__, "multiplexing")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="programs to run (all)")
    options = parser.parse_args(arguments)
    made, folders = made_by(), list[Path]()
    results: list[Result] = []
    for program in PROGRAMS:
        if program.name not in options.programs:
            continue
        folders.append(options.campaigns / program.name)
        results += results_of(program.name, runs_that_count_all(program, options.campaigns))
    page = fill_page(
        Path(__file__).parent / "page.md",
        summary=summary(results),
        table=table(results),
        metrics=", ".join(f"`{name}`" for name in HARDWARE if name not in LIMITS.fixed),
        recorded=recorded(folders),
        made=made,
    )
    (EVIDENCE / "multiplexing.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
