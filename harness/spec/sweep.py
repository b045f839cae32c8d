"""Rules on sweeps: parameters that are used and known, what goes with random draws, and what means nothing where whole runs are counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from unperturbed.collectors.catalogue import OS_METRICS, PRESETS
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.models import Campaign, Measure
from unperturbed.harness.spec.parameters import MOST_POINTS, PARAMETER_PATTERN, WAYS_TO_DRAW, Listed
from unperturbed.harness.spec.placeholders import OF_PARAMETERS, PARAMETER, find_placeholders
from unperturbed.harness.spec.yamlpos import YamlPath

__all__ = ["TIME_COLUMNS", "check_parameter", "check_sweep"]

TIME_COLUMNS = ("time_s", "cpu_s")
"""Columns that every table of a sweep has beside parameters and metrics: wall-clock and processor time of the untouched program."""

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
        ("measure", "multiplex"): "in a sweep, metrics that do not fit the counters together are counted in runs of their own",
        ("program", "output_digest"): "each point has a result of its own, which the untouched program gives",
        ("campaign", "baseline_runs"): f"{_NO_VERDICT}; `repetitions` says how often each point is measured",
        ("campaign", "runs"): f"{_NO_VERDICT}; `repetitions` says how often each point is measured",
        ("campaign", "subsets"): "a sweep counts all software metrics in one run of each point",
        ("campaign", "sham"): _NO_VERDICT,
        ("campaign", "layouts"): "a sweep runs each build as it is",
        (
            "campaign",
            "order",
        ): "the runs of a sweep are always shuffled by the seed, so that drift of the host meets all points alike",
        ("analysis", "align_on"): _NO_VERDICT,
        ("analysis", "anchor"): _NO_VERDICT,
        ("analysis", "alpha"): _NO_VERDICT,
        ("analysis", "tolerance"): _NO_VERDICT,
    }
)
"""Keys that mean nothing in a sweep, and why."""


def check_parameter(draft: Draft, path: YamlPath, field: str, placeholder: str) -> None:
    """Check one `{parameters.NAME}` in a key of `program:`."""
    name, known = placeholder.removeprefix(PARAMETER), draft.keys("parameters")
    if field not in OF_PARAMETERS.fields:
        draft.blame(
            path,
            f"`{{{placeholder}}}` cannot stand in `{field}`: {_FIELDS_OF_ALL[field]}; hand the parameter over in `run`, `environment` or `stdin`",
        )
    elif not known:
        if not draft.has("parameters"):
            draft.blame(path, f"`{{{placeholder}}}` stands for nothing: the spec has no `parameters:`")
    elif name not in known:
        meant = draft.nearest(name, known) if len(name) > 1 else None
        hint = f"did you mean `{{{PARAMETER}{meant}}}`?" if meant else f"`parameters:` has {', '.join(known)}"
        draft.blame(path, f"unknown parameter `{name}`; {hint}")


def check_sweep(draft: Draft, campaign: Campaign | None) -> None:
    """Note every fault of a sweep that no field has by itself.

    Parameters
    ----------
    campaign : None where fields have faults.
    """
    if not draft.has("parameters"):
        _check_no_sweep(draft)
        return
    if draft.value("parameters") == {}:
        draft.blame(("parameters",), "this names no parameter: give one, or remove `parameters`")
    for path, why in _MEANINGLESS.items():
        if draft.has(*path):
            draft.blame_key(path, f"`{path[-1]}` has no meaning in a sweep (`parameters:`): {why}")
    _check_names(draft)
    _check_used(draft)
    _check_points(draft, campaign)


def _check_no_sweep(draft: Draft) -> None:
    """Refuse what only sweeps have; ask for the interval that all others have."""
    for key in ("points", "repetitions"):
        if draft.has("campaign", key):
            draft.blame_key(("campaign", key), f"`{key}` is of a sweep, and the spec has no `parameters:`")
    if isinstance(draft.value("measure"), dict) and not draft.has("measure", "interval"):
        description = str(Measure.model_fields["interval"].description).split(". ", maxsplit=1)[0]
        draft.blame_key(("measure",), f"`interval` is missing in `measure` ({description[0].lower()}{description[1:]})")


def _check_names(draft: Draft) -> None:
    """Refuse names that two columns of the table would have."""
    listed = {name for section in ("hardware", "os") for _, name in draft.texts("measure", section)}
    metrics = {*listed, *draft.keys("measure", "software"), *draft.keys("measure", "derived"), *PRESETS, *OS_METRICS}
    for name, path in draft.keys("parameters").items():
        if name in TIME_COLUMNS:
            draft.blame_key(path, f"`{name}` is a column that the table of every sweep has: choose another name")
        elif name in metrics:
            draft.blame_key(path, f"`{name}` is the name of a metric: choose another")
    for section in ("software", "derived"):
        for name, path in draft.keys("measure", section).items():
            if name in TIME_COLUMNS:
                draft.blame_key(path, f"`{name}` is a column that the table of every sweep has: choose another name")


def _check_used(draft: Draft) -> None:
    """Refuse a parameter of which the program hears nothing."""
    texts = [draft.text("program", "run"), draft.text("program", "stdin")]
    texts += [draft.text(*path) for path in draft.keys("program", "environment").values()]
    used = {name for text in texts if text is not None for name in find_placeholders(text)}
    if not isinstance(draft.value("program"), dict):
        return
    for name, path in draft.keys("parameters").items():
        if f"{PARAMETER}{name}" not in used and re.fullmatch(PARAMETER_PATTERN, name):
            draft.blame_key(
                path,
                f"the parameter `{name}` is not used: write `{{{PARAMETER}{name}}}` in `run`, `environment` or `stdin`, or remove it",
            )


def _check_points(draft: Draft, campaign: Campaign | None) -> None:
    """Points are asked for where something is drawn, and there alone; and there are not too many."""
    given = [draft.value(*path) for path in draft.keys("parameters").values()]
    drawn = any(isinstance(values, dict) and set(WAYS_TO_DRAW) & set(values) for values in given)
    has_points = draft.has("campaign", "points")
    if drawn and not has_points:
        what = "`points` is missing in `campaign`: parameters are drawn at random, and it says how many points there are, as in `points: 400`"
        draft.blame_key(("campaign",) if draft.has("campaign") else ("parameters",), what)
    if campaign is None:
        return
    combinations = prod(len(values.values) for values in campaign.parameters.values() if isinstance(values, Listed))
    if not drawn and has_points:
        draft.blame_key(
            ("campaign", "points"),
            f"lists and ranges alone give every combination, {combinations:,} points: remove `points`, or have a parameter drawn, as in "
            "`{choice: [1, 2]}`",
        )
    elif not drawn and combinations > MOST_POINTS:
        draft.blame_key(
            ("parameters",),
            f"there are {combinations:,} combinations of these values, and a sweep has at most {MOST_POINTS:,} points: list fewer, or draw one",
        )
