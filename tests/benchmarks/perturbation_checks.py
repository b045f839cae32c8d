"""How long the checks take: inner correlations of many traces, and the outer check of 30 runs.

    python tests/benchmarks/perturbation_checks.py [--traces 700] [--rounds 3]

Traces of 3,000 intervals and 12 metrics, one core. Beside the inner correlations scipy's `spearmanr`, in turns with
ours. Exit code 1 when a stated bound is missed: 5 s for the inner correlations of 700 traces, 10 s for the outer check
of 10 baseline and 20 checked runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is loaded: one core

import numpy as np  # noqa: E402
from scipy.stats import spearmanr  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.analysis import simulate  # noqa: E402
from unperturbed.analysis.perturbation import Baseline  # noqa: E402
from unperturbed.analysis.perturbation.correlation import correlate_ranks, standard_ranks  # noqa: E402

INTERVALS, METRICS, RUNS, BASELINE = 3000, 12, 30, 10
INNER_S, OUTER_S = 5.0, 10.0


def main() -> int:
    """Time, print, and tell whether the bounds hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=int, default=700)
    parser.add_argument("--rounds", type=int, default=3, help="timings of each; the median counts")
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    program = simulate.program(
        rng, correlation=simulate.equicorrelated(METRICS, 0.5), intervals=INTERVALS, phi=0.95, shared=0.8
    )
    runs = simulate.runs(program, rng, RUNS)
    values = [run.values(program.names) for run in runs]
    print(f"{np.mean([len(run) for run in runs]):.0f} intervals, {METRICS} metrics")

    ours, theirs = [], []
    for _ in range(arguments.rounds):
        begun = time.perf_counter()
        for at in range(arguments.traces):
            ranks = standard_ranks(values[at % RUNS])
            found = correlate_ranks(ranks, ranks)
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        for at in range(arguments.traces):
            expected = spearmanr(values[at % RUNS]).statistic
        theirs.append(time.perf_counter() - begun)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    inner, scipys = float(np.median(ours)), float(np.median(theirs))
    print(
        f"inner correlations of {arguments.traces} traces: {inner:.2f} s (bound {INNER_S:g}); scipy's spearmanr "
        f"{scipys:.2f} s, "
        f"{scipys / inner:.1f} times as long"
    )

    Baseline(runs[:5]).outer(runs[5], align_on=program.names[:1])  # the kernels are compiled or loaded
    taken = []
    for _ in range(arguments.rounds):
        begun = time.perf_counter()
        verdict = Baseline(runs[:BASELINE]).outer(runs[BASELINE:], align_on=program.names[:1])
        taken.append(time.perf_counter() - begun)
    outer = float(np.median(taken))
    print(
        f"outer check of {RUNS} runs ({BASELINE} of them the baseline's), {len(verdict.changes)} metrics: "
        f"{outer:.2f} s (bound {OUTER_S:g})"
    )
    return int(inner > INNER_S * arguments.traces / 700 or outer > OUTER_S)


if __name__ == "__main__":
    sys.exit(main())
