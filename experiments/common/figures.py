"""Figures of a page of evidence: settings of matplotlib, colours, panels in rows, reproducible SVG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000", "#882255", "#f0e442")
"""Okabe and Ito's colours, which people with any sight can distinguish, and two more."""
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"

mpl.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


def panels(
    count: int, *, columns: int | None = None, width: float = 9, height: float, **options: Any
) -> tuple[Figure, list[Any]]:
    """Return a figure and its axes, row by row.

    `count`: Axes that are used; the rest of the last row is left empty.
    `**options`: For `Figure.subplots`, such as `sharex`.
    Result `figure`: To be written by `save`.
    Result `axes`: As many as `count`.
    """
    columns = columns or count
    rows = -(-count // columns)
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, **options)).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    return figure, axes[:count]


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes.

    `path`: An SVG file. The name of its folder salts the identifiers within, so that pages may embed several figures.
    """
    with mpl.rc_context({"svg.hashsalt": path.parent.name}):
        figure.savefig(path, metadata={"Date": None})
