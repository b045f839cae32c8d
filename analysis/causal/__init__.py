"""What causes what in a table of runs, and by which formula: causal performance models.

Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer programs". A row is a run (or the mean of some), a column a
parameter that was varied, a counter, a time, or a quantity derived from these.
"""

from unperturbed.analysis.causal.adjacency import Separation
from unperturbed.analysis.causal.curve_parameters import CurveParameters, curve_parameters
from unperturbed.analysis.causal.derivatives import PartialDerivative, partial_derivative
from unperturbed.analysis.causal.derived import Definitions, derive, logarithms, quoted, read_definitions, undefined_rows
from unperturbed.analysis.causal.equivalence import Equivalence
from unperturbed.analysis.causal.exporting import to_dot, to_graphml
from unperturbed.analysis.causal.expressions import Undefined, evaluate
from unperturbed.analysis.causal.knowledge import Knowledge
from unperturbed.analysis.causal.learning import learn
from unperturbed.analysis.causal.markov import Claim, MarkovCheck, ScreeningOff
from unperturbed.analysis.causal.model import CausalModel, Edge
from unperturbed.analysis.causal.prediction import Forecast, ForecastVariable
from unperturbed.analysis.causal.regression import Cell, CurveMechanism, Mechanism, Parameter, TableMechanism, fit_mechanism
from unperturbed.analysis.causal.step_table import StepTable, step_table
from unperturbed.analysis.causal.variables import Category, Data, Exclusion, Kind, Variable, prepare

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
    "Kind",
    "Knowledge",
    "MarkovCheck",
    "Mechanism",
    "Parameter",
    "PartialDerivative",
    "ScreeningOff",
    "Separation",
    "StepTable",
    "TableMechanism",
    "Undefined",
    "Variable",
    "curve_parameters",
    "derive",
    "evaluate",
    "fit_mechanism",
    "learn",
    "logarithms",
    "partial_derivative",
    "prepare",
    "quoted",
    "read_definitions",
    "step_table",
    "to_dot",
    "to_graphml",
    "undefined_rows",
]
