"""Readers of event logs, one module a format."""
