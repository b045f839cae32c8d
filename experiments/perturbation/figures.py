"""The figures of the perturbation experiment, as SVG files. Numbers are the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.common.figures import panels, save
from experiments.perturbation.series import Pair, Series, paired
from unperturbed.collectors.data import Trace

GREY = "#bbbbbb"
PAPER_PAIR = ("PAPI_L1_DCM", "PAPI_L2_TCM")
"""The pair of figures 3 to 5. The paper's other one, with misses of the translation buffer, is counted in no simulated
run with it."""
SHOWN_PAIRS = 6


def draw_all(folder: Path, all_series: Sequence[Series]) -> None:
    """Write every figure into a folder."""
    for name, figure in {
        "figure3": baselines(all_series),
        "figures4-6": inner_by_instructions(all_series),
        "figure5": explained(max(all_series, key=lambda series: abs(series.sharpest()[2]))),
        "figures7-8": outer_by_instructions(all_series),
    }.items():
        save(figure, folder / f"{name}.svg")


def shown_pairs(series: Series, most: int = SHOWN_PAIRS) -> list[Pair]:
    """Return the pairs that change most over the steps, and the paper's pair."""
    pairs = sorted(series.pairs, key=lambda pair: -float(np.ptp(series.along(pair))))[:most]
    papers = paired(series.pairs, *PAPER_PAIR)
    return pairs if papers is None or papers in pairs else [*pairs[:-1], papers]


def baselines(all_series: Sequence[Series]) -> Figure:
    """Draw figure 3: inner correlations in each baseline run, of the paper's pair and of the pairs that vary most."""
    figure, axes = _panels(all_series, 2.3)
    for place, series in zip(axes, all_series, strict=True):
        rho = series.baseline.correlations
        widest = np.argsort(-np.ptp(rho, axis=0))
        chosen = [series.pairs[at] for at in widest[:2]]
        papers = paired(series.pairs, *PAPER_PAIR)
        chosen += [papers] if papers is not None and papers not in chosen else []
        for pair in chosen:
            place.plot(range(1, len(rho) + 1), np.abs(rho[:, series.pairs.index(pair)]), marker=".", label=_label(pair))
        place.set(title=series.program.name, ylim=(0, 1), xlabel="baseline run", ylabel="|ρ|")
        place.legend(frameon=False, fontsize=7)
    return figure


def inner_by_instructions(all_series: Sequence[Series]) -> Figure:
    """Draw figures 4 and 6: inner correlations against the instructions executed beyond the baseline's, at 0."""
    figure, axes = _panels(all_series, 3.2)
    for place, series in zip(axes, all_series, strict=True):
        x = _added(series)
        shown = shown_pairs(series)
        for pair in series.pairs:
            if pair not in shown:
                place.plot(x, np.abs(series.along(pair)), color=GREY, linewidth=0.4)
        for pair in shown:
            at = series.pairs.index(pair)
            runs = [series.baseline.correlations[:, at], *(step.rho[:, at] for step in series.steps)]
            _with_range(place, x, [np.abs(values) for values in runs], _label(pair))
        _finish(place, series, "|ρ|")
    return figure


def outer_by_instructions(all_series: Sequence[Series]) -> Figure:
    """Draw figures 7 and 8: outer correlation of each metric with itself, among baseline runs at 0."""
    figure, axes = _panels(all_series, 3.2)
    for place, series in zip(axes, all_series, strict=True):
        x = _added(series)
        for change in series.steps[0].outer.changes:
            runs = [series.outer_reference(change.first), *(step.outer_rho(change.first) for step in series.steps)]
            aligned = " (aligned on)" if change.aligned_on else ""
            _with_range(place, x, [np.asarray(values) for values in runs], _short(change.first) + aligned)
        _finish(place, series, "outer ρ")
    return figure


def explained(series: Series) -> Figure:
    """Draw figure 5: the pair whose correlation changed most from one step to the next, and the metric that came in."""
    pair, at, _ = series.sharpest()
    step = series.steps[at]
    before, after = series.before(at)[0], step.traces[0]
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(3, 2, sharex=True)
    rho = series.along(pair)
    for column, (trace, title) in enumerate(
        ((before, f"before: ρ {rho[at]:.2f}"), (after, f"with {step.metric}: ρ {rho[at + 1]:.2f}"))
    ):
        for row, metric in enumerate(pair):
            _signal(axes[row][column], trace, metric)
        axes[0][column].set_title(f"{series.program.name}, {title}")
    for row in range(2):
        low = min(place.get_ylim()[0] for place in axes[row])
        high = max(place.get_ylim()[1] for place in axes[row])
        for place in axes[row]:
            place.set_ylim(low, high)
    axes[2][0].set_axis_off()
    _signal(axes[2][1], after, step.metric)
    for place in (axes[1][0], axes[2][1]):
        place.set_xlabel("interval")
    return figure


def _signal(place: Any, trace: Trace, metric: str) -> None:
    place.plot(trace[metric], linewidth=0.5)
    place.set_ylabel(_short(metric))


def _added(series: Series) -> list[float]:
    return [0.0, *(100 * step.executed_ratio for step in series.steps)]


def _with_range(place: Any, x: Sequence[float], runs: Sequence[Any], label: str) -> None:
    means = [values.mean() for values in runs]
    # A mean of equal values may be off by rounding, to either side.
    below = [max(0.0, mean - values.min()) for mean, values in zip(means, runs, strict=True)]
    above = [max(0.0, values.max() - mean) for mean, values in zip(means, runs, strict=True)]
    place.errorbar(x, means, yerr=[below, above], marker=".", linewidth=1, elinewidth=0.6, capsize=1.5, label=label)


def _finish(place: Any, series: Series, ylabel: str) -> None:
    # Rare events add next to nothing: without a scale of its own their steps would lie on top of each other. Where the
    # compiler made other code, fewer instructions than the baseline's may be executed.
    place.set_xscale("symlog", linthresh=0.001)
    place.set(
        title=series.program.name,
        xlabel="instructions executed beyond the baseline's, %",
        ylabel=ylabel,
        ylim=(0, 1.02),
    )
    place.legend(frameon=False, fontsize=6.5, ncols=2)


def _label(pair: Pair) -> str:
    return " – ".join(_short(metric) for metric in pair)


def _short(metric: str) -> str:
    return metric.removeprefix("PAPI_")


def _panels(all_series: Sequence[Series], height: float) -> tuple[Figure, list[Any]]:
    return panels(len(all_series), columns=min(2, len(all_series)), width=9.5, height=height)
