"""Error rates and power of verdicts on totals: recorded run times of real programs, and families of made-up totals.

    python -m experiments.calibration.totals BLOCKSORT TEXT [RUNS]

records the run times: of the quickstart's program, gzip and sort on the quickstart's input, which take turns.
"""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.calibration.common import ALPHA, header, share
from unperturbed.analysis.floor.resolution import RUNS, resolution_of_total
from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation.decide import classify_change
from unperturbed.analysis.perturbation.rounds import FEWEST_ROUNDS
from unperturbed.analysis.planned_runs import MOST_RUNS
from unperturbed.analysis.totals import TotalChange, check_totals
from unperturbed.analysis.totals.compare import TotalsComparison, compare_totals, holm_beyond
from unperturbed.collectors.data import Trace

FloatArray = NDArray[np.float64]

TIMES = Path(__file__).with_name("run_times.csv")
"""Wall-clock and CPU time of 1,000 runs of each of three programs that took turns, on a host with other work."""
BOUND = 0.02
"""The tolerance of times."""
DESIGNS = ((10, 3), (10, 5), (5, 5), (10, 10), (20, 20))
"""Reference runs and checked runs."""
FAMILY, DEVIATION = 9, 0.004
"""Totals of a family, and the standard deviation of a made-up total's logarithm."""
FLOOR_RUNS, FLOOR_DEVIATION, MOST_NEEDED = (5, 10, 20, 50), 0.02, 250
"""Runs in each group on which noise floors are tried, the deviation of their totals, and the most runs tried."""


def recorded_times() -> dict[str, FloatArray]:
    """Return the recorded times, by program and kind, in the order of the runs."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    with TIMES.open() as file:
        for row in csv.DictReader(file):
            for kind in ("wall", "cpu"):
                times[f"{row['program']}, {kind}"].append(float(row[f"{kind}_s"]))
    return {name: np.array(values) for name, values in times.items()}


def times_header() -> Iterator[str]:
    """The header of the table of times."""
    heads = ["times", "spread", "runs drawn", "k", "r", "false alarms", "accepted at the tolerance"]
    yield from header(
        [*heads, "called perturbed at the tolerance", "unchanged runs accepted", "3 × the tolerance found"]
    )


def times_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Draw both groups from one program's times: independently, or neighbours in time as the runs of a round."""
    for number, (name, times) in enumerate(recorded_times().items()):
        logs = np.log(times)
        for neighbours, (k, r) in product((False, True), DESIGNS):
            rng = np.random.default_rng([seed, 9, number, neighbours, k, r])
            before, after = _drawn(times, k, r, campaigns, rng, neighbours=neighbours)
            partners = _rounds(k, r) if r >= FEWEST_ROUNDS else None
            cells = [
                share(_is(before, after, 0.0, partners, "perturbed", "shifted")),
                share(_is(before, after, BOUND, partners, "unperturbed")),
                share(_is(before, after, BOUND, partners, "perturbed")),
                share(_is(before, after, 0.0, partners, "unperturbed")),
                share(_is(before, after, 3 * BOUND, partners, "perturbed")),
            ]
            how = "neighbours" if neighbours else "at random"
            yield f"| {name} | {100 * logs.std():.1f} % | {how} | {k} | {r} | {' | '.join(cells)} |"


def families_header() -> Iterator[str]:
    """The header of the table of families."""
    heads = ["shared within rounds", "k", "r", "false alarms", "one accepted at the tolerance"]
    yield from header([*heads, "any called perturbed at the tolerance", "0.5 % shown", "2 % called perturbed"])


def families_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Families of normal logarithms, of which a share of the variance belongs to rounds; tolerance 1 %."""
    for shared, (k, r) in product((0.0, 0.9, 0.99), DESIGNS):
        rng = np.random.default_rng([seed, 10, round(100 * shared), k, r])
        partners = _rounds(k, r) if r >= FEWEST_ROUNDS else None
        verdicts: dict[float, list[list[str]]] = {}
        for change in (0.0, 0.01, 0.005, 0.02):
            of_rounds = rng.standard_normal((k, campaigns * FAMILY))
            own = rng.standard_normal((k + r, campaigns * FAMILY))
            before = np.sqrt(shared) * of_rounds + np.sqrt(1 - shared) * own[:k]
            after = np.sqrt(shared) * of_rounds[_rounds(k, r)] + np.sqrt(1 - shared) * own[k:]
            compared = compare_totals(
                np.exp(DEVIATION * before), (1 + change) * np.exp(DEVIATION * after), partners, alpha=ALPHA
            )
            verdicts[change] = _family_verdicts(compared, 0.01, campaigns)
        cells = [
            share([float(any(name in ("perturbed", "shifted") for name in names)) for names in verdicts[0.0]]),
            share([names.count("unperturbed") / FAMILY for names in verdicts[0.01]]),
            share([float("perturbed" in names) for names in verdicts[0.01]]),
            share(_shown(rng, shared, k, r, campaigns, partners)),
            share([names.count("perturbed") / FAMILY for names in verdicts[0.02]]),
        ]
        yield f"| {shared} | {k} | {r} | {' | '.join(cells)} |"


def floor_header() -> Iterator[str]:
    """The header of the table of the noise floor."""
    heads = ["totals", *(f"shown with {runs} runs" for runs in FLOOR_RUNS), "runs needed", "accepted with these"]
    yield from header(heads)


def floor_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Noise floors from ten runs in each group, each tried on other runs of the same kind; one total, tolerance 2 %."""
    kinds: dict[str, Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray]]] = {
        f"normal, {part:g} of the variance shared within rounds": partial(_normal, part) for part in (0, 0.9, 0.99)
    }
    kinds |= {f"{name}, neighbours": partial(_neighbours, times) for name, times in recorded_times().items()}
    for number, (name, draw) in enumerate(kinds.items()):
        rng = np.random.default_rng([seed, 11, number])
        shown: dict[int, list[float]] = {runs: [] for runs in FLOOR_RUNS}
        needed, accepted = list[float](), list[float]()
        for _ in range(campaigns):
            floor = resolution_of_total(judged_total(*draw(rng, 10)), ALPHA, 1)
            for runs in FLOOR_RUNS:
                before, after = draw(rng, runs)
                change = judged_total(before, (1 + floor.smallest[RUNS.index(runs)]) * after)
                shown[runs].append(float(change.p_corrected <= ALPHA))
            needed.append(math.inf if floor.runs is None else floor.runs)
            if floor.runs is not None and floor.runs <= MOST_NEEDED:
                accepted.append(float(judged_total(*draw(rng, floor.runs)).verdict == "unperturbed"))
        middle = float(np.median(needed))
        cells = [share(shown[runs]) for runs in FLOOR_RUNS]
        runs_needed = "over 1,000" if middle > MOST_RUNS else f"{middle:.0f}"
        yield f"| {name} | {' | '.join(cells)} | {runs_needed} | {share(accepted) if accepted else '–'} |"


def _normal(shared: float, rng: np.random.Generator, runs: int) -> tuple[FloatArray, FloatArray]:
    of_rounds, own = rng.standard_normal(runs), rng.standard_normal((2, runs))
    before, after = np.exp(FLOOR_DEVIATION * (np.sqrt(shared) * of_rounds + np.sqrt(1 - shared) * own))
    return before, after


def _neighbours(times: FloatArray, rng: np.random.Generator, runs: int) -> tuple[FloatArray, FloatArray]:
    before, after = _drawn(times, runs, runs, 1, rng, neighbours=True)
    return before[:, 0], after[:, 0]


def judged_total(before: FloatArray, after: FloatArray) -> TotalChange:
    """Return the verdict on one total of runs that share rounds."""
    (change,) = check_totals(_runs_of(before), _runs_of(after), ["time_s"], alpha=ALPHA)
    return change


def _runs_of(times: FloatArray) -> list[Trace]:
    """Return one run of each time, each of a round of its own."""
    none = np.zeros(0, np.int64)
    return [
        Trace({}, none, none, none, {}, {"time_s": value, "block": at, "environment_pad_bytes": at})
        for at, value in enumerate(times.tolist())
    ]


def _shown(
    rng: np.random.Generator, shared: float, k: int, r: int, campaigns: int, partners: NDArray[np.int64] | None
) -> list[float]:
    """Return for each campaign the share of totals whose change by 0.5 % is significant in its family."""
    of_rounds, own = rng.standard_normal((k, campaigns * FAMILY)), rng.standard_normal((k + r, campaigns * FAMILY))
    before = np.sqrt(shared) * of_rounds + np.sqrt(1 - shared) * own[:k]
    after = np.sqrt(shared) * of_rounds[_rounds(k, r)] + np.sqrt(1 - shared) * own[k:]
    compared = compare_totals(np.exp(DEVIATION * before), 1.005 * np.exp(DEVIATION * after), partners, alpha=ALPHA)
    return [float((holm(p) <= ALPHA).mean()) for p in compared.p.reshape(campaigns, FAMILY)]


def _rounds(k: int, r: int) -> NDArray[np.int64]:
    """Return the rounds of the checked runs, evenly over those of the reference."""
    return (np.arange(r) * k // r).astype(np.int64)


def _drawn(
    times: FloatArray, k: int, r: int, campaigns: int, rng: np.random.Generator, *, neighbours: bool
) -> tuple[FloatArray, FloatArray]:
    if not neighbours:
        return rng.choice(times, (k, campaigns)), rng.choice(times, (r, campaigns))
    first = rng.integers(0, len(times) - 2 * k, campaigns)
    return times[first + 2 * np.arange(k)[:, None]], times[first + 2 * _rounds(k, r)[:, None] + 1]


def _is(
    before: FloatArray, after: FloatArray, change: float, partners: NDArray[np.int64] | None, *verdicts: str
) -> list[float]:
    """Return for each campaign whether a change gets one of these verdicts."""
    compared = compare_totals(before, (1 + change) * after, partners, alpha=ALPHA)
    bound = float(np.log1p(BOUND))
    p_beyond = compared.p_beyond(np.full(len(compared.p), bound))
    named = [
        classify_change(p, beyond, low, high, alpha=ALPHA, tolerance=bound)
        for p, beyond, low, high in zip(compared.p, p_beyond, compared.low, compared.high, strict=True)
    ]
    return [float(name in verdicts) for name in named]


def _family_verdicts(compared: TotalsComparison, tolerance: float, campaigns: int) -> list[list[str]]:
    bound = float(np.log1p(tolerance))
    beyond = compared.p_beyond(np.full(len(compared.p), bound))
    shaped = [values.reshape(campaigns, FAMILY) for values in (compared.p, beyond, compared.low, compared.high)]
    return [
        [
            classify_change(p_corrected, other, low, high, alpha=ALPHA, tolerance=bound)
            for p_corrected, other, low, high in zip(
                holm(p), holm_beyond(far, np.full(len(far), compared.designs, np.float64)), lows, highs, strict=True
            )
        ]
        for p, far, lows, highs in zip(*shaped, strict=True)
    ]


def record(blocksort: str, text: str, runs: int) -> None:
    """Run three programs in turns, and write wall-clock and CPU time of each run."""
    commands = {
        "blocksort": [blocksort, "-c", "-b", "136", text],
        "gzip": ["gzip", "-9", "-c", text],
        "sort": ["sort", text],
    }
    with TIMES.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["program", "run", "wall_s", "cpu_s"])
        for run, (name, command) in product(range(runs), commands.items()):
            begun = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begun
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{name} ended with exit code {process.returncode}")
            rows.writerow([name, run, f"{wall:.6f}", f"{usage.ru_utime + usage.ru_stime:.6f}"])


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
