"""The experiment spec: YAML text to a validated, immutable `Campaign`, or every fault of it at once.

::

    yamlpos, yaml_advice   YAML with the position of every key and value
    quantities             `10 ms`, `32 KiB 8-way 64 B`
    placeholders           {build}, {inputs}, …
    models, fields         what a spec may hold, as pydantic models
    draft, messages        what was read but is not yet known to be right, and its faults in plain words
    program, metrics       rules that span several fields
    load                   all of it in one function
    schema, docs           JSON Schema and the reference page, from the models
"""

from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position
from unperturbed.harness.spec.fields import Interval
from unperturbed.harness.spec.load import load_spec, parse_spec
from unperturbed.harness.spec.models import Analysis, Campaign, Design, Measure, Program
from unperturbed.harness.spec.quantities import Duration
from unperturbed.harness.spec.schema import json_schema

__all__ = [
    "Analysis",
    "Campaign",
    "Design",
    "Diagnostic",
    "Duration",
    "Interval",
    "InvalidSpec",
    "Measure",
    "Position",
    "Program",
    "json_schema",
    "load_spec",
    "parse_spec",
]
