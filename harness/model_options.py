"""What a model's author says beforehand, as `unperturbed model` is told it: a knowledge file and options of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.causal import Kind, read_definitions
from unperturbed.errors import SpecError
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position, nearest
from unperturbed.harness.spec.yamlpos import MAX_BYTES, Document, YamlPath, decode, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Said", "named_values", "names_of", "read_knowledge", "said_by_options"]

Arrow = tuple[str, str]

_ARROW = re.compile(r"\s*(?:->|→)\s*")


@dataclass(frozen=True)
class Said:
    """What was said of a model beforehand.

    Attributes
    ----------
    tiers : tuple of tuples of str
        In the order of causes.
    required, forbidden : tuple of (source, target)
    inputs, outputs : tuple of str
    kinds : mapping of str to Kind
    derived : mapping of str to str
        Expressions of derived variables.
    logarithms : tuple of str
        Variables of which the logarithm is analysed in their place.
    variables : tuple of str
        Those that are analysed; all, if none is named.
    source : str
        The knowledge file, for messages. Empty where there is none.
    places : mapping of str to Position
        Where the file speaks of a column first.
    """

    tiers: tuple[tuple[str, ...], ...] = ()
    required: tuple[Arrow, ...] = ()
    forbidden: tuple[Arrow, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    logarithms: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    source: str = ""
    places: Mapping[str, Position] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """Return the columns that are spoken of, each with what speaks of it first; expressions look after themselves."""
        found: dict[str, str] = {}
        lists: dict[str, Iterable[str]] = {
            "tiers": (name for tier in self.tiers for name in tier),
            "required": (name for edge in self.required for name in edge),
            "forbidden": (name for edge in self.forbidden for name in edge),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "kinds": self.kinds,
            "log": self.logarithms,
            "variables": self.variables,
        }
        for what, names in lists.items():
            for name in names:
                found.setdefault(name, what)
        return found

    def check_names(self, known: Sequence[str]) -> None:
        """Raise SpecError where a column is spoken of that there is not."""
        unknown = [(name, what) for name, what in self.names().items() if name not in known]
        if not unknown:
            return
        told = [(name, f"{what}: {_unknown(name, known)}") for name, what in unknown]
        places = [(self.places.get(name), message) for name, message in told]
        in_file = [Diagnostic(place, message) for place, message in places if place is not None]
        if in_file:
            raise InvalidSpec(self.source, in_file)
        raise SpecError("; ".join(message for _, message in told))

    def joined(self, later: Said) -> Said:
        """Return both together; tiers, variables, kinds and expressions of the later one stand before those here."""
        return Said(
            tiers=later.tiers or self.tiers,
            required=(*self.required, *later.required),
            forbidden=(*self.forbidden, *later.forbidden),
            inputs=tuple(dict.fromkeys((*self.inputs, *later.inputs))),
            outputs=tuple(dict.fromkeys((*self.outputs, *later.outputs))),
            kinds={**self.kinds, **later.kinds},
            derived={**self.derived, **later.derived},
            logarithms=tuple(dict.fromkeys((*self.logarithms, *later.logarithms))),
            variables=later.variables or self.variables,
            source=self.source,
            places=self.places,
        )


def _unknown(name: str, known: Sequence[str]) -> str:
    meant = nearest(name, known)
    return f"the table has no column {name!r}; {f'{meant!r} is meant?' if meant else 'its columns are ' + ', '.join(known)}"


def names_of(text: str, option: str) -> tuple[str, ...]:
    """Return names that commas separate; a name that holds a comma, a slash or an arrow stands in backquotes."""
    found = tuple(_bare(part, option) for part in _split(text, ","))
    for name in found:
        if found.count(name) > 1:
            raise SpecError(f"{option} {text}: {name} is named twice")
    return found


def named_values(text: str, option: str, example: str) -> dict[str, str]:
    """Return what `name=value,name=value` says."""
    found: dict[str, str] = {}
    for part in _split(text, ","):
        halves = _split(part, "=")
        if len(halves) != 2 or not all(half.strip() for half in halves):
            raise SpecError(f"{option} {text}: write NAME=VALUE, several separated by commas, as in {example}")
        name, value = (_bare(half, option) for half in halves)
        if name in found:
            raise SpecError(f"{option} {text}: {name} is given twice")
        found[name] = value
    return found


def said_by_options(
    *,
    derive: Sequence[str] = (),
    log: str | None = None,
    kinds: str | None = None,
    tiers: str | None = None,
    require: Sequence[str] = (),
    forbid: Sequence[str] = (),
    variables: str | None = None,
) -> Said:
    """Read the options of the command line; each is the text that was given.

    Raises
    ------
    SpecError
        One that cannot be read, with what to write.
    """
    found = Said(
        derived=read_definitions(derive),
        logarithms=names_of(log, "--log") if log else (),
        tiers=tuple(names_of(tier, "--tiers") for tier in _split(tiers, "/")) if tiers else (),
        required=tuple(_arrow(part, "--require") for text in require for part in _split(text, ",")),
        forbidden=tuple(_arrow(part, "--forbid") for text in forbid for part in _split(text, ",")),
        variables=names_of(variables, "--variables") if variables else (),
    )
    asked: dict[str, Kind] = {}
    for name, kind in (named_values(kinds, "--kinds", "optimisation=discrete,bytes=continuous") if kinds else {}).items():
        match kind:
            case "discrete" | "continuous":
                asked[name] = kind
            case _:
                raise SpecError(f"--kinds {kinds}: {name} is to be discrete or continuous, not {kind!r}")
    return replace(found, kinds=asked)


def _split(text: str, separator: str) -> list[str]:
    """Split a text where a separator stands outside backquotes; the backquotes stay."""
    parts = [""]
    for match in re.finditer(r"`[^`]*`|.", text, re.DOTALL):
        if match[0] == separator:
            parts.append("")
        else:
            parts[-1] += match[0]
    return parts


def _bare(text: str, option: str) -> str:
    name = text.strip()
    if len(name) > 2 and name[0] == name[-1] == "`":
        name = name[1:-1]
    if not name:
        raise SpecError(f"{option}: a name is missing between two separators, before the first or after the last")
    return name


def _arrow(text: str, option: str) -> Arrow:
    whole = re.fullmatch(r"\s*(`[^`]+`|.+?)\s*(?:->|→)\s*(`[^`]+`|.+?)\s*", text, re.DOTALL)
    if whole is None or (_ARROW.search(whole[2]) and not whole[2].startswith("`")):
        raise SpecError(f"{option} {text}: write CAUSE->EFFECT, in quotes, as the shell takes > for something else")
    return _bare(whole[1], option), _bare(whole[2], option)


def read_knowledge(path: Path) -> Said:
    """Read a knowledge file.

    Raises
    ------
    SpecError
        There is no such file.
    InvalidSpec
        It has faults: a line `file:line:column: message` for each.
    """
    if not path.is_file():
        raise SpecError(f"{path}: there is no such file; name the YAML file of what is known beforehand")
    with path.open("rb") as file:
        text = decode(file.read(MAX_BYTES + 1), str(path))
    return _File(str(path), read_yaml(text, str(path))).said()


class _File:
    """Turns a document into what it says; all its faults are told at once."""

    def __init__(self, name: str, document: Document) -> None:
        self._name = name
        self._document = document
        self._faults = list(document.diagnostics)
        self._places: dict[str, Position] = {}

    def said(self) -> Said:
        data = self._document.data
        readers = {
            "tiers": self._tiers,
            "required": self._arrows,
            "forbidden": self._arrows,
            "inputs": self._names,
            "outputs": self._names,
            "kinds": self._kinds,
            "derive": self._derived,
            "log": self._names,
            "variables": self._names,
        }
        if not isinstance(data, dict):
            self._fault((), f"a knowledge file is a mapping of {', '.join(readers)}")
            data = {}
        found: dict[str, Any] = {}
        for key, value in data.items():
            if key in readers:
                found[key] = readers[key](value, (key,))
            else:
                meant = nearest(key, readers)
                self._fault((key,), f"there is no key `{key}`; {f'`{meant}` is meant?' if meant else ', '.join(readers)}")
        if self._faults:
            raise InvalidSpec(self._name, self._faults)
        found["derived"] = found.pop("derive", {})
        found["logarithms"] = found.pop("log", ())
        return Said(**found, source=self._name, places=self._places)

    def _fault(self, path: YamlPath, message: str) -> None:
        place = self._document.places.get(path)
        self._faults.append(Diagnostic(place.value if place else Position(1, 1), message))

    def _items(self, value: Any, path: YamlPath) -> Iterator[tuple[Any, YamlPath]]:
        if isinstance(value, list):
            yield from ((item, (*path, number)) for number, item in enumerate(value))
        else:
            yield value, path

    def _name_at(self, value: Any, path: YamlPath) -> str | None:
        place = self._document.places.get(path)
        if isinstance(value, str) and value.strip():
            if place:
                self._places.setdefault(value, place.value)
            return value
        written = place.text if place else ""
        hint = f': quote it, "{written}"' if written and place and place.kind != "text" else ""
        self._fault(path, f"a column's name is wanted here{hint}")
        return None

    def _names(self, value: Any, path: YamlPath) -> tuple[str, ...]:
        found: list[str] = []
        for item, at in self._items(value, path):
            name = self._name_at(item, at)
            if name is None:
                continue
            if name in found:
                self._fault(at, f"{name} stands here a second time; remove one")
            found.append(name)
        return tuple(found)

    def _tiers(self, value: Any, path: YamlPath) -> tuple[tuple[str, ...], ...]:
        if not isinstance(value, list):
            self._fault(path, "tiers are a list of lists of names, causes first: [[n, datatype], [instr], [T]]")
            return ()
        return tuple(self._names(tier, (*path, number)) for number, tier in enumerate(value))

    def _arrows(self, value: Any, path: YamlPath) -> tuple[Arrow, ...]:
        found = []
        for item, at in self._items(value, path):
            try:
                arrow = _arrow(item, "") if isinstance(item, str) else None
            except SpecError:
                arrow = None
            if arrow is None:
                self._fault(at, "an edge is wanted here, the cause first: datatype -> C")
                continue
            for name in arrow:
                self._places.setdefault(name, self._document.places[at].value)
            found.append(arrow)
        return tuple(found)

    def _kinds(self, value: Any, path: YamlPath) -> dict[str, Kind]:
        if not isinstance(value, dict):
            self._fault(path, "kinds are a mapping: {bytes: continuous, optimisation: discrete}")
            return {}
        found: dict[str, Kind] = {}
        for name, kind in value.items():
            if kind not in ("discrete", "continuous"):
                self._fault((*path, name), "a kind is discrete or continuous")
                continue
            self._places.setdefault(name, self._document.places[*path, name].key)
            found[name] = kind
        return found

    def _derived(self, value: Any, path: YamlPath) -> dict[str, str]:
        if not isinstance(value, dict):
            self._fault(path, "derive is a mapping of names to expressions: {C_op: PAPI_TOT_CYC / operations}")
            return {}
        found = {}
        for name, text in value.items():
            place = self._document.places[*path, name]
            if isinstance(text, dict | list) or not place.text.strip():
                self._fault((*path, name), "an expression is wanted here; one with braces stands in quotes")
                continue
            found[name] = place.text
        return found
