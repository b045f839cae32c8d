"""A naive reader of source text.

It finds where statements, loops, labels, calls and writes stand by looking at the lines alone.

It knows nothing of the tool that is tested. What it cannot tell surely it leaves out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL)
_LOOP = re.compile(r"\b(?:for|while)\b")
_NO_START = re.compile(r"[}{#)]|(?:for|while|do|case|default|else)\b(?!\s+if)|\w+\s*:(?!:)")
_LABEL = re.compile(r"(?:case\b[^?]*|\w+\s*):$")
_NAMED_LABEL = re.compile(r"\s*(?!case\b|default\b|public\b|private\b|protected\b)([A-Za-z_]\w*)\s*:(?!:)\s*(.*)$")
_ASSIGNS = r"(?:[-+|&^*/%]|<<|>>)?=(?!=)|\+\+|--"


@dataclass(frozen=True)
class Loop:
    """A loop: lines of its keyword and of the first statement in its body (None: it cannot be told)."""

    line: int
    body: int | None


class SourceText:
    """The text of one file; comments, directives and what stands in quotes do not count as code."""

    def __init__(self, text: str) -> None:
        self._blank = _HIDDEN.sub(_blanked, text)
        self._code = _DIRECTIVE.sub(_blanked, self._blank)
        self._lines = self._code.split("\n")

    @cached_property
    def looping_macros(self) -> frozenset[str]:
        """Return macros that hold a loop: gcov counts its turns too, on the line that uses the macro."""
        bodies = dict(_DEFINE.findall(self._blank))
        found: set[str] = set()
        while more := {
            name
            for name, body in bodies.items()
            if name not in found and (_loops(body) or any(re.search(rf"\b{inner}\b", body) for inner in found))
        }:
            found |= more
        return frozenset(found)

    @cached_property
    def statements(self) -> frozenset[int]:
        """Return lines that begin with a statement which is not a loop, ends there (or begins a block).

        And on which no loop turns.
        """
        found = set()
        before, depth = ";", 0
        for number, line in enumerate(self._lines, 1):
            code = line.strip()
            if code and depth == 0 and before in (*";{}", "label", "else") and self._is_plain(code):
                found.add(number)
            depth += line.count("(") - line.count(")")
            if code:
                before = "else" if code.endswith("else") else "label" if _LABEL.match(code) else code[-1]
        return frozenset(found)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Return every loop, in order; not those of macros."""
        return tuple(Loop(line, self._body_of(offset)) for line, offset in self._loop_keywords())

    def loops_between(self, first: int, last: int) -> tuple[Loop, ...]:
        """Return the loops of a function, empty when one of them is hidden in a macro."""
        words = set(re.findall(r"\w+", "\n".join(self._lines[first - 1 : last])))
        return () if words & self.looping_macros else tuple(loop for loop in self.loops if first <= loop.line <= last)

    def labels(self) -> Iterator[tuple[str, int]]:
        """Yield (label, line of the plain statement behind it)."""
        before = ";"
        for number, line in enumerate(self._lines, 1):
            found = _NAMED_LABEL.match(line) if before[-1] in ";{}:" else None
            before = line.strip() or before
            if not found:
                continue
            after = range(number + 1, len(self._lines) + 1)
            behind = number if found[2] else next((n for n in after if self._lines[n - 1].strip()), 0)
            if found[2] or behind in self.statements:
                yield found[1], behind

    def words(self, line: int) -> list[str]:
        """Return the names on a line."""
        return re.findall(r"[A-Za-z_]\w*", self._lines[line - 1])

    @cached_property
    def uses(self) -> Mapping[str, list[tuple[int, bool]]]:
        """Return each name's places, in directives too: (line, is followed by a parenthesis)."""
        found: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, line in enumerate(self._blank.split("\n"), 1):
            for name, parenthesis in re.findall(r"\b([A-Za-z_]\w*)\s*(\(|OF\(\()?", line):
                found[name].append((number, bool(parenthesis)))
        return found

    def is_declared(self, line: int, name: str) -> bool:
        """Tell whether a function is declared on this line, by a type's name before its own."""
        return re.search(rf"^[\w \t*]+[ \t*(]{name}\b", self._lines[line - 1]) is not None

    def starts_with_call(self, line: int, name: str) -> bool:
        """Tell whether a plain statement does nothing before it calls a function, but for what the call's result is assigned to."""
        start = rf"\s*(?:return\s+|(?:\w+\s+)?\**[\w.>\[\]-]+\s*=\s*|\(void\)\s*)?{name}\s*\("
        return line in self.statements and re.match(start, self._lines[line - 1]) is not None

    def writes(self, field: str) -> Iterator[tuple[int, bool]]:
        """Yield (line, a plain statement begins with it) of each place that writes a field by name."""
        if field not in self._fields:
            return
        member = rf"(?:->|\.)\s*{field}\b(?:\s*\[[^]]*\])*"
        for found in re.finditer(rf"{member}\s*(?:{_ASSIGNS})|(?:\+\+|--)[\w.>()-]*{member}", self._blank):
            line = 1 + self._blank.count("\n", 0, found.start())
            begins = re.match(rf"\s*(?:\+\+|--)?[\w.>-]+?{member}\s*(?:{_ASSIGNS})?", self._lines[line - 1])
            whole = begins is not None and begins.end() >= found.end() - self._start(line)
            yield (
                line,
                line in self.statements and whole and "[" not in found[0],
            )  # which may be an element, or what a pointer points to

    @cached_property
    def _fields(self) -> frozenset[str]:
        """Return every name behind -> or a dot."""
        return frozenset(re.findall(r"(?:->|\.)\s*(\w+)", self._blank))

    @cached_property
    def records(self) -> list[tuple[set[str], list[str]]]:
        """Return (names, fields) of every struct and union with a body, the inner ones too.

        Tag and the typedef's name.
        """
        found = []
        for head in re.finditer(r"\b(?:struct|union)\s*(\w*)\s*\{", self._code):
            end = self._behind(head.end() - 1, "{", "}")
            behind = re.compile(r"\s*(?:[A-Z]+\s+)?(\w*)\s*;").match(self._code, end)
            body = self._code[head.end() : end]
            names = {head[1], behind[1] if behind else ""} - {""}
            found.append((names, re.findall(r"(\w+)\s*(?:\[[^]]*\])*\s*[;,]", body)))
        return found

    @cached_property
    def macros(self) -> frozenset[str]:
        """Return the macros that take arguments."""
        return frozenset(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", self._blank, re.MULTILINE))

    def arguments(self, macros: Collection[str]) -> Iterator[str]:
        """Yield the words between the parentheses of macros, which may do anything to them."""
        for found in re.finditer(r"\b(\w+)\s*(?=\()", self._blank):
            if found[1] in macros:
                yield from re.findall(r"\w+", self._blank[found.end() : self._behind(found.end(), "(", ")")])

    def has_body(self, line: int) -> bool:
        """Tell whether the function whose head is on this line is written out, and no lambda.

        `= default` and what a class is given are not.
        """
        text = self._lines[line - 1]
        end = re.compile(r"[;{]|=\s*default").search(self._code, self._start(line))
        return end is not None and end[0] == "{" and not re.match(r"\s*(?:struct|class|union)\b|.*\]\s*\(", text)

    def parameters(self, line: int, name: str) -> list[str] | None:
        """Return the types of the parameters of the function whose head is on this line.

        None when they are not plainly written.
        """
        opening = re.compile(rf"[^\n]*?{re.escape(name)}\s*(?=\()").match(self._code, self._start(line))
        if opening is None:
            return None
        text = self._code[opening.end() + 1 : self._behind(opening.end(), "(", ")") - 1]
        found = []
        for parameter in filter(None, (part.partition("=")[0].strip() for part in text.split(","))):
            plain = re.fullmatch(r"((?:const\s+)?(?:unsigned\s+)?[\w:]+(?:\s*const)?[\s*&]*?)(?<=[\s*&])\w+", parameter)
            if plain is None:
                return None
            found.append(re.sub(r"unsigned$", "unsigned int", plain[1].strip()))
        return found

    def is_said(self, line: int, pattern: str) -> bool:
        """Tell whether a pattern occurs in the head of the function, up to the line of its name."""
        start = self._start(line)
        before = max(self._code.rfind(sign, 0, start) for sign in ";{}")
        return re.search(pattern, self._code[before + 1 : start + len(self._lines[line - 1])]) is not None

    def _is_plain(self, code: str) -> bool:
        if _NO_START.match(code) or _LOOP.search(code):
            return False
        whole = code[-1] in ";{}" or (code[-1] == ")" and re.match(r"(?:else\s+)?(?:if|switch)\b", code))
        if not whole or code.count("(") != code.count(")"):
            return False  # gcov enters the first line of a longer statement again when it comes back from the next
        return not any(word in self.looping_macros for word in re.findall(r"\w+", code))

    def _loop_keywords(self) -> Iterator[tuple[int, int]]:
        """Yield (line, offset) of each loop's keyword; the `while` of a do loop is none."""
        ends: list[int] = []
        for found in re.finditer(r"\b(?:for|while|do)\b", self._code):
            if found[0] == "do":
                ends.append(self._end_of_do(found.end()))
            elif found[0] == "while" and found.start() in ends:
                continue
            yield 1 + self._code.count("\n", 0, found.start()), found.start()

    def _end_of_do(self, offset: int) -> int:
        """Return where the `while` of a do loop stands, whose body is a block; -1 for another body."""
        body = re.compile(r"\s*\{").match(self._code, offset)
        if body is None:
            return -1
        end = re.compile(r"\s*while\b").match(self._code, self._behind(body.end() - 1, "{", "}"))
        return end.end() - len("while") if end else -1

    def _body_of(self, offset: int) -> int | None:
        """Return the line of the first statement in the body of the loop at an offset, when it is plain and on a line of its own."""
        keyword = re.compile(r"\w+\s*").match(self._code, offset)
        assert keyword is not None
        end = keyword.end() if keyword[0].startswith("do") else self._behind(keyword.end(), "(", ")")
        opening = re.compile(r"\s*(\{?)\s*").match(self._code, end)
        assert opening is not None
        last = 1 + self._code.count("\n", 0, end - 1)
        first = 1 + self._code.count("\n", 0, opening.end())
        plain = first in self.statements or (not opening[1] and self._is_plain(self._lines[first - 1].strip() or "{"))
        alone = not self._code[self._start(last) : offset].strip() or last > 1 + self._code.count("\n", 0, offset)
        return first if first > last and plain and alone else None

    def _behind(self, offset: int, opening: str, closing: str) -> int:
        depth = 0
        for end in range(offset, len(self._code)):
            depth += (self._code[end] == opening) - (self._code[end] == closing)
            if depth == 0:
                return end + 1
        return len(self._code)

    def _start(self, line: int) -> int:
        return self._starts[line - 1]

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for text in self._lines:
            starts.append(starts[-1] + len(text) + 1)
        return starts


def _blanked(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _loops(body: str) -> bool:
    return bool(re.search(r"\bfor\b|\bwhile\b(?!\s*\(\s*0\s*\))", body))
