"""Tests of conditional independence on tables of discrete and continuous variables.

Lemeire et al., "Causal analysis for performance modeling of computer programs", sections 6.1 and 7.1. A further test is
one class in a module of `methods`, or in another distribution.
"""
