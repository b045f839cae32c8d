"""Recipes: files in YAML that describe the tables of monitors, those of this tool and those of its users."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn, cast, get_args

import yaml

from unperturbed.collectors.data.trace import Kind
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import DataError

Meaning = Literal["gauge", "rate", "counts", "cumulative", "device", "run", "nothing"]
"""What a column holds: values at a time, events per second, events of the interval or since the start, the device that
the row is about, the run that it belongs to, or nothing to import."""
Line = Literal["names", "groups", "units"]
"""What a line of the heading has for each column; a blank group continues the group left of it."""

SUFFIXES = (".yaml", ".yml")
BLANKS = "blanks"
"""Word for a separator of one or more blanks."""
SECONDS = "seconds"
"""Word for times in seconds since 1970, in place of a format."""

_OWN = Path(__file__).parent / "recipes"
_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_FORMAT = re.compile(r"(?=.*%)(?:[^%]|%[YymdbBHIMSpzZ]|%\.f)+")
_WORDS_OF_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Rule:
    """What the columns are whose whole name matches a pattern."""

    pattern: re.Pattern[str]
    meaning: Meaning
    name: str = ""  # Name of the metric, or of the device, with `\1` for groups of the pattern; the column's by default
    unit: str = ""  # Unit, likewise
    devices: Mapping[str, str] = field(default_factory=dict)  # Names of devices in place of the file's

    def words(self, column: str, unit: str = "") -> tuple[str, str]:
        """Return the name and the unit for a column that the pattern matches; `unit` is the heading's."""
        found = self.pattern.fullmatch(column)
        expand = found.expand if found else str
        return expand(self.name) if self.name else column, expand(self.unit) if self.unit else unit


@dataclass(frozen=True)
class Clock:
    """Columns whose texts, joined by blanks, are a time, and the formats that it can have."""

    columns: Sequence[re.Pattern[str]]
    formats: Sequence[str]


@dataclass(frozen=True)
class Recipe:
    """How to read the tables of a monitor."""

    name: str
    path: Path
    title: str
    recognise: re.Pattern[str]
    rules: Sequence[Rule]
    clocks: Sequence[Clock] = ()
    suffixes: Sequence[str] = (".csv", ".txt")
    separators: Sequence[str] = (",", ";", "\t")
    heading: re.Pattern[str] | None = None  # The first line of a heading; by default, the file's first line
    lines: Sequence[Line] = ("names",)
    skip: re.Pattern[str] | None = None  # Lines that are no rows
    without: re.Pattern[str] | None = None  # Headings of rows that are left out
    missing: re.Pattern[str] | None = None  # Cells without a value, besides the usual marks
    since_boot: bool = False  # The first row is about the time since the host started
    recording: re.Pattern[str] | None = None  # The first line of a recording; a file may have several, each a run
    kind: Kind = "os"
    advice: str = ""  # Which option of the monitor writes the times of rows

    def rule_of(self, column: str) -> Rule | None:
        """Return the first rule whose pattern matches a column's whole name."""
        return next((rule for rule in self.rules if rule.pattern.fullmatch(column)), None)

    def means(self, column: str) -> Meaning | None:
        """Return what a column holds; None without a rule, and for a part of the time."""
        rule = None if self.is_of_time(column) else self.rule_of(column)
        return rule.meaning if rule else None

    def is_of_time(self, column: str) -> bool:
        """Return whether a column is a part of the time."""
        return any(part.fullmatch(column) for clock in self.clocks for part in clock.columns)


def own_recipes() -> list[Path]:
    """Return the files of this tool's recipes."""
    return _recipes_in(_OWN)


def users_recipes() -> list[Path]:
    """Return the files of the user's recipes: `unperturbed/recipes` in ``$XDG_CONFIG_HOME``, else in ``~/.config``."""
    named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        base = named if named.is_absolute() else Path.home() / ".config"
    except RuntimeError:  # no home folder
        return []
    return _recipes_in(base / "unperturbed" / "recipes")


def _recipes_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    except OSError:
        return []


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; a wrong one is refused with the line and the column of its first fault."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot read the recipe: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path}: the file is larger than 1 MiB, so it is no recipe")
    if not _NAME.fullmatch(path.stem):
        raise DataError(
            f"{path}: a recipe's file has the name of its format: small letters, digits and `-`, then .yaml"
        )
    return _Reader(path).recipe(content)


class _Reader:
    """Reader of the nodes of a recipe; each fault is an error with its place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, mark: Any, what: str) -> NoReturn:
        raise DataError(f"{self.path}:{mark.line + 1}:{mark.column + 1}: {what}")

    def recipe(self, content: bytes) -> Recipe:
        try:
            root = yaml.compose(content.decode("utf-8-sig"), yaml.SafeLoader)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise DataError(f"{self.path}:{line}: this line is not valid UTF-8") from None
        except yaml.MarkedYAMLError as error:
            self.fail(error.problem_mark or error.context_mark, f"not YAML: {error.problem or error.context}")
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(f"{self.path}: not YAML: {str(error).splitlines()[0]}") from None
        if root is None:
            raise DataError(f"{self.path}:1: the recipe is empty: it needs title, recognise and columns")
        given = self.mapping(root, _KEYS, ("title", "recognise", "columns"))
        read: dict[str, Any] = {name: _KEYS[name][1](self, node) for name, node in given.items()}
        named = {_KEYS[name][0]: value for name, value in read.items()}
        return Recipe(name=self.path.stem, path=self.path, **named)

    def mapping(self, node: yaml.Node, known: Iterable[str], needed: Sequence[str]) -> dict[str, yaml.Node]:
        """Return the values of a mapping by key."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node.start_mark, f"expected keys with values: {listing(needed)}")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key)
            if name not in known:
                meant = did_you_mean(name, known, limit=1) or f"the keys are {listing(known)}"
                self.fail(key.start_mark, f"unknown key `{name}`; {meant}")
            if name in found:
                self.fail(key.start_mark, f"the key `{name}` appears twice")
            found[name] = value
        if absent := [name for name in needed if name not in found]:
            self.fail(node.start_mark, f"the key `{absent[0]}` is missing")
        return found

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node.start_mark, "expected text")
        return str(node.value)

    def filled(self, node: yaml.Node) -> str:
        if not (text := self.text(node)).strip():
            self.fail(node.start_mark, "this text is empty")
        return text

    def items(self, node: yaml.Node) -> Sequence[yaml.Node]:
        """Return the items of a list; any other value is a list of one."""
        if not isinstance(node, yaml.SequenceNode):
            return [node]
        if not node.value:
            self.fail(node.start_mark, "this list is empty")
        return cast(Sequence[yaml.Node], node.value)

    def texts(self, node: yaml.Node) -> tuple[str, ...]:
        return tuple(self.filled(item) for item in self.items(node))

    def pattern(self, node: yaml.Node) -> re.Pattern[str]:
        try:
            return re.compile(self.filled(node), re.MULTILINE)
        except (re.error, OverflowError, RecursionError) as error:
            self.fail(node.start_mark, f"not a regular expression: {error}")

    def choice(self, node: yaml.Node, choices: Sequence[str]) -> str:
        word = self.text(node)
        if word not in choices:
            meant = did_you_mean(word, choices, limit=1) or f"use {listing(choices, 'or')}"
            self.fail(node.start_mark, f"unknown value `{word}`; {meant}")
        return word

    def choices(self, node: yaml.Node, choices: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.choice(item, choices) for item in self.items(node))

    def separators(self, node: yaml.Node) -> tuple[str, ...]:
        for item in self.items(node):
            if len(self.text(item)) != 1 and self.text(item) != BLANKS:
                self.fail(item.start_mark, f"a separator is one character, or the word {BLANKS}")
        return tuple(self.text(item) for item in self.items(node))

    def lines(self, node: yaml.Node) -> tuple[str, ...]:
        lines = self.choices(node, get_args(Line))
        if lines.count("names") != 1 or len(set(lines)) < len(lines):
            self.fail(node.start_mark, "a heading has one line of names, and at most one of groups and one of units")
        return lines

    def clocks(self, node: yaml.Node) -> tuple[Clock, ...]:
        return tuple(self.clock(item) for item in self.items(node))

    def clock(self, node: yaml.Node) -> Clock:
        given = self.mapping(node, ("columns", "format"), ("columns", "format"))
        for item in self.items(given["format"]):
            form = self.text(item)
            if form != SECONDS and not _FORMAT.fullmatch(form):
                self.fail(
                    item.start_mark,
                    f"`{form}` is no time format: write {SECONDS}, or a format of %Y %y %m %b %B %d %H %I %p %M %S %.f "
                    "%z and %Z, such as %Y-%m-%d %H:%M:%S%.f",
                )
        columns = tuple(self.pattern(item) for item in self.items(given["columns"]))
        return Clock(columns, self.texts(given["format"]))

    def rules(self, node: yaml.Node) -> tuple[Rule, ...]:
        return tuple(self.rule(item) for item in self.items(node))

    def rule(self, node: yaml.Node) -> Rule:
        given = self.mapping(node, ("match", "is", "name", "unit", "devices"), ("match", "is"))
        pattern = self.pattern(given["match"])
        meaning = cast(Meaning, self.choice(given["is"], get_args(Meaning)))
        words: dict[str, str] = {}
        for key in ("name", "unit"):
            if key in given:
                words[key] = self.filled(given[key])
                if any(int(group) > pattern.groups for group in re.findall(r"\\(\d+)", words[key])):
                    self.fail(given[key].start_mark, f"`match` has only {pattern.groups} groups in parentheses")
                if re.search(r"\\(?!\d)", words[key]):
                    self.fail(given[key].start_mark, "a backslash must be followed by the number of a group")
        if "devices" not in given:
            return Rule(pattern, meaning, words.get("name", ""), words.get("unit", ""))
        devices = given["devices"]
        if meaning != "device" or not isinstance(devices, yaml.MappingNode):
            self.fail(devices.start_mark, "`devices` gives names in place of a device's: {'-1': all}")
        renamed = {self.text(key): self.filled(value) for key, value in devices.value}
        return Rule(pattern, meaning, words.get("name", ""), words.get("unit", ""), MappingProxyType(renamed))


def _truth(reader: _Reader, node: yaml.Node) -> bool:
    return _WORDS_OF_TRUTH[reader.choice(node, list(_WORDS_OF_TRUTH))]


_KEYS: Mapping[str, tuple[str, Any]] = {
    "title": ("title", _Reader.filled),
    "recognise": ("recognise", _Reader.pattern),
    "suffixes": ("suffixes", _Reader.texts),
    "separator": ("separators", _Reader.separators),
    "heading": ("heading", _Reader.pattern),
    "lines": ("lines", _Reader.lines),
    "skip": ("skip", _Reader.pattern),
    "without": ("without", _Reader.pattern),
    "missing": ("missing", _Reader.pattern),
    "time": ("clocks", _Reader.clocks),
    "first row since boot": ("since_boot", _truth),
    "recording": ("recording", _Reader.pattern),
    "kind": ("kind", lambda reader, node: reader.choice(node, get_args(Kind))),
    "advice": ("advice", _Reader.filled),
    "columns": ("rules", _Reader.rules),
}
"""Keys of a recipe, each with the field of `Recipe` and the function that reads it."""
