"""The JSON Schema agrees with the loader, and the reference for users with both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.spec.examples import ATTACH_EXAMPLE, SERVICE_EXAMPLE, SMALL_EXAMPLE, SWEEP_EXAMPLE, full_example
from tests.harness.spec.json_schema_check import accepts
from unperturbed.collectors.sources.catalogue import OS_METRICS, PRESETS
from unperturbed.harness.spec.docs import spec_markdown
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.quantities import DURATION_PATTERN
from unperturbed.harness.spec.validation import definition_at, json_schema, mappings
from unperturbed.harness.spec.yaml import InvalidSpec, read_yaml
from unperturbed.instrument.events import event_keys

_ROOT = Path(__file__).parents[3]
_SCHEMA = json_schema()
_CROSS_FIELD = {
    "metrics that cannot be seen together",
    "passes of other metrics",
    "counts within functions, and what they cannot be with",
    "counts within functions in a sweep",
    "metrics of a function that are not what they count",
    "threads one by one with what counts them together",
    "threads one by one in a sweep",
    "threads one by one, multiplexed",
    "events of a Java virtual machine beside compiled-in ones, with the sampler inside",
    "events of a Java virtual machine with settings that it cannot have",
    "doses that show no response",
    "doses of runs without their warm-up",
    "families without one build",
    "families without subsets",
    "nodes: fewer runs than each node needs",
    "nodes: a stage for nothing",
    "counters of the simulated machine that cannot be",
    "multiplexed counts beside passes without any, and a subset of their name",
    "turns on simulated counters by a clock without quanta",
    "what only sweeps have without one",
    "a digest where any result is right",
    "attach: two targets and no duration",
    "attach: keys of a program that is started here",
    "attach: what cannot be counted in it",
    "attach: no simulation",
    "attach: programs without a tool",
    "a tool without attach",
    "keys of a service without a load",
    "a service whose address has no port",
    "a service whose address has an unknown scheme",
    "a service with an unknown signal",
    "a service's load that does not exist",
    "a service's load that needs a shell",
    "a service with what has no effect",
    "a service with a port where there is none",
    "no metric for the baseline",
    "a software metric that no subset holds",
    "a derived metric over two subsets",
    "a derived metric that uses itself",
    "an anchor without software metrics",
    "an anchor that is not a software metric",
    "an interval that is too short",
    "counts of what no metric counts",
    "counts of a metric that is not listed",
    "too few counts for an interval",
    "a part of a count",
    "counts of time",
    "counts where counts are simulated",
    "settings that counts leave no meaning",
    "events of what is not defined",
    "events of a hardware metric",
    "events without any software metric",
    "events that are not compiled in",
    "events of a variable",
    "events that add amounts",
    "settings that events leave no meaning",
    "events from outside",
    "an interval longer than a run",
    "an interval longer than the default timeout",
    "caches that cannot be",
    "a file where a folder is wanted",
    "build without a source",
    "a program that is not there",
    "a program beside the spec that is not there",
    "software metrics with nothing compiled",
    "layouts of a program that is not built here",
    "layouts of a program that another compiler links",
    "LD_PRELOAD with nothing compiled",
    "the build folder of nothing",
    "software metrics without the instrumenting compiler",
    "a relative program, a pipe, inputs that nothing makes",
    "standard input that is not among the inputs",
    "a command that names nothing",
    "settings of one sampler with the other",
    "what turns and work cannot go with",
    "an anchor that is a gauge",
    "a shell between the sampler and what it counts",
    "parameters that are unused, unknown, or in the wrong place",
    "a sweep with what only campaigns have",
    "draws without a number of points",
    "draws without a number of points or a section for it",
    "too many combinations",
    "a sweep over nothing",
    "a program that is another at each point",
}
"""Cases of the table of faults that no schema can find: names, files and quantities that must fit together."""


@pytest.fixture
def schema() -> dict[str, Any]:
    return _SCHEMA


def _readable_faults() -> list[tuple[str, Any]]:
    cases = []
    for block in Path(__file__).with_name("faults.txt").read_text().removeprefix("##### ").split("\n##### "):
        title, _, rest = block.partition("\n")
        try:
            document = read_yaml(rest.partition("-----\n")[0], "spec.yaml")
        except InvalidSpec:
            continue
        if not document.diagnostics:
            cases.append((title, document.data))
    return cases


_READABLE_FAULTS = _readable_faults()


@pytest.mark.parametrize(("title", "data"), _READABLE_FAULTS, ids=[title for title, _ in _READABLE_FAULTS])
def test_the_schema_refuses_what_the_loader_refuses(title: str, data: object, schema: dict[str, Any]) -> None:
    assert accepts(schema, data) == (title in _CROSS_FIELD)


@pytest.mark.parametrize(
    "text",
    [
        SMALL_EXAMPLE,
        full_example(),
        SWEEP_EXAMPLE,
        SERVICE_EXAMPLE,
        ATTACH_EXAMPLE,
        *(p.read_text() for p in sorted(_ROOT.glob("experiments/quickstart/*.yaml"))),
    ],
)
def test_the_schema_accepts_good_specs(text: str, schema: dict[str, Any]) -> None:
    assert accepts(schema, yaml.safe_load(text))


@pytest.mark.parametrize("text", [SMALL_EXAMPLE, full_example(), SWEEP_EXAMPLE, SERVICE_EXAMPLE, ATTACH_EXAMPLE])
def test_the_examples_of_the_reference_are_good(text: str, tmp_path: Path) -> None:
    (tmp_path / "blocksort").mkdir()
    (tmp_path / "words.txt").touch()
    assert parse_spec(text, "spec.yaml", tmp_path).name in text


def test_the_full_example_has_every_key(schema: dict[str, Any]) -> None:
    data = yaml.safe_load(full_example())
    for section in ("program", "measure", "campaign", "analysis"):
        definition = definition_at((section,))
        of_sweeps = {"points", "repetitions", "native_runs"}
        of_services = {"ready", "ready_timeout", "load", "duration", "stop"}
        assert set(definition["properties"]) - set(data[section]) <= {
            "debian",
            "output_digest",
            "observer_cpu",
            "sampled",
            "at_most",
            "families",
            "doses",
            "multiplexed",
            "passes",
            *of_sweeps,
            *of_services,
            "attach",
        }
    sweep = yaml.safe_load(SWEEP_EXAMPLE)
    assert of_sweeps <= set(sweep["campaign"])
    assert of_services <= set(yaml.safe_load(SERVICE_EXAMPLE)["program"])
    ways = {key for values in sweep["parameters"].values() if isinstance(values, dict) for key in values}
    assert set(schema["$defs"]["ParameterFields"]["properties"]) - ways == {"uniform"}


def test_the_schema_is_plain_json_with_a_description_of_every_field(schema: dict[str, Any]) -> None:
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for definition in (schema, *schema["$defs"].values()):
        assert definition["description"]
        assert definition["additionalProperties"] is False
        for name, field in definition["properties"].items():
            assert field["description"].endswith("."), name
            assert "null" not in json.dumps(field), name
            assert "title" not in field, name


def test_defaults_and_examples_are_valid(schema: dict[str, Any]) -> None:
    checked = 0
    for definition in (schema, *schema["$defs"].values()):
        for name, field in definition["properties"].items():
            for value in [*field.get("examples", []), *([field["default"]] if "default" in field else [])]:
                assert accepts(field, value, schema), (name, value)
                checked += 1
    assert checked > 60


def test_known_metrics_can_be_completed(schema: dict[str, Any]) -> None:
    measure = schema["$defs"]["Measure"]["properties"]
    assert measure["os"]["items"]["enum"] == list(OS_METRICS)
    assert measure["hardware"]["items"]["anyOf"][0]["enum"] == list(PRESETS)


def test_every_kind_of_event_has_its_key(schema: dict[str, Any]) -> None:
    assert set(schema["$defs"]["EventFields"]["properties"]) == {
        *event_keys(),
        *("probe", "preload", "python", "jvm", "in", "file", "add", "threads", "of"),
    }


def test_every_definition_is_found_by_its_path(schema: dict[str, Any]) -> None:
    definitions = [definition for _, definition in mappings()]
    assert definitions[1:] == sorted(schema["$defs"].values(), key=definitions.index)
    found = dict(mappings())
    assert definition_at(("measure", "interval"), ["every", "of"])["required"] == ["every", "of"]  # of several forms
    assert definition_at(("measure", "interval"))["required"] == ["records"]
    assert definition_at(("measure", "software", "x")) is found["measure", "software", "*"]
    assert found["measure", "simulator", "*"]["description"].startswith("A cache")
    assert definition_at(("program", "environment")) is None
    assert definition_at(("program", "run")) is None


def test_reasons_for_bounds_are_in_the_schema(schema: dict[str, Any]) -> None:
    reasons = [
        field["$comment"] for _, one in mappings() for field in one["properties"].values() if "$comment" in field
    ]
    assert len(reasons) == 9
    assert not any(reason.endswith(".") for reason in reasons)


@given(st.from_regex(DURATION_PATTERN, fullmatch=True) | st.text("0123456789. msuhin", max_size=12))
def test_the_loader_accepts_no_interval_that_the_schema_refuses(text: str) -> None:
    spec = f"name: x\nprogram:\n  run: sh\nmeasure:\n  interval: {json.dumps(text)}\n  os: [minor_faults]\n"
    try:
        parse_spec(spec, "spec.yaml", _ROOT)
    except InvalidSpec as error:
        assert len(error.diagnostics) == 1
    else:
        assert accepts(_SCHEMA, yaml.safe_load(spec))


def test_the_reference_is_up_to_date() -> None:
    assert (_ROOT / "docs/reference/spec.md").read_text() == spec_markdown(), (
        "docs/reference/spec.md is stale; write it again: "
        "python -m unperturbed.harness.spec.docs > docs/reference/spec.md"
    )


def test_the_page_on_campaigns_names_what_may_change() -> None:
    listed = spec_markdown().partition("You can change the following keys")[2].partition("Any other change")[0]
    keys = {
        section: set(re.findall("`(\\w+)`", words)) for section, words in re.findall("under `(\\w+)`: (.*);", listed)
    }
    page = (_ROOT / "docs" / "explanation" / "campaign.md").read_text()
    named = set(re.findall("`(\\w+)`", page.partition("## What may I change in a spec?")[2].partition("\n## ")[0]))
    assert keys["analysis"] <= named
    assert keys["program"] <= named


def test_pages_and_messages_have_one_range_for_the_simulator() -> None:
    """It is that of docs/evidence/samplers.md."""
    files = [*(_ROOT / "docs").rglob("*.md"), *(_ROOT / "harness").rglob("*.py"), _ROOT / "README.md"]
    written = [file.read_text() for file in files if file.parent.name not in ("evidence", "gallery")]
    pattern = r"(\d+ to\s+\d+) times (?:as\s+long\s+as\s+(?:the\s+program|this)|slower)"
    ranges = [found for text in written for found in re.findall(pattern, text)]
    assert len(ranges) > 4
    assert set(ranges) == {"40 to 300"}


def test_the_reference_names_every_key(schema: dict[str, Any]) -> None:
    text = spec_markdown()
    for definition in (schema, *schema["$defs"].values()):
        for name in definition["properties"]:
            assert re.search(rf"^\| `{name}` \| \S.* \| .+ \| \S.+ \|$", text, re.MULTILINE), name
