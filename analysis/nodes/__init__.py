"""Verdicts over nodes: of these nodes, of their type, and which node or verdict depends on one of them."""

from unperturbed.analysis.nodes.apart import apart
from unperturbed.analysis.nodes.combine import FEWEST_FOR_TYPE, Combined, combine_nodes
from unperturbed.analysis.nodes.verdicts import NodeVerdicts

__all__ = ["FEWEST_FOR_TYPE", "Combined", "NodeVerdicts", "apart", "combine_nodes"]
