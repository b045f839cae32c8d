"""Base of the spec's sections: a strict base, marks of fields, the record of a top-level key, and the draft.

Rules that span several fields ask the draft and not the model, so that a fault in one field hides none in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """A mapping of the spec: immutable, strict, without unknown keys; the text below a field is its description."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True, slots=True)
class Because:
    """Marks a field, in `Annotated`: the reason for the bounds of its number.

    Attributes
    ----------
    reason : str
        A clause, for messages and the reference.
    """

    reason: str


class Mark(Enum):
    """Marks a field, in `Annotated`: how it counts when two specs are compared."""

    MAY_CHANGE = "A campaign goes on when it changes: the runs that are made stay what they are."
    ADDED_LATER = "At its default it means what there was before it, and campaigns of then go on."


MAY_CHANGE, ADDED_LATER = Mark.MAY_CHANGE, Mark.ADDED_LATER

ListOf = Strict(False)  # Marks a tuple: YAML has lists only
Frozen = AfterValidator(MappingProxyType)  # Marks a mapping: nobody changes it afterwards
AS_TEXT, AS_MAPPING, AS_LIST, AS_NUMBER = "<text>", "<mapping>", "<list>", "<number>"
UNION_TAGS = frozenset({AS_TEXT, AS_MAPPING, AS_LIST, AS_NUMBER})
"""Names that pydantic adds to the path of a value that may be a text, a list or a mapping."""


def text_or_mapping(value: Any) -> str:
    """Return the tag of a value that is a text or a mapping, for pydantic's `Discriminator`."""
    return AS_MAPPING if isinstance(value, dict) else AS_TEXT


def text_or_number(value: Any) -> str:
    """Return the tag of a value that is a text or a number, for pydantic's `Discriminator`."""
    return AS_TEXT if isinstance(value, str) and not value.strip().isdecimal() else AS_NUMBER


def reading(source: Any, convert: Callable[[Any], Any]) -> GetPydanticSchema:
    """Read YAML as `source`, whose JSON Schema it has, then convert it; a ValueError or SpecError is a fault."""

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except SpecError as error:
            raise ValueError(str(error)) from None

    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(checked, handler.generate_schema(source))
    )


def empty() -> Mapping[str, Any]:
    """Return an empty mapping that cannot be changed, for defaults."""
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SpecKey:
    """A key at the top of the spec.

    The keys of the tool are the modules of `harness.spec.sections`. Another distribution adds one by an entry point in
    the group `unperturbed.spec_keys`; its value is `CampaignSpec.extensions[name]`, where the spec has it.

    Attributes
    ----------
    name : str
        As the spec has it.
    type : type
        What it holds: a model that derives from `Section`, or another type that pydantic validates.
    help : str
        Its meaning, for the reference, the JSON Schema and messages. The first sentence stands alone.
    rules : callable, optional
        Reports faults that no field has by itself, to the `Draft` that it is given; called for every spec.
    required : bool, default False
        Whether every spec has the key.
    default : callable, optional
        Makes the value of a spec that does not have the key.
    examples : tuple, default ()
        Values, for the reference and editors.
    sample : str, default ""
        The key in the reference's example, as YAML.
    notes : str, default ""
        What the reference says of rules that span several keys: items of a Markdown list.
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
            raise TypeError(f"the model of the key {self.name} must derive from unperturbed.harness.spec.Section")

    def as_field(self, alias: str | None = None) -> Any:
        """Return the key as a field of a model.

        Parameters
        ----------
        alias : str, optional
            The key's name, where the field has another.

        Returns
        -------
        FieldInfo
            Typed as anything, as pydantic's `Field` is.
        """
        default: dict[str, Any] = {} if self.default is None else {"default_factory": self.default}
        if self.default is None and not self.required:
            default = {"default": None}
        return Field(alias=alias, description=self.help, examples=list(self.examples) or None, **default)


_MOST_FAULTS_WITH_ADVICE = 200
_ALIKE = 86  # How alike two names must be that one may be meant by the other: `env` and `environment` are


class Draft:
    """A document, the folder it is in, and the faults found so far.

    Whatever is missing or of another type than the one asked for counts as not there; the model's own check has a
    message for that.

    Parameters
    ----------
    document : Document
        The YAML.
    folder : Path
        Where relative paths in the spec start.
    recorded : bool, default False
        Whether the spec was validated when its campaign was run: files need not be there any more.

    Attributes
    ----------
    faults : list of Diagnostic
        The faults found so far.
    spec : CampaignSpec or None
        The validated model; None where fields have faults.
    """

    def __init__(self, document: Document, folder: Path, *, recorded: bool = False) -> None:
        self.document = document
        self.folder = folder
        self.recorded = recorded
        self.faults: list[Diagnostic] = list(document.diagnostics)
        self.spec: CampaignSpec | None = None

    def value(self, *path: str | int) -> Any:
        """Return the value at a path, or None."""
        found = self.document.data
        for part in path:
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def has(self, *path: str | int) -> bool:
        """Return whether there is a value at a path, right or wrong."""
        return path in self.document.places

    def text(self, *path: str | int) -> str | None:
        """Return the text at a path."""
        found = self.value(*path)
        return found if isinstance(found, str) and found.strip() else None

    def texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield path and text of each item of a list."""
        found = self.value(*path)
        for index in range(len(found) if isinstance(found, list) else 0):
            item = self.text(*path, index)
            if item is not None:
                yield (*path, index), item

    def distinct_texts(self, *path: str | int) -> Iterator[tuple[YamlPath, str]]:
        """Yield path and text of each item of a list, and report those that appear a second time."""
        seen: set[str] = set()
        for place, text in self.texts(*path):
            if text in seen:
                self.report(place, f"`{text}` appears twice here")
            else:
                yield place, text
            seen.add(text)

    def keys(self, *path: str | int) -> dict[str, YamlPath]:
        """Return the keys of a mapping, each with the path of its value."""
        found = self.value(*path)
        return {key: (*path, key) for key in found} if isinstance(found, dict) else {}

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """Return the nearest known word, if any; after many faults none, as it takes time and nobody reads on."""
        if len(self.faults) >= _MOST_FAULTS_WITH_ADVICE:
            return None
        return next(iter(nearest(word, known, limit=1, cutoff=_ALIKE)), None)

    def did_you_mean(self, word: str, known: Iterable[str], *, before: str = "", after: str = "") -> str:
        """Return ``did you mean `x`?``, or an empty text where no known word is near.

        Parameters
        ----------
        word : str
            What the spec has.
        known : iterable of str
            What it may have.
        before, after : str, default ""
            What surrounds the known word in the message.

        Returns
        -------
        str
            For the end of a message.
        """
        meant = self.nearest(word, known)
        return f"did you mean `{before}{meant}{after}`?" if meant is not None else ""

    def key_position(self, path: YamlPath) -> Position:
        """Return the position of a value's key; of the nearest one above, when it is not there."""
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
