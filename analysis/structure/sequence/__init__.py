"""Structural sequences: a run as the classes of its elements without repetitions, and any symbols as numbers."""
