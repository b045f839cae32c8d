"""The knowledge file of `unperturbed model`: YAML that says the same as the options, all its faults with their places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unperturbed.analysis.causal import Kind
from unperturbed.analysis.causal.expressions import check_syntax
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.model_options import Said
from unperturbed.harness.model_tables import Curve, Derivative, read_curve, read_derivative
from unperturbed.harness.model_words import Arrow, arrow
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position, nearest
from unperturbed.harness.spec.yamlpos import MAX_BYTES, Document, YamlPath, decode, read_yaml

__all__ = ["read_knowledge"]


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
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise SpecError(
            f"{path}: nothing is said in it; say what is known (tiers: [[n, datatype], [instr], [T]]), or leave --knowledge out"
        )
    return _File(str(path), read_yaml(text, str(path))).said()


class _File:
    """Turns a document into what it says; all its faults are told at once."""

    def __init__(self, name: str, document: Document) -> None:
        self._name = name
        self._document = document
        self._faults = list(document.diagnostics)
        self._places: dict[str, Position] = {}

    def said(self) -> Said:
        """Return what the document says, or raise all its faults."""
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
            "derivatives": self._derivatives,
            "curves": self._curves,
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
                ends = arrow(item, "") if isinstance(item, str) else None
            except SpecError:
                ends = None
            if ends is None:
                self._fault(at, "an edge is wanted here, the cause first: datatype -> C")
                continue
            for name in ends:
                self._places.setdefault(name, self._document.places[at].value)
            found.append(ends)
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
            try:
                check_syntax(place.text)
            except DataError as error:
                self._fault((*path, name), f"{name}: {error}")
                continue
            found[name] = place.text
        return found

    def _derivatives(self, value: Any, path: YamlPath) -> dict[str, Derivative]:
        if not isinstance(value, dict):
            self._fault(path, "derivatives are a mapping of names: {gain: d T / d kernel from 5/3 to 9/7}")
            return {}
        found = {}
        for name, text in value.items():
            place = self._document.places[*path, name]
            try:
                found[name] = read_derivative(str(text), str(name))
            except SpecError as error:
                self._fault((*path, name), str(error))
                continue
            for column in (found[name].of, found[name].over):
                self._places.setdefault(column, place.value)
        return found

    def _curves(self, value: Any, path: YamlPath) -> tuple[Curve, ...]:
        found = []
        for item, at in self._items(value, path):
            try:
                curve = read_curve(str(item), "curves")
            except SpecError as error:
                self._fault(at, str(error))
                continue
            for name in (curve.target, *curve.over, *curve.cells):
                self._places.setdefault(name, self._document.places[at].value)
            found.append(curve)
        return tuple(found)
