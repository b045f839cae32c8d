"""Campaigns with another end than verdicts: sweeps over parameters, searches for a partition, and readiness."""
