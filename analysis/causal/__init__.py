"""Causal performance models: the causal graph of a table of runs, with a formula for each variable.

Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer programs". A row is a run (or the mean
of several), a column a parameter that was varied, a counter, a time, or a quantity derived from these.

Each room uses only those before it: table, independence, regression, derived_tables, discovery, model; `learning` uses
all.
"""

from unperturbed.analysis.causal.derived_tables import (
    CurveParameters,
    Definitions,
    PartialDerivative,
    StepTable,
    curve_parameters,
    derive,
    logarithms,
    partial_derivative,
    quoted,
    read_definitions,
    step_table,
    undefined_rows,
)
from unperturbed.analysis.causal.discovery import Equivalence, Separation
from unperturbed.analysis.causal.independence import (
    IndependenceTest,
    Outcome,
    PaperTest,
    RegressionTest,
    independence_tests,
)
from unperturbed.analysis.causal.learning import learn
from unperturbed.analysis.causal.model import (
    CausalModel,
    Claim,
    Edge,
    Forecast,
    ForecastVariable,
    MarkovCheck,
    ScreeningOff,
    causal_order,
    edge_style,
    edge_width,
    to_dot,
    to_gml,
    to_graphml,
)
from unperturbed.analysis.causal.regression import (
    Cell,
    CurveMechanism,
    Mechanism,
    Parameter,
    TableMechanism,
    fit_mechanism,
)
from unperturbed.analysis.causal.table import (
    Category,
    Data,
    Exclusion,
    Kind,
    Knowledge,
    Variable,
    gaps,
    is_text,
    prepare,
)
from unperturbed.common.expressions import Undefined, evaluate

__all__ = [
    "Category",
    "CausalModel",
    "Cell",
    "Claim",
    "CurveMechanism",
    "CurveParameters",
    "Data",
    "Definitions",
    "Edge",
    "Equivalence",
    "Exclusion",
    "Forecast",
    "ForecastVariable",
    "IndependenceTest",
    "Kind",
    "Knowledge",
    "MarkovCheck",
    "Mechanism",
    "Outcome",
    "PaperTest",
    "Parameter",
    "PartialDerivative",
    "RegressionTest",
    "ScreeningOff",
    "Separation",
    "StepTable",
    "TableMechanism",
    "Undefined",
    "Variable",
    "causal_order",
    "curve_parameters",
    "derive",
    "edge_style",
    "edge_width",
    "evaluate",
    "fit_mechanism",
    "gaps",
    "independence_tests",
    "is_text",
    "learn",
    "logarithms",
    "partial_derivative",
    "prepare",
    "quoted",
    "read_definitions",
    "step_table",
    "to_dot",
    "to_gml",
    "to_graphml",
    "undefined_rows",
]
