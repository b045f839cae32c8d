"""Dictionaries of phase words: search for the shortest description, the paper's own search, adequacy of the words."""
