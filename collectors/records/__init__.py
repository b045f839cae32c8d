"""Conversion of a run's record file to its trace."""
