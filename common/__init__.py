"""Helpers for all rooms, independent of every other: wording, tables, caches, extensions."""
