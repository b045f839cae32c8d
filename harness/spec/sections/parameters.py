"""`parameters`: what a sweep varies, rules on what is drawn and used and has no meaning in a sweep, and its points."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.harness.spec.model import (
    ADDED_LATER,
    AS_LIST,
    AS_MAPPING,
    Draft,
    Frozen,
    ListOf,
    Section,
    SpecKey,
    empty,
    reading,
)
from unperturbed.harness.spec.sections.program import templates
from unperturbed.harness.spec.text import OF_PARAMETERS, PARAMETER, PARAMETER_PATTERN, ParameterName, find_placeholders
from unperturbed.harness.spec.yaml import YamlPath

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

MOST_POINTS = 100_000  # Points that a sweep may have
_RANGE = "write {from: 5, to: 300, step: 5}"
_BOUNDS = "write its lowest and highest value, as in [5, 300]"
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
        raise ValueError(f"expected a number, not {_kind(value)}")
    return _bounded(value)


def _value(value: Any) -> Value:
    kind = _kind(value)
    if kind == "a truth value":
        raise ValueError("a parameter cannot be true or false: write 0 and 1, or quote the text")
    if kind == "an empty text":
        raise ValueError("empty text cannot be a word of a command")
    if kind not in ("a number", "a text"):
        raise ValueError(f"expected a number or a text, not {kind}")
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
        raise ValueError("a whole number may have at most 64 bits")
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


_Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
_OneValue = Annotated[Value, PlainValidator(_value), WithJsonSchema({"type": ["string", "number"]})]


def _alike(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Refuse a list that is not a column of a table."""
    if not values:
        raise ValueError("this list is empty: give the values that the parameter takes")
    if len({_WORDS[type(value)] for value in values}) > 1:
        raise ValueError("a parameter cannot mix numbers and text: quote the numbers, or write numbers alone")
    seen: set[Value] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"`{value}` appears twice here")
        seen.add(value)
    return values


def _two_bounds(values: tuple[int | float, ...]) -> tuple[int | float, int | float]:
    if len(values) != 2:
        raise ValueError(f"expected two numbers, not {len(values)}: {_BOUNDS}")
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

    from_: _Number | None = Field(default=None, alias="from", examples=[5])
    """First value of a range."""
    to: _Number | None = Field(default=None, examples=[300])
    """Upper end of a range. It is a value of the range if the steps reach it exactly."""
    step: _Number | None = Field(default=None, examples=[5])
    """Step of a range, 1 by default."""
    uniform: _Bounds | None = Field(default=None, examples=[[5, 300]])
    """Draw between two bounds, all values equally likely. If both bounds are whole numbers, whole numbers are drawn,
    the bounds included."""
    log_uniform: _Bounds | None = Field(default=None, examples=[[1, 10000]])
    """Draw between two positive bounds, all orders of magnitude equally likely. If both bounds are whole numbers, whole
    numbers are drawn."""
    choice: _Values | None = Field(default=None, examples=[["float", "double"]])
    """Draw one of these values, all equally likely."""


def _to_parameter(given: tuple[Value, ...] | ParameterFields) -> Listed | Chosen | Between:
    if isinstance(given, tuple):
        return Listed(given)
    keys = [
        field.alias or name for name, field in ParameterFields.model_fields.items() if getattr(given, name) is not None
    ]
    ways = [way for way in WAYS_TO_DRAW if way in keys]
    if not keys:
        raise ValueError(f"no values are given: list them, {_RANGE} for a range, {{uniform: [5, 300]}} for a draw")
    if len(ways) > 1 or (ways and len(keys) > 1):
        raise ValueError(f"`{keys[0]}` and `{keys[1]}` exclude each other: a parameter is a range or one draw")
    if given.uniform is not None:
        return Between(*given.uniform)
    if given.log_uniform is not None:
        if not given.log_uniform[0] > 0:
            raise ValueError(f"`log_uniform` needs bounds above 0, but the lower one is {given.log_uniform[0]}")
        return Between(*given.log_uniform, logarithmic=True)
    return Listed(_range(given)) if given.choice is None else Chosen(given.choice)


def _range(given: ParameterFields) -> tuple[Value, ...]:
    """Return the values of a range, exact as they are written: decimal fractions are not sums of binary ones."""
    if given.from_ is None or given.to is None:
        raise ValueError(f"a range needs a `from` and a `to`: {_RANGE}")
    whole = all(isinstance(part, int) for part in (given.from_, given.to, given.step) if part is not None)
    first, last, step = (
        Decimal(repr(part)) for part in (given.from_, given.to, 1 if given.step is None else given.step)
    )
    if step <= 0:
        raise ValueError(f"the `step` of a range must be above 0: {_RANGE}")
    if first > last:
        raise ValueError(f"the range begins at {given.from_}, above its end {given.to}: {_RANGE}")
    steps = int((last - first) / step)
    if steps >= MOST_POINTS:
        raise ValueError(
            f"the range has {steps + 1:,} values, but a sweep has at most {MOST_POINTS:,} points: use a larger step"
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


TIME_COLUMNS = ("time_s", "cpu_s")  # Columns of every sweep's table: wall-clock and CPU time of the untouched program
NODE_COLUMN = "node"  # Column of the table of a sweep over nodes: which node measured the point
_ONCE = "is done once, for all points"
_FIELDS_OF_ALL = MappingProxyType(
    {
        "build": f"building {_ONCE}",
        "prepare": f"preparing the input {_ONCE}",
        "working_folder": "the working folder is that of all points",
    }
)
_WHOLE_RUNS = "a sweep counts whole runs, which have no intervals"
_NO_VERDICT = "a sweep gives a table, and no verdict"
_MEANINGLESS: Mapping[tuple[str, str], str] = {
    ("measure", "interval"): _WHOLE_RUNS,
    ("measure", "clock"): _WHOLE_RUNS,
    ("measure", "reading"): _WHOLE_RUNS,
    ("measure", "multiplex"): (
        "in a sweep, metrics that do not fit the counters together are counted in runs of their own"
    ),
    ("program", "output_digest"): "each point has a result of its own, which the untouched program gives",
    ("campaign", "baseline_runs"): f"{_NO_VERDICT}; `repetitions` says how often each point is measured",
    ("campaign", "runs"): f"{_NO_VERDICT}; `repetitions` says how often each point is measured",
    ("campaign", "subsets"): "a sweep counts all software metrics in one run of each point",
    ("campaign", "sham"): _NO_VERDICT,
    ("campaign", "layouts"): "a sweep runs each build as it is",
    ("campaign", "order"): (
        "the runs of a sweep are always shuffled by the seed, to spread drift of the host over all points"
    ),
    ("analysis", "align_on"): _NO_VERDICT,
    ("analysis", "anchor"): _NO_VERDICT,
    ("analysis", "alpha"): _NO_VERDICT,
    ("analysis", "tolerance"): _NO_VERDICT,
}
"""Keys that mean nothing in a sweep, and why."""


Parameters = Annotated[Mapping[ParameterName, Parameter], Frozen, ADDED_LATER]


def _check(draft: Draft) -> None:
    for path, field, text in templates(draft):
        for placeholder in find_placeholders(text):
            if placeholder.startswith(PARAMETER) and not draft.recorded:
                _check_placeholder(draft, path, field, placeholder)
    if not draft.has("parameters"):
        for key in ("points", "repetitions"):
            if draft.has("campaign", key):
                draft.report_key(("campaign", key), f"`{key}` belongs to a sweep, but the spec has no `parameters:`")
        return
    if draft.value("parameters") == {}:
        draft.report(("parameters",), "this names no parameter: give one, or remove `parameters`")
    for path, why in _MEANINGLESS.items():
        if draft.has(*path):
            draft.report_key(path, f"`{path[-1]}` has no meaning in a sweep (`parameters:`): {why}")
    _check_names(draft)
    _check_used(draft)
    _check_points(draft)


def _check_placeholder(draft: Draft, path: YamlPath, field: str, placeholder: str) -> None:
    """Check one `{parameters.NAME}` in a key of `program:`."""
    name, known = placeholder.removeprefix(PARAMETER), draft.keys("parameters")
    if field not in OF_PARAMETERS.fields:
        what = f"{_FIELDS_OF_ALL[field]}; hand the parameter over in `run`, `environment` or `stdin`"
        draft.report(path, f"`{{{placeholder}}}` is not allowed in `{field}`: {what}")
    elif not known:
        if not draft.has("parameters"):
            draft.report(path, f"`{{{placeholder}}}` has no value: the spec has no `parameters:`")
    elif name not in known:
        hint = draft.did_you_mean(name, known, before=f"{{{PARAMETER}", after="}") if len(name) > 1 else ""
        there = f"`parameters:` has {', '.join(known)}"
        draft.report(path, f"unknown parameter `{name}`; {hint or there}")


def _check_names(draft: Draft) -> None:
    """Refuse names that two columns of the table would have."""
    listed = {name for section in ("hardware", "os") for _, name in draft.texts("measure", section)}
    metrics = {*listed, *draft.keys("measure", "software"), *draft.keys("measure", "derived"), *PRESETS, *OS_METRICS}
    given = dict.fromkeys(TIME_COLUMNS, "every sweep")
    if draft.has("nodes"):
        given[NODE_COLUMN] = "a sweep over nodes"
    for name, path in draft.keys("parameters").items():
        if name in given:
            draft.report_key(path, f"`{name}` is a column that the table of {given[name]} has: choose another name")
        elif name in metrics:
            draft.report_key(path, f"`{name}` is the name of a metric: choose another")
    for section in ("software", "derived"):
        for name, path in draft.keys("measure", section).items():
            if name in given:
                draft.report_key(path, f"`{name}` is a column that the table of {given[name]} has: choose another name")


def _check_used(draft: Draft) -> None:
    """Refuse a parameter that nothing uses."""
    texts = [draft.text("program", "run"), draft.text("program", "stdin")]
    texts += [draft.text(*path) for path in draft.keys("program", "environment").values()]
    used = {name for text in texts if text is not None for name in find_placeholders(text)}
    if not isinstance(draft.value("program"), dict):
        return
    for name, path in draft.keys("parameters").items():
        if f"{PARAMETER}{name}" not in used and re.fullmatch(PARAMETER_PATTERN, name):
            draft.report_key(
                path,
                f"the parameter `{name}` is not used: write `{{{PARAMETER}{name}}}` in `run`, `environment` or "
                "`stdin`, or remove it",
            )


def _check_points(draft: Draft) -> None:
    """Refuse `points` unless something is drawn, ask for it where something is, and refuse too many combinations."""
    given = [draft.value(*path) for path in draft.keys("parameters").values()]
    drawn = any(isinstance(values, dict) and set(WAYS_TO_DRAW) & set(values) for values in given)
    has_points = draft.has("campaign", "points")
    if drawn and not has_points:
        what = (
            "`points` is missing in `campaign`: parameters are drawn at random, and it says how many points there are, "
            "as in `points: 400`"
        )
        draft.report_key(("campaign",) if draft.has("campaign") else ("parameters",), what)
    if draft.spec is None:
        return
    count = combinations(draft.spec.parameters)
    if not drawn and has_points:
        draft.report_key(
            ("campaign", "points"),
            f"lists and ranges alone give every combination, {count:,} points: remove `points`, or have a parameter "
            "drawn, as in `{choice: [1, 2]}`",
        )
    elif not drawn and count > MOST_POINTS:
        draft.report_key(
            ("parameters",),
            f"these values have {count:,} combinations, but a sweep has at most {MOST_POINTS:,} points: "
            "list fewer, or draw one",
        )


PARAMETERS = SpecKey(
    "parameters",
    Parameters,
    "Parameters of a sweep. The campaign then runs the program at points of these parameters, natively and counted, "
    "and writes a table of whole runs instead of verdicts. Each parameter has a name, and a list of values, a range, "
    "or a random draw. `{parameters.NAME}` stands for the value.",
    _check,
    default=empty,
    examples=({"n": {"uniform": [5, 300]}, "datatype": ["float", "double"]},),
)


def count_points(spec: CampaignSpec) -> int:
    """Return the number of points of a sweep."""
    count = spec.campaign.points
    return combinations(spec.parameters) if count is None else count


def points(spec: CampaignSpec) -> tuple[Mapping[str, Value], ...]:
    """Return the points of a sweep, each with its value of every parameter in the order of the spec.

    Lists and ranges alone give every combination. Where a parameter is drawn, each point is drawn by the seed, its own
    number and the parameter's name alone: more points, or another order of parameters, leave the first ones as they
    are.
    """
    parameters, count = spec.parameters, spec.campaign.points
    if count is None:
        listed = {name: values.values for name, values in parameters.items() if isinstance(values, Listed)}
        names = sorted(listed)  # the order of keys means nothing, and must not change a point's number
        every = (dict(zip(names, values, strict=True)) for values in product(*(listed[name] for name in names)))
        return tuple({name: point[name] for name in parameters} for point in every)
    seed = spec.campaign.seed
    return tuple(
        {name: _draw(values, random.Random(f"{seed}/{number}/{name}").random()) for name, values in parameters.items()}
        for number in range(1, count + 1)
    )


def _draw(values: Listed | Chosen | Between, chance: float) -> Value:
    """Return the value that a number from [0, 1) stands for."""
    if not isinstance(values, Between):
        return values.values[int(chance * len(values.values))]
    low, high = values.low, values.high
    whole = isinstance(low, int) and isinstance(high, int)
    top = high + 1 if whole else high
    drawn = (
        math.exp(math.log(low) + chance * (math.log(top) - math.log(low)))
        if values.logarithmic
        else low + chance * (top - low)
    )
    # Rounding may lead a hair out of the bounds.
    return min(max(math.floor(drawn) if whole else drawn, low), high)


def at_a_point(spec: CampaignSpec) -> CampaignSpec:
    """Return a sweep at the first of its points, for what is the same at all of them; any other campaign as it is."""
    return spec.at_point(points(spec)[0]) if spec.parameters else spec
