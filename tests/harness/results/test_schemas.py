"""The published JSON Schemas describe what is written, and carry the version that the files do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.analysis.report.partition.partitions import make_plan
from tests.analysis.report.synthetic import make_content
from tests.harness.results.schema_faults import schema_faults
from unperturbed.analysis.report import to_json
from unperturbed.harness.results import result_schema
from unperturbed.harness.spec.validation import json_schema

SCHEMAS: dict[str, dict[str, Any]] = {
    "spec": json_schema(),
    "verdicts": result_schema("verdicts"),
    "plan": result_schema("plan"),
}


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    data = {"verdicts": to_json(make_content(baseline_runs=6, runs=4)), "plan": make_plan().to_json()}
    return {name: json.loads(json.dumps(found, allow_nan=False)) for name, found in data.items()}


@pytest.mark.parametrize("name", ["verdicts", "plan"])
def test_every_key_that_is_written_is_described(name: str, written: dict[str, Any]) -> None:
    assert schema_faults(name, written[name]) == []


def test_a_key_that_is_missing_or_not_described_is_found(written: dict[str, Any]) -> None:
    data = json.loads(json.dumps(written["verdicts"]))
    data["verdicts"][0]["surprise"] = 1
    del data["runs"][0]["host"]
    assert sorted(schema_faults("verdicts", data)) == [
        "$.runs[0]: 'host' is a required property",
        "$.verdicts[0]: Additional properties are not allowed ('surprise' was unexpected)",
    ]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_and_file_carry_one_version(name: str, written: dict[str, Any]) -> None:
    schema = SCHEMAS[name]
    version = schema["properties"]["schema_version"]["const"]
    assert schema["$id"] == f"urn:unperturbed:schema:{name}:{version}"
    assert name == "spec" or written[name]["schema_version"] == version


@pytest.mark.parametrize("name", ["verdicts", "plan"])
def test_every_field_has_a_description(name: str) -> None:
    for definition in (SCHEMAS[name], *SCHEMAS[name]["$defs"].values()):
        assert definition["description"]
        for key, field in definition["properties"].items():
            assert field.get("description", "").endswith("."), key


@pytest.mark.parametrize(("words", "name"), [((), "spec"), (("plan",), "plan")])
def test_the_command_prints_a_schema(words: tuple[str, ...], name: str) -> None:
    command = [sys.executable, "-m", "unperturbed.harness.cli", "schema", *words]
    assert json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == SCHEMAS[name]
