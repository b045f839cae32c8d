"""Why a software metric has no site in a build, and what could be meant instead."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from rapidfuzz import fuzz, process

from unperturbed.errors import SpecError
from unperturbed.instrument.candidates import SourceText, read_again
from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.names import Source, functions_of, labels_of, occurrences, sources_with
from unperturbed.instrument.parse import UnreadableError
from unperturbed.instrument.sitelog import SiteReport
from unperturbed.instrument.targets import file_matches, is_glob, last_part, name_matches, needed_words, split_gauge, split_line

__all__ = ["nearest_names", "why_missing"]

_SHOWN_FILES = 8
_SHOWN_NAMES = 3
_LISTED_NAMES = 12
_READ_AGAIN = 16
"""Sources that are looked into for names; more would keep the user waiting."""

_TRIED = 40
"""Names that the finder is asked about in each source."""

_NEAR, _ALIKE, _SURE = 50, 60, 75
"""Of 100, how alike a name is to the target: to be worth telling; its last part, in any scope; to be taken for the one that was meant."""

_OWN = 0.95
"""What the last part alone is worth, beside the whole name."""

_BEHIND = 25
"""Of 100: names that are so much less alike than the best of all are not told beside it."""


class _Similar(NamedTuple):
    """Names that have a site, nearest first; whether the target itself has one without its filters; sources that could not be read."""

    names: tuple[str, ...]
    has_target: bool
    unread: tuple[str, ...]


def why_missing(name: str, event: Event, report: SiteReport) -> str:
    """Return a message for a metric without a site: what was looked for and where, and the names that could be meant."""
    message = f"software metric {name!r}: no place in the program matches {event.kind}: {event.target}"
    message += "".join(f", {key}: {value}" for key, value in event.to_json().items() if key in ("in", "file"))
    if not report.sources:
        return f"{message}; no source was compiled by the instrumenting compiler: does the build command use {{cc}} or {{cxx}}?"
    return _without_common_folder(message + "".join(_reasons(name, event, report)), report)


def nearest_names(event: Event, report: SiteReport, *, surely: bool = False) -> list[str]:
    """Return the targets that are nearest to an event's; each of them has a site.

    Parameters
    ----------
    surely : only those so like the target that it must be one of them misspelt, though further sources may hold it.
    """
    wanted = last_part(event.target)
    if surely and not process.extract(wanted, report.words - {wanted}, scorer=fuzz.ratio, score_cutoff=_SURE, limit=1):
        return []
    names = _similar(event, report).names
    return [name for name in names if not surely or fuzz.ratio(wanted, last_part(name)) >= _SURE]


@lru_cache(maxsize=64)
def _similar(event: Event, report: SiteReport) -> _Similar:
    """Look into the sources again, for names that would have a site as targets of the same kind."""
    place = split_line(event.target) if event.kind in ("line", "loop") else None
    bare = _unfiltered(event)
    words = [
        word
        for word, _, _ in process.extract(
            last_part(bare.target), sorted(report.words), scorer=fuzz.ratio, limit=12, score_cutoff=_ALIKE
        )
    ]
    found: dict[str, float] = {}
    unread: list[str] = []
    for source in islice(_sources(bare, report, words, place[0] if place else ""), _READ_AGAIN):
        names = _with_sites(bare, source, words)
        if names is None:
            unread.append(source[1])
            known = functions_of([source]) if event.kind in ("enter", "return") else set()
            names = [name for name in known if _likeness(bare, name) >= _NEAR]
        found |= {name: _likeness(bare, name) for name in names}
        if sum(likeness >= 100 * _OWN for likeness in found.values()) >= _SHOWN_NAMES or (place and found):
            break
    others = sorted(found.keys() - {bare.target}, key=lambda name: (-found[name], name))[:_SHOWN_NAMES]
    nearest = tuple(name for name in others if found[name] >= found[others[0]] - _BEHIND)
    return _Similar(nearest, bare.target in found, tuple(unread))


def _unfiltered(event: Event) -> Event:
    """Return an event without what narrows it."""
    target = event.target
    if event.kind == "gauge" and (file := split_gauge(target).file):
        target = target[len(file) + 2 :]
    return replace(event, target=target, within=None, file=None, add=None)


def _sources(event: Event, report: SiteReport, words: list[str], file: str) -> Iterator[Source]:
    """Yield the sources that may hold what was meant: first those with a word like its own, then those with one of its scopes."""
    there = [origin for origin in report.origins if Path(origin[0], origin[1]).is_file()]
    if file:
        yield from sources_with(there, (), file=file)
        return
    both = chain(sources_with(there, words), sources_with(there, needed_words(event.target)))
    yield from dict.fromkeys(both)


def _with_sites(event: Event, source: Source, words: list[str]) -> list[str] | None:
    """Return the names in one source, near an event's target and the target itself, that have a site there; None when it cannot be read."""
    for text in read_again(*source):
        try:
            likely = {name: likeness for name in _proposed(event, text, words) if (likeness := _likeness(event, name)) >= _NEAR}
            tried = [event.target, *sorted(likely, key=lambda name: (-likely[name], name))[:_TRIED]]
            targets = [replace(event, target=name) for name in dict.fromkeys(tried) if _is_target(event.kind, name)]
            found = text.having_sites(targets)
            if not found and event.kind == "call":
                # A method of a library's class: in what classes it is declared, the text does not tell without its system headers.
                found = text.having_sites([replace(event, target=f"*::{word}") for word in words])
            return [each.target for each in found]
        except UnreadableError:
            continue
    return None


def _proposed(event: Event, text: SourceText, words: list[str]) -> set[str]:
    """Return names that may have been meant, whether they have a site or not."""
    target, kind = event.target, event.kind
    place = split_line(target) if kind in ("line", "loop") else None
    names = text.names(kind, place[0] if place else "")
    if place is not None:
        return names.get("line", set())
    functions, variables = names.get("function", set()), names.get("variable", set())
    if kind == "label":
        return names.get("label", set())
    if kind == "loop":
        loops = names.get("loop", set())
        return loops if "#" in target else {name.rpartition("#")[0] for name in loops}
    if kind == "write":
        # Parameters are in no list.
        scoped = {f"{scope}{mark}{word}" for mark in ("::", ".") if (scope := target.rpartition(mark)[0]) for word in words}
        return names.get("field", set()) | variables | scoped
    if kind == "gauge":
        parts = target[len(split_gauge(target).name) :]
        fields = {f"{name}.{word}" for name in variables for word in words}
        return variables | fields | {name + parts for name in variables}
    # What is called may be a library's.
    return functions | (set(words) if kind == "call" else set())


def _likeness(event: Event, name: str) -> float:
    """Return how alike, of 100, a name is to an event's target: as a whole, or in its last part whatever it stands in."""
    place, line = split_line(event.target), split_line(name)
    if place is not None and line is not None:
        return 100 / (1 + abs(place[1] - line[1]) / 1e6)
    own = fuzz.ratio(last_part(event.target), last_part(name))
    return max(fuzz.ratio(event.target, name), _OWN * own if own >= _ALIKE else 0.0)


def _is_target(kind: str, name: str) -> bool:
    try:
        parse_event({kind: name})
    except SpecError:
        return False
    return True


def _reasons(name: str, event: Event, report: SiteReport) -> Iterator[str]:
    """Yield the ends of the message."""
    filtered = _filtered_out(event, report)
    if filtered:
        yield filtered
        similar = _similar(event, report)
        if similar.names and not (similar.has_target or similar.unread):
            yield f"; nearest names: {', '.join(similar.names)}"
        return
    unseen = report.unseen.get(name)
    if unseen:
        yield f" that can be counted; {unseen[0].file}:{unseen[0].line}: {unseen[0].text}"
        return
    for source, reason in report.skipped.items():
        if "does not compile" in reason:
            yield f", as {source} has no counters: {reason}. Is that an `add:`, which must make sense at every place it is put?"
            return
    yield (
        _listed(event, report) or _without_definition(event, report) or _without_loop(event, report) or _nearest(event, report)
    )
    # What a configure script compiled to ask the compiler something, it has removed again.
    there = [source for folder, source, _ in report.origins if Path(folder, source).exists()]
    yield f"; looked at {_some(there or report.sources, _SHOWN_FILES)}"
    reasons = "; ".join(f"{source} ({reason})" for source, reason in list(report.skipped.items())[:_SHOWN_NAMES])
    yield f"; could not look into {reasons}" if reasons else ""


def _nearest(event: Event, report: SiteReport) -> str:
    """Name what could be meant."""
    similar = _similar(event, report)
    place = split_line(event.target) if event.kind in ("line", "loop") else None
    if place is not None and any(file_matches(file, place[0]) for file in report.files()):
        what = "loop" if event.kind == "loop" else "statement"
        lines = f"; the nearest that have one: {', '.join(similar.names)}" if similar.names else ""
        return f"; no {what} begins on that line{lines}"
    names = list(similar.names)
    if place is not None:
        ranked = process.extract(place[0], sorted(report.files()), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=_NEAR)
        names = [f"{file}:…" for file, _, _ in ranked]
    if names:
        return f"; nearest names: {', '.join(names)}"
    unread = f" in what can be read again, which is not {_some(similar.unread)}" if similar.unread else ""
    return f"; no name is near it{unread}"


def _filtered_out(event: Event, report: SiteReport) -> str:
    """Say where the target is when `in:` or `file:` leaves all of it out, '' when they do not."""
    gauge = split_gauge(event.target) if event.kind == "gauge" else None
    file = event.file or (gauge.file if gauge else "")
    name = gauge.variable if gauge else event.target.partition("#")[0]
    if event.kind == "label":
        name = name.rpartition("::")[0]
    if event.kind == "line" or not (file or event.within) or split_line(event.target):
        return ""
    word = re.split(r"::|\.", name.partition("(")[0])[-1]
    if not is_glob(word):
        word = (needed_words(name) or [""])[-1]
    found = occurrences(report.origins, event.kind, word) if word else []
    happens = "is called in" if event.kind == "call" else "is in"
    if file and found and not any(file_matches(place.file, file) for place in found):
        return f"; {word} {happens} {_some(place.file for place in found)}, which `{file}` leaves out"
    within = [place.function for place in found if not file or file_matches(place.file, file)]
    # Here a function's namespaces may be unknown.
    wanted = (event.within or "*").partition("(")[0].rpartition("::")[2]
    if within and not any(name_matches(function.rpartition("::")[2], wanted) for function in within):
        return f"; {word} {happens} {_some(within)}, which `in: {event.within}` leaves out"
    return ""


def _listed(event: Event, report: SiteReport) -> str:
    """Say which overloads, lambdas or labels a function has, when the target names one that it has not."""
    target = event.target.partition("#")[0]
    if event.kind == "label":
        scope = target.rpartition("::")[0]
        labels = [name for name in report.parsed_names("label") if name_matches(name.rpartition("::")[0], scope)]
        labels = labels or list(labels_of(report.origins, scope))
        return f"; the labels there are {_some(sorted(labels), _LISTED_NAMES)}" if labels else ""
    overloads = [
        name for name in report.parsed_names("overload") if name_matches(name.partition("(")[0], target.partition("(")[0])
    ]
    if "(" in target and overloads:
        return f"; what has that name is {_some(sorted(overloads), _LISTED_NAMES)}"
    scope = target.partition("(")[0].rpartition("::")[0]
    lambdas = [name for name in report.parsed_names("lambda") if scope and name_matches(name.rpartition("::")[0], scope)]
    return f"; the lambdas there are {_some(sorted(lambdas), _LISTED_NAMES)}" if lambdas else ""


def _without_definition(event: Event, report: SiteReport) -> str:
    """Say what is known of a gauge's variable that is named in the sources, '' when it is not."""
    if event.kind != "gauge":
        return ""
    gauge = split_gauge(event.target)
    names = report.names("gauge")
    near = _similar(event, report).names
    scoped = sorted(name for name in {*names, *near} if name.endswith(f"::{gauge.variable}") and name != gauge.name)
    if scoped:
        return f"; {gauge.variable} is the name of {_some(scoped)}"
    if gauge.name in names and not near:
        return f"; {gauge.name} is named there, but none of the sources defines it (a variable in a function is function::variable)"
    return ""


def _without_loop(event: Event, report: SiteReport) -> str:
    """Say that a function is there and has no loop, '' when that is not so."""
    name = event.target.partition("#")[0]
    if event.kind != "loop" or is_glob(name) or split_line(event.target):
        return ""
    if any(near.partition("#")[0] == name for near in _similar(event, report).names):
        return ""
    there = [
        place.file for place in occurrences(report.origins, "enter", last_part(name)) if name_matches(place.function, name)
    ]
    return f"; {name} is in {_some(there)}, and has no loop" if there else ""


def _some(names: Iterable[str], most: int = _SHOWN_NAMES) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:most]) + (f" and {len(distinct) - most} more" if len(distinct) > most else "")


def _without_common_folder(message: str, report: SiteReport) -> str:
    """Shorten paths: a build system says whole ones, and all of a build lies in one folder."""
    places = [Path(folder) for folder, _, _ in report.origins]
    places += [Path(source).parent for source in report.sources if Path(source).is_absolute()]
    common = os.path.commonpath(places) if all(place.is_absolute() for place in places) else "/"
    return message if common == "/" else re.sub(rf"(?<![\w/.-]){re.escape(common)}/", "", message)
