"""The whole spec as data: what a campaign measures, of which program, how often, and how it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, PrivateAttr, create_model

from unperturbed.common.extensions import records_in
from unperturbed.harness.spec.model import ADDED_LATER, Section, SpecKey, empty
from unperturbed.harness.spec.sections.analysis import ANALYSIS, Analysis
from unperturbed.harness.spec.sections.campaign import CAMPAIGN, Design
from unperturbed.harness.spec.sections.measure import MEASURE, Measure
from unperturbed.harness.spec.sections.name import NAME
from unperturbed.harness.spec.sections.nodes import NODES, Nodes
from unperturbed.harness.spec.sections.parameters import PARAMETERS, Parameters
from unperturbed.harness.spec.sections.perf_metrics import PERF_METRICS, PerfMetrics
from unperturbed.harness.spec.sections.program import PROGRAM, Program
from unperturbed.harness.spec.sections.programs import PROGRAMS, Programs
from unperturbed.harness.spec.sections.version import VERSION, SchemaVersion
from unperturbed.harness.spec.values.parameters import Value
from unperturbed.harness.spec.values.placeholders import PARAMETER
from unperturbed.harness.spec.values.text import FileName

if TYPE_CHECKING:
    from unperturbed.harness.spec.imported import Imported

_EXTENSION = "extension_"


class CampaignSpec(Section):
    """A validated spec, with every default filled in.

    Attributes
    ----------
    name : str
        Of the campaign.
    program : Program
        Which program is run, and how.
    programs : mapping of str to OtherProgram
        Other set-ups of the program, which are compared with it; empty for most campaigns.
    schema_version : int
        Version of the format that the spec is written in.
    measure : Measure
        What is measured of it.
    campaign : Design
        How many runs of which configurations.
    analysis : Analysis
        How runs are aligned and judged.
    parameters : mapping of str to Listed, Chosen or Between
        Parameters of a sweep; empty for other campaigns.
    nodes : Nodes or None
        The nodes that share the runs; None where one host makes them.
    perf_metrics : mapping of str to MetricExpression
        Formulas of the metrics of perf's tables that `measure.derived` asks for.
    """

    model_config = ConfigDict(
        title="Unperturbed campaign",
        json_schema_extra={
            "description": "A measurement campaign: a program, what is measured of it, how often, and how it is "
            "judged.",
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
    _imported: Any = PrivateAttr(default=None)

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
        """Return the spec as it was read, followed by the formulas that perf gave for it."""
        return self._text

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, as 64 hexadecimal digits."""
        return self._digest

    @property
    def extensions(self) -> Mapping[str, Any]:
        """Return the values of keys that other distributions add, of those alone that the spec has."""
        values = {name: getattr(self, f"{_EXTENSION}{name}", None) for name in spec_keys()}
        return MappingProxyType({name: value for name, value in values.items() if value is not None})

    @property
    def imported(self) -> Imported | None:
        """Return what the campaign was imported from; None for one that was run from a spec."""
        found: Imported | None = self._imported
        return found

    @property
    def point(self) -> Mapping[str, str]:
        """Return the placeholders of the sweep's parameters and what they stand for here."""
        return self._point

    def of_program(self, name: str) -> CampaignSpec:
        """Return the campaign with another of its programs in the place of `program`; itself for the name ''."""
        if not name:
            return self
        return self.model_copy(update={"program": self.programs[name].of(self.program)})

    def at_point(self, values: Mapping[str, Value]) -> CampaignSpec:
        """Return the campaign at one point of its sweep, where each parameter has a value."""
        here = self.model_copy()
        here._point = MappingProxyType({f"{PARAMETER}{name}": str(value) for name, value in values.items()})
        return here


@cache
def spec_keys() -> Mapping[str, SpecKey]:
    """Return every key at the top of a spec by its name, those of other distributions last."""
    found = records_in("unperturbed.harness.spec.sections", SpecKey, group="unperturbed.spec_keys")
    return {name: found[name] for name in (*CampaignSpec.model_fields, *found)}


@cache
def spec_model() -> type[CampaignSpec]:
    """Return the model of the spec with the keys that other distributions add, if there are any."""
    added = {
        f"{_EXTENSION}{name}": (
            key.type if key.required else Annotated[key.type | None, ADDED_LATER],
            key.as_field(name),
        )
        for name, key in spec_keys().items()
        if name not in CampaignSpec.model_fields
    }
    if not added:
        return CampaignSpec
    return create_model("CampaignSpec", __base__=CampaignSpec, __doc__=CampaignSpec.__doc__, **added)  # type: ignore[call-overload,no-any-return]
