"""Regression of each variable on its parents: forms, their description length, and the search for the shortest.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2.
"""
