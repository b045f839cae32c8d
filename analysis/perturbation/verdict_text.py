"""Text of verdicts: signs, sentences and tables, for the terminal, pages and notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from unperturbed.analysis.metric_names import pair_name, plain_name
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.common.table import Cell, Column, Table, Tone
from unperturbed.common.wording import (
    BAD,
    GOOD,
    SHIFTED,
    UNDECIDED,
    correlation,
    counted,
    listing,
    number,
    p_value,
    percent,
    signed,
    span,
)

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation.baseline import Baseline
    from unperturbed.analysis.perturbation.verdict import Change, OriginName, Overhead, Verdict, VerdictName

MOST_RUNS = 60
"""Maximum number of runs of a configuration that advice asks for."""

VERDICT_SIGNS: Mapping[VerdictName, str] = {
    "perturbed": BAD,
    "shifted": SHIFTED,
    "undecided": UNDECIDED,
    "unperturbed": GOOD,
}
"""Sign of each verdict, shown with its colour and word, for readers who do not see colours; most serious first."""

VERDICT_TONES: Mapping[VerdictName, Tone] = {
    "perturbed": "bad",
    "shifted": "shifted",
    "undecided": "undecided",
    "unperturbed": "good",
}
"""Colour of each verdict."""

VERDICT_MEANINGS: Mapping[VerdictName, str] = {
    "perturbed": "shown to have changed by more than the tolerance",
    "shifted": "shown to have changed, perhaps within the tolerance; more runs could decide",
    "undecided": "neither shown to have changed nor shown to stay within the tolerance; more runs could decide",
    "unperturbed": "shown to stay within the tolerance",
}

_ORIGINS: Mapping[OriginName, str] = {
    "layout": "; not caused by the counting: the sham build shows this change too",
    "counting": "; caused by the counting: the sham build does not show this change",
    "both": "; caused by the counting and by the rewritten code: the sham build shows a change too",
    "unclear": "",
}


_BETWEEN = ("outer", "across")
"""Checks that compare runs with one another."""


class _Checked(Protocol):
    """A verdict on a configuration, or its results in a report."""

    @property
    def configuration(self) -> str: ...

    @property
    def changes(self) -> tuple[Change, ...]: ...


def verdict_cell(verdict: VerdictName) -> Cell:
    """Return a table cell with a verdict, its sign and its colour."""
    return Cell(f"{VERDICT_SIGNS[verdict]} {verdict}", VERDICT_TONES[verdict])


def _sign(verdict: VerdictName | None) -> Cell:
    return Cell("·") if verdict is None else Cell(VERDICT_SIGNS[verdict], VERDICT_TONES[verdict])


def verdict_headline(verdict: Verdict) -> str:
    """Return a verdict in one line: `steps is unperturbed (66 changes: 66 unperturbed)`."""
    counts = Counter(change.verdict for change in verdict.changes)
    parts = [f"{counts[name]} {name}" for name in VERDICT_SIGNS if counts[name]]
    summary = f"{counted(len(verdict.changes), 'change')}: {listing(parts)}" if parts else "nothing could be compared"
    simulated = "; hardware metrics are simulated" if verdict.simulated else ""
    return f"{verdict.configuration} is {verdict.verdict} ({summary}){simulated}"


def verdict_table(
    verdicts: Sequence[Verdict], caption: str = "", *, totals: Mapping[str, VerdictName] | None = None
) -> Table:
    """Return one row per configuration: verdict, overhead of measuring, and number of changes by verdict.

    Parameters
    ----------
    verdicts : sequence of Verdict
        One for each configuration.
    caption : str, default ""
        Caption of the table.
    totals : mapping of str to VerdictName, optional
        Verdict on the totals of each configuration, shown in a separate column.

    Returns
    -------
    Table
        Rows in the order of the verdicts.
    """
    names: tuple[VerdictName, ...] = ("unperturbed", "perturbed", "shifted", "undecided")
    counted_any = any(verdict.overhead.instructions is not None for verdict in verdicts)
    columns = (
        Column("configuration"),
        Column("verdict"),
        *([Column("instructions", "right", "instructions that measuring adds to a run")] if counted_any else []),
        *([Column("totals", "right", "most serious verdict on totals of whole runs")] if totals else []),
        *(Column(VERDICT_SIGNS[name], "right", f"pairs and metrics that are {name}") for name in names),
    )
    rows: list[list[Cell | str]] = []
    for verdict in verdicts:
        counts = Counter(change.verdict for change in verdict.changes)
        added = verdict.overhead.instructions
        rows.append(
            [
                verdict.configuration,
                verdict_cell(verdict.verdict),
                *([Cell("" if added is None else percent(added), key=added)] if counted_any else []),
                *([_sign(totals.get(verdict.configuration))] if totals else []),
                *(Cell(str(counts[name]), VERDICT_TONES[name]) if counts[name] else "·" for name in names),
            ]
        )
    return Table(columns, rows, caption)


def cause_table(verdicts: Sequence[Verdict], counting: Mapping[str, Verdict]) -> Table:
    """Return what changes a program of one build: the rewriting, the counting, or both together.

    `verdicts`: Verdicts against the baseline, that on the build without counting first.
    `counting`: Verdict on each configuration against the build without counting.
    """
    columns = (
        Column("configuration"),
        Column("1. rewriting", meaning="the build without counting against the baseline, the program with the sampler"),
        Column("2. counting", meaning="this configuration against the build without counting, at the same addresses"),
        Column("3. both", meaning=f"this configuration against the baseline{_between_runs(verdicts)}"),
    )
    rows: list[list[Cell | str]] = []
    for verdict in verdicts:
        alone = counting.get(verdict.configuration)
        against_baseline = verdict_cell(verdict.verdict)
        rows.append(
            [verdict.configuration, "", verdict_cell(alone.verdict), against_baseline]
            if alone is not None
            else [verdict.configuration, against_baseline, "", ""]
        )
    return Table(columns, rows, "What changes the program")


def cause_legend(verdicts: Sequence[Verdict]) -> str:
    """Return what the columns of `cause_table` compare."""
    return (
        "1: the build without counting against the baseline, which is the program with the sampler. 2: the same build "
        f"with counting against that without. 3: with counting against the baseline{_between_runs(verdicts)}."
    )


def _between_runs(verdicts: Sequence[Verdict]) -> str:
    """Return that the anchor's runs are the reference of outer changes; '' without an anchor."""
    names = dict.fromkeys(anchor for verdict in verdicts if (anchor := _anchor_of(verdict)))
    return f"; between runs, subsets against the {listing(list(names))}'s runs" if names else ""


def _anchor_of(verdict: _Checked) -> str:
    """Return the configuration, other than the one with the inner changes' reference runs, of outer changes; or ''."""
    inner = {change.against for change in verdict.changes if change.check == "inner"}
    others = (change.against for change in verdict.changes if change.check in _BETWEEN and change.against)
    return next((name for name in others if inner and name not in inner), "")


def anchor_notes(verdicts: Sequence[_Checked]) -> tuple[str, ...]:
    """Return one note for each anchor with changes that a subset, which is compared with its runs, does not show.

    `verdicts`: On all configurations, each once.
    """
    changes = {
        verdict.configuration: {
            (change.check, change.first, change.second): change
            for change in verdict.changes
            if change.check in _BETWEEN
        }
        for verdict in verdicts
    }
    hidden: dict[str, dict[VerdictName, dict[str, None]]] = {}
    subsets: dict[str, dict[str, None]] = {}
    severity = list(VERDICT_SIGNS)
    for verdict in verdicts:
        anchor = _anchor_of(verdict)
        for key, own in changes.get(anchor, {}).items():
            here = changes[verdict.configuration].get(key)
            hides = here is not None and severity.index(own.verdict) < severity.index(here.verdict)
            if hides and own.verdict in ("perturbed", "shifted"):
                metric = " and ".join(map(plain_name, dict.fromkeys((own.first, own.second))))
                hidden.setdefault(anchor, {}).setdefault(own.verdict, {})[metric] = None
                subsets.setdefault(anchor, {})[verdict.configuration] = None
    return tuple(
        f"Between runs, the {anchor} itself is "
        + listing(
            [f"{VERDICT_SIGNS[name]} {name} in {listing(list(found[name]))}" for name in severity if name in found]
        )
        + f" against the baseline. {listing(list(subsets[anchor]))} {'run' if len(subsets[anchor]) > 1 else 'runs'} "
        f"with the {anchor}, and between runs {'are' if len(subsets[anchor]) > 1 else 'is'} compared with its runs: so "
        f"this holds for {'them' if len(subsets[anchor]) > 1 else 'it'} too."
        for anchor, found in hidden.items()
    )


_CHANGE_COLUMNS = (
    Column("metrics"),
    Column("configuration"),
    Column(
        "check",
        meaning="inner: two metrics of one run; outer: one metric in two aligned runs; software: like inner, with a "
        "software metric; across: like outer, with two metrics",
    ),
    Column("verdict"),
    Column("ρ before", meaning="mean over the reference runs"),
    Column(
        "ρ here",
        meaning="mean over the configuration's runs; within rounds, ρ before with the rounds' mean difference added",
    ),
    Column("change"),
    Column(
        "interval",
        meaning="confidence interval of this change, not corrected for the number of comparisons; sorted by its "
        "lower end",
    ),
    Column("p", meaning="p-value: how often chance alone would show a change this large", detail=True),
    Column("p corrected", meaning="p-value, corrected for multiple comparisons", detail=True),
    Column(
        "p beyond",
        meaning="how often a change within the tolerance would look this large, corrected for multiple comparisons",
        detail=True,
    ),
    Column(
        "p, false discoveries",
        meaning="p-value, corrected to limit the average share of false findings to α",
        detail=True,
    ),
    Column("smallest visible", meaning="smallest change that these runs would show with a power of 80 %", detail=True),
    Column("runs needed", meaning="runs per configuration that decide with 80 %; – if decided or out of reach"),
)


def baseline_table(baseline: Baseline) -> Table:
    """Return a table with one row for each pair of metrics of a baseline: their correlation over the runs."""
    columns = (
        Column("pair"),
        Column("ρ", "right", "mean over the runs"),
        Column("lowest", "right", "smallest ρ of a run"),
        Column("highest", "right", "largest ρ of a run"),
    )
    rows = [
        [pair_name(*pair), *(correlation(value) for value in (mean_rho(rhos), min(rhos), max(rhos)))]
        for pair, rhos in zip(baseline.pairs, baseline.correlations.T.tolist(), strict=True)
    ]
    runs, metrics = counted(len(baseline.runs), "run"), counted(len(baseline.metrics), "metric")
    return Table(columns, rows, f"{baseline.name}: {runs}, {metrics}: {listing(baseline.metrics)}")


def change_table(changes: Iterable[tuple[str, Change]], caption: str = "") -> Table:
    """Return a table with one row for each change and every number that decides it.

    Parameters
    ----------
    changes : iterable of tuple of str and Change
        Each change with its configuration.
    caption : str, default ""
        Caption of the table.

    Returns
    -------
    Table
        Rows in the order of the changes; pages sort by the key of each cell.
    """
    return Table(_CHANGE_COLUMNS, [_change_row(configuration, change) for configuration, change in changes], caption)


def _change_row(configuration: str, change: Change) -> list[Cell | str]:
    before, after = shown_levels(change)
    needed = change.runs_to_decide
    return [
        pair_name(change.first, change.second),
        configuration,
        change.check,
        verdict_cell(change.verdict),
        Cell(correlation(before), key=before),
        Cell(correlation(after), key=after),
        Cell(signed(change.effect), key=change.effect),
        Cell(span(change.low, change.high), key=change.low),
        Cell(p_value(change.p), key=change.p),
        Cell(p_value(change.p_corrected), key=change.p_corrected),
        Cell(p_value(change.p_beyond_corrected), key=change.p_beyond_corrected),
        Cell(p_value(change.p_discovery), key=change.p_discovery),
        Cell(correlation(change.smallest_visible), key=change.smallest_visible),
        Cell(number(needed), key=float("inf") if needed is None else needed),
    ]


def change_sentence(change: Change, alpha: float) -> str:
    """Return a sentence on one change, with its interval and tolerance.

    Parameters
    ----------
    change : Change
        The change to describe.
    alpha : float
        Level of each bound of the interval.

    Returns
    -------
    str
        A sentence without the final full stop.
    """
    before, after = shown_levels(change)
    direction = "fell" if after < before else "rose"
    moved = (
        f"stayed at {correlation(before)}"
        if correlation(before) == correlation(after)
        else f"{direction} from {correlation(before)} to {correlation(after)}"
    )
    names = " and ".join(map(plain_name, dict.fromkeys((change.first, change.second))))
    subject = f"{names}{'' if change.check in ('inner', 'software') else ', compared across runs'}: ρ {moved}"
    level = number(100 * (1 - 2 * alpha), 3)
    return (
        f"{subject}; {level}\u00a0% confidence interval of the change (uncorrected) {span(change.low, change.high)}; "
        f"tolerance ±{correlation(change.tolerance)}{_corrected_away(change, 0)}"
    )


def decisive_change(verdict: Verdict, *, advice: bool = True) -> str:
    """Return sentences on the most serious and on open changes, or on what was excluded; no final full stop.

    `advice`: Whether to tell how many runs would decide; not for campaigns that choose their number of runs.
    """
    if not verdict.changes:
        return "; ".join(reason for _, reason in verdict.excluded)
    from unperturbed.analysis.perturbation.verdict import ranked_changes  # noqa: PLC0415  it uses this module

    change = ranked_changes(verdict.changes)[0]
    before, after = shown_levels(change)
    parts = [
        f"{change.check} ρ of {change.label} changed by {change.effect:+.3f}, from {before:.3f} to "
        f"{after:.3f}; {_percent_of(verdict.level)} confidence interval (uncorrected) "
        f"{change.low:+.3f} … {change.high:+.3f}, tolerance ±{change.tolerance:g}"
        f"{_ORIGINS[change.origin or 'unclear']}{_corrected_away(change, len(verdict.changes))}"
    ]
    if verdict.method == "runs" and advice:
        parts += [said.removesuffix(".") for said in runs_advice(verdict.changes)]
    if verdict.lost:
        parts.append(f"Not compared: {'; '.join(f'{name} ({why})' for name, why in verdict.lost)}")
    if verdict.method == "bootstrap" and verdict.notes:
        parts.append(verdict.notes[0])
    return ". ".join(parts)


def _percent_of(level: float) -> str:
    return f"{number(100 * level, 3)}%"


def _corrected_away(change: Change, family: int) -> str:
    """Explain why a verdict is milder than the interval by itself; empty where it is not."""
    among = f"; after correction for {family or 'all'} comparisons, this change may"
    if change.verdict == "undecided" and not change.low <= 0 <= change.high:
        return f"{among} be due to chance (corrected p {p_value(change.p_corrected)})"
    is_beyond = change.low > change.tolerance or change.high < -change.tolerance
    if change.verdict == "shifted" and is_beyond:
        return f"{among} lie within the tolerance (corrected p {p_value(change.p_beyond_corrected)})"
    return ""


def runs_advice(changes: Iterable[Change], runs: int | None = None) -> tuple[str, ...]:
    """Return sentences on the runs that would decide open changes, and on changes out of reach; empty without any.

    Parameters
    ----------
    changes : iterable of Change
        Changes of one configuration.
    runs : int, optional
        Number of runs that the configuration has.
    """
    open_changes = [change for change in changes if change.is_open]
    runs_of_each = [change.runs_to_decide for change in open_changes]
    needed = [count for count in runs_of_each if count is not None and count <= MOST_RUNS]
    beyond = len(open_changes) - len(needed)
    said = []
    if needed:
        decided = (
            f"{len(needed)} of {len(open_changes)} open changes"
            if beyond
            else "the open change"
            if len(needed) == 1
            else f"all {len(needed)} open changes"
        )
        have = f" (now {runs})" if runs is not None else ""
        said.append(f"About {max(needed)} runs per configuration{have} would probably decide {decided}.")
    if beyond:
        further, each = "further " if needed else "", " for each" if beyond > 1 else ""
        said.append(
            f"The chance that {MOST_RUNS} runs decide {counted(beyond, f'{further}change')} is below 80 %{each}: make "
            "each run longer, or accept a wider tolerance."
        )
    return tuple(said)


def overhead_words(overhead: Overhead) -> list[tuple[str, str]]:
    """Return the overhead of measuring, as pairs of quantity and amount."""
    return [(quantity, percent(getattr(overhead, quantity))) for quantity in ("instructions", "cycles", "time")]


def shown_levels(change: Change) -> tuple[float, float]:
    """Return the mean ρ of the reference runs and that of the checked runs, of which a change is the difference.

    Within rounds, the second is the mean of all reference runs with the mean difference of the rounds added, on
    Fisher's scale (`compare_within_rounds`): reference runs of other rounds have no part in the difference.
    """
    before, after = mean_rho(change.reference), [mean_rho(change.observed)]
    if change.partners:
        own = mean_rho(change.reference[at] for at in change.partners)
        after.append(float(from_fisher(fisher(before) + fisher(after[0]) - fisher(own))))
    return before, min(after, key=lambda level: abs(level - before - change.effect))


def mean_rho(rhos: Iterable[float]) -> float:
    """Return the mean of correlations on Fisher's scale, as a correlation; NaN if there are none."""
    values = np.fromiter(rhos, np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return float("nan")
    # A correlation of exactly ±1 would be infinite on Fisher's scale; the bound changes only digits that pages do not
    # show.
    return float(np.tanh(np.mean(np.arctanh(np.clip(values, -0.999999, 0.999999)))))
