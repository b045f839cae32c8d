"""Names as they are written in a program's own sources and headers, so that an error can give the nearest to one that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from unperturbed.instrument.preprocessed import PreprocessedText

__all__ = ["lexical_names", "written_names"]

_KEYWORD_TABLE = """
    if else for while do switch case default return goto break continue sizeof typedef struct union enum static extern inline
    const volatile void int char short long unsigned signed float double register auto restrict class public private protected
    template typename namespace using operator new delete this throw try catch __attribute__ __extension__ __asm__ asm
    __builtin_expect defined alignof decltype noexcept constexpr virtual explicit friend bool true false nullptr
"""
_KEYWORDS = frozenset(_KEYWORD_TABLE.split())
_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_]\w*)\s*:(?![:])", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*([\"<])([^\">\n]+)[\">]", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:define\b)?", re.MULTILINE)
_COMMENT_OR_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


def written_names(sources: Iterable[tuple[str, str, Sequence[str]]]) -> dict[str, set[str]]:
    """Return the names written in sources, and in the headers that they include from their own folders and from -I.

    Parameters
    ----------
    sources : for each the folder where its compiler ran, its path as the command named it, and the folders of -I. What is no longer
        there is left out.

    Returns
    -------
    As `lexical_names`, and `file`: the files themselves, as a compiler names them.
    """
    names: dict[str, set[str]] = {"file": set()}
    read: set[Path] = set()
    for folder, source, include_folders in sources:
        waiting = [source]
        while waiting:
            path = waiting.pop()
            place = Path(folder, path)
            names["file"].add(path)
            if place in read or not place.is_file():
                continue
            read.add(place)
            text = place.read_text(encoding="utf-8", errors="replace")
            if path.endswith((".i", ".ii")):
                preprocessed = PreprocessedText(place.read_bytes())
                names["file"] |= preprocessed.user_files()
                text = preprocessed.user_text().decode("utf-8", "replace")
            for kind, found in lexical_names(text).items():
                names.setdefault(kind, set()).update(found)
            for quote, header in _INCLUDE.findall(text):
                own = [str(Path(path).parent)] if quote == '"' else []
                there = (str(Path(each, header)) for each in (*own, *include_folders))
                waiting += [name for name in there if Path(folder, name).is_file()][:1]
    return names


def lexical_names(text: str) -> dict[str, set[str]]:
    """Return the names in a text, sorted by how they are written.

    Returns
    -------
    Sets `function` (followed by a parenthesis), `field` (behind . or ->), `label`, and `variable` (the rest).
    """
    user = _COMMENT_OR_TEXT.sub(lambda found: '""' if found[0].startswith('"') else " ", _INCLUDE.sub("", text))
    user = _DIRECTIVE.sub("", user)
    names: dict[str, set[str]] = {"function": set(), "field": set(), "variable": set()}
    for access, name, call in set(re.findall(r"(\.|->)?\s*\b([A-Za-z_]\w*)\b(\s*\()?", user)):
        names["function" if call else "field" if access else "variable"].add(name)
    labels = set(_LABEL.findall(user))
    return {kind: found - _KEYWORDS for kind, found in {**names, "label": labels}.items()}
