"""Rules on metrics: names that are known and mean one thing, expressions, subsets, the anchor, what runs are aligned on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unperturbed.collectors.catalogue import OS_METRICS, PRESETS, is_native
from unperturbed.collectors.expressions import parse_expression
from unperturbed.collectors.trace import INTERVAL_COLUMNS
from unperturbed.errors import SpecError
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.fields import NATIVE_PATTERN
from unperturbed.harness.spec.models import ANCHOR, BASELINE, PILOT, REFERENCE, SHAM_PREFIX, Campaign
from unperturbed.harness.spec.yamlpos import YamlPath

__all__ = ["check_metrics", "default_align_on", "default_subsets"]

_RESERVED_SUBSETS = (BASELINE, ANCHOR, PILOT, REFERENCE)
_KINDS = {"hardware": "a hardware metric", "os": "an operating-system metric", "software": "a software metric"}


@dataclass(frozen=True)
class _Names:
    """The metrics of a draft: `measured` maps each to its section, `derived` each to the metrics that it is made of."""

    measured: Mapping[str, str]
    derived: Mapping[str, tuple[str, ...]]

    def software(self) -> list[str]:
        return [name for name, section in self.measured.items() if section == "software"]

    def software_in(self, name: str) -> set[str]:
        """Return the software metrics that a metric is, or is made of."""
        return {part for part in self.derived.get(name, (name,)) if self.measured.get(part) == "software"}


def check_metrics(draft: Draft) -> None:
    """Note every fault of the metrics that no field has by itself."""
    for section in ("hardware", "os"):
        _check_listed(draft, section)
    names = _gather(draft)
    listed = (draft.has("measure", section) and draft.value("measure", section) != [] for section in ("hardware", "os"))
    if isinstance(draft.value("measure"), dict) and not any(listed) and not draft.has("parameters"):
        what = "no metric is left when the software metrics are taken out: list what the baseline measures under `hardware` or `os`"
        draft.blame_key(("measure",), what)
    for name, path in draft.keys("measure", "derived").items():
        _check_derived(draft, names, name, path)
    _check_subsets(draft, names)
    anchor = draft.text("analysis", "anchor")
    if anchor is not None and names.measured.get(anchor) != "software":
        draft.blame(("analysis", "anchor"), _not_software(draft, anchor, names))
    elif anchor is not None and draft.has("measure", "software", anchor, "gauge"):
        draft.blame(
            ("analysis", "anchor"), f"`{anchor}` is a gauge, which has no events to align by: take a metric that counts"
        )
    _check_align_on(draft, names)


def default_subsets(campaign: Campaign) -> Mapping[str, tuple[str, ...]]:
    """Return one subset of every software metric but the anchor; none when that leaves nothing.

    Sorted by name: the order of keys in a spec means nothing, and must not change what the spec's digest is made of.
    """
    everything = tuple(sorted(name for name in campaign.measure.software if name != campaign.analysis.anchor))
    return {"all": everything} if everything else {}


def default_align_on(campaign: Campaign) -> tuple[str, ...]:
    """Return IPC if it is derived from what the baseline measures, else the first of the metrics, instructions before all others.

    One metric only: what runs were aligned on has a flattered outer correlation.
    """
    measure = campaign.measure
    if "IPC" in measure.derived and not set(measure.derived["IPC"].names) & set(measure.software):
        return ("IPC",)
    known = (*measure.hardware, *measure.os)
    return ("PAPI_TOT_INS",) if "PAPI_TOT_INS" in known else known[:1]


def _check_listed(draft: Draft, section: str) -> None:
    """Check a list of hardware or operating-system metrics."""
    seen: set[str] = set()
    for path, name in draft.texts("measure", section):
        if name in seen:
            draft.blame(path, f"`{name}` stands here twice")
            continue
        seen.add(name)
        home = _section_of(name)
        if home == section:
            continue
        if home is not None:
            draft.blame(path, f"`{name}` is {_KINDS[home]}: list it under `{home}`")
            continue
        meant = draft.nearest(name, [*PRESETS, *OS_METRICS])
        if meant is not None:
            elsewhere = (
                "" if meant in (PRESETS if section == "hardware" else OS_METRICS) else f" (under `{_section_of(meant)}`)"
            )
            hint = f"did you mean `{meant}`{elsewhere}?"
        elif section == "hardware":
            hint = "give a PAPI preset (PAPI_TOT_INS) or a native event (perf::page-faults, callgrind::D1mw)"
        else:
            hint = f"known are {', '.join(OS_METRICS)}"
        draft.blame(path, f"unknown metric `{name}`; {hint}")


def _section_of(name: str) -> str | None:
    """Return the section that a metric of the catalogue belongs to."""
    if name in OS_METRICS:
        return "os"
    native = is_native(name) and re.fullmatch(NATIVE_PATTERN, name)
    return "hardware" if name in PRESETS or native else None


def _gather(draft: Draft) -> _Names:
    """Collect the metrics' names, and note names that mean two things."""
    measured = {name: section for section in ("hardware", "os") for _, name in draft.texts("measure", section)}
    for name, path in draft.keys("measure", "software").items():
        if not _is_taken(draft, name, path, measured):
            measured[name] = "software"
    derived: dict[str, tuple[str, ...]] = {}
    for name, path in draft.keys("measure", "derived").items():
        if not _is_taken(draft, name, path, measured):
            derived[name] = _parts(draft, path)
    return _Names(measured, derived)


def _is_taken(draft: Draft, name: str, path: YamlPath, measured: Mapping[str, str]) -> bool:
    if name in INTERVAL_COLUMNS:
        draft.blame_key(path, f"`{name}` is a column that every trace has: choose another name")
    elif name in measured:
        draft.blame_key(path, f"`{name}` is {_KINDS[measured[name]]} already: choose another name")
    elif _section_of(name) is not None:
        draft.blame_key(path, f"`{name}` is the name of {_KINDS[_section_of(name) or '']}: choose another name")
    else:
        return False
    return True


def _parts(draft: Draft, path: YamlPath) -> tuple[str, ...]:
    text = draft.text(*path)
    try:
        return parse_expression(text).names if text is not None else ()
    except SpecError:
        return ()  # the field's own check has a message


def _check_derived(draft: Draft, names: _Names, name: str, path: YamlPath) -> None:
    parts = _parts(draft, path)
    for part in parts:
        if part in names.measured:
            continue
        home = _section_of(part)
        if part in names.derived or part == name:
            draft.blame(path, f"`{part}` is derived itself: write out what it is made of")
        elif home is not None:
            draft.blame(path, f"`{part}` is not measured: add it to `{home}`")
        else:
            meant = draft.nearest(part, names.measured)
            draft.blame(
                path, f"unknown metric `{part}`; " + (f"did you mean `{meant}`?" if meant else _measured_are(names.measured))
            )
    needed = {part for part in parts if names.measured.get(part) == "software"}
    together = _measured_together(draft, names)
    if needed and not any(needed <= subset for subset in together):
        draft.blame(path, f"no subset holds {' and '.join(sorted(needed))} together, so no run could compute this")


def _measured_together(draft: Draft, names: _Names) -> list[set[str]]:
    """Return the software metrics of each configuration."""
    anchor = draft.text("analysis", "anchor")
    always = {anchor} if anchor is not None else set()
    subsets = draft.keys("campaign", "subsets")
    if not subsets:
        return [set(names.software())]
    return [always, *({name for _, name in draft.texts(*path)} | always for path in subsets.values())]


def _check_subsets(draft: Draft, names: _Names) -> None:
    subsets = draft.keys("campaign", "subsets")
    used = {draft.text("analysis", "anchor")}
    for subset, path in subsets.items():
        if subset in _RESERVED_SUBSETS:
            draft.blame_key(path, f"`{subset}` is the name of a configuration that every campaign may have: choose another")
        elif subset.startswith(SHAM_PREFIX):
            draft.blame_key(
                path, f"`{subset}`: names that begin with `{SHAM_PREFIX}` belong to the shams of subsets: choose another"
            )
        if draft.value(*path) == []:
            draft.blame(path, f"the subset `{subset}` is empty: name software metrics, or remove it")
        seen: set[str] = set()
        for place, metric in draft.texts(*path):
            if metric in seen:
                draft.blame(place, f"`{metric}` stands here twice")
            elif names.measured.get(metric) != "software":
                draft.blame(place, _not_software(draft, metric, names))
            seen.add(metric)
        used |= seen
    for metric in names.software() if subsets else ():
        if metric not in used:
            draft.blame_key(("measure", "software", metric), f"`{metric}` is in no subset, so no run would measure it")


def _not_software(draft: Draft, name: str, names: _Names) -> str:
    software = names.software()
    kind = _KINDS.get(names.measured.get(name, ""), "a derived metric" if name in names.derived else "")
    if kind:
        return f"`{name}` is {kind}, and a software metric is wanted here"
    if not software:
        return f"unknown software metric `{name}`: `measure:` has no `software`"
    meant = draft.nearest(name, software)
    return f"unknown software metric `{name}`; " + (f"did you mean `{meant}`?" if meant else _measured_are(software))


def _check_align_on(draft: Draft, names: _Names) -> None:
    seen: set[str] = set()
    everywhere = [name for name in (*names.measured, *names.derived) if not names.software_in(name)]
    for path, name in draft.texts("analysis", "align_on"):
        if name in seen:
            draft.blame(path, f"`{name}` stands here twice")
        elif names.software_in(name):
            draft.blame(path, f"`{name}` is not measured in the baseline, so no run can be aligned with it on this metric")
        elif name not in everywhere:
            home = _section_of(name)
            meant = draft.nearest(name, everywhere)
            hint = f"did you mean `{meant}`?" if meant else _measured_are(everywhere)
            what = f"`{name}` is not measured: add it to `{home}`" if home else f"unknown metric `{name}`; {hint}"
            draft.blame(path, what)
        seen.add(name)


def _measured_are(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"measured are {listed}" if listed else "none is measured"
