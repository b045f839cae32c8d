"""Whether a text can hold any site of the selected events, told without parsing it.

A build has many files and few of them hold a selected name; the others must cost next to nothing. Saying yes too often costs a
parse, saying no too often would lose counts: only what cannot be is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.instrument.preprocessed import PreprocessedText, after_parentheses, next_token
from unperturbed.instrument.targets import file_matches, is_glob, needed_words, split_gauge, split_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unperturbed.instrument.events import Event

__all__ = ["BEFORE_EXPRESSION", "DECLARING", "TRAILERS", "Need", "can_hold_site", "need_of"]

TRAILERS = frozenset(b"__attribute__ __attribute __asm__ asm __asm noexcept throw __extension__".split())
"""Words that stand behind a declaration."""

BEFORE_EXPRESSION = frozenset(
    b"return else do case throw co_return co_yield co_await and or not xor compl bitand bitor __extension__ new delete sizeof __real__ "
    b"__imag__ __real __imag".split()
)
"""Behind these an expression may begin, though they are words."""

DECLARING = frozenset(
    b"extern static inline const volatile unsigned signed void char short int long float double struct union enum typedef".split()
)
"""What follows such a word, as far as words and * go, is a declaration."""

_BEHIND_VARIABLE = frozenset((b"=", b";", b"[", b",", b"{", b"(", b")", b":")) | TRAILERS
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_LAST_WORD = re.compile(rb"[A-Za-z_$][\w$]*\Z")
_BEFORE_DECLARATOR = (b"*", b"&", b">", b",", b"]", b"::")
_SPECIFIER = re.compile(rb"\b(?:alignas|_Alignas|__attribute__|__attribute|typeof|__typeof__|__typeof|decltype|_Atomic)\b")
_OPEN_DECLARATOR = re.compile(
    rb"\b(?:int|char|short|long|unsigned|signed|_Bool|bool|float|double)\s*\(\Z|\([*&^](?:[\s*]|const|volatile)*\Z"
)
_DECLARATION = re.compile(rb"(?<![\w$])(?:" + rb"|".join(sorted(DECLARING)) + rb")(?=[\s*&])([\w$\s*&]*)\Z")
_WORD_BEFORE = re.compile(rb"([A-Za-z_$][\w$]*)\s+\Z")


class Need(NamedTuple):
    """What a text must have to hold a site of one event.

    Attributes
    ----------
    words : all must occur.
    inner : the one of them that must occur in the function that holds the site: of the innermost name, '' when a glob hides it.
    used : a name that must not only be declared, '' when a glob hides it.
    use : what must happen to it: `defined`, `called`, `written`, or for a variable `stored`.
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
    if event.kind == "gauge":
        gauge = split_gauge(event.target)
        files += [gauge.file] if gauge.file else []
        return Need(tuple(needed_words(gauge.name)), gauge.variable, gauge.variable, "stored", tuple(files))
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
        while token in TRAILERS:
            token, offset = next_token(data, offset + len(token))
            if token == b"(":
                token, offset = next_token(data, after_parentheses(data, offset))
        if token in (b"{", b":", b"->", b"[") or data.startswith(b"<%", offset) or re.match(rb"[A-Za-z_]", token):
            return True
    return False


def _may_call(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name looks like a call: none does in its declaration, `T f` or `extern T *f`."""
    for found in _occurrences(data, name):
        behind = next_token(data, found.end())[0]
        chosen = behind == b"," and data[max(0, found.start() - 80) : found.start()].rstrip().endswith(b":")  # by _Generic
        if behind in (b"(", b")", b"<") or chosen:
            before = _WORD_BEFORE.search(data, max(0, found.start() - 80), found.start())
            if (before is None or before[1] in BEFORE_EXPRESSION) and not _is_declared(data, found.start()):
                return True
    return False


def _is_declared(data: bytes, offset: int) -> bool:
    """Tell whether words and * before a name begin a declaration: `extern void *f`."""
    found = _DECLARATION.search(data, max(0, offset - 200), offset)
    return found is not None and not BEFORE_EXPRESSION & set(re.findall(rb"[\w$]+", found[1]))


def _may_write(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name is not a plain declaration: a type's name or * before it, the end behind it."""
    declared = rb"(?:[A-Za-z_$][\w$]*\s+|[*&]\s*)" + re.escape(name) + rb"(?![\w$])\s*(?:\[[^]\n]*\]\s*)*[;,):]"
    return sum(1 for _ in _occurrences(data, name)) > sum(1 for _ in re.finditer(declared, data))


def _may_store(data: bytes, name: bytes) -> bool:
    """Tell whether some occurrence of the name looks like a variable's definition: behind a type or another declarator, and not only `extern`."""
    for found in _occurrences(data, name):
        token, _ = next_token(data, found.end())
        if token not in _BEHIND_VARIABLE:
            continue
        start = max(data.rfind(sign, 0, found.start()) for sign in (b";", b"{", b"}"))
        before = _DIRECTIVE.sub(b"", data[start + 1 : found.start()]).strip()
        if re.match(rb"extern\b|__extension__\s+extern\b", before) and token not in (b"=", b"{"):
            continue
        if not before and start >= 0 and data[start : start + 1] == b"}":
            return True  # struct {…} x
        if _may_be_type(before):
            return True
    return False


def _may_be_type(before: bytes) -> bool:
    """Tell whether what stands between the end of the last statement and a name can be the beginning of the name's declaration."""
    if before.count(b"(") != before.count(b")"):
        return _OPEN_DECLARATOR.search(before) is not None
    word = _LAST_WORD.search(before)
    if word is not None:
        return word[0] not in BEFORE_EXPRESSION
    return before.endswith(_BEFORE_DECLARATOR) or (before.endswith(b")") and _SPECIFIER.search(before) is not None)


_USES = {"defined": _may_define, "called": _may_call, "written": _may_write, "stored": _may_store}
