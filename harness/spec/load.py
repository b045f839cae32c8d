"""Reading a spec: YAML text to a validated `Campaign`, or every fault of it at once, each with its line and column."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from unperturbed.collectors.expressions import Expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec
from unperturbed.harness.spec.messages import check_structure
from unperturbed.harness.spec.metrics import check_metrics, default_align_on, default_subsets
from unperturbed.harness.spec.models import Campaign
from unperturbed.harness.spec.program import check_program
from unperturbed.harness.spec.sampling import check_sampling
from unperturbed.harness.spec.sweep import check_sweep
from unperturbed.harness.spec.yamlpos import MAX_BYTES, decode, read_yaml
from unperturbed.instrument.events import DEFAULT_MAX_RATE, Event

__all__ = ["load_spec", "parse_spec"]


_NOT_OF_THE_RUNS = (
    ("program", "timeout"),
    ("campaign", "baseline_runs"),
    ("campaign", "runs"),
    ("campaign", "sham"),
    ("campaign", "points"),
    ("campaign", "repetitions"),
    ("campaign", "retries"),
    ("campaign", "max_runs"),
    ("campaign", "max_hours"),
    ("analysis", "align_on"),
    ("analysis", "alpha"),
    ("analysis", "tolerance"),
)
"""What the digest leaves out: the number of runs and points, whether there are shams, limits and settings of the analysis may change in the midst of
a campaign: the runs that are made stay what they are."""

_ADDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "measure": ("threads", "children", "reading", "multiplex", "signal", "alternate_stack", "observer_cpu", "pin"),
        "campaign": ("layouts",),
    }
)
"""Fields that came later: at their defaults they mean what there was before, and campaigns of then go on."""


def load_spec(path: Path) -> Campaign:
    """Read and validate a spec's file.

    Raises
    ------
    SpecError
        There is no such file, or it cannot be read.
    InvalidSpec
        It has faults: a `SpecError` whose message has one line `file:line:column: message` for each.
    """
    if not path.is_file():
        raise SpecError(
            f"{path}: {'this is not a file' if path.exists() else 'there is no such file'}; name the YAML file of a spec"
        )
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: the file cannot be read: {error.strerror}") from None
    return parse_spec(decode(content, str(path)), str(path), path.absolute().parent)


def parse_spec(text: str, name: str, folder: Path, *, recorded: bool = False) -> Campaign:
    """Validate the text of a spec.

    Parameters
    ----------
    text : YAML.
    name : of the file, for messages.
    folder : that relative paths in the spec start from.
    recorded : the text was validated when its campaign was run. Whether the program's files are still there is not asked.

    Raises
    ------
    InvalidSpec
        The text has faults.
    """
    document = read_yaml(text, name)
    if not isinstance(document.data, dict):
        what = (
            "a spec is a mapping with the keys name, program, measure, campaign and analysis; `unperturbed schema` describes it"
        )
        raise InvalidSpec(name, [*document.diagnostics, Diagnostic(document.places[()].value, what)])
    draft = Draft(document, folder.resolve())
    campaign = check_structure(draft)
    if not recorded:
        check_program(draft)
    check_metrics(draft)
    check_sampling(draft)
    check_sweep(draft, campaign)
    if campaign is None or draft.faults:
        raise InvalidSpec(name, draft.faults)
    campaign = _complete(campaign)
    campaign._path, campaign._folder, campaign._text = draft.folder / Path(name).name, draft.folder, text
    campaign._digest = hashlib.sha256(_canonical_json(campaign).encode()).hexdigest()
    return campaign


def _complete(campaign: Campaign) -> Campaign:
    """Fill in the defaults that depend on other fields."""
    design, analysis = campaign.campaign, campaign.analysis
    if not design.subsets:
        design = design.model_copy(update={"subsets": MappingProxyType(default_subsets(campaign))})
    if not analysis.align_on:
        analysis = analysis.model_copy(update={"align_on": default_align_on(campaign)})
    return campaign.model_copy(update={"campaign": design, "analysis": analysis})


def _canonical_json(campaign: Campaign) -> str:
    content = _canonical(campaign)
    if not campaign.parameters:
        del content["parameters"]  # it came later
    for section, name in _NOT_OF_THE_RUNS:
        del content[section][name]
    for section, names in _ADDED.items():
        model = getattr(campaign, section)
        for name in names:
            if getattr(model, name) == type(model).model_fields[name].default:
                del content[section][name]
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _canonical(value: Any) -> Any:
    """Return JSON types that are equal for equal content."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    elif isinstance(value, Event):
        value = replace(value, max_rate=DEFAULT_MAX_RATE).to_json()  # a limit, as those of `_NOT_OF_THE_RUNS`
    elif isinstance(value, Expression):
        value = value.text
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, tuple) else value
