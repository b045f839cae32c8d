"""Decompositions: a sequence cut into segments that are as near as possible to the words of a dictionary."""
