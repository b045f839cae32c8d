"""Phases of runs: `unperturbed structure`."""
