"""Verdicts over nodes: of these nodes, of their type, and which node or verdict depends on one of them."""
