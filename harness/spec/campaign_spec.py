"""The validated spec, including keys of other distributions, and the substitute for it in an imported campaign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, PrivateAttr, create_model

from unperturbed.collectors.data import Kind
from unperturbed.common.extensions import offered
from unperturbed.errors import HostError
from unperturbed.harness.spec.model import ADDED_LATER, Frozen, Section, SpecKey, empty, marks_of
from unperturbed.harness.spec.quantities import Interval
from unperturbed.harness.spec.sections.analysis import ANALYSIS, Analysis
from unperturbed.harness.spec.sections.campaign import CAMPAIGN, PROGRAMS, Design, Programs
from unperturbed.harness.spec.sections.measure import MEASURE, Derived, Measure
from unperturbed.harness.spec.sections.nodes import NODES, Nodes
from unperturbed.harness.spec.sections.parameters import PARAMETERS, Parameters, Value
from unperturbed.harness.spec.sections.program import PROGRAM, Program
from unperturbed.harness.spec.text import PARAMETER, FileName, Text

NAME = SpecKey("name", FileName, "Name of the campaign, and of its folder.", required=True, examples=("quickstart",))

SchemaVersion: TypeAlias = Literal[1]
CURRENT: SchemaVersion = 1

VERSION = SpecKey(
    "schema_version",
    SchemaVersion,
    "Version of the spec's format. The version increases only if a reader of the old format would fail or misread the "
    "spec (docs/reference/stability.md).",
    default=lambda: CURRENT,
    examples=(CURRENT,),
)

PerfMetrics = Annotated[Mapping[Text, Derived], Frozen]

PERF_METRICS = SpecKey(
    "perf_metrics",
    PerfMetrics,
    "Formulas of metrics from perf's tables, by metric name. Usually, leave out this key: the tool takes the formulas "
    "that `derived` needs (`perf-metric:NAME`) from the installed perf, and records them with the campaign. Give a "
    "formula if perf is missing, or to use the same formula with every version of perf.",
    default=empty,
    examples=({"tma_retiring": "'perf::topdown-retiring' / 'perf::slots'"},),
)

_EXTENSION = "extension_"  # Prefix of the fields for keys of other distributions


class CampaignSpec(Section):
    """A validated spec, with every default filled in.

    Attributes
    ----------
    name : str
        Name of the campaign.
    program : Program
        Which program is run, and how.
    programs : mapping of str to OtherProgram
        Other set-ups of the program, which are compared with it; empty for most campaigns.
    schema_version : int
        Version of the spec's format.
    measure : Measure
        What is measured, and how.
    campaign : Design
        Configurations, and the number of runs of each.
    analysis : Analysis
        How runs are aligned and judged.
    parameters : mapping of str to Listed, Chosen or Between
        Parameters of a sweep; empty for other campaigns.
    nodes : Nodes or None
        The nodes that share the runs; None if one host makes all runs.
    perf_metrics : mapping of str to MetricExpression
        Formulas of the metrics from perf's tables that `measure.derived` uses.
    """

    model_config = ConfigDict(
        title="Unperturbed campaign",
        json_schema_extra={
            "description": "A measurement campaign: the program, what is measured and how often, and how it is judged."
        },
    )

    name: FileName = NAME.as_field()
    program: Program = PROGRAM.as_field()
    measure: Measure = MEASURE.as_field()
    campaign: Design = CAMPAIGN.as_field()
    analysis: Analysis = ANALYSIS.as_field()
    parameters: Parameters = PARAMETERS.as_field()
    programs: Programs = PROGRAMS.as_field()
    nodes: Annotated[Nodes | None, ADDED_LATER] = NODES.as_field()
    perf_metrics: Annotated[PerfMetrics, ADDED_LATER] = PERF_METRICS.as_field()
    schema_version: Annotated[SchemaVersion, ADDED_LATER] = VERSION.as_field()

    _path: Path = PrivateAttr(default=Path())
    _folder: Path = PrivateAttr(default=Path())
    _text: str = PrivateAttr(default="")
    _digest: str = PrivateAttr(default="")
    _point: Mapping[str, str] = PrivateAttr(default_factory=empty)
    _imported: Imported | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path:
        """Return the absolute path of the spec's file."""
        return self._path

    @property
    def folder(self) -> Path:
        """Return the absolute path of the folder that relative paths in the spec start from."""
        return self._folder

    @property
    def text(self) -> str:
        """Return the text of the spec, followed by the formulas that were taken from perf."""
        return self._text

    @property
    def digest(self) -> str:
        """Return the SHA-256 digest of the spec's content, as 64 hexadecimal digits."""
        return self._digest

    @property
    def builds(self) -> Literal["one", "separate"]:
        """Return whether configurations share a build; by `auto`, unless the spec describes a sweep or has nodes."""
        if (asked := self.campaign.builds) != "auto":
            return asked
        return "separate" if self.parameters or self.nodes is not None else "one"

    @property
    def runs_ready(self) -> bool:
        """Return whether the one build also runs without counting."""
        return self.builds == "one" and (self.campaign.sham or 0 in self.campaign.doses)

    @property
    def extensions(self) -> Mapping[str, Any]:
        """Return the values of those keys in the spec that other distributions define."""
        values = {name: getattr(self, f"{_EXTENSION}{name}", None) for name in spec_keys()}
        return MappingProxyType({name: value for name, value in values.items() if value is not None})

    @property
    def imported(self) -> Imported | None:
        """Return the source of an imported campaign; None for a campaign that was run from a spec."""
        return self._imported

    @property
    def point(self) -> Mapping[str, str]:
        """Return the value of each parameter at the sweep's point that this spec describes, by placeholder."""
        return self._point

    def of_program(self, name: str) -> CampaignSpec:
        """Return the spec with an item of `programs` in place of `program`; the spec itself for the name ''."""
        if not name:
            return self
        return self.model_copy(update={"program": self.programs[name].of(self.program)})

    def at_point(self, values: Mapping[str, Value]) -> CampaignSpec:
        """Return the spec at one point of its sweep, given the value of each parameter."""
        here = self.model_copy()
        here._point = MappingProxyType({f"{PARAMETER}{name}": str(value) for name, value in values.items()})
        return here


KEYS = (NAME, PROGRAM, MEASURE, CAMPAIGN, ANALYSIS, PARAMETERS, PROGRAMS, NODES, PERF_METRICS, VERSION)
"""Top-level keys of a spec, in the order of the fields of `CampaignSpec`; then those without a field (`extensions`)."""


@cache
def spec_keys() -> Mapping[str, SpecKey]:
    """Return the top-level keys of a spec by name, those of other distributions last."""
    keys = {key.name: key for key in KEYS}
    for key in offered("unperturbed.spec_keys", SpecKey):
        if keys.setdefault(key.name, key) is not key:
            way_out = "uninstall one of them, or rename the key in one"
            raise HostError(f"two installed Python packages define the spec key `{key.name}`; {way_out}")
    return keys


@cache
def spec_model() -> type[CampaignSpec]:
    """Return the model of the spec, including keys that other distributions add."""
    added = {
        f"{_EXTENSION}{name}": (
            key.type if key.required else Annotated[key.type | None, ADDED_LATER, *marks_of(key.type)],
            key.as_field(name),
        )
        for name, key in spec_keys().items()
        if name not in CampaignSpec.model_fields
    }
    if not added:
        return CampaignSpec
    return create_model("CampaignSpec", __base__=CampaignSpec, __doc__=CampaignSpec.__doc__, **added)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The source of an imported campaign."""

    name: str  # Name of the campaign
    format: str  # Name of the import format
    title: str  # Name of the tool or format in sentences
    options: Mapping[str, str]  # Options of the format
    files: tuple[Mapping[str, Any], ...]  # Each file: `file`, `sha256`, `configuration`, `runs` (run ids)
    configurations: Mapping[str, int]  # Configuration → number of its runs, the baseline first
    metrics: Mapping[str, Kind]  # Metric that all runs have → its kind
    align_on: tuple[str, ...]  # Metrics by which runs are aligned
    interval_ns: int  # Usual length of an interval
    command: str = ""  # The command line; empty for a call of the library
    notes: tuple[str, ...] = ()  # Notes on omitted data, one sentence each
    # tolerance, totals, after: As in a spec; None and empty for the defaults
    tolerance: float | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    after: Literal["start", "steady"] = "start"

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON types, with the order preserved."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Imported:
        """Rebuild a record from the result of `to_dict`."""
        lists = {name: tuple(content[name]) for name in ("files", "align_on", "notes")}
        return cls(**{**content, **lists})


def imported_spec(imported: Imported, path: Path, text: str) -> CampaignSpec:
    """Return a substitute for the spec of an imported campaign; its program cannot be run."""
    runs = imported.configurations
    baseline, *others = runs.values()
    measure = Measure.model_construct(
        interval=Interval(nanoseconds=imported.interval_ns),
        hardware=tuple(name for name, kind in imported.metrics.items() if kind not in ("os", "software")),
        os=tuple(name for name, kind in imported.metrics.items() if kind in ("os", "software")),
        after=imported.after,
    )
    analysis = Analysis.model_construct(align_on=imported.align_on, totals=MappingProxyType(dict(imported.totals)))
    tolerance = {"tolerance": imported.tolerance}
    spec = CampaignSpec.model_construct(
        name=imported.name,
        program=Program.model_construct(run=f"imported from {imported.title}", result="any"),
        measure=measure,
        campaign=Design.model_construct(baseline_runs=baseline, runs=min(others, default=baseline), order="sequential"),
        analysis=analysis if imported.tolerance is None else analysis.model_copy(update=tolerance),
        parameters=MappingProxyType({}),
        programs=MappingProxyType({}),
    )
    spec._path, spec._folder, spec._text = path, path.parent, text
    content = json.dumps(imported.to_dict(), sort_keys=True)
    spec._digest = hashlib.sha256(content.encode()).hexdigest()
    spec._imported = imported
    return spec
