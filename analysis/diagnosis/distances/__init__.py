"""Distances between event traces: occurrence, dropping and temporal distance; abstraction of traces into blocks."""
