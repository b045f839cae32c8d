"""Tables computed from the table of runs: derived columns, partial derivatives, steps, parameters of curves."""
