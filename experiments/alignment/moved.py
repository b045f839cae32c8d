"""Stretches that change places: made runs with known moved stretches, aligned with and without matching them.

python -m experiments.alignment.moved [--pairs 200]
python -m experiments.alignment.moved --campaign FOLDER     runs of experiments/jvm/compacting.yaml
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from experiments.common.provenance import made_by, recorded
from unperturbed.analysis.alignment import Alignment, align
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.collectors.data import Metric, Trace

WORK = 600
"""Intervals of the program's own work in a run."""

Kind = Literal["phases", "noisy", "flat"]
KINDS: Mapping[Kind, str] = {
    "phases": "phases of 5 to 40 intervals, noise 5 % of their spread",
    "noisy": "the same, noise 20 %",
    "flat": "slow waves, noise as large as they are",
}
CASES: Mapping[str, str] = {
    "moved": "two stretches that come at other places",
    "swapped": "two neighbouring stretches in the other order",
    "in place": "two stretches at the same places",
    "none": "no stretch",
    "bursts": "two stretches of each run that the other has not",
}


@dataclass(frozen=True)
class MadePair:
    """Two runs of the same work with stretches inserted."""

    a: Trace
    b: Trace
    true: tuple[tuple[int, int, int, int], ...]  # As `Alignment.moved`


def made_pair(kind: Kind, case: str, seed: int) -> MadePair:
    """Make two runs."""
    random = np.random.default_rng(seed)
    signal = _signal(kind, random)
    noise = {"phases": 0.05, "noisy": 0.2, "flat": 0.3}[kind] * float(np.std(signal))
    shapes = [_stretch(signal, random) for _ in range(4)]
    places = np.sort(random.choice(np.arange(60, WORK - 60, 45), 4, replace=False)) + random.integers(0, 20, 4)
    in_a: list[tuple[int, int]] = []
    in_b: list[tuple[int, int]] = []  # Place in the work, number of the shape
    if case == "moved":
        in_a, in_b = [(places[0], 0), (places[2], 1)], [(places[1], 0), (places[3], 1)]
    elif case == "swapped":
        in_a, in_b = [(places[0], 0), (places[1], 1)], [(places[0], 1), (places[1], 0)]
    elif case == "in place":
        in_a = in_b = [(places[0], 0), (places[2], 1)]
    elif case == "bursts":
        in_a, in_b = [(places[0], 0), (places[2], 1)], [(places[1], 2), (places[3], 3)]
    a, held_a = _run("a", signal, in_a, shapes, noise, random)
    b, held_b = _run("b", signal, in_b, shapes, noise, random)
    true = []
    if case in ("moved", "swapped"):
        true = [(*held_a[shape], *held_b[shape]) for shape in sorted(held_a, key=lambda shape: held_a[shape])]
    return MadePair(a, b, tuple(true))


def _signal(kind: Kind, random: np.random.Generator) -> FloatArray:
    """Return the metric over the work."""
    if kind == "flat":
        return np.asarray(1 + 0.1 * np.sin(np.arange(WORK) / 40 + random.uniform(0, 6)), np.float64)
    levels: list[FloatArray] = []
    while sum(len(level) for level in levels) < WORK:
        levels.append(np.full(random.integers(5, 41), random.uniform(0.5, 2.0)))
    return np.concatenate(levels)[:WORK]


def _stretch(signal: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return a stretch of 6 to 30 intervals with a level outside the work's range, or a shape inside it."""
    length = int(random.integers(6, 31))
    low, high = float(signal.min()), float(signal.max())
    if random.random() < 0.5:
        level = low - random.uniform(0.2, 0.5) * (high - low) if random.random() < 0.5 else high + 0.3 * (high - low)
        return np.full(length, level)
    return low + (high - low) * np.asarray(random.random(length), np.float64)


def _run(
    name: str,
    signal: FloatArray,
    inserted: Sequence[tuple[int, int]],
    shapes: Sequence[FloatArray],
    noise: float,
    random: np.random.Generator,
) -> tuple[Trace, dict[int, tuple[int, int]]]:
    """Return a run whose speed varies, and the intervals of each inserted stretch."""
    speed = np.exp(0.15 * np.cumsum(random.normal(size=WORK)) / np.sqrt(WORK) + 0.1 * random.normal(size=WORK))
    at = np.searchsorted(np.cumsum(speed) / speed.sum() * WORK, np.arange(WORK), side="right")
    work: IntArray = np.minimum(at, WORK - 1).astype(np.int64)
    values, marks, held = [], [], {}
    done = 0
    for place, shape in sorted(inserted):
        values += [signal[work[done:place]], shapes[shape]]
        marks += [work[done:place], np.full(len(shapes[shape]), -1)]
        begin = sum(map(len, values)) - len(shapes[shape])
        held[shape] = (begin, begin + len(shapes[shape]))
        done = place
    values.append(signal[work[done:]])
    marks.append(work[done:])
    value, mark = np.concatenate(values), np.concatenate(marks)
    last = np.maximum.accumulate(mark) + 1
    milestones = np.diff(np.append(last[:-1], WORK), prepend=0)
    ends = np.arange(1, len(value) + 1) * 1_000_000
    metrics = [Metric("IPC", "derived", semantics="gauge"), Metric("work", "software")]
    columns = {"IPC": value + noise * random.normal(size=len(value)), "work": milestones}
    facts = {"run": name}
    return Trace.from_columns(metrics, columns, begin_ns=ends - 1_000_000, end_ns=ends, attributes=facts), held


def overlap(found: IntArray, true: Sequence[tuple[int, int, int, int]]) -> tuple[int, int]:
    """Return how many true stretches are found (half of them, in both runs), and how many found ones are not true."""

    def common(p: Sequence[int], q: Sequence[int], at: int) -> float:
        shared = min(p[at + 1], q[at + 1]) - max(p[at], q[at])
        return shared / (q[at + 1] - q[at])

    def hits(p: Sequence[int], q: Sequence[int]) -> bool:
        return common(p, q, 0) >= 0.5 and common(p, q, 2) >= 0.5

    stretches = found.tolist()
    return (
        sum(any(hits(one, other) for one in stretches) for other in true),
        sum(not any(common(one, q, 0) > 0 and common(one, q, 2) > 0 for q in true) for one in stretches),
    )


def ways(pair: MadePair) -> Iterator[tuple[str, Alignment]]:
    """Yield the name and the alignment of each way that is compared."""
    yield "plain (the paper)", align(pair.a, pair.b, on="IPC", method="paper")
    yield "plain, moved stretches matched", align(pair.a, pair.b, on="IPC", method="paper", moved="match")
    yield "default", align(pair.a, pair.b, on="IPC")
    yield "default, moved stretches matched", align(pair.a, pair.b, on="IPC", moved="match")


def of_runs(campaign: Path, on: tuple[str, ...] = ("words", "merges"), judge: str = "documents") -> None:
    """Print a table of all pairs of a campaign's runs with a compaction: whether it is matched, and the scores."""
    read = (Trace.read(file) for file in sorted(campaign.glob("runs/*/trace.parquet")))
    runs = [run for run in read if "compactions" in run.metrics]
    print(
        f"aligned on {' and '.join(on)}, judged by {judge}; {len(runs)} runs of {', '.join(str(len(r)) for r in runs)} "
        "intervals"
    )
    print("\n| runs | compactions begin at | plain | default | matched | moved |\n|---|---|---:|---:|---:|---|")
    for a, b in itertools.combinations(runs, 2):
        begin = [int(np.flatnonzero(run["compactions"])[0]) for run in (a, b)]
        ways = [
            align(a, b, on=on, method="paper"),
            align(a, b, on=on),
            align(a, b, on=on, moved="match"),
        ]
        scores = [f"{way.scores[judge].within_one:.1%}" for way in ways]
        moved = ", ".join(f"{s[0]}:{s[1]} ↔ {s[2]}:{s[3]}" for s in ways[-1].moved.tolist()) or "–"
        names = " and ".join(str(run.attributes["run"]) for run in (a, b))
        print(f"| {names} | {begin[0]} and {begin[1]} | {' | '.join(scores)} | {moved} |")


def main() -> None:
    """Print a table for each kind of program, or one of real runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--campaign", type=Path)
    arguments = parser.parse_args()
    print(made_by())
    if arguments.campaign:
        print(recorded([arguments.campaign]))
        of_runs(arguments.campaign)
        return
    pairs = arguments.pairs
    for kind, words in KINDS.items():
        print(f"\n**{kind}**: {words}\n")
        print(
            "| case | way | perfect | within one | worst pair, within one | moved stretches found | false matches per "
            "pair |\n|---|---|---:|---:|---:|---:|---:|"
        )
        for case, what in CASES.items():
            results: dict[str, list[tuple[float, float, int, int, int]]] = {}
            for seed in range(pairs):
                pair = made_pair(kind, case, seed)
                for name, alignment in ways(pair):
                    summary = alignment.scores["work"]
                    found, false = overlap(alignment.moved, pair.true)
                    row = (summary.perfect, summary.within_one, found, len(pair.true), false)
                    results.setdefault(name, []).append(row)
            for name, rows in results.items():
                values = np.array(rows, np.float64)
                found_sum, true_sum = values[:, 2].sum(), values[:, 3].sum()
                cells = ["–"] * 3
                if "matched" in name:
                    before = np.array(results[name.partition(",")[0].replace("plain", "plain (the paper)")], np.float64)
                    worst = 100 * (values[:, 1] - before[:, 1]).min()
                    share = f"{found_sum / true_sum:.0%}" if true_sum else "–"
                    cells = [f"{worst:+.1f} points", share, f"{values[:, 4].mean():.2f}"]
                perfect, within = values[:, 0].mean(), values[:, 1].mean()
                print(f"| {what} | {name} | {perfect:.1%} | {within:.1%} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
