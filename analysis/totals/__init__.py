"""Verdicts on totals: instructions, misses, time of whole runs, against a relative tolerance."""

from unperturbed.analysis.totals.verdict import TotalChange, check_totals

__all__ = ["TotalChange", "check_totals"]
