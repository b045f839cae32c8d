"""The spec of a campaign: YAML text to a validated, immutable `CampaignSpec`, or every fault of it at once.

::

    sections/              a module a key at the top of a spec: its model, its rules, its words
    values/                durations, sizes, caches, events, parameters, placeholders
    yaml/                  YAML with the position of every key and value, advice on its errors
    model, campaign_spec   what sections share; the sections as one model
    draft, messages        a spec that is not yet validated; what is wrong with it in plain words
    sweep_points           the points of a sweep
    imported               what stands for the spec of a campaign that other tools recorded
    load                   all of it in one function, and the digest
    schema, docs           JSON Schema and the reference page, from the models

Another distribution adds a key at the top of a spec by an entry point in the group `unperturbed.spec_keys` that names a
`SpecKey`; its value is `CampaignSpec.extensions[name]`.
"""

from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position
from unperturbed.harness.spec.imported import Imported, imported_spec
from unperturbed.harness.spec.load import changed_keys, key_position, load_spec, metric_position, parse_spec
from unperturbed.harness.spec.model import Because, Section, SpecKey
from unperturbed.harness.spec.schema import json_schema
from unperturbed.harness.spec.sections.analysis import Analysis
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, PILOT, REFERENCE, SHAM_PREFIX, Design
from unperturbed.harness.spec.sections.measure import SHORTEST_INTERVAL_NS, Measure
from unperturbed.harness.spec.sections.nodes import Nodes
from unperturbed.harness.spec.sections.parameters import NODE_COLUMN, TIME_COLUMNS
from unperturbed.harness.spec.sections.program import PROGRAM_PATH, Program
from unperturbed.harness.spec.sweep_points import at_a_point, count_points, points
from unperturbed.harness.spec.values.intervals import Interval, WorkInterval
from unperturbed.harness.spec.values.parameters import Between, Chosen, Listed, Value
from unperturbed.harness.spec.values.placeholders import PARAMETER, PLACEHOLDERS, find_placeholders, substitute
from unperturbed.harness.spec.values.quantities import Duration

__all__ = [
    "ANCHOR",
    "BASELINE",
    "NODE_COLUMN",
    "PARAMETER",
    "PILOT",
    "PLACEHOLDERS",
    "PROGRAM_PATH",
    "REFERENCE",
    "SHAM_PREFIX",
    "SHORTEST_INTERVAL_NS",
    "TIME_COLUMNS",
    "Analysis",
    "Because",
    "Between",
    "CampaignSpec",
    "Chosen",
    "Design",
    "Diagnostic",
    "Draft",
    "Duration",
    "Imported",
    "Interval",
    "InvalidSpec",
    "Listed",
    "Measure",
    "Nodes",
    "Position",
    "Program",
    "Section",
    "SpecKey",
    "Value",
    "WorkInterval",
    "at_a_point",
    "changed_keys",
    "count_points",
    "find_placeholders",
    "imported_spec",
    "json_schema",
    "key_position",
    "load_spec",
    "metric_position",
    "parse_spec",
    "points",
    "substitute",
]
