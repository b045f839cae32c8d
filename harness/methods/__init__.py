"""Analysis methods in the harness: the command of each, its terminal view, and its input and output files.

Nothing else in the harness refers to these folders: entry points of this package (pyproject.toml) load them.
"""
