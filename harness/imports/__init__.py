"""Campaigns of runs that other tools recorded: their folder, on which everything works but running more."""
