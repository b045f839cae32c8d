"""Text of totals: a table with one row for each metric, and a sentence on the changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from unperturbed.analysis.metric_names import plain_name
from unperturbed.analysis.perturbation.verdict import OPEN, VerdictName
from unperturbed.analysis.perturbation.verdict_text import MOST_RUNS, VERDICT_SIGNS, VERDICT_TONES
from unperturbed.analysis.totals.compare import effect_of
from unperturbed.analysis.totals.verdict import TIMES, TotalChange
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import listing, number, percent

_UNITS = {"T": 1e12, "G": 1e9, "M": 1e6}
_SHORT_TIMES = {"ns": 1e-6, "µs": 1e-3}
"""Units of short times, each with the seconds below which it is used; longer ones are written in seconds."""
HOW_COMPARED = (
    "The means are arithmetic, of the runs that are compared: a change within rounds is of the rounds that both sides "
    "have. A change is a ratio of geometric means, which a few slow runs affect less."
)
_TIME_NAMES = {"time_s": "time", "cpu_s": "CPU time"}


def total_name(metric: str) -> str:
    """Return the name of a total for readers: a metric's plain name, time, or CPU time."""
    return _TIME_NAMES.get(metric) or plain_name(metric)


def name_of_total(change: TotalChange) -> str:
    """Return the name of a compared total; of a gauge's mean, with that word."""
    return f"mean {plain_name(change.metric)}" if change.mean else total_name(change.metric)


def total_table(changes: Mapping[str, Sequence[TotalChange]], caption: str = "", *, benchmarks: bool = False) -> Table:
    """Return a table with one row for each total of a configuration: both means, change, interval and verdict.

    Parameters
    ----------
    changes : mapping of str to sequence of TotalChange
        Changes of each configuration, or of each benchmark.
    caption : str, default ""
        Caption of the table.
    benchmarks : bool, default False
        Whether the names are those of benchmarks.
    """
    levels = {name: number(100 * total_changes[0].level, 3) for name, total_changes in changes.items() if total_changes}
    one_level = len({*levels.values()}) == 1
    two = set(changes) == {"B"}
    checked = "checked" if benchmarks else next(iter(changes)) if len(changes) == 1 else "here"
    named = benchmarks or len(changes) > 1
    columns = [
        *([Column("benchmark" if benchmarks else "configuration")] if named else []),
        Column("total of a run"),
        Column("A" if two else "baseline", "right", whole=True, detail=True),
        Column(checked, "right", whole=True, detail=True),
        Column("change" if checked != "change" else "difference", "right", whole=True),
        Column(
            f"{next(iter(levels.values()))} % interval" if one_level else "interval",
            "right",
            "confidence interval, from all runs or within rounds",
            whole=True,
        ),
        Column("tolerance", "right", "verdict, and largest relative change that counts as none", whole=True),
    ]
    rows: list[list[Cell | str]] = [
        [
            *([name] if named else []),
            name_of_total(change),
            Cell(short_total(change.before, change.metric), key=change.before),
            Cell(short_total(change.after, change.metric), key=change.after),
            Cell("equal" if change.equal else percent(change.change), key=change.change),
            Cell("" if change.equal else change.interval, key=change.low),
            _verdict(change),
        ]
        for name, total_changes in changes.items()
        for change in total_changes
    ]
    simulated = any(change.simulated for total_changes in changes.values() for change in total_changes)
    about = (
        "; all totals except times are simulated, and do not include the loading of the program and its libraries"
        if simulated
        else ""
    )
    in_rounds = [
        name_of_total(change) if len(changes) == 1 else f"{name_of_total(change)} of {name}"
        for name, total_changes in changes.items()
        for change in total_changes
        if change.equal_in_rounds
    ]
    if in_rounds:
        about += f"; equal in every round: {listing(in_rounds)}"
    if not one_level:
        about += f"; level of the intervals: {listing(f'{name} {level} %' for name, level in levels.items())}"
    return Table(tuple(columns), rows, f"{caption}{about}")


def _verdict(change: TotalChange) -> Cell:
    sign = f"{VERDICT_SIGNS[change.verdict]} ±{number(100 * change.tolerance)}\u00a0%"
    return Cell(sign, VERDICT_TONES[change.verdict], key=list(VERDICT_SIGNS).index(change.verdict))


def totals_sentence(
    name: str,
    changes: Sequence[TotalChange],
    reference: str,
    correlations: VerdictName | None = None,
    *,
    advice: bool = True,
) -> str:
    """Return one sentence on the changes: "B has 2.1 % more instructions (2.0 to 2.2) than A; …".

    `correlations`: Verdict on correlations, for the end of the sentence.
    `advice`: Whether to tell how many runs would decide; not for campaigns that choose their number of runs.
    """
    moved = [change for change in changes if change.verdict in ("perturbed", "shifted")]
    parts = [_moved(change, len(changes), advice=advice) for change in moved]
    equal = [name_of_total(change) for change in changes if change.equal]
    in_rounds = [name_of_total(change) for change in changes if change.equal_in_rounds]
    within = [
        change for change in changes if change.verdict == "unperturbed" and not (change.equal or change.equal_in_rounds)
    ]
    by_tolerance: dict[float, list[str]] = {}
    for change in within:
        by_tolerance.setdefault(change.tolerance, []).append(name_of_total(change))
    said = [f"{name} has {listing(parts)} than {reference}"] if parts else []
    if equal:
        said.append(f"{listing(equal)} {_are(equal)} exactly equal")
    if in_rounds:
        said.append(f"{listing(in_rounds)} {_are(in_rounds)} equal in every round")
    said += [
        f"{listing(names)} {_are(names)} the same within {number(100 * tolerance)} %"
        for tolerance, names in by_tolerance.items()
    ]
    said += undecided_totals(changes, advice=advice)
    if correlations is not None:
        said.append(f"correlations are {correlations}")
    text = "; ".join(said)
    return "" if not text else f"{text}." if parts else f"{name}: {text}."


def totals_advice(name: str, changes: Sequence[TotalChange], reference: str, *, setup: bool = False) -> tuple[str, ...]:
    """Return what to do about totals that changed or may have changed, one sentence each; none if none did.

    `setup`: Whether the configuration is a different set-up of the program, as in `compare`.
    """
    beyond = [name_of_total(change) for change in changes if change.verdict == "perturbed"]
    undecided_times = [change for change in changes if change.metric in TIMES and change.verdict == "undecided"]
    open_ = [
        name_of_total(change)
        for change in changes
        if change.verdict in OPEN and change not in undecided_times  # as in `joint_verdict`
    ]
    said = []
    if beyond:
        more = "by more than the tolerance"
        said.append(
            f"Totals of {name} and {reference} are not the same: {listing(beyond)} {_differs(beyond)} {more}."
            if setup
            else f"Take totals from the {reference} runs, not from those of {name}: {listing(beyond)} changed {more}."
        )
    if open_:
        said.append(
            f"These runs do not show whether {listing(open_)} {_differs(open_)} by more than the tolerance: "
            f"do not rely on {'this total' if len(open_) == 1 else 'these totals'} of {name}."
        )
    return tuple(said)


def _differs(names: Sequence[str]) -> str:
    return "differs" if _are(names) == "is" else "differ"


def undecided_totals(changes: Sequence[TotalChange], *, advice: bool) -> Iterator[str]:
    """Yield the undecided totals: first those that runs can decide, with their number, then the others."""
    runs = {name_of_total(change): change.runs_to_decide for change in changes if change.verdict == "undecided"}
    near = {name: count for name, count in runs.items() if advice and count is not None and count <= MOST_RUNS}
    if near:
        on = " on each node" if any(change.nodes for change in changes) else ""
        decide = f"{max(near.values())} runs per configuration{on} would probably decide"
        yield f"{listing(list(near))} {_are(list(near))} undecided ({decide})"
    far = [name for name in runs if name not in near]
    if far:
        yield f"{listing(far)} {_are(far)} undecided"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 and not names[0].endswith("s") else "are"


def _moved(change: TotalChange, family: int, *, advice: bool) -> str:
    """Return one change as words that follow "has": `2.1 % more instructions (2.0 to 2.2)`."""
    size, ends = abs(change.change), sorted((abs(change.low), abs(change.high)))
    less = "less" if change.metric in TIMES or change.mean else "fewer"
    digits = 3 if size >= 1 else 2
    more = "more" if change.change > 0 else less
    low, high = (number(100 * end, digits) for end in ends)
    inside = [] if low == high else [f"{low} to {high}"]
    if change.verdict == "shifted":
        is_beyond = change.low > change.tolerance or effect_of(change.high) < -math.log1p(change.tolerance)
        corrected = f"after correction for {family} totals, " if is_beyond and family > 1 else ""
        inside.append(f"{corrected}perhaps within the tolerance of {number(100 * change.tolerance)} %")
        if advice and change.runs_to_decide is not None and change.runs_to_decide <= MOST_RUNS:
            inside.append(f"{change.runs_to_decide} runs per configuration would probably decide")
    span = f" ({'; '.join(inside)})" if inside else ""
    return f"{number(100 * size, digits)} % {more} {name_of_total(change)}{span}"


def short_total(value: float, metric: str) -> str:
    """Format a total with four digits: `608.6 M`, `0.1672 s`, `52.1 µs`, with a no-break space."""
    if metric in TIMES:
        for unit, size in _SHORT_TIMES.items():
            if 0 < value < size:
                return f"{number(value / size * 1e3, 4)}\u00a0{unit}"
        return f"{number(value, 4)}\u00a0s"
    for unit, size in _UNITS.items():
        if value >= size:
            return f"{number(value / size, 4)}\u00a0{unit}"
    return number(value, 4)
