"""Metrics of perf's own tables: read from the installed perf, and their formulas in this tool's language."""
