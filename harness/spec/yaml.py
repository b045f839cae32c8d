"""YAML reader: plain data with the position of every key and value, faults, and advice on syntax errors.

PyYAML composes the nodes; depth and number of values are limited before any data is built. Plain scalars follow the
core schema of YAML 1.2 plus the booleans of YAML 1.1. Scalars that only YAML 1.1 reads as numbers (`010`, `1_000`,
`1:30`) are kept as text and marked, because parsers disagree on them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import yaml

from unperturbed.errors import SpecError

_LONG_WORD = re.compile(r"\S{121,}")
_LONGEST = 1000
_MOST_SHOWN = 100  # Maximum number of faults in a message; a file with more is probably the wrong file


@dataclass(frozen=True, order=True)
class Position:
    """Position in a text."""

    # line, column: Counted from 1; the column counts characters.
    line: int
    column: int


@dataclass(frozen=True, order=True)
class Diagnostic:
    """Fault in a spec: its position, what is wrong and what to do."""

    position: Position  # Position of the fault
    message: str  # One line; long words quoted from the spec are shortened

    def __post_init__(self) -> None:
        line = " ".join(self.message.split())
        line = _LONG_WORD.sub(lambda word: f"{word[0][:60]}…", line)
        object.__setattr__(self, "message", line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")

    def render(self, name: str) -> str:
        """Return `file:line:column: message`."""
        return f"{name}:{self.position.line}:{self.position.column}: {self.message}"


class InvalidSpec(SpecError):  # noqa: N818  like KeyboardInterrupt: the base class is named an error
    """A spec has faults; the message has one line for each fault."""

    def __init__(self, name: str, diagnostics: Iterable[Diagnostic]) -> None:
        self.name = name  # Name of the file
        self.diagnostics = tuple(sorted(set(diagnostics)))  # Every fault, once, sorted by position
        lines = [diagnostic.render(name) for diagnostic in self.diagnostics[:_MOST_SHOWN]]
        hidden = len(self.diagnostics) - len(lines)
        if hidden:
            lines.append(f"{name}: and {hidden:,} more faults")
        super().__init__("\n".join(lines))


_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*:[^\s/]")
_MUST_BE_QUOTED = 'text that starts with `{0}` must be quoted: "{0}…"'
_TEXT_AFTER_VALUE = re.compile(r""":\s+(\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*')\s*\S""")


@dataclass(frozen=True)
class _Failure:
    """Syntax error, with the text around it."""

    # here, opened: Position of the error; start of the list, mapping or text that contains the error.
    here: Position
    opened: Position
    # line, line_above: The line of the error, and the line before.
    line: str
    line_above: str
    problem: str  # PyYAML's message

    @property
    def before(self) -> str:
        return self.line[: self.here.column - 1]

    @property
    def rest(self) -> str:
        return self.line[self.here.column - 1 :]


def explain(error: yaml.MarkedYAMLError, text: str) -> Diagnostic:
    """Convert a syntax error of PyYAML into a diagnostic."""
    mark = error.problem_mark or error.context_mark
    assert mark is not None, error
    opened = error.context_mark or mark
    lines = ["", *text.splitlines(), ""]
    problem = f"{error.context or ''}: {error.problem or ''}"
    failure = _Failure(
        here=Position(mark.line + 1, mark.column + 1),
        opened=Position(opened.line + 1, opened.column + 1),
        line=lines[min(mark.line + 1, len(lines) - 1)],
        line_above=lines[min(mark.line, len(lines) - 1)],
        problem=problem,
    )
    for pattern, place, advice in _ADVICE:
        if re.search(pattern, problem):
            return advice(failure) if callable(advice) else Diagnostic(getattr(failure, place), advice)
    return Diagnostic(failure.here, f"invalid YAML: {problem.removeprefix(': ')}")


def _bad_beginning(failure: _Failure) -> Diagnostic:
    if failure.rest.startswith("\t"):
        return Diagnostic(failure.here, "a tab is not allowed here: use spaces")
    return Diagnostic(failure.here, _MUST_BE_QUOTED.format(failure.rest[:1]))


def _unexpected_colon(failure: _Failure) -> Diagnostic:
    here, above = failure.here, failure.line_above
    if _KEY_WITHOUT_SPACE.match(above):
        key = above.strip()
        place = Position(here.line - 1, above.index(key) + 1)
        return Diagnostic(place, f"`{key[:40]}`: a space is missing after the `:`")
    if ":" in failure.before:
        return Diagnostic(here, "a second `: ` in one line: text that contains `: ` must be quoted as a whole")
    what = "is this line indented deeper than the line above, which already has a value?"
    return Diagnostic(here, f"`:` is not allowed here: {what}")


def _unexpected_in_block(failure: _Failure) -> Diagnostic:
    here, begins = failure.here, failure.opened.line
    if failure.rest == "-" or failure.rest.startswith("- "):
        return Diagnostic(here, f"unexpected list item among the keys of the mapping that starts on line {begins}")
    if _TEXT_AFTER_VALUE.search(failure.line):
        what = 'quote the whole value, as in run: "{build}/program"'
        return Diagnostic(here, f"unexpected text after a closing brace, bracket or quote: {what}")
    what = f"the mapping or list that starts on line {begins}"
    return Diagnostic(here, f"this line does not continue {what}: check its indentation")


def _unclosed(failure: _Failure) -> Diagnostic:
    kind, bracket = ("list", "]") if "or ']'" in failure.problem else ("mapping", "}")
    what = f"a `,` or `{bracket}` is missing (detected on line {failure.here.line})"
    return Diagnostic(failure.opened, f"the {kind} that starts here is not closed: {what}")


def _no_value(failure: _Failure) -> Diagnostic:
    where = f"before `{failure.rest[:1]}`" if failure.rest else "at the end"
    return Diagnostic(failure.here, f"a value is missing {where}")


_Advice = str | Callable[[_Failure], Diagnostic]
_ADVICE: tuple[tuple[str, Literal["here", "opened"], _Advice], ...] = (
    (
        "single document",
        "here",
        "a second document starts here (`---`), but a spec is one document: move the other to its own file",
    ),
    ("cannot start any token", "here", _bad_beginning),
    ("mapping values are not allowed", "here", _unexpected_colon),
    ("<block end>", "here", _unexpected_in_block),
    ("flow (sequence|mapping): expected ','", "opened", _unclosed),
    ("node content", "here", _no_value),
    ("quoted scalar: found unexpected (end|document)", "opened", "the quote that starts here is never closed"),
    ("escape", "here", "unknown escape sequence: write `\\\\` for a backslash in double quotes, or use single quotes"),
    (
        "could not find expected ':'",
        "opened",
        "this line is neither `key: value` nor part of a longer value: is a `:` missing, or is the indentation wrong?",
    ),
    ("scanning an alias", "opened", _MUST_BE_QUOTED.format("*")),
    ("scanning an anchor", "opened", _MUST_BE_QUOTED.format("&")),
    ("tag", "opened", _MUST_BE_QUOTED.format("!")),
    (
        "sequence entries are not allowed",
        "here",
        "a list with `-` must start on its own line; within a line, write `[a, b]`",
    ),
    (
        "block scalar",
        "here",
        "a line must end after `|` or `>`, and the text below must be indented with spaces; quote text that starts "
        "with `|` or `>`",
    ),
    (
        "document start|directive|incompatible",
        "here",
        "unexpected text before the first key or after the end: a spec is one mapping, without lines that start with "
        "`%`",
    ),
)
"""Pattern of PyYAML's message, position to report, and advice; the first match counts."""


MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_VALUES = 5_000
"""Maximum number of values in a document with its aliases expanded: a few lines can expand to billions of values."""

YamlPath = tuple[str | int, ...]

_NOT_TEXT = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HOLDS_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_KINDS = {
    "null": r"~|null|Null|NULL|",
    "boolean": rf"{_TRUE.pattern}|false|False|FALSE|no|No|NO|off|Off|OFF",
    "integer": r"(?=.{1,40}$)[-+]?(0|[1-9][0-9]*)",
    "fraction": r"(?=.{1,40}$)(?![-+]?0[0-9])[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?",
    "not finite": r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "odd number": (
        r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|\.[0-9][0-9_]*"
        r"|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?([eE][-+]?[0-9]+)?)"
    ),
}
"""Type of plain scalars → pattern; the first match counts, all others are text. Numbers have at most 40 characters."""
_REFUSED = "refused"
_NUMBERS = ("integer", "fraction", "not finite")
_SCALAR = re.compile("|".join(f"(?P<{kind.replace(' ', '_')}>(?:{form})$)" for kind, form in _KINDS.items()))


@dataclass(frozen=True)
class Place:
    """Position and type of a value."""

    key: Position  # First character of its key; for a list item, of the item
    value: Position  # First character of the value
    text: str = ""  # Text of a scalar, as written
    # Type of a scalar: `text`, `null`, `boolean`, `number` or `odd number`; `refused` if a diagnostic explains why
    # there is no value; None for lists and mappings.
    kind: str | None = None


@dataclass(frozen=True)
class Document:
    """A YAML document."""

    data: Any  # Dictionary, list, str, int, float, bool or None; also None for a value that was refused
    # The position of each value, by its path of keys and indices. The document itself has the path `()`.
    places: Mapping[YamlPath, Place]
    # Faults that did not prevent reading the rest: duplicate keys, keys that are not text, tags.
    diagnostics: tuple[Diagnostic, ...]


def decode(content: bytes, name: str) -> str:
    """Decode the content of a file as UTF-8."""
    if len(content) > MAX_BYTES:
        what = "the file is larger than 1 MiB, so it cannot be a spec: check the file's name"
        raise InvalidSpec(name, [Diagnostic(Position(1, 1), what)])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _end_of(content[: error.start].decode("utf-8", "replace"))
        byte = content[error.start]
        what = f"byte 0x{byte:02x} is not UTF-8: the file is binary or has a different encoding; save it as UTF-8 text"
        raise InvalidSpec(name, [Diagnostic(place, what)]) from None


def read_yaml(text: str, name: str) -> Document:
    """Read one YAML document."""
    reader = _Reader(name)
    if odd := _NOT_TEXT.search(text):
        what = f"the character U+{ord(odd[0]):04X} is not allowed in YAML: the file is binary or damaged"
        reader.fail(_end_of(text[: odd.start()]), what)
    root = reader.compose(text)
    data = reader.value(root, (), _position(root.start_mark), 1)
    return Document(data, MappingProxyType(reader.places), tuple(reader.diagnostics))


class _Composer(yaml.SafeLoader):
    """PyYAML composer with limits: aliases become nodes at their own positions; tags and unknown anchors are faults."""

    def __init__(self, text: str, reader: _Reader) -> None:
        super().__init__(text)
        self._reader = reader
        self._depth = self._nodes = 0
        self._open: list[str | None] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        position = _position(event.start_mark)
        self._nodes += 1
        if len(self._open) >= MAX_DEPTH:
            what = f"lists and mappings are nested more than {MAX_DEPTH} levels deep: a spec needs at most 5 levels"
            self._reader.fail(position, what)
        if self._nodes > 2 * MAX_VALUES:
            what = f"the document has more than {MAX_VALUES:,} values, so it cannot be a spec: check the file's name"
            self._reader.fail(position, what)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            tag = re.sub("^tag:yaml.org,2002:", "!!", event.tag)
            what = f"the YAML tag `{tag}` is not allowed in a spec: quote text that starts with `!`"
            self._reader.report(position, what)
        self.anchors.pop(event.anchor, None)  # PyYAML refuses an anchor that is defined again
        self._open.append(event.anchor)
        node = super().compose_node(parent, index)
        self._open.pop()
        if isinstance(node, yaml.ScalarNode) and _HOLDS_CONTROL.search(node.value):
            what = "this text has an escape sequence for a control character, which is not allowed in a spec"
            self._reader.report(position, what)
            node.tag = _REFUSED
        return node

    def _alias(self, event: Any) -> yaml.Node:
        self.get_event()  # type: ignore[no-untyped-call]
        name = event.anchor
        shared = self.anchors.get(name)
        if shared is None or name in self._open:
            what = f"the alias `*{name}` has no anchor `&{name}` above it: quote text that starts with `*`"
            self._reader.report(_position(event.start_mark), what)
            return yaml.ScalarNode(_REFUSED, "", event.start_mark, event.end_mark)
        node = copy.copy(shared)
        node.start_mark = event.start_mark
        return node


@dataclass
class _Reader:
    """Converter of nodes to plain data with the place of each value; each use of an alias counts as new values."""

    name: str
    diagnostics: list[Diagnostic] = field(default_factory=list)
    places: dict[YamlPath, Place] = field(default_factory=dict)

    def report(self, position: Position, message: str) -> None:
        self.diagnostics.append(Diagnostic(position, message))

    def fail(self, position: Position, message: str) -> NoReturn:
        raise InvalidSpec(self.name, [*self.diagnostics, Diagnostic(position, message)])

    def compose(self, text: str) -> yaml.Node:
        try:
            root = _Composer(text, self).get_single_node()
        except yaml.MarkedYAMLError as error:
            raise InvalidSpec(self.name, [*self.diagnostics, explain(error, text)]) from None
        except (ValueError, OverflowError):
            # The scanner converts `%YAML 9999…` and "\UFFFFFFFF" to numbers and characters without checks.
            self.fail(Position(1, 1), "a number in a `%YAML` line or a `\\U` escape in double quotes is out of range")
        return root or self.fail(Position(1, 1), "the spec is empty: `unperturbed schema` lists the keys of a spec")

    def value(self, node: yaml.Node, path: YamlPath, key: Position, depth: int) -> Any:
        position = _position(node.start_mark)
        if len(self.places) >= MAX_VALUES or depth > MAX_DEPTH:
            what = f"the document has more than {MAX_VALUES:,} values, or more than {MAX_DEPTH} levels, "
            self.fail(position, f"{what}when its aliases are expanded")
        if isinstance(node, yaml.ScalarNode):
            kind, value = _scalar(node)
            self.places[path] = Place(key, position, "" if kind == _REFUSED else node.value, kind)
            return value
        self.places[path] = Place(key, position)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.value(item, (*path, at), _position(item.start_mark), depth + 1) for at, item in items]
        data: dict[str, Any] = {}
        for inner, value in node.value:
            place, name = _position(inner.start_mark), self._key(inner)
            if name in data:
                first = self.places[*path, name].key.line
                self.report(place, f"duplicate key `{name}` (first on line {first}); remove one of the two")
            elif name is not None:
                data[name] = self.value(value, (*path, name), place, depth + 1)
        return data

    def _key(self, node: yaml.Node) -> str | None:
        """Return the text of a key; report a key that is not text, and return None."""
        position = _position(node.start_mark)
        if not isinstance(node, yaml.ScalarNode):
            self.report(position, "a list or a mapping cannot be a key; quote text that starts with `{` or `[`")
            return None
        text: str = node.value
        kind, _ = _scalar(node)
        if kind == _REFUSED:
            return None
        if text == "<<" and not node.style:
            what = "the merge key `<<` is not supported: write out the keys, or reuse a whole value by its alias"
            self.report(position, what)
            return None
        if kind == "null":
            what = (
                f'the key `{text}` is null in YAML; quote it: "{text}"' if text else "a key is missing before the `:`"
            )
            self.report(position, what)
            return None
        if kind != "text":
            what = "a boolean" if kind == "boolean" else "a number"
            self.report(position, f'the key `{text}` is {what} in YAML; quote it: "{text}"')
        return text


def _scalar(node: yaml.ScalarNode) -> tuple[str, Any]:
    """Return the type and the value of a scalar; every scalar that is not plain is text."""
    text: str = node.value
    if node.tag == _REFUSED:
        return _REFUSED, None
    match = None if node.style else _SCALAR.match(text)
    kind = (match.lastgroup or "").replace("_", " ") if match else "text"
    if kind == "null":
        return kind, None
    if kind == "boolean":
        return kind, _TRUE.fullmatch(text) is not None
    if kind in _NUMBERS:
        return "number", int(text) if kind == "integer" else float(re.sub(r"\.(?=[a-zA-Z])", "", text))
    return kind, text


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _end_of(text: str) -> Position:
    """Return the position after the last character of a text."""
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))
