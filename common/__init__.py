"""Helpers that every part may use and that use none of them: wording, tables, caches, extensions."""
