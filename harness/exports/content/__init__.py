"""Exported content of a campaign: its runs in one column layout, aligned if wanted, with phases as slices of time."""
