"""Values of a parameter of a sweep: a list, a range, or a random draw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from unperturbed.harness.spec.model import AS_LIST, AS_MAPPING, ListOf, Section, reading

MOST_POINTS = 100_000
"""Points that a sweep may have."""

_RANGE = "write {from: 5, to: 300, step: 5}"
_BOUNDS = "write its least and its greatest value, as in [5, 300]"
_WIDEST = 2**63
_WORDS = {int: "numbers", float: "numbers", str: "text"}

Value = int | float | str
WAYS_TO_DRAW = ("uniform", "log_uniform", "choice")


@dataclass(frozen=True)
class Listed:
    """A parameter that takes each of some values, by a list or a range."""

    values: tuple[Value, ...]  # In the order of the spec


@dataclass(frozen=True)
class Chosen:
    """A parameter of which one of some values is drawn for each point, each as likely."""

    values: tuple[Value, ...]  # In the order of the spec


@dataclass(frozen=True)
class Between:
    """A parameter that is drawn between two bounds for each point: a whole number where both bounds are."""

    # low, high: The bounds, which may be drawn themselves where they are whole numbers.
    low: int | float
    high: int | float
    logarithmic: bool = False  # Each order of magnitude is as likely; else each value


def combinations(parameters: Mapping[str, Listed | Chosen | Between]) -> int:
    """Return how many combinations the listed values of parameters have."""
    return math.prod(len(values.values) for values in parameters.values() if isinstance(values, Listed))


def _number(value: Any) -> int | float:
    if _kind(value) != "a number":
        raise ValueError(f"a number is expected here, not {_kind(value)}")
    return _bounded(value)


def _value(value: Any) -> Value:
    kind = _kind(value)
    if kind == "a truth value":
        raise ValueError("a truth value is none of a parameter's: write 0 and 1, or quote the text")
    if kind == "an empty text":
        raise ValueError("this text is empty, and would be no word of a command")
    if kind not in ("a number", "a text"):
        raise ValueError(f"a number or a text is expected here, not {kind}")
    return value if kind == "a text" else _bounded(value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text" if value.strip() else "an empty text"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "nothing"


def _bounded(value: int | float) -> int | float:
    if isinstance(value, int) and not -_WIDEST <= value < _WIDEST:
        raise ValueError("this whole number has more than 64 bits")
    if not math.isfinite(value):
        raise ValueError("a finite number is expected here")
    return value


_Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
_OneValue = Annotated[Value, PlainValidator(_value), WithJsonSchema({"type": ["string", "number"]})]


def _alike(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Refuse a list that is not a column of a table."""
    if not values:
        raise ValueError("this list is empty: give the values that the parameter takes")
    if len({_WORDS[type(value)] for value in values}) > 1:
        raise ValueError(
            "numbers and text cannot be values of one parameter: quote the numbers, or write numbers alone"
        )
    seen: set[Value] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"`{value}` appears twice here")
        seen.add(value)
    return values


def _two_bounds(values: tuple[int | float, ...]) -> tuple[int | float, int | float]:
    if len(values) != 2:
        raise ValueError(f"two numbers are expected here, not {len(values)}: {_BOUNDS}")
    low, high = values
    if not low < high:
        raise ValueError(f"{low} is not less than {high}: {_BOUNDS}")
    return low, high


_Values = Annotated[
    tuple[Value, ...],
    reading(Annotated[tuple[_OneValue, ...], ListOf, Field(json_schema_extra={"minItems": 1})], _alike),
]
_Bounds = Annotated[
    tuple[int | float, int | float],
    reading(
        Annotated[tuple[_Number, ...], ListOf, Field(json_schema_extra={"minItems": 2, "maxItems": 2})], _two_bounds
    ),
]


class ParameterFields(Section):
    """Values of a parameter that are not listed: a range (`from`, `to`, `step`), or a draw (one of the other keys)."""

    from_: _Number | None = Field(default=None, alias="from", description="First value of a range.", examples=[5])
    to: _Number | None = Field(
        default=None,
        description="Upper end of a range. It is a value of the range if the steps reach it exactly.",
        examples=[300],
    )
    step: _Number | None = Field(default=None, description="Step of a range, 1 by default.", examples=[5])
    uniform: _Bounds | None = Field(
        default=None,
        description="Draw between two bounds, all values equally likely. If both bounds are whole numbers, whole "
        "numbers are drawn, the bounds included.",
        examples=[[5, 300]],
    )
    log_uniform: _Bounds | None = Field(
        default=None,
        description="Draw between two positive bounds, all orders of magnitude equally likely. If both bounds are "
        "whole numbers, whole numbers are drawn.",
        examples=[[1, 10000]],
    )
    choice: _Values | None = Field(
        default=None, description="Draw one of these values, all equally likely.", examples=[["float", "double"]]
    )


def _to_parameter(given: tuple[Value, ...] | ParameterFields) -> Listed | Chosen | Between:
    if isinstance(given, tuple):
        return Listed(given)
    keys = [
        field.alias or name for name, field in ParameterFields.model_fields.items() if getattr(given, name) is not None
    ]
    ways = [way for way in WAYS_TO_DRAW if way in keys]
    if not keys:
        raise ValueError(
            f"this says nothing of the parameter's values: list them, {_RANGE} for a range, or {{uniform: [5, 300]}} "
            "for a draw"
        )
    if len(ways) > 1 or (ways and len(keys) > 1):
        raise ValueError(f"`{keys[0]}` and `{keys[1]}` exclude each other: a parameter is a range or one draw")
    if given.uniform is not None:
        return Between(*given.uniform)
    if given.log_uniform is not None:
        if not given.log_uniform[0] > 0:
            raise ValueError(f"`log_uniform` needs bounds above 0, and the lower one is {given.log_uniform[0]}")
        return Between(*given.log_uniform, logarithmic=True)
    return Listed(_range(given)) if given.choice is None else Chosen(given.choice)


def _range(given: ParameterFields) -> tuple[Value, ...]:
    """Return the values of a range, exact as they are written: decimal fractions are not sums of binary ones."""
    if given.from_ is None or given.to is None:
        raise ValueError(f"a range has a `from` and a `to`: {_RANGE}")
    whole = all(isinstance(part, int) for part in (given.from_, given.to, given.step) if part is not None)
    first, last, step = (
        Decimal(repr(part)) for part in (given.from_, given.to, 1 if given.step is None else given.step)
    )
    if step <= 0:
        raise ValueError(f"the `step` of a range is above 0: {_RANGE}")
    if first > last:
        raise ValueError(f"the range begins at {given.from_}, above its end {given.to}: {_RANGE}")
    steps = int((last - first) / step)
    if steps >= MOST_POINTS:
        raise ValueError(
            f"the range has {steps + 1:,} values, and a sweep has at most {MOST_POINTS:,} points: widen its step"
        )
    exact = (first + step * number for number in range(steps + 1))
    return tuple(int(value) if whole else float(value) for value in exact)


def _choose(value: Any) -> str:
    return AS_MAPPING if isinstance(value, dict | ParameterFields) else AS_LIST


Parameter = Annotated[
    Listed | Chosen | Between,
    reading(
        Annotated[
            Annotated[_Values, Tag(AS_LIST)] | Annotated[ParameterFields, Tag(AS_MAPPING)], Discriminator(_choose)
        ],
        _to_parameter,
    ),
]
