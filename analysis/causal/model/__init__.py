"""The causal model: edges, checks, predictions, exports, and its wording."""

from unperturbed.analysis.causal.model.export import edge_style, edge_width, to_dot, to_gml, to_graphml
from unperturbed.analysis.causal.model.markov import Claim, MarkovCheck, ScreeningOff
from unperturbed.analysis.causal.model.prediction import Forecast, ForecastVariable, causal_order
from unperturbed.analysis.causal.model.result import CausalModel, Edge, Settings

__all__ = [
    "CausalModel",
    "Claim",
    "Edge",
    "Forecast",
    "ForecastVariable",
    "MarkovCheck",
    "ScreeningOff",
    "Settings",
    "causal_order",
    "edge_style",
    "edge_width",
    "to_dot",
    "to_gml",
    "to_graphml",
]
