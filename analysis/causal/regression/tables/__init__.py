"""Mechanisms of discrete variables: probability tables."""
