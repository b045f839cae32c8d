"""The reference of the spec for its users, docs/reference/spec.md, from the JSON Schema and the words of the sections.

    python -m unperturbed.harness.spec.docs > docs/reference/spec.md

A test compares the two, so that the page cannot go stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from unperturbed.collectors.sources.catalogue import OS_METRICS
from unperturbed.harness.spec.campaign_spec import spec_keys, spec_model
from unperturbed.harness.spec.model import MAY_CHANGE, Section
from unperturbed.harness.spec.quantities import (
    CACHE_PATTERN,
    COUNT_PATTERN,
    DURATION_PATTERN,
    DURATION_UNITS,
    SIZE_PATTERN,
    SIZE_UNITS,
)
from unperturbed.harness.spec.text import OF_PARAMETERS, PARAMETER, PLACEHOLDERS
from unperturbed.harness.spec.validation import mappings

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
  native_runs: 3
  seed: 1
"""

_PAGE = """\
<!-- Made by unperturbed.harness.spec.docs from the models of the spec; change the descriptions there. -->

# The spec

A spec is one YAML file. It states what a campaign measures, of which program, how often, and how it is judged. Use this
page to look up a key. Paths in a spec are relative to its file. `unperturbed schema` prints its JSON Schema, with which
editors complete and check it.

The tool reports all faults of a spec at once, one line each: `file:line:column: message`.

The smallest useful spec:

```yaml
{small}```

A spec with every key, except those of a sweep:

```yaml
{full}```

[A sweep](../how-to/sweep.md) over parameters of the program:

```yaml
{sweep}```

{mappings}

## Placeholders

{placeholders}

`{{{{name}}}}` stands for the text `{{name}}`, and `${{NAME}}` is left to the shell. In `environment`, values may hold
placeholders. Without `shell: true`, a command is split into words before its placeholders are replaced, so a path with
spaces stays one word.

## Quantities

A quantity is a number and its unit; a bare number is refused.

- Durations: {durations}, as in `10 ms`, `1.5 s`, `2 min`.
- Sizes: {sizes}, as in `32 KiB`.
- Caches: `32 KiB 8-way 64 B` (size, ways, line), or a mapping with these three keys. The number of sets,
  size / ways / line, is a power of two; a line has 32 B at least.

## Operating-system metrics

{os_metrics}

Hardware metrics: PAPI presets as `papi_avail` lists them, `perf::…` for the kernel's own events, `callgrind::…` for
simulated ones.

## Rules that span several keys

{notes}

## When two specs are of one campaign

A campaign's folder belongs to one spec. Comments, the order of keys, units (`120 s`, `2 min`) and defaults that are
written out make no difference. You can change these keys, and the campaign continues with the runs that it has:

{may_change}

Any other change makes another campaign, which needs another folder.

{yaml}
## Keys of your own

A Python package adds a key at the top of the spec by an entry point, in its `pyproject.toml`:

```toml
[project.entry-points."unperturbed.spec_keys"]
power = "my_package.power:POWER"
```

```python
from pydantic import Field
from unperturbed.harness.spec import Section, SpecKey


class Power(Section):
    "Limits of the processor's power."

    watts: int = Field(le=400, description="Most watts that a run may take.", examples=[90])


POWER = SpecKey("power", Power, "Power limits.")
```

`load_spec(path).extensions["power"].watts` is its value. Faults have their line and column, and the JSON Schema has the
key, as for those above. `SpecKey(…, rules=check)` has `check(draft)` report faults that span several keys.
"""

_YAML = """\
## YAML, where it surprises

| written | is | so write |
|---|---|---|
| `run: {build}/x` | a mapping and stray text | `run: "{build}/x"` |
| `program: {build: make CC={cc}}` | an error: a brace ends the text | `program: {build: "make CC={cc}"}` |
| `A: no`, `A: on` | a truth value | `A: "no"` |
| `A: 5` where text is wanted | a number | `A: "5"` |
| `seed: 010` | 8 or 10, depending on the reader; refused | `seed: 10` |
| `in: *.c` | an alias | `in: "*.c"` |
| `stdin:` with nothing after it | no value; refused | leave the key out |
| a tab as indentation | an error | spaces |

Keys that occur twice, keys that are not text, tags (`!x`), merge keys (`<<`) and several documents in a file are
refused. Anchors and aliases are allowed. A file has at most 1 MiB.
"""


def full_example() -> str:
    """Return a spec with every key, but for those of a sweep."""
    return "".join(key.sample for key in spec_keys().values())


def spec_markdown() -> str:
    """Return the reference of the spec, as Markdown."""
    parameter = (f"`{{{PARAMETER}NAME}}`", OF_PARAMETERS.meaning, _code(sorted(OF_PARAMETERS.fields)))
    placeholders = [(f"`{{{name}}}`", one.meaning, _code(sorted(one.fields))) for name, one in PLACEHOLDERS.items()]
    return _PAGE.format(
        small=SMALL_EXAMPLE,
        full=full_example(),
        sweep=SWEEP_EXAMPLE,
        mappings="\n\n".join(_mapping(path, definition) for path, definition in mappings()),
        placeholders=_table("placeholder | stands for | in", [*placeholders, parameter]),
        durations=_code(DURATION_UNITS),
        sizes=_code(SIZE_UNITS),
        os_metrics=_table("metric | meaning", ((f"`{name}`", meaning) for name, meaning in OS_METRICS.items())),
        notes="".join(key.notes for key in spec_keys().values()).rstrip(),
        may_change="\n".join(_keys_that_may_change()),
        yaml=_YAML,
    )


def _keys_that_may_change() -> Iterator[str]:
    """Yield an item for each section with keys whose change a campaign survives, as `load` compares specs."""
    for section, field in spec_model().model_fields.items():
        for model in (field.annotation, *get_args(field.annotation)):
            if isinstance(model, type) and issubclass(model, Section):
                keys = [one.alias or name for name, one in model.model_fields.items() if MAY_CHANGE in one.metadata]
                if keys:
                    yield f"- under `{section}`: {_code(keys)};"
    yield "- `max_rate` of kernel probes."


def _mapping(path: tuple[str, ...], definition: Mapping[str, Any]) -> str:
    """Return the section on one mapping: its keys, what each holds, its default and its meaning."""
    where = ".".join("NAME" if part == "*" else part for part in path)
    rows = [
        (f"`{key}`", _form(field), _default(definition, key, field), _meaning(key, field))
        for key, field in definition["properties"].items()
    ]
    table = _table("key | value | default | meaning", rows)
    return f"## {f'`{where}`' if path else 'Sections'}\n\n{definition['description']}\n\n{table}"


def _default(definition: Mapping[str, Any], key: str, field: Mapping[str, Any]) -> str:
    if key in definition.get("required", []):
        return "**required**"
    return f"`{_yaml(field['default'])}`" if "default" in field else "–"


def _meaning(key: str, field: Mapping[str, Any]) -> str:
    reason = field.get("$comment")
    examples = " or ".join(f"`{key}: {_yaml(example)}`" for example in field.get("examples", [])[:2])
    parts = [
        field["description"],
        f"Why these bounds: {reason}." if reason else "",
        f"Example: {examples}." if examples else "",
    ]
    return " ".join(filter(None, parts))


def _form(field: Mapping[str, Any]) -> str:
    """Return in a few words what a value looks like."""
    match field:
        case {"oneOf": choices} | {"anyOf": choices}:
            form = " or ".join(dict.fromkeys(map(_form, choices)))
        case {"$ref": _}:
            form = "mapping, see below"
        case {"const": only}:
            form = f"`{only}`"
        case {"enum": names}:
            form = _code(names) if len(names) <= 5 else "name of a known metric"
        case {"type": "array"}:
            form = f"list of {_form(field['items'])}"
        case {"type": "object", "patternProperties": named}:
            form = f"mapping of names to: {_form({'oneOf': list(named.values())})}"
        case {"type": "object"}:
            form = "mapping"
        case {"type": "boolean"}:
            form = "`true` or `false`"
        case {"type": "integer" | "number"}:
            form = _number(field)
        case {"type": "string"}:
            forms = {
                DURATION_PATTERN: "duration",
                SIZE_PATTERN: "size",
                CACHE_PATTERN: "cache",
                COUNT_PATTERN: "number of counts",
            }
            form = forms.get(field.get("pattern", ""), "text")
        case _:
            form = " or ".join(_form({"type": kind}) for kind in field["type"])
    return form


def _number(field: Mapping[str, Any]) -> str:
    kind = {"integer": "whole number", "number": "number"}[field["type"]]
    if "minimum" in field and "maximum" in field:
        return f"{kind} from {field['minimum']:,} to {field['maximum']:,}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[key]:,}" for key, sign in signs.items() if abs(field.get(key, 2**53)) < 2**53]
    return f"{kind} {' and '.join(bounds)}".rstrip()


def _yaml(value: object) -> str:
    """Return a value in YAML's flow form, quoted only where YAML needs it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, str) and not value.startswith(("{", "*", "[")) and ": " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {heads} |", f"|{'---|' * len(heads.split('|'))}"]
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    lines += [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(spec_markdown())
