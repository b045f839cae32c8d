"""Prior knowledge of a causal model, from a YAML file, options or both; and the syntax of the options.

A name that contains a character of the syntax must be in backquotes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from unperturbed.analysis.causal import Kind, read_definitions
from unperturbed.common.expressions.syntax import check_syntax
from unperturbed.common.wording import nearest
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.spec.yaml import (
    MAX_BYTES,
    Diagnostic,
    Document,
    InvalidSpec,
    Position,
    YamlPath,
    decode,
    read_yaml,
)

Arrow = tuple[str, str]
"""A cause and its effect."""

_ARROW = re.compile(r"\s*(?:->|→)\s*")
_DERIVATIVE = re.compile(
    r"\s*(?:d\s+|∂\s*)(`[^`]+`|.+?)\s*/\s*(?:d\s+|∂\s*)(`[^`]+`|.+?)(?:\s+from\s+(`[^`]+`|.+?)\s+to\s+(`[^`]+`|.+?))?\s*",
    re.DOTALL,
)
_CURVE_WANTED = "write TARGET over NUMBER in DISCRETE, as in 'L2M_op over n in datatype'; separate names by commas"
_DERIVATIVE_WANTED = (
    "write NAME = d COLUMN / d PARAMETER, as in 'gain = d T / d kernel', or 'gain = d T / d kernel from 5/3 to 9/7'"
)


@dataclass(frozen=True)
class DerivativeOption:
    """Partial derivative with all other parameters held constant."""

    of: str  # The column to differentiate
    over: str  # The parameter
    between: tuple[str, str] | None = None  # Two values of the parameter, as text


@dataclass(frozen=True)
class CurveOption:
    """Curve of a variable over numbers, with one curve in each cell of discrete variables."""

    target: str
    over: tuple[str, ...]
    cells: tuple[str, ...]


def with_option_names(words: str) -> str:
    """Rewrite an error that names Python arguments so that it names command-line options."""
    words = re.sub(r'kinds=\{"(.+?)": "(\w+)"\}', r"--kinds \1=\2", words.replace('missing="drop"', "--missing drop"))
    return re.sub(r"between=\((['\"])(.+?)\1, (['\"])(.+?)\3\)", r"from \2 to \4", words)


def names_of(text: str, option: str) -> tuple[str, ...]:
    """Split a list of names at commas; a name with a comma, a slash or an arrow must be in backquotes."""
    names = tuple(unquote(part, option) for part in split(text, ","))
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"{option} {text}: {name} is named twice: name it only once")
    return names


def named_values(text: str, option: str, example: str) -> dict[str, str]:
    """Read `name=value,name=value`; return the values by name."""
    values: dict[str, str] = {}
    for part in split(text, ","):
        halves = split(part, "=")
        if len(halves) != 2 or not all(half.strip() for half in halves):
            raise SpecError(f"{option} {text}: write NAME=VALUE pairs, separated by commas, as in {example}")
        name, value = (unquote(half, option) for half in halves)
        if name in values:
            raise SpecError(f"{option} {text}: {name} has two values: keep only one of them")
        values[name] = value
    return values


def split(text: str, separator: str) -> list[str]:
    """Split a text at a separator outside backquotes, which stay; a separator that is a word must be between blanks."""
    apart = rf"\s+{separator}\s+" if separator.isalpha() else re.escape(separator)
    parts = [""]
    for match in re.finditer(rf"`[^`]*`|(?P<apart>{apart})|.", text, re.DOTALL):
        if match["apart"] is not None:
            parts.append("")
        else:
            parts[-1] += match[0]
    return parts


def unquote(text: str, option: str) -> str:
    """Return a name without blanks around it, and without its backquotes."""
    name = text.strip()
    if len(name) > 2 and name[0] == name[-1] == "`":
        name = name[1:-1]
    if not name:
        raise SpecError(
            f"{option}: a name is missing before or after a separator: add the name, or remove the separator"
        )
    return name


def read_arrow(text: str, option: str) -> Arrow:
    """Read an edge, CAUSE->EFFECT; return its ends."""
    whole = re.fullmatch(r"\s*(`[^`]+`|.+?)\s*(?:->|→)\s*(`[^`]+`|.+?)\s*", text, re.DOTALL)
    if whole is None or (_ARROW.search(whole[2]) and not whole[2].startswith("`")):
        raise SpecError(f"{option} {text}: write CAUSE->EFFECT in quotes, since the shell treats > as redirection")
    return unquote(whole[1], option), unquote(whole[2], option)


def read_derivative(text: str, option: str) -> DerivativeOption:
    """Read `d COLUMN / d PARAMETER`, optionally followed by `from VALUE to VALUE`; raise SpecError for other text."""
    whole = _DERIVATIVE.fullmatch(text)
    if whole is None:
        raise SpecError(f"{option} {text.strip()}: {_DERIVATIVE_WANTED}")
    ends = (unquote(whole[3], option), unquote(whole[4], option)) if whole[3] else None
    return DerivativeOption(unquote(whole[1], option), unquote(whole[2], option), ends)


def read_curve(text: str, option: str) -> CurveOption:
    """Read `TARGET over NAMES in NAMES`; raise SpecError for other text."""
    halves = split(f" {text} ", "over")
    ends = split(halves[1], "in") if len(halves) == 2 else []
    if len(ends) != 2 or not all(part.strip() for part in (halves[0], *ends)):
        raise SpecError(f"{option} {text.strip()}: {_CURVE_WANTED}")
    return CurveOption(unquote(halves[0], option), names_of(ends[0], option), names_of(ends[1], option))


_KINDS = ("discrete", "continuous")
_NO_NAME = "expected a column's name"
_T = TypeVar("_T")


def _fault(message: str) -> PydanticCustomError:
    return PydanticCustomError("knowledge", "{message}", {"message": message})


def _read_each(items: Iterable[tuple[str | int, Any]], read: Callable[[Any, Any], _T]) -> dict[Any, _T]:
    """Read each key and value, and return the results by key; report all faults, each at its key."""
    results: dict[Any, _T] = {}
    faults = []
    for key, value in items:
        try:
            results[key] = read(key, value)
        except (PydanticCustomError, SpecError, DataError) as error:
            custom = error if isinstance(error, PydanticCustomError) else _fault(str(error))
            faults.append(InitErrorDetails(type=custom, loc=(key,), input=value))
    if faults:
        raise ValidationError.from_exception_data("knowledge", faults)
    return results


def _read_list(value: Any, read: Callable[[Any], _T]) -> tuple[_T, ...]:
    """Read each item of a list, and return the results; a single value stands for a list of one."""
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(_read_each(enumerate(items), lambda _, item: read(item)).values())


def _mapping(value: Any, otherwise: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise _fault(otherwise)
    return value.items()


def _read_names(value: Any) -> tuple[str, ...]:
    seen: set[str] = set()

    def read(name: Any) -> str:
        if not (isinstance(name, str) and name.strip()):
            raise _fault(_NO_NAME)
        if name in seen:
            raise _fault(f"{name} appears twice in this list; name it only once")
        seen.add(name)
        return name

    return _read_list(value, read)


def _require_list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _fault("`tiers` must be a list of lists of names, causes first: [[n, datatype], [instr], [T]]")
    return value


def _read_arrows(value: Any) -> tuple[Arrow, ...]:
    def read(edge: Any) -> Arrow:
        try:
            return edge if isinstance(edge, tuple) else read_arrow(edge, "")
        except (SpecError, TypeError):
            raise _fault("expected an edge, the cause first: datatype -> C") from None

    return _read_list(value, read)


def _read_kinds(value: Any) -> dict[str, Kind]:
    def read(_: object, kind: Any) -> Kind:
        if kind not in _KINDS:
            raise _fault("the kind must be `discrete` or `continuous`")
        known: Kind = kind
        return known

    return _read_each(_mapping(value, "`kinds` must be a mapping: {bytes: continuous, optimisation: discrete}"), read)


def _read_derived(value: Any) -> dict[str, str]:
    def read(name: object, text: Any) -> str:
        if isinstance(text, dict | list) or not str(text).strip():
            raise _fault("expected an expression: quote the expression if it contains braces")
        try:
            check_syntax(str(text))
        except DataError as error:
            raise _fault(f"{name}: {error}") from None
        return str(text)

    otherwise = "`derive` must be a mapping of names to expressions: {C_op: PAPI_TOT_CYC / operations}"
    return _read_each(_mapping(value, otherwise), read)


def _read_derivatives(value: Any) -> dict[str, DerivativeOption]:
    def read(name: object, text: Any) -> DerivativeOption:
        return text if isinstance(text, DerivativeOption) else read_derivative(str(text), str(name))

    otherwise = "`derivatives` must be a mapping of names to derivatives: {gain: d T / d kernel from 5/3 to 9/7}"
    return _read_each(_mapping(value, otherwise), read)


def _read_curves(value: Any) -> tuple[CurveOption, ...]:
    return _read_list(value, lambda text: text if isinstance(text, CurveOption) else read_curve(str(text), "curves"))


_Names = Annotated[tuple[str, ...], BeforeValidator(_read_names)]
_Arrows = Annotated[tuple[Arrow, ...], BeforeValidator(_read_arrows)]


class PriorKnowledge(BaseModel):
    """Prior knowledge of a model; its fields are the keys of a knowledge file, and are also options."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    tiers: Annotated[tuple[_Names, ...], BeforeValidator(_require_list)] = ()  # Columns in causal order
    required: _Arrows = ()  # Edges, the cause first
    forbidden: _Arrows = ()
    inputs: _Names = ()  # Columns that nothing causes
    outputs: _Names = ()  # Columns that cause nothing
    # Kinds that differ from the inferred ones.
    kinds: Annotated[dict[str, Kind], BeforeValidator(_read_kinds)] = Field(default_factory=dict)
    # Expressions of derived variables.
    derive: Annotated[dict[str, str], BeforeValidator(_read_derived)] = Field(default_factory=dict)
    log: _Names = ()  # Columns to replace by their logarithms
    variables: _Names = ()  # Columns to analyse; empty for all
    # Partial derivatives: the rows are then the steps of their parameter.
    derivatives: Annotated[dict[str, DerivativeOption], BeforeValidator(_read_derivatives)] = Field(
        default_factory=dict
    )
    # Curves whose parameters are variables: the rows are then cells.
    curves: Annotated[tuple[CurveOption, ...], BeforeValidator(_read_curves)] = ()
    _file: str = PrivateAttr(default="")
    _positions: dict[str, Position] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> str:
        """The knowledge file, for messages; empty if there is none."""
        return self._file

    def mentions(self) -> Iterator[tuple[YamlPath, str]]:
        """Yield each named column with its path in the file, without those in expressions, which are checked later."""
        for number, tier in enumerate(self.tiers):
            yield from ((("tiers", number, at), name) for at, name in enumerate(tier))
        for key in ("required", "forbidden"):
            yield from (((key, number), name) for number, edge in enumerate(getattr(self, key)) for name in edge)
        for key in ("inputs", "outputs", "kinds", "log"):
            named = getattr(self, key)
            yield from (((key, name if key == "kinds" else number), name) for number, name in enumerate(named))
        for name, derivative in self.derivatives.items():
            yield from ((("derivatives", name), column) for column in (derivative.of, derivative.over))
        for number, curve in enumerate(self.curves):
            yield from ((("curves", number), name) for name in (curve.target, *curve.over, *curve.cells))
        yield from ((("variables", number), name) for number, name in enumerate(self.variables))

    def check_names(self, known: Sequence[str]) -> None:
        """Raise SpecError if the knowledge names columns that do not exist."""
        unknown: dict[str, str] = {}
        for path, name in self.mentions():
            if name not in known:
                meant = nearest(name, known, limit=1, cutoff=80)
                rest = f"did you mean {meant[0]!r}?" if meant else f"the columns are {', '.join(known)}"
                unknown.setdefault(name, f"`{path[0]}`: the table has no column {name!r}; {rest}")
        in_file = [Diagnostic(self._positions[name], unknown[name]) for name in unknown if name in self._positions]
        if in_file:
            raise InvalidSpec(self._file, in_file)
        if unknown:
            raise SpecError("; ".join(unknown.values()))

    def joined(self, later: PriorKnowledge) -> PriorKnowledge:
        """Combine two sets of knowledge: lists are joined; entries, tiers and variables of the later one win."""

        def both(key: str) -> Any:
            first, second = getattr(self, key), getattr(later, key)
            if key in ("tiers", "variables"):
                return second or first
            return {**first, **second} if isinstance(first, dict) else tuple(dict.fromkeys((*first, *second)))

        combined = PriorKnowledge(**{key: both(key) for key in PriorKnowledge.model_fields})
        combined._file, combined._positions = self._file, self._positions
        return combined


def read_knowledge(path: Path) -> PriorKnowledge:
    """Read a knowledge file."""
    if not path.is_file():
        raise SpecError(f"{path}: no such file: give a YAML file of prior knowledge")
    with path.open("rb") as file:
        text = decode(file.read(MAX_BYTES + 1), str(path))
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise SpecError(
            f"{path}: the file is empty, or has only comments: write prior knowledge into it, as in "
            "`tiers: [[n, datatype], [instr], [T]]`, or leave --knowledge out"
        )
    document = read_yaml(text, str(path))
    faults = list(document.diagnostics)
    if not isinstance(document.data, dict):
        keys = ", ".join(PriorKnowledge.model_fields)
        faults.append(Diagnostic(_position(document, ()), f"a knowledge file must be a mapping with keys from {keys}"))
        raise InvalidSpec(str(path), faults)
    try:
        knowledge = PriorKnowledge.model_validate({**document.data, **_expressions_as_written(document)})
    except ValidationError as error:
        faults += [_diagnostic(document, detail["loc"], detail["type"], detail["msg"]) for detail in error.errors()]
    if faults:
        raise InvalidSpec(str(path), faults)
    knowledge._file = str(path)
    for where, name in knowledge.mentions():
        at = _position(document, where, key=where[0] == "kinds")
        knowledge._positions[name] = min(at, knowledge._positions.get(name, at))
    return knowledge


def _expressions_as_written(document: Document) -> dict[str, Any]:
    """Return derived variables as written, because YAML reads `2` as a number and `n: yes` as a truth value."""
    derived = document.data.get("derive")
    if not isinstance(derived, dict):
        return {}
    texts = {
        name: text if isinstance(text, dict | list) else document.places["derive", name].text
        for name, text in derived.items()
    }
    return {"derive": texts}


def _position(document: Document, path: YamlPath, *, key: bool = False) -> Position:
    """Return the position of a value; a single value that stands for a list has the position of the list."""
    while path and path not in document.places:
        path = path[:-1]
    place = document.places.get(path)
    return Position(1, 1) if place is None else place.key if key else place.value


def _diagnostic(document: Document, path: YamlPath, kind: str, message: str) -> Diagnostic:
    if kind == "extra_forbidden":
        keys = list(PriorKnowledge.model_fields)
        meant = nearest(str(path[-1]), keys, limit=1, cutoff=80)
        message = f"unknown key `{path[-1]}`; " + (f"did you mean `{meant[0]}`?" if meant else f"use {', '.join(keys)}")
    elif message == _NO_NAME:
        place = next((document.places[where] for where in (path, path[:-1]) if where in document.places), None)
        if place is not None and place.text and place.kind != "text":
            message += f': quote it, "{place.text}"'
    return Diagnostic(_position(document, path), message)


def parse_options(given: argparse.Namespace) -> PriorKnowledge:
    """Return the prior knowledge that command-line options state."""

    def names(option: str) -> tuple[str, ...]:
        text = getattr(given, option)
        return names_of(text, f"--{option}") if text else ()

    def arrows(option: str) -> tuple[Arrow, ...]:
        texts = getattr(given, option)
        return tuple(read_arrow(part, f"--{option}") for text in texts for part in split(text, ","))

    kinds = named_values(given.kinds, "--kinds", "optimisation=discrete,bytes=continuous") if given.kinds else {}
    for name, kind in kinds.items():
        if kind not in _KINDS:
            raise SpecError(
                f"--kinds {given.kinds}: the kind of {name} must be `discrete` or `continuous`, not {kind!r}"
            )
    derivatives: dict[str, DerivativeOption] = {}
    for text in given.derivative:
        before, *rest = split(text, "=")
        if not rest:
            raise SpecError(f"--derivative {text}: {_DERIVATIVE_WANTED}")
        name, derivative = unquote(before, "--derivative"), read_derivative("=".join(rest), "--derivative")
        if derivatives.setdefault(name, derivative) is not derivative:
            raise SpecError(f"--derivative {text}: {name} is given twice: give each derivative a different name")
    return PriorKnowledge(
        derive=read_definitions(given.derive),
        log=names("log"),
        tiers=tuple(names_of(tier, "--tiers") for tier in split(given.tiers, "/")) if given.tiers else (),
        required=arrows("require"),
        forbidden=arrows("forbid"),
        inputs=names("inputs"),
        outputs=names("outputs"),
        variables=names("variables"),
        kinds=dict(kinds),  # type: ignore[arg-type]  # checked above
        derivatives=derivatives,
        curves=tuple(read_curve(text, "--curve") for text in given.curve),
    )
