"""`parameters`: what a sweep varies, and rules on what is drawn, what is used, and what means nothing in a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.model import ADDED_LATER, Frozen, SpecKey, empty
from unperturbed.harness.spec.sections.program import templates
from unperturbed.harness.spec.values.parameters import MOST_POINTS, WAYS_TO_DRAW, Parameter, combinations
from unperturbed.harness.spec.values.placeholders import OF_PARAMETERS, PARAMETER, find_placeholders
from unperturbed.harness.spec.values.text import PARAMETER_PATTERN, ParameterName
from unperturbed.harness.spec.yaml.positions import YamlPath

TIME_COLUMNS = ("time_s", "cpu_s")
"""Columns of every sweep's table: wall-clock and CPU time of the untouched program."""

NODE_COLUMN = "node"
"""Column of the table of a sweep over nodes: which node measured the point."""

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
_MEANINGLESS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
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
)
"""Keys that mean nothing in a sweep, and why."""


Parameters = Annotated[Mapping[ParameterName, Parameter], Frozen, ADDED_LATER]


def _check(draft: Draft) -> None:
    for path, field, text in templates(draft):
        for placeholder in find_placeholders(text):
            if placeholder.startswith(PARAMETER) and not draft.recorded:
                _check_placeholder(draft, path, field, placeholder)
    if not draft.has("parameters"):
        _check_no_sweep(draft)
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
            draft.report(path, f"`{{{placeholder}}}` stands for nothing: the spec has no `parameters:`")
    elif name not in known:
        hint = draft.did_you_mean(name, known, before=f"{{{PARAMETER}", after="}") if len(name) > 1 else ""
        there = f"`parameters:` has {', '.join(known)}"
        draft.report(path, f"unknown parameter `{name}`; {hint or there}")


def _check_no_sweep(draft: Draft) -> None:
    """Refuse what only sweeps have."""
    for key in ("points", "repetitions", "native_runs"):
        if draft.has("campaign", key):
            draft.report_key(("campaign", key), f"`{key}` is of a sweep, and the spec has no `parameters:`")


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
            f"lists and ranges alone give every combination, {count:,} points: remove `points`, or have a "
            "parameter drawn, as in "
            "`{choice: [1, 2]}`",
        )
    elif not drawn and count > MOST_POINTS:
        draft.report_key(
            ("parameters",),
            f"there are {count:,} combinations of these values, and a sweep has at most {MOST_POINTS:,} points: "
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
    notes="""\
- A sweep (`parameters:`) counts whole runs: `interval`, `clock`, `reading`, `multiplex`, `output_digest`, everything
  under `analysis` and all of `campaign` but `points`, `repetitions`, `native_runs`, `seed`, `retries`, `max_runs` and
  `max_hours` have no meaning in it. Give `points` if a parameter is drawn, and only then. Every parameter must be used
  in `run`, `environment` or `stdin`, and no metric may have its name. A sweep needs no metric.
""",
)
