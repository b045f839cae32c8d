"""A program run over its parameters, and the table of its runs."""
