"""Uses of campaigns beyond verdicts: sweeps over parameters, searches for a partition, and readiness checks."""
