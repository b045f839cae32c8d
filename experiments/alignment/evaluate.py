"""The experiment of "Aligning Traces for Performance Evaluation" again, and what this tool adds to it.

    python experiments/alignment/evaluate.py [--campaigns FOLDER] [--pairs 9] [--processor]

Runs the campaigns of records, rules, tachyon and raytracer into the folder, or takes what stands there; aligns pairs of runs that collected
different metrics, in the paper's way and in this tool's; judges each path by milestones that were not used for it; writes
docs/evidence/alignment.md and its figures. Table and figure numbers are the paper's. With --processor the same for clips and tachyon_long,
on a host whose processor counts: docs/evidence/alignment_processor.md.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from figures import draw_all
from pairs import PROCESSOR_WORKLOADS, WAYS, WORKLOADS, Pair, Workload, own, pairs_of

from unperturbed.analysis.alignment import align, map_region, milestone_positions, summarise_scores
from unperturbed.collectors.trace import Trace

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "docs" / "evidence"
BUDGETS = (0, 1, 2, 4, 8, 16, 32)
PENALTIES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""As multiples of the penalty that the tool picks."""


@dataclass
class Found:
    """What was found for one workload.

    Attributes
    ----------
    pairs : the traces.
    ways : judge → way → budget → share of scores 0, a pair; within : the same for scores ≤ 1.
    penalties : judge → share of scores 0 for each of PENALTIES, a pair, without anchors.
    flat : share of the path that is called flat, a pair; strays : how far plain DTW is off, median and 90 % [intervals].
    regions : share of stretches whose borders lie within the stated uncertainty, and its median.
    """

    workload: Workload
    pairs: list[Pair]
    ways: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    within: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    penalties: dict[str, list[list[float]]] = field(default_factory=dict)
    flat: list[float] = field(default_factory=list)
    strays: list[list[float]] = field(default_factory=list)
    regions: list[tuple[float, float]] = field(default_factory=list)


def campaign_of(workload: Workload, folder: Path) -> Path:
    """Run a workload's campaign, or go on with it; return its folder."""
    campaign = folder / workload.name
    command = ["-m", "unperturbed.harness.cli", "run", str(HERE / f"{workload.name}.yaml"), "--campaign", str(campaign)]
    code = subprocess.run([sys.executable, *command], check=False).returncode
    if code not in (0, 4):  # a perturbed subset is no obstacle here: its milestones are counted all the same
        raise SystemExit(f"{workload.name}: the campaign ended with {code}")
    return campaign


def evaluate(workload: Workload, pairs: list[Pair]) -> Found:
    """Align every pair in every way, and judge."""
    found = Found(workload, pairs)
    for judge in workload.judges:
        found.ways[judge] = {way: {budget: [] for budget in BUDGETS} for way in WAYS}
        found.within[judge] = {way: {budget: [] for budget in BUDGETS} for way in WAYS}
        found.penalties[judge] = [[] for _ in PENALTIES]
    for pair in pairs:
        for (way, aligned), budget in itertools.product(WAYS.items(), BUDGETS):
            path = aligned(pair, workload.anchor, budget)
            for judge in workload.judges:
                summary = summarise_scores(pair.scores(path, judge))
                found.ways[judge][way][budget].append(summary.perfect)
                found.within[judge][way][budget].append(summary.within_one)
        rule = align(pair.a, pair.b).penalty
        for place, penalty in enumerate(PENALTIES):
            path = align(pair.a, pair.b, penalty=penalty * rule, flat="warped", pace="time")
            for judge in workload.judges:
                found.penalties[judge][place].append(summarise_scores(pair.scores(path, judge)).perfect)
        _judge_flatness(found, pair)
        _judge_regions(found, pair)
    return found


def _judge_flatness(found: Found, pair: Pair) -> None:
    """Note how much the tool calls flat, and how far plain DTW strays from the truth."""
    free = align(pair.a, pair.b, penalty=0.0, flat="warped", pace="time", mend=False)
    truth = milestone_positions(*pair.counts(found.workload.judges[-1]))
    found.flat.append(free.flat_share)
    found.strays.append(np.quantile(np.abs(free.y_index + 0.5 - truth[free.x_index]), (0.5, 0.9)).tolist())


def _judge_regions(found: Found, pair: Pair) -> None:
    """Carry stretches of 100 intervals over, and look whether their borders are as sure as is said."""
    unjudged = Pair(*(_without(trace, found.workload.judges) for trace in (pair.a, pair.b)))
    alignment = own(unjudged, found.workload.anchor, 8)
    truth = milestone_positions(*pair.counts(found.workload.judges[-1]))
    held, said = [], []
    for start in range(0, len(pair.a) - 100, 50):
        region = map_region(alignment, start, start + 100)
        for at, (border, sure) in zip(
            (start, start + 99), zip((region.start + 0.5, region.stop - 0.5), region.uncertainty, strict=True), strict=True
        ):
            held.append(abs(border - truth[at]) <= sure + 1)
            said.append(sure)
    found.regions.append((float(np.mean(held)), float(np.median(said))))


def _without(trace: Trace, names: Sequence[str]) -> Trace:
    """Return a trace without some metrics: what judges must not have been seen."""
    kept = {
        name: metric for name, metric in trace.metrics.items() if name in ("IPC", "PAPI_TOT_INS") or metric.kind == "software"
    }
    return replace(trace, metrics={name: metric for name, metric in kept.items() if name not in names})


def table_1(found: Sequence[Found]) -> list[str]:
    """Return the paper's table 1, for these workloads."""
    lines = ["| workload | milestone | milestones | intervals | % of the intervals hold some |", "|---|---|---:|---:|---:|"]
    for one in found:
        a, b = one.pairs[0].a, one.pairs[0].b
        for milestone in (one.workload.anchor, *one.workload.judges):
            holding = ", ".join(f"{100 * np.mean(trace[milestone] > 0):.1f}" for trace in (a, b))
            lines.append(
                f"| {one.workload.name} ({one.workload.paper}) | {milestone} | {a[milestone].sum():,} | {len(a)}, {len(b)} | {holding} |"
            )
    return lines


def share_table(found: Sequence[Found]) -> list[str]:
    """Return the share of perfect elements for each way and number of anchors."""
    lines = []
    for one in found:
        for judge in one.workload.judges:
            lines += ["", f"**{one.workload.name}, anchored on `{one.workload.anchor}`, judged by `{judge}`**", ""]
            lines += ["| way | " + " | ".join(f"{budget}" for budget in BUDGETS) + " |", "|---|" + "---:|" * len(BUDGETS)]
            for way, by_budget in one.ways[judge].items():
                cells = [f"{_middle(shares)} ({_range(shares)})" for shares in by_budget.values()]
                lines.append(f"| {way} | " + " | ".join(cells) + " |")
            within = [_middle(shares) for shares in one.within[judge][list(WAYS)[-1]].values()]
            lines.append("| the default, within one interval | " + " | ".join(within) + " |")
    return lines


def penalty_table(found: Sequence[Found]) -> list[str]:
    """Return the share of perfect elements against the penalty."""
    lines = [
        "| workload, judge | " + " | ".join(f"{penalty:g}" for penalty in PENALTIES) + " |",
        "|---|" + "---:|" * len(PENALTIES),
    ]
    for one in found:
        for judge, shares in one.penalties.items():
            lines.append(f"| {one.workload.name}, {judge} | " + " | ".join(_middle(each) for each in shares) + " |")
    return lines


def flat_table(found: Sequence[Found]) -> list[str]:
    """Return what the tool says of flatness and regions, beside what is true."""
    lines = [
        "| workload | called flat | plain DTW strays, median | 90 % | borders within the said uncertainty | said, median |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        held, said = (float(np.median(values)) for values in zip(*one.regions, strict=True))
        middle, most = (float(np.median(values)) for values in zip(*one.strays, strict=True))
        lines.append(
            f"| {one.workload.name} | {np.median(one.flat):.0%} | {middle:.1f} | {most:.1f} | {held:.0%} | ± {said:.1f} |"
        )
    return lines


def _middle(shares: Sequence[float]) -> str:
    return f"{100 * float(np.median(shares)):.1f}"


def _range(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.0f}–{100 * max(shares):.0f}"


def page(found: Sequence[Found], command: str, template: str) -> str:
    """Return the page of evidence."""
    flat = found[-1]
    reached = {judge: float(np.median(ways[list(WAYS)[-1]][32])) for judge, ways in flat.ways.items()}
    return (
        (HERE / template)
        .read_text()
        .format(
            pairs=len(flat.pairs),
            table_1="\n".join(table_1(found)),
            shares="\n".join(share_table(found)),
            penalties="\n".join(penalty_table(found)),
            flat="\n".join(flat_table(found)),
            reached="; ".join(f"{share:.1%} judged by `{judge}`" for judge, share in reached.items()),
            command=command,
            source=_source(found),
        )
    )


def _source(found: Sequence[Found]) -> str:
    """Say what counted, and how long an interval was."""
    trace = found[0].pairs[0].a
    lengths = ", ".join(
        f"{one.workload.name} {np.median(one.pairs[0].a.end_ns - one.pairs[0].a.begin_ns) / 1e6:.2f} ms" for one in found
    )
    return f"IPC was counted by {trace.metrics['PAPI_TOT_CYC'].source} on {trace.attributes['host']}. Intervals: {lengths}."


def main() -> None:
    """Run what is missing, evaluate, write the page and its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--campaigns", type=Path, default=Path("campaigns/alignment"), help="folder of the campaigns (campaigns/alignment)"
    )
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs of each workload (9, all across the two subsets)")
    parser.add_argument("--processor", action="store_true", help="the programs that a real processor's counters are for")
    arguments = parser.parse_args()
    name, template = ("alignment_processor", "page_processor.md") if arguments.processor else ("alignment", "page.md")
    found = []
    for workload in PROCESSOR_WORKLOADS if arguments.processor else WORKLOADS:
        campaign = campaign_of(workload, arguments.campaigns)
        found.append(evaluate(workload, pairs_of(workload, campaign, arguments.pairs)))
        print(f"{workload.name}: evaluated {len(found[-1].pairs)} pairs", file=sys.stderr)
    if arguments.processor and any(pair.a.metrics["PAPI_TOT_CYC"].kind != "hardware" for one in found for pair in one.pairs):
        raise SystemExit("the counters were simulated: this host's processor counts nothing, see `unperturbed doctor`")
    (EVIDENCE / name).mkdir(exist_ok=True)
    draw_all(EVIDENCE / name, found, BUDGETS, PENALTIES)
    command = (
        f"python experiments/alignment/evaluate.py --pairs {arguments.pairs}{' --processor' if arguments.processor else ''}"
    )
    (EVIDENCE / f"{name}.md").write_text(page(found, command, template))
    print(f"written: {EVIDENCE / f'{name}.md'}")


if __name__ == "__main__":
    main()
