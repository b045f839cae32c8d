"""The search for the graph: adjacencies by independence tests, equivalent variables, edge directions."""

from unperturbed.analysis.causal.discovery.adjacency import Pair, Separation, find_adjacencies, pair_of
from unperturbed.analysis.causal.discovery.agreement import Agreed, Descriptions, agree
from unperturbed.analysis.causal.discovery.contradiction import Contradiction
from unperturbed.analysis.causal.discovery.equivalence import WORTH_A_PARENT, Bits, Equivalence, Relations
from unperturbed.analysis.causal.discovery.orientation import Orientation, extend, orient
from unperturbed.analysis.causal.discovery.refinement import Refined, refine

__all__ = [
    "WORTH_A_PARENT",
    "Agreed",
    "Bits",
    "Contradiction",
    "Descriptions",
    "Equivalence",
    "Orientation",
    "Pair",
    "Refined",
    "Relations",
    "Separation",
    "agree",
    "extend",
    "find_adjacencies",
    "orient",
    "pair_of",
    "refine",
]
