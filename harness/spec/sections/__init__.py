"""Sections of a spec, a module each: its model, its rules that span fields, and its words for the reference."""
