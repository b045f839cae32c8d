"""Section `parameters`: the parameters and points of a sweep, and rules on sweeps."""

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
from unperturbed.common.wording import counted
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

MOST_POINTS = 100_000  # Maximum number of points of a sweep
_RANGE = "write a range as in `{from: 5, to: 300, step: 5}`"
_BOUNDS = "write the lowest and the highest value, as in `[5, 300]`"
_WIDEST = 2**63
_WORDS = {int: "numbers", float: "numbers", str: "text"}

Value = int | float | str
WAYS_TO_DRAW = ("uniform", "log_uniform", "choice")


@dataclass(frozen=True)
class Listed:
    """Parameter that takes each value of a list or range."""

    values: tuple[Value, ...]  # In the order of the spec


@dataclass(frozen=True)
class Chosen:
    """Parameter drawn from a list of values at each point; all values are equally likely."""

    values: tuple[Value, ...]  # In the order of the spec


@dataclass(frozen=True)
class Between:
    """Parameter drawn between two bounds at each point; a whole number if both bounds are whole numbers."""

    # low, high: The bounds; if they are whole numbers, the bounds can be drawn too.
    low: int | float
    high: int | float
    logarithmic: bool = False  # Whether all orders of magnitude are equally likely; otherwise, all values are


def combinations(parameters: Mapping[str, Listed | Chosen | Between]) -> int:
    """Return the number of combinations of the parameters' listed values."""
    return math.prod(len(values.values) for values in parameters.values() if isinstance(values, Listed))


def _number(value: Any) -> int | float:
    if _kind(value) != "a number":
        raise ValueError(f"expected a number, not {_kind(value)}")
    return _bounded(value)


def _value(value: Any) -> Value:
    kind = _kind(value)
    if kind == "a boolean":
        raise ValueError("a parameter's value cannot be a boolean: write 0 or 1, or quote the text")
    if kind == "empty text":
        raise ValueError("a parameter's value cannot be empty text, because it becomes a word of a command")
    if kind not in ("a number", "text"):
        raise ValueError(f"expected a number or text, not {kind}")
    return value if kind == "text" else _bounded(value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "null"


def _bounded(value: int | float) -> int | float:
    if isinstance(value, int) and not -_WIDEST <= value < _WIDEST:
        raise ValueError("this whole number does not fit in 64 bits")
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


_Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
_OneValue = Annotated[Value, PlainValidator(_value), WithJsonSchema({"type": ["string", "number"]})]


def _alike(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Reject a list that is empty, mixes numbers and text, or repeats a value."""
    if not values:
        raise ValueError("the list is empty: add the values of the parameter")
    if len({_WORDS[type(value)] for value in values}) > 1:
        raise ValueError("a parameter cannot mix numbers and text: quote the numbers, or write only numbers")
    seen: set[Value] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"`{value}` appears twice in this list: remove the duplicate")
        seen.add(value)
    return values


def _two_bounds(values: tuple[int | float, ...]) -> tuple[int | float, int | float]:
    if len(values) != 2:
        raise ValueError(f"expected two numbers, not {len(values)}: {_BOUNDS}")
    low, high = values
    if not low < high:
        raise ValueError(f"the lower bound {low} must be less than the upper bound {high}: {_BOUNDS}")
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
    """Values of a parameter as a range (`from`, `to`, `step`) or as a random draw (one of the other keys)."""

    from_: _Number | None = Field(default=None, alias="from", examples=[5])
    """First value of a range."""
    to: _Number | None = Field(default=None, examples=[300])
    """Upper end of a range, included if the steps reach it exactly."""
    step: _Number | None = Field(default=None, examples=[5])
    """Step of a range, 1 by default."""
    uniform: _Bounds | None = Field(default=None, examples=[[5, 300]])
    """Random draw between two bounds; all values are equally likely. If both bounds are whole numbers, whole numbers
    are drawn, including the bounds."""
    log_uniform: _Bounds | None = Field(default=None, examples=[[1, 10000]])
    """Random draw between two positive bounds; all orders of magnitude are equally likely. If both bounds are whole
    numbers, whole numbers are drawn."""
    choice: _Values | None = Field(default=None, examples=[["float", "double"]])
    """Random draw from these values; all are equally likely."""


def _to_parameter(given: tuple[Value, ...] | ParameterFields) -> Listed | Chosen | Between:
    if isinstance(given, tuple):
        return Listed(given)
    keys = [
        field.alias or name for name, field in ParameterFields.model_fields.items() if getattr(given, name) is not None
    ]
    if not keys:
        raise ValueError(
            f"the parameter has no values: list them, {_RANGE}, or draw them, as in `{{uniform: [5, 300]}}`"
        )
    if conflict := next((way for way in WAYS_TO_DRAW if way in keys[1:]), ""):
        raise ValueError(f"`{keys[0]}` and `{conflict}` cannot be combined: give either a range or one random draw")
    if given.uniform is not None:
        return Between(*given.uniform)
    if given.log_uniform is not None:
        if not given.log_uniform[0] > 0:
            raise ValueError(f"`log_uniform` needs bounds above 0, but the lower bound is {given.log_uniform[0]}")
        return Between(*given.log_uniform, logarithmic=True)
    return Listed(_range(given)) if given.choice is None else Chosen(given.choice)


def _range(given: ParameterFields) -> tuple[Value, ...]:
    """Return the values of a range, computed in decimal: binary sums of decimal fractions are inexact."""
    if given.from_ is None or given.to is None:
        raise ValueError(f"a range needs both `from` and `to`: {_RANGE}")
    whole = all(isinstance(part, int) for part in (given.from_, given.to, given.step) if part is not None)
    first, last, step = (
        Decimal(repr(part)) for part in (given.from_, given.to, 1 if given.step is None else given.step)
    )
    if step <= 0:
        raise ValueError(f"the `step` of a range must be greater than 0: {_RANGE}")
    if first > last:
        raise ValueError(f"`from` ({given.from_}) is greater than `to` ({given.to}): {_RANGE}")
    steps = int((last - first) / step)
    if steps >= MOST_POINTS:
        raise ValueError(
            f"the range has {steps + 1:,} values, but a sweep has at most {MOST_POINTS:,} points: use a larger `step`"
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
_FIELDS_OF_ALL = MappingProxyType(
    {
        "build": "the program is built once, for all points",
        "prepare": "the input is prepared once, for all points",
        "working_folder": "all points share the working folder",
    }
)
_WHOLE_RUNS = "a sweep counts whole runs, without intervals"
_NO_VERDICT = "a sweep gives a table instead of verdicts"
_MEANINGLESS: Mapping[tuple[str, str], str] = {
    ("measure", "interval"): _WHOLE_RUNS,
    ("measure", "clock"): _WHOLE_RUNS,
    ("measure", "reading"): _WHOLE_RUNS,
    ("measure", "after"): _NO_VERDICT,
    ("measure", "multiplex"): (
        "in a sweep, metrics that do not fit the hardware counters together are counted in separate runs"
    ),
    ("measure", "passes"): "a sweep counts whole runs, and finds passes on each host",
    ("program", "output_digest"): "each point has its own expected result, that of the untouched program",
    ("campaign", "baseline_runs"): f"{_NO_VERDICT}; set `repetitions` to measure each point several times",
    ("campaign", "runs"): f"{_NO_VERDICT}; set `repetitions` to measure each point several times",
    ("campaign", "subsets"): "a sweep counts all software metrics together, in one run of each point",
    ("campaign", "sham"): _NO_VERDICT,
    ("campaign", "doses"): _NO_VERDICT,
    ("campaign", "multiplexed"): _NO_VERDICT,
    ("campaign", "layouts"): "a sweep does not vary the layout of a build",
    ("campaign", "order"): "the seed always shuffles the runs of a sweep, to spread drift of the host over all points",
    ("analysis", "align_on"): _NO_VERDICT,
    ("analysis", "anchor"): _NO_VERDICT,
    ("analysis", "alpha"): _NO_VERDICT,
    ("analysis", "tolerance"): _NO_VERDICT,
    ("analysis", "together"): "a sweep counts whole runs, whose metrics need not share a run",
}
"""Keys that have no meaning in a sweep, and the reason."""


Parameters = Annotated[Mapping[ParameterName, Parameter], Frozen, ADDED_LATER]


def _check(draft: Draft) -> None:
    for path, field, text in templates(draft):
        for placeholder in find_placeholders(text):
            if placeholder.startswith(PARAMETER) and not draft.recorded:
                _check_placeholder(draft, path, field, placeholder)
    if not draft.has("parameters"):
        for key in ("points", "repetitions"):
            if draft.has("campaign", key):
                draft.report_key(("campaign", key), f"`{key}` is only for sweeps, but the spec has no `parameters:`")
        return
    if draft.value("parameters") == {}:
        draft.report(("parameters",), "`parameters` is empty: add a parameter, or remove `parameters`")
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
        what = f"{_FIELDS_OF_ALL[field]}; use the parameter in `run`, `load`, `environment` or `stdin`"
        draft.report(path, f"`{{{placeholder}}}` is not allowed in `{field}`: {what}")
    elif not known:
        if not draft.has("parameters"):
            draft.report(path, f"`{{{placeholder}}}` is undefined: the spec has no `parameters:`")
    elif name not in known:
        hint = draft.did_you_mean(name, known, before=f"{{{PARAMETER}", after="}") if len(name) > 1 else ""
        there = f"known parameters: {', '.join(known)}"
        draft.report(path, f"unknown parameter `{name}`; {hint or there}")


def _check_names(draft: Draft) -> None:
    """Reject parameters and metrics whose names would clash with other columns of the table."""
    listed = {name for section in ("hardware", "os") for _, name in draft.texts("measure", section)}
    metrics = {*listed, *draft.keys("measure", "software"), *draft.keys("measure", "derived"), *PRESETS, *OS_METRICS}
    given = dict.fromkeys(TIME_COLUMNS, "every sweep")
    if draft.has("nodes"):
        given[NODE_COLUMN] = "a sweep over nodes"
    for name, path in draft.keys("parameters").items():
        if name in given:
            draft.report_key(path, f"`{name}` is a column in the table of {given[name]}: choose another name")
        elif name in metrics:
            draft.report_key(path, f"`{name}` is the name of a metric: choose another name")
    for section in ("software", "derived"):
        for name, path in draft.keys("measure", section).items():
            if name in given:
                draft.report_key(path, f"`{name}` is a column in the table of {given[name]}: choose another name")


def _check_used(draft: Draft) -> None:
    """Reject parameters that neither the command, its load, the environment nor standard input uses."""
    texts = [draft.text("program", field) for field in ("run", "ready", "load", "stdin")]
    texts += [draft.text(*path) for path in draft.keys("program", "environment").values()]
    used = {name for text in texts if text is not None for name in find_placeholders(text)}
    if not isinstance(draft.value("program"), dict):
        return
    for name, path in draft.keys("parameters").items():
        if f"{PARAMETER}{name}" not in used and re.fullmatch(PARAMETER_PATTERN, name):
            draft.report_key(
                path,
                f"parameter `{name}` is not used: write `{{{PARAMETER}{name}}}` in `run`, `load`, `environment` or "
                "`stdin`, or remove the parameter",
            )


def _check_points(draft: Draft) -> None:
    """Require `points` if and only if a parameter is drawn at random; reject too many combinations."""
    given = [draft.value(*path) for path in draft.keys("parameters").values()]
    drawn = any(isinstance(values, dict) and set(WAYS_TO_DRAW) & set(values) for values in given)
    has_points = draft.has("campaign", "points")
    if drawn and not has_points:
        what = (
            "`points` is missing from `campaign`: a sweep that draws parameters at random needs the number of points, "
            "as in `points: 400`"
        )
        draft.report_key(("campaign",) if draft.has("campaign") else ("parameters",), what)
    if draft.spec is None:
        return
    count = combinations(draft.spec.parameters)
    if not drawn and has_points:
        draft.report_key(
            ("campaign", "points"),
            f"a sweep whose parameters are all lists or ranges measures every combination ({counted(count, 'point')}): "
            "remove `points`, or draw a parameter at random, as in `{choice: [1, 2]}`",
        )
    elif not drawn and count > MOST_POINTS:
        draft.report_key(
            ("parameters",),
            f"the parameters have {count:,} combinations, but a sweep can have at most {MOST_POINTS:,} points: "
            "list fewer values, or draw a parameter at random",
        )


PARAMETERS = SpecKey(
    "parameters",
    Parameters,
    "Parameters of a sweep. The campaign then runs the program at points of the parameter space, both natively and "
    "with counters, and writes a table of whole runs instead of verdicts. Each parameter has a name and a list of "
    "values, a range, or a random draw. `{parameters.NAME}` stands for the value of a parameter.",
    _check,
    default=empty,
    examples=({"n": {"uniform": [5, 300]}, "datatype": ["float", "double"]},),
)


def count_points(spec: CampaignSpec) -> int:
    """Return the number of points of a sweep."""
    count = spec.campaign.points
    return combinations(spec.parameters) if count is None else count


def points(spec: CampaignSpec) -> tuple[Mapping[str, Value], ...]:
    """Return the points of a sweep, each as the values of all parameters in the order of the spec.

    Lists and ranges alone give every combination. If a parameter is drawn at random, values depend only on the seed,
    the point's number and the parameter's name: adding points or reordering parameters does not change existing points.
    """
    parameters, count = spec.parameters, spec.campaign.points
    if count is None:
        listed = {name: values.values for name, values in parameters.items() if isinstance(values, Listed)}
        names = sorted(listed)  # key order has no meaning and must not change a point's number
        every = (dict(zip(names, values, strict=True)) for values in product(*(listed[name] for name in names)))
        return tuple({name: point[name] for name in parameters} for point in every)
    seed = spec.campaign.seed
    return tuple(
        {name: _draw(values, random.Random(f"{seed}/{number}/{name}").random()) for name, values in parameters.items()}
        for number in range(1, count + 1)
    )


def _draw(values: Listed | Chosen | Between, chance: float) -> Value:
    """Map a random number from [0, 1) to a value of a parameter."""
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
    # Rounding may exceed the bounds slightly.
    return min(max(math.floor(drawn) if whole else drawn, low), high)


def at_a_point(spec: CampaignSpec) -> CampaignSpec:
    """Return a sweep's spec at its first point, for facts that all points share; any other spec unchanged."""
    return spec.at_point(points(spec)[0]) if spec.parameters else spec
