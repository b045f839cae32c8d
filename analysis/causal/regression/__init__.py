"""Regression of each variable on its parents: forms, their description lengths, and the search for the shortest one."""
