"""Tables computed from the table of runs: derived columns, partial derivatives, steps, parameters of curves."""

from unperturbed.analysis.causal.derived_tables.curve_parameters import CurveParameters, curve_parameters
from unperturbed.analysis.causal.derived_tables.definitions import (
    Definitions,
    derive,
    logarithms,
    quoted,
    read_definitions,
    undefined_rows,
)
from unperturbed.analysis.causal.derived_tables.derivatives import PartialDerivative, partial_derivative
from unperturbed.analysis.causal.derived_tables.step_table import StepTable, step_table

__all__ = [
    "CurveParameters",
    "Definitions",
    "PartialDerivative",
    "StepTable",
    "curve_parameters",
    "derive",
    "logarithms",
    "partial_derivative",
    "quoted",
    "read_definitions",
    "step_table",
    "undefined_rows",
]
