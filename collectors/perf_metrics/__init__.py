"""Metrics of perf's own tables: read from the installed perf, and their formulas in this tool's language."""

from __future__ import annotations

from unperturbed.collectors.perf_metrics.tables import PerfMetric, PerfTables, TableEvent, read_tables
from unperturbed.collectors.perf_metrics.translation import Translated, translate

__all__ = ["PerfMetric", "PerfTables", "TableEvent", "Translated", "read_tables", "translate"]
