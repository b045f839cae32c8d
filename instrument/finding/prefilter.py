"""Fast check, without parsing, of whether a text or a piece of it can contain a site of the selected events.

A build has many files, but few contain a selected name; the others must cost almost nothing. A false yes costs a parse,
but a false no would lose counts: only texts that cannot contain a site are skipped.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unperturbed.instrument.events.targets import Need, Selected, file_matches
from unperturbed.instrument.finding.preprocessed import PreprocessedText, after_parentheses, next_token, words_like

if TYPE_CHECKING:
    from unperturbed.instrument.events.kind import CompiledKind

TRAILERS = frozenset(b"__attribute__ __attribute __asm__ asm __asm noexcept throw __extension__".split())
"""Words that may follow a declarator."""

_BEFORE = b"""
    return else do case throw co_return co_yield co_await and or not xor compl bitand bitor __extension__ new delete
    sizeof __real__ __imag__ __real __imag
"""
BEFORE_EXPRESSION = frozenset(_BEFORE.split())
"""Words after which an expression may begin."""

_TYPES = b"void char short int long float double struct union enum typedef"
DECLARING = frozenset((b"extern static inline const volatile unsigned signed " + _TYPES).split())
"""Words that begin a declaration, which extends over the words and * that follow."""

_BEHIND_VARIABLE = frozenset((b"=", b";", b"[", b",", b"{", b"(", b")", b":")) | TRAILERS
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_LAST_WORD = re.compile(rb"[A-Za-z_$][\w$]*\Z")
_BEFORE_DECLARATOR = (b"*", b"&", b">", b",", b"]", b"::")
_SPECIFIER = re.compile(
    rb"\b(?:alignas|_Alignas|__attribute__|__attribute|typeof|__typeof__|__typeof|decltype|_Atomic)\b"
)
_OPEN_DECLARATOR = re.compile(
    rb"\b(?:int|char|short|long|unsigned|signed|_Bool|bool|float|double)\s*\(\Z|\([*&^](?:[\s*]|const|volatile)*\Z"
)
_DECLARATION = re.compile(rb"(?<![\w$])(?:" + rb"|".join(sorted(DECLARING)) + rb")(?=[\s*&])([\w$\s*&]*)\Z")
_WORD_BEFORE = re.compile(rb"([A-Za-z_$][\w$]*)\s+\Z")


def can_hold_site(text: PreprocessedText, needs: list[Need], data: bytes | None = None) -> bool:
    """Return whether the text (or `data`, a piece of it) can contain a site that meets any of the needs."""
    return any(_meets(text, need, text.data if data is None else data) for need in needs)


def _meets(text: PreprocessedText, need: Need, data: bytes) -> bool:
    if not all(word.encode() in data for word in need.words):
        return False
    if not all(any(file_matches(file, glob) for file in text.files) for glob in need.files):
        return False
    return not need.used or _USES[need.use](data, need.used.encode())


def _may_define(data: bytes, name: bytes) -> bool:
    """Return whether any occurrence of the name looks like a definition, not like a prototype or a call."""
    for word in words_like(data, name):
        token, offset = next_token(data, word.end())
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
    """Return whether any occurrence of the name looks like a call, not like a declaration `T f` or `extern T *f`."""
    for word in words_like(data, name):
        behind, near = next_token(data, word.end())[0], max(0, word.start() - 80)
        chosen_by_generic = behind == b"," and data[near : word.start()].rstrip().endswith(b":")
        if behind in (b"(", b")", b"<") or chosen_by_generic:
            before = _WORD_BEFORE.search(data, near, word.start())
            if (before is None or before[1] in BEFORE_EXPRESSION) and not _is_declared(data, word.start()):
                return True
    return False


def _is_declared(data: bytes, offset: int) -> bool:
    """Return whether the words and * before a name begin a declaration, such as `extern void *f`."""
    declaration = _DECLARATION.search(data, max(0, offset - 200), offset)
    return declaration is not None and not BEFORE_EXPRESSION & set(re.findall(rb"[\w$]+", declaration[1]))


def _may_write(data: bytes, name: bytes) -> bool:
    """Return whether any occurrence of the name is more than a declaration `type name;` or `type *name;`."""
    declared = rb"(?:[A-Za-z_$][\w$]*\s+|[*&]\s*)" + re.escape(name) + rb"(?![\w$])\s*(?:\[[^]\n]*\]\s*)*[;,):]"
    return sum(1 for _ in words_like(data, name)) > sum(1 for _ in re.finditer(declared, data))


def _may_store(data: bytes, name: bytes) -> bool:
    """Return whether any occurrence of the name looks like a variable's definition: after a type, not `extern`."""
    for word in words_like(data, name):
        token, _ = next_token(data, word.end())
        if token not in _BEHIND_VARIABLE:
            continue
        start = max(data.rfind(sign, 0, word.start()) for sign in (b";", b"{", b"}"))
        before = _DIRECTIVE.sub(b"", data[start + 1 : word.start()]).strip()
        if re.match(rb"extern\b|__extension__\s+extern\b", before) and token not in (b"=", b"{"):
            continue
        if not before and start >= 0 and data[start : start + 1] == b"}":
            return True  # struct {…} x
        if _may_be_type(before):
            return True
    return False


def _may_be_type(before: bytes) -> bool:
    """Return whether the text between the last statement and a name can begin the name's declaration."""
    if before.count(b"(") != before.count(b")"):
        return _OPEN_DECLARATOR.search(before) is not None
    word = _LAST_WORD.search(before)
    if word is not None:
        return word[0] not in BEFORE_EXPRESSION
    return before.endswith(_BEFORE_DECLARATOR) or (before.endswith(b")") and _SPECIFIER.search(before) is not None)


_USES = {"defined": _may_define, "called": _may_call, "written": _may_write, "stored": _may_store}


class Selection:
    """Metrics whose events are searched for in one text; an index identifies each."""

    def __init__(self, text: PreprocessedText, metrics: Sequence[Selected]) -> None:
        from unperturbed.instrument.events.kind import load_kind  # noqa: PLC0415  sources without a site need no kind

        self.metrics = metrics  # In index order
        kinds = {metric.loader: load_kind(metric.loader, metric.folder) for metric in metrics}
        each = [(index, metric, kinds[metric.loader]) for index, metric in enumerate(metrics)]
        self.by_kind: dict[type[CompiledKind], list[tuple[int, Selected]]] = {}  # Each metric with its index
        for index, metric, kind in sorted(each, key=lambda entry: entry[2].order):
            self.by_kind.setdefault(kind, []).append((index, metric))
        # Indices of metrics with events inside bodies, not only at their beginning; of those that reach system headers.
        self.within_bodies = frozenset(index for index, _, kind in each if kind.within_bodies)
        reaching = [metric.file is not None or kind.reaches_system_headers(metric.target) for _, metric, kind in each]
        self.reaching_system = frozenset(index for index, reaches in enumerate(reaching) if reaches)
        self._text = text
        self._lines = {index: place for index, metric, kind in each if (place := kind.line_of(metric.target))}
        # A piece of the text needs only the innermost name: namespaces and classes may begin before the piece.
        needs = [metric.need for metric in metrics]
        self._needs = [need._replace(words=(need.inner,) if need.inner else (), files=()) for need in needs]
        self._inner = [need.inner.encode() for need in needs]
        self._sought_by: dict[frozenset[int] | None, tuple[dict[str, list[int]], list[tuple[bytes, Need]]]] = {}

    def is_in_file(self, metric: int, offset: int) -> bool:
        """Return whether a metric, given by its index, counts in the source file of an offset."""
        file = self.metrics[metric].file
        if file is not None:
            return file_matches(self._text.locate(offset)[0], file)
        return metric in self.reaching_system or not self._text.is_system(offset)

    def may_count(self, start: int, end: int, *, among: frozenset[int] | None = None) -> bool:
        """Return whether a piece of the text may contain sites of the metrics, or only of the metrics in `among`."""
        lines_of, needs = self._sought(among)
        if lines_of:
            (file, first), (last_file, last) = self._text.locate(start), self._text.locate(end - 1)
            if file != last_file:
                return True  # the piece may contain text from a different file
            for wanted, lines in lines_of.items():
                nearest = bisect_left(lines, first)
                if nearest < len(lines) and lines[nearest] <= last and file_matches(file, wanted):
                    return True
        piece = self._text.data[start:end]
        return any(inner in piece and can_hold_site(self._text, [need], piece) for inner, need in needs)

    def _sought(self, among: frozenset[int] | None) -> tuple[dict[str, list[int]], list[tuple[bytes, Need]]]:
        """Return the sorted lines in each file that metrics name, and the needs of all other metrics."""
        if among not in self._sought_by:
            indices = range(len(self.metrics)) if among is None else among
            lines_of: dict[str, list[int]] = {}
            for file, line in sorted(self._lines[index] for index in indices if index in self._lines):
                lines_of.setdefault(file, []).append(line)
            needs = {(self._inner[index], self._needs[index]) for index in indices if index not in self._lines}
            self._sought_by[among] = lines_of, sorted(needs, key=lambda each: each[0])
        return self._sought_by[among]
