"""Names that could have been meant by a target of which a text holds nothing, and which of them would have a site there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unperturbed.instrument.body import read_body
from unperturbed.instrument.compiler import Facts
from unperturbed.instrument.declarations import FUNCTION_KINDS, Function, function_of, members, top_level
from unperturbed.instrument.events import Event
from unperturbed.instrument.finder import find_sites
from unperturbed.instrument.options import LANGUAGES
from unperturbed.instrument.parse import ParsedText, UnreadableError, parse, span
from unperturbed.instrument.prefilter import need_of
from unperturbed.instrument.preprocessed import PreprocessedText
from unperturbed.instrument.selection import matches
from unperturbed.instrument.settings import Selected

__all__ = ["SourceText", "candidates", "read_again"]

_OF_FUNCTIONS = ("enter", "call", "loop", "return")
_EVERY = {
    "write": (Event("write", "*"), Event("gauge", "no_such_variable")),
    "gauge": (Event("write", "*"), Event("gauge", "no_such_variable")),
    "label": (Event("label", "*::*"),),
    "loop": (Event("loop", "*"),),
    "line": (Event("return", "*"),),
}
"""Kind of event → events for which the finder notes every name that a target of that kind could have. (Local variables it notes for gauges alone.)"""

_COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_STANDARDS = {"c": ("gnu17",), "c++": ("gnu++17", "gnu++20")}


class SourceText:
    """A source that is looked into again, when a metric has no site.

    Attributes
    ----------
    parsed, standard : as for `find_sites`.
    """

    def __init__(self, parsed: ParsedText, standard: str) -> None:
        self.parsed = parsed
        self.standard = standard

    def names(self, kind: str, file: str = "") -> dict[str, set[str]]:
        """Return the text's names as in `Found`, those that matter to targets of a kind of event.

        Parameters
        ----------
        file : note its lines too.
        """
        lines = (Event(kind, f"{file}:1"),) if file else ()
        events = [*_EVERY.get(kind, (Event("enter", "*"),)), *lines]
        return find_sites(self.parsed, self.standard, _selected(events)).names

    def having_sites(self, events: Sequence[Event]) -> list[Event]:
        """Return those of some events that have a site in the text."""
        found = find_sites(self.parsed, self.standard, _selected(events))
        hit = {each.metric for each in found.hits}
        return [event for number, event in enumerate(events) if number in hit]


def read_again(folder: str, source: str, include_folders: Sequence[str]) -> Iterator[SourceText]:
    """Yield a source, as far as it can be read without the macros that its command defined: by no standard, by one, or by several.

    Parameters
    ----------
    folder, source, include_folders : where its compiler ran, its path as the command named it, and the folders of -I.
    """
    language = LANGUAGES.get(Path(source).suffix, "")
    preprocessed = language.endswith("cpp-output")
    language = "c++" if "++" in language else "c"
    for standard in _STANDARDS[language]:
        if preprocessed:
            data = Path(folder, source).read_bytes()
        else:
            compiler = next(filter(None, map(shutil.which, _COMPILERS[language])), None)
            if compiler is None:
                return
            folders = [f"-I{each}" for each in include_folders]
            words = [compiler, "-E", "-x", language, f"-std={standard}", *folders, source]
            result = subprocess.run(words, cwd=folder, capture_output=True, check=False)
            if result.returncode:
                return
            data = result.stdout
        try:
            parsed = parse(PreprocessedText(data), language, Facts(clang=False, machine="", standard=standard, target=""))
        except UnreadableError:
            continue
        yield SourceText(parsed, standard)


def _selected(events: Sequence[Event]) -> list[Selected]:
    return [
        Selected("", number, event.kind, event.target, event.within, event.file, None, "plain", need_of(event))
        for number, event in enumerate(events)
    ]


def candidates(parsed: ParsedText, metrics: Iterable[Selected]) -> dict[str, set[str]]:
    """Return the names that a text has in place of the metrics' targets.

    Parameters
    ----------
    metrics : of which the text holds no site.

    Returns
    -------
    `overload` : functions of the same name, with their parameters, as `f(int)` must be written. `lambda` : lambdas, and functions of local
    classes, in the function that `f::lambda3` is looked for in.
    """
    found: dict[str, set[str]] = {"overload": set(), "lambda": set()}
    targets = [metric.target.partition("#")[0] for metric in metrics if metric.kind in _OF_FUNCTIONS]
    overloaded = [target.partition("(")[0] for target in targets if "(" in target and "operator" not in target]
    scopes = [scope for target in targets if (scope := target.partition("(")[0].rpartition("::")[0])]
    for function in _functions(parsed) if overloaded or scopes else ():
        if any(matches(function.names, target) for target in overloaded):
            found["overload"].add(function.names[0] + _parameters(function))
        if any(matches(function.names, scope) for scope in scopes):
            nested = read_body(function, parsed.text.data).nested
            found["lambda"] |= {name for inner in nested for name in inner.names[:-1]}
    return found


def _functions(parsed: ParsedText) -> Iterator[Function]:
    for cursor in top_level(parsed):
        if parsed.text.is_system(span(cursor)[0]):
            continue
        for member in members(cursor):
            function = function_of(member, parsed.text.data) if member.kind in FUNCTION_KINDS else None
            if function is not None:
                yield function


def _parameters(function: Function) -> str:
    """Return a function's parameters as libclang writes them; a template's own stand before them."""
    return re.sub(r"^<[^(]*>", "", function.cursor.displayname[len(function.cursor.spelling) :])
