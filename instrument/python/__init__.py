"""Functions of Python programs: where they are, and the import hook that counts their entries."""
