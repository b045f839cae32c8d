"""Names in a program's own sources and headers, found without parsing, to explain metrics without a site."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import NamedTuple

from unperturbed.instrument.events.targets import file_matches, is_glob
from unperturbed.instrument.finding.preprocessed import PreprocessedText

_KEYWORD_TABLE = """
    if else for while do switch case default return goto break continue sizeof typedef struct union enum static
    extern inline const volatile void int char short long unsigned signed float double register auto restrict class
    public private protected template typename namespace using operator new delete this throw try catch
    __attribute__ __extension__ __asm__ asm __builtin_expect defined alignof decltype noexcept constexpr virtual
    explicit friend bool true false nullptr
"""
_KEYWORDS = frozenset(_KEYWORD_TABLE.split())
_FLOW = frozenset({"if", "else", "for", "while", "do", "switch", "catch", "return"})
_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_]\w*)\s*:(?![:])", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*([\"<])([^\">\n]+)[\">]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:define\b)?", re.MULTILINE)
_DIRECTIVES = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


_HEAD = re.compile(r"([A-Za-z_~][\w~]*(?:::[A-Za-z_~][\w~]*)*)\s*\(")
_SCOPE = re.compile(r"\b(?:namespace|class|struct|union)\s+(?:\[\[[^]]*\]\]\s*)?([A-Za-z_]\w*(?:::\w+)*)[^()=]*$")

Source = tuple[str, str, Sequence[str]]
"""Source: its compiler's working folder, its path as in the command, and the -I folders."""
Sources = Iterable[Source]


class Occurrence(NamedTuple):
    """Occurrence of a name: its file, and the enclosing function ('' outside functions)."""

    file: str
    function: str


def written_names(sources: Sources) -> dict[str, set[str]]:
    """Return the names in sources and their headers, by category: as in `lexical_names`, and `file` (file names)."""
    names: dict[str, set[str]] = {"file": set()}
    for _, files, text in _texts(sources):
        names["file"] |= files
        for kind, names_of_kind in lexical_names(text).items():
            names.setdefault(kind, set()).update(names_of_kind)
    return names


def occurrences(sources: Sources, word: str, written_as: str = "", *, outside: bool = False) -> list[Occurrence]:
    """Return the occurrences of a name, each once, as far as they can be found without parsing.

    `written_as`: Regular expression for an occurrence of the name `{0}`; '' returns the functions with the name.
    """
    pattern = _glob_of_words(word) if is_glob(word) else re.escape(word)
    use = re.compile(r"[{};]|" + written_as.format(pattern) if written_as else "[{};]")
    places: dict[Occurrence, None] = {}
    for _, files, text in _texts(sources):
        for function, used in _walk(text, use):
            own = function.rpartition("::")[2]
            is_meant = (function or outside) if written_as else own and fnmatchcase(own, word)
            if is_meant and bool(used) == bool(written_as):
                places |= {Occurrence(file, function): None for file in sorted(files)}
    return list(places)


def labels_of(sources: Sources, function: str) -> set[str]:
    """Return the labels, as `function::label`, of all functions with the given name, ignoring scopes."""
    use, own = re.compile(r"[{};]|^[ \t]*[A-Za-z_]\w*[ \t]*:(?!:)", re.MULTILINE), function.rpartition("::")[2]
    walked = (step for _, _, text in _texts(sources) for step in _walk(text, use))
    labels = {(name, used.strip(" \t:")) for name, used in walked if used and name.rpartition("::")[2] == own}
    return {f"{name}::{label}" for name, label in labels if label not in _KEYWORDS}


def functions_of(sources: Sources) -> set[str]:
    """Return the qualified names of functions that sources and headers define, as far as found without parsing."""
    opened = re.compile("[{};]")
    return {name for _, _, text in _texts(sources) for name, _ in _walk(text, opened) if name}


def sources_with(sources: Sources, words: Collection[str], *, file: str = "") -> Iterator[Source]:
    """Yield each source that contains any of the words, itself or in a header that no earlier source includes."""
    wanted = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    seen: set[tuple[str, str]] = set()
    for source, files, text in _texts(sources):
        is_meant = any(file_matches(each, file) for each in files) if file else words and wanted.search(text)
        if is_meant and source[:2] not in seen:
            seen.add(source[:2])
            yield source


def _glob_of_words(glob: str) -> str:
    """Return a glob as a regular expression that matches within one word and matches no keyword."""
    inner = translate(glob)[len("(?s:") : -len(r")\Z")].replace(".", r"\w")  # Python 3.14 ends it with \z
    return rf"(?!(?:{'|'.join(sorted(_KEYWORDS))})\b){inner}"


def _walk(text: str, use: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield (enclosing function, match) for each match of a pattern, and (function, '') where a function begins."""
    text = _DIRECTIVES.sub("", _plain(text))
    scopes: list[tuple[str, bool]] = []  # name of each open block ('' if none), whether it is a function's
    behind = 0
    for match in use.finditer(text):
        sign = match[0]
        if sign not in "{};":
            yield _joined(scopes), sign
            continue
        if sign == "{":
            scopes.append(_opened(text[behind : match.start()]))
            if scopes[-1][1]:
                yield _joined(scopes), ""
        elif sign == "}":
            scopes[-1:] = []
        behind = match.end()


def _opened(head: str) -> tuple[str, bool]:
    """Return a block's name and whether it is a function's body, from the text before its brace."""
    function = next((name for name in _HEAD.findall(head) if name not in _KEYWORDS), None)
    before = head.partition("(")[0]
    if function is not None and "=" not in before and _FLOW.isdisjoint(before.split()):
        return function, True
    scope = _SCOPE.search(head)
    return (scope[1] if scope else "", False)


def _joined(scopes: list[tuple[str, bool]]) -> str:
    """Return the qualified name of the innermost function; '' outside functions."""
    while scopes and not scopes[-1][1]:
        scopes = scopes[:-1]
    return "::".join(name for name, _ in scopes if name)


def _texts(sources: Sources) -> Iterator[tuple[Source, set[str], str]]:
    """Yield the text of each source and header once, with the source that includes it and the files in the text."""
    read: set[Path] = set()
    for origin in sources:
        folder, source, include_folders = origin
        waiting = [source]
        while waiting:
            path = waiting.pop()
            place = Path(folder, path)
            if place in read or not place.is_file():
                yield origin, {path}, ""
                continue
            read.add(place)
            text, files = place.read_text(encoding="utf-8", errors="replace"), {path}
            if path.endswith((".i", ".ii")):
                preprocessed = PreprocessedText(place.read_bytes())
                files |= preprocessed.user_files()
                text = preprocessed.user_text().decode("utf-8", "replace")
            yield origin, files, text
            for quote, header in _INCLUDE.findall(text):
                own = [str(Path(path).parent)] if quote == '"' else []
                there = (str(Path(each, header)) for each in (*own, *include_folders))
                waiting += [name for name in there if Path(folder, name).is_file()][:1]


def lexical_names(text: str) -> dict[str, set[str]]:
    """Return a text's names by category: `function` (before `(`), `field` (after . or ->), `label` or `variable`."""
    user = _DIRECTIVE.sub("", _plain(text))
    names: dict[str, set[str]] = {"function": set(), "field": set(), "variable": set()}
    for access, name, call in set(re.findall(r"(\.|->)?\s*\b([A-Za-z_]\w*)\b(\s*\()?", user)):
        names["function" if call else "field" if access else "variable"].add(name)
    labels = set(_LABEL.findall(user))
    return {kind: words - _KEYWORDS for kind, words in {**names, "label": labels}.items()}


def _plain(text: str) -> str:
    """Return a text without includes, comments, and the contents of string literals."""
    return _COMMENT_OR_TEXT.sub(lambda match: '""' if match[0].startswith('"') else " ", _INCLUDE.sub("", text))
