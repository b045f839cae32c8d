"""Analyses of traces, event logs and tables: perturbation, alignment, partition, diagnosis, phases, causal models."""
