"""Reading a spec: YAML text to a validated `CampaignSpec`, or every fault of it at once, each with line and column."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from unperturbed.common.expressions.metrics import MetricExpression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_keys
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position
from unperturbed.harness.spec.messages import validate
from unperturbed.harness.spec.model import ADDED_LATER, MAY_CHANGE
from unperturbed.harness.spec.perf_metrics import put_in_perf_metrics
from unperturbed.harness.spec.sections.analysis import default_align_on
from unperturbed.harness.spec.sections.campaign import default_subsets
from unperturbed.harness.spec.sections.measure import DEFAULT_RECORDS
from unperturbed.harness.spec.values.intervals import Interval
from unperturbed.harness.spec.yaml.other_files import other_than_yaml
from unperturbed.harness.spec.yaml.positions import MAX_BYTES, decode, read_yaml
from unperturbed.instrument.events import DEFAULT_MAX_RATE, Event


def load_spec(path: Path) -> CampaignSpec:
    """Read and validate a spec's file.

    Parameters
    ----------
    path : Path
        The YAML file.

    Returns
    -------
    CampaignSpec
        With every default filled in.

    Raises
    ------
    SpecError
        There is no such file, it cannot be read, or it is recognized as something else than YAML.
    InvalidSpec
        It has faults: a `SpecError` whose message has one line `file:line:column: message` for each.
    """
    if (path / "campaign.sqlite").is_file():
        raise SpecError(
            f"{path}: this is the folder of a campaign; `unperturbed check {path}` judges it again; to continue it, "
            "run its spec"
        )
    if not path.is_file():
        what = "this is not a file" if path.exists() else "there is no such file"
        raise SpecError(f"{path}: {what}; name the YAML file of a spec")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: the file cannot be read: {error.strerror}") from None
    if what := other_than_yaml(content, path):
        raise SpecError(what)
    return parse_spec(decode(content, str(path)), str(path), path.absolute().parent)


def parse_spec(text: str, name: str, folder: Path, *, recorded: bool = False) -> CampaignSpec:
    """Validate the text of a spec.

    Parameters
    ----------
    text : str
        YAML.
    name : str
        The file's name, for messages.
    folder : Path
        Where relative paths in the spec start.
    recorded : bool, default False
        The text was validated when its campaign was run. Whether the program's files are still there is not checked.

    Returns
    -------
    CampaignSpec
        With every default filled in.

    Raises
    ------
    InvalidSpec
        The text has faults.
    """
    document = read_yaml(text, name)
    if not isinstance(document.data, dict):
        what = "a spec is a mapping with the keys name, program, measure, campaign and analysis"
        fault = Diagnostic(document.places[()].value, f"{what}; `unperturbed schema` describes it")
        raise InvalidSpec(name, [*document.diagnostics, fault])
    draft = Draft(document, folder.resolve(), recorded=recorded)
    text = put_in_perf_metrics(draft, text)
    draft.spec = validate(draft)
    for key in spec_keys().values():
        if key.rules is not None:
            key.rules(draft)
    if draft.spec is None or draft.faults:
        raise InvalidSpec(name, draft.faults)
    spec = _complete(draft.spec)
    spec._path, spec._folder, spec._text = draft.folder / Path(name).name, draft.folder, text
    content = json.dumps(_canonical(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    spec._digest = hashlib.sha256(content.encode()).hexdigest()
    return spec


def metric_position(spec: CampaignSpec, name: str) -> str:
    """Return where a software or hardware metric is in its spec, for faults that are found when it is counted.

    Result: `file:line:column` of the metric's name; the file relative to the current folder, if it lies below it.
    """
    draft = Draft(read_yaml(spec.text, str(spec.path)), spec.folder)
    listed = {text: path for path, text in draft.texts("measure", "hardware")}
    place = draft.document.places.get(listed[name]) if name in listed else None
    return _shown(spec, place.value if place else draft.key_position(("measure", "software", name)))


def key_position(spec: CampaignSpec, *path: str) -> str:
    """Return where the value of a key is in its spec, as `metric_position` does for a metric.

    Result: `file:line:column`; of the nearest key above, where the spec leaves it out.
    """
    draft = Draft(read_yaml(spec.text, str(spec.path)), spec.folder)
    place = draft.document.places.get(path)
    return _shown(spec, place.value if place else draft.key_position(path))


def _shown(spec: CampaignSpec, position: Position) -> str:
    here = Path.cwd()
    file = spec.path.relative_to(here) if spec.path.is_relative_to(here) else spec.path
    return f"{file}:{position.line}:{position.column}"


def changed_keys(spec: CampaignSpec, recorded: str) -> tuple[str, ...]:
    """Return the keys whose values are not those of another text of the spec.

    Result: As `campaign.seed`, with defaults filled in; none if the other text is not a valid spec today.
    """
    try:
        other = parse_spec(recorded, spec.path.name, spec.folder)
    except SpecError:
        return ()
    return tuple(_differences(_canonical(other), _canonical(spec)))


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield path


def _complete(spec: CampaignSpec) -> CampaignSpec:
    """Fill in the defaults that depend on other fields."""
    design, analysis = spec.campaign, spec.analysis
    if not design.subsets:
        design = design.model_copy(update={"subsets": MappingProxyType(default_subsets(spec))})
    if not analysis.align_on:
        analysis = analysis.model_copy(update={"align_on": default_align_on(spec)})
    measure = spec.measure
    if measure.interval is None and not spec.parameters:
        measure = measure.model_copy(update={"interval": Interval(records=DEFAULT_RECORDS)})
    return spec.model_copy(update={"measure": measure, "campaign": design, "analysis": analysis})


def _canonical(value: Any) -> Any:
    """Return JSON types that are equal for specs of one campaign."""
    if isinstance(value, BaseModel):
        value = {
            field.alias or name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            if MAY_CHANGE not in field.metadata
            and not (
                ADDED_LATER in field.metadata
                and getattr(value, name) == field.get_default(call_default_factory=True, validated_data={})
            )
        }
    elif isinstance(value, Event):
        value = replace(value, max_rate=DEFAULT_MAX_RATE).to_json()  # a limit, which may change
    elif isinstance(value, MetricExpression):
        value = value.text
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, tuple | list) else value
