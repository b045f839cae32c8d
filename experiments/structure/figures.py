"""The figure of a program: a metric over its run, its phases by milestones, and the classes and words found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.common.figures import save

if TYPE_CHECKING:
    from experiments.structure.evaluate import Found

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999", "#000000", "#882255")
"""Okabe and Ito's, which people with any sight can distinguish."""
GREYS = ("#666666", "#bbbbbb", "#222222", "#8c8c8c", "#dddddd", "#444444")
SHOWN = 200
METRIC = "PAPI_TOT_CYC"


def draw(path: Path, found: Found, phase_of: Sequence[int]) -> None:
    """Draw the first intervals of a run.

    Parameters
    ----------
    path : Path
        The SVG file. The name of its folder salts the identifiers within.
    found : Found
        The program's phases and words.
    phase_of : sequence of int
        The phase of each class.
    """
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    axes: Any = figure.subplots(4, 1, sharex=True, height_ratios=(5, 1, 1, 1))
    trace, sequence, words = found.runs[0], found.sequence, found.dictionary.decomposition
    axes[0].plot(trace[METRIC] / np.maximum(trace["PAPI_TOT_INS"], 1), linewidth=0.7, color="#333333")
    axes[0].set(
        ylabel="cycles an\ninstruction",
        title=f"{found.program.name}: the first {SHOWN} intervals of a run",
        xlim=(0, SHOWN),
    )
    strips: dict[str, Any] = {
        "milestones": found.truth.labels,
        "classes": np.array(_colours_of(phase_of, len(found.program.phases)))[sequence.labels],
        "words": np.repeat(np.repeat(words.words, np.diff(words.cuts)), sequence.lengths),
    }
    for place, (name, labels) in zip(axes[1:], strips.items(), strict=True):
        shown = np.ma.masked_less(labels[None, :SHOWN], 0)
        colours: Any = ListedColormap(COLOURS if name != "words" else GREYS)
        place.imshow(
            shown,
            aspect="auto",
            interpolation="none",
            cmap=colours,
            vmin=0,
            vmax=colours.N - 1,
            extent=(0, SHOWN, 0, 1),
        )
        place.set(yticks=[], ylabel=name)
        place.yaxis.label.set(rotation=0, ha="right", va="center")
    for cut in sequence.starts[words.cuts[:-1]]:
        axes[3].axvline(cut, color="white", linewidth=1)
    axes[-1].set(xlabel="interval")
    patches = [Patch(color=colour, label=phase) for colour, phase in zip(COLOURS, found.program.phases, strict=False)]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    save(figure, path)


def _colours_of(phase_of: Sequence[int], phases: int) -> list[int]:
    """Return the number of each class's colour: its phase's for the first class of it, a further one for others."""
    colours: list[int] = []
    further = phases
    for phase in phase_of:
        if phase in colours:
            colours.append(further % len(COLOURS))
            further += 1
        else:
            colours.append(phase)
    return colours
