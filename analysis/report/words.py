"""The report's sentences: numbers and verdicts in plain words. Pure functions of the results, no markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.report.names import plain_name
from unperturbed.analysis.report.results import mean_rho

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation.verdict import Change, Overhead, VerdictName
    from unperturbed.analysis.report.content import ReportContent
    from unperturbed.analysis.report.results import Result

__all__ = [
    "SYMBOL",
    "VERDICT_MEANING",
    "advice",
    "campaign_sentence",
    "change_sentence",
    "check_sentence",
    "counts_sentence",
    "duration",
    "listing",
    "number",
    "overhead_words",
    "p_words",
    "percent",
    "plural",
    "result_sentence",
    "rho",
    "signed",
    "span",
]

SYMBOL: dict[VerdictName, str] = {"perturbed": "✕", "undecided": "?", "unperturbed": "✓"}
"""A sign beside each verdict's colour and word, so that colour is never the only one."""

VERDICT_MEANING: dict[VerdictName, str] = {
    "perturbed": "shown to have changed",
    "undecided": "these runs cannot tell; more could",
    "unperturbed": "shown to stay within the tolerance",
}

_MINUS = "−"


def number(value: float | None, digits: int = 3, *, zeros: bool = False) -> str:
    """Write a number with so many significant digits: `1.23`, `12,300`, `–` for none. `zeros` keeps those at its end: `4.0`."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text and not zeros else text
    return text.replace("-", _MINUS)


def rho(value: float) -> str:
    """Write a correlation: two decimals, a true minus sign, never `−0.00`."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", _MINUS)


def signed(value: float) -> str:
    """Write a change of correlation with its sign: `−0.13`, `+0.05`, `0.00`."""
    text = rho(value)
    return text if text in {"0.00", "–"} or text.startswith(_MINUS) else f"+{text}"


def span(low: float, high: float) -> str:
    """Write an interval of changes, never broken over lines."""
    return f"{signed(low)}\u00a0…\u00a0{signed(high)}"


def percent(ratio: float | None) -> str:
    """Write a ratio as a signed percentage of two significant digits: `+17 %`, `−0.43 %`, the space unbreakable."""
    if ratio is None or not math.isfinite(ratio):
        return "not measured"
    text = number(100 * ratio, 2, zeros=True)
    return f"{'' if text.startswith(_MINUS) or text == '0' else '+'}{text}\u00a0%"


def p_words(p: float) -> str:
    """Write a p-value: `0.03`, `< 0.001`."""
    if not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else number(p, 2)


def duration(seconds: float | None) -> str:
    """Write a time: `0.42 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{number(seconds, 2, zeros=True)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def plural(count: int, noun: str) -> str:
    """Count a noun: `1 run`, `12 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listing(items: Sequence[str], last: str = "and") -> str:
    """Join words: `a, b and c`."""
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def campaign_sentence(found: Sequence[Result]) -> str:
    """Say in one sentence what the campaign showed."""
    if not found:
        return "There is no verdict: there was nothing to check, or no configuration has enough finished runs. The notes and the failures say which."
    names = {
        verdict: [result.configuration for result in found if result.verdict == verdict]
        for verdict in ("perturbed", "unperturbed", "undecided")
    }
    if len(names["unperturbed"]) == len(found):
        subject = "The one configuration is" if len(found) == 1 else f"All {len(found)} configurations are"
        return f"{subject} unperturbed: measuring did not change how the program's metrics move together."
    if names["perturbed"]:
        least = "at least " if names["undecided"] else ""
        lead = f"Measuring changed the program in {least}{len(names['perturbed'])} of {plural(len(found), 'configuration')}: "
        lead += f"{listing(names['perturbed'])} {'is' if len(names['perturbed']) == 1 else 'are'} perturbed"
    else:
        lead = f"No perturbation was shown, but {listing(names['undecided'])} stayed undecided"
        names["undecided"] = []
    rest = [
        f"{listing(names[verdict])} {'is' if len(names[verdict]) == 1 else 'are'} {verdict}"
        for verdict in ("unperturbed", "undecided")
        if names[verdict]
    ]
    return f"{lead}; {listing(rest)}." if rest else f"{lead}."


def change_sentence(change: Change, alpha: float) -> str:
    """Say what happened to one pair or one metric, with its interval and tolerance."""
    before, after = mean_rho(change.reference), mean_rho(change.observed)
    direction = "fell" if after < before else "rose"
    moved = f"stayed at {rho(before)}" if rho(before) == rho(after) else f"{direction} from {rho(before)} to {rho(after)}"
    subject = (
        f"{plain_name(change.first)} and {plain_name(change.second)}: ρ {moved}"
        if change.check in ("inner", "software")
        else f"{plain_name(change.first)}, compared across runs: ρ {moved}"
        if change.first == change.second
        else f"{plain_name(change.first)} and {plain_name(change.second)}, compared across runs: ρ {moved}"
    )
    level = number(100 * (1 - 2 * alpha), 3)
    return (
        f"{subject}; {level}\u00a0% confidence interval of the change {span(change.low, change.high)}; "
        f"tolerance ±{rho(change.tolerance)}"
    )


def check_sentence(result: Result, check: str) -> str:
    """Say how one check of a configuration ended: `2 of 36 pairs perturbed, 5 undecided`."""
    changes = [change for change in result.changes if change.check == check]
    if not changes:
        return "not checked"
    noun = "metric" if check == "outer" else "pair"
    counts = {verdict: sum(change.verdict == verdict for change in changes) for verdict in SYMBOL}
    if counts["unperturbed"] == len(changes):
        return f"all {plural(len(changes), noun)} unperturbed"
    parts = [f"{counts[verdict]} {verdict}" for verdict in SYMBOL if counts[verdict]]
    return f"of {plural(len(changes), noun)}, {listing(parts)}"


def counts_sentence(result: Result) -> str:
    """Say how many changes have which verdict."""
    parts = [f"{len(result.having(verdict))} {verdict}" for verdict in SYMBOL if result.having(verdict)]
    return f"{plural(len(result.changes), 'change')} checked: {listing(parts)}" if parts else "nothing could be checked"


def result_sentence(result: Result) -> str:
    """Say what the verdict on a configuration means for its user."""
    inner, outer = result.check_verdict("inner"), result.check_verdict("outer")
    match result.verdict:
        case "unperturbed":
            return "Its metrics can be collected together, and its runs compared with the others."
        case "undecided":
            return "No change was shown, but these runs leave room for one larger than the tolerance."
    if inner == "perturbed" and outer == "perturbed":
        return "Its hardware numbers no longer describe the untouched program, neither within a run nor across runs."
    if outer == "perturbed":
        return "Its runs can no longer be read side by side with runs of the reference."
    if inner != "perturbed":
        return "Its software metrics no longer go with the others as they do where fewer are collected."
    return "Inside its runs, hardware metrics no longer move together as they do in the untouched program."


def overhead_words(overhead: Overhead) -> list[tuple[str, str]]:
    """Return what measuring added, as (what, how much)."""
    return [
        ("instructions", percent(overhead.instructions)),
        ("cycles", percent(overhead.cycles)),
        ("time", percent(overhead.time)),
    ]


def advice(result: Result, content: ReportContent) -> tuple[str, ...]:
    """Say what to do about the verdict, one sentence each."""
    if result.verdict == "unperturbed":
        return ("Nothing: use the numbers of these runs.",)
    return _advice_perturbed(result, content) if result.verdict == "perturbed" else _advice_undecided(result, content)


def _advice_perturbed(result: Result, content: ReportContent) -> tuple[str, ...]:
    if result.is_sham:
        return (
            "Nothing is counted in a sham: what moved comes with the rewritten code. `layouts: varied` puts layout into what counts as usual.",
        )
    anchor = content.settings.anchor
    origins = {change.origin for change in result.having("perturbed")}
    own = [name for name in result.software if name != anchor]
    said = [f"Take the hardware numbers from the {listing(result.references)} runs, not from these."]
    if anchor is not None and not own:
        said.append(f"Choose a cheaper anchor than {anchor}: every other configuration holds it too.")
    elif len(own) > 1:
        said.append(f"Collect {listing(own)} in runs of their own (one subset each in the spec) and check again.")
    elif own:
        said.append(f"{own[0]} perturbs by itself: count a rarer event in its place, or read it apart from hardware metrics.")
    if "layout" in origins and origins <= {"layout", "unclear", None}:
        said.append(
            "The sham build shows the same: it is the layout of the code or the no-ops in place of the increments, not the counting. "
            "`layouts: varied` puts layout into what counts as usual."
        )
    if result.check_verdict("inner") == "unperturbed":
        said.append("Within a run all is well: the runs can be used one by one, but not merged with others.")
    return tuple(said)


def _advice_undecided(result: Result, content: ReportContent) -> tuple[str, ...]:
    open_changes = result.having("undecided")
    needed = [change.runs_to_decide for change in open_changes if change.runs_to_decide is not None]
    beyond = len(open_changes) - len(needed)
    said = []
    if needed:
        now = content.settings.runs
        have = f" (now {now})" if now is not None else ""
        said.append(f"About {max(needed)} runs a configuration{have} would probably decide {_how_many(len(needed), beyond)}.")
    if beyond or not open_changes:
        which = f"{plural(beyond, 'change')} " if beyond else "This "
        said.append(
            f"{which}{'are' if beyond > 1 else 'is'} out of reach of more runs alone: calm the host, "
            "lengthen the program's run, or accept a wider tolerance."
        )
    return tuple(said)


def _how_many(decidable: int, beyond: int) -> str:
    if not beyond:
        return "it" if decidable == 1 else f"all {decidable} open changes"
    return f"{decidable} of {decidable + beyond} open changes"
