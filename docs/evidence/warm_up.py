"""How often a warm-up is seen where there is none, where it is seen to end, and what leaving it out does to verdicts.

    python docs/evidence/warm_up.py [--runs 400] [--campaigns 400] [--seed 1]

Writes docs/evidence/warm_up.md beside itself. Signals are made up, so that the truth is known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

from experiments.common.provenance import made_by
from unperturbed.analysis.perturbation import Baseline
from unperturbed.analysis.warm_up import Start, find_start, find_starts
from unperturbed.collectors.data import Metric, Trace

HERE = Path(__file__).parent
METRICS = ("a", "b", "c")
FloatArray = NDArray[np.float64]
Maker = Callable[[np.random.Generator], FloatArray]


def main() -> None:
    """Make the runs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=400, help="runs of each kind")
    parser.add_argument("--campaigns", type=int, default=400, help="campaigns of each kind")
    parser.add_argument("--seed", type=int, default=1)
    arguments, made = parser.parse_args(), made_by()
    rows = [
        (name, truth, [_start_of(maker(rng)) for _ in range(arguments.runs)])
        for name, truth, maker in _kinds()
        for rng in (np.random.default_rng(arguments.seed),)
    ]
    verdicts = list(_verdicts(arguments.campaigns, arguments.seed))
    (HERE / "warm_up.md").write_text(_page(rows, verdicts, arguments.runs, arguments.campaigns, made))


def _start_of(signals: FloatArray) -> Start:
    trace = _trace(signals)
    return find_start(trace, list(trace))


def _noise(rng: np.random.Generator, points: int, correlation: float) -> FloatArray:
    """Return three signals with variance 1, each correlated with itself from point to point."""
    shocks = rng.standard_normal((points, len(METRICS))) * np.sqrt(1 - correlation**2)
    shocks[0] /= np.sqrt(1 - correlation**2)
    signals = shocks.copy()
    for at in range(1, points):
        signals[at] += correlation * signals[at - 1]
    return signals


def _trace(signals: FloatArray, **attributes: object) -> Trace:
    bounds = np.arange(len(signals) + 1)
    names = [*METRICS, "d", "e", "f"][: signals.shape[1]]
    described = [Metric(name, "hardware", source="made up") for name in names]
    columns = dict(zip(names, signals.T, strict=True))
    return Trace.from_columns(described, columns, begin_ns=bounds[:-1], end_ns=bounds[1:], attributes=attributes)


def _kinds() -> Iterator[tuple[str, int | None, Maker]]:
    """Yield each kind of run: its name, where it is steady (None: nowhere), and a function that makes one."""
    for points in (100, 300, 3000):
        for correlation in (0.0, 0.5, 0.9, 0.97):
            name = f"steady, {points} intervals, autocorrelation {correlation:g}"
            yield name, 0, lambda rng, points=points, correlation=correlation: _noise(rng, points, correlation)
    for points in (60, 100, 300):
        for correlation in (0.5, 0.9, 0.97):
            name = f"steady, one metric, {points} intervals, autocorrelation {correlation:g}"
            yield name, 0, lambda rng, points=points, correlation=correlation: _noise(rng, points, correlation)[:, :1]
    for pattern in ("ABABAB", "ABABABABABAB", "ABCABCABC", "ABBABBABB"):
        yield f"phases {pattern}", 0, lambda rng, pattern=pattern: _phases(rng, pattern)
    for height in (1, 2, 4):
        for share in (0.05, 0.2, 0.5):
            name = f"first {share:.0%} higher by {height} standard deviations"
            yield name, round(300 * share), lambda rng, height=height, share=share: _step(rng, height, share)
    yield "steady, six metrics nearly the same, 60 intervals, autocorrelation 0.8", 0, _same
    yield "first 20% higher by 3 standard deviations, 5% of the values at 100", 60, _spiky
    yield "steady, heavy tails", 0, lambda rng: np.exp(1.5 * _noise(rng, 300, 0.3))
    yield "first 20% higher by 2 standard deviations, heavy tails", 60, lambda rng: np.exp(1.5 * _step(rng, 2, 0.2))
    yield "start decays, by half every 14 intervals", 60, _decay
    for drift in (0.01, 0.1):
        name = f"first 20% ten times the rest, which drifts by {drift:.0%}, little noise"
        yield name, 60, lambda rng, drift=drift: _drifting(rng, drift)
    yield "phases XABABAB", 43, lambda rng: _phases(rng, "XABABAB")
    yield "phases XAAAAAD", 43, lambda rng: _phases(rng, "XAAAAAD")
    for pattern in ("ABC", "ABCDE"):
        yield f"phases {pattern}, each once", None, lambda rng, pattern=pattern: _phases(rng, pattern)
    yield (
        "drift over the run by 6 standard deviations",
        None,
        lambda rng: _noise(rng, 300, 0.3) + np.linspace(0, 6, 300)[:, None],
    )
    yield (
        "drift over the run by 1%, little noise",
        None,
        lambda rng: (1 + 0.01 * np.arange(300) / 300)[:, None] * (1 + 0.001 * _noise(rng, 300, 0.3)),
    )


def _step(rng: np.random.Generator, height: float, share: float, points: int = 300) -> FloatArray:
    signals = _noise(rng, points, 0.3)
    signals[: round(points * share)] += height
    return signals


def _drifting(rng: np.random.Generator, drift: float) -> FloatArray:
    rest = 1 + drift * np.arange(240) / 240
    return np.concatenate([np.full(60, 10.0), rest])[:, None] * (1 + 0.001 * _noise(rng, 300, 0.3))


def _same(rng: np.random.Generator) -> FloatArray:
    common = _noise(rng, 60, 0.8)[:, :1]
    return np.column_stack([common + 0.1 * _noise(rng, 60, 0.8)[:, :1] for _ in range(6)])


def _spiky(rng: np.random.Generator) -> FloatArray:
    return _step(rng, 3, 0.2) + 100 * (rng.random((300, len(METRICS))) < 0.05)


def _decay(rng: np.random.Generator) -> FloatArray:
    return _noise(rng, 300, 0.3) + 4 * np.exp(-np.arange(300) / 20)[:, None]


def _phases(rng: np.random.Generator, pattern: str) -> FloatArray:
    """Return phases of equal lengths, whose levels are 3 standard deviations apart in some metric."""
    letters = sorted(set(pattern))
    levels = {letter: 3.0 * np.array([at % 2, at // 2 % 2, at // 4 % 2]) for at, letter in enumerate(letters)}
    return np.concatenate([levels[letter] + _noise(rng, 300 // len(pattern), 0.3) for letter in pattern])


def _verdicts(campaigns: int, seed: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield how often ten runs that equal ten baseline runs are called changed or unperturbed: whole, then steady."""
    for name, share in (("no warm-up", 0.0), ("warm-up of 20 %", 0.2)):
        for steady in (False, True):
            rng = np.random.default_rng(seed)
            called = []
            for _ in range(campaigns):
                sides = [
                    [_trace(_correlated(rng, share), run=f"{side}{at}", configuration=side) for at in range(10)]
                    for side in "bc"
                ]
                if steady:
                    sides = [[trace[find_starts(runs, METRICS).longest :] for trace in runs] for runs in sides]
                called.append(Baseline(sides[0], metrics=METRICS).inner(sides[1]).verdict)
            yield (
                f"{name}, {'its start left out' if steady else 'whole runs'}",
                called.count("perturbed"),
                called.count("shifted"),
                called.count("unperturbed"),
            )


def _correlated(rng: np.random.Generator, share: float) -> FloatArray:
    """Return signals that share a part, with a start that is higher in all of them."""
    signals = _noise(rng, 300, 0.3)
    signals += signals[:, :1]
    signals[: round(300 * share)] += 3
    return signals


def _page(
    rows: Sequence[tuple[str, int | None, Sequence[Start]]],
    verdicts: Sequence[tuple[str, int, int, int]],
    runs: int,
    campaigns: int,
    made: str,
) -> str:
    lines = [
        "# Warm-up",
        "",
        "How often the start of a run is said to differ from the rest ([what that "
        "means](../explanation/verdicts.md#does-a-run-warm-up)), in made-up runs of three metrics. Unless the row says "
        f"otherwise, a run has 300 intervals and an autocorrelation of 0.3. Each row has {runs} runs.",
        "",
        "| runs | steady from | seen: from the beginning | later | never | where it begins, 5 %, median, 95 % |",
        "|---|---|---|---|---|---|",
    ]
    for name, truth, starts in rows:
        later = [start.steady for start in starts if start.steady]
        shares = [
            sum(start.steady == 0 for start in starts) / len(starts),
            len(later) / len(starts),
            sum(start.steady is None for start in starts) / len(starts),
        ]
        where = ", ".join(f"{value:.0f}" for value in np.percentile(later, [5, 50, 95])) if later else "–"
        lines.append(
            f"| {name} | {'nowhere' if truth is None else truth} | "
            + " | ".join(f"{share:.3f}" for share in shares)
            + f" | {where} |"
        )
    lines += [
        "",
        "A steady run of three metrics is hardly ever said to warm up; a short run of one metric is, the more "
        "often the stronger its autocorrelation. A start that is higher by 2 standard deviations is always seen "
        "if it is a fifth of the run, and in nine of ten runs if it is 5 % of it. One that is higher by 1 is missed "
        "if it is 5 % of the run, and a first phase unlike the others "
        "(XABABAB) in half of the runs. A decaying start is said to end early: at the median interval it is still "
        "0.8 standard deviations higher, from interval 60 on less than 0.2.",
        "",
        "## Verdicts",
        "",
        "Ten baseline runs beside ten runs that are made alike, three pairs of metrics, tolerance 0.1, α 0.05. The "
        f"start is higher by 3 standard deviations in every metric. Each row has {campaigns} campaigns; the rest "
        "is undecided.",
        "",
        "| campaigns | perturbed | shifted | unperturbed |",
        "|---|---|---|---|",
        *(
            f"| {name} | {perturbed / campaigns:.3f} | {shifted / campaigns:.3f} | {same / campaigns:.3f} |"
            for name, perturbed, shifted, same in verdicts
        ),
        "",
        made,
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
