"""Helpers for every part, independent of all parts: wording, tables, caches, extensions."""
