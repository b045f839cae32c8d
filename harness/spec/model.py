"""Building blocks of the spec's sections: strict base model, field markers, top-level keys, and the draft.

Rules that span several fields read the draft, not the model: a fault in one field must not hide faults in others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema, Strict
from pydantic_core import core_schema

from unperturbed.common.wording import nearest
from unperturbed.errors import SpecError
from unperturbed.harness.spec.yaml import Diagnostic, Document, Position, YamlPath

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec


class Section(BaseModel):
    """Base model of a mapping in the spec: immutable, strict, no unknown keys; a field's docstring describes it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True, slots=True)
class Because:
    """Field marker for `Annotated`: the reason for the bounds of a number.

    Attributes
    ----------
    reason : str
        A clause that messages and the reference show.
    """

    reason: str


class Mark(Enum):
    """Field marker for `Annotated`: how the field counts when two specs are compared."""

    MAY_CHANGE = "The field may change during a campaign: completed runs stay valid."
    ADDED_LATER = "The field was added later: its default is the earlier behaviour, so older campaigns can continue."


MAY_CHANGE, ADDED_LATER = Mark.MAY_CHANGE, Mark.ADDED_LATER


def marks_of(annotation: Any) -> tuple[Mark, ...]:
    """Return the marks in `Annotated[…]`, which a union with None would hide."""
    return tuple(mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Mark))


ListOf = Strict(False)  # Marks a tuple field: YAML has only lists
Frozen = AfterValidator(MappingProxyType)  # Makes a mapping read-only after validation
AS_TEXT, AS_MAPPING, AS_LIST, AS_NUMBER, AS_EVENTS = "<text>", "<mapping>", "<list>", "<number>", "<events>"
AS_CHOICE = "<true or false>"
UNION_TAGS = frozenset({AS_TEXT, AS_MAPPING, AS_LIST, AS_NUMBER, AS_EVENTS, AS_CHOICE})
"""Tags that pydantic inserts into the path of a value that may be of several types."""


def text_or_mapping(value: Any) -> str:
    """Return the tag of a text or a mapping, for pydantic's `Discriminator`."""
    return AS_MAPPING if isinstance(value, dict) else AS_TEXT


def text_or_number(value: Any) -> str:
    """Return the tag of a value that is a text or a number, for pydantic's `Discriminator`."""
    return AS_TEXT if isinstance(value, str) and not value.strip().isdecimal() else AS_NUMBER


def reading(source: Any, convert: Callable[[Any], Any]) -> GetPydanticSchema:
    """Return `Annotated` metadata to validate and describe a value as `source`, and convert it; an error is a fault."""

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except SpecError as error:
            raise ValueError(str(error)) from None

    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(checked, handler.generate_schema(source))
    )


def empty() -> Mapping[str, Any]:
    """Return an empty, read-only mapping, for defaults."""
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SpecKey:
    """Top-level key of the spec.

    The tool's own sections are the modules of `harness.spec.sections`. Another distribution adds a key through an entry
    point in the group `unperturbed.spec_keys`; if a spec has the key, its value is `CampaignSpec.extensions[name]`.

    Attributes
    ----------
    name : str
        Name of the key in the spec.
    type : type
        Type of the value: a subclass of `Section`, or another type that pydantic validates.
    help : str
        Meaning of the key, for the reference, the JSON Schema and messages. Messages show only the first sentence.
    rules : callable, optional
        Function that checks rules across fields and reports faults to the `Draft` passed to it; called for every spec.
    required : bool, default False
        Whether every spec must have the key.
    default : callable, optional
        Function that returns the value if a spec does not have the key.
    examples : tuple, default ()
        Example values, for the reference and editors.
    sample : str, default ""
        YAML text of the key, for the complete example in the reference.
    notes : str, default ""
        Rules that span several keys, for the reference: items of a Markdown list.
    """

    name: str
    type: Any
    help: str
    rules: Callable[[Draft], None] | None = None
    required: bool = False
    default: Callable[[], Any] | None = None
    examples: tuple[Any, ...] = ()
    sample: str = field(default="", repr=False)
    notes: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.type, type) and issubclass(self.type, BaseModel) and not issubclass(self.type, Section):
            raise TypeError(f"the model of spec key {self.name} must derive from unperturbed.harness.spec.Section")

    def as_field(self, alias: str | None = None) -> Any:
        """Return a model field for the key; `alias` is the key's name, if the field's name differs."""
        default: dict[str, Any] = {} if self.default is None else {"default_factory": self.default}
        if self.default is None and not self.required:
            default = {"default": None}
        return Field(alias=alias, description=self.help, examples=list(self.examples) or None, **default)


_MOST_FAULTS_WITH_ADVICE = 200
_ALIKE = 86  # Minimum similarity of a name to suggest: `env` and `environment` reach it


class Draft:
    """A YAML document, its folder, and the faults found so far.

    A value that is missing or has the wrong type counts as absent: the model reports such faults.

    Parameters
    ----------
    document : Document
        The parsed YAML.
    folder : Path
        Folder that relative paths in the spec start from.
    recorded : bool, default False
        Whether a campaign recorded the spec and thus validated it: its files may no longer exist.

    Attributes
    ----------
    faults : list of Diagnostic
        The faults found so far.
    spec : CampaignSpec or None
        The validated model; None if any field has a fault.
    """

    def __init__(self, document: Document, folder: Path, *, recorded: bool = False) -> None:
        self.document = document
        self.folder = folder
        self.recorded = recorded
        self.faults: list[Diagnostic] = list(document.diagnostics)
        self.spec: CampaignSpec | None = None

    def value(self, *path: str | int) -> Any:
        """Return the value at a path, or None."""
        node = self.document.data
        for part in path:
            if isinstance(node, dict):
                node = node.get(part)
            elif isinstance(node, list) and isinstance(part, int) and part < len(node):
                node = node[part]
            else:
                return None
        return node

    def has(self, *path: str | int) -> bool:
        """Return whether the document has a value at a path, valid or not."""
        return path in self.document.places

    def text(self, *path: str | int) -> str | None:
        """Return the text at a path, or None."""
        value = self.value(*path)
        return value if isinstance(value, str) and value.strip() else None

    def texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield the path and text of each item of a list."""
        value = self.value(*path)
        for index in range(len(value) if isinstance(value, list) else 0):
            item = self.text(*path, index)
            if item is not None:
                yield (*path, index), item

    def distinct_texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield the path and text of each distinct item of a list, and report duplicates."""
        seen: set[str] = set()
        for place, text in self.texts(*path):
            if text in seen:
                self.report(place, f"`{text}` appears twice in this list: remove the duplicate")
            else:
                yield place, text
            seen.add(text)

    def keys(self, *path: str | int) -> dict[str, YamlPath]:
        """Return the keys of a mapping, each with the path of its value."""
        value = self.value(*path)
        return {key: (*path, key) for key in value} if isinstance(value, dict) else {}

    def nearest(self, word: str, known: Iterable[str], preferred: Sequence[str] = ()) -> str | None:
        """Return the most similar known word, or None; after many faults always None, to save time.

        `preferred`: Words that win, in this order, if several are equally similar.
        """
        if len(self.faults) >= _MOST_FAULTS_WITH_ADVICE:
            return None
        return next(iter(nearest(word, known, limit=1, cutoff=_ALIKE, preferred=preferred)), None)

    def did_you_mean(self, word: str, known: Iterable[str], *, before: str = "", after: str = "") -> str:
        """Return ``did you mean `x`?``, with texts before and after x; an empty string if no known word is similar."""
        meant = self.nearest(word, known)
        return f"did you mean `{before}{meant}{after}`?" if meant is not None else ""

    def key_position(self, path: YamlPath) -> Position:
        """Return the position of a value's key, or of the nearest enclosing key that exists."""
        while path not in self.document.places:
            path = path[:-1]
        return self.document.places[path].key

    def report_key(self, path: YamlPath, message: str) -> None:
        """Report a fault at the key of a value."""
        self.faults.append(Diagnostic(self.key_position(path), message))

    def report(self, path: YamlPath, message: str) -> None:
        """Report a fault at a value."""
        place = self.document.places.get(path)
        self.faults.append(Diagnostic(place.value if place else self.key_position(path), message))
