"""Sources parsed again for a metric without a site: which names they have, and which of these have a site."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.instrument.command_line.options import LANGUAGES
from unperturbed.instrument.events.event import Event, compiled_kind, select
from unperturbed.instrument.events.need import Selected
from unperturbed.instrument.finding.parse import Facts, ParsedText, UnreadableError, parse
from unperturbed.instrument.finding.preprocessed import PreprocessedText
from unperturbed.instrument.finding.sites import find_sites

_COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_STANDARDS = {"c": ("gnu17",), "c++": ("gnu++17", "gnu++20")}


class SourceText:
    """A source that is parsed again because a metric has no site.

    Attributes
    ----------
    parsed : ParsedText
        As for `find_sites`.
    standard : str
        As for `find_sites`.
    """

    def __init__(self, parsed: ParsedText, standard: str) -> None:
        self.parsed = parsed
        self.standard = standard

    def names(self, event: Event) -> dict[str, set[str]]:
        """Return the text's names as in `Found`, as far as targets of an event's kind could have them."""
        kind = compiled_kind(event.kind)
        place = kind.line_of(event.target)
        lines = [Event(event.kind, f"{place[0]}:1")] if place else []
        enumerating = [Event(name, target) for name, target in kind.enumerating]
        return find_sites(self.parsed, self.standard, _select([*enumerating, *lines])).names

    def with_sites(self, events: Sequence[Event]) -> list[Event]:
        """Return those of some events that have a site in the text."""
        found = find_sites(self.parsed, self.standard, _select(events))
        placed = {site.metric for site in found.sites}
        return [event for number, event in enumerate(events) if number in placed]


class TextsOfSource:
    """A source parsed again, by each language standard when it is first asked for; see `reparse`."""

    def __init__(self, folder: str, source: str, include_folders: Sequence[str]) -> None:
        self._made: list[SourceText] = []
        self._others = reparse(folder, source, include_folders)

    def __iter__(self) -> Iterator[SourceText]:
        """Yield the texts."""
        yield from self._made
        for text in self._others:
            self._made.append(text)
            yield text


def reparse(folder: str, source: str, include_folders: Sequence[str]) -> Iterator[SourceText]:
    """Yield a source's syntax trees by several language standards, as far as it is readable without its macros.

    Result: One for each standard by which libclang can read the source; the command's own macros are unknown.
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
            result = supervision.run(words, cwd=folder, capture_output=True)
            if result.returncode:
                return
            data = result.stdout
        try:
            parsed = parse(
                PreprocessedText(data), language, Facts(clang=False, machine="", standard=standard, target="")
            )
        except UnreadableError:
            continue
        yield SourceText(parsed, standard)


def _select(events: Sequence[Event]) -> list[Selected]:
    return [select("", number, event) for number, event in enumerate(events)]
