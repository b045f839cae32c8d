"""Formats of event logs: one module with one record each, found by themselves (see `reading.format`)."""
