"""Analyses of traces, logs and tables: perturbation, alignment, partition, diagnosis, phases, causal models."""
