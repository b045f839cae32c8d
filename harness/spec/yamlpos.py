"""YAML text to plain data, with the position of every key and value.

Read from PyYAML's safe event stream, so that nothing but text, numbers, booleans, lists and mappings can come out, and so that depth and
number of values are bounded before anything is built. Scalars are resolved here, by the core schema of YAML 1.2 plus the booleans of
YAML 1.1; what only YAML 1.1 takes for a number (`010`, `1_000`, `1:30`) is kept as text and marked, because readers disagree on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import yaml

from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position
from unperturbed.harness.spec.yaml_advice import explain

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "Document", "Place", "YamlPath", "decode", "read_yaml"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_VALUES = 5_000
"""Values of a document after its aliases are put in: a handful of lines can stand for billions of values."""

YamlPath = tuple[str | int, ...]
ScalarKind = Literal["text", "null", "boolean", "number", "odd number", "refused"]

_NOT_TEXT = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HOLDS_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_ODD_NUMBER = re.compile(
    r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9][0-9_]*)"
)
_LONGEST_NUMBER = 40


@dataclass(frozen=True)
class Place:
    """Where a value stands.

    Attributes
    ----------
    value : its first character. key : its key's first character; the item's, in a list.
    text : what was written, for a scalar; empty for lists and mappings.
    kind : what YAML takes the scalar for; None for lists and mappings. `refused`: a diagnostic says why there is no value.
    """

    key: Position
    value: Position
    text: str = ""
    kind: ScalarKind | None = None


@dataclass(frozen=True)
class Document:
    """A YAML document.

    Attributes
    ----------
    data : dict, list, str, int, float, bool or None; also None for a value that was refused.
    places : where each value stands, by its path of keys and indices. The document itself has the path `()`.
    diagnostics : faults that did not hinder the reading of the rest: duplicate keys, keys that are not text, tags.
    """

    data: Any
    places: Mapping[YamlPath, Place]
    diagnostics: tuple[Diagnostic, ...]


def decode(content: bytes, name: str) -> str:
    """Return the text of a file's content.

    Raises
    ------
    InvalidSpec
        It is too large, empty, binary or not UTF-8.
    """
    start = Position(1, 1)
    if len(content) > MAX_BYTES:
        raise InvalidSpec(
            name, [Diagnostic(start, "the file is larger than 1 MiB: this cannot be a spec; check the file's name")]
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line_start = before.rfind(b"\n") + 1
        place = Position(before.count(b"\n") + 1, len(before[line_start:].decode("utf-8", "replace")) + 1)
        what = (
            f"byte 0x{content[error.start]:02x} is not UTF-8: the file is binary or in another encoding; save it as UTF-8 text"
        )
        raise InvalidSpec(name, [Diagnostic(place, what)]) from None
    return text


def read_yaml(text: str, name: str) -> Document:
    """Read one YAML document.

    Parameters
    ----------
    text : the document. name : the file's name, for messages.

    Raises
    ------
    InvalidSpec
        Nothing in it, control characters, a syntax error, several documents, too deep, too many values.
    """
    odd = _NOT_TEXT.search(text)
    if odd:
        before = text[: odd.start()]
        place = Position(before.count("\n") + 1, odd.start() - (before.rfind("\n") + 1) + 1)
        what = f"the character U+{ord(odd[0]):04X} cannot stand in a text: the file is binary or damaged"
        raise InvalidSpec(name, [Diagnostic(place, what)])
    reader = _Reader(text, name)
    root = reader.read()
    flat = _Flattener(name, reader.diagnostics)
    data = flat.value(root, (), root.position, 1)
    return Document(data, MappingProxyType(flat.places), tuple(reader.diagnostics))


@dataclass(frozen=True)
class _Node:
    position: Position
    kind: Literal["scalar", "list", "mapping", "refused"]
    text: str = ""
    plain: bool = False
    items: tuple[_Node, ...] = ()
    entries: tuple[tuple[_Node, _Node], ...] = ()


class _Reader:
    """Turns the event stream into nodes; aliases share the node of their anchor."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.text = text
        self.diagnostics: list[Diagnostic] = []
        self._anchors: dict[str, _Node] = {}
        self._nodes = 0
        self._events = self._stream()

    def _stream(self) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(self.text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            raise InvalidSpec(self.name, [explain(error, self.text)]) from None
        except (ValueError, OverflowError):
            # The scanner turns `%YAML 9999…` and "\UFFFFFFFF" into numbers and characters without looking.
            what = "a number in a `%YAML` line or a `\\U` escape in double quotes is out of range"
            raise InvalidSpec(self.name, [Diagnostic(Position(1, 1), what)]) from None

    def read(self) -> _Node:
        root = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._fail(
                        event, "a second document begins here (`---`): a spec is one document; put the other into its own file"
                    )
                root = self._node(next(self._events), 1)
        if root is None:
            what = "the spec is empty: `unperturbed schema` says what belongs into it"
            raise InvalidSpec(self.name, [Diagnostic(Position(1, 1), what)])
        return root

    def _node(self, event: yaml.Event, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            self._fail(event, f"lists and mappings are nested more than {MAX_DEPTH} deep: a spec needs 5 levels at most")
        self._nodes += 1
        if self._nodes > 2 * MAX_VALUES:
            self._fail(event, f"the document has more than {MAX_VALUES:,} values: this cannot be a spec; check the file's name")
        position = _position(event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                what = f"`*{event.anchor}` repeats an anchor `&{event.anchor}` that is not above it; quote text that begins with `*`"
                self._complain(position, what)
                return _Node(position, "refused")
            shared = self._anchors[event.anchor]
            return _Node(position, shared.kind, shared.text, shared.plain, shared.items, shared.entries)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent), event
        if event.tag is not None:
            self._complain(position, f"`{_tag(event.tag)}` is a YAML tag, and a spec has none; quote text that begins with `!`")
        node = self._untagged(event, position, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _untagged(self, event: yaml.Event, position: Position, depth: int) -> _Node:
        if isinstance(event, yaml.ScalarEvent):
            if _HOLDS_CONTROL.search(event.value):
                self._complain(position, "an escape in this text stands for a control character, which a spec cannot hold")
                return _Node(position, "refused")
            return _Node(position, "scalar", event.value, plain=not event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(inner, depth + 1))
            return _Node(position, "list", items=tuple(items))
        entries = []
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            key = self._node(inner, depth + 1)
            entries.append((key, self._node(next(self._events), depth + 1)))
        return _Node(position, "mapping", entries=tuple(entries))

    def _complain(self, position: Position, message: str) -> None:
        self.diagnostics.append(Diagnostic(position, message))

    def _fail(self, event: yaml.Event, message: str) -> NoReturn:
        raise InvalidSpec(self.name, [*self.diagnostics, Diagnostic(_position(event), message)])


@dataclass
class _Flattener:
    """Turns nodes into plain data and places, one a value: aliases count as often as they are used."""

    name: str
    diagnostics: list[Diagnostic]
    places: dict[YamlPath, Place] = field(default_factory=dict)

    def value(self, node: _Node, path: YamlPath, key: Position, depth: int) -> Any:
        if len(self.places) >= MAX_VALUES or depth > MAX_DEPTH:
            what = f"the document has more than {MAX_VALUES:,} values, or is more than {MAX_DEPTH} deep, when its aliases are put in"
            raise InvalidSpec(self.name, [*self.diagnostics, Diagnostic(node.position, what)])
        if node.kind == "scalar":
            kind, resolved = _resolve(node.text, plain=node.plain)
            self.places[path] = Place(key, node.position, node.text, kind)
            return resolved
        self.places[path] = Place(key, node.position, kind="refused" if node.kind == "refused" else None)
        if node.kind == "refused":
            return None
        if node.kind == "list":
            return [self.value(item, (*path, index), item.position, depth + 1) for index, item in enumerate(node.items)]
        return self._mapping(node, path, depth)

    def _mapping(self, node: _Node, path: YamlPath, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in node.entries:
            text = self._key(key)
            if text is None:
                continue
            if text in data:
                first = self.places[(*path, text)].key
                self._complain(key, f"the key `{text}` stands here a second time (first in line {first.line}); remove one")
                continue
            data[text] = self.value(value, (*path, text), key.position, depth + 1)
        return data

    def _key(self, key: _Node) -> str | None:
        if key.kind != "scalar":
            if key.kind != "refused":
                self._complain(key, "a list or a mapping cannot be a key; quote text that begins with `{` or `[`")
            return None
        if not key.plain:
            return key.text
        if key.text == "<<":
            self._complain(key, "the merge key `<<` is not supported: write the keys out, or repeat a whole value by its alias")
            return None
        kind, _ = _resolve(key.text, plain=True)
        if kind == "null":
            self._complain(
                key, "a key is missing before the `:`" if key.text == "" else f'the key `{key.text}` means "nothing" in YAML'
            )
            return None
        if kind != "text":
            what = "a truth value" if kind == "boolean" else "a number"
            self._complain(key, f'the key `{key.text}` is {what} in YAML; quote it: "{key.text}"')
        return key.text

    def _complain(self, node: _Node, message: str) -> None:
        self.diagnostics.append(Diagnostic(node.position, message))


def _resolve(text: str, *, plain: bool) -> tuple[ScalarKind, Any]:
    """Return what a scalar is and its value; one that is not plain is quoted, hence text."""
    if not plain:
        return "text", text
    if _NULL.fullmatch(text):
        return "null", None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return "boolean", _TRUE.fullmatch(text) is not None
    number = _number(text) if len(text) <= _LONGEST_NUMBER else None
    if number is not None:
        return "number", number
    return ("odd number" if _ODD_NUMBER.fullmatch(text) else "text"), text


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return float(text) if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text) else None


def _position(event: yaml.Event) -> Position:
    assert event.start_mark is not None, event
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _tag(tag: str) -> str:
    standard = "tag:yaml.org,2002:"
    return f"!!{tag.removeprefix(standard)}" if tag.startswith(standard) else tag
