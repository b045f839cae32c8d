"""Mechanisms of continuous variables: curves, and the search for the one of least description length."""
