"""The snapshots in a file of Caliper: of its own text, and of the JSON that `cali-query` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unperturbed.collectors.imports.format import decode, refuse

_NAME, _TYPE, _PROPERTIES = "8", "9", "10"
"""Ids of the attributes that describe attributes, which Caliper itself gives to every file."""
_HIDDEN, _AGGREGATABLE = 128, 2048
_PART = re.compile(r"((?:\\.|[^,=\\])*)([,=]|$)", re.DOTALL)
_NUMBERS = ("int", "uint", "double")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot: the values of its attributes, numbers or text, and its place in the file."""

    values: Mapping[str, Any]
    line: int
    where: str


@dataclass
class Snapshots:
    """The snapshots of a file, and the names of attributes that are known to be sums."""

    snapshots: list[Snapshot] = field(default_factory=list)
    aggregatable: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the context tree."""

    attribute: str
    data: str
    parent: str


class _Tree:
    """The context tree of a file: its nodes so far, and the attributes that some of them describe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, _Node] = {}
        self._attributes: dict[str, tuple[str, str, int]] = {}
        self._expanded: dict[str, dict[str, Any]] = {}

    def add(self, record: Mapping[str, list[str]], number: int, cut: str) -> None:
        """Take the node that a line describes."""
        key, own = record.get("id", [""])[0], record.get("attr", [""])[0]
        if not key.isdigit() or not own.isdigit() or not record.get("data") or cut:
            refuse(self._path, f"this node is not whole{cut}", number)
        made = _Node(own, record["data"][0], record.get("parent", [""])[0])
        if made.parent and (not made.parent.isdigit() or made.parent not in self._nodes):
            self.node(made.parent, number)
        if self._nodes.setdefault(key, made) != made:
            refuse(self._path, f"node {key} is described otherwise before: this is a second recording", number)

    def node(self, key: str, number: int) -> _Node:
        """Return a node that a line names."""
        if key not in self._nodes:
            refuse(self._path, f"node {key} is described in no line before: lines are missing or out of order", number)
        return self._nodes[key]

    def attribute(self, key: str, number: int) -> tuple[str, str, int]:
        """Return an attribute's name, type and properties."""
        if key not in self._attributes:
            one = self.node(key, number)
            name, kind, properties = one.data, "", 0
            while one.parent:
                one = self.node(one.parent, number)
                if one.attribute == _PROPERTIES and one.data.isdigit():
                    properties = int(one.data)
                elif one.attribute == _TYPE:
                    kind = one.data
            self._attributes[key] = (name, kind, properties)
        return self._attributes[key]

    def expand(self, key: str, number: int) -> dict[str, Any]:
        """Return the attributes of a node and of those above it; the innermost value of each counts."""
        above: list[str] = []
        while key and key not in self._expanded:
            above.append(key)
            key = self.node(key, number).parent
        held = self._expanded.get(key, {})
        for inner in reversed(above):
            one = self._nodes[inner]
            name, _, properties = self.attribute(one.attribute, number)
            if not properties & _HIDDEN:
                held = {**held, name: one.data}
            self._expanded[inner] = held
        return held


def read_cali(content: bytes, path: Path) -> Snapshots:
    """Return the snapshots of a `.cali` file."""
    found, tree = Snapshots(), _Tree(path)
    lines = decode(content, path).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _fields(line)
        cut = ": the file is cut off" if number == len(lines) and not content.endswith(b"\n") else ""
        kind = (record.get("__rec") or [""])[0]
        if kind == "node":
            tree.add(record, number, cut)
        elif kind == "ctx":
            ids, data = record.get("attr", []), record.get("data", [])
            if len(ids) != len(data) or cut or not (ids or "ref" in record):
                refuse(path, f"this snapshot is not whole{cut}", number)
            values: dict[str, Any] = {}
            for key in record.get("ref", []):
                values |= tree.expand(key, number)
            for key, text in zip(ids, data, strict=True):
                name, form, properties = tree.attribute(key, number)
                if not properties & _HIDDEN:
                    values[name] = _number(text, path, number) if form in _NUMBERS else text
                    if properties & _AGGREGATABLE:
                        found.aggregatable.add(name)
            found.snapshots.append(Snapshot(values, number, "this snapshot"))
        elif kind != "globals":
            refuse(path, f"this is not a record of Caliper (__rec=node, ctx or globals){cut}", number)
    return found


def read_json(content: bytes, path: Path) -> Snapshots:
    """Return the snapshots of what `cali-query` wrote as JSON: json, json(object), json(split) or json-split."""
    text = decode(content, path)
    try:
        held = json.loads(text)
    except json.JSONDecodeError as error:
        cut = "it is cut off" if error.pos >= len(text.rstrip()) else error.msg
        refuse(path, f"no JSON: {cut}", error.lineno)
    except RecursionError:
        refuse(path, "no JSON of Caliper: too many parts lie in one another")
    rows = held
    if isinstance(held, dict):
        rows = _split_rows(held, path) if "data" in held else held.get("records")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        refuse(path, "no snapshots where Caliper writes them: in an array, or as data and columns", 1)
    snapshots = [
        Snapshot({str(name): value for name, value in row.items() if value is not None}, 0, f"snapshot {at}")
        for at, row in enumerate(rows, 1)
    ]
    return Snapshots(snapshots)


def _split_rows(held: Mapping[str, Any], path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the rows of json-split as mappings; values of the tree are places in `nodes`."""
    columns, data, nodes = held.get("columns"), held["data"], held.get("nodes", [])
    described = held.get("column_metadata", [])
    if not isinstance(columns, list) or not isinstance(data, list) or not isinstance(described, list):
        refuse(path, "json-split has lists data, columns and column_metadata, and here one is missing", 1)
    direct = [not isinstance(one, dict) or bool(one.get("is_value", True)) for one in described]
    direct += [True] * (len(columns) - len(direct))
    rows = []
    for at, row in enumerate(data, 1):
        if not isinstance(row, list) or len(row) != len(columns):
            refuse(path, f"snapshot {at} has not the {len(columns)} values of the columns")
        rows.append(
            {str(name): _value(value, own, nodes) for name, value, own in zip(columns, row, direct, strict=False)}
        )
    return rows


def _value(value: Any, direct: bool, nodes: Any) -> Any:
    """Return a value of json-split; a place in the tree by its label."""
    if direct or not isinstance(value, int) or not isinstance(nodes, list) or not 0 <= value < len(nodes):
        return value
    return nodes[value].get("label", value) if isinstance(nodes[value], dict) else value


def _fields(line: str) -> dict[str, list[str]]:
    """Return the fields of a line, `key=value=value,…`; a backslash makes the next sign an ordinary one."""
    if "\\" not in line:
        return {parts[0]: parts[1:] for parts in (one.split("=") for one in line.strip().split(","))}
    found: dict[str, list[str]] = {}
    parts: list[str] = []
    for part, end in _parts(line.strip()):
        parts.append(re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], part))
        if end != "=":
            found[parts[0]] = parts[1:]
            parts = []
    return found


def _parts(line: str) -> Iterable[tuple[str, str]]:
    """Yield what lies between signs, and the sign behind it."""
    at = 0
    while at <= len(line):
        match = _PART.match(line, at)
        if match is None:
            yield line[at:], ""
            return
        yield match[1], match[2]
        at = match.end()
        if not match[2]:
            return


def _number(text: str, path: Path, line: int) -> float | int:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        commas = ": decimals have commas, record with LC_ALL=C" if "," in text else ""
        refuse(path, f"{text!r} is not a number{commas}", line)
