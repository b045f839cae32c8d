"""Figures of section 8.4: misses over size and memory in use, costs by LU's parameters, the model of figure 12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from experiments.causal.figures import Panel, Points, draw_panels
from experiments.causal.kernels.parameters import LINE
from experiments.causal.kernels.programs import DATATYPES, PROGRAMS
from experiments.common.figures import COLOURS, save

_PLACES: Mapping[str, tuple[float, float]] = {
    "memory use": (1.4, 3),
    "datatype": (3.2, 3),
    "lines missed": (5.0, 3),
    "instr_op": (8.0, 3),
    "elementsize": (3.2, 2),
    "jump": (5.0, 2),
    "C_instr": (8.0, 2),
    "threshold": (1.4, 1.1),
    "L2M_op": (5.0, 1.1),
    "C_mem": (6.5, 1.1),
    "C_op": (9.4, 1.4),
    "memory size": (1.4, 0),
    "C_L2M": (6.5, 0),
    "CPI": (8.0, 0),
}
_ARROWS = (
    ("datatype", "elementsize"),
    ("elementsize", "memory use"),
    ("elementsize", "jump"),
    ("lines missed", "jump"),
    ("memory use", "threshold"),
    ("memory size", "threshold"),
    ("threshold", "L2M_op"),
    ("jump", "L2M_op"),
    ("L2M_op", "C_mem"),
    ("C_L2M", "C_mem"),
    ("instr_op", "C_instr"),
    ("CPI", "C_instr"),
    ("C_mem", "C_op"),
    ("C_instr", "C_op"),
)
_WIDTH, _HEIGHT = 0.62, 0.24
"""Half of a box's."""


def draw_misses(path: Path, frame: pl.DataFrame) -> None:
    """Draw misses an operation over n, as figure 11 does, of all programs but LU decomposition."""
    panels = [
        Panel(
            "n",
            "L2M_op" if place == 0 else "",
            _by_datatype(frame, program.name, pl.col("n"), pl.col("L2M_op")),
            program.name,
            {"xscale": "log"} if program.rows else {},
        )
        for place, program in enumerate(PROGRAMS[1:])
    ]
    draw_panels(path, panels)


def draw_lines(path: Path, frame: pl.DataFrame) -> None:
    """Draw lines missed an element over memory in use: one curve if program and data type do not matter."""
    lines = pl.col("L2M_op") * LINE / pl.col("elementsize")
    panels = [
        Panel(
            "memory in use [KiB]",
            "lines missed an element" if place == 0 else "",
            _by_datatype(frame, program.name, pl.col("memory_use"), lines),
            program.name,
            {"xscale": "log", "xlim": (16, 8192), "ylim": (-0.1, 3)},
        )
        for place, program in enumerate(PROGRAMS)
    ]
    draw_panels(path, panels)


def draw_costs(path: Path, frame: pl.DataFrame, ways: Mapping[str, Sequence[float]], unit: str) -> None:
    """Draw what equation (18) gives over what was measured, a panel for each origin of its parameters."""
    measured = frame["C_op"].to_numpy()
    ends = (float(measured.min()) * 0.8, float(measured.max()) * 1.25)
    panels = []
    for place, (name, given) in enumerate(ways.items()):
        costs = np.asarray(given, np.float64)
        points = [
            Points(program.name, measured[(here := (frame["program"] == program.name).to_numpy())], costs[here])
            for program in PROGRAMS
        ]
        points.append(Points("", [], [], (ends, ends), "#999999"))
        said = f"C_op by equation (18) [{unit}]" if place == 0 else ""
        panels.append(Panel(f"C_op measured [{unit}]", said, points, name, {"xscale": "log", "yscale": "log"}))
    draw_panels(path, panels, height=3.8)


def draw_model(path: Path, characteristics: Mapping[str, tuple[str, bool]]) -> None:
    """Draw the model of figure 12, and what was found of its application's and system's characteristics.

    `characteristics`: Of each characteristic, what the programs differ by, in words, and whether they agree.
    """
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes: Any = figure.subplots()
    for source, target in _ARROWS:
        axes.annotate(
            "", _edge(target, source), _edge(source, target), arrowprops={"arrowstyle": "-|>", "color": "#1f2a37"}
        )
    for name, (x, y) in _PLACES.items():
        said, agrees = characteristics.get(name, ("", None))
        face = "#f4f6f8" if agrees is None else ("#d3ecdf" if agrees else "#fbe0c8")
        axes.add_patch(_box(x, y, face))
        axes.text(x, y, name, ha="center", va="center", fontsize=8, fontweight="bold")
        if said:
            above = y > 2.5
            axes.text(
                x,
                y + (0.32 if above else -0.32),
                said,
                ha="center",
                va="bottom" if above else "top",
                fontsize=7,
                color="#444444",
            )
    axes.text(-0.5, 3, "application", style="italic", va="center")
    axes.text(-0.5, 0, "system", style="italic", va="center")
    axes.set(xlim=(-0.6, 10.1), ylim=(-0.8, 3.7))
    axes.axis("off")
    save(figure, path)


def _box(x: float, y: float, face: str) -> Any:
    style = "round,pad=0,rounding_size=0.08"
    return FancyBboxPatch(
        (x - _WIDTH, y - _HEIGHT), 2 * _WIDTH, 2 * _HEIGHT, boxstyle=style, facecolor=face, edgecolor="#8a949e"
    )


def _edge(name: str, towards: str) -> tuple[float, float]:
    """Return where the line to another box's middle leaves a box."""
    (x, y), (there_x, there_y) = _PLACES[name], _PLACES[towards]
    across, up = there_x - x, there_y - y
    share = min(_WIDTH / abs(across) if across else np.inf, _HEIGHT / abs(up) if up else np.inf)
    return x + share * across, y + share * up


def _by_datatype(frame: pl.DataFrame, program: str, x: pl.Expr, y: pl.Expr) -> list[Points]:
    rows = frame.filter(pl.col("program") == program).select("datatype", x.alias("x"), y.alias("y"))
    panels_of_datatypes = []
    for number, datatype in enumerate(DATATYPES):
        here = rows.filter(pl.col("datatype") == datatype)
        panels_of_datatypes.append(Points(datatype, here["x"].to_list(), here["y"].to_list(), colour=COLOURS[number]))
    return panels_of_datatypes
