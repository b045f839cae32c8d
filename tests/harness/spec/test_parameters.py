"""Parameters of a sweep as a spec writes them, and what tells two sweeps apart."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.spec.examples import SWEEP_EXAMPLE
from unperturbed.harness.program.process import program_command
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.sections.parameters import Between, Chosen, Listed
from unperturbed.harness.spec.text import find_placeholders, substitute
from unperturbed.harness.spec.yaml import InvalidSpec


def _parsed(values: Any, **design: Any) -> CampaignSpec:
    spec = {
        "name": "x",
        "parameters": {"n": values},
        "program": {"run": "sh -c true {parameters.n}"},
        "measure": {},
        **({"campaign": design} if design else {}),
    }
    return parse_spec(json.dumps(spec), "spec.yaml", Path())


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ([3, 1, 2], (3, 1, 2)),
        ([1, 2.5], (1, 2.5)),
        (["float", "long double"], ("float", "long double")),
        ({"from": 5, "to": 8}, (5, 6, 7, 8)),
        ({"from": 5, "to": 12, "step": 3}, (5, 8, 11)),
        ({"from": 5, "to": 5}, (5,)),
        ({"from": -1, "to": 1, "step": 1.0}, (-1.0, 0.0, 1.0)),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, (0.1, 0.2, 0.3, 0.4, 0.5)),
    ],
)
def test_lists_and_ranges(written: Any, values: tuple[Any, ...]) -> None:
    found = _parsed(written).parameters["n"]
    assert found == Listed(values)
    assert [type(value) for value in found.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("written", "draw"),
    [
        ({"uniform": [5, 300]}, Between(5, 300)),
        ({"uniform": [-0.5, 3]}, Between(-0.5, 3)),
        ({"log_uniform": [1, 1000]}, Between(1, 1000, logarithmic=True)),
        ({"choice": ["a", "b"]}, Chosen(("a", "b"))),
    ],
)
def test_draws(written: Any, draw: Any) -> None:
    assert _parsed(written, points=3).parameters["n"] == draw


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 9), st.sampled_from([1, 10, 1000]))
def test_a_range_has_the_decimal_fractions_that_were_meant(first: int, length: int, step: int, parts: int) -> None:
    written = {"from": first / parts, "to": (first + length) / parts, "step": step / parts}
    meant = [float(Decimal(first + step * number) / parts) for number in range(length // step + 1)]
    found = _parsed(written).parameters["n"]
    assert isinstance(found, Listed)
    assert list(found.values) == meant


def test_the_number_of_points_and_repetitions_makes_no_other_sweep_but_values_do() -> None:
    draw = {"uniform": [5, 300]}
    digest = _parsed(draw, points=3).digest
    assert _parsed(draw, points=9, repetitions=4).digest == digest
    assert _parsed(draw, points=3, seed=2).digest != digest
    assert _parsed({"uniform": [5, 301]}, points=3).digest != digest
    assert _parsed({"uniform": [5.0, 300]}, points=3).digest != digest
    assert _parsed({"log_uniform": [5, 300]}, points=3).digest != digest
    assert _parsed([1, 2]).digest == _parsed({"from": 1, "to": 2}).digest != _parsed([2, 1]).digest


def test_a_campaign_without_parameters_is_the_one_it_was() -> None:
    text = "name: minimal\nprogram:\n  run: sh -c true\nmeasure:\n  interval: 10 ms\n  os: [minor_faults]\n"
    # Of a version that knew no sweeps: campaigns of then go on.
    assert parse_spec(text, "s", Path()).digest == "27e36650dfd30fad8ddbaf99ced771f9b8528d05728ee9a9faeb30cf66270235"


def test_at_a_point_the_program_gets_its_values_each_as_one_word(tmp_path: Path) -> None:
    document = yaml.safe_load(SWEEP_EXAMPLE)
    (tmp_path / "blocksort").mkdir()
    spec = parse_spec(yaml.safe_dump(document), "s", tmp_path)
    here = spec.at_point({"items": 7, "seed": 1, "run_length": 0.25, "order": "up and {build} down"})
    command = program_command(here, scratch=tmp_path / "s", build=tmp_path / "b", inputs=tmp_path / "i")
    assert command.words == (f"{tmp_path}/b/blocksort", "--items", "7", "--order", "up and {build} down")
    assert (command.environment["SEED"], command.environment["RUN_LENGTH"]) == ("1", "0.25")
    assert spec.point == {}
    assert here.digest == spec.digest


def test_the_placeholder_of_a_parameter() -> None:
    text = "{parameters.n} {{parameters.n}} {parameters.} {other.n} {n}"
    assert find_placeholders(text) == ("parameters.n", "n")
    assert substitute(text, {"parameters.n": "5", "n": "6"}) == "5 {parameters.n} {parameters.} {other.n} 6"


@pytest.mark.parametrize("values", [[True, False], [[1]], [None], {"from": True, "to": 3}, {"uniform": ["1", "2"]}])
def test_values_that_are_none(values: Any) -> None:
    with pytest.raises(InvalidSpec):
        _parsed(values)


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf", "1.0e+400"])
@pytest.mark.parametrize(
    "written",
    [
        "[{}, 1]",
        "{{from: {}, to: 3}}",
        "{{from: 0, to: {}}}",
        "{{from: 0, to: 3, step: {}}}",
        "{{uniform: [{}, 3]}}",
        "{{log_uniform: [1, {}]}}",
        "{{choice: [1, {}]}}",
    ],
)
def test_numbers_that_are_not_finite_are_refused(written: str, number: str) -> None:
    values = written.format(number)
    text = f"name: x\nparameters: {{n: {values}}}\nprogram: {{run: 'sh {{parameters.n}}'}}\nmeasure: {{}}\n"
    with pytest.raises(InvalidSpec, match="expected a finite number"):
        parse_spec(text, "spec.yaml", Path())
