"""Formatting of numbers, times, lists and names as plain text, for the terminal, pages and messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

GOOD, BAD, SHIFTED, UNDECIDED, NOTE = "✓", "✗", "~", "?", "!"
"""Symbols of verdicts and findings, used in all output."""

FORBIDDEN = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Characters that untrusted text must not contain, as a character class for regular expressions.

Control characters except tabs and line ends; characters that change the direction of the following text; lone
surrogates, which stand for undecodable bytes in paths and in a program's output.
"""

_UNSAFE = re.compile(f"[{FORBIDDEN}]|\r(?!\n)")
_MINUS = "−"
_SHOWN = 5


def number(value: float | None, digits: int = 3, *, zeros: bool = False) -> str:
    """Format a number with `digits` significant digits; None, NaN and infinity as `–`."""
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
    """Escape terminal control characters in untrusted text, such as `\\x1b[31m`, which would turn the text red.

    Result: The text without control characters except tabs and line ends. JSON text keeps its meaning.
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    sign = ord(match[0])
    return f"\\x{sign:02x}" if sign < 0x20 else f"\\u{sign:04x}"


def correlation(value: float) -> str:
    """Format a correlation: two decimals, a true minus sign, never `−0.00`."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", _MINUS)


def signed(value: float) -> str:
    """Format a change of a correlation with its sign: `−0.13`, `+0.05`, `0.00`."""
    text = correlation(value)
    return text if text in {"0.00", "–"} or text.startswith(_MINUS) else f"+{text}"


def span(low: float, high: float) -> str:
    """Format a range of changes without line breaks: `−0.13 … +0.05`."""
    return f"{signed(low)}\u00a0…\u00a0{signed(high)}"


LEAST_RATIO = 1e-5  # Smaller ratios are written as about zero


def percent(ratio: float | None) -> str:
    """Format a ratio as a signed percentage with two digits, from 100 % three, and no-break spaces: `+17 %`."""
    if ratio is None or not math.isfinite(ratio):
        return "not measured"
    if 0 < abs(ratio) < LEAST_RATIO:
        return "≈\u00a00\u00a0%"
    text = number(100 * ratio, 3 if abs(ratio) >= 1 else 2, zeros=True)
    return f"{'' if text.startswith(_MINUS) or text == '0' else '+'}{text}\u00a0%"


def p_value(p: float) -> str:
    """Format a p-value: `0.03`, `< 0.001`."""
    if not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else number(p, 2)


def duration(seconds: float | None, *, whole: bool = False) -> str:
    """Format a duration, in `whole` seconds for estimates; None, NaN and infinity as `–`."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s" if whole else f"{number(seconds, 2, zeros=True)} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"


def counted(count: int, noun: str, several: str = "") -> str:
    """Format a count with its noun: `1 run`, `12 runs`, or `2 entries` with `several="entries"`."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def listing(items: Iterable[str], last: str = "and") -> str:
    """Join words: `a, b and c`; empty for no words."""
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def first_of(names: Sequence[str], most: int = _SHOWN) -> str:
    """Join the first names and count the rest: `a, b and 12 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def nearest(
    word: str, known: Iterable[str], *, limit: int = 3, cutoff: float = 60, preferred: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the known names with the spelling closest to a word, the closest first; a score of 100 is a match.

    Names that differ by one typo (a letter wrong, missing or extra, or two letters swapped) come first, for words of
    at least three letters: in a shorter word, one typo changes too much. Of names that are equally close, those of
    `preferred` come first, in its order.
    """
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415  only needed after a mistake
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    places = {name: place for place, name in enumerate(preferred)}
    names, short = sorted(set(known), key=lambda name: (places.get(name, len(places)), name)), word[:100]
    # PAPI_L1_DMC means PAPI_L1_DCM, although PAPI_L1_DCA scores the same by letters alone.
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
    """Return the message for an unknown column: with the nearest name, else with the first columns."""
    known = list(names)
    near = nearest(name, known, limit=1, cutoff=70)
    return f"no column {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; the columns are {first_of(known)}")


def did_you_mean(word: str, known: Iterable[str], *, limit: int = 3, cutoff: float = 60) -> str:
    """Return `did you mean a or b?`, or an empty text if no known name is near; parameters as for `nearest`."""
    names = nearest(word, known, limit=limit, cutoff=cutoff)
    return f"did you mean {listing(names, 'or')}?" if names else ""
