"""What the models of the spec share: a strict base, marks of fields, and the record of a top-level key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema, Strict
from pydantic_core import core_schema

if TYPE_CHECKING:
    from unperturbed.harness.spec.draft import Draft


class Section(BaseModel):
    """A mapping of the spec: immutable, strict, without unknown keys.

    Type, default and examples of each `Field`, and its `description` or the text below it, are all that messages, JSON
    Schema and reference need.
    """

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

ListOf = Strict(False)
"""Marks a tuple: YAML has lists only."""
Frozen = AfterValidator(MappingProxyType)
"""Marks a mapping: nobody changes it afterwards."""

AS_TEXT, AS_MAPPING, AS_LIST = "<text>", "<mapping>", "<list>"
UNION_TAGS = frozenset({AS_TEXT, AS_MAPPING, AS_LIST})
"""What pydantic adds to the path of a value that may be a text, a list or a mapping."""


def text_or_mapping(value: Any) -> str:
    """Return the tag of a value that is a text or a mapping, for pydantic's `Discriminator`."""
    return AS_MAPPING if isinstance(value, dict) else AS_TEXT


def reading(source: Any, convert: Callable[[Any], Any]) -> GetPydanticSchema:
    """Read YAML as one type, then convert it to another.

    `source`: What the YAML holds; the JSON Schema is that of this type.
    `convert`: Takes such a value and returns another. A ValueError's text is the message of a fault.
    """
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(convert, handler.generate_schema(source))
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
            raise TypeError(f"the model of the key {self.name} derives from unperturbed.harness.spec.Section")

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
        examples = list(self.examples) or None
        if self.required:
            return Field(alias=alias, description=self.help, examples=examples)
        if self.default is None:
            return Field(default=None, alias=alias, description=self.help, examples=examples)
        default = self.default()  # a mapping's fields have defaults of their own
        return Field(
            default_factory=self.default,
            alias=alias,
            description=self.help,
            examples=examples,
            json_schema_extra={"default": default if isinstance(default, int | str) else {}},
        )
