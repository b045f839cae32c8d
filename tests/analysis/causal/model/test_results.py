"""Every public result of a causal analysis can be summarised, tabulated, stored and opened as a page."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.analysis.causal.lu_campaign import SEVEN, draw, knowledge
from unperturbed.analysis.causal import CausalModel, curve_parameters, learn, partial_derivative, prepare, step_table
from unperturbed.common.result import Result


@pytest.fixture(scope="module")
def model() -> CausalModel:
    return learn(draw(0, 200).select(SEVEN), knowledge(SEVEN), test="regression", subsamples=0)


@pytest.fixture(params=["model", "markov", "screening", "forecast", "mechanism", "curves", "derivative", "steps"])
def result(request: pytest.FixtureRequest, model: CausalModel) -> Result:
    match request.param:
        case "model":
            return model
        case "markov":
            return model.check_markov(permutations=2)
        case "screening":
            return model.screens_off(["n"], [SEVEN[-1]], by=[SEVEN[3]])
        case "forecast":
            return model.intervene(n=100)
        case "mechanism":
            return model.mechanisms["instr"]
    frame = draw(0, 300)
    parameters = ["datatype", "optimisation"]
    if request.param == "derivative":
        return partial_derivative(frame, "instr", "optimisation", parameters=parameters)
    if request.param == "steps":
        return step_table(frame, {"gain": "instr"}, "optimisation", parameters=parameters)
    return curve_parameters(prepare(frame.select("n", "datatype", "L2M")), "L2M", "n", cells=["datatype"])


def test_a_result_answers_in_every_form(result: Result, tmp_path: Path) -> None:
    assert result.headline() in result.summary()
    assert repr(result).startswith(f"<{type(result).__name__}: ")
    assert isinstance(result.to_frame(), pl.DataFrame)
    assert result.to_frame().height
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert all(table.to_html() for table in result.tables())
    page = result.write_html(tmp_path / "page.html").read_text()
    assert "<table" in page
