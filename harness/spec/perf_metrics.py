"""Metrics of perf's tables that a spec asks for by name: formulas and events are put in their place.

`derived: {retiring: perf-metric:tma_retiring}` stands for perf's formula of `tma_retiring`, and lists its events under
`hardware`. The formula is that under `perf_metrics`, where the spec has one. Otherwise the installed perf is asked, and
what it said is written behind the spec's text: a recorded spec means the same on every host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.errors import InvalidSpec
from unperturbed.harness.spec.sections._metrics import PERF_METRIC
from unperturbed.harness.spec.yaml.positions import read_yaml

KEY = "perf_metrics"
_STAND_IN = "perf::instructions"


def put_in_perf_metrics(draft: Draft, text: str) -> str:
    """Replace what a draft asks of perf by formulas, and list their events under `hardware`.

    `draft`: Its data is changed. A metric that cannot be measured here is reported at its place.
    Result: The text with the formulas that perf was asked for behind it; the same text where it was asked for none.
    """
    measure, derived = draft.value("measure"), draft.value("measure", "derived")
    asked = {
        name: value[len(PERF_METRIC) :].strip()
        for name, value in _texts(derived).items()
        if value.startswith(PERF_METRIC)
    }
    if not asked or not isinstance(measure, dict) or not isinstance(derived, dict):
        return text
    given = _texts(draft.value(KEY))
    formulas = dict(given)
    found: dict[str, str] = {}
    for name, metric in asked.items():
        try:
            if metric not in formulas:
                formulas[metric] = _formula(metric)
        except SpecError as error:
            draft.report(("measure", "derived", name), str(error))
        found[name] = formulas.get(metric, f"'{_STAND_IN}'")  # one message is enough
    listed = measure.get("hardware")
    hardware = list(listed) if isinstance(listed, list) else []
    hardware += [name for name in _events(found.values()) if name not in hardware]
    draft.document.data["measure"] = {**measure, "hardware": hardware, "derived": {**derived, **found}}
    if formulas == given:
        return text
    draft.document.data[KEY] = formulas
    return _with(text, formulas, {**draft.document.data, "measure": measure})


def _texts(value: Any) -> dict[str, str]:
    """Return the texts of a mapping; none for other values."""
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _formula(metric: str) -> str:
    from unperturbed.collectors.sources.perf.tables import read_tables  # noqa: PLC0415  few specs ask perf
    from unperturbed.collectors.sources.perf.translation import translate  # noqa: PLC0415  few specs ask perf

    return translate(metric, read_tables()).formula


def _events(formulas: Iterable[str]) -> list[str]:
    """Return the names in formulas, each once; none of one that is wrong, which its field reports."""
    names: dict[str, None] = {}
    for formula in formulas:
        try:
            names |= dict.fromkeys(parse_metric_expression(formula).names)
        except SpecError:
            continue
    return list(names)


def _with(text: str, formulas: Mapping[str, str], whole: Mapping[str, Any]) -> str:
    """Return the text with formulas behind it, so that positions in it stay; or another one if that is not YAML."""
    lines = [f"  {json.dumps(name)}: {json.dumps(formula)}\n" for name, formula in formulas.items()]
    appended = "".join([text.rstrip("\n"), f"\n{KEY}:  # as the installed perf had them\n", *lines])
    try:
        document = read_yaml(appended, "spec")
    except InvalidSpec:
        document = None
    if document is not None and document.data == whole and not document.diagnostics:
        return appended
    import yaml  # noqa: PLC0415  for a spec whose top is not written in lines

    return str(yaml.safe_dump(dict(whole), sort_keys=False, allow_unicode=True, width=120))
