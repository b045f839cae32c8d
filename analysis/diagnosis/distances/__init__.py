"""Distances between event traces: occurrence, dropping and temporal distance, and traces abstracted into blocks."""
