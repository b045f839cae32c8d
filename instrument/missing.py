"""Why a software metric has no site in a build, and what could be meant instead."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rapidfuzz import fuzz, process

from unperturbed.instrument.events import Event
from unperturbed.instrument.names import labels_of, occurrences
from unperturbed.instrument.sitelog import SiteReport
from unperturbed.instrument.targets import file_matches, is_glob, name_matches, needed_words, split_gauge, split_line

__all__ = ["nearest_names", "why_missing"]

_SHOWN_FILES = 8
_SHOWN_NAMES = 3
_LISTED_NAMES = 12


def why_missing(name: str, event: Event, report: SiteReport) -> str:
    """Return a message for a metric without a site: what was looked for and where, and the names that could be meant."""
    message = f"software metric {name!r}: no place in the program matches {event.kind}: {event.target}"
    message += "".join(f", {key}: {value}" for key, value in event.to_json().items() if key in ("in", "file"))
    if not report.sources:
        return f"{message}; no source was compiled by the instrumenting compiler: does the build command use {{cc}} or {{cxx}}?"
    return _without_common_folder(message + "".join(_reasons(name, event, report)), report)


def nearest_names(event: Event, report: SiteReport, *, least: int = 50) -> list[str]:
    """Return the names of the right kind that are nearest to an event's target.

    Parameters
    ----------
    least : of 100, how alike they must be.
    """
    names = report.names(event.kind)
    place = split_line(event.target) if event.kind in ("line", "loop") else None
    if place is not None:
        lines = sorted(
            (line for line in names if split_line(line)), key=lambda name: abs(int(name.rpartition(":")[2]) - place[1])
        )
        files = process.extract(place[0], sorted(report.files()), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=least)
        return lines[:_SHOWN_NAMES] or [f"{file}:…" for file, _, _ in files if not file_matches(file, place[0])]
    wanted = event.target if event.kind != "gauge" else split_gauge(event.target).name
    candidates = set(names)
    for mark in (".", "::"):
        scope, found, last = event.target.rpartition(mark)
        if found and event.kind in ("write", "label"):
            # Names of files passed over are known without what they belong to.
            near = process.extract(
                last, {name for name in names if mark not in name}, scorer=fuzz.ratio, limit=3, score_cutoff=60
            )
            candidates |= {f"{scope}{mark}{name}" for name, _, _ in near}
    ranked = process.extract(wanted, sorted(candidates - {wanted}), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=least)
    return [name for name, _, _ in ranked]


def _reasons(name: str, event: Event, report: SiteReport) -> Iterator[str]:
    """Yield the ends of the message."""
    filtered = _filtered_out(event, report)
    if filtered:
        yield filtered
        return
    unseen = report.unseen.get(name)
    if unseen:
        yield f" that can be counted; {unseen[0].file}:{unseen[0].line}: {unseen[0].text}"
        return
    for source, reason in report.skipped.items():
        if "does not compile" in reason:
            yield f", as {source} has no counters: {reason}. Is that an `add:`, which must make sense at every place it is put?"
            return
    listed = _listed(event, report)
    if event.kind == "gauge":
        yield _without_definition(event, report)
    nearest = [] if listed else nearest_names(event, report)
    yield listed or (f"; nearest names: {', '.join(nearest)}" if nearest else "; no name is near it")
    # What a configure script compiled to ask the compiler something, it has removed again.
    there = [source for folder, source, _ in report.origins if Path(folder, source).exists()]
    yield f"; looked at {_some(there or report.sources, _SHOWN_FILES)}"
    reasons = "; ".join(f"{source} ({reason})" for source, reason in list(report.skipped.items())[:_SHOWN_NAMES])
    yield f"; could not look into {reasons}" if reasons else ""


def _filtered_out(event: Event, report: SiteReport) -> str:
    """Say where the target is when `in:` or `file:` leaves all of it out, '' when they do not."""
    gauge = split_gauge(event.target) if event.kind == "gauge" else None
    file = event.file or (gauge.file if gauge else "")
    name = gauge.variable if gauge else event.target.partition("#")[0]
    if event.kind == "label":
        name = name.rpartition("::")[0]
    words = needed_words(name)
    if event.kind == "line" or not (file or event.within) or is_glob(name) or not words or split_line(event.target):
        return ""
    found = occurrences(report.origins, event.kind, words[-1])
    if file and found and not any(file_matches(place.file, file) for place in found):
        return f"; {words[-1]} is in {_some(place.file for place in found)}, which `{file}` leaves out"
    within = [place.function for place in found if not file or file_matches(place.file, file)]
    # Here a function's namespaces may be unknown.
    wanted = (event.within or "*").partition("(")[0].rpartition("::")[2]
    if within and not any(name_matches(function.rpartition("::")[2], wanted) for function in within):
        return f"; {words[-1]} is in {_some(within)}, which `in: {event.within}` leaves out"
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
    gauge = split_gauge(event.target)
    names = report.names("gauge")
    scoped = sorted(name for name in names if name.endswith(f"::{gauge.variable}") and name != gauge.name)
    if scoped:
        return f"; {gauge.variable} is the name of {', '.join(scoped[:_SHOWN_NAMES])}"
    if gauge.name in names:
        return f"; {gauge.name} is named there, but none of the sources defines it (a variable in a function is function::variable)"
    return ""


def _some(names: Iterable[str], most: int = _SHOWN_NAMES) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:most]) + (f" and {len(distinct) - most} more" if len(distinct) > most else "")


def _without_common_folder(message: str, report: SiteReport) -> str:
    """Shorten paths: a build system says whole ones, and all of a build lies in one folder."""
    places = [Path(folder) for folder, _, _ in report.origins]
    places += [Path(source).parent for source in report.sources if Path(source).is_absolute()]
    common = os.path.commonpath(places) if all(place.is_absolute() for place in places) else "/"
    return message if common == "/" else re.sub(rf"(?<![\w/.-]){re.escape(common)}/", "", message)
