"""The input of a causal model (tables, prior knowledge, options) and the questions that are put to it."""

from unperturbed.harness.model.checks import Checks, check, checks_json, read_independence, read_screening
from unperturbed.harness.model.forecast import InterventionForecast, forecast, forecast_json
from unperturbed.harness.model.knowledge import PriorKnowledge, parse_options, read_knowledge
from unperturbed.harness.model.option_syntax import named_values
from unperturbed.harness.model.table import ModelInput, prepare_table

__all__ = [
    "Checks",
    "InterventionForecast",
    "ModelInput",
    "PriorKnowledge",
    "check",
    "checks_json",
    "forecast",
    "forecast_json",
    "named_values",
    "parse_options",
    "prepare_table",
    "read_independence",
    "read_knowledge",
    "read_screening",
]
