"""Exported content of a campaign: runs with the same columns, optionally aligned, with phases as slices of time."""
