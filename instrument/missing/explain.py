"""Explanation of why a software metric has no site, with similar targets from parsing the sources again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from rapidfuzz import fuzz, process

from unperturbed.common import supervision
from unperturbed.common.wording import first_of
from unperturbed.instrument.command_line import LANGUAGES
from unperturbed.instrument.events.event import Event, compiled_kind, select
from unperturbed.instrument.events.kind import matches_form
from unperturbed.instrument.events.targets import (
    file_matches,
    is_glob,
    last_part,
    name_matches,
    needed_words,
    split_line,
)
from unperturbed.instrument.finding.preprocessed import Facts, ParsedText, PreprocessedText, UnreadableError, parse
from unperturbed.instrument.finding.site_log import SiteReport
from unperturbed.instrument.finding.sites import FoundSites, find_sites
from unperturbed.instrument.missing.names import (
    Source,
    functions_of,
    labels_of,
    occurrences,
    sources_with,
    written_names,
)

_COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_STANDARDS = {"c": ("gnu17",), "c++": ("gnu++17", "gnu++20")}


class SourceText(NamedTuple):
    """Source that is parsed again because a metric has no site."""

    parsed: ParsedText
    standard: str  # Language standard

    def names(self, event: Event) -> dict[str, set[str]]:
        """Return the text's names, as in `FoundSites`, that targets of an event's kind could have."""
        kind = compiled_kind(event.kind)
        place = kind.line_of(event.target)
        lines = [Event(event.kind, f"{place[0]}:1")] if place else []
        enumerating = [Event(name, target) for name, target in kind.enumerating]
        return self._search([*enumerating, *lines]).names

    def with_sites(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that have a site in the text."""
        placed = {site.metric for site in self._search(events).sites}
        return [event for number, event in enumerate(events) if number in placed]

    def _search(self, events: Sequence[Event]) -> FoundSites:
        selected = [select("", number, event) for number, event in enumerate(events)]
        return find_sites(self.parsed, self.standard, selected)


@lru_cache(maxsize=4)  # the next metric needs the same texts; they are large, so few are kept
def _text(report: SiteReport, source: Source, standard: str) -> SourceText | None:
    """Parse a source again with a language standard; return None if it is unreadable without its command's macros."""
    del report  # only part of the cache key: sources do not change while a report exists
    folder, path, include_folders = source
    language = "c++" if "++" in standard else "c"
    if LANGUAGES.get(Path(path).suffix, "").endswith("cpp-output"):
        data = Path(folder, path).read_bytes()
    else:
        compiler = next(filter(None, map(shutil.which, _COMPILERS[language])), None)
        if compiler is None:
            return None
        folders = [f"-I{each}" for each in include_folders]
        words = [compiler, "-E", "-x", language, f"-std={standard}", *folders, path]
        result = supervision.run(words, cwd=folder, capture_output=True)
        if result.returncode:
            return None
        data = result.stdout
    try:
        facts = Facts(clang=False, machine="", standard=standard, target="")
        return SourceText(parse(PreprocessedText(data), language, facts), standard)
    except UnreadableError:
        return None


_SHOWN_FILES = 8
_SHOWN_NAMES = 3
_READ_AGAIN = 16
"""Limit on the sources parsed again for names; more would keep the user waiting."""

_MOST_TARGETS = 40
"""Limit on the names tried as targets in each source."""

_NEAR, _ALIKE, _SURE = 50, 60, 75
"""Least similarity to the target, from 0 to 100: of a name, to show it; of a name's last part, in any scope; of a name,
to take it for the intended one."""

_OWN = 0.95
"""Weight of a match of only the last part, relative to a match of the whole name."""

_BEHIND = 25
"""Names are not shown if their similarity, from 0 to 100, is lower than the best name's by more than this."""


class _Similar(NamedTuple):
    """Similar names with a site, nearest first; whether the unfiltered target has a site; unreadable sources."""

    names: tuple[str, ...]
    has_target: bool
    unread: tuple[str, ...]


class NamesOfBuild:
    """Names in a build's sources. Implementation of `BuildNames`."""

    def __init__(self, report: SiteReport) -> None:
        self._report = report

    def parsed(self, part: str) -> set[str]:
        """Return the names in one category that parsing found."""
        return self._report.parsed_names(part)

    def known(self, parts: Collection[str]) -> set[str]:
        """Return the names in some categories: those that parsing found and those written in the sources."""
        return {name for part in parts for name in self._written.get(part, set()) | self.parsed(part)}

    def similar(self, event: Event) -> tuple[str, ...]:
        """Return the targets that have a site and are nearest to an event's target."""
        return _similar(event, self._report).names

    def labels(self, function: str) -> set[str]:
        """Return the labels, as `function::label`, of all functions with the given name."""
        return labels_of(self._report.origins, function)

    def files_of(self, function: str) -> list[str]:
        """Return the files that define a function."""
        places = occurrences(self._report.origins, last_part(function))
        return [place.file for place in places if name_matches(place.function, function)]

    @property
    def words(self) -> set[str]:
        """Every name in the sources, without scopes."""
        return {word for part, words in self._written.items() if part != "file" for word in words}

    @cached_property
    def _written(self) -> dict[str, set[str]]:
        return written_names(self._report.origins)


@lru_cache(maxsize=8)
def names_of_build(report: SiteReport) -> NamesOfBuild:
    """Return the names in a build's sources, which are read only once."""
    return NamesOfBuild(report)


def why_missing(name: str, event: Event, report: SiteReport, why_no_source: str = "") -> str:
    """Return a message for a metric without a site: the target, the sources, and the nearest names.

    `why_no_source`: What to say if no source was compiled.
    """
    filters = "".join(f", {key}: {value}" for key, value in event.to_json().items() if key in ("in", "file"))
    message = f"software metric {name!r}: the program has no site for `{event.kind}: {event.target}{filters}`"
    if not report.sources:
        nothing = "the instrumenting compiler compiled no source"
        return f"{message}; {nothing}{f': {why_no_source}' if why_no_source else ''}"
    return _without_common_folder(message + "".join(_reasons(name, event, report)), report)


def nearest_names(event: Event, report: SiteReport, *, surely: bool = False) -> list[str]:
    """Return the targets with a site that are nearest to an event's target; `surely` keeps only near-certain ones."""
    wanted = last_part(event.target)
    others = names_of_build(report).words - {wanted}
    if surely and not process.extract(wanted, others, scorer=fuzz.ratio, score_cutoff=_SURE, limit=1):
        return []
    names = _similar(event, report).names
    return [name for name in names if not surely or fuzz.ratio(wanted, last_part(name)) >= _SURE]


@lru_cache(maxsize=64)
def _similar(event: Event, report: SiteReport) -> _Similar:
    """Parse the sources again to find names similar to the event's target that have sites of the same kind."""
    kind = compiled_kind(event.kind)
    place = kind.line_of(event.target)
    bare = replace(event, target=kind.without_file(event.target), within=None, file=None, add=None)
    known_words = sorted(names_of_build(report).words)
    alike = process.extract(last_part(bare.target), known_words, scorer=fuzz.ratio, limit=12, score_cutoff=_ALIKE)
    words = [word for word, _, _ in alike]
    likenesses: dict[str, float] = {}
    unread: list[str] = []
    for source in islice(_sources(bare, report, words, place[0] if place else ""), _READ_AGAIN):
        names = _with_sites(bare, report, source, words)
        if names is None:
            unread.append(source[1])
            # Targets of some kinds are the functions that a source defines.
            known = functions_of([source]) if kind.named == ("function",) and not kind.written_as else set()
            names = [name for name in known if _likeness(bare, name) >= _NEAR]
        likenesses |= {name: _likeness(bare, name) for name in names}
        if sum(likeness >= 100 * _OWN for likeness in likenesses.values()) >= _SHOWN_NAMES or (place and likenesses):
            break
    others = sorted(likenesses.keys() - {bare.target}, key=lambda name: (-likenesses[name], name))[:_SHOWN_NAMES]
    nearest = tuple(name for name in others if likenesses[name] >= likenesses[others[0]] - _BEHIND)
    return _Similar(nearest, bare.target in likenesses, tuple(unread))


def _sources(event: Event, report: SiteReport, words: list[str], file: str) -> Iterator[Source]:
    """Yield sources that may contain the intended name: those with a similar word, then those with a target's word."""
    there = [origin for origin in report.origins if Path(origin[0], origin[1]).is_file()]
    if file:
        yield from sources_with(there, (), file=file)
        return
    both = chain(sources_with(there, words), sources_with(there, needed_words(event.target)))
    yield from dict.fromkeys(both)


def _with_sites(event: Event, report: SiteReport, source: Source, words: list[str]) -> list[str] | None:
    """Return names near an event's target, or equal to it, with a site in a source; None if that is unreadable."""
    kind = compiled_kind(event.kind)
    is_cxx = "++" in LANGUAGES.get(Path(source[1]).suffix, "")
    for standard in _STANDARDS["c++" if is_cxx else "c"]:
        text = _text(report, source, standard)
        if text is None:
            continue
        try:
            likely = {
                name: likeness
                for name in kind.propose(event.target, text.names(event), words)
                if (likeness := _likeness(event, name)) >= _NEAR
            }
            targets = dict.fromkeys(
                [event.target, *sorted(likely, key=lambda name: (-likely[name], name))[:_MOST_TARGETS]]
            )
            formed = [name for name in targets if name.strip() == name and matches_form(kind, name)]
            events = text.with_sites([replace(event, target=name) for name in formed])
            if not events and (further := kind.propose_further(words)):
                events = text.with_sites([replace(event, target=name) for name in further])
            return [each.target for each in events]
        except UnreadableError:
            continue
    return None


def _likeness(event: Event, name: str) -> float:
    """Return the similarity, from 0 to 100, of a name to an event's target: of the whole name, or of its last part."""
    place, line = split_line(event.target), split_line(name)
    if place is not None and line is not None:
        return 100 / (1 + abs(place[1] - line[1]) / 1e6)
    own = fuzz.ratio(last_part(event.target), last_part(name))
    return max(fuzz.ratio(event.target, name), _OWN * own if own >= _ALIKE else 0.0)


def _reasons(name: str, event: Event, report: SiteReport) -> Iterator[str]:
    """Yield the parts of the message after the target: reasons and suggestions."""
    filtered = _filtered_out(event, report)
    if filtered:
        yield filtered
        similar = _similar(event, report)
        if similar.names and not (similar.has_target or similar.unread):
            yield f"; nearest names: {', '.join(similar.names)}"
        return
    uncounted = report.uncounted.get(name)
    if uncounted:
        yield f"; {uncounted[0].file}:{uncounted[0].line}: {uncounted[0].text}"
        return
    for source, reason in report.skipped.items():
        if "does not compile" in reason:
            question = "Is an `add:` expression the cause? It must compile at every site."
            yield f"; {source} has no counters: {reason}. {question}"
            return
    known = compiled_kind(event.kind).explain(event, names_of_build(report))
    yield f"; {known}" if known else _nearest(event, report)
    # A configure script has deleted the sources that it compiled to test the compiler.
    there = [source for folder, source, _ in report.origins if Path(folder, source).exists()]
    yield f"; searched {first_of(_distinct(there or report.sources), _SHOWN_FILES)}"
    reasons = "; ".join(f"{source} ({reason})" for source, reason in list(report.skipped.items())[:_SHOWN_NAMES])
    yield f"; could not search {reasons}" if reasons else ""


def _nearest(event: Event, report: SiteReport) -> str:
    """Return the part of the message that suggests similar names or lines."""
    similar, files = _similar(event, report), names_of_build(report).known(("file",))
    place = compiled_kind(event.kind).line_of(event.target)
    if place is not None and any(file_matches(file, place[0]) for file in files):
        what = compiled_kind(event.kind).at_line
        lines = f"; nearest lines with a {what}: {', '.join(similar.names)}" if similar.names else ""
        return f"; no {what} begins on that line{lines}"
    names = list(similar.names)
    if place is not None:
        ranked = process.extract(place[0], sorted(files), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=_NEAR)
        names = [f"{file}:…" for file, _, _ in ranked]
    if names:
        return f"; nearest names: {', '.join(names)}"
    if similar.unread:
        unread = first_of(_distinct(similar.unread), _SHOWN_NAMES)
        return f"; no similar name found, but the search could not parse {unread}"
    return "; no similar name"


def _filtered_out(event: Event, report: SiteReport) -> str:
    """Return where the target occurs if `in:` or `file:` excludes all occurrences; '' if they do not."""
    kind = compiled_kind(event.kind)
    file, name = kind.file_of(event), kind.owner(event.target)
    if not (file or event.within) or kind.line_of(event.target) is not None:
        return ""
    word = re.split(r"::|\.", name.partition("(")[0])[-1]
    if not is_glob(word):
        word = (needed_words(name) or [""])[-1]
    places = occurrences(report.origins, word, kind.written_as, outside=kind.happens_outside) if word else []
    if file and places and not any(file_matches(place.file, file) for place in places):
        files = first_of(_distinct(place.file for place in places), _SHOWN_NAMES)
        return f"; `{word}` {kind.happens} {files}, but not in a file that matches `{file}`"
    within = [place.function for place in places if not file or file_matches(place.file, file)]
    # Without parsing, a function's namespaces may be unknown.
    wanted = (event.within or "*").partition("(")[0].rpartition("::")[2]
    if within and not any(name_matches(function.rpartition("::")[2], wanted) for function in within):
        functions = first_of(_distinct(within), _SHOWN_NAMES)
        return f"; `{word}` {kind.happens} {functions}, which `in: {event.within}` excludes"
    return ""


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _without_common_folder(message: str, report: SiteReport) -> str:
    """Remove the folder that contains the whole build from the paths in a message."""
    places = [Path(folder) for folder, _, _ in report.origins]
    places += [Path(source).parent for source in report.sources if Path(source).is_absolute()]
    common = os.path.commonpath(places) if all(place.is_absolute() for place in places) else "/"
    return message if common == "/" else re.sub(rf"(?<![\w/.-]){re.escape(common)}/", "", message)
