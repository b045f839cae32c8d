"""Regression of each variable on its parents: forms, their description length, and the search for the shortest."""
