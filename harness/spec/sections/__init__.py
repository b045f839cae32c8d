"""Sections of a spec, one module each: the model, rules that span several fields, and texts for the reference."""
