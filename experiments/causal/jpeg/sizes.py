"""Costs a pixel of JPEG 2000 compression over sizes of the paper's range: Lemeire, Dirkx and Verbist, section 8.5."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl

from experiments.causal.jpeg.claims import claim_of_sizes
from experiments.causal.jpeg.models import learn_models
from experiments.causal.jpeg.tables import Runs, change, read_runs
from experiments.common.tables import claims_table, markdown_table

_SHOWN = ("bits_ppel", "instr_ppel", "L1M_ppel", "L2M_ppel", "CPI", "T_ppel")
_SECTION = """## JPEG 2000, caches simulated: sizes of the paper's range (section 8.5)

The paper scaled its pictures to 500 to 10,000 pixels each way. Here {images} have {widths} pixels in a row and
{heights} in a column; both kernels, code blocks of 64, one layer, all bits kept: {points} points. Columns are those of
the section above: `CPI` and `T_ppel` are ns of CPU time, of an instruction and of a pixel.

{claims}

What a larger picture changes, all else held constant: geometric mean over all pairs of points, and the range of nine
pairs of ten.

{changes}

By size, geometric means over pictures and kernels:

{sizes}
"""


def findings(campaign: Path, figures: Path) -> str:  # noqa: ARG001 — a table says it
    """Learn the model of the sweep and hold it against the paper."""
    runs = read_runs(campaign, "lossless").only("layers", 1).only("block", 64)
    frame = runs.frame
    told = {name: [f"{value:,}" for value in sorted(frame[name].unique())] for name in ("width", "height")}
    return _SECTION.format(
        images=" and ".join(f"a *{image}*" for image in sorted(frame["image"].unique())),
        widths=" or ".join(told["width"]),
        heights=" or ".join(told["height"]),
        points=frame.height,
        claims=claims_table([claim_of_sizes(learn_models(runs))]),
        changes="\n".join(_changes(runs)),
        sizes="\n".join(_by_size(frame)),
    )


def _changes(runs: Runs) -> list[str]:
    rows = []
    for over in ("width", "height"):
        values = sorted(runs.frame[over].unique())
        for step in pairwise(values):
            changes = [str(change(runs.frame, of, over, step, runs.parameters)) for of in _SHOWN]
            rows.append((f"{over}: {step[0]:,} → {step[1]:,}", *changes))
    return markdown_table(["change", *_SHOWN], rows)


def _by_size(frame: pl.DataFrame) -> list[str]:
    by_size = frame.group_by("width", "height").agg(pl.col(name).log().mean().exp() for name in _SHOWN)
    rows = [
        (f"{width:,} × {height:,}", *(f"{value:.3g}" for value in values))
        for width, height, *values in by_size.sort(pl.col("width") * pl.col("height"), "width").iter_rows()
    ]
    return markdown_table(["picture", *_SHOWN], rows)
