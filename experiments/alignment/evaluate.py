"""The experiment of "Aligning Traces for Performance Evaluation" again, and what this tool adds to it.

    python -m experiments.alignment.evaluate [--campaigns FOLDER] [--pairs 9] [--processor]

Runs the campaigns of records, rules, tachyon and raytracer into the folder, or continues them; aligns pairs of
runs that collected different metrics, in the paper's way and in this tool's; judges each path by milestones that were
not used for it; writes docs/evidence/alignment.md and its figures. Table and figure numbers are the paper's. With
--processor the same for clips and tachyon_long, on a host whose processor counts: docs/evidence/alignment_processor.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from experiments.alignment.figures import draw_all
from experiments.alignment.pairs import PROCESSOR_WORKLOADS, WAYS, WORKLOADS, Pair, Workload, own, pairs_of
from experiments.common.evaluation import EVIDENCE, evaluation_parser, fill_page, run_campaign
from experiments.common.provenance import made_by, recorded
from experiments.common.tables import markdown_table, right
from unperturbed.analysis.alignment import align, map_region, milestone_positions, summarise_scores
from unperturbed.collectors.data import Trace

HERE = Path(__file__).parent
BUDGETS = (0, 1, 2, 4, 8, 16, 32)
PENALTIES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""As multiples of the penalty that the tool picks."""


@dataclass
class Found:
    """Results for one workload."""

    workload: Workload  # The program
    pairs: list[Pair]  # The traces
    # ways, within: By judge, way and budget: the share of scores 0, one a pair; the same for scores up to 1.
    ways: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    within: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    # By judge and for each of `PENALTIES`, without anchors: the share of scores 0, one a pair.
    penalties: dict[str, list[list[float]]] = field(default_factory=dict)
    flat: list[float] = field(default_factory=list)  # Share of the path that is called flat, one a pair
    # Intervals by which plain DTW is off, median and 90 %, a list a pair.
    strays: list[list[float]] = field(default_factory=list)
    # Share of stretches whose borders are within the stated uncertainty, and its median, one a pair.
    regions: list[tuple[float, float]] = field(default_factory=list)


def evaluate(workload: Workload, pairs: list[Pair]) -> Found:
    """Align every pair in every way, and judge."""
    outcome = Found(workload, pairs)
    for judge in workload.judges:
        outcome.ways[judge] = {way: {budget: [] for budget in BUDGETS} for way in WAYS}
        outcome.within[judge] = {way: {budget: [] for budget in BUDGETS} for way in WAYS}
        outcome.penalties[judge] = [[] for _ in PENALTIES]
    for pair in pairs:
        for (way, aligned), budget in itertools.product(WAYS.items(), BUDGETS):
            path = aligned(pair, workload.anchor, budget)
            for judge in workload.judges:
                summary = summarise_scores(pair.scores(path, judge))
                outcome.ways[judge][way][budget].append(summary.perfect)
                outcome.within[judge][way][budget].append(summary.within_one)
        rule = align(pair.a, pair.b).penalty
        for place, penalty in enumerate(PENALTIES):
            path = align(pair.a, pair.b, penalty=penalty * rule, flat="warped", pace="time")
            for judge in workload.judges:
                outcome.penalties[judge][place].append(summarise_scores(pair.scores(path, judge)).perfect)
        _judge_flatness(outcome, pair)
        _judge_regions(outcome, pair)
    return outcome


def _judge_flatness(outcome: Found, pair: Pair) -> None:
    """Add how much the tool calls flat, and how far plain DTW strays from the truth."""
    free = align(pair.a, pair.b, penalty=0.0, flat="warped", pace="time", mend=False)
    truth = milestone_positions(*pair.counts(outcome.workload.judges[-1]))
    outcome.flat.append(free.flat_share)
    outcome.strays.append(np.quantile(np.abs(free.y_index + 0.5 - truth[free.x_index]), (0.5, 0.9)).tolist())


def _judge_regions(outcome: Found, pair: Pair) -> None:
    """Map stretches of 100 intervals to the other run, and check their borders against the stated uncertainty."""
    unjudged = Pair(*(_without(trace, outcome.workload.judges) for trace in (pair.a, pair.b)))
    alignment = own(unjudged, outcome.workload.anchor, 8)
    truth = milestone_positions(*pair.counts(outcome.workload.judges[-1]))
    right_borders, uncertainties = [], []
    for start in range(0, len(pair.a) - 100, 50):
        region = map_region(alignment, start, start + 100)
        for at, (border, sure) in zip(
            (start, start + 99),
            zip((region.start + 0.5, region.stop - 0.5), region.uncertainty, strict=True),
            strict=True,
        ):
            right_borders.append(abs(border - truth[at]) <= sure + 1)
            uncertainties.append(sure)
    outcome.regions.append((float(np.mean(right_borders)), float(np.median(uncertainties))))


def _without(trace: Trace, names: Sequence[str]) -> Trace:
    """Return a trace without some metrics: the path must not know what judges it."""
    kept = {
        name: metric
        for name, metric in trace.metrics.items()
        if name in ("IPC", "PAPI_TOT_INS") or metric.kind == "software"
    }
    return replace(trace, metrics={name: metric for name, metric in kept.items() if name not in names})


def table_1(outcomes: Sequence[Found]) -> list[str]:
    """Return the paper's table 1, for these workloads."""
    rows = []
    for outcome in outcomes:
        a, b = outcome.pairs[0].a, outcome.pairs[0].b
        for milestone in (outcome.workload.anchor, *outcome.workload.judges):
            shares = ", ".join(f"{100 * np.mean(trace[milestone] > 0):.1f}" for trace in (a, b))
            workload = f"{outcome.workload.name} ({outcome.workload.paper})"
            rows.append((workload, milestone, f"{a[milestone].sum():,}", f"{len(a)}, {len(b)}", shares))
    numbers = right("milestones", "intervals", "% of the intervals hold some")
    return markdown_table(["workload", "milestone", *numbers], rows)


def share_table(outcomes: Sequence[Found]) -> list[str]:
    """Return the share of perfect elements for each way and number of anchors."""
    lines = []
    for outcome in outcomes:
        for judge in outcome.workload.judges:
            lines += [
                "",
                f"**{outcome.workload.name}, anchored on `{outcome.workload.anchor}`, judged by `{judge}`**",
                "",
            ]
            rows = [
                [way, *(f"{_middle(shares)} ({_range(shares)})" for shares in by_budget.values())]
                for way, by_budget in outcome.ways[judge].items()
            ]
            within = outcome.within[judge][list(WAYS)[-1]].values()
            rows.append(["the default, within one interval", *map(_middle, within)])
            lines += markdown_table(["way", *right(*map(str, BUDGETS))], rows)
    return lines


def penalty_table(outcomes: Sequence[Found]) -> list[str]:
    """Return the share of perfect elements by the penalty."""
    rows = [
        [f"{outcome.workload.name}, {judge}", *map(_middle, shares)]
        for outcome in outcomes
        for judge, shares in outcome.penalties.items()
    ]
    return markdown_table(["workload, judge", *right(*(f"{penalty:g}" for penalty in PENALTIES))], rows)


def flat_table(outcomes: Sequence[Found]) -> list[str]:
    """Return what the tool reports of flatness and regions, beside the truth."""
    rows = []
    for outcome in outcomes:
        right_borders, uncertainty = (float(np.median(values)) for values in zip(*outcome.regions, strict=True))
        middle, most = (float(np.median(values)) for values in zip(*outcome.strays, strict=True))
        cells = (f"{np.median(outcome.flat):.0%}", f"{middle:.1f}", f"{most:.1f}", f"{right_borders:.0%}")
        rows.append((outcome.workload.name, *cells, f"± {uncertainty:.1f}"))
    heads = ("called flat", "plain DTW strays, median", "90 %", "borders within the said uncertainty", "said, median")
    return markdown_table(["workload", *right(*heads)], rows)


def _middle(shares: Sequence[float]) -> str:
    return f"{100 * float(np.median(shares)):.1f}"


def _range(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.0f}–{100 * max(shares):.0f}"


def page(outcomes: Sequence[Found], made: str, template: str, campaigns: Path = Path()) -> str:
    """Return the page of evidence."""
    flat = outcomes[-1]
    reached = {judge: float(np.median(ways[list(WAYS)[-1]][32])) for judge, ways in flat.ways.items()}
    return fill_page(
        HERE / template,
        pairs=len(flat.pairs),
        table_1=table_1(outcomes),
        shares=share_table(outcomes),
        penalties=penalty_table(outcomes),
        flat=flat_table(outcomes),
        reached="; ".join(f"{share:.1%} judged by `{judge}`" for judge, share in reached.items()),
        made=made,
        source=_source(outcomes),
        recorded=recorded(campaigns / outcome.workload.name for outcome in outcomes),
    )


def _source(outcomes: Sequence[Found]) -> str:
    """Describe what counted, and how long an interval was."""
    trace = outcomes[0].pairs[0].a
    lengths = ", ".join(
        f"{outcome.workload.name} {np.median(outcome.pairs[0].a.end_ns - outcome.pairs[0].a.begin_ns) / 1e6:.2f} ms"
        for outcome in outcomes
    )
    return (
        f"IPC was counted by {trace.metrics['PAPI_TOT_CYC'].source} on {trace.attributes['host']}. Intervals: "
        f"{lengths}."
    )


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = evaluation_parser(__doc__, "alignment")
    parser.add_argument(
        "--pairs", type=int, default=9, help="pairs of runs of each workload (9, all across the two subsets)"
    )
    parser.add_argument(
        "--processor", action="store_true", help="the programs that a real processor's counters are for"
    )
    arguments, made = parser.parse_args(), made_by()
    name, template = ("alignment_processor", "page_processor.md") if arguments.processor else ("alignment", "page.md")
    outcomes = []
    for workload in PROCESSOR_WORKLOADS if arguments.processor else WORKLOADS:
        campaign = arguments.campaigns / workload.name
        run_campaign(HERE / f"{workload.name}.yaml", campaign)
        outcomes.append(evaluate(workload, pairs_of(workload, campaign, arguments.pairs)))
        print(f"{workload.name}: evaluated {len(outcomes[-1].pairs)} pairs", file=sys.stderr)
    if arguments.processor and any(
        pair.a.metrics["PAPI_TOT_CYC"].kind != "hardware" for outcome in outcomes for pair in outcome.pairs
    ):
        raise SystemExit("the counters were simulated: this host's processor counts nothing, see `unperturbed doctor`")
    (EVIDENCE / name).mkdir(exist_ok=True)
    draw_all(EVIDENCE / name, outcomes, BUDGETS, PENALTIES)
    (EVIDENCE / f"{name}.md").write_text(page(outcomes, made, template, arguments.campaigns))
    print(f"written: {EVIDENCE / f'{name}.md'}")


if __name__ == "__main__":
    main()
