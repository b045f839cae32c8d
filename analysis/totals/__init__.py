"""Verdicts on totals of whole runs (instructions, misses, time), with a relative tolerance."""

from unperturbed.analysis.totals.verdict import TotalChange, check_totals

__all__ = ["TotalChange", "check_totals"]
