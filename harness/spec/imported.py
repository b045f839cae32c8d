"""The spec of a campaign whose runs other tools recorded: no program, but what is compared and how."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unperturbed.collectors.data import Kind
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.analysis import Analysis
from unperturbed.harness.spec.sections.campaign import Design
from unperturbed.harness.spec.sections.measure import Measure
from unperturbed.harness.spec.sections.program import Program
from unperturbed.harness.spec.values.intervals import Interval


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What a campaign was imported from."""

    name: str  # Of the campaign
    format: str  # Name of the import format
    title: str  # The tool or the format, in sentences
    options: Mapping[str, str]  # Options of the format
    files: tuple[Mapping[str, Any], ...]  # Each file: `file`, `sha256`, `configuration`, `runs` (their ids)
    configurations: Mapping[str, int]  # Configuration to its number of runs, the baseline first
    metrics: Mapping[str, Kind]  # Metrics that all runs have, and where their counts come from
    align_on: tuple[str, ...]  # Metrics by which runs are aligned
    interval_ns: int  # Usual length of an interval
    command: str = ""  # What was typed; empty where the library was called
    notes: tuple[str, ...] = ()  # What was left out, a sentence each

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types; order is kept."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Imported:
        """Return what `to_dict` described."""
        lists = {name: tuple(content[name]) for name in ("files", "align_on", "notes")}
        return cls(**{**content, **lists})


def imported_spec(imported: Imported, path: Path, text: str) -> CampaignSpec:
    """Return what stands for the spec of an imported campaign.

    Result: `imported` is set, and the configurations are those of the import. Its program is nothing that can be run.
    """
    runs = imported.configurations
    baseline, *others = runs.values()
    measure = Measure.model_construct(
        interval=Interval(nanoseconds=imported.interval_ns),
        hardware=tuple(name for name, kind in imported.metrics.items() if kind not in ("os", "software")),
        os=tuple(name for name, kind in imported.metrics.items() if kind in ("os", "software")),
    )
    spec = CampaignSpec.model_construct(
        name=imported.name,
        program=Program.model_construct(run=f"imported from {imported.title}", result="any"),
        measure=measure,
        campaign=Design.model_construct(baseline_runs=baseline, runs=min(others, default=baseline), order="sequential"),
        analysis=Analysis.model_construct(align_on=imported.align_on),
        parameters=MappingProxyType({}),
        programs=MappingProxyType({}),
    )
    spec._path, spec._folder, spec._text = path, path.parent, text
    content = json.dumps(imported.to_dict(), sort_keys=True)
    spec._digest = hashlib.sha256(content.encode()).hexdigest()
    spec._imported = imported
    return spec
