"""How numbers, times, lists and names are written, in the terminal, on pages and in messages alike. No markup."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

GOOD, BAD, SHIFTED, UNDECIDED, NOTE = "✓", "✗", "~", "?", "!"
"""The signs of verdicts and of findings, everywhere."""

FORBIDDEN = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Characters that untrusted text must not contain, as a class of a regular expression.

Controls but for tab and line ends; signs that turn the direction of all that follows them; halves of surrogate pairs,
which undecodable bytes in paths and in a program's output become.
"""

_UNSAFE = re.compile(f"[{FORBIDDEN}]|\r(?!\n)")
_MINUS = "−"
_SHOWN = 5


def number(value: float | None, digits: int = 3, *, zeros: bool = False) -> str:
    """Write a number with `digits` significant digits; None and what is not finite as `–`."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text and not zeros else text
    return text.replace("-", _MINUS)


def visible(text: str) -> str:
    """Escape terminal control characters in a text of others: `\\x1b[31m`, which would turn it red.

    Result: The same without controls but for tabs and line ends. A text of JSON stays the same JSON.
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    sign = ord(found[0])
    return f"\\x{sign:02x}" if sign < 0x20 else f"\\u{sign:04x}"


def correlation(value: float) -> str:
    """Write a correlation: two decimals, a true minus sign, never `−0.00`."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", _MINUS)


def signed(value: float) -> str:
    """Write a change of a correlation with its sign: `−0.13`, `+0.05`, `0.00`."""
    text = correlation(value)
    return text if text in {"0.00", "–"} or text.startswith(_MINUS) else f"+{text}"


def span(low: float, high: float) -> str:
    """Write an interval of changes, never broken over lines: `−0.13 … +0.05`."""
    return f"{signed(low)}\u00a0…\u00a0{signed(high)}"


def percent(ratio: float | None) -> str:
    """Write a ratio as a signed percentage of two significant digits: `+17 %`, `−0.43 %`, the space unbreakable."""
    if ratio is None or not math.isfinite(ratio):
        return "not measured"
    text = number(100 * ratio, 2, zeros=True)
    return f"{'' if text.startswith(_MINUS) or text == '0' else '+'}{text}\u00a0%"


def p_value(p: float) -> str:
    """Write a p-value: `0.03`, `< 0.001`."""
    if not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else number(p, 2)


def duration(seconds: float | None, *, whole: bool = False) -> str:
    """Write a time span, in `whole` seconds where it is an estimate anyway; None and what is not finite as `–`."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s" if whole else f"{number(seconds, 2, zeros=True)} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"


def counted(count: int, noun: str, several: str = "") -> str:
    """Write a count with its noun: `1 run`, `12 runs`, `2 entries` where `several` is given."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def listing(items: Iterable[str], last: str = "and") -> str:
    """Join words: `a, b and c`; empty where there is none."""
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def first_of(names: Sequence[str], most: int = _SHOWN) -> str:
    """Write the first names, and how many more there are: `a, b and 12 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def nearest(word: str, known: Iterable[str], *, limit: int = 3, cutoff: float = 60) -> tuple[str, ...]:
    """Return the known names whose spelling is most like a word's, the nearest first; 100 is the same name.

    One slip (a letter wrong, missing, too many, or two swapped) comes before all else, in words of three letters or
    more: of shorter ones it leaves too little.
    """
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415  only a mistake needs it
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    names, short = sorted(set(known)), word[:100]
    # PAPI_L1_DMC is PAPI_L1_DCM, although by its letters alone PAPI_L1_DCA is as near.
    slips = process.extract(
        short,
        names,
        scorer=OSA.distance,
        processor=utils.default_process,
        score_cutoff=1 if len(short) > 2 else 0,
        limit=limit,
    )
    alike = process.extract(short, names, scorer=fuzz.WRatio, processor=str.casefold, score_cutoff=cutoff, limit=limit)
    return tuple(dict.fromkeys(name for name, _, _ in (*slips, *alike)))[:limit]


def no_such_column(name: str, names: Iterable[str]) -> str:
    """Write that there is no column of a name: with the nearest one, else with the first of all."""
    known = list(names)
    near = nearest(name, known, limit=1, cutoff=70)
    return f"no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; the columns are {first_of(known)}")


def did_you_mean(word: str, known: Iterable[str], *, limit: int = 3, cutoff: float = 60) -> str:
    """Return `did you mean a or b?`, empty where no known name is near; parameters as for `nearest`."""
    names = nearest(word, known, limit=limit, cutoff=cutoff)
    return f"did you mean {listing(names, 'or')}?" if names else ""
