"""Regression of each variable on its parents: forms, their description length, and the search for the shortest.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2.
"""

from unperturbed.analysis.causal.regression.curves.mechanism import CurveMechanism
from unperturbed.analysis.causal.regression.fit import fit_mechanism, is_counted
from unperturbed.analysis.causal.regression.mechanism import Cell, Columns, Mechanism
from unperturbed.analysis.causal.regression.parameters import Parameter
from unperturbed.analysis.causal.regression.tables.mechanism import TableMechanism

__all__ = [
    "Cell",
    "Columns",
    "CurveMechanism",
    "Mechanism",
    "Parameter",
    "TableMechanism",
    "fit_mechanism",
    "is_counted",
]
