"""Reading of specs: from YAML text to a validated `CampaignSpec`, or all faults at once with line and column."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.common.expressions.metrics import MetricExpression, parse_metric_expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_keys
from unperturbed.harness.spec.model import ADDED_LATER, MAY_CHANGE, Draft, Section
from unperturbed.harness.spec.quantities import Interval
from unperturbed.harness.spec.sections._metrics import PERF_METRIC
from unperturbed.harness.spec.sections.analysis import default_align_on
from unperturbed.harness.spec.sections.campaign import UNTIL_DECIDED, default_subsets
from unperturbed.harness.spec.sections.measure import DEFAULT_RECORDS
from unperturbed.harness.spec.validation import validate
from unperturbed.harness.spec.yaml import MAX_BYTES, Diagnostic, InvalidSpec, Position, decode, read_yaml
from unperturbed.instrument.events import DEFAULT_MAX_RATE, Event


def load_spec(path: str | os.PathLike[str]) -> CampaignSpec:
    """Read and validate the file of a spec.

    Parameters
    ----------
    path : str or PathLike of str
        The YAML file.

    Returns
    -------
    CampaignSpec
        The spec, with all defaults filled in.

    Raises
    ------
    SpecError
        The file does not exist, cannot be read, or is recognized as something other than YAML.
    InvalidSpec
        The spec has faults. The message of this `SpecError` has one line `file:line:column: message` for each fault.
    """
    path = Path(path)
    if (path / "campaign.sqlite").is_file():
        raise SpecError(
            f"{path}: this is the folder of a campaign, not a spec; use `unperturbed check {path}` to judge it, or run "
            "its spec to continue it"
        )
    if not path.is_file():
        what = "not a file" if path.exists() else "no such file"
        raise SpecError(f"{path}: {what}; give the YAML file of a spec")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: cannot read the file: {error.strerror}") from None
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
        Folder that relative paths in the spec start from.
    recorded : bool, default False
        Whether a campaign recorded the spec and thus validated it: the program's files may no longer exist.

    Returns
    -------
    CampaignSpec
        The spec, with all defaults filled in.

    Raises
    ------
    InvalidSpec
        The text has faults.
    """
    document = read_yaml(text, name)
    if not isinstance(document.data, dict):
        what = "a spec must be a mapping with the keys name, program, measure, campaign and analysis"
        fault = Diagnostic(document.places[()].value, f"{what}; `unperturbed schema` lists all keys")
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


# Metrics from perf's tables: `derived: {retiring: perf-metric:tma_retiring}` stands for perf's formula of
# `tma_retiring`, and adds its events to `hardware`. The formula comes from `perf_metrics`, if the spec has it there.
# Otherwise it comes from the installed perf, and is appended to the spec's text: a recorded spec means the same
# everywhere.

_PERF_METRICS = "perf_metrics"
_STAND_IN = "perf::instructions"


def put_in_perf_metrics(draft: Draft, text: str) -> str:
    """Replace each `perf-metric:…` in a draft with perf's formula, and list its events; return the new text."""
    measure, derived = draft.value("measure"), draft.value("measure", "derived")
    asked = {
        name: value[len(PERF_METRIC) :].strip()
        for name, value in _texts_in(derived).items()
        if value.startswith(PERF_METRIC)
    }
    if not asked or not isinstance(measure, dict) or not isinstance(derived, dict):
        return text
    given = _texts_in(draft.value(_PERF_METRICS))
    formulas = dict(given)
    replacements: dict[str, str] = {}
    for name, metric in asked.items():
        try:
            if metric not in formulas:
                formulas[metric] = _formula(metric)
        except SpecError as error:
            draft.report(("measure", "derived", name), str(error))
        replacements[name] = formulas.get(metric, f"'{_STAND_IN}'")  # one message is enough
    listed = measure.get("hardware")
    hardware = list(listed) if isinstance(listed, list) else []
    hardware += [name for name in _events(replacements.values()) if name not in hardware]
    draft.document.data["measure"] = {**measure, "hardware": hardware, "derived": {**derived, **replacements}}
    if formulas == given:
        return text
    draft.document.data[_PERF_METRICS] = formulas
    return _text_with(text, formulas, {**draft.document.data, "measure": measure})


def _texts_in(value: Any) -> dict[str, str]:
    """Return the items of a mapping whose values are texts; none if the value is not a mapping."""
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _formula(metric: str) -> str:
    from unperturbed.collectors.sources.perf.tables import read_tables  # noqa: PLC0415  few specs need perf
    from unperturbed.collectors.sources.perf.translation import translate  # noqa: PLC0415  few specs need perf

    return translate(metric, read_tables()).formula


def _events(formulas: Iterable[str]) -> list[str]:
    """Return the distinct names in formulas; skip invalid formulas, which their own fields report."""
    names: dict[str, None] = {}
    for formula in formulas:
        try:
            names |= dict.fromkeys(parse_metric_expression(formula).names)
        except SpecError:
            continue
    return list(names)


def _text_with(text: str, formulas: Mapping[str, str], whole: Mapping[str, Any]) -> str:
    """Append formulas to the text, so that positions stay valid; rewrite the whole spec if the result is invalid."""
    lines = [f"  {json.dumps(name)}: {json.dumps(formula)}\n" for name, formula in formulas.items()]
    appended = "".join([text.rstrip("\n"), f"\n{_PERF_METRICS}:  # from the installed perf\n", *lines])
    try:
        document = read_yaml(appended, "spec")
    except InvalidSpec:
        document = None
    if document is not None and document.data == whole and not document.diagnostics:
        return appended
    import yaml  # noqa: PLC0415  for a spec in flow style

    return str(yaml.safe_dump(dict(whole), sort_keys=False, allow_unicode=True, width=120))


# Files that are not YAML are recognized by their first bytes or their name.

_MEASURE_IT = "to measure it without a spec, type `unperturbed run -- {command}`"
_UNPACK = "unpack it first"
_EXPECTED = "give the YAML file of a spec"

_BEGINNINGS = (
    (rb"\x7fELF", "a program or a library (ELF)", _MEASURE_IT),
    (rb"PAR1", "a Parquet file", "use `unperturbed align` or `structure` for a trace, `unperturbed model` for a table"),
    (
        rb"SQLite format 3\0",
        "an SQLite database",
        "if it is the manifest of a campaign, judge this campaign with `unperturbed check {path.parent}`",
    ),
    (rb"\x1f\x8b", "a file compressed with gzip", _UNPACK),
    (rb"\x28\xb5\x2f\xfd", "a file compressed with zstd", _UNPACK),
    (rb"\xfd7zXZ\0", "a file compressed with xz", _UNPACK),
    (rb"BZh", "a file compressed with bzip2", _UNPACK),
    (rb"PK\x03\x04", "a ZIP archive", _UNPACK),
    (rb"%PDF-", "a PDF document", _EXPECTED),
    (rb"\x89PNG", "an image (PNG)", _EXPECTED),
    (rb"!<arch>\n", "a static library", _EXPECTED),
    (rb"PERFILE2", "a perf recording", "use `unperturbed run -- PROGRAM` to measure a program at intervals"),
    # Texts, except beginnings that YAML may also have. A spec may be a script: #!/usr/bin/env -S unperturbed run
    (rb"#!(?!.*\bunperturbed\b)", "a script", _MEASURE_IT),
    (
        rb"# The record of an import\.",
        "the record of an import",
        "use `unperturbed check {path.parent}` to judge the imported runs",
    ),
    (rb"(?i)\s*<(!doctype|html|\?xml|svg)", "an HTML or XML document", _EXPECTED),
    (rb"\s*(//|/\*|#include *[<\"]|#pragma |#ifndef )", "source code in C or C++", _EXPECTED),
    (rb"\s*\{\s*\"(verdicts|table|traceEvents|benchmarks)\"", "a JSON result", _EXPECTED),
    (rb'\s*(import|from) [\w.]+\s|\s*(def|class) \w+.*:|\s*"""', "a Python program", _EXPECTED),
    (rb"[\w.:]+(,[\w.: ]+){2,}\r?\n", "a CSV table", "use `unperturbed model` for a table"),
)
"""Beginning of a file, what the file is, and what to do."""

_BY_NAME: Mapping[str, str] = {
    **dict.fromkeys((".md", ".rst", ".adoc"), "a document"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"), "source code in C or C++"),
    **dict.fromkeys((".py", ".pyi"), "a Python program"),
    **dict.fromkeys((".sh", ".bash"), "a script"),
    **dict.fromkeys(("Makefile", "makefile", ".mk"), "a makefile"),
    **dict.fromkeys(("CMakeLists.txt", ".cmake"), "a CMake build file"),
    ".log": "a log file",
}


def other_than_yaml(content: bytes, path: Path) -> str:
    """Return the message for a file that is recognized as something other than YAML; '' for other files."""
    command = path if "/" in str(path) else f"./{path}"  # as a shell would find it
    for beginning, what, advice in _BEGINNINGS:
        if re.match(beginning, content):
            return f"{path}: this is {what}, not a spec; {advice.format(path=path, command=command)}"
    named = _BY_NAME.get(path.name) or _BY_NAME.get(path.suffix)
    return f"{path}: this is {named}, not a spec; {_EXPECTED}" if named and content.strip() else ""


def metric_position(spec: CampaignSpec, name: str) -> str:
    """Return `file:line:column` of a metric's name in its spec; relative if the spec is below the current folder."""
    draft = Draft(read_yaml(spec.text, str(spec.path)), spec.folder)
    listed = {text: path for path, text in draft.texts("measure", "hardware")}
    place = draft.document.places.get(listed[name]) if name in listed else None
    return _shown(spec, place.value if place else draft.key_position(("measure", "software", name)))


def key_position(spec: CampaignSpec, *path: str) -> str:
    """Return `file:line:column` of a key's value in its spec, or of the nearest enclosing key that exists."""
    draft = Draft(read_yaml(spec.text, str(spec.path)), spec.folder)
    place = draft.document.places.get(path)
    return _shown(spec, place.value if place else draft.key_position(path))


def _shown(spec: CampaignSpec, position: Position) -> str:
    here = Path.cwd()
    file = spec.path.relative_to(here) if spec.path.is_relative_to(here) else spec.path
    return f"{file}:{position.line}:{position.column}"


def changed_keys(spec: CampaignSpec, recorded: str) -> tuple[str, ...]:
    """Return the keys, such as `campaign.seed`, whose values differ from a recorded spec; none if it is invalid."""
    try:
        other = parse_spec(recorded, spec.path.name, spec.folder)
    except SpecError:
        return ()
    return tuple(_differences(_canonical(other), _canonical(spec)))


def changed_settings(spec: CampaignSpec, recorded: str) -> tuple[str, ...]:
    """Return the keys that may change during a campaign and differ from its recorded spec; none if it is invalid."""
    try:
        other = parse_spec(recorded, spec.path.name, spec.folder)
    except SpecError:
        return ()
    return tuple(_changed_settings(spec, other))


def _changed_settings(now: Section, before: Section, path: str = "") -> Iterator[str]:
    for name, field in type(now).model_fields.items():
        key, values = f"{path}{field.alias or name}", (getattr(now, name), getattr(before, name))
        if MAY_CHANGE in field.metadata:
            if values[0] != values[1]:
                yield key
        elif all(isinstance(value, Section) for value in values):
            yield from _changed_settings(*values, f"{key}.")


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
    """Convert a spec to JSON types that are equal for all specs of one campaign."""
    if isinstance(value, BaseModel):
        value = {
            field.alias or name: getattr(value, name)
            for name, field in type(value).model_fields.items()
            # Runs until decided spend α in another way than a number of runs.
            if (MAY_CHANGE not in field.metadata or getattr(value, name) == UNTIL_DECIDED)
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
        without = {"limits"} if isinstance(value, Machine) and value.limits is None else set()  # added later
        value = {name: item for name, item in asdict(value).items() if name not in without}
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, tuple | list) else value
