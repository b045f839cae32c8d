"""Experiment: what sharing a processor's counters costs, on a simulated processor beside the truth."""
