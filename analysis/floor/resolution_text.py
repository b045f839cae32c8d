"""Sentences and a table that describe the noise floor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.floor.resolution import RUNS, Resolution
from unperturbed.analysis.perturbation import MINIMUM_RUNS
from unperturbed.analysis.totals.total_text import total_name
from unperturbed.analysis.totals.verdict import TIMES
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted, duration, listing, number

if TYPE_CHECKING:
    from unperturbed.analysis.floor.noise_floor import NoiseFloor

LEAST_RELATIVE, LEAST_RHO = 1e-4, 1e-3
"""Smaller changes of a total, and of ρ, are shown as "<" and this limit."""


def is_time(resolution: Resolution) -> bool:
    """Return whether a resolution describes a time; on most hosts, times vary more than counts."""
    return resolution.is_total and resolution.metrics[0] in TIMES


def name_of(resolution: Resolution) -> str:
    """Return the name of a row: `instructions`, or `L1-data misses – stores (inner)`."""
    name = " – ".join(map(total_name, resolution.metrics))
    return name if resolution.is_total else f"{name} ({resolution.kind})"


def change_text(resolution: Resolution, change: float) -> str:
    """Format a smallest change without its unit: a relative change in percent, a change of ρ as it is, at most `>1`."""
    if change == 0:
        return "0"
    if not resolution.is_total and change > 1:
        return ">1"
    least, scale = (LEAST_RELATIVE, 100) if resolution.is_total else (LEAST_RHO, 1)
    return number(scale * change, 2) if change >= least else f"<{number(scale * least)}"


def headline(floor: NoiseFloor) -> str:
    """Return how many runs suffice, how long they take, and which total or correlation needs the most runs."""
    counts = [resolution for resolution in floor.resolutions if not is_time(resolution)]
    if not counts:
        return "no count or correlation could be compared"
    worst = _by_need(counts)[0]
    if floor.runs is None:
        return (
            "even 1,000 runs in each of two compared groups do not suffice for every tolerance: "
            f"{name_of(worst)} varies too much"
        )
    takes = f" ({duration(floor.seconds_for(floor.runs), whole=True)})" if floor.seconds is not None else ""
    enough = f"{counted(floor.runs, 'run')} in each of two compared groups{takes}"
    times = ", except those for times" if any(map(is_time, floor.resolutions)) else ""
    text = f"{enough} probably suffice for every tolerance{times}"
    return text if worst.runs == MINIMUM_RUNS else f"{text}; {name_of(worst)} needs the most runs"


def sentences(floor: NoiseFloor) -> tuple[str, ...]:
    """Return sentences on how long runs take, how many are needed for what, and how well the noise is known."""
    said = []
    if floor.seconds is not None:
        times = [duration(floor.seconds_for(runs), whole=True) for runs in RUNS]
        said.append(f"{listing(str(runs) for runs in RUNS)} runs in each group take about {listing(times)}.")
    for resolution in filter(is_time, floor.resolutions):
        name = name_of(resolution)
        wanted = "no number of runs up to 1,000" if resolution.runs is None else counted(resolution.runs, "run")
        verb = "suffices" if resolution.runs in (None, 1) else "suffice"
        said.append(
            f"{name[0].upper()}{name[1:]}: {wanted} {verb} for its tolerance of {number(100 * resolution.tolerance)} %."
        )
    said.append(
        "These runs are for an unchanged program. The report and the line `next:` name the runs for each open change, "
        "and a campaign until decided takes more: its looks share α."
    )
    low, high = floor.doubt
    compared = min((resolution.compared for resolution in floor.resolutions), default=0)
    said.append(
        f"The floor comes from {counted(compared, 'run')} in each group: the true floor lies between {number(low, 2)} "
        f"and {number(high, 2)} times these values (probability 90 %)."
    )
    return tuple(said)


def floor_table(floor: NoiseFloor, *, most: int | None = None, shown: Sequence[int] = RUNS) -> Table:
    """Return a table with one row for each total and correlation, sorted by runs needed; at most `most` of each."""
    columns = (
        Column("total of a run, or correlation"),
        *(
            Column(str(runs), "right", f"smallest change that {runs} runs in each group show (✗ or ~)", whole=True)
            for runs in shown
        ),
        Column("runs for ✓", "right", "runs that show an unchanged program to lie within the tolerance", whole=True),
    )
    rows: list[list[Cell | str]] = []
    groups = [
        _by_need([resolution for resolution in floor.resolutions if resolution.is_total is of_totals])
        for of_totals in (True, False)
    ]
    for group in groups:
        rows += [_row(resolution, shown) for resolution in group[:most]]
    left = sum(max(0, len(group) - most) for group in groups) if most is not None else 0
    are, need = ("is", "it needs") if left == 1 else ("are", "they need")
    more = f"; {counted(left, 'row')} {are} left out: {need} no more runs than these" if left else ""
    simulated = "; counts are simulated" if any(resolution.simulated for resolution in floor.resolutions) else ""
    caption = f"Smallest change that n runs in each group show with power 80 % (α = {floor.alpha:g}){simulated}{more}"
    return Table(columns, rows, caption)


def _row(resolution: Resolution, shown: Sequence[int]) -> list[Cell | str]:
    tolerance = f"{number(100 * resolution.tolerance)}\u00a0%" if resolution.is_total else number(resolution.tolerance)
    return [
        f"{name_of(resolution)}, %" if resolution.is_total else name_of(resolution),
        *(
            Cell(change_text(resolution, resolution.smallest[at]), key=resolution.smallest[at])
            for at in map(RUNS.index, shown)
        ),
        Cell(f"{'> 1,000' if resolution.runs is None else resolution.runs} for {tolerance}", key=_need(resolution)),
    ]


def _by_need(resolutions: Sequence[Resolution]) -> list[Resolution]:
    return sorted(
        resolutions, key=lambda resolution: (-_need(resolution), -resolution.smallest[0] / (resolution.tolerance or 1))
    )


def _need(resolution: Resolution) -> float:
    return float("inf") if resolution.runs is None else resolution.runs
