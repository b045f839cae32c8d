"""Correlations of metrics that no run counts together, beside those within runs that count all.

    python -m experiments.multiplexing.across [--campaigns FOLDER] [--programs bzip2 chess network redcode]

Uses the runs of `experiments.multiplexing.evaluate`, which count all metrics: five are taken as runs of one pass, five
as runs of another, and each of ten metrics of the first is correlated with each other one of the second.
Writes docs/evidence/across_passes.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from experiments.multiplexing.evaluate import HARDWARE, LIMITS, RUNS, runs_that_count_all
from experiments.perturbation.series import PROGRAMS
from unperturbed.analysis.across_passes import correlate_across_passes
from unperturbed.collectors.data import Trace
from unperturbed.common.table import Column
from unperturbed.harness.results.multiplexed import lengthened

TOLERANCE = 0.1
METRICS = tuple(name for name in HARDWARE if name not in LIMITS.fixed)
_SPEEDS, _DRIFT = 0.02, 0.003  # Standard deviations of a run's speed, and of its change from quantum to quantum


def by_time(trace: Trace, quanta: int, seed: int) -> Trace:
    """Return a run cut by time: its intervals begin at random, and the processor is not always equally fast."""
    random = np.random.default_rng(seed)
    cycles = trace["PAPI_TOT_CYC"].astype(np.float64)
    speed = np.exp(np.cumsum(random.normal(0, _DRIFT, len(cycles))) + random.normal(0, _SPEEDS))
    time = np.cumsum(cycles * speed)
    length = time[-1] / len(cycles) * quanta
    number = np.floor((time + random.random() * length) / length).astype(int)
    starts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    columns = {name: np.add.reduceat(trace[name], starts) for name in HARDWARE}
    begin = np.arange(len(starts))
    facts = {"run": trace.attributes["run"], "clock": "monotonic", "interval_ns": 1}
    metrics = [trace.metrics[name] for name in HARDWARE]
    return Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1, attributes=facts)


CUTS: dict[str, Callable[[Trace, int], Trace]] = {
    "work, 1 quantum": lambda trace, _: trace[list(HARDWARE)],
    "work, 4 quanta": lambda trace, _: lengthened(trace[list(HARDWARE)], 4),
    "time, 2 quanta": lambda trace, seed: by_time(trace, 2, seed),
    "time, 4 quanta": lambda trace, seed: by_time(trace, 4, seed),
}


def row(program: str, cut: str, traces: Sequence[Trace]) -> list[str | int]:
    """Compare the estimates with the mean correlation within all runs."""
    runs = [CUTS[cut](trace, at) for at, trace in enumerate(traces)]
    found = correlate_across_passes(runs[:RUNS], runs[RUNS:], (METRICS, METRICS), on=LIMITS.fixed, tolerance=TOLERANCE)
    pairs = [pair for pair in found if pair.first != pair.second]
    truth = np.array(
        [np.mean([spearmanr(run[pair.first], run[pair.second]).statistic for run in runs]) for pair in pairs]
    )
    made, measured, low, high = (
        np.array([getattr(pair, name) for pair in pairs]) for name in ("estimate", "measured", "low", "high")
    )
    reliable = np.array([pair.is_reliable for pair in pairs])
    errors = np.abs(made - truth)
    within = f"{np.mean(errors[reliable] <= TOLERANCE):.0%}" if reliable.any() else "–"
    # An interval of almost no width misses by rounding what it should hold.
    held = (low - 0.005 <= truth) & (truth <= high + 0.005)
    return [
        *(program, cut, min(map(len, runs)), f"{np.mean(measured - truth):+.3f}", f"{np.mean(made - truth):+.3f}"),
        *(f"{np.median(errors):.3f}", f"{errors.max():.2f}", f"{np.mean(held):.0%}", f"{np.median(high - low):.2f}"),
        *(f"{reliable.sum()} of {len(pairs)}", within),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write the page."""
    parser = evaluation_parser(__doc__, "multiplexing")
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=names, default=names, help="programs to run (all)")
    options = parser.parse_args(arguments)
    made, folders, rows = made_by(), list[Path](), []
    for program in PROGRAMS:
        if program.name in options.programs:
            folders.append(options.campaigns / program.name)
            traces = runs_that_count_all(program, options.campaigns)
            rows += [row(program.name, cut, traces) for cut in CUTS]
    columns: tuple[Column | str, ...] = (
        *("program", "intervals by"),
        *right("intervals", "bias between runs", "bias", "median error", "largest", "held by the interval"),
        *right("width", "to rely on", "of these within 0.1"),
    )
    page = fill_page(
        Path(__file__).parent / "across.md",
        table=markdown_table(columns, rows),
        metrics=", ".join(f"`{name}`" for name in METRICS),
        recorded=recorded(folders),
        made=made,
    )
    (EVIDENCE / "across_passes.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
