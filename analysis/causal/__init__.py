"""Causal performance models: the causal graph of a table of runs, with a formula for each variable.

Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer programs". A row is a run (or the mean
of several runs); a column is an input parameter, a counter, a time, or a quantity derived from these.

Each subpackage uses only those before it: table, independence, regression, derived_tables, discovery, model; `learning`
uses all.
"""

from unperturbed.analysis.causal.derived_tables.curve_parameters import CurveParameters, curve_parameters
from unperturbed.analysis.causal.derived_tables.definitions import (
    Definitions,
    derive,
    logarithms,
    quoted,
    read_definitions,
    undefined_rows,
)
from unperturbed.analysis.causal.derived_tables.steps import (
    PartialDerivative,
    StepTable,
    partial_derivative,
    step_table,
)
from unperturbed.analysis.causal.discovery.adjacency import Separation
from unperturbed.analysis.causal.discovery.refinement import Equivalence
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest, independence_tests
from unperturbed.analysis.causal.independence.methods.paper import PaperTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.learning import learn
from unperturbed.analysis.causal.model.export import to_dot, to_gml, to_graphml
from unperturbed.analysis.causal.model.markov import Claim, MarkovCheck, ScreeningOff
from unperturbed.analysis.causal.model.prediction import Forecast, ForecastVariable, causal_order
from unperturbed.analysis.causal.model.result import CausalModel, Edge
from unperturbed.analysis.causal.regression.curve_mechanism import CurveMechanism
from unperturbed.analysis.causal.regression.fit import fit_mechanism
from unperturbed.analysis.causal.regression.mechanism import Mechanism, MechanismCell, Parameter
from unperturbed.analysis.causal.regression.table_mechanism import TableMechanism
from unperturbed.analysis.causal.table.knowledge import Knowledge
from unperturbed.analysis.causal.table.variables import (
    Category,
    Data,
    Exclusion,
    Kind,
    Variable,
    gaps,
    prepare,
)
from unperturbed.common.expressions.columns import Undefined, evaluate
from unperturbed.common.faces import lazy_names

__all__ = [
    "Category",
    "CausalModel",
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
    "IndependenceOutcome",
    "IndependenceTest",
    "Kind",
    "Knowledge",
    "MarkovCheck",
    "Mechanism",
    "MechanismCell",
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
    "evaluate",
    "fit_mechanism",
    "gaps",
    "independence_tests",
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

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.analysis.causal.independence.methods": "Outcome=IndependenceOutcome",
        "unperturbed.analysis.causal.regression.mechanism": "Cell=MechanismCell",
        "unperturbed.analysis.causal.model.export": "edge_width edge_style",
        "unperturbed.analysis.causal.table.variables": "is_text",
    },
)
