"""Parameter sensitivity of JPEG 2000 compression again.

Section 8.5 and figure 14 of Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer
programs".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from experiments.causal.figures import Panel, Points, draw_graph, draw_panels
from experiments.causal.jpeg.claims import claims_of_lossless, claims_of_lossy
from experiments.causal.jpeg.models import Models, draw_merged, learn_models, merged
from experiments.causal.jpeg.tables import WAYS, Runs, change, read_runs
from experiments.common.figures import COLOURS
from experiments.common.tables import claims_table

_SHOWN = ("bits_ppel", "instr_ppel", "L1M_ppel", "L2M_ppel", "CPI", "T_ppel")
_MEASURED = """\
Debian's `opj_compress` (OpenJPEG) in place of Kakadu. Pictures of six kinds are made by a script, windows of endless \
ones, so that a larger one holds
more of the same; the paper scaled twelve images. *Lossless*: 128 or 256 pixels each way, and all bits kept; with \
kernel 9/7, whose values are
rounded, all that is left of them. *Lossy*: 256 × 256 pixels, and 0.5 to 6 bits a pixel asked for. Code blocks are 16 \
to 64 coefficients wide, the
paper's 4 to 64, and layers 1 or 12, the paper's 2 to 12: with many layers smaller blocks take OpenJPEG seconds a \
picture.

{lossless} points of lossless compression and {lossy} of lossy. Instructions and misses were counted by {by}. `CPI` is \
{cpi}. `T_ppel` is CPU time in ns of
runs of the untouched program, less what starting any process takes. `_ppel` says: a pixel.
{spread}{impossible}
{neighbours}
"""
_NEIGHBOURS = (
    "Misses and cycles are of one run: what else runs on the host raises both, and an edge between them may be that."
)
_NO_NEIGHBOURS = (
    "The simulated caches belong to the program alone. Of the second level, 256 KiB, all misses are counted, of data "
    "and of instructions. CPU time is of other runs, on the host's own caches."
)
_GRAPH = """\
Figure 14 again. Solid arrows stand in both models, dashed ones in that of lossless compression alone, dotted ones in \
that of lossy compression
alone. Size was not varied in lossy compression, and `bits_ppel` is a parameter there. Each derivative was learnt by \
itself, over the
parameters that were held constant."""


def findings(campaign: Path, figures: Path) -> str:
    """Learn the models of both sweeps, draw them and hold them against the paper."""
    read = {way: read_runs(campaign / f"jpeg2000_{way}", way) for way in WAYS}
    lossless, lossy = (learn_models(read[way]) for way in WAYS)
    plain = learn_models(read["lossless"].only("layers", 1))
    prefix = "jpeg" if lossless.runs.counted == "hardware" else "jpeg_simulated"
    draw_merged(figures / f"{prefix}_merged.svg", merged((lossless, lossy)))
    for name, models in (("lossless", lossless), ("one_layer", plain), ("lossy", lossy)):
        draw_graph(figures / f"{prefix}_{name}.svg", models.model)
    draw_panels(
        figures / f"{prefix}_instructions.svg",
        [_over_bits(lossless.runs, 1), _over_bits(lossless.runs, 12), _over_bits(lossy.runs, 1)],
    )
    return "\n".join(_section(lossless, plain, lossy, prefix))


def _section(lossless: Models, plain: Models, lossy: Models, prefix: str) -> list[str]:
    runs = lossless.runs
    by_processor = runs.counted == "hardware"
    caches = ", counted by the processor" if by_processor else ", caches simulated"
    cycles = "cycles an instruction"
    time = "ns of CPU time an instruction, as cycles were simulated"
    return [
        f"## JPEG 2000{caches}: what compression depends on (section 8.5, figure 14)",
        "",
        _MEASURED.format(
            lossless=runs.frame.height,
            lossy=lossy.runs.frame.height,
            spread=_spread(runs),
            impossible=_impossible(runs, lossy.runs),
            by="the processor" if by_processor else "a simulator",
            cpi=cycles if runs.unit == "cycles" else time,
            neighbours=_NEIGHBOURS if by_processor else _NO_NEIGHBOURS,
        ),
        "### Lossless",
        "",
        claims_table(claims_of_lossless(lossless)),
        "",
        "The same of pictures of one layer alone, for which OpenJPEG has nothing to search:",
        "",
        claims_table(claims_of_lossless(plain)),
        "",
        "### Lossy",
        "",
        claims_table(claims_of_lossy(lossy)),
        "",
        "### Both",
        "",
        f"![Figure 14: both models merged](causal/{prefix}_merged.svg)",
        "",
        _GRAPH,
        "",
        "What changing one parameter does, all others held constant: geometric mean over all pairs of points, "
        "and the range of nine pairs of ten.",
        "",
        *_changes("lossless", runs),
        "",
        *_changes("lossless, one layer", plain.runs),
        "",
        *_changes("lossy", lossy.runs),
        "",
        "The kernel, picture by picture: 9/7 in place of 5/3.",
        "",
        *_kernels({"lossless": runs, "lossless, one layer": plain.runs, "lossy": lossy.runs}),
        "",
        f"![Instructions a pixel over bits a pixel](causal/{prefix}_instructions.svg)",
        "",
        "Instructions a pixel over bits a pixel, by side of the code block.",
        "",
        "Each model by itself; the widths of the arrows say how many bits a row they carry. Lossless:",
        "",
        f"![Lossless](causal/{prefix}_lossless.svg)",
        "",
        "Lossless, one layer:",
        "",
        f"![Lossless, one layer](causal/{prefix}_one_layer.svg)",
        "",
        "Lossy:",
        "",
        f"![Lossy](causal/{prefix}_lossy.svg)",
        "",
    ]


def _spread(runs: Runs) -> str:
    """Return how far repetitions lie apart."""
    if not runs.spread:
        return "Each point was counted once."
    told = ", ".join(f"{name} by {100 * share:.1f} %" for name, share in runs.spread.items())
    return (
        "Of a point's repetitions the least of each was taken. "
        f"How far they lie apart here (median over points, lossless): {told}. A smaller change of "
        "a single pair proves nothing."
    )


def _impossible(*sweeps: Runs) -> str:
    left_out = sum(runs.impossible for runs in sweeps)
    return f" Left out, as a count cannot be right: {left_out} row{'s' if left_out > 1 else ''}." if left_out else ""


def _steps(runs: Runs) -> dict[str, tuple[object, object]]:
    """Return the change of each parameter that is reported: from its least value to its greatest."""
    numbers = [name for name in runs.parameters if name not in ("image", "kernel")]
    ends: dict[str, tuple[object, object]] = {
        name: (runs.frame[name].min(), runs.frame[name].max()) for name in numbers
    }
    return {"kernel": ("5/3", "9/7"), **ends}


def _changes(name: str, runs: Runs) -> list[str]:
    shown = [of for of in _SHOWN if of not in runs.parameters]
    lines = [f"| {name} | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    for over, (low, high) in _steps(runs).items():
        changes = [change(runs.frame, of, over, (low, high), runs.parameters) for of in shown]
        lines.append(f"| {over}: {low} → {high} | {' | '.join(map(str, changes))} |")
    return lines


def _kernels(sweeps: Mapping[str, Runs]) -> list[str]:
    columns = [(name, runs, of) for name, runs in sweeps.items() for of in ("instr_ppel", "T_ppel")]
    lines = [f"| picture | {' | '.join(f'{of}, {name}' for name, _, of in columns)} |", f"|---|{'---|' * len(columns)}"]
    for image in sorted(sweeps["lossless"].frame["image"].unique()):
        parts = [(runs.frame.filter(pl.col("image") == image), runs.parameters, of) for _, runs, of in columns]
        told = [change(part, of, "kernel", ("5/3", "9/7"), parameters) for part, parameters, of in parts]
        lines.append(f"| {image} | {' | '.join(map(str, told))} |")
    return lines


def _over_bits(runs: Runs, layers: int) -> Panel:
    points = []
    for number, side in enumerate(sorted(runs.frame["block"].unique())):
        part = runs.frame.filter(pl.col("block") == side, pl.col("layers") == layers)
        points.append(
            Points(f"block {side}", part["bits_ppel"].to_list(), part["instr_ppel"].to_list(), colour=COLOURS[number])
        )
    title = f"{runs.way}, {layers} layer{'s' if layers > 1 else ''}"
    return Panel("bits a pixel", "instructions a pixel", points, title=title, limits={"yscale": "log"})
