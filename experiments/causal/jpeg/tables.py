"""Tables of the JPEG 2000 sweeps: the costs of compression a pixel, and the effect of changing one parameter.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 8.5: all quantities but size
and CPI are divided by the number of pixels, and derivatives over a parameter are taken while all others are held
constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from unperturbed.collectors.data import SweepColumn, read_sweep, read_sweep_facts
from unperturbed.errors import DataError

Way = Literal["lossless", "lossy"]
WAYS: tuple[Way, Way] = ("lossless", "lossy")

PARAMETERS: Mapping[Way, tuple[str, ...]] = {
    "lossless": ("image", "width", "height", "kernel", "block", "layers"),
    "lossy": ("image", "bits_ppel", "kernel", "block", "layers"),
}
"""What was varied. In lossy compression the bits of a pixel are asked for."""

LOSSY_PIXELS = 256 * 256
"""All pictures of the lossy sweep have this size."""

_REPEATED = ("instr_ppel", "L2M_ppel", "CPI", "T_ppel")


@dataclass(frozen=True, eq=False)
class Runs:
    """The points of one sweep."""

    way: Way  # {"lossless", "lossy"}: Lossless or lossy
    # A row a point: the parameters; `bits_ppel`, bits of a pixel; `written_ppel`, those that the encoder wrote;
    # `instr_ppel`, `L1M_ppel` and `L2M_ppel`, instructions and misses of the first and second level of data caches a
    # pixel; `CPI`; `T_ppel`, ns of CPU time a pixel, less what starting any process takes. Of a point's repetitions
    # the least of each: whatever else runs on a host only adds.
    frame: pl.DataFrame
    # Of CPI: "cycles" where the processor counted them, else "ns": simulated cycles are a formula of other events,
    # and time stands for them.
    unit: str
    counted: str  # What counted instructions and misses: "hardware" or "simulated"
    parameters: tuple[str, ...]  # What was varied
    # For quantities how far repetitions of a point lie apart: the median, over points, of the greatest by the least,
    # less 1. Empty where no point was repeated.
    spread: Mapping[str, float]
    # Rows left out because a count is not above 0, or there are more misses of the second level than of the first.
    impossible: int

    def only(self, parameter: str, value: object) -> Runs:
        """Return the runs of one value of a parameter, which then is none."""
        others = tuple(name for name in self.parameters if name != parameter)
        return replace(self, frame=self.frame.filter(pl.col(parameter) == value), parameters=others)


@dataclass(frozen=True)
class Change:
    """What changing one parameter does to a quantity, all others held constant."""

    ratio: float  # Geometric mean, over all pairs of runs, of the quantity after the change by that before
    # low, high: Ratios that nine pairs of ten lie between.
    low: float
    high: float
    pairs: int  # How many pairs of runs were compared
    rising: int  # Pairs in which the quantity rises

    def __str__(self) -> str:
        return f"{_percent(self.ratio)} ({_percent(self.low)} to {_percent(self.high)})"


def read_runs(campaign: Path, way: Way) -> Runs:
    """Read a sweep's runs."""
    frame, columns = read_sweep(campaign)
    return per_pixel(frame, columns, way, start_s=float(read_sweep_facts(campaign)["starting"]["cpu_s"]))


def per_pixel(frame: pl.DataFrame, columns: Mapping[str, SweepColumn], way: Way, *, start_s: float) -> Runs:
    """Divide a sweep's totals by the pixels of its pictures.

    `frame`: A row a run, with the parameters of the spec, `cpu_s`, `bytes` and the PAPI metrics. Where there is no
    `PAPI_L2_DCM`, misses of the second level are `PAPI_L2_TCM`, the simulator's, which has one for all.
    `start_s`: CPU time that starting any process takes on the host, in seconds.
    """
    second = "PAPI_L2_DCM" if "PAPI_L2_DCM" in columns else "PAPI_L2_TCM"
    counts = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", second)
    kinds = {name: columns[name].kind for name in counts}
    counted = kinds["PAPI_TOT_INS"]
    if {kinds["PAPI_L1_DCM"], kinds[second]} != {counted}:
        raise DataError(f"{way}: instructions are {counted}, and misses {kinds['PAPI_L1_DCM']} and {kinds[second]}")
    real = kinds["PAPI_TOT_CYC"] == "hardware"
    time = (pl.col("cpu_s") - start_s) * 1e9
    cost = pl.col("PAPI_TOT_CYC") if real else time
    pixels = pl.col("width") * pl.col("height") if way == "lossless" else pl.lit(LOSSY_PIXELS)
    written = 8 * pl.col("bytes") / pixels
    possible = frame.filter(pl.all_horizontal(pl.col(counts) > 0), pl.col(second) <= pl.col("PAPI_L1_DCM"))
    table = possible.with_columns(
        bits_ppel=written if way == "lossless" else pl.col("rate") / 1000,
        written_ppel=written,
        instr_ppel=pl.col("PAPI_TOT_INS") / pixels,
        L1M_ppel=pl.col("PAPI_L1_DCM") / pixels,
        L2M_ppel=pl.col(second) / pixels,
        CPI=cost / pl.col("PAPI_TOT_INS"),
        T_ppel=time / pixels,
    )
    measured = ("bits_ppel", "written_ppel", "instr_ppel", "L1M_ppel", "L2M_ppel", "CPI", "T_ppel")
    least = [pl.col(name).min() for name in measured if name not in PARAMETERS[way]]
    groups = table.group_by(PARAMETERS[way], maintain_order=True)
    repeated = groups.agg(pl.len(), *(pl.col(name).max() / pl.col(name).min() - 1 for name in _REPEATED)).filter(
        pl.col("len") > 1
    )
    spread = (
        dict(zip(_REPEATED, repeated.select(pl.col(_REPEATED).median()).row(0), strict=True)) if repeated.height else {}
    )
    return Runs(
        way,
        groups.agg(least),
        "cycles" if real else "ns",
        counted,
        PARAMETERS[way],
        spread,
        frame.height - possible.height,
    )


def change(frame: pl.DataFrame, of: str, over: str, values: tuple[object, object], parameters: Sequence[str]) -> Change:
    """Compare runs that differ in one parameter alone."""
    others = [parameter for parameter in parameters if parameter != over]
    before, after = (frame.filter(pl.col(over) == value).group_by(others).agg(pl.col(of).mean()) for value in values)
    pairs = before.join(after, on=others, suffix="_after")
    if pairs.is_empty():
        raise DataError(f"no two runs differ in {over} alone, from {values[0]} to {values[1]}")
    logs = np.log(pairs[f"{of}_after"].to_numpy() / pairs[of].to_numpy())
    low, high = np.exp(np.quantile(logs, (0.05, 0.95)))
    return Change(float(np.exp(logs.mean())), float(low), float(high), len(logs), int((logs > 0).sum()))


def _percent(ratio: float) -> str:
    share = 100 * (ratio - 1)
    return f"{share:+.1f} %".replace("-", "−") if abs(share) < 100 else f"×{ratio:.2f}"
