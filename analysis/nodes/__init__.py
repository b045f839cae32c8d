"""Verdicts over nodes: on these nodes, on their type, and the nodes that a verdict depends on."""
