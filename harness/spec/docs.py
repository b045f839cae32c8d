"""The reference of the spec for its users, made from the model's own words so that it cannot go stale.

`docs/spec.md` holds what `spec_markdown` returns; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from unperturbed.collectors.catalogue import OS_METRICS
from unperturbed.harness.spec.models import MAPPINGS, REASONS
from unperturbed.harness.spec.placeholders import OF_PARAMETERS, PARAMETER, PLACEHOLDERS
from unperturbed.harness.spec.quantities import CACHE_PATTERN, DURATION_PATTERN, DURATION_UNITS, SIZE_PATTERN, SIZE_UNITS
from unperturbed.harness.spec.schema import json_schema

__all__ = ["FULL_EXAMPLE", "SMALL_EXAMPLE", "SWEEP_EXAMPLE", "spec_markdown"]

SMALL_EXAMPLE = """\
name: small
program:
  source: blocksort
  build: make CC={cc}
  prepare: "{python} make_corpus.py --size 600000 {inputs}/corpus.txt"
  run: "{build}/blocksort -c {inputs}/corpus.txt"
measure:
  interval: {records: 1000}
  hardware: [PAPI_TOT_INS, PAPI_L1_DCM, PAPI_BR_MSP]
  software:
    blocks: {enter: compress_block}
"""

FULL_EXAMPLE = """\
name: everything
program:
  source: blocksort                  # or   debian: bzip2
  prepare: "{python} make_corpus.py --size 600000 {inputs}/corpus.txt"
  build: make CC={cc}
  compilers: {cc: gcc, cxx: g++}
  run: "{build}/blocksort -c {inputs}/corpus.txt"
  shell: false
  inputs: [words.txt]
  stdin: "{inputs}/words.txt"
  outputs: [out.bin]
  environment: {TZ: UTC}
  working_folder: "{scratch}"
  timeout: 2 min
  exit_code: 0
measure:
  interval: 20 ms                    # or   {records: 3000}
  clock: auto
  sampler: inside                    # or   outside, with   observer_cpu: 1
  threads: main
  children: false
  reading: read
  multiplex: false
  signal: 38
  alternate_stack: false
  pin: true
  source: auto
  hardware: [PAPI_TOT_INS, PAPI_TOT_CYC, PAPI_L1_DCM]
  os: [minor_faults]
  software:
    blocks: {enter: compress_block}
    compares: {call: compare, in: "sort_*", file: "*.c"}
    pushes: {write: Stack.depth, threads: exact}
    depth: {gauge: "stack.c::depth"}
    allocations: {preload: malloc}
    reads: {probe: {uprobe: "libc.so.6:read", max_rate: 20000}}
  derived: {IPC: PAPI_TOT_INS / PAPI_TOT_CYC}
  simulator: {I1: 32 KiB 8-way 64 B, D1: 32 KiB 8-way 64 B, LL: 1 MiB 16-way 64 B}
campaign:
  baseline_runs: 10
  runs: 5
  subsets: {light: [compares], heavy: [compares, pushes], others: [depth, allocations, reads]}
  sham: false
  layouts: fixed                     # or   varied
  seed: 1
  order: blocks
  retries: 1
  max_runs: 200
  max_hours: 4
analysis:
  align_on: [IPC]
  anchor: blocks
  alpha: 0.05
  tolerance: 0.1
"""

SWEEP_EXAMPLE = """\
name: sorting
parameters:
  items: {log_uniform: [1000, 1000000]}        # or   {uniform: [1000, 1000000]}
  seed: {choice: [1, 2, 3]}
  run_length: {from: 8, to: 64, step: 8}       # drawn too, as others are
  order: [sorted, reversed, shuffled]
program:
  source: blocksort
  build: make CC={cc}
  run: "{build}/blocksort --items {parameters.items} --order {parameters.order}"
  environment: {SEED: "{parameters.seed}", RUN_LENGTH: "{parameters.run_length}"}
measure:
  hardware: [PAPI_TOT_INS, PAPI_BR_MSP]
  os: [minor_faults]
  software: {compares: {enter: compare}}
  derived: {per_compare: PAPI_TOT_INS / compares}
campaign:
  points: 300
  repetitions: 2
  seed: 1
"""

_INTRODUCTION = """\
<!-- Made by unperturbed.harness.spec.docs from the model of the spec; change the descriptions there. -->

# The spec

A spec is one YAML file that says what a campaign measures, of which program, how often, and how it is judged. Paths in it are relative
to the file. `unperturbed schema` prints its JSON Schema, with which editors complete and check it.

Everything that is wrong with a spec is reported at once, one line each: `file:line:column: message`.

The smallest useful spec:
"""

_RULES = """\
## Rules that span several keys

- Give `source` or `debian`, not both. With neither, leave `build` out too: `run` then names a program that this host has, and software
  metrics are those that need no source (`probe`, `preload`, `python`), since nothing is compiled.
- With software metrics that are compiled in, `build` must call `{cc}` or `{cxx}`.
- The metrics' names are unique over `hardware`, `os`, `software` and `derived`.
- At least one metric is listed under `hardware` or `os`: the baseline measures these alone.
- Every software metric is in a subset, or is the anchor. A subset cannot be named `baseline`, `anchor`, `pilot` or `reference`,
  nor begin with `sham-`.
- A derived metric is made of measured metrics, not of derived ones, and needs a subset that holds all its software metrics.
- The observer (`sampler: outside`) reads counters by wall-clock time as they run, of all threads: `clock`, `reading`, `threads`, `signal` and
  `alternate_stack` are the inside sampler's, `children`, `observer_cpu` and `pin` the observer's. Simulated counts need the inside sampler.
- `layouts: varied` needs a `build` by `{cc}` or `{cxx}`: a program that is there already has one layout.
- `clock: work` is the simulator's; its interval is a number of records.
- A sweep (`parameters:`) counts whole runs: `interval`, `clock`, `reading`, `multiplex`, `output_digest`, everything under `analysis` and all of
  `campaign` but `points`, `repetitions`, `seed`, `retries`, `max_runs` and `max_hours` have no meaning in it. `points` is given where a parameter is
  drawn, and there alone. Every parameter is used in `run`, `environment` or `stdin`, and no metric has its name. It needs no metric.
- Runs are aligned on what every configuration measures: hardware, operating-system, and metrics derived from these.

## What tells two specs apart

A campaign's folder belongs to one spec. Comments, the order of keys, units (`120 s`, `2 min`) and defaults that are written out make no
difference; any other change makes another campaign, which needs another folder.
"""

_YAML = """\
## YAML, where it surprises

| written | is | so write |
|---|---|---|
| `run: {build}/x` | a mapping and stray text | `run: "{build}/x"` |
| `program: {build: make CC={cc}}` | an error: within braces, text ends at a brace | `program: {build: "make CC={cc}"}` |
| `A: no`, `A: on` | a truth value | `A: "no"` |
| `A: 5` where text is wanted | a number | `A: "5"` |
| `seed: 010` | 8 to some, 10 to others; refused | `seed: 10` |
| `in: *.c` | an alias | `in: "*.c"` |
| `stdin:` with nothing behind it | no value; refused | leave the key out |
| a tab as indentation | an error | spaces |

Keys that occur twice, keys that are not text, tags (`!x`), merge keys (`<<`) and several documents in a file are refused. Anchors and aliases
are allowed. A file has at most 1 MiB.
"""


def spec_markdown() -> str:
    """Return the reference of the spec, as Markdown."""
    schema = json_schema()
    parts = [_INTRODUCTION, _code(SMALL_EXAMPLE), "Every key at once, but for those of a sweep:\n", _code(FULL_EXAMPLE)]
    parts += ["[A sweep](sweep.md) over parameters of the program:\n", _code(SWEEP_EXAMPLE)]
    parts += [_mapping(schema, path) for path in MAPPINGS]
    parts += [_placeholders(), _quantities(), _os_metrics(), _RULES, _YAML]
    return "\n".join(parts)


def _code(text: str) -> str:
    return f"```yaml\n{text}```\n"


def _mapping(schema: dict[str, Any], path: tuple[str, ...]) -> str:
    """Return the section on one mapping: its keys, what each holds, its default and its meaning."""
    definition = schema if not path else schema["$defs"][MAPPINGS[path].__name__]
    where = ".".join("NAME" if part == "*" else part for part in path)
    lines = [f"## `{where}`" if path else "## Sections", "", definition["description"], ""]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    required = definition.get("required", [])
    for key, field in definition["properties"].items():
        default = "**required**" if key in required else f"`{_yaml(field['default'])}`" if "default" in field else "–"
        lines.append(f"| `{key}` | {_form(field)} | {default} | {_meaning(path, key, field)} |")
    return "\n".join([*lines, ""])


def _meaning(path: tuple[str, ...], key: str, field: dict[str, Any]) -> str:
    reason = REASONS.get((*path, key))
    examples = " or ".join(f"`{key}: {_yaml(example)}`" for example in field.get("examples", [])[:2])
    parts = [
        field["description"],
        f"Why these bounds: {reason}." if reason else "",
        f"Example: {examples}." if examples else "",
    ]
    return " ".join(filter(None, parts)).replace("|", r"\|")


def _form(field: Mapping[str, Any]) -> str:
    """Say in a few words what a value looks like."""
    return next(show(field) for key, show in _FORMS.items() if key in field)


def _one_of(choices: list[Mapping[str, Any]]) -> str:
    return " or ".join(dict.fromkeys(map(_form, choices)))


def _enumerated(choices: list[str]) -> str:
    return ", ".join(f"`{choice}`" for choice in choices) if len(choices) <= 5 else "name of a known metric"


def _number(field: Mapping[str, Any]) -> str:
    kind = {"integer": "whole number", "number": "number"}[field["type"]]
    if "minimum" in field and "maximum" in field:
        return f"{kind} from {field['minimum']:,} to {field['maximum']:,}"
    if not {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} & set(field):
        return kind
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[key]:,}" for key, sign in signs.items() if abs(field.get(key, 2**53)) < 2**53]
    return f"{kind} {' and '.join(bounds)}"


def _text(field: Mapping[str, Any]) -> str:
    forms = {DURATION_PATTERN: "duration", SIZE_PATTERN: "size", CACHE_PATTERN: "cache"}
    numbers = {"integer": "whole number", "number": "number"}
    either = " or ".join(
        ["text", *(numbers[kind] for kind in field["type"] if kind in numbers)] if isinstance(field["type"], list) else ["text"]
    )
    return forms.get(field.get("pattern", ""), either)


_TYPES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "array": lambda field: f"list of {_form(field['items'])}",
    "object": lambda field: f"mapping of names to: {_one_of(list(field['patternProperties'].values()))}",
    "integer": _number,
    "number": _number,
    "boolean": lambda _field: "`true` or `false`",
    "string": _text,
}
_FORMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "$ref": lambda _field: "mapping, see below",
    "oneOf": lambda field: _one_of(field["oneOf"]),
    "anyOf": lambda field: _one_of(field["anyOf"]),
    "const": lambda field: f"`{field['const']}`",
    "enum": lambda field: _enumerated(field["enum"]),
    "type": lambda field: _text(field) if isinstance(field["type"], list) else _TYPES[field["type"]](field),
}
"""How each kind of JSON Schema is put into words; the first key that a schema has counts."""


def _yaml(value: object) -> str:
    """Return a value in YAML's flow form, quoted only where YAML needs it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.startswith(("{", "*", "[")) or ": " in value else value
    return json.dumps(value)


def _placeholders() -> str:
    lines = ["## Placeholders", "", "| placeholder | stands for | in |", "|---|---|---|"]
    for name, placeholder in PLACEHOLDERS.items():
        fields = ", ".join(f"`{field}`" for field in sorted(placeholder.fields))
        lines.append(f"| `{{{name}}}` | {placeholder.meaning} | {fields} |")
    fields = ", ".join(f"`{field}`" for field in sorted(OF_PARAMETERS.fields))
    lines.append(f"| `{{{PARAMETER}NAME}}` | {OF_PARAMETERS.meaning} | {fields} |")
    return "\n".join(
        [
            *lines,
            "",
            "`{{name}}` stands for the text `{name}`, and `${NAME}` is left to the shell. In `environment`, values may hold placeholders.",
            "A command is split into words before its placeholders are replaced: a path with spaces stays one word (without `shell: true`).",
            "",
        ]
    )


def _quantities() -> str:
    durations = ", ".join(f"`{unit}`" for unit in DURATION_UNITS)
    sizes = ", ".join(f"`{unit}`" for unit in SIZE_UNITS)
    return "\n".join(
        [
            "## Quantities",
            "",
            "A quantity is a number and its unit; a bare number is refused.",
            "",
            f"- Durations: {durations}, as in `10 ms`, `1.5 s`, `2 min`.",
            f"- Sizes: {sizes}, as in `32 KiB`.",
            "- Caches: `32 KiB 8-way 64 B` (size, ways, line), or a mapping with these three keys. The number of sets, "
            "size / ways / line, is a power of two; a line has 32 B at least.",
            "",
        ]
    )


def _os_metrics() -> str:
    lines = ["## Operating-system metrics", "", "| metric | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in OS_METRICS.items()]
    return "\n".join(
        [
            *lines,
            "",
            "Hardware metrics: PAPI presets as `papi_avail` lists them, `perf::…` for the kernel's own events, `callgrind::…` for simulated ones.",
            "",
        ]
    )
