"""Error rates of the extrapolation to dose 0: coverage of its interval, and whether a response is called linear.

    python -m experiments.calibration.doses [--campaigns 4000] [--seed 1]

Simulated campaigns with a run at each of the doses 1, 2 and 4 in each round, and in some also without counting. Writes
docs/evidence/doses_calibration.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, header, share
from experiments.common.evaluation import EVIDENCE, fill_page
from experiments.common.provenance import made_by
from unperturbed.analysis.doses.fit import DoseFit, FloatArray, fit_doses, line_weights
from unperturbed.analysis.doses.response import FISHER, DoseResponses, decide_responses, responses_of_values
from unperturbed.analysis.perturbation import VerdictName
from unperturbed.analysis.perturbation.correlation import fisher

DOSES = (1, 2, 4)
ROUNDS = (3, 5, 8, 16)
SPREADS: Mapping[str, tuple[float, float]] = {
    "little": (0.1, 0.01),
    "as much as rounds": (0.05, 0.05),
    "three values of rounds": (0.1, 0.01),
}
"""How much the runs of a round differ: standard deviation of rounds, and of runs within a round, on Fisher's scale."""
LEVEL, FALL = 0.6, 0.2
"""ρ without counting, and its fall at dose 1."""
DEVIATIONS: Mapping[str, float] = {"line": 0.0, "half the tolerance": 0.5, "the tolerance": 1.0, "twice": 2.0}
"""By how much the response deviates from a line at dose 0, in tolerances."""
_THREE = np.array([-0.9, -0.3, 1.7])
"""Rounds may fall into few classes; of mean 0 and variance 1 with the shares below."""
_SHARES = np.array([0.45, 0.3, 0.25])


def draw(
    rng: np.random.Generator, rounds: int, kind: str, deviation: float, *, metrics: int = METRICS
) -> tuple[FloatArray, FloatArray]:
    """Draw a campaign on Fisher's scale: runs at `DOSES`, (rounds, doses, metrics), and runs without counting.

    `deviation`: True deviation of the line at dose 0, in tolerances. The response is a parabola.
    """
    of_rounds, of_runs = SPREADS[kind]
    doses = np.array([0, *DOSES], np.float64)
    level = float(fisher(LEVEL))
    # A term d² makes the line through the doses miss dose 0 by the weighted sum of d².
    missed = float(line_weights(DOSES) @ doses[1:] ** 2)
    off = level - float(fisher(LEVEL - deviation * TOLERANCE))
    curve = -off / missed
    linear = (float(fisher(LEVEL - FALL)) - level) * doses
    expected = level + linear + curve * doses**2
    if kind.startswith("three"):
        drawn = rng.choice(_THREE, size=(rounds, 1, metrics), p=_SHARES)
        effects = (drawn - _THREE @ _SHARES) / np.sqrt(_THREE**2 @ _SHARES - (_THREE @ _SHARES) ** 2)
    else:
        effects = rng.standard_normal((rounds, 1, metrics))
    values = expected[None, :, None] + of_rounds * effects
    values = values + of_runs * rng.standard_normal((rounds, len(doses), metrics))
    return values[:, 1:], values[:, 0]


def judged(values: FloatArray, without: FloatArray | None) -> DoseResponses:
    """Return the outcomes for a campaign, all of whose metrics are perturbed by the counting.

    The values stand for those of extrapolated signals: coefficients are never corrected without runs at dose 0.
    """
    decided: list[tuple[float, VerdictName]] = [(TOLERANCE, "perturbed")] * values.shape[2]
    made = responses_of_values(DOSES, values, without, decided, FISHER, alpha=ALPHA)
    return decide_responses("simulated", [replace(each, by_signals=True) for each in made], alpha=ALPHA)


def coverage_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Return the rows of the table of coverage."""
    truth = float(fisher(LEVEL))
    for kind, rounds in product(SPREADS, ROUNDS):
        cells, alone, widths = [], [], []
        for number, deviation in enumerate(list(DEVIATIONS.values())[:3]):
            rng = np.random.default_rng([seed, 1, list(SPREADS).index(kind), rounds, number])
            fits = [fit_doses(DOSES, draw(rng, rounds, kind, deviation)[0], alpha=ALPHA) for _ in range(campaigns)]
            lines = [fit.value.bounds(ALPHA / 2) for fit in fits]
            cells.append(share([_held(fit.low, fit.high, truth) for fit in fits]))
            alone.append(share([_held(low, high, truth) for low, high in lines]))
            widths.append([float(np.mean([high - low for low, high in each])) for each in (_bounds(fits), lines)])
        width = " / ".join(f"{each:.3f}" for each in widths[0])
        yield f"| {kind} | {rounds} | {' | '.join(cells)} | {alone[1]} | {width} |"


def _bounds(fits: Sequence[DoseFit]) -> list[tuple[FloatArray, FloatArray]]:
    return [(fit.low, fit.high) for fit in fits]


def _held(low: FloatArray, high: FloatArray, truth: float) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


def linearity_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Return the rows of the table of outcomes, judged by the doses above 0 or with runs without counting."""
    for kind, rounds, with_none in product(list(SPREADS)[:2], ROUNDS, (False, True)):
        cells = []
        for name, deviation in DEVIATIONS.items():
            rng = np.random.default_rng([seed, 2, list(SPREADS).index(kind), rounds, list(DEVIATIONS).index(name)])
            found = []
            for _ in range(campaigns):
                values, without = draw(rng, rounds, kind, deviation)
                found.append(judged(values, without if with_none else None))
            wrong = [any(each.outcome == "not linear" for each in made.responses) for made in found]
            single = [float(np.mean([each.outcome == "not linear" for each in made.responses])) for made in found]
            right = [float(np.mean([each.outcome == "corrected" for each in made.responses])) for made in found]
            cells += [share(right)] if name in ("line", "the tolerance") else []
            cells += [share(single if name == "twice" else wrong)] if name != "half the tolerance" else []
        judged_by = "with dose 0" if with_none else "doses 1, 2, 4"
        yield f"| {kind} | {rounds} | {judged_by} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--campaigns", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    given, made, begun = parser.parse_args(arguments), made_by(), time.process_time()
    coverage = list(coverage_rows(given.campaigns, given.seed))
    linearity = list(linearity_rows(given.campaigns, given.seed))
    page = fill_page(
        Path(__file__).with_name("page_doses.md"),
        made=made,
        seconds=time.process_time() - begun,
        level=LEVEL,
        alpha=ALPHA,
        tolerance=TOLERANCE,
        metrics=METRICS,
        coverage=[
            *header(
                [
                    *("runs of a round differ", "rounds", *list(DEVIATIONS)[:3]),
                    *("half the tolerance, interval of the line alone", "width for a line, both and line alone"),
                ]
            ),
            *coverage,
        ],
        linearity=[
            *header(
                [
                    *("runs of a round differ", "rounds", "judged by", "line: corrected", "line: any not linear"),
                    *("the tolerance: corrected", "the tolerance: any not linear", "twice: not linear"),
                ]
            ),
            *linearity,
        ],
    )
    (EVIDENCE / "doses_calibration.md").write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
