"""Whether a text can hold any site of the selected events, told without parsing it.

A build has many files and few of them hold a selected name; the others must cost next to nothing. Saying yes too often costs a
parse, saying no too often would lose counts: only what cannot be is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.instrument.preprocessed import PreprocessedText, after_parentheses, next_token
from unperturbed.instrument.targets import file_matches, is_glob, needed_words, split_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unperturbed.instrument.events import Event

__all__ = ["Need", "can_hold_site", "lexical_names", "need_of"]

_TRAILERS = {b"__attribute__", b"__attribute", b"__asm__", b"asm", b"__asm", b"noexcept", b"throw", b"__extension__"}
_KEYWORD_TABLE = """
    if else for while do switch case default return goto break continue sizeof typedef struct union enum static extern inline
    const volatile void int char short long unsigned signed float double register auto restrict class public private protected
    template typename namespace using operator new delete this throw try catch __attribute__ __extension__ __asm__ asm
    __builtin_expect defined alignof decltype noexcept constexpr virtual explicit friend bool true false nullptr
"""
_KEYWORDS = frozenset(_KEYWORD_TABLE.split())
_BEFORE_EXPRESSION = frozenset(
    b"return else do case throw co_return co_yield co_await and or not xor compl bitand bitor __extension__ new delete".split()
)
_WORD_BEFORE = re.compile(rb"([A-Za-z_$][\w$]*)\s+\Z")
_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_]\w*)\s*:(?![:])", re.MULTILINE)


class Need(NamedTuple):
    """What a text must have to hold a site of one event.

    Attributes
    ----------
    words : all must occur.
    inner : the one of them that must occur in the function that holds the site: of the innermost name, '' when a glob hides it.
    used : a name that must not only be declared, '' when a glob hides it.
    use : what must happen to it: `defined`, `called` or `written`.
    files : globs; for each a line marker must name such a file.
    """

    words: tuple[str, ...]
    inner: str
    used: str
    use: str
    files: tuple[str, ...]

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Need:
        """Return what `_asdict` and JSON made a mapping of."""
        return cls(**{**record, "words": tuple(record["words"]), "files": tuple(record["files"])})


def need_of(event: Event) -> Need:
    """Return what a text must have to hold a site of `event`."""
    files = [event.file] if event.file else []
    if event.kind in ("line", "loop") and (place := split_line(event.target)) is not None:
        return Need((), "", "", "", (*files, place[0]))
    name = event.target.partition("#")[0] if event.kind == "loop" else event.target
    words = (needed_words(event.within) if event.within else []) + needed_words(name)
    inner = needed_words(_innermost(name))
    use = {"call": "called", "write": "written"}.get(event.kind, "defined")
    used = _innermost(name.rpartition("::")[0] if event.kind == "label" else name)
    plain = used in words and not is_glob(used) and "operator" not in used
    return Need(tuple(words), inner[-1] if inner else "", used if plain else "", use, tuple(files))


def can_hold_site(text: PreprocessedText, needs: list[Need], data: bytes | None = None) -> bool:
    """Tell whether the text (or `data`, a piece of it) can hold a site of any of the needs."""
    return any(_meets(text, need, text.data if data is None else data) for need in needs)


def _innermost(name: str) -> str:
    return re.split(r"::|\.", name.partition("(")[0])[-1]


def _meets(text: PreprocessedText, need: Need, data: bytes) -> bool:
    if not all(word.encode() in data for word in need.words):
        return False
    if not all(any(file_matches(file, glob) for file in text.files) for glob in need.files):
        return False
    return not need.used or _USES[need.use](data, need.used.encode())


def _occurrences(data: bytes, name: bytes) -> Iterator[re.Match[bytes]]:
    return re.finditer(rb"(?<![\w$])" + re.escape(name) + rb"(?![\w$])", data)


def _may_define(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name looks like a definition, not like a prototype or a call."""
    for found in _occurrences(data, name):
        token, offset = next_token(data, found.end())
        if token == b"<" or (token, next_token(data, offset + 1)[0]) in ((b")", b"("), (b"=", b"[")):
            return True  # a template, a name in parentheses, a lambda's variable
        if token != b"(":
            continue
        token, offset = next_token(data, after_parentheses(data, offset))
        while token in _TRAILERS:
            token, offset = next_token(data, offset + len(token))
            if token == b"(":
                token, offset = next_token(data, after_parentheses(data, offset))
        if token in (b"{", b":", b"->", b"[") or data.startswith(b"<%", offset) or re.match(rb"[A-Za-z_]", token):
            return True
    return False


def _may_call(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name looks like a call: none does where a type's name stands right before it."""
    for found in _occurrences(data, name):
        if next_token(data, found.end())[0] in (b"(", b")", b"<"):
            before = _WORD_BEFORE.search(data, max(0, found.start() - 80), found.start())
            if before is None or before[1] in _BEFORE_EXPRESSION:
                return True
    return False


def _may_write(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name is not a plain declaration: a type's name or * before it, the end behind it."""
    declared = rb"(?:[A-Za-z_$][\w$]*\s+|[*&]\s*)" + re.escape(name) + rb"(?![\w$])\s*(?:\[[^]\n]*\]\s*)*[;,):]"
    return sum(1 for _ in _occurrences(data, name)) > sum(1 for _ in re.finditer(declared, data))


_USES = {"defined": _may_define, "called": _may_call, "written": _may_write}


def lexical_names(text: PreprocessedText) -> dict[str, set[str]]:
    """Return names of the user's own text, sorted by how they are written, so that an error can give the nearest.

    Returns
    -------
    Sets `function` (followed by a parenthesis), `field` (behind . or ->), `label`, and `variable` (the rest).
    """
    user = text.user_text().decode("utf-8", "replace")
    user = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', user)
    names: dict[str, set[str]] = {"function": set(), "field": set(), "variable": set()}
    for access, name, call in set(re.findall(r"(\.|->)?\s*\b([A-Za-z_]\w*)\b(\s*\()?", user)):
        names["function" if call else "field" if access else "variable"].add(name)
    labels = set(_LABEL.findall(user))
    return {kind: found - _KEYWORDS for kind, found in {**names, "label": labels}.items()}
