"""What the papers' experiments share: running a campaign and filling a page, claims, tables and figures.

Experiments are run from the root of the checkout, as in `python -m experiments.causal.evaluate`, and import each other
and this package by their full names: `from experiments.common.tables import markdown_table`.
"""
