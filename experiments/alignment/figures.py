"""The figures of the alignment experiment, as SVG files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from experiments.alignment.pairs import own, plain
from experiments.common.figures import BLUE, GREY, ORANGE, panels, save
from unperturbed.analysis.alignment import align, anchored_dtw, summarise_scores

if TYPE_CHECKING:
    from experiments.alignment.evaluate import Found
    from experiments.alignment.pairs import Pair

MOST_SCORE = 19
"""Figure 10 of the paper ends here too."""


def draw_all(folder: Path, outcomes: Sequence[Found], budgets: Sequence[int], penalties: Sequence[float]) -> None:
    """Write every figure into a folder."""
    flat = outcomes[-1]
    for name, figure in {
        "figure1": first_intervals(outcomes[0]),
        "figure8": over_time(outcomes),
        "figures4-7": score_distributions(outcomes),
        "figure9": flat_stretch(flat.pairs[0]),
        "figure10": with_anchors(flat),
        "anchors": by_anchors(outcomes, budgets),
        "penalty": by_penalty(outcomes, penalties),
    }.items():
        save(figure, folder / f"{name}.svg")


def first_intervals(outcome: Found, intervals: int = 150) -> Figure:
    """Draw figure 1: IPC from the start of all runs."""
    figure, axes = panels(1, height=2.4)
    runs = {id(trace): trace for pair in outcome.pairs for trace in (pair.a, pair.b)}
    for trace in list(runs.values())[:10]:
        axes[0].plot(trace["IPC"][:intervals], linewidth=0.8)
    axes[0].set(
        xlabel="interval",
        ylabel="IPC",
        title=f"{outcome.workload.name}: the first intervals of {min(10, len(runs))} runs",
    )
    return figure


def over_time(outcomes: Sequence[Found]) -> Figure:
    """Draw figure 8: IPC over time."""
    figure, axes = panels(len(outcomes), columns=1, height=1.6)
    for place, outcome in zip(axes, outcomes, strict=True):
        place.plot(outcome.pairs[0].a["IPC"], linewidth=0.5, color=BLUE)
        place.set(ylabel="IPC", title=outcome.workload.name)
    axes[-1].set(xlabel="interval")
    return figure


def score_distributions(outcomes: Sequence[Found]) -> Figure:
    """Draw figures 4 to 7: scores of plain dynamic time warping by each milestone, all pairs together."""
    figure, axes = panels(len(outcomes), height=2.4)
    for place, outcome in zip(axes, outcomes, strict=True):
        milestones = (outcome.workload.anchor, *outcome.workload.judges)
        for number, milestone in enumerate(milestones):
            scores = np.concatenate([pair.scores(_plain(pair), milestone) for pair in outcome.pairs])
            _bars(place, scores, number, len(milestones), milestone)
        place.set(title=outcome.workload.name, xlabel="score, intervals", ylabel="share of scored elements, %")
        place.legend(frameon=False)
    return figure


def flat_stretch(pair: Pair, first: int = 0, length: int = 60) -> Figure:
    """Draw figure 9: a flat stretch, aligned plainly and by default."""
    plain_path = align(pair.a, pair.b, penalty=0.0, flat="warped", pace="time", mend=False)
    if len(plain_path.flat):
        longest = plain_path.flat[np.argmax(plain_path.flat[:, 1] - plain_path.flat[:, 0])]
        first = int(plain_path.x_index[(longest[0] + longest[1]) // 2])
    figure, axes = panels(2, height=2.6)
    default = align(pair.a, pair.b)
    for place, path, title in (
        (axes[0], plain_path, "plain dynamic time warping"),
        (axes[1], default, "flat stretches at an even pace"),
    ):
        x, y = pair.a["IPC"], pair.b["IPC"]
        shown = (path.x_index >= first) & (path.x_index < first + length)
        low, high = (np.quantile(np.concatenate((x, y)), share) for share in (0.01, 0.99))
        lift = 1.5 * (high - low)
        i, j = path.x_index[shown], path.y_index[shown]
        place.plot([i, j - j[0] + i[0]], [x[i] + lift, y[j]], color=GREY, linewidth=0.4)
        place.plot(np.unique(i), x[np.unique(i)] + lift, color=BLUE, linewidth=1)
        place.plot(np.unique(j) - j[0] + i[0], y[np.unique(j)], color=ORANGE, linewidth=1)
        place.set(title=title, xlabel="interval", yticks=[])
    return figure


def with_anchors(outcome: Found, budget: int = 32) -> Figure:
    """Draw figure 10: scores of the flat workload, plain, with anchors, and by default with anchors."""
    figure, axes = panels(len(outcome.workload.judges), height=2.6)
    for place, judge in zip(axes, outcome.workload.judges, strict=True):
        ways = {
            "plain": (plain, 0),
            f"{budget} anchors, the paper's way": (plain, budget),
            f"{budget} anchors, default": (own, budget),
        }
        for number, (name, (way, anchors)) in enumerate(ways.items()):
            scores = np.concatenate(
                [pair.scores(way(pair, outcome.workload.anchor, anchors), judge) for pair in outcome.pairs]
            )
            _bars(place, scores, number, len(ways), name)
        place.set(
            title=f"{outcome.workload.name}, judged by {judge}",
            xlabel="score, intervals",
            ylabel="share of scored elements, %",
        )
        place.legend(frameon=False)
    return figure


def by_anchors(outcomes: Sequence[Found], budgets: Sequence[int]) -> Figure:
    """Draw the share of perfect elements against the number of anchors."""
    judged = [(outcome, judge) for outcome in outcomes for judge in outcome.workload.judges]
    figure, axes = panels(len(judged), height=2.6)
    for place, (outcome, judge) in zip(axes, judged, strict=True):
        for way, by_budget in outcome.ways[judge].items():
            place.plot(
                range(len(budgets)), [100 * np.median(by_budget[budget]) for budget in budgets], marker=".", label=way
            )
        place.set(
            title=f"{outcome.workload.name}, {judge}",
            xlabel="anchors",
            ylim=(0, 101),
            xticks=range(len(budgets)),
            xticklabels=budgets,
        )
    axes[0].set(ylabel="perfect elements, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def by_penalty(outcomes: Sequence[Found], penalties: Sequence[float]) -> Figure:
    """Draw the share of perfect elements against the penalty."""
    figure, axes = panels(1, height=2.6)
    for outcome in outcomes:
        for judge, shares in outcome.penalties.items():
            axes[0].plot(
                range(len(penalties)),
                [100 * np.median(each) for each in shares],
                marker=".",
                label=f"{outcome.workload.name}, {judge}",
            )
    axes[0].axvline(penalties.index(1.0), color=GREY, linewidth=0.8, linestyle=":")
    axes[0].set(xlabel="penalty, multiples of the tool's", ylabel="perfect elements, %", ylim=(0, 101))
    axes[0].set(xticks=range(len(penalties)), xticklabels=[f"{penalty:g}" for penalty in penalties])
    axes[0].legend(frameon=False)
    return figure


def _plain(pair: Pair) -> Any:
    return anchored_dtw(pair.a["IPC"], pair.b["IPC"], [])


def _bars(place: Any, scores: Iterable[int], number: int, of: int, label: str) -> None:
    summary = summarise_scores(np.asarray(scores))
    shares = np.zeros(MOST_SCORE + 1)
    shown = 100 * np.asarray(summary.shares)[: MOST_SCORE + 1]
    shares[: len(shown)] = shown
    width = 0.8 / of
    place.xaxis.get_major_locator().set_params(integer=True)
    place.bar(
        np.arange(len(shares)) + (number - (of - 1) / 2) * width,
        shares,
        width,
        label=f"{label} ({summary.perfect:.0%} perfect)",
    )
